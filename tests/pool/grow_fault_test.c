// SPDX-License-Identifier: Apache-2.0
/* Ranges that grow while host memory runs out: only extents beyond the eighth want any. */
#include "pool/internal.h"
#include "tests/pool/util.h"
#include "tests/support/fault.h"

TestSuite(grow_fault, .init = fault_begin, .fini = fault_end);

/* Every second block of 64 is free. */
static kvmm_range_t comb(struct kvmm_pool *pool)
{
	kvmm_range_t hole[32];

	for (u32 i = 0; i < 32; i++) {
		hole[i] = take(pool, 1, 0);
		take(pool, 1, 0);
	}
	for (u32 i = 0; i < 32; i++)
		cr_assert_eq(kvmm_range_free(pool, hole[i]), 0);
	return take(pool, 1, KVMM_ALLOC_NO_COMPACT);
}

static void compare(struct kvmm_pool *pool, const struct kvmm_pool_stat *before, int nr_ext,
		    kvmm_range_t range)
{
	struct kvmm_pool_stat after = stat_of(pool);

	cr_expect_eq(after.nr_free, before->nr_free);
	cr_expect_eq(after.allocs, before->allocs);
	cr_expect_eq(after.metadata_bytes, before->metadata_bytes);
	cr_expect_eq(kvmm_range_extents(pool, range, NULL, 0), nr_ext);
	cr_expect_eq(kvmm_validate(pool), 0);
}

POOL_TEST(grow_fault, a_range_grows_by_all_of_its_extents_or_by_none, make_pool(64))
{
	kvmm_range_t range = comb(pool);
	struct kvmm_pool_stat before;

	cr_assert_eq(kvmm_range_grow(pool, range, 4), 0);
	before = stat_of(pool);
	expect_no_memory(kvmm_range_grow(pool, range, 6));
	compare(pool, &before, 5, range);
	cr_expect_eq(kvmm_range_grow(pool, range, 6), 0);
	cr_expect_eq(kvmm_range_extents(pool, range, NULL, 0), 11);
}

/* The second range needs a table, which there is no memory for: the first is cut back. */
POOL_TEST(grow_fault, a_batch_grows_as_a_whole_or_not_at_all, make_pool(64))
{
	kvmm_range_t range[2] = { { 0, 0 }, comb(pool) };
	struct kvmm_pool_stat before;

	cr_assert_eq(kvmm_range_grow(pool, range[1], 4), 0);
	cr_assert_eq(kvmm_range_grow(pool, range[1], 3), 0);
	range[0] = take(pool, 1, KVMM_ALLOC_NO_COMPACT);
	before = stat_of(pool);
	expect_no_memory(kvmm_range_grow_many(pool, range, 2, 1));
	compare(pool, &before, 1, range[0]);
	compare(pool, &before, 8, range[1]);
	cr_expect_eq(kvmm_range_grow_many(pool, range, 2, 1), 0);
	cr_expect_eq(kvmm_range_extents(pool, range[1], NULL, 0), 9);
}

POOL_TEST(grow_fault, a_range_is_split_into_two_or_stays_whole, make_pool(64))
{
	kvmm_range_t range = comb(pool), tail;
	struct kvmm_pool_stat before;

	for (u32 i = 0; i < 19; i++)
		cr_assert_eq(kvmm_range_grow(pool, range, 1), 0);
	before = stat_of(pool);
	expect_no_memory(kvmm_range_split(pool, range, 5, &tail));
	compare(pool, &before, 20, range);
	cr_expect_eq(kvmm_range_split(pool, range, 5, &tail), 0);
	cr_expect_eq(kvmm_range_extents(pool, tail, NULL, 0), 15);
}
