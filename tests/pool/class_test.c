// SPDX-License-Identifier: Apache-2.0
/* Classes above the policy: who goes first, who goes down, who is told. Keys are letters. */
#include "pool/internal.h"
#include "tests/pool/class_util.h"

/* ---- order ---- */

POOL_TEST(class, a_lower_class_goes_first_whatever_its_age, make_classed(8, "lru", NULL, 0))
{
	fill_all(pool, "a", HIGH);
	fill_all(pool, "b", MID);
	fill_all(pool, "c", LOW);
	fill_all(pool, "d", HIGH);
	fill_all(pool, "ef", LOW);
	cr_expect_str_eq(evicted(pool), "cefbad");
}

POOL_TEST(class, a_use_changes_the_place_in_the_class_but_not_the_class,
	  make_classed(8, "lru", NULL, 0))
{
	kvmm_key_t key = key_of('a');
	kvmm_ref_t ref;

	fill_all(pool, "abc", LOW);
	fill_all(pool, "xyz", HIGH);
	cr_assert_eq(kvmm_match(pool, &key, 1, &ref), 1);
	cr_expect_eq(kvmm_touch_many(pool, &ref, 1), 0);
	drop(pool, ref);
	cr_expect_str_eq(evicted(pool), "bcaxyz");
}

POOL_TEST(class, blocks_are_of_the_default_class_until_somebody_says_otherwise,
	  make_classed(8, "lru", NULL, 0))
{
	cache_keys(pool, 'a', 3);
	cr_expect_eq(class_stat(pool, HIGH).nr, 3);
	cr_expect_eq(class_stat(pool, HIGH).nr_inactive, 3);
	cr_expect_eq(class_stat(pool, LOW).nr, 0);
	cr_expect_str_eq(class_stat(pool, LOW).name, "low");
}

POOL_TEST(class, a_class_is_forgotten_with_the_content, make_classed(2, "lru", NULL, 0))
{
	fill_all(pool, "ab", LOW);
	cr_expect_str_eq(evicted(pool), "ab");
	fill_all(pool, "c", HIGH);
	cr_expect_eq(class_stat(pool, LOW).nr, 0);
	cr_expect_eq(class_stat(pool, HIGH).nr, 1);
}

/* The ends of chains first, but only inside a class. */
POOL_TEST(class, a_chain_of_two_classes_loses_the_lower_one, make_classed(8, "lru", NULL, 0))
{
	kvmm_ref_t ref[4];

	register_keys(pool, 'a', 4, ref);
	cr_assert_eq(kvmm_class_set(pool, ref + 1, 2, LOW), 0);
	cr_assert_eq(kvmm_put_many(pool, ref, 4), 0);
	cr_expect_str_eq(evicted(pool), "cbda");
}

/* ---- up and down ---- */

POOL_TEST(class, what_was_said_once_goes_down_only, make_classed(8, "lru", NULL, 0))
{
	kvmm_ref_t ref;

	ref = fill(pool, 'a', MID);
	cr_expect_eq(kvmm_class_set(pool, &ref, 1, HIGH), -EPERM);
	cr_expect_eq(kvmm_class_set(pool, &ref, 1, MID), 0);
	cr_expect_eq(kvmm_class_set(pool, &ref, 1, LOW), 0);
	cr_expect_eq(kvmm_class_set(pool, &ref, 1, MID), -EPERM);
	cr_expect_eq(kvmm_class_set(pool, &ref, 1, 3), -EINVAL);
	drop(pool, ref);
	cr_expect_eq(kvmm_class_set(pool, &ref, 1, LOW), -ESTALE);
	cr_expect_eq(class_stat(pool, LOW).nr, 1);
}

POOL_TEST(class, a_batch_with_one_that_may_not_rise_changes_nothing,
	  make_classed(8, "lru", NULL, 0))
{
	kvmm_ref_t ref[2];

	ref[0] = fill(pool, 'a', HIGH);
	ref[1] = fill(pool, 'b', LOW);
	cr_expect_eq(kvmm_class_set(pool, ref, 2, MID), -EPERM);
	cr_expect_eq(class_stat(pool, HIGH).nr, 1);
	cr_expect_eq(class_stat(pool, LOW).nr, 1);
	cr_assert_eq(kvmm_put_many(pool, ref, 2), 0);
}

POOL_TEST(class, demotion_moves_down_and_nobody_up, make_classed(8, "lru", NULL, 0))
{
	kvmm_ref_t ref[3];

	ref[0] = fill(pool, 'a', HIGH);
	ref[1] = fill(pool, 'b', MID);
	ref[2] = fill(pool, 'c', LOW);
	cr_expect_eq(kvmm_demote(pool, ref, 3, MID), 1);
	cr_expect_eq(class_stat(pool, HIGH).demoted, 1);
	cr_expect_eq(class_stat(pool, MID).nr, 2);
	cr_expect_eq(class_stat(pool, LOW).nr, 1);
	cr_expect_eq(kvmm_class_set(pool, ref, 1, HIGH), -EPERM);
	cr_assert_eq(kvmm_put_many(pool, ref, 3), 0);
	cr_expect_str_eq(evicted(pool), "cba");
}

/* Last of the batch first, as if it had been put back now. */
POOL_TEST(class, who_is_demoted_unreferenced_is_the_youngest_there, make_classed(8, "lru", NULL, 0))
{
	kvmm_ref_t ref[2];

	ref[0] = fill(pool, 'a', HIGH);
	ref[1] = fill(pool, 'b', HIGH);
	cr_assert_eq(kvmm_put_many(pool, ref, 2), 0);
	fill_all(pool, "xy", LOW);
	cr_expect_eq(kvmm_demote(pool, ref, 2, LOW), 2);
	cr_expect_str_eq(evicted_for(pool, 7), "xyb");
	cr_expect_eq(kvmm_demote(pool, ref, 2, LOW), -ESTALE);
	cr_expect_str_eq(evicted(pool), "a");
}

POOL_TEST(class, an_owner_s_blocks_are_demoted_but_not_those_that_are_shared,
	  make_classed(8, "lru", NULL, 0))
{
	kvmm_ref_t ref[4];

	for (u32 i = 0; i < 4; i++)
		ref[i] = fill(pool, 'a' + i, HIGH);
	cr_expect_eq(kvmm_set_owner(pool, ref, 3, 7), 0);
	cr_expect_eq(kvmm_set_owner(pool, ref + 2, 2, 8), 0);
	cr_expect_eq(kvmm_set_owner(pool, ref, 1, 0), -EINVAL);
	cr_expect_eq(kvmm_set_owner(pool, ref + 2, 1, 7), 0);
	cr_assert_eq(kvmm_put_many(pool, ref, 4), 0);
	cr_expect_eq(kvmm_demote_owner(pool, 7, LOW), 2);
	cr_expect_eq(kvmm_demote_owner(pool, 9, LOW), 0);
	cr_expect_str_eq(evicted_for(pool, 6), "ba");
	cr_expect_str_eq(evicted(pool), "dc");
	cr_expect_eq(kvmm_demote_owner(pool, 7, LOW), 0);
}

POOL_TEST(class, aggressive_demotion_evicts_whom_nobody_holds,
	  make_classed(4, "lru", NULL, KVMM_EVICT_AGGRESSIVE))
{
	kvmm_ref_t ref[3];

	for (u32 i = 0; i < 3; i++)
		ref[i] = fill(pool, 'a' + i, HIGH);
	cr_assert_eq(kvmm_set_owner(pool, ref, 3, 5), 0);
	drop(pool, ref[0]);
	drop(pool, ref[2]);
	cr_expect_str_eq(picture(pool), "IAI.");
	cr_expect_eq(kvmm_demote_owner(pool, 5, LOW), 3);
	cr_expect_str_eq(picture(pool), ".A..");
	cr_expect_eq(class_stat(pool, LOW).nr, 1);
	cr_expect_eq(class_stat(pool, LOW).evicted, 2);
	drop(pool, ref[1]);
	cr_expect_str_eq(picture(pool), "....");
	cr_expect_eq(kvmm_demote(pool, &ref[1], 1, LOW), -ESTALE);
}

/* ---- quotas ---- */

Test(class, a_full_class_evicts_its_own_oldest)
{
	struct kvmm_pool *pool __cleanup(end_pool) = make_classed(8, "lru", (u32[]){ 0, 2, 0 }, 0);

	fill_all(pool, "x", LOW);
	fill_all(pool, "ab", MID);
	cr_expect_eq(class_stat(pool, MID).quota, 2);
	fill_all(pool, "c", MID);
	cr_expect_eq(class_stat(pool, MID).nr, 2);
	cr_expect_eq(class_stat(pool, MID).evicted, 1);
	cr_expect_eq(stat_of(pool).nr_free, 5);
	cr_expect_str_eq(evicted(pool), "xbc");
}

Test(class, a_quota_never_refuses_and_what_exceeds_it_goes_before_the_lowest)
{
	kvmm_ref_t ref[3];
	struct kvmm_pool *pool __cleanup(end_pool) = make_classed(8, "lru", (u32[]){ 0, 1, 0 }, 0);

	fill_all(pool, "xy", LOW);
	for (u32 i = 0; i < 3; i++)
		ref[i] = fill(pool, 'a' + i, MID);
	cr_expect_eq(class_stat(pool, MID).nr, 3);
	cr_assert_eq(kvmm_put_many(pool, ref, 3), 0);
	cr_expect_str_eq(evicted(pool), "cbxya");
}

/* Enforced when the phase is registered, for blocks whose default class has the quota. */
Test(class, registering_into_a_full_default_class_evicts_from_it)
{
	struct kvmm_class phases[] = KVMM_PHASES(500);
	struct kvmm_evict_attr evict = { .size = sizeof(evict), .classes = phases,
					 .nr_classes = KVMM_NR_PHASES,
					 .default_class = KVMM_PHASE_ACTIVE_THOUGHT };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 8, .policy = "lru",
				       .evict = &evict };
	struct kvmm_pool *pool __cleanup(end_pool) = make_pool_of(&attr);

	cache_keys(pool, 'a', 4);
	cr_expect_eq(stat_of(pool).nr_free, 4);
	cache_keys(pool, 'e', 2);
	cr_expect_eq(stat_of(pool).nr_free, 4);
	cr_expect_str_eq(evicted(pool), "bafe");
}

/* ---- all thoughts together ---- */

static struct kvmm_pool *make_phases(struct kvmm_class *phases)
{
	struct kvmm_evict_attr evict = { .size = sizeof(evict), .classes = phases,
					 .nr_classes = KVMM_NR_PHASES,
					 .default_class = KVMM_PHASE_OUTPUT_CRITICAL };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 100,
				       .block_bytes = TEST_BLOCK_BYTES, .policy = "lru",
				       .evict = &evict };

	return make_pool_of(&attr);
}

static u32 nr_thoughts(struct kvmm_pool *pool)
{
	u32 nr = 0;

	for (u32 cls = 0; cls < KVMM_PHASE_OUTPUT_CRITICAL; cls++)
		nr += class_stat(pool, cls).nr + class_stat(pool, cls).nr_outside;
	return nr;
}

static int alloc_thoughts(struct kvmm_pool *pool, u32 nr, kvmm_mut_t *muts)
{
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = nr,
				      .cls = KVMM_IN_CLASS(KVMM_PHASE_ACTIVE_THOUGHT) };

	return kvmm_alloc_as(pool, &ctl, muts);
}

static void cache_thoughts(struct kvmm_pool *pool, u32 first, u32 nr, u32 cls)
{
	kvmm_mut_t muts[100];
	kvmm_ref_t refs[100];
	kvmm_key_t keys[100];

	for (u32 i = 0; i < nr; i++)
		keys[i] = key_of(first + i);
	cr_assert_eq(alloc_thoughts(pool, nr, muts), 0);
	cr_assert_eq(kvmm_register(pool, muts, keys, nr, refs), 0);
	cr_expect_eq(class_stat(pool, KVMM_PHASE_ACTIVE_THOUGHT).nr_outside, 0);
	cr_assert_eq(kvmm_demote(pool, refs, nr, cls), cls == KVMM_PHASE_ACTIVE_THOUGHT ? 0 : (int)nr);
	cr_assert_eq(kvmm_put_many(pool, refs, nr), 0);
}

Test(class, thoughts_of_all_kinds_have_one_quota)
{
	struct kvmm_class phases[] = KVMM_PHASES(KVMM_THOUGHT_PERMILLE);
	struct kvmm_range_attr range = { .size = sizeof(range), .nr = 15, .max_runs = 4,
					 .cls = KVMM_IN_CLASS(KVMM_PHASE_ACTIVE_THOUGHT) };
	kvmm_range_t handle;
	kvmm_mut_t muts[10];
	struct kvmm_pool *pool __cleanup(end_pool) = make_phases(phases);

	cache_thoughts(pool, 0, 30, KVMM_PHASE_FINISHED_THOUGHT);
	cache_thoughts(pool, 30, 30, KVMM_PHASE_ACTIVE_THOUGHT);
	cr_expect_eq(nr_thoughts(pool), 40);
	cr_expect_eq(class_stat(pool, KVMM_PHASE_FINISHED_THOUGHT).nr, 10, "finished ones go first");
	cr_expect_eq(alloc_thoughts(pool, 10, muts), 0);
	cr_expect_eq(kvmm_range_alloc_attr(pool, &range, &handle), 0);
	cr_expect_eq(nr_thoughts(pool), 40);
	cr_expect_eq(class_stat(pool, KVMM_PHASE_ACTIVE_THOUGHT).nr, 15);
	cr_expect_eq(class_stat(pool, KVMM_PHASE_ACTIVE_THOUGHT).nr_outside, 25);
	cr_expect_eq(class_stat(pool, KVMM_PHASE_ACTIVE_THOUGHT).bytes, 40 * TEST_BLOCK_BYTES);
	cr_expect_eq(kvmm_range_grow(pool, handle, 5), 0);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(nr_thoughts(pool), 40);
	cr_expect_eq(kvmm_range_free(pool, handle), 0);
	cr_expect_eq(kvmm_free(pool, muts, 10), 0);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(nr_thoughts(pool), 10);
}

Test(class, what_goes_for_the_quota_is_in_the_report)
{
	struct kvmm_class phases[] = KVMM_PHASES(KVMM_THOUGHT_PERMILLE);
	struct kvmm_alloc_report report;
	struct kvmm_alloc_ctl ctl = KVMM_ALLOC_CTL_INIT;
	struct kvmm_range_attr range = { .size = sizeof(range), .nr = 15, .max_runs = 4,
					 .report = &report };
	kvmm_range_t handle;
	kvmm_mut_t muts[12];
	struct kvmm_pool *pool __cleanup(end_pool) = make_phases(phases);

	cache_thoughts(pool, 0, 38, KVMM_PHASE_FINISHED_THOUGHT);
	ctl.cls = range.cls = KVMM_IN_CLASS(KVMM_PHASE_ACTIVE_THOUGHT);
	ctl.nr = 5;
	ctl.report = &report;
	cr_expect_eq(kvmm_alloc_as(pool, &ctl, muts), 0);
	cr_expect_eq(report.evicted, 3);
	ctl.nr = 7;
	ctl.flags = KVMM_ALLOC_CONTIG;
	cr_expect_eq(kvmm_alloc_as(pool, &ctl, muts + 5), 0);
	cr_expect_eq(report.evicted, 7);
	cr_expect_eq(kvmm_range_alloc_attr(pool, &range, &handle), 0);
	cr_expect_eq(report.evicted, 15);
	cr_expect_eq(stat_of(pool).evictions, 25);
	cr_expect_eq(kvmm_range_free(pool, handle), 0);
	cr_expect_eq(kvmm_free(pool, muts, 12), 0);
}

Test(class, thoughts_beyond_the_quota_are_refused_where_that_was_asked_for)
{
	struct kvmm_class phases[] = KVMM_PHASES_REFUSE(KVMM_THOUGHT_PERMILLE);
	struct kvmm_range_attr range = { .size = sizeof(range), .nr = 11, .max_runs = 4,
					 .cls = KVMM_IN_CLASS(KVMM_PHASE_ACTIVE_THOUGHT) };
	kvmm_range_t handle, twice[2];
	kvmm_mut_t muts[40];
	struct kvmm_pool *pool __cleanup(end_pool) = make_phases(phases);

	cache_thoughts(pool, 0, 30, KVMM_PHASE_FINISHED_THOUGHT);
	cr_expect_eq(alloc_thoughts(pool, 41, muts), -EDQUOT);
	cr_expect_eq(nr_thoughts(pool), 30, "nothing was evicted");
	cr_expect_eq(alloc_thoughts(pool, 30, muts), 0);
	cr_expect_eq(nr_thoughts(pool), 40);
	cr_expect_eq(kvmm_range_alloc_attr(pool, &range, &handle), -EDQUOT);
	range.nr = 10;
	cr_expect_eq(kvmm_range_alloc_attr(pool, &range, &handle), 0);
	cr_expect_eq(kvmm_range_grow(pool, handle, 1), -EDQUOT);
	cr_expect_eq(kvmm_range_grow_many(pool, &handle, 1, 1), -EDQUOT);
	cr_expect_eq(nr_thoughts(pool), 40);
	cr_expect_eq(kvmm_free(pool, muts, 30), 0);
	cr_expect_eq(kvmm_range_grow(pool, handle, 1), 0);
	twice[0] = twice[1] = handle;
	cr_expect_eq(kvmm_range_grow_many(pool, twice, 2, 15), -EDQUOT, "one of them fits");
	cr_expect_eq(nr_thoughts(pool), 11);
	cr_expect_eq(kvmm_range_grow_many(pool, twice, 2, 14), 0);
	cr_expect_eq(nr_thoughts(pool), 39);
	cr_expect_eq(kvmm_range_free(pool, handle), 0);
	range.cls = KVMM_NR_PHASES + 1;
	cr_expect_eq(kvmm_range_alloc_attr(pool, &range, &handle), -EINVAL);
}

Test(class, blocks_that_are_held_are_not_set_into_a_class_that_refuses_them)
{
	struct kvmm_class phases[] = KVMM_PHASES_REFUSE(KVMM_THOUGHT_PERMILLE);
	kvmm_ref_t refs[42];
	struct kvmm_pool *pool __cleanup(end_pool) = make_phases(phases);

	cache_thoughts(pool, 100, 30, KVMM_PHASE_FINISHED_THOUGHT);
	register_keys(pool, 0, 41, refs);
	cr_expect_eq(kvmm_class_set(pool, refs, 41, KVMM_PHASE_ACTIVE_THOUGHT), -EDQUOT);
	cr_expect_eq(stat_of(pool).evictions, 0);
	cr_expect_eq(nr_thoughts(pool), 30);
	refs[41] = refs[0];	/* twice is once */
	refs[40] = refs[1];
	cr_expect_eq(kvmm_class_set(pool, refs, 42, KVMM_PHASE_ACTIVE_THOUGHT), 0);
	cr_expect_eq(nr_thoughts(pool), 40);
	cr_expect_eq(stat_of(pool).evictions, 30);
	cr_expect_eq(kvmm_class_set(pool, refs, 40, KVMM_PHASE_FINISHED_THOUGHT), 0, "in one quota");
}

Test(class, no_more_is_promised_than_the_class_takes)
{
	struct kvmm_class phases[] = KVMM_PHASES_REFUSE(KVMM_THOUGHT_PERMILLE);
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl),
				      .cls = KVMM_IN_CLASS(KVMM_PHASE_ACTIVE_THOUGHT), .nr = 41 };
	kvmm_promise_t promise = { 7, 7 };
	kvmm_mut_t muts[40];
	struct kvmm_pool *pool __cleanup(end_pool) = make_phases(phases);

	cache_thoughts(pool, 0, 30, KVMM_PHASE_FINISHED_THOUGHT);
	cache_keys(pool, 100, 60);
	cr_expect_eq(kvmm_promise_make(pool, &ctl, &promise), -EDQUOT);
	cr_expect_eq(stat_of(pool).evictions, 0);
	cr_expect_eq(promise.gen, 7);
	ctl.nr = 40;
	cr_assert_eq(kvmm_promise_make(pool, &ctl, &promise), 0);
	ctl.promise = promise;
	cr_expect_eq(kvmm_alloc_as(pool, &ctl, muts), 0);
	cr_expect_eq(kvmm_promise_end(pool, promise), 0);
	ctl.promise = (kvmm_promise_t){ 0, 0 };
	ctl.nr = 1;
	cr_expect_eq(kvmm_promise_make(pool, &ctl, &promise), -EDQUOT);
	ctl.cls = KVMM_NR_PHASES + 1;
	cr_expect_eq(kvmm_promise_make(pool, &ctl, &promise), -EINVAL);
	cr_expect_eq(kvmm_free(pool, muts, 40), 0);
}

/* 100 blocks, 40 of them may be thoughts: the first range alone would be over that. */
Test(class, a_refused_batch_evicts_no_thought)
{
	struct kvmm_class phases[] = KVMM_PHASES(KVMM_THOUGHT_PERMILLE);
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 30, .max_runs = 4,
					.cls = KVMM_IN_CLASS(KVMM_PHASE_ACTIVE_THOUGHT) };
	kvmm_range_t range[2];
	struct kvmm_pool *pool __cleanup(end_pool) = make_phases(phases);

	cache_thoughts(pool, 0, 10, KVMM_PHASE_FINISHED_THOUGHT);
	cr_assert_eq(kvmm_range_alloc_attr(pool, &attr, &range[0]), 0);
	attr.cls = 0;
	cr_assert_eq(kvmm_range_alloc_attr(pool, &attr, &range[1]), 0);
	cr_expect_eq(kvmm_range_grow_many(pool, range, 2, 25), -ENOSPC);
	cr_expect_eq(nr_thoughts(pool), 40);
	cr_expect_eq(stat_of(pool).evictions, 0);
	cr_expect_eq(kvmm_validate(pool), 0);
	cr_expect_eq(kvmm_range_grow_many(pool, range, 2, 20), 0);
	cr_expect_eq(stat_of(pool).evictions, 10);
}

POOL_TEST(class, aggressive_demotion_frees_a_held_block_at_its_last_put,
	  make_classed(4, "lru", NULL, KVMM_EVICT_AGGRESSIVE))
{
	kvmm_ref_t ref, more;

	ref = more = fill(pool, 'a', MID);
	cr_assert_eq(kvmm_get(pool, more), 0);
	cr_expect_eq(kvmm_demote(pool, &ref, 1, LOW), 1);
	cr_expect_eq(kvmm_put(pool, ref), 0);
	cr_expect_eq(stat_of(pool).nr_free, 3);
	cr_expect_eq(kvmm_put(pool, more), 0);
	cr_expect_eq(stat_of(pool).nr_free, 4);
}

/* ---- room ---- */

POOL_TEST(class, evict_for_takes_exactly_what_is_missing, make_classed(8, "lru", NULL, 0))
{
	struct kvmm_evict_for_args req = { .size = sizeof(req), .bytes = 4 * TEST_BLOCK_BYTES + 1 };

	fill_all(pool, "ab", HIGH);
	fill_all(pool, "c", LOW);
	fill_all(pool, "de", MID);
	cr_expect_eq(kvmm_evict_for(pool, &req), 0);
	cr_expect_eq(req.nr_free, 5);
	cr_expect_eq(req.nr_evicted, 2);
	cr_expect_eq(req.evicted_of[LOW], 1);
	cr_expect_eq(req.evicted_of[MID], 1);
	cr_expect_eq(req.evicted_of[HIGH], 0);
	cr_expect_eq(kvmm_evict_for(pool, &req), 0);
	cr_expect_eq(req.nr_evicted, 0);
	cr_expect_str_eq(evicted(pool), "eab");
}

POOL_TEST(class, evict_for_more_than_there_is_evicts_nothing, make_classed(8, "lru", NULL, 0))
{
	struct kvmm_evict_for_args req = { .size = sizeof(req), .nr_blocks = 8 };
	kvmm_ref_t ref;

	ref = fill(pool, 'a', LOW);
	fill_all(pool, "bcd", LOW);
	cr_expect_eq(kvmm_evict_for(pool, &req), -ENOSPC);
	req.nr_blocks = 9;
	cr_expect_eq(kvmm_evict_for(pool, &req), -ENOSPC);
	req.size--;
	cr_expect_eq(kvmm_evict_for(pool, &req), -EINVAL);
	cr_expect_eq(class_stat(pool, LOW).evicted, 0);
	cr_expect_str_eq(evicted(pool), "bcd");
	drop(pool, ref);
}

POOL_TEST(class, a_failed_allocation_evicts_nobody_and_tells_nobody,
	  make_classed(8, "lru", NULL, 0))
{
	struct kvmm_class_event event;
	kvmm_mut_t mut[8];
	kvmm_ref_t ref;

	ref = fill(pool, 'z', HIGH);
	fill_all(pool, "ab", HIGH);
	fill_all(pool, "cd", LOW);
	cr_expect_eq(kvmm_alloc(pool, 8, mut), -ENOSPC);
	cr_expect_eq(class_stat(pool, LOW).reached, 0);
	cr_expect_eq(kvmm_class_events(pool, &event, 1, NULL), 0);
	cr_expect_str_eq(evicted(pool), "cdab");
	cr_expect_eq(class_stat(pool, LOW).reached, 1);
	cr_expect_eq(class_stat(pool, MID).reached, 0);
	drop(pool, ref);
}

/* ---- being told ---- */

POOL_TEST(class, owners_are_told_how_many_they_lost, make_classed(8, "lru", NULL, 0))
{
	struct kvmm_class_event event[4];
	kvmm_ref_t ref[4];
	u64 nr_lost = 1;

	for (u32 i = 0; i < 4; i++)
		ref[i] = fill(pool, 'a' + i, i < 3 ? HIGH : LOW);
	cr_assert_eq(kvmm_set_owner(pool, ref, 2, 41), 0);
	cr_assert_eq(kvmm_set_owner(pool, ref + 2, 2, 42), 0);
	for (u32 i = 0; i < 4; i++)
		drop(pool, ref[i]);
	cr_expect_str_eq(evicted(pool), "dabc");
	cr_expect_eq(kvmm_class_events(pool, event, 4, &nr_lost), 2);
	cr_expect_eq(nr_lost, 0);
	/* The newest victim is forgotten first. */
	cr_expect(event[0].owner == 42 && event[0].nr == 1 && event[0].cls == HIGH);
	cr_expect(event[1].owner == 41 && event[1].nr == 2 && event[1].cls == HIGH);
	cr_expect_eq(kvmm_class_events(pool, event, 4, &nr_lost), 0);
}

POOL_TEST(class, what_nobody_asks_for_is_counted, make_classed(2, "lru", NULL, 0))
{
	u64 nr_lost;
	kvmm_ref_t ref;

	for (u32 i = 0; i < CLASS_EVENTS + 3; i++) {
		ref = fill(pool, 'a', HIGH);
		cr_assert_eq(kvmm_set_owner(pool, &ref, 1, i + 1), 0);
		drop(pool, ref);
		cr_assert_str_eq(evicted(pool), "a");
	}
	cr_expect_eq(kvmm_class_events(pool, NULL, 0, &nr_lost), 0);
	cr_expect_eq(nr_lost, 3);
}

/* ---- asking for nonsense ---- */

static int create(const struct kvmm_evict_attr *evict, const char *policy)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 4, .policy = policy,
				       .evict = evict };
	struct kvmm_pool *made;
	int err = kvmm_pool_create(&attr, &made);

	if (!err)
		kvmm_pool_destroy(made);
	return err;
}

Test(class, nonsense_is_refused_at_creation)
{
	struct kvmm_class class[9] = { [0 ... 8] = { .name = "c" } };
	struct kvmm_evict_attr evict = { .size = sizeof(evict), .classes = class,
					 .nr_classes = 8 };

	cr_expect_eq(create(&evict, "lru"), 0);
	cr_expect_eq(create(&evict, NULL), -EINVAL);
	cr_expect_eq(create(&evict, "lru-classic"), -EINVAL);
	evict.nr_classes = 9;
	cr_expect_eq(create(&evict, "lru"), -EINVAL);
	evict.nr_classes = 2;
	evict.default_class = 2;
	cr_expect_eq(create(&evict, "lru"), -EINVAL);
	evict.default_class = 0;
	evict.flags = 2;
	cr_expect_eq(create(&evict, "lru"), -EINVAL);
	evict.flags = 0;
	class[1].quota_permille = 1001;
	cr_expect_eq(create(&evict, "lru"), -EINVAL);
	class[1] = (struct kvmm_class){ .name = NULL };
	cr_expect_eq(create(&evict, "lru"), -EINVAL);
	evict.size = 4;
	cr_expect_eq(create(&evict, "lru"), -EINVAL);
}

Test(class, a_pool_without_classes_pays_nothing_and_says_so)
{
	struct kvmm_evict_attr evict = { .size = sizeof(evict) };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 8,
				       .block_bytes = TEST_BLOCK_BYTES, .policy = "lru",
				       .evict = &evict };
	struct kvmm_class_stat stat;
	struct kvmm_pool *plain __cleanup(end_pool) = make_cache(8, "lru");
	kvmm_ref_t ref = { 0 };
	struct kvmm_pool *pool __cleanup(end_pool) = make_pool_of(&attr);

	cr_expect_eq(stat_of(pool).metadata_bytes, stat_of(plain).metadata_bytes);
	cr_expect_eq(kvmm_class_set(pool, &ref, 1, 0), -EOPNOTSUPP);
	cr_expect_eq(kvmm_demote(pool, &ref, 1, 0), -EOPNOTSUPP);
	cr_expect_eq(kvmm_demote_owner(pool, 1, 0), -EOPNOTSUPP);
	cr_expect_eq(kvmm_class_get_stat(pool, 0, &stat), -EOPNOTSUPP);
	cr_expect_eq(kvmm_class_events(pool, NULL, 0, NULL), -EOPNOTSUPP);
}

/* ---- invariants ---- */

static void expect_noticed(struct kvmm_pool *pool, const char *what)
{
	cr_expect_eq(kvmm_validate(pool), -EUCLEAN, "%s", what);
	pool->gate = 0;
}

POOL_TEST(class, a_flipped_bit_is_noticed, make_classed(8, "lru", NULL, 0))
{
	struct classes *classes;
	kvmm_ref_t ref;

	ref = fill(pool, 'a', MID);
	cr_assert_eq(kvmm_set_owner(pool, &ref, 1, 3), 0);
	classes = pool->order.classes;
	for (u32 bit = 0; bit < 8; bit++) {
		if (BIT(bit) == CLASS_SET)
			continue;	/* has no second copy */
		classes->mark[ref.index] ^= BIT(bit);
		expect_noticed(pool, "mark");
		classes->mark[ref.index] ^= BIT(bit);
	}
	classes->class[LOW].nr++;
	expect_noticed(pool, "count");
	classes->class[LOW].nr--;
	classes->owner[ref.index] = 0;
	expect_noticed(pool, "owner");
	classes->owner[ref.index] = 3;
	classes->owned[ref.index].next++;
	expect_noticed(pool, "list");
	classes->owned[ref.index].next--;
	classes->priority[ref.index + 1] = 1;
	expect_noticed(pool, "priority");
	classes->priority[ref.index + 1] = 0;
	drop(pool, ref);
}

/* ---- what a policy is told ahead ---- */

static u32 nr_expected;

static void count_expected(const void *policy, const u32 *blocks, const kvmm_key_t *keys, u32 nr)
{
	nr_expected += nr;
}

/* Without classes the call that fills all of them asks for what they lead to. */
POOL_TEST(class, the_policy_hears_of_blocks_before_they_are_filled,
	  make_classed(64, "default", NULL, 0))
{
	static struct kv_evict_ops ops;		/* outlives the test */
	kvmm_ref_t ref[16];

	ops = *pool->order.ops;
	ops.expect_fill = count_expected;
	pool->order.ops = &ops;
	nr_expected = 0;
	register_keys(pool, 0, 16, ref);
	cr_assert_eq(kvmm_validate(pool), 0);
	cr_expect_eq(nr_expected, 16);
	cr_expect_eq(kvmm_put_many(pool, ref, 16), 0);
}
