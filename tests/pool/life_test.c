// SPDX-License-Identifier: Apache-2.0
/*
 * The life of a cached block up to its publication: private, staged, registered; names that are
 * taken; who finds what. Letters of pictures: P private, S staged, A active, I inactive.
 */
#include "tests/pool/life_util.h"

/* ---- staged ---- */

POOL_TEST(life, nobody_finds_a_staged_block, make_cache(8, "lru"))
{
	struct kvmm_publish_args req = { .nr = 3 };
	kvmm_staged_t staged[3];
	kvmm_ref_t ref[3];

	make_staged(pool, 0, 3, staged);
	cr_expect_str_eq(picture(pool), "SSS.....");
	cr_expect_eq(found_under(pool, 0), -1);
	cr_expect_eq(kvmm_match_len(pool, keys_from(0, 3), 3), 0);
	req.staged = staged;
	req.refs = ref;
	cr_expect_eq(kvmm_publish(pool, &req), 0);
	cr_expect_str_eq(picture(pool), "AAA.....");
	cr_expect_str_eq(refs_picture(pool), "111.....");
	cr_expect_eq(kvmm_match_len(pool, keys_from(0, 3), 3), 3);
	cr_expect_eq(kvmm_put_many(pool, ref, 3), 0);
	cr_expect_str_eq(picture(pool), "III.....");
	cr_expect_eq(found_under(pool, 2), 2);
}

POOL_TEST(life, who_regrets_a_name_has_a_private_block_again, make_cache(8, "lru"))
{
	kvmm_staged_t staged[4];
	kvmm_mut_t mut[4];

	make_staged(pool, 0, 4, staged);
	cr_expect_eq(kvmm_unstage(pool, staged + 2, 2, mut), 0);
	cr_expect_str_eq(picture(pool), "SSPP....");
	cr_expect_eq(kv_free_staged(pool, staged, 2), 0);
	cr_expect_str_eq(picture(pool), "..PP....");
	cr_expect_eq(kvmm_register(pool, mut, keys_from(9, 2), 2, (kvmm_ref_t *)mut), 0);
	cr_expect_str_eq(picture(pool), "..AA....");
	cr_expect_eq(found_under(pool, 2), -1);
	cr_expect_eq(found_under(pool, 9), 2);
	cr_expect_eq(stat_of(pool).stagings, 4 + 2);
	cr_expect_eq(stat_of(pool).registered, 2);
	cr_expect_eq(kvmm_put_many(pool, (kvmm_ref_t *)mut, 2), 0);
}

Test(life, handles_of_all_kinds_may_share_memory)
{
	static const u32 dups[] = { KVMM_DUP_ALLOW, KVMM_DUP_HOLD, KVMM_DUP_REJECT };

	for (u32 d = 0; d < ARRAY_SIZE(dups); d++) {
		struct kvmm_pool *pool __cleanup(end_pool) = make_cache(16, "lru");
		union {
			kvmm_mut_t mut[6];
			kvmm_staged_t staged[6];
			kvmm_ref_t ref[6];
		} block;
		struct kvmm_prefix prefix = prefix_of(keys_from(0, 6), 6);
		struct kvmm_publish_args req = { block.staged, 6, dups[d], block.ref, 0 };

		cache_keys(pool, 1, 2);
		make_private(pool, 6, block.mut);
		cr_expect_eq(kvmm_stage(pool, &prefix, block.mut, block.staged), 0);
		cr_expect_eq(kvmm_unstage(pool, block.staged, 6, block.mut), 0);
		cr_expect_eq(kvmm_stage(pool, &prefix, block.mut, block.staged), 0);
		cr_expect_eq(kvmm_publish(pool, &req), 0);
		cr_expect_eq(req.nr_dups, 2);
		for (u32 i = 0; i < 6; i++)
			cr_expect_geq(kvmm_block_of_ref(pool, block.ref[i]), 0);
		cr_expect_eq(kvmm_block_of_ref(pool, block.ref[1]),
			     dups[d] == KVMM_DUP_REJECT ? 0 : 3);
		cr_expect_eq(kvmm_put_many(pool, block.ref, 6), 0);
	}
}

/* Batch of four, the bad one in each place. */
static void refuse_staged(struct kvmm_pool *pool, const kvmm_staged_t *staged, int err)
{
	kvmm_ref_t ref[4];
	kvmm_mut_t mut[4];

	for (u32 dup = KVMM_DUP_ALLOW; dup < KVMM_NR_DUPS; dup++) {
		struct kvmm_publish_args req = { staged, 4, dup, ref, 7 };

		expect_refused(pool, kvmm_publish(pool, &req), err);
	}
	expect_refused(pool, kvmm_unstage(pool, staged, 4, mut), err);
	expect_refused(pool, kv_free_staged(pool, staged, 4), err);
}

POOL_TEST(life, one_bad_handle_and_the_whole_batch_stays_staged, make_cache(16, "lru"))
{
	struct bad_handle bad[NR_BAD_HANDLES];
	kvmm_staged_t staged[4], spoilt[4];
	kvmm_mut_t mut;
	kvmm_ref_t ref;

	make_staged(pool, 0, 4, staged);
	make_private(pool, 1, &mut);
	make_active(pool, 7, 1, &ref);
	bad_handles(pool, bad);
	for (u32 at = 0; at < 4; at++) {
		memcpy(spoilt, staged, sizeof(staged));
		for (u32 i = 0; i < NR_BAD_HANDLES; i++) {
			spoilt[at] = (kvmm_staged_t){ bad[i].handle.index, bad[i].handle.gen };
			refuse_staged(pool, spoilt, bad[i].err);
		}
		spoilt[at] = (kvmm_staged_t){ mut.index, mut.gen };
		refuse_staged(pool, spoilt, -EINVAL);
		spoilt[at] = (kvmm_staged_t){ ref.index, ref.gen };
		refuse_staged(pool, spoilt, -ESTALE);
		spoilt[at] = staged[(at + 1) % 4];
		refuse_staged(pool, spoilt, -EINVAL);
	}
	cr_expect_eq(kv_free_staged(pool, staged, 4), 0);
	cr_expect_eq(kvmm_free(pool, &mut, 1), 0);
	cr_expect_eq(kvmm_put_many(pool, &ref, 1), 0);
}

static void refuse_private(struct kvmm_pool *pool, const kvmm_mut_t *mut, int err)
{
	struct kvmm_prefix prefix = prefix_of(keys_from(30, 4), 4);
	kvmm_staged_t staged[4];
	kvmm_ref_t ref[4];
	u32 blocks[4];
	bool twice = err == -EINVAL && mut[0].index == mut[1].index;

	expect_refused(pool, kvmm_stage(pool, &prefix, mut, staged), err);
	expect_refused(pool, kvmm_prefix_register(pool, &prefix, mut, ref), err);
	expect_refused(pool, kvmm_register(pool, mut, keys_from(30, 4), 4, ref), err);
	expect_refused(pool, kvmm_free(pool, mut, 4), err);
	if (!twice)
		expect_refused(pool, kvmm_blocks_of_muts(pool, mut, 4, blocks), err);
}

POOL_TEST(life, one_bad_handle_and_the_whole_batch_stays_private, make_cache(16, "lru"))
{
	struct bad_handle bad[NR_BAD_HANDLES];
	kvmm_mut_t mut[4], spoilt[4];
	kvmm_staged_t staged;
	kvmm_ref_t ref;

	make_private(pool, 4, mut);
	make_staged(pool, 0, 1, &staged);
	make_active(pool, 7, 1, &ref);
	bad_handles(pool, bad);
	for (u32 at = 0; at < 4; at++) {
		memcpy(spoilt, mut, sizeof(mut));
		for (u32 i = 0; i < NR_BAD_HANDLES; i++) {
			spoilt[at] = (kvmm_mut_t){ bad[i].handle.index, bad[i].handle.gen };
			refuse_private(pool, spoilt, bad[i].err);
		}
		spoilt[at] = (kvmm_mut_t){ staged.index, staged.gen };
		refuse_private(pool, spoilt, -ESTALE);
		spoilt[at] = (kvmm_mut_t){ ref.index, ref.gen };
		refuse_private(pool, spoilt, -ESTALE);
	}
	memcpy(spoilt, mut, sizeof(mut));
	spoilt[0] = spoilt[1];
	refuse_private(pool, spoilt, -EINVAL);
	cr_expect_eq(kvmm_free(pool, mut, 4), 0);
	cr_expect_eq(kv_free_staged(pool, &staged, 1), 0);
	cr_expect_eq(kvmm_put_many(pool, &ref, 1), 0);
}

/* Who goes on behind a cached block uses that; but not if he may not. */
Test(life, a_refused_name_is_no_use_of_the_block_before)
{
	static const char *const policies[] = { "lru", "slru", "lfu", "lrfu" };

	for (u32 p = 0; p < ARRAY_SIZE(policies); p++) {
		struct kvmm_pool *pool __cleanup(end_pool) = make_cache(8, policies[p]);
		kvmm_key_t parent = key_of(0), keys[2] = { key_of(1), key_of(2) };
		struct kvmm_prefix prefix = { keys, 2, 1, &parent, { 0, 0, 0 } };
		kvmm_staged_t staged[2];
		kvmm_mut_t mut[2];
		kvmm_ref_t ref[2];

		cache_keys(pool, 0, 1);
		cache_keys(pool, 7, 1);
		make_private(pool, 2, mut);
		mut[1].gen++;
		expect_refused(pool, kvmm_stage(pool, &prefix, mut, staged), -EINVAL);
		expect_refused(pool, kvmm_prefix_register(pool, &prefix, mut, ref), -EINVAL);
		mut[1].gen--;
		cr_expect_eq(kvmm_stage(pool, &prefix, mut, staged), 0);
		cr_expect_eq(entry_at(pool, staged[0].index)->parent,
			     kv_link(entry_handle(pool, 0)));
		cr_expect_eq(entry_at(pool, staged[1].index)->parent,
			     kv_link(entry_handle(pool, staged[0].index)));
		cr_expect_eq(kv_free_staged(pool, staged, 2), 0);
	}
}

POOL_TEST(life, each_refused_call_is_counted_once, make_cache(16, "lru"))
{
	kvmm_mut_t mut[2] = { { 3, 9 }, { 4, 9 } };
	kvmm_staged_t staged[2] = { { 3, 9 }, { 4, 9 } };
	kvmm_ref_t ref[2] = { { 3, 9 }, { 4, 9 } };
	struct kvmm_prefix prefix = prefix_of(keys_from(0, 2), 2);
	struct kvmm_publish_args req = { staged, 2, KVMM_DUP_ALLOW, ref, 0 };
	u64 nr = kv_stat_sum(KV_EV_BAD_HANDLE);
	kvmm_staged_t out[2];
	u32 blocks[2];

	kvmm_stage(pool, &prefix, mut, out);
	cr_expect_eq(kv_stat_sum(KV_EV_BAD_HANDLE), ++nr);
	kvmm_prefix_register(pool, &prefix, mut, ref);
	cr_expect_eq(kv_stat_sum(KV_EV_BAD_HANDLE), ++nr);
	kvmm_free(pool, mut, 2);
	cr_expect_eq(kv_stat_sum(KV_EV_BAD_HANDLE), ++nr);
	kvmm_publish(pool, &req);
	cr_expect_eq(kv_stat_sum(KV_EV_BAD_HANDLE), ++nr);
	kvmm_unstage(pool, staged, 2, mut);
	cr_expect_eq(kv_stat_sum(KV_EV_BAD_HANDLE), ++nr);
	kv_free_staged(pool, staged, 2);
	cr_expect_eq(kv_stat_sum(KV_EV_BAD_HANDLE), ++nr);
	kvmm_put_many(pool, ref, 2);
	cr_expect_eq(kv_stat_sum(KV_EV_BAD_HANDLE), ++nr);
	kvmm_get_many(pool, ref, 2);
	cr_expect_eq(kv_stat_sum(KV_EV_BAD_HANDLE), ++nr);
	kvmm_pin_many(pool, ref, 2);
	cr_expect_eq(kv_stat_sum(KV_EV_BAD_HANDLE), ++nr);
	kvmm_touch_many(pool, ref, 2);
	cr_expect_eq(kv_stat_sum(KV_EV_BAD_HANDLE), ++nr);
	kvmm_blocks_of_refs(pool, ref, 2, blocks);
	cr_expect_eq(kv_stat_sum(KV_EV_BAD_HANDLE), ++nr);
}

POOL_TEST(life, takes_null_for_an_error_unless_it_is_for_nothing, make_cache(8, "lru"))
{
	struct kvmm_prefix none = { 0 }, keyless = { .nr = 1 };
	struct kvmm_publish_args nothing = { 0 }, empty = { .nr = 1 };
	struct kvmm_publish_args odd = { .dup = KVMM_NR_DUPS };
	kvmm_staged_t staged;
	kvmm_mut_t mut;
	kvmm_ref_t ref;
	u64 present;

	expect_refused(pool, kvmm_stage(pool, NULL, &mut, &staged), -EINVAL);
	expect_refused(pool, kvmm_stage(pool, &keyless, &mut, &staged), -EINVAL);
	expect_refused(pool, kvmm_publish(pool, NULL), -EINVAL);
	expect_refused(pool, kvmm_publish(pool, &empty), -EINVAL);
	expect_refused(pool, kvmm_publish(pool, &odd), -EINVAL);
	expect_refused(pool, kvmm_prefix_register(pool, NULL, &mut, &ref), -EINVAL);
	expect_refused(pool, kvmm_prefix_register(pool, &keyless, &mut, &ref), -EINVAL);
	expect_refused(pool, kvmm_unstage(pool, NULL, 1, &mut), -EINVAL);
	expect_refused(pool, kvmm_unstage(pool, &staged, 1, NULL), -EINVAL);
	expect_refused(pool, kv_free_staged(pool, NULL, 1), -EINVAL);
	expect_refused(pool, kvmm_prefix_scan(pool, &keyless, &ref), -EINVAL);
	expect_refused(pool, kvmm_prefix_scan(pool, NULL, &ref), -EINVAL);
	expect_refused(pool, kvmm_prefix_probe(pool, &keyless, &present), -EINVAL);
	expect_refused(pool, kvmm_prefix_len(pool, NULL), -EINVAL);
	expect_refused(pool, kvmm_evict_blocks(pool, NULL, 1), -EINVAL);
	expect_refused(pool, kvmm_stage(pool, &none, NULL, NULL), 0);
	expect_refused(pool, kvmm_publish(pool, &nothing), 0);
	expect_refused(pool, kvmm_prefix_register(pool, &none, NULL, NULL), 0);
	expect_refused(pool, kvmm_unstage(pool, NULL, 0, NULL), 0);
	expect_refused(pool, kv_free_staged(pool, NULL, 0), 0);
	expect_refused(pool, kvmm_prefix_scan(pool, &none, NULL), 0);
	expect_refused(pool, kvmm_prefix_probe(pool, &none, NULL), 0);
	expect_refused(pool, kvmm_get_many(pool, NULL, 0), 0);
	expect_refused(pool, kvmm_touch_many(pool, NULL, 0), 0);
	expect_refused(pool, kvmm_upgrade_many(pool, NULL, 0, NULL), 0);
	expect_refused(pool, kvmm_evict_blocks(pool, NULL, 0), 0);
	cr_expect_eq(kvmm_publish(NULL, &nothing), -EINVAL);
	cr_expect_eq(kvmm_prefix_register(NULL, &none, NULL, NULL), -EINVAL);
	cr_expect_eq(kvmm_prefix_len(NULL, &none), -EINVAL);
	cr_expect_eq(kvmm_evict_blocks(NULL, NULL, 0), -EINVAL);
	cr_expect_eq(kvmm_reset_cache(NULL), -EINVAL);
}

POOL_TEST(life, a_pool_without_policy_has_no_cached_blocks, make_pool(8))
{
	struct kvmm_prefix none = { 0 };
	struct kvmm_publish_args nothing = { 0 };

	cr_expect_eq(kvmm_stage(pool, &none, NULL, NULL), -EOPNOTSUPP);
	cr_expect_eq(kvmm_unstage(pool, NULL, 0, NULL), -EOPNOTSUPP);
	cr_expect_eq(kv_free_staged(pool, NULL, 0), -EOPNOTSUPP);
	cr_expect_eq(kvmm_publish(pool, &nothing), -EOPNOTSUPP);
	cr_expect_eq(kvmm_prefix_scan(pool, &none, NULL), -EOPNOTSUPP);
	cr_expect_eq(kvmm_prefix_probe(pool, &none, NULL), -EOPNOTSUPP);
	cr_expect_eq(kvmm_upgrade_many(pool, NULL, 0, NULL), -EOPNOTSUPP);
	cr_expect_eq(kvmm_pin_many(pool, NULL, 0), -EOPNOTSUPP);
	cr_expect_eq(kvmm_evict_blocks(pool, NULL, 0), -EOPNOTSUPP);
	cr_expect_eq(kvmm_reset_cache(pool), -EOPNOTSUPP);
}

/* ---- names that are taken ---- */

POOL_TEST(life, an_allowed_duplicate_is_found_when_its_elder_is_gone, make_cache(8, "lru"))
{
	kvmm_ref_t elder, dup;
	u32 block = 0;

	make_active(pool, 5, 1, &elder);
	cr_expect_eq(publish_as(pool, KVMM_DUP_ALLOW, 5, 1, &dup), 1);
	cr_expect_str_eq(refs_picture(pool), "11......");
	cr_expect_eq(found_under(pool, 5), 0);
	cr_expect_eq(kvmm_put_many(pool, &dup, 1), 0);
	cr_expect_eq(kvmm_put_many(pool, &elder, 1), 0);
	cr_expect_eq(found_under(pool, 5), 0);
	cr_expect_eq(kvmm_evict_blocks(pool, &block, 1), 1);
	cr_expect_str_eq(picture(pool), ".I......");
	cr_expect_eq(found_under(pool, 5), 1);
	cr_expect_eq(stat_of(pool).duplicates, 1);
	cr_expect_eq(stat_of(pool).registered, 2);
}

POOL_TEST(life, a_holding_duplicate_keeps_its_elder_as_long_as_it_is_held, make_cache(3, "lru"))
{
	kvmm_ref_t elder, dup;
	kvmm_mut_t mut[3];

	make_active(pool, 5, 1, &elder);
	cr_expect_eq(publish_as(pool, KVMM_DUP_HOLD, 5, 1, &dup), 1);
	cr_expect_str_eq(refs_picture(pool), "21.");
	cr_expect_eq(kvmm_put_many(pool, &elder, 1), 0);
	cr_expect_str_eq(refs_picture(pool), "11.");
	cr_expect_eq(kvmm_alloc(pool, 2, mut), -ENOSPC);
	/* The last reference is put: the duplicate is free, and its elder may be evicted. */
	cr_expect_eq(kvmm_set_reset(pool, &dup, 1, 0), 0);
	cr_expect_eq(kvmm_put_many(pool, &dup, 1), 0);
	cr_expect_str_eq(picture(pool), "I..");
	cr_expect_eq(found_under(pool, 5), 0);
	make_private(pool, 3, mut);
	cr_expect_eq(kvmm_free(pool, mut, 3), 0);
}

/* Two requests with one prompt have ended: nothing is held, and all of the pool can be had. */
Test(life, duplicates_pin_nothing_in_an_idle_pool)
{
	static const char *const policies[] = { "lru", "lru-classic", "lineage", "glfu", "multilru" };

	for (u32 p = 0; p < ARRAY_SIZE(policies); p++) {
		struct kvmm_pool *pool = make_life(16, policies[p], 0, KVMM_DUP_HOLD);
		kvmm_ref_t first[8], second[8];
		kvmm_mut_t mut[16];

		make_active(pool, 0, 8, first);
		publish_as(pool, KVMM_DUP_POOL, 0, 8, second);
		cr_expect_eq(kvmm_put_many(pool, first, 8), 0);
		cr_expect_eq(kvmm_put_many(pool, second, 8), 0);
		cr_expect_str_eq(picture(pool), "IIIIIIII........", "%s", policies[p]);
		cr_expect_eq(kvmm_match_len(pool, keys_from(0, 8), 8), 8);
		cr_expect_eq(stat_of(pool).nr_available, 16);
		cr_expect_eq(kvmm_alloc(pool, 16, mut), 0, "%s", policies[p]);
		cr_expect_eq(stat_of(pool).evictions, 8);
		cr_expect_eq(kvmm_free(pool, mut, 16), 0);
		end_pool(pool);
	}
}

POOL_TEST(life, a_rejected_newcomer_is_freed_for_a_reference_on_its_elder, make_cache(8, "lru"))
{
	kvmm_ref_t elder, got[3];

	make_active(pool, 5, 1, &elder);
	cr_expect_eq(publish_as(pool, KVMM_DUP_REJECT, 4, 3, got), 1);
	cr_expect_str_eq(picture(pool), "AA.A....");
	cr_expect_str_eq(refs_picture(pool), "21.1....");
	cr_expect_eq(got[1].index, elder.index);
	cr_expect_eq(got[1].gen, elder.gen);
	cr_expect_eq(kvmm_put_many(pool, &elder, 1), 0);
	cr_expect_eq(kvmm_put_many(pool, got, 3), 0);
	cr_expect_str_eq(picture(pool), "II.I....");
	/* An inactive elder is as good. */
	cr_expect_eq(publish_as(pool, KVMM_DUP_REJECT, 5, 1, got), 1);
	cr_expect_str_eq(refs_picture(pool), "10.0....");
	cr_expect_eq(kvmm_put_many(pool, got, 1), 0);
}

/* Who holds an inactive elder takes it out of the order of eviction. */
Test(life, an_inactive_elder_that_is_held_is_no_victim)
{
	static const u32 dups[] = { KVMM_DUP_HOLD, KVMM_DUP_REJECT };

	for (u32 d = 0; d < ARRAY_SIZE(dups); d++) {
		struct kvmm_pool *pool __cleanup(kvmm_pool_destroy) = make_cache(4, "lru");
		kvmm_ref_t ref;
		kvmm_mut_t mut[3];

		cache_keys(pool, 5, 1);
		cr_expect_eq(publish_as(pool, dups[d], 5, 1, &ref), 1);
		cr_expect_eq(kvmm_validate(pool), 0);
		cr_expect_eq(order_nr(&pool->order), 0);
		cr_expect_eq(kvmm_alloc(pool, 3, mut), dups[d] == KVMM_DUP_HOLD ? -ENOSPC : 0);
		cr_expect_eq(found_under(pool, 5), 0);
		cr_expect_eq(kvmm_put_many(pool, &ref, 1), 0);
		cr_expect_eq(kvmm_validate(pool), 0);
	}
}

/* Evicted by id while it is held: it cannot be had any more, so the newcomer is registered. */
Test(life, a_hidden_elder_is_none)
{
	for (u32 dup = KVMM_DUP_ALLOW; dup < KVMM_NR_DUPS; dup++) {
		struct kvmm_pool *pool __cleanup(end_pool) = make_cache(8, "lru");
		kvmm_ref_t elder, ref;
		u32 block = 0;

		make_active(pool, 5, 1, &elder);
		cr_expect_eq(kvmm_evict_blocks(pool, &block, 1), 1);
		cr_expect_eq(found_under(pool, 5), -1);
		publish_as(pool, dup, 5, 1, &ref);
		cr_expect_str_eq(refs_picture(pool), "11......", "%u", dup);
		cr_expect_eq(found_under(pool, 5), 1);
		cr_expect_eq(kvmm_put_many(pool, &elder, 1), 0);
		cr_expect_str_eq(picture(pool), ".A......");
		cr_expect_eq(found_under(pool, 5), 1);
		cr_expect_eq(kvmm_put_many(pool, &ref, 1), 0);
	}
}

/* The moment between claim and removal, as another thread would see it. */
Test(life, an_elder_on_its_way_out_is_none)
{
	for (u32 dup = KVMM_DUP_ALLOW; dup < KVMM_NR_DUPS; dup++) {
		struct kvmm_pool *pool __cleanup(end_pool) = make_cache(8, "lru");
		kvmm_ref_t ref;
		u32 victim;

		cache_keys(pool, 5, 1);
		order_enter(&pool->order);
		cr_assert_eq(order_pick(&pool->order, 1, &victim), 1);
		order_leave(&pool->order);
		publish_as(pool, dup, 5, 1, &ref);
		cr_expect_eq(found_under(pool, 5), 1);
		order_enter(&pool->order);
		order_unpick(&pool->order, victim);
		order_leave(&pool->order);
		cr_expect_eq(found_under(pool, 5), 0);
		cr_expect_str_eq(refs_picture(pool), "01......", "%u", dup);
		cr_expect_eq(kvmm_put_many(pool, &ref, 1), 0);
	}
}

Test(life, a_name_may_stand_in_a_batch_twice)
{
	static const struct { u32 dup; const char *refs; } want[] = {
		{ KVMM_DUP_ALLOW, "111....." },
		{ KVMM_DUP_HOLD, "311....." },
		{ KVMM_DUP_REJECT, "3......." },
	};

	for (u32 d = 0; d < ARRAY_SIZE(want); d++) {
		struct kvmm_pool *pool __cleanup(end_pool) = make_cache(8, "lru");
		kvmm_key_t keys[3] = { key_of(5), key_of(5), key_of(5) };
		struct kvmm_prefix prefix = prefix_of(keys, 3);
		kvmm_staged_t staged[3];
		kvmm_ref_t ref[3];
		struct kvmm_publish_args req = { staged, 3, want[d].dup, ref, 0 };
		kvmm_mut_t mut[3];

		make_private(pool, 3, mut);
		cr_expect_eq(kvmm_stage(pool, &prefix, mut, staged), 0);
		cr_expect_eq(kvmm_publish(pool, &req), 0);
		cr_expect_eq(req.nr_dups, 2);
		cr_expect_str_eq(refs_picture(pool), want[d].refs);
		cr_expect_eq(kvmm_put_many(pool, ref, 3), 0);
		cr_expect_eq(kvmm_reset_cache(pool), d ? 1 : 3);
	}
}

/* Each second name is taken, by active and inactive blocks. */
static void publish_many(u32 dup, u32 nr)
{
	struct kvmm_pool *pool __cleanup(end_pool) = make_cache(LIFE_MAX, "lru");
	union { kvmm_staged_t staged[LIFE_MAX]; kvmm_ref_t ref[LIFE_MAX]; } block;
	struct kvmm_publish_args req = { block.staged, nr, dup, block.ref, 0 };
	u32 nr_kept = dup == KVMM_DUP_REJECT ? nr : nr + nr / 2;
	kvmm_ref_t elder[LIFE_MAX];

	for (u32 i = 0; i < nr / 2; i++)
		make_active(pool, 2 * i + 1, 1, &elder[i]);
	cr_expect_eq(kvmm_put_many(pool, elder, nr / 4), 0);
	make_staged(pool, 0, nr, block.staged);
	cr_expect_eq(kvmm_publish(pool, &req), 0);
	cr_expect_eq(req.nr_dups, nr / 2);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(stat_of(pool).nr_free, LIFE_MAX - nr_kept);
	cr_expect_eq(kvmm_match_len(pool, keys_from(0, nr), nr), nr);
	cr_expect_eq(kvmm_put_many(pool, block.ref, nr), 0);
	cr_expect_eq(kvmm_put_many(pool, elder + nr / 4, nr / 2 - nr / 4), 0);
	cr_expect_eq(kvmm_reset_cache(pool), dup == KVMM_DUP_HOLD ? nr : nr_kept);
	cr_expect_eq(stat_of(pool).nr_free, LIFE_MAX);
}

Test(life, batches_of_any_length_are_published)
{
	static const u32 lengths[] = { 2, 63, 64, 65, 128, 129, 170 };

	for (u32 dup = KVMM_DUP_ALLOW; dup < KVMM_NR_DUPS; dup++)
		for (u32 i = 0; i < ARRAY_SIZE(lengths); i++)
			publish_many(dup, lengths[i]);
}

POOL_TEST(life, a_block_twice_in_a_large_batch_is_noticed, make_cache(LIFE_MAX, "lru"))
{
	kvmm_staged_t staged[200];
	kvmm_ref_t ref[200];

	make_staged(pool, 0, 200, staged);
	staged[199] = staged[3];
	for (u32 dup = KVMM_DUP_ALLOW; dup < KVMM_NR_DUPS; dup++) {
		struct kvmm_publish_args req = { staged, 200, dup, ref, 0 };

		expect_refused(pool, kvmm_publish(pool, &req), -EINVAL);
	}
	expect_refused(pool, kv_free_staged(pool, staged, 200), -EINVAL);
}

Test(life, the_pool_says_what_becomes_of_duplicates)
{
	static const struct { u32 dup; const char *refs; } want[] = {
		{ KVMM_DUP_POOL, "11......" },
		{ KVMM_DUP_ALLOW, "11......" },
		{ KVMM_DUP_HOLD, "21......" },
		{ KVMM_DUP_REJECT, "2......." },
	};

	for (u32 d = 0; d < ARRAY_SIZE(want); d++) {
		struct kvmm_pool *pool __cleanup(end_pool) = make_life(8, "lru", 0, want[d].dup);
		kvmm_ref_t elder, ref;
		kvmm_mut_t mut;

		make_active(pool, 5, 1, &elder);
		make_private(pool, 1, &mut);
		cr_expect_eq(kvmm_register(pool, &mut, keys_from(5, 1), 1, &ref), 0);
		cr_expect_str_eq(refs_picture(pool), want[d].refs);
		cr_expect_eq(kvmm_put_many(pool, &ref, 1), 0);
		cr_expect_eq(publish_as(pool, KVMM_DUP_POOL, 5, 1, &ref), 1);
		cr_expect_eq(kvmm_put_many(pool, &ref, 1), 0);
		cr_expect_eq(kvmm_put_many(pool, &elder, 1), 0);
	}
}

/* C holds B, which holds A, each of which is hidden in its turn. */
POOL_TEST(life, who_is_held_by_a_duplicate_only_goes_with_it, make_cache(8, "lru"))
{
	u32 blocks[2] = { 0, 1 };
	kvmm_ref_t ref[3];

	make_active(pool, 5, 1, &ref[0]);
	publish_as(pool, KVMM_DUP_HOLD, 5, 1, &ref[1]);
	cr_expect_eq(kvmm_evict_blocks(pool, &blocks[0], 1), 1);
	publish_as(pool, KVMM_DUP_HOLD, 5, 1, &ref[2]);
	cr_expect_eq(kvmm_evict_blocks(pool, &blocks[1], 1), 1);
	cr_expect_str_eq(refs_picture(pool), "221.....");
	cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
	cr_expect_str_eq(refs_picture(pool), "111.....");
	cr_expect_eq(found_under(pool, 5), 2);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_put_many(pool, &ref[2], 1), 0);
	cr_expect_str_eq(picture(pool), "........");
}

POOL_TEST(life, elders_and_duplicates_that_are_not_to_stay_all_go,
	  make_life(8, "lru", KVMM_POOL_RESET_ON_RELEASE, KVMM_DUP_HOLD))
{
	kvmm_ref_t ref[3];

	for (u32 i = 0; i < 3; i++)
		publish_as(pool, KVMM_DUP_POOL, 5, 1, &ref[i]);
	cr_expect_str_eq(refs_picture(pool), "311.....");
	cr_expect_eq(kvmm_put_many(pool, &ref[0], 1), 0);
	cr_expect_str_eq(refs_picture(pool), "211.....");
	cr_expect_eq(kvmm_put_many(pool, &ref[2], 1), 0);
	cr_expect_str_eq(refs_picture(pool), "11......");
	cr_expect_eq(kvmm_put_many(pool, &ref[1], 1), 0);
	cr_expect_str_eq(picture(pool), "........");
}

/* ---- domains ---- */

POOL_TEST(life, a_key_is_a_hit_in_its_own_domain_only, make_cache(32, "lru"))
{
	static const kvmm_domain_t domains[] = {
		{ 0, 0, 0 }, { 1, 0, 0 }, { 0, 1, 0 }, { 0, 0, 1 }, { 1, 1, 1 },
		{ UINT32_MAX, UINT16_MAX, UINT16_MAX },
	};
	const kvmm_key_t *keys = keys_from(0, 2);
	kvmm_ref_t ref[2];

	for (u32 i = 0; i < ARRAY_SIZE(domains); i++) {
		struct kvmm_prefix prefix = { keys, 2, 0, NULL, domains[i] };
		kvmm_mut_t mut[2];
		u64 present;

		cr_expect_eq(kvmm_prefix_len(pool, &prefix), 0);
		cr_expect_eq(kvmm_prefix_match(pool, &prefix, ref), 0);
		cr_expect_eq(kvmm_prefix_scan(pool, &prefix, ref), 0);
		cr_expect_eq(kvmm_prefix_probe(pool, &prefix, &present), 0);
		make_private(pool, 2, mut);
		cr_expect_eq(kvmm_prefix_register(pool, &prefix, mut, ref), 0);
		cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
	}
	cr_expect_eq(stat_of(pool).duplicates, 0);
	for (u32 i = 0; i < ARRAY_SIZE(domains); i++) {
		struct kvmm_prefix prefix = { keys, 2, 0, NULL, domains[i] };

		cr_expect_eq(kvmm_prefix_match(pool, &prefix, ref), 2);
		cr_expect_eq(kvmm_block_of_ref(pool, ref[0]), 2 * i);
		cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
	}
}

POOL_TEST(life, an_acquired_prompt_hits_in_its_domain_and_keeps_a_reserve, make_cache(8, "lru"))
{
	const kvmm_key_t *keys = keys_from(0, 4);
	kvmm_ref_t hit[4];
	kvmm_mut_t fresh[8];
	struct kvmm_acquire_args req = { .keys = keys, .nr_keys = 4, .max_hits = 4, .nr_blocks = 6,
					 .hits = hit, .fresh = fresh, .domain = { .tenant = 1 } };

	cache_keys(pool, 0, 4);
	cr_expect_eq(kvmm_acquire(pool, &req), 0);
	cr_expect_eq(req.nr_hits, 0);
	cr_expect_eq(req.nr_fresh, 6);
	cr_expect_eq(kvmm_free(pool, fresh, 6), 0);
	cr_expect_eq(kvmm_reset_inactive(pool), 2);
	cache_keys(pool, 0, 4);

	/* Four hits and two of the four others leave two. */
	req.domain.tenant = 0;
	req.reserve = 3;
	expect_refused(pool, kvmm_acquire(pool, &req), -ENOSPC);
	req.reserve = UINT32_MAX;
	expect_refused(pool, kvmm_acquire(pool, &req), -ENOSPC);
	req.reserve = 2;
	cr_expect_eq(kvmm_acquire(pool, &req), 0);
	cr_expect_eq(req.nr_hits, 4);
	cr_expect_eq(req.nr_fresh, 2);
	cr_expect_eq(kvmm_free(pool, fresh, 2), 0);
	cr_expect_eq(kvmm_put_many(pool, hit, 4), 0);
}

/* ---- looking ---- */

POOL_TEST(life, a_scan_finds_what_is_there_wherever_misses_are, make_cache(16, "lru"))
{
	kvmm_key_t keys[7] = { key_of(9), key_of(1), key_of(8), key_of(3), key_of(1), key_of(2),
			       key_of(7) };
	struct kvmm_prefix prefix = prefix_of(keys, 7);
	kvmm_ref_t ref[7];

	cache_keys(pool, 0, 4);
	cr_expect_eq(kvmm_prefix_scan(pool, &prefix, ref), 4);
	cr_expect_str_eq(refs_picture(pool), "0211............");
	cr_expect_str_eq(picture(pool), "IAAA............");
	for (u32 i = 0; i < 7; i++) {
		static const int want[] = { -1, 1, -1, 3, 1, 2, -1 };

		cr_expect_eq(!ref[i].gen, want[i] < 0);
		if (!ref[i].gen)
			continue;
		cr_expect_eq(kvmm_block_of_ref(pool, ref[i]), want[i]);
		cr_expect_eq(kvmm_put_many(pool, &ref[i], 1), 0);
	}
	cr_expect_eq(stat_of(pool).hit_blocks, 4);
	cr_expect_eq(stat_of(pool).miss_blocks, 3);
}

POOL_TEST(life, a_probe_changes_nothing_and_sees_every_key, make_cache(LIFE_MAX, "lru"))
{
	kvmm_key_t keys[LIFE_MAX] = { 0 };
	struct kvmm_prefix prefix = prefix_of(keys, 200);
	u64 present[4];

	cache_keys(pool, 0, 60);
	cache_keys(pool, 100, 60);
	memcpy(keys, keys_from(0, 200), 200 * sizeof(*keys));
	expect_refused(pool, kvmm_prefix_probe(pool, &prefix, present), 120);
	for (u32 i = 0; i < 200; i++)
		cr_expect_eq(present[i / 64] >> i % 64 & 1, i < 60 || (i >= 100 && i < 160), "%u", i);
	cr_expect_eq(present[3] >> (200 % 64), 0);
	expect_refused(pool, kvmm_prefix_len(pool, &prefix), 60);
}

Test(life, lengths_of_closed_prefixes_are_found_by_bisection)
{
	for (u32 nr = 0; nr <= 130; nr += 13) {
		struct kvmm_pool *pool = make_life(LIFE_MAX, "lru", KVMM_POOL_PREFIX_CLOSED, 0);
		kvmm_ref_t ref[LIFE_MAX];

		make_active(pool, 0, nr, ref);
		for (u32 len = 0; len <= 200; len += 25)
			cr_expect_eq(kvmm_match_len(pool, keys_from(0, len), len), min(len, nr));
		cr_expect_eq(kvmm_match_len(pool, keys_from(0, 131), 131), nr);
		cr_expect_eq(kvmm_put_many(pool, ref, nr), 0);
		end_pool(pool);
	}
}

POOL_TEST(life, a_pool_goes_with_everything_that_is_held_in_it,
	  make_life(32, "glfu", 0, KVMM_DUP_HOLD))
{
	kvmm_staged_t staged[2];
	kvmm_mut_t mut[2];
	kvmm_ref_t ref[4];
	u32 block = 0;

	make_active(pool, 0, 2, ref);
	publish_as(pool, KVMM_DUP_POOL, 0, 2, ref + 2);
	make_staged(pool, 4, 2, staged);
	make_private(pool, 2, mut);
	cr_expect_eq(kvmm_pin_many(pool, ref, 2), 0);
	cr_expect_eq(kvmm_evict_blocks(pool, &block, 1), 1);
}
