/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forked children.
 *
 * fork() copies all memory and one thread. Other threads leave what they were in the middle of half
 * done in the child. So a child has an epoch of its own, which tells three things there:
 *
 * - a lock that was held at the fork is held by no thread of the child: kv_lock() takes it (kv/lock.h);
 * - an object that was made before the fork may be half changed: calls on it are refused, see
 *   kv_inherited() in kv/mem.h;
 * - a list of the library's own may be, too, and is begun anew: kv_fork_passed().
 *
 * Objects that are asked without a lock are on a list besides: in the child, before anything else of it
 * runs, each is told, and closes itself.
 */
#ifndef KV_FORK_H
#define KV_FORK_H

#include <kv/atomic.h>
#include <kv/types.h>

/* 1 in the first process, one more in each child. Written in a child before anything else runs there. */
extern u32 kv_epoch;

/* True once in a process, for what *@epoch stands for; a lock guards it. */
static inline bool kv_fork_passed(u32 *epoch)
{
	bool passed = *epoch != READ_ONCE(kv_epoch);

	*epoch = READ_ONCE(kv_epoch);
	return passed;
}

/**
 * struct kv_fork_node - an object that closes itself in children
 * @next, @prev: the list's; guarded by its lock
 * @in_child: there are no other threads; it may neither allocate nor free; fixed while on the list
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

#endif /* KV_FORK_H */
