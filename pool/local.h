/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Free blocks that threads keep aside: they are in no free area of the zone, and are free
 * nevertheless. A caller that is about to refuse, to evict or to move for want of free blocks calls
 * pool_drain_local() first; one that shows how many are free adds pool_nr_local().
 */
#ifndef POOL_LOCAL_H
#define POOL_LOCAL_H

#include "arena.h"
#include "mag.h"

/*
 * All of them go back to the zone, and none is kept aside before ->lock is dropped. Returns how
 * many. ->lock held; order.lock may be. One untaken branch where nothing is kept aside.
 */
static inline u32 pool_drain_local(struct kvmm_pool *pool)
{
	kv_assert_held(&pool->lock);
	return arenas_drain(pool) + mags_drain(pool);
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

/* How many there are. Exact while no thread allocates or frees. ->lock held. */
static inline u32 pool_nr_local(const struct kvmm_pool *pool)
{
	return arenas_nr_free(pool) + mags_nr(pool);
}

#endif /* POOL_LOCAL_H */
