/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has to know that this process is a forked child.
 *
 * fork() copies all memory and one thread. What other threads were in the middle of stays there for
 * ever in the child, and so do the locks that they held. Objects with locks of their own are on a
 * list: in the child, before anything else of it runs, each is told, and closes itself.
 */
#ifndef KV_FORK_H
#define KV_FORK_H

#include <kv/types.h>

/**
 * struct kv_fork_node - an object that closes itself in children
 * @next, @prev: the list's; guarded by its lock
 * @in_child: there are no other threads, and locks of the object may be made anew; it may neither
 *	allocate nor free; fixed while on the list
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

/* For lib/rcu.c, which has the handlers: locks the list, unlocks it, and tells all in the child. */
void kv_fork_before(void);
void kv_fork_after(bool is_child);

#endif /* KV_FORK_H */
