/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elastic pools: giving memory of a pool back, and getting it again.
 *
 * Memory comes and goes in *units* (2 MiB as a rule), blocks do in *pageblocks*: aligned groups of
 * so many blocks that they cover units. To give memory back, the pool empties pageblocks: it drops
 * blocks that are cheap to drop and copies the others elsewhere; pinned blocks stay. Blocks of an
 * empty pageblock are *away*: no request gets one. A unit is given back when all blocks in it are
 * away.
 *
 *	pageblocks  [a.b.][....][c.dd][ee.e]	give back half:
 *		    [away][away][cadd][eebe]
 *
 * The owner of the memory decides what giving back means:
 *
 * - a pool with KVMM_POOL_ELASTIC has its memory from the device, and unmaps it; kvmm_pool_grow()
 *   maps it again;
 * - memory of the caller (&struct kvmm_pool_attr.planes) is not ours to unmap: the caller learns,
 *   once each, the address ranges that the pool does not use any more, and hands them back with
 *   kvmm_pool_grow();
 * - a pool of ids only counts in blocks.
 *
 * Two ways, as for compaction: kvmm_pool_shrink() stops the world between steps and is done on
 * return; kvmm_pool_shrink_start() works beside the engine's steps (<kvmm/step.h>) and is polled:
 * places that a step may still read are given back when the device has passed it.
 *
 * A *balloon* is a target: bytes to be away. The pool approaches it a portion at a time.
 */
#ifndef KVMM_EXT_ELASTIC_H
#define KVMM_EXT_ELASTIC_H

#include <kvmm/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

/** struct kvmm_mem_range - device memory. Fixed: an address and a length. */
struct kvmm_mem_range {
	uint64_t addr;
	uint64_t bytes;
};

/**
 * struct kvmm_elastic_attr - in what pieces memory goes
 * @size: sizeof(struct kvmm_elastic_attr)
 * @unit_bytes: of memory of the caller: ranges that are told of begin and end at multiples of this
 *	power of two; 2 MiB if 0. Of memory of the pool's own: 0, the device says
 * @pageblock_blocks: a power of two; 0: the pool's choice
 */
struct kvmm_elastic_attr {
	size_t size;
	uint64_t unit_bytes;
	uint32_t pageblock_blocks;
	uint32_t reserved;
};

/**
 * kvmm_pool_elastic_setup() - set this up, before any other call of this header; else defaults hold
 *
 * Return: 0; -EINVAL; -EBUSY it is too late; -ENOMEM; -EOPNOTSUPP the pool cannot give memory back:
 * memory of its own that the device does not take back in parts (no KVMM_POOL_ELASTIC, or a device
 * without such memory), planes with gaps that others may use, or allocator "buddy".
 */
static inline int kvmm_pool_elastic_setup(struct kvmm_pool *pool,
					  const struct kvmm_elastic_attr *attr)
{
	return kvmm_pool_set(pool, KVMM_SET_ELASTIC, attr);
}

/** Nothing that is cached is dropped: it all has to fit into what is left. */
#define KVMM_SHRINK_NO_EVICT	(1u << 0)

/**
 * struct kvmm_shrink - so much is to be given back
 * @size: sizeof(struct kvmm_shrink)
 * @bytes: so much, in whole units; or 0, see @nr_blocks
 * @min_bytes: less will do, but not less than this; 0: @bytes, all or nothing
 * @nr_blocks, @min_blocks: the same in blocks, for pools of ids only; or where @bytes is 0
 * @flags: KVMM_SHRINK_*
 * @max_moved: copy at most so many blocks; 0 = no limit
 * @ranges, @max_ranges: room for what is given back of memory of the caller, or NULL, 0: ask
 *	kvmm_pool_freed(). He may use it at once
 * @nr_ranges: out
 * @given_bytes, @given_blocks: out: units given back; blocks that went away
 * @moved, @nr_moves, @evicted: out: blocks and runs that were copied, keys that were dropped
 * @plan_ns, @copy_ns, @unmap_ns: out: time taken
 */
struct kvmm_shrink {
	size_t size;
	uint64_t bytes;
	uint64_t min_bytes;
	uint32_t nr_blocks;
	uint32_t min_blocks;
	uint32_t flags;
	uint32_t max_moved;
	struct kvmm_mem_range *ranges;
	uint32_t max_ranges;
	uint32_t nr_ranges;
	uint64_t given_bytes;
	uint32_t given_blocks;
	uint32_t moved;
	uint32_t nr_moves;
	uint32_t evicted;
	uint64_t plan_ns;
	uint64_t copy_ns;
	uint64_t unmap_ns;
};

/**
 * kvmm_pool_shrink() - give memory back, now
 *
 * Stops the world, as kvmm_pool_compact(): nothing may read or write the pool's blocks on the
 * device meanwhile. The pageblocks that are cheapest to empty go: a free block costs nothing,
 * others what copying or dropping costs, whichever is less (struct kvmm_alloc_costs). If too few
 * blocks are free the pool evicts the shortfall first, in the order of eviction. Promised blocks
 * and the low watermark stay free.
 *
 * All or nothing, down to @min_bytes: a call that fails gives nothing back and evicts nothing; what
 * was copied stays where it is by then.
 *
 * Return: 0; -ENOSPC not so much can be had: too much is held, or what is pinned is everywhere;
 * -EAGAIN requests wait for blocks; -EBUSY a step is open, the pool is quiescent, or another shrink
 * is under way; -EIO a copy or the driver failed: what could not be undone is in @given_bytes and
 * in kvmm_elastic_get_stat(); -EOPNOTSUPP as kvmm_pool_elastic_setup(), or bytes of a pool of ids
 * only; -ENOMEM; -EINVAL.
 */
KVMM_API int kvmm_pool_shrink(struct kvmm_pool *pool, struct kvmm_shrink *req);

/**
 * kvmm_pool_shrink_start() - give memory back beside running steps
 * @mode: enum kvmm_move_mode
 *
 * Chooses pageblocks, evicts the shortfall, keeps what is free there from others, and begins to
 * move the rest. If a block may not move when its turn comes, or is pinned meanwhile, the pool
 * leaves its pageblock and chooses another. It gives each pageblock back once that is empty and no
 * step can read it any more.
 *
 * Return: 0; as kvmm_pool_shrink(), then nothing has been begun; -EOPNOTSUPP also
 * KVMM_POOL_DETERMINISTIC.
 */
KVMM_API int kvmm_pool_shrink_start(struct kvmm_pool *pool, const struct kvmm_shrink *req,
				    uint32_t mode);

/**
 * kvmm_pool_shrink_poll() - go on with it; never waits for the device
 * @req: out, or NULL: results so far, ranges as kvmm_pool_shrink(); only the fields that are room
 *	for something are read
 *
 * kvmm_step_begin() and kvmm_background_tick() do the same.
 *
 * Return: 1 it is under way; 0 it is done, or there was none; -ENOSPC it has ended with less than
 * was asked for, if at least @min_bytes that is 0; -EIO; -EINVAL. An end is told once.
 */
KVMM_API int kvmm_pool_shrink_poll(struct kvmm_pool *pool, struct kvmm_shrink *req);

/** kvmm_pool_shrink_cancel() - end it. Units given back stay so. Waits for copies.
 * Return: 0; -EINVAL there is none. */
KVMM_API int kvmm_pool_shrink_cancel(struct kvmm_pool *pool);

/**
 * kvmm_pool_freed() - memory of the caller that is not used any more, and that he was not told of
 * @ranges: room for @max
 *
 * It is his from then on, until kvmm_pool_grow() hands it back.
 *
 * Return: how many were written; -EINVAL; -EOPNOTSUPP.
 */
KVMM_API int kvmm_pool_freed(struct kvmm_pool *pool, struct kvmm_mem_range *ranges, uint32_t max);

/**
 * struct kvmm_regain - so much is to be had again
 * @size: sizeof(struct kvmm_regain)
 * @bytes, @min_bytes, @nr_blocks, @min_blocks: as in struct kvmm_shrink; none given: all that can
 * @ranges, @nr_ranges: memory that the caller hands back: whole units that he was told of
 * @regained_bytes, @regained_blocks: out
 */
struct kvmm_regain {
	size_t size;
	uint64_t bytes;
	uint64_t min_bytes;
	uint32_t nr_blocks;
	uint32_t min_blocks;
	const struct kvmm_mem_range *ranges;
	uint32_t nr_ranges;
	uint32_t regained_blocks;
	uint64_t regained_bytes;
};

/**
 * kvmm_pool_grow() - have memory again that was given back; its content is undefined
 *
 * Of the caller's memory, a pageblock can be used once all of its units have been handed back.
 *
 * Return: 0; -ENOMEM the device has not so much; -ENOSPC not so much is away, or what is was not
 * handed back; -EINVAL ranges that were not told of; -EBUSY a shrink is under way; -EIO the device
 * is lost; -EOPNOTSUPP. With -ENOMEM and -ENOSPC the ranges are handed back; else a call that fails
 * has done nothing.
 */
KVMM_API int kvmm_pool_grow(struct kvmm_pool *pool, struct kvmm_regain *req);

/**
 * kvmm_balloon_set() - so many bytes are to be away, from now on
 * @target_bytes: 0: none
 *
 * kvmm_step_begin() and kvmm_background_tick() do a portion each, beside steps,
 * dropping and copying as kvmm_pool_shrink_start(). Above the target memory comes back, also in
 * portions; memory of the caller only as far as he was not told of it.
 *
 * A request of KVMM_PRIO_HIGH or more that does not fit as things are is served from the balloon
 * before anything is evicted for it: what is on its way out stays, what is away comes back as far
 * as it is needed, and the target is no more than what is still away. It stays so until it is set
 * again. If the request is refused the target is as before; where that can be told from counts and
 * the limits of its tenant, nothing comes back at all.
 *
 * Return: 0; -EOPNOTSUPP as kvmm_pool_shrink_start(), or a pool of ids only; -ENOMEM; -EINVAL.
 */
static inline int kvmm_balloon_set(struct kvmm_pool *pool, uint64_t target_bytes)
{
	return kvmm_pool_set(pool, KVMM_SET_BALLOON, &target_bytes);
}

/**
 * struct kvmm_elastic_stat - one coherent snapshot
 * @unit_bytes, @pageblock_blocks: in what pieces memory goes; 0 before it was used
 * @total_bytes: in units, all of it
 * @given_bytes: given back now; of the caller's: he was told of it
 * @untold_bytes: of the caller's: see kvmm_pool_freed()
 * @stuck_bytes: the driver would neither unmap nor map it: lost until the pool is destroyed
 * @target_bytes: of the balloon
 * @away_blocks: blocks that no request gets, for any of the reasons of this header
 * @leaving_blocks: still held, in pageblocks that are to be emptied
 * @is_active: a shrink is under way
 * @nr_relents: requests that the balloon made room for
 * @shrunk_bytes, @grown_bytes, @moved_blocks, @evicted_blocks: since creation
 * @nr_failed: calls of the driver that failed
 */
struct kvmm_elastic_stat {
	uint64_t unit_bytes;
	uint64_t total_bytes;
	uint64_t given_bytes;
	uint64_t untold_bytes;
	uint64_t stuck_bytes;
	uint64_t target_bytes;
	uint32_t pageblock_blocks;
	uint32_t away_blocks;
	uint32_t leaving_blocks;
	uint32_t is_active;
	uint64_t nr_relents;
	uint64_t shrunk_bytes;
	uint64_t grown_bytes;
	uint64_t moved_blocks;
	uint64_t evicted_blocks;
	uint64_t nr_failed;
};

/** kvmm_elastic_get_stat() - kvmm_pool_stat_of() of KVMM_STAT_ELASTIC. */
static inline int kvmm_elastic_get_stat(struct kvmm_pool *pool, struct kvmm_elastic_stat *stat)
{
	return kvmm_pool_stat_of(pool, KVMM_STAT_ELASTIC, stat, sizeof(*stat));
}

#ifdef __cplusplus
}
#endif
#endif /* KVMM_EXT_ELASTIC_H */
