// SPDX-License-Identifier: Apache-2.0
/* lru, lru-classic and slru, by pictures. */
#include "research/research.h"
#include "tests/evict/order.h"

TestSuite(evict_list);

ORDER_TEST(evict_list, lru_takes_the_block_that_was_put_back_first, &kv_evict_lru, 8)
{
	order_enter(order, "cab");
	order_expect(order, "cab");
	order_leave(order, "a");
	order_enter(order, "da");
	order_expect(order, "cbda");
}

Test(evict_list, classic_is_one_queue_whether_blocks_have_keys_or_not)
{
	struct order order;

	cr_expect(kv_evict_lru_classic.keeps_unnamed);
	order_init(&order, &kv_evict_lru_classic, 8);
	order_enter(&order, "ABCD");
	order_leave(&order, "b");
	order_enter(&order, "eBf");
	order_expect(&order, "acdebf");
	order_exit(&order);
}

ORDER_TEST(evict_list, slru_takes_blocks_used_once_before_blocks_used_again, &kv_evict_slru, 10)
{
	order_fill(order, "abcde");
	order_hit(order, "ac");
	order_enter(order, "abcde");
	order_expect(order, "bdeac");
}

ORDER_TEST(evict_list, slru_forgets_the_uses_of_former_content, &kv_evict_slru, 10)
{
	order_fill(order, "ab");
	order_hit(order, "ab");
	order_fill(order, "a");
	order_enter(order, "ba");
	order_expect(order, "ab");
}

/* floor(4 * 6 / 5) = 4 */
ORDER_TEST(evict_list, slru_moves_the_oldest_protected_block_behind_probation, &kv_evict_slru, 6)
{
	order_fill(order, "abcdef");
	order_hit(order, "abcde");
	order_enter(order, "abcd");
	order_enter(order, "f");
	order_expect(order, "fabcd");
	order_enter(order, "e");
	order_expect(order, "fabcde");
	order_leave(order, "f");
	order_fill(order, "f");
	order_enter(order, "f");
	order_expect(order, "afbcde");
}

ORDER_TEST(evict_list, slru_of_one_block_protects_nothing, &kv_evict_slru, 1)
{
	order_fill(order, "a");
	order_hit(order, "a");
	order_enter(order, "a");
	order_expect(order, "a");
}

/* Who enters is told whom to ask for: what was picked names who is picked 16 later. */
ORDER_TEST(evict_list, a_block_names_the_one_that_is_picked_some_picks_later, &kv_evict_lru, 64)
{
	for (u32 i = 0; i < 64; i++) {
		u32 block = (i * 27) % 64;
		kvmm_key_t key = order_key(block);

		order->ops->enter(order->policy, block, &key);
	}
	for (u32 i = 0; i + 16 < 64; i++) {
		u32 block = order->ops->pick(order->policy), ahead;

		order->ops->ahead(order->policy, &block, 1, &ahead);
		cr_expect_eq(ahead, (i + 16) * 27 % 64);
	}
}

static void put_again(struct order *order)
{
	static const u32 blocks[] = { 1, 4, 1, 0 };

	order_fill(order, "abcde");
	order_enter(order, "abc");
	order->ops->enter_many(order->policy, blocks, ARRAY_SIZE(blocks));
	order_expect(order, "ceba");
}

ORDER_TEST(evict_list, lru_has_a_block_once_that_is_put_twice, &kv_evict_lru, 6)
{
	put_again(order);
}

/* A caller has to take it out of the order first. */
ORDER_TEST(evict_list, lrfu_fills_blocks_up_to_one_that_is_in_the_order, &kv_evict_lrfu, 6)
{
	static const u32 blocks[] = { 4, 3, 1, 0 };
	kvmm_key_t keys[ARRAY_SIZE(blocks)];

	for (u32 i = 0; i < ARRAY_SIZE(blocks); i++)
		keys[i] = order_key(10 + i);
	order_fill(order, "b");
	order_enter(order, "b");
	cr_expect_eq(order->ops->fill_many(order->policy, blocks, keys, 4, false), 2);
	order_leave(order, "b");
	cr_expect_eq(order->ops->fill_many(order->policy, blocks + 2, keys + 2, 2, false), 2);
	order_enter(order, "abde");
	order_expect(order, "abde");
}

/* Else the first ones would not be taken for ends of chains. */
ORDER_TEST(evict_list, lrfu_has_each_block_in_the_order_before_it_fills_the_next, &kv_evict_lrfu, 6)
{
	static const u32 blocks[] = { 4, 3, 4, 0 };
	kvmm_key_t keys[ARRAY_SIZE(blocks)];

	for (u32 i = 0; i < ARRAY_SIZE(blocks); i++)
		keys[i] = order_key(10 + i);
	cr_expect_eq(order->ops->fill_many(order->policy, blocks, keys, 4, true), 2);
	order_expect(order, "ed");
}

ORDER_TEST(evict_list, lrfu_has_a_block_once_that_is_put_twice, &kv_evict_lrfu, 6)
{
	put_again(order);
}
