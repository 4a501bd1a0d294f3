// SPDX-License-Identifier: Apache-2.0
/*
 * "slide": the cheapest way to join neighbouring holes by sliding what lies between them.
 *
 * This is what one gets without looking for other places: every run between hole i and hole j
 * moves down a little, and usually overlaps itself while it does. It always works where enough
 * blocks are free between two items that cannot move, and it costs the most. It stays as the
 * reference that the window planner is measured against, and as its last resort.
 */
#include "internal.h"

bool plan_add(const struct kv_plan_req *req, struct kv_plan *plan, u32 src, u32 dst, u32 nr)
{
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

/* Slide the items [from, to) down so that the first begins at @dst; returns the end of the last. */
static u32 plan_pack(const struct kv_plan_req *req, struct kv_plan *plan, u32 from, u32 to, u32 dst)
{
	u32 i;

	for (i = from; i < to; i++) {
		if (!plan_add(req, plan, req->items[i].start, dst, req->items[i].nr))
			dst = req->items[i].start;	/* over budget: it stays */
		dst += req->items[i].nr;
	}
	return dst;
}

int plan_pack_all(const struct kv_plan_req *req, struct kv_plan *plan)
{
	u32 i, dst = 0;

	for (i = 0; i < req->nr_items; i++) {
		if (req->items[i].movable)
			dst = plan_pack(req, plan, i, i + 1, dst);
		else
			dst = req->items[i].start + req->items[i].nr;
	}
	plan->gap = (struct kvmm_extent){ dst, req->nr_blocks - dst };
	return plan->nr_moves ? 0 : -EALREADY;
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
	u32 gap;

	if (stretch->first == KV_NONE || stretch->last - stretch->first > plan->max_moves)
		return -ENOSPC;
	if (req->max_blocks && stretch->cost > req->max_blocks)
		return -ENOSPC;

	gap = plan_pack(req, plan, stretch->first, stretch->last,
			hole_start(req, stretch->first));
	plan->gap = (struct kvmm_extent){ gap, hole_end(req, stretch->last) - gap };
	return 0;
}

static int slide_plan(const struct kv_plan_req *req, struct kv_plan *plan, void *scratch)
{
	struct stretch cheapest;

	if (!req->want)
		return req->apart ? -ENOSPC : plan_pack_all(req, plan);

	cheapest = plan_cheapest_stretch(req);
	if (req->apart && cheapest.cost)	/* what slides comes to lie where others lay */
		return -ENOSPC;
	return cheapest.cost ? plan_slide(req, plan, &cheapest) : -EALREADY;
}

static size_t slide_scratch_bytes(u32 nr_items)
{
	return 0;
}

const struct kv_planner_ops kv_planner_slide = {
	.name		= "slide",
	.scratch_bytes	= slide_scratch_bytes,
	.plan		= slide_plan,
};
