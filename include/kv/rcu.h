/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read-copy-update behind our own words, so that a simulator can put another flavour in place
 * and ThreadSanitizer sees the edges that Debian's liburcu 0.13 does not show it.
 *
 * Flavour bp: readers need not register, which callers of a library never do. Frees are deferred
 * to a list that the next caller who may wait drains: no thread of ours runs in the background.
 */
#ifndef KV_RCU_H
#define KV_RCU_H

#include <kv/types.h>

struct kv_rcu_head {
	struct kv_rcu_head *next;		/* limbo list, under its lock */
	void (*free)(struct kv_rcu_head *head);	/* set by kv_rcu_defer() */
};

void kv_rcu_read_lock(void);
void kv_rcu_read_unlock(void);

/* Publish: everything written before is visible to who gets @v by kv_rcu_dereference(). */
#define kv_rcu_assign(p, v)	__atomic_store_n(&(p), (v), __ATOMIC_RELEASE)
/* Pairs with kv_rcu_assign(); inside a read section. Acquire rather than consume: free on x86. */
#define kv_rcu_dereference(p)	__atomic_load_n(&(p), __ATOMIC_ACQUIRE)

/* Call @free on @head after a grace period. Never waits, never allocates; any lock may be held. */
void kv_rcu_defer(struct kv_rcu_head *head, void (*free)(struct kv_rcu_head *head));

/* Drain the list if it is long. May wait for a grace period: no lock held, no read section. */
void kv_rcu_reap(void);

/*
 * Wait until every read section that has begun by now has ended. The caller is in none, and holds no
 * lock that one may wait for.
 */
void kv_rcu_synchronize(void);

/* Wait until everything deferred so far has been freed. Same context. */
void kv_rcu_barrier(void);

#endif /* KV_RCU_H */
