// SPDX-License-Identifier: Apache-2.0
/* Ranges: where they go, how they change shape, who may end them. */
#include "tests/pool/util.h"

#define PINNED	KVMM_ALLOC_PINNED
#define TOPDOWN	KVMM_ALLOC_TOPDOWN

POOL_TEST(range, takes_the_smallest_hole_that_fits, make_pool(16))
{
	kvmm_range_t range[26];

	paint(pool, "aaaa....bb..cccc", range);
	take_seq(pool, 2, 0, 'd');
	cr_expect_str_eq(picture(pool), "aaaa....bbddcccc");
}

POOL_TEST(range, takes_the_largest_holes_if_none_fits, make_pool(16))
{
	kvmm_range_t range[26], got;
	struct kvmm_extent ext[2];

	paint(pool, "a..bbb...c.ddd..", range);
	got = take_seq(pool, 5, KVMM_RUNS(2) | KVMM_ALLOC_NO_COMPACT, 'e');
	cr_expect_str_eq(picture(pool), "aeebbbeeec.ddd..");
	cr_expect_eq(kvmm_range_extents(pool, got, ext, 2), 2);
	cr_expect_eq(ext[0].nr + ext[1].nr, 5);
}

POOL_TEST(range, pinned_goes_to_the_bottom_and_short_lived_to_the_top, make_pool(16))
{
	kvmm_range_t range[26];

	paint(pool, "aa......bb..cc..", range);
	take_seq(pool, 2, PINNED, 'p');
	take_seq(pool, 2, TOPDOWN, 't');
	cr_expect_str_eq(picture(pool), "aapp....bb..cctt");
}

Test(range, the_null_block_is_nobodys)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 5,
				       .flags = KVMM_POOL_NULL_BLOCK };
	kvmm_range_t range;
	struct kvmm_pool *pool __cleanup(end_pool) = make_pool_of(&attr);
	struct kvmm_pool_stat stat = stat_of(pool);

	cr_expect_eq(stat.nr_blocks, 4);
	cr_expect_eq(stat.nr_free, 4);
	cr_expect_eq(stat.nr_state[KVMM_BLOCK_NULL], 1);
	cr_expect_eq(kvmm_range_alloc(pool, 5, 0, &range), -EINVAL);
	take_seq(pool, 4, 0, 'a');
	cr_expect_str_eq(picture(pool), "Naaaa");
}

/* Even where another hole would fit better. */
POOL_TEST(range, grows_in_place_if_the_blocks_behind_are_free, make_pool(11))
{
	kvmm_range_t range[26];
	struct kvmm_extent ext[1];

	paint(pool, "aa....bb...", range);
	cr_expect_eq(kvmm_range_grow(pool, range[0], 3), 0);
	cr_expect_str_eq(picture(pool), "aaaaa.bb...");
	cr_expect_eq(kvmm_range_extents(pool, range[0], ext, 1), 1);
	cr_expect_eq(ext[0].nr, 5);
}

POOL_TEST(range, grows_by_a_further_extent_otherwise, make_pool(12))
{
	kvmm_range_t range[26];

	paint(pool, "aa.bb...cc..", range);
	cr_expect_eq(kvmm_range_grow(pool, range[0], 3), 0);
	cr_expect_str_eq(picture(pool), "aa.bbaaacc..");
	cr_expect_eq(kvmm_range_extents(pool, range[0], NULL, 0), 2);
}

/* With eight all of them are in the slot; with more they are not. */
POOL_TEST(range, grows_by_more_extents_than_an_allocation_has, make_pool(20))
{
	struct kvmm_range_info info;
	struct kvmm_extent ext[9];
	kvmm_range_t range[26];

	paint(pool, "abacadaeafagahai.j.k", range);
	cr_expect_eq(kvmm_range_extents(pool, range[0], NULL, 0), 8);
	cr_expect_eq(kvmm_range_grow(pool, range[0], 1), 0);
	cr_expect_str_eq(picture(pool), "abacadaeafagahaiaj.k");
	cr_expect_eq(kvmm_range_extents(pool, range[0], ext, 1), 9);
	cr_expect_eq(kvmm_range_extents(pool, range[0], ext, 9), 9);
	for (u32 i = 0; i < 9; i++)
		cr_expect(ext[i].start == 2 * i && ext[i].nr == 1, "%u", i);
	cr_expect_eq(kvmm_range_get_info(pool, range[0], &info), 0);
	cr_expect_eq(info.nr_ext, 9);
	cr_expect_eq(info.ext[7].start, 14);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_range_grow(pool, range[0], 2), -ENOSPC);
	cr_expect_eq(kvmm_range_free(pool, range[0]), 0);
	cr_expect_str_eq(picture(pool), ".b.c.d.e.f.g.h.i.j.k");
}

POOL_TEST(range, shrinks_from_either_end_across_extents, make_pool(12))
{
	kvmm_range_t range[26];

	paint(pool, "aaabaabbaaab", range);
	cr_expect_eq(kvmm_range_shrink(pool, range[0], 4), 0);
	cr_expect_str_eq(picture(pool), "aaaba.bb...b");
	cr_expect_eq(kvmm_range_shrink_front(pool, range[0], 3), 0);
	cr_expect_str_eq(picture(pool), "...ba.bb...b");
	cr_expect_eq(kvmm_range_shrink(pool, range[0], 1), -EINVAL);
	cr_expect_eq(kvmm_range_shrink(pool, range[1], 0), -EINVAL);
}

POOL_TEST(range, splits_into_two_of_the_same_sequence, make_pool(8))
{
	kvmm_range_t range[26], tail, found[4];
	struct kvmm_range_info info;

	paint(pool, "aaaba...", range);
	write_pattern(pool, range[0], 7);
	cr_expect_eq(kvmm_range_split(pool, range[0], 2, &tail), 0);
	cr_expect_eq(kvmm_range_get_info(pool, tail, &info), 0);
	cr_expect_eq(info.nr, 2);
	cr_expect_eq(info.nr_ext, 2);
	cr_expect_eq(info.ext[0].start, 2);
	cr_expect_eq(info.seq, 'a');
	cr_expect_eq(kvmm_range_find_seq(pool, 'a', found, 4), 2);
	cr_expect_eq(kvmm_range_free(pool, range[0]), 0);
	cr_expect_str_eq(picture(pool), "..aba...");
}

POOL_TEST(range, does_not_split_at_an_end_or_while_others_look, make_pool(8))
{
	kvmm_range_t range = take(pool, 4, 0), tail;

	cr_expect_eq(kvmm_range_split(pool, range, 0, &tail), -EINVAL);
	cr_expect_eq(kvmm_range_split(pool, range, 4, &tail), -EINVAL);
	cr_expect_eq(kvmm_range_split(pool, range, UINT32_MAX, &tail), -EINVAL);
	kvmm_range_get(pool, range);
	cr_expect_eq(kvmm_range_split(pool, range, 2, &tail), -EBUSY);
	kvmm_range_free(pool, range);
	kvmm_range_pin(pool, range);
	cr_expect_eq(kvmm_range_split(pool, range, 2, &tail), -EBUSY);
	cr_expect_eq(kvmm_range_shrink(pool, range, 1), -EBUSY);
	cr_expect_eq(kvmm_range_shrink_front(pool, range, 1), -EBUSY);
}

/* Blocks of another owner, too: only the last owner left may take some away. */
POOL_TEST(range, with_several_owners_is_cut_by_none_of_them, make_pool(12))
{
	kvmm_range_t range[26], tail;

	paint(pool, "aaab....bbbb", range);
	write_pattern(pool, range[0], 7);
	cr_assert_eq(kvmm_range_get(pool, range[0]), 0);
	cr_expect_eq(kvmm_range_shrink(pool, range[0], 1), -EBUSY);
	cr_expect_eq(kvmm_range_shrink_front(pool, range[0], 1), -EBUSY);
	cr_expect_eq(kvmm_range_split(pool, range[0], 1, &tail), -EBUSY);
	cr_expect_eq(kvmm_range_shrink(pool, range[0], 0), -EINVAL);
	cr_expect_str_eq(picture(pool), "aaab....bbbb");
	/* What grows leaves what there was where it is. */
	cr_expect_eq(kvmm_range_grow(pool, range[0], 2), 0);
	cr_expect_str_eq(picture(pool), "aaabaa..bbbb");
	cr_assert_eq(kvmm_range_free(pool, range[0]), 0);
	cr_expect_eq(kvmm_range_shrink(pool, range[0], 2), 0);
	cr_expect_eq(kvmm_range_shrink_front(pool, range[0], 1), 0);
	cr_expect_str_eq(picture(pool), ".aab....bbbb");
}

POOL_TEST(range, lives_until_its_last_reference_is_dropped, make_pool(8))
{
	kvmm_range_t range = take(pool, 4, 0);

	cr_expect_eq(kvmm_range_get(pool, range), 0);
	cr_expect_eq(kvmm_range_free(pool, range), 0);
	cr_expect_str_eq(picture(pool), "####....");
	cr_expect_eq(kvmm_range_free(pool, range), 0);
	cr_expect_str_eq(picture(pool), "........");
	cr_expect_eq(kvmm_range_free(pool, range), -ESTALE);
}

POOL_TEST(range, a_pin_keeps_the_last_reference, make_pool(8))
{
	kvmm_range_t range = take(pool, 4, 0);

	cr_expect_eq(kvmm_range_unpin(pool, range), -EINVAL);
	cr_expect_eq(kvmm_range_pin(pool, range), 0);
	cr_expect_eq(kvmm_range_pin(pool, range), 0);
	cr_expect_eq(kvmm_range_get(pool, range), 0);
	cr_expect_eq(kvmm_range_free(pool, range), 0);
	cr_expect_eq(kvmm_range_free(pool, range), -EBUSY);
	cr_expect_eq(kvmm_range_unpin(pool, range), 0);
	cr_expect_eq(kvmm_range_free(pool, range), -EBUSY);
	cr_expect_eq(kvmm_range_unpin(pool, range), 0);
	cr_expect_eq(kvmm_range_free(pool, range), 0);
}

POOL_TEST(range, a_sequence_is_freed_as_a_whole_or_not_at_all, make_pool(12))
{
	kvmm_range_t range[26], other;

	paint(pool, "aabbccdd....", range);
	other = take_seq(pool, 2, 0, 'a');
	take_seq(pool, 1, 0, 'a');
	cr_expect_eq(kvmm_range_find_seq(pool, 'a', NULL, 0), 3);
	cr_expect_eq(kvmm_range_pin(pool, other), 0);
	cr_expect_eq(kvmm_range_free_seq(pool, 'a'), -EBUSY);
	cr_expect_str_eq(picture(pool), "aabbccddaaa.");
	cr_expect_eq(kvmm_range_unpin(pool, other), 0);
	cr_expect_eq(kvmm_range_free_seq(pool, 'a'), 3);
	cr_expect_str_eq(picture(pool), "..bbccdd....");
	cr_expect_eq(kvmm_range_free_seq(pool, 'a'), 0);
	cr_expect_eq(kvmm_range_find_seq(pool, 'a', NULL, 0), 0);
	cr_expect_eq(kvmm_range_free_seq(pool, 0), -EINVAL);
}

POOL_TEST(range, sequences_are_found_among_thousands, make_pool(4096))
{
	kvmm_range_t found[2];
	struct kvmm_range_info info;

	for (u32 i = 0; i < 4096; i++)
		take_seq(pool, 1, 0, 1 + i / 2);
	for (u32 seq = 1; seq <= 2048; seq++) {
		cr_assert_eq(kvmm_range_find_seq(pool, seq, found, 2), 2);
		cr_assert_eq(kvmm_range_get_info(pool, found[1], &info), 0);
		cr_assert_eq(info.seq, seq);
	}
	for (u32 seq = 1; seq <= 2048; seq += 2)
		cr_assert_eq(kvmm_range_free_seq(pool, seq), 2);
	cr_expect_eq(stat_of(pool).nr_ranges, 2048);
}

POOL_TEST(range, the_walk_sees_each_range_once, make_pool(1000))
{
	struct kvmm_range_info info;
	u32 cursor = 0, nr = 0, blocks = 0;

	for (u32 i = 0; i < 500; i++)
		take(pool, 2, 0);
	while (!kvmm_range_next(pool, &cursor, &info)) {
		nr++;
		blocks += info.nr;
	}
	cr_expect_eq(nr, 500);
	cr_expect_eq(blocks, 1000);
	cursor = UINT32_MAX;
	cr_expect_eq(kvmm_range_next(pool, &cursor, &info), -ENOENT);
}

POOL_TEST(range, content_is_zero_if_asked_for, make_pool(8))
{
	u8 buf[TEST_BLOCK_BYTES], zero[TEST_BLOCK_BYTES] = { 0 };
	kvmm_range_t range = take(pool, 8, 0);
	struct kvmm_range_info info;

	write_pattern(pool, range, 3);
	kvmm_range_free(pool, range);
	range = take(pool, 8, KVMM_ALLOC_ZERO);
	for (u32 i = 0; i < 8; i++) {
		cr_expect_eq(kvmm_block_read(pool, i, 0, buf, sizeof(buf)), 0);
		cr_expect_arr_eq(buf, zero, sizeof(buf));
	}
	cr_expect_eq(kvmm_range_get_info(pool, range, &info), 0);
	cr_expect_eq(info.pins, 0);
	cr_expect_eq(kvmm_range_free(pool, range), 0);
}

POOL_TEST(range, both_halves_of_a_zeroed_one_can_be_freed, make_pool(8))
{
	kvmm_range_t range = take(pool, 4, KVMM_ALLOC_ZERO), tail;
	struct kvmm_range_info info;

	cr_expect_eq(kvmm_range_split(pool, range, 1, &tail), 0);
	cr_expect_eq(kvmm_range_get_info(pool, tail, &info), 0);
	cr_expect_eq(info.pins, 0);
	cr_expect_eq(kvmm_range_free(pool, tail), 0);
	cr_expect_eq(kvmm_range_free(pool, range), 0);
	cr_expect_eq(stat_of(pool).nr_free, 8);
}

/* Those that say how its blocks are found are no property of it. */
POOL_TEST(range, tells_the_flags_that_it_keeps, make_pool(8))
{
	kvmm_range_t range = take(pool, 4, KVMM_ALLOC_NOWAIT | KVMM_ALLOC_CONTIG | TOPDOWN);
	struct kvmm_range_info info;

	cr_expect_eq(kvmm_range_get_info(pool, range, &info), 0);
	cr_expect_eq(info.flags, TOPDOWN);
	cr_expect_eq(kvmm_range_free(pool, range), 0);
}

POOL_TEST(range, bad_requests_change_nothing, make_pool(8))
{
	struct kvmm_pool_stat before = stat_of(pool), after;
	struct kvmm_range_attr bad[] = {
		{ .nr = 0 }, { .nr = 9 }, { .nr = UINT32_MAX }, { .nr = 1, .max_runs = 9 },
		{ .nr = 1, .prio = 3 }, { .nr = 1, .flags = 1u << 15 },
		{ .nr = 1, .flags = PINNED | TOPDOWN }, { .nr = 1, .max_runs = UINT32_MAX },
	};
	kvmm_range_t range;

	for (u32 i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		bad[i].size = sizeof(bad[i]);
		cr_expect_eq(kvmm_range_alloc_attr(pool, &bad[i], &range), -EINVAL, "%u", i);
	}
	cr_expect_eq(kvmm_range_alloc(NULL, 1, 0, &range), -EINVAL);
	cr_expect_eq(kvmm_range_alloc(pool, 1, 0, NULL), -EINVAL);
	cr_expect_eq(kvmm_range_alloc_attr(pool, NULL, &range), -EINVAL);
	after = stat_of(pool);
	cr_expect_arr_eq(&before, &after, sizeof(before));
}

POOL_TEST(range, an_older_caller_knows_fewer_fields, make_pool(8))
{
	struct kvmm_range_attr attr = { .size = offsetof(struct kvmm_range_attr, prio),
					.nr = 2, .prio = 99, .flags = 99 };
	struct { struct kvmm_range_attr known; u64 unknown; } newer = {
		.known = { .size = sizeof(newer), .nr = 2 },
	};
	struct kvmm_alloc_report report;
	kvmm_range_t range;

	cr_expect_eq(kvmm_range_alloc_attr(pool, &attr, &range), 0);
	cr_expect_eq(kvmm_range_alloc_attr(pool, &newer.known, &range), 0);
	newer.unknown = 1;
	cr_expect_eq(kvmm_range_alloc_attr(pool, &newer.known, &range), -EINVAL);
	attr.size = 0;
	cr_expect_eq(kvmm_range_alloc_attr(pool, &attr, &range), -EINVAL);
	/* Half of the pointer to the report. */
	attr = (struct kvmm_range_attr){ .size = sizeof(attr) - 4, .nr = 2, .report = &report };
	cr_expect_eq(kvmm_range_alloc_attr(pool, &attr, &range), -EINVAL);
}

/* Extents of such an engine that happen to be neighbours are two allocations all the same. */
Test(range, an_engine_that_rounds_up_gets_back_what_it_gave)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 16,
				       .allocator = "buddy" };
	struct kvmm_range_info info;
	struct kvmm_pool *pool __cleanup(end_pool) = make_pool_of(&attr);
	kvmm_range_t range = take(pool, 4, KVMM_RUNS(1));

	cr_expect_eq(kvmm_range_grow(pool, range, 4), 0);
	cr_expect_eq(kvmm_range_get_info(pool, range, &info), 0);
	cr_expect_eq(info.nr_ext, 2);
	cr_expect_eq(info.ext[1].start, info.ext[0].start + 4);
	cr_expect_eq(kvmm_range_free(pool, range), 0);
	cr_expect_eq(stat_of(pool).nr_free, 16);
}

Test(range, an_engine_that_rounds_up_takes_whole_extents_back)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 16,
				       .allocator = "buddy" };
	kvmm_range_t range, tail;
	struct kvmm_pool *pool __cleanup(end_pool) = make_pool_of(&attr);

	range = take(pool, 5, KVMM_RUNS(1));
	cr_expect_eq(stat_of(pool).nr_free, 8);
	cr_expect_eq(stat_of(pool).nr_state[KVMM_BLOCK_FREE], 11);
	cr_expect_eq(kvmm_range_shrink(pool, range, 1), -EOPNOTSUPP);
	cr_expect_eq(kvmm_range_split(pool, range, 2, &tail), -EOPNOTSUPP);
	cr_expect_eq(kvmm_range_grow(pool, range, 8), 0);
	cr_expect_eq(kvmm_range_shrink(pool, range, 8), 0);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_range_free(pool, range), 0);
	cr_expect_eq(stat_of(pool).nr_free, 16);
}

/* Of 16 blocks in one run each: what few ranges have costs the others nothing. */
POOL_TEST(range, a_pool_of_plain_ranges_costs_less_than_12_bytes_a_block, make_pool(1u << 17))
{
	for (u32 i = 0; i < (1u << 17) / 16; i++)
		take_seq(pool, 16, 0, i + 1);
	cr_expect_eq(stat_of(pool).nr_free, 0);
	cr_expect_leq(stat_of(pool).metadata_bytes, 12u << 17);
	cr_expect_eq(kvmm_validate(pool), 0);
}

/* Of all extents that ranges can have, by both of the calls that tell of them. */
POOL_TEST(range, extents_are_found_where_they_are_kept, make_pool(64))
{
	struct kvmm_extent ext[2 * KVMM_MAX_RUNS], told;
	kvmm_range_t hole[32], range;

	for (u32 i = 0; i < 32; i++) {
		hole[i] = take(pool, 1, 0);
		take(pool, 1, 0);
	}
	for (u32 nr = 1; nr <= 2 * KVMM_MAX_RUNS; nr++) {
		struct kvmm_range_info info;

		cr_assert_eq(kvmm_range_free(pool, hole[nr - 1]), 0);
		if (nr == 1)
			range = take(pool, 1, KVMM_ALLOC_NO_COMPACT);
		else
			cr_assert_eq(kvmm_range_grow(pool, range, 1), 0);
		cr_assert_eq(kvmm_range_extents(pool, range, ext, 2 * KVMM_MAX_RUNS), (int)nr);
		for (u32 i = 0; i < nr; i++)
			cr_expect(ext[i].start == 2 * i && ext[i].nr == 1, "%u of %u", i, nr);
		cr_expect_eq(kvmm_range_extents(pool, range, &told, 1), (int)nr);
		cr_expect_eq(told.start, 0);
		cr_assert_eq(kvmm_range_get_info(pool, range, &info), 0);
		cr_expect_arr_eq(info.ext, ext, min(nr, KVMM_MAX_RUNS) * sizeof(ext[0]));
		cr_expect_eq(kvmm_validate(pool), 0);
	}
	cr_expect_eq(kvmm_range_free(pool, range), 0);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(stat_of(pool).nr_free, 2 * KVMM_MAX_RUNS);
}
