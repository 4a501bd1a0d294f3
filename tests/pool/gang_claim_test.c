// SPDX-License-Identifier: Apache-2.0
/* What calls do to blocks that a reserved gang has claimed, and refused gangs to others. */
#include "gang_util.h"
#include "tests/pool/class_util.h"

/* Blocks a to d, put back in this order, all of owner 1. */
static struct kvmm_pool *make_owned(u32 flags)
{
	struct kvmm_pool *pool = make_classed(4, "lru", NULL, flags);

	for (u32 i = 0; i < 4; i++) {
		kvmm_ref_t ref = fill(pool, 'a' + i, HIGH);

		cr_assert_eq(kvmm_set_owner(pool, &ref, 1, 1), 0);
		drop(pool, ref);
	}
	return pool;
}

static void demote_in_between(u32 flags, bool commits)
{
	struct kvmm_gang_want want = want_blocks(0, 2);
	struct kvmm_pool *pool = make_owned(flags);
	kvmm_mut_t muts[2];
	struct kvmm_gang *gang;

	cr_assert_eq(reserve(&pool, &want, 1, &gang), 0);
	cr_expect_eq(kvmm_demote_owner(pool, 1, LOW), 2);
	cr_assert_eq(kvmm_validate(pool), 0);
	if (commits) {
		cr_assert_eq(kvmm_gang_commit(gang, muts, NULL), 0);
		cr_assert_eq(kvmm_free(pool, muts, 2), 0);
	} else {
		cr_assert_eq(kvmm_gang_abort(gang), 0);
		cr_expect_eq(class_stat(pool, HIGH).nr_inactive, 2);
	}
	cr_assert_eq(kvmm_validate(pool), 0);
	if (!flags)
		cr_expect_str_eq(evicted(pool), commits ? "dc" : "dcab");
	end_pool(pool);
}

Test(gang_claim, demoting_an_owner_passes_over_what_is_claimed)
{
	demote_in_between(0, false);
	demote_in_between(0, true);
}

Test(gang_claim, aggressive_demotion_passes_over_what_is_claimed)
{
	demote_in_between(KVMM_EVICT_AGGRESSIVE, false);
	demote_in_between(KVMM_EVICT_AGGRESSIVE, true);
}

static struct kvmm_pool *make_limited(void)
{
	struct kvmm_evict_attr evict = { .size = sizeof(evict), .protect_permille = 500,
					 .protect_above = 60 };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 4,
				       .block_bytes = TEST_BLOCK_BYTES, .policy = "priority",
				       .evict = &evict };

	return make_pool_of(&attr);
}

static void fill_protected(struct kvmm_pool *pool, const char *letters)
{
	u64 priority = 90;

	for (; *letters; letters++) {
		kvmm_ref_t ref = fill(pool, *letters, HIGH);

		cr_assert_eq(kvmm_advise_many(pool, &ref, KVMM_ADVISE_PRIORITY, &priority, 1), 0);
		drop(pool, ref);
	}
}

/* Two blocks are protected and claimed; two others take the protection over. */
Test(gang_claim, what_is_claimed_loses_its_protection_as_any_other)
{
	struct kvmm_gang_want want = want_blocks(0, 2);
	struct kvmm_pool *pool __cleanup(end_pool) = make_limited();
	kvmm_mut_t muts[2];
	struct kvmm_gang *gang;

	cr_assert_eq(kvmm_alloc(pool, 2, muts), 0);
	fill_protected(pool, "ab");
	cr_assert_eq(reserve(&pool, &want, 1, &gang), 0);
	cr_assert_eq(kvmm_free(pool, muts, 2), 0);
	fill_protected(pool, "cd");
	cr_expect_eq(nr_protected(pool), 2);
	cr_assert_eq(kvmm_validate(pool), 0);
	cr_assert_eq(kvmm_gang_abort(gang), 0);
	cr_assert_eq(kvmm_validate(pool), 0);
	cr_expect_eq(nr_protected(pool), 2);
	cr_expect_str_eq(evicted(pool), "abcd");
}

/* ---- refused gangs beside promises ---- */

/* Three cached blocks, and before them one that is free, and promised. */
static void make_promised(struct kvmm_pool **pool, kvmm_promise_t *promise)
{
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = 1 };
	kvmm_range_t range;

	make_pools(pool, 1, 4, "lru");
	range = take(*pool, 1, 0);
	for (u32 i = 0; i < 3; i++)
		cache_keys(*pool, i, 1);
	cr_assert_eq(kvmm_range_free(*pool, range), 0);
	cr_assert_str_eq(picture(*pool), ".III");
	cr_assert_eq(kvmm_promise_make(*pool, &ctl, promise), 0);
}

/* The second want gets the block of a victim that made up for the promised one. */
static void refuse_last(struct kvmm_gang_want second, struct kvmm_gang_want last, int err)
{
	struct kvmm_gang_want wants[] = { want_range(0, 2, 3, 0), second, last };
	struct digests before, after;
	kvmm_promise_t promise;
	struct kvmm_pool *pool;
	struct kvmm_gang *gang;

	make_promised(&pool, &promise);
	before = digests_of(&pool, 1);
	cr_assert_eq(reserve(&pool, wants, 3, &gang), err);
	cr_assert_eq(kvmm_validate(pool), 0);
	after = digests_of(&pool, 1);
	cr_expect_str_eq(differ(&before, &after), "");
	cr_expect_eq(stat_of(pool).evictions, 0);
	cr_expect_eq(stat_of(pool).nr_inactive, 3);

	cr_assert_eq(reserve(&pool, wants, 2, &gang), 0);
	cr_assert_eq(kvmm_validate(pool), 0);
	cr_assert_eq(kvmm_gang_abort(gang), 0);
	cr_assert_eq(kvmm_validate(pool), 0);
	after = digests_of(&pool, 1);
	cr_expect_str_eq(differ(&before, &after), "");
	cr_expect_eq(kvmm_promise_end(pool, promise), 1);
	end_pools(&pool, 1);
}

Test(gang_claim, a_refused_gang_evicts_nothing_beside_a_promise)
{
	refuse_last(want_range(0, 1, 1, 0), want_blocks(0, 2), -ENOSPC);
	refuse_last(want_range(0, 1, 1, 0), want_range(0, 2, 2, 0), -ENOSPC);
	refuse_last(want_blocks(0, 1), want_range(0, 2, 2, 0), -ENOSPC);
}
