// SPDX-License-Identifier: Apache-2.0
/* Giving memory back while host memory runs out: a call does all of it, or nothing. */
#include "tests/pool/util.h"
#include "tests/support/fault.h"

TestSuite(shrink_fault, .init = fault_begin, .fini = fault_end);

#define PB	4u
#define PICTURE	"a...b...c...d..."

static struct kvmm_pool *scattered(kvmm_range_t *range)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 16 };
	struct kvmm_pool *pool = make_pool_of(&attr);

	paint(pool, PICTURE, range);
	for (u32 i = 0; i < 4; i++)
		cr_assert_eq(kvmm_range_seal(pool, range[i], 1), 0);
	return pool;
}

static const struct kvmm_elastic_attr small = { .size = sizeof(small), .pageblock_blocks = PB };

static int set_up_pool(struct kvmm_pool *pool)
{
	return kvmm_pool_elastic_setup(pool, &small);
}

static int shrink(struct kvmm_pool *pool)
{
	struct kvmm_shrink req = { .size = sizeof(req), .nr_blocks = 2 * PB };

	return kvmm_pool_shrink(pool, &req);
}

/* What is had later is retried by polls. */
static int start(struct kvmm_pool *pool)
{
	struct kvmm_shrink req = { .size = sizeof(req), .nr_blocks = 2 * PB };
	int ret = kvmm_pool_shrink_start(pool, &req, KVMM_MOVE_BESIDE);

	if (ret)
		return ret;
	fake_env_fail(&fake, 0, false);
	for (u32 i = 0; i < 16 && (ret = kvmm_pool_shrink_poll(pool, NULL)) == 1; i++)
		;
	return ret;
}

/* @call, with the n-th allocation failing, until none does. @first: it is set up before. */
static void fail_each(int (*call)(struct kvmm_pool *pool), bool first, u32 nr_away)
{
	bool failed = true;

	for (u32 nth = 1; failed; nth++) {
		kvmm_range_t range[26];
		struct kvmm_pool *pool __cleanup(end_pool) = scattered(range);
		int err;

		if (first)
			cr_assert_eq(set_up_pool(pool), 0);
		err = fault_at(nth, call(pool), &failed);
		cr_expect(!err || err == -ENOMEM, "%u: %d", nth, err);
		if (err)
			cr_expect_str_eq(picture(pool), PICTURE);
		else
			cr_expect_eq(stat_of(pool).nr_away, nr_away);
		cr_assert_lt(nth, 100);
	}
}

TEST_CALL(shrink_fault, a_pool_is_set_up_or_it_is_not, fail_each(set_up_pool, false, 0))
TEST_CALL(shrink_fault, memory_goes_or_it_stays, fail_each(shrink, true, 2 * PB))
TEST_CALL(shrink_fault, a_shrink_beside_steps_begins_or_it_does_not, fail_each(start, true, 2 * PB))
