// SPDX-License-Identifier: Apache-2.0
/* Host memory that runs out at the front door: a call is refused and has changed nothing. */
#include "tests/pool/door_util.h"
#include "tests/pool/life_util.h"

TestSuite(door_fault, .init = door_set_up, .fini = door_tear_down);

typedef int call_fn(struct kvmm_pool *pool);

static kvmm_promise_t promise;
static kvmm_ticket_t ticket;
static kvmm_mut_t mut[8];
static kvmm_range_t range;

static int make_promise(struct kvmm_pool *pool)
{
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = 2 };

	return kvmm_promise_make(pool, &ctl, &promise);
}

static int submit(struct kvmm_pool *pool)
{
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = 8,
				      .deadline_ns = fake.now_ns + 1000 };
	int err = kvmm_alloc_submit(pool, &ctl, mut, &ticket);

	return err == -EINPROGRESS ? 0 : err;
}

static int wait_for_range(struct kvmm_pool *pool)
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 2,
					.deadline_ns = fake.now_ns + 1000 };

	return kvmm_range_alloc_attr(pool, &attr, &range);
}

/* How many allocations of host memory it needs. */
static u32 fail_each(struct kvmm_pool *pool, call_fn *call)
{
	static struct life before;

	life_take(pool, &before);
	for (u32 n = 1;; n++) {
		int err;

		fake_env_fail(&fake, n, false);
		err = call(pool);
		if (!fake_env_failed(&fake)) {
			fake_env_fail(&fake, 0, false);
			cr_assert_eq(err, 0);
			return n - 1;
		}
		fake_env_fail(&fake, 0, false);
		cr_assert_eq(err, -ENOMEM, "allocation %u: %d", n, err);
		life_expect_same(pool, &before, __LINE__);
		cr_expect_eq(door_stat(pool).nr_waiting, 0);
		cr_expect_eq(door_stat(pool).nr_promised, 0);
	}
}

POOL_TEST(door_fault, a_promise_is_made_as_a_whole, make_door(8, NULL))
{
	cr_expect_eq(fail_each(pool, make_promise), 1);
	cr_expect_eq(kvmm_promise_end(pool, promise), 2);
}

POOL_TEST(door_fault, a_ticket_is_queued_as_a_whole, make_door(8, NULL))
{
	kvmm_mut_t held[4];

	cr_assert_eq(kvmm_alloc(pool, 4, held), 0);
	cr_expect_eq(fail_each(pool, submit), 1);
	cr_expect_eq(kv_alloc_withdraw(pool, ticket), 0);
	cr_expect_eq(kvmm_free(pool, held, 4), 0);
}

/* Who runs out of host memory in the end does not go on waiting. */
POOL_TEST(door_fault, a_range_with_a_deadline_fails_at_once_for_want_of_memory, make_door(8, NULL))
{
	cr_expect_geq(fail_each(pool, wait_for_range), 2);
	cr_expect_eq(fake.now_ns, 1000);
	cr_expect_eq(kvmm_range_free(pool, range), 0);
}
