// SPDX-License-Identifier: Apache-2.0
/*
 * The order of eviction, looked at and told without references: which block has a key, which one is
 * used, which ones go next, which ones went.
 */
#include "tests/pool/drive.h"
#include "tests/pool/life_util.h"
#include "tests/pool/quota_util.h"
#include "tests/support/random.h"

#define NR_BLOCKS	160u

/* ---- looking up ---- */

POOL_TEST(peek, finds_blocks_and_leaves_everything_as_it_was, make_life(16, "lru", 0, 0))
{
	struct kvmm_prefix prefix;
	kvmm_weak_t weak[5];
	kvmm_ref_t ref[5];
	u32 block[5];

	make_active(pool, 1, 2, ref);
	make_active(pool, 3, 2, ref + 2);
	cr_assert_eq(kvmm_put_many(pool, ref + 2, 2), 0);
	prefix = prefix_of(keys_from(1, 5), 5);
	expect_refused(pool, kvmm_prefix_peek(pool, &prefix, weak, block, 0), 4);
	expect_refused(pool, kvmm_prefix_peek(pool, &prefix, weak, NULL, 0), 4);
	expect_refused(pool, kvmm_prefix_peek(pool, &prefix, weak, NULL, KVMM_FIND_ALL), 4);
	for (u32 i = 0; i < 4; i++) {
		cr_expect_eq(weak[i].index, ref[i].index);
		cr_expect_eq(weak[i].gen, ref[i].gen);
		cr_expect_eq((int)block[i], found_under(pool, i + 1));
	}
	cr_assert_eq(kvmm_put_many(pool, ref, 2), 0);
}

/* Holes, in batches that are looked up one after the other. */
POOL_TEST(peek, says_what_is_not_there, make_life(200, "lru", 0, 0))
{
	struct kvmm_prefix prefix;
	const u32 hole[] = { 64, 127, 128, 169 };
	kvmm_weak_t weak[170];
	kvmm_ref_t ref[170];
	u32 block[170];

	make_active(pool, 1, 170, ref);
	cr_assert_eq(kvmm_put_many(pool, ref, 170), 0);
	prefix = prefix_of(keys_from(1, 170), 170);
	cr_expect_eq(kvmm_prefix_peek(pool, &prefix, weak, block, 0), 170);
	for (u32 i = 0; i < 4; i++) {
		u32 id = block[hole[i]];

		cr_assert_eq(kvmm_evict_blocks(pool, &id, 1), 1);
	}
	cr_expect_eq(kvmm_prefix_peek(pool, &prefix, weak, block, 0), 64);
	cr_expect_eq(kvmm_prefix_peek(pool, &prefix, weak, block, KVMM_FIND_ALL), 166);
	for (u32 i = 0; i < 170; i++) {
		bool is_hole = i == 64 || i == 127 || i == 128 || i == 169;

		cr_expect_eq(weak[i].gen, is_hole ? 0 : ref[i].gen);
		cr_expect_eq(block[i] == UINT32_MAX, is_hole);
	}
}

POOL_TEST(peek, asks_one_domain, make_cache(16, "lru"))
{
	kvmm_key_t key = key_of('a');
	struct kvmm_prefix prefix = { .keys = &key, .nr = 1, .domain = domain_of(1) };
	kvmm_weak_t weak;

	cache(pool, "a");
	cr_expect_eq(kvmm_prefix_peek(pool, &prefix, &weak, NULL, 0), 1);
	prefix.domain.group++;
	cr_expect_eq(kvmm_prefix_peek(pool, &prefix, &weak, NULL, 0), 0);
}

POOL_TEST(peek, refuses_what_makes_no_sense, make_cache(16, "lru"))
{
	struct kvmm_pool *plain __cleanup(end_pool) = make_pool(16);
	struct kvmm_prefix prefix = prefix_of(keys_from(1, 1), 1);
	kvmm_weak_t weak;

	cr_expect_eq(kvmm_prefix_peek(NULL, &prefix, &weak, NULL, 0), -EINVAL);
	cr_expect_eq(kvmm_prefix_peek(pool, NULL, &weak, NULL, 0), -EINVAL);
	cr_expect_eq(kvmm_prefix_peek(pool, &prefix, &weak, NULL, 2), -EINVAL);
	cr_expect_eq(kvmm_prefix_peek(pool, &prefix, NULL, NULL, 0), -EINVAL);
	cr_expect_eq(kvmm_prefix_peek(plain, &prefix, &weak, NULL, 0), -EOPNOTSUPP);
	prefix.nr = 0;
	cr_expect_eq(kvmm_prefix_peek(pool, &prefix, &weak, NULL, KVMM_FIND_ALL), 0);
}

/* ---- using ---- */

/* Weak references of keys @first ... */
static u32 weak_from(struct kvmm_pool *pool, u32 first, u32 nr, kvmm_weak_t *weak)
{
	struct kvmm_prefix prefix = prefix_of(keys_from(first, nr), nr);

	return kvmm_prefix_peek(pool, &prefix, weak, NULL, KVMM_FIND_ALL);
}

POOL_TEST(touch_weak, keeps_a_block_that_nobody_holds, make_cache(8, "lru"))
{
	struct kvmm_pool_stat before;
	kvmm_weak_t weak[2];

	for (u32 key = 1; key <= 4; key++)
		cache_keys(pool, key, 1);
	cr_assert_eq(weak_from(pool, 1, 2, weak), 2);
	before = stat_of(pool);
	cr_expect_eq(kvmm_touch_weak(pool, weak, 2), 2);
	cr_expect_eq(stat_of(pool).hit_blocks, before.hit_blocks);
	cr_expect_eq(stat_of(pool).nr_inactive, 4);
	expect_order(pool, "3 4 2 1 ");
}

POOL_TEST(touch_weak, passes_over_blocks_that_are_gone, make_cache(8, "lru"))
{
	kvmm_weak_t weak[3];

	for (u32 key = 1; key <= 3; key++)
		cache_keys(pool, key, 1);
	cr_assert_eq(weak_from(pool, 1, 3, weak), 3);
	weak[1] = (kvmm_weak_t){ weak[1].index, weak[1].gen + 1 };
	cr_expect_eq(kvmm_touch_weak(pool, weak, 3), 2);
	cr_expect_eq(kvmm_touch_weak(pool, NULL, 1), -EINVAL);
	cr_expect_eq(kvmm_touch_weak(NULL, weak, 1), -EINVAL);
	cr_expect_eq(kvmm_touch_weak(pool, NULL, 0), 0);
	expect_order(pool, "2 3 1 ");
	cr_expect_eq(kvmm_touch_weak(pool, weak, 3), 0);
}

POOL_TEST(touch_weak, leaves_a_held_block_out_of_the_order, make_cache(8, "lru"))
{
	kvmm_weak_t weak;
	kvmm_ref_t ref;

	register_keys(pool, 1, 1, &ref);
	cache_keys(pool, 2, 1);
	weak = kvmm_weak_of(ref);
	cr_expect_eq(kvmm_touch_weak(pool, &weak, 1), 1);
	order_enter(&pool->order);
	cr_expect_eq(order_nr(&pool->order), 1);
	order_leave(&pool->order);
	expect_order(pool, "2 ");
	cr_expect_eq(kvmm_put(pool, ref), 0);
	expect_order(pool, "1 ");
}

/* The first blocks of one pool are touched, those of the other are hit and put. */
static void touch_like_hit(struct kvmm_pool *touched, struct kvmm_pool *hit, u32 first, u32 nr)
{
	kvmm_weak_t weak[NR_BLOCKS];
	kvmm_ref_t ref[NR_BLOCKS];
	u32 found = 0;

	cr_assert_eq(weak_from(touched, first, nr, weak), weak_from(hit, first, nr, (void *)ref));
	cr_assert_geq(kvmm_touch_weak(touched, weak, nr), 0);
	cr_assert_geq(kvmm_upgrade_many(hit, (kvmm_weak_t *)(void *)ref, nr, ref), 0);
	for (u32 i = 0; i < nr; i++)
		if (ref[i].gen)
			ref[found++] = ref[i];
	cr_assert_eq(kvmm_put_many(hit, ref, found), 0);
}

static void compare_policy(const char *policy, u64 seed)
{
	struct kvmm_pool *pool[2] = { make_cache(NR_BLOCKS, policy),
				      make_cache(NR_BLOCKS, policy) };
	u32 key = 1, next[2][NR_BLOCKS], nr[2];

	for (u32 step = 0; step < 60; step++) {
		u32 new = 1 + any_of(&seed, 12), old = 1 + any_of(&seed, key);

		for (u32 i = 0; i < 2; i++)
			cache_keys(pool[i], key, new);
		key += new;
		touch_like_hit(pool[0], pool[1], old, 1 + any_of(&seed, 140));
	}
	for (u32 i = 0; i < 2; i++)
		nr[i] = eviction_order(pool[i], next[i], NR_BLOCKS);
	cr_expect_eq(nr[0], nr[1]);
	cr_expect_arr_eq(next[0], next[1], nr[0] * sizeof(u32), "%s", policy);
	end_pool(pool[0]);
	end_pool(pool[1]);
}

/* Chains are as long as a batch of the call, too. */
Test(touch_weak, changes_the_order_as_a_hit_and_its_put_do)
{
	for_each_policy(policy)
		for (u64 seed = 1; seed <= 4; seed++)
			compare_policy(policy, seed);
}

/* ---- the next ones ---- */

static u32 evict_told(struct kvmm_pool *pool, u32 nr, struct kvmm_victim *victims, u32 max)
{
	struct kvmm_evict_for_args req = { .size = sizeof(req), .victims = victims,
					   .max_victims = max,
					   .nr_blocks = stat_of(pool).nr_free + nr };

	cr_assert_eq(kvmm_evict_for(pool, &req), 0);
	cr_expect_eq(req.nr_victims, min(req.nr_evicted, max));
	return req.nr_evicted;
}

static const char *letters_of(const struct kvmm_victim *victims, u32 nr)
{
	static char letters[NR_BLOCKS + 1];

	for (u32 i = 0; i < nr; i++)
		letters[i] = number_of(&victims[i].key);
	letters[nr] = '\0';
	return letters;
}

POOL_TEST(evict_next, tells_names_and_places_and_changes_nothing, make_life(16, "lru", 0, 0))
{
	struct kvmm_victim next[8];
	kvmm_ref_t ref[4];

	make_active(pool, 'a', 4, ref);
	cr_assert_eq(kvmm_put_many(pool, ref, 3), 0);
	expect_refused(pool, kvmm_evict_next(pool, next, 8), 3);
	cr_expect_str_eq(letters_of(next, 3), "cba");
	for (u32 i = 0; i < 3; i++) {
		cr_expect_eq(next[i].weak.gen, ref[2 - i].gen);
		cr_expect_eq(next[i].weak.index, ref[2 - i].index);
		cr_expect_eq((int)next[i].block, found_under(pool, 'c' - i));
	}
	expect_refused(pool, kvmm_evict_next(pool, next, 2), 2);
	expect_refused(pool, kvmm_evict_next(pool, NULL, 0), 0);
	expect_refused(pool, kvmm_evict_next(pool, NULL, 1), -EINVAL);
	cr_expect_eq(kvmm_evict_next(NULL, next, 1), -EINVAL);
	cr_assert_eq(kvmm_put(pool, ref[3]), 0);
}

static const u32 two_mid[3] = { 0, 2, 0 };

POOL_TEST(evict_next, knows_classes_and_their_quotas, make_classed(16, "lru", two_mid, 0))
{
	struct kvmm_victim next[8];

	fill_all(pool, "ab", HIGH);
	fill_all(pool, "cde", MID);
	fill_all(pool, "f", LOW);
	cr_expect_eq(kvmm_evict_next(pool, next, 8), 5);
	cr_expect_str_eq(letters_of(next, 5), "fdeab");
	cr_expect_eq(next[0].cls, LOW);
	cr_expect_eq(next[1].cls, MID);
	cr_expect_eq(next[4].cls, HIGH);
	cr_expect_str_eq(evicted(pool), "fdeab");
}

POOL_TEST(evict_next, knows_limits_of_tenants, make_cache(16, "lru"))
{
	struct kvmm_victim next[8];

	limit(pool, 1, 2, 0, NO_LIMIT, NO_LIMIT);
	limit(pool, 2, 0, 0, 1, NO_LIMIT);
	cache(pool, "abc");
	cache(pool, "1");
	cache(pool, "A");
	cr_expect_eq(kvmm_evict_next(pool, next, 8), 3);
	cr_expect_str_eq(letters_of(next, 3), "a1A");
	cr_expect_eq(next[2].domain.tenant, 2);
	cr_expect_eq(evict_told(pool, 3, next, 8), 3);
	cr_expect_str_eq(letters_of(next, 3), "a1A");
}

POOL_TEST(evict_next, passes_over_free_blocks_that_wait_in_the_order, make_cache(4, "lru-classic"))
{
	struct kvmm_victim next[4];

	cache_keys(pool, 'a', 2);
	cr_expect_eq(kvmm_evict_next(pool, next, 4), 2);
	cr_expect_str_eq(letters_of(next, 2), "ba");
}

/* What it tells is what goes, after any calls, and so it is in the pool that is not asked. */
static void drive_and_evict(const char *policy, struct kvmm_pool *pool, u64 seed)
{
	static struct kvmm_victim next[NR_BLOCKS], went[NR_BLOCKS];
	struct drive drive;
	u64 nr_evicted = 0;

	drive_init(&drive, pool, seed);
	for (u32 i = 0; i < 600; i++) {
		u32 nr_free, nr, want;

		drive_step(&drive);
		nr_free = stat_of(pool).nr_free;
		nr = kvmm_evict_next(pool, next, NR_BLOCKS);
		cr_assert_leq(nr, stat_of(pool).nr_inactive);
		want = i % 8 || nr_free + nr > NR_BLOCKS ? 0 : min(nr, i / 8 % 12);
		if (!want || strstr(policy, "classic"))
			continue;
		memset(went, 0, sizeof(went));
		cr_assert_eq(evict_told(pool, want, went, NR_BLOCKS), want);
		cr_assert_arr_eq(next, went, want * sizeof(*next), "%s: step %u", policy, i);
		for (u32 k = 0; k < want; k++)
			cr_assert_eq(kvmm_touch_weak(pool, &went[k].weak, 1), 0);
		nr_evicted += want;
	}
	cr_expect(nr_evicted > 20 || strstr(policy, "classic"), "%s: %lu", policy, nr_evicted);
	drive_end(&drive);
	end_pool(pool);
}

Test(evict_next, is_what_goes_under_any_policy)
{
	for_each_policy(policy)
		for (u64 seed = 1; seed <= 2; seed++)
			drive_and_evict(policy, make_cache(NR_BLOCKS, policy), seed);
}

Test(evict_next, is_what_goes_with_classes_and_where_victims_are_sorted)
{
	struct kvmm_evict_attr evict = { .size = sizeof(evict), .run_window = 1 };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .policy = "lrfu", .evict = &evict };
	const u32 quota[3] = { 30, 60, 0 };

	drive_and_evict("lru", make_classed(NR_BLOCKS, "lru", quota, 0), 5);
	drive_and_evict("lrfu", make_classed(NR_BLOCKS, "lrfu", NULL, 0), 6);
	drive_and_evict("lrfu", make_pool_of(&attr), 7);
}

/* Key 1 has been used three times, so it goes last, though it was put before the other. */
static void expect_third_use_counts(struct kvmm_pool *pool)
{
	kvmm_ref_t ref;

	make_active(pool, 2, 1, &ref);
	cr_assert_eq(kvmm_put(pool, ref), 0);
	expect_order(pool, "2 1 ");
}

/* In one thread the policy sees what it would see without the log. */
POOL_TEST(log, has_uses_by_a_duplicate_that_is_gone, make_life(8, "multilru", 0, 0))
{
	kvmm_ref_t elder, dup;

	make_active(pool, 1, 1, &elder);
	cr_assert_eq(publish_as(pool, KVMM_DUP_HOLD, 1, 1, &dup), 1);
	cr_assert_eq(kvmm_put(pool, dup), 0);
	cr_assert_eq(kvmm_put(pool, elder), 0);
	expect_third_use_counts(pool);
}

POOL_TEST(log, has_uses_of_blocks_that_are_private_again, make_life(8, "multilru", 0, 0))
{
	kvmm_ref_t ref;
	kvmm_mut_t mut;

	for (u32 i = 0; i < 2; i++) {
		make_active(pool, 1, 1, &ref);
		cr_assert_eq(kvmm_unpublish(pool, &ref, 1, &mut), 0);
		cr_assert_eq(kvmm_free(pool, &mut, 1), 0);
	}
	make_active(pool, 1, 1, &ref);
	cr_assert_eq(kvmm_put(pool, ref), 0);
	expect_third_use_counts(pool);
}

/* ---- those that went ---- */

POOL_TEST(evict_for, tells_as_many_as_there_is_room_for, make_cache(8, "lru"))
{
	struct kvmm_victim went[8];

	memset(went, 0x5a, sizeof(went));
	cache_keys(pool, 'a', 6);
	cr_expect_eq(evict_told(pool, 4, went, 2), 4);
	cr_expect_str_eq(letters_of(went, 2), "fe");
	cr_expect_eq(went[2].block, 0x5a5a5a5a);
	cr_expect_eq(evict_told(pool, 1, went, 8), 1);
	cr_expect_str_eq(letters_of(went, 1), "b");
	cr_expect_eq(evict_told(pool, 0, went, 8), 0);
}

POOL_TEST(evict_for, that_fails_tells_nothing, make_cache(8, "lru"))
{
	struct kvmm_victim went = { .block = 77 };
	struct kvmm_evict_for_args req = { .size = sizeof(req), .nr_blocks = 8, .victims = &went,
					   .max_victims = 1, .nr_victims = 5 };
	kvmm_ref_t ref;

	register_keys(pool, 'a', 1, &ref);
	cache_keys(pool, 'b', 2);
	cr_expect_eq(kvmm_evict_for(pool, &req), -ENOSPC);
	cr_expect_eq(req.nr_victims, 5);
	cr_expect_eq(went.block, 77);
	req.victims = NULL;
	cr_expect_eq(kvmm_evict_for(pool, &req), -EINVAL);
	cr_assert_eq(kvmm_put(pool, ref), 0);
	expect_order(pool, "99 98 97 ");
}
