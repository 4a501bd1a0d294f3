// SPDX-License-Identifier: Apache-2.0
/* Placing what lies in areas that are to be cleared; see clear.h. */
#include "clear.h"

/* A hole is cut by each area at most once. */
void clear_lay_out(struct clearing *clear, const struct kv_plan_req *req, u32 max_areas,
		   char *base, size_t *bytes)
{
	size_t nr = req->nr_items;

	clear->req = req;
	clear->area = scratch_take(base, bytes, max_areas, sizeof(*clear->area));
	clear->bins = scratch_take(base, bytes, 1, sizeof(*clear->bins));
	clear->room = scratch_take(base, bytes, nr + 1 + max_areas, sizeof(*clear->room));
	clear->order = scratch_take(base, bytes, nr, sizeof(*clear->order));
	clear->spare = scratch_take(base, bytes, nr, sizeof(*clear->spare));
}

static u32 area_end(const struct clearing *clear, u32 i)
{
	return clear->area[i].start + clear->area[i].nr;
}

/* The parts of holes outside of all areas, the last one first: the lowest is taken first. */
static void add_holes(struct clearing *clear)
{
	u32 left = clear->nr_areas;

	bins_init(clear->bins, clear->room);
	for (u32 i = clear->req->nr_items + 1; i-- > 0;) {
		u32 start = hole_start(clear->req, i), end = hole_end(clear->req, i);

		while (left && clear->area[left - 1].start >= end)
			left--;
		for (u32 k = left; k && area_end(clear, k - 1) > start; k--) {
			if (area_end(clear, k - 1) < end)
				bins_add(clear->bins, area_end(clear, k - 1),
					 end - area_end(clear, k - 1));
			end = max(start, clear->area[k - 1].start);
		}
		bins_add(clear->bins, start, end - start);
	}
}

/* Items in the areas that are better copied, in the order in which they are placed: how many. */
static u32 line_up(struct clearing *clear)
{
	const struct kv_plan_req *req = clear->req;
	u32 nr = 0, area = 0;

	for (u32 i = 0; i < req->nr_items; i++) {
		const struct kv_item *item = &req->items[i];
		u64 drop = drop_price(req, item);
		u32 rank;

		while (area < clear->nr_areas && area_end(clear, area) <= item->start)
			area++;
		if (area == clear->nr_areas)
			break;
		if (clear->area[area].start >= item_end(item))
			continue;
		if (drop < copy_price(req, item)) {
			plan_drop(req, clear->plan, item);
			continue;
		}
		rank = drop == KV_STAYS ? BIT(31) | item->nr : min(drop, (u64)BIT(31) - 1);
		clear->order[nr++] = (u64)~rank << 32 | i;
	}
	plan_sort(clear->order, clear->spare, nr);
	return nr;
}

/* To a hole, or lost if there is none and it may be lost; false: neither. */
static bool place(struct clearing *clear, const struct kv_item *item)
{
	u32 dst = bins_take(clear->bins, item->nr);

	if (dst != KV_NONE)
		plan_move(clear->req, clear->plan, item, dst);
	else if (drop_price(clear->req, item) != KV_STAYS)
		plan_drop(clear->req, clear->plan, item);
	else
		return false;
	return true;
}

bool clear_areas(struct clearing *clear,
		 bool (*failed)(void *arg, const struct kv_item *item), void *arg)
{
	bool all = true;
	u32 nr;

	plan_forget(clear->plan);
	add_holes(clear);
	nr = line_up(clear);
	for (u32 k = 0; k < nr; k++) {
		const struct kv_item *item = &clear->req->items[(u32)clear->order[k]];

		if (place(clear, item))
			continue;
		all = false;
		if (!failed || !failed(arg, item))
			break;
	}
	return all;
}
