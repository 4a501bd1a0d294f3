// SPDX-License-Identifier: Apache-2.0
/* glfu: the table of counts, as it grows and as it cannot. */
#include "research/policies/glfu.c"
#include "tests/evict/order.h"
#include "tests/support/fake_env.h"

TestSuite(evict_glfu);

ORDER_TEST(evict_glfu, takes_the_key_of_fewest_requests_first, &kv_evict_glfu, 8)
{
	order_seen(order, "abc");
	order_seen(order, "ac");
	order_seen(order, "a");
	order_enter(order, "acbdE");
	order_expect(order, "edbca");
}

ORDER_TEST(evict_glfu, counts_a_request_once_however_often_it_names_a_key, &kv_evict_glfu, 8)
{
	order_seen(order, "aaaa");
	order_seen(order, "b");
	order_seen(order, "b");
	order_enter(order, "ba");
	order_expect(order, "ab");
}

ORDER_TEST(evict_glfu, looks_the_count_up_when_the_block_is_put_back, &kv_evict_glfu, 8)
{
	order_seen(order, "ab");
	order_enter(order, "ab");
	order_seen(order, "a");
	order_expect(order, "ab");
	order_leave(order, "a");
	order_enter(order, "a");
	order_expect(order, "ba");
}

/* One request for each of @nr keys, and a second one for every third. */
static void see_many(struct order *order, u32 nr)
{
	for (u32 i = 0; i < nr; i++) {
		kvmm_key_t key = order_key(i);

		order->ops->seen(order->policy, &key, 1);
		if (i % 3 == 0)
			order->ops->seen(order->policy, &key, 1);
	}
}

static void expect_counts(const struct key_counts *counts, u32 nr)
{
	cr_assert_eq(counts->nr, nr);
	for (u32 i = 0; i < nr; i++) {
		kvmm_key_t key = order_key(i);

		cr_assert_eq(requests_with(counts, &key), i % 3 ? 1 : 2);
	}
}

ORDER_TEST(evict_glfu, keeps_all_counts_while_the_table_grows, &kv_evict_glfu, 8)
{
	struct heap *heap;

	see_many(order, 20 * MIN_SLOTS);
	heap = order->policy;
	cr_expect_gt(heap->counts->now.nr_slots, 20 * MIN_SLOTS);
	expect_counts(heap->counts, 20 * MIN_SLOTS);
}

static void see_once(struct order *order, u32 nth)
{
	kvmm_key_t key = order_key(nth);

	order->ops->seen(order->policy, &key, 1);
}

/* Every key is found at every moment of the move, in whichever table it is. */
ORDER_TEST(evict_glfu, keeps_all_counts_between_two_tables, &kv_evict_glfu, 8)
{
	const u32 room = room_in(MIN_SLOTS);
	struct key_counts *counts;
	u32 steps = 0;

	see_many(order, room);
	counts = ((struct heap *)order->policy)->counts;
	cr_assert_eq(counts->old.nr_slots, 0);
	see_once(order, room + 1);
	cr_assert_eq(counts->old.nr_slots, MIN_SLOTS);
	cr_expect_eq(counts->moved, MOVES_A_KEY);

	for (; counts->old.nr_slots; steps++) {
		see_once(order, room + 1);
		cr_assert_eq(order->ops->check(order->policy), 0);
		for (u32 i = 0; i < room; i++) {
			kvmm_key_t key = order_key(i);

			cr_assert_eq(requests_with(counts, &key), i % 3 ? 1 : 2);
		}
	}
	cr_expect_eq(steps, MIN_SLOTS / MOVES_A_KEY - 1);
}

/* A request that needs a third table while the second one is still being filled. */
ORDER_TEST(evict_glfu, keeps_all_counts_when_it_grows_again_at_once, &kv_evict_glfu, 8)
{
	static kvmm_key_t keys[4 * MIN_SLOTS];
	const u32 room = room_in(MIN_SLOTS);
	struct key_counts *counts;

	see_many(order, room);
	see_once(order, room);
	counts = ((struct heap *)order->policy)->counts;
	cr_assert_neq(counts->old.nr_slots, 0);
	for (u32 i = 0; i < ARRAY_SIZE(keys); i++)
		keys[i] = order_key(room + 1 + i);
	order->ops->seen(order->policy, keys, ARRAY_SIZE(keys));
	cr_expect_eq(order->ops->check(order->policy), 0);
	cr_expect_eq(counts->nr, room + 1 + ARRAY_SIZE(keys));
	for (u32 i = 0; i < room; i++) {
		kvmm_key_t key = order_key(i);

		cr_assert_eq(requests_with(counts, &key), i % 3 ? 1 : 2);
	}
}

/* All allocations up to the n-th succeed, none after it. */
static void expect_counts_as_far_as_known(u32 nth)
{
	struct fake_env fake;
	struct order order;
	struct heap *heap;
	u32 known = 0;

	fake_env_install(&fake);
	order_init(&order, &kv_evict_glfu, 8);
	heap = order.policy;
	fake_env_fail(&fake, nth, true);
	see_many(&order, 3 * MIN_SLOTS);
	cr_expect_eq(order.ops->check(order.policy), 0);
	for (u32 i = 0; i < 3 * MIN_SLOTS; i++) {
		kvmm_key_t key = order_key(i);
		u32 nr = requests_with(heap->counts, &key);

		cr_expect(nr == 0 || nr == (i % 3 ? 1 : 2));
		known += nr != 0;
	}
	cr_expect_eq(known, nth <= 2 ? 0 : min(room_in(MIN_SLOTS << (nth - 3)), 3 * MIN_SLOTS));
	order_enter(&order, "aBc");
	cr_expect_eq(order.ops->pick(order.policy), 1);
	order_exit(&order);
	cr_expect_eq(fake.nr_live, 0);
	cr_expect_eq(fake.nr_bad_frees, 0);
	fake_env_remove(&fake);
}

/* The counter itself, its first table, then two larger ones; the fifth attempt is never made. */
Test(evict_glfu, knows_less_but_nothing_wrong_without_memory)
{
	for (u32 nth = 1; nth <= 5; nth++)
		expect_counts_as_far_as_known(nth);
}

Test(evict_glfu, catches_up_when_there_is_memory_again)
{
	struct fake_env fake;
	struct order order;

	fake_env_install(&fake);
	order_init(&order, &kv_evict_glfu, 8);
	fake_env_fail(&fake, 1, true);
	order_seen(&order, "a");
	fake_env_fail(&fake, 0, false);
	order_seen(&order, "b");
	order_enter(&order, "ba");
	order_expect(&order, "ab");
	order_exit(&order);
	cr_expect_eq(fake.nr_live, 0);
	fake_env_remove(&fake);
}

ORDER_TEST(evict_glfu, check_notices_a_table_that_contradicts_itself, &kv_evict_glfu, 8)
{
	struct key_counts *counts;
	kvmm_key_t key = order_key(2);
	struct key_count *slot;

	order_seen(order, "abc");
	counts = ((struct heap *)order->policy)->counts;
	slot = slot_of_key(counts, &key);

	counts->nr++;
	cr_expect_eq(order->ops->check(order->policy), -EUCLEAN);
	counts->nr--;
	slot->key.byte[3] ^= 8;
	cr_expect_eq(order->ops->check(order->policy), -EUCLEAN);
	slot->key.byte[3] ^= 8;
	cr_expect_eq(order->ops->check(order->policy), 0);
	slot->nr = 0;
	cr_expect_eq(order->ops->check(order->policy), -EUCLEAN);
	slot->nr = 1;
}

Test(evict_glfu, check_notices_a_key_lost_between_two_tables)
{
	const u32 room = room_in(MIN_SLOTS);
	const u64 bytes = kv_mem_bytes();
	struct key_counts *counts;
	struct order order;
	u32 at;

	order_init(&order, &kv_evict_glfu, 8);
	see_many(&order, room);
	see_once(&order, room);
	counts = ((struct heap *)order.policy)->counts;
	counts->moved = MIN_SLOTS / 2;
	cr_expect_eq(order.ops->check(order.policy), -EUCLEAN, "not all of that has moved");
	counts->moved = MOVES_A_KEY;
	for (at = MIN_SLOTS - 1; !counts->old.slot[at].nr; at--)
		;
	counts->old.slot[at].nr = 0;
	cr_expect_eq(order.ops->check(order.policy), -EUCLEAN, "a key is gone");
	counts->old.slot[at].nr = 1;
	order_exit(&order);
	cr_expect_eq(kv_mem_bytes(), bytes, "both tables were freed");
}
