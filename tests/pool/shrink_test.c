// SPDX-License-Identifier: Apache-2.0
/*
 * Memory that is given back and comes again. Pageblocks are of four blocks; '-' is away. Pools of the
 * caller's memory have units of one pageblock.
 */
#include <kvmm/event.h>

#include "offline/leave.h"
#include "tests/pool/shrink_util.h"
#include "tools/map.h"

static struct kvmm_pool *of_ids(u32 nr_blocks, const char *policy)
{
	struct kvmm_elastic_attr elastic = { .size = sizeof(elastic), .pageblock_blocks = PB };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = nr_blocks,
				       .policy = policy };
	struct kvmm_pool *pool = make_pool_of(&attr);

	cr_assert_eq(kvmm_pool_elastic_setup(pool, &elastic), 0);
	return pool;
}

/* Losing a block is cheaper than copying it. */
static const struct kvmm_alloc_attr dropping = {
	.size = sizeof(dropping), .costs = { .copy_block_ns = 1000, .drop_block_ns = 10 },
};

static int shrink_blocks(struct kvmm_pool *pool, u32 nr, u32 least, struct kvmm_shrink *req)
{
	*req = (struct kvmm_shrink){ .size = sizeof(*req), .nr_blocks = nr, .min_blocks = least };
	return kvmm_pool_shrink(pool, req);
}

static int grow_blocks(struct kvmm_pool *pool, u32 nr)
{
	struct kvmm_regain req = { .size = sizeof(req), .nr_blocks = nr };

	return kvmm_pool_grow(pool, &req);
}

/* ---- which pageblocks ---- */

POOL_TEST(shrink, free_pageblocks_go_first_and_from_the_top, of_ids(16, NULL))
{
	kvmm_range_t range[26];
	struct kvmm_shrink req;

	paint(pool, "aa......bb......", range);
	cr_expect_eq(shrink_blocks(pool, 4, 0, &req), 0);
	cr_expect_str_eq(picture(pool), "aa......bb..----");
	cr_expect_eq(req.moved, 0);
	cr_expect_eq(req.given_blocks, 4);
	cr_expect_eq(shrink_blocks(pool, 4, 0, &req), 0);
	cr_expect_str_eq(picture(pool), "aa..----bb..----");
}

POOL_TEST(shrink, then_those_that_take_the_fewest_copies, of_ids(16, NULL))
{
	kvmm_range_t range[26];
	struct kvmm_shrink req;

	paint(pool, "aaa.bbb.c...dd..", range);
	cr_expect_eq(shrink_blocks(pool, 4, 0, &req), 0);
	cr_expect_eq(req.moved, 1);
	cr_expect_str_eq(picture(pool), "aaacbbb.----dd..");
}

POOL_TEST(shrink, a_piece_of_a_pageblock_is_a_whole_one, of_ids(16, NULL))
{
	struct kvmm_shrink req;

	cr_expect_eq(shrink_blocks(pool, 5, 0, &req), 0);
	cr_expect_eq(req.given_blocks, 8);
	cr_expect_eq(stat_of(pool).nr_away, 8);
	cr_expect_eq(stat_of(pool).nr_free, 8);
	cr_expect_eq(stat_of(pool).nr_blocks, 16);
}

POOL_TEST(shrink, what_is_pinned_stays, of_ids(16, NULL))
{
	kvmm_range_t range[26];
	struct kvmm_shrink req;

	paint(pool, "a...b...c...d...", range);
	for (u32 i = 0; i < 4; i += 2)
		cr_assert_eq(kvmm_range_pin(pool, range[i]), 0);
	cr_expect_eq(shrink_blocks(pool, 12, 0, &req), -ENOSPC);
	cr_expect_str_eq(picture(pool), "a...b...c...d...");
	cr_expect_eq(shrink_blocks(pool, 12, 1, &req), 0);
	cr_expect_eq(req.given_blocks, 8);
	cr_expect_eq(strncmp(picture(pool), "a", 1) || strncmp(picture(pool) + 8, "c", 1), 0);
	for (u32 i = 0; i < 4; i += 2)
		cr_assert_eq(kvmm_range_unpin(pool, range[i]), 0);
}

POOL_TEST(shrink, a_range_longer_than_a_pageblock_moves_as_a_whole, of_ids(20, NULL))
{
	kvmm_range_t range[26];
	struct kvmm_shrink req;

	paint(pool, "......aaaaaac......d", range);
	cr_assert_eq(kvmm_range_pin(pool, range[2]), 0);
	cr_assert_eq(kvmm_range_pin(pool, range[3]), 0);
	cr_expect_eq(shrink_blocks(pool, 12, 0, &req), 0);
	cr_expect_str_eq(picture(pool), "------------caaaaaad");
	cr_expect_eq(req.nr_moves, 1);
}

Test(shrink, the_null_block_stays)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 8,
				       .flags = KVMM_POOL_NULL_BLOCK };
	struct kvmm_elastic_attr elastic = { .size = sizeof(elastic), .pageblock_blocks = PB };
	struct kvmm_shrink req;
	struct kvmm_pool *pool __cleanup(end_pool) = make_pool_of(&attr);

	cr_assert_eq(kvmm_pool_elastic_setup(pool, &elastic), 0);
	cr_expect_eq(shrink_blocks(pool, 8, 1, &req), 0);
	cr_expect_str_eq(picture(pool), "N...----");
}

POOL_TEST(shrink, the_last_pageblock_may_be_a_short_one, of_ids(10, NULL))
{
	struct kvmm_shrink req;

	cr_expect_eq(shrink_blocks(pool, 10, 0, &req), 0);
	cr_expect_eq(stat_of(pool).nr_away, 10);
	cr_expect_eq(stat_of(pool).nr_free, 0);
	cr_expect_eq(grow_blocks(pool, 0), 0);
	cr_expect_str_eq(picture(pool), "..........");
}

/* ---- nobody is given what is away ---- */

POOL_TEST(shrink, what_is_away_cannot_be_had, of_ids(16, NULL))
{
	kvmm_range_t range;
	struct kvmm_shrink req;
	char map[5];

	cr_expect_eq(shrink_blocks(pool, 8, 0, &req), 0);
	cr_expect_eq(kvmm_range_alloc(pool, 9, KVMM_RUNS(8), &range), -ENOSPC);
	cr_expect_eq(kvmm_range_alloc(pool, 8, KVMM_RUNS(1), &range), 0);
	cr_expect_eq(pool_map(pool, map, 4), 0);
	cr_expect_str_eq(map, "@@--");
	cr_expect_eq(grow_blocks(pool, 4), 0);
	cr_expect_eq(stat_of(pool).nr_free, 4);
	cr_expect_eq(kvmm_range_alloc(pool, 4, KVMM_RUNS(1), &range), 0);
	cr_expect_str_eq(picture(pool), "############----");
}

POOL_TEST(shrink, memory_that_is_away_is_neither_read_nor_written, adopt(8, NULL, NULL))
{
	u8 buf[TEST_BLOCK_BYTES] = { 0 };
	struct kvmm_shrink req;

	cr_expect_eq(shrink_blocks(pool, 4, 0, &req), 0);
	cr_expect_eq(kvmm_block_write(pool, 7, 0, buf, sizeof(buf)), -ENXIO);
	cr_expect_eq(kvmm_block_read(pool, 7, 0, buf, sizeof(buf)), -ENXIO);
	cr_expect_eq(kvmm_block_read(pool, 3, 0, buf, sizeof(buf)), 0);
}

/* ---- cached blocks ---- */

POOL_TEST(shrink, the_shortfall_is_evicted_in_its_order_and_no_more, of_ids(16, "lru"))
{
	struct kvmm_shrink req;
	u32 left[16];

	for (u32 i = 0; i < 12; i++)
		cache_keys(pool, i, 1);
	cr_expect_eq(shrink_blocks(pool, 8, 0, &req), 0);
	cr_expect_eq(req.evicted, 4);
	cr_expect_eq(stat_of(pool).nr_inactive, 8);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(eviction_order(pool, left, 16), 8);
	for (u32 i = 0; i < 8; i++)
		cr_expect_eq(left[i], 4 + i);
}

POOL_TEST(shrink, nothing_is_evicted_for_who_does_not_want_that, of_ids(16, "lru"))
{
	struct kvmm_shrink req = { .size = sizeof(req), .nr_blocks = 8,
				   .flags = KVMM_SHRINK_NO_EVICT };

	cache_keys(pool, 0, 12);
	cr_expect_eq(kvmm_pool_shrink(pool, &req), -ENOSPC);
	cr_expect_eq(stat_of(pool).nr_inactive, 12);
	req.nr_blocks = 4;
	cr_expect_eq(kvmm_pool_shrink(pool, &req), 0);
	cr_expect_eq(stat_of(pool).nr_inactive, 12);
}

POOL_TEST(shrink, parked_blocks_make_way_where_nothing_may_be_evicted, of_ids(8, "lru"))
{
	struct kvmm_shrink req = { .size = sizeof(req), .nr_blocks = 4, .flags = KVMM_SHRINK_NO_EVICT };
	kvmm_mut_t mut;

	take(pool, 2, KVMM_ALLOC_PINNED);
	cr_assert_eq(kvmm_alloc(pool, 1, &mut), 0);
	cr_assert_eq(kvmm_range_free(pool, take(pool, 1, 0)), 0);
	take(pool, 2, KVMM_ALLOC_TOPDOWN);
	cr_assert_eq(kvmm_park(pool, &mut, 1), 0);
	cr_assert_str_eq(picture(pool), "##....##");
	cr_expect_eq(kvmm_pool_shrink(pool, &req), 0);
	cr_expect_str_eq(picture(pool), "####----");
	cr_expect_eq(kvmm_unpark(pool, &mut, 1), -ESTALE);
}

/* In vain: who cannot be moved is everywhere. */
POOL_TEST(shrink, a_shrink_that_fails_evicts_nothing, of_ids(16, "lru"))
{
	kvmm_range_t range[26];
	struct kvmm_shrink req;
	u32 left[16];

	paint(pool, "a...b...c...d...", range);
	for (u32 i = 0; i < 12; i++)
		cache_keys(pool, i, 1);
	for (u32 i = 0; i < 3; i++)
		cr_assert_eq(kvmm_range_pin(pool, range[i]), 0);
	cr_expect_eq(shrink_blocks(pool, 8, 0, &req), -ENOSPC);
	cr_expect_eq(req.evicted, 0);
	cr_expect_eq(stat_of(pool).nr_inactive, 12);
	cr_expect_eq(eviction_order(pool, left, 16), 12);
	for (u32 i = 0; i < 12; i++)
		cr_expect_eq(left[i], i);
	for (u32 i = 0; i < 3; i++)
		cr_assert_eq(kvmm_range_unpin(pool, range[i]), 0);
}

POOL_TEST(shrink, where_losing_is_cheaper_than_copying_blocks_are_dropped,
	  adopt(16, "lru", &dropping))
{
	const uint32_t gone[] = { 0, 1, 4, 5, 8, 9, 12 };
	struct kvmm_shrink req;

	cache_keys(pool, 0, 16);
	cr_assert_eq(kvmm_evict_blocks(pool, gone, 7), 7);
	cr_expect_eq(shrink_blocks(pool, 4, 0, &req), 0);
	cr_expect_eq(req.moved, 0);
	cr_expect_eq(req.evicted, 2);
	cr_expect_str_eq(picture(pool), "..II..II----.III");
}

POOL_TEST(shrink, what_has_to_stay_free_stays, of_ids(16, NULL))
{
	struct kvmm_watermarks marks = { .min = 2, .low = 6, .high = 8 };
	struct kvmm_shrink req;

	cr_assert_eq(kvmm_watermarks_set(pool, &marks), 0);
	cr_expect_eq(shrink_blocks(pool, 12, 0, &req), -ENOSPC);
	cr_expect_eq(shrink_blocks(pool, 12, 4, &req), 0);
	cr_expect_eq(req.given_blocks, 8);
}

static kvmm_promise_t promise_of(struct kvmm_pool *pool, u32 nr)
{
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = nr };
	kvmm_promise_t promise;

	cr_assert_eq(kvmm_promise_make(pool, &ctl, &promise), 0);
	return promise;
}

/*
 * There is no run of two for the range of the cheapest pageblock, the short one; the next one takes no
 * room, as its free blocks, which the policy keeps, are not copied. All single places are promised, or
 * would be needed for that.
 */
static void make_scattered(struct kvmm_pool *pool, kvmm_range_t *range)
{
	kvmm_mut_t block[4];

	paint(pool, "bbbfcccgdddheeeizzzzaa", range);
	cr_assert_eq(kvmm_range_free(pool, range['z' - 'a']), 0);
	cr_assert_eq(kvmm_alloc(pool, 4, block), 0);
	cr_assert_eq(kvmm_free(pool, block, 4), 0);
	for (u32 i = 'f'; i <= 'i'; i++)
		cr_assert_eq(kvmm_range_free(pool, range[i - 'a']), 0);
	for (u32 i = 'b'; i <= 'e'; i++)
		cr_assert_eq(kvmm_range_pin(pool, range[i - 'a']), 0);
}

static void end_scattered(struct kvmm_pool *pool, const kvmm_range_t *range, kvmm_promise_t promise)
{
	cr_expect_str_eq(picture(pool), "bbb.ccc.ddd.eee.----aa");
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_promise_end(pool, promise), 2);
	for (u32 i = 'b'; i <= 'e'; i++)
		cr_assert_eq(kvmm_range_unpin(pool, range[i - 'a']), 0);
	end_pool(pool);
}

Test(shrink, another_pageblock_instead_does_not_take_what_is_promised)
{
	struct kvmm_pool *pool = of_ids(22, "lru-classic");
	struct kvmm_shrink req;
	kvmm_promise_t promise;
	kvmm_range_t range[26];

	make_scattered(pool, range);
	promise = promise_of(pool, 2);
	cr_expect_eq(shrink_blocks(pool, 2, 0, &req), 0);
	cr_expect_eq(req.moved, 0);
	end_scattered(pool, range, promise);
}

/* The lowest pageblock is the cheapest; but what is in it has a child in the next one, so it stays. */
POOL_TEST(shrink, what_cannot_be_dropped_after_all_does_not_take_what_is_promised,
	  adopt(16, "lru", &dropping))
{
	const uint32_t gone[] = { 0, 1, 2, 6, 7 };
	struct kvmm_shrink req;
	kvmm_promise_t promise;

	cache_keys(pool, 0, 16);
	cr_assert_eq(kvmm_evict_blocks(pool, gone, 5), 5);
	promise = promise_of(pool, 2);
	cr_expect_eq(shrink_blocks(pool, 4, 0, &req), 0);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(req.moved, 0);
	cr_expect_str_eq(picture(pool), "...I----IIIIIIII");
	cr_expect_eq(kvmm_promise_end(pool, promise), 2);
}

/* ---- content ---- */

POOL_TEST(shrink, content_follows_its_block, adopt(32, NULL, NULL))
{
	struct kvmm_mem_range freed[8];
	struct kvmm_shrink req = { .size = sizeof(req), .bytes = 4 * UNIT, .ranges = freed,
				   .max_ranges = 8 };
	kvmm_range_t range[26];

	paint(pool, "a...b...c...d...e...f...g...h...", range);
	for (u32 i = 0; i < 8; i++)
		write_pattern(pool, range[i], i);
	cr_expect_eq(kvmm_pool_shrink(pool, &req), 0);
	cr_expect_eq(req.given_bytes, 4 * UNIT);
	cr_expect_eq(req.moved, 4);
	for (u32 i = 0; i < req.nr_ranges; i++)
		memset((void *)(uintptr_t)freed[i].addr, 0xee, freed[i].bytes);
	for (u32 i = 0; i < 8; i++)
		cr_expect(has_pattern(pool, range[i], i), "%u", i);
}

/* ---- memory of the caller ---- */

POOL_TEST(shrink, the_caller_is_told_of_each_range_once_and_hands_it_back, adopt(16, NULL, NULL))
{
	struct kvmm_mem_range freed[4];
	struct kvmm_regain back = { .size = sizeof(back) };
	struct kvmm_shrink req = { .size = sizeof(req), .bytes = 2 * UNIT };

	cr_expect_eq(kvmm_pool_shrink(pool, &req), 0);
	cr_expect_eq(req.given_bytes, 2 * UNIT);
	cr_expect_eq(elastic_of_pool(pool).untold_bytes, 2 * UNIT);
	cr_expect_eq(elastic_of_pool(pool).given_bytes, 0);
	cr_expect_eq(kvmm_pool_freed(pool, freed, 4), 1);
	cr_expect_eq(freed[0].addr, (uintptr_t)memory_of(16) + 2 * UNIT);
	cr_expect_eq(freed[0].bytes, 2 * UNIT);
	cr_expect_eq(kvmm_pool_freed(pool, freed + 1, 3), 0);
	cr_expect_eq(grow_blocks(pool, 4), -ENOSPC, "it is the caller's");
	freed[1] = (struct kvmm_mem_range){ freed[0].addr + UNIT, UNIT };
	freed[2] = (struct kvmm_mem_range){ freed[0].addr - UNIT, UNIT };
	back.ranges = &freed[2];
	back.nr_ranges = 1;
	cr_expect_eq(kvmm_pool_grow(pool, &back), -EINVAL, "it was not told of that");
	back.ranges = &freed[1];
	cr_expect_eq(kvmm_pool_grow(pool, &back), 0);
	cr_expect_eq(back.regained_blocks, 4);
	cr_expect_eq(back.regained_bytes, UNIT);
	cr_expect_str_eq(picture(pool), "........----....");
	cr_expect_eq(kvmm_pool_grow(pool, &back), -EINVAL, "twice");
}

/* Blocks of 64 bytes in memory that begins 64 bytes behind a unit. */
POOL_TEST(shrink, only_whole_units_of_memory_are_told_of,
	  adopt_at(memory_of(24) + TEST_BLOCK_BYTES, 16, NULL, NULL))
{
	const uintptr_t first = (uintptr_t)memory_of(24) + TEST_BLOCK_BYTES;
	struct kvmm_mem_range freed[4];
	struct kvmm_shrink req = { .size = sizeof(req), .bytes = 2 * UNIT };

	cr_expect_eq(kvmm_pool_shrink(pool, &req), 0);
	cr_expect_eq(req.given_bytes, 2 * UNIT);
	cr_expect_geq(req.given_blocks, 9);
	cr_expect_eq(kvmm_pool_freed(pool, freed, 4), 1);
	cr_expect_eq(freed[0].addr % UNIT, 0);
	cr_expect_geq(freed[0].addr, first);
	cr_expect_leq(freed[0].addr + freed[0].bytes, first + 16 * TEST_BLOCK_BYTES);
}

/*
 * Units lie across pageblocks: 0 to 3, 4 to 7, 8 to 11, 12 to 15 have units 2 to 5, 6 to 9, 10 to 13.
 * The caller has the middle one, so the two pageblocks in the middle cannot come back; what they have
 * of the others is not his for that.
 */
Test(shrink, memory_that_comes_back_is_not_told_of_for_a_neighbour_that_cannot)
{
	struct kvmm_elastic_attr elastic = { .size = sizeof(elastic), .unit_bytes = UNIT,
					     .pageblock_blocks = PB };
	struct kvmm_regain back = { .size = sizeof(back), .nr_blocks = 16, .min_blocks = 1 };
	u8 *mem = memory_of(20);
	struct kvmm_plane plane = { (uintptr_t)mem + 2 * TEST_BLOCK_BYTES, TEST_BLOCK_BYTES,
				    TEST_BLOCK_BYTES };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 16, .planes = &plane,
				       .nr_planes = 1 };
	struct kvmm_mem_range freed[4];
	struct kvmm_shrink req;
	kvmm_range_t range[26];
	struct kvmm_pool *pool = make_pool_of(&attr);

	cr_assert_eq(kvmm_pool_elastic_setup(pool, &elastic), 0);
	paint(pool, "aaaa........bbbb", range);
	cr_assert_eq(kvmm_range_pin(pool, range[0]), 0);
	cr_assert_eq(kvmm_range_pin(pool, range[1]), 0);
	cr_assert_eq(shrink_blocks(pool, 8, 0, &req), 0);
	cr_assert_eq(kvmm_pool_freed(pool, freed, 4), 1);
	cr_assert_eq(freed[0].bytes, UNIT);
	for (u32 i = 0; i < 2; i++) {
		cr_assert_eq(kvmm_range_unpin(pool, range[i]), 0);
		cr_assert_eq(kvmm_range_free(pool, range[i]), 0);
	}
	cr_assert_eq(shrink_blocks(pool, 8, 0, &req), 0);
	cr_assert_eq(kvmm_pool_grow(pool, &back), 0);
	cr_expect_eq(back.regained_blocks, 8);
	cr_expect_str_eq(picture(pool), "....--------....");
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_pool_freed(pool, freed, 4), 0, "it is in use");
	end_pool(pool);
}

Test(shrink, planes_that_lie_between_each_other_go_together)
{
	u8 *mem = memory_of(32);
	struct kvmm_elastic_attr elastic = { .size = sizeof(elastic), .unit_bytes = UNIT };
	struct kvmm_plane plane[2] = {
		{ (uintptr_t)mem, 2 * TEST_BLOCK_BYTES, TEST_BLOCK_BYTES },
		{ (uintptr_t)mem + TEST_BLOCK_BYTES, 2 * TEST_BLOCK_BYTES, TEST_BLOCK_BYTES },
	};
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 16, .planes = plane,
				       .nr_planes = 2 };
	struct kvmm_shrink req = { .size = sizeof(req), .bytes = UNIT };
	struct kvmm_pool *pool = make_pool_of(&attr);

	cr_assert_eq(kvmm_pool_elastic_setup(pool, &elastic), 0);
	cr_expect_eq(elastic_of_pool(pool).pageblock_blocks, 2);
	cr_expect_eq(elastic_of_pool(pool).total_bytes, 8 * UNIT);
	cr_expect_eq(kvmm_pool_shrink(pool, &req), 0);
	cr_expect_str_eq(picture(pool), "..............--");
	end_pool(pool);
	attr.nr_planes = 1;
	pool = make_pool_of(&attr);
	cr_expect_eq(kvmm_pool_elastic_setup(pool, &elastic), -EOPNOTSUPP, "whose is the rest?");
	end_pool(pool);
}

/* ---- misuse ---- */

Test(shrink, misuse_is_refused)
{
	struct kvmm_elastic_attr elastic = { .size = sizeof(elastic), .pageblock_blocks = 3 };
	struct kvmm_pool *pool = make_pool(16), *ids __cleanup(end_pool) = of_ids(16, NULL);
	struct kvmm_shrink req = { .size = sizeof(req) };
	struct kvmm_regain back = { .size = sizeof(back), .bytes = 1, .nr_blocks = 1 };

	cr_expect_eq(kvmm_pool_shrink(pool, &req), -EINVAL);
	req.nr_blocks = 4;
	cr_expect_eq(kvmm_pool_shrink(pool, &req), -EOPNOTSUPP, "memory of its own");
	cr_expect_eq(kvmm_balloon_set(ids, 1), -EOPNOTSUPP);
	req.bytes = 4;
	cr_expect_eq(kvmm_pool_shrink(ids, &req), -EINVAL);
	req.nr_blocks = 0;
	cr_expect_eq(kvmm_pool_shrink(ids, &req), -EOPNOTSUPP);
	req.min_bytes = 5;
	cr_expect_eq(kvmm_pool_shrink(ids, &req), -EINVAL);
	req = (struct kvmm_shrink){ .size = sizeof(req), .nr_blocks = 4, .flags = 2 };
	cr_expect_eq(kvmm_pool_shrink(ids, &req), -EINVAL);
	req = (struct kvmm_shrink){ .size = sizeof(req), .nr_blocks = 4 };
	cr_expect_eq(kvmm_pool_shrink_start(ids, &req, KVMM_NR_MOVE_MODES), -EINVAL);
	cr_expect_eq(kvmm_pool_shrink_cancel(ids), -EINVAL);
	cr_expect_eq(kvmm_pool_grow(ids, &back), -EINVAL);
	cr_expect_eq(kvmm_pool_elastic_setup(pool, &elastic), -EINVAL);
	elastic.pageblock_blocks = 8;
	cr_expect_eq(kvmm_pool_elastic_setup(ids, &elastic), -EBUSY);
	cr_expect_eq(kvmm_pool_freed(ids, NULL, 0), -EOPNOTSUPP);
	cr_expect_eq(grow_blocks(ids, 1), -ENOSPC);
	end_pool(pool);
}

/* ---- beside steps ---- */

static void seal_all(struct kvmm_pool *pool, const kvmm_range_t *range, u32 nr)
{
	for (u32 i = 0; i < nr; i++) {
		struct kvmm_range_info info;

		cr_assert_eq(kvmm_range_get_info(pool, range[i], &info), 0);
		cr_assert_eq(kvmm_range_seal(pool, range[i], info.nr), 0);
	}
}

static int start_blocks(struct kvmm_pool *pool, u32 nr, u32 least)
{
	struct kvmm_shrink req = { .size = sizeof(req), .nr_blocks = nr, .min_blocks = least };

	return kvmm_pool_shrink_start(pool, &req, KVMM_MOVE_BESIDE);
}

POOL_TEST(shrink, beside_steps_a_place_is_kept_until_they_have_ended, adopt(16, NULL, NULL))
{
	kvmm_stream_t id = add_stream(pool);
	struct kvmm_mem_range freed;
	kvmm_range_t range[26];
	uint64_t epoch;

	paint(pool, "aaa.bb..c...ddd.", range);
	seal_all(pool, range, 4);
	for (u32 i = 0; i < 4; i++)
		write_pattern(pool, range[i], i);
	cr_assert_eq(kvmm_step_begin(pool, id, &epoch), 0);
	cr_expect_eq(start_blocks(pool, 4, 0), 0);
	for (u32 i = 0; i < 3; i++)
		cr_expect_eq(kvmm_pool_shrink_poll(pool, NULL), 1);
	cr_expect_eq(kvmm_pool_freed(pool, &freed, 1), 0, "a step may read there");
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_assert_eq(kvmm_step_end(pool, id, epoch), 0);
	for (u32 i = 0; i < 4; i++)
		kvmm_pool_shrink_poll(pool, NULL);
	cr_expect_eq(kvmm_pool_shrink_poll(pool, NULL), 0);
	cr_expect_eq(kvmm_pool_freed(pool, &freed, 1), 1);
	cr_expect_eq(freed.addr, (uintptr_t)memory_of(16) + 2 * UNIT);
	for (u32 i = 0; i < 4; i++)
		cr_expect(has_pattern(pool, range[i], i));
}

Test(shrink, beside_steps_another_pageblock_instead_drops_what_it_was_to_drop)
{
	struct kvmm_pool *pool = of_ids(22, "lru-classic");
	struct kvmm_shrink req = { .size = sizeof(req), .nr_blocks = 2 };
	kvmm_promise_t promise;
	kvmm_range_t range[26];

	make_scattered(pool, range);
	seal_all(pool, range, 1);
	promise = promise_of(pool, 2);
	cr_assert_eq(kvmm_pool_shrink_start(pool, &req, 0), 0);
	for (u32 i = 0; i < 8; i++)
		kvmm_pool_shrink_poll(pool, &req);
	cr_expect_eq(req.moved, 0);
	end_scattered(pool, range, promise);
}

/* Nothing has to move there; a step that began before may read what its owner freed since. */
POOL_TEST(shrink, also_free_blocks_are_kept_until_steps_have_ended, adopt(8, NULL, NULL))
{
	kvmm_stream_t id = add_stream(pool);
	struct kvmm_mem_range freed;
	kvmm_range_t range = take(pool, 8, 0);
	uint64_t epoch;

	cr_assert_eq(kvmm_step_begin(pool, id, &epoch), 0);
	cr_assert_eq(kvmm_range_free(pool, range), 0);
	cr_expect_eq(start_blocks(pool, 4, 0), 0);
	cr_expect_eq(kvmm_pool_shrink_poll(pool, NULL), 1);
	cr_expect_eq(kvmm_pool_freed(pool, &freed, 1), 0);
	cr_assert_eq(kvmm_step_end(pool, id, epoch), 0);
	cr_expect_eq(kvmm_pool_shrink_poll(pool, NULL), 0);
	cr_expect_eq(kvmm_pool_freed(pool, &freed, 1), 1);
}

POOL_TEST(shrink, what_becomes_free_in_a_pageblock_that_leaves_is_given_to_nobody, of_ids(8, NULL))
{
	kvmm_range_t range[26], other;

	paint(pool, "aaa.b.bb", range);
	seal_all(pool, range, 2);
	cr_assert_eq(kvmm_range_free(pool, range[0]), 0);
	cr_expect_eq(start_blocks(pool, 4, 0), 0);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_range_alloc(pool, 4, KVMM_RUNS(8) | KVMM_ALLOC_NO_COMPACT, &other), -ENOSPC);
	cr_expect_eq(kvmm_range_free(pool, range[1]), 0);
	for (u32 i = 0; i < 4; i++)
		kvmm_pool_shrink_poll(pool, NULL);
	cr_expect_eq(stat_of(pool).nr_away, 4);
	cr_expect_eq(stat_of(pool).nr_free, 4);
}

/* "##..II--", of which the latter half is on its way out: keys 0 and 1, the first to be evicted. */
static struct kvmm_pool *with_two_that_leave(void)
{
	struct kvmm_pool *pool = of_ids(8, "lru");
	kvmm_range_t range = take(pool, 2, 0), hole = take(pool, 2, 0);

	cache_keys(pool, 0, 2);
	cr_assert_eq(kvmm_range_seal(pool, range, 2), 0);
	cr_assert_eq(kvmm_range_free(pool, hole), 0);
	cr_assert_eq(start_blocks(pool, 4, 0), 0);
	cr_assert_eq(kvmm_compact_cancel(pool), 2);
	cr_assert_str_eq(picture(pool), "##..II--");
	return pool;
}

/* Evicting them makes no room, since their blocks go with the memory: so they stay, in their order. */
POOL_TEST(shrink, a_request_that_fails_evicts_nothing_where_memory_is_leaving,
	  with_two_that_leave())
{
	kvmm_range_t other;
	u32 numbers[8];

	cr_expect_eq(kvmm_range_alloc(pool, 3, KVMM_RUNS(8) | KVMM_ALLOC_NO_COMPACT, &other), -ENOSPC);
	cr_expect_str_eq(picture(pool), "##..II--");
	cr_expect_eq(kvmm_validate(pool), 0);
	for (u32 i = 0; i < 4; i++)
		kvmm_pool_shrink_poll(pool, NULL);
	cr_expect_str_eq(picture(pool), "##II----");
	cr_expect_eq(eviction_order(pool, numbers, 8), 2);
	cr_expect(numbers[0] == 1 && numbers[1] == 0, "the tail of the chain first");
}

/* A block that is parked there goes with the memory: it is not free. */
POOL_TEST(shrink, what_is_parked_where_memory_is_leaving_is_no_free_block, with_two_that_leave())
{
	struct kvmm_events_attr attr = KVMM_EVENTS_ATTR_INIT;
	struct kvmm_events *events;
	struct kvmm_event event[8];
	kvmm_mut_t mut[4];
	kvmm_range_t other;
	u64 lost;

	attr.kinds = 0;
	attr.flags = KVMM_EVENTS_REUSED;
	cr_assert_eq(kvmm_events_open(pool, &attr, &events), 0);
	cr_assert_eq(kvmm_alloc(pool, 4, mut), 0);
	cr_assert_str_eq(picture(pool), "##PPPP--");
	cr_assert_eq(kvmm_park(pool, mut, 4), 0);
	cr_expect_str_eq(picture(pool), "##..----");
	cr_expect_eq(stat_of(pool).nr_free, 2);
	cr_expect_eq(kvmm_events_read(events, event, 8, &lost), 2, "those two have lost their content");
	cr_expect_geq(event[0].block, 4);
	kvmm_events_close(events);
	cr_expect_eq(kvmm_unpark(pool, mut, 2), 0);
	cr_expect_eq(kvmm_unpark(pool, mut + 2, 1), -ESTALE);
	cr_assert_eq(kvmm_park(pool, mut, 2), 0);
	cr_expect_eq(kvmm_range_alloc(pool, 3, KVMM_RUNS(8), &other), -ENOSPC);
	cr_expect_eq(kvmm_range_alloc(pool, 2, KVMM_RUNS(8), &other), 0);
	cr_expect_eq(kvmm_validate(pool), 0);
}

/* Room that would go with the memory is not worth losing anything for. */
POOL_TEST(shrink, room_is_made_where_memory_stays_or_nothing_is_evicted, with_two_that_leave())
{
	struct kvmm_evict_for_args req = { .size = sizeof(req), .nr_blocks = 3 };

	cr_expect_eq(kvmm_evict_for(pool, &req), -ENOSPC);
	cr_expect_str_eq(picture(pool), "##..II--");
	cache_keys(pool, 2, 1);
	cr_assert_str_eq(picture(pool), "##I.II--");
	req.nr_blocks = 2;
	cr_expect_eq(kvmm_evict_for(pool, &req), 0);	/* the other two are older, and go before */
	cr_expect_eq(req.nr_evicted, 3);
	cr_expect_eq(req.nr_free, 2);
	cr_expect_str_eq(picture(pool), "##..----");
}

/*
 * A run of two could be made by moving the two that leave, to a free block and to where the victim is;
 * but that run would leave with them.
 */
POOL_TEST(shrink, nothing_is_moved_to_make_a_run_where_memory_is_leaving, of_ids(8, "lru"))
{
	kvmm_range_t range[4], got;
	kvmm_ref_t ref[2];

	for (u32 i = 0; i < 4; i++)
		range[i] = take(pool, 1, i % 2 ? 0 : KVMM_ALLOC_PINNED);
	cache_keys(pool, 1, 2);
	cr_assert_eq(kvmm_range_free(pool, range[1]), 0);
	cr_assert_eq(kvmm_range_free(pool, range[3]), 0);
	cr_assert_eq(start_blocks(pool, 4, 0), 0);
	cr_assert_eq(kvmm_compact_cancel(pool), 2);
	cache_keys(pool, 0, 1);
	for (u32 i = 1; i < 3; i++) {
		const kvmm_key_t key = key_of(i);

		cr_assert_eq(kvmm_match(pool, &key, 1, &ref[0]), 1);
		cr_assert_eq(kvmm_put(pool, ref[0]), 0);
	}
	cr_assert_str_eq(picture(pool), "#I#.II--");
	cr_expect_eq(kvmm_range_alloc(pool, 2, KVMM_RUNS(1), &got), -ENOSPC);
	cr_expect_eq(stat_of(pool).evictions, 0);
	cr_expect_eq(stat_of(pool).moved_blocks, 0);
	cr_expect_str_eq(picture(pool), "#I#.II--");
}

/* The shrink is cancelled, and somebody else writes there: no gang that is aborted brings them back. */
POOL_TEST(shrink, what_was_evicted_there_for_a_gang_does_not_come_back_with_other_content,
	  with_two_that_leave())
{
	struct kvmm_gang_attr attr = KVMM_GANG_ATTR_INIT;
	struct kvmm_gang_want want = { .kind = KVMM_GANG_RANGE, .nr = 1, .max_runs = 1 };
	struct kvmm_gang *gang;
	kvmm_promise_t promise;

	cache_keys(pool, 2, 1);
	promise = promise_of(pool, 1);
	attr.pools = &pool;
	attr.nr_pools = 1;
	attr.wants = &want;
	attr.nr = 1;
	cr_assert_eq(kvmm_gang_reserve(&attr, &gang, NULL), 0);
	cr_assert_str_eq(picture(pool) + 4, "----");
	cr_assert_eq(kvmm_pool_shrink_cancel(pool), 0);
	cr_assert_eq(kvmm_range_free(pool, take(pool, 4, KVMM_ALLOC_HIGH)), 0);
	cr_assert_eq(kvmm_gang_abort(gang), 0);
	cr_expect_str_eq(picture(pool) + 4, "....");
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_assert_eq(kvmm_promise_end(pool, promise), 1);
}

POOL_TEST(shrink, who_is_pinned_meanwhile_keeps_its_pageblock_and_another_one_goes,
	  of_ids(16, NULL))
{
	kvmm_range_t range[26];
	kvmm_stream_t id = add_stream(pool);
	uint64_t epoch;
	int ret = 1;

	paint(pool, "aa..bb..ccc.d...", range);
	seal_all(pool, range, 4);
	cr_assert_eq(kvmm_step_begin(pool, id, &epoch), 0);
	cr_expect_eq(start_blocks(pool, 4, 0), 0);
	cr_assert_eq(kvmm_range_pin(pool, range[3]), 0);
	cr_assert_eq(kvmm_step_end(pool, id, epoch), 0);
	for (u32 i = 0; i < 16 && ret == 1; i++)
		ret = kvmm_pool_shrink_poll(pool, NULL);
	cr_expect_eq(ret, 0, "%d", ret);
	cr_expect_eq(picture(pool)[12], 'd');
	cr_expect_eq(stat_of(pool).nr_away, 4);
	cr_assert_eq(kvmm_range_unpin(pool, range[3]), 0);
}

/* A range that came meanwhile has the pageblock that is left reserved, and grows all the same. */
POOL_TEST(shrink, what_is_reserved_meanwhile_goes, of_ids(16, NULL))
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 4, .expect = 8,
					.flags = KVMM_ALLOC_GROWS };
	kvmm_range_t range[26], grows;
	kvmm_stream_t id = add_stream(pool);
	uint64_t epoch;
	int ret = 1;

	paint(pool, "aaa.ccccbbb.d...", range);
	cr_assert_eq(kvmm_range_seal(pool, range[3], 1), 0);
	cr_assert_eq(kvmm_step_begin(pool, id, &epoch), 0);
	cr_expect_eq(start_blocks(pool, 4, 0), 0);
	cr_assert_eq(kvmm_range_free(pool, range[2]), 0);
	cr_assert_eq(kvmm_range_free(pool, range[1]), 0);
	cr_assert_eq(kvmm_range_alloc_attr(pool, &attr, &grows), 0);
	cr_expect_eq(pool->grow.nr_reserved, 4);
	cr_assert_eq(kvmm_range_pin(pool, range[3]), 0);
	cr_assert_eq(kvmm_step_end(pool, id, epoch), 0);
	for (u32 i = 0; i < 16 && ret == 1; i++)
		ret = kvmm_pool_shrink_poll(pool, NULL);
	cr_expect_eq(ret, 0, "%d", ret);
	cr_expect_str_eq(picture(pool), "aaa.####----d...");
	cr_assert_eq(kvmm_range_grow(pool, grows, 1), 0);
}

POOL_TEST(shrink, one_that_is_cancelled_keeps_what_has_left_and_frees_the_rest, of_ids(16, NULL))
{
	kvmm_range_t range[26];
	kvmm_stream_t id = add_stream(pool);
	struct kvmm_shrink other = { .size = sizeof(other), .nr_blocks = 4 };
	uint64_t epoch;

	paint(pool, "aaa.bb..cc......", range);
	seal_all(pool, range, 3);
	cr_assert_eq(kvmm_step_begin(pool, id, &epoch), 0);
	cr_expect_eq(start_blocks(pool, 8, 0), 0);
	cr_expect_eq(start_blocks(pool, 4, 0), -EBUSY);
	cr_expect_eq(kvmm_pool_shrink(pool, &other), -EBUSY);
	cr_expect_eq(grow_blocks(pool, 4), -EBUSY);
	cr_expect_eq(kvmm_pool_shrink_cancel(pool), 0);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(stat_of(pool).nr_away, 4);
	cr_assert_eq(kvmm_step_end(pool, id, epoch), 0);
	kvmm_compact_poll(pool);
	cr_expect_eq(stat_of(pool).nr_free, 5);
	cr_expect_eq(grow_blocks(pool, 0), 0);
	cr_expect_eq(stat_of(pool).nr_free, 9);
}

/* Of three blocks in a pageblock that leaves nobody can be moved: then it ends, and nothing is lost. */
POOL_TEST(shrink, one_that_cannot_go_on_ends, of_ids(8, NULL))
{
	kvmm_range_t range[26];
	int ret = 1;

	paint(pool, "aa..b...", range);
	seal_all(pool, range, 2);
	cr_expect_eq(kvmm_pool_quiesce(pool), 0);
	cr_expect_eq(start_blocks(pool, 4, 0), -EBUSY);
	cr_expect_eq(kvmm_pool_resume(pool), 0);
	cr_expect_eq(start_blocks(pool, 4, 0), 0);
	cr_expect_eq(kvmm_compact_cancel(pool), 1);
	cr_assert_eq(kvmm_range_pin(pool, range[0]), 0);
	cr_assert_eq(kvmm_range_pin(pool, range[1]), 0);
	for (u32 i = 0; i < 16 && ret == 1; i++)
		ret = kvmm_pool_shrink_poll(pool, NULL);
	cr_expect_eq(ret, -ENOSPC, "%d", ret);
	cr_expect_eq(kvmm_pool_shrink_poll(pool, NULL), 0, "told once");
	cr_expect_str_eq(picture(pool), "aa..b...");
	cr_assert_eq(kvmm_range_unpin(pool, range[0]), 0);
	cr_assert_eq(kvmm_range_unpin(pool, range[1]), 0);
}

POOL_TEST(shrink, referenced_cached_blocks_leave_beside_steps, adopt(16, "lru", NULL))
{
	kvmm_ref_t ref[16];
	u32 nr = 0;
	int ret = 1;

	register_keys(pool, 0, 16, ref);
	for (u32 i = 0; i < 16; i += 2) {
		cr_assert_eq(kvmm_set_reset(pool, &ref[i], 1, 1), 0);
		cr_assert_eq(kvmm_put(pool, ref[i]), 0);
	}
	cr_expect_eq(start_blocks(pool, 8, 0), 0);
	for (u32 i = 0; i < 16 && ret == 1; i++)
		ret = kvmm_pool_shrink_poll(pool, NULL);
	cr_expect_eq(ret, 0);
	cr_expect_eq(stat_of(pool).nr_away, 8);
	for (u32 i = 1; i < 16; i += 2, nr++) {
		cr_expect_geq(kvmm_block_of_ref(pool, ref[i]), 0);
		cr_assert_eq(kvmm_put(pool, ref[i]), 0);
	}
	cr_expect_eq(stat_of(pool).nr_inactive, nr);
}
