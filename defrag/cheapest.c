// SPDX-License-Identifier: Apache-2.0
/*
 * The cheapest groups first, as in garbage-first collectors; see kv/defrag_cheapest.h.
 *
 * A binary heap of prices as they were when they were asked for. A price that is out of date is
 * found at the top, and a group with a fallen price is there a second time, so that no entry is
 * ever looked for.
 */
#include <kv/defrag_cheapest.h>
#include <kv/err.h>

static bool is_before(const struct kv_group *a, const struct kv_group *b)
{
	return a->price != b->price ? a->price < b->price : a->group > b->group;
}

static void put(struct kv_cheapest *cheapest, struct kv_group group)
{
	struct kv_group *heap = cheapest->heap;
	u32 i = cheapest->nr++;

	kv_assert(group.price != KV_STAYS);
	KV_BUG_ON(cheapest->nr > cheapest->max);
	for (; i && is_before(&group, &heap[(i - 1) / 2]); i = (i - 1) / 2)
		heap[i] = heap[(i - 1) / 2];
	heap[i] = group;
}

static struct kv_group take_top(struct kv_cheapest *cheapest)
{
	struct kv_group *heap = cheapest->heap, top = heap[0], last = heap[--cheapest->nr];
	u32 i = 0, kid;

	for (; (kid = 2 * i + 1) < cheapest->nr; i = kid) {
		if (kid + 1 < cheapest->nr && is_before(&heap[kid + 1], &heap[kid]))
			kid++;
		if (!is_before(&heap[kid], &last))
			break;
		heap[i] = heap[kid];
	}
	heap[i] = last;
	return top;
}

void kv_cheapest_put(struct kv_cheapest *cheapest, u32 group)
{
	u64 price = cheapest->price_of(cheapest->arg, group);

	if (price != KV_STAYS)
		put(cheapest, (struct kv_group){ price, group });
}

u32 kv_cheapest_pop(struct kv_cheapest *cheapest)
{
	while (cheapest->nr) {
		struct kv_group top = take_top(cheapest);
		u64 price = cheapest->price_of(cheapest->arg, top.group);

		if (price <= top.price)
			return top.group;
		if (price == KV_STAYS)
			continue;
		top.price = price;
		put(cheapest, top);
	}
	return KV_NONE;
}
