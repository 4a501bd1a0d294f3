// SPDX-License-Identifier: Apache-2.0
/* Runs by losing blocks, shorter lists, gathered sequences: pictures, and all that could have been done. */
#include "tests/defrag/goal_util.h"
#include "tests/support/test.h"

/* ---- a run ---- */

static void expect_run(const char *cells, u32 want, u64 drop_ns, int err, const char *after)
{
	struct goal_case c;

	goal_init(&c, cells, KV_GOAL_RUN, want, drop_ns);
	cr_expect_eq(goal_run(&c), err, "%s", cells);
	cr_expect_str_eq(c.after, after);
}

Test(run, loses_what_is_cheaper_to_lose)
{
	expect_run("..AA..Q..BB", 5, 9, 0, "..AA.....BB");
	expect_run("..AA..Q..BB", 5, 11, 0, "Q.AA.....BB");
}

Test(run, loses_what_has_no_place)
{
	expect_run("aQ.Rb", 3, 50, 0, "a...b");
	expect_run("aQ.Rb", 3, 0, -ENOSPC, "aQ.Rb");
}

TEST_CALL(run, that_is_there_is_no_reason_to_lose_anything,
	  expect_run("Q...R", 3, 1, -EALREADY, "Q...R"))

/*
 * Eighty single blocks between two walls, and as many holes of one block beyond: the planner of runs does
 * not look at windows of so many items.
 */
Test(run, may_take_a_window_of_many_items)
{
	struct kv_item items[3 * 80];
	struct kv_move moves[80];
	struct kv_plan_req req = { .items = items, .want = 81, .apart = true };
	struct kv_plan plan = { .moves = moves, .max_moves = 80 };
	void *scratch;

	memset(items, 0, sizeof(items));
	for (u32 i = 0; i < 80; i++)
		items[i] = (struct kv_item){ .start = i + (i > 40), .nr = 1, .movable = true };
	for (u32 i = 80; i < 161; i++)
		items[i] = (struct kv_item){ .start = 81 + 2 * (i - 80), .nr = 1 };
	req.nr_items = 161;
	req.nr_blocks = items[160].start + 1;
	scratch = malloc(kv_goal_scratch(&kv_planner_window, &req));
	cr_expect_eq(kv_goal_plan(&kv_planner_window, &req, &plan, scratch), 0);
	cr_expect_eq(plan.nr_moves, 80);
	cr_expect_eq(plan.gap.nr, 81);
	free(scratch);
}

/* The least price of a run that is made by clearing a window, or ~0. */
static u64 brute_force_run(const struct goal_case *c, const char *cells, u32 want)
{
	bool area[PICTURE_MAX];
	u64 best = ~0ull;

	for (u32 lo = 0; lo + want <= c->req.nr_blocks; lo++) {
		for (u32 b = 0; b < c->req.nr_blocks; b++)
			area[b] = b >= lo && b < lo + want;
		best = min(best, goal_least(c, cells, area));
	}
	return best;
}

/* Windows are cleared where readers go on; who stays in one is not looked for here. */
Test(run, costs_hardly_more_than_the_least)
{
	u32 rng = picture_seed(5), nr = 0, nr_found = 0;
	u64 sum = 0, least_sum = 0;

	for (u32 i = 0; i < 4000; i++) {
		char cells[PICTURE_MAX + 1];
		struct goal_case c;
		u32 want = 3 + rand_r(&rng) % 5;
		u64 least;
		int err;

		picture_random(cells, 18 + rand_r(&rng) % 8, 4, 2, 10, &rng);
		goal_init(&c, cells, KV_GOAL_RUN, want, 5 + rand_r(&rng) % 3 * 5);
		least = brute_force_run(&c, cells, want);
		err = goal_run(&c);
		cr_assert_eq(err == -EALREADY, !least, "%s", cells);
		if (!least || least == ~0ull)
			continue;
		nr++;
		if (err)
			continue;
		nr_found++;
		cr_assert(picture_longest(c.after) >= want, "%s -> %s", cells, c.after);
		cr_assert(c.plan.cost_ns >= least, "%s: cheaper than can be", cells);
		sum += c.plan.cost_ns;
		least_sum += least;
	}
	printf("%u of %u found, cost %.4f of the least\n", nr_found, nr, (double)sum / least_sum);
	cr_expect_geq(nr_found * 1000ull, nr * 990ull);
	cr_expect_leq(sum * 1000, least_sum * 1050);
}

/* ---- fewer descriptors ---- */

static void expect_owner(u32 goal, const char *cells, const char *letters, int err,
			 const char *after)
{
	struct goal_case c;

	goal_init(&c, cells, goal, 0, 0);
	goal_owner(&c, 3, letters);
	c.req.owner = 3;
	cr_expect_eq(goal_run(&c), err, "%s", cells);
	cr_expect_str_eq(c.after, after);
	cr_expect_eq(c.plan.saved, goal_nr_pieces(&c, false) - goal_nr_pieces(&c, true));
}

TEST_CALL(shorten, a_part_goes_behind_the_one_before_it,
	  expect_owner(KV_GOAL_SHORTEN, "AAA..xBB.", "AB", 0, "AAABBx..."))
TEST_CALL(shorten, a_part_goes_before_the_one_behind_it,
	  expect_owner(KV_GOAL_SHORTEN, "Axx..BBBBx", "AB", 0, ".xx.ABBBBx"))
TEST_CALL(shorten, several_go_to_one_hole,
	  expect_owner(KV_GOAL_SHORTEN, "AxBxCx...", "ABC", 0, ".x.x.xABC"))

Test(shorten, a_part_that_fills_the_hole_between_saves_two)
{
	struct goal_case c;

	goal_init(&c, "AA.CCxB", KV_GOAL_SHORTEN, 0, 0);
	goal_owner(&c, 1, "ABC");
	cr_expect_eq(goal_run(&c), 0);
	cr_expect_str_eq(c.after, "AABCCx.");
	cr_expect_eq(c.plan.saved, 2);
}

Test(shorten, the_cheapest_descriptor_goes_first)
{
	struct goal_case c;

	/* B behind A costs three blocks, D behind C one. */
	goal_init(&c, "A...xBBBxC.xD", KV_GOAL_SHORTEN, 1, 0);
	goal_owner(&c, 1, "AB");
	goal_owner(&c, 2, "CD");
	cr_expect_eq(goal_run(&c), 0);
	cr_expect_str_eq(c.after, "A...xBBBxCDx.");
}

Test(shorten, what_is_pinned_stays_and_may_be_joined)
{
	expect_owner(KV_GOAL_SHORTEN, "a.xB", "aB", 0, "aBx.");
	expect_owner(KV_GOAL_SHORTEN, "axb..", "ab", -EALREADY, "axb..");
}

Test(shorten, keeps_to_the_budget)
{
	struct goal_case c;

	goal_init(&c, "AAA..xBB.", KV_GOAL_SHORTEN, 0, 0);
	goal_owner(&c, 1, "AB");
	c.req.max_blocks = 1;
	cr_expect_eq(goal_run(&c), -ENOSPC);
	cr_expect_str_eq(c.after, "AAA..xBB.");
}

/* The fewest descriptors, whatever moves where: readers go on, so into holes of the picture. */
struct best_list {
	struct goal_case *c;
	const char *cells;
	u32 place[PICTURE_MAX];
	char used[PICTURE_MAX + 1];
	u32 fewest;
};

static u32 nr_pieces_placed(const struct best_list *b)
{
	const struct kv_item *items = b->c->items;
	u32 nr = 0;

	for (u32 i = 0; i < b->c->req.nr_items; i++) {
		bool goes_on = false;

		for (u32 k = 0; k < b->c->req.nr_items; k++)
			goes_on |= items[k].owner == items[i].owner &&
				   items[k].part == items[i].part + 1 &&
				   b->place[k] == b->place[i] + items[i].nr;
		nr += items[i].owner && !goes_on;
	}
	return nr;
}

static void try_places(struct best_list *b, u32 i)
{
	const struct kv_item *item = &b->c->items[i];

	if (i == b->c->req.nr_items) {
		b->fewest = min(b->fewest, nr_pieces_placed(b));
		return;
	}
	b->place[i] = item->start;
	try_places(b, i + 1);
	for (u32 dst = 0; item->movable && item->owner && dst + item->nr <= b->c->req.nr_blocks;
	     dst++) {
		bool fits = true;

		for (u32 k = 0; k < item->nr; k++)
			fits &= b->used[dst + k] == '.';
		if (!fits)
			continue;
		memset(b->used + dst, '#', item->nr);
		b->place[i] = dst;
		try_places(b, i + 1);
		memset(b->used + dst, '.', item->nr);
	}
}

static u32 fewest_pieces(struct goal_case *c, const char *cells)
{
	struct best_list b = { .c = c, .cells = cells, .fewest = ~0u };

	strcpy(b.used, cells);
	try_places(&b, 0);
	return b.fewest;
}

/* Up to five parts of two owners in any order. */
static void random_owners(struct goal_case *c, const char *cells, u32 *rng)
{
	char letters[2][PICTURE_MAX] = { "", "" };

	for (u32 i = 0; i < c->req.nr_items && i < 5; i++) {
		char *list = letters[rand_r(rng) % 2], letter = cells[c->items[i].start];
		u32 len = strlen(list), at = rand_r(rng) % (len + 1);

		memmove(list + at + 1, list + at, len - at + 1);
		list[at] = letter;
	}
	goal_owner(c, 1, letters[0]);
	goal_owner(c, 2, letters[1]);
}

Test(shorten, saves_nearly_all_that_can_be_saved)
{
	u32 rng = picture_seed(5), could = 0, did = 0;

	for (u32 i = 0; i < 1500; i++) {
		char cells[PICTURE_MAX + 1];
		struct goal_case c;
		u32 before;

		picture_random(cells, 10 + rand_r(&rng) % 5, 3, 0, 10, &rng);
		goal_init(&c, cells, KV_GOAL_SHORTEN, 0, 0);
		random_owners(&c, cells, &rng);
		before = goal_nr_pieces(&c, false);
		could += before - fewest_pieces(&c, cells);
		goal_run(&c);
		cr_assert_eq(c.plan.saved, before - goal_nr_pieces(&c, true), "%s -> %s", cells,
			     c.after);
		did += c.plan.saved;
	}
	printf("%u of %u descriptors saved\n", did, could);
	cr_expect_leq(did, could);
	cr_expect_geq(did * 100, could * 85);
}

/* ---- one run ---- */

TEST_CALL(gather, goes_about_the_longest_part_where_there_is_room,
	  expect_owner(KV_GOAL_GATHER, "Ax.BBB.xC", "ABC", 0, ".xABBBCx."))
TEST_CALL(gather, goes_to_the_shortest_hole_that_takes_all,
	  expect_owner(KV_GOAL_GATHER, "AxBBx....x...", "AB", 0, ".x..x....xABB"))
TEST_CALL(gather, keeps_the_order_of_the_parts,
	  expect_owner(KV_GOAL_GATHER, "BxAx..", "AB", 0, ".x.xAB"))
TEST_CALL(gather, that_is_done_is_done,
	  expect_owner(KV_GOAL_GATHER, ".ABx", "AB", -EALREADY, ".ABx"))

Test(gather, goes_about_what_is_pinned_or_not_at_all)
{
	expect_owner(KV_GOAL_GATHER, "Bxa.x..", "aB", 0, ".xaBx..");
	expect_owner(KV_GOAL_GATHER, "Bxax...", "aB", -ENOSPC, "Bxax...");
}

Test(gather, makes_room_first_where_there_is_none)
{
	expect_owner(KV_GOAL_GATHER, "AABBx.C..x..", "AB", -EALREADY, "AABBx.C..x..");
	expect_owner(KV_GOAL_GATHER, "BBAAx.C..x.", "AB", -EAGAIN, "BBAAx....xC");
}
