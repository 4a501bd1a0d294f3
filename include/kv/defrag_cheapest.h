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
 * @first, @end: items first..end - 1 have a block in the window, or what is below them stays
 * @low, @next: items @first and @end, as they were when the window came to them
 * @open_from: the end of the last item seen that stays
 * @price: of the items in the window
 */
struct kv_window {
	struct kv_priced (*item)(const void *arg, u32 i);
	const void *arg;
	u32 nr_items;
	u32 want;
	u32 first, end;
	struct kv_priced low, next;
	u32 open_from;
	u64 price;
};

static inline struct kv_priced kv_window_item(const struct kv_window *window, u32 i)
{
	return i < window->nr_items ? window->item(window->arg, i) :
				      (struct kv_priced){ .start = KV_NONE };
}

/*
 * Slide to @start, which is not below where the window is; what it costs to clear it there. Each
 * item is looked at twice. If it costs something else the second time the sum is wrong, but not
 * below 0, until the window is empty or an item stays.
 */
static inline u64 kv_window_slide(struct kv_window *window, u32 start)
{
	if (!window->end)
		window->low = window->next = kv_window_item(window, 0);
	while (window->next.start < start + window->want) {
		struct kv_priced in = window->next;

		window->next = kv_window_item(window, ++window->end);
		window->price += in.price;
		if (in.price != KV_STAYS)
			continue;
		window->first = window->end;
		window->low = window->next;
		window->open_from = in.start + in.nr;
		window->price = 0;
	}
	while (window->first < window->end && window->low.start + window->low.nr <= start) {
		window->price -= min(window->price, window->low.price);
		window->low = kv_window_item(window, ++window->first);
	}
	if (window->first == window->end)
		window->price = 0;
	return start < window->open_from ? KV_STAYS : window->price;
}

#endif /* KV_DEFRAG_CHEAPEST_H */
