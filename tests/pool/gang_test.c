// SPDX-License-Identifier: Apache-2.0
/* Gangs: all of it or none, and nobody can tell afterwards that it was none. */
#include "pool/internal.h"
#include "tests/pool/gang_util.h"
#include "tests/support/fake_env.h"

static struct kvmm_pool *pool[GANG_POOLS];

/* Whatever a test has made and not ended. */
static void tear_down(void)
{
	end_pools(pool, GANG_POOLS);
}

TestSuite(gang, .fini = tear_down);

#define expect_pictures(...)								\
	do {										\
		const char *want[] = { __VA_ARGS__ };					\
											\
		for (u32 i = 0; i < sizeof(want) / sizeof(want[0]); i++)		\
			cr_expect_str_eq(picture(pool[i]), want[i], "pool %u: %s", i,	\
					 picture(pool[i]));				\
	} while (0)

Test(gang, gives_blocks_and_ranges_of_several_pools)
{
	struct kvmm_gang_want wants[] = { want_range(2, 3, 1, 'a'), want_blocks(0, 2),
					  want_range(1, 8, 1, 'b'), want_blocks(2, 1) };
	kvmm_range_t ranges[2];
	kvmm_mut_t blocks[3];
	struct kvmm_gang *gang;

	make_pools(pool, 3, 8, "lru");
	cr_assert_eq(reserve(pool, wants, 4, &gang), 0);
	expect_pictures("PP......", "########", "###P....");
	cr_assert_eq(kvmm_gang_commit(gang, blocks, ranges), 0);
	expect_pictures("PP......", "bbbbbbbb", "aaaP....");

	cr_expect_eq(kvmm_free(pool[0], blocks, 2), 0);
	cr_expect_eq(kvmm_free(pool[2], blocks + 2, 1), 0);
	cr_expect_eq(kvmm_range_free(pool[2], ranges[0]), 0);
	cr_expect_eq(kvmm_range_free_seq(pool[1], 'b'), 1);
	expect_pictures("........", "........", "........");
}

Test(gang, what_is_missing_in_one_pool_is_taken_of_none)
{
	struct kvmm_gang_want wants[] = { want_blocks(0, 8), want_range(1, 6, 2, 1),
					  want_blocks(3, 4), want_blocks(2, 4) };
	struct digests before, after;
	struct kvmm_gang *gang = NULL;

	make_pools(pool, 4, 8, "lru");
	cache_keys(pool[0], 1, 6);
	cache_keys(pool[1], 1, 5);
	take(pool[2], 5, 0);
	before = digests_of(pool, 4);
	cr_expect_eq(reserve(pool, wants, 4, &gang), -ENOSPC);
	after = digests_of(pool, 4);
	cr_expect_str_eq(differ(&before, &after), "");
	cr_expect_null(gang);
	expect_pictures("IIIIII..", "IIIII...", "#####...", "........");
}

static void abort_leaves_no_trace(const char *policy)
{
	struct kvmm_gang_want wants[] = { want_blocks(0, 9), want_range(1, 13, 8, 5),
					  want_blocks(0, 2) };
	struct digests before, during, after;
	struct kvmm_gang *gang;
	u32 order[2][16], nr[2];

	make_pools(pool, 2, 16, policy);
	for (u32 i = 0; i < 2; i++) {
		cache_keys(pool[i], 1, 7);
		cache_keys(pool[i], 20, 5);
	}
	before = digests_of(pool, 2);
	for (u32 n = 0; n < 3; n++) {
		cr_assert_eq(reserve(pool, wants, 3, &gang), 0, "%s", policy);
		during = digests_of(pool, 2);
		cr_expect_str_neq(differ(&before, &during), "");
		cr_assert_eq(kvmm_validate(pool[0]), 0);
		cr_assert_eq(kvmm_validate(pool[1]), 0);
		cr_expect_eq(kvmm_gang_abort(gang), 0);
		after = digests_of(pool, 2);
		cr_expect_str_eq(differ(&before, &after), "", "%s: %s", policy,
				 differ(&before, &after));
	}
	/* And it comes to the same as if it had not been. */
	nr[0] = eviction_order(pool[0], order[0], 16);
	nr[1] = eviction_order(pool[1], order[1], 16);
	cr_expect_eq(nr[0], 12, "%s", policy);
	cr_expect_eq(nr[1], 12, "%s", policy);
	cr_expect_eq(memcmp(order[0], order[1], nr[0] * sizeof(order[0][0])), 0, "%s", policy);
	end_pools(pool, 2);
}

Test(gang, a_range_that_grows_has_room_behind_it_from_the_commit_on)
{
	struct kvmm_gang_want wants[] = { want_range(0, 3, 2, 'a'), want_range(0, 9, 8, 'b') };
	struct digests before, after;
	struct kvmm_gang *gang;
	kvmm_range_t ranges[2];

	wants[0].flags = wants[1].flags = KVMM_ALLOC_GROWS;
	make_pools(pool, 1, 16, "lru");
	cache_keys(pool[0], 1, 6);
	before = digests_of(pool, 1);
	for (u32 n = 0; n < 3; n++) {
		cr_assert_eq(reserve(pool, wants, 2, &gang), 0);
		cr_assert_eq(kvmm_validate(pool[0]), 0);
		cr_expect_eq(kvmm_gang_abort(gang), 0);
		after = digests_of(pool, 1);
		cr_expect_str_eq(differ(&before, &after), "");
	}
	wants[1].nr = 13;
	cr_assert_eq(reserve(pool, wants, 2, &gang), 0);
	cr_assert_eq(kvmm_gang_commit(gang, NULL, ranges), 0);
	cr_expect_eq(kvmm_range_free(pool[0], ranges[1]), 0);
	cr_expect_eq(kvmm_range_grow(pool[0], ranges[0], 4), 0);
	cr_expect_eq(kvmm_range_extents(pool[0], ranges[0], NULL, 0), 1);
	cr_assert_eq(kvmm_validate(pool[0]), 0);
}

Test(gang, abort_leaves_no_trace_whatever_the_policy)
{
	for_each_policy(policy)
		abort_leaves_no_trace(policy);
}

/* 3 blocks and a range of 4, in two pools of 8 cached blocks. */
static struct kvmm_gang *gang_of_victims(void)
{
	struct kvmm_gang_want wants[] = { want_blocks(0, 3), want_range(1, 4, 4, 0) };
	struct kvmm_gang *gang;

	make_pools(pool, 2, 8, "lru");
	for (u32 i = 0; i < 2; i++)
		cache_keys(pool[i], 1, 8);
	cr_assert_eq(reserve(pool, wants, 2, &gang), 0);
	return gang;
}

Test(gang, what_is_to_be_evicted_is_no_hit_and_comes_back)
{
	struct kvmm_gang_want wants[] = { want_blocks(0, 3), want_range(1, 4, 4, 0) };
	struct kvmm_gang *gang = gang_of_victims();
	kvmm_key_t keys[8];

	for (u32 i = 0; i < 8; i++)
		keys[i] = key_of(1 + i);
	cr_expect_eq(kvmm_match_len(pool[0], keys, 8), 5);
	cr_expect_eq(kvmm_match_len(pool[1], keys, 8), 4);
	cr_expect_eq(stat_of(pool[0]).nr_available, 5);
	cr_expect_eq(stat_of(pool[1]).nr_available, 4);
	cr_assert_eq(kvmm_gang_abort(gang), 0);
	cr_expect_eq(kvmm_match_len(pool[0], keys, 8), 8);
	cr_expect_eq(kvmm_match_len(pool[1], keys, 8), 8);

	cr_assert_eq(reserve(pool, wants, 2, &gang), 0);
	cr_assert_eq(kvmm_gang_commit(gang, (kvmm_mut_t[3]){ 0 }, (kvmm_range_t[1]){ 0 }), 0);
	cr_expect_eq(kvmm_match_len(pool[0], keys, 8), 5);
	cr_expect_eq(kvmm_match_len(pool[1], keys, 8), 4);
	cr_expect_eq(stat_of(pool[0]).evictions, 3);
	cr_expect_eq(stat_of(pool[1]).evictions, 4);
}

/* Blocks by state are as many as the pool counts, whether one asks for each or reads the map. */
static void expect_counts_of_blocks(struct kvmm_pool *of)
{
	u32 nr[KVMM_NR_BLOCK_STATES + 1] = { 0 }, mapped[KVMM_NR_BLOCK_STATES + 1] = { 0 }, at = 0;
	struct kvmm_pool_stat stat = stat_of(of);
	struct kvmm_block_info info;
	struct kvmm_map_run run;

	for (u32 i = 0; i < stat.nr_blocks; i++) {
		cr_assert_eq(kvmm_block_get_info(of, i, &info), 0);
		nr[info.state]++;
	}
	while (kvmm_map_read(of, &at, 0, &run, 1) > 0)
		mapped[kvmm_map_block_state(run.state)] += run.nr;
	cr_expect_arr_eq(nr, stat.nr_state, sizeof(stat.nr_state));
	cr_expect_arr_eq(mapped, stat.nr_state, sizeof(stat.nr_state));
}

Test(gang, what_is_to_be_evicted_is_private_whomever_one_asks)
{
	static const char *const names[] = { "lru", "lru-classic" };

	for (u32 i = 0; i < ARRAY_SIZE(names); i++) {
		struct kvmm_gang_want wants[] = { want_blocks(0, 5), want_range(1, 5, 4, 'a') };
		struct kvmm_gang *gang;

		make_pools(pool, 2, 8, names[i]);
		cache_keys(pool[0], 1, 6);
		cache_keys(pool[1], 1, 6);
		cr_assert_eq(reserve(pool, wants, 2, &gang), 0);
		cr_expect_eq(stat_of(pool[0]).nr_state[KVMM_BLOCK_PRIVATE], 5);
		expect_counts_of_blocks(pool[0]);
		expect_counts_of_blocks(pool[1]);
		cr_assert_eq(kvmm_gang_abort(gang), 0);
		cr_expect_eq(stat_of(pool[0]).nr_state[KVMM_BLOCK_INACTIVE], 6);
		expect_counts_of_blocks(pool[0]);
		expect_counts_of_blocks(pool[1]);
		end_pools(pool, 2);
	}
}

/* Readers without a lock look at the generation twice, and an abort does not change that. */
Test(gang, a_place_is_not_written_while_its_block_is_lent)
{
	struct kvmm_gang_want want = want_range(0, 4, 4, 0);
	struct kvmm_gang *gang;
	u32 nr_lent = 0;

	make_pools(pool, 1, 8, "lru");
	cache_keys(pool[0], 1, 8);
	cr_assert_eq(reserve(pool, &want, 1, &gang), 0);
	for (u32 i = 0; i < 8; i++) {
		const struct kv_entry *entry = entry_at(pool[0], i);

		nr_lent += kv_word_is(entry->word, KV_ENTRY_EVICTING);
		cr_expect_lt(entry->place, 8);
	}
	cr_expect_eq(nr_lent, 4);
	cr_assert_eq(kvmm_gang_abort(gang), 0);
}

Test(gang, keys_that_were_to_be_forgotten_do_not_come_back)
{
	struct kvmm_gang *gang = gang_of_victims();
	kvmm_key_t key = key_of(1);
	u32 ids[8] = { 0, 1, 2, 3, 4, 5, 6, 7 };

	cr_expect_eq(kvmm_evict_blocks(pool[0], ids, 8), 5);
	cr_expect_eq(kvmm_reset_inactive(pool[1]), 4);
	cr_expect_eq(kvmm_reset_cache(pool[0]), -EBUSY);
	cr_assert_eq(kvmm_gang_abort(gang), 0);
	expect_pictures("........", "........");
	cr_expect_eq(kvmm_match_len(pool[0], &key, 1), 0);
	cr_expect_eq(kvmm_reset_cache(pool[0]), 0);
}

static int commit(struct kvmm_gang *gang)
{
	kvmm_mut_t blocks[3];
	kvmm_range_t range;

	return kvmm_gang_commit(gang, blocks, &range);
}

static void closed_in_between(int (*end)(struct kvmm_gang *gang), u32 closed)
{
	struct kvmm_gang *gang = gang_of_victims();

	kv_lock(&pool[closed]->lock);
	pool_poison(pool[closed]);
	kv_unlock(&pool[closed]->lock);
	cr_expect_eq(end(gang), -EUCLEAN);
	cr_expect_eq(stat_of(pool[!closed]).nr_available, 8);
	kvmm_pool_destroy(pool[closed]);
	pool[closed] = NULL;
	tear_down();
}

TEST_CALL(gang, ended_beside_a_closed_pool_gives_back_what_the_others_lent,
	  closed_in_between(kvmm_gang_abort, 0), closed_in_between(kvmm_gang_abort, 1),
	  closed_in_between(commit, 0), closed_in_between(commit, 1))

static void call_in_between(const char *policy)
{
	struct kvmm_gang_want wants[] = { want_blocks(0, 6), want_range(1, 9, 8, 3) };
	struct kvmm_compact goal = { .size = sizeof(goal) };
	kvmm_range_t other;
	struct kvmm_gang *gang;

	make_pools(pool, 2, 16, policy);
	for (u32 i = 0; i < 2; i++)
		cache_keys(pool[i], 1, 12);
	cr_assert_eq(reserve(pool, wants, 2, &gang), 0);
	for (u32 i = 0; i < 2; i++) {
		cr_expect_eq(kvmm_range_find_seq(pool[i], 3, &other, 1), 0);
		cache_keys(pool[i], 40, 3);
		kvmm_pool_compact(pool[i], &goal);
		cr_assert_eq(kvmm_validate(pool[i]), 0);
		other = take(pool[i], 2, 0);
		cr_expect_eq(kvmm_range_free(pool[i], other), 0);
	}
	cr_expect_eq(kvmm_gang_abort(gang), 0);
	for (u32 i = 0; i < 2; i++)
		cr_expect_eq(stat_of(pool[i]).nr_available, 16);
	end_pools(pool, 2);
}

Test(gang, calls_in_between_do_no_harm)
{
	for_each_policy(policy)
		call_in_between(policy);
}

/* The older one first, and others that have evicted in between: links of the orders are stale. */
static void abort_out_of_order(const char *policy)
{
	struct kvmm_gang_want wants[] = { want_blocks(0, 3), want_blocks(0, 4) };
	kvmm_mut_t mut[3];
	struct kvmm_gang *gang[3];

	make_pools(pool, 1, 16, policy);
	cache_keys(pool[0], 1, 16);
	cr_assert_eq(reserve(pool, &wants[0], 1, &gang[0]), 0);
	cr_assert_eq(reserve(pool, &wants[1], 1, &gang[1]), 0);
	cr_assert_eq(kvmm_alloc(pool[0], 3, mut), 0);
	cr_assert_eq(reserve(pool, &wants[0], 1, &gang[2]), 0);
	for (u32 i = 0; i < 3; i++) {
		cr_expect_eq(kvmm_gang_abort(gang[i]), 0, "%s", policy);
		cr_assert_eq(kvmm_validate(pool[0]), 0, "%s", policy);
	}
	cr_expect_eq(kvmm_free(pool[0], mut, 3), 0);
	cr_expect_eq(stat_of(pool[0]).nr_available, 16);
	cr_expect_eq(kvmm_reset_inactive(pool[0]), 13, "%s", policy);
	end_pools(pool, 1);
}

Test(gang, gangs_are_aborted_in_any_order)
{
	for_each_policy(policy)
		abort_out_of_order(policy);
}

Test(gang, a_scattered_pool_is_compacted)
{
	struct kvmm_gang_want wants[] = { want_range(0, 2, 1, 'x'), want_range(1, 4, 1, 'y') };
	kvmm_range_t ranges[26];
	struct kvmm_gang *gang;

	make_pools(pool, 2, 8, NULL);
	paint(pool[1], "a.b.c.d.", ranges);
	wants[1].flags = KVMM_ALLOC_NO_COMPACT;
	cr_expect_eq(reserve(pool, wants, 2, &gang), -ENOSPC);
	expect_pictures("........", "a.b.c.d.");
	cr_expect_eq(stat_of(pool[1]).fail_frag, 1);
	wants[1].flags = 0;
	cr_assert_eq(reserve(pool, wants, 2, &gang), 0);
	cr_expect_eq(stat_of(pool[1]).fail_frag, 2, "tried twice, and saved by moving");
	cr_expect_eq(stat_of(pool[1]).fail_nospc, 0);
	cr_assert_eq(kvmm_gang_commit(gang, NULL, ranges), 0);
	cr_expect_str_eq(picture(pool[0]), "xx......");
	cr_expect_not_null(strstr(picture(pool[1]), "yyyy"));
}

Test(gang, ranks_that_do_alike_have_one_digest)
{
	struct kvmm_pool *pools[2][2];
	struct kvmm_gang_want wants[] = { want_blocks(0, 5), want_range(1, 6, 4, 0) };
	struct kvmm_gang_attr attr = { .size = sizeof(attr), .nr_pools = 2, .wants = wants,
				       .nr = 2 };
	kvmm_mut_t blocks[2][5];
	kvmm_range_t range[2];
	struct kvmm_gang *gang[2];
	kvmm_sum_t sum[2];

	for (u32 i = 0; i < 2; i++)
		make_pools(pools[i], 2, 16, "default");
	for (u32 step = 0; step < 8; step++) {
		int err[2];

		attr.id = step;
		for (u32 i = 0; i < 2; i++) {
			attr.pools = pools[i];
			err[i] = kvmm_gang_reserve(&attr, &gang[i], &sum[i]);
		}
		cr_expect(kvmm_sum_equal(&sum[0], &sum[1]));
		cr_expect_eq(err[0], err[1]);
		for (u32 i = 0; i < 2 && !err[i]; i++)
			kvmm_gang_commit(gang[i], blocks[i], &range[i]);
		cr_expect_eq(memcmp(blocks[0], blocks[1], sizeof(blocks[0])), 0);
		cr_expect_eq(memcmp(&range[0], &range[1], sizeof(range[0])), 0);
	}
	/* One rank has called its pool otherwise. */
	cr_assert_eq(kvmm_free(pools[1][0], blocks[1], 5), 0);
	attr.id = 99;
	for (u32 i = 0; i < 2; i++) {
		attr.pools = pools[i];
		if (!kvmm_gang_reserve(&attr, &gang[i], &sum[i]))
			cr_expect_eq(kvmm_gang_abort(gang[i]), 0);
	}
	cr_expect_not(kvmm_sum_equal(&sum[0], &sum[1]));
	for (u32 i = 0; i < 2; i++)
		end_pools(pools[i], 2);
}

Test(gang, limits_of_tenants_hold)
{
	struct kvmm_tenant_attr limit = KVMM_TENANT_ATTR_INIT;
	struct kvmm_gang_want wants[] = { want_blocks(0, 6), want_range(1, 6, 4, 0) };
	struct digests before, after;
	struct kvmm_gang *gang;

	make_pools(pool, 2, 16, "lru");
	limit.max = 8;
	wants[0].tenant = wants[1].tenant = 3;
	for (u32 i = 0; i < 2; i++)
		cr_assert_eq(kvmm_tenant_set(pool[i], 3, &limit), 0);
	before = digests_of(pool, 2);
	cr_assert_eq(reserve(pool, wants, 1, &gang), 0);
	cr_expect_eq(kvmm_gang_abort(gang), 0);
	after = digests_of(pool, 2);
	cr_expect_str_eq(differ(&before, &after), "", "without a victim");
	for (u32 i = 0; i < 2; i++)
		cache_keys(pool[i], 1, 12);
	before = digests_of(pool, 2);
	cr_assert_eq(reserve(pool, wants, 2, &gang), 0);
	cr_assert_eq(kvmm_validate(pool[0]), 0);
	cr_assert_eq(kvmm_validate(pool[1]), 0);
	cr_expect_eq(kvmm_gang_abort(gang), 0);
	after = digests_of(pool, 2);
	cr_expect_str_eq(differ(&before, &after), "");
	wants[1].nr = 9;
	cr_expect_eq(reserve(pool, wants, 2, &gang), -EDQUOT);
	wants[1].nr = 8;
	cr_assert_eq(reserve(pool, wants, 2, &gang), 0);
	cr_assert_eq(kvmm_gang_commit(gang, (kvmm_mut_t[6]){ 0 }, (kvmm_range_t[1]){ 0 }), 0);
	cr_assert_eq(kvmm_validate(pool[0]), 0);
	cr_expect_eq(reserve(pool, wants, 1, &gang), -EDQUOT);
}

/* "lru-classic" keeps free blocks in its own order; a gang that claims them counts them, too. */
Test(gang, free_blocks_that_a_policy_keeps_are_lent_as_well)
{
	struct kvmm_gang_want want = want_range(0, 4, 4, 'a');
	kvmm_mut_t mut[16];
	struct kvmm_gang *gang;

	make_pools(pool, 1, 16, "lru-classic");
	cr_assert_eq(kvmm_alloc(pool[0], 16, mut), 0);
	cr_assert_eq(kvmm_free(pool[0], mut, 16), 0);
	cr_assert_eq(reserve(pool, &want, 1, &gang), 0);
	cr_expect_eq(kvmm_validate(pool[0]), 0);
	cr_assert_eq(kvmm_gang_abort(gang), 0);
	cr_expect_eq(kvmm_validate(pool[0]), 0);
}

Test(gang, a_tenant_may_lend_to_itself)
{
	struct kvmm_tenant_attr limit = KVMM_TENANT_ATTR_INIT;
	struct kvmm_gang_want want = want_range(0, 4, 4, 'a');
	kvmm_range_t range;
	struct kvmm_gang *gang;

	make_pools(pool, 1, 16, "lru");
	cr_assert_eq(kvmm_tenant_set(pool[0], KVMM_TENANT_REST, &limit), 0);
	cache_keys(pool[0], 0, 16);
	cr_assert_eq(reserve(pool, &want, 1, &gang), 0);
	cr_expect_eq(kvmm_validate(pool[0]), 0);
	cr_assert_eq(kvmm_gang_commit(gang, NULL, &range), 0);
	cr_expect_eq(kvmm_validate(pool[0]), 0);
	cr_assert_eq(kvmm_range_free(pool[0], range), 0);
}

/* The range gets the hole that was promised; victims make up for it, though it has not got their blocks. */
static struct kvmm_gang *gang_beside_promise(kvmm_promise_t *promise)
{
	struct kvmm_gang_want want = want_range(0, 4, 1, 'a');
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = 4 };
	struct kvmm_gang *gang;
	kvmm_ref_t ref;

	make_pools(pool, 1, 16, "lru");
	for (u32 i = 0; i < 12; i++)
		cache_keys(pool[0], i, 1);
	for (u32 i = 1; i < 12; i += 2) {
		kvmm_key_t key = key_of(i);

		cr_assert_eq(kvmm_match(pool[0], &key, 1, &ref), 1);
		cr_assert_eq(kvmm_put(pool[0], ref), 0);
	}
	cr_assert_eq(kvmm_promise_make(pool[0], &ctl, promise), 0);
	cr_assert_str_eq(picture(pool[0]), "IIIIIIIIIIII....");
	cr_assert_eq(reserve(pool, &want, 1, &gang), 0);
	cr_expect_eq(kvmm_validate(pool[0]), 0);
	return gang;
}

Test(gang, what_is_promised_to_others_stays_free)
{
	struct kvmm_alloc_ctl ctl = KVMM_ALLOC_CTL_INIT;
	kvmm_mut_t mut[4];
	struct kvmm_gang *gang = gang_beside_promise(&ctl.promise);

	ctl.nr = 4;
	cr_expect_eq(kvmm_alloc_as(pool[0], &ctl, mut), 0);
	cr_assert_eq(kvmm_gang_abort(gang), 0);
	cr_expect_eq(kvmm_validate(pool[0]), 0);
	cr_expect_eq(kvmm_promise_end(pool[0], ctl.promise), 0);
	cr_assert_eq(kvmm_free(pool[0], mut, 4), 0);
}

Test(gang, what_is_promised_to_others_stays_free_after_an_abort)
{
	kvmm_promise_t promise;
	struct kvmm_gang *gang = gang_beside_promise(&promise);

	cr_assert_eq(kvmm_gang_abort(gang), 0);
	cr_expect_eq(kvmm_validate(pool[0]), 0);
	cr_expect_str_eq(picture(pool[0]), "IIIIIIIIIIII....");
	cr_expect_eq(kvmm_promise_end(pool[0], promise), 4);
}

/* Who lost its block to the promise finds others' content there: it must not come back. */
Test(gang, blocks_that_others_had_meanwhile_do_not_come_back)
{
	struct kvmm_alloc_ctl ctl = KVMM_ALLOC_CTL_INIT;
	bool used[16] = { false };
	kvmm_mut_t mut[4];
	kvmm_ref_t ref;
	u32 nr = 0;
	struct kvmm_gang *gang = gang_beside_promise(&ctl.promise);

	ctl.nr = 4;
	cr_assert_eq(kvmm_alloc_as(pool[0], &ctl, mut), 0);
	for (u32 i = 0; i < 4; i++)
		used[kvmm_block_of_mut(pool[0], mut[i])] = true;
	cr_assert_eq(kvmm_free(pool[0], mut, 4), 0);
	cr_assert_eq(kvmm_gang_abort(gang), 0);
	cr_expect_eq(kvmm_validate(pool[0]), 0);
	for (u32 i = 0; i < 12; i++) {
		kvmm_key_t key = key_of(i);

		if (kvmm_match(pool[0], &key, 1, &ref) != 1)
			continue;
		cr_expect_not(used[kvmm_block_of_ref(pool[0], ref)], "key %u", i);
		cr_assert_eq(kvmm_put(pool[0], ref), 0);
		nr++;
	}
	cr_expect_eq(nr, 8);
	cr_expect_eq(kvmm_promise_end(pool[0], ctl.promise), 0);
}

Test(gang, bad_arguments_are_refused)
{
	struct kvmm_gang_attr attr = KVMM_GANG_ATTR_INIT;
	struct kvmm_pool *twice[2];
	struct kvmm_gang_want want;
	struct kvmm_gang *gang;

	make_pools(pool, 2, 8, "lru");
	twice[0] = twice[1] = pool[0];
#define expect_bad(err, ...)							\
	do {									\
		want = want_blocks(0, 1);					\
		attr = (struct kvmm_gang_attr)KVMM_GANG_ATTR_INIT;		\
		attr.pools = pool;						\
		attr.nr_pools = 2;						\
		attr.wants = &want;						\
		attr.nr = 1;							\
		__VA_ARGS__;							\
		cr_expect_eq(kvmm_gang_reserve(&attr, &gang, NULL), err, #__VA_ARGS__);	\
	} while (0)

	expect_bad(-EINVAL, want.pool = 2);
	expect_bad(-EINVAL, want.kind = KVMM_NR_GANG_KINDS);
	expect_bad(-EINVAL, want.nr = 0);
	expect_bad(-EINVAL, want.nr = 9);
	expect_bad(-EINVAL, want.flags = 1);
	expect_bad(-EINVAL, want.seq = 1);
	expect_bad(-EINVAL, want = want_range(0, 9, 1, 0));
	expect_bad(-EINVAL, want = want_range(0, 1, KVMM_MAX_RUNS + 1, 0));
	expect_bad(-EINVAL, want = want_range(0, 1, 1, 0); want.reserve = 1);
	expect_bad(-EINVAL, attr.wants = NULL);
	expect_bad(-EINVAL, attr.nr = 0);
	expect_bad(-EINVAL, attr.nr = KVMM_GANG_MAX_WANTS + 1);
	expect_bad(-EINVAL, attr.size = 4);
	expect_bad(-EINVAL, attr.pools = NULL);
	expect_bad(-EINVAL, attr.nr_pools = 0);
	expect_bad(-EINVAL, attr.nr_pools = KVMM_GANG_MAX_POOLS + 1);
	expect_bad(-EINVAL, attr.pools = twice);
	cr_expect_eq(kvmm_gang_reserve(NULL, &gang, NULL), -EINVAL);
	cr_expect_eq(kvmm_gang_abort(NULL), -EINVAL);
	cr_expect_eq(kvmm_gang_commit(NULL, NULL, NULL), -EINVAL);
	want = want_blocks(0, 1);
	cr_assert_eq(reserve(pool, &want, 1, &gang), 0);
	cr_expect_eq(kvmm_gang_commit(gang, NULL, NULL), -EINVAL);
	cr_expect_eq(kvmm_gang_abort(gang), 0);
}

Test(gang, blocks_of_a_pool_without_policy_are_refused)
{
	struct kvmm_gang_want want = want_blocks(0, 1);
	struct kvmm_gang *gang;

	make_pools(pool, 1, 8, NULL);
	cr_expect_eq(reserve(pool, &want, 1, &gang), -EOPNOTSUPP);
}

/* ---- failures ---- */

/* The n-th host allocation of a reservation over four pools. */
Test(gang, whatever_fails_leaves_the_pools_as_they_were)
{
	struct fake_env fake;
	u32 n = 0;
	int err;

	fake_env_install(&fake);
	do {
		struct kvmm_gang_want wants[] = { want_range(0, 3, 2, 0), want_blocks(1, 6),
						  want_range(2, 7, 4, 1), want_range(3, 2, 1, 2) };
		struct digests before, after;
		struct kvmm_gang *gang;

		make_pools(pool, 4, 8, "default");
		for (u32 i = 0; i < 4; i++)
			cache_keys(pool[i], 1, 5);
		before = digests_of(pool, 4);
		fake_env_fail(&fake, ++n, false);
		err = reserve(pool, wants, 4, &gang);
		fake_env_fail(&fake, 0, false);
		after = digests_of(pool, 4);
		if (err) {
			cr_expect_eq(err, -ENOMEM);
			cr_expect_str_eq(differ(&before, &after), "", "n = %u", n);
		} else {
			cr_expect_eq(kvmm_gang_abort(gang), 0);
			after = digests_of(pool, 4);
			cr_expect_str_eq(differ(&before, &after), "", "n = %u", n);
		}
		end_pools(pool, 4);
	} while (err);
	cr_expect_gt(n, 4);
	kvmm_pool_destroy(NULL);
	cr_expect_eq(fake.nr_bad_frees, 0);
	fake_env_remove(&fake);
}
