// SPDX-License-Identifier: Apache-2.0
/* One door to the planners of all goals, and what they share. */
#include <string.h>

#include "goal.h"

#define NR_DIGITS	256u
#define NR_PASSES	8u

/* One pass of a radix sort by byte @pass; false: all are alike there. */
static bool sort_pass(const u64 *words, u64 *sorted, u32 nr, u32 pass)
{
	u32 at[NR_DIGITS + 1] = { 0 }, shift = 8 * pass, i;

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

	for (u32 pass = 0; nr && pass < NR_PASSES; pass++) {
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
	plan->drops[plan->nr_drops++] = (struct kvmm_extent){ item->start, item->nr };
	plan->cost_ns += drop_price(req, item);
}

void plan_move(const struct kv_plan_req *req, struct kv_plan *plan, const struct kv_item *item,
	       u32 dst)
{
	plan->moves[plan->nr_moves++] = (struct kv_move){ item->start, dst, item->nr };
	plan->nr_blocks += item->nr;
	plan->cost_ns += copy_price(req, item);
}

size_t kv_goal_scratch(const struct kv_planner_ops *runs, const struct kv_plan_req *req)
{
	switch (req->goal) {
	case KV_GOAL_RUN:
		return runs->scratch_bytes(req->nr_items);
	case KV_GOAL_PAGEBLOCKS:
		return plan_pageblocks_scratch(req);
	default:
		return 0;
	}
}

int kv_goal_plan(const struct kv_planner_ops *runs, const struct kv_plan_req *req,
		 struct kv_plan *plan, void *scratch)
{
	switch (req->goal) {
	case KV_GOAL_RUN:
		return runs->plan(req, plan, scratch);
	case KV_GOAL_PAGEBLOCKS:
		return plan_pageblocks(req, plan, scratch);
	default:
		return -EINVAL;
	}
}
