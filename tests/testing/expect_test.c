// SPDX-License-Identifier: Apache-2.0
/* Each expectation, met and not met. */
#include <kvmm/ext/testing.h>

#include "tests/support/test.h"

static struct kvmm_testing *t;
static struct kvmm_pool *pool;
static struct kvmm_testing_painted paint;

static void set_up(void)
{
	struct kvmm_testing_pool spec = { .nr_blocks = 8 };

	cr_assert_eq(kvmm_testing_begin(&t), 0);
	cr_assert_eq(kvmm_testing_pool_make(t, &spec, &pool), 0);
}

static void tear_down(void)
{
	kvmm_testing_end(t, NULL, 0);
}

TestSuite(expect, .init = set_up, .fini = tear_down);

/* What was said about it; and it is counted. */
static void expect_failure(int err, const char *why)
{
	static uint32_t nr;

	cr_expect_eq(err, -EBADMSG);
	cr_expect_str_eq(kvmm_testing_why(t), why);
	cr_expect_eq(kvmm_testing_nr_failures(t), ++nr);
}

Test(expect, picture)
{
	cr_assert_eq(kvmm_testing_paint(t, pool, "aa.I.A..", &paint), 0);
	cr_expect_eq(kvmm_testing_expect_picture(t, pool, "aa.I.A.."), 0);
	expect_failure(kvmm_testing_expect_picture(t, pool, "aa.A.A.."),
		       "the pool is \"aa.I.A..\", not \"aa.A.A..\" (block 3)");
	expect_failure(kvmm_testing_expect_picture(t, pool, "aa.I.A..."),
		       "the pool is \"aa.I.A..\", not \"aa.I.A...\" (block 8)");
}

/* A picture is good until the next one, which is drawn to be compared with it. */
Test(expect, a_picture_of_before)
{
	struct kvmm_testing_pool spec = { .nr_blocks = 400 };
	struct kvmm_pool *large;
	const char *before;

	cr_assert_eq(kvmm_testing_pool_make(t, &spec, &large), 0);
	before = kvmm_testing_picture(t, pool);
	cr_expect_eq(kvmm_testing_expect_picture(t, pool, before), 0);
	before = kvmm_testing_picture(t, pool);
	cr_expect_eq(kvmm_testing_expect_picture(t, large, before), -EBADMSG);
	before = kvmm_testing_picture(t, pool);
	cr_assert_eq(kvmm_testing_paint(t, pool, "aa.I.A..", &paint), 0);
	cr_expect_eq(kvmm_testing_expect_picture(t, pool, before), -EBADMSG);
	cr_expect_str_eq(kvmm_testing_why(t), "the pool is \"aa.I.A..\", not \"........\" (block 0)");
	cr_expect_eq(kvmm_testing_expect_picture(t, pool, kvmm_testing_picture(t, pool)), 0);
}

Test(expect, prefix)
{
	kvmm_key_t keys[4];

	kvmm_testing_keys(0, 4, keys);
	cr_assert_eq(kvmm_testing_cache(t, pool, 0, 3), 0);
	cr_expect_eq(kvmm_testing_expect_prefix(t, pool, keys, 4, 3), 0);
	expect_failure(kvmm_testing_expect_prefix(t, pool, keys, 4, 4),
		       "3 of 4 keys are cached, not 4");
}

Test(expect, victims)
{
	static const uint32_t order[] = { 1, 0 }, wrong[] = { 0, 1 };

	cr_assert_eq(kvmm_testing_cache(t, pool, 0, 2), 0);
	cr_expect_eq(kvmm_testing_expect_victims(t, pool, order, 2), 0);
	cr_assert_eq(kvmm_testing_cache(t, pool, 0, 2), 0);
	expect_failure(kvmm_testing_expect_victims(t, pool, wrong, 2),
		       "2 keys were evicted, in this order: 1 0");
	cr_assert_eq(kvmm_testing_cache(t, pool, 0, 2), 0);
	expect_failure(kvmm_testing_expect_victims(t, pool, order, 1),
		       "2 keys were evicted, in this order: 1 0");
	cr_expect_eq(kvmm_testing_expect_picture(t, pool, "........"), 0);
}

Test(expect, unheld)
{
	cr_assert_eq(kvmm_testing_paint(t, pool, "..I.bA.P", &paint), 0);
	expect_failure(kvmm_testing_expect_unheld(t, pool), "3 blocks were not returned, first block "
		       "4: in a range, 1 references, sequence 98");
	kvmm_range_free(pool, paint.range[1]);
	expect_failure(kvmm_testing_expect_unheld(t, pool), "2 blocks were not returned, first block "
		       "5: referenced, 1 references, sequence 0");
	kvmm_put_many(pool, &paint.ref[5], 1);
	kvmm_free(pool, &paint.mut[7], 1);
	cr_expect_eq(kvmm_testing_expect_unheld(t, pool), 0, "cached blocks are nobody's");
}

Test(expect, duplicates_that_were_put_hold_nothing)
{
	kvmm_key_t keys[2] = { kvmm_testing_key(3), kvmm_testing_key(3) };
	struct kvmm_prefix prefix = { .keys = keys, .nr = 2 };
	kvmm_staged_t staged[2];
	kvmm_mut_t mut[2];
	kvmm_ref_t ref[2];
	struct kvmm_publish_args req = { staged, 2, KVMM_DUP_HOLD, ref, 0 };

	cr_assert_eq(kvmm_alloc(pool, 2, mut), 0);
	cr_assert_eq(kvmm_stage(pool, &prefix, mut, staged), 0);
	cr_assert_eq(kvmm_publish(pool, &req), 0);
	cr_assert_eq(kvmm_put_many(pool, &ref[0], 1), 0);
	cr_expect_eq(kvmm_testing_expect_unheld(t, pool), -EBADMSG);
	cr_assert_eq(kvmm_put_many(pool, &ref[1], 1), 0);
	cr_expect_eq(kvmm_testing_expect_unheld(t, pool), 0);
}

Test(expect, holds_are_named)
{
	kvmm_key_t key = kvmm_testing_key(0);
	struct kvmm_prefix prefix = { .keys = &key, .nr = 1 };
	struct kvmm_lease_attr attr = KVMM_LEASE_ATTR_INIT;
	kvmm_lease_t hold;

	cr_assert_eq(kvmm_testing_cache(t, pool, 0, 1), 0);
	attr.prefix = &prefix;
	attr.owner = 7;
	attr.reason = KVMM_LEASE_RDMA;
	attr.text = "decode-3";
	attr.lease_ns = 100;
	attr.flags = KVMM_LEASE_RECLAIM;
	cr_assert_eq(kvmm_lease_take(pool, &attr, &hold), 1);
	cr_expect_eq(kvmm_testing_expect_unheld(t, pool), -EBADMSG);
	cr_expect_str_eq(kvmm_testing_why(t),
			 "1 holds were not released, first one of owner 7: rdma, decode-3");
	kvmm_testing_advance(t, 100);
	cr_expect_eq(kvmm_lease_expire(pool, 0, NULL), 1, "a lease on the bench's time");
	cr_expect_eq(kvmm_testing_expect_unheld(t, pool), 0);
}

Test(expect, valid)
{
	cr_expect_eq(kvmm_testing_validate(t, pool), 0);
	cr_expect_eq(kvmm_testing_validate(t, NULL), -EBADMSG);
}
