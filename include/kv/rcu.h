/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read-copy-update: readers neither wait nor register, which callers of a library never do. Frees
 * are deferred to a list that the next caller which may wait drains: no thread of ours runs in the
 * background.
 *
 * Each thread numbers its read sections in its row of event counters (kv/stat.h): 16 bits of
 * nesting, the number above them. A grace period ends when each section that was seen open has
 * changed its number. Of the fences of reader and updater one is kv_fence_all(), as for magazines:
 *
 *	reader					kv_rcu_synchronize()
 *
 *	section + 1, nested once		the object is not to be found any more
 *	kv_fence_light()			kv_fence_all()
 *	p = kv_rcu_dereference()		section open? (acquire) wait until it is not
 *	... *p ...				free
 *	not nested (release)
 *
 * Either the updater sees the section, or the reader does not find the object.
 *
 * liburcu does the same, but its state is the process's: its fork handlers have to be bracketed
 * exactly once, which a library cannot know of an engine, nor of a second copy of itself.
 */
#ifndef KV_RCU_H
#define KV_RCU_H

#include <kv/stat.h>

struct kv_rcu_head {
	struct kv_rcu_head *next;		/* limbo list, under its lock */
	void (*free)(struct kv_rcu_head *head);	/* set by kv_rcu_defer() */
};

#define KV_RCU_NESTING		0xffffull	/* of row->section */

extern u32 kv_rcu_fenced;	/* readers have a full fence; never 0 again */

/* For threads without a row. */
void __kv_rcu_read_lock_slow(void);
void __kv_rcu_read_unlock_slow(void);

/* Sections nest. */
static __always_inline void kv_rcu_read_lock(void)
{
	struct kv_stat_row *row = kv_stat_row;
	u64 section;

	if (unlikely(!row)) {
		__kv_rcu_read_lock_slow();
		return;
	}
	section = row->section;
	if (section & KV_RCU_NESTING) {
		WRITE_ONCE(row->section, section + 1);
		return;
	}
	WRITE_ONCE(row->section, section + KV_RCU_NESTING + 2);
	/* Pairs with fence_readers(): one of us sees the other's write. */
	if (unlikely(READ_ONCE(kv_rcu_fenced)))
		kv_fence_full();
	else
		kv_fence_light();
}

static __always_inline void kv_rcu_read_unlock(void)
{
	struct kv_stat_row *row = kv_stat_row;

	if (unlikely(!row || !(row->section & KV_RCU_NESTING)))
		__kv_rcu_read_unlock_slow();
	else
		/* Pairs with wait_for_section(): objects read here are freed later. */
		smp_store_release(&row->section, row->section - 1);
}

/* Is this thread in a read section? */
bool kv_rcu_is_reading(void);

#define kv_assert_reading()	kv_assert(kv_rcu_is_reading())
#define kv_assert_not_reading()	kv_assert(!kv_rcu_is_reading())

/* Publish: a reader that gets @v by kv_rcu_dereference() sees everything written before. */
#define kv_rcu_assign(p, v)	__atomic_store_n(&(p), (v), __ATOMIC_RELEASE)
/* Pairs with kv_rcu_assign(); inside a read section. Acquire rather than consume: free on x86. */
#define kv_rcu_dereference(p)	__atomic_load_n(&(p), __ATOMIC_ACQUIRE)

/* Call @free on @head after a grace period. Never waits, never allocates; any lock may be held. */
void kv_rcu_defer(struct kv_rcu_head *head, void (*free)(struct kv_rcu_head *head));

/* Drain the list if it is long. May wait for a grace period: no lock held, no read section. */
void kv_rcu_reap(void);

/*
 * Wait until every read section that has begun by now has ended. The caller is in none, and holds
 * no lock that one may wait for.
 */
void kv_rcu_synchronize(void);

/* Wait until everything deferred so far has been freed. Same context. */
void kv_rcu_barrier(void);

#endif /* KV_RCU_H */
