// SPDX-License-Identifier: Apache-2.0
/*
 * The cheapest groups first, as in garbage-first collectors; see kv/defrag_cheapest.h.
 *
 * A binary heap that knows where each group is, so that the price of any group can change.
 */
#include <string.h>

#include <kv/defrag_cheapest.h>
#include <kv/err.h>

static bool is_before(const struct kv_cheapest *cheapest, u32 a, u32 b)
{
	u64 price_a = cheapest->price[a], price_b = cheapest->price[b];

	return price_a != price_b ? price_a < price_b : a > b;
}

static void heap_set(struct kv_cheapest *cheapest, u32 i, u32 group)
{
	cheapest->heap[i] = group;
	cheapest->at[group] = i;
}

static void heap_up(struct kv_cheapest *cheapest, u32 i)
{
	u32 moved = cheapest->heap[i];

	for (; i && is_before(cheapest, moved, cheapest->heap[(i - 1) / 2]); i = (i - 1) / 2)
		heap_set(cheapest, i, cheapest->heap[(i - 1) / 2]);
	heap_set(cheapest, i, moved);
}

static void heap_down(struct kv_cheapest *cheapest, u32 i)
{
	const u32 *heap = cheapest->heap;
	u32 moved = heap[i], kid;

	for (; (kid = 2 * i + 1) < cheapest->nr; i = kid) {
		if (kid + 1 < cheapest->nr && is_before(cheapest, heap[kid + 1], heap[kid]))
			kid++;
		if (!is_before(cheapest, heap[kid], moved))
			break;
		heap_set(cheapest, i, heap[kid]);
	}
	heap_set(cheapest, i, moved);
}

static void set_price(struct kv_cheapest *cheapest, u32 group, u64 price)
{
	cheapest->price[group] = price;
	heap_up(cheapest, cheapest->at[group]);
	heap_down(cheapest, cheapest->at[group]);
}

void kv_cheapest_init(struct kv_cheapest *cheapest, u32 nr_groups)
{
	cheapest->nr = 0;
	memset(cheapest->at, 0xff, nr_groups * sizeof(*cheapest->at));	/* KV_NONE */
}

void kv_cheapest_add(struct kv_cheapest *cheapest, u32 group)
{
	u64 price = cheapest->price_of(cheapest->arg, group);

	KV_BUG_ON(cheapest->at[group] != KV_NONE);
	if (price == KV_STAYS)
		return;
	heap_set(cheapest, cheapest->nr++, group);
	set_price(cheapest, group, price);
}

void kv_cheapest_del(struct kv_cheapest *cheapest, u32 group)
{
	u32 i = cheapest->at[group], last;

	if (i == KV_NONE)
		return;
	KV_BUG_ON(i >= cheapest->nr || cheapest->heap[i] != group);
	cheapest->at[group] = KV_NONE;
	last = cheapest->heap[--cheapest->nr];
	if (last == group)
		return;
	heap_set(cheapest, i, last);
	set_price(cheapest, last, cheapest->price[last]);
}

void kv_cheapest_reprice(struct kv_cheapest *cheapest, u32 group)
{
	u64 price;

	if (cheapest->at[group] == KV_NONE)
		return;
	price = cheapest->price_of(cheapest->arg, group);
	if (price == KV_STAYS)
		kv_cheapest_del(cheapest, group);
	else
		set_price(cheapest, group, price);
}

/* A group that costs more than when it was priced last goes down to where it belongs. */
u32 kv_cheapest_pop(struct kv_cheapest *cheapest)
{
	while (cheapest->nr) {
		u32 top = cheapest->heap[0];

		kv_cheapest_reprice(cheapest, top);
		if (cheapest->at[top] != 0)
			continue;
		kv_cheapest_del(cheapest, top);
		return top;
	}
	return KV_NONE;
}
