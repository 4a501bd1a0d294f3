// SPDX-License-Identifier: Apache-2.0
/* The front door without waiting: flags, watermarks, reclaim, promises, and what room costs. */
#include "tests/pool/door_util.h"
#include "tests/pool/life_util.h"
#include "tests/support/length.h"
#include "tests/support/random.h"

TestSuite(door, .init = door_set_up, .fini = door_tear_down);

static struct kvmm_alloc_attr marks(u32 low_min, u32 low, u32 high)
{
	return (struct kvmm_alloc_attr){ .size = sizeof(struct kvmm_alloc_attr),
					 .marks = { low_min, low, high } };
}

static struct kvmm_pool *make_marked(u32 nr_blocks, u32 low_min, u32 low, u32 high)
{
	struct kvmm_alloc_attr door = marks(low_min, low, high);

	return make_door(nr_blocks, &door);
}

Test(door, each_step_has_a_name)
{
	cr_expect_str_eq(kvmm_step_name(KVMM_STEP_DRAIN), "drain");
	cr_expect_str_eq(kvmm_step_name(KVMM_STEP_WAIT), "wait");
	for (u32 i = 0; i < KVMM_NR_STEPS; i++)
		cr_expect_str_neq(kvmm_step_name(i), "?", "step %u", i);
	cr_expect_str_eq(kvmm_step_name(KVMM_NR_STEPS), "?");
}

/* ---- flags ---- */

static const u32 contradictions[] = {
	KVMM_ALLOC_HIGH | KVMM_ALLOC_URGENT,
	KVMM_ALLOC_PINNED | KVMM_ALLOC_MOVABLE,
	KVMM_ALLOC_PINNED | KVMM_ALLOC_TOPDOWN,
	KVMM_ALLOC_TOPDOWN | KVMM_ALLOC_MOVABLE,
	KVMM_ALLOC_NOWAIT | KVMM_ALLOC_ZERO,
	KVMM_ALLOC_RELATIVE,			/* to what? */
	KVMM_ALLOC_NOWAIT | KVMM_ALLOC_RELATIVE,
	1u << 31,
};

POOL_TEST(door, flags_that_contradict_each_other_are_refused, make_door(8, NULL))
{
	kvmm_range_t range;
	kvmm_mut_t mut[8];

	for (u32 i = 0; i < ARRAY_SIZE(contradictions); i++) {
		struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 1,
						.flags = contradictions[i] };

		expect_refused(pool, ask_for(pool, 1, contradictions[i], 0, mut), -EINVAL);
		expect_refused(pool, kvmm_range_alloc_attr(pool, &attr, &range), -EINVAL);
	}
	expect_refused(pool, ask_for(pool, 1, KVMM_ALLOC_NOWAIT, 5000, mut), -EINVAL);
	expect_refused(pool, kvmm_range_alloc(pool, 2, KVMM_ALLOC_CONTIG | KVMM_RUNS(2), &range),
		       -EINVAL);
}

POOL_TEST(door, a_priority_is_said_once, make_door(8, NULL))
{
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = 1, .flags = KVMM_ALLOC_HIGH,
				      .prio = KVMM_PRIO_URGENT };
	kvmm_mut_t mut[1];

	cr_expect_eq(kvmm_alloc_as(pool, &ctl, mut), -EINVAL);
	ctl.prio = KVMM_PRIO_URGENT + 1;
	ctl.flags = 0;
	cr_expect_eq(kvmm_alloc_as(pool, &ctl, mut), -EINVAL);
	ctl.prio = KVMM_PRIO_HIGH;
	ctl.flags = KVMM_ALLOC_HIGH;
	cr_expect_eq(kvmm_alloc_as(pool, &ctl, mut), 0);
	cr_expect_eq(kvmm_free(pool, mut, 1), 0);
}

POOL_TEST(door, in_deterministic_pools_no_thread_waits,
	  make_life(8, "lru", KVMM_POOL_DETERMINISTIC, 0))
{
	kvmm_mut_t mut[1];

	cr_expect_eq(ask_for(pool, 1, 0, 5000, mut), -EINVAL);
}

/* Where ranks agree time is a count: a block for each microsecond. */
POOL_TEST(door, a_deterministic_pool_reclaims_as_many_blocks_as_there_are_microseconds,
	  make_life(8, "lru", KVMM_POOL_DETERMINISTIC, 0))
{
	struct kvmm_reclaim_args reclaim = { .size = sizeof(reclaim), .max_us = 3 };
	struct kvmm_watermarks marks = { .min = 1, .low = 2, .high = 6 };

	cr_assert_eq(kvmm_watermarks_set(pool, &marks), 0);
	cache_keys(pool, 1, 6);
	cr_expect_eq(kvmm_reclaim(pool, &reclaim), -EAGAIN);
	cr_expect_eq(reclaim.nr_evicted, 3);
	reclaim.max_us = 0;
	cr_expect_eq(kvmm_reclaim(pool, &reclaim), 0);
	cr_expect_eq(reclaim.nr_evicted, 1);
}

POOL_TEST(door, a_run_of_more_blocks_than_there_are_finds_no_room, make_door(8, NULL))
{
	kvmm_mut_t run[100];

	for (u32 nr = 9; nr <= 100; nr += 7)
		cr_expect_eq(ask_for(pool, nr, KVMM_ALLOC_CONTIG, 0, run), -ENOSPC);
	cr_expect_eq(ask_for(pool, 8, KVMM_ALLOC_CONTIG, 0, run), 0);
	cr_expect_eq(kvmm_free(pool, run, 8), 0);
}

POOL_TEST(door, places_and_runs_are_where_they_were_asked_for, make_door(8, NULL))
{
	kvmm_mut_t mut[8], run[3];
	u32 at[3];

	cr_expect_eq(ask_for(pool, 2, KVMM_ALLOC_TOPDOWN, 0, mut), 0);
	cr_expect_str_eq(picture(pool), "......PP");
	cr_expect_eq(ask_for(pool, 1, KVMM_ALLOC_PINNED, 0, mut + 2), 0);
	cr_expect_str_eq(picture(pool), "P.....PP");
	cr_expect_eq(ask_for(pool, 3, KVMM_ALLOC_CONTIG, 0, run), 0);
	cr_expect_eq(kvmm_blocks_of_muts(pool, run, 3, at), 0);
	cr_expect_eq(at[1], at[0] + 1);
	cr_expect_eq(at[2], at[0] + 2);
	cr_expect_eq(kvmm_free(pool, run, 3), 0);
	cr_expect_eq(kvmm_free(pool, mut, 3), 0);
}

/* Enough is free, but scattered: a run of private blocks is worth moving for. */
POOL_TEST(door, a_run_of_private_blocks_is_made_by_moving, make_door(8, NULL))
{
	struct kvmm_alloc_report report;
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = 4,
				      .flags = KVMM_ALLOC_CONTIG | KVMM_ALLOC_NO_COMPACT,
				      .report = &report };
	kvmm_range_t range[26];
	kvmm_mut_t run[4];

	paint(pool, "a.b.c.d.", range);
	cr_expect_eq(kvmm_alloc_as(pool, &ctl, run), -ENOSPC);
	ctl.flags = KVMM_ALLOC_CONTIG | KVMM_ALLOC_NOWAIT;
	cr_expect_eq(kvmm_alloc_as(pool, &ctl, run), -EAGAIN);
	ctl.flags = KVMM_ALLOC_CONTIG;
	cr_expect_eq(kvmm_alloc_as(pool, &ctl, run), 0);
	cr_expect_geq(report.moved, 2);
	cr_expect_eq(report.fragmentation_ppm, 1000000);
	cr_expect_eq(door_stat(pool).saved[KVMM_STEP_COMPACT], 1);
	cr_expect_eq(kvmm_free(pool, run, 4), 0);
}

POOL_TEST(door, content_is_zero_if_asked_for, make_door(4, NULL))
{
	u64 word = 1;
	kvmm_mut_t mut[4];

	cr_assert_eq(kvmm_alloc(pool, 4, mut), 0);
	for (u32 i = 0; i < 4; i++)
		cr_assert_eq(kvmm_block_write(pool, i, 8, &word, sizeof(word)), 0);
	cr_assert_eq(kvmm_free(pool, mut, 4), 0);
	cr_assert_eq(ask_for(pool, 4, KVMM_ALLOC_ZERO, 0, mut), 0);
	for (u32 i = 0; i < 4; i++) {
		cr_assert_eq(kvmm_block_read(pool, i, 8, &word, sizeof(word)), 0);
		cr_expect_eq(word, 0);
	}
	cr_expect_eq(kvmm_free(pool, mut, 4), 0);
}

/* ---- only what is free now ---- */

POOL_TEST(door, nowait_takes_what_is_free_and_evicts_nothing, make_door(8, NULL))
{
	kvmm_range_t range;
	kvmm_mut_t mut[8];

	cache_keys(pool, 0, 6);
	expect_refused(pool, ask_for(pool, 3, KVMM_ALLOC_NOWAIT, 0, mut), -EAGAIN);
	expect_refused(pool, kvmm_range_alloc(pool, 3, KVMM_ALLOC_NOWAIT, &range), -EAGAIN);
	expect_refused(pool, ask_for(pool, 9, KVMM_ALLOC_NOWAIT, 0, mut), -ENOSPC);
	cr_expect_eq(ask_for(pool, 2, KVMM_ALLOC_NOWAIT, 0, mut), 0);
	cr_expect_eq(stat_of(pool).evictions, 0);
	cr_expect_eq(kvmm_free(pool, mut, 2), 0);
}

POOL_TEST(door, nowait_is_told_to_come_again_only_if_what_it_allows_would_help, make_door(8, NULL))
{
	const u32 neither = KVMM_ALLOC_NOWAIT | KVMM_ALLOC_NO_EVICT | KVMM_ALLOC_NO_COMPACT |
			    KVMM_RUNS(1);
	kvmm_range_t range[8], run;
	kvmm_mut_t mut[3];

	for (u32 i = 0; i < 6; i++)
		cr_assert_eq(kvmm_range_alloc(pool, 1, 0, &range[i]), 0);
	cache_keys(pool, 0, 2);
	expect_refused(pool, ask_for(pool, 1, KVMM_ALLOC_NOWAIT, 0, mut), -EAGAIN);
	expect_refused(pool, ask_for(pool, 1, KVMM_ALLOC_NOWAIT | KVMM_ALLOC_NO_EVICT, 0, mut), -ENOSPC);
	cr_assert_eq(kvmm_range_free(pool, range[1]), 0);
	cr_assert_eq(kvmm_range_free(pool, range[3]), 0);
	cr_assert_str_eq(picture(pool), "#.#.##II");
	expect_refused(pool, kvmm_range_alloc(pool, 2, neither & ~KVMM_ALLOC_NO_COMPACT, &run), -EAGAIN);
	cr_expect_eq(kvmm_range_alloc(pool, 2, neither, &run), -ENOSPC);
}

/* Free blocks are scattered, and nothing can be moved: only evicting what lies between could help. */
Test(door, nowait_is_not_told_to_come_again_where_nothing_moves)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 8, .policy = "lru",
				       .compactor = "off" };
	struct kvmm_pool *pool __cleanup(end_pool) = make_pool_of(&attr);
	const u32 run = KVMM_ALLOC_NOWAIT | KVMM_ALLOC_CONTIG;
	kvmm_range_t range[26], got;
	kvmm_mut_t mut[2];

	paint(pool, "a.b.c.d.", range);
	cr_expect_eq(ask_for(pool, 2, run, 0, mut), -ENOSPC);
	cr_expect_eq(ask_for(pool, 2, run | KVMM_ALLOC_NO_EVICT, 0, mut), -ENOSPC);
	cr_expect_eq(kvmm_range_alloc(pool, 2, run, &got), -ENOSPC);
	cache_keys(pool, 0, 1);
	cr_assert_eq(stat_of(pool).nr_free, 3);
	cr_expect_eq(kvmm_range_alloc(pool, 2, run | KVMM_ALLOC_NO_EVICT, &got), -ENOSPC);
	expect_refused(pool, kvmm_range_alloc(pool, 2, run, &got), -EAGAIN);
	cr_expect_eq(stat_of(pool).nr_inactive, 1);
	cr_expect_eq(stat_of(pool).fail_frag, 4);
}

POOL_TEST(door, nowait_is_not_told_to_come_again_where_nothing_may_move, make_door(8, NULL))
{
	const u32 run = KVMM_ALLOC_NOWAIT | KVMM_ALLOC_CONTIG;
	kvmm_range_t range[26], got;

	paint(pool, "a.b.c.d.", range);
	expect_refused(pool, kvmm_range_alloc(pool, 2, run, &got), -EAGAIN);
	cr_expect_eq(kvmm_range_alloc(pool, 2, run | KVMM_ALLOC_NO_COMPACT, &got), -ENOSPC);
}

POOL_TEST(door, no_evict_is_no_evict, make_door(8, NULL))
{
	kvmm_mut_t mut[8];

	cache_keys(pool, 0, 6);
	expect_refused(pool, ask_for(pool, 3, KVMM_ALLOC_NO_EVICT, 0, mut), -ENOSPC);
	cr_expect_eq(ask_for(pool, 3, 0, 0, mut), 0);
	cr_expect_eq(stat_of(pool).evictions, 1);
	cr_expect_eq(kvmm_free(pool, mut, 3), 0);
}

/* "lru-classic" hands free blocks out in its own order: they are free, and evicting nothing takes them. */
POOL_TEST(door, no_evict_takes_free_blocks_from_the_policy, make_cache(8, "lru-classic"))
{
	static const u32 how[] = { 0, KVMM_ALLOC_PINNED, KVMM_ALLOC_NOWAIT };
	kvmm_range_t range;
	kvmm_mut_t mut[8];

	cr_assert_eq(kvmm_alloc(pool, 8, mut), 0);
	cr_assert_eq(kvmm_free(pool, mut, 8), 0);
	cache_keys(pool, 0, 3);
	for (u32 i = 0; i < 3; i++) {
		expect_refused(pool, ask_for(pool, 6, how[i] | KVMM_ALLOC_NO_EVICT, 0, mut),
			       -ENOSPC);
		cr_assert_eq(ask_for(pool, 5, how[i] | KVMM_ALLOC_NO_EVICT, 0, mut), 0, "way %u", i);
		cr_assert_eq(kvmm_validate(pool), 0);
		cr_expect_eq(stat_of(pool).nr_inactive, 3);
		cr_assert_eq(kvmm_free(pool, mut, 5), 0);
	}
	cr_assert_eq(kvmm_range_alloc(pool, 5, KVMM_RUNS(5) | KVMM_ALLOC_NO_EVICT, &range), 0);
	cr_expect_eq(stat_of(pool).evictions, 0);
}

/* ---- watermarks ---- */

Test(door, watermarks_are_in_order_and_inside_the_pool)
{
	static const struct kvmm_watermarks bad[] = { { 3, 2, 4 }, { 1, 3, 2 }, { 1, 2, 9 } };
	const struct kvmm_watermarks good = { 1, 2, 8 };
	struct kvmm_pool *pool __cleanup(end_pool) = make_door(8, NULL), *none;
	struct kvmm_alloc_stat now;

	for (u32 i = 0; i < ARRAY_SIZE(bad); i++) {
		struct kvmm_alloc_attr door = marks(bad[i].min, bad[i].low, bad[i].high);
		struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 8,
					       .alloc = &door };

		cr_expect_eq(kvmm_pool_create(&attr, &none), -EINVAL);
		cr_expect_eq(kvmm_watermarks_set(pool, &bad[i]), -EINVAL);
	}
	cr_expect_eq(kvmm_watermarks_set(pool, &good), 0);
	cr_expect_eq(kvmm_alloc_get_stat(pool, &now), 0);
	cr_expect_eq(memcmp(&now.marks, &good, sizeof(good)), 0);
}

/* Free blocks that are left when requests of one take them one by one. */
static u32 nr_left_by(u32 flags)
{
	struct kvmm_alloc_attr door = marks(2, 5, 6);
	struct kvmm_pool *pool __cleanup(end_pool) = make_door(16, &door);
	kvmm_mut_t mut[16];
	u32 nr = 0, left;

	while (!ask_for(pool, 1, flags, 0, &mut[nr]))
		nr++;
	left = stat_of(pool).nr_free;
	cr_expect_eq(left + nr, 16);
	cr_expect_eq(kvmm_free(pool, mut, nr), 0);
	return left;
}

Test(door, each_priority_leaves_what_the_next_one_may_take)
{
	cr_expect_eq(nr_left_by(0), 5);
	cr_expect_eq(nr_left_by(KVMM_ALLOC_HIGH), 2);
	cr_expect_eq(nr_left_by(KVMM_ALLOC_URGENT), 0);
}

POOL_TEST(door, the_short_calls_are_normal_requests, make_marked(16, 2, 5, 6))
{
	struct kvmm_acquire_args req = { .nr_blocks = 12 };
	kvmm_range_t range;
	kvmm_mut_t mut[16];

	req.fresh = mut;
	expect_refused(pool, kvmm_alloc(pool, 12, mut), -ENOSPC);
	expect_refused(pool, kvmm_acquire(pool, &req), -ENOSPC);
	expect_refused(pool, kvmm_range_alloc(pool, 12, 0, &range), -ENOSPC);
	cr_expect_eq(kvmm_range_alloc(pool, 11, 0, &range), 0);
	expect_refused(pool, kvmm_range_grow(pool, range, 1), -ENOSPC);
	cr_expect_eq(kvmm_range_free(pool, range), 0);
}

/* No block is free, below the low mark; but a request that takes none asks for none. */
POOL_TEST(door, an_acquire_of_hits_alone_asks_for_no_free_block, make_door(8, NULL))
{
	const struct kvmm_watermarks low = { .low = 4, .high = 4 };
	kvmm_key_t keys[2] = { key_of(0), key_of(1) };
	kvmm_ref_t hits[2];
	kvmm_mut_t mut[2];
	struct kvmm_acquire_args req = { .keys = keys, .nr_keys = 2, .max_hits = 2, .hits = hits,
					 .nr_blocks = 2, .fresh = mut };

	cache_keys(pool, 0, 8);
	cr_assert_eq(kvmm_watermarks_set(pool, &low), 0);
	cr_expect_eq(kvmm_acquire(pool, &req), 0);
	cr_expect_eq(req.nr_hits, 2);
	cr_expect_eq(stat_of(pool).evictions, 0);
	cr_expect_str_eq(picture(pool), "AAIIIIII");
	cr_expect_eq(kvmm_put_many(pool, hits, 2), 0);
}

/* What is evicted for a call without flags is a step as well, and a refusal is counted once. */
POOL_TEST(door, the_short_calls_are_counted_by_step_and_answer, make_door(8, NULL))
{
	struct kvmm_acquire_args req = { .nr_blocks = 2 };
	kvmm_mut_t mut[9];

	cache_keys(pool, 0, 8);
	cr_expect_eq(kvmm_alloc(pool, 2, mut), 0);
	cr_expect_eq(door_stat(pool).taken[KVMM_STEP_EVICT], 1);
	req.fresh = mut + 2;
	cr_expect_eq(kvmm_acquire(pool, &req), 0);
	cr_expect_eq(ask_for(pool, 2, 0, 0, mut + 4), 0);
	cr_expect_eq(door_stat(pool).taken[KVMM_STEP_EVICT], 3);
	cr_expect_eq(door_stat(pool).saved[KVMM_STEP_EVICT], 3);
	cr_expect_eq(kvmm_acquire(pool, &req), 0);
	cr_expect_eq(stat_of(pool).fail_nospc, 0);
	expect_refused(pool, kvmm_alloc(pool, 1, mut + 8), -ENOSPC);
	cr_expect_eq(stat_of(pool).fail_nospc, 1);
	expect_refused(pool, ask_for(pool, 1, KVMM_ALLOC_RELATIVE, 10000, mut + 8), -ETIMEDOUT);
	cr_expect_eq(stat_of(pool).fail_nospc, 2);
	cr_expect_eq(stat_of(pool).evictions, 8);
}

/* Free blocks stay at the mark: what is needed comes from the cache. */
POOL_TEST(door, below_the_low_mark_normal_requests_evict, make_marked(16, 1, 4, 4))
{
	kvmm_mut_t mut[16], urgent[4];
	kvmm_range_t range;

	cache_keys(pool, 0, 12);
	cr_expect_eq(stat_of(pool).nr_free, 4);
	cr_expect_eq(kvmm_alloc(pool, 2, mut), 0);
	cr_expect_eq(stat_of(pool).nr_free, 4);
	cr_expect_eq(stat_of(pool).evictions, 2);

	cr_expect_eq(ask_for(pool, 4, KVMM_ALLOC_URGENT, 0, urgent), 0);
	cr_expect_eq(stat_of(pool).nr_free, 0);
	cr_expect_eq(stat_of(pool).evictions, 2);

	/* What the urgent one took is made good by the next. */
	cr_expect_eq(kvmm_alloc(pool, 1, mut + 2), 0);
	cr_expect_eq(stat_of(pool).nr_free, 4);
	cr_expect_eq(stat_of(pool).evictions, 7);
	cr_expect_eq(kvmm_range_alloc(pool, 3, 0, &range), 0);
	cr_expect_eq(stat_of(pool).nr_free, 4);
	expect_refused(pool, kvmm_alloc(pool, 3, mut + 3), -ENOSPC);
	cr_expect_eq(kvmm_free(pool, mut, 3), 0);
	cr_expect_eq(kvmm_free(pool, urgent, 4), 0);
	cr_expect_eq(kvmm_range_free(pool, range), 0);
}

POOL_TEST(door, what_goes_for_the_low_mark_is_told_as_far_as_there_is_room_and_counted,
	  make_marked(16, 1, 4, 4))
{
	kvmm_key_t evicted[3] = { { { 0 } } };
	kvmm_mut_t mut[2], urgent[4];
	struct kvmm_acquire_args req = { .nr_blocks = 2, .fresh = mut, .evicted = evicted };

	cache_keys(pool, 0, 12);
	cr_expect_eq(ask_for(pool, 4, KVMM_ALLOC_URGENT, 0, urgent), 0);
	cr_expect_eq(kvmm_acquire(pool, &req), 0);
	cr_expect_eq(stat_of(pool).evictions, 6);
	cr_expect_eq(req.nr_evicted, 2);
	cr_expect_eq(req.nr_untold, 4);
	cr_expect_eq(number_of(&evicted[0]), 11);
	cr_expect_eq(number_of(&evicted[1]), 10);
	cr_expect_eq(number_of(&evicted[2]), 0);
	cr_expect_eq(kvmm_free(pool, mut, 2), 0);
	cr_expect_eq(kvmm_free(pool, urgent, 4), 0);
}

POOL_TEST(door, what_goes_for_the_low_mark_besides_hits_is_told, make_marked(16, 1, 4, 4))
{
	kvmm_key_t evicted[8], key[4] = { key_of(0), key_of(1), key_of(2), key_of(3) };
	kvmm_mut_t mut[8], urgent[4];
	kvmm_ref_t ref[8];
	struct kvmm_acquire_args req = { .keys = key, .nr_keys = 4, .max_hits = 4, .nr_blocks = 6,
					 .hits = ref, .fresh = mut, .evicted = evicted };

	cache_keys(pool, 0, 12);
	cr_expect_eq(ask_for(pool, 4, KVMM_ALLOC_URGENT, 0, urgent), 0);
	cr_expect_eq(kvmm_acquire(pool, &req), 0);
	cr_expect_eq(req.nr_hits, 4);
	cr_expect_eq(req.nr_evicted, 6);
	cr_expect_eq(req.nr_untold, 0);
	for (u32 i = 0; i < 6; i++)
		cr_expect_eq(number_of(&evicted[i]), 11 - i);
	cr_expect_eq(kvmm_put_many(pool, ref, 4), 0);
	cr_expect_eq(kvmm_free(pool, mut, 2), 0);

	/* Without room for keys all are counted. */
	req = (struct kvmm_acquire_args){ .nr_blocks = 7, .fresh = mut };
	cr_expect_eq(kvmm_acquire(pool, &req), 0);
	cr_expect_eq(req.nr_evicted, 5);
	cr_expect_eq(req.nr_untold, 0);
	cr_expect_eq(kvmm_free(pool, mut, 7), 0);
	cr_expect_eq(kvmm_free(pool, urgent, 4), 0);
}

POOL_TEST(door, reclaim_evicts_up_to_the_high_mark_within_its_budget, make_marked(16, 1, 2, 9))
{
	struct kvmm_reclaim_args reclaim = { .size = sizeof(reclaim), .max_blocks = 3 };
	struct kvmm_watermarks all = { 0, 0, 16 };
	kvmm_ref_t ref[4];

	make_active(pool, 100, 4, ref);
	cache_keys(pool, 0, 10);
	cr_expect_eq(kvmm_reclaim(pool, &reclaim), -EAGAIN);
	cr_expect_eq(reclaim.nr_evicted, 3);
	cr_expect_eq(reclaim.nr_free, 5);
	reclaim.max_blocks = 0;
	cr_expect_eq(kvmm_reclaim(pool, &reclaim), 0);
	cr_expect_eq(reclaim.nr_evicted, 4);
	cr_expect_eq(reclaim.nr_free, 9);
	cr_expect_eq(kvmm_watermarks_set(pool, &all), 0);
	cr_expect_eq(kvmm_reclaim(pool, &reclaim), -ENOSPC);
	cr_expect_eq(reclaim.nr_free, 12);
	cr_expect_eq(kvmm_put_many(pool, ref, 4), 0);
}

/* ---- promises ---- */

static kvmm_promise_t promise_of(struct kvmm_pool *pool, u32 nr)
{
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = nr };
	kvmm_promise_t promise = { 0, 0 };

	cr_assert_eq(kvmm_promise_make(pool, &ctl, &promise), 0);
	return promise;
}

static int take_promised(struct kvmm_pool *pool, kvmm_promise_t promise, u32 nr, kvmm_mut_t *mut)
{
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = nr, .promise = promise };

	return kvmm_alloc_as(pool, &ctl, mut);
}

POOL_TEST(door, promised_blocks_are_there_when_nothing_else_is, make_door(8, NULL))
{
	kvmm_promise_t promise;
	kvmm_range_t range;
	kvmm_mut_t mut[8];

	cache_keys(pool, 0, 8);
	promise = promise_of(pool, 3);
	cr_expect_eq(stat_of(pool).evictions, 3);
	expect_refused(pool, ask_for(pool, 6, KVMM_ALLOC_URGENT, 0, mut), -ENOSPC);
	cr_expect_eq(kvmm_alloc(pool, 5, mut), 0);
	expect_refused(pool, ask_for(pool, 1, KVMM_ALLOC_URGENT, 0, mut + 5), -ENOSPC);
	expect_refused(pool, take_promised(pool, promise, 4, mut + 5), -EINVAL);
	cr_expect_eq(take_promised(pool, promise, 2, mut + 5), 0);
	cr_expect_eq(kvmm_promise_end(pool, promise), 1);
	cr_expect_eq(kvmm_promise_end(pool, promise), -ESTALE);
	cr_expect_eq(take_promised(pool, promise, 1, mut + 7), -ESTALE);
	cr_expect_eq(kvmm_range_alloc(pool, 1, 0, &range), 0);
	cr_expect_eq(kvmm_range_free(pool, range), 0);
	cr_expect_eq(kvmm_free(pool, mut, 7), 0);
}

POOL_TEST(door, a_range_takes_what_was_promised_past_the_watermarks, make_marked(8, 1, 2, 2))
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 4 };
	kvmm_range_t range;
	kvmm_mut_t mut[2];

	attr.promise = promise_of(pool, 4);
	cr_expect_eq(ask_for(pool, 2, 0, 0, mut), 0);
	expect_refused(pool, kvmm_range_alloc(pool, 1, 0, &range), -ENOSPC);
	cr_expect_eq(kvmm_range_alloc_attr(pool, &attr, &range), 0);
	cr_expect_eq(door_stat(pool).nr_promised, 0);
	cr_expect_eq(kvmm_promise_end(pool, attr.promise), 0);
	cr_expect_eq(kvmm_range_free(pool, range), 0);
	cr_expect_eq(kvmm_free(pool, mut, 2), 0);
}

/* ---- what room costs ---- */

/* Two cached blocks in the way of a run: one copy each, or none. */
static void expect_step(u64 copy_ns, u64 drop_ns, u32 flags, int err, u32 moved, u32 evictions)
{
	struct kvmm_alloc_attr door = { .size = sizeof(door),
					.costs = { copy_ns, drop_ns, 0 } };
	struct kvmm_pool *pool __cleanup(end_pool) = make_door(8, &door);
	kvmm_range_t got;
	kvmm_mut_t hole[5];

	cr_assert_eq(kvmm_alloc(pool, 5, hole), 0);	/* 0 to 4 */
	cache_keys(pool, 0, 1);				/* 5 */
	take(pool, 1, 0);				/* 6 */
	cr_assert_eq(kvmm_free(pool, hole + 3, 2), 0);
	cr_assert_str_eq(picture(pool), "PPP..I#.");
	cr_expect_eq(kvmm_range_alloc(pool, 3, KVMM_ALLOC_CONTIG | flags, &got), err);
	cr_expect_eq(stat_of(pool).moved_blocks, moved, "%lu moved", stat_of(pool).moved_blocks);
	cr_expect_eq(stat_of(pool).evictions, evictions);
	cr_expect_eq(door_stat(pool).saved[KVMM_STEP_DROP], !err && evictions);
	cr_expect_eq(door_stat(pool).saved[KVMM_STEP_COMPACT], !err && moved);
}

Test(door, the_cheaper_of_copy_and_drop_makes_the_run)
{
	expect_step(0, 0, 0, 0, 1, 0);			/* by default dropping is dear */
	expect_step(1000, 1001, 0, 0, 1, 0);
	expect_step(1000, 999, 0, 0, 0, 1);
	expect_step(1000, 999, KVMM_ALLOC_NO_COMPACT, 0, 0, 1);
	expect_step(1000, 999, KVMM_ALLOC_NO_EVICT, 0, 1, 0);
	expect_step(1000, 1001, KVMM_ALLOC_NO_COMPACT, -ENOSPC, 0, 0);
	expect_step(1000, 999, KVMM_ALLOC_NO_COMPACT | KVMM_ALLOC_NO_EVICT, -ENOSPC, 0, 0);
}

/* Of the two in the way block 2 is dropped, and comes back; block 1 is followed by block 5. */
Test(door, a_run_that_is_not_made_by_dropping_leaves_the_order_as_it_was)
{
	struct kvmm_alloc_attr door = { .size = sizeof(door), .costs = { 1000, 999, 0 } };
	struct kvmm_evict_for_args room = { .size = sizeof(room), .nr_blocks = 5 };
	struct kvmm_pool *pool __cleanup(end_pool) = make_door(11, &door);
	kvmm_key_t keys[4] = { key_of(1), key_of(2), key_of(3), key_of(4) };
	kvmm_mut_t mut[11];
	kvmm_ref_t refs[4];
	kvmm_range_t got;
	struct kvmm_digest_info before = { .size = sizeof(before) }, after = before;

	cr_assert_eq(kvmm_alloc(pool, 11, mut), 0);
	cr_assert_eq(kvmm_register(pool, (kvmm_mut_t[]){ mut[1], mut[5], mut[6] }, keys, 3, refs),
		     0);
	cr_assert_eq(kvmm_register(pool, &mut[2], &keys[3], 1, &refs[3]), 0);
	for (u32 i = 0; i < 4; i++)
		cr_assert_eq(kvmm_put(pool, refs[i]), 0);
	cr_assert_eq(kvmm_free(pool, (kvmm_mut_t[]){ mut[0], mut[3], mut[8], mut[10] }, 4), 0);
	cr_assert_eq(kvmm_evict_for(pool, &room), 0);
	cr_assert_str_eq(picture(pool), ".II.PI.P.P.");
	cr_assert_eq(kvmm_pool_digest(pool, &before), 0);
	cr_expect_eq(kvmm_range_alloc(pool, 4, KVMM_ALLOC_CONTIG | KVMM_ALLOC_NO_COMPACT, &got),
		     -ENOSPC);
	cr_assert_eq(kvmm_pool_digest(pool, &after), 0);
	cr_expect_arr_eq(&after.part[KVMM_DIGEST_ORDER], &before.part[KVMM_DIGEST_ORDER],
			 sizeof(kvmm_sum_t));
}

/* Pinned blocks leave parts of 3, 3 and 1: no run of 4 can be made, but two of 2, and 3 with 2. */
POOL_TEST(door, where_no_run_can_be_made_several_may_do, make_door(11, NULL))
{
	kvmm_range_t range[26], got;

	paint(pool, ".a.pp.b.pp.", range);
	cr_assert_eq(kvmm_range_pin(pool, range['p' - 'a']), 0);
	cr_expect_eq(kvmm_range_alloc(pool, 4, KVMM_RUNS(1), &got), -ENOSPC);
	cr_assert_eq(kvmm_range_alloc(pool, 4, KVMM_RUNS(2), &got), 0);
	cr_assert_eq(kvmm_range_free(pool, got), 0);
	cr_expect_eq(kvmm_range_alloc(pool, 5, KVMM_RUNS(2), &got), 0);
	cr_expect_eq(kvmm_range_unpin(pool, range['p' - 'a']), 0);
}

#define COPIES_A_DROP	8u

/* A range of up to 32 blocks in a pool of cached ones. Returns how many were moved. */
static u32 take_weighed(struct kvmm_pool *pool, u64 *rng, kvmm_range_t *range, u32 *nr)
{
	struct kvmm_range_attr attr = { .size = sizeof(attr) };
	struct kvmm_pool_stat before = stat_of(pool), after;
	struct kvmm_alloc_report report;
	u32 most;

	attr.nr = *nr = 1 + lcg_of(rng, 32);
	attr.max_runs = 1 + lcg_of(rng, 4);
	attr.report = &report;
	cr_assert_eq(kvmm_range_alloc_attr(pool, &attr, range), 0);
	after = stat_of(pool);
	cr_assert_eq(after.evictions - before.evictions, report.evicted);
	/* Twice as many are evicted as the last time rather than that more is moved. */
	most = 2 * max(attr.nr, report.evicted);
	if (after.nr_available - after.nr_free > most)
		cr_expect_leq(report.moved, most * COPIES_A_DROP);
	return report.moved;
}

Test(door, no_more_is_moved_for_a_run_than_evicting_as_much_would_cost)
{
	struct kvmm_alloc_attr door = { .size = sizeof(door),
					.costs = { 1000, 1000 * COPIES_A_DROP, 0 } };
	struct kvmm_pool *pool __cleanup(end_pool) = make_door(4096, &door);
	static kvmm_range_t range[4096];
	static u32 length[4096];
	u32 nr = 0, used = 0, nr_moved = 0;
	u64 rng = test_number("KVMM_SEED", 20261129);

	printf("seed %lu\n", rng);
	for (u32 first = 0; first < 4096; first += 512)
		cache_keys(pool, first, 512);
	for (u32 round = 0; round < test_length(NULL, 10000); round++) {
		while (used > 3400) {
			u32 i = lcg_of(&rng, nr);

			cr_assert_eq(kvmm_range_free(pool, range[i]), 0);
			used -= length[i];
			range[i] = range[--nr];
			length[i] = length[nr];
		}
		nr_moved += take_weighed(pool, &rng, &range[nr], &length[nr]);
		used += length[nr++];
	}
	cr_expect_gt(nr_moved, 0);
	cr_expect_eq(kvmm_validate(pool), 0);
}

/* ---- never refused with enough free blocks ---- */

#define NR_ROUNDS	400u
#define NR_HELD		40u

static u64 seed = 20251121;

#define any(below)	lcg_of(&seed, below)

POOL_TEST(door, nothing_is_refused_that_is_free_or_can_be_evicted, make_door(96, NULL))
{
	kvmm_range_t held[NR_HELD];
	bool has[NR_HELD] = { false };
	u32 nr_tight = 0;

	printf("seed %lu\n", seed);
	for (u32 round = 0; round < NR_ROUNDS; round++) {
		u32 i = any(NR_HELD), nr = 1 + any(14), left = stat_of(pool).nr_available;

		if (has[i])
			cr_assert_eq(kvmm_range_free(pool, held[i]), 0);
		has[i] = false;
		if (any(4) == 0 && stat_of(pool).nr_free)
			cache_keys(pool, round * 8, 1 + any(min(stat_of(pool).nr_free, 8u)));
		left = stat_of(pool).nr_available;
		if (any(3) == 0 && left)
			nr = left;	/* all there is */
		if (nr > left)
			continue;
		nr_tight += nr == left;
		cr_assert_eq(kvmm_range_alloc(pool, nr, KVMM_RUNS(1 + any(KVMM_MAX_RUNS)), &held[i]), 0,
			     "round %u: %u of %u", round, nr, left);
		has[i] = true;
		cr_assert_eq(kvmm_validate(pool), 0);
	}
	cr_expect_geq(nr_tight, 10);
}

POOL_TEST(door, no_blocks_are_had_whatever_has_to_stay_free, make_cache(8, "lru"))
{
	struct kvmm_watermarks marks = { 4, 8, 8 };
	kvmm_mut_t mut;

	cr_assert_eq(kvmm_alloc(pool, 1, &mut), 0);
	cr_assert_eq(kvmm_watermarks_set(pool, &marks), 0);
	cr_expect_eq(kvmm_alloc(pool, 0, NULL), 0);
	cr_expect_eq(kvmm_alloc(pool, 1, &mut), -ENOSPC);
}

Test(door, placed_blocks_are_had_where_every_block_is_cached)
{
	static const u32 places[] = { KVMM_ALLOC_PINNED, KVMM_ALLOC_TOPDOWN, KVMM_ALLOC_CONTIG };

	for (u32 i = 0; i < 3; i++) {
		struct kvmm_pool *pool __cleanup(end_pool) = make_cache(8, "lru");
		struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = 5, .flags = places[i] };
		kvmm_mut_t mut[8];

		cache_keys(pool, 0, 8);
		cr_expect_eq(kvmm_alloc_as(pool, &ctl, mut), 0);
		cr_expect_eq(stat_of(pool).nr_inactive, 3);
		ctl.nr = 4;
		cr_expect_eq(kvmm_alloc_as(pool, &ctl, mut + 5), -ENOSPC);
		cr_expect_eq(stat_of(pool).nr_inactive, 3);
	}
}

/* No block is free, and none is wanted. */
POOL_TEST(door, no_blocks_are_had_whatever_else_is_asked_for, make_cache(2, "lru"))
{
	const u32 flags[] = { 0, KVMM_ALLOC_CONTIG, KVMM_ALLOC_NOWAIT, KVMM_ALLOC_TOPDOWN };
	kvmm_mut_t all[2];

	cr_assert_eq(kvmm_alloc(pool, 2, all), 0);
	for (u32 i = 0; i < ARRAY_SIZE(flags); i++) {
		struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .flags = flags[i] };

		cr_expect_eq(kvmm_alloc_as(pool, &ctl, all), 0, "%u", i);
	}
	cr_assert_eq(kvmm_free(pool, all, 2), 0);
}

/* Pinned ranges with cached blocks between them: evicting does not make a run, however many go. */
Test(door, evicting_in_vain_rather_than_moving_is_not_tried_again)
{
	struct kvmm_alloc_attr door = { .size = sizeof(door), .costs = { 1000, 1000, 0 } };
	struct kvmm_pool *pool __cleanup(end_pool) = make_door(16, &door);
	kvmm_range_t range[26], got;
	struct kvmm_alloc_stat stat;

	paint(pool, "a.b.c.d.e.f.g.h.", range);
	for (u32 i = 0; i < 8; i++)
		cr_assert_eq(kvmm_range_pin(pool, range[i]), 0);
	cache_keys(pool, 0, 6);
	for (u32 i = 0; i < 3; i++) {
		cr_expect_eq(kvmm_range_alloc(pool, 2, KVMM_RUNS(1), &got), -ENOSPC);
		cr_assert_eq(kvmm_alloc_get_stat(pool, &stat), 0);
		cr_expect_eq(stat.skipped[KVMM_STEP_COMPACT], i);
	}
	cr_expect_eq(stat_of(pool).evictions, 0);
	for (u32 i = 0; i < 8; i++)
		cr_assert_eq(kvmm_range_unpin(pool, range[i]), 0);
}
