// SPDX-License-Identifier: Apache-2.0
/*
 * The map of blocks: what runs say, how blocks become runs, that nothing is waited for, and, after random
 * calls, that each block is what kvmm_block_get_info() says it is.
 */
#include "pool/internal.h"
#include "tests/pool/class_util.h"
#include "tests/pool/life_util.h"
#include "tests/pool/lease_util.h"
#include "tests/pool/util.h"
#include "tests/support/fault.h"
#include "tests/support/random.h"

#define TICK	(1ull << 20)

static struct kvmm_pool *pool;

static void set_up(void)
{
	fault_begin();
	fake.now_ns = 1000 * TICK;
	pool = make_cache(16, "lru");
}

static void tear_down(void)
{
	if (pool)
		end_pool(pool);
	fault_end();
}

TestSuite(map, .init = set_up, .fini = tear_down);

/* All runs, as "4 free, 2 range": in one call, or in calls for @max runs each. */
static const char *runs_of(struct kvmm_pool *of, u32 how, u32 max)
{
	static char text[4096];
	struct kvmm_map_run runs[64];
	u32 at = 0, next = 0;
	size_t len = 0;
	int nr;

	text[0] = '\0';
	while ((nr = kvmm_map_read(of, &at, how, runs, max)) > 0) {
		for (int i = 0; i < nr; i++) {
			cr_assert_eq(runs[i].first, next);
			next += runs[i].nr;
			len += snprintf(text + len, sizeof(text) - len, "%s%u %s%s", len ? ", " : "",
					runs[i].nr, kvmm_map_state_name(runs[i].state),
					runs[i].flags & KVMM_MAP_PINNED ? "!" : "");
		}
		cr_assert_eq(at, next);
	}
	cr_assert_eq(nr, 0);
	cr_assert_eq(next, kv_pool_nr_blocks(of));
	return text;
}

/* The run that has @block. */
static struct kvmm_map_run run_at(u32 how, u32 block)
{
	struct kvmm_map_run run;
	u32 at = block;

	cr_assert_eq(kvmm_map_read(pool, &at, how, &run, 1), 1);
	return run;
}

#define expect_runs(text)	cr_expect_str_eq(runs_of(pool, 0, 64), text)

/* ---- what runs say ---- */

Test(map, blocks_of_one_range_are_a_run)
{
	kvmm_range_t a = take_seq(pool, 3, 0, 7), b = take_seq(pool, 2, 0, 7);
	struct kvmm_map_run run;

	expect_runs("3 range, 2 range, 11 free");
	cr_assert_eq(kvmm_range_get(pool, a), 0);
	fake_env_advance(&fake, 50);
	run = run_at(0, 0);
	cr_expect(run.index == a.index && run.gen == a.gen && run.seq == 7 && run.refs == 2);
	cr_expect_eq(run.age_ns, 50);
	cr_assert_eq(kvmm_range_pin(pool, b), 0);
	expect_runs("3 range, 2 range!, 11 free");
	cr_expect_eq(run_at(0, 4).pins, 1);
	cr_assert_eq(kvmm_range_unpin(pool, b), 0);
	cr_assert_eq(kvmm_range_free(pool, b), 0);
	expect_runs("3 range, 13 free");
}

Test(map, whatever_keeps_a_block_where_it_is_is_said)
{
	kvmm_range_t fixed = take_seq(pool, 3, KVMM_ALLOC_PINNED, 1), lost = take_seq(pool, 1, 0, 2);
	kvmm_ref_t refs[3];

	register_keys(pool, 1, 3, refs);
	expect_runs("3 range!, 1 range, 3 active, 9 free");
	cr_expect_eq(run_at(0, 0).pins, 0);
	cr_assert_eq(kvmm_pin_many(pool, refs, 2), 0);
	expect_runs("3 range!, 1 range, 2 active!, 1 active, 9 free");
	cr_assert_eq(kvmm_pin_many(pool, refs, 1), 0);
	expect_runs("3 range!, 1 range, 1 active!, 1 active!, 1 active, 9 free");
	cr_expect_eq(run_at(0, 4).pins, 2);
	cr_expect_str_eq(runs_of(pool, KVMM_MAP_COARSE, 64), "3 range!, 1 range, 2 active!, 1 active, 9 free");
	cr_assert_eq(kvmm_unpin_many(pool, refs, 1), 0);
	cr_assert_eq(kvmm_unpin_many(pool, refs, 2), 0);
	slot_peek(pool, lost.index)->lost = 1;
	cr_expect_eq(run_at(0, 3).flags, KVMM_MAP_LOST);
	slot_peek(pool, lost.index)->lost = 0;
	cr_expect_eq(run_at(0, 0).index, fixed.index);
	kvmm_put_many(pool, refs, 3);
}

Test(map, what_is_odd_about_a_named_block_is_said)
{
	kvmm_ref_t first, second;
	struct kvmm_map_run run;
	u32 blocks[2];

	register_keys(pool, 1, 1, &first);
	register_keys(pool, 1, 1, &second);
	blocks[0] = kvmm_block_of_ref(pool, first);
	blocks[1] = kvmm_block_of_ref(pool, second);
	cr_expect_eq(run_at(0, blocks[0]).flags & KVMM_MAP_DUP, 0);
	cr_expect_eq(run_at(0, blocks[1]).flags & KVMM_MAP_DUP, KVMM_MAP_DUP);
	cr_assert_eq(kvmm_put(pool, second), 0);
	cr_assert_eq(kvmm_evict_blocks(pool, blocks, 1), 1);
	cr_expect_eq(run_at(0, blocks[0]).flags & KVMM_MAP_HIDDEN, KVMM_MAP_HIDDEN);
	cr_assert_eq(kvmm_put(pool, first), 0);
	/* While it is on its way, as compaction marks it. */
	register_keys(pool, 5, 1, &first);
	blocks[0] = kvmm_block_of_ref(pool, first);
	entry_at(pool, first.index)->word |= KV_ENTRY_MOVING;
	pool->owner[blocks[0]] |= OWNER_IS_SRC;
	cr_expect_eq(run_at(0, blocks[0]).flags & KVMM_MAP_IN_FLIGHT, KVMM_MAP_IN_FLIGHT);
	run = run_at(KVMM_MAP_EACH, blocks[0]);
	cr_expect_eq(number_of(&run.key), 5);
	entry_at(pool, first.index)->word &= ~(u64)KV_ENTRY_MOVING;
	pool->owner[blocks[0]] &= ~OWNER_IS_SRC;
	cr_assert_eq(kvmm_put(pool, first), 0);
}

/* An entry that was the parent's may be somebody else's by now. */
Test(map, a_parent_that_is_not_the_parent_any_more_is_not_said)
{
	struct kvmm_prefix prefix = prefix_of(keys_from(5, 2), 2);
	kvmm_staged_t staged[2];
	kvmm_ref_t refs[3];
	kvmm_mut_t muts[2];
	struct kvmm_publish_args req = { .staged = staged, .nr = 2, .refs = refs };
	struct kv_entry *above;
	u64 word;

	make_private(pool, 2, muts);
	cr_assert_eq(kvmm_stage(pool, &prefix, muts, staged), 0);
	cr_assert_eq(kvmm_publish(pool, &req), 0);
	above = entry_at(pool, refs[0].index);
	cr_assert(run_at(KVMM_MAP_EACH, 1).flags & KVMM_MAP_HAS_PARENT);
	above->domain++;
	cr_expect_eq(run_at(KVMM_MAP_EACH, 1).flags & KVMM_MAP_HAS_PARENT, 0, "another tenant's");
	above->domain--;
	above->position = 7;
	cr_expect_eq(run_at(KVMM_MAP_EACH, 1).flags & KVMM_MAP_HAS_PARENT, 0, "from elsewhere");
	above->position = 0;
	word = above->word;
	above->word = kv_word_with_state(word, KV_ENTRY_STAGED);
	cr_expect_eq(run_at(KVMM_MAP_EACH, 1).flags & KVMM_MAP_HAS_PARENT, 0, "of no name yet");
	above->word = word;
	cr_assert(run_at(KVMM_MAP_EACH, 1).flags & KVMM_MAP_HAS_PARENT);
	kvmm_put_many(pool, refs, 2);
}

Test(map, a_block_that_is_taken_anew_has_no_name)
{
	kvmm_mut_t muts[16];

	cache_keys(pool, 1, 16);
	make_private(pool, 16, muts);
	for (u32 i = 0; i < 16; i++)
		cr_expect_eq(run_at(0, i).flags, 0);
	cr_expect_str_eq(runs_of(pool, KVMM_MAP_EACH, 3), "1 private, 1 private, 1 private, 1 private, "
			 "1 private, 1 private, 1 private, 1 private, 1 private, 1 private, 1 private, "
			 "1 private, 1 private, 1 private, 1 private, 1 private");
	cr_assert_eq(kvmm_free(pool, muts, 16), 0);
}

Test(map, each_step_in_the_life_of_a_block_is_a_state)
{
	kvmm_mut_t muts[2];
	kvmm_staged_t staged[2];
	kvmm_ref_t refs[2];

	make_private(pool, 2, muts);
	expect_runs("2 private, 14 free");
	stage_keys(pool, muts, 2, 1, staged);
	expect_runs("2 staged, 14 free");
	cr_assert_eq(kvmm_unstage(pool, staged, 2, muts), 0);
	expect_runs("2 private, 14 free");
	cr_assert_eq(kvmm_register(pool, muts, keys_from(1, 2), 2, refs), 0);
	expect_runs("2 active, 14 free");
	kvmm_put_many(pool, &refs[1], 1);
	expect_runs("1 active, 1 cached, 14 free");
	kvmm_put_many(pool, &refs[0], 1);
	expect_runs("2 cached, 14 free");
}

/* In a pool of that size a thread keeps some for itself. */
Test(map, what_a_thread_keeps_is_aside_and_free)
{
	struct kvmm_pool *big __cleanup(end_pool) = make_cache(1024, "lru");
	struct kvmm_block_info info;
	struct kvmm_map_run run;
	kvmm_mut_t mut;
	u32 at = 0;

	make_private(big, 1, &mut);
	cr_assert_eq(kvmm_free(big, &mut, 1), 0);
	cr_assert_eq(kvmm_map_read(big, &at, 0, &run, 1), 1);
	cr_expect_eq(run.state, KVMM_MAP_ASIDE);
	cr_expect_gt(run.nr, 1);
	cr_assert_eq(kvmm_block_get_info(big, 0, &info), 0);
	cr_expect_eq(info.state, KVMM_BLOCK_FREE);
}

Test(map, states_are_those_of_blocks_more_finely)
{
	for (u32 i = 0; i < KVMM_NR_MAP_STATES; i++)
		cr_expect_lt(kvmm_map_block_state(i), KVMM_NR_BLOCK_STATES + 1);
	cr_expect_eq(kvmm_map_block_state(KVMM_MAP_ASIDE), KVMM_BLOCK_FREE);
	cr_expect_eq(kvmm_map_block_state(KVMM_MAP_CLAIMED), KVMM_BLOCK_PRIVATE);
	cr_expect_str_eq(kvmm_map_state_name(KVMM_NR_MAP_STATES), "?");
}

Test(map, a_named_block_says_its_name_and_its_parents)
{
	kvmm_ref_t refs[3];
	struct kvmm_map_run run;

	register_keys(pool, 5, 3, refs);
	run = run_at(KVMM_MAP_EACH, 1);
	cr_expect_eq(run.nr, 1);
	cr_expect_eq(run.flags, KVMM_MAP_HAS_KEY | KVMM_MAP_HAS_PARENT);
	cr_expect_eq(number_of(&run.key), 6);
	cr_expect_eq(run.refs, 1);
	cr_expect(run.index == refs[1].index && run.gen == refs[1].gen);
	kvmm_put_many(pool, refs, 3);
	cr_expect_eq(run_at(0, 0).nr, 3);
}

Test(map, a_prompt_says_where_each_block_stands)
{
	struct kvmm_prefix prefix = prefix_of(keys_from(5, 3), 3);
	kvmm_staged_t staged[3];
	kvmm_ref_t refs[3];
	kvmm_mut_t muts[3];
	struct kvmm_publish_args req = { .staged = staged, .nr = 3, .refs = refs };
	struct kvmm_map_run run;

	make_private(pool, 3, muts);
	cr_assert_eq(kvmm_stage(pool, &prefix, muts, staged), 0);
	run = run_at(KVMM_MAP_EACH, 1);
	cr_expect_eq(run.position, 1);
	cr_assert_eq(kvmm_publish(pool, &req), 0);
	run = run_at(KVMM_MAP_EACH, 2);
	cr_expect_eq(run.position, 2);
	cr_assert(run.flags & KVMM_MAP_HAS_PARENT);
	cr_expect_eq(number_of(&run.parent), 6);
	cr_expect_eq(run_at(KVMM_MAP_EACH, 0).flags & KVMM_MAP_HAS_PARENT, 0);
	kvmm_put_many(pool, refs, 3);
}

Test(map, the_owner_that_was_named_is_told)
{
	kvmm_mut_t muts[2];

	take_owned(pool, 3, 'a', 7, 50, RECLAIM);
	alloc_owned(pool, muts, 2, 9, 0, 0);
	cr_expect_eq(run_at(0, 1).owner, 7);
	cr_expect_eq(run_at(0, 1).deadline_ns, 1000 * TICK + 50);
	cr_expect_eq(run_at(0, 3).owner, 9);
	cr_expect_eq(run_at(0, 6).owner, 0);
	alloc_owned(pool, &muts[1], 1, 8, 0, 0);
	expect_runs("3 range, 2 private, 1 private, 10 free");
	cr_expect_eq(kvmm_lease_release(pool, 9, NULL), 2);
	cr_expect_eq(run_at(0, 3).owner, 0);
	cr_expect_eq(kvmm_lease_release(pool, 7, NULL), 1);
	take_seq(pool, 3, 0, 'b');
	cr_expect_eq(run_at(0, 0).seq, 'b');
	cr_expect_eq(run_at(0, 0).owner, 0, "the one before had one");
}

/* Who frees does not tell: the record of his stays until somebody comes by. */
Test(map, the_owner_of_what_was_freed_is_not_the_next_one_s)
{
	kvmm_range_t range = take_owned(pool, 3, 'a', 7, 50, 0), next;
	kvmm_mut_t mut, again;

	alloc_owned(pool, &mut, 1, 9, 0, 0);
	cr_expect_eq(run_at(0, 0).owner, 7);
	cr_expect_eq(run_at(0, 3).owner, 9);
	cr_assert_eq(kvmm_range_free(pool, range), 0);
	cr_assert_eq(kvmm_free(pool, &mut, 1), 0);
	next = take_seq(pool, 3, 0, 'b');
	make_private(pool, 1, &again);
	cr_assert_eq(next.index, range.index);
	cr_assert_eq(again.index, mut.index);
	cr_expect_eq(run_at(0, 0).owner, 0);
	cr_expect_eq(run_at(0, 0).deadline_ns, 0);
	cr_expect_eq(run_at(0, 3).owner, 0);
	cr_assert_eq(kvmm_free(pool, &again, 1), 0);
}

/* The age of a run is that of what was left alone longest. */
Test(map, age_counts_from_the_last_touch)
{
	kvmm_ref_t ref;

	cache_keys(pool, 1, 1);
	fake_env_advance(&fake, 10 * TICK);
	cache_keys(pool, 2, 1);
	fake_env_advance(&fake, 5 * TICK);
	cr_expect_eq(run_at(0, 0).nr, 2);
	cr_expect_eq(run_at(0, 0).age_ns, 15 * TICK);
	cr_expect_eq(run_at(0, 1).age_ns, 5 * TICK);
	cr_expect_eq(run_at(0, 2).age_ns, 0);
	cr_assert_eq(kvmm_match(pool, keys_from(1, 1), 1, &ref), 1);
	cr_assert_eq(kvmm_put(pool, ref), 0);
	cr_expect_eq(run_at(0, 0).age_ns, 5 * TICK, "now the second is the older one");
}

Test(map, blocks_of_different_classes_are_different_runs)
{
	static const u32 quota[3] = { 0, 0, 0 };
	struct kvmm_pool *classed __cleanup(end_pool) = make_classed(8, "lru", quota, 0);
	struct kvmm_map_run runs[4];
	kvmm_ref_t refs[3];
	u32 at = 0;

	for (u32 i = 0; i < 3; i++)
		refs[i] = fill(classed, 'a' + i, i ? MID : LOW);
	cr_assert_eq(kvmm_map_read(classed, &at, 0, runs, 4), 3);
	cr_expect(runs[0].nr == 1 && runs[0].cls == LOW);
	cr_expect(runs[1].nr == 2 && runs[1].cls == MID);
	cr_expect_eq(runs[1].flags & KVMM_MAP_HAS_CLASS, KVMM_MAP_HAS_CLASS);
	cr_expect_eq(runs[2].flags & KVMM_MAP_HAS_CLASS, 0);
	for (u32 i = 0; i < 3; i++)
		drop(classed, refs[i]);
}

Test(map, the_owner_of_a_named_block_is_who_has_it_alone)
{
	struct kvmm_pool *classed __cleanup(end_pool) = make_classed(8, "lru", NULL, 0);
	struct kvmm_map_run runs[4];
	kvmm_ref_t refs[3];
	u32 at = 0;

	for (u32 i = 0; i < 3; i++)
		refs[i] = fill(classed, 'a' + i, LOW);
	cr_assert_eq(kvmm_set_owner(classed, refs, 2, 7), 0);
	cr_assert_eq(kvmm_set_owner(classed, refs + 1, 1, 8), 0);
	cr_assert_eq(kvmm_map_read(classed, &at, 0, runs, 4), 3);
	cr_expect(runs[0].nr == 1 && runs[0].owner == 7);
	cr_expect(runs[1].nr == 2 && runs[1].owner == 0, "%llu", (unsigned long long)runs[1].owner);
	for (u32 i = 0; i < 3; i++)
		drop(classed, refs[i]);
}

Test(map, blocks_of_different_tenants_are_different_runs)
{
	kvmm_ref_t refs[2];
	kvmm_mut_t muts[2];

	for (u32 i = 0; i < 2; i++) {
		struct kvmm_prefix prefix = prefix_of(keys_from(1, 1), 1);

		prefix.domain.tenant = i;
		cr_assert_eq(kvmm_alloc_for(pool, 1, i, &muts[i]), 0);
		cr_assert_eq(kvmm_prefix_register(pool, &prefix, &muts[i], &refs[i]), 0);
	}
	expect_runs("1 active, 1 active, 14 free");
	kvmm_put_many(pool, refs, 2);
}

/* ---- how blocks become runs ---- */

Test(map, runs_are_as_coarse_as_asked_for)
{
	kvmm_ref_t refs[4], again[2];

	take_seq(pool, 2, 0, 1);
	take_seq(pool, 2, 0, 2);
	register_keys(pool, 1, 4, refs);
	cr_assert_eq(kvmm_match(pool, keys_from(1, 2), 2, again), 2);
	cr_expect_str_eq(runs_of(pool, 0, 64), "2 range, 2 range, 2 active, 2 active, 8 free");
	cr_expect_str_eq(runs_of(pool, KVMM_MAP_COARSE, 64), "4 range, 4 active, 8 free");
	cr_expect_str_eq(runs_of(pool, KVMM_MAP_EACH, 64),
			 "2 range, 2 range, 1 active, 1 active, 1 active, 1 active, 8 free");
}

Test(map, a_walk_in_small_steps_sees_the_same)
{
	char whole[256];

	take_seq(pool, 3, 0, 1);
	cache_keys(pool, 1, 4);
	strcpy(whole, runs_of(pool, 0, 64));
	for (u32 max = 1; max < 8; max++)
		cr_expect_str_eq(runs_of(pool, 0, max), whole);
}

/* More than one read section, and more than one portion. */
Test(map, a_long_run_is_one_run_up_to_a_portion)
{
	struct kvmm_pool *big __cleanup(end_pool) = make_pool(KVMM_MAP_PORTION + 5000);

	cr_expect_str_eq(runs_of(big, 0, 64), "1048576 free, 5000 free");
}

Test(map, the_null_block_is_one_of_its_own)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 4,
				       .flags = KVMM_POOL_NULL_BLOCK };
	struct kvmm_pool *other __cleanup(end_pool) = make_pool_of(&attr);

	cr_expect_str_eq(runs_of(other, 0, 64), "1 null, 3 free");
}

/* ---- what it does not do ---- */

Test(map, no_lock_is_taken_and_nothing_allocated)
{
	u64 nr = fake.nr_allocs;

	take_seq(pool, 3, 0, 1);
	nr = fake.nr_allocs;
	kv_lock(&pool->compact_lock);
	kv_lock(&pool->lock);
	pool->gate |= GATE_STOPPED;
	expect_runs("3 range, 13 free");
	pool->gate &= ~GATE_STOPPED;
	kv_unlock(&pool->lock);
	kv_unlock(&pool->compact_lock);
	cr_expect_eq(fake.nr_allocs, nr);
}

Test(map, bad_arguments_are_refused)
{
	struct kvmm_map_run run;
	u32 at = 0;

	cr_expect_eq(kvmm_map_read(NULL, &at, 0, &run, 1), -EINVAL);
	cr_expect_eq(kvmm_map_read(pool, NULL, 0, &run, 1), -EINVAL);
	cr_expect_eq(kvmm_map_read(pool, &at, 0, NULL, 1), -EINVAL);
	cr_expect_eq(kvmm_map_read(pool, &at, 0, &run, 0), -EINVAL);
	cr_expect_eq(kvmm_map_read(pool, &at, 0, &run, 1u << 31), -EINVAL);
	cr_expect_eq(kvmm_map_read(pool, &at, 4, &run, 1), -EINVAL);
	cr_expect_eq(kvmm_map_read(pool, &at, KVMM_MAP_EACH | KVMM_MAP_COARSE, &run, 1), -EINVAL);
	cr_expect_eq(at, 0);
	at = 17;
	cr_expect_eq(kvmm_map_read(pool, &at, 0, &run, 1), 0);
	at = UINT32_MAX;
	cr_expect_eq(kvmm_map_read(pool, &at, 0, &run, 1), 0);
	cr_expect_eq(kv_pool_nr_blocks(NULL), 0);
	cr_expect_null(kv_pool_registry(NULL));
	cr_expect_null(kv_pool_registry(pool));
}

/* ---- against a recount ---- */

#define NR_RANDOM	96u

static void expect_same_block(const struct kvmm_map_run *run, u32 block)
{
	struct kvmm_block_info info;

	cr_assert_eq(kvmm_block_get_info(pool, block, &info), 0);
	cr_assert_eq(kvmm_map_block_state(run->state), info.state, "block %u: %s", block,
		     kvmm_map_state_name(run->state));
	cr_assert_eq(run->seq, info.seq);
	if (info.state == KVMM_BLOCK_RANGE || info.state == KVMM_BLOCK_ACTIVE)
		cr_assert(run->refs == info.refs && run->pins == info.pins);
	if (info.state == KVMM_BLOCK_RANGE)
		cr_assert(run->index == info.range.index && run->gen == info.range.gen);
}

static void expect_recount(u32 how)
{
	u32 at = 0, nr_state[KVMM_NR_BLOCK_STATES + 1] = { 0 };
	struct kvmm_pool_stat stat = stat_of(pool);
	struct kvmm_map_run run;

	while (kvmm_map_read(pool, &at, how, &run, 1) > 0) {
		for (u32 i = 0; i < run.nr; i++)
			if (how != KVMM_MAP_COARSE)
				expect_same_block(&run, run.first + i);
		nr_state[kvmm_map_block_state(run.state)] += run.nr;
	}
	for (u32 i = 0; i < KVMM_NR_BLOCK_STATES; i++)
		cr_assert_eq(nr_state[i], stat.nr_state[i], "state %u: %u, not %u", i, nr_state[i],
			     stat.nr_state[i]);
}

struct random_state {
	kvmm_range_t range[8];
	kvmm_mut_t mut[8];
	kvmm_ref_t ref[8];
	u32 next_key;
};

static void random_range(kvmm_range_t *range)
{
	if (range->gen) {
		kvmm_range_free(pool, *range);
		*range = (kvmm_range_t){ 0, 0 };
	} else {
		struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 1 + any(9),
						.seq = any(3), .owner = any(3) };

		kvmm_range_alloc_attr(pool, &attr, range);
	}
}

static void random_block(kvmm_mut_t *mut, kvmm_ref_t *ref, u32 *next_key)
{
	if (ref->gen) {
		kvmm_put_many(pool, ref, 1);
		*ref = (kvmm_ref_t){ 0, 0 };
	} else if (!mut->gen) {
		kvmm_alloc(pool, 1, mut);
	} else if (any(2)) {
		kvmm_free(pool, mut, 1);
		*mut = (kvmm_mut_t){ 0, 0 };
	} else if (!kvmm_register(pool, mut, keys_from((*next_key)++, 1), 1, ref)) {
		*mut = (kvmm_mut_t){ 0, 0 };
	}
}

static void random_call(struct random_state *state)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = 20 };
	u32 i = any(8);

	switch (any(16)) {
	case 0:
		kvmm_pool_compact(pool, &goal);
		break;
	case 1:
		if (state->range[i].gen)
			kvmm_range_grow(pool, state->range[i], 1 + any(4));
		break;
	case 2 ... 7:
		random_range(&state->range[i]);
		break;
	default:
		random_block(&state->mut[i], &state->ref[i], &state->next_key);
	}
}

Test(map, after_random_calls_it_equals_a_recount)
{
	struct random_state state = { .next_key = 1 };

	end_pool(pool);
	pool = make_cache(NR_RANDOM, "lru");
	any_state = getenv("KVMM_SEED") ? strtoull(getenv("KVMM_SEED"), NULL, 0) : 0x5eed0a9;
	printf("seed %#llx\n", (unsigned long long)any_state);
	for (u32 i = 0; i < 3000; i++) {
		random_call(&state);
		expect_recount(i % 3 == 0 ? 0 : i % 3 == 1 ? KVMM_MAP_EACH : KVMM_MAP_COARSE);
	}
}
