// SPDX-License-Identifier: Apache-2.0
/* Rings of records: order, what was missed, writers that meet one that sleeps. */
#include <pthread.h>

#include <kv/ring.h>

#include "tests/support/test.h"

static struct kv_ring ring;

static void set_up(void)
{
	cr_assert_eq(kv_ring_init(&ring, 4), 0);
}

static void tear_down(void)
{
	cr_expect_eq(kv_ring_check(&ring), 0);
	kv_ring_exit(&ring);
	cr_expect_eq(kv_mem_bytes(), 0);
}

TestSuite(ring, .init = set_up, .fini = tear_down);

static void put(u64 first, u32 nr)
{
	for (u32 i = 0; i < nr; i++) {
		u64 word[KV_RING_WORDS] = { first + i, [KV_RING_WORDS - 1] = ~(first + i) };

		kv_ring_put(&ring, word);
	}
}

static enum kv_ring_answer get(u64 pos, u64 *value, u64 *next)
{
	u64 word[KV_RING_WORDS];
	enum kv_ring_answer answer = kv_ring_get(&ring, pos, word, next);

	if (answer == KV_RING_GOT) {
		cr_assert_eq(word[KV_RING_WORDS - 1], ~word[0]);
		*value = word[0];
	}
	return answer;
}

Test(ring, records_are_read_in_order_and_not_before_they_are_written)
{
	u64 value, next;

	cr_expect_eq(get(0, &value, &next), KV_RING_EMPTY);
	put(100, 3);
	for (u64 pos = 0; pos < 3; pos++) {
		cr_assert_eq(get(pos, &value, &next), KV_RING_GOT);
		cr_expect_eq(value, 100 + pos);
	}
	cr_expect_eq(get(3, &value, &next), KV_RING_EMPTY);
}

Test(ring, whoever_was_lapped_goes_on_half_a_ring_behind)
{
	u64 value, next = 0;

	put(0, 9);
	cr_assert_eq(get(4, &value, &next), KV_RING_LOST);
	cr_expect_eq(next, 7);
	cr_assert_eq(get(5, &value, &next), KV_RING_GOT);
	cr_expect_eq(value, 5);
}

/* A writer has taken position 1 and sleeps: readers wait there, not before and not for ever. */
Test(ring, sleeping_writer_holds_readers_up_for_one_round_only)
{
	u64 value, next = 0;

	put(0, 1);
	ring.head++;
	put(2, 1);
	cr_expect_eq(get(0, &value, &next), KV_RING_GOT);
	cr_expect_eq(get(1, &value, &next), KV_RING_EMPTY);
	cr_expect_eq(get(2, &value, &next), KV_RING_GOT);
	put(3, 3);
	cr_assert_eq(get(1, &value, &next), KV_RING_LOST);
	cr_expect_geq(next, 2);
}

/* The same, but in the middle of its record, when another comes round: that one is lost, and said so. */
Test(ring, writer_that_finds_its_slot_taken_gives_up_its_own_record)
{
	u64 value, next = 0;

	ring.head = 1;
	ring.slot[0].stamp = 1;
	put(1, 5);
	cr_expect_eq(ring.broken, 5);
	cr_assert_eq(get(4, &value, &next), KV_RING_LOST);
	cr_expect_eq(next, 5);
	cr_expect_eq(get(5, &value, &next), KV_RING_GOT);
	ring.slot[0].stamp = 2;
	cr_expect_eq(get(4, &value, &next), KV_RING_LOST);
	put(6, 3);
	cr_expect_eq(get(8, &value, &next), KV_RING_GOT);
}

static void *put_many(void *done)
{
	put(0, 200000);
	WRITE_ONCE(*(bool *)done, true);
	return NULL;
}

/* Whoever stops a pool to check it does not stop all who write to its ring: tiers do, and engines. */
Test(ring, is_sound_while_others_write)
{
	pthread_t writer[2];
	bool done[2] = { false, false };

	/* Long enough that a check takes a while. */
	kv_ring_exit(&ring);
	cr_assert_eq(kv_ring_init(&ring, 1u << 14), 0);
	for (u32 i = 0; i < 2; i++)
		cr_assert_eq(pthread_create(&writer[i], NULL, put_many, &done[i]), 0);
	while (!READ_ONCE(done[0]) || !READ_ONCE(done[1]))
		cr_assert_eq(kv_ring_check(&ring), 0);
	for (u32 i = 0; i < 2; i++)
		pthread_join(writer[i], NULL);
}

Test(ring, a_stamp_that_its_slot_cannot_have_is_seen)
{
	put(1, 2);
	ring.slot[1].stamp = 2 * 5 + 2;		/* of its slot, but nobody has had that number */
	cr_expect_eq(kv_ring_check(&ring), -EUCLEAN);
	ring.slot[1].stamp = 2 * 0 + 2;		/* somebody has, in another slot */
	cr_expect_eq(kv_ring_check(&ring), -EUCLEAN);
	ring.slot[1].stamp = 2 * 1 + 2;
	cr_expect_eq(kv_ring_check(&ring), 0);
	ring.broken = 3;
	cr_expect_eq(kv_ring_check(&ring), -EUCLEAN);
	ring.broken = 2;
}

Test(ring, size_is_a_power_of_two)
{
	struct kv_ring odd;

	cr_expect_eq(kv_ring_init(&odd, 3), -EINVAL);
}
