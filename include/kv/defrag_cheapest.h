/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cheapest blocks to clear: of aligned groups, and of windows that may begin anywhere.
 *
 * Both know prices only. The caller says what an item or a group costs, KV_STAYS if something in it
 * cannot go, and takes what is cheapest; no pool, zone or plan is known here.
 */
#ifndef KV_DEFRAG_CHEAPEST_H
#define KV_DEFRAG_CHEAPEST_H

#include <kv/types.h>

#define KV_STAYS	(~0ull)	/* as a price: no price is high enough */

struct kv_group {
	u64 price;
	u32 group;
};

/**
 * struct kv_cheapest - groups in a heap, the cheapest at its top
 * @price_of: what it costs to clear a group now, or KV_STAYS
 * @arg: of @price_of
 * @heap: the caller's, room for @max
 * @nr: in use
 *
 * A price that has risen is noticed when it is at the top. A group whose price has fallen is to be
 * put there once more, and has to be KV_STAYS once it is taken. Of equal prices the last group
 * comes first.
 */
struct kv_cheapest {
	u64 (*price_of)(void *arg, u32 group);
	void *arg;
	struct kv_group *heap;
	u32 max;
	u32 nr;
};

/* Nothing happens if it stays. */
void kv_cheapest_put(struct kv_cheapest *cheapest, u32 group);
/* The cheapest group leaves the heap; @price_of was called for it last. KV_NONE: there is none. */
u32 kv_cheapest_pop(struct kv_cheapest *cheapest);

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
