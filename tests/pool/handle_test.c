// SPDX-License-Identifier: Apache-2.0
/* Handles: stale ones, made-up ones, and those of another pool. */
#include "pool/internal.h"
#include "tests/pool/util.h"

static void expect_refused(struct kvmm_pool *pool, kvmm_range_t range, int want)
{
	struct kvmm_range_info info;
	struct kvmm_extent ext[1];
	kvmm_range_t tail;

	cr_expect_eq(kvmm_range_get(pool, range), want);
	cr_expect_eq(kvmm_range_free(pool, range), want);
	cr_expect_eq(kvmm_range_extents(pool, range, ext, 1), want);
	cr_expect_eq(kvmm_range_grow(pool, range, 1), want);
	cr_expect_eq(kvmm_range_shrink(pool, range, 1), want);
	cr_expect_eq(kvmm_range_shrink_front(pool, range, 1), want);
	cr_expect_eq(kvmm_range_split(pool, range, 1, &tail), want);
	cr_expect_eq(kvmm_range_pin(pool, range), want);
	cr_expect_eq(kvmm_range_unpin(pool, range), want);
	cr_expect_eq(kvmm_range_get_info(pool, range, &info), want);
}

POOL_TEST(handle, of_a_freed_range_is_stale, make_pool(16))
{
	kvmm_range_t range = take(pool, 2, 0), again;

	kvmm_range_free(pool, range);
	expect_refused(pool, range, -ESTALE);
	again = take(pool, 2, 0);
	cr_expect_eq(again.index, range.index);
	expect_refused(pool, range, -ESTALE);
	cr_expect_eq(kvmm_range_free(pool, again), 0);
}

POOL_TEST(handle, that_was_never_given_out_is_invalid, make_pool(16))
{
	kvmm_range_t range;

	expect_refused(pool, (kvmm_range_t){ 0, 0 }, -EINVAL);
	range = take(pool, 2, 0);
	expect_refused(pool, (kvmm_range_t){ 0, 0 }, -EINVAL);
	expect_refused(pool, (kvmm_range_t){ range.index, range.gen + 1 }, -EINVAL);
	expect_refused(pool, (kvmm_range_t){ range.index + 1, range.gen }, -EINVAL);
	expect_refused(pool, (kvmm_range_t){ UINT32_MAX, range.gen }, -EINVAL);
	expect_refused(pool, (kvmm_range_t){ CHUNK_SLOTS, range.gen }, -EINVAL);
}

Test(handle, of_another_pool_is_invalid)
{
	struct kvmm_pool *pool __cleanup(end_pool) = make_pool(16), *other = make_pool(16);
	kvmm_range_t range = take(pool, 2, 0);

	take(other, 2, 0);
	expect_refused(other, range, -EINVAL);
	end_pool(other);
}

POOL_TEST(handle, generations_are_never_zero_and_never_used_twice, make_pool(16))
{
	kvmm_range_t range = take(pool, 1, 0);
	struct slot *slot = slot_at(pool, range.index);
	u32 last = pool->gen_base == 1 ? UINT32_MAX : pool->gen_base - 1;

	pool->count.range_gens += UINT32_MAX - slot->gen;
	slot->gen = range.gen = UINT32_MAX;
	cr_expect_eq(kvmm_range_free(pool, range), 0);
	range = take(pool, 1, 0);
	cr_expect_eq(range.gen, 1);
	cr_expect_eq(kvmm_validate(pool), 0);

	pool->count.range_gens += last - slot->gen;
	slot->gen = range.gen = last;
	cr_expect_eq(kvmm_range_free(pool, range), 0);
	cr_expect_eq(pool->nr_retired, 1);
	cr_expect_eq(kvmm_validate(pool), 0);
	range = take(pool, 1, 0);
	cr_expect_neq(slot_at(pool, range.index), slot);
}

POOL_TEST(handle, references_cannot_overflow, make_pool(16))
{
	kvmm_range_t range = take(pool, 1, 0);
	struct slot *slot = slot_at(pool, range.index);

	slot->refs = slot->pins = UINT32_MAX;
	cr_expect_eq(kvmm_range_get(pool, range), -EOVERFLOW);
	cr_expect_eq(kvmm_range_pin(pool, range), -EOVERFLOW);
	cr_expect_eq(slot->refs, UINT32_MAX);
	slot->refs = 1;
	slot->pins = 0;
}

POOL_TEST(handle, of_a_private_block_ends_with_it, make_cache(16, "lru"))
{
	kvmm_key_t key = key_of(1);
	kvmm_mut_t mut, forged;
	kvmm_ref_t ref;

	cr_assert_eq(kvmm_alloc(pool, 1, &mut), 0);
	cr_expect_eq(kvmm_block_of_mut(pool, mut), 0);
	cr_expect_eq(kvmm_block_of_ref(pool, (kvmm_ref_t){ mut.index, mut.gen }), -EINVAL);
	cr_expect_eq(kvmm_register(pool, &mut, &key, 1, &ref), 0);
	cr_expect_eq(kvmm_register(pool, &mut, &key, 1, &ref), -ESTALE);
	cr_expect_eq(kvmm_free(pool, &mut, 1), -ESTALE);
	cr_expect_eq(kvmm_block_of_mut(pool, mut), -ESTALE);
	forged = (kvmm_mut_t){ 16, mut.gen };
	cr_expect_eq(kvmm_free(pool, &forged, 1), -EINVAL);
	forged = (kvmm_mut_t){ 5, mut.gen };
	cr_expect_eq(kvmm_free(pool, &forged, 1), -EINVAL);
	cr_expect_eq(kvmm_put_many(pool, &ref, 1), 0);
	cr_expect_eq(kvmm_put_many(pool, &ref, 1), -ESTALE);
	cr_expect_eq(kvmm_reset_inactive(pool), 1);
	cr_expect_eq(kvmm_block_of_ref(pool, ref), -ESTALE);
}

POOL_TEST(handle, twice_in_a_batch_is_refused_and_nothing_done, make_cache(16, "lru"))
{
	kvmm_mut_t mut[3];
	kvmm_ref_t ref[3];
	kvmm_key_t key[3] = { key_of(1), key_of(2), key_of(3) };
	struct kvmm_pool_stat before, after;

	cr_assert_eq(kvmm_alloc(pool, 2, mut), 0);
	mut[2] = mut[0];
	before = stat_of(pool);
	cr_expect_eq(kvmm_free(pool, mut, 3), -EINVAL);
	cr_expect_eq(kvmm_register(pool, mut, key, 3, ref), -EINVAL);
	after = stat_of(pool);
	cr_expect_arr_eq(&before, &after, sizeof(before));

	cr_assert_eq(kvmm_register(pool, mut, key, 2, ref), 0);
	ref[2] = ref[0];
	before = stat_of(pool);
	cr_expect_eq(kvmm_put_many(pool, ref, 3), -EINVAL);
	after = stat_of(pool);
	cr_expect_arr_eq(&before, &after, sizeof(before));
	cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
}

POOL_TEST(handle, two_references_may_be_dropped_in_one_batch, make_cache(16, "lru"))
{
	kvmm_key_t key = key_of(9);
	kvmm_ref_t ref[3];

	cache_keys(pool, 9, 1);
	cr_expect_eq(kvmm_match(pool, &key, 1, &ref[0]), 1);
	cr_expect_eq(kvmm_match(pool, &key, 1, &ref[1]), 1);
	ref[2] = ref[0];
	cr_expect_eq(kvmm_put_many(pool, ref, 3), -EINVAL);
	cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
	cr_expect_eq(stat_of(pool).nr_inactive, 1);
}

POOL_TEST(handle, in_the_middle_of_a_bad_batch_stays_valid, make_cache(16, "lru"))
{
	kvmm_mut_t mut[3];

	cr_assert_eq(kvmm_alloc(pool, 3, mut), 0);
	mut[1].gen++;
	cr_expect_eq(kvmm_free(pool, mut, 3), -EINVAL);
	cr_expect_eq(stat_of(pool).nr_state[KVMM_BLOCK_PRIVATE], 3);
	mut[1].gen--;
	cr_expect_eq(kvmm_free(pool, mut, 3), 0);
	cr_expect_eq(kvmm_free(pool, mut, 3), -ESTALE);
}
