// SPDX-License-Identifier: Apache-2.0
/* Checksums of registered blocks: taken, compared when they move, and what becomes of bad ones. */
#include <kvmm/ext/name.h>

#include "tests/pool/util.h"

#define NR	8u

static void verify(struct kvmm_pool *pool, u32 sample_pm)
{
	struct kvmm_verify_attr attr = { .size = sizeof(attr), .sample_pm = sample_pm };

	cr_assert_eq(kvmm_verify_set(pool, &attr), 0);
}

static void fill(struct kvmm_pool *pool, u32 block, u8 value)
{
	u8 buf[TEST_BLOCK_BYTES];

	memset(buf, value, sizeof(buf));
	cr_assert_eq(kvmm_block_write(pool, block, 0, buf, sizeof(buf)), 0);
}

static kvmm_ref_t ref[NR];

/* "A.A.A.A.": four blocks of four contents. */
static struct kvmm_pool *sparse(u32 sample_pm)
{
	struct kvmm_pool *pool = make_cache(NR, "lru");
	kvmm_key_t key[NR];
	kvmm_mut_t mut[NR];

	verify(pool, sample_pm);
	for (u32 i = 0; i < NR; i++)
		key[i] = key_of(i);
	cr_assert_eq(kvmm_alloc(pool, NR, mut), 0);
	for (u32 i = 0; i < NR; i++)
		fill(pool, kvmm_block_of_mut(pool, mut[i]), 1 + i);
	cr_assert_eq(kvmm_register(pool, mut, key, NR, ref), 0);
	for (u32 i = 1; i < NR; i += 2) {
		cr_assert_eq(kvmm_set_reset(pool, &ref[i], 1, 1), 0);
		cr_assert_eq(kvmm_put(pool, ref[i]), 0);
		ref[i / 2 + 1] = ref[i + 1 < NR ? i + 1 : i];
	}
	return pool;
}

/* Until nothing is left that was asked for. */
static void settle(struct kvmm_pool *pool)
{
	for (u32 i = 0; i < 8; i++)
		cr_assert_geq(kvmm_verify_tick(pool), 0);
	cr_assert_eq(kvmm_validate(pool), 0);
}

static int start(struct kvmm_pool *pool, u32 mode)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = 3 };

	return kvmm_compact_start(pool, &goal, mode);
}

static bool is_cached(struct kvmm_pool *pool, u32 number)
{
	kvmm_key_t key = key_of(number);

	return kvmm_match_len(pool, &key, 1);
}

POOL_TEST(verify, registered_blocks_are_summed_beside, sparse(1000))
{
	cr_expect_eq(verified(pool).summed, 0, "registering does not wait");
	cr_expect_gt(verified(pool).pending, 0);
	settle(pool);
	cr_expect_eq(verified(pool).summed, 4);
	cr_expect_eq(verified(pool).pending, 0);
	cr_expect_eq(kvmm_verify_blocks(pool, ref, 4), 4);
	cr_expect_gt(verified(pool).checks, 4, "ticks have gone round");
	cr_expect_eq(verified(pool).bad_blocks, 0);
}

POOL_TEST(verify, a_rate_of_nothing_sums_nothing, sparse(0))
{
	settle(pool);
	cr_expect_eq(verified(pool).sums, 0);
	cr_expect_eq(kvmm_verify_blocks(pool, ref, 4), 0);
}

POOL_TEST(verify, names_are_sampled_at_the_rate, make_cache(2000, "lru"))
{
	verify(pool, 250);
	for (u32 i = 0; i < 2000; i += 50)
		cache_keys(pool, i, 50);
	for (u32 i = 0; i < 100; i++)
		kvmm_verify_tick(pool);
	cr_expect_gt(verified(pool).summed, 400);
	cr_expect_lt(verified(pool).summed, 600);
}

/* What is pinned before it was summed has to wait; the others go on being compared. */
POOL_TEST(verify, a_pinned_block_keeps_no_other_from_being_looked_at, sparse(1000))
{
	u64 checks;

	cr_assert_eq(kvmm_pin_many(pool, &ref[2], 1), 0);
	settle(pool);
	cr_expect_eq(verified(pool).pending, 1);
	cr_expect_eq(verified(pool).summed, 3);
	checks = verified(pool).checks;
	settle(pool);
	cr_expect_geq(verified(pool).checks, checks + 3);
	cr_assert_eq(kvmm_unpin_many(pool, &ref[2], 1), 0);
	settle(pool);
	cr_expect_eq(verified(pool).summed, 4);
}

POOL_TEST(verify, nobody_finds_a_block_whose_content_has_changed, sparse(1000))
{
	u32 block;

	settle(pool);
	fill(pool, kvmm_block_of_ref(pool, ref[1]), 99);
	cr_expect(is_cached(pool, 2));
	settle(pool);
	cr_expect_eq(verified(pool).bad_blocks, 1);
	cr_expect_not(is_cached(pool, 2));
	cr_expect(is_cached(pool, 0) && is_cached(pool, 4) && is_cached(pool, 6));
	cr_expect_eq(kvmm_blocks_of_refs(pool, &ref[1], 1, &block), -EIO);
	cr_expect_eq(kvmm_blocks_of_refs(pool, &ref[0], 1, &block), 0);
	cr_expect_eq(kvmm_put_many(pool, ref, 4), 0);
	cr_expect_eq(stat_of(pool).nr_free, 5, "it has gone with its last reference");
	cache_keys(pool, 20, 5);
	settle(pool);
	cr_expect_eq(verified(pool).bad_blocks, 1);
}

POOL_TEST(verify, blocks_are_compared_on_demand, sparse(1000))
{
	settle(pool);
	fill(pool, kvmm_block_of_ref(pool, ref[3]), 99);
	cr_expect_eq(kvmm_verify_blocks(pool, ref, 3), 3);
	cr_expect_eq(kvmm_verify_blocks(pool, ref, 4), -EIO);
	cr_expect_not(is_cached(pool, 6));
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_put_many(pool, ref, 4), 0);
	cr_expect_eq(kvmm_verify_blocks(pool, ref, 1), -ESTALE);
}

/* The content changes behind kvmm's back after the sums: whatever moves is wrong. */
POOL_TEST(verify, a_wrong_copy_is_not_published, sparse(1000))
{
	struct kvmm_step_stat stat;

	settle(pool);
	for (u32 i = 0; i < 4; i++)
		fill(pool, kvmm_block_of_ref(pool, ref[i]), 99);
	cr_assert_eq(start(pool, KVMM_MOVE_BESIDE), 0);
	cr_expect_eq(kvmm_compact_poll(pool), 0);
	cr_assert_eq(kvmm_step_get_stat(pool, &stat), 0);
	cr_expect_eq(stat.published_moves, 0);
	cr_expect_gt(verified(pool).bad_copies, 0);
	cr_expect_eq(kvmm_validate(pool), 0);
	settle(pool);
	cr_expect_eq(verified(pool).bad_blocks, 4, "and the sources were wrong");
}

POOL_TEST(verify, good_copies_are_published, sparse(1000))
{
	u64 checks;

	settle(pool);
	checks = verified(pool).checks;
	cr_assert_eq(start(pool, KVMM_MOVE_BESIDE), 0);
	cr_expect_eq(kvmm_compact_poll(pool), 0);
	cr_expect_gt(verified(pool).checks, checks);
	cr_expect_eq(verified(pool).bad_copies, 0);
	cr_expect_geq(stat_of(pool).largest, 3);
	cr_expect_eq(kvmm_verify_blocks(pool, ref, 4), 4);
}

/* Between steps and with the world stopped places are new at once: they are looked at afterwards. */
Test(verify, what_has_moved_otherwise_is_checked_next)
{
	for (u32 i = 0; i < 2; i++) {
		struct kvmm_pool *pool __cleanup(end_pool) = sparse(1000);
		struct kvmm_compact goal = { .size = sizeof(goal), .want_run = 3 };

		settle(pool);
		if (i)
			cr_assert_eq(kvmm_put_many(pool, ref, 4), 0);
		if (i)
			cr_assert_eq(kvmm_pool_compact(pool, &goal), 0);
		else
			cr_assert_eq(start(pool, KVMM_MOVE_BETWEEN), 0);
		cr_expect_gt(verified(pool).pending, 0);
		settle(pool);
		cr_expect_eq(verified(pool).pending, 0);
		cr_expect_eq(verified(pool).bad_blocks, 0);
	}
}

Test(verify, misuse_is_refused)
{
	struct kvmm_verify_attr attr = { .size = sizeof(attr), .sample_pm = 1001 };
	struct kvmm_pool *pool __cleanup(end_pool) = make_cache(4, "lru"), *plain = make_pool(4);

	cr_expect_eq(kvmm_verify_set(pool, &attr), -EINVAL);
	attr.sample_pm = 1000;
	cr_expect_eq(kvmm_verify_set(plain, &attr), -EOPNOTSUPP);
	cr_expect_eq(kvmm_verify_tick(plain), 0);
	cr_expect_eq(kvmm_verify_tick(NULL), -EINVAL);
	end_pool(plain);
}

POOL_TEST(verify, renamed_content_is_summed_anew, sparse(1000))
{
	struct kvmm_name name = { .key = key_of(77) };

	settle(pool);
	/* More tokens were appended. */
	fill(pool, kvmm_block_of_ref(pool, ref[0]), 99);
	cr_expect_eq(kvmm_names_rename(pool, &name, ref, 1), 0);
	settle(pool);
	cr_expect(is_cached(pool, 77));
	cr_expect_eq(kvmm_verify_blocks(pool, ref, 4), 4);
	cr_expect_eq(verified(pool).bad_blocks, 0);
}
