/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forked children.
 *
 * fork() copies all memory and one thread. Other threads leave their work half done in the child.
 * So a child has an epoch of its own, which tells three things there:
 *
 * - a lock held at the fork is held by no thread of the child: kv_lock() takes it (kv/lock.h);
 * - an object that was made before the fork may be half changed: calls on it are refused, see
 *   kv_inherited() in kv/mem.h;
 * - a list of the library's own may be, too, and is begun anew: kv_fork_passed().
 *
 * Objects that are asked without a lock are on a list besides: when a child gets its epoch each is
 * told, and closes itself.
 *
 * The epoch is alone on a page that the kernel clears in each child, so a child knows that it is
 * one from its first instruction on, in fork handlers that run before ours, too. Its first call
 * comes by kv_fork_look() and begins the next epoch, because it takes a lock, allocates, or is made
 * by a thread without a row: a thread that forks has none from our first handler to our last.
 */
#ifndef KV_FORK_H
#define KV_FORK_H

#include <kv/atomic.h>
#include <kv/types.h>

/* Pages are not larger than that, or the kernel refuses to clear it. */
#if defined(__x86_64__) || defined(__i386__)
#define KV_EPOCH_PAGE	4096
#else
#define KV_EPOCH_PAGE	65536
#endif

extern struct kv_epoch_page {
	u32 epoch;	/* 1 in the first process, one more in each child; 0: child not numbered */
	u32 begun;	/* atomic; 1: a thread gives it one */
} __attribute__((aligned(KV_EPOCH_PAGE))) kv_epoch_page;

#define kv_epoch	kv_epoch_page.epoch

void __kv_fork_begin(void);

/* From here on the epoch is that of this process, and objects of its parent are closed. */
static __always_inline void kv_fork_look(void)
{
	/* Acquire pairs with begin(): a thread that sees the epoch sees objects closed. */
	if (unlikely(!smp_load_acquire(&kv_epoch)))
		__kv_fork_begin();
}

/* True once in a process, for the act that *@epoch stands for; a lock guards it. */
static inline bool kv_fork_passed(u32 *epoch)
{
	bool passed = *epoch != READ_ONCE(kv_epoch);

	*epoch = READ_ONCE(kv_epoch);
	return passed;
}

/**
 * struct kv_fork_node - an object that closes itself in children
 * @next: the list's; a child follows it, even if a thread was changing the list at the fork
 * @prev: the list's; guarded by its lock
 * @in_child: it may neither allocate nor free, nor take a lock; fixed while on the list
 */
struct kv_fork_node {
	struct kv_fork_node	*next;
	struct kv_fork_node	**prev;
	void			(*in_child)(struct kv_fork_node *node);
};

/*
 * Locks of KV_RANK_CONFIG with an id below the list's may be held. A node that is not on the list,
 * and zero, may be taken off it.
 */
void kv_fork_add(struct kv_fork_node *node, void (*in_child)(struct kv_fork_node *node));
void kv_fork_del(struct kv_fork_node *node);

/* Ask the kernel to clear the page in children. A test may ask again, of another table. */
void kv_fork_wipe(void);

#endif /* KV_FORK_H */
