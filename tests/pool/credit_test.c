// SPDX-License-Identifier: Apache-2.0
/* Tenants with limits, the ranges of which are an arena's: what they are charged with, and refused. */
#include "tests/pool/arena.h"

TestSuite(credit, .init = set_up, .fini = tear_down);

#define TENANT	7u

static void limit_tenant(struct kvmm_pool *pool, u32 max)
{
	struct kvmm_tenant_attr attr = KVMM_TENANT_ATTR_INIT;

	attr.max = max;
	cr_assert_eq(kvmm_tenant_set(pool, TENANT, &attr), 0);
}

static struct kvmm_tenant_stat tenant_stat(struct kvmm_pool *pool, u32 tenant)
{
	struct kvmm_tenant_stat stat = { .size = sizeof(stat) };

	cr_assert_eq(kvmm_tenant_get_stat(pool, tenant, &stat), 0);
	cr_expect_geq(stat.peak, stat.usage);
	return stat;
}

static u32 usage_of(struct kvmm_pool *pool, u32 tenant)
{
	return tenant_stat(pool, tenant).usage;
}

static u32 peak_of(struct kvmm_pool *pool, u32 tenant)
{
	return tenant_stat(pool, tenant).peak;
}

static kvmm_range_t take_for(u32 number, struct kvmm_pool *pool, u32 nr)
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = nr, .tenant = TENANT };
	kvmm_range_t range;

	cpu = number;
	cr_assert_eq(kvmm_range_alloc_attr(pool, &attr, &range), 0);
	return range;
}

static int try_for(u32 number, struct kvmm_pool *pool, u32 nr)
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = nr, .tenant = TENANT };
	kvmm_range_t range;

	cpu = number;
	return kvmm_range_alloc_attr(pool, &attr, &range);
}

/* Where a limit is near, which the arenas are not to make nearer, the pool says yes or no. */
static struct kvmm_pool *pool_of_tenants(void)
{
	struct kvmm_pool *pool = make_pool(1u << 14);

	limit_tenant(pool, 2000);
	cr_assert_eq(kv_pool_force_arenas(pool, 2), 0);
	return pool;
}

POOL_TEST(credit, ranges_of_tenants_with_limits_are_an_arenas, pool_of_tenants())
{
	kvmm_range_t range[2] = { take_for(0, pool, 8), take_for(1, pool, 9) };

	for (u32 i = 0; i < 2; i++)
		cr_expect_eq(arena_with(pool, range[i]), i + 1);
	cr_expect_eq(usage_of(pool, TENANT), 17);
	cr_expect_eq(usage_of(pool, KVMM_TENANT_REST), 0);
	cr_expect_eq(kvmm_range_free(pool, range[0]), 0);
	cr_expect_eq(usage_of(pool, TENANT), 9);
	cr_expect_eq(kvmm_range_free(pool, range[1]), 0);
	cr_expect_eq(usage_of(pool, TENANT), 0);
}

POOL_TEST(credit, the_most_that_a_tenant_had_is_remembered_when_all_is_free_again, pool_of_tenants())
{
	kvmm_range_t range[2] = { take_for(0, pool, 60), take_for(0, pool, 40) };

	cr_expect_eq(kvmm_range_free(pool, range[0]), 0);
	cr_expect_eq(kvmm_range_free(pool, range[1]), 0);
	cr_expect_eq(usage_of(pool, TENANT), 0);
	cr_expect_eq(peak_of(pool, TENANT), 100);
	range[0] = take_for(0, pool, 50);
	cr_expect_eq(kvmm_range_free(pool, range[0]), 0);
	cr_expect_eq(peak_of(pool, TENANT), 100);
}

/* A range of more than 64 blocks is the pool's, and goes before the credit does. */
POOL_TEST(credit, the_most_that_a_tenant_had_has_the_ranges_of_the_pool_in_it, pool_of_tenants())
{
	kvmm_range_t large = take_for(0, pool, 300), small = take_for(0, pool, 60);

	cr_expect_eq(arena_with(pool, large), 0);
	cr_expect_eq(arena_with(pool, small), 1);
	cr_expect_eq(kvmm_range_free(pool, large), 0);
	cr_expect_eq(kvmm_range_free(pool, small), 0);
	cr_expect_eq(usage_of(pool, TENANT), 0);
	cr_expect_geq(peak_of(pool, TENANT), 360);
	cr_expect_leq(peak_of(pool, TENANT), 2000);
}

POOL_TEST(credit, ranges_of_tenants_come_and_go_without_the_pools_lock, pool_of_tenants())
{
	u32 id = find_account(pool->order.quotas, TENANT);
	const struct account *account = pool->order.quotas->account[id];
	kvmm_range_t range = take_for(0, pool, 8);
	u32 charged = account->usage;

	cr_assert_gt(charged, 8);
	for (u32 i = 0; i < 1000; i++) {
		cr_assert(arena_free(pool, range));
		range = take_for(0, pool, 1 + i % 32);
		cr_assert_eq(arena_with(pool, range), 1);
	}
	cr_expect_eq(account->usage, charged);
	cr_expect_eq(usage_of(pool, TENANT), 1 + 999 % 32);
}

POOL_TEST(credit, limits_hold_to_the_block, pool_of_tenants())
{
	for (u32 i = 0; i < 1999; i++)
		take_for(i % 2, pool, 1);
	cr_expect_eq(try_for(0, pool, 2), -EDQUOT);
	cr_expect_eq(try_for(1, pool, 1), 0);
	cr_expect_eq(try_for(0, pool, 1), -EDQUOT);
	cr_expect_eq(usage_of(pool, TENANT), 2000);
}

POOL_TEST(credit, an_arena_that_gets_none_gets_no_blocks_either, pool_of_tenants())
{
	u32 nr_lent;

	for (u32 i = 0; i < 1600; i++)
		take_for(0, pool, 1);
	nr_lent = pool->arenas->nr_lent;
	cr_expect_eq(arena_with(pool, take_for(1, pool, 1)), 0);
	cr_expect_eq(pool->arenas->nr_lent, nr_lent);
	cr_expect_eq(pool->arenas->arena[1].nr_free, 0);
}

/* Both arenas have credit when the rest is asked for in one piece. */
POOL_TEST(credit, nobody_is_refused_for_credit_that_an_arena_has, pool_of_tenants())
{
	take_for(0, pool, 1);
	take_for(1, pool, 1);
	cr_assert_gt(pool->arenas->nr_credits, 1);
	cr_expect_eq(try_for(0, pool, 1999), -EDQUOT);
	take_for(0, pool, 1);
	take_for(1, pool, 1);
	cr_expect_eq(try_for(1, pool, 1996), 0);
	cr_expect_eq(usage_of(pool, TENANT), 2000);
}

/* What it took as one of the rest stays charged there. */
POOL_TEST(credit, an_account_that_comes_later_pays_for_what_comes_later, pool_of_tenants())
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 5, .tenant = TENANT + 1 };
	struct kvmm_tenant_attr limit = KVMM_TENANT_ATTR_INIT;
	kvmm_range_t before, after;

	cr_assert_eq(kvmm_range_alloc_attr(pool, &attr, &before), 0);
	cr_expect_eq(arena_with(pool, before), 1);
	cr_assert_eq(kvmm_tenant_set(pool, TENANT + 1, &limit), 0);
	cr_assert_eq(kvmm_range_alloc_attr(pool, &attr, &after), 0);
	cr_expect_eq(usage_of(pool, KVMM_TENANT_REST), 5);
	cr_expect_eq(usage_of(pool, TENANT + 1), 5);
	cr_expect_eq(kvmm_range_free(pool, before), 0);
	cr_expect_eq(usage_of(pool, KVMM_TENANT_REST), 0);
	cr_expect_eq(kvmm_tenant_del(pool, TENANT + 1), -EBUSY);
	cr_expect_eq(kvmm_range_free(pool, after), 0);
	cr_expect_eq(kvmm_tenant_del(pool, TENANT + 1), 0);
}

/* Each has the place of the one before. */
POOL_TEST(credit, more_tenants_than_an_arena_has_credits_for_are_served, pool_of_tenants())
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 3 };
	kvmm_range_t range[3];

	for (u32 i = 0; i < 3; i++) {
		attr.tenant = TENANT + i * ARENA_CREDITS;
		cr_assert_eq(kvmm_range_alloc_attr(pool, &attr, &range[i]), 0);
		cr_expect_eq(arena_with(pool, range[i]), 1);
	}
	for (u32 i = 0; i < 3; i++)
		cr_expect_eq(kvmm_range_free(pool, range[i]), 0);
	cr_expect_eq(usage_of(pool, TENANT), 0);
	cr_expect_eq(usage_of(pool, KVMM_TENANT_REST), 0);
}

/* With its credit the tenant would have more than is protected. */
POOL_TEST(credit, credit_takes_no_protection_away, make_cache(1u << 13, "lru"))
{
	struct kvmm_tenant_attr limit = KVMM_TENANT_ATTR_INIT;

	limit.min = 100;
	cr_assert_eq(kvmm_tenant_set(pool, 0, &limit), 0);
	cr_assert_eq(kv_pool_force_arenas(pool, 2), 0);
	cache_keys(pool, 0, 40);
	cr_assert_eq(arena_with(pool, take_on(0, pool, 60)), 1);
	cr_assert_gt(pool->arenas->nr_credits, 0);
	cr_expect_eq(try_for(1, pool, (1u << 13) - 99), -ENOSPC);
	cr_expect_eq(usage_of(pool, 0), 100);
	cr_expect_eq(try_for(1, pool, (1u << 13) - 100), 0);
}
