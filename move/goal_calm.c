// SPDX-License-Identifier: Apache-2.0
/*
 * Left alone for a while: blocks that have moved, pageblocks that could not be emptied.
 *
 * Plans that no caller waits for are made again and again. Without this a block that was put beside
 * a hole in one would be moved out of the way in the next, and the same pinned neighbour found in a
 * pageblock each time. Time is the number of such plans, so a pool in which nothing happens forgets
 * nothing.
 */
#include <kv/mem.h>
#include <kvmm/ext/moves.h>

#include "goal.h"

#define LAST_TICK	255u

static int goals_need(struct kvmm_pool *pool)
{
	struct goals *goals;

	kv_assert_held(&pool->compact_lock);
	if (pool->goals)
		return 0;
	goals = kv_alloc(sizeof(*goals));
	if (!goals)
		return -ENOMEM;
	goals->moved = kv_alloc_array(pool->nr_blocks, sizeof(*goals->moved));
	if (!goals->moved) {
		kv_free(goals);
		return -ENOMEM;
	}
	goals->tick = 1;
	WRITE_ONCE(pool->goals, goals);
	return 0;
}

static u64 goals_bytes(struct kvmm_pool *pool)
{
	/* Relaxed: fixed once it is there; the hints are small beside the rest. */
	return READ_ONCE(pool->goals) ? sizeof(struct goals) + pool->nr_blocks : 0;
}

static void goals_exit(struct kvmm_pool *pool)
{
	if (!pool->goals)
		return;
	kv_free(pool->goals->moved);
	kv_free(pool->goals->hints);
	kv_free(pool->goals);
}

/* ---- before the plan ---- */

static void keep_recent(struct goal *goal, const struct goals *goals)
{
	kv_assert_held(&goal->pool->compact_lock);
	goal->nr_recent = 0;
	for (u32 i = 0; i < goal->req.nr_items; i++) {
		struct kv_item *item = &goal->items[i];
		u32 moved = goals->moved[item->start];

		if (!item->movable || !moved || goals->tick - moved >= KVMM_CALM_PLANS)
			continue;
		item->movable = false;
		goal->nr_recent += item->nr;
	}
}

/* Hints are for one size: a request for another begins anew. */
static int need_hints(struct goals *goals, const struct kv_plan_req *req)
{
	if (goals->hints && goals->hint_order == req->order)
		return 0;
	kv_free(goals->hints);
	goals->hint_order = req->order;
	goals->hints = kv_alloc_array((size_t)kv_nr_pageblocks(req) + 1, sizeof(*goals->hints));
	return goals->hints ? 0 : -ENOMEM;
}

/* Those of long ago would look new again. */
static void tick(struct goals *goals, u32 nr_blocks)
{
	kv_assert(goals->tick && goals->tick <= LAST_TICK);
	goals->round++;
	if (++goals->tick <= LAST_TICK)
		return;
	memset(goals->moved, 0, nr_blocks);
	goals->tick = 1;
}

int goal_calm(struct goal *goal)
{
	struct kvmm_pool *pool = goal->pool;
	int err;

	kv_assert_held(&pool->compact_lock);
	if (!(goal->ask->flags & KVMM_GOAL_CALM))
		return 0;
	err = goals_need(pool);
	if (!err && goal->req.goal == KV_GOAL_PAGEBLOCKS)
		err = need_hints(pool->goals, &goal->req);
	if (err)
		return err;
	if (goal->go)
		tick(pool->goals, pool->nr_blocks);
	keep_recent(goal, pool->goals);
	goal->req.hints = goal->req.goal == KV_GOAL_PAGEBLOCKS ? pool->goals->hints : NULL;
	goal->req.round = pool->goals->round;
	return 0;
}

/* ---- after it ---- */

static u32 nr_held(const struct kv_plan_req *req, u32 pageblock)
{
	u32 start = pageblock << req->order, end = start + BIT(req->order), nr = BIT(req->order);

	kv_assert(pageblock < kv_nr_pageblocks(req));
	for (u32 i = 0; i <= req->nr_items; i++) {
		u32 lo = i ? req->items[i - 1].start + req->items[i - 1].nr : 0;
		u32 hi = i < req->nr_items ? req->items[i].start : req->nr_blocks;

		if (lo < end && hi > start)
			nr -= min(hi, end) - max(lo, start);
	}
	return nr;
}

static void remember_failed(const struct goal *goal, struct goals *goals)
{
	const struct kv_plan *plan = &goal->plan;

	kv_assert_held(&goal->pool->compact_lock);
	if (!goals->hints || goals->hint_order != goal->req.order)
		return;
	for (u32 i = 0; i < plan->nr_failed; i++)
		goals->hints[plan->failed[i]] = (struct kv_hint){
			.held = nr_held(&goal->req, plan->failed[i]),
			.until = goals->round + KVMM_CALM_PLANS,
		};
}

void goal_remember(struct goal *goal)
{
	struct goals *goals = goal->pool->goals;
	const struct kv_plan *plan = &goal->plan;

	kv_assert_held(&goal->pool->compact_lock);
	if (!goals || !goal->go)
		return;
	for (u32 i = 0; i < plan->nr_moves; i++)
		memset(goals->moved + plan->moves[i].dst, goals->tick, plan->moves[i].nr);
	if (goal->ask->flags & KVMM_GOAL_CALM && goal->req.goal == KV_GOAL_PAGEBLOCKS)
		remember_failed(goal, goals);
}

POOL_PART(goals) = {
	.name	= "goals",
	.exit	= goals_exit,
	.bytes	= goals_bytes,
};
