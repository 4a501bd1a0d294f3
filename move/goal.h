/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves for a goal: from the picture of a pool to a plan, and to blocks that are claimed for it.
 *
 * A goal lives in one call. flight_start.c makes the picture and carries the moves out; goal.c
 * gives each item its price and its owner, has a plan made, and claims the blocks it needs: growth
 * reservations in its way are given up, and blocks to be lost are claimed before anything is
 * lifted, and evicted once all is.
 *
 * Runs that moved lately, and pageblocks that could not be emptied, are remembered in struct goals,
 * by the number of the plan. It is a hint: moves, frees and allocations do not know of it.
 */
#ifndef POOL_GOAL_H
#define POOL_GOAL_H

#include <kv/defrag.h>
#include <kvmm/compact.h>
#include <kvmm/ext/moves.h>
#include <pool/internal.h>

/* Of a pool, once a caller has asked for KVMM_GOAL_CALM. Guard: compact_lock. */
struct goals {
	u8 *moved;		/* ours; by block: ->tick when it came there, 0: long ago */
	u32 tick;		/* of plans, 1 to 255 */
	struct kv_hint *hints;	/* ours; by pageblock of ->hint_order; NULL: none yet */
	u32 hint_order;
	u32 round;		/* of plans */
};

struct goal {
	/* The caller's. */
	struct kvmm_pool *pool;
	const struct kvmm_compact_goal *ask;	/* borrowed; checked */
	bool go;		/* carry it out */

	/* The picture, and the plan made on it; see goal_plan(). */
	struct kv_item *items;	/* ours */
	u32 max_items;
	struct kv_plan_req req;
	struct kv_prices prices;
	struct kv_plan plan;	/* the lists are ours */
	u32 nr_recent;		/* blocks that stay because they moved lately */
	u64 nr_extents;		/* of all ranges */
	u32 median;		/* length of the ranges that were asked for lately; 1 or more */
	u64 plan_ns;
	bool is_partial;

	struct victims victims;	/* claimed */
};

/*
 * A picture by @ops->snapshot, a plan, and if ->go the result of @ops->isolate; again while that is
 * -EAGAIN. 0; -EALREADY; errors of kvmm_compact_goal_start(). compact_lock held, none below.
 */
int goal_plan(struct goal *goal, const struct kv_movable_ops *ops, void *owner);
void goal_exit(struct goal *goal);

/*
 * For isolate: claim the blocks that the plan needs besides its moves: 0, or -EAGAIN and none is.
 * Then goal_claimed() says how the rest went. ->lock held.
 */
int goal_claim(struct goal *goal);
void goal_claimed(struct goal *goal, bool good);

/* What a block takes to be copied on its own, as measured; 0: it was not. */
u64 goal_measured_ns(const struct kvmm_pool *pool);
/* The price of copying so much, in so many runs. */
u64 goal_copy_ns(const struct kvmm_pool *pool, u32 nr_moves, u64 nr_blocks);
/* Free blocks now, or after the plan; extents are not looked at. -ENOMEM. */
int goal_state(const struct goal *goal, bool after, struct kvmm_compact_state *state);

/* ---- goal_drop.c ---- */

/* Which items may be lost, and how many blocks go with them. No lock held below compact_lock. */
void goal_price_drops(struct goal *goal);

/* ---- goal_calm.c ---- */

/* Runs that moved lately stay; hints for the planner. 0 or -ENOMEM. */
int goal_calm(struct goal *goal);
/* It has been carried out, as far as that is up to us: to be left alone for a while. */
void goal_remember(struct goal *goal);

/* ---- flight_start.c ---- */

/*
 * Plan, and if @goal->go let the moves begin: as kvmm_compact_goal_start(). compact_lock held;
 * goal_exit() is the caller's.
 */
int flights_start_goal(struct kvmm_pool *pool, struct goal *goal);

#endif /* POOL_GOAL_H */
