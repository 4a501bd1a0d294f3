// SPDX-License-Identifier: Apache-2.0
/* Cached blocks: hits, misses, what is evicted and in which order. */
#include "tests/pool/util.h"
#include "tests/support/fake_env.h"

/* A prompt of keys first ... first + nr - 1, in a pool of test size. */
struct prompt {
	kvmm_key_t key[64];
	kvmm_ref_t ref[64];
	kvmm_mut_t mut[64];
	kvmm_key_t evicted[64];
	struct kvmm_acquire_args req;
};

static int acquire(struct kvmm_pool *pool, struct prompt *p, u32 first, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		p->key[i] = key_of(first + i);
	p->req = (struct kvmm_acquire_args){
		.keys = p->key, .nr_keys = nr, .max_hits = nr, .nr_blocks = nr,
		.hits = p->ref, .fresh = p->mut, .evicted = p->evicted,
	};
	return kvmm_acquire(pool, &p->req);
}

static void end_prompt(struct kvmm_pool *pool, struct prompt *p)
{
	u32 nr_hits = p->req.nr_hits;

	cr_expect_eq(kvmm_register(pool, p->mut, p->key + nr_hits, p->req.nr_fresh,
				   p->ref + nr_hits), 0);
	cr_expect_eq(kvmm_put_many(pool, p->ref, p->req.nr_blocks), 0);
}

POOL_TEST(cache, a_second_request_reuses_the_first_ones_blocks, make_cache(16, "lru"))
{
	struct prompt p;

	cr_expect_eq(acquire(pool, &p, 0, 6), 0);
	cr_expect_eq(p.req.nr_hits, 0);
	cr_expect_eq(p.req.nr_fresh, 6);
	end_prompt(pool, &p);
	cr_expect_eq(acquire(pool, &p, 0, 8), 0);
	cr_expect_eq(p.req.nr_hits, 6);
	cr_expect_eq(p.req.nr_fresh, 2);
	cr_expect_eq(p.req.nr_evicted, 0);
	cr_expect_str_eq(picture(pool), "AAAAAAPP........");
	end_prompt(pool, &p);
	cr_expect_str_eq(picture(pool), "IIIIIIII........");
	cr_expect_eq(stat_of(pool).hit_blocks, 6);
	cr_expect_eq(stat_of(pool).miss_blocks, 8);
}

POOL_TEST(cache, matching_stops_at_the_first_miss_and_at_the_limit, make_cache(16, "lru"))
{
	kvmm_key_t key[5] = { key_of(0), key_of(1), key_of(9), key_of(2), key_of(3) };
	kvmm_ref_t ref[5];
	struct prompt p;

	cache_keys(pool, 0, 4);
	cr_expect_eq(kvmm_match_len(pool, key, 5), 2);
	cr_expect_eq(stat_of(pool).nr_inactive, 4);
	cr_expect_eq(kvmm_match(pool, key, 5, ref), 2);
	cr_expect_eq(stat_of(pool).nr_inactive, 2);
	cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);

	for (u32 i = 0; i < 4; i++)
		p.key[i] = key_of(i);
	p.req = (struct kvmm_acquire_args){ .keys = p.key, .nr_keys = 4, .max_hits = 3,
					    .nr_blocks = 4, .hits = p.ref, .fresh = p.mut };
	cr_expect_eq(kvmm_acquire(pool, &p.req), 0);
	cr_expect_eq(p.req.nr_hits, 3);
}

POOL_TEST(cache, evicts_the_tail_of_the_oldest_prompt_first, make_cache(8, "lru"))
{
	cache_keys(pool, 10, 3);
	cache_keys(pool, 20, 3);
	expect_order(pool, "12 11 10 22 21 20 ");
}

POOL_TEST(cache, evicts_exactly_what_is_missing, make_cache(8, "lru"))
{
	struct prompt p;

	cache_keys(pool, 10, 3);
	cache_keys(pool, 20, 3);
	cr_expect_eq(acquire(pool, &p, 30, 4), 0);
	cr_expect_eq(p.req.nr_evicted, 2);
	cr_expect_eq(number_of(&p.evicted[0]), 12);
	cr_expect_eq(number_of(&p.evicted[1]), 11);
	cr_expect_eq(stat_of(pool).evictions, 2);
	end_prompt(pool, &p);
	expect_order(pool, "10 22 21 20 33 32 31 30 ");
}

POOL_TEST(cache, hits_do_not_serve_as_room_for_the_rest, make_cache(8, "lru"))
{
	struct kvmm_pool_stat before, after;
	struct prompt p;

	cache_keys(pool, 0, 6);
	before = stat_of(pool);
	cr_expect_eq(acquire(pool, &p, 0, 9), -ENOSPC);
	after = stat_of(pool);
	cr_expect_eq(after.fail_nospc, before.fail_nospc + 1);
	after.fail_nospc = before.fail_nospc;
	cr_expect_arr_eq(&before, &after, sizeof(before));
	expect_order(pool, "5 4 3 2 1 0 ");
}

POOL_TEST(cache, a_block_hit_twice_in_one_prompt_is_counted_once, make_cache(4, "lru"))
{
	struct prompt p;

	cache_keys(pool, 7, 1);
	p.key[0] = p.key[1] = key_of(7);
	p.key[2] = key_of(8);
	p.req = (struct kvmm_acquire_args){ .keys = p.key, .nr_keys = 3, .max_hits = 3,
					    .nr_blocks = 5, .hits = p.ref, .fresh = p.mut };
	cr_expect_eq(kvmm_acquire(pool, &p.req), 0);
	cr_expect_eq(p.req.nr_hits, 2);
	cr_expect_eq(p.req.nr_fresh, 3);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_put_many(pool, p.ref, 2), 0);
	cr_expect_eq(stat_of(pool).nr_inactive, 1);
}

POOL_TEST(cache, fewer_blocks_than_hits_is_a_mistake_without_effect, make_cache(8, "lru"))
{
	struct prompt p = { .req = { .nr_keys = 3, .max_hits = 3, .nr_blocks = 2 } };

	cache_keys(pool, 0, 3);
	for (u32 i = 0; i < 3; i++)
		p.key[i] = key_of(i);
	p.req.keys = p.key;
	p.req.hits = p.ref;
	p.req.fresh = p.mut;
	cr_expect_eq(kvmm_acquire(pool, &p.req), -EINVAL);
	expect_order(pool, "2 1 0 ");
}

POOL_TEST(cache, of_two_blocks_with_one_key_the_older_is_hit, make_cache(8, "lru"))
{
	kvmm_key_t key = key_of(5);
	kvmm_mut_t mut[2];
	kvmm_ref_t ref[2], hit;

	cr_assert_eq(kvmm_alloc(pool, 2, mut), 0);
	cr_expect_eq(kvmm_register(pool, &mut[1], &key, 1, &ref[1]), 0);
	cr_expect_eq(kvmm_register(pool, &mut[0], &key, 1, &ref[0]), 0);
	cr_expect_eq(kvmm_match(pool, &key, 1, &hit), 1);
	cr_expect_eq(hit.index, ref[1].index);
	cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
	cr_expect_eq(kvmm_put_many(pool, &hit, 1), 0);
}

POOL_TEST(cache, handles_may_be_registered_in_place, make_cache(8, "lru"))
{
	union { kvmm_mut_t mut[4]; kvmm_ref_t ref[4]; } block;
	kvmm_key_t key[4] = { key_of(0), key_of(1), key_of(2), key_of(3) };

	cr_assert_eq(kvmm_alloc(pool, 4, block.mut), 0);
	cr_expect_eq(kvmm_register(pool, block.mut, key, 4, block.ref), 0);
	cr_expect_eq(kvmm_block_of_ref(pool, block.ref[3]), 3);
	cr_expect_eq(kvmm_put_many(pool, block.ref, 4), 0);
	cr_expect_eq(kvmm_match_len(pool, key, 4), 4);
}

POOL_TEST(cache, nothing_is_a_valid_number_of_blocks, make_cache(8, "lru"))
{
	struct kvmm_acquire_args req = { 0 };

	cr_expect_eq(kvmm_alloc(pool, 0, NULL), 0);
	cr_expect_eq(kvmm_free(pool, NULL, 0), 0);
	cr_expect_eq(kvmm_put_many(pool, NULL, 0), 0);
	cr_expect_eq(kvmm_match(pool, NULL, 0, NULL), 0);
	cr_expect_eq(kvmm_register(pool, NULL, NULL, 0, NULL), 0);
	cr_expect_eq(kvmm_acquire(pool, &req), 0);
	cr_expect_eq(stat_of(pool).allocs, 0);
}

POOL_TEST(cache, a_pool_without_policy_has_none, make_pool(8))
{
	struct kvmm_acquire_args req = { 0 };
	kvmm_mut_t mut;

	cr_expect_eq(kvmm_alloc(pool, 1, &mut), -EOPNOTSUPP);
	cr_expect_eq(kvmm_put_many(pool, NULL, 0), -EOPNOTSUPP);
	cr_expect_eq(kvmm_unpin_many(pool, NULL, 0), -EOPNOTSUPP);
	cr_expect_eq(kvmm_acquire(pool, &req), -EOPNOTSUPP);
	cr_expect_eq(kvmm_match(pool, NULL, 0, NULL), -EOPNOTSUPP);
	cr_expect_eq(kvmm_reset_inactive(pool), -EOPNOTSUPP);
}

POOL_TEST(cache, absurd_numbers_do_not_fit, make_cache(8, "lru"))
{
	kvmm_mut_t mut[1];
	struct kvmm_acquire_args req = { .nr_blocks = UINT32_MAX, .fresh = mut };

	cr_expect_eq(kvmm_alloc(pool, 9, mut), -ENOSPC);
	cr_expect_eq(kvmm_alloc(pool, UINT32_MAX, mut), -ENOSPC);
	cr_expect_eq(kvmm_acquire(pool, &req), -ENOSPC);
	cr_expect_eq(stat_of(pool).nr_free, 8);
}

POOL_TEST(cache, reset_forgets_what_nobody_holds, make_cache(16, "lru"))
{
	kvmm_key_t key = key_of(0);
	kvmm_ref_t ref;

	cache_keys(pool, 0, 6);
	cr_expect_eq(kvmm_match(pool, &key, 1, &ref), 1);
	cr_expect_eq(kvmm_reset_inactive(pool), 5);
	cr_expect_eq(stat_of(pool).nr_free, 15);
	cr_expect_eq(stat_of(pool).evictions, 0);
	cr_expect_eq(kvmm_match_len(pool, &key, 1), 1);
	cr_expect_eq(kvmm_put_many(pool, &ref, 1), 0);
}

POOL_TEST(cache, the_classic_order_keeps_blocks_without_key, make_cache(4, "lru-classic"))
{
	kvmm_mut_t mut[4];

	cache_keys(pool, 0, 2);
	cr_assert_eq(kvmm_alloc(pool, 2, mut), 0);
	cr_expect_eq(kvmm_free(pool, mut, 2), 0);
	/* The keys are older than the blocks without, and go first. */
	cr_expect_eq(stat_of(pool).nr_free, 2);
	cr_expect_eq(stat_of(pool).nr_available, 4);
	cr_expect_str_eq(picture(pool), "II..");
	cr_assert_eq(kvmm_alloc(pool, 2, mut), 0);
	cr_expect_eq(stat_of(pool).evictions, 2);
	cr_expect_eq(kvmm_free(pool, mut, 2), 0);
}

POOL_TEST(cache, the_classic_order_takes_blocks_last_first, make_cache(3, "lru-classic"))
{
	kvmm_mut_t mut[3];

	cr_assert_eq(kvmm_alloc(pool, 3, mut), 0);
	cr_expect_eq(kvmm_free(pool, mut, 3), 0);
	cr_assert_eq(kvmm_alloc(pool, 3, mut), 0);
	for (u32 i = 0; i < 3; i++)
		cr_expect_eq(kvmm_block_of_mut(pool, mut[i]), 2 - i);
}

POOL_TEST(cache, reset_keeps_the_classic_order, make_cache(4, "lru-classic"))
{
	static const int want[] = { 1, 0, 3, 2 };
	kvmm_mut_t mut[4];

	cache_keys(pool, 0, 2);
	cr_assert_eq(kvmm_alloc(pool, 2, mut), 0);
	cr_expect_eq(kvmm_free(pool, mut, 2), 0);
	cr_expect_eq(kvmm_reset_inactive(pool), 2);
	cr_expect_eq(stat_of(pool).nr_free, 4);
	cr_assert_eq(kvmm_alloc(pool, 4, mut), 0);
	for (u32 i = 0; i < 4; i++)
		cr_expect_eq(kvmm_block_of_mut(pool, mut[i]), want[i]);
	cr_expect_eq(stat_of(pool).evictions, 0);
}

POOL_TEST(cache, a_classic_pool_hands_out_new_blocks_first_and_upward, make_cache(6, "lru-classic"))
{
	kvmm_mut_t mut[6];

	for (u32 i = 0; i < 6; i++) {
		cr_assert_eq(kvmm_alloc(pool, 1, &mut[i]), 0);
		cr_expect_eq(kvmm_block_of_mut(pool, mut[i]), i);
		cr_assert_eq(kvmm_free(pool, &mut[i], 1), 0);
	}
	cr_assert_eq(kvmm_alloc(pool, 1, mut), 0);
	cr_expect_eq(kvmm_block_of_mut(pool, mut[0]), 0);
}

Test(cache, hints_are_for_policies_that_take_them)
{
	struct kvmm_pool *pool = make_cache(8, "lru"), *hinted = make_cache(8, "hint");
	kvmm_key_t key[3] = { key_of(0), key_of(1), key_of(2) };
	u64 when[3] = { 10, 30, 20 };
	kvmm_mut_t mut[3];
	kvmm_ref_t ref[3];

	cr_assert_eq(kvmm_alloc(pool, 1, mut), 0);
	cr_assert_eq(kvmm_register(pool, mut, key, 1, ref), 0);
	cr_expect_eq(kvmm_advise_many(pool, ref, KVMM_ADVISE_NEXT_USE, when, 1), -EOPNOTSUPP);
	cr_expect_eq(kvmm_put(pool, ref[0]), 0);
	end_pool(pool);
	cr_assert_eq(kvmm_alloc(hinted, 3, mut), 0);
	for (u32 i = 0; i < 3; i++)		/* three prompts: they are no chain */
		cr_assert_eq(kvmm_register(hinted, &mut[i], &key[i], 1, &ref[i]), 0);
	cr_expect_eq(kvmm_advise_many(hinted, ref, KVMM_ADVISE_NEXT_USE, when, 3), 0);
	cr_expect_eq(kvmm_put_many(hinted, ref, 3), 0);
	cr_expect_eq(kvmm_advise_many(hinted, ref, KVMM_ADVISE_NEXT_USE, when, 3), -ESTALE);
	expect_order(hinted, "1 2 0 ");
	end_pool(hinted);
}

/* @rounds prompts of 1 to 20 blocks, some of which begin alike. */
static void serve(struct kvmm_pool *pool, u32 rounds, const char *name)
{
	struct prompt p;

	for (u32 round = 0; round < rounds; round++) {
		cr_assert_eq(acquire(pool, &p, round * round % 7 * 3, 1 + round % 20), 0);
		end_prompt(pool, &p);
		cr_assert_eq(kvmm_validate(pool), 0, "%s", name);
	}
}

/* What each policy does is tested where it lives: here, that all of them live through it. */
Test(cache, every_policy_survives_traffic)
{
	for_each_policy(policy) {
		struct kvmm_pool *pool = make_cache(24, policy);

		serve(pool, 500, policy);
		cr_expect_gt(stat_of(pool).hit_blocks, 100);
		cr_expect_gt(stat_of(pool).evictions, 100);
		end_pool(pool);
		cr_expect_eq(kv_mem_bytes(), 0, "%s", policy);
	}
}

POOL_TEST(cache, takes_null_for_an_error_unless_it_is_for_nothing, make_cache(8, "hint"))
{
	kvmm_mut_t mut[2];
	kvmm_ref_t ref[2], bad = { 0, 0 };
	kvmm_key_t key[2] = { key_of(1), key_of(2) };
	u64 when[2] = { 1, 2 };

	cr_assert_eq(kvmm_alloc(pool, 2, mut), 0);
	cr_expect_eq(kvmm_alloc(pool, 1, NULL), -EINVAL);
	cr_expect_eq(kvmm_register(pool, NULL, key, 2, ref), -EINVAL);
	cr_expect_eq(kvmm_register(pool, mut, NULL, 2, ref), -EINVAL);
	cr_expect_eq(kvmm_register(pool, mut, key, 2, NULL), -EINVAL);
	cr_assert_eq(kvmm_register(pool, mut, key, 2, ref), 0);
	cr_expect_eq(kvmm_free(pool, NULL, 1), -EINVAL);
	cr_expect_eq(kvmm_put_many(pool, NULL, 1), -EINVAL);
	cr_expect_eq(kvmm_match(pool, NULL, 1, ref), -EINVAL);
	cr_expect_eq(kvmm_match(pool, key, 1, NULL), -EINVAL);
	cr_expect_eq(kvmm_match(pool, key, 1u << 31, ref), -EINVAL);
	cr_expect_eq(kvmm_match_len(pool, NULL, 1), -EINVAL);
	cr_expect_eq(kvmm_match_len(pool, key, 1u << 31), -EINVAL);
	cr_expect_eq(kvmm_advise_many(pool, NULL, KVMM_ADVISE_NEXT_USE, when, 1), -EINVAL);
	cr_expect_eq(kvmm_advise_many(pool, ref, KVMM_ADVISE_NEXT_USE, NULL, 1), -EINVAL);
	cr_expect_eq(kvmm_advise_many(pool, &bad, KVMM_ADVISE_NEXT_USE, when, 1), -EINVAL);
	cr_expect_eq(kvmm_advise_many(pool, ref, KVMM_ADVISE_NEXT_USE, when, 2), 0);
	cr_expect_eq(kvmm_block_of_ref(pool, bad), -EINVAL);
	cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
}

/* Else the last of them would be named as the first of a prompt. */
POOL_TEST(cache, positions_end_before_they_come_round, make_cache(8, "lru"))
{
	kvmm_key_t key[2] = { key_of(1), key_of(2) };
	struct kvmm_prefix prefix = { key, 2, UINT32_MAX - 1, NULL, { 0, 0, 0 } };
	kvmm_staged_t staged[2];
	kvmm_mut_t mut[2];
	kvmm_ref_t ref[2];

	cr_assert_eq(kvmm_alloc(pool, 2, mut), 0);
	cr_expect_eq(kvmm_stage(pool, &prefix, mut, staged), -EINVAL);
	cr_expect_eq(kvmm_prefix_register(pool, &prefix, mut, ref), -EINVAL);
	prefix.position--;
	cr_assert_eq(kvmm_prefix_register(pool, &prefix, mut, ref), 0);
	cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
}

Test(cache, either_index_finds_the_same)
{
	static const char *const index[] = { NULL, "flat", "lfht" };
	u64 hits[ARRAY_SIZE(index)];

	for (u32 i = 0; i < ARRAY_SIZE(index); i++) {
		struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 24,
					       .policy = "lru", .index = index[i] };
		struct kvmm_pool *pool __cleanup(end_pool) = make_pool_of(&attr);

		serve(pool, 100, index[i] ?: "default");
		hits[i] = stat_of(pool).hit_blocks;
	}
	cr_expect_gt(hits[0], 100);
	cr_expect_eq(hits[1], hits[0]);
	cr_expect_eq(hits[2], hits[0]);
}

Test(cache, an_index_of_another_name_is_none)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 24, .index = "tree" };
	struct kvmm_pool *pool;

	cr_expect_eq(kvmm_pool_create(&attr, &pool), -ENOENT);
}

static void expect_missed(struct kvmm_pool *pool, u64 never, u64 evicted, u64 staged, u64 tenant,
			  u64 group, u64 too_short)
{
	const u64 want[KVMM_NR_MISSES] = { never, evicted, staged, tenant, group, too_short };
	struct kvmm_pool_stat stat = stat_of(pool);

	cr_expect_arr_eq(stat.nr_missed, want, sizeof(want));
}

/* The reason is that of the first key that is missing. */
POOL_TEST(cache, says_why_a_match_ended, make_cache(4, "lru"))
{
	kvmm_key_t key[3] = { key_of(0), key_of(1), key_of(2) };
	struct kvmm_prefix prefix = { .keys = key, .nr = 3 }, last = { .keys = &key[2], .nr = 1 };
	struct kvmm_acquire_args none = { .nr_blocks = 1 };
	kvmm_staged_t staged;
	kvmm_ref_t ref[3];
	kvmm_mut_t mut;

	cr_expect_eq(kvmm_prefix_match(pool, &prefix, ref), 0);
	expect_missed(pool, 1, 0, 0, 0, 0, 0);
	cache_keys(pool, 0, 2);
	prefix.domain.tenant = 1;
	cr_expect_eq(kvmm_prefix_match(pool, &prefix, ref), 0);
	expect_missed(pool, 1, 0, 0, 1, 0, 0);
	prefix.domain = (kvmm_domain_t){ .group = 1 };
	cr_expect_eq(kvmm_prefix_match(pool, &prefix, ref), 0);
	expect_missed(pool, 1, 0, 0, 1, 1, 0);
	cr_assert_eq(kvmm_alloc(pool, 1, &mut), 0);
	cr_assert_eq(kvmm_stage(pool, &last, &mut, &staged), 0);
	prefix.domain = (kvmm_domain_t){ 0 };
	cr_expect_eq(kvmm_prefix_match(pool, &prefix, ref), 2);
	expect_missed(pool, 1, 0, 1, 1, 1, 0);
	cr_expect_eq(kvmm_put_many(pool, ref, 2), 0);
	cr_expect_eq(kv_free_staged(pool, &staged, 1), 0);
	cr_expect_eq(kvmm_reset_inactive(pool), 2);
	cr_expect_eq(kvmm_prefix_match(pool, &prefix, ref), 0);
	expect_missed(pool, 1, 1, 1, 1, 1, 0);
	none.fresh = &mut;
	cr_expect_eq(kvmm_acquire(pool, &none), 0);
	expect_missed(pool, 1, 1, 1, 1, 1, 1);
	cr_expect_eq(kvmm_free(pool, &mut, 1), 0);
}

#define MANY	1000u

static const char *const an_index[] = { "flat", "lfht" };

static void look_up(struct kvmm_pool *pool, u32 tenant, u32 first, u32 nr)
{
	for (u32 i = first; i < first + nr; i++) {
		kvmm_key_t key = key_of(i);
		struct kvmm_prefix prefix = { .keys = &key, .nr = 1, .domain.tenant = tenant };
		kvmm_ref_t ref;

		cr_assert_eq(kvmm_prefix_match(pool, &prefix, &ref), 0);
	}
}

/* Of the names that went, the last as many as the pool has blocks; in @index. */
static void expect_ghosts(const char *index, u32 nr_blocks)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = nr_blocks, .policy = "lru",
				       .index = index };
	struct kvmm_pool *pool __cleanup(end_pool) = make_pool_of(&attr);
	u32 nr = 5 * nr_blocks + nr_blocks / 2;
	struct kvmm_pool_stat stat;

	for (u32 i = 0; i < nr; i++)
		cache_keys(pool, i, 1);
	look_up(pool, 0, nr - 2 * nr_blocks, nr_blocks);
	/* One in a million has lost its place. */
	cr_expect_geq(stat_of(pool).nr_missed[KVMM_MISS_EVICTED], nr_blocks - 1);
	look_up(pool, 0, 1u << 20, MANY);
	stat = stat_of(pool);
	cr_expect_geq(stat.nr_missed[KVMM_MISS_NEVER], MANY - 15, "%lu", stat.nr_missed[KVMM_MISS_NEVER]);
	look_up(pool, 1, nr - nr_blocks, nr_blocks);
	/* Two keys in a million find no room. */
	cr_expect_geq(stat_of(pool).nr_missed[KVMM_MISS_TENANT], nr_blocks - 1, "%lu of %u",
		      stat_of(pool).nr_missed[KVMM_MISS_TENANT], nr_blocks);
}

Test(cache, the_names_that_went_last_are_known_as_evicted_and_those_of_tenants_as_theirs)
{
	for (u32 i = 0; i < ARRAY_SIZE(an_index); i++) {
		expect_ghosts(an_index[i], MANY);
		expect_ghosts(an_index[i], 4);
		expect_ghosts(an_index[i], 37);
	}
}

POOL_TEST(cache, a_name_that_is_staged_no_more_is_none_that_is_about_to_come, make_cache(64, "lru"))
{
	kvmm_staged_t staged[64];
	kvmm_mut_t mut[64];

	cr_assert_eq(kvmm_alloc(pool, 64, mut), 0);
	for (u32 round = 0; round < 20; round++) {
		for (u32 i = 0; i < 64; i++) {
			kvmm_key_t key = key_of(100 * round + i);
			struct kvmm_prefix one = { .keys = &key, .nr = 1 };

			cr_assert_eq(kvmm_stage(pool, &one, &mut[i], &staged[i]), 0);
		}
		look_up(pool, 0, 100 * round, 64);
		expect_missed(pool, 64 * round, 0, 64 * (round + 1), 0, 0, 0);
		cr_assert_eq(kvmm_unstage(pool, staged, 64, mut), 0);
		look_up(pool, 0, 100 * round, 64);
		expect_missed(pool, 64 * (round + 1), 0, 64 * (round + 1), 0, 0, 0);
	}
	cr_expect_eq(kvmm_free(pool, mut, 64), 0);
}

static void expect_held_after_reset(const char *policy)
{
	struct kvmm_pool *pool __cleanup(end_pool) = make_cache(16, policy);
	kvmm_range_t range;
	kvmm_ref_t ref;
	kvmm_mut_t mut[2];
	kvmm_key_t key = key_of(0);
	u32 nr_held = 77;

	cr_expect_eq(kvmm_forget_cached(pool, 0, &nr_held), 0);
	cr_expect_eq(nr_held, 0, "%s: %u are held in a new pool", policy, nr_held);
	cache_keys(pool, 0, 4);
	cr_expect_eq(kvmm_forget_cached(pool, 0, &nr_held), 4);
	cr_expect_eq(nr_held, 0);
	cache_keys(pool, 0, 4);
	cr_assert_eq(kvmm_alloc(pool, 2, mut), 0);
	cr_assert_eq(kvmm_range_alloc(pool, 3, KVMM_RUNS(1), &range), 0);
	cr_assert_eq(kvmm_match(pool, &key, 1, &ref), 1);
	cr_expect_eq(kvmm_forget_cached(pool, 0, &nr_held), 3);
	cr_expect_eq(nr_held, 2 + 3 + 1);
	cr_expect_eq(kvmm_forget_cached(pool, 0, NULL), 0);
	cr_expect_eq(kvmm_put(pool, ref), 0);
	cr_expect_eq(kvmm_free(pool, mut, 2), 0);
	cr_expect_eq(kvmm_range_free(pool, range), 0);
	cr_expect_eq(kvmm_forget_cached(pool, 0, &nr_held), 1);
	cr_expect_eq(nr_held, 0);
}

Test(cache, resetting_what_is_inactive_says_how_much_is_held)
{
	expect_held_after_reset("lru");
	expect_held_after_reset("lru-classic");		/* it orders free blocks, too */
}

POOL_TEST(cache, a_request_counts_when_it_is_admitted, make_cache(8, "lru"))
{
	kvmm_mut_t held[4];
	struct prompt p;

	cache_keys(pool, 0, 2);
	cr_assert_eq(kvmm_alloc(pool, 4, held), 0);
	for (u32 i = 0; i < 3; i++)
		cr_expect_eq(acquire(pool, &p, 0, 6), -ENOSPC);
	cr_expect_eq(stat_of(pool).hit_blocks, 0);
	expect_missed(pool, 0, 0, 0, 0, 0, 0);
	cr_expect_eq(kvmm_free(pool, held, 4), 0);
	cr_expect_eq(acquire(pool, &p, 0, 6), 0);
	cr_expect_eq(stat_of(pool).hit_blocks, 2);
	cr_expect_eq(stat_of(pool).miss_blocks, 4);
	expect_missed(pool, 1, 0, 0, 0, 0, 0);
	end_prompt(pool, &p);
}

POOL_TEST(cache, single_forms_do_what_batches_do, make_cache(4, "lru"))
{
	kvmm_weak_t weak;
	kvmm_ref_t ref;

	register_keys(pool, 7, 1, &ref);
	weak = kvmm_weak_of(ref);
	cr_expect_eq(kvmm_get(pool, ref), 0);
	cr_expect_eq(kvmm_touch(pool, ref), 0);
	cr_expect_eq(kvmm_put(pool, ref), 0);
	cr_expect_eq(kvmm_pin(pool, ref), 0);
	cr_expect_eq(kvmm_unpin(pool, ref), 0);
	cr_expect_eq(kvmm_unpin(pool, ref), -EINVAL);
	cr_expect_eq(kvmm_put(pool, ref), 0);
	cr_expect_eq(kvmm_put(pool, ref), -ESTALE);
	cr_expect_str_eq(picture(pool), "I...");
	cr_expect_eq(kvmm_upgrade(pool, weak, &ref), 1);
	cr_expect_str_eq(picture(pool), "A...");
	cr_expect_eq(kvmm_put(pool, ref), 0);
	cr_expect_eq(kvmm_reset_inactive(pool), 1);
	cr_expect_eq(kvmm_upgrade(pool, weak, &ref), 0);
}

/* ---- a day ---- */

#define DAY_BLOCKS	128u
#define MINUTE_NS	60000000000ull

/* Ticks of 2^20 ns run over after 52 days: here they do at noon. */
#define NOON_NS		(1ull << 52)

static void use_for_a_minute(struct kvmm_pool *pool, u64 *random)
{
	for (u32 i = 0; i < 8; i++) {
		struct prompt p;
		u32 nr;

		*random = *random * 6364136223846793005ull + 1442695040888963407ull;
		nr = 1 + (*random >> 40) % 12;
		cr_assert_eq(acquire(pool, &p, 1000 * ((*random >> 50) % 40), nr), 0);
		cr_assert_eq(kvmm_register(pool, p.mut, p.key + p.req.nr_hits, p.req.nr_fresh,
					   p.ref + p.req.nr_hits), 0);
		cr_assert_eq(kvmm_put_many(pool, p.ref, nr), 0);
	}
}

static void spend_a_day(const char *policy)
{
	struct fake_env fake;
	struct kvmm_pool *pool;
	u64 random = 24, bytes = 0;

	fake_env_install(&fake);
	fake.now_ns = NOON_NS - 12 * 60 * MINUTE_NS;
	pool = make_cache(DAY_BLOCKS, policy);
	for (u32 minute = 0; minute < 24 * 60; minute++) {
		struct kvmm_block_info info;
		u32 nr_young = 0;

		use_for_a_minute(pool, &random);
		if (minute == 60)
			bytes = fake.live_bytes;
		for (u32 i = 0; minute % 60 == 59 && i < DAY_BLOCKS; i++) {
			cr_assert_eq(kvmm_block_get_info(pool, i, &info), 0);
			cr_assert_leq(info.last_access_ns, fake.now_ns, "%s", policy);
			nr_young += fake.now_ns - info.last_access_ns < MINUTE_NS;
		}
		cr_assert(minute % 60 != 59 || (nr_young && !kvmm_validate(pool)), "%s, minute %u",
			  policy, minute);
		fake_env_advance(&fake, MINUTE_NS);
	}
	cr_expect_leq(fake.live_bytes, bytes + bytes / 8, "%s: %lu, once %lu bytes", policy,
		      (unsigned long)fake.live_bytes, (unsigned long)bytes);
	cr_expect_geq(kvmm_reset_inactive(pool), 1);
	cr_expect_eq(stat_of(pool).nr_free, DAY_BLOCKS, "%s", policy);
	cr_expect_eq(stat_of(pool).nr_retired, 0);
	end_pool(pool);
	cr_expect_eq(fake.nr_live, 0, "%s", policy);
	fake_env_remove(&fake);
}

Test(cache, a_day_of_churn_leaves_nothing_behind)
{
	for_each_policy(policy)
		spend_a_day(policy);
}
