// SPDX-License-Identifier: Apache-2.0
/*
 * "slide": the cheapest way to join neighbouring holes by sliding the items between them.
 *
 * This is what one gets without looking for other places: every run between hole i and hole j
 * moves down a little, and usually overlaps itself while it does. It always works where enough
 * blocks are free between two items that cannot move, and it costs the most. It stays as the
 * reference that the window planner is measured against, and as its last resort.
 */
#include "internal.h"

bool plan_add(const struct kv_plan_req *req, struct kv_plan *plan, u32 src, u32 dst, u32 nr)
{
	kv_assert(nr && src + nr <= req->nr_blocks && dst + nr <= req->nr_blocks);
	if (src == dst)
		return true;
	if (plan->nr_moves == plan->max_moves)
		return false;
	if (req->max_blocks && plan->nr_blocks + nr > req->max_blocks)
		return false;
	plan->moves[plan->nr_moves++] = (struct kv_move){ src, dst, nr };
	plan->nr_blocks += nr;
	return true;
}

/*
 * For each hole in turn, the shortest stretch from there on with enough free blocks: both ends
 * only ever move up. A stretch never reaches across an item that cannot move.
 */
struct stretch plan_cheapest_stretch(const struct kv_plan_req *req)
{
	struct stretch best = { KV_NONE, KV_NONE, ~0ull };
	u32 i, j = 0;
	u64 free = hole_nr(req, 0), cost = 0;

	kv_assert(req->want);
	for (i = 0; i <= req->nr_items; i++) {
		if (j < i) {
			j = i;
			free = hole_nr(req, i);
			cost = 0;
		}
		while (free < req->want && j < req->nr_items && req->items[j].movable) {
			cost += req->items[j].nr;
			free += hole_nr(req, ++j);
		}
		if (free >= req->want && cost < best.cost && hole_nr(req, i))
			best = (struct stretch){ i, j, cost };
		if (j > i) {		/* hole i and item i leave the stretch */
			free -= hole_nr(req, i);
			cost -= req->items[i].nr;
		}
	}
	return best;
}

int plan_slide(const struct kv_plan_req *req, struct kv_plan *plan, const struct stretch *stretch)
{
	u32 gap = stretch->first == KV_NONE ? 0 : hole_start(req, stretch->first);

	kv_assert(stretch->first == KV_NONE || stretch->last <= req->nr_items);
	if (stretch->first == KV_NONE || stretch->last - stretch->first > plan->max_moves)
		return -ENOSPC;
	if (req->max_blocks && stretch->cost > req->max_blocks)
		return -ENOSPC;

	for (u32 i = stretch->first; i < stretch->last; i++) {
		plan_add(req, plan, req->items[i].start, gap, req->items[i].nr);
		gap += req->items[i].nr;
	}
	plan->gap = (struct kvmm_extent){ gap, hole_end(req, stretch->last) - gap };
	return 0;
}

static int slide_plan(const struct kv_plan_req *req, struct kv_plan *plan, void *scratch)
{
	struct stretch cheapest;

	if (!req->want || req->runs)
		return req->apart ? -ENOSPC : plan_pack(req, plan, scratch);

	cheapest = plan_cheapest_stretch(req);
	if (req->apart && cheapest.cost)	/* the items come to lie where others lay */
		return -ENOSPC;
	return cheapest.cost ? plan_slide(req, plan, &cheapest) : -EALREADY;
}

const struct kv_planner_ops kv_planner_slide = {
	.name		= "slide",
	.scratch_bytes	= plan_pack_scratch,
	.plan		= slide_plan,
};
