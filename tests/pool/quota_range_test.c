// SPDX-License-Identifier: Apache-2.0
/* Limits of tenants and ranges, in pools with and without cached blocks. */
#include "tests/pool/quota_util.h"

static int try_range(struct kvmm_pool *pool, u32 tenant, u32 nr, u32 flags, kvmm_range_t *range)
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = nr, .flags = flags,
					.tenant = tenant };

	return kvmm_range_alloc_attr(pool, &attr, range);
}

static kvmm_range_t range_of(struct kvmm_pool *pool, u32 tenant, u32 nr)
{
	kvmm_range_t range;

	cr_assert_eq(try_range(pool, tenant, nr, 0, &range), 0);
	return range;
}

static void free_range(struct kvmm_pool *pool, kvmm_range_t range)
{
	cr_assert_eq(kvmm_range_free(pool, range), 0);
}

POOL_TEST(quota_range, ranges_are_charged_however_they_change, make_pool(32))
{
	kvmm_range_t range, tail;

	limit(pool, 1, 0, 0, NO_LIMIT, 20);
	range = range_of(pool, 1, 8);
	cr_expect_eq(usage(pool, 1), 8);
	cr_assert_eq(kvmm_range_grow(pool, range, 4), 0);
	cr_expect_eq(usage(pool, 1), 12);
	cr_assert_eq(kvmm_range_shrink(pool, range, 3), 0);
	cr_assert_eq(kvmm_range_shrink_front(pool, range, 1), 0);
	cr_expect_eq(usage(pool, 1), 8);
	cr_assert_eq(kvmm_range_split(pool, range, 5, &tail), 0);
	cr_expect_eq(usage(pool, 1), 8);
	cr_assert_eq(kvmm_range_get(pool, range), 0);
	free_range(pool, range);
	cr_expect_eq(usage(pool, 1), 8);
	free_range(pool, range);
	cr_expect_eq(usage(pool, 1), 3);
	free_range(pool, tail);
	cr_expect_eq(usage(pool, 1), 0);
	cr_expect_eq(tenant_stat(pool, 1).peak, 12);
	cr_expect_eq(usage(pool, KVMM_TENANT_REST), 0);
}

POOL_TEST(quota_range, a_range_stays_with_whom_it_was_charged_to, make_pool(32))
{
	kvmm_range_t range, tail;

	range = range_of(pool, 1, 8);
	limit(pool, 1, 0, 0, NO_LIMIT, NO_LIMIT);
	cr_expect_eq(usage(pool, KVMM_TENANT_REST), 8);
	cr_assert_eq(kvmm_range_grow(pool, range, 2), 0);
	cr_assert_eq(kvmm_range_split(pool, range, 4, &tail), 0);
	cr_expect_eq(usage(pool, KVMM_TENANT_REST), 10);
	cr_expect_eq(tenant_stat(pool, 1).peak, 0);
	free_range(pool, range);
	free_range(pool, tail);
	cr_expect_eq(usage(pool, KVMM_TENANT_REST), 0);
	range = range_of(pool, 1, 8);
	cr_expect_eq(usage(pool, 1), 8);
	free_range(pool, range);
}

POOL_TEST(quota_range, beyond_max_neither_a_range_nor_its_growth_is_given, make_pool(32))
{
	kvmm_range_t range, other;

	limit(pool, 1, 0, 0, 3, 10);
	range = range_of(pool, 1, 8);
	cr_expect_eq(try_range(pool, 1, 3, 0, &other), -EDQUOT);
	cr_expect_eq(kvmm_range_grow(pool, range, 3), -EDQUOT);
	cr_expect_eq(usage(pool, 1), 8);
	cr_expect_eq(tenant_stat(pool, 1).nr_oom, 2);
	cr_expect_eq(tenant_stat(pool, 1).nr_high, 3);
	cr_expect_eq(kvmm_range_grow(pool, range, 2), 0);
	cr_expect_eq(try_range(pool, 2, 3, 0, &other), 0);
	cr_expect_eq(stat_of(pool).fail_nospc, 0);
	free_range(pool, range);
	free_range(pool, other);
}

POOL_TEST(quota_range, a_tenants_cached_blocks_make_room_below_its_limits, make_cache(32, "lru"))
{
	kvmm_range_t range;

	limit(pool, 1, 0, 0, NO_LIMIT, 6);
	cache(pool, "ABabcd");
	range = range_of(pool, 1, 4);
	cr_expect_str_eq(cached(pool), "ABcd");
	cr_expect_eq(usage(pool, 1), 6);
	cr_expect_eq(tenant_stat(pool, 1).nr_reclaimed, 2);
	cr_assert_eq(kvmm_range_grow(pool, range, 2), 0);
	cr_expect_str_eq(cached(pool), "AB");
	cr_expect_eq(kvmm_range_grow(pool, range, 1), -EDQUOT);
	free_range(pool, range);
}

POOL_TEST(quota_range, beyond_high_cached_blocks_go_and_the_range_is_given, make_cache(32, "lru"))
{
	kvmm_range_t range, more;

	limit(pool, 1, 0, 0, 4, NO_LIMIT);
	cache(pool, "ABab");
	range = range_of(pool, 1, 3);
	cr_expect_str_eq(cached(pool), "ABb");
	more = range_of(pool, 1, 3);
	cr_expect_str_eq(cached(pool), "AB");
	cr_expect_eq(usage(pool, 1), 6);
	free_range(pool, range);
	free_range(pool, more);
}

POOL_TEST(quota_range, who_must_not_evict_is_refused_at_max_and_not_at_high, make_cache(32, "lru"))
{
	kvmm_range_t range;

	limit(pool, 1, 0, 0, 2, 6);
	cache(pool, "ab");
	cr_expect_eq(try_range(pool, 1, 5, KVMM_ALLOC_NO_EVICT, &range), -EDQUOT);
	cr_expect_eq(try_range(pool, 1, 4, KVMM_ALLOC_NO_EVICT, &range), 0);
	cr_expect_str_eq(cached(pool), "ab");
	free_range(pool, range);
}

/* Which of them it is, and whether tenants have limits, is all the same. */
POOL_TEST(quota_range, a_batch_with_one_range_that_may_not_evict_evicts_nothing, make_cache(16, "lru"))
{
	limit(pool, 1, 0, 0, NO_LIMIT, NO_LIMIT);
	cache(pool, "abcdef");
	for (u32 which = 0; which < 2; which++) {
		kvmm_range_t range[2];

		cr_assert_eq(try_range(pool, 1, 4, KVMM_ALLOC_NO_EVICT, &range[which]), 0);
		range[!which] = range_of(pool, 1, 4);
		cr_expect_eq(kvmm_range_grow_many(pool, range, 2, 2), -ENOSPC, "%u", which);
		cr_expect_eq(kvmm_range_grow_many(pool, range, 2, 1), 0, "%u", which);
		cr_expect_str_eq(cached(pool), "abcdef", "%u", which);
		free_range(pool, range[0]);
		free_range(pool, range[1]);
	}
}

/* ---- only what is free now ---- */

/* What a range and private blocks are answered; what they got is given back. */
static int try_now(struct kvmm_pool *pool, u32 nr, u32 flags)
{
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = nr, .tenant = 1,
				      .flags = flags | KVMM_ALLOC_NOWAIT };
	kvmm_mut_t mut[32];
	kvmm_range_t range;
	int err = try_range(pool, 1, nr, ctl.flags, &range);

	if (!err)
		free_range(pool, range);
	cr_expect_eq(kvmm_alloc_as(pool, &ctl, mut), err, "%u, flags %x", nr, flags);
	if (!err)
		cr_expect_eq(kvmm_free(pool, mut, nr), 0);
	return err;
}

static const u32 forbidden[] = { 0, KVMM_ALLOC_NO_EVICT, KVMM_ALLOC_NO_COMPACT,
				 KVMM_ALLOC_NO_EVICT | KVMM_ALLOC_NO_COMPACT };

POOL_TEST(quota_range, beyond_high_free_blocks_are_had_at_once, make_cache(32, "lru"))
{
	kvmm_ref_t held;

	limit(pool, 1, 0, 0, 4, 12);
	held = hold(pool, 'a');
	cache(pool, "AB");
	for (u32 i = 0; i < ARRAY_SIZE(forbidden); i++)
		cr_expect_eq(try_now(pool, 8, forbidden[i]), 0, "%x", forbidden[i]);
	cr_expect_str_eq(cached(pool), "ABa");
	drop(pool, held);
}

/* Its own inactive block goes first, and that is not done now; unless none is to be evicted. */
POOL_TEST(quota_range, beyond_high_blocks_are_not_had_at_once_where_own_ones_go_first,
	  make_cache(32, "lru"))
{
	limit(pool, 1, 0, 0, 4, 12);
	cache(pool, "a");
	for (u32 i = 0; i < ARRAY_SIZE(forbidden); i++)
		cr_expect_eq(try_now(pool, 8, forbidden[i]),
			     forbidden[i] & KVMM_ALLOC_NO_EVICT ? 0 : -EAGAIN, "%x", forbidden[i]);
	cr_expect_str_eq(cached(pool), "a");
	cr_expect_eq(tenant_stat(pool, 1).nr_oom, 0);
}

/* Blocks that are protected from the caller's tenant are no use to it, however long it waits. */
POOL_TEST(quota_range, waiting_does_not_help_to_blocks_that_others_keep, make_cache(8, "lru"))
{
	kvmm_range_t range;

	limit(pool, 2, 4, 0, NO_LIMIT, NO_LIMIT);
	cache(pool, "ABCDEF");
	cr_expect_eq(try_now(pool, 2, 0), 0);
	cr_expect_eq(try_now(pool, 4, 0), -EAGAIN);
	cr_expect_eq(try_now(pool, 5, 0), -ENOSPC);
	cr_expect_eq(try_range(pool, 1, 5, 0, &range), -ENOSPC);
	cr_expect_str_eq(cached(pool), "ABCDEF");
	limit(pool, 2, 3, 0, NO_LIMIT, NO_LIMIT);
	cr_expect_eq(try_now(pool, 5, 0), -EAGAIN);
}

POOL_TEST(quota_range, waiting_helps_to_blocks_that_only_the_own_min_protects, make_cache(8, "lru"))
{
	limit(pool, 1, 8, 0, NO_LIMIT, NO_LIMIT);
	cache(pool, "abcdef");
	cr_expect_eq(try_now(pool, 4, 0), -EAGAIN);
	free_range(pool, range_of(pool, 1, 4));
	cr_expect_str_eq(cached(pool), "cdef");
}

POOL_TEST(quota_range, beyond_max_waiting_helps_only_where_own_blocks_may_go,
	  make_cache(32, "lru"))
{
	limit(pool, 1, 0, 0, NO_LIMIT, 8);
	cache(pool, "aA");
	for (u32 i = 0; i < ARRAY_SIZE(forbidden); i++) {
		cr_expect_eq(try_now(pool, 9, forbidden[i]), -EDQUOT, "%x", forbidden[i]);
		cr_expect_eq(try_now(pool, 8, forbidden[i]),
			     forbidden[i] & KVMM_ALLOC_NO_EVICT ? -EDQUOT : -EAGAIN, "%x",
			     forbidden[i]);
		cr_expect_eq(try_now(pool, 7, forbidden[i]), 0, "%x", forbidden[i]);
	}
	cr_expect_str_eq(cached(pool), "Aa");
	cr_expect_eq(tenant_stat(pool, 1).nr_oom, 12);
	cr_expect_eq(stat_of(pool).fail_nospc, 0);
}

POOL_TEST(quota_range, limits_do_not_refuse_promises, make_cache(16, "lru"))
{
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = 8, .tenant = 1 };
	kvmm_promise_t promise;
	kvmm_range_t range;

	limit(pool, KVMM_TENANT_REST, 0, 0, NO_LIMIT, 4);
	limit(pool, 1, 0, 0, NO_LIMIT, 14);
	range = range_of(pool, 1, 12);
	cr_expect_eq(kvmm_promise_make(pool, &ctl, &promise), -ENOSPC);
	ctl.flags = KVMM_ALLOC_NOWAIT;
	cr_expect_eq(kvmm_promise_make(pool, &ctl, &promise), -ENOSPC);
	free_range(pool, range);
	cache(pool, "abcdefghij");
	ctl.flags = 0;
	cr_expect_eq(kvmm_promise_make(pool, &ctl, &promise), 0);
	cr_expect_str_eq(cached(pool), "cdefghij");
	cr_expect_eq(tenant_stat(pool, KVMM_TENANT_REST).nr_oom, 0);
	cr_expect_eq(kvmm_promise_end(pool, promise), 8);
}

/* Own blocks were picked for max, then others are missing: all are put back. */
POOL_TEST(quota_range, a_range_that_fails_in_the_end_leaves_everything_where_it_was,
	  make_cache(8, "lru"))
{
	kvmm_range_t other, range;

	limit(pool, 1, 0, 0, NO_LIMIT, 5);
	limit(pool, 2, 2, 0, NO_LIMIT, NO_LIMIT);
	cache(pool, "abcdAB");
	other = range_of(pool, 3, 1);
	drop(pool, use(pool, 'a'));
	/* "bcda" own, one free block, "AB" are protected: 5 of 6. */
	cr_expect_eq(try_range(pool, 1, 5, KVMM_ALLOC_NO_COMPACT, &range), 0);
	free_range(pool, range);
	cache(pool, "abcd");
	cr_expect_eq(try_range(pool, 3, 6, KVMM_ALLOC_NO_COMPACT, &range), -ENOSPC);
	cr_expect_str_eq(cached(pool), "ABabcd");
	limit(pool, 1, 0, 0, NO_LIMIT, 8);
	cr_expect_eq(try_range(pool, 1, 6, KVMM_ALLOC_NO_COMPACT, &range), -ENOSPC);
	cr_expect_str_eq(cached(pool), "ABabcd");
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_str_eq(lost_for(pool, 1, 5), "abcd");
	free_range(pool, other);
}

POOL_TEST(quota_range, own_victims_are_put_back_when_others_are_missing, make_cache(8, "lru"))
{
	kvmm_range_t other, range;

	limit(pool, 1, 0, 0, NO_LIMIT, 6);
	limit(pool, 2, 2, 0, NO_LIMIT, NO_LIMIT);
	cache(pool, "abAB");
	other = range_of(pool, 3, 4);
	/* One own block goes for max, and one more for room; that is two of five. */
	cr_expect_eq(try_range(pool, 1, 5, 0, &range), -ENOSPC);
	cr_expect_str_eq(cached(pool), "ABab");
	cr_expect_eq(usage(pool, 1), 2);
	cr_expect_eq(tenant_stat(pool, 1).nr_evicted, 0);
	cr_expect_str_eq(lost_for(pool, 1, 2), "ab");
	free_range(pool, other);
}

POOL_TEST(quota_range, moving_blocks_charges_nobody, make_cache(32, "lru"))
{
	struct kvmm_compact goal = { .size = sizeof(goal) };
	kvmm_range_t range[4];

	limit(pool, 1, 0, 0, NO_LIMIT, NO_LIMIT);
	limit(pool, 2, 0, 0, NO_LIMIT, NO_LIMIT);
	for (u32 i = 0; i < 4; i++) {
		range[i] = range_of(pool, 1 + i % 2, 4);
		cache(pool, i % 2 ? (char[]){ 'a' + i, 0 } : (char[]){ 'A' + i, 0 });
	}
	free_range(pool, range[0]);
	free_range(pool, range[2]);
	cr_assert_eq(kvmm_pool_compact(pool, &goal), 0);
	cr_expect_gt(goal.moved, 0);
	cr_expect_eq(usage(pool, 1), 2);
	cr_expect_eq(usage(pool, 2), 10);
	cr_expect_str_eq(cached(pool), "ACbd");
	free_range(pool, range[1]);
	free_range(pool, range[3]);
}

POOL_TEST(quota_range, a_pool_without_cache_has_nothing_to_reclaim, make_pool(8))
{
	kvmm_range_t range;

	limit(pool, 1, 0, 0, 1, 2);
	range = range_of(pool, 1, 2);
	cr_expect_eq(squeeze(pool, 1, 1), 0);
	free_range(pool, range);
}

POOL_TEST(quota_range, min_of_another_one_makes_a_range_fail, make_cache(8, "lru"))
{
	kvmm_range_t range;

	limit(pool, 1, 3, 0, NO_LIMIT, NO_LIMIT);
	cache(pool, "abcdABCD");
	cr_expect_eq(try_range(pool, 2, 6, 0, &range), -ENOSPC);
	cr_expect_str_eq(cached(pool), "ABCDabcd");
	cr_expect_eq(try_range(pool, 2, 5, 0, &range), 0);
	cr_expect_str_eq(cached(pool), "bcd");
	free_range(pool, range);
}
