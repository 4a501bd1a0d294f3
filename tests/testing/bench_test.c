// SPDX-License-Identifier: Apache-2.0
/* The bench: time, dice, memory, and the list of what went wrong. */
#include <kv/log.h>
#include <kv/stat.h>
#include <kvmm/ext/testing.h>

#include "tests/support/test.h"

#define START_NS	1000000000ull
#define MSEC		1000000ull

static struct kvmm_testing *t;
static char why[KVMM_TESTING_WHY];

static void set_up(void)
{
	cr_assert_eq(kvmm_testing_begin(&t), 0);
}

static void expect_end(int err, const char *text)
{
	cr_expect_eq(kvmm_testing_end(t, why, sizeof(why)), err);
	cr_expect_str_eq(why, text);
	t = NULL;
}

TestSuite(bench, .init = set_up);

static uint64_t last_access(struct kvmm_pool *pool, uint32_t block)
{
	struct kvmm_block_info info;

	cr_assert_eq(kvmm_block_get_info(pool, block, &info), 0);
	return info.last_access_ns;
}

/* When a range was allocated is known to a tick of 2^20 ns. */
static void expect_just_before(uint64_t ns, uint64_t what)
{
	cr_expect_leq(ns, what);
	cr_expect_lt(what - ns, 1 << 20);
}

Test(bench, time_is_what_the_test_says)
{
	struct kvmm_testing_pool spec = { .nr_blocks = 4 };
	struct kvmm_pool *pool;
	kvmm_range_t range[2];

	cr_expect_eq(kvmm_testing_now(t), START_NS);
	cr_assert_eq(kvmm_testing_pool_make(t, &spec, &pool), 0);
	cr_assert_eq(kvmm_range_alloc(pool, 1, 0, &range[0]), 0);
	kvmm_testing_advance(t, 5 * MSEC);
	cr_assert_eq(kvmm_range_alloc(pool, 1, 0, &range[1]), 0);
	expect_just_before(last_access(pool, 0), START_NS);
	expect_just_before(last_access(pool, 1), START_NS + 5 * MSEC);
	kvmm_testing_set_clock(t, 77);
	cr_expect_eq(kvmm_testing_now(t), 77);
	kvmm_range_free(pool, range[0]);
	kvmm_range_free(pool, range[1]);
	expect_end(0, "");
}

Test(bench, dice_are_the_same_for_one_seed)
{
	uint64_t first = kvmm_testing_random(t), second = kvmm_testing_random(t);

	cr_expect_neq(first, second);
	kvmm_testing_set_seed(t, 9);
	cr_expect_neq(kvmm_testing_random(t), first);
	kvmm_testing_set_seed(t, 1);
	cr_expect_eq(kvmm_testing_random(t), first);
	cr_expect_eq(kvmm_testing_random(t), second);
	expect_end(0, "");
}

Test(bench, keeps_the_last_line_that_kvmm_logged)
{
	cr_expect_str_eq(kvmm_testing_log_line(t), "");
	kv_log(KV_LOG_WARN, "line %d", 7);
	kv_log(KV_LOG_WARN, "line %d", 8);
	cr_expect_str_eq(kvmm_testing_log_line(t), "line 8");
	expect_end(0, "");
}

/* Handles have generations that start at random: with equal seeds they are equal. */
Test(bench, kvmm_throws_the_same_dice)
{
	struct kvmm_testing_pool spec = { .nr_blocks = 4 };
	kvmm_range_t range[3];

	for (uint32_t i = 0; i < 3; i++) {
		struct kvmm_pool *pool;

		kvmm_testing_set_seed(t, i < 2 ? 5 : 6);
		cr_assert_eq(kvmm_testing_pool_make(t, &spec, &pool), 0);
		cr_assert_eq(kvmm_range_alloc(pool, 1, 0, &range[i]), 0);
		kvmm_range_free(pool, range[i]);
		kvmm_testing_pool_end(t, pool);
	}
	cr_expect_eq(range[0].gen, range[1].gen);
	cr_expect_neq(range[0].gen, range[2].gen);
	expect_end(0, "");
}

static int create(struct kvmm_pool **pool)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 8, .policy = "lru" };

	return kvmm_pool_create(&attr, pool);
}

Test(bench, each_allocation_fails_in_turn)
{
	struct kvmm_pool *pool = NULL;
	uint32_t nr_failed = 0;
	uint64_t nth = 0;
	int err = 0;

	while (kvmm_testing_next_failure(t, &nth)) {
		cr_assert_null(pool, "round %lu: the one before had succeeded", nth);
		err = create(&pool);
		cr_expect_eq(err, kvmm_testing_alloc_failed(t) ? -ENOMEM : 0);
		nr_failed += !!err;
	}
	cr_expect_eq(err, 0);
	cr_expect_eq(nth, nr_failed + 1, "the last round is one without failure");
	cr_expect_gt(nr_failed, 5);
	kvmm_pool_destroy(pool);
	cr_assert_eq(create(&pool), 0, "no more failures");
	kvmm_pool_destroy(pool);
	expect_end(0, "");
}

Test(bench, one_allocation_fails_or_all_later_ones)
{
	struct kvmm_pool *pool;

	kvmm_testing_fail_alloc(t, 1, 0);
	cr_expect_eq(create(&pool), -ENOMEM);
	cr_expect_eq(create(&pool), 0);
	kvmm_pool_destroy(pool);
	kvmm_testing_fail_alloc(t, 2, 1);
	cr_expect(!kvmm_testing_alloc_failed(t));
	for (uint32_t i = 0; i < 3; i++)
		cr_expect_eq(create(&pool), -ENOMEM);
	cr_expect(kvmm_testing_alloc_failed(t));
	kvmm_testing_fail_alloc(t, 0, 0);
	cr_expect(!kvmm_testing_alloc_failed(t));
	cr_expect_eq(create(&pool), 0);
	kvmm_pool_destroy(pool);
	expect_end(0, "");
}

Test(bench, host_memory_is_counted)
{
	uint64_t before = kvmm_testing_host_bytes(t);
	struct kvmm_pool *pool;

	cr_assert_eq(create(&pool), 0);
	cr_expect_gt(kvmm_testing_host_bytes(t), before);
	kvmm_pool_destroy(pool);
	cr_expect_eq(kvmm_testing_host_bytes(t), before);
	expect_end(0, "");
}

Test(bench, what_the_test_leaves_in_kvmm_is_a_failure)
{
	struct kvmm_pool *pool;

	cr_assert_eq(create(&pool), 0);
	cr_expect_eq(kvmm_testing_end(t, why, sizeof(why)), -EBADMSG);
	cr_expect(strstr(why, " bytes of host memory are still held by kvmm\n"), "%s", why);
	kvmm_pool_destroy(pool);
}

/* And it may go while the bench is there. */
Test(before_a_bench, what_was_there_is_no_leak_of_it)
{
	struct kvmm_pool *pool, *other;

	cr_assert_eq(create(&pool), 0);
	set_up();
	cr_assert_eq(create(&other), 0);
	kvmm_pool_destroy(other);
	expect_end(0, "");
	set_up();
	kvmm_pool_destroy(pool);
	expect_end(0, "");
}

Test(bench, there_is_one_a_process)
{
	struct kvmm_testing *other;

	cr_expect_eq(kvmm_testing_begin(&other), -EBUSY);
	expect_end(0, "");
	cr_assert_eq(kvmm_testing_begin(&other), 0, "the next one may come");
	cr_expect_eq(kvmm_testing_end(other, NULL, 0), 0);
	cr_expect_eq(kvmm_testing_end(NULL, NULL, 0), 0);
	cr_expect_eq(kvmm_testing_begin(NULL), -EINVAL);
}

/* The counter is all that is left of a broken invariant in a release build. */
Test(bench, broken_invariants_of_the_library_are_a_failure)
{
	kv_count(KV_EV_BUG);
	expect_end(-EBADMSG, "kvmm found an invariant of its own broken: \n");
	set_up();
	expect_end(0, "");
}

Test(bench, failures_are_listed_in_order)
{
	cr_expect_str_eq(kvmm_testing_why(t), "");
	cr_expect_eq(kvmm_testing_expect(t, 1, "fine"), 0);
	cr_expect_eq(kvmm_testing_nr_failures(t), 0);
	cr_expect_eq(kvmm_testing_expect(t, 0, "%d is not %s", 3, "four"), -EBADMSG);
	cr_expect_str_eq(kvmm_testing_why(t), "3 is not four");
	cr_expect_eq(kvmm_testing_expect(t, 0, "more"), -EBADMSG);
	cr_expect_str_eq(kvmm_testing_why(t), "more");
	cr_expect_eq(kvmm_testing_nr_failures(t), 2);
	expect_end(-EBADMSG, "3 is not four\nmore\n");
}

Test(bench, a_condition_is_its_own_text)
{
	int two = 2;

	cr_expect_eq(KVMM_TESTING_EXPECT(t, two == 2), 0);
	cr_expect_eq(KVMM_TESTING_EXPECT(t, two == 3), -EBADMSG);
	cr_expect(strstr(kvmm_testing_why(t), "bench_test.c:"), "%s", kvmm_testing_why(t));
	cr_expect(strstr(kvmm_testing_why(t), ": two == 3"));
	kvmm_testing_end(t, NULL, 0);
}

/* Whole lines as long as there is room; all are counted. */
Test(bench, more_failures_than_there_is_room_for)
{
	for (uint32_t i = 0; i < 1000; i++)
		kvmm_testing_expect(t, 0, "failure %u", i);
	cr_expect_eq(kvmm_testing_nr_failures(t), 1000);
	cr_expect_str_eq(kvmm_testing_why(t), "failure 999");
	cr_expect_eq(kvmm_testing_end(t, why, sizeof(why)), -EBADMSG);
	cr_expect_eq(strncmp(why, "failure 0\nfailure 1\n", 20), 0);
	cr_expect_eq(why[strlen(why) - 1], '\n');
	cr_expect_gt(strlen(why), sizeof(why) - 20);
}

Test(bench, why_is_cut_to_the_room_that_there_is)
{
	char little[5];

	kvmm_testing_expect(t, 0, "something long");
	cr_expect_eq(kvmm_testing_end(t, little, sizeof(little)), -EBADMSG);
	cr_expect_str_eq(little, "some");
}
