// SPDX-License-Identifier: Apache-2.0
/* A call that is refused, or undone, leaves the order of eviction as it was, whatever the policy. */
#include "gang_util.h"

static struct kvmm_pool *pool;

static void make(const char *policy, u32 nr_blocks)
{
	make_pools(&pool, 1, nr_blocks, policy);
}

static void end(void)
{
	end_pools(&pool, 1);
}

static void refuse_range(u32 nr)
{
	kvmm_range_t range;

	cr_assert_eq(kvmm_range_alloc(pool, nr, KVMM_RUNS(8), &range), -ENOSPC);
}

static void abort_gang(u32 nr)
{
	struct kvmm_gang_want want = want_range(0, nr, 8, 0);
	struct kvmm_gang *gang;

	cr_assert_eq(reserve(&pool, &want, 1, &gang), 0);
	cr_assert_eq(kvmm_gang_abort(gang), 0);
}

static void expect_no_trace(const char *policy, void (*call)(u32), u32 nr)
{
	struct digests before = digests_of(&pool, 1), after;

	call(nr);
	cr_assert_eq(kvmm_validate(pool), 0, "%s", policy);
	after = digests_of(&pool, 1);
	cr_expect_str_eq(differ(&before, &after), "", "%s: %s", policy, differ(&before, &after));
}

static void for_all_policies(void (*test)(const char *policy))
{
	for_each_policy(policy)
		test(policy);
}

/* A chain's end is evicted, and its entry waits without a name, beside what it followed. */
static void reuse_child(const char *policy)
{
	kvmm_mut_t muts[2];
	kvmm_ref_t refs[3];

	make(policy, 4);
	register_keys(pool, 1, 3, refs);
	cr_assert_eq(kvmm_put_many(pool, refs, 2), 0);
	cr_assert_eq(kvmm_alloc(pool, 2, muts), 0);
	cr_assert_eq(kvmm_free(pool, muts, 2), 0);
	expect_no_trace(policy, refuse_range, 4);
	expect_no_trace(policy, abort_gang, 3);
	cr_assert_eq(kvmm_put(pool, refs[2]), 0);
	end();
}

TEST_CALL(refused_order, a_block_without_a_name_follows_nobody, for_all_policies(reuse_child))

/* The policy does not know that the second block follows the first, whose content is new. */
static void fill_parent_anew(const char *policy)
{
	const kvmm_key_t key = key_of(1);
	kvmm_mut_t muts[3];
	kvmm_ref_t refs[2];

	make(policy, 4);
	register_keys(pool, 1, 2, refs);
	cr_assert_eq(kvmm_put(pool, refs[0]), 0);
	cr_assert_eq(kvmm_alloc(pool, 3, muts), 0);
	cr_assert_eq(kvmm_register(pool, muts + 2, &key, 1, refs), 0);
	cr_assert_eq(kvmm_put_many(pool, (kvmm_ref_t[]){ refs[1], refs[0] }, 2), 0);
	expect_no_trace(policy, refuse_range, 4);
	expect_no_trace(policy, abort_gang, 2);
	cr_assert_eq(kvmm_free(pool, muts, 2), 0);
	end();
}

TEST_CALL(refused_order, a_child_that_goes_instead_of_its_parent_comes_back_behind_it,
	  for_all_policies(fill_parent_anew))
