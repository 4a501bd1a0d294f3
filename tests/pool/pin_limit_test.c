// SPDX-License-Identifier: Apache-2.0
/* No more pins than a pool may have: all of a call's or none, and each unpin makes room. */
#include "tests/pool/class_util.h"
#include "tests/support/lease.h"

#define NR	8u

static kvmm_ref_t ref[NR];

static struct kvmm_pool *make_limited(u32 max_pins)
{
	struct kvmm_evict_attr evict = { .size = sizeof(evict), .max_pins = max_pins };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR, .policy = "lru",
				       .evict = &evict };
	struct kvmm_pool *pool = make_pool_of(&attr);

	for (u32 i = 0; i < NR; i++)
		ref[i] = fill(pool, 'a' + i, HIGH);
	return pool;
}

static void end_limited(struct kvmm_pool *pool)
{
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_assert_eq(kvmm_put_many(pool, ref, NR), 0);
	end_pool(pool);
}

#define LIMITED_TEST(name, max_pins) \
	TEST_WITH(struct kvmm_pool *pool, make_limited(max_pins), end_limited, pin_limit, name)

/* Exactly so many are left: one more is refused. Pinned and unpinned again. */
static void expect_left(struct kvmm_pool *pool, u32 nr)
{
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_pin_many(pool, ref, nr + 1), -E2BIG);
	cr_assert_eq(kvmm_pin_many(pool, ref, nr), 0);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_assert_eq(kvmm_unpin_many(pool, ref, nr), 0);
}

LIMITED_TEST(a_call_that_exceeds_it_pins_nothing, 5)
{
	cr_assert_eq(kvmm_pin_many(pool, ref, 3), 0);
	cr_expect_eq(kvmm_pin_many(pool, ref + 3, 3), -E2BIG);
	for (u32 i = 3; i < NR; i++)	/* it is none of theirs */
		cr_expect_lt(kvmm_unpin_many(pool, &ref[i], 1), 0);
	expect_left(pool, 2);
	cr_assert_eq(kvmm_unpin_many(pool, ref, 3), 0);
	expect_left(pool, 5);
}

LIMITED_TEST(a_block_that_is_pinned_twice_counts_twice, 3)
{
	cr_assert_eq(kvmm_pin_many(pool, ref, 1), 0);
	cr_assert_eq(kvmm_pin_many(pool, ref, 1), 0);
	expect_left(pool, 1);
	cr_assert_eq(kvmm_unpin_many(pool, ref, 1), 0);
	expect_left(pool, 2);
	cr_assert_eq(kvmm_unpin_many(pool, ref, 1), 0);
}

LIMITED_TEST(a_pin_that_fails_half_way_costs_nothing, 4)
{
	kvmm_ref_t some[3];
	int err;

	some[0] = ref[0];
	some[1] = ref[1];
	some[2] = (kvmm_ref_t){ ref[2].index, ref[2].gen + 1 };
	err = kvmm_pin_many(pool, some, 3);
	cr_expect(err < 0 && err != -E2BIG, "%d", err);
	expect_left(pool, 4);
}

LIMITED_TEST(an_unpin_that_is_refused_gives_nothing_back, 4)
{
	cr_assert_eq(kvmm_pin_many(pool, ref, 2), 0);
	cr_expect_lt(kvmm_unpin_many(pool, ref, 3), 0);
	expect_left(pool, 2);
	cr_assert_eq(kvmm_unpin_many(pool, ref, 2), 0);
}

LIMITED_TEST(a_hold_that_pins_is_limited_too, 2)
{
	struct kvmm_lease_attr attr = { .size = sizeof(attr), .owner = 1, .flags = KVMM_LEASE_PIN };
	kvmm_lease_t hold;

	cr_assert_eq(kvmm_get_many(pool, ref, 3), 0);
	cr_expect_eq(lease_refs(pool, &attr, ref, 3, &hold), -E2BIG);
	expect_left(pool, 2);
	cr_assert_eq(lease_refs(pool, &attr, ref, 2, &hold), 0);
	expect_left(pool, 0);
	cr_assert_eq(drop_lease(pool, hold), 0);
	expect_left(pool, 2);
	cr_assert_eq(kvmm_put_many(pool, &ref[2], 1), 0);
}

LIMITED_TEST(a_hold_that_is_refused_leaves_no_trace, 1)
{
	kvmm_key_t keys[2] = { key_of('a'), key_of('b') }, other = key_of('z'), evicted;
	struct kvmm_prefix prefix = { .keys = keys, .nr = 2 };
	struct kvmm_lease_attr attr = KVMM_LEASE_ATTR_INIT;
	struct kvmm_acquire_args req = { .keys = &other, .nr_keys = 1, .nr_blocks = 1, .evicted = &evicted };
	struct kvmm_pool_stat before, after;
	kvmm_lease_t hold;
	kvmm_mut_t mut;

	attr.prefix = &prefix;
	attr.flags = KVMM_LEASE_PIN;
	for (u32 i = 0; i < 3; i++)
		cr_assert_eq(kvmm_put_many(pool, &ref[i], 1), 0);
	before = stat_of(pool);
	for (u32 partial = 0; partial < 2; partial++) {
		attr.flags = KVMM_LEASE_PIN | (partial ? KVMM_LEASE_PARTIAL : 0);
		cr_expect_eq(kvmm_lease_take(pool, &attr, &hold), -E2BIG);
	}
	after = stat_of(pool);
	cr_expect_eq(after.hit_blocks, before.hit_blocks);
	cr_expect_eq(after.miss_blocks, before.miss_blocks);
	req.fresh = &mut;
	cr_assert_eq(kvmm_acquire(pool, &req), 0);
	cr_expect_eq(number_of(&evicted), 'a', "it was not used");
	prefix.keys = &keys[1];
	prefix.nr = 1;
	cr_assert_eq(kvmm_lease_take(pool, &attr, &hold), 1);
	cr_expect_eq(stat_of(pool).hit_blocks, before.hit_blocks + 1);
	cr_expect_eq(drop_lease(pool, hold), 0);
	cr_assert_eq(kvmm_register(pool, &mut, &keys[0], 1, &ref[0]), 0);
	prefix.keys = (kvmm_key_t[]){ key_of('b'), key_of('c') };
	prefix.nr = 2;
	cr_assert_eq(kvmm_prefix_match(pool, &prefix, &ref[1]), 2);
}

LIMITED_TEST(references_that_are_no_pins_are_not_limited, 1)
{
	cr_assert_eq(kvmm_get_many(pool, ref, NR), 0);
	expect_left(pool, 1);
	cr_assert_eq(kvmm_put_many(pool, ref, NR), 0);
}

LIMITED_TEST(without_one_all_may_be_pinned, 0)
{
	cr_assert_eq(kvmm_pin_many(pool, ref, NR), 0);
	cr_assert_eq(kvmm_pin_many(pool, ref, NR), 0);
	cr_assert_eq(kvmm_unpin_many(pool, ref, NR), 0);
	cr_assert_eq(kvmm_unpin_many(pool, ref, NR), 0);
}
