// SPDX-License-Identifier: Apache-2.0
/* Limits of tenants beside what else decides who is evicted: classes, chains, runs, groups. */
#include "tests/pool/quota_util.h"

enum { LOW, MID, HIGH };

static struct kvmm_pool *pool;

static void tear_down(void)
{
	end_pool(pool);
	pool = NULL;
}

TestSuite(quota_order, .fini = tear_down);

static void make_with(u32 nr_blocks, const char *policy, const u32 *quota, u32 window)
{
	struct kvmm_class classes[] = { { .name = "low" }, { .name = "mid" }, { .name = "high" } };
	struct kvmm_evict_attr evict = { .size = sizeof(evict),
					 .classes = quota ? classes : NULL,
					 .nr_classes = quota ? 3 : 0, .run_window = window,
					 .default_class = quota ? HIGH : 0 };
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;

	for (u32 i = 0; quota && i < 3; i++)
		classes[i].quota_blocks = quota[i];
	attr.nr_blocks = nr_blocks;
	attr.policy = policy;
	attr.evict = &evict;
	pool = make_pool_of(&attr);
}

static const u32 no_quota[3];

/* Each of class @cls. */
static void cache_in(const char *letters, u32 cls)
{
	for (; *letters; letters++) {
		kvmm_ref_t ref = hold(pool, *letters);

		cr_assert_eq(kvmm_class_set(pool, &ref, 1, cls), 0);
		drop(pool, ref);
	}
}

/* ---- classes ---- */

Test(quota_order, the_lowest_class_of_equals_goes_first)
{
	make_with(8, "lru", no_quota, 0);
	limit(pool, 1, 0, 0, NO_LIMIT, NO_LIMIT);
	limit(pool, 2, 0, 0, NO_LIMIT, NO_LIMIT);
	cache_in("aA", HIGH);
	cache_in("bB", MID);
	cache_in("Cc", LOW);
	cr_expect_str_eq(lost_for(pool, 3, 8), "CcbBaA");
}

Test(quota_order, who_is_over_high_loses_of_any_class_before_others_do)
{
	kvmm_ref_t ref[2];

	make_with(8, "lru", no_quota, 0);
	limit(pool, 1, 0, 0, 2, NO_LIMIT);
	limit(pool, 2, 0, 0, NO_LIMIT, NO_LIMIT);
	cache_in("ABC", LOW);
	cache_in("ab", HIGH);
	ref[0] = hold(pool, 'c');
	cr_expect_str_eq(cached(pool), "ABCbc");
	ref[1] = hold(pool, 'd');
	cr_expect_str_eq(cached(pool), "ABCcd");
	drop(pool, ref[0]);
	drop(pool, ref[1]);
	limit(pool, 1, 0, 0, 0, NO_LIMIT);
	cr_expect_str_eq(cached(pool), "ABC");
}

Test(quota_order, inside_a_tenant_the_lowest_class_is_reclaimed_first)
{
	make_with(16, "lru", no_quota, 0);
	limit(pool, 1, 0, 0, NO_LIMIT, NO_LIMIT);
	cache_in("ab", HIGH);
	cache_in("A", LOW);
	cache_in("c", LOW);
	cache_in("d", MID);
	cr_expect_eq(kvmm_tenant_reclaim(pool, 1, 2), 2);
	cr_expect_str_eq(cached(pool), "Aab");
}

Test(quota_order, low_rules_classes)
{
	make_with(6, "lru", no_quota, 0);
	limit(pool, 1, 0, 3, NO_LIMIT, NO_LIMIT);
	cache_in("abc", LOW);
	cache_in("ABC", HIGH);
	cr_expect_str_eq(lost_for(pool, 2, 4), "ABCa");
}

Test(quota_order, a_class_keeps_its_quota_whatever_min_says)
{
	const u32 quota[3] = { 2, 0, 0 };

	make_with(16, "lru", quota, 0);
	limit(pool, 1, 8, 0, NO_LIMIT, NO_LIMIT);
	limit(pool, 2, 0, 0, NO_LIMIT, NO_LIMIT);
	cache_in("aAb", LOW);
	cr_expect_str_eq(cached(pool), "ab", "not the protected one while there is another");
	cache_in("cd", LOW);
	cr_expect_str_eq(cached(pool), "cd");
	cr_expect_eq(usage(pool, 1), 2);
}

Test(quota_order, demotion_leaves_a_block_with_its_tenant)
{
	kvmm_ref_t ref;

	make_with(16, "lru", no_quota, 0);
	limit(pool, 1, 0, 0, NO_LIMIT, NO_LIMIT);
	cache_in("abc", HIGH);
	ref = use(pool, 'b');
	cr_assert_eq(kvmm_demote(pool, &ref, 1, LOW), 1);
	drop(pool, ref);
	cr_expect_eq(tenant_stat(pool, 1).nr_inactive, 3);
	cr_expect_eq(kvmm_tenant_reclaim(pool, 1, 1), 1);
	cr_expect_str_eq(cached(pool), "ac");
}

/* ---- chains ---- */

/* A chain of @tenant, one letter a block, put back end first unless @backward. */
static void chain(const char *letters, bool backward)
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

Test(quota_order, leaves_go_first_whoever_asks)
{
	make_with(12, "lru", NULL, 0);
	limit(pool, 1, 0, 0, NO_LIMIT, NO_LIMIT);
	chain("ABC", true);
	chain("abc", true);
	cr_expect_eq(kvmm_tenant_reclaim(pool, 1, 1), 1);
	cr_expect_str_eq(cached(pool), "ABCab");
	cr_expect_str_eq(lost_for(pool, 3, 12), "CBAba");
}

Test(quota_order, leaves_go_first_where_max_takes_them)
{
	make_with(12, "lru", NULL, 0);
	limit(pool, 1, 0, 0, NO_LIMIT, 4);
	chain("ABCD", true);
	chain("abcd", true);
	cache(pool, "e");
	cr_expect_str_eq(cached(pool), "ABCDabce");
}

/* ---- policies ---- */

/* Each tenant has a policy of its own: priorities hold inside it. */
Test(quota_order, the_policy_decides_inside_a_tenant)
{
	make_with(16, "priority", NULL, 0);
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

Test(quota_order, arguments_of_a_policy_hold_for_each_instance)
{
	make_with(16, "multilru:3,8,15", NULL, 0);
	limit(pool, 1, 0, 0, NO_LIMIT, 3);
	cache(pool, "abcd");
	cr_expect_str_eq(cached(pool), "bcd");
}

/* ---- runs ---- */

/* Blocks 0 to 9 in that order; free behind. */
Test(quota_order, runs_are_looked_for_inside_a_rank)
{
	make_with(10, "lru", NULL, 8);
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

Test(quota_order, min_holds_where_runs_are_looked_for)
{
	make_with(10, "lru", NULL, 8);
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

Test(quota_order, groups_get_all_or_nothing_below_max)
{
	struct kvmm_groups_attr attr = KVMM_GROUPS_ATTR_INIT;
	struct kvmm_group_attr group[2];
	struct kvmm_groups *groups __cleanup(kvmm_groups_destroy) = NULL;
	struct kvmm_tables *tables;

	make_with(32, "lru", NULL, 0);
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
