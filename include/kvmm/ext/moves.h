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
#ifndef KVMM_EXT_MOVES_H
#define KVMM_EXT_MOVES_H

#include <kvmm/compact.h>
#include <kvmm/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

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
 * -EAGAIN requests wait for blocks; -EBUSY as kvmm_pool_compact(), or another shrink is under way;
 * -EIO a copy or the driver failed: what could not be undone is in @given_bytes and
 * in kvmm_elastic_get_stat(); -EOPNOTSUPP as kvmm_pool_elastic_setup(), or bytes of a pool of ids
 * only; -ENOMEM; -EINVAL.
 */
KVMM_API int kvmm_pool_shrink(struct kvmm_pool *pool, struct kvmm_shrink *req);

/**
 * kvmm_pool_shrink_start() - give memory back beside running steps, or end it
 * @req: NULL: the shrink that is under way ends. Units given back stay so. Waits for copies
 * @mode: enum kvmm_move_mode
 *
 * Chooses pageblocks, evicts the shortfall, keeps what is free there from others, and begins to
 * move the rest. If a block may not move when its turn comes, or is pinned meanwhile, the pool
 * leaves its pageblock and chooses another. It gives each pageblock back once that is empty and no
 * step can read it any more.
 *
 * Return: 0; as kvmm_pool_shrink(), then nothing has been begun. Without @req: 0; -EINVAL there is
 * none.
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

/** kvmm_pool_shrink_cancel() - end it. Return: 0; -EINVAL there is none. */
static inline int kvmm_pool_shrink_cancel(struct kvmm_pool *pool)
{
	return kvmm_pool_shrink_start(pool, NULL, 0);
}

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
 * Return: 0; -EOPNOTSUPP as kvmm_pool_shrink(), or a pool of ids only; -ENOMEM; -EINVAL.
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

/* ---- goals, plans and pace of moves ---- */

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

/** Only the plan is made: nothing is evicted, and nothing moves. */
#define KVMM_GOAL_PLAN		(1u << 3)

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
 * @unusable_ppm: part of the free blocks in runs shorter than the length that the goal is about: a
 *	run, a pageblock, else what the median range has asked for
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
 * kvmm_compact_goal_start() - plan, evict what is to be lost, and let the moves begin
 * @goal: NULL, with @plan NULL: moves that are not published do not happen; waits for running
 *	copies, not for steps, and returns how many blocks stay
 * @plan: out: what has been begun
 *
 * Evicts the blocks to be dropped before the copies begin, and counts them as evicted. The goal is
 * reached when the moves have been published and all steps that were told of the old places have
 * ended: later calls of kvmm_step_begin(), kvmm_step_end() and kvmm_compact_poll() see to it. Until
 * then no request gets the old or the new places. kvmm_stay_last() tells which blocks stay.
 *
 * Return: 0, with nothing in the plan if the goal is reached already; -ENOSPC no allowed moves get
 * any nearer to it, or their new places are promised; -EAGAIN only some that take longer than
 * @goal->max_us do, or blocks kept changing hands during planning; -ENOMEM; -EOPNOTSUPP as
 * kvmm_pool_compact(), or @goal->max_bytes in a pool of ids; -ESTALE, -EINVAL; without
 * KVMM_GOAL_PLAN also -EBUSY a step is open (KVMM_MOVE_BETWEEN), too many blocks are on their way,
 * or the pool is quiescent; -EIO, later where ends of copies are told. After an error nothing was
 * begun, except that -EIO and -EBUSY may come after the blocks to be dropped were evicted.
 */
KVMM_API int kvmm_compact_goal_start(struct kvmm_pool *pool, const struct kvmm_compact_goal *goal,
				     struct kvmm_compact_plan *plan);

/** kvmm_compact_get_plan() - kvmm_compact_goal_start() with KVMM_GOAL_PLAN. */
static inline int kvmm_compact_get_plan(struct kvmm_pool *pool,
					const struct kvmm_compact_goal *goal,
					struct kvmm_compact_plan *plan)
{
	struct kvmm_compact_goal ask;

	if (!goal)
		return -22 /* EINVAL */;
	ask = *goal;
	ask.flags |= KVMM_GOAL_PLAN;
	return kvmm_compact_goal_start(pool, &ask, plan);
}

/** kvmm_compact_start() - kvmm_compact_goal_start() of a free run of @goal->want_run, 1 or more.
 * Out: moved and nr_moves are what is on its way, largest_after what there will be; after an error
 * nothing is, and the rest stays as it was. @mode: enum kvmm_move_mode. */
static inline int kvmm_compact_start(struct kvmm_pool *pool, struct kvmm_compact *goal,
				     uint32_t mode)
{
	struct kvmm_compact_plan plan = KVMM_COMPACT_PLAN_INIT;
	struct kvmm_compact_goal ask = KVMM_COMPACT_GOAL_INIT;
	int err;

	if (!goal || goal->size != sizeof(*goal))
		return -22 /* EINVAL */;
	ask.mode = mode;
	ask.want = goal->want_run;
	ask.max_blocks = goal->max_blocks;
	ask.max_us = goal->max_us;
	err = kvmm_compact_goal_start(pool, &ask, &plan);
	goal->moved = plan.moved_blocks;
	goal->nr_moves = plan.nr_moves;
	if (err)
		return err;
	goal->plan_ns = plan.plan_ns;
	goal->copy_ns = 0;
	goal->largest_before = plan.before.largest;
	goal->largest_after = plan.after.largest;
	return 0;
}

/** kvmm_range_seal() - no owner writes the first @nr blocks of the range any more: they may move
 * beside running steps. Cannot be undone. Return: 0; -EINVAL more than there are; -ENOMEM;
 * -ESTALE. */
KVMM_API int kvmm_range_seal(struct kvmm_pool *pool, kvmm_range_t range, uint32_t nr);

/** kvmm_compact_poll() - publish what is finished, free blocks without readers and writers: see
 * unseen_blocks of struct kvmm_step_stat. Never waits.
 * Return: moves whose old places are not free yet, which goes down to 0 once steps end and the
 * device is not blind (is_blind of struct kvmm_step_stat); -EIO the device is lost: there are such
 * places, and they stay until the pool is destroyed; -EINVAL. */
KVMM_API int kvmm_compact_poll(struct kvmm_pool *pool);

/** kvmm_compact_cancel() - kvmm_compact_goal_start() without a goal. Return: blocks that stay;
 * -EINVAL. */
static inline int kvmm_compact_cancel(struct kvmm_pool *pool)
{
	return kvmm_compact_goal_start(pool, NULL, NULL);
}

/**
 * kvmm_pool_quiesce() - no block moves until kvmm_pool_resume(), as while a graph is captured
 *
 * As kvmm_compact_cancel(), and nothing starts. Counted.
 *
 * Return: 0; -ENOMEM, never for a pool that has had a stream, or -EOVERFLOW: it is not counted, and
 * blocks move as before; -EINVAL.
 */
static inline int kvmm_pool_quiesce(struct kvmm_pool *pool)
{
	uint32_t on = 1;

	return kvmm_pool_set(pool, KVMM_SET_QUIESCENT, &on);
}

/** kvmm_pool_resume() - undo one kvmm_pool_quiesce(). Return: 0; -EINVAL there is none to undo. */
static inline int kvmm_pool_resume(struct kvmm_pool *pool)
{
	uint32_t on = 0;

	return kvmm_pool_set(pool, KVMM_SET_QUIESCENT, &on);
}

/**
 * struct kvmm_pace - how fast blocks are copied beside steps
 * @size: sizeof(struct kvmm_pace)
 * @bytes_per_ms: at most so many bytes a millisecond on average; 0 = no limit
 * @bytes_per_step: at most so many from the beginning of a step to that of the next one, on any
 *	stream; does not count while no step is open; 0 = no limit
 * @groups: of threads that a copy occupies; 0 = 16
 * @reserved: 0
 *
 * With a limit, kvmm copies moves in portions: it gives the device the next one when the last is
 * complete, so the device has no long queue of copies. A portion is one block at least. Calls that
 * publish (kvmm_step_begin(), kvmm_step_end(), kvmm_compact_poll()) submit the next portion: fewer
 * calls make it slower. Moves between steps are not limited.
 */
struct kvmm_pace {
	size_t size;
	uint64_t bytes_per_ms;
	uint64_t bytes_per_step;
	uint32_t groups;
	uint32_t reserved;
};

/** kvmm_pace_set() - from now on, moves under way included. Return: 0; -EINVAL; -ENOMEM. */
static inline int kvmm_pace_set(struct kvmm_pool *pool, const struct kvmm_pace *how)
{
	return kvmm_pool_set(pool, KVMM_SET_PACE, how);
}

/**
 * struct kvmm_pace_stat - copies beside steps, as paced
 * @bytes_per_ms, @bytes_per_step: as set
 * @bytes, @portions: submitted beside steps, since the pool's creation
 * @denied: times that a copy had to wait
 */
struct kvmm_pace_stat {
	uint64_t bytes_per_ms;
	uint64_t bytes_per_step;
	uint64_t bytes;
	uint64_t portions;
	uint64_t denied;
};

/** kvmm_pace_get_stat() - kvmm_pool_stat_of() of KVMM_STAT_PACE. */
static inline int kvmm_pace_get_stat(struct kvmm_pool *pool, struct kvmm_pace_stat *stat)
{
	return kvmm_pool_stat_of(pool, KVMM_STAT_PACE, stat, sizeof(*stat));
}

#ifdef __cplusplus
}
#endif
#endif /* KVMM_EXT_MOVES_H */
