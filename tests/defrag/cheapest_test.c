// SPDX-License-Identifier: Apache-2.0
/* The cheapest groups and windows, against a look at all of them. */
#include <kv/defrag_cheapest.h>

#include "tests/support/test.h"

#define NR	40u

static struct kv_priced item[NR];

static u64 price_of(void *arg, u32 group)
{
	return ((struct kv_priced *)arg)[group].price;
}

static struct kv_priced item_of(const void *arg, u32 i)
{
	return ((const struct kv_priced *)arg)[i];
}

static u64 any_price(u32 *rng)
{
	return rand_r(rng) % 8 ? rand_r(rng) % 20 : KV_STAYS;
}

Test(cheapest, comes_first_though_prices_change)
{
	struct kv_group heap[3 * NR];
	u32 rng = 7, best = 0;

	for (u32 round = 0; round < 500; round++) {
		struct kv_cheapest cheapest = { price_of, item, heap, 3 * NR, 0 };

		for (u32 i = 0; i < NR; kv_cheapest_put(&cheapest, i++))
			item[i].price = any_price(&rng);
		for (best = 0; best != KV_NONE;) {
			u32 other = rand_r(&rng) % NR;

			if (item[other].price != KV_STAYS && cheapest.nr < cheapest.max) {
				item[other].price = any_price(&rng);
				kv_cheapest_put(&cheapest, other);
			}
			best = KV_NONE;
			for (u32 i = 0; i < NR; i++)
				if (item[i].price < KV_STAYS &&
				    (best == KV_NONE || item[i].price <= item[best].price))
					best = i;
			cr_assert_eq(kv_cheapest_pop(&cheapest), best, "round %u", round);
			if (best != KV_NONE)
				item[best].price = KV_STAYS;
		}
	}
}

Test(cheapest, a_window_forgets_prices_that_change_at_the_next_item_that_stays)
{
	struct kv_priced five[] = { { 0, 1, 5 }, { 1, 1, 7 }, { 2, 1, KV_STAYS }, { 3, 1, 4 }, { 4, 1, 3 } };
	struct kv_window window = { .item = item_of, .arg = five, .nr_items = 5, .want = 2 };

	cr_expect_eq(kv_window_slide(&window, 0), 12);
	five[0].price = KV_STAYS;
	cr_expect_eq(kv_window_slide(&window, 1), KV_STAYS);
	cr_expect_eq(kv_window_slide(&window, 3), 7);
}

Test(cheapest, a_window_costs_what_lies_in_it)
{
	u32 rng = 9;

	for (u32 round = 0, end = 0; round < 500; round++, end = 0) {
		struct kv_window window = { .item = item_of, .arg = item, .nr_items = NR,
					    .want = 1 + rand_r(&rng) % 12 };

		for (u32 i = 0; i < NR; end = item[i].start + item[i].nr, i++)
			item[i] = (struct kv_priced){ end + rand_r(&rng) % 3, 1 + rand_r(&rng) % 4,
						      any_price(&rng) };
		for (u32 at = 0; at + window.want <= end; at += 1 + rand_r(&rng) % 5) {
			u64 price = kv_window_slide(&window, at), sum = 0;

			for (u32 i = 0; i < NR && sum != KV_STAYS; i++)
				if (item[i].start < at + window.want &&
				    item[i].start + item[i].nr > at)
					sum = item[i].price < KV_STAYS ? sum + item[i].price :
									 KV_STAYS;
			cr_assert_eq(price, sum, "round %u, window at %u", round, at);
		}
	}
}
