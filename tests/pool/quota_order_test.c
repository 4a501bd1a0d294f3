// SPDX-License-Identifier: Apache-2.0
/* Limits of tenants beside what else decides who is evicted: classes, chains, runs, groups. */
#include "tests/pool/quota_util.h"

/* Each of class @cls. */
static void cache_in(struct kvmm_pool *pool, const char *letters, u32 cls)
{
	for (; *letters; letters++) {
		kvmm_ref_t ref = hold(pool, *letters);

		cr_assert_eq(kvmm_class_set(pool, &ref, 1, cls), 0);
		drop(pool, ref);
	}
}

/* ---- classes ---- */

POOL_TEST(quota_order, the_lowest_class_of_equals_goes_first, make_classed(8, "lru", NULL, 0))
{
	limit(pool, 1, 0, 0, NO_LIMIT, NO_LIMIT);
	limit(pool, 2, 0, 0, NO_LIMIT, NO_LIMIT);
	cache_in(pool, "aA", HIGH);
	cache_in(pool, "bB", MID);
	cache_in(pool, "Cc", LOW);
	cr_expect_str_eq(lost_for(pool, 3, 8), "CcbBaA");
}

POOL_TEST(quota_order, who_is_over_high_loses_of_any_class_before_others_do,
	  make_classed(8, "lru", NULL, 0))
{
	kvmm_ref_t ref[2];

	limit(pool, 1, 0, 0, 2, NO_LIMIT);
	limit(pool, 2, 0, 0, NO_LIMIT, NO_LIMIT);
	cache_in(pool, "ABC", LOW);
	cache_in(pool, "ab", HIGH);
	ref[0] = hold(pool, 'c');
	cr_expect_str_eq(cached(pool), "ABCbc");
	ref[1] = hold(pool, 'd');
	cr_expect_str_eq(cached(pool), "ABCcd");
	drop(pool, ref[0]);
	drop(pool, ref[1]);
	limit(pool, 1, 0, 0, 0, NO_LIMIT);
	cr_expect_str_eq(cached(pool), "ABC");
}

POOL_TEST(quota_order, inside_a_tenant_the_lowest_class_is_reclaimed_first,
	  make_classed(16, "lru", NULL, 0))
{
	limit(pool, 1, 0, 0, NO_LIMIT, NO_LIMIT);
	cache_in(pool, "ab", HIGH);
	cache_in(pool, "A", LOW);
	cache_in(pool, "c", LOW);
	cache_in(pool, "d", MID);
	cr_expect_eq(squeeze(pool, 1, 2), 2);
	cr_expect_str_eq(cached(pool), "Aab");
}

POOL_TEST(quota_order, low_rules_classes, make_classed(6, "lru", NULL, 0))
{
	limit(pool, 1, 0, 3, NO_LIMIT, NO_LIMIT);
	cache_in(pool, "abc", LOW);
	cache_in(pool, "ABC", HIGH);
	cr_expect_str_eq(lost_for(pool, 2, 4), "ABCa");
}

static const u32 two_low[3] = { 2, 0, 0 };

POOL_TEST(quota_order, a_class_keeps_its_quota_whatever_min_says,
	  make_classed(16, "lru", two_low, 0))
{
	limit(pool, 1, 8, 0, NO_LIMIT, NO_LIMIT);
	limit(pool, 2, 0, 0, NO_LIMIT, NO_LIMIT);
	cache_in(pool, "aAb", LOW);
	cr_expect_str_eq(cached(pool), "ab", "not the protected one while there is another");
	cache_in(pool, "cd", LOW);
	cr_expect_str_eq(cached(pool), "cd");
	cr_expect_eq(usage(pool, 1), 2);
}

POOL_TEST(quota_order, demotion_leaves_a_block_with_its_tenant, make_classed(16, "lru", NULL, 0))
{
	kvmm_ref_t ref;

	limit(pool, 1, 0, 0, NO_LIMIT, NO_LIMIT);
	cache_in(pool, "abc", HIGH);
	ref = use(pool, 'b');
	cr_assert_eq(kvmm_demote(pool, &ref, 1, LOW), 1);
	drop(pool, ref);
	cr_expect_eq(tenant_stat(pool, 1).nr_inactive, 3);
	cr_expect_eq(squeeze(pool, 1, 1), 1);
	cr_expect_str_eq(cached(pool), "ac");
}

/* ---- chains ---- */

/* A chain of @tenant, one letter a block, put back end first unless @backward. */
static void chain(struct kvmm_pool *pool, const char *letters, bool backward)
{
	u32 nr = strlen(letters), tenant = tenant_of(letters[0]);
	kvmm_key_t key[8];
	kvmm_mut_t mut[8];
	kvmm_ref_t ref[8];
	struct kvmm_prefix prefix = { .keys = key, .nr = nr, .domain = domain_of(tenant) };

	for (u32 i = 0; i < nr; i++)
		key[i] = key_of(letters[i]);
	cr_assert_eq(kvmm_alloc_for(pool, nr, tenant, mut), 0);
	cr_assert_eq(kvmm_prefix_register(pool, &prefix, mut, ref), 0);
	for (u32 i = 0; backward && i < nr; i++)
		drop(pool, ref[i]);
	if (!backward)
		cr_assert_eq(kvmm_put_many(pool, ref, nr), 0);
}

POOL_TEST(quota_order, leaves_go_first_whoever_asks, make_cache(12, "lru"))
{
	limit(pool, 1, 0, 0, NO_LIMIT, NO_LIMIT);
	chain(pool, "ABC", true);
	chain(pool, "abc", true);
	cr_expect_eq(squeeze(pool, 1, 1), 1);
	cr_expect_str_eq(cached(pool), "ABCab");
	cr_expect_str_eq(lost_for(pool, 3, 12), "CBAba");
}

POOL_TEST(quota_order, leaves_go_first_where_max_takes_them, make_cache(12, "lru"))
{
	limit(pool, 1, 0, 0, NO_LIMIT, 4);
	chain(pool, "ABCD", true);
	chain(pool, "abcd", true);
	cache(pool, "e");
	cr_expect_str_eq(cached(pool), "ABCDabce");
}

/* ---- policies ---- */

/* Each tenant has a policy of its own: priorities hold inside it. */
POOL_TEST(quota_order, the_policy_decides_inside_a_tenant, make_cache(16, "priority"))
{
	limit(pool, 1, 0, 0, NO_LIMIT, 4);
	for (const char *letter = "abcd"; *letter; letter++) {
		u64 priority = *letter == 'a' || *letter == 'c' ? 90 : 10;
		kvmm_ref_t ref = hold(pool, *letter);

		cr_assert_eq(kvmm_advise_many(pool, &ref, KVMM_ADVISE_PRIORITY, &priority, 1), 0);
		drop(pool, ref);
	}
	cache(pool, "ef");
	cr_expect_str_eq(cached(pool), "acef");
}

POOL_TEST(quota_order, arguments_of_a_policy_hold_for_each_instance,
	  make_cache(16, "multilru:3,8,15"))
{
	limit(pool, 1, 0, 0, NO_LIMIT, 3);
	cache(pool, "abcd");
	cr_expect_str_eq(cached(pool), "bcd");
}

/* ---- runs ---- */

static struct kvmm_pool *make_windowed(void)
{
	struct kvmm_evict_attr evict = { .size = sizeof(evict), .run_window = 8 };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 10, .policy = "lru",
				       .evict = &evict };

	return make_pool_of(&attr);
}

/* Blocks 0 to 9 in that order; free behind. */
POOL_TEST(quota_order, runs_are_looked_for_inside_a_rank, make_windowed())
{
	limit(pool, 1, 0, 10, NO_LIMIT, NO_LIMIT);
	limit(pool, 2, 0, 0, NO_LIMIT, NO_LIMIT);
	cache(pool, "AabcBdefgC");
	cr_expect_eq(strlen(lost_for(pool, 3, 2)), 2);
	cr_expect_eq(strlen(cached(pool)), 8);
	cr_expect_eq(usage(pool, 1), 7, "what low protects is not touched for the sake of runs");
	cr_expect_eq(strlen(lost_for(pool, 3, 4)), 2);
	cr_expect_eq(usage(pool, 2), 0);
	cr_expect_eq(usage(pool, 1), 6);
	cr_expect_eq(tenant_stat(pool, 1).nr_low, 1);
}

POOL_TEST(quota_order, min_holds_where_runs_are_looked_for, make_windowed())
{
	limit(pool, 1, 7, 0, NO_LIMIT, NO_LIMIT);
	cache(pool, "AabcBdefgC");
	cr_expect_eq(strlen(lost_for(pool, 3, 3)), 3);
	cr_expect_str_eq(cached(pool), "abcdefg");
}

/* ---- groups ---- */

static int acquire_groups(const struct kvmm_groups *groups, u32 tenant, u32 nr_tokens,
			  struct kvmm_tables **tables)
{
	struct kvmm_groups_acquire_args req = { .prompt.domain = domain_of(tenant),
						.nr_tokens = nr_tokens };

	return kvmm_groups_acquire(groups, &req, tables);
}

POOL_TEST(quota_order, groups_get_all_or_nothing_below_max, make_cache(32, "lru"))
{
	struct kvmm_groups_attr attr = KVMM_GROUPS_ATTR_INIT;
	struct kvmm_group_attr group[2];
	struct kvmm_groups *groups __cleanup(kvmm_groups_destroy) = NULL;
	struct kvmm_tables *tables;

	for (u32 i = 0; i < 2; i++)
		group[i] = (struct kvmm_group_attr){ .pool = pool, .kind = KVMM_GROUP_FULL,
						     .block_tokens = 4 };
	attr.group = group;
	attr.nr = 2;
	cr_assert_eq(kvmm_groups_create(&attr, &groups), 0);
	limit(pool, 1, 0, 0, NO_LIMIT, 7);
	cache(pool, "abA");
	cr_expect_eq(acquire_groups(groups, 1, 16, &tables), -EDQUOT, "four blocks each");
	cr_expect_str_eq(cached(pool), "Aab");
	cr_expect_eq(usage(pool, 1), 2);
	cr_assert_eq(acquire_groups(groups, 1, 12, &tables), 0);
	cr_expect_str_eq(cached(pool), "Ab");
	cr_expect_eq(usage(pool, 1), 7);
	cr_expect_eq(kvmm_groups_reserve(tables, 13, 0), -EDQUOT);
	cr_expect_str_eq(cached(pool), "Ab");
	kvmm_groups_release(tables);
	cr_expect_eq(usage(pool, 1), 1);
}
