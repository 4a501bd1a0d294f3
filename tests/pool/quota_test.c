// SPDX-License-Identifier: Apache-2.0
/*
 * What limits of tenants do to cached blocks: who is charged, who is refused, who loses what. Small
 * letters are tenant 1's blocks, capitals tenant 2's, digits tenant 3's.
 */
#include "tests/pool/quota_util.h"

/* ---- charges ---- */

POOL_TEST(quota, nobody_is_charged_before_somebody_has_limits, make_cache(4, "lru"))
{
	struct kvmm_tenant_stat stat = { .size = sizeof(stat) };
	u32 cursor = 0;

	cache(pool, "ab");
	cr_expect_eq(kvmm_tenant_get_stat(pool, 1, &stat), -ENOENT);
	cr_expect_eq(kvmm_tenant_get_stat(pool, KVMM_TENANT_REST, &stat), -ENOENT);
	cr_expect_eq(kvmm_tenant_next(pool, &cursor, &stat), -ENOENT);
	cr_expect_eq(kvmm_tenant_del(pool, 1), -ENOENT);
}

POOL_TEST(quota, a_block_is_charged_from_when_it_is_handed_out_until_it_is_free,
	  make_cache(8, "lru"))
{
	kvmm_key_t key = key_of('a');
	struct kvmm_prefix prefix = { .keys = &key, .nr = 1, .domain = domain_of(1) };
	struct kvmm_tenant_stat stat;
	kvmm_staged_t staged;
	kvmm_mut_t mut[3];
	kvmm_ref_t ref;
	u32 block;

	limit(pool, 1, 0, 0, NO_LIMIT, NO_LIMIT);
	cr_assert_eq(kvmm_alloc_for(pool, 3, 1, mut), 0);
	cr_expect_eq(usage(pool, 1), 3);
	cr_assert_eq(kvmm_free(pool, mut + 1, 2), 0);
	cr_expect_eq(usage(pool, 1), 1);
	cr_assert_eq(kvmm_stage(pool, &prefix, mut, &staged), 0);
	cr_assert_eq(kvmm_publish(pool, &(struct kvmm_publish_args){ &staged, 1, 0, &ref, 0 }), 0);
	cr_expect_eq(usage(pool, 1), 1);
	cr_expect_eq(tenant_stat(pool, 1).nr_inactive, 0);
	block = kvmm_block_of_ref(pool, ref);
	drop(pool, ref);
	cr_expect_eq(tenant_stat(pool, 1).nr_inactive, 1);
	cr_expect_eq(kvmm_evict_blocks(pool, &block, 1), 1);
	stat = tenant_stat(pool, 1);
	cr_expect_eq(stat.usage, 0);
	cr_expect_eq(stat.peak, 3);
	cr_expect_eq(usage(pool, KVMM_TENANT_REST), 0);
}

POOL_TEST(quota, a_staged_block_that_is_given_back_is_charged_no_more, make_cache(8, "lru"))
{
	kvmm_key_t key = key_of('a');
	struct kvmm_prefix prefix = { .keys = &key, .nr = 1, .domain = domain_of(1) };
	kvmm_staged_t staged;
	kvmm_mut_t mut;

	limit(pool, 1, 0, 0, NO_LIMIT, NO_LIMIT);
	cr_assert_eq(kvmm_alloc_for(pool, 1, 1, &mut), 0);
	cr_assert_eq(kvmm_stage(pool, &prefix, &mut, &staged), 0);
	cr_expect_eq(usage(pool, 1), 1);
	cr_assert_eq(kv_free_staged(pool, &staged, 1), 0);
	cr_expect_eq(usage(pool, 1), 0);
}

POOL_TEST(quota, a_hidden_block_is_charged_until_its_last_reference_is_gone, make_cache(8, "lru"))
{
	kvmm_ref_t ref;
	u32 block;

	limit(pool, 1, 0, 0, NO_LIMIT, NO_LIMIT);
	ref = hold(pool, 'a');
	block = kvmm_block_of_ref(pool, ref);
	cr_expect_eq(kvmm_evict_blocks(pool, &block, 1), 1);
	cr_expect_str_eq(cached(pool), "");
	cr_expect_eq(usage(pool, 1), 1);
	drop(pool, ref);
	cr_expect_eq(usage(pool, 1), 0);
}

POOL_TEST(quota, each_duplicate_is_charged, make_cache(8, "lru"))
{
	kvmm_ref_t ref[2];

	limit(pool, 1, 0, 0, NO_LIMIT, NO_LIMIT);
	ref[0] = hold(pool, 'a');
	ref[1] = hold(pool, 'a');
	cr_expect_eq(usage(pool, 1), 2);
	drop(pool, ref[0]);
	drop(pool, ref[1]);
	cr_expect_eq(usage(pool, 1), 2);
	cr_expect_eq(kvmm_reset_inactive(pool), 2);
	cr_expect_eq(usage(pool, 1), 0);
}

POOL_TEST(quota, what_was_there_before_stays_with_the_rest, make_cache(8, "lru"))
{
	kvmm_ref_t ref;

	cache(pool, "ab");
	ref = hold(pool, 'c');
	limit(pool, 1, 0, 0, NO_LIMIT, NO_LIMIT);
	cr_expect_eq(usage(pool, 1), 0);
	cr_expect_eq(usage(pool, KVMM_TENANT_REST), 3);
	cache(pool, "d");
	cr_expect_eq(usage(pool, 1), 1);
	drop(pool, ref);
	cr_expect_eq(kvmm_reset_inactive(pool), 4);
	cr_expect_eq(usage(pool, 1), 0);
	cr_expect_eq(usage(pool, KVMM_TENANT_REST), 0);
}

POOL_TEST(quota, tenants_without_limits_are_one, make_cache(8, "lru"))
{
	u64 bytes;

	limit(pool, 1, 0, 0, NO_LIMIT, NO_LIMIT);
	bytes = stat_of(pool).metadata_bytes;
	for (u32 tenant = 1000; tenant < 3000; tenant++) {
		kvmm_mut_t mut;

		cr_assert_eq(kvmm_alloc_for(pool, 1, tenant, &mut), 0);
		cr_assert_eq(usage(pool, KVMM_TENANT_REST), 1);
		cr_assert_eq(kvmm_free(pool, &mut, 1), 0);
	}
	cr_expect_eq(stat_of(pool).metadata_bytes, bytes);
}

/* ---- max ---- */

POOL_TEST(quota, max_is_kept_by_the_tenants_own_oldest_blocks, make_cache(16, "lru"))
{
	struct kvmm_tenant_stat stat;

	limit(pool, 1, 0, 0, NO_LIMIT, 4);
	cache(pool, "ABabcd");
	cr_expect_str_eq(cached(pool), "ABabcd");
	cache(pool, "ef");
	cr_expect_str_eq(cached(pool), "ABcdef");
	stat = tenant_stat(pool, 1);
	cr_expect_eq(stat.usage, 4);
	cr_expect_eq(stat.peak, 4);
	cr_expect_eq(stat.nr_max, 2);
	cr_expect_eq(stat.nr_oom, 0);
	cr_expect_eq(stat.nr_reclaimed, 2);
	cr_expect_eq(stat.nr_evicted, 2);
}

POOL_TEST(quota, what_would_exceed_max_is_refused_and_nothing_changes, make_cache(16, "lru"))
{
	struct kvmm_tenant_stat stat;
	kvmm_ref_t ref[2];
	kvmm_mut_t mut[6];

	limit(pool, 1, 0, 0, NO_LIMIT, 4);
	ref[0] = hold(pool, 'a');
	ref[1] = hold(pool, 'b');
	cache(pool, "cd");
	cr_expect_eq(kvmm_alloc_for(pool, 3, 1, mut), -EDQUOT);
	cr_expect_str_eq(cached(pool), "abcd");
	stat = tenant_stat(pool, 1);
	cr_expect_eq(stat.usage, 4);
	cr_expect_eq(stat.nr_oom, 1);
	cr_expect_eq(stat.nr_max, 1);
	cr_expect_eq(stat.nr_evicted, 0);
	cr_expect_eq(kvmm_alloc_for(pool, 2, 1, mut), 0);
	cr_expect_str_eq(cached(pool), "ab");
	cr_expect_eq(usage(pool, 1), 4);
	cr_assert_eq(kvmm_alloc_for(pool, 4, 2, mut + 2), 0, "others are not concerned");
	cr_assert_eq(kvmm_free(pool, mut, 4), 0);
	drop(pool, ref[0]);
	drop(pool, ref[1]);
}

POOL_TEST(quota, hits_need_no_quota, make_cache(16, "lru"))
{
	kvmm_key_t key[] = { key_of('a'), key_of('b'), key_of('x') };
	kvmm_ref_t refs[3];
	kvmm_mut_t fresh[3];
	struct kvmm_acquire_args req = { .keys = key, .nr_keys = 3, .max_hits = 3, .nr_blocks = 2,
					 .hits = refs, .fresh = fresh, .domain = domain_of(1) };

	limit(pool, 1, 0, 0, NO_LIMIT, 3);
	cache(pool, "abc");
	cr_assert_eq(kvmm_acquire(pool, &req), 0);
	cr_expect_eq(req.nr_hits, 2);
	cr_expect_eq(usage(pool, 1), 3);
	cr_assert_eq(kvmm_put_many(pool, refs, 2), 0);
}

/* "c" would do for one, but not for two: then the hits are put back to where they were. */
POOL_TEST(quota, hits_cannot_make_room_for_the_rest, make_cache(16, "lru"))
{
	kvmm_key_t key[] = { key_of('a'), key_of('b'), key_of('x') };
	kvmm_ref_t refs[4];
	kvmm_mut_t fresh[4];
	struct kvmm_acquire_args req = { .keys = key, .nr_keys = 3, .max_hits = 3, .nr_blocks = 4,
					 .hits = refs, .fresh = fresh, .domain = domain_of(1) };

	limit(pool, 1, 0, 0, NO_LIMIT, 3);
	cache(pool, "abc");
	cr_expect_eq(kvmm_acquire(pool, &req), -EDQUOT);
	cr_expect_str_eq(cached(pool), "abc");
	cr_expect_str_eq(lost_for(pool, 1, 3), "abc", "the order is as it was");
	cache(pool, "abc");
	req.nr_blocks = 3;
	cr_expect_eq(kvmm_acquire(pool, &req), 0);
	cr_expect_str_eq(cached(pool), "ab");
	cr_assert_eq(kvmm_free(pool, fresh, 1), 0);
	cr_assert_eq(kvmm_put_many(pool, refs, 2), 0);
}

/* ---- high ---- */

POOL_TEST(quota, beyond_high_exactly_the_excess_is_reclaimed, make_cache(16, "lru"))
{
	struct kvmm_tenant_stat stat;
	kvmm_mut_t mut[3];

	limit(pool, 1, 0, 0, 4, NO_LIMIT);
	cache(pool, "abcd");
	cr_assert_eq(kvmm_alloc_for(pool, 3, 1, mut), 0);
	cr_expect_str_eq(cached(pool), "d");
	stat = tenant_stat(pool, 1);
	cr_expect_eq(stat.usage, 4);
	cr_expect_eq(stat.nr_high, 1);
	cr_expect_eq(stat.nr_reclaimed, 3);
	cr_expect_eq(stat_of(pool).nr_free, 12);
	cr_assert_eq(kvmm_free(pool, mut, 3), 0);
}

POOL_TEST(quota, high_refuses_nothing, make_cache(8, "lru"))
{
	kvmm_mut_t mut[8];

	limit(pool, 1, 0, 0, 2, NO_LIMIT);
	cr_expect_eq(kvmm_alloc_for(pool, 8, 1, mut), 0);
	cr_expect_eq(usage(pool, 1), 8);
	cr_expect_eq(tenant_stat(pool, 1).nr_high, 1);
	cr_assert_eq(kvmm_free(pool, mut, 8), 0);
}

POOL_TEST(quota, who_is_told_to_have_less_is_then_as_any_other, make_cache(8, "lru"))
{
	limit(pool, 1, 0, 0, NO_LIMIT, NO_LIMIT);
	cache(pool, "ABabcde1");
	limit(pool, 1, 0, 0, 4, NO_LIMIT);
	cr_expect_str_eq(cached(pool), "1ABbcde");
	cr_expect_str_eq(lost_for(pool, 2, 4), "ABb");
}

POOL_TEST(quota, others_take_what_is_over_high_before_anything_else, make_cache(8, "lru"))
{
	kvmm_ref_t ref[3];

	cache(pool, "1");
	limit(pool, 1, 0, 0, 2, NO_LIMIT);
	limit(pool, 2, 0, 0, NO_LIMIT, NO_LIMIT);
	cache(pool, "AB");
	for (u32 i = 0; i < 3; i++)
		ref[i] = hold(pool, 'a' + i);
	cr_expect_eq(usage(pool, 1), 3);
	for (u32 i = 0; i < 3; i++)
		drop(pool, ref[i]);
	cr_expect_str_eq(lost_for(pool, 2, 5), "a1A", "one is beyond; then by age");
	cr_expect_eq(tenant_stat(pool, 1).nr_evicted, 1);
	cr_expect_eq(tenant_stat(pool, 1).nr_reclaimed, 0);
}

/* ---- min and low ---- */

POOL_TEST(quota, what_min_protects_is_lost_to_nobody_else, make_cache(6, "lru"))
{
	kvmm_mut_t mut[8];

	limit(pool, 1, 2, 0, NO_LIMIT, NO_LIMIT);
	cache(pool, "abcABC");
	cr_expect_eq(kvmm_alloc_for(pool, 5, 2, mut), -ENOSPC);
	cr_expect_str_eq(cached(pool), "ABCabc");
	cr_expect_eq(kvmm_alloc_for(pool, 4, 2, mut), 0);
	cr_expect_str_eq(cached(pool), "bc");
	cr_expect_eq(kvmm_alloc_for(pool, 1, 3, mut + 4), -ENOSPC);
	cr_expect_eq(stat_of(pool).fail_nospc, 2);
	cr_assert_eq(kvmm_free(pool, mut, 4), 0);
}

POOL_TEST(quota, who_is_at_min_may_reuse_its_own, make_cache(4, "lru"))
{
	kvmm_mut_t mut[4];

	limit(pool, 1, 4, 0, NO_LIMIT, NO_LIMIT);
	cache(pool, "abcd");
	cr_expect_eq(kvmm_alloc_for(pool, 1, 2, mut), -ENOSPC);
	cr_expect_eq(kvmm_alloc_for(pool, 3, 1, mut), 0);
	cr_expect_str_eq(cached(pool), "d");
	cr_expect_eq(usage(pool, 1), 4);
	cr_assert_eq(kvmm_free(pool, mut, 3), 0);
}

POOL_TEST(quota, who_is_below_min_takes_from_others_first, make_cache(6, "lru"))
{
	limit(pool, 1, 6, 0, NO_LIMIT, NO_LIMIT);
	cache(pool, "abABCD");
	cr_expect_str_eq(lost_for(pool, 1, 3), "ABC");
	cache(pool, "ABC");
	cr_expect_str_eq(lost_for(pool, 1, 5), "DABCa");
}

POOL_TEST(quota, what_low_protects_is_lost_when_nobody_else_has_any, make_cache(6, "lru"))
{
	kvmm_mut_t mut[8];

	limit(pool, 1, 0, 3, NO_LIMIT, NO_LIMIT);
	cache(pool, "abcABC");
	cr_expect_str_eq(lost_for(pool, 3, 3), "ABC");
	cr_expect_eq(tenant_stat(pool, 1).nr_low, 0);
	cr_expect_eq(kvmm_alloc_for(pool, 5, 3, mut), 0);
	cr_expect_str_eq(cached(pool), "c");
	cr_expect_eq(tenant_stat(pool, 1).nr_low, 2);
	cr_assert_eq(kvmm_free(pool, mut, 5), 0);
}

POOL_TEST(quota, above_low_a_tenant_is_as_any_other, make_cache(6, "lru"))
{
	limit(pool, 1, 0, 2, NO_LIMIT, NO_LIMIT);
	cache(pool, "abcdAB");
	cr_expect_str_eq(lost_for(pool, 3, 3), "abA");
}

POOL_TEST(quota, equals_lose_by_age, make_cache(8, "lru"))
{
	limit(pool, 1, 0, 0, NO_LIMIT, NO_LIMIT);
	limit(pool, 2, 0, 0, NO_LIMIT, NO_LIMIT);
	cache(pool, "a1AbB2cC");
	drop(pool, use(pool, '1'));
	drop(pool, use(pool, 'a'));
	cr_expect_str_eq(lost_for(pool, 1, 8), "AbB2cC1a");
}

POOL_TEST(quota, room_that_nobody_in_particular_asks_for_respects_min, make_cache(6, "lru"))
{
	struct kvmm_evict_for_args req = { .size = sizeof(req), .nr_blocks = 5 };

	limit(pool, 1, 2, 0, NO_LIMIT, NO_LIMIT);
	cache(pool, "abcABC");
	cr_expect_eq(kvmm_evict_for(pool, &req), -ENOSPC);
	cr_expect_str_eq(cached(pool), "ABCabc");
	req.nr_blocks = 4;
	cr_expect_eq(kvmm_evict_for(pool, &req), 0);
	cr_expect_str_eq(cached(pool), "bc");
	cr_expect_eq(kvmm_reset_inactive(pool), 2);
	cr_expect_str_eq(cached(pool), "");
}

/* ---- limits that change ---- */

POOL_TEST(quota, lowering_a_limit_reclaims_what_nobody_uses, make_cache(16, "lru"))
{
	kvmm_ref_t ref[2];
	kvmm_mut_t mut;

	limit(pool, 1, 0, 0, NO_LIMIT, NO_LIMIT);
	ref[0] = hold(pool, 'a');
	ref[1] = hold(pool, 'b');
	cache(pool, "cdef");
	limit(pool, 1, 0, 0, 5, NO_LIMIT);
	cr_expect_str_eq(cached(pool), "abdef");
	limit(pool, 1, 0, 0, NO_LIMIT, 1);
	cr_expect_str_eq(cached(pool), "ab");
	cr_expect_eq(usage(pool, 1), 2);
	cr_expect_eq(kvmm_alloc_for(pool, 1, 1, &mut), -EDQUOT);
	drop(pool, ref[0]);
	cr_expect_eq(kvmm_alloc_for(pool, 1, 1, &mut), -EDQUOT);
	drop(pool, ref[1]);
	cr_expect_eq(kvmm_alloc_for(pool, 1, 1, &mut), 0, "both go for one");
	cr_expect_str_eq(cached(pool), "");
	cr_expect_eq(usage(pool, 1), 1);
	cr_expect_eq(tenant_stat(pool, 1).nr_reclaimed, 6);
	cr_assert_eq(kvmm_free(pool, &mut, 1), 0);
}

POOL_TEST(quota, more_than_is_asked_for_goes_after_a_limit_was_lowered, make_cache(16, "lru"))
{
	kvmm_ref_t ref[5];
	kvmm_mut_t mut;

	limit(pool, 1, 0, 0, NO_LIMIT, NO_LIMIT);
	for (u32 i = 0; i < 5; i++)
		ref[i] = hold(pool, 'a' + i);
	limit(pool, 1, 0, 0, 2, NO_LIMIT);
	for (u32 i = 0; i < 5; i++)
		drop(pool, ref[i]);
	cr_expect_str_eq(cached(pool), "abcde");
	cr_expect_str_eq(lost_for(pool, 1, 1), "a+3", "as many as there is room for are told");
	cr_expect_str_eq(cached(pool), "e");
	cr_expect_eq(tenant_stat(pool, 1).nr_reclaimed, 4);
	cr_assert_eq(kvmm_alloc_for(pool, 1, 1, &mut), 0);
	cr_expect_str_eq(cached(pool), "e");
	cr_assert_eq(kvmm_free(pool, &mut, 1), 0);
}

POOL_TEST(quota, a_high_below_what_is_in_use_takes_the_oldest_in_spite_of_min,
	  make_cache(16, "lru"))
{
	kvmm_ref_t ref;

	limit(pool, 1, 8, 8, NO_LIMIT, NO_LIMIT);
	cache(pool, "ABabc");
	ref = hold(pool, 'd');
	cr_expect_eq(squeeze(pool, 1, 2), 2);
	cr_expect_str_eq(cached(pool), "ABcd");
	cr_expect_eq(squeeze(pool, 1, 100), 1);
	cr_expect_str_eq(cached(pool), "ABd");
	cr_expect_eq(squeeze(pool, KVMM_TENANT_REST, 1), 1);
	cr_expect_str_eq(cached(pool), "Bd");
	drop(pool, ref);
}

POOL_TEST(quota, the_rest_can_have_limits, make_cache(16, "lru"))
{
	kvmm_mut_t mut[4];

	limit(pool, KVMM_TENANT_REST, 0, 0, NO_LIMIT, 3);
	cache(pool, "aA1b");
	cr_expect_str_eq(cached(pool), "1Ab");
	cr_expect_eq(kvmm_alloc_for(pool, 4, 77, mut), -EDQUOT);
	limit(pool, 1, 0, 0, NO_LIMIT, NO_LIMIT);
	cr_expect_eq(kvmm_alloc_for(pool, 4, 1, mut), 0);
	cr_expect_str_eq(cached(pool), "1Ab");
	cr_assert_eq(kvmm_free(pool, mut, 4), 0);
}

/* ---- accounts ---- */

POOL_TEST(quota, an_account_goes_when_nothing_is_charged_to_it, make_cache(16, "lru"))
{
	u64 bytes;

	limit(pool, 2, 0, 0, NO_LIMIT, NO_LIMIT);
	bytes = stat_of(pool).metadata_bytes;
	limit(pool, 1, 0, 0, NO_LIMIT, 4);
	cr_expect_gt(stat_of(pool).metadata_bytes, bytes);
	cache(pool, "ab");
	cr_expect_eq(kvmm_tenant_del(pool, 1), -EBUSY);
	cr_expect_eq(squeeze(pool, 1, 2), 2);
	cr_expect_eq(kvmm_tenant_del(pool, 1), 0);
	cr_expect_eq(stat_of(pool).metadata_bytes, bytes);
	cr_expect_eq(kvmm_tenant_del(pool, 1), -ENOENT);
	cr_expect_eq(kvmm_tenant_del(pool, KVMM_TENANT_REST), -EINVAL);
	cache(pool, "abcdef");
	cr_expect_eq(usage(pool, KVMM_TENANT_REST), 6);
}

POOL_TEST(quota, so_many_tenants_have_limits_and_no_more, make_cache(4, "lru"))
{
	struct kvmm_tenant_attr attr[3] = { KVMM_TENANT_ATTR_INIT, KVMM_TENANT_ATTR_INIT,
					    KVMM_TENANT_ATTR_INIT };
	struct kvmm_tenant_stat stat = { .size = sizeof(stat) };
	u32 cursor = 0, nr = 0, tenant[3] = { 5, 1u << 20, 2u << 20 };
	u64 bytes;

	for (u32 i = 0; i + 1 < KVMM_MAX_TENANTS; i++)
		limit(pool, 7 * i, i, 0, NO_LIMIT, NO_LIMIT);
	bytes = stat_of(pool).metadata_bytes;
	attr[1].max = 1;
	cr_expect_eq(kvmm_tenant_set_many(pool, tenant, attr, 3), -EUSERS);
	cr_expect_eq(stat_of(pool).metadata_bytes, bytes);
	cr_expect_eq(kvmm_tenant_get_stat(pool, 1u << 20, &stat), -ENOENT);
	cr_expect_eq(try_limit(pool, 1u << 20, 0, 0, 0, 0), 0);
	cr_expect_eq(try_limit(pool, 5, 0, 0, 0, 0), -EUSERS);
	cr_expect_eq(kvmm_tenant_del(pool, 7), 0);
	cr_expect_eq(try_limit(pool, 5, 0, 0, 0, 0), 0);
	while (!kvmm_tenant_next(pool, &cursor, &stat)) {
		cr_expect(nr || stat.tenant == KVMM_TENANT_REST);
		cr_expect_neq(stat.tenant, 7);
		if (stat.tenant % 7 == 0 && stat.tenant < 7 * KVMM_MAX_TENANTS)
			cr_expect_eq(stat.min, stat.tenant / 7);
		nr++;
	}
	cr_expect_eq(nr, KVMM_MAX_TENANTS + 1);
}

POOL_TEST(quota, a_walk_goes_on_with_tenants_that_come_after_its_end, make_cache(4, "lru"))
{
	struct kvmm_tenant_stat stat = { .size = sizeof(stat) };
	u32 cursor = 0;

	limit(pool, 1, 0, 0, NO_LIMIT, NO_LIMIT);
	for (u32 i = 0; i < 2; i++)
		cr_assert_eq(kvmm_tenant_next(pool, &cursor, &stat), 0);
	for (u32 i = 0; i < 2; i++)
		cr_expect_eq(kvmm_tenant_next(pool, &cursor, &stat), -ENOENT);
	limit(pool, 2, 0, 0, NO_LIMIT, NO_LIMIT);
	cr_expect_eq(kvmm_tenant_next(pool, &cursor, &stat), 0);
	cr_expect_eq(stat.tenant, 2);
	cursor = UINT32_MAX;
	cr_expect_eq(kvmm_tenant_next(pool, &cursor, &stat), -ENOENT);
	cr_expect_eq(kvmm_tenant_next(pool, &cursor, &stat), -ENOENT, "not the first again");
}

POOL_TEST(quota, several_tenants_are_set_at_once, make_cache(8, "lru"))
{
	struct kvmm_tenant_attr attr[3] = { KVMM_TENANT_ATTR_INIT, KVMM_TENANT_ATTR_INIT,
					    KVMM_TENANT_ATTR_INIT };
	u32 tenant[3] = { 1, 2, 1 };

	attr[0].max = 7;
	attr[1].max = 5;
	attr[2].max = 2;
	cr_expect_eq(kvmm_tenant_set_many(pool, tenant, attr, 3), 0);
	cr_expect_eq(tenant_stat(pool, 1).max, 2, "the last word counts");
	cr_expect_eq(tenant_stat(pool, 2).max, 5);
	attr[1].size--;
	attr[0].max = attr[1].max = 1;
	cr_expect_eq(kvmm_tenant_set_many(pool, tenant, attr, 2), -EINVAL);
	cr_expect_eq(tenant_stat(pool, 1).max, 2);
}

POOL_TEST(quota, bad_arguments_are_refused, make_cache(4, "lru"))
{
	struct kvmm_tenant_attr attr = KVMM_TENANT_ATTR_INIT;
	struct kvmm_tenant_stat stat = { .size = 6 };
	u32 tenant = 1, cursor = 0;

	cr_expect_eq(kvmm_tenant_set_many(NULL, &tenant, &attr, 1), -EINVAL);
	cr_expect_eq(kvmm_tenant_set_many(pool, NULL, &attr, 1), -EINVAL);
	cr_expect_eq(kvmm_tenant_set_many(pool, (u32[]){ 1, 2 }, NULL, 2), -EINVAL);
	cr_expect_eq(kvmm_tenant_set_many(pool, &tenant, &attr, 0), -EINVAL);
	cr_expect_eq(kvmm_tenant_get_stat(pool, 1, NULL), -EINVAL);
	cr_expect_eq(kvmm_tenant_get_stat(pool, 1, &stat), -EINVAL);
	cr_expect_eq(kvmm_tenant_next(pool, &cursor, &stat), -EINVAL);
	stat.size = sizeof(stat);
	cr_expect_eq(kvmm_tenant_next(pool, NULL, &stat), -EINVAL);
	cr_expect_eq(kvmm_tenant_get_stat(NULL, 1, &stat), -EINVAL);
	cr_expect_eq(kvmm_tenant_del(NULL, 1), -EINVAL);
}

POOL_TEST(quota, a_stat_is_filled_as_far_as_both_sides_know_it, make_cache(4, "lru"))
{
	struct { struct kvmm_tenant_stat stat; u64 more; } longer = { .more = 1 };
	struct kvmm_tenant_stat shorter = { .low = 77 };
	u32 cursor = 1;

	limit(pool, 9, 3, 4, NO_LIMIT, NO_LIMIT);
	longer.stat.size = sizeof(longer);
	shorter.size = offsetof(struct kvmm_tenant_stat, low);
	cr_assert_eq(kvmm_tenant_get_stat(pool, 9, &longer.stat), 0);
	cr_assert_eq(kvmm_tenant_next(pool, &cursor, &shorter), 0);
	cr_expect_eq(longer.stat.size, sizeof(longer));
	cr_expect_eq(longer.stat.low, 4);
	cr_expect_eq(longer.more, 0);
	cr_expect_eq(shorter.tenant, 9);
	cr_expect_eq(shorter.min, 3);
	cr_expect_eq(shorter.low, 77);
}

POOL_TEST(quota, a_policy_that_keeps_free_blocks_itself_has_no_limits, make_cache(4, "lru-classic"))
{
	cr_expect_eq(try_limit(pool, 1, 0, 0, 1, 1), -EOPNOTSUPP);
}
