// SPDX-License-Identifier: Apache-2.0
/*
 * References on cached blocks: who has one, who may have one, and what a batch does that is not
 * all right. Digits of pictures: references of registered blocks, '.' anything else.
 */
#include "tests/pool/life_util.h"

/* Every call that wants a reference, on a batch with something wrong in it. */
static void refuse_refs(struct kvmm_pool *pool, const kvmm_ref_t *ref, u32 nr, int err)
{
	static u64 when[LIFE_MAX];
	u32 blocks[LIFE_MAX];

	expect_refused(pool, kvmm_get_many(pool, ref, nr), err);
	expect_refused(pool, kvmm_put_many(pool, ref, nr), err);
	expect_refused(pool, kvmm_pin_many(pool, ref, nr), err);
	expect_refused(pool, kvmm_unpin_many(pool, ref, nr), err);
	expect_refused(pool, kvmm_touch_many(pool, ref, nr), err);
	expect_refused(pool, kvmm_set_reset(pool, ref, nr, 1), err);
	expect_refused(pool, kvmm_set_reset(pool, ref, nr, 0), err);
	expect_refused(pool, kvmm_blocks_of_refs(pool, ref, nr, blocks), err);
	expect_refused(pool, kvmm_advise_many(pool, ref, KVMM_ADVISE_NEXT_USE, when, nr), err);
}

/* With a policy that is told of hits: they must not be counted either. */
Test(life_ref, one_bad_handle_and_nothing_is_done)
{
	static const char *const policies[] = { "lru", "lru-classic", "slru", "lfu", "hint" };

	for (u32 p = 0; p < ARRAY_SIZE(policies); p++) {
		struct kvmm_pool *pool __cleanup(end_pool) = make_cache(16, policies[p]);
		struct bad_handle bad[NR_BAD_HANDLES];
		kvmm_ref_t ref[3], spoilt[3];

		make_active(pool, 0, 3, ref);
		cr_assert_eq(kvmm_pin_many(pool, ref, 3), 0);
		bad_handles(pool, bad);
		for (u32 at = 0; at < 3; at++) {
			memcpy(spoilt, ref, sizeof(ref));
			for (u32 i = 0; i < NR_BAD_HANDLES; i++) {
				spoilt[at] = (kvmm_ref_t){ bad[i].handle.index, bad[i].handle.gen };
				refuse_refs(pool, spoilt, 3, bad[i].err);
			}
		}
		cr_assert_eq(kvmm_unpin_many(pool, ref, 3), 0);
		cr_assert_eq(kvmm_put_many(pool, ref, 3), 0);
	}
}

Test(life_ref, handles_of_another_type_or_pool_are_refused)
{
	struct kvmm_pool *pool = make_cache(16, "hint"), *other = make_cache(16, "hint");
	kvmm_ref_t ref[2], spoilt[2], foreign;
	kvmm_staged_t staged;
	kvmm_mut_t mut;

	make_active(other, 0, 1, &foreign);
	make_active(pool, 0, 2, ref);
	make_private(pool, 1, &mut);
	make_staged(pool, 5, 1, &staged);
	cr_assert_eq(kvmm_pin_many(pool, ref, 2), 0);
	memcpy(spoilt, ref, sizeof(ref));
	spoilt[1] = (kvmm_ref_t){ mut.index, mut.gen };
	refuse_refs(pool, spoilt, 2, -EINVAL);
	spoilt[1] = (kvmm_ref_t){ staged.index, staged.gen };
	refuse_refs(pool, spoilt, 2, -EINVAL);
	/* Made up as far as this pool knows, or, by chance of its own past. */
	if (foreign.gen != ref[0].gen) {
		u32 now = entry_handle(pool, foreign.index).gen;

		spoilt[1] = foreign;
		refuse_refs(pool, spoilt, 2, kv_handle_refuse(&pool->entries, now, foreign.gen));
	}
	cr_expect_eq(kvmm_put_many(other, &foreign, 1), 0);
	end_pool(other);
	kvmm_pool_destroy(pool);
}

POOL_TEST(life_ref, who_has_put_his_reference_has_none, make_cache(16, "hint"))
{
	kvmm_ref_t ref[3];

	make_active(pool, 0, 3, ref);
	cr_expect_eq(kvmm_put_many(pool, &ref[1], 1), 0);
	cr_expect_str_eq(picture(pool), "AIA.............");
	expect_refused(pool, kvmm_get_many(pool, ref, 3), -ESTALE);
	expect_refused(pool, kvmm_put_many(pool, ref, 3), -ESTALE);
	expect_refused(pool, kvmm_pin_many(pool, ref, 3), -ESTALE);
	expect_refused(pool, kvmm_touch_many(pool, ref, 3), -ESTALE);
	expect_refused(pool, kvmm_set_reset(pool, ref, 3, 1), -ESTALE);
	expect_refused(pool, kvmm_advise_many(pool, ref, KVMM_ADVISE_NEXT_USE, (u64[3]){ 0 }, 3), -ESTALE);
	cr_expect_eq(found_under(pool, 1), 1);
}

POOL_TEST(life_ref, references_are_counted, make_cache(4, "lru"))
{
	kvmm_ref_t ref[3], twice[3];

	make_active(pool, 0, 3, ref);
	memcpy(twice, ref, sizeof(ref));
	twice[2] = twice[0];
	cr_expect_eq(kvmm_get_many(pool, twice, 3), 0);
	cr_expect_str_eq(refs_picture(pool), "321.");
	cr_expect_eq(kvmm_put_many(pool, ref, 3), 0);
	cr_expect_str_eq(refs_picture(pool), "210.");
	cr_expect_eq(kvmm_put_many(pool, twice, 3), 0);
	cr_expect_str_eq(refs_picture(pool), "000.");
}

/* ---- more puts than references ---- */

POOL_TEST(life_ref, a_block_that_is_put_too_often_keeps_its_references, make_cache(8, "lfu"))
{
	kvmm_ref_t ref[3], thrice[5];

	make_active(pool, 0, 3, ref);
	cr_assert_eq(kvmm_get_many(pool, ref, 1), 0);
	for (u32 i = 0; i < 5; i++)
		thrice[i] = ref[i % 2 ? i / 2 + 1 : 0];	/* 0 1 0 2 0 */
	expect_refused(pool, kvmm_put_many(pool, thrice, 5), -EINVAL);
	cr_expect_str_eq(refs_picture(pool), "211.....");
	cr_expect_eq(kvmm_put_many(pool, thrice, 4), 0);
	cr_expect_str_eq(refs_picture(pool), "000.....");
}

/* What goes with its last reference, and what nobody is to find any more, comes back so. */
POOL_TEST(life_ref, a_put_too_many_changes_neither_reset_nor_hidden, make_cache(8, "lru"))
{
	kvmm_ref_t ref[2], twice[3];
	u32 block = 0;

	make_active(pool, 0, 2, ref);
	cr_assert_eq(kvmm_evict_blocks(pool, &block, 1), 1);
	cr_assert_eq(kvmm_set_reset(pool, &ref[1], 1, 1), 0);
	twice[0] = ref[0];
	twice[1] = ref[1];
	twice[2] = ref[0];
	expect_refused(pool, kvmm_put_many(pool, twice, 3), -EINVAL);
	cr_expect_eq(found_under(pool, 0), -1);
	twice[2] = ref[1];
	expect_refused(pool, kvmm_put_many(pool, twice, 3), -EINVAL);
	cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
	cr_expect_str_eq(picture(pool), "........");
}

POOL_TEST(life_ref, a_pin_that_is_undone_too_often_is_still_held, make_cache(8, "lru"))
{
	kvmm_ref_t ref[2], twice[3];

	make_active(pool, 0, 2, ref);
	cr_assert_eq(kvmm_pin_many(pool, ref, 2), 0);
	cr_assert_eq(kvmm_put_many(pool, ref, 2), 0);
	/* Now the pins are the only references. */
	expect_refused(pool, kvmm_put_many(pool, ref, 2), -EINVAL);
	twice[0] = twice[2] = ref[0];
	twice[1] = ref[1];
	expect_refused(pool, kvmm_unpin_many(pool, twice, 3), -EINVAL);
	cr_expect_eq(kvmm_unpin_many(pool, ref, 2), 0);
	cr_expect_str_eq(picture(pool), "II......");
	expect_refused(pool, kvmm_unpin_many(pool, ref, 2), -EINVAL);
}

/* Nobody can tell which reference is stolen so, but it costs nobody else's block, nor the pool. */
Test(life_ref, a_put_too_many_may_take_the_reference_of_a_duplicate)
{
	static const u32 flags[] = { 0, KVMM_POOL_RESET_ON_RELEASE };

	for (u32 i = 0; i < ARRAY_SIZE(flags); i++) {
		struct kvmm_pool *pool = make_life(4, "lru", flags[i], KVMM_DUP_HOLD);
		kvmm_ref_t elder, dup, other[3];
		u32 block;

		make_active(pool, 5, 1, &elder);
		publish_as(pool, KVMM_DUP_HOLD, 5, 1, &dup);
		cr_expect_eq(kvmm_put_many(pool, &elder, 1), 0);
		cr_expect_eq(kvmm_put_many(pool, &elder, 1), 0);
		/* Its entry goes to somebody else. */
		make_active(pool, 7, 3, other);
		cr_expect(other[0].index == elder.index || other[1].index == elder.index ||
			  other[2].index == elder.index);
		block = kvmm_block_of_ref(pool, dup);
		cr_expect_eq(kvmm_put_many(pool, &dup, 1), 0);
		cr_expect_eq(kvmm_evict_blocks(pool, &block, 1), 0);
		cr_expect_eq(kvmm_validate(pool), 0);
		for (u32 k = 0; k < 3; k++)
			cr_expect_eq(kvmm_put_many(pool, &other[k], 1), 0);
		cr_expect_eq(kvmm_reset_cache(pool), i ? 0 : 3);
		end_pool(pool);
	}
}

/* The first and the last of a batch that is dropped in parts; some go, some are hidden. */
static void put_many_too_often(u32 nr, u32 flags)
{
	struct kvmm_pool *pool __cleanup(end_pool) = make_life(LIFE_MAX, "slru", flags, 0);
	u32 hidden[2] = { 5, nr - 2 };
	kvmm_ref_t ref[LIFE_MAX];
	static struct life before;

	make_active(pool, 0, nr - 1, ref);
	cr_assert_eq(kvmm_evict_blocks(pool, hidden, 2), 2);
	ref[nr - 1] = ref[0];
	life_take(pool, &before);
	cr_expect_eq(kvmm_put_many(pool, ref, nr), -EINVAL);
	/* Long batches have been in the order of eviction for a moment, which leaves traces there. */
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(order_nr(&pool->order), 0);
	if (nr > 128)
		memcpy(before.policy, pool->order.rest.policy[0],
		       pool->parts.evict->bytes(pool->nr_blocks));
	life_expect_same(pool, &before, __LINE__);
	cr_expect_eq(found_under(pool, 5), -1);
	cr_expect_eq(kvmm_put_many(pool, ref, nr - 1), 0);
	cr_expect_eq(stat_of(pool).nr_state[KVMM_BLOCK_ACTIVE], 0);
	cr_expect_eq(stat_of(pool).nr_inactive, flags ? 0 : nr - 3);
}

Test(life_ref, a_large_batch_is_dropped_as_a_whole_or_not_at_all)
{
	static const u32 lengths[] = { 8, 128, 129, 200, 250 };

	for (u32 i = 0; i < ARRAY_SIZE(lengths); i++) {
		put_many_too_often(lengths[i], 0);
		put_many_too_often(lengths[i], KVMM_POOL_RESET_ON_RELEASE);
	}
}

POOL_TEST(life_ref, a_large_batch_is_evicted_from_its_tail, make_cache(LIFE_MAX, "lru"))
{
	kvmm_ref_t ref[200];
	u32 order[200];

	make_active(pool, 0, 200, ref);
	cr_expect_eq(kvmm_put_many(pool, ref, 200), 0);
	cr_expect_eq(eviction_order(pool, order, 200), 200);
	for (u32 i = 0; i < 200; i++)
		cr_assert_eq(order[i], 199 - i);
}

POOL_TEST(life_ref, there_is_a_limit_to_references_and_pins, make_cache(4, "lru"))
{
	kvmm_ref_t ref[2], many[1025], found;
	kvmm_key_t key = key_of(1);
	kvmm_weak_t weak;

	make_active(pool, 0, 2, ref);
	for (u32 i = 0; i < 255; i++)
		cr_assert_eq(kvmm_pin_many(pool, &ref[0], 1), 0);
	expect_refused(pool, kvmm_pin_many(pool, ref, 1), -EOVERFLOW);
	for (u32 i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = ref[1];
	for (u32 i = 0; i < 1022; i++)
		cr_assert_eq(kvmm_get_many(pool, many, 1025), 0);
	cr_assert_eq(kvmm_get_many(pool, many, 1024), 0);
	expect_refused(pool, kvmm_get_many(pool, &ref[1], 1), -EOVERFLOW);
	expect_refused(pool, kvmm_pin_many(pool, ref + 1, 1), -EOVERFLOW);
	cr_expect_eq(kvmm_match_len(pool, &key, 1), 1);
	cr_expect_eq(kvmm_match(pool, &key, 1, &found), 0);
	cr_expect_eq(stat_of(pool).nr_full, 1);
	weak = kvmm_weak_of(ref[1]);
	cr_expect_eq(kvmm_upgrade_many(pool, &weak, 1, &found), 0);
	cr_expect_eq(stat_of(pool).nr_full, 2);
	for (u32 i = 0; i < 1023; i++)
		cr_assert_eq(kvmm_put_many(pool, many, 1025), 0);
	for (u32 i = 0; i < 255; i++)
		cr_assert_eq(kvmm_unpin_many(pool, &ref[0], 1), 0);
	cr_expect_eq(kvmm_put_many(pool, &ref[0], 1), 0);
	cr_expect_str_eq(picture(pool), "II..");
}

/* ---- weak references ---- */

POOL_TEST(life_ref, a_weak_reference_is_good_until_the_block_is_evicted, make_cache(3, "lru"))
{
	kvmm_ref_t ref[3], got[4];
	kvmm_weak_t weak[4];
	kvmm_mut_t mut[2];
	u32 block = 2;

	make_active(pool, 0, 3, ref);
	for (u32 i = 0; i < 3; i++)
		weak[i] = kvmm_weak_of(ref[i]);
	weak[3] = weak[0];
	cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
	cr_expect_str_eq(refs_picture(pool), "001");
	cr_expect_eq(kvmm_upgrade_many(pool, weak, 4, got), 4);
	cr_expect_str_eq(refs_picture(pool), "212");
	cr_expect_eq(kvmm_put_many(pool, got, 4), 0);
	cr_expect_eq(kvmm_evict_blocks(pool, &block, 1), 1);
	cr_expect_eq(kvmm_upgrade_many(pool, weak, 3, got), 2);
	cr_expect_eq(got[2].gen, 0);
	cr_expect_eq(kvmm_put_many(pool, got, 2), 0);
	cr_expect_eq(kvmm_put_many(pool, &ref[2], 1), 0);
	make_private(pool, 2, mut);
	cr_expect_str_eq(picture(pool), "IPP");
	cr_expect_eq(kvmm_upgrade_many(pool, weak, 4, got), 2);
	cr_expect(got[0].gen && !got[1].gen && !got[2].gen && got[3].gen);
	cr_expect_eq(kvmm_put_many(pool, &got[0], 1), 0);
	cr_expect_eq(kvmm_put_many(pool, &got[3], 1), 0);
	/* The same entry under the same name: another block, another generation. */
	cr_expect_eq(kvmm_register(pool, mut, keys_from(1, 1), 1, ref), 0);
	cr_expect_eq(kvmm_upgrade_many(pool, weak, 3, got), 1);
	cr_expect(!got[1].gen && !got[2].gen);
	cr_expect_eq(kvmm_put_many(pool, got, 1), 0);
	cr_expect_eq(kvmm_put_many(pool, ref, 1), 0);
	cr_expect_eq(kvmm_free(pool, &mut[1], 1), 0);
}

POOL_TEST(life_ref, an_upgrade_in_place_is_a_hit_for_the_policy, make_cache(8, "lru"))
{
	union { kvmm_weak_t weak[2]; kvmm_ref_t ref[2]; } block;
	struct bad_handle bad[NR_BAD_HANDLES];
	u32 order[3];

	bad_handles(pool, bad);
	make_active(pool, 0, 2, block.ref);
	cr_expect_eq(kvmm_put_many(pool, block.ref, 2), 0);
	cache_keys(pool, 2, 1);
	cr_expect_eq(kvmm_upgrade_many(pool, block.weak, 2, block.ref), 2);
	cr_expect_eq(kvmm_put_many(pool, block.ref, 2), 0);
	cr_expect_eq(eviction_order(pool, order, 3), 3);
	cr_expect(order[0] == 2 && order[1] == 1 && order[2] == 0);
	for (u32 i = 0; i < NR_BAD_HANDLES; i++) {
		kvmm_weak_t weak = { bad[i].handle.index, bad[i].handle.gen };

		expect_refused(pool, kvmm_upgrade_many(pool, &weak, 1, block.ref), 0);
		cr_expect_eq(block.ref[0].gen, 0);
	}
}

/* More than a put or a note of hits takes at once, with holes. */
POOL_TEST(life_ref, long_arrays_of_weak_references_have_holes, make_cache(LIFE_MAX, "lfu"))
{
	kvmm_ref_t ref[LIFE_MAX], got[LIFE_MAX];
	kvmm_weak_t weak[LIFE_MAX];
	u32 blocks[LIFE_MAX], nr = 0;

	make_active(pool, 0, LIFE_MAX, ref);
	for (u32 i = 0; i < LIFE_MAX; i++) {
		weak[i] = kvmm_weak_of(ref[i]);
		if (i % 3 == 0)
			blocks[nr++] = i;
	}
	cr_expect_eq(kvmm_put_many(pool, ref, LIFE_MAX), 0);
	cr_expect_eq(kvmm_evict_blocks(pool, blocks, nr), nr);
	cr_expect_eq(kvmm_upgrade_many(pool, weak, LIFE_MAX, got), LIFE_MAX - nr);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(stat_of(pool).nr_inactive, 0);
	for (u32 i = 0; i < LIFE_MAX; i++)
		if (got[i].gen)
			cr_assert_eq(kvmm_put_many(pool, &got[i], 1), 0);
	cr_expect_eq(stat_of(pool).nr_inactive, LIFE_MAX - nr);
}

/* ---- touch, pins, reset ---- */

POOL_TEST(life_ref, a_touch_is_a_use_without_a_reference, make_cache(8, "lfu"))
{
	kvmm_ref_t ref[3];
	u32 order[3];

	/* Three prompts of a block each: no block is behind another. */
	for (u32 i = 0; i < 3; i++)
		make_active(pool, i, 1, &ref[i]);
	for (u32 i = 0; i < 3; i++)
		cr_expect_eq(kvmm_touch_many(pool, &ref[1], 1), 0);
	cr_expect_eq(kvmm_touch_many(pool, &ref[0], 1), 0);
	cr_expect_str_eq(refs_picture(pool), "111.....");
	cr_expect_eq(kvmm_put_many(pool, ref, 3), 0);
	cr_expect_eq(eviction_order(pool, order, 3), 3);
	cr_expect(order[0] == 2 && order[1] == 0 && order[2] == 1);
}

POOL_TEST(life_ref, what_is_held_or_pinned_stays_where_it_is, make_cache(8, "lru"))
{
	struct kvmm_compact goal = { .size = sizeof(goal) };
	kvmm_range_t range = take(pool, 1, 0), other;
	kvmm_ref_t ref[4];
	u32 blocks[4], after[4];

	make_active(pool, 0, 2, ref);
	other = take(pool, 1, 0);
	make_active(pool, 2, 2, ref + 2);
	cr_expect_eq(kvmm_pin_many(pool, &ref[3], 1), 0);
	cr_expect_eq(kvmm_put_many(pool, &ref[3], 1), 0);
	cr_expect_eq(kvmm_blocks_of_refs(pool, ref, 4, blocks), 0);
	cr_expect_eq(kvmm_put_many(pool, ref + 1, 2), 0);
	cr_expect_eq(kvmm_range_free(pool, range), 0);
	cr_expect_eq(kvmm_range_free(pool, other), 0);
	cr_expect_str_eq(picture(pool), ".AI.IA..");
	cr_expect_eq(kvmm_pool_compact(pool, &goal), 0);
	cr_expect_str_eq(picture(pool), "IA...AI.");
	cr_expect_eq(kvmm_block_of_ref(pool, ref[0]), blocks[0]);
	cr_expect_eq(kvmm_block_of_ref(pool, ref[3]), blocks[3]);
	cr_expect_eq(found_under(pool, 2), 0);
	cr_expect_eq(kvmm_blocks_of_refs(pool, ref, 2, after), -ESTALE);
	cr_expect_eq(kvmm_unpin_many(pool, &ref[3], 1), 0);
	cr_expect_eq(kvmm_put_many(pool, ref, 1), 0);
}

POOL_TEST(life_ref, blocks_go_with_their_last_reference_if_told_so, make_cache(8, "lru"))
{
	kvmm_ref_t ref[4];

	make_active(pool, 0, 4, ref);
	cr_expect_eq(kvmm_set_reset(pool, ref, 3, 1), 0);
	cr_expect_eq(kvmm_set_reset(pool, &ref[1], 1, 0), 0);
	cr_expect_eq(kvmm_get_many(pool, &ref[2], 1), 0);
	cr_expect_eq(kvmm_put_many(pool, ref, 4), 0);
	cr_expect_str_eq(picture(pool), ".IAI....");
	cr_expect_eq(found_under(pool, 0), -1);
	/* The last writer wins. */
	cr_expect_eq(kvmm_set_reset(pool, &ref[2], 1, 0), 0);
	cr_expect_eq(kvmm_set_reset(pool, &ref[2], 1, 1), 0);
	cr_expect_eq(kvmm_put_many(pool, &ref[2], 1), 0);
	cr_expect_str_eq(picture(pool), ".I.I....");
	cr_expect_eq(stat_of(pool).evictions, 0);
}

Test(life_ref, a_pool_that_does_not_cache_can_be_told_otherwise)
{
	static const char *const policies[] = { "lru", "lru-classic", "glfu" };

	for (u32 p = 0; p < ARRAY_SIZE(policies); p++) {
		struct kvmm_pool *pool = make_life(8, policies[p], KVMM_POOL_RESET_ON_RELEASE, 0);
		kvmm_ref_t ref[3], found;
		kvmm_key_t key = key_of(0);

		make_active(pool, 0, 3, ref);
		cr_expect_eq(kvmm_set_reset(pool, &ref[1], 1, 0), 0);
		cr_expect_eq(kvmm_match(pool, &key, 1, &found), 1);
		cr_expect_eq(kvmm_put_many(pool, ref, 3), 0);
		cr_expect_str_eq(picture(pool), "AI......", "%s", policies[p]);
		cr_expect_eq(kvmm_put_many(pool, &found, 1), 0);
		cr_expect_str_eq(picture(pool), ".I......", "%s", policies[p]);
		cr_expect_eq(stat_of(pool).nr_free, 7);
		end_pool(pool);
	}
}

/* The last reference is the pin's. */
POOL_TEST(life_ref, a_block_goes_with_its_last_pin,
	  make_life(8, "lru", KVMM_POOL_RESET_ON_RELEASE, 0))
{
	kvmm_ref_t ref;

	make_active(pool, 0, 1, &ref);
	cr_expect_eq(kvmm_pin_many(pool, &ref, 1), 0);
	cr_expect_eq(kvmm_put_many(pool, &ref, 1), 0);
	cr_expect_str_eq(picture(pool), "A.......");
	cr_expect_eq(kvmm_unpin_many(pool, &ref, 1), 0);
	cr_expect_str_eq(picture(pool), "........");
	refuse_refs(pool, &ref, 1, -ESTALE);
}

/* Blocks that go are free, in a classic order in that of their put: the last one first. */
POOL_TEST(life_ref, classic_blocks_that_go_are_reused_last_first,
	  make_life(3, "lru-classic", KVMM_POOL_RESET_ON_RELEASE, 0))
{
	kvmm_ref_t ref[3];
	kvmm_mut_t mut[3];

	make_active(pool, 0, 3, ref);
	cr_expect_eq(kvmm_put_many(pool, ref, 3), 0);
	make_private(pool, 3, mut);
	for (u32 i = 0; i < 3; i++)
		cr_expect_eq(kvmm_block_of_mut(pool, mut[i]), 2 - i);
	cr_expect_eq(kvmm_free(pool, mut, 3), 0);
}
