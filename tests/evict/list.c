// SPDX-License-Identifier: Apache-2.0
/* lru, lru-classic and slru, by pictures. */
#include <kv/bits.h>

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

ORDER_TEST(evict_list, lru_takes_blocks_without_key_first_and_in_batch_order, &kv_evict_lru, 8)
{
	order_enter(order, "a");
	order_enter(order, "DEb");
	order_expect(order, "deab");
}

ORDER_TEST(evict_list, lru_takes_the_later_batch_without_key_before_the_earlier, &kv_evict_lru, 8)
{
	order_enter(order, "ABc");
	order_enter(order, "DEf");
	order_expect(order, "deabcf");
	order_leave(order, "d");
	order_enter(order, "D");
	order_enter(order, "G");
	order_expect(order, "dgeabcf");
}

ORDER_TEST(evict_list, lru_survives_that_the_last_of_a_batch_leaves, &kv_evict_lru, 8)
{
	order_enter(order, "AB");
	order_leave(order, "b");
	order_enter(order, "CD");
	order_expect(order, "cda");
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
	order_fill(order, "abcd");
	order_hit(order, "ac");
	order_enter(order, "abcdE");
	order_expect(order, "ebdac");
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

/* Side memory ends in 16 bytes a block and 16 bytes a list; bit 63 of a link is slru's use bit. */
#define NR_LISTS	3
#define LINK_BITS	63
#define HEAD_BITS	60

static void expect_flips_noticed(struct order *order, u64 *word, unsigned int bits)
{
	for (unsigned int bit = 0; bit < bits; bit++) {
		*word ^= BIT64(bit);
		cr_expect_eq(order->ops->check(order->policy), -EUCLEAN, "%s: bit %u of word %td",
			     order->ops->name, bit, word - (u64 *)order->policy);
		*word ^= BIT64(bit);
	}
}

static void expect_link_flips_noticed(const struct kv_evict_ops *ops, const char *letters)
{
	struct order order;
	size_t end;
	u64 *link;

	order_init(&order, ops, 8);
	end = ops->bytes(8);
	order_fill(&order, "abcdefgh");
	order_hit(&order, "abc");
	order_enter(&order, letters);
	link = (u64 *)((char *)order.policy + end) - 2 * (NR_LISTS + 8);
	for (u32 i = 0; i < NR_LISTS + 8; i++) {
		expect_flips_noticed(&order, link + 2 * i, i < 8 ? LINK_BITS : HEAD_BITS);
		expect_flips_noticed(&order, link + 2 * i + 1, 64);
	}
	order_exit(&order);
}

Test(evict_list, check_notices_any_flipped_bit_of_any_link)
{
	expect_link_flips_noticed(&kv_evict_lru, "ABcdefgh");
	expect_link_flips_noticed(&kv_evict_lru_classic, "ABcdefgh");
	expect_link_flips_noticed(&kv_evict_slru, "GHabcdef");
}

ORDER_TEST(evict_list, check_notices_a_block_that_is_in_no_list_but_says_so, &kv_evict_lru, 8)
{
	u64 *link;

	order_enter(order, "abc");
	link = (u64 *)((char *)order->policy + order->ops->bytes(8)) - 2 * (NR_LISTS + 8);
	link[2 * 5] ^= BIT64(62);
	cr_expect_eq(order->ops->check(order->policy), -EUCLEAN);
	link[2 * 5] ^= BIT64(62);
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
		u32 block = order->ops->pick(order->policy);

		cr_expect_eq(order->ops->ahead(order->policy, block), (i + 16) * 27 % 64);
	}
}
