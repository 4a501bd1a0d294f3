// SPDX-License-Identifier: Apache-2.0
/* Digests: pools that are called alike are alike, and a difference is named. */
#include "feed/internal.h"
#include "tests/pool/drive.h"
#include "tests/pool/util.h"
#include "tests/support/fake_env.h"
#include "tests/support/lease.h"
#include "tests/support/length.h"

#define NR_BLOCKS	96u
#define NR_RANKS	3u

static struct kvmm_pool *rank_pool(const char *policy, const char *engine)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .policy = policy, .allocator = engine,
				       .block_bytes = TEST_BLOCK_BYTES,
				       .flags = KVMM_POOL_DETERMINISTIC | KVMM_POOL_NULL_BLOCK,
				       .zero = KVMM_ZERO_TENANT, .seed = 42 };

	return make_pool_of(&attr);
}

static struct kvmm_pool *make_ids(void)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 32,
				       .flags = KVMM_POOL_DETERMINISTIC };

	return make_pool_of(&attr);
}

static struct kvmm_digest_info digest(struct kvmm_pool *pool)
{
	struct kvmm_digest_info info = { .size = sizeof(info) };

	cr_assert_eq(kvmm_pool_digest(pool, &info), 0);
	return info;
}

static kvmm_sum_t history(struct kvmm_pool *pool)
{
	kvmm_sum_t sum;

	cr_assert_eq(kvmm_pool_history(pool, &sum), 0);
	return sum;
}

static const char *difference(struct kvmm_pool *a, struct kvmm_pool *b)
{
	struct kvmm_digest_info x = digest(a), y = digest(b);
	struct kvmm_digest_diff diff;

	if (!kvmm_digest_compare(&x, &y, 1, &diff))
		return "";
	return kv_digest_part_name(diff.part);
}

/* ---- called alike ---- */

/* The first one is looked at all the time, which must not make a difference to the others. */
static void compare_ranks(struct drive *d, u64 step, const char *what)
{
	kvmm_sum_t first = history(d[0].pool);

	for (u32 i = 1; i < NR_RANKS; i++) {
		kvmm_sum_t other;

		cr_assert_eq(d[0].sum, d[i].sum, "step %lu (%s): rank %u was answered otherwise",
			     (unsigned long)step, what, i);
		if (i > 1 && step % 100)
			continue;	/* applies its log now and then only */
		other = history(d[i].pool);
		cr_assert(kvmm_sum_equal(&first, &other), "step %lu (%s): history of rank %u: %s",
			  (unsigned long)step, what, i, difference(d[0].pool, d[i].pool));
	}
	if (step % 64 == 0)
		digest(d[0].pool);
	if (step % 500 == 0)
		for (u32 i = 1; i < NR_RANKS; i++)
			cr_assert_str_eq(difference(d[0].pool, d[i].pool), "", "step %lu",
					 (unsigned long)step);
}

static void drive_ranks(const char *policy, const char *engine, u64 nr_steps)
{
	struct drive d[NR_RANKS];
	u64 seed = test_number("KVMM_SEED", 1);

	for (u32 i = 0; i < NR_RANKS; i++)
		drive_init(&d[i], rank_pool(policy, engine), seed);
	for (u64 step = 1; step <= nr_steps; step++) {
		const char *what = NULL;

		for (u32 i = 0; i < NR_RANKS; i++)
			what = drive_step(&d[i]);
		compare_ranks(d, step, what);
	}
	cr_assert_str_eq(difference(d[0].pool, d[NR_RANKS - 1].pool), "");
	for (u32 i = 0; i < NR_RANKS; i++) {
		drive_end(&d[i]);
		end_pool(d[i].pool);
	}
}

Test(digest, pools_called_alike_are_alike)
{
	drive_ranks("default", NULL, test_length("KVMM_MODEL_OPS", 100000));
}

Test(digest, so_they_are_with_every_policy)
{
	cr_assert_gt(kvmm_policies(NULL, 0), 10);
	for_each_policy(policy)
		drive_ranks(policy, NULL, 4000);
}

Test(digest, and_with_every_engine)
{
	const char *names[16];
	u32 nr = kv_zone_engines(names, 16);

	cr_assert_gt(nr, 3);
	for (u32 i = 0; i < nr; i++)
		drive_ranks("lru", names[i], 4000);
}

/* ---- called otherwise ---- */

static void call_alike(struct drive *a, struct drive *b, u32 nr)
{
	while (nr--) {
		drive_step(a);
		drive_step(b);
	}
	cr_assert_str_eq(difference(a->pool, b->pool), "");
}

#define need(a, b, nr)			\
	do {				\
		while (!(nr))		\
			call_alike(a, b, 1);	\
	} while (0)

#define expect_difference(what, call)							\
	do {										\
		struct drive a, b;							\
											\
		drive_init(&a, rank_pool("lru", NULL), 7);				\
		drive_init(&b, rank_pool("lru", NULL), 7);				\
		call_alike(&a, &b, 300);						\
		call;									\
		cr_expect_str_eq(difference(a.pool, b.pool), what, "%s: %s", #call,	\
				 difference(a.pool, b.pool));				\
		kvmm_pool_destroy(a.pool);						\
		kvmm_pool_destroy(b.pool);						\
	} while (0)

static void make_room(struct kvmm_pool *pool, u32 nr)
{
	struct kvmm_evict_for_args req = { .size = sizeof(req), .nr_blocks = nr };

	cr_assert_eq(kvmm_evict_for(pool, &req), 0);
}

/* Key 3, the end of the chain: it would be the first to go. */
static void use_oldest(struct kvmm_pool *pool)
{
	kvmm_key_t keys[] = { key_of(1), key_of(2), key_of(3) };
	struct kvmm_prefix prefix = { .keys = &keys[2], .nr = 1 };
	kvmm_ref_t ref;

	cr_assert_eq(kvmm_prefix_match(pool, &prefix, &ref), 1);
	cr_assert_eq(kvmm_put(pool, ref), 0);
}

static void hold_oldest(struct kvmm_pool *pool)
{
	kvmm_key_t key = key_of(3);
	struct kvmm_prefix prefix = { .keys = &key, .nr = 1 };
	struct kvmm_lease_attr attr = { .size = sizeof(attr), .prefix = &prefix };
	kvmm_lease_t hold;

	cr_assert_eq(kvmm_lease_take(pool, &attr, &hold), 1);
	cr_assert_eq(drop_lease(pool, hold), 0);
}

/* Both have keys 1, 2, 3, and room. */
static void cache_three(struct drive *a, struct drive *b)
{
	kvmm_reset_inactive(a->pool);
	kvmm_reset_inactive(b->pool);
	cache_keys(a->pool, 1, 3);
	cache_keys(b->pool, 1, 3);
}

Test(digest, a_difference_is_named)
{
	kvmm_mut_t mut;

	expect_difference("free blocks", make_room(b.pool, 1); take(b.pool, 1, 0));
	expect_difference("ranges", need(&a, &b, b.nr_ranges);
			  kvmm_range_pin(b.pool, b.range[0]));
	expect_difference("cached blocks", need(&a, &b, b.nr_refs);
			  kvmm_get(b.pool, b.ref[0]));
	expect_difference("order of eviction", cache_three(&a, &b); use_oldest(b.pool));
	expect_difference("holds", kvmm_lease_expire(b.pool, b.now_ns + 1, NULL));
	expect_difference("tenants of content", make_room(a.pool, 1); make_room(b.pool, 1);
			  cr_assert_eq(kvmm_alloc_for(b.pool, 1, 77, &mut), 0);
			  cr_assert_eq(kvmm_free(b.pool, &mut, 1), 0));
	expect_difference("handles to come", cache_three(&a, &b); use_oldest(a.pool);
			  hold_oldest(b.pool));
}

Test(digest, pools_made_otherwise_differ_in_how_they_were_made)
{
	struct kvmm_pool *a = rank_pool("lru", NULL), *b = rank_pool("lru", "best");

	cr_expect_str_eq(difference(a, b), "how it was made");
	kvmm_pool_destroy(a);
	kvmm_pool_destroy(b);
}

/* Which handles a pool starts with is no decision: digests do not see it. */
Test(digest, pools_without_a_seed_refuse_each_others_handles_and_agree)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 16, .policy = "lru",
				       .flags = KVMM_POOL_DETERMINISTIC };
	struct kvmm_lease_attr hold_attr = KVMM_LEASE_ATTR_INIT;
	struct kvmm_pool *pool[2];
	kvmm_range_t range[2];
	kvmm_lease_t hold[2];
	kvmm_mut_t mut[2][2];
	kvmm_ref_t ref[2];
	kvmm_key_t key = key_of(1);
	struct kvmm_prefix prefix = (struct kvmm_prefix){ &key, 1, 0, NULL, { 0, 0, 0 } };

	hold_attr.prefix = &prefix;
	hold_attr.owner = 1;
	for (u32 i = 0; i < 2; i++) {
		cr_assert_eq(kvmm_pool_create(&attr, &pool[i]), 0);
		cr_assert_eq(kvmm_range_alloc(pool[i], 2, 0, &range[i]), 0);
		cr_assert_eq(kvmm_alloc(pool[i], 2, mut[i]), 0);
		cr_assert_eq(kvmm_prefix_register(pool[i], &prefix, mut[i], &ref[i]), 0);
		cr_assert_eq(kvmm_lease_take(pool[i], &hold_attr, &hold[i]), 1);
	}
	cr_expect_lt(kvmm_range_free(pool[0], range[1]), 0);
	cr_expect_lt(kvmm_free(pool[0], &mut[1][1], 1), 0);
	cr_expect_lt(kvmm_put(pool[0], ref[1]), 0);
	cr_expect_lt(drop_lease(pool[0], hold[1]), 0);
	cr_expect_str_eq(difference(pool[0], pool[1]), "");
	for (u32 i = 0; i < 2; i++) {
		cr_expect_eq(kvmm_range_free(pool[i], range[i]), 0);
		cr_expect_eq(kvmm_free(pool[i], &mut[i][1], 1), 0);
		cr_expect_eq(kvmm_put(pool[i], ref[i]), 0);
		cr_expect_geq(drop_lease(pool[i], hold[i]), 0);
	}
	cr_expect_str_eq(difference(pool[0], pool[1]), "");
	end_pool(pool[0]);
	end_pool(pool[1]);
}

Test(digest, what_has_come_to_the_same_differs_in_its_history)
{
	struct kvmm_pool *a __cleanup(end_pool) = make_ids(), *b __cleanup(end_pool) = make_ids();
	kvmm_range_t first, second;
	kvmm_sum_t x, y;

	first = take(a, 3, 0);
	second = take(a, 2, 0);
	cr_assert_eq(kvmm_range_free(a, second), 0);
	second = take(a, 2, 0);
	take(b, 3, 0);
	second = take(b, 4, 0);
	cr_assert_eq(kvmm_range_free(b, second), 0);
	take(b, 2, 0);
	cr_expect_str_eq(difference(a, b), "history");
	x = history(a);
	y = history(b);
	cr_expect_not(kvmm_sum_equal(&x, &y));
	cr_assert_eq(kvmm_range_free(a, first), 0);
}

Test(digest, watermarks_and_promises_are_in_it)
{
	struct kvmm_pool *a = rank_pool("lru", NULL), *b = rank_pool("lru", NULL);
	const struct kvmm_watermarks marks = { 1, 2, 3 }, none = { 0, 0, 0 };
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = 2 };
	kvmm_promise_t promise;

	cr_assert_eq(kvmm_watermarks_set(a, &marks), 0);
	cr_expect_str_eq(difference(a, b), kv_digest_part_name(KVMM_DIGEST_FREE));
	cr_assert_eq(kvmm_watermarks_set(b, &marks), 0);
	cr_expect_str_eq(difference(a, b), "");
	cr_assert_eq(kvmm_watermarks_set(a, &none), 0);
	cr_assert_eq(kvmm_watermarks_set(b, &none), 0);
	cr_assert_eq(kvmm_promise_make(a, &ctl, &promise), 0);
	cr_expect_str_eq(difference(a, b), kv_digest_part_name(KVMM_DIGEST_FREE));
	cr_assert_eq(kvmm_promise_end(a, promise), 2);
	cr_expect_str_eq(difference(a, b), kv_digest_part_name(KVMM_DIGEST_HANDLES));
	cr_assert_eq(kvmm_promise_make(b, &ctl, &promise), 0);
	cr_assert_eq(kvmm_promise_end(b, promise), 2);
	cr_expect_str_eq(difference(a, b), "");
	end_pool(a);
	end_pool(b);
}

Test(digest, the_first_pool_that_differs_is_named)
{
	struct kvmm_digest_info a[3], b[3];
	struct kvmm_digest_diff diff;

	for (u32 i = 0; i < 3; i++) {
		struct kvmm_pool *pool __cleanup(kvmm_pool_destroy) = rank_pool("lru", NULL);

		a[i] = digest(pool);
		if (i == 1)
			take(pool, 1, 0);
		b[i] = digest(pool);
		strcpy(a[i].name, i == 1 ? "kv1" : "other");
	}
	cr_assert_eq(kvmm_digest_compare(a, b, 3, &diff), 1);
	cr_expect_str_eq(diff.text, "pool 1 'kv1': free blocks");
	cr_expect_eq(kvmm_digest_compare(a, b, 1, &diff), 0);
}

/* ---- what it does not depend on ---- */

Test(digest, it_is_independent_of_clock_memory_and_random_numbers)
{
	struct kvmm_digest_info info[2];
	struct kvmm_digest_diff diff;
	u64 sum[2];

	for (u32 i = 0; i < 2; i++) {
		struct fake_env fake;
		struct drive d;

		fake_env_install(&fake);
		fake.seed = 1 + i * 12345;
		drive_init(&d, rank_pool("default", NULL), 3);
		for (u32 step = 0; step < 3000; step++) {
			fake_env_advance(&fake, i ? 1000003 * step : 17);
			drive_step(&d);
		}
		info[i] = digest(d.pool);
		sum[i] = d.sum;
		drive_end(&d);
		end_pool(d.pool);
		fake_env_remove(&fake);
	}
	cr_expect_eq(sum[0], sum[1]);
	cr_expect_eq(kvmm_digest_compare(&info[0], &info[1], 1, &diff), 0);
}

/* ---- failed calls ---- */

static bool same_but_history(const struct kvmm_digest_info *a, const struct kvmm_digest_info *b,
			     const char **part)
{
	/* Room that ranges keep behind them is taken first, and not given back. */
	for (u32 i = KVMM_DIGEST_BLOCKS; i < KVMM_DIGEST_HISTORY; i++) {
		*part = kv_digest_part_name(i);
		if (!kvmm_sum_equal(&a->part[i], &b->part[i]))
			return false;
	}
	return true;
}

static void fail_without_trace(struct kvmm_pool *pool, const char *what, int (*call)(struct kvmm_pool *))
{
	struct kvmm_digest_info before = digest(pool), after;
	const char *part;

	cr_assert_lt(call(pool), 0, "%s did not fail", what);
	after = digest(pool);
	cr_expect(same_but_history(&before, &after, &part), "%s: %s", what, part);
}

static int acquire_too_much(struct kvmm_pool *pool)
{
	kvmm_key_t keys[NR_BLOCKS + 1];
	kvmm_mut_t muts[NR_BLOCKS + 1];
	kvmm_ref_t refs[NR_BLOCKS + 1];
	struct kvmm_acquire_args req = { .keys = keys, .nr_keys = 3, .max_hits = 3, .hits = refs,
					 .fresh = muts, .nr_blocks = NR_BLOCKS + 1 };

	for (u32 i = 0; i < 3; i++)
		keys[i] = key_of(1 + i);
	return kvmm_acquire(pool, &req);
}

static int alloc_too_much(struct kvmm_pool *pool)
{
	kvmm_mut_t muts[NR_BLOCKS + 1];

	return kvmm_alloc(pool, NR_BLOCKS + 1, muts);
}

static int range_too_long(struct kvmm_pool *pool)
{
	kvmm_range_t range;

	return kvmm_range_alloc(pool, NR_BLOCKS - 1, KVMM_ALLOC_NO_COMPACT, &range);
}

Test(digest, failed_calls_leave_no_trace)
{
	for_each_policy(policy) {
		struct kvmm_pool *pool __cleanup(end_pool) = rank_pool(policy, NULL);
		kvmm_mut_t mut;

		cache_keys(pool, 1, 20);
		cache_keys(pool, 30, 10);
		cr_assert_eq(kvmm_alloc(pool, 1, &mut), 0);
		cache_keys(pool, 50, 30);
		fail_without_trace(pool, policy, acquire_too_much);
		fail_without_trace(pool, policy, alloc_too_much);
		fail_without_trace(pool, policy, range_too_long);
	}
}

Test(digest, nor_do_they_in_the_middle_of_things)
{
	struct drive d;

	drive_init(&d, rank_pool("default", NULL), test_number("KVMM_SEED", 1));
	take(d.pool, 1, KVMM_ALLOC_PINNED);
	for (u32 step = 0; step < 3000; step++) {
		drive_step(&d);
		if (step % 10)
			continue;
		fail_without_trace(d.pool, "acquire", acquire_too_much);
		fail_without_trace(d.pool, "alloc", alloc_too_much);
		fail_without_trace(d.pool, "range", range_too_long);
	}
	drive_end(&d);
	end_pool(d.pool);
}

POOL_TEST(digest, bad_arguments_are_refused, make_pool(4))
{
	struct kvmm_digest_info info = { .size = sizeof(info) - 8 }, good = { .size = sizeof(good) };
	struct kvmm_digest_diff diff;
	kvmm_sum_t sum;

	cr_expect_eq(kvmm_pool_digest(NULL, &good), -EINVAL);
	cr_expect_eq(kvmm_pool_digest(pool, NULL), -EINVAL);
	cr_expect_eq(kvmm_pool_digest(pool, &info), -EINVAL);
	cr_expect_eq(kvmm_pool_digest(pool, &good), 0);
	cr_expect_eq(kvmm_pool_history(pool, &sum), -EOPNOTSUPP);
	cr_expect_eq(kvmm_pool_history(NULL, &sum), -EINVAL);
	cr_expect_eq(kvmm_pool_history(pool, NULL), -EINVAL);
	cr_expect_eq(kvmm_digest_compare(&good, &info, 1, &diff), -EINVAL);
	cr_expect_eq(kvmm_digest_compare(&good, NULL, 1, &diff), -EINVAL);
	cr_expect_eq(kvmm_digest_compare(&good, &good, 1, NULL), -EINVAL);
	cr_expect_str_eq(kv_digest_part_name(KVMM_NR_DIGEST_PARTS), "?");
}
