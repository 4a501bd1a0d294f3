// SPDX-License-Identifier: Apache-2.0
/* Forgetting keys: by block id, all that nobody holds, everything. */
#include "tests/pool/life_util.h"

/* ---- by block id ---- */

POOL_TEST(life_forget, each_kind_of_block_by_its_id, make_life(16, "lru", KVMM_POOL_NULL_BLOCK, 0))
{
	u32 all[16], nr = 0;
	kvmm_range_t range;
	kvmm_staged_t staged;
	kvmm_ref_t ref;
	kvmm_mut_t mut;

	make_private(pool, 1, &mut);
	make_staged(pool, 0, 1, &staged);
	make_active(pool, 1, 1, &ref);
	cache_keys(pool, 2, 2);
	range = take(pool, 2, 0);
	cr_expect_str_eq(picture(pool), "NPSAII##........");
	for (u32 i = 0; i < 16; i++)
		all[nr++] = i;
	cr_expect_eq(kvmm_evict_blocks(pool, all, nr), 3);
	cr_expect_str_eq(picture(pool), "NPSA..##........");
	cr_expect_eq(kvmm_match_len(pool, keys_from(1, 1), 1), 0);
	expect_refused(pool, kvmm_evict_blocks(pool, all, nr), 0);
	cr_expect_eq(kvmm_put_many(pool, &ref, 1), 0);
	cr_expect_str_eq(picture(pool), "NPS...##........");
	cr_expect_eq(kvmm_free(pool, &mut, 1), 0);
	cr_expect_eq(kv_free_staged(pool, &staged, 1), 0);
	cr_expect_eq(kvmm_range_free(pool, range), 0);
}

POOL_TEST(life_forget, an_id_may_stand_twice_but_not_for_nothing, make_cache(8, "lru"))
{
	u32 twice[3] = { 1, 0, 1 }, bad[3] = { 0, 1, 8 };

	cache_keys(pool, 0, 3);
	expect_refused(pool, kvmm_evict_blocks(pool, bad, 3), -EINVAL);
	bad[2] = UINT32_MAX;
	expect_refused(pool, kvmm_evict_blocks(pool, bad, 3), -EINVAL);
	cr_expect_eq(kvmm_evict_blocks(pool, twice, 3), 2);
	cr_expect_str_eq(picture(pool), "..I.....");
}

POOL_TEST(life_forget, who_holds_a_hidden_block_keeps_it, make_cache(8, "lfu"))
{
	kvmm_ref_t ref, got;
	kvmm_weak_t weak;
	u32 block = 0;

	make_active(pool, 5, 1, &ref);
	weak = kvmm_weak_of(ref);
	cr_expect_eq(kvmm_evict_blocks(pool, &block, 1), 1);
	cr_expect_str_eq(refs_picture(pool), "1.......");
	cr_expect_eq(found_under(pool, 5), -1);
	expect_refused(pool, kvmm_upgrade_many(pool, &weak, 1, &got), 0);
	/* Its holder may do what a holder may do. */
	cr_expect_eq(kvmm_get_many(pool, &ref, 1), 0);
	cr_expect_eq(kvmm_pin_many(pool, &ref, 1), 0);
	cr_expect_eq(kvmm_touch_many(pool, &ref, 1), 0);
	cr_expect_eq(kvmm_block_of_ref(pool, ref), 0);
	cr_expect_eq(kvmm_unpin_many(pool, &ref, 1), 0);
	cr_expect_eq(kvmm_put_many(pool, &ref, 1), 0);
	/* But not keep it beyond that. */
	cr_expect_eq(kvmm_set_reset(pool, &ref, 1, 0), 0);
	cr_expect_eq(kvmm_put_many(pool, &ref, 1), 0);
	cr_expect_str_eq(picture(pool), "........");
}

POOL_TEST(life_forget, a_new_block_takes_the_name_of_a_hidden_one, make_cache(8, "lru"))
{
	kvmm_ref_t old, new;
	u32 blocks[2] = { 0, 1 };

	make_active(pool, 5, 1, &old);
	cr_expect_eq(kvmm_evict_blocks(pool, &blocks[0], 1), 1);
	cr_expect_eq(publish_as(pool, KVMM_DUP_ALLOW, 5, 1, &new), 0);
	cr_expect_eq(found_under(pool, 5), 1);
	cr_expect_eq(kvmm_evict_blocks(pool, &blocks[1], 1), 1);
	cr_expect_eq(found_under(pool, 5), -1);
	cr_expect_eq(kvmm_put_many(pool, &old, 1), 0);
	cr_expect_eq(kvmm_put_many(pool, &new, 1), 0);
	cr_expect_str_eq(picture(pool), "........");
}

Test(life_forget, every_policy_loses_what_is_evicted_by_id)
{
	for_each_policy(policy) {
		struct kvmm_pool *pool __cleanup(end_pool) = make_cache(16, policy);
		u32 blocks[3] = { 3, 7, 11 }, order[16];
		kvmm_ref_t ref[4];

		cache_keys(pool, 0, 12);
		make_active(pool, 12, 4, ref);
		cr_expect_eq(kvmm_evict_blocks(pool, blocks, 3), 3, "%s", policy);
		cr_expect_eq(kvmm_validate(pool), 0);
		cr_expect_eq(stat_of(pool).nr_free, 3);
		cr_expect_eq(stat_of(pool).nr_inactive, 9);
		cr_expect_eq(kvmm_put_many(pool, ref, 4), 0);
		cr_expect_eq(eviction_order(pool, order, 16), 13);
	}
}

/* ---- all that nobody holds ---- */

Test(life_forget, an_elder_that_a_held_duplicate_holds_stays)
{
	static const char *const policies[] = { "lru", "lru-classic", "slru", "glfu" };

	for (u32 p = 0; p < ARRAY_SIZE(policies); p++) {
		struct kvmm_pool *pool __cleanup(end_pool) = make_cache(8, policies[p]);
		kvmm_ref_t ref[4];
		kvmm_mut_t mut;

		make_active(pool, 5, 1, &ref[0]);
		for (u32 i = 1; i < 4; i++)
			publish_as(pool, KVMM_DUP_HOLD, 5, 1, &ref[i]);
		cr_expect_str_eq(refs_picture(pool), "4111....");
		cr_expect_eq(kvmm_put_many(pool, ref, 3), 0);
		cr_expect_eq(kvmm_reset_inactive(pool), 0);
		cr_expect_str_eq(refs_picture(pool), "1..1....");
		cr_expect_eq(kvmm_put_many(pool, &ref[3], 1), 0);
		make_private(pool, 1, &mut);
		cr_expect_eq(kvmm_free(pool, &mut, 1), 0);
		cr_expect_eq(kvmm_reset_inactive(pool), 1, "%s", policies[p]);
		cr_expect_str_eq(picture(pool), "........");
		cr_expect_eq(stat_of(pool).nr_free, 8);
		cr_expect_eq(stat_of(pool).evictions, 0);
	}
}

/* ---- everything ---- */

static void expect_busy(struct kvmm_pool *pool)
{
	cache_keys(pool, 100, 2);
	expect_refused(pool, kvmm_reset_cache(pool), -EBUSY);
}

POOL_TEST(life_forget, everything_is_forgotten_only_if_nothing_is_held,
	  make_life(32, "lru", KVMM_POOL_NULL_BLOCK, KVMM_DUP_REJECT))
{
	kvmm_range_t range;
	kvmm_staged_t staged;
	kvmm_ref_t ref;
	kvmm_mut_t mut;

	make_private(pool, 1, &mut);
	expect_busy(pool);
	cr_assert_eq(kvmm_free(pool, &mut, 1), 0);
	make_staged(pool, 0, 1, &staged);
	expect_busy(pool);
	cr_assert_eq(kv_free_staged(pool, &staged, 1), 0);
	range = take(pool, 1, 0);
	expect_busy(pool);
	cr_assert_eq(kvmm_range_free(pool, range), 0);
	make_active(pool, 0, 1, &ref);
	expect_busy(pool);
	cr_assert_eq(kvmm_pin_many(pool, &ref, 1), 0);
	cr_assert_eq(kvmm_put_many(pool, &ref, 1), 0);
	expect_busy(pool);
	cr_assert_eq(kvmm_unpin_many(pool, &ref, 1), 0);
	cr_expect_eq(kvmm_reset_cache(pool), 3);
	cr_expect_eq(stat_of(pool).nr_free, 31);
	cr_expect_eq(kvmm_reset_cache(pool), 0);
}

Test(life_forget, duplicates_are_forgotten_with_all_that_they_hold)
{
	static const char *const policies[] = { "lru", "lru-classic", "lfu" };

	for (u32 p = 0; p < ARRAY_SIZE(policies); p++) {
		struct kvmm_pool *pool __cleanup(end_pool) = make_cache(8, policies[p]);
		kvmm_ref_t ref[3];
		u32 block = 0;

		make_active(pool, 5, 1, &ref[0]);
		publish_as(pool, KVMM_DUP_HOLD, 5, 1, &ref[1]);
		cr_expect_eq(kvmm_evict_blocks(pool, &block, 1), 1);
		publish_as(pool, KVMM_DUP_HOLD, 5, 1, &ref[2]);
		cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
		expect_refused(pool, kvmm_reset_cache(pool), -EBUSY);
		cr_expect_eq(kvmm_put_many(pool, &ref[2], 1), 0);
		cr_expect_eq(kvmm_reset_cache(pool), 0, "%s", policies[p]);
		cr_expect_str_eq(picture(pool), "........");
	}
}

/* A hit that was not noted: the block is held, and still in the order of eviction. */
POOL_TEST(life_forget, what_is_held_is_not_forgotten_even_if_its_hit_was_lost, make_cache(8, "lru"))
{
	kvmm_ref_t ref;
	kvmm_key_t key = key_of(0);

	cache_keys(pool, 0, 2);
	cr_assert_eq(kvmm_validate(pool), 0);
	cr_assert_eq(kvmm_match(pool, &key, 1, &ref), 1);
	pool->order.nr_log = 0;
	expect_refused(pool, kvmm_reset_cache(pool), -EBUSY);
	cr_expect_eq(kvmm_reset_inactive(pool), 1);
	cr_expect_str_eq(picture(pool), "A.......");
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_put_many(pool, &ref, 1), 0);
	cr_expect_eq(kvmm_reset_cache(pool), 1);
}

/* ---- what an allocation that fails puts back ---- */

/* Two chains whose first blocks were put first, so leaves go before what is older; with gaps. */
static struct kvmm_pool *make_chains(const char *policy)
{
	struct kvmm_pool *pool = make_cache(24, policy);
	kvmm_mut_t mut[8];
	kvmm_ref_t ref[8];

	for (u32 i = 0; i < 8; i++) {
		make_private(pool, 1, &mut[i]);
		take(pool, 1, 0);
	}
	take(pool, 8, 0);
	cr_assert_eq(kvmm_register(pool, mut, keys_from(0, 5), 5, ref), 0);
	cr_assert_eq(kvmm_register(pool, mut + 5, keys_from(10, 3), 3, ref + 5), 0);
	for (u32 i = 0; i < 8; i++)
		cr_assert_eq(kvmm_put_many(pool, &ref[i], 1), 0);
	return pool;
}

Test(life_forget, a_failed_allocation_leaves_chains_in_their_order)
{
	for_each_policy(policy) {
		for (u32 wanted = 2; wanted <= 8; wanted++) {
			struct kvmm_pool *one = make_chains(policy), *two = make_chains(policy);
			u32 order[8], want[8];
			kvmm_range_t got;

			cr_assert_eq(kvmm_range_alloc(one, wanted, KVMM_ALLOC_NO_COMPACT |
						      KVMM_RUNS(1), &got), -ENOSPC);
			cr_assert_eq(kvmm_validate(one), 0);
			cr_assert_eq(eviction_order(two, want, 8), 8);
			cr_assert_eq(eviction_order(one, order, 8), 8);
			cr_expect_arr_eq(order, want, sizeof(want), "%s, %u", policy, wanted);
			kvmm_pool_destroy(one);
			kvmm_pool_destroy(two);
		}
	}
}

/* ---- blocks in the order of eviction that are held: their hits were lost ---- */

/* Every third of twelve, in chains or not. */
static struct kvmm_pool *make_lost(const char *policy, bool chain, kvmm_ref_t *held)
{
	struct kvmm_pool *pool = make_cache(12, policy);

	for (u32 i = 0; i < 12; i += chain ? 4 : 1)
		cache_keys(pool, i, chain ? 4 : 1);
	cr_assert_eq(kvmm_validate(pool), 0);
	for (u32 i = 0; i < 12; i += 3)
		cr_assert_eq(kvmm_match(pool, keys_from(i, 1), 1, &held[i / 3]), 1);
	pool->order.nr_log = 0;
	return pool;
}

static void take_all_but_held(const char *policy, bool chain, u32 wanted)
{
	kvmm_ref_t held[4];
	struct kvmm_pool *pool __cleanup(kvmm_pool_destroy) = make_lost(policy, chain, held);
	kvmm_mut_t mut[12];
	int err = kvmm_alloc(pool, wanted, mut);

	cr_expect_eq(err, wanted <= 8 ? 0 : -ENOSPC, "%s %u", policy, wanted);
	cr_expect_eq(kvmm_validate(pool), 0, "%s %u", policy, wanted);
	for (u32 i = 0; i < 12; i += 3)
		cr_expect_eq(kvmm_match_len(pool, keys_from(i, 1), 1), 1);
	cr_expect_eq(kvmm_put_many(pool, held, 4), 0);
	cr_expect_eq(kvmm_validate(pool), 0, "%s %u", policy, wanted);
	cr_expect_eq(stat_of(pool).nr_available, err ? 12 : 12 - wanted);
	if (!err)
		cr_expect_eq(kvmm_free(pool, mut, wanted), 0);
	cr_expect_eq(kvmm_alloc(pool, 12, mut), 0, "%s %u", policy, wanted);
	cr_expect_eq(kvmm_validate(pool), 0, "%s %u", policy, wanted);
}

Test(life_forget, no_policy_is_confused_by_blocks_that_are_held)
{
	for_each_policy(policy) {
		for (u32 wanted = 1; wanted <= 12; wanted++) {
			take_all_but_held(policy, false, wanted);
			take_all_but_held(policy, true, wanted);
		}
	}
}

/* ---- entries run out of generations ---- */

Test(life_forget, entries_out_of_generations_are_replaced_until_there_are_none)
{
	struct kvmm_pool *pool __cleanup(kvmm_pool_destroy) = make_cache(4, "lru");
	u32 nr_rounds = 0;
	kvmm_mut_t mut[4];

	/* Four lives each. */
	pool->entries.gen_last = (pool->entries.gen_first + 2) % KV_ENTRY_GEN_MASK + 1;
	while (!kvmm_alloc(pool, 4, mut)) {
		cr_assert_eq(kvmm_register(pool, mut, keys_from(10 * nr_rounds, 4), 4,
					   (kvmm_ref_t *)mut), 0);
		cr_assert_eq(kvmm_put_many(pool, (kvmm_ref_t *)mut, 4), 0);
		cr_assert_eq(kvmm_validate(pool), 0);
		nr_rounds++;
	}
	cr_expect_eq(nr_rounds, 4);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_leq(stat_of(pool).nr_available, 4);
}

/* Entries of various ages: some of a batch retire, the batch is undone. */
Test(life_forget, a_batch_that_cannot_have_its_entries_is_given_back)
{
	for (u32 nr = 1; nr <= 6; nr++) {
		struct kvmm_pool *pool __cleanup(kvmm_pool_destroy) = make_cache(6, "lru");
		kvmm_mut_t mut[6];
		u32 total = 0;

		pool->entries.gen_last = pool->entries.gen_first % KV_ENTRY_GEN_MASK + 1;
		for (u32 round = 0; round < 40; round++) {
			u32 batch = 1 + (round * nr) % 6;

			if (!kvmm_alloc(pool, batch, mut)) {
				total += batch;
				cr_assert_eq(kvmm_register(pool, mut, keys_from(10 * round, batch),
							   batch, (kvmm_ref_t *)mut), 0);
				cr_assert_eq(kvmm_put_many(pool, (kvmm_ref_t *)mut, batch), 0);
			}
			cr_assert_eq(kvmm_validate(pool), 0, "nr %u, round %u", nr, round);
		}
		/* Two lives of six entries, at most. */
		cr_expect_leq(total, 12);
		cr_expect_geq(total, 6);
	}
}

/* One life each. Blocks outlive their entries as long as others are free: those of a range's blocks. */
POOL_TEST(life_forget, a_block_gets_another_entry_if_its_own_retires, make_cache(4, "lru"))
{
	kvmm_range_t range = take(pool, 2, 0);
	kvmm_mut_t mut[3];

	pool->entries.gen_last = pool->entries.gen_first;
	cache_keys(pool, 0, 2);
	make_private(pool, 2, mut);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_str_eq(picture(pool), "##PP");
	cr_expect_eq(kvmm_block_of_mut(pool, mut[0]) + kvmm_block_of_mut(pool, mut[1]), 5);
	cr_expect_eq(kvmm_free(pool, mut, 2), 0);
	cr_expect_eq(kvmm_alloc(pool, 1, mut), -ENOSPC);
	cr_expect_eq(kvmm_range_free(pool, range), 0);
	cr_expect_eq(stat_of(pool).nr_free, 4);
}

static void lose_the_newest_victim(const char *policy)
{
	struct kvmm_pool *pool __cleanup(end_pool) = make_cache(4, policy);
	kvmm_mut_t mut[4];

	pool->entries.gen_last = pool->entries.gen_first;
	cache_keys(pool, 0, 3);
	cr_expect_eq(kvmm_alloc(pool, 4, mut), -ENOSPC);
	cr_expect_eq(kvmm_validate(pool), 0);
	/* The newest victim was lost over it, the others are where they were. */
	cr_expect_str_eq(picture(pool), ".II.", "%s", policy);
	cr_expect_eq(found_under(pool, 1), 1);
}

Test(life_forget, free_blocks_of_a_batch_without_entries_are_given_back)
{
	lose_the_newest_victim("lru");
	lose_the_newest_victim("lrfu");
}

/* ---- a pool that is closed ---- */

#define expect_closed(call)	cr_expect_eq(call, -EUCLEAN, "%s", #call)

POOL_TEST(life_forget, a_closed_pool_refuses_every_call, make_cache(LIFE_MAX, "hint"))
{
	struct kvmm_prefix prefix = prefix_of(keys_from(0, 2), 2);
	kvmm_staged_t staged[2];
	kvmm_ref_t ref[200], got[2];
	kvmm_mut_t mut[2];
	struct kvmm_publish_args publish = { staged, 2, KVMM_DUP_ALLOW, got, 0 };
	struct kvmm_publish_args reject = { staged, 2, KVMM_DUP_REJECT, got, 0 };
	kvmm_weak_t weak[2] = { { 0, 1 }, { 1, 1 } };
	u32 blocks[2] = { 0, 1 };
	u64 when[2] = { 0 }, present;

	make_private(pool, 2, mut);
	make_staged(pool, 0, 2, staged);
	make_active(pool, 2, 200, ref);
	pool->gate = GATE_POISONED;
	expect_closed(kvmm_prefix_match(pool, &prefix, got));
	expect_closed(kvmm_prefix_scan(pool, &prefix, got));
	expect_closed(kvmm_prefix_len(pool, &prefix));
	expect_closed(kvmm_prefix_probe(pool, &prefix, &present));
	expect_closed(kvmm_stage(pool, &prefix, mut, staged));
	expect_closed(kvmm_unstage(pool, staged, 2, mut));
	expect_closed(kv_free_staged(pool, staged, 2));
	expect_closed(kvmm_publish(pool, &publish));
	expect_closed(kvmm_publish(pool, &reject));
	expect_closed(kvmm_prefix_register(pool, &prefix, mut, got));
	expect_closed(kvmm_get_many(pool, ref, 2));
	expect_closed(kvmm_put_many(pool, ref, 2));
	expect_closed(kvmm_put_many(pool, ref, 200));
	expect_closed(kvmm_touch_many(pool, ref, 2));
	expect_closed(kvmm_upgrade_many(pool, weak, 2, got));
	expect_closed(kvmm_pin_many(pool, ref, 2));
	expect_closed(kvmm_unpin_many(pool, ref, 2));
	expect_closed(kvmm_set_reset(pool, ref, 2, 1));
	expect_closed(kvmm_advise_many(pool, ref, KVMM_ADVISE_NEXT_USE, when, 2));
	expect_closed(kvmm_blocks_of_refs(pool, ref, 2, blocks));
	expect_closed(kvmm_blocks_of_muts(pool, mut, 2, blocks));
	expect_closed(kvmm_evict_blocks(pool, blocks, 2));
	expect_closed(kvmm_reset_inactive(pool));
	expect_closed(kvmm_reset_cache(pool));
	pool->gate = 0;
}

/* ---- counts that begin near their end ---- */

POOL_TEST(life_forget, counts_may_wrap, make_life(8, "lru", 0, KVMM_DUP_HOLD))
{
	kvmm_ref_t ref[2];

	/* Rows add up to what they did: each is near its end, another makes up for it. */
	for (u32 i = 0; i < NR_TALLIES; i++) {
		pool->tally[kv_tally_row()].nr[i] -= 3;
		pool->tally[(kv_tally_row() + 1) % KV_TALLY_ROWS].nr[i] += 3;
	}
	pool->count.nr_forgotten -= 2;
	pool->tally[kv_tally_row()].nr[TALLY_REGISTERED] -= 2;
	for (u32 round = 0; round < 8; round++) {
		publish_as(pool, KVMM_DUP_POOL, 5, 1, &ref[0]);
		publish_as(pool, KVMM_DUP_POOL, 5, 1, &ref[1]);
		cr_expect_eq(stat_of(pool).nr_state[KVMM_BLOCK_ACTIVE], 2);
		cr_expect_eq(kvmm_validate(pool), 0);
		cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
		cr_expect_eq(stat_of(pool).nr_inactive, 1);
		cr_expect_eq(kvmm_reset_cache(pool), 1);
		cr_expect_eq(kvmm_validate(pool), 0);
		cr_expect_eq(stat_of(pool).nr_free, 8);
	}
}
