// SPDX-License-Identifier: Apache-2.0
/* Who is charged for what a gang has reserved: who gets it, and nobody else. */
#include "tests/pool/gang_util.h"
#include "tests/pool/quota_util.h"

static struct kvmm_pool *pool;

static void make_one(const char *policy)
{
	make_pools(&pool, 1, 16, policy);
}

static struct kvmm_gang *reserve_one(struct kvmm_gang_want want, u32 tenant)
{
	struct kvmm_gang *gang;

	want.tenant = tenant;
	cr_assert_eq(reserve(&pool, &want, 1, &gang), 0);
	cr_assert_eq(kvmm_validate(pool), 0);
	return gang;
}

static void end_one(void)
{
	end_pools(&pool, 1);
}

TestSuite(gang_charge, .fini = end_one);

Test(gang_charge, a_reservation_is_charged_to_who_gets_it_and_not_to_who_lost_it)
{
	kvmm_mut_t mut[8];
	struct kvmm_gang *gang;

	make_one("lru");
	limit(pool, 1, 0, 0, NO_LIMIT, NO_LIMIT);
	limit(pool, 3, 0, 0, NO_LIMIT, 8);
	cache(pool, "abcdefghijkl");
	gang = reserve_one(want_blocks(0, 6), 3);
	cr_expect_eq(usage(pool, 3), 6);
	cr_expect_eq(usage(pool, 1), 10);
	cr_expect_eq(kvmm_alloc_for(pool, 3, 3, mut), -EDQUOT);
	cr_assert_eq(kvmm_gang_commit(gang, mut, NULL), 0);
	cr_expect_eq(usage(pool, 3), 6);
	cr_expect_eq(tenant_stat(pool, 3).peak, 6);
}

Test(gang_charge, who_lost_blocks_may_have_others_meanwhile)
{
	kvmm_mut_t mut[4];
	struct kvmm_gang *gang;

	make_one("lru");
	limit(pool, 1, 0, 0, NO_LIMIT, 8);
	limit(pool, 2, 0, 0, NO_LIMIT, NO_LIMIT);
	cache(pool, "abcdefghABCDEFGH");
	gang = reserve_one(want_blocks(0, 8), 3);
	cr_expect_eq(kvmm_alloc_for(pool, 4, 1, mut), 0);
	cr_expect_eq(usage(pool, 1), 4);
	cr_assert_eq(kvmm_gang_abort(gang), 0);
	cr_expect_eq(usage(pool, 1), 12);
	cr_expect_eq(tenant_stat(pool, 1).peak, 12);
}

/* A range of its own blocks is no more than it had. */
Test(gang_charge, a_tenant_that_lends_to_itself_pays_once)
{
	kvmm_mut_t mut[4];
	struct kvmm_gang *gang;

	make_one("lru");
	limit(pool, 1, 0, 0, NO_LIMIT, 8);
	cache(pool, "abcdefgh");
	gang = reserve_one(want_range(0, 4, 4, 0), 1);
	cr_expect_eq(usage(pool, 1), 8);
	cr_expect_eq(kvmm_alloc_for(pool, 4, 1, mut), 0);
	cr_assert_eq(kvmm_gang_abort(gang), 0);
}

Test(gang_charge, whose_blocks_may_come_back_has_an_account_until_then)
{
	struct kvmm_gang *gang;

	make_one("lru");
	limit(pool, 1, 0, 0, NO_LIMIT, NO_LIMIT);
	cache(pool, "abcdefghijklmnop");
	gang = reserve_one(want_blocks(0, 16), 3);
	cr_expect_eq(usage(pool, 1), 0);
	cr_expect_eq(kvmm_tenant_del(pool, 1), -EBUSY);
	cr_assert_eq(kvmm_gang_abort(gang), 0);
	cr_expect_eq(usage(pool, 1), 16);
}

Test(gang_charge, limits_may_be_set_while_gangs_are_reserved)
{
	struct kvmm_gang_want wants[] = { want_blocks(0, 6), want_range(0, 4, 4, 0) };
	kvmm_range_t range;
	kvmm_mut_t mut[6];
	struct kvmm_gang *gang;

	for (u32 commit = 0; commit < 2; commit++) {
		make_one("lru");
		cache(pool, "abcdefghijklmn");
		cr_assert_eq(reserve(&pool, wants, 2, &gang), 0);
		limit(pool, 3, 0, 0, NO_LIMIT, 8);
		cr_expect_eq(usage(pool, KVMM_TENANT_REST), 16);
		cr_assert_eq(kvmm_validate(pool), 0);
		if (!commit)
			cr_assert_eq(kvmm_gang_abort(gang), 0);
		else
			cr_assert_eq(kvmm_gang_commit(gang, mut, &range), 0);
		cr_expect_eq(usage(pool, KVMM_TENANT_REST), commit ? 16 : 14);
		end_one();
	}
}

/* Free blocks that the policy has are the gang's, too. */
Test(gang_charge, what_a_gang_has_claimed_is_not_free)
{
	kvmm_mut_t mut[16];
	struct kvmm_gang *gang;

	make_one("lru-classic");
	cr_assert_eq(kvmm_alloc(pool, 16, mut), 0);
	cr_assert_eq(kvmm_free(pool, mut, 16), 0);
	for (u32 i = 0; i < 2; i++) {
		gang = reserve_one(i ? want_blocks(0, 6) : want_range(0, 6, 6, 0), 0);
		cr_expect_eq(stat_of(pool).nr_available, 10);
		cr_expect_eq(stat_of(pool).nr_free, 10);
		cr_expect_eq(stat_of(pool).nr_state[KVMM_BLOCK_FREE], 10);
		cr_expect_eq(kvmm_reset_cache(pool), -EBUSY);
		cr_assert_eq(kvmm_gang_abort(gang), 0);
		cr_expect_eq(stat_of(pool).nr_free, 16);
	}
}
