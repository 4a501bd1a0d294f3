/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges that grow as a sequence decodes.
 *
 * The pool keeps a run of free blocks behind a range that grows, so that the next blocks lie where
 * the last ones end. Such a reservation is soft. Its blocks count as free; a request that would
 * otherwise fail, evict, move or scatter gets them. It ends when the range is freed, shrunk at its
 * end, split or moved. It begins with the second kvmm_range_grow(), or with the range if that was
 * allocated with KVMM_ALLOC_GROWS, and is made twice as long each time that it is used up.
 *
 * A range that grows may have more extents than KVMM_MAX_RUNS: kvmm_range_extents() says how many.
 * So growing fails with -ENOSPC only if too few blocks are free or evictable.
 *
 * Documentation/growth.rst has pictures and figures.
 */
#ifndef KVMM_GROW_H
#define KVMM_GROW_H

#include <kvmm/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * kvmm_range_grow_many() - @by more blocks at the end of each of @nr ranges: a step of a batch
 * @ranges: a range may stand there more than once
 *
 * All or nothing: if one of them cannot grow none does, and -ENOSPC or -EDQUOT has evicted nothing.
 * One lock hold where blocks are free. In a pool with limits of tenants or a zero policy memory is
 * allocated for each call, and nothing is moved to make a run. Within a call that fails
 * kvmm_range_extents() may see a range longer for a moment; after -EIO for good if another owner
 * has let it grow in that moment.
 *
 * Return: 0, also for no ranges; -ENOSPC; -EDQUOT a tenant's limit, or the quota of a class with
 * KVMM_CLASS_REFUSE, over the whole batch; -ESTALE or -EINVAL one of the
 * handles; -EINVAL; -ENOMEM; -EIO as kvmm_range_grow().
 */
KVMM_API int kvmm_range_grow_many(struct kvmm_pool *pool, const kvmm_range_t *ranges, uint32_t nr,
				  uint32_t by);

/** Ranges of 1, 2, 3 to 4, 5 to 8, ... 33 to 64, and more extents. */
#define KVMM_GROWTH_HIST	8u

/**
 * struct kvmm_growth_stat - growth in one pool; one coherent snapshot
 * @size: sizeof(struct kvmm_growth_stat)
 * @nr_reserved, @nr_reservations: blocks reserved now, and for how many ranges; the blocks are in
 *	nr_free of struct kvmm_pool_stat
 * @live, @live_ext, @live_max: ranges there are, by their extents; extents of all of them; of the
 *	one that has most
 * @finished, @finished_ext, @finished_max: the same of those freed since the pool was made
 * @in_place, @elsewhere: pieces that ranges grew by, behind their end and as a further extent
 * @steals, @stolen_blocks: times that other requests took reserved blocks, and how many
 */
struct kvmm_growth_stat {
	size_t size;
	uint32_t nr_reserved;
	uint32_t nr_reservations;
	uint64_t live[KVMM_GROWTH_HIST];
	uint64_t live_ext;
	uint64_t finished[KVMM_GROWTH_HIST];
	uint64_t finished_ext;
	uint32_t live_max;
	uint32_t finished_max;
	uint64_t in_place;
	uint64_t elsewhere;
	uint64_t steals;
	uint64_t stolen_blocks;
};

/** kvmm_growth_get_stat() - kvmm_pool_stat_of() of KVMM_STAT_GROWTH. */
static inline int kvmm_growth_get_stat(struct kvmm_pool *pool, struct kvmm_growth_stat *stat)
{
	return kvmm_pool_stat_of(pool, KVMM_STAT_GROWTH, stat, stat ? stat->size : 0);
}

#ifdef __cplusplus
}
#endif
#endif /* KVMM_GROW_H */
