// SPDX-License-Identifier: Apache-2.0
/* What owners say of their blocks, and how much of the pool they may protect. Keys are letters. */
#include "tests/pool/class_util.h"

static struct kvmm_pool *make_limited(const char *policy, u32 permille, u32 above)
{
	struct kvmm_evict_attr evict = { .size = sizeof(evict), .protect_permille = permille,
					 .protect_above = above };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 10,
				       .block_bytes = TEST_BLOCK_BYTES, .policy = policy,
				       .evict = &evict };

	return make_pool_of(&attr);
}

static int say(struct kvmm_pool *pool, kvmm_ref_t ref, u32 what, u64 value)
{
	return kvmm_advise_many(pool, &ref, what, &value, 1);
}

/* A block for each letter, with a priority, put back. */
static void fill_with(struct kvmm_pool *pool, const char *letters, u32 priority)
{
	for (; *letters; letters++) {
		kvmm_ref_t ref = fill(pool, *letters, HIGH);

		cr_assert_eq(say(pool, ref, KVMM_ADVISE_PRIORITY, priority), 0);
		drop(pool, ref);
	}
}

POOL_TEST(class_advise, who_has_a_higher_priority_is_kept_longer, make_cache(10, "priority"))
{
	fill_with(pool, "ab", 90);
	fill_with(pool, "cd", 10);
	cr_expect_str_eq(evicted_for(pool, 8), "cd");
}

POOL_TEST(class_advise, advice_is_forgotten_with_the_content, make_limited("priority", 500, 60))
{
	fill_with(pool, "abc", 100);
	cr_expect_eq(nr_protected(pool), 3);
	cr_expect_str_eq(evicted(pool), "abc");
	cr_expect_eq(nr_protected(pool), 0);
	fill_with(pool, "a", 50);
	fill_with(pool, "b", 70);
	cr_expect_eq(nr_protected(pool), 1);
	cr_expect_str_eq(evicted(pool), "ab");
}

POOL_TEST(class_advise, beyond_the_limit_the_oldest_is_as_any_other,
	  make_limited("priority", 200, 60))
{
	fill_with(pool, "abcd", 90);
	cr_expect_eq(nr_protected(pool), 2);
	cr_expect_str_eq(evicted_for(pool, 8), "ab");
	cr_expect_str_eq(evicted(pool), "cd");
}

POOL_TEST(class_advise, pins_count_as_protection, make_limited("priority", 300, 60))
{
	kvmm_ref_t ref[2] = { fill(pool, 'x', HIGH), fill(pool, 'y', HIGH) };

	fill_with(pool, "ab", 90);
	cr_assert_eq(kvmm_pin_many(pool, ref, 2), 0);
	fill_with(pool, "c", 90);
	cr_expect_eq(nr_protected(pool), 1);
	cr_assert_eq(kvmm_unpin_many(pool, ref, 2), 0);
	cr_assert_eq(kvmm_put_many(pool, ref, 2), 0);
}

Test(class_advise, demotion_keeps_the_priority)
{
	struct kvmm_class classes[] = { { .name = "low" }, { .name = "high" } };
	struct kvmm_evict_attr evict = { .size = sizeof(evict), .classes = classes,
					 .nr_classes = 2, .default_class = 1 };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 8, .policy = "priority",
				       .evict = &evict };
	kvmm_ref_t ref[2];
	struct kvmm_pool *pool __cleanup(end_pool) = make_pool_of(&attr);

	ref[0] = fill(pool, 'a', HIGH);
	ref[1] = fill(pool, 'b', HIGH);
	cr_assert_eq(say(pool, ref[0], KVMM_ADVISE_PRIORITY, 95), 0);
	cr_assert_eq(kvmm_demote(pool, ref, 2, 0), 2);
	drop(pool, ref[0]);
	drop(pool, ref[1]);
	cr_expect_str_eq(evicted(pool), "ba");
}

Test(class_advise, what_a_policy_does_not_use_is_refused)
{
	struct kvmm_pool *lru = make_cache(4, "lru"), *cost = make_cache(4, "cost");
	kvmm_ref_t a = fill(lru, 'a', HIGH), b = fill(cost, 'b', HIGH);

	for (u32 what = 0; what < KVMM_NR_ADVICES; what++)
		cr_expect_eq(say(lru, a, what, 1), -EOPNOTSUPP);
	cr_expect_eq(say(cost, b, KVMM_ADVISE_COST, 5), 0);
	cr_expect_eq(say(cost, b, KVMM_ADVISE_COST, 0), -EINVAL);
	cr_expect_eq(say(cost, b, KVMM_ADVISE_PRIORITY, 101), -EINVAL);
	cr_expect_eq(say(cost, b, KVMM_NR_ADVICES, 1), -EINVAL);
	drop(lru, a);
	drop(cost, b);
	cr_expect_eq(say(cost, b, KVMM_ADVISE_COST, 5), -ESTALE);
	end_pool(lru);
	end_pool(cost);
}

POOL_TEST(class_advise, a_next_use_is_a_hint, make_cache(8, "hint"))
{
	const u64 when[] = { 30, 10, 20 };

	for (u32 i = 0; i < 3; i++) {
		kvmm_ref_t ref = fill(pool, 'a' + i, HIGH);

		cr_expect_eq(say(pool, ref, KVMM_ADVISE_NEXT_USE, when[i]), 0);
		drop(pool, ref);
	}
	cr_expect_str_eq(evicted(pool), "acb");
}
