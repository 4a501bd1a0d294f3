// SPDX-License-Identifier: Apache-2.0
/* Goals of a pool: what is planned, begun, lost, left alone. Blocks that are dark show as '.'. */
#include "tests/pool/util.h"

#define BYTES	TEST_BLOCK_BYTES

static struct kvmm_compact_goal goal_for(u32 goal, u32 want)
{
	struct kvmm_compact_goal ask = { .size = sizeof(ask), .goal = goal, .want = want,
					 .mode = KVMM_MOVE_BETWEEN, .pageblock_blocks = 4 };

	return ask;
}

/* Carried out, and landed. */
static int reach(struct kvmm_pool *pool, const struct kvmm_compact_goal *ask,
		 struct kvmm_compact_plan *plan)
{
	int err;

	*plan = (struct kvmm_compact_plan)KVMM_COMPACT_PLAN_INIT;
	err = kvmm_compact_goal_start(pool, ask, plan);
	cr_assert_eq(kvmm_validate(pool), 0);
	cr_assert_eq(kvmm_compact_poll(pool), 0);
	cr_assert_eq(kvmm_validate(pool), 0);
	return err;
}

static int only_plan(struct kvmm_pool *pool, const struct kvmm_compact_goal *ask,
		     struct kvmm_compact_plan *plan)
{
	*plan = (struct kvmm_compact_plan)KVMM_COMPACT_PLAN_INIT;
	return kvmm_compact_get_plan(pool, ask, plan);
}

static kvmm_range_t range[26];

static struct kvmm_pool *painted(const char *want)
{
	struct kvmm_pool *pool = make_pool(strlen(want));

	paint(pool, want, range);
	for (u32 i = 0; i < 26; i++)
		if (range[i].gen)
			write_pattern(pool, range[i], i);
	return pool;
}

static void end_painted(struct kvmm_pool *pool)
{
	for (u32 i = 0; i < 26; i++)
		if (range[i].gen)
			cr_expect(has_pattern(pool, range[i], i), "%c", 'a' + i);
	end_pool(pool);
}

/* A test with a @pool of these ranges, whose content ends up as it was. */
#define PAINTED_TEST(name, want) \
	TEST_WITH(struct kvmm_pool *pool, painted(want), end_painted, goal, name)

/* ---- the same again ---- */

#define MAX_MOVES	64u

struct outcome {
	struct kvmm_compact_plan plan;
	struct kvmm_relocation moves[MAX_MOVES];
	u32 drops[MAX_MOVES];
	int err;
};

/* Ranges of @seed, and cached blocks that nobody references between them. */
static struct kvmm_pool *random_pool(u32 seed, kvmm_range_t *kept)
{
	struct kvmm_pool *pool = make_cache(96, "lrfu");
	kvmm_range_t hole;
	u32 nr = 0;

	for (u32 i = 0; i < 16; i++) {
		seed = seed * 1103515245 + 12345;
		cache_keys(pool, i, 1);
		hole = take(pool, 1 + (seed >> 16) % 3, KVMM_RUNS(4));
		*kept = take(pool, 1 + (seed >> 20) % 3, KVMM_RUNS(4));
		cr_assert_eq(kvmm_range_seal(pool, *kept, 1), 0);
		if (seed >> 24 & 1 || nr++ > 6)
			cr_assert_eq(kvmm_range_free(pool, hole), 0);
	}
	cr_assert_eq(kvmm_range_grow(pool, *kept, 4), 0);
	return pool;
}

static void plan_it(struct kvmm_pool *pool, const struct kvmm_compact_goal *ask, bool go,
		    struct outcome *out)
{
	memset(out, 0, sizeof(*out));
	out->plan = (struct kvmm_compact_plan)KVMM_COMPACT_PLAN_INIT;
	out->plan.moves = out->moves;
	out->plan.drops = out->drops;
	out->plan.max_moves = out->plan.max_drops = MAX_MOVES;
	out->err = go ? kvmm_compact_goal_start(pool, ask, &out->plan) :
			kvmm_compact_get_plan(pool, ask, &out->plan);
	out->plan.plan_ns = 0;		/* all but that, and but where the lists are */
	out->plan.moves = NULL;
	out->plan.drops = NULL;
}

static void expect_same(const struct outcome *a, const struct outcome *b, u32 seed, u32 goal)
{
	cr_expect_eq(memcmp(a, b, sizeof(*a)), 0, "seed %u, goal %u: %d and %d, %u and %u moves", seed,
		     goal, a->err, b->err, a->plan.nr_moves, b->plan.nr_moves);
}

static u32 nr_alike;

/* Planned twice, then carried out, in two pools that were called alike. */
static void expect_alike(u32 seed, struct kvmm_compact_goal ask)
{
	struct kvmm_digest_info info[2] = { { .size = sizeof(info[0]) }, { .size = sizeof(info[1]) } };
	struct outcome first, again, done[2];

	for (u32 i = 0; i < 2; i++) {
		struct kvmm_pool *pool __cleanup(end_pool) = random_pool(seed, &ask.range);

		plan_it(pool, &ask, false, &first);
		plan_it(pool, &ask, false, &again);
		plan_it(pool, &ask, true, &done[i]);
		expect_same(&first, &again, seed, ask.goal);
		expect_same(&first, &done[i], seed, ask.goal);
		cr_expect_eq(kvmm_compact_poll(pool), 0);
		cr_expect_eq(kvmm_pool_digest(pool, &info[i]), 0);
	}
	expect_same(&done[0], &done[1], seed, ask.goal);
	cr_expect_eq(memcmp(&info[0], &info[1], sizeof(info[0])), 0, "seed %u, goal %u", seed, ask.goal);
	nr_alike += done[0].plan.nr_moves > 0;
}

Test(goal, equal_pictures_have_equal_plans_and_end_alike)
{
	for (u32 seed = 1; seed <= 12; seed++)
		for (u32 goal = 0; goal < KVMM_NR_GOALS; goal++)
			for (u32 flags = 0; flags < 8; flags++) {
				struct kvmm_compact_goal ask = goal_for(goal, 2 + seed);

				ask.flags = flags;
				ask.want = goal == KVMM_GOAL_RUN ? 20 + 2 * seed : ask.want;
				expect_alike(seed, ask);
			}
	cr_expect_gt(nr_alike, 60, "%u plans moved something", nr_alike);
}

/* ---- each goal ---- */

PAINTED_TEST(a_run_is_made, "aa..bb..cc..dd..")
{
	struct kvmm_compact_goal ask = goal_for(KVMM_GOAL_RUN, 6);
	struct kvmm_compact_plan plan;

	cr_expect_eq(reach(pool, &ask, &plan), 0);
	cr_expect_eq(plan.nr_moves, 1);
	cr_expect_eq(plan.moved_bytes, 2 * BYTES);
	cr_expect_geq(plan.run.nr, 6);
	cr_expect_geq(stat_of(pool).largest, 6);
}

/* For two blocks there is a run of six, and none of eight. */
PAINTED_TEST(where_a_run_is_out_of_reach_the_longest_one_is_made_if_that_will_do,
	     "aa..bbb..ccc..dd..")
{
	struct kvmm_compact_goal ask = goal_for(KVMM_GOAL_RUN, 8);
	struct kvmm_compact_plan plan, same;

	ask.max_blocks = 2;
	cr_expect_eq(reach(pool, &ask, &plan), -ENOSPC);
	ask.flags = KVMM_GOAL_BEST;
	cr_expect_eq(only_plan(pool, &ask, &same), 0);
	cr_expect_eq(reach(pool, &ask, &plan), 0);
	cr_expect(plan.is_partial);
	cr_expect_eq(plan.run.start, same.run.start);
	cr_expect_eq(plan.run.nr, same.run.nr);
	cr_expect_eq(plan.moved_blocks, 2);
	cr_expect_eq(plan.run.nr, 6);
	cr_expect_eq(stat_of(pool).largest, 6);
	cr_expect_eq(plan.after.largest, 6);
	cr_expect_eq(reach(pool, &ask, &plan), -ENOSPC, "nothing is longer");
}

/* Two blocks are free beside what is promised, and all that could move is four. */
PAINTED_TEST(promises_make_plans_smaller, "aa..b.aacc..d.cc")
{
	struct kvmm_compact_goal ask = goal_for(KVMM_GOAL_SHORTEN, 0);
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = 4 };
	struct kvmm_compact_plan plan;
	kvmm_promise_t promise;

	cr_assert_eq(kvmm_promise_make(pool, &ctl, &promise), 0);
	cr_expect_eq(reach(pool, &ask, &plan), 0);
	cr_expect_eq(plan.saved_extents, 1);
	cr_expect_eq(plan.moved_blocks, 2);
	cr_assert_eq(kvmm_promise_end(pool, promise), 4);
}

PAINTED_TEST(pageblocks_are_emptied, "a...bb..ccc.dddd")
{
	struct kvmm_compact_goal ask = goal_for(KVMM_GOAL_PAGEBLOCKS, 1);
	struct kvmm_extent empty[1];
	struct kvmm_compact_plan plan = { .size = sizeof(plan), .empty = empty, .max_empty = 1 };

	cr_expect_eq(kvmm_compact_goal_start(pool, &ask, &plan), 0);
	cr_expect_eq(plan.nr_empty, 1);
	cr_expect_eq(empty[0].start, 0);
	cr_expect_eq(empty[0].nr, 4);
	cr_expect_eq(kvmm_compact_poll(pool), 0);
	cr_expect_str_eq(picture(pool), "....bb..cccadddd");
}

PAINTED_TEST(lists_get_shorter, "aab.aacc.cc.........")
{
	struct kvmm_compact_goal ask = goal_for(KVMM_GOAL_SHORTEN, 0);
	struct kvmm_compact_plan plan;

	cr_expect_eq(reach(pool, &ask, &plan), 0);
	cr_expect_eq(plan.saved_extents, 2);
	cr_expect_eq(plan.before.extents, 5);
	cr_expect_eq(plan.after.extents, 3);
	cr_expect_eq(kvmm_range_extents(pool, range[0], NULL, 0), 1);
	cr_expect_eq(kvmm_range_extents(pool, range[2], NULL, 0), 1);
}

PAINTED_TEST(a_range_is_gathered, "abacad......")
{
	struct kvmm_compact_goal ask = goal_for(KVMM_GOAL_GATHER, 0);
	struct kvmm_compact_plan plan;

	ask.range = range[0];
	cr_expect_eq(reach(pool, &ask, &plan), 0);
	cr_expect_str_eq(picture(pool), ".b.c.daaa...");
	cr_expect_eq(plan.saved_extents, 2);
}

POOL_TEST(goal, a_sequence_is_gathered_oldest_range_first, make_pool(12))
{
	kvmm_range_t old = take_seq(pool, 2, 0, 'a' + 1), young, other[2];
	struct kvmm_compact_goal ask = goal_for(KVMM_GOAL_GATHER, 0);
	struct kvmm_extent ext[2];
	struct kvmm_compact_plan plan;

	other[0] = take(pool, 1, 0);
	young = take_seq(pool, 2, 0, 'a' + 1);
	other[1] = take(pool, 1, 0);
	write_pattern(pool, old, 1);
	write_pattern(pool, young, 2);
	ask.seq = 'a' + 1;
	cr_expect_eq(reach(pool, &ask, &plan), 0);
	cr_expect_eq(kvmm_range_extents(pool, old, &ext[0], 1), 1);
	cr_expect_eq(kvmm_range_extents(pool, young, &ext[1], 1), 1);
	cr_expect_eq(ext[0].start + ext[0].nr, ext[1].start);
	cr_expect(has_pattern(pool, old, 1) && has_pattern(pool, young, 2));
	cr_expect_eq(reach(pool, &ask, &plan), 0);
	cr_expect_eq(plan.nr_moves, 0);
	ask.seq = 77;
	cr_expect_eq(reach(pool, &ask, &plan), -ESTALE);
	for (u32 i = 0; i < 2; i++)
		kvmm_range_free(pool, other[i]);
}

/* ---- what it would be ---- */

PAINTED_TEST(a_plan_changes_nothing_and_says_what_there_would_be, "aa..bb..cc..dd..")
{
	struct kvmm_compact_goal ask = goal_for(KVMM_GOAL_RUN, 6);
	struct kvmm_relocation moves[1];
	struct kvmm_compact_plan plan = { .size = sizeof(plan), .moves = moves, .max_moves = 1 };

	cr_expect_eq(kvmm_compact_get_plan(pool, &ask, &plan), 0);
	cr_expect_str_eq(picture(pool), "aa..bb..cc..dd..");
	cr_expect_eq(plan.nr_moves, 1);
	cr_expect_eq(moves[0].nr, 2);
	cr_expect_eq(plan.before.largest, 2);
	cr_expect_geq(plan.after.largest, 6);
	cr_expect_eq(plan.before.unusable_ppm, 1000000);
	cr_expect_lt(plan.after.unusable_ppm, 1000000);
	cr_expect_gt(plan.copy_ns, 0);
}

PAINTED_TEST(what_is_there_is_no_reason_to_move_anything, "aa......")
{
	struct kvmm_compact_goal ask = goal_for(KVMM_GOAL_RUN, 6);
	struct kvmm_compact_plan plan;

	cr_expect_eq(reach(pool, &ask, &plan), 0);
	cr_expect_eq(plan.nr_moves, 0);
	cr_expect_eq(plan.before.largest, 6);
	ask = goal_for(KVMM_GOAL_PAGEBLOCKS, 1);
	cr_expect_eq(reach(pool, &ask, &plan), 0);
	cr_expect_eq(plan.nr_empty, 1);
}

PAINTED_TEST(who_stays_is_told, "aa..bb..")
{
	struct kvmm_compact_goal ask = goal_for(KVMM_GOAL_RUN, 4);
	struct kvmm_compact_plan plan;
	struct kvmm_stay stay;

	cr_assert_eq(kvmm_range_pin(pool, range[1]), 0);
	cr_assert_eq(kvmm_range_pin(pool, range[0]), 0);
	cr_expect_eq(only_plan(pool, &ask, &plan), -ENOSPC);
	cr_expect_eq(kvmm_stay_last(pool, &stay), 0);
	cr_expect_eq(stay.blocks[KVMM_STAY_PIN_USER], 4);
	kvmm_range_unpin(pool, range[1]);
	kvmm_range_unpin(pool, range[0]);
}

/* ---- budgets ---- */

PAINTED_TEST(budgets_are_kept, "a...bb..ccc.dddd")
{
	struct kvmm_compact_goal ask = goal_for(KVMM_GOAL_PAGEBLOCKS, 1);
	struct kvmm_compact_plan plan;

	ask.max_bytes = BYTES - 1;
	cr_expect_eq(only_plan(pool, &ask, &plan), -ENOSPC);
	ask.max_bytes = BYTES;
	cr_expect_eq(only_plan(pool, &ask, &plan), 0);
	ask = goal_for(KVMM_GOAL_RUN, 6);
	ask.max_blocks = 1;
	cr_expect_eq(only_plan(pool, &ask, &plan), -ENOSPC);
}

/* A pool of ids: nothing is measured, and a block is said to take two microseconds. */
Test(goal, time_is_a_budget)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 20 };
	struct kvmm_compact_goal ask = goal_for(KVMM_GOAL_PAGEBLOCKS, 3);
	struct kvmm_compact_plan plan;
	kvmm_range_t range[26] = { 0 };
	struct kvmm_pool *pool __cleanup(end_pool) = make_pool_of(&attr);

	paint(pool, "a...b...cc..dd..eee.", range);
	cr_expect_eq(only_plan(pool, &ask, &plan), 0);
	cr_expect_eq(plan.copy_ns, plan.moved_blocks * 2000ull);
	ask.max_us = 5;
	cr_expect_eq(only_plan(pool, &ask, &plan), 0);
	cr_expect(plan.is_partial);
	cr_expect_leq(plan.copy_ns, 5000);
	cr_expect_gt(plan.nr_empty, 0);
	ask.max_bytes = 1;
	cr_expect_eq(only_plan(pool, &ask, &plan), -EOPNOTSUPP);
}

/* ---- losing ---- */

/* Blocks of keys 0 .. 7, of which every second one is freed again: "I.I.I.I." and free ones. */
static struct kvmm_pool *cached(u64 drop_ns)
{
	struct kvmm_alloc_attr alloc = { .size = sizeof(alloc), .costs = { .copy_block_ns = 100,
									   .drop_block_ns = drop_ns } };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 16, .block_bytes = BYTES,
				       .policy = "lru", .alloc = &alloc,
				       .flags = KVMM_POOL_NO_MAGAZINES };
	kvmm_range_t hole[8];
	struct kvmm_pool *pool = make_pool_of(&attr);

	for (u32 i = 0; i < 8; i++) {
		cache_keys(pool, i, 1);
		hole[i] = take(pool, 1, 0);
	}
	for (u32 i = 0; i < 8; i++)
		cr_assert_eq(kvmm_range_free(pool, hole[i]), 0);
	return pool;
}

POOL_TEST(goal, cached_blocks_are_lost_where_that_is_cheaper, cached(10))
{
	struct kvmm_compact_goal ask = goal_for(KVMM_GOAL_PAGEBLOCKS, 2);
	struct kvmm_compact_plan plan;
	struct kvmm_pool_stat before = stat_of(pool);

	cr_expect_eq(reach(pool, &ask, &plan), 0);
	cr_expect_eq(plan.nr_drops, 0, "nobody said that blocks may be lost");
	ask.flags = KVMM_GOAL_DROP;
	ask.want = 3;
	cr_expect_eq(reach(pool, &ask, &plan), 0);
	cr_expect_eq(plan.nr_moves, 0);
	cr_expect_gt(plan.nr_drops, 0);
	cr_expect_eq(stat_of(pool).evictions, before.evictions + plan.nr_drops);
	cr_expect_eq(stat_of(pool).nr_free, before.nr_free + plan.nr_drops);
}

POOL_TEST(goal, cached_blocks_are_moved_where_that_is_cheaper, cached(1000))
{
	struct kvmm_compact_goal ask = goal_for(KVMM_GOAL_PAGEBLOCKS, 2);
	struct kvmm_compact_plan plan;
	u64 evictions = stat_of(pool).evictions;

	ask.flags = KVMM_GOAL_DROP;
	cr_expect_eq(reach(pool, &ask, &plan), 0);
	cr_expect_eq(plan.nr_drops, 0);
	cr_expect_gt(plan.nr_moves, 0);
	cr_expect_eq(stat_of(pool).evictions, evictions);
}

POOL_TEST(goal, where_there_is_no_place_they_are_lost, cached(1000))
{
	struct kvmm_compact_goal ask = goal_for(KVMM_GOAL_PAGEBLOCKS, 3);
	struct kvmm_compact_plan plan;

	cr_expect_eq(reach(pool, &ask, &plan), 0);
	cr_expect(plan.is_partial);
	cr_expect_eq(plan.nr_empty, 2);
	ask.flags = KVMM_GOAL_DROP;
	cr_expect_eq(reach(pool, &ask, &plan), 0);
	cr_expect_eq(plan.nr_empty, 3);
	cr_expect_gt(plan.nr_drops, 0);
}

/* ---- calm ---- */

PAINTED_TEST(what_has_moved_is_left_alone_for_a_while, "a...bbb.ccc.pppp")
{
	struct kvmm_compact_goal ask = goal_for(KVMM_GOAL_PAGEBLOCKS, 1);
	struct kvmm_compact_plan plan;
	struct kvmm_stay stay;
	u32 nr;

	ask.flags = KVMM_GOAL_CALM;
	cr_expect_eq(reach(pool, &ask, &plan), 0);
	cr_expect_eq(plan.nr_moves, 1);
	/* That is reached from now on, but each plan counts. */
	for (nr = 0; nr < 2 * KVMM_CALM_PLANS; nr++) {
		cr_expect_eq(reach(pool, &ask, &plan), 0);
		cr_expect_eq(plan.nr_moves, 0);
		kvmm_stay_last(pool, &stay);
		if (!stay.blocks[KVMM_STAY_RECENT])
			break;
		cr_expect_eq(stay.blocks[KVMM_STAY_RECENT], 1);
	}
	cr_expect_eq(nr, KVMM_CALM_PLANS - 1);
}

static struct kvmm_compact_goal calm;

/* The first pageblock cannot be emptied: no hole has three blocks. Each plan counts. */
static struct kvmm_pool *tried_in_vain(void)
{
	struct kvmm_pool *pool = painted("aaabqqqp.p.p.p.p");
	struct kvmm_compact_plan plan;

	calm = goal_for(KVMM_GOAL_PAGEBLOCKS, 1);
	calm.flags = KVMM_GOAL_CALM;
	cr_assert_eq(kvmm_range_pin(pool, range['p' - 'a']), 0);
	reach(pool, &calm, &plan);
	cr_assert_eq(plan.nr_moves, 0);
	cr_assert_eq(kvmm_range_free(pool, range['q' - 'a']), 0);
	range['q' - 'a'] = (kvmm_range_t){ 0 };
	return pool;
}

#define VAIN_TEST(name) \
	TEST_WITH(struct kvmm_pool *pool, tried_in_vain(), end_painted, goal, name)

VAIN_TEST(a_pageblock_that_could_not_be_emptied_is_left_alone_for_a_while)
{
	struct kvmm_compact_plan plan;
	u32 nr = 0;

	do {
		reach(pool, &calm, &plan);
	} while (!plan.nr_moves && ++nr < 2 * KVMM_CALM_PLANS);
	cr_expect_eq(nr, KVMM_CALM_PLANS - 1);
	cr_expect_eq(plan.nr_empty, 1);
	cr_expect_str_eq(picture(pool), "....aaapbp.p.p.p");
}

VAIN_TEST(it_is_tried_again_at_once_when_less_is_held_there)
{
	struct kvmm_compact_plan plan;

	cr_assert_eq(kvmm_range_free(pool, range['b' - 'a']), 0);
	range['b' - 'a'] = (kvmm_range_t){ 0 };
	cr_expect_eq(reach(pool, &calm, &plan), 0);
	cr_expect_eq(plan.nr_moves, 1);
	cr_expect_str_eq(picture(pool), "....aaap.p.p.p.p");
}

VAIN_TEST(it_is_tried_again_at_once_when_it_is_urgent)
{
	struct kvmm_compact_plan plan;

	calm.flags = 0;
	cr_expect_eq(reach(pool, &calm, &plan), 0);
	cr_expect_eq(plan.nr_moves, 2);
}

/* ---- growth ---- */

POOL_TEST(goal, reservations_are_given_up_only_where_something_goes, make_pool(32))
{
	kvmm_range_t grows = take(pool, 2, KVMM_ALLOC_GROWS), hole[2], last;
	struct kvmm_compact_goal ask = goal_for(KVMM_GOAL_RUN, 2);
	struct kvmm_compact_plan plan;
	struct kvmm_growth_stat before = { .size = sizeof(before) }, after = { .size = sizeof(after) };

	cr_assert_eq(kvmm_range_grow(pool, grows, 1), 0);
	cr_assert_eq(kvmm_range_grow(pool, grows, 1), 0);
	hole[0] = take(pool, 2, 0);
	last = take(pool, 2, 0);
	hole[1] = take(pool, 2, 0);
	take(pool, 8, 0);
	cr_assert_eq(kvmm_range_free(pool, hole[0]), 0);
	cr_assert_eq(kvmm_range_free(pool, hole[1]), 0);
	cr_assert_eq(kvmm_growth_get_stat(pool, &before), 0);
	cr_assert_gt(before.nr_reserved, 0);
	cr_expect_eq(reach(pool, &ask, &plan), 0);
	kvmm_growth_get_stat(pool, &after);
	cr_expect_eq(after.nr_reserved, before.nr_reserved);
	ask.want = 18;	/* of 20 that are free, most of them reserved */
	cr_expect_eq(reach(pool, &ask, &plan), 0);
	cr_expect_eq(plan.nr_moves, 1);
	cr_expect_geq(stat_of(pool).largest, 18);
	kvmm_range_free(pool, last);
}

/* ---- in vain ---- */

PAINTED_TEST(an_allocation_does_not_look_again_for_what_was_not_there, "aa..bb..cc..dd..")
{
	kvmm_range_t got;
	struct kvmm_alloc_stat stat;

	for (u32 i = 0; i < 4; i++)
		cr_assert_eq(kvmm_range_pin(pool, range[i]), 0);
	for (u32 i = 0; i < 3; i++) {
		cr_expect_eq(kvmm_range_alloc(pool, 4, KVMM_RUNS(1), &got), -ENOSPC);
		cr_expect_eq(kvmm_range_alloc(pool, 5, KVMM_RUNS(1), &got), -ENOSPC);
		cr_assert_eq(kvmm_alloc_get_stat(pool, &stat), 0);
		cr_expect_eq(stat.skipped[KVMM_STEP_COMPACT], 2 * i + 1);
	}
	for (u32 i = 0; i < 4; i++)
		cr_assert_eq(kvmm_range_unpin(pool, range[i]), 0);
	cr_expect_eq(kvmm_range_alloc(pool, 4, KVMM_RUNS(1), &got), 0);
}

/* ---- misuse ---- */

POOL_TEST(goal, misuse_is_refused, make_pool(8))
{
	struct kvmm_compact_goal ask = goal_for(KVMM_NR_GOALS, 1);
	struct kvmm_compact_plan plan;

	cr_expect_eq(only_plan(pool, &ask, &plan), -EINVAL);
	ask = goal_for(KVMM_GOAL_RUN, 0);
	cr_expect_eq(only_plan(pool, &ask, &plan), -EINVAL);
	ask = goal_for(KVMM_GOAL_RUN, 9);
	cr_expect_eq(only_plan(pool, &ask, &plan), -EINVAL);
	ask = goal_for(KVMM_GOAL_PAGEBLOCKS, 3);
	cr_expect_eq(only_plan(pool, &ask, &plan), -EINVAL);
	ask.want = 1;
	ask.pageblock_blocks = 3;
	cr_expect_eq(only_plan(pool, &ask, &plan), -EINVAL);
	ask = goal_for(KVMM_GOAL_GATHER, 0);
	cr_expect_eq(only_plan(pool, &ask, &plan), -EINVAL);
	ask = goal_for(KVMM_GOAL_RUN, 2);
	ask.flags = KVMM_GOAL_PLAN << 1;
	cr_expect_eq(only_plan(pool, &ask, &plan), -EINVAL);
	ask = goal_for(KVMM_GOAL_RUN, 2);
	ask.mode = KVMM_NR_MOVE_MODES;
	cr_expect_eq(only_plan(pool, &ask, &plan), -EINVAL);
	cr_expect_eq(kvmm_compact_get_plan(pool, NULL, &plan), -EINVAL);
	cr_expect_eq(kvmm_compact_get_plan(pool, &ask, NULL), -EINVAL);
	cr_expect_str_eq(kvmm_goal_name(KVMM_GOAL_SHORTEN), "shorten");
	cr_expect_str_eq(kvmm_goal_name(KVMM_NR_GOALS), "?");
}
