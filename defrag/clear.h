/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Areas that are to be cleared: what lies in them is copied to holes outside, or lost, whichever
 * costs less.
 *
 * The longest item that must not be lost goes first, since it has the least choice; then the items
 * that may be lost, the dearest first: of those, the ones for which no hole is left are lost.
 */
#ifndef DEFRAG_CLEAR_H
#define DEFRAG_CLEAR_H

#include "bins.h"
#include "goal.h"

struct clearing {
	const struct kv_plan_req *req;
	struct kv_plan *plan;
	struct kvmm_extent *area;	/* by address, apart from each other */
	u32 nr_areas;
	struct bins *bins;
	struct bin_hole *room;
	u64 *order;			/* of items that are placed: key | item */
	u64 *spare;
};

/* Lays @clear out for up to @max_areas; see scratch_take(). */
void clear_lay_out(struct clearing *clear, const struct kv_plan_req *req, u32 max_areas,
		   char *base, size_t *bytes);

/*
 * A plan of its own for the areas. An item that fits nowhere and must not be lost is given to
 * @failed, which says whether to go on; NULL: it ends there. Returns true if all areas are clear.
 */
bool clear_areas(struct clearing *clear,
		 bool (*failed)(void *arg, const struct kv_item *item), void *arg);

/* What an item costs: the lesser of its copy and its loss. */
static inline struct kv_priced clear_item(const void *arg, u32 i)
{
	const struct kv_plan_req *req = arg;
	const struct kv_item *item = &req->items[i];

	return (struct kv_priced){ item->start, item->nr, item_price(req, item) };
}

#endif /* DEFRAG_CLEAR_H */
