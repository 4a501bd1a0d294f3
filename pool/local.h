/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Free blocks that threads keep aside: they are in no free area of the zone, and are free
 * nevertheless. A caller that is about to refuse, to evict or to move for want of free blocks calls
 * pool_drain_local() first; one that shows how many are free adds pool_nr_local().
 *
 * Arenas keep ranges, magazines single blocks. The pool knows both by this table alone, and none of
 * it is called while ->arenas and ->armed are NULL: there is nothing aside.
 */
#ifndef POOL_LOCAL_H
#define POOL_LOCAL_H

#include "internal.h"

#define MAX_STOCK	1024u	/* free slots that arenas keep, at most */

/**
 * struct local_ops - calls of arenas and magazines; ->lock held, order.lock may be
 * @drain: see pool_drain_local()
 * @rest: arenas are not in use from here on, until threads meet again
 * @disarm: the pool is closed: no thread gets to a magazine past the gate
 * @nr: blocks that are kept aside; exact while no thread allocates or frees
 * @count: add the counts of arenas to @sum; these are locked, or the world has stopped
 * @lock, @unlock: arenas stay as they are, to be looked at
 * @adopt: the range of a slot that an arena has is the pool's from now on, if it is the one of
 *	generation *@gen; else false, and *@gen is the slot's now
 * @adopt_seq: the same of all ranges of a sequence
 * @free: blocks_free() of a range: to the arenas that its regions are lent to
 * @recall: accounts are charged with the blocks that they have from here on, as long as ->lock is
 *	held; see percpu/credit.c
 * @return_slots: arenas with more than MAX_STOCK give them back; false: they have not so many
 */
struct local_ops {
	u32 (*drain)(struct kvmm_pool *pool);
	void (*rest)(struct kvmm_pool *pool);
	void (*disarm)(struct kvmm_pool *pool);
	u32 (*nr)(const struct kvmm_pool *pool);
	void (*count)(const struct kvmm_pool *pool, struct pool_count *sum);
	void (*lock)(struct kvmm_pool *pool);
	void (*unlock)(struct kvmm_pool *pool);
	bool (*adopt)(struct kvmm_pool *pool, struct slot *slot, u32 *gen);
	void (*adopt_seq)(struct kvmm_pool *pool, u64 seq);
	void (*free)(struct kvmm_pool *pool, const struct kvmm_extent *ext, u32 nr_ext);
	void (*recall)(struct kvmm_pool *pool);
	bool (*return_slots)(struct kvmm_pool *pool);
};

static inline bool pool_keeps_aside(const struct kvmm_pool *pool)
{
	kv_assert_held(&pool->lock);
	return unlikely(pool->arenas || pool->armed);
}

/*
 * All of them go back to the zone, and none is kept aside before ->lock is dropped. Returns how
 * many. ->lock held; order.lock may be. One untaken branch where nothing is kept aside.
 */
static inline u32 pool_drain_local(struct kvmm_pool *pool)
{
	return pool_keeps_aside(pool) ? pool->local->drain(pool) : 0;
}

/* How many there are. Exact while no thread allocates or frees. ->lock held. */
static inline u32 pool_nr_local(const struct kvmm_pool *pool)
{
	return pool_keeps_aside(pool) ? pool->local->nr(pool) : 0;
}

/* No magazines from now on. ->lock held. */
static inline void mags_off(struct kvmm_pool *pool)
{
	kv_assert_held(&pool->lock);
	pool->no_mags = true;
	pool_drain_local(pool);
}

/* Arenas are not in use from here on, until threads meet again. ->lock held. */
static inline void arenas_rest(struct kvmm_pool *pool)
{
	kv_assert_held(&pool->lock);
	if (unlikely(pool->arenas != NULL))
		pool->local->rest(pool);
}

/* None comes into use between these two. No lock held. */
static inline void arenas_bar(struct kvmm_pool *pool)
{
	kv_lock(&pool->lock);
	pool->arenas_barred++;
	arenas_rest(pool);
	pool_leave(pool);
}

static inline void arenas_unbar(struct kvmm_pool *pool)
{
	kv_lock(&pool->lock);
	kv_assert(pool->arenas_barred);
	pool->arenas_barred--;
	pool_leave(pool);
}

/* Keep everything in arenas as it is, to look at it. ->lock held. */
static inline void arenas_lock(struct kvmm_pool *pool)
{
	kv_assert_held(&pool->lock);
	if (unlikely(pool->arenas != NULL))
		pool->local->lock(pool);
}

static inline void arenas_unlock(struct kvmm_pool *pool)
{
	kv_assert_held(&pool->lock);
	if (unlikely(pool->arenas != NULL))
		pool->local->unlock(pool);
}

/* What accounts are charged with is what they have, until ->lock is dropped. ->lock held. */
static inline void credits_recall(struct kvmm_pool *pool)
{
	kv_assert_held(&pool->lock);
	if (unlikely(pool->order.quotas && pool->arenas))
		pool->local->recall(pool);
}

/* The pool's counts and those of its arenas. All locks held, or the world has stopped. */
static inline struct pool_count pool_counts(const struct kvmm_pool *pool)
{
	struct pool_count sum = pool->count;

	kv_assert_held(&pool->lock);
	if (unlikely(pool->arenas != NULL))
		pool->local->count(pool, &sum);
	return sum;
}

/*
 * Free blocks that a policy hands out itself: those that no gang has claimed. They are to be picked
 * as victims are, and nothing is lost then. 0 with any other policy.
 */
static inline u32 pool_nr_parked(const struct kvmm_pool *pool)
{
	kv_assert_held(&pool->lock);
	return pool->count.nr_parked - (pool->claims.nr - pool->claims.nr_named);
}

/* Now in ticks, and magazines go by it for a while. */
static inline u32 pool_tick(struct kvmm_pool *pool)
{
	u32 now = kv_clock_ns() >> TICK_SHIFT;

	if (pool->mags && READ_ONCE(pool->tick) != now)
		WRITE_ONCE(pool->tick, now);
	return now;
}

#endif /* POOL_LOCAL_H */
