// SPDX-License-Identifier: Apache-2.0
/* The software device by way of the bench. Each test is a process, so each loads the driver anew. */
#include <kvmm/ext/testing.h>

#include "tests/swcuda/driver.h"

#define OUT_OF_MEMORY	2

static struct kvmm_testing *t;
static char why[KVMM_TESTING_WHY];

/* Tests are started in a way that hides the folder of their program. */
static void set_up(void)
{
	setenv("KVMM_SOFT_DRIVER", "./libkvmm-swcuda.so", 1);
	cr_assert_eq(kvmm_testing_begin(&t), 0);
}

TestSuite(soft, .init = set_up);

static int make(struct kvmm_pool **pool)
{
	struct kvmm_testing_pool spec = { .nr_blocks = 8, .device = "soft:0", .block_bytes = 4096 };

	return kvmm_testing_pool_make(t, &spec, pool);
}

Test(soft, pools_lie_on_it_and_blocks_have_content)
{
	char in[64] = "content", out[64] = "";
	struct kvmm_pool *pool;

	cr_assert_eq(kvmm_testing_soft(t, "seed=7"), 0, "%s", kvmm_testing_why(t));
	cr_assert_eq(make(&pool), 0, "%s", kvmm_testing_why(t));
	cr_expect_eq(kvmm_block_write(pool, 3, 100, in, sizeof(in)), 0);
	cr_expect_eq(kvmm_block_read(pool, 3, 100, out, sizeof(out)), 0);
	cr_expect_str_eq(out, "content");
	cr_expect_eq(kvmm_testing_end(t, why, sizeof(why)), 0, "%s", why);
}

Test(soft, options_make_the_device)
{
	struct kvmm_device_info info = { .size = sizeof(info) };

	cr_assert_eq(kvmm_testing_soft(t, "devices=2,mem=64M"), 0);
	cr_assert_eq(kvmm_device_get_info("soft:1", &info), 0);
	cr_expect_eq(info.total_bytes, 64 << 20);
	cr_assert_eq(kvmm_testing_soft(t, ""), 0, "and again, as something else");
	cr_expect_eq(kvmm_device_get_info("soft:1", &info), -ENODEV);
	cr_expect_eq(kvmm_testing_end(t, why, sizeof(why)), 0, "%s", why);
}

Test(soft, wrong_options_are_named_and_do_not_last)
{
	struct kvmm_pool *pool;

	cr_expect_eq(kvmm_testing_soft(t, "seed=1,bogus=1"), -EINVAL);
	cr_expect(strstr(kvmm_testing_why(t), "no option 'bogus=1'"), "%s", kvmm_testing_why(t));
	cr_expect_eq(kvmm_testing_soft(t, "seed=1"), 0);
	cr_expect_eq(make(&pool), 0);
	kvmm_testing_end(t, NULL, 0);
}

Test(soft, fault_plan_fails_the_nth_call)
{
	struct kvmm_pool *pool;

	cr_assert_eq(kvmm_testing_soft(t, "fail=cuMemAlloc_v2:1+:OUT_OF_MEMORY"), 0);
	cr_expect_eq(make(&pool), -ENOMEM);
	cr_expect(strstr(kvmm_testing_why(t), "a pool of 8 blocks"), "%s", kvmm_testing_why(t));
	kvmm_testing_soft_fail_none(t);
	cr_expect_eq(make(&pool), 0);
	kvmm_testing_end(t, NULL, 0);
}

Test(soft, calls_fail_from_now_on)
{
	struct kvmm_pool *pool, *other;

	cr_expect_eq(kvmm_testing_soft_fail(t, "*", 1, OUT_OF_MEMORY, 0), -EINVAL, "not yet");
	cr_assert_eq(kvmm_testing_soft(t, ""), 0);
	cr_assert_eq(make(&pool), 0);
	cr_expect_eq(kvmm_testing_soft_fail(t, "cuNoSuch", 1, OUT_OF_MEMORY, 0), -ENOENT);
	cr_expect_eq(kvmm_testing_soft_fail(t, "cuMemAlloc_v2", 1, OUT_OF_MEMORY, 1), 0);
	cr_expect_eq(make(&other), -ENOMEM);
	cr_expect_eq(kvmm_testing_soft_fail(t, "cuMemAlloc_v2", 1, OUT_OF_MEMORY, 0), 0);
	kvmm_testing_soft_fail_none(t);
	cr_expect_eq(make(&other), 0);
	kvmm_testing_end(t, NULL, 0);
}

Test(soft, it_cannot_begin_anew_under_a_pool)
{
	struct kvmm_pool *pool;

	cr_assert_eq(kvmm_testing_soft(t, ""), 0);
	cr_assert_eq(make(&pool), 0);
	cr_expect_eq(kvmm_testing_soft(t, ""), -EBUSY);
	cr_expect_eq(kvmm_testing_pool_end(t, pool), 0);
	cr_expect_eq(kvmm_testing_soft(t, ""), 0);
	kvmm_testing_end(t, NULL, 0);
}

/* Blocking streams are what no code of the library makes; so the test does. */
Test(soft, reports_are_failures_of_the_bench)
{
	kcu_stream stream;
	kcu_context ctx;

	cr_assert_eq(kvmm_testing_soft(t, ""), 0);
	load("");
	ok(cu.init(0));
	ok(cu.primary_ctx_retain(&ctx, 0));
	ok(cu.ctx_push_current(ctx));
	cr_expect_null(kvmm_testing_soft_report(t, 0));
	ok(cu.stream_create_with_priority(&stream, 0, 0));
	cr_assert_not_null(kvmm_testing_soft_report(t, 0));
	cr_expect(strstr(kvmm_testing_soft_report(t, 0), "misuse: "), "%s",
		  kvmm_testing_soft_report(t, 0));
	kvmm_testing_soft_forget(t);
	cr_expect_null(kvmm_testing_soft_report(t, 0));
	ok(cu.stream_create_with_priority(&stream, 0, 0));
	cr_expect_eq(kvmm_testing_end(t, why, sizeof(why)), -EBADMSG);
	cr_expect_eq(strncmp(why, "software driver: misuse: ", 25), 0, "%s", why);
}

Test(soft, library_that_is_not_there_is_named)
{
	setenv("KVMM_SOFT_DRIVER", "./no-such.so", 1);
	cr_expect_eq(kvmm_testing_soft(t, ""), -ENOENT);
	cr_expect(strstr(kvmm_testing_why(t), "./no-such.so"), "%s", kvmm_testing_why(t));
	cr_expect_null(kvmm_testing_soft_report(t, 0));
	kvmm_testing_soft_fail_none(t);
	kvmm_testing_end(t, NULL, 0);
}
