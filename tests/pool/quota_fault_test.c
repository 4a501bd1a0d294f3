// SPDX-License-Identifier: Apache-2.0
/*
 * Limits when host memory runs out at the n-th allocation: all of a call or nothing; and a bit that
 * flips in what is known of tenants must be noticed.
 */
#include "pool/internal.h"
#include "tests/pool/quota_util.h"
#include "tests/support/fault.h"
#include "tests/support/flip.h"

static struct kvmm_pool *pool;

static void set_up(void)
{
	fault_begin();
	pool = make_cache(16, "multilru:3,8,15");
}

static void tear_down(void)
{
	end_pool(pool);
	fault_end();
}

TestSuite(quota_fault, .init = set_up, .fini = tear_down);

/* ---- memory ---- */

static int set_three(void)
{
	struct kvmm_tenant_attr attr[3] = { KVMM_TENANT_ATTR_INIT, KVMM_TENANT_ATTR_INIT,
					    KVMM_TENANT_ATTR_INIT };
	u32 tenant[3] = { 1, 2, 3 };

	attr[0].max = attr[1].max = attr[2].max = 2;
	return kvmm_tenant_set_many(pool, tenant, attr, 3);
}

static void expect_all_or_nothing(u32 nr_at_least)
{
	u64 live, bytes = stat_of(pool).metadata_bytes;
	struct kvmm_tenant_stat stat = { .size = sizeof(stat) };
	u32 nr = 0;

	for (;; nr++) {
		int err;

		live = fake.nr_live;
		fake_env_fail(&fake, nr + 1, false);
		err = set_three();
		if (!fake_env_failed(&fake))
			break;
		cr_assert_eq(err, -ENOMEM, "allocation %u: %d", nr, err);
		cr_assert_eq(fake.nr_live, live, "allocation %u", nr);
		cr_assert_eq(stat_of(pool).metadata_bytes, bytes);
		cr_assert_eq(kvmm_tenant_get_stat(pool, 1, &stat), -ENOENT);
		cr_assert_str_eq(cached(pool), "Aabc");
		cr_assert_eq(kvmm_validate(pool), 0);
	}
	fake_env_fail(&fake, 0, false);
	cr_expect_geq(nr, nr_at_least);
	cr_expect_eq(tenant_stat(pool, 3).max, 2);
}

Test(quota_fault, first_limits_are_set_as_a_whole_or_not_at_all)
{
	cache(pool, "Aabc");
	expect_all_or_nothing(9);
	cr_expect_eq(usage(pool, KVMM_TENANT_REST), 4);
}

Test(quota_fault, further_limits_are_set_as_a_whole_or_not_at_all)
{
	limit(pool, 7, 0, 0, NO_LIMIT, NO_LIMIT);
	cache(pool, "Aabc");
	expect_all_or_nothing(6);
}

Test(quota_fault, allocations_below_limits_want_no_memory)
{
	kvmm_range_t range;

	cr_assert_eq(set_three(), 0);
	range = take(pool, 1, 0);	/* the table of ranges */
	fake_env_fail(&fake, 1, false);
	cache(pool, "abcdABC");
	limit(pool, 1, 1, 1, 1, 1);
	cr_expect_eq(squeeze(pool, 2, 1), 1);
	cr_expect_not(fake_env_failed(&fake));
	fake_env_fail(&fake, 0, false);
	cr_expect_str_eq(cached(pool), "Cd");
	cr_assert_eq(kvmm_range_free(pool, range), 0);
}

/* ---- bits ---- */

static int validate_open(void)
{
	int err = kvmm_validate(pool);

	pool->gate = 0;
	return err;
}

#define FLIP_CHECK	validate_open()

Test(quota_fault, flipped_bits_of_accounts_are_noticed)
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 2, .tenant = 2 };
	struct account *account;
	struct quotas *quotas;
	kvmm_range_t range;
	kvmm_ref_t ref;

	cr_assert_eq(set_three(), 0);
	limit(pool, 1, 1, 2, 9, 9);
	limit(pool, 2, 1, 2, 9, 9);
	cache(pool, "abcAB");
	ref = hold(pool, 'd');
	cr_assert_eq(kvmm_range_alloc_attr(pool, &attr, &range), 0);
	quotas = pool->order.quotas;
	account = quotas->account[find_account(quotas, 1)];
	flip(account, tenant);
	flip(account, usage);
	flip(account, limit.min);
	flip(account, limit.low);
	flip(account, limit.high);
	flip(account, limit.max);
	flip(account, nr_picked);
	flip(account, nr_hits);
	flip(quotas, limits);
	flip(quotas, nr);
	flip(pool, order.asking);
	flip(pool, order.mode);
	for (u32 i = 0; i < 16; i++)
		flip(quotas, of[i]);
	for (u32 i = 0; i < quotas->nr; i++)
		flip(quotas, live[i]);
	for (u32 i = 0; i < 8; i++)
		flip(quotas, slot[i]);
	flip(slot_at(pool, range.index), account);
	drop(pool, ref);
	cr_assert_eq(kvmm_range_free(pool, range), 0);
}
