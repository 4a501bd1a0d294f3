// SPDX-License-Identifier: Apache-2.0
/* lfu, hint and the heap under them, by pictures. */
#include "research/policies/heap.h"
#include "research/research.h"
#include "tests/evict/order.h"

ORDER_TEST(evict_lfu, takes_fewest_uses_first_then_the_one_put_back_first, &kv_evict_lfu, 8)
{
	order_fill(order, "abcdef");
	order_hit(order, "aabcc");
	order_enter(order, "fcbade");
	order_expect(order, "fdebca");
	order_leave(order, "f");
	order_hit(order, "f");
	order_enter(order, "fH");
	order_expect(order, "hdebfca");
}

ORDER_TEST(evict_lfu, starts_over_with_new_content, &kv_evict_lfu, 8)
{
	order_fill(order, "ab");
	order_hit(order, "aab");
	order_fill(order, "a");
	order_enter(order, "ba");
	order_expect(order, "ab");
}

ORDER_TEST(evict_hint, takes_the_farthest_next_use_first, &kv_evict_hint, 8)
{
	order_fill(order, "abcd");
	kv_evict_hint.hint(order->policy, 0, 5u << 16);
	kv_evict_hint.hint(order->policy, 1, 9u << 16 | 1);
	kv_evict_hint.hint(order->policy, 2, 9u << 16 | 2);
	order_enter(order, "abcdE");
	order_expect(order, "edcba");
}

ORDER_TEST(evict_hint, reorders_a_block_that_is_hinted_while_it_waits, &kv_evict_hint, 8)
{
	order_fill(order, "abcd");
	for (u32 block = 0; block < 4; block++)
		kv_evict_hint.hint(order->policy, block, 100 * block);
	order_enter(order, "abcd");
	kv_evict_hint.hint(order->policy, 0, 1000);
	order_expect(order, "adcb");
	kv_evict_hint.hint(order->policy, 3, 0);
	order_expect(order, "acbd");
	kv_evict_hint.hint(order->policy, 2, 100);
	order_expect(order, "abcd");
}

ORDER_TEST(evict_hint, takes_never_hinted_blocks_for_never_used_again, &kv_evict_hint, 8)
{
	order_fill(order, "abc");
	kv_evict_hint.hint(order->policy, 0, UINT64_MAX);
	kv_evict_hint.hint(order->policy, 1, UINT64_MAX - 1);
	kv_evict_hint.hint(order->policy, 2, UINT64_MAX - 2);
	order_enter(order, "cba");
	order_enter(order, "D");
	order_expect(order, "dbac");
	kv_evict_hint.hint(order->policy, 3, 7);
	order_expect(order, "dbac");
	order_leave(order, "a");
	order_fill(order, "a");
	kv_evict_hint.hint(order->policy, 1, 7);
	order_enter(order, "a");
	order_expect(order, "dacb");
}

static void expect_noticed(struct order *order, const char *what)
{
	cr_expect_eq(order->ops->check(order->policy), -EUCLEAN, "%s", what);
}

ORDER_TEST(evict_heap, check_notices_what_contradicts_itself, &kv_evict_lfu, 16)
{
	struct heap *heap;

	heap = order->policy;
	order_fill(order, "abcdefghi");
	order_hit(order, "abcdefghi");
	order_enter(order, "abcdefghi");

	for (u32 slot = 0; slot < heap->nr; slot++) {
		heap->rank[slot].first ^= 1u << slot;
		expect_noticed(order, "rank that is not the value");
		heap->rank[slot].first ^= 1u << slot;
		heap->rank[slot].seq += heap->next_seq;
		expect_noticed(order, "sequence number of the future");
		heap->rank[slot].seq -= heap->next_seq;
		heap->block[slot] ^= 1;
		expect_noticed(order, "another block in the slot");
		heap->block[slot] ^= 1;
		heap->slot_of[heap->block[slot]]++;
		expect_noticed(order, "another slot of the block");
		heap->slot_of[heap->block[slot]]--;
	}
	heap->slot_of[15] = 3;
	expect_noticed(order, "two blocks of one slot");
	heap->slot_of[15] = 0;
	heap->nr--;
	expect_noticed(order, "wrong number");
	heap->nr++;
	heap->rank[1].seq = heap->rank[0].seq;
	expect_noticed(order, "order of parent and child");
	heap->rank[1].seq = 1;
}

ORDER_TEST(evict_heap, siblings_share_one_cache_line, &kv_evict_lfu, 100)
{
	struct heap *heap;

	heap = order->policy;
	for (u32 slot = 1; slot + 3 < 100; slot += 4)
		cr_expect_eq((uintptr_t)&heap->rank[slot] % KV_CACHELINE, 0);
	cr_expect_leq((char *)(heap->slot_of + 100) - (char *)heap, kv_evict_lfu.bytes(100));
}
