/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compaction for a purpose: goals of moves, their budgets, and plans.
 *
 * kvmm_pool_compact() and kvmm_compact_start() make a free run. There are other reasons to move
 * blocks, and other ways to clear one that is in the way: the pool can drop an unreferenced cached
 * block where that costs less than copying it. A goal says what to reach; a plan says what would be
 * done for it, and what it would give.
 *
 * A plan is not certain: blocks change hands while it is carried out, and such changes win.
 */
#ifndef KVMM_COMPACT_H
#define KVMM_COMPACT_H

#include <kvmm/step.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * enum kvmm_goal - what for
 * @KVMM_GOAL_RUN: a free run of @want blocks
 * @KVMM_GOAL_PAGEBLOCKS: @want pageblocks, aligned groups of @pageblock_blocks blocks, empty; those
 *	that are empty already count
 * @KVMM_GOAL_SHORTEN: @want extents of ranges fewer, 0 = as many as possible: joins extents of one
 *	range
 * @KVMM_GOAL_GATHER: one range, or all ranges of a sequence, oldest first, in one run. Without a
 *	hole for them the plan makes a run first, and sets @is_partial: plan again once the run is
 *	there
 */
enum kvmm_goal {
	KVMM_GOAL_RUN,
	KVMM_GOAL_PAGEBLOCKS,
	KVMM_GOAL_SHORTEN,
	KVMM_GOAL_GATHER,
	KVMM_NR_GOALS,
};

/** kvmm_goal_name() - "run", "pageblocks", "shorten", "gather"; "?" if there is no such goal. */
static inline const char *kvmm_goal_name(uint32_t goal)
{
	return kvmm_enum_name(KVMM_NAME_GOAL, goal);
}

/**
 * Unreferenced cached blocks may be dropped, with all that follow them in their chains: where that
 * costs less than copying (struct kvmm_alloc_costs), or where there is no place for them. Only of
 * the class that is evicted next; never where tenants have limits.
 */
#define KVMM_GOAL_DROP		(1u << 0)

/**
 * Nothing is urgent: blocks moved by one of the last KVMM_CALM_PLANS plans stay. Pageblocks that
 * could not be emptied lately are left out for so many plans, or until something in them is freed.
 */
#define KVMM_GOAL_CALM		(1u << 1)
#define KVMM_CALM_PLANS		8u

/**
 * KVMM_GOAL_RUN: if @want cannot be reached within the budgets, the plan makes the longest run that
 * can, if longer than now, and sets @is_partial. The other goals do as much as they can anyway.
 */
#define KVMM_GOAL_BEST		(1u << 2)

/**
 * struct kvmm_compact_goal - what to reach, within which budgets
 * @size: sizeof(struct kvmm_compact_goal); set by KVMM_COMPACT_GOAL_INIT
 * @goal: enum kvmm_goal
 * @mode: enum kvmm_move_mode
 * @flags: KVMM_GOAL_*
 * @want: blocks, pageblocks or extents, see enum kvmm_goal
 * @pageblock_blocks: a power of two
 * @max_blocks: move at most so many; 0 = no limit
 * @max_us: budget of planning and predicted copying, in microseconds; 0 = no limit
 * @max_bytes: move at most so many; 0 = no limit
 * @range: KVMM_GOAL_GATHER: this one, or, if it is all zeros,
 * @seq: those of this sequence
 */
struct kvmm_compact_goal {
	size_t size;
	uint32_t goal;
	uint32_t mode;
	uint32_t flags;
	uint32_t want;
	uint32_t pageblock_blocks;
	uint32_t max_blocks;
	uint32_t max_us;
	uint32_t reserved;
	uint64_t max_bytes;
	kvmm_range_t range;
	uint64_t seq;
};

#define KVMM_COMPACT_GOAL_INIT { sizeof(struct kvmm_compact_goal), KVMM_GOAL_RUN, \
				 KVMM_MOVE_BESIDE, 0, 0, 0, 0, 0, 0, 0, { 0, 0 }, 0 }

/**
 * struct kvmm_compact_state - how the free blocks lie
 * @largest: the longest run of them
 * @unusable_ppm: kvmm_zone_unusable() at the length that the goal is about: a run, a pageblock,
 *	else what the median range has asked for
 * @extents: of all ranges
 */
struct kvmm_compact_state {
	uint32_t largest;
	uint32_t unusable_ppm;
	uint64_t extents;
};

/**
 * struct kvmm_compact_plan - what is done for a goal
 * @size: sizeof(struct kvmm_compact_plan); set by KVMM_COMPACT_PLAN_INIT
 * @moves: NULL, or room for @max_moves
 * @drops: NULL, or room for @max_drops blocks that are lost
 * @empty: NULL, or room for @max_empty pageblocks, as extents, by address (KVMM_GOAL_PAGEBLOCKS)
 * @is_partial: out: the goal is not reached by it, but nearer
 * @nr_moves, @moved_blocks, @moved_bytes: out
 * @nr_drops: out: blocks to be dropped, with those that follow them in their chains
 * @nr_empty: out
 * @saved_extents: out (KVMM_GOAL_SHORTEN, KVMM_GOAL_GATHER)
 * @run: out: what becomes free (KVMM_GOAL_RUN), or where it comes to lie (KVMM_GOAL_GATHER)
 * @copy_ns: out: what copying takes, predicted from what the device was measured at; without one
 *	from struct kvmm_alloc_costs
 * @plan_ns: out: what planning took
 * @before, @after: out: free blocks now, and after the plan if no other call changes them
 *
 * A list longer than its room is cut at its end.
 */
struct kvmm_compact_plan {
	size_t size;
	struct kvmm_relocation *moves;
	uint32_t *drops;
	struct kvmm_extent *empty;
	uint32_t max_moves;
	uint32_t max_drops;
	uint32_t max_empty;
	uint32_t is_partial;
	uint32_t nr_moves;
	uint32_t moved_blocks;
	uint64_t moved_bytes;
	uint32_t nr_drops;
	uint32_t nr_empty;
	uint32_t saved_extents;
	uint32_t reserved;
	struct kvmm_extent run;
	uint64_t copy_ns;
	uint64_t plan_ns;
	struct kvmm_compact_state before;
	struct kvmm_compact_state after;
};

#define KVMM_COMPACT_PLAN_INIT { sizeof(struct kvmm_compact_plan), NULL, NULL, NULL, 0, 0, 0, 0, \
				 0, 0, 0, 0, 0, 0, 0, { 0, 0 }, 0, 0, { 0, 0, 0 }, { 0, 0, 0 } }

/**
 * kvmm_compact_get_plan() - plan moves for a goal, without doing them
 * @plan: out
 *
 * kvmm_stay_last() then tells which blocks stay, and why.
 *
 * Return: 0, with nothing in the plan if the goal is reached already; -ENOSPC no allowed moves get
 * any nearer to it; -EAGAIN only some that take longer than @goal->max_us do; -ENOMEM; -EOPNOTSUPP
 * as kvmm_pool_compact(), @goal->max_bytes in a pool of ids, or the pool has
 * KVMM_POOL_DETERMINISTIC; -ESTALE, -EINVAL.
 */
KVMM_API int kvmm_compact_get_plan(struct kvmm_pool *pool, const struct kvmm_compact_goal *goal,
				   struct kvmm_compact_plan *plan);

/**
 * kvmm_compact_goal_start() - plan, evict what is to be lost, and let the moves begin
 * @plan: out: what has been begun
 *
 * As kvmm_compact_start(). Evicts the blocks to be dropped before the copies begin, and counts them
 * as evicted.
 *
 * Return: as kvmm_compact_get_plan(); -EBUSY, -EIO as kvmm_compact_start(); -EAGAIN also: blocks
 * kept changing hands during planning. After an error nothing was begun, except that -EIO and
 * -EBUSY may come after the blocks to be dropped were evicted.
 */
KVMM_API int kvmm_compact_goal_start(struct kvmm_pool *pool, const struct kvmm_compact_goal *goal,
				     struct kvmm_compact_plan *plan);

/*
 * Background compaction: keep holes long enough before a request needs them.
 *
 * The measure is the unusable free index at the length that requests ask for: the share of the free
 * blocks that lie in holes too short for that. Above the threshold the work starts moves, as
 * kvmm_compact_start() does, until the index has come down to half of it. Blocks that moved lately
 * stay (KVMM_GOAL_CALM of <kvmm/compact.h>).
 *
 * The engine chooses which thread works: it calls kvmm_background_tick() when it has a moment, or
 * lets kvmm start a thread. Such a thread calls no function of the engine.
 */

/** A thread of kvmm's does the work. Without it, callers of kvmm_background_tick() do. */
#define KVMM_BACKGROUND_THREAD		(1u << 0)

/** Moves are started only while no step is open. */
#define KVMM_BACKGROUND_IDLE_ONLY	(1u << 1)

/** While holes are long enough, extents of ranges are joined; as KVMM_GOAL_SHORTEN of
 * <kvmm/compact.h>. */
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
 * -EOPNOTSUPP as kvmm_pool_compact(), or the pool has KVMM_POOL_DETERMINISTIC.
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

#ifdef __cplusplus
}
#endif
#endif /* KVMM_COMPACT_H */
