// SPDX-License-Identifier: Apache-2.0
/*
 * Zones that are too large for pictures: what only shows where an index has several levels, and
 * lengths that are binned. The oracle is a list of runs that the test itself has laid out.
 */
#include <kv/bits.h>
#include <kv/zone.h>

#include "buddy/runs.h"
#include "tests/support/cleanup.h"

#define NR_RUNS		96u

static struct kv_zone *make_zone(u32 nr_blocks, const char *engine)
{
	struct kv_zone_attr attr = { .nr_blocks = nr_blocks,
				       .engine = engine };
	struct kv_zone *zone;

	cr_assert_eq(kv_zone_create(&attr, &zone), 0);
	return zone;
}

static struct kv_zone *make_full_zone(u32 nr_blocks, const char *engine)
{
	struct kv_zone *zone = make_zone(nr_blocks, engine);

	cr_assert_eq(kv_zone_alloc_at(zone, 0, nr_blocks), 0);
	return zone;
}

#define expect_sound(zone, ...)		cr_expect_eq(kv_zone_check(zone), 0, __VA_ARGS__)

/* NR_RUNS free runs of one length, spread from the first block to the very last. */
static u32 place_of(u32 nr_blocks, u32 len, u32 i)
{
	return (u64)(nr_blocks - len) * i / (NR_RUNS - 1);
}

static void free_spread(struct kv_zone *zone, u32 len)
{
	for (u32 i = 0; i < NR_RUNS; i++)
		cr_assert_eq(kv_zone_free(zone, place_of(zone->nr_blocks, len, i), len), 0);
	expect_sound(zone, "length %u", len);
}

static void expect_runs_upward(struct kv_zone *zone, u32 len)
{
	u32 start = KV_NONE;

	for (u32 i = 0; i < NR_RUNS; i++) {
		cr_assert_eq(kv_zone_alloc(zone, len, &start), 0);
		cr_assert_eq(start, place_of(zone->nr_blocks, len, i), "%u is not %u: length %u, %s", start,
			     place_of(zone->nr_blocks, len, i), len, zone->ops->name);
	}
	cr_expect_eq(kv_zone_alloc(zone, 1, &start), -ENOSPC);
	expect_sound(zone, "length %u", len);
}

static void expect_runs_downward(struct kv_zone *zone, u32 len)
{
	struct kv_zone_req req = { .nr = len, .topdown = 1 };
	u32 start = KV_NONE;

	for (u32 i = NR_RUNS; i-- > 0;) {
		cr_assert_eq(kv_zone_alloc_req(zone, &req, &start), 0);
		cr_assert_eq(start, place_of(zone->nr_blocks, len, i), "%u is not %u: length %u, %s", start,
			     place_of(zone->nr_blocks, len, i), len, zone->ops->name);
	}
	expect_sound(zone, "length %u", len);
}

/* Every other one is claimed by its place; the rest is found around them. */
static void expect_runs_among_gaps(struct kv_zone *zone, u32 len)
{
	u32 start = KV_NONE;

	for (u32 i = 0; i < NR_RUNS; i += 2)
		cr_assert_eq(kv_zone_alloc_at(zone, place_of(zone->nr_blocks, len, i), len), 0);
	expect_sound(zone, "length %u", len);
	for (u32 i = 1; i < NR_RUNS; i += 2) {
		cr_assert_eq(kv_zone_alloc(zone, len, &start), 0);
		cr_assert_eq(start, place_of(zone->nr_blocks, len, i), "%u is not %u: length %u, %s", start,
			     place_of(zone->nr_blocks, len, i), len, zone->ops->name);
	}
	expect_sound(zone, "length %u", len);
}

static const u32 lengths[] = { 1, 2, 3, 63, 64, 65, 700, 1023, 1024, 1025, 5000 };

static void expect_order_at_any_length(u32 nr_blocks, const char *engine)
{
	struct kv_zone *zone __cleanup(kv_zone_destroy) = make_full_zone(nr_blocks, engine);

	for (u32 i = 0; i < ARRAY_SIZE(lengths); i++) {
		free_spread(zone, lengths[i]);
		expect_runs_upward(zone, lengths[i]);
		free_spread(zone, lengths[i]);
		expect_runs_downward(zone, lengths[i]);
		free_spread(zone, lengths[i]);
		expect_runs_among_gaps(zone, lengths[i]);
	}
}

Test(large, runs_are_found_in_order_in_zones_of_every_depth)
{
	expect_order_at_any_length((1u << 19) + 77, "zone");
	expect_order_at_any_length((1u << 20) + 1, "zone");
	expect_order_at_any_length((1u << 20) + 1, "best");
	expect_order_at_any_length((1u << 22) - 3, "zone");
}

/* A run of whole words is noted in the summaries of full words: cutting it must take that back. */
ZONE_TEST(large, cutting_runs_of_whole_words_keeps_the_summaries, make_full_zone(1u << 20, "zone"))
{
	static const u32 nr_words[] = { 1, 2, 64, 65, 4096, 4097 };
	u32 start;

	for (u32 i = 0; i < ARRAY_SIZE(nr_words); i++) {
		u32 len = 64 * nr_words[i];
		const u32 cut[] = { 1, 63, 64, len - 1, len };

		for (u32 k = 0; k < ARRAY_SIZE(cut); k++) {
			cr_assert_eq(kv_zone_free(zone, 1u << 18, len), 0);
			expect_sound(zone, "%u free", len);
			cr_assert_eq(kv_zone_alloc(zone, cut[k], &start), 0);
			cr_assert_eq(start, 1u << 18);
			expect_sound(zone, "%u of %u", cut[k], len);
			if (cut[k] < len)
				cr_assert_eq(kv_zone_alloc_at(zone, start + cut[k],
							      len - cut[k]), 0);
			expect_sound(zone, "all of %u", len);
		}
	}
}

static u64 share_below(const u32 *len, u32 nr, u32 want)
{
	u64 all = 0, below = 0;

	for (u32 i = 0; i < nr; i++) {
		all += len[i];
		below += len[i] < want ? len[i] : 0;
	}
	return below * 1000000 / all;
}

/* Above 1023 several lengths share a bin; the one asked about may lie in the middle of it. */
ZONE_TEST(large, unusable_tells_lengths_of_one_bin_apart, make_full_zone(1u << 21, "zone"))
{
	static const u32 len[] = { 1, 40, 1023, 1024, 1030, 1039, 1040, 1040, 4100, 4101, 4163,
				   70000, 70001 };

	for (u32 i = 0; i < ARRAY_SIZE(len); i++)
		cr_assert_eq(kv_zone_free(zone, i << 17, len[i]), 0);
	for (u32 i = 0; i < ARRAY_SIZE(len); i++)
		for (u32 want = max(len[i] - 1, 1u); want <= len[i] + 1; want++)
			cr_expect_eq(kv_zone_unusable(zone, want),
				     (int)share_below(len, ARRAY_SIZE(len), want), "%u", want);
	cr_expect_eq(kv_zone_unusable(zone, 1u << 20), 1000000);
}

/* The words beside the map that stop every search. */
ZONE_TEST(large, check_notices_each_bit_of_the_guards, make_full_zone(1000, "zone"))
{
	struct kv_runs *runs = zone->engine;

	for (u32 bit = 0; bit < 64; bit++) {
		runs->map[-1] ^= BIT64(bit);
		cr_expect_eq(kv_zone_check(zone), -EUCLEAN);
		runs->map[-1] ^= BIT64(bit);
		runs->map[1000 / 64 + 1] ^= BIT64(bit);
		cr_expect_eq(kv_zone_check(zone), -EUCLEAN);
		runs->map[1000 / 64 + 1] ^= BIT64(bit);
	}
	for (u32 bit = 1000 % 64; bit < 64; bit++) {
		runs->map[1000 / 64] ^= BIT64(bit);
		cr_expect_eq(kv_zone_check(zone), -EUCLEAN);
		runs->map[1000 / 64] ^= BIT64(bit);
	}
	expect_sound(zone, "in the end");
}
