/* SPDX-License-Identifier: Apache-2.0 */
/* Compaction with the world stopped, and in the background. */
#ifndef KVMM_COMPACT_H
#define KVMM_COMPACT_H

#include <kvmm/step.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Background compaction: keep holes long enough before a request needs them.
 *
 * The measure is the unusable free index at the length that requests ask for: the share of the free
 * blocks that lie in holes too short for that. Above the threshold the work starts moves, as
 * kvmm_compact_start() does, until the index has come down to half of it. Blocks that moved lately
 * stay (KVMM_GOAL_CALM of <kvmm/ext/moves.h>).
 *
 * The engine chooses which thread works: it calls kvmm_background_tick() when it has a moment, or
 * lets kvmm start a thread. Such a thread calls no function of the engine.
 */

/** A thread of kvmm's does the work. Without it, callers of kvmm_background_tick() do. */
#define KVMM_BACKGROUND_THREAD		(1u << 0)

/** Moves are started only while no step is open. */
#define KVMM_BACKGROUND_IDLE_ONLY	(1u << 1)

/** While holes are long enough, extents of ranges are joined; as KVMM_GOAL_SHORTEN of
 * <kvmm/ext/moves.h>. */
#define KVMM_BACKGROUND_SHORTEN		(1u << 2)

/**
 * The work takes and compares checksums too, where kvmm_verify_set() of <kvmm/ext/inspect.h> asks
 * for them: of new and moved blocks as soon as possible (the thread looks every 10 ms), of a batch
 * of others, in turns, each interval. Then no thread need call kvmm_verify_tick().
 */
#define KVMM_BACKGROUND_VERIFY		(1u << 3)

/**
 * struct kvmm_background - when kvmm moves blocks on its own
 * @size: sizeof(struct kvmm_background); set by KVMM_BACKGROUND_INIT
 * @threshold_pm: index at which work begins, per mille; 1 to 1000
 * @interval_ms: the index is looked at so often
 * @request_blocks: at which length; 0 = the median of the ranges that were allocated lately
 * @max_blocks: most blocks on their way at a time
 * @mode: enum kvmm_move_mode
 * @flags: KVMM_BACKGROUND_*
 */
struct kvmm_background {
	size_t size;
	uint32_t threshold_pm;
	uint32_t interval_ms;
	uint32_t request_blocks;
	uint32_t max_blocks;
	uint32_t mode;
	uint32_t flags;
};

#define KVMM_BACKGROUND_INIT { sizeof(struct kvmm_background), 200, 60000, 0, 1024, \
			       KVMM_MOVE_BESIDE, 0 }

/**
 * kvmm_background_set() - from now on, or not any more
 * @how: borrowed during the call; NULL = off
 *
 * May be called at any time; waits for a thread that is not wanted any more to end.
 *
 * Return: 0; -EINVAL; -ENOMEM; -EAGAIN no thread was to be had: everything is as it was;
 * -EOPNOTSUPP as kvmm_pool_compact(), or KVMM_BACKGROUND_THREAD, and the pool has
 * KVMM_POOL_DETERMINISTIC.
 */
static inline int kvmm_background_set(struct kvmm_pool *pool, const struct kvmm_background *how)
{
	return kvmm_pool_set(pool, KVMM_SET_BACKGROUND, how);
}

/**
 * kvmm_background_tick() - do what is due
 *
 * Cheap while nothing is: a clock reading. Never waits for the device, but for checksums that it
 * cannot take alone (KVMM_BACKGROUND_VERIFY).
 *
 * Return: 1 moves were started; 0 nothing was due or to be done; -EINVAL; errors of
 * kvmm_compact_start() that are not a matter of course.
 */
KVMM_API int kvmm_background_tick(struct kvmm_pool *pool);

/**
 * struct kvmm_background_stat - what it does
 * @score_pm: the index when it was looked at last
 * @request_blocks: at which length
 * @is_active: it is above the threshold, or not yet down to half of it
 * @nr_deferred: looks that are left out because moving was useless lately
 * @checks: how often it was looked at
 * @starts: how often moves were started
 * @useless: how often no allowed moves were found
 * @busy: how often it had to wait for a step, or for moves under way
 * @saved_extents: by KVMM_BACKGROUND_SHORTEN, if all went well
 * @verified: blocks whose checksum was taken or compared, by KVMM_BACKGROUND_VERIFY
 */
struct kvmm_background_stat {
	uint32_t score_pm;
	uint32_t request_blocks;
	uint32_t is_active;
	uint32_t nr_deferred;
	uint64_t checks;
	uint64_t starts;
	uint64_t useless;
	uint64_t busy;
	uint64_t saved_extents;
	uint64_t verified;
};

/** kvmm_background_get_stat() - kvmm_pool_stat_of() of KVMM_STAT_BACKGROUND. */
static inline int kvmm_background_get_stat(struct kvmm_pool *pool,
					   struct kvmm_background_stat *stat)
{
	return kvmm_pool_stat_of(pool, KVMM_STAT_BACKGROUND, stat, sizeof(*stat));
}

/* ---- now, with the world stopped ---- */

/**
 * struct kvmm_compact - one compaction
 * @size: sizeof(struct kvmm_compact)
 * @want_run: stop when a free run of so many blocks exists; 0 = pack: join free blocks into as few
 *	runs as unmovable blocks allow
 * @max_blocks: move at most so many; 0 = no limit
 * @max_us: plan no further moves after so long; 0 = no limit. With KVMM_POOL_DETERMINISTIC a
 *	count, at least 1: of blocks that take so long to be copied, as kvmm_completions_set() said,
 *	or before it did as struct kvmm_alloc_costs does
 * @moved: out: blocks moved
 * @nr_moves: out: copies (runs) they were moved in
 * @plan_ns, @copy_ns: out: time taken by all but the copies, and by these
 * @largest_before, @largest_after: out: longest free run, in blocks
 * @stay: NULL, or out: what did not move, and why; see <kvmm/ext/lease.h>. Not of
 *	kvmm_compact_start()
 */
struct kvmm_stay;
struct kvmm_compact {
	size_t size;
	uint32_t want_run;
	uint32_t max_blocks;
	uint32_t max_us;
	uint32_t moved;
	uint32_t nr_moves;
	uint64_t plan_ns;
	uint64_t copy_ns;
	uint32_t largest_before;
	uint32_t largest_after;
	struct kvmm_stay *stay;
};

/**
 * kvmm_pool_compact() - move blocks so that free ones lie together
 *
 * Stops the world: the caller sees to it that no work on the device reads or writes the pool's
 * blocks meanwhile. Other callers of this pool wait. Pinned ranges stay.
 *
 * Return: 0 the goal is reached; -EAGAIN a budget ended it before (what was moved stays moved);
 * -ENOSPC no allowed sequence of moves reaches the goal; -EIO a copy failed (ranges whose content
 * it destroyed say so from now on); -EOPNOTSUPP the pool's compactor is
 * "off", or its allocator "buddy"; -EBUSY a step is open, the pool is quiescent, or 4,096
 * relocations or more are not acknowledged, see kvmm_relocations_next(); -EINVAL.
 */
KVMM_API int kvmm_pool_compact(struct kvmm_pool *pool, struct kvmm_compact *compact);

#ifdef __cplusplus
}
#endif
#endif /* KVMM_COMPACT_H */
