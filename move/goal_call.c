// SPDX-License-Identifier: Apache-2.0
/* The call of <kvmm/compact.h>. */
#include <kvmm/ext/moves.h>

#include "goal.h"

#define ALL_FLAGS	(KVMM_GOAL_DROP | KVMM_GOAL_CALM | KVMM_GOAL_BEST | KVMM_GOAL_PLAN)

static bool is_good(const struct kvmm_pool *pool, const struct kvmm_compact_goal *ask)
{
	u32 size = ask->pageblock_blocks;

	if (ask->mode >= KVMM_NR_MOVE_MODES || ask->flags & ~ALL_FLAGS || ask->reserved)
		return false;
	switch (ask->goal) {
	case KVMM_GOAL_RUN:
		return ask->want && ask->want <= pool->nr_usable;
	case KVMM_GOAL_PAGEBLOCKS:
		return ask->want && kv_is_pow2(size) && size <= pool->nr_blocks &&
		       ask->want <= pool->nr_blocks / size;
	case KVMM_GOAL_SHORTEN:
		return true;
	case KVMM_GOAL_GATHER:
		return ask->range.gen || ask->seq;
	default:
		return false;
	}
}

static int check(const struct kvmm_pool *pool, const struct kvmm_compact_goal *ask)
{
	if (!is_good(pool, ask))
		return -EINVAL;
	if (!pool->parts.planner || pool->rounds)
		return -EOPNOTSUPP;
	return ask->max_bytes && !pool->block_bytes ? -EOPNOTSUPP : 0;
}

/* ---- reports ---- */

static void tell_lists(const struct goal *goal, struct kvmm_compact_plan *out)
{
	const struct kv_plan *plan = &goal->plan;
	u32 size = BIT(goal->req.order);

	for (u32 i = 0; i < min(plan->nr_moves, out->max_moves); i++)
		out->moves[i] = (struct kvmm_relocation){ plan->moves[i].src, plan->moves[i].dst,
							  plan->moves[i].nr, 0 };
	for (u32 i = 0; i < min(plan->nr_drops, out->max_drops); i++)
		out->drops[i] = plan->drops[i].start;
	for (u32 i = 0; i < min(plan->nr_pageblocks, out->max_empty); i++)
		out->empty[i] = (struct kvmm_extent){ plan->pageblocks[i] * size, size };
}

static int tell(const struct goal *goal, struct kvmm_compact_plan *out)
{
	const struct kv_plan *plan = &goal->plan;
	int err = goal_state(goal, false, &out->before);

	kv_assert_held(&goal->pool->compact_lock);
	if (!err)
		err = goal_state(goal, true, &out->after);
	tell_lists(goal, out);
	out->is_partial = goal->is_partial;
	out->nr_moves = plan->nr_moves;
	out->moved_blocks = plan->nr_blocks;
	out->moved_bytes = plan->nr_blocks * goal->pool->block_bytes;
	out->nr_drops = plan->nr_drops;
	out->nr_empty = plan->nr_pageblocks;
	out->saved_extents = plan->saved;
	out->run = plan->gap;
	out->copy_ns = goal_copy_ns(goal->pool, plan->nr_moves, plan->nr_blocks);
	out->plan_ns = goal->plan_ns;
	return err;
}

/* ---- the call ---- */

/* Moves that cannot be told are missing in @out, but have begun: that is no error. */
static int run(struct kvmm_pool *pool, const struct kvmm_compact_goal *ask, bool go,
	       struct kvmm_compact_plan *out)
{
	struct goal goal = { .pool = pool, .ask = ask, .go = go };
	int err, told;

	kv_lock(&pool->compact_lock);
	err = flights_start_goal(pool, &goal);
	told = !err || err == -EALREADY ? tell(&goal, out) : 0;
	kv_unlock(&pool->compact_lock);
	goal_exit(&goal);
	cache_after(pool);
	if (err == -EALREADY)
		err = 0;
	return err || go ? err : told;
}

int kvmm_compact_goal_start(struct kvmm_pool *pool, const struct kvmm_compact_goal *goal,
			    struct kvmm_compact_plan *plan)
{
	struct kvmm_compact_goal ask;
	struct kvmm_compact_plan out;
	int err;

	if (kv_inherited(pool))
		return -ECHILD;
	if (pool && !goal && !plan) {
		kv_lock(&pool->compact_lock);
		err = (int)flights_cancel(pool);
		kv_unlock(&pool->compact_lock);
		cache_after(pool);
		return err;
	}
	if (!pool || !goal || !plan)
		return -EINVAL;
	err = kv_copy_attr(&out, sizeof(out), plan);
	if (!err)
		err = kv_copy_attr(&ask, sizeof(ask), goal);
	if (!err)
		err = check(pool, &ask);
	if (err)
		return err;
	/* The caller's lists, and the rest from zero. */
	out = (struct kvmm_compact_plan){
		.size = out.size, .moves = out.moves, .drops = out.drops, .empty = out.empty,
		.max_moves = out.moves ? out.max_moves : 0,
		.max_drops = out.drops ? out.max_drops : 0,
		.max_empty = out.empty ? out.max_empty : 0,
	};
	err = run(pool, &ask, !(ask.flags & KVMM_GOAL_PLAN), &out);
	kv_give_sized(plan, &out, sizeof(out));
	return err;
}
