// SPDX-License-Identifier: Apache-2.0
/* Pageblocks of four blocks are emptied: pictures, and all that could have been done instead. */
#include "tests/defrag/goal_util.h"
#include "tests/support/test.h"

static void expect_empties(const char *cells, u32 want, u64 drop_ns, int err, const char *after)
{
	struct goal_case c;

	goal_init(&c, cells, KV_GOAL_PAGEBLOCKS, want, drop_ns);
	cr_expect_eq(goal_run(&c), err, "%s", cells);
	cr_expect_str_eq(c.after, after);
}

TEST_CALL(pageblocks, empties_the_one_with_the_least_in_it,
	  expect_empties("AABBC...EEFF..GG", 1, 0, 0, "AABB....EEFFC.GG"))

Test(pageblocks, that_are_empty_count)
{
	expect_empties("AA......BB..", 1, 0, -EALREADY, "AA......BB..");
	expect_empties("AA......BBB.C...", 2, 0, 0, "AA......BBBC....");
}

Test(pageblocks, an_item_in_several_is_paid_once)
{
	/* A costs six blocks and empties two. */
	expect_empties("AAAAAA..BBBBCCCCp......p", 2, 0, 0, "........BBBBCCCCpAAAAAAp");
}

Test(pageblocks, with_somebody_who_stays_are_left_alone)
{
	expect_empties("a...BBB.....", 2, 0, 0, "aBBB........");
	expect_empties("a...b...", 1, 0, -ENOSPC, "a...b...");
}

Test(pageblocks, what_is_cheaper_to_lose_is_lost)
{
	expect_empties("QR..AAA.BBB.", 1, 9, 0, "....AAA.BBB.");
	expect_empties("QR..AAA.BBB.", 1, 11, 0, "....AAAQBBBR");
}

Test(pageblocks, what_fits_nowhere_is_lost_if_it_may_be)
{
	expect_empties("QR..AAAABBB.", 1, 100, 0, "....AAAABBBQ");
	expect_empties("QR..AAAABBB.", 1, 0, -ENOSPC, "QR..AAAABBB.");
}

TEST_CALL(pageblocks, as_many_as_can_be_if_not_all_that_are_wanted,
	  expect_empties("A..." "BBB." "CCC." "DDD.", 2, 0, -EAGAIN, "....BBBACCC.DDD."))

Test(pageblocks, one_that_cannot_be_placed_makes_room_for_another)
{
	/* AA is the cheapest, but there is no hole of two outside. */
	expect_empties("AA..BCD.e.ffG.hh", 1, 0, 0, "AAD.....eBffGChh");
}

Test(pageblocks, room_is_kept_for_what_must_not_be_lost)
{
	/* E and F are cheaper than G, H and Q, but then there is no place for all of them. */
	expect_empties("A...BC.DE..FGH.QRS.TI", 3, 18, 0, "....BCADEGHF........I");
}

Test(pageblocks, keep_to_the_budget)
{
	struct goal_case c;

	goal_init(&c, "A...BB..CCC.........", KV_GOAL_PAGEBLOCKS, 5, 0);
	c.req.max_blocks = 2;
	cr_expect_eq(goal_run(&c), -EAGAIN);
	cr_expect_leq(c.plan.nr_blocks, 2);
	cr_expect_eq(c.plan.nr_pageblocks, 3);
}

static u32 emptied_with(struct kv_hint hint, u32 round)
{
	struct kv_hint hints[4] = { hint };
	struct goal_case c;

	goal_init(&c, "A...BBB.CC..DDDD", KV_GOAL_PAGEBLOCKS, 1, 0);
	c.req.hints = hints;
	c.req.round = round;
	cr_expect_eq(goal_run(&c), 0);
	return c.pageblocks[0];
}

Test(pageblocks, what_failed_lately_is_left_out_until_something_is_freed_there)
{
	struct kv_hint one = { .held = 1, .until = 5 }, two = { .held = 2, .until = 5 };

	cr_expect_eq(emptied_with(one, 4), 2);
	cr_expect_eq(emptied_with(two, 4), 0);
	cr_expect_eq(emptied_with(one, 5), 0);
}

/* ---- all that could have been done ---- */

/* The least that it costs to have so many empty; ~0: it cannot be. */
static u64 brute_force(const struct goal_case *c, const char *cells, u32 want)
{
	u32 nr = c->req.nr_blocks / 4;
	bool area[PICTURE_MAX] = { false };
	u64 best = ~0ull;

	for (u32 subset = 0; subset < 1u << nr; subset++) {
		if ((u32)__builtin_popcount(subset) != want)
			continue;
		for (u32 b = 0; b < 4 * nr; b++)
			area[b] = subset >> b / 4 & 1;
		best = min(best, goal_least(c, cells, area));
	}
	return best;
}

struct score {
	u32 nr;		/* pictures in which it can be done */
	u32 found;	/* ... and was */
	u64 cost, least;
	u64 worst;	/* percent of the least */
};

static void try_picture(struct score *score, u32 longest, u32 *rng)
{
	char cells[PICTURE_MAX + 1];
	struct goal_case c;
	u32 nr = 20 + rand_r(rng) % 9, want = 1 + rand_r(rng) % 3;
	u64 least, drop_ns = rand_r(rng) % 3 * 9;
	int err;

	picture_random(cells, nr, longest, 3, 12, rng);
	goal_init(&c, cells, KV_GOAL_PAGEBLOCKS, want, drop_ns);
	least = brute_force(&c, cells, want);
	err = goal_run(&c);
	for (u32 i = 0; i < c.plan.nr_pageblocks; i++) {
		cr_assert(!i || c.pageblocks[i] > c.pageblocks[i - 1]);
		for (u32 b = 0; b < 4; b++)
			cr_assert_eq(c.after[4 * c.pageblocks[i] + b], '.', "%s", c.after);
	}
	cr_assert(least != ~0ull || err == -EAGAIN || err == -ENOSPC, "%s: %d", cells, err);
	if (least == ~0ull)
		return;
	score->nr++;
	if (err && err != -EALREADY)
		return;
	cr_assert_eq(c.plan.nr_pageblocks, want);
	cr_assert(c.plan.cost_ns >= least, "%s: cheaper than can be", cells);
	cr_assert((err == -EALREADY) == !least);
	score->found++;
	score->cost += c.plan.cost_ns;
	score->least += least;
	if (least && c.plan.cost_ns * 100 / least > score->worst)
		score->worst = c.plan.cost_ns * 100 / least;
}

static struct score try_pictures(u32 longest)
{
	u32 rng = picture_seed(3);
	struct score score = { 0 };

	for (u32 i = 0; i < 3000; i++)
		try_picture(&score, longest, &rng);
	printf("%u of %u found, cost %.4f of the least, worst %.2f\n", score.found, score.nr,
	       (double)score.cost / score.least, score.worst / 100.);
	return score;
}

/* Single blocks, as cached ones are. */
Test(pageblocks, of_single_blocks_are_emptied_at_the_least_cost)
{
	struct score score = try_pictures(1);

	cr_expect_eq(score.found, score.nr);
	cr_expect_eq(score.cost, score.least);
}

Test(pageblocks, of_runs_are_emptied_at_hardly_more_than_the_least_cost)
{
	struct score score = try_pictures(6);

	cr_expect_geq(score.found * 1000ull, score.nr * 985ull);
	cr_expect_leq(score.cost * 1000, score.least * 1030);
}
