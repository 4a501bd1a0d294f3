/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by planners of goals other than one run; see kv/defrag.h for the goals. */
#ifndef DEFRAG_GOAL_H
#define DEFRAG_GOAL_H

#include <kv/bits.h>
#include <kv/defrag_cheapest.h>

#include "internal.h"

static inline u64 copy_price(const struct kv_plan_req *req, const struct kv_item *item)
{
	const struct kv_prices *prices = req->prices;

	kv_assert(item->nr);
	if (!item->movable)
		return KV_STAYS;
	return prices ? item->nr * prices->copy_ns + prices->move_ns : item->nr;
}

static inline u64 drop_price(const struct kv_plan_req *req, const struct kv_item *item)
{
	if (item->owner || !item->drop || !req->prices)
		return KV_STAYS;
	return item->drop * req->prices->drop_ns;
}

static inline u64 item_price(const struct kv_plan_req *req, const struct kv_item *item)
{
	return min(copy_price(req, item), drop_price(req, item));
}

static inline u32 nr_free_blocks(const struct kv_plan_req *req)
{
	u32 nr = req->nr_blocks;

	for (u32 i = 0; i < req->nr_items; i++)
		nr -= req->items[i].nr;
	return nr;
}

static inline u32 item_end(const struct kv_item *item)
{
	return item->start + item->nr;
}

/* The first item that ends after @block. */
static inline u32 item_after(const struct kv_plan_req *req, u32 block)
{
	u32 lo = 0, left = req->nr_items;

	kv_assert(block <= req->nr_blocks);
	while (left) {
		u32 half = left / 2;

		if (item_end(&req->items[lo + half]) <= block) {
			lo += half + 1;
			left -= half + 1;
		} else {
			left = half;
		}
	}
	return lo;
}

/*
 * Ascending by their upper halves; equal ones stay in order. @spare is as long. Bytes in which all
 * are alike cost nothing.
 */
void plan_sort(u64 *words, u64 *spare, u32 nr);

/* One that is lost; there is room. */
void plan_drop(const struct kv_plan_req *req, struct kv_plan *plan, const struct kv_item *item);
/* One that goes to @dst; there is room. */
void plan_move(const struct kv_plan_req *req, struct kv_plan *plan, const struct kv_item *item,
	       u32 dst);

/*
 * The next part of scratch memory at @base, of which @bytes are taken; NULL if @base is: then the
 * caller only wants to know how many bytes it takes.
 */
static inline void *scratch_take(char *base, size_t *bytes, size_t nr, size_t size)
{
	size_t at = *bytes;

	kv_assert(!(*bytes & 7));
	*bytes = kv_align_up(at + nr * size, 8);
	return base ? base + at : NULL;
}

/* Nothing is planned after all. */
static inline void plan_forget(struct kv_plan *plan)
{
	plan->nr_moves = plan->nr_drops = plan->nr_blocks = plan->saved = 0;
	plan->cost_ns = 0;
}

/* The price of another planner's plan. */
static inline u64 moves_price(const struct kv_plan_req *req, const struct kv_plan *plan)
{
	const struct kv_prices *prices = req->prices;

	kv_assert(plan->nr_moves <= plan->max_moves);
	return prices ? plan->nr_blocks * prices->copy_ns + plan->nr_moves * prices->move_ns :
			plan->nr_blocks;
}

/* @req->want pageblocks by clearing them. plan_clear_scratch() bytes. */
int plan_pageblocks(const struct kv_plan_req *req, struct kv_plan *plan, void *scratch);
/* A run of @req->want by clearing one window; only if it costs less than @below. As much. */
int plan_evacuate(const struct kv_plan_req *req, struct kv_plan *plan, u64 below, void *scratch);
size_t plan_clear_scratch(const struct kv_plan_req *req);

int plan_shorten(const struct kv_plan_req *req, struct kv_plan *plan, void *scratch);
size_t plan_shorten_scratch(const struct kv_plan_req *req);

/* -EAGAIN without a move: there is no place yet, but a run of @req->want blocks would be one. */
int plan_gather(const struct kv_plan_req *req, struct kv_plan *plan, void *scratch, u32 *nr);
size_t plan_gather_scratch(const struct kv_plan_req *req);

#endif /* DEFRAG_GOAL_H */
