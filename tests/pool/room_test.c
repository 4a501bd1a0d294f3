// SPDX-License-Identifier: Apache-2.0
/* Making room: eviction and compaction, their limits, and how they fail. */
#include <pthread.h>
#include <unistd.h>

#include <kv/cuda.h>
#include <kv/rcu.h>
#include <kvmm/ext/group.h>

#include "pool/internal.h"
#include "tests/pool/util.h"

#define NO_COMPACT	KVMM_ALLOC_NO_COMPACT
#define NO_EVICT	KVMM_ALLOC_NO_EVICT

/* ---- compaction ---- */

POOL_TEST(room, scattered_blocks_are_joined_and_content_follows, make_pool(16))
{
	kvmm_range_t range[26], got;
	struct kvmm_pool_stat stat;

	paint(pool, "aa..bb..cc..dd..", range);
	for (u32 i = 0; i < 4; i++)
		write_pattern(pool, range[i], i);
	cr_expect_eq(kvmm_range_alloc(pool, 6, KVMM_RUNS(1), &got), 0);
	cr_expect_eq(kvmm_range_extents(pool, got, NULL, 0), 1);
	for (u32 i = 0; i < 4; i++)
		cr_expect(has_pattern(pool, range[i], i));
	stat = stat_of(pool);
	cr_expect_eq(stat.fail_frag, 1);
	cr_expect_eq(stat.compactions, 1);
	cr_expect_eq(stat.moved_blocks, 2 * stat.moves);
}

POOL_TEST(room, all_extents_of_a_range_move_and_join, make_pool(16))
{
	struct kvmm_compact goal = { .size = sizeof(goal) };
	struct kvmm_range_info info;
	kvmm_range_t range[26];

	paint(pool, "..aa.aa..b.aa...", range);
	write_pattern(pool, range[0], 5);
	kvmm_range_free(pool, range[1]);
	cr_expect_eq(kvmm_pool_compact(pool, &goal), 0);
	cr_expect_str_eq(picture(pool), "aaaaaa..........");
	cr_expect_eq(kvmm_range_get_info(pool, range[0], &info), 0);
	cr_expect_eq(info.nr_ext, 1);
	cr_expect(has_pattern(pool, range[0], 5));
	cr_expect_eq(goal.moved, 6);
	cr_expect_eq(goal.largest_after, 10);
}

POOL_TEST(room, pinned_ranges_stay_where_they_are, make_pool(16))
{
	struct kvmm_compact goal = { .size = sizeof(goal) };
	kvmm_range_t range[26], got;

	paint(pool, "aa..bb..cc..dd..", range);
	for (u32 i = 0; i < 4; i++)
		kvmm_range_pin(pool, range[i]);
	cr_expect_eq(kvmm_range_alloc(pool, 8, KVMM_RUNS(1), &got), -ENOSPC);
	for (u32 i = 0; i < 4; i++)
		cr_assert(i == 1 || !kvmm_range_unpin(pool, range[i]));
	cr_expect_eq(kvmm_pool_compact(pool, &goal), 0);
	cr_expect_str_eq(picture(pool), "aaddbbcc........");
}

/* Each part between pinned ranges has 4 free blocks; together they have 12. */
POOL_TEST(room, a_request_of_several_runs_has_blocks_moved_across_pinned_ones, make_pool(26))
{
	kvmm_range_t range[26], got;

	paint(pool, "a.b.c.d.xe.f.g.h.yi.j.k.l.", range);
	for (u32 i = 0; i < 12; i++)
		write_pattern(pool, range[i], i);
	cr_assert_eq(kvmm_range_pin(pool, range['x' - 'a']), 0);
	cr_assert_eq(kvmm_range_pin(pool, range['y' - 'a']), 0);
	cr_expect_eq(kvmm_range_alloc(pool, 12, KVMM_RUNS(2) | NO_COMPACT, &got), -ENOSPC);
	cr_expect_eq(kvmm_range_alloc(pool, 12, KVMM_RUNS(2), &got), 0);
	for (u32 i = 0; i < 12; i++)
		cr_expect(has_pattern(pool, range[i], i));
}

/* Ranges with holes between them, some pinned; as many free blocks as stand in @nr_free. */
static struct kvmm_pool *make_holes(u32 seed, u32 *nr_free)
{
	struct kvmm_pool *pool = make_pool(128);
	kvmm_range_t range[128];
	u32 nr = 0;

	for (u32 left = 128, some; left; left -= some) {
		seed = seed * 1103515245 + 12345;
		some = min(1 + (seed >> 16) % 4, left);
		range[nr++] = take(pool, some, KVMM_RUNS(1));
	}
	while (nr--) {
		seed = seed * 1103515245 + 12345;
		if (seed >> 16 & 1)
			cr_assert_eq(kvmm_range_free(pool, range[nr]), 0);
		else if (!(seed >> 17 & 3))
			cr_assert_eq(kvmm_range_pin(pool, range[nr]), 0);
	}
	*nr_free = stat_of(pool).nr_free;
	return pool;
}

Test(room, what_is_refused_does_not_fit_after_packing_either)
{
	u32 nr_served = 0, nr_refused = 0;

	for (u32 seed = 1; seed <= 200; seed++) {
		struct kvmm_compact goal = { .size = sizeof(goal) };
		u32 nr_free, runs = KVMM_RUNS(2 + seed % 5);
		struct kvmm_pool *pool = make_holes(seed, &nr_free);
		kvmm_range_t got;

		nr_free -= nr_free * (seed % 3) / 8;
		if (!kvmm_range_alloc(pool, nr_free, runs, &got)) {
			nr_served += stat_of(pool).moved_blocks > 0;
		} else {
			nr_refused++;
			cr_assert_eq(kvmm_pool_compact(pool, &goal), 0, "seed %u", seed);
			cr_expect_eq(kvmm_range_alloc(pool, nr_free, runs | NO_COMPACT, &got),
				     -ENOSPC, "seed %u", seed);
		}
		end_pool(pool);
	}
	cr_expect_gt(nr_served, 20);
	cr_expect_gt(nr_refused, 20);
}

/* No hole takes two blocks. That is found out once. */
POOL_TEST(room, packing_that_was_in_vain_is_not_tried_again, make_pool(15))
{
	kvmm_range_t range[26], got;
	struct kvmm_alloc_stat stat;

	paint(pool, "aa.xbb.ycc.zdd.", range);
	for (char c = 'x'; c <= 'z'; c++)
		cr_assert_eq(kvmm_range_pin(pool, range[c - 'a']), 0);
	for (u32 i = 0; i < 3; i++) {
		cr_expect_eq(kvmm_range_alloc(pool, 4, KVMM_RUNS(2), &got), -ENOSPC);
		cr_assert_eq(kvmm_alloc_get_stat(pool, &stat), 0);
		cr_expect_eq(stat.skipped[KVMM_STEP_COMPACT], i);
	}
	cr_expect_eq(stat_of(pool).moved_blocks, 0);
	cr_assert_eq(kvmm_range_unpin(pool, range['x' - 'a']), 0);
	cr_expect_eq(kvmm_range_alloc(pool, 3, KVMM_RUNS(2), &got), 0);
}

static void expect_in_vain(struct kvmm_pool *pool, u32 nr, u32 runs, u64 nr_skipped)
{
	struct kvmm_alloc_stat stat;
	kvmm_range_t got;

	cr_expect_eq(kvmm_range_alloc(pool, nr, KVMM_RUNS(runs), &got), -ENOSPC);
	cr_assert_eq(kvmm_alloc_get_stat(pool, &stat), 0);
	cr_expect_eq(stat.skipped[KVMM_STEP_COMPACT], nr_skipped);
}

/* Fewer blocks in one run, and more in several: neither tells anything of the other. */
POOL_TEST(room, two_kinds_of_requests_in_vain_are_known_side_by_side, make_pool(15))
{
	kvmm_range_t range[26];

	paint(pool, "aa.xbb.ycc.zdd.", range);
	for (char c = 'x'; c <= 'z'; c++)
		cr_assert_eq(kvmm_range_pin(pool, range[c - 'a']), 0);
	for (u32 i = 0; i < 3; i++) {
		expect_in_vain(pool, 3, 1, i ? 2 * i - 1 : 0);
		expect_in_vain(pool, 4, 2, 2 * i);
	}
}

Test(room, no_more_is_moved_than_allowed)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 16,
				       .compact_max_blocks = 3 };
	struct kvmm_pool_stat before, after;
	kvmm_range_t range[26], got;
	struct kvmm_pool *pool __cleanup(end_pool) = make_pool_of(&attr);

	paint(pool, "aaaa..bbbb..cccc", range);
	before = stat_of(pool);
	cr_expect_eq(kvmm_range_alloc(pool, 4, KVMM_RUNS(1), &got), -ENOSPC);
	cr_expect_str_eq(picture(pool), "aaaa..bbbb..cccc");
	after = stat_of(pool);
	cr_expect_eq(after.fail_frag, before.fail_frag + 1);
	after.fail_frag--;
	cr_expect_arr_eq(&before, &after, sizeof(before));
}

POOL_TEST(room, nothing_moves_for_those_who_would_rather_fail, make_pool(16))
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 16, .compactor = "off" };
	struct kvmm_pool *off __cleanup(end_pool) = make_pool_of(&attr);
	struct kvmm_compact goal = { .size = sizeof(goal) };
	kvmm_range_t range[26], got;

	paint(pool, "aa..bb..cc..dd..", range);
	cr_expect_eq(kvmm_range_alloc(pool, 4, KVMM_RUNS(1) | NO_COMPACT, &got), -ENOSPC);
	cr_expect_eq(stat_of(pool).fail_frag, 1);

	paint(off, "aa..bb..cc..dd..", range);
	cr_expect_eq(kvmm_range_alloc(off, 4, KVMM_RUNS(1), &got), -ENOSPC);
	cr_expect_eq(kvmm_pool_compact(off, &goal), -EOPNOTSUPP);
	cr_expect_str_eq(picture(off), "aa..bb..cc..dd..");
}

/* The run of 3 that would come of it is not in one aligned block of 4. */
Test(room, nothing_moves_for_an_engine_that_may_not_take_the_run)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 16,
				       .allocator = "buddy-trim" };
	kvmm_range_t range[4], got;
	struct kvmm_pool *pool __cleanup(end_pool) = make_pool_of(&attr);

	for (u32 i = 0; i < 4; i++)
		range[i] = take_seq(pool, 4, KVMM_RUNS(1), 'a' + i);
	cr_expect_eq(kvmm_range_shrink(pool, range[0], 1), 0);
	cr_expect_eq(kvmm_range_shrink(pool, range[3], 2), 0);
	cr_expect_eq(kvmm_range_alloc(pool, 3, KVMM_RUNS(1), &got), -ENOSPC);
	cr_expect_str_eq(picture(pool), "aaa.bbbbccccdd..");
}

POOL_TEST(room, a_range_that_grows_may_be_moved_itself, make_pool(12))
{
	kvmm_range_t range[26];

	paint(pool, "aa.bb.cc.dd.", range);
	write_pattern(pool, range[1], 9);
	cr_expect_eq(kvmm_range_grow(pool, range[1], 4), 0);
	cr_expect_eq(stat_of(pool).nr_free, 0);
	cr_expect_eq(kvmm_range_shrink(pool, range[1], 4), 0);
	cr_expect(has_pattern(pool, range[1], 9));
}

/* Its extents and the cached blocks are all of one block; two blocks are free, and one is in the way. */
POOL_TEST(room, a_range_grows_by_as_many_extents_as_it_takes_where_nothing_may_be_moved,
	  make_cache(32, "lru"))
{
	struct kvmm_pool_stat before, after;
	kvmm_range_t range = take(pool, 1, KVMM_ALLOC_NO_COMPACT);

	for (u32 i = 1; i < KVMM_MAX_RUNS; i++) {
		take(pool, 1, 0);
		cr_assert_eq(kvmm_range_grow(pool, range, 1), 0);
	}
	take(pool, 1, 0);
	cache_keys(pool, 0, 14);
	before = stat_of(pool);
	cr_expect_eq(before.nr_free, 2);
	cr_expect_eq(kvmm_range_grow(pool, range, 17), -ENOSPC);
	after = stat_of(pool);
	after.fail_nospc--;
	after.largest = before.largest;		/* nothing is reserved any more */
	after.nr_runs = before.nr_runs;
	cr_expect_arr_eq(&before, &after, sizeof(before));
	cr_expect_eq(kvmm_range_grow(pool, range, 4), 0);
	after = stat_of(pool);
	cr_expect_eq(after.nr_free, 0);
	cr_expect_eq(after.evictions, before.evictions + 2);
	cr_expect_eq(after.moved_blocks, 0);
}

POOL_TEST(room, too_few_blocks_is_another_failure_than_scattered_ones, make_pool(8))
{
	kvmm_range_t got;

	take(pool, 6, 0);
	cr_expect_eq(kvmm_range_alloc(pool, 3, 0, &got), -ENOSPC);
	cr_expect_eq(stat_of(pool).fail_nospc, 1);
	cr_expect_eq(stat_of(pool).fail_frag, 0);
}

POOL_TEST(room, compaction_refuses_bad_goals, make_pool(8))
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = 9 };
	struct kvmm_compact older = { .size = offsetof(struct kvmm_compact, plan_ns),
				      .plan_ns = 99 };

	cr_expect_eq(kvmm_pool_compact(pool, &goal), -EINVAL);
	cr_expect_eq(kvmm_pool_compact(pool, NULL), -EINVAL);
	goal.size = 3;
	cr_expect_eq(kvmm_pool_compact(pool, &goal), -EINVAL);
	take(pool, 2, 0);
	cr_expect_eq(kvmm_pool_compact(pool, &older), 0);
	cr_expect_eq(older.plan_ns, 99);
}

POOL_TEST(room, the_report_says_what_it_took, make_cache(16, "lru"))
{
	struct kvmm_alloc_report report = { 0 };
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 8, .max_runs = 1,
					.report = &report };
	kvmm_range_t range[4], got;

	for (u32 i = 0; i < 4; i++)
		range[i] = take(pool, 2, 0);
	cache_keys(pool, 0, 6);
	cr_expect_eq(kvmm_range_free(pool, range[0]), 0);
	cr_expect_eq(kvmm_range_free(pool, range[2]), 0);
	cr_expect_eq(kvmm_range_alloc_attr(pool, &attr, &got), 0);
	cr_expect_eq(report.evicted, 2);
	cr_expect_gt(report.moved, 0);
	cr_expect_gt(report.time_ns, 0);
	cr_expect_eq(report.fragmentation_ppm, 1000000);
	attr.nr = 16;
	cr_expect_eq(kvmm_range_alloc_attr(pool, &attr, &got), -ENOSPC);
	cr_expect_eq(report.evicted, 0);
}

/* ---- eviction ---- */

POOL_TEST(room, exactly_the_shortfall_is_evicted, make_cache(16, "lru"))
{
	cache_keys(pool, 0, 8);
	take(pool, 12, 0);
	cr_expect_eq(stat_of(pool).evictions, 4);
	cr_expect_eq(stat_of(pool).nr_free, 0);
	expect_order(pool, "3 2 1 0 ");
}

POOL_TEST(room, nothing_is_evicted_for_those_who_would_rather_fail, make_cache(16, "lru"))
{
	kvmm_range_t got;

	cache_keys(pool, 0, 8);
	cr_expect_eq(kvmm_range_alloc(pool, 12, NO_EVICT, &got), -ENOSPC);
	cr_expect_eq(stat_of(pool).nr_inactive, 8);
	cr_expect_eq(stat_of(pool).fail_nospc, 1);
}

POOL_TEST(room, a_failed_allocation_leaves_the_order_of_eviction, make_cache(16, "lru"))
{
	struct kvmm_pool_stat before, after;
	kvmm_range_t got;

	take(pool, 1, 0);
	for (u32 i = 0; i < 8; i++) {
		cache_keys(pool, 7 - i, 1);
		if (i < 3)
			take(pool, 1, 0);
	}
	take(pool, 2, 0);
	before = stat_of(pool);
	cr_expect_eq(kvmm_range_alloc(pool, 5, NO_COMPACT | KVMM_RUNS(1), &got), -ENOSPC);
	after = stat_of(pool);
	cr_expect_eq(after.fail_frag, before.fail_frag + 1);
	after.fail_frag--;
	cr_expect_arr_eq(&before, &after, sizeof(before));
	cr_expect_eq(kvmm_validate(pool), 0);
	expect_order(pool, "7 6 5 4 3 2 1 0 ");
}

POOL_TEST(room, victims_are_spared_if_even_compaction_cannot_help, make_cache(12, "lru"))
{
	kvmm_range_t got;

	take(pool, 1, KVMM_ALLOC_PINNED);
	cache_keys(pool, 3, 3);
	take(pool, 1, KVMM_ALLOC_PINNED);
	cache_keys(pool, 0, 3);
	take(pool, 3, KVMM_ALLOC_PINNED);
	cr_expect_eq(kvmm_range_alloc(pool, 5, KVMM_RUNS(1), &got), -ENOSPC);
	cr_expect_eq(stat_of(pool).evictions, 0);
	expect_order(pool, "5 4 3 2 1 0 ");
}

POOL_TEST(room, evicted_and_moved_in_one_call, make_cache(16, "lru"))
{
	kvmm_range_t range[4], got;
	kvmm_key_t key = key_of(100);

	for (u32 i = 0; i < 4; i++) {
		range[i] = take(pool, 2, 0);
		write_pattern(pool, range[i], i);
		cache_keys(pool, 100 + 2 * i, 2);
	}
	cr_expect_eq(kvmm_range_alloc(pool, 6, KVMM_RUNS(1), &got), 0);
	cr_expect_eq(stat_of(pool).evictions, 6);
	cr_expect_eq(kvmm_match_len(pool, &key, 1), 0);
	for (u32 i = 0; i < 4; i++)
		cr_expect(has_pattern(pool, range[i], i));
}

POOL_TEST(room, cached_blocks_move_with_key_content_and_order, make_cache(16, "lru"))
{
	struct kvmm_compact goal = { .size = sizeof(goal) };
	kvmm_range_t range = take(pool, 4, 0);
	u8 buf[TEST_BLOCK_BYTES], back[TEST_BLOCK_BYTES];
	kvmm_key_t key[4];
	kvmm_ref_t ref[4];

	cache_keys(pool, 0, 4);
	for (u32 i = 0; i < 4; i++) {
		key[i] = key_of(i);
		memset(buf, 'a' + i, sizeof(buf));
		cr_expect_eq(kvmm_block_write(pool, 4 + i, 0, buf, sizeof(buf)), 0);
	}
	cr_expect_eq(kvmm_range_free(pool, range), 0);
	cr_expect_eq(kvmm_pool_compact(pool, &goal), 0);
	cr_expect_str_eq(picture(pool), "IIII............");
	cr_expect_eq(kvmm_match(pool, key, 4, ref), 4);
	for (u32 i = 0; i < 4; i++) {
		int block = kvmm_block_of_ref(pool, ref[i]);

		memset(buf, 'a' + i, sizeof(buf));
		cr_expect_eq(kvmm_block_read(pool, block, 0, back, sizeof(back)), 0);
		cr_expect_arr_eq(back, buf, sizeof(buf));
	}
	cr_expect_eq(kvmm_put_many(pool, ref, 4), 0);
	expect_order(pool, "3 2 1 0 ");
}

POOL_TEST(room, referenced_and_private_blocks_do_not_move, make_cache(8, "lru"))
{
	struct kvmm_compact goal = { .size = sizeof(goal) };
	kvmm_range_t range = take(pool, 4, 0);
	kvmm_key_t key = key_of(0);
	kvmm_mut_t mut[2];
	kvmm_ref_t ref;

	cr_assert_eq(kvmm_alloc(pool, 2, mut), 0);
	cr_assert_eq(kvmm_register(pool, mut, &key, 1, &ref), 0);
	cr_expect_eq(kvmm_range_free(pool, range), 0);
	cr_expect_str_eq(picture(pool), "....AP..");
	cr_expect_eq(kvmm_pool_compact(pool, &goal), 0);
	cr_expect_str_eq(picture(pool), "....AP..");
}

/* ---- copies that fail ---- */

static u32 copies_left;		/* until copies fail */

static int flaky_move(struct kv_dev *dev, const struct kv_copy *copy, struct kv_fence *fence)
{
	if (!copies_left)
		return -EIO;
	copies_left--;
	return kv_dev_host.copy_blocks(dev, copy, fence);
}

static int flaky_fill(struct kv_dev *dev, u64 addr, u8 byte, u64 bytes)
{
	if (!copies_left)
		return -EIO;
	copies_left--;
	return kv_dev_host.fill(dev, addr, byte, bytes);
}

static struct kvmm_pool *make_flaky(u32 nr_blocks, const struct kv_evict_ops *evict)
{
	static struct kv_dev_ops dev;
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kv_pool_parts parts = { .all = kv_pool_parts_all, .dev = &dev, .map = &kv_map_flat,
				       .evict = evict, .planner = &kv_planner_slide };
	struct kvmm_pool *pool;

	dev = kv_dev_host;
	dev.copy_blocks = flaky_move;
	dev.fill = flaky_fill;
	attr.nr_blocks = nr_blocks;
	attr.block_bytes = TEST_BLOCK_BYTES;
	cr_assert_eq(kv_pool_create(&attr, &parts, &pool), 0);
	return pool;
}

static void end_flaky(struct kvmm_pool *pool)
{
	cr_expect_eq(kvmm_validate(pool), 0);
	kv_pool_destroy(pool);
	kv_rcu_barrier();
}

#define FLAKY_TEST(name, ...) \
	TEST_WITH(struct kvmm_pool *pool, make_flaky(__VA_ARGS__), end_flaky, room, name)

FLAKY_TEST(what_was_moved_before_a_failed_copy_stays_moved, 16, NULL)
{
	struct kvmm_compact goal = { .size = sizeof(goal) };
	kvmm_range_t range[26];

	paint(pool, "..aa..bb..cc..dd", range);
	for (u32 i = 0; i < 4; i++)
		write_pattern(pool, range[i], i);
	copies_left = 2;
	cr_expect_eq(kvmm_pool_compact(pool, &goal), -EIO);
	/* The second copy is that of b and c: neither goes to a place that the other leaves. */
	cr_expect_eq(goal.moved, 6);
	cr_expect_str_eq(picture(pool), "aabbcc........dd");
	for (u32 i = 0; i < 4; i++)
		cr_expect(has_pattern(pool, range[i], i));
	cr_expect_eq(stat_of(pool).moves, 3);
}

FLAKY_TEST(content_that_overlapped_its_failed_copy_is_lost, 12, NULL)
{
	struct kvmm_compact goal = { .size = sizeof(goal) };
	struct kvmm_extent ext[1];
	kvmm_range_t range[26], tail;

	paint(pool, ".aaaa.bb....", range);
	write_pattern(pool, range[1], 1);
	copies_left = 0;
	cr_expect_eq(kvmm_pool_compact(pool, &goal), -EIO);
	cr_expect_str_eq(picture(pool), ".aaaa.bb....");
	cr_expect_eq(kvmm_range_extents(pool, range[0], ext, 1), -EIO);
	cr_expect_eq(kvmm_range_split(pool, range[0], 1, &tail), 0);
	cr_expect_eq(kvmm_range_extents(pool, tail, ext, 1), -EIO);
	cr_expect(has_pattern(pool, range[1], 1));
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_range_free(pool, range[0]), 0);
	cr_expect_eq(kvmm_range_free(pool, tail), 0);
}

FLAKY_TEST(an_allocation_whose_copy_fails_takes_nothing, 16, &kv_evict_lru)
{
	kvmm_range_t got;

	for (u32 i = 0; i < 4; i++) {
		take(pool, 2, 0);
		cache_keys(pool, 100 + 2 * i, 2);
	}
	copies_left = 0;
	cr_expect_eq(kvmm_range_alloc(pool, 4, KVMM_RUNS(1), &got), -EIO);
	/* Nobody knows how far the copy went: what was evicted for it is gone. */
	cr_expect_eq(stat_of(pool).nr_inactive, 4);
	cr_expect_eq(stat_of(pool).nr_available, 8);
	cr_expect_eq(kvmm_validate(pool), 0);
	copies_left = 1;
	cr_expect_eq(kvmm_range_alloc(pool, 6, KVMM_RUNS(1), &got), -EIO);
	cr_expect_eq(stat_of(pool).nr_ranges, 4);
	cr_expect_eq(stat_of(pool).nr_available, 8);
}

static int spoiling_move(struct kv_dev *dev, const struct kv_copy *copy, struct kv_fence *fence)
{
	u64 base = copy->dst.plane[0].base;

	for (u32 i = 0; i < copy->nr; i++)
		kv_dev_host.fill(dev, base + copy->moves[i].dst * TEST_BLOCK_BYTES, 0xee,
				 copy->moves[i].nr * TEST_BLOCK_BYTES);
	return -EIO;
}

/* The key is the content. */
static void cache_content(struct kvmm_pool *pool, u32 first, u32 nr)
{
	for (u32 i = first; i < first + nr; i++) {
		kvmm_key_t key = key_of(i);
		kvmm_mut_t mut;
		kvmm_ref_t ref;

		cr_assert_eq(kvmm_alloc(pool, 1, &mut), 0);
		cr_assert_eq(kvmm_block_write(pool, kvmm_block_of_mut(pool, mut), 0, &key,
					      sizeof(key)), 0);
		cr_assert_eq(kvmm_register(pool, &mut, &key, 1, &ref), 0);
		cr_assert_eq(kvmm_put_many(pool, &ref, 1), 0);
	}
}

static u32 nr_cached_and_right(struct kvmm_pool *pool, u32 first, u32 nr)
{
	u32 nr_found = 0;

	for (u32 i = first; i < first + nr; i++) {
		kvmm_key_t key = key_of(i), content;
		kvmm_ref_t ref;

		if (kvmm_match(pool, &key, 1, &ref) != 1)
			continue;
		cr_expect_eq(kvmm_block_read(pool, kvmm_block_of_ref(pool, ref), 0, &content,
					     sizeof(content)), 0);
		cr_expect_arr_eq(&content, &key, sizeof(key), "key %u has another's content", i);
		cr_expect_eq(kvmm_put_many(pool, &ref, 1), 0);
		nr_found++;
	}
	return nr_found;
}

FLAKY_TEST(a_copy_that_failed_half_way_spoils_nothing_that_can_be_hit, 16, &kv_evict_lru)
{
	struct kv_dev_ops dev = kv_dev_host;
	kvmm_range_t range[4], got;

	dev.copy_blocks = spoiling_move;
	pool->parts.dev = &dev;
	for (u32 i = 0; i < 4; i++) {
		range[i] = take(pool, 2, 0);
		cache_content(pool, 100 + 2 * i, 2);
	}
	cr_expect_eq(kvmm_range_alloc(pool, 4, KVMM_RUNS(1), &got), -EIO);
	cr_expect_eq(nr_cached_and_right(pool, 100, 8), 4);
	for (u32 i = 0; i < 4; i++)
		cr_expect_eq(kvmm_range_free(pool, range[i]), 0);
	pool->parts.dev = &kv_dev_host;
}

/* As above, and a request that may not evict waits: the victims' blocks are there for it. */
FLAKY_TEST(one_that_may_not_evict_hears_of_victims_that_went_although_the_copy_failed,
	   16, &kv_evict_lru)
{
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = 4, .flags = NO_EVICT,
				      .deadline_ns = UINT64_MAX };
	struct kv_dev_ops dev = kv_dev_host;
	kvmm_range_t range[4], got;
	kvmm_ticket_t ticket;
	kvmm_mut_t mut[4];

	dev.copy_blocks = spoiling_move;
	pool->parts.dev = &dev;
	for (u32 i = 0; i < 4; i++) {
		range[i] = take(pool, 2, 0);
		cache_content(pool, 100 + 2 * i, 2);
	}
	cr_assert_eq(kvmm_alloc_submit(pool, &ctl, mut, &ticket), -EINPROGRESS);
	cr_assert_eq(kvmm_alloc_poll(pool, ticket), -EINPROGRESS);
	cr_expect_eq(kvmm_range_alloc(pool, 4, KVMM_RUNS(1) | KVMM_ALLOC_HIGH, &got), -EIO);
	cr_expect_eq(stat_of(pool).nr_free, 4);
	cr_expect_eq(kvmm_alloc_poll(pool, ticket), 0, "the victims went, and it was not told");
	cr_expect_eq(kvmm_free(pool, mut, 4), 0);
	for (u32 i = 0; i < 4; i++)
		cr_expect_eq(kvmm_range_free(pool, range[i]), 0);
	pool->parts.dev = &kv_dev_host;
}

FLAKY_TEST(a_range_that_cannot_be_zeroed_is_given_back, 16, NULL)
{
	kvmm_range_t got;

	copies_left = 3;
	cr_expect_eq(kvmm_range_alloc(pool, 8, KVMM_ALLOC_ZERO, &got), -EIO);
	cr_expect_eq(stat_of(pool).nr_free, 16);
	cr_expect_eq(stat_of(pool).nr_ranges, 0);
}

/* Content of the ranges that have not been lost; how many have. */
static u32 nr_lost_of(struct kvmm_pool *pool, const kvmm_range_t *range, u32 nr)
{
	struct kvmm_extent ext[1];
	u32 nr_lost = 0;

	for (u32 i = 0; i < nr; i++) {
		if (kvmm_range_extents(pool, range[i], ext, 1) == -EIO)
			nr_lost++;
		else
			cr_expect(has_pattern(pool, range[i], i), "range %u", i);
	}
	return nr_lost;
}

/* The n-th copy of a compaction fails, for each n until there are no more copies. */
static u32 fail_each_copy(const struct kv_planner_ops *planner, u32 want)
{
	u32 moved = 0;

	for (u32 n = 0;; n++) {
		struct kvmm_compact goal = { .size = sizeof(goal), .want_run = want };
		struct kvmm_pool *pool = make_flaky(24, NULL);
		kvmm_range_t range[26];
		int err;

		paint(pool, ".aaa.bbb..cc.ddd.e.ff.ea", range);
		pool->parts.planner = planner;
		for (u32 i = 0; i < 6; i++)
			write_pattern(pool, range[i], i);
		copies_left = n;
		err = kvmm_pool_compact(pool, &goal);
		cr_expect(!err || (err == -EIO && copies_left == 0));
		cr_expect(!n || goal.moved > moved, "copy %u moved nothing", n);
		moved = goal.moved;
		cr_expect_leq(nr_lost_of(pool, range, 6), err ? 1 : 0, "copy %u", n);
		end_flaky(pool);
		if (!err)
			return n;
	}
}

Test(room, any_copy_may_fail)
{
	cr_expect_geq(fail_each_copy(&kv_planner_slide, 0), 4);
	cr_expect_geq(fail_each_copy(&kv_planner_slide, 8), 2);
	cr_expect_geq(fail_each_copy(&kv_planner_window, 8), 1);
}

static struct kvmm_pool *zeroed_pool;

/* Who walks the ranges finds the one that is being zeroed, and drops a pin that is not its own. */
static int unpinning_fill(struct kv_dev *dev, u64 addr, u8 byte, u64 bytes)
{
	struct kvmm_range_info info;
	u32 cursor = 0;

	if (!kvmm_range_next(zeroed_pool, &cursor, &info))
		kvmm_range_unpin(zeroed_pool, info.range);
	return kv_dev_host.fill(dev, addr, byte, bytes);
}

Test(room, a_range_that_is_being_zeroed_survives_those_who_unpin_it)
{
	static struct kv_dev_ops dev;
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 4,
				       .block_bytes = TEST_BLOCK_BYTES };
	struct kv_pool_parts parts = { .all = kv_pool_parts_all, .dev = &dev, .map = &kv_map_flat };
	struct kvmm_range_info info;
	kvmm_range_t got;

	dev = kv_dev_host;
	dev.fill = unpinning_fill;
	cr_assert_eq(kv_pool_create(&attr, &parts, &zeroed_pool), 0);
	cr_expect_eq(kvmm_range_alloc(zeroed_pool, 2, KVMM_ALLOC_ZERO, &got), 0);
	cr_expect_eq(kvmm_range_get_info(zeroed_pool, got, &info), 0);
	cr_expect_eq(info.pins, 0);
	cr_expect_eq(kvmm_range_free(zeroed_pool, got), 0);
	end_flaky(zeroed_pool);
}

/* ---- others, meanwhile ---- */

static struct kvmm_pool *busy_pool;
static pthread_t intruder;
static u32 intruder_is_through;		/* atomic */

static void *intrude(void *arg)
{
	kvmm_range_t range;
	int err = kvmm_range_alloc(busy_pool, 1, 0, &range);

	WRITE_ONCE(intruder_is_through, 1);
	return (void *)(intptr_t)err;
}

/* Somebody wants a block during the first copy, and does not get it before the last. */
static int watched_move(struct kv_dev *dev, const struct kv_copy *copy, struct kv_fence *fence)
{
	if (!intruder)
		cr_assert_eq(pthread_create(&intruder, NULL, intrude, NULL), 0);
	usleep(20000);
	cr_expect_eq(READ_ONCE(intruder_is_through), 0);
	return kv_dev_host.copy_blocks(dev, copy, fence);
}

Test(room, who_comes_during_a_compaction_waits_for_its_end)
{
	struct kvmm_compact goal = { .size = sizeof(goal) };
	struct kvmm_extent ext[1];
	kvmm_range_t range[26];
	struct kv_dev_ops dev;
	void *err;

	busy_pool = make_flaky(16, NULL);
	dev = *busy_pool->parts.dev;
	dev.copy_blocks = watched_move;
	busy_pool->parts.dev = &dev;
	paint(busy_pool, "..aa..bb..cc..dd", range);
	cr_expect_eq(kvmm_pool_compact(busy_pool, &goal), 0);
	cr_assert_eq(pthread_join(intruder, &err), 0);
	cr_expect_null(err);
	cr_expect_str_eq(picture(busy_pool), "aabbccdd#.......");
	cr_expect_eq(kvmm_range_extents(busy_pool, range[3], ext, 1), 1);
	cr_expect_eq(ext[0].start, 6);
	end_flaky(busy_pool);
}

/* ---- plans that are wrong ---- */

static int plan_error;
static struct kv_move bad_move[3];
static u32 nr_bad_moves;

static size_t no_scratch(u32 nr_items)
{
	return 0;
}

static int bad_plan(const struct kv_plan_req *req, struct kv_plan *plan, void *scratch)
{
	memcpy(plan->moves, bad_move, sizeof(bad_move[0]) * nr_bad_moves);
	plan->nr_moves = nr_bad_moves;
	return plan_error;
}

static const struct kv_planner_ops bad_planner = {
	.name = "bad", .scratch_bytes = no_scratch, .plan = bad_plan,
};

#define expect_bad_plan(...)						\
	do {								\
		struct kv_move moves[] = { __VA_ARGS__ };		\
		nr_bad_moves = ARRAY_SIZE(moves);			\
		memcpy(bad_move, moves, sizeof(moves));			\
		cr_expect_neq(kvmm_pool_compact(pool, &goal), 0, "%s", #__VA_ARGS__);	\
		cr_expect_str_eq(picture(pool), "aa..bb..pp..c...");	\
		cr_expect_eq(kvmm_validate(pool), 0, "%s", #__VA_ARGS__);	\
	} while (0)

Test(room, plans_that_would_destroy_something_are_refused_as_a_whole)
{
	struct kvmm_compact goal = { .size = sizeof(goal) };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 16 };
	struct kv_pool_parts parts = { .all = kv_pool_parts_all, .dev = &kv_dev_host,
				       .planner = &bad_planner };
	struct kvmm_pool *pool;
	kvmm_range_t range[26];

	cr_assert_eq(kv_pool_create(&attr, &parts, &pool), 0);
	paint(pool, "aa..bb..pp..c...", range);
	kvmm_range_pin(pool, range['p' - 'a']);
	expect_bad_plan({ 4, 2, 1 });			/* half a range */
	expect_bad_plan({ 5, 2, 1 });			/* from its middle */
	expect_bad_plan({ 2, 12, 2 });			/* nobody's */
	expect_bad_plan({ 8, 2, 2 });			/* pinned */
	expect_bad_plan({ 4, 1, 2 });			/* onto another */
	expect_bad_plan({ 4, 15, 2 });			/* over the end */
	expect_bad_plan({ 4, UINT32_MAX, 2 });
	expect_bad_plan({ UINT32_MAX, 2, 2 });
	expect_bad_plan({ 4, 2, 0 });
	expect_bad_plan({ 4, 2, UINT32_MAX });
	expect_bad_plan({ 4, 2, 2 }, { 4, 6, 2 });	/* twice */
	expect_bad_plan({ 4, 2, 2 }, { 12, 3, 1 });	/* both to one place */
	expect_bad_plan({ 4, 0, 2 }, { 0, 2, 2 });	/* before it has left */
	expect_bad_plan({ 0, 2, 2 }, { 4, 0, 2 }, { 12, 0, 1 });	/* both to where it was */
	kv_pool_destroy(pool);
	kv_rcu_barrier();
}

/* ---- all kinds of requests ---- */

#define NR_BLOCKS	1024u

static kvmm_mut_t all[NR_BLOCKS];

static int ask_range(struct kvmm_pool *pool)
{
	return kvmm_range_alloc(pool, NR_BLOCKS, KVMM_RUNS(1), &(kvmm_range_t){ 0 });
}

static int ask_growth(struct kvmm_pool *pool)
{
	kvmm_range_t range;
	int err = kvmm_range_alloc(pool, 1, KVMM_RUNS(1), &range);

	return err ? err : kvmm_range_grow_many(pool, &range, 1, NR_BLOCKS - 1);
}

static int ask_blocks(struct kvmm_pool *pool)
{
	return kvmm_alloc(pool, NR_BLOCKS, all);
}

/* It is not told to wait because of blocks that are free. */
static int ask_blocks_at_once(struct kvmm_pool *pool)
{
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = NR_BLOCKS,
				      .flags = KVMM_ALLOC_NOWAIT };

	return kvmm_alloc_as(pool, &ctl, all);
}

static int ask_request(struct kvmm_pool *pool)
{
	return kvmm_acquire(pool, &(struct kvmm_acquire_args){ .nr_blocks = NR_BLOCKS,
							       .fresh = all });
}

static int ask_promise(struct kvmm_pool *pool)
{
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = NR_BLOCKS };

	return kvmm_promise_make(pool, &ctl, &(kvmm_promise_t){ 0 });
}

static int ask_groups(struct kvmm_pool *pool)
{
	struct kvmm_group_attr group = { .pool = pool, .kind = KVMM_GROUP_FULL, .block_tokens = 4 };
	struct kvmm_groups_attr attr = { .size = sizeof(attr), .group = &group, .nr = 1 };
	struct kvmm_groups_acquire_args req = { .nr_tokens = 4 * NR_BLOCKS };
	struct kvmm_tables *tables;
	struct kvmm_groups *groups;
	int err = kvmm_groups_create(&attr, &groups);

	if (err)
		return err;
	err = kvmm_groups_acquire(groups, &req, &tables);
	if (!err)
		kvmm_groups_release(tables);
	kvmm_groups_destroy(groups);
	return err;
}

static int ask_gang(struct kvmm_pool *pool)
{
	struct kvmm_gang_want want = { .kind = KVMM_GANG_BLOCKS, .nr = NR_BLOCKS };
	struct kvmm_gang_attr attr = { .size = sizeof(attr), .pools = &pool, .nr_pools = 1,
				       .wants = &want, .nr = 1 };
	struct kvmm_gang *gang;
	int err = kvmm_gang_reserve(&attr, &gang, NULL);

	return err ? err : kvmm_gang_abort(gang);
}

static const struct ask {
	const char *of;
	int (*all_blocks)(struct kvmm_pool *pool);
} asks[] = {
	{ "a range", ask_range }, { "growth", ask_growth }, { "blocks", ask_blocks },
	{ "blocks at once", ask_blocks_at_once }, { "kvmm_acquire()", ask_request },
	{ "a promise", ask_promise }, { "groups", ask_groups }, { "a gang", ask_gang },
};

/* Reclaimers that work in place serve each kind: the table of room.c is walked for all of them. */
Test(room, each_kind_of_request_gets_blocks_that_threads_keep_aside)
{
	for (const struct ask *ask = asks; ask < asks + ARRAY_SIZE(asks); ask++) {
		struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
					       .policy = "lru" };
		struct kvmm_pool *pool __cleanup(end_pool) = make_pool_of(&attr);
		struct kvmm_alloc_stat stat;

		cr_assert_eq(kvmm_alloc(pool, 1, all), 0);
		cr_assert_eq(kvmm_free(pool, all, 1), 0);
		cr_expect_eq(ask->all_blocks(pool), 0, "%s", ask->of);
		cr_assert_eq(kvmm_alloc_get_stat(pool, &stat), 0);
		cr_expect_eq(stat.saved[KVMM_STEP_DRAIN], 1, "%s", ask->of);
	}
}
