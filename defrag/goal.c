// SPDX-License-Identifier: Apache-2.0
/* One door to the planners of all goals, and their shared parts. */
#include <string.h>

#include "goal.h"

#define NR_DIGITS	256u
#define NR_PASSES	8u	/* of the bytes of a word */

/* One pass of a radix sort by byte @pass; false: all are alike there. */
static bool sort_pass(const u64 *words, u64 *sorted, u32 nr, u32 pass)
{
	u32 at[NR_DIGITS + 1] = { 0 }, shift = 8 * pass, i;

	kv_assert(nr && pass < NR_PASSES);
	for (i = 0; i < nr; i++)
		at[(words[i] >> shift) % NR_DIGITS + 1]++;
	if (at[(words[0] >> shift) % NR_DIGITS + 1] == nr)
		return false;
	for (i = 1; i < NR_DIGITS; i++)
		at[i] += at[i - 1];
	for (i = 0; i < nr; i++)
		sorted[at[(words[i] >> shift) % NR_DIGITS]++] = words[i];
	return true;
}

void plan_sort(u64 *words, u64 *spare, u32 nr)
{
	u64 *from = words, *to = spare;

	for (u32 pass = NR_PASSES / 2; nr && pass < NR_PASSES; pass++) {
		u64 *swap = from;

		if (!sort_pass(from, to, nr, pass))
			continue;
		from = to;
		to = swap;
	}
	if (from != words)
		memcpy(words, from, nr * sizeof(*words));
}

void plan_drop(const struct kv_plan_req *req, struct kv_plan *plan, const struct kv_item *item)
{
	kv_assert(plan->nr_drops < plan->max_drops);
	plan->drops[plan->nr_drops++] = (struct kvmm_extent){ item->start, item->nr };
	plan->cost_ns += drop_price(req, item);
}

void plan_move(const struct kv_plan_req *req, struct kv_plan *plan, const struct kv_item *item,
	       u32 dst)
{
	kv_assert(plan->nr_moves < plan->max_moves);
	plan->moves[plan->nr_moves++] = (struct kv_move){ item->start, dst, item->nr };
	plan->nr_blocks += item->nr;
	plan->cost_ns += copy_price(req, item);
}

/* ---- a run ---- */

static bool may_lose(const struct kv_plan_req *req)
{
	for (u32 i = 0; req->prices && i < req->nr_items; i++)
		if (!req->items[i].owner && req->items[i].drop)
			return true;
	return false;
}

/*
 * The planner of runs knows copies only, and looks at windows of 64 items at most. So it may be
 * cheaper to clear another window, some of it by losing the blocks there, or it is the only way.
 * The plan it makes is the price to be beaten.
 */
static int plan_run(const struct kv_planner_ops *runs, const struct kv_plan_req *req,
		    struct kv_plan *plan, void *scratch)
{
	struct kv_plan first;
	int err = runs->plan(req, plan, scratch);
	u64 price = err ? KV_STAYS : moves_price(req, plan);

	kv_assert(req->goal == KV_GOAL_RUN);
	plan->cost_ns = err ? 0 : price;
	if (!req->want || (err && err != -ENOSPC) || (!may_lose(req) && !(err && req->apart)))
		return err;
	if (nr_free_blocks(req) < req->want && !may_lose(req))
		return err;	/* the zone has not got so many blocks */
	first = *plan;
	if (!plan_evacuate(req, plan, price, scratch))
		return 0;
	if (err)
		return err;
	/* Trying others has overwritten the moves: once more. */
	*plan = first;
	plan_forget(plan);
	err = runs->plan(req, plan, scratch);
	plan->cost_ns = price;
	return err;
}

/* ---- a sequence ---- */

/* It gets its run first, and comes there by the next plan. */
static int plan_gathering(const struct kv_planner_ops *runs, const struct kv_plan_req *req,
			  struct kv_plan *plan, void *scratch)
{
	struct kv_plan_req run = *req;
	u32 nr;
	int err = plan_gather(req, plan, scratch, &nr);

	kv_assert(req->goal == KV_GOAL_GATHER);
	if (err != -EAGAIN)
		return err;
	run.goal = KV_GOAL_RUN;
	run.want = nr;
	err = plan_run(runs, &run, plan, scratch);
	return err ? err : -EAGAIN;
}

/* ---- all of them ---- */

static size_t run_scratch(const struct kv_planner_ops *runs, const struct kv_plan_req *req)
{
	return max(runs->scratch_bytes(req->nr_items), plan_clear_scratch(req));
}

size_t kv_goal_scratch(const struct kv_planner_ops *runs, const struct kv_plan_req *req)
{
	switch (req->goal) {
	case KV_GOAL_RUN:
		return run_scratch(runs, req);
	case KV_GOAL_PAGEBLOCKS:
		return plan_clear_scratch(req);
	case KV_GOAL_SHORTEN:
		return plan_shorten_scratch(req);
	default:
		return max(run_scratch(runs, req), plan_gather_scratch(req));
	}
}

int kv_goal_plan(const struct kv_planner_ops *runs, const struct kv_plan_req *req,
		 struct kv_plan *plan, void *scratch)
{
	switch (req->goal) {
	case KV_GOAL_RUN:
		return plan_run(runs, req, plan, scratch);
	case KV_GOAL_PAGEBLOCKS:
		return plan_pageblocks(req, plan, scratch);
	case KV_GOAL_SHORTEN:
		return plan_shorten(req, plan, scratch);
	case KV_GOAL_GATHER:
		return plan_gathering(runs, req, plan, scratch);
	default:
		return -EINVAL;
	}
}
