// SPDX-License-Identifier: Apache-2.0
/* Who is charged for what a gang has reserved: who gets it, and nobody else. */
#include "tests/pool/gang_util.h"
#include "tests/pool/quota_util.h"

static struct kvmm_pool *pool;

static struct kvmm_gangs *make_one(const char *policy)
{
	return make_gangs(&pool, 1, 16, policy);
}

static kvmm_gang_t reserve_one(struct kvmm_gangs *gangs, struct kvmm_gang_want want, u32 tenant)
{
	kvmm_gang_t gang = { 0, 0 };

	want.tenant = tenant;
	cr_assert_eq(reserve(gangs, &want, 1, &gang), 0);
	cr_assert_eq(kvmm_validate(pool), 0);
	return gang;
}

static void end_one(struct kvmm_gangs *gangs)
{
	cr_assert_eq(kvmm_validate(pool), 0);
	end_gangs(gangs, &pool, 1);
}

Test(gang_charge, a_reservation_is_charged_to_who_gets_it_and_not_to_who_lost_it)
{
	struct kvmm_gangs *gangs = make_one("lru");
	kvmm_mut_t mut[8];
	kvmm_gang_t gang;

	limit(pool, 1, 0, 0, NO_LIMIT, NO_LIMIT);
	limit(pool, 3, 0, 0, NO_LIMIT, 8);
	cache(pool, "abcdefghijkl");
	gang = reserve_one(gangs, want_blocks(0, 6), 3);
	cr_expect_eq(usage(pool, 3), 6);
	cr_expect_eq(usage(pool, 1), 10);
	cr_expect_eq(kvmm_alloc_for(pool, 3, 3, mut), -EDQUOT);
	cr_assert_eq(kvmm_gang_commit(gangs, gang, mut, NULL), 0);
	cr_expect_eq(usage(pool, 3), 6);
	cr_expect_eq(tenant_stat(pool, 3).peak, 6);
	end_one(gangs);
}

Test(gang_charge, who_lost_blocks_may_have_others_meanwhile)
{
	struct kvmm_gangs *gangs = make_one("lru");
	kvmm_mut_t mut[4];
	kvmm_gang_t gang;

	limit(pool, 1, 0, 0, NO_LIMIT, 8);
	limit(pool, 2, 0, 0, NO_LIMIT, NO_LIMIT);
	cache(pool, "abcdefghABCDEFGH");
	gang = reserve_one(gangs, want_blocks(0, 8), 3);
	cr_expect_eq(kvmm_alloc_for(pool, 4, 1, mut), 0);
	cr_expect_eq(usage(pool, 1), 4);
	cr_assert_eq(kvmm_gang_abort(gangs, gang), 0);
	cr_expect_eq(usage(pool, 1), 12);
	cr_expect_eq(tenant_stat(pool, 1).peak, 12);
	end_one(gangs);
}

/* A range of its own blocks is no more than it had. */
Test(gang_charge, a_tenant_that_lends_to_itself_pays_once)
{
	struct kvmm_gangs *gangs = make_one("lru");
	kvmm_mut_t mut[4];
	kvmm_gang_t gang;

	limit(pool, 1, 0, 0, NO_LIMIT, 8);
	cache(pool, "abcdefgh");
	gang = reserve_one(gangs, want_range(0, 4, 4, 0), 1);
	cr_expect_eq(usage(pool, 1), 8);
	cr_expect_eq(kvmm_alloc_for(pool, 4, 1, mut), 0);
	cr_assert_eq(kvmm_gang_abort(gangs, gang), 0);
	end_one(gangs);
}

Test(gang_charge, whose_blocks_may_come_back_has_an_account_until_then)
{
	struct kvmm_gangs *gangs = make_one("lru");
	kvmm_gang_t gang;

	limit(pool, 1, 0, 0, NO_LIMIT, NO_LIMIT);
	cache(pool, "abcdefghijklmnop");
	gang = reserve_one(gangs, want_blocks(0, 16), 3);
	cr_expect_eq(usage(pool, 1), 0);
	cr_expect_eq(kvmm_tenant_del(pool, 1), -EBUSY);
	cr_assert_eq(kvmm_gang_abort(gangs, gang), 0);
	cr_expect_eq(usage(pool, 1), 16);
	end_one(gangs);
}

Test(gang_charge, limits_may_be_set_while_gangs_are_reserved)
{
	struct kvmm_gangs *gangs = make_one("lru");
	struct kvmm_gang_want wants[] = { want_blocks(0, 6), want_range(0, 4, 4, 0) };
	kvmm_range_t range;
	kvmm_mut_t mut[6];
	kvmm_gang_t gang;

	for (u32 commit = 0; commit < 2; commit++) {
		cache(pool, "abcdefghijklmn");
		cr_assert_eq(reserve(gangs, wants, 2, &gang), 0);
		limit(pool, 3, 0, 0, NO_LIMIT, 8);
		cr_expect_eq(usage(pool, KVMM_TENANT_REST), 16);
		cr_assert_eq(kvmm_validate(pool), 0);
		if (!commit)
			cr_assert_eq(kvmm_gang_abort(gangs, gang), 0);
		else
			cr_assert_eq(kvmm_gang_commit(gangs, gang, mut, &range), 0);
		cr_expect_eq(usage(pool, KVMM_TENANT_REST), commit ? 16 : 14);
		end_one(gangs);
		gangs = make_one("lru");
	}
	end_one(gangs);
}

/* Free blocks that the policy has are the gang's, too. */
Test(gang_charge, what_a_gang_has_claimed_is_not_free)
{
	struct kvmm_gangs *gangs = make_one("lru-classic");
	kvmm_mut_t mut[16];
	kvmm_gang_t gang;

	cr_assert_eq(kvmm_alloc(pool, 16, mut), 0);
	cr_assert_eq(kvmm_free(pool, mut, 16), 0);
	for (u32 i = 0; i < 2; i++) {
		gang = reserve_one(gangs, i ? want_blocks(0, 6) : want_range(0, 6, 6, 0), 0);
		cr_expect_eq(stat_of(pool).nr_available, 10);
		cr_expect_eq(stat_of(pool).nr_free, 10);
		cr_expect_eq(stat_of(pool).nr_state[KVMM_BLOCK_FREE], 10);
		cr_expect_eq(kvmm_reset_cache(pool), -EBUSY);
		cr_assert_eq(kvmm_gang_abort(gangs, gang), 0);
		cr_expect_eq(stat_of(pool).nr_free, 16);
	}
	end_one(gangs);
}
