// SPDX-License-Identifier: Apache-2.0
/*
 * The zone calls: what they return, what they leave alone, what they say about the zone.
 * Tests named each_engine run for every engine of kv_zone_engines().
 */
#include <kv/bits.h>
#include <kv/stat.h>
#include <kv/zone.h>

#include "tests/support/fake_env.h"
#include "tests/support/cleanup.h"
#include "tests/support/zone_picture.h"

#define MAX_ENGINES	16u

static const char *engine_name[MAX_ENGINES];

static unsigned int nr_engines(void)
{
	return kv_zone_engines(engine_name, MAX_ENGINES);
}

#define for_each_engine(name)								\
	for (unsigned int __n = nr_engines(), __i = 0;					\
	     __i < __n && (name = engine_name[__i]); __i++)

static bool is_buddy(const char *engine)
{
	return !strncmp(engine, "buddy", 5);
}

/* Engines that give out and take back exactly the blocks named. */
#define for_each_exact_engine(name)							\
	for_each_engine(name)								\
		if (!is_buddy(name))

/* A test of one engine after another, each with a zone of its own. */
#define TEST_OF_EACH(for_each, name, make)						\
static void name##_with(struct kv_zone *zone);					\
Test(zone, name)									\
{											\
	const char *engine;								\
											\
	for_each(engine) {								\
		struct kv_zone *zone = make;						\
											\
		name##_with(zone);							\
		kv_zone_destroy(zone);						\
	}										\
}											\
static void name##_with(struct kv_zone *zone)

#define ENGINES_TEST(name, picture)							\
	TEST_OF_EACH(for_each_engine, name, zone_from(engine, picture))
#define EXACT_ENGINES_TEST(name, picture)						\
	TEST_OF_EACH(for_each_exact_engine, name, zone_from(engine, picture))
/* 16 free blocks in pageblocks of four. */
#define PAGEBLOCKS_TEST(name)								\
	TEST_OF_EACH(for_each_engine, name,						\
		     zone_from_pageblocks(engine, "................", 2))

#define expect_picture(zone, picture)							\
	do {										\
		cr_expect_str_eq(zone_str(zone), picture, "%s: %s, not %s",		\
				 (zone)->ops->name, zone_str(zone), picture);		\
		zone_check(zone);							\
	} while (0)

/* The call fails with @err and the zone knows exactly what it knew before. */
#define expect_no_change(zone, call, err)						\
	do {										\
		struct zone_image __before = zone_image(zone);				\
		int __ret = (call);							\
		cr_expect_eq(__ret, err, "%s: " #call " is %d", (zone)->ops->name, __ret); \
		cr_expect(zone_is_unchanged(zone, __before), "%s: " #call " left a trace", \
			  (zone)->ops->name);						\
	} while (0)

static int alloc_req(struct kv_zone *zone, struct kv_zone_req req, u32 *start)
{
	return kv_zone_alloc_req(zone, &req, start);
}

/* 2^@order blocks whose first id is a multiple of 2^@order. */
static int alloc_order(struct kv_zone *zone, unsigned int order, u32 *start)
{
	struct kv_zone_req req = { .nr = BIT(order), .align = BIT(order) };

	return kv_zone_alloc_req(zone, &req, start);
}

static u32 start_of(struct kv_zone *zone, struct kv_zone_req req)
{
	u32 start = KV_NONE;

	cr_expect_eq(kv_zone_alloc_req(zone, &req, &start), 0, "%s", zone->ops->name);
	zone_check(zone);
	return start;
}

Test(zone, create_refuses_bad_attributes)
{
	struct kv_zone_attr good = { 0 }, bad;
	struct kv_zone *zone = NULL;

	good.nr_blocks = 8;
	bad = good, bad.nr_blocks = 0;
	cr_expect_eq(kv_zone_create(&bad, &zone), -EINVAL);
	bad = good, bad.nr_blocks = KVMM_MAX_BLOCKS + 1;
	cr_expect_eq(kv_zone_create(&bad, &zone), -EINVAL);
	bad = good, bad.nr_blocks = UINT32_MAX;
	cr_expect_eq(kv_zone_create(&bad, &zone), -EINVAL);
	bad = good, bad.pageblock_order = 25;
	cr_expect_eq(kv_zone_create(&bad, &zone), -EINVAL);
	bad = good, bad.engine = "no such engine";
	cr_expect_eq(kv_zone_create(&bad, &zone), -ENOENT);
	bad = good, bad.engine = "";
	cr_expect_eq(kv_zone_create(&bad, &zone), -ENOENT);
	cr_expect_null(zone);
	kv_zone_destroy(NULL);
}

Test(zone, create_survives_each_failing_allocation)
{
	struct kv_zone_attr attr = { .nr_blocks = 100 };
	struct kv_zone *zone = NULL;
	struct fake_env fake;
	unsigned int n = 0;
	int err;

	fake_env_install(&fake);
	do {
		fake_env_fail(&fake, ++n, false);
		err = kv_zone_create(&attr, &zone);
		if (err) {
			cr_expect_eq(err, -ENOMEM);
			cr_expect_null(zone);
			cr_expect_eq(fake.nr_live, 0);
		}
	} while (err);
	cr_expect_gt(n, 1);
	kv_zone_destroy(zone);
	cr_expect_eq(fake.nr_live, 0);
	cr_expect_eq(fake.nr_bad_frees, 0);
	fake_env_remove(&fake);
}

Test(zone, each_engine_is_found_by_name_and_reports_its_memory)
{
	struct kv_zone_stat stat;
	const char *engine;

	cr_expect_eq(kv_zone_engines(NULL, 0), nr_engines());
	for_each_engine(engine) {
		u64 before = kv_mem_bytes();
		struct kv_zone_attr attr = { .nr_blocks = 1u << 20,
					       .engine = engine };
		struct kv_zone *zone;

		cr_assert_eq(kv_zone_create(&attr, &zone), 0);
		kv_zone_get_stat(zone, &stat);
		cr_expect_eq(zone->metadata_bytes, kv_mem_bytes() - before);
		cr_expect_leq(zone->metadata_bytes, 16ull << 20, "%s", engine);
		cr_expect_eq(stat.nr_free, 1u << 20);
		cr_expect_eq(stat.largest, 1u << 20);
		zone_check(zone);
		kv_zone_destroy(zone);
		cr_expect_eq(kv_mem_bytes(), before);
	}
}

Test(zone, each_engine_works_from_one_block_to_the_most)
{
	static const u32 sizes[] = { 1, 2, 3, 63, 64, 65, 127, 4095, 4097, KVMM_MAX_BLOCKS - 1,
				     KVMM_MAX_BLOCKS };
	const char *engine;

	for_each_engine(engine) {
		for (unsigned int i = 0; i < ARRAY_SIZE(sizes); i++) {
			struct kv_zone_attr attr = { .nr_blocks = sizes[i],
						       .engine = engine };
			struct kv_zone_stat stat;
			struct kv_zone *zone __cleanup(kv_zone_destroy) = NULL;
			u32 start;

			cr_assert_eq(kv_zone_create(&attr, &zone), 0);
			kv_zone_get_stat(zone, &stat);
			cr_expect_eq(kv_zone_alloc(zone, stat.largest, &start), 0);
			cr_expect_eq(start, 0);
			cr_expect_eq(kv_zone_free(zone, start, stat.largest), 0);
			zone_check(zone);
		}
	}
}

ENGINES_TEST(each_engine_refuses_bad_lengths, "AABB....")
{
	struct kvmm_extent ext[KVMM_MAX_RUNS];
	u32 start, ids[16] = { 0 };

	expect_no_change(zone, kv_zone_alloc(zone, 0, &start), -EINVAL);
	expect_no_change(zone, kv_zone_alloc(zone, 9, &start), -EINVAL);
	expect_no_change(zone, kv_zone_alloc(zone, UINT32_MAX, &start), -EINVAL);
	expect_no_change(zone, kv_zone_alloc_runs(zone, 0, 4, ext), -EINVAL);
	expect_no_change(zone, kv_zone_alloc_runs(zone, 9, 4, ext), -EINVAL);
	expect_no_change(zone, kv_zone_alloc_runs(zone, 2, 0, ext), -EINVAL);
	expect_no_change(zone, kv_zone_alloc_runs(zone, 2, 9, ext), -EINVAL);
	expect_no_change(zone, kv_zone_alloc_many(zone, 0, ids), -EINVAL);
	expect_no_change(zone, kv_zone_alloc_many(zone, 9, ids), -EINVAL);
	expect_no_change(zone, kv_zone_free_many(zone, ids, 0), -EINVAL);
	expect_no_change(zone, kv_zone_free_many(zone, ids, 9), -EINVAL);
}

ENGINES_TEST(each_engine_refuses_ranges_outside_the_zone, "AABB....")
{
	u32 far[2] = { 0, 8 };

	expect_no_change(zone, kv_zone_free(zone, 0, 0), -EINVAL);
	expect_no_change(zone, kv_zone_free(zone, 8, 1), -EINVAL);
	expect_no_change(zone, kv_zone_free(zone, 7, 2), -EINVAL);
	expect_no_change(zone, kv_zone_free(zone, UINT32_MAX, 2), -EINVAL);
	expect_no_change(zone, kv_zone_free(zone, 2, UINT32_MAX), -EINVAL);
	expect_no_change(zone, kv_zone_alloc_at(zone, 0, 0), -EINVAL);
	expect_no_change(zone, kv_zone_alloc_at(zone, 8, 1), -EINVAL);
	expect_no_change(zone, kv_zone_alloc_at(zone, 4, 5), -EINVAL);
	expect_no_change(zone, kv_zone_alloc_at(zone, UINT32_MAX - 1, 4), -EINVAL);
	expect_no_change(zone, kv_zone_free_many(zone, far, 2), -EINVAL);
}

ENGINES_TEST(each_engine_refuses_bad_requests, "AABB....")
{
	struct kv_zone_req good = { .nr = 2 }, bad;
	u32 start;

	bad = good, bad.nr = 0;
	expect_no_change(zone, alloc_req(zone, bad, &start), -EINVAL);
	bad = good, bad.align = 3;
	expect_no_change(zone, alloc_req(zone, bad, &start), -EINVAL);
	bad = good, bad.lo = 8;
	expect_no_change(zone, alloc_req(zone, bad, &start), -EINVAL);
	bad = good, bad.lo = 4, bad.hi = 4;
	expect_no_change(zone, alloc_req(zone, bad, &start), -EINVAL);
	bad = good, bad.hi = 9;
	expect_no_change(zone, alloc_req(zone, bad, &start), -EINVAL);
	bad = good, bad.fit = KV_FIT_FIRST + 1;
	expect_no_change(zone, alloc_req(zone, bad, &start), -EINVAL);
	bad = good, bad.mobility = KVMM_NR_MOBILITY;
	expect_no_change(zone, alloc_req(zone, bad, &start), -EINVAL);
}

ENGINES_TEST(each_engine_fails_without_a_trace_when_full_or_scattered, "A.B.C.DD")
{
	u64 nospc = kv_stat_sum(KV_EV_FAIL_NOSPC), frag = kv_stat_sum(KV_EV_FAIL_FRAG);
	struct kvmm_extent ext[KVMM_MAX_RUNS];
	u32 start, ids[8];

	expect_no_change(zone, kv_zone_alloc(zone, 2, &start), -ENOSPC);
	expect_no_change(zone, alloc_order(zone, 1, &start), -ENOSPC);
	expect_no_change(zone, kv_zone_alloc_runs(zone, 3, 2, ext), -ENOSPC);
	cr_expect_eq(kv_stat_sum(KV_EV_FAIL_FRAG), frag + 3);
	expect_no_change(zone, kv_zone_alloc(zone, 4, &start), -ENOSPC);
	expect_no_change(zone, kv_zone_alloc_runs(zone, 4, 8, ext), -ENOSPC);
	expect_no_change(zone, kv_zone_alloc_many(zone, 4, ids), -ENOSPC);
	cr_expect_eq(kv_stat_sum(KV_EV_FAIL_NOSPC), nospc + 3);
	zone_check(zone);
}

ENGINES_TEST(each_engine_counts_what_it_did, "................")
{
	u64 allocs = kv_stat_sum(KV_EV_ALLOC), blocks = kv_stat_sum(KV_EV_ALLOC_BLOCKS);
	u64 frees = kv_stat_sum(KV_EV_FREE), freed = kv_stat_sum(KV_EV_FREE_BLOCKS);
	u32 start, ids[3];

	kv_zone_alloc(zone, 4, &start);
	kv_zone_alloc_many(zone, 3, ids);
	kv_zone_free(zone, start, 4);
	kv_zone_free_many(zone, ids, 3);
	kv_zone_free(zone, start, 4);
	cr_expect_eq(kv_stat_sum(KV_EV_ALLOC), allocs + 2);
	cr_expect_eq(kv_stat_sum(KV_EV_ALLOC_BLOCKS), blocks + 7);
	cr_expect_eq(kv_stat_sum(KV_EV_FREE), frees + 2);
	cr_expect_eq(kv_stat_sum(KV_EV_FREE_BLOCKS), freed + 7);
}

/* Every block that is free already, and any range that has one in it. */
ENGINES_TEST(each_engine_refuses_to_free_what_is_free, "AA..BBC.")
{
	u32 twice[] = { 6, 6 }, free_one[] = { 6, 3 };

	expect_no_change(zone, kv_zone_free(zone, 2, 1), -EINVAL);
	expect_no_change(zone, kv_zone_free(zone, 2, 2), -EINVAL);
	expect_no_change(zone, kv_zone_free(zone, 1, 2), -EINVAL);
	expect_no_change(zone, kv_zone_free(zone, 3, 2), -EINVAL);
	expect_no_change(zone, kv_zone_free(zone, 0, 8), -EINVAL);
	cr_expect_eq(kv_zone_free_many(zone, twice, 2), -EINVAL);
	cr_expect_eq(kv_zone_free_many(zone, free_one, 2), -EINVAL);
	expect_picture(zone, "AA[..]BBC.");
}

EXACT_ENGINES_TEST(exact_engines_take_back_any_part, "AAAAAAAA")
{
	cr_expect_eq(kv_zone_free(zone, 2, 2), 0);
	expect_picture(zone, "AA[..]AAAA");
	cr_expect_eq(kv_zone_free(zone, 7, 1), 0);
	expect_picture(zone, "AA[..]AAA.");
	cr_expect_eq(kv_zone_free(zone, 4, 3), 0);
	expect_picture(zone, "AA[......]");
	cr_expect_eq(kv_zone_free(zone, 0, 2), 0);
	expect_picture(zone, "[........]");
}

EXACT_ENGINES_TEST(exact_engines_grow_in_place_on_both_sides, "..AA..B.")
{
	cr_expect_eq(kv_zone_alloc_at(zone, 4, 1), 0);
	expect_picture(zone, "[..]AA#.B.");
	cr_expect_eq(kv_zone_alloc_at(zone, 1, 1), 0);
	expect_picture(zone, ".#AA#.B.");
	expect_no_change(zone, kv_zone_alloc_at(zone, 5, 2), -EBUSY);
	expect_no_change(zone, kv_zone_alloc_at(zone, 2, 1), -EBUSY);
}

EXACT_ENGINES_TEST(best_fit_takes_the_shortest_run_and_the_lowest_of_equals, "....A..B...C..D.")
{
	if (!strcmp(zone->ops->name, "first"))
		return;
	cr_expect_eq(start_of(zone, (struct kv_zone_req){ .nr = 1 }), 15);
	cr_expect_eq(start_of(zone, (struct kv_zone_req){ .nr = 3 }), 8);
	if (strcmp(zone->ops->name, "lists"))	/* equals in order of their history there */
		cr_expect_eq(start_of(zone, (struct kv_zone_req){ .nr = 2 }), 5);
}

EXACT_ENGINES_TEST(first_fit_takes_the_lowest_run, "A.B....C..D...E.")
{
	struct kv_zone_req req = { .nr = 2, .fit = KV_FIT_FIRST };

	cr_expect_eq(start_of(zone, req), 3);
	cr_expect_eq(start_of(zone, req), 5);
	cr_expect_eq(start_of(zone, req), 8);
	req.topdown = 1;
	cr_expect_eq(start_of(zone, req), 12);
	expect_picture(zone, "A.B####C##D.##E.");
}

EXACT_ENGINES_TEST(topdown_mirrors_the_search, "...A...B.....C..")
{
	struct kv_zone_req req = { .nr = 3, .topdown = 1 };

	if (strcmp(zone->ops->name, "first")) {
		cr_expect_eq(start_of(zone, req), 4);
		cr_expect_eq(start_of(zone, req), 0);
	}
	cr_expect_eq(start_of(zone, req), 10);
}

ENGINES_TEST(windows_and_alignment_are_kept, "................")
{
	u32 start;

	cr_expect_eq(start_of(zone, (struct kv_zone_req){ .nr = 2, .lo = 4, .hi = 6 }), 4);
	expect_no_change(zone, alloc_req(zone, (struct kv_zone_req){
			 .nr = 2, .lo = 4, .hi = 7 }, &start), -ENOSPC);
	cr_expect_eq(start_of(zone, (struct kv_zone_req){ .nr = 1, .lo = 5, .align = 4 }), 8);
	expect_no_change(zone, alloc_req(zone, (struct kv_zone_req){
			 .nr = 1, .lo = 1, .align = 16 }, &start), -ENOSPC);
	expect_no_change(zone, alloc_req(zone, (struct kv_zone_req){
			 .nr = 1, .lo = 1, .align = 1u << 31 }, &start), -ENOSPC);
	cr_expect_eq(start_of(zone, (struct kv_zone_req){ .nr = 1, .align = 1u << 31 }), 0);
}

ENGINES_TEST(each_engine_aligns_orders, "A...............")
{
	u32 start;

	for (unsigned int order = 0; order < 4; order++) {
		cr_expect_eq(alloc_order(zone, order, &start), 0);
		cr_expect_eq(start & (BIT(order) - 1), 0, "%s", zone->ops->name);
	}
	cr_expect_eq(alloc_order(zone, 0, &start), -ENOSPC);
	zone_check(zone);
}

EXACT_ENGINES_TEST(runs_are_one_hole_if_one_suffices, "..A....B.....")
{
	struct kvmm_extent ext[4];

	cr_expect_eq(kv_zone_alloc_runs(zone, 5, 4, ext), 1);
	cr_expect_eq(ext[0].start, 8);
	cr_expect_eq(ext[0].nr, 5);
	zone_check(zone);
}

EXACT_ENGINES_TEST(runs_are_the_largest_holes_entirely_then_best_fit, "..A....B.....C...")
{
	struct kvmm_extent ext[4];

	/* 5 + 4 entirely; the last 2 fit the run of 2 exactly. */
	cr_expect_eq(kv_zone_alloc_runs(zone, 11, 4, ext), 3);
	cr_expect_eq(ext[0].start, 8);
	cr_expect_eq(ext[1].start, 3);
	if (strcmp(zone->ops->name, "first"))
		expect_picture(zone, "##A####B#####C[...]");
	cr_expect_eq(ext[0].nr + ext[1].nr + ext[2].nr, 11);
}

ENGINES_TEST(each_engine_takes_runs_up_to_the_very_last_block, "A.B.CC..")
{
	struct kvmm_extent ext[KVMM_MAX_RUNS];

	expect_no_change(zone, kv_zone_alloc_runs(zone, 4, 2, ext), -ENOSPC);
	cr_expect_eq(kv_zone_alloc_runs(zone, 4, 3, ext), 3);
	expect_picture(zone, "A#B#CC##");
}

ENGINES_TEST(each_engine_takes_singles_that_are_distinct, "A...B.......C.DD")
{
	u32 ids[11], seen = 0;

	cr_expect_eq(kv_zone_alloc_many(zone, 11, ids), 0);
	for (unsigned int i = 0; i < 11; i++)
		seen |= BIT(ids[i]);
	cr_expect_eq(seen, 0x2fee, "%s: %x", zone->ops->name, seen);
	expect_picture(zone, "A###B#######C#DD");
	cr_expect_eq(kv_zone_free_many(zone, ids, 11), 0);
	zone_check(zone);
}

EXACT_ENGINES_TEST(singles_break_the_shortest_runs, "....A..B.CC")
{
	u32 ids[3];

	if (!strcmp(zone->ops->name, "first"))
		return;
	cr_expect_eq(kv_zone_alloc_many(zone, 3, ids), 0);
	expect_picture(zone, "[....]A##B#CC");
}

EXACT_ENGINES_TEST(stat_is_the_picture_in_numbers, ".A..B....C")
{
	struct kv_zone_stat stat;

	kv_zone_get_stat(zone, &stat);
	cr_expect_eq(stat.nr_blocks, 10);
	cr_expect_eq(stat.nr_free, 7);
	cr_expect_eq(stat.nr_runs, 3);
	cr_expect_eq(stat.largest, 4);
}

Test(zone, unusable_is_the_share_in_short_runs_rounded_down)
{
	const char *engine;

	for_each_exact_engine(engine) {
		struct kv_zone *zone = zone_from(engine, ".A..B....C");

		cr_expect_eq(kv_zone_unusable(zone, 1), 0);
		cr_expect_eq(kv_zone_unusable(zone, 2), 142857);
		cr_expect_eq(kv_zone_unusable(zone, 3), 428571);
		cr_expect_eq(kv_zone_unusable(zone, 5), 1000000);
		cr_expect_eq(kv_zone_unusable(zone, 0), -EINVAL);
		cr_expect_eq(kv_zone_unusable(zone, 11), -EINVAL);
		kv_zone_destroy(zone);
	}
	for_each_engine(engine) {
		struct kv_zone *zone __cleanup(kv_zone_destroy) = zone_from(engine, "AA");

		cr_expect_eq(kv_zone_unusable(zone, 1), 1000000);	/* nothing is free */
	}
}

ZONE_TEST(zone, unusable_of_a_buddy_counts_blocks_of_the_rounded_order,
	  zone_from("buddy", "A.[..][....]BBBB[....]"))
{
	cr_expect_eq(kv_zone_unusable(zone, 2), 90909);
	cr_expect_eq(kv_zone_unusable(zone, 3), 272727);
}

Test(zone, each_engine_walks_its_maximal_runs)
{
	static const struct kvmm_extent want[] = { { 1, 3 }, { 5, 1 }, { 8, 4 } };
	const char *engine;

	for_each_engine(engine) {
		struct kv_zone *zone = zone_from(engine, "A...B.CC....");
		struct kvmm_extent run;
		u32 at = 0;

		for (unsigned int i = 0; i < ARRAY_SIZE(want); i++) {
			cr_assert_eq(kv_zone_next_free(zone, at, &run), 0);
			cr_expect_eq(run.start, want[i].start, "%s", engine);
			cr_expect_eq(run.nr, want[i].nr, "%s", engine);
			at = run.start + run.nr;
		}
		cr_expect_eq(at, 12);
		cr_expect_eq(kv_zone_next_free(zone, at, &run), -ENOENT);
		cr_expect_eq(kv_zone_next_free(zone, 2, &run), 0);
		cr_expect_eq(run.start, 1, "%s: from the middle", engine);
		kv_zone_destroy(zone);

		zone = zone_from(engine, "..AA");
		cr_expect_eq(kv_zone_next_free(zone, 2, &run), -ENOENT);
		kv_zone_destroy(zone);
	}
}

PAGEBLOCKS_TEST(empty_pageblocks_take_the_class_of_the_first_request)
{
	u32 start;

	start = start_of(zone, (struct kv_zone_req){ .nr = 1, .lo = 4, .hi = 8,
			 .mobility = KVMM_UNMOVABLE });
	cr_expect_eq(zone->block_class[1], KVMM_UNMOVABLE, "%s", zone->ops->name);
	start_of(zone, (struct kv_zone_req){ .nr = 1, .lo = 4, .hi = 8,
		 .mobility = KVMM_RECLAIMABLE });
	cr_expect_eq(zone->block_class[1], KVMM_UNMOVABLE, "%s: not empty", zone->ops->name);
	cr_expect_eq(zone->block_class[2], KVMM_MOVABLE, "%s", zone->ops->name);

	/* Runs over a border: each pageblock by itself. */
	start_of(zone, (struct kv_zone_req){ .nr = 8, .lo = 8, .mobility = KVMM_RECLAIMABLE });
	cr_expect_eq(zone->block_class[2], KVMM_RECLAIMABLE, "%s", zone->ops->name);
	cr_expect_eq(zone->block_class[3], KVMM_RECLAIMABLE, "%s", zone->ops->name);

	/* It keeps its class when it empties, until somebody else comes. */
	cr_expect_eq(kv_zone_free(zone, 8, 8), 0);
	cr_expect_eq(zone->block_class[2], KVMM_RECLAIMABLE, "%s", zone->ops->name);
	cr_expect_eq(kv_zone_alloc_at(zone, 8, 1), 0);
	cr_expect_eq(zone->block_class[2], KVMM_MOVABLE, "%s", zone->ops->name);
	cr_expect_eq(start & ~3u, 4);
	zone_check(zone);
}

ZONE_TEST(zone, rounding_counts_as_the_requests_own,
	  zone_from_pageblocks("buddy", "................", 2))
{
	start_of(zone, (struct kv_zone_req){ .nr = 3, .mobility = KVMM_UNMOVABLE });
	cr_expect_eq(zone->block_class[0], KVMM_UNMOVABLE);
	start_of(zone, (struct kv_zone_req){ .nr = 5, .mobility = KVMM_UNMOVABLE });
	cr_expect_eq(zone->block_class[2], KVMM_UNMOVABLE);
	cr_expect_eq(zone->block_class[3], KVMM_UNMOVABLE);
	cr_expect_eq(zone->block_class[1], KVMM_MOVABLE);
}

PAGEBLOCKS_TEST(batches_set_classes_as_single_calls_do)
{
	u32 ids[16], start;

	start = start_of(zone, (struct kv_zone_req){ .nr = 8, .mobility = KVMM_UNMOVABLE });
	cr_expect_eq(start, 0);
	cr_expect_eq(kv_zone_free(zone, 0, 8), 0);
	start_of(zone, (struct kv_zone_req){ .nr = 1, .hi = 4, .mobility = KVMM_UNMOVABLE });
	cr_expect_eq(kv_zone_alloc_many(zone, 15, ids), 0);
	cr_expect_eq(zone->block_class[0], KVMM_UNMOVABLE, "%s", zone->ops->name);
	cr_expect_eq(zone->block_class[1], KVMM_MOVABLE, "%s", zone->ops->name);
}

/* By order, of one class. */
static void expect_orders(struct kv_zone *zone, u32 class, const u64 want[KVMM_NR_ORDERS])
{
	struct kv_zone_glance glance;
	const u64 *counts = glance.free;

	kv_zone_glance(zone, &glance);
	for (u32 order = 0; order < KVMM_NR_ORDERS; order++)
		cr_expect_eq(counts[class * KVMM_NR_ORDERS + order], want[order],
			     "class %u, order %u: %lu, not %lu", class, order,
			     counts[class * KVMM_NR_ORDERS + order], want[order]);
}

ENGINES_TEST(buddyinfo_shows_maximal_aligned_blocks, "A[...]B....[....]C.")
{
	/* 1; 2-3; 5; 6-7; 8-11; 12; 14 */
	expect_orders(zone, KVMM_MOVABLE, (u64[KVMM_NR_ORDERS]){ 4, 2, 1 });
	expect_orders(zone, KVMM_UNMOVABLE, (u64[KVMM_NR_ORDERS]){ 0 });
}

PAGEBLOCKS_TEST(buddyinfo_is_cut_where_the_class_changes)
{
	u32 start;

	start = start_of(zone, (struct kv_zone_req){ .nr = 4, .lo = 4, .hi = 8,
			 .mobility = KVMM_UNMOVABLE });
	cr_expect_eq(kv_zone_free(zone, start, 4), 0);
	expect_orders(zone, KVMM_MOVABLE, (u64[KVMM_NR_ORDERS]){ 0, 0, 1, 1 });
	expect_orders(zone, KVMM_UNMOVABLE, (u64[KVMM_NR_ORDERS]){ 0, 0, 1 });
}

Test(zone, buddyinfo_stops_at_the_top_order)
{
	struct kv_zone_attr attr = { .nr_blocks = 4 * 1024 + 512 + 3 };
	struct kv_zone *zone __cleanup(kv_zone_destroy) = NULL;

	cr_assert_eq(kv_zone_create(&attr, &zone), 0);
	expect_orders(zone, KVMM_MOVABLE,
		      (u64[KVMM_NR_ORDERS]){ [0] = 1, [1] = 1, [9] = 1, [10] = 4 });
	cr_expect_eq(kv_zone_alloc_at(zone, 1, 1), 0);
	expect_orders(zone, KVMM_MOVABLE,
		      (u64[KVMM_NR_ORDERS]){ 2, 2, 1, 1, 1, 1, 1, 1, 1, 2, 3 });
}

static int text_of(struct kv_zone *zone, const char *what, char *buf, size_t bytes)
{
	struct kv_zone_glance glance;

	kv_zone_glance(zone, &glance);
	return kv_zone_glance_text(&glance, what, (struct kv_zone_label){ 0, "kv" }, buf, bytes);
}

ZONE_TEST(zone, buddyinfo_text_has_the_layout_of_linux, zone_from(NULL, "A[...]B...[....]C."))
{
	static const char want[] =
		"Node 0, zone       kv      3      2      1      0      0      0      0 "
		"     0      0      0      0 \n";
	char text[256], cut[8];

	zone_check(zone);
	cr_expect_eq(text_of(zone, "buddyinfo", text, sizeof(text)), sizeof(want) - 1);
	cr_expect_str_eq(text, want);
	cr_expect_eq(text_of(zone, "buddyinfo", NULL, 0), sizeof(want) - 1);
	cr_expect_eq(text_of(zone, "buddyinfo", cut, sizeof(cut)), sizeof(want) - 1);
	cr_expect_str_eq(cut, "Node 0,");
	cr_expect_eq(text_of(zone, "slabinfo", text, sizeof(text)), -ENOENT);
	cr_expect_str_eq(text, "");
}

ZONE_TEST(zone, pagetypeinfo_text_has_the_layout_of_linux,
	  zone_from_pageblocks(NULL, "................", 3))
{
	static const char want[] =
		"Page block order: 3\n"
		"Pages per block:  8\n"
		"\n"
		"Free pages count per migrate type at order       0      1      2      3      4"
		"      5      6      7      8      9     10 \n"
		"Node    0, zone       kv, type    Unmovable      1      1      1      0      0"
		"      0      0      0      0      0      0 \n"
		"Node    0, zone       kv, type      Movable      0      0      0      1      0"
		"      0      0      0      0      0      0 \n"
		"Node    0, zone       kv, type  Reclaimable      0      0      0      0      0"
		"      0      0      0      0      0      0 \n"
		"\n"
		"Number of blocks type     Unmovable      Movable  Reclaimable \n"
		"Node 0, zone       kv            1            1            0 \n";
	char text[2048];
	int len;

	start_of(zone, (struct kv_zone_req){ .nr = 1, .mobility = KVMM_UNMOVABLE });
	len = text_of(zone, "pagetypeinfo", text, sizeof(text));
	cr_expect_str_eq(text, want);
	cr_expect_eq(len, sizeof(want) - 1);
}

/* Compaction's calls, under a lock that it holds over several of them. */
ZONE_TEST(zone, locked_calls_check_and_change_as_the_public_ones_do, zone_from(NULL, "AA..B..."))
{
	kv_lock(&zone->lock);
	cr_expect_eq(kv_zone_take_at_locked(zone, 2, 2), 0);
	cr_expect_eq(kv_zone_take_at_locked(zone, 3, 2), -EBUSY);
	cr_expect_eq(kv_zone_take_at_locked(zone, 7, 2), -EINVAL);
	cr_expect_eq(kv_zone_give_locked(zone, 0, 2), 0);
	cr_expect_eq(kv_zone_give_locked(zone, 0, 2), -EINVAL);
	cr_expect_eq(kv_zone_give_locked(zone, UINT32_MAX, 2), -EINVAL);
	kv_unlock(&zone->lock);
	expect_picture(zone, "[..]##B[...]");
}

ZONE_TEST(zone, check_notices_a_class_that_does_not_exist, zone_from(NULL, "A.B."))
{
	zone->block_class[0] = KVMM_NR_MOBILITY;
	cr_expect_eq(kv_zone_check(zone), -EUCLEAN);
	zone->block_class[0] = KVMM_MOVABLE;
	zone_check(zone);
}

/*
 * Whatever an allocation changed is live metadata: put a single byte of it back to what it was
 * and the zone must be found to contradict itself. The two reference engines hold nothing twice,
 * so a hole that has moved is simply another state there.
 */
static void expect_each_byte_matters(struct kv_zone *zone, u32 nr)
{
	struct zone_image before = zone_image(zone);
	u32 start, nr_changed = 0;
	u8 *now = zone->engine;

	cr_assert_eq(kv_zone_alloc(zone, nr, &start), 0);
	for (size_t i = 0; i < zone->ops->metadata_bytes(zone->nr_blocks); i++) {
		u8 saved = now[i];

		if (saved == (u8)before.data[i])
			continue;
		now[i] = before.data[i];
		cr_expect_eq(kv_zone_check(zone), -EUCLEAN, "%s: byte %zu", zone->ops->name, i);
		now[i] = saved;
		nr_changed++;
	}
	cr_expect_gt(nr_changed, 1);
	zone_check(zone);
	cr_expect_eq(kv_zone_free(zone, start, nr), 0);
	zone_check(zone);
	zone_is_unchanged(zone, before);		/* for the image's memory */
}

Test(zone, check_notices_each_byte_that_an_allocation_changed)
{
	const char *engine;

	for_each_engine(engine) {
		struct kv_zone_attr attr = { 0 };
		struct kv_zone *zone;
		u32 start;

		if (!strcmp(engine, "first") || !strcmp(engine, "best"))
			continue;
		attr.engine = engine;
		attr.nr_blocks = 5000;
		cr_assert_eq(kv_zone_create(&attr, &zone), 0);
		for (u32 i = 0; i < 60; i++)
			cr_assert_eq(kv_zone_alloc(zone, 1 + i % 7, &start), 0);
		for (u32 nr = 1; nr < 2000; nr += nr)
			expect_each_byte_matters(zone, nr);
		kv_zone_destroy(zone);
	}
}
