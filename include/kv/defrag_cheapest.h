/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cheapest blocks to clear: of aligned groups of blocks, and of windows that may begin anywhere.
 *
 * Both know prices only. The caller says what an item or a group costs, KV_STAYS if something in it
 * cannot go, and takes what is cheapest; no pool, zone or plan is known here.
 */
#ifndef KV_DEFRAG_CHEAPEST_H
#define KV_DEFRAG_CHEAPEST_H

#include <kv/types.h>

#define KV_STAYS	(~0ull)	/* as a price: no price is high enough */

/**
 * struct kv_cheapest - groups in a heap, the cheapest at its top
 * @price_of: what it costs to clear a group now, or KV_STAYS
 * @arg: of @price_of
 * @price, @heap, @at: the caller's; room for all groups
 * @nr: in the heap
 *
 * A price that has risen is noticed at the top of the heap. One that falls is not until the caller
 * calls kv_cheapest_reprice(). Of groups that cost the same the last one comes first.
 */
struct kv_cheapest {
	u64 (*price_of)(void *arg, u32 group);
	void *arg;
	u64 *price;	/* by group */
	u32 *heap;	/* groups */
	u32 *at;	/* by group: its place in the heap, or KV_NONE */
	u32 nr;
};

/* No group is in the heap; @nr_groups are known. */
void kv_cheapest_init(struct kv_cheapest *cheapest, u32 nr_groups);
/* The group enters the heap unless it stays. */
void kv_cheapest_add(struct kv_cheapest *cheapest, u32 group);
/* The cheapest group leaves the heap; KV_NONE: the heap is empty. */
u32 kv_cheapest_pop(struct kv_cheapest *cheapest);
/* The next two do nothing if the group is not in the heap. */
void kv_cheapest_reprice(struct kv_cheapest *cheapest, u32 group);
void kv_cheapest_del(struct kv_cheapest *cheapest, u32 group);

/**
 * struct kv_priced - one item of a row of items by ascending address
 * @start, @nr: its blocks
 * @price: of all of it, or KV_STAYS
 */
struct kv_priced {
	u32 start;
	u32 nr;
	u64 price;
};

/**
 * struct kv_window - a window that slides upward over the items
 * @item: item number @i of @nr_items
 * @arg: of @item
 * @want: blocks
 * @start, @price: the window now; @first to @end - 1 are the items with a block in it
 * @nr_stay: of them: those that cannot go
 */
struct kv_window {
	struct kv_priced (*item)(const void *arg, u32 i);
	const void *arg;
	u32 nr_items;
	u32 want;
	u32 start;
	u32 first, end;
	u32 nr_stay;
	u64 price;
};

static inline void kv_window_count(struct kv_window *window, u64 price, int in)
{
	if (price == KV_STAYS)
		window->nr_stay += in;
	else
		window->price += in * price;
}

/*
 * Slide to @start, which is not below where the window is; what it costs to clear it there.
 * Each item is looked at twice in all.
 */
static inline u64 kv_window_slide(struct kv_window *window, u32 start)
{
	u32 end = start + window->want;

	for (; window->end < window->nr_items; window->end++) {
		struct kv_priced item = window->item(window->arg, window->end);

		if (item.start >= end)
			break;
		kv_window_count(window, item.price, 1);
	}
	for (; window->first < window->end; window->first++) {
		struct kv_priced item = window->item(window->arg, window->first);

		if (item.start + item.nr > start)
			break;
		kv_window_count(window, item.price, -1);
	}
	window->start = start;
	return window->nr_stay ? KV_STAYS : window->price;
}

#endif /* KV_DEFRAG_CHEAPEST_H */
