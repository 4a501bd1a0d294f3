// SPDX-License-Identifier: Apache-2.0
/* Planners against pictures and against brute force. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/defrag/picture.h"

struct case_t {
	struct kv_item items[PICTURE_MAX];
	struct kv_move moves[PICTURE_MAX];
	struct kv_plan_req req;
	struct kv_plan plan;
};

static int plan(const struct kv_planner_ops *planner, struct case_t *c, const char *cells,
		u32 want)
{
	void *scratch;
	int err;

	c->req = (struct kv_plan_req){ .nr_blocks = strlen(cells), .items = c->items,
				       .want = want };
	c->req.nr_items = picture_items(cells, c->items, PICTURE_MAX);
	c->plan = (struct kv_plan){ .moves = c->moves, .max_moves = PICTURE_MAX };
	scratch = calloc(1, planner->scratch_bytes(c->req.nr_items) + 1);
	err = planner->plan(&c->req, &c->plan, scratch);
	free(scratch);
	return err;
}

static u32 longest_gap(const char *cells)
{
	u32 b, run = 0, longest = 0;

	for (b = 0; cells[b]; b++) {
		run = cells[b] == '.' ? run + 1 : 0;
		if (run > longest)
			longest = run;
	}
	return longest;
}

static u32 count(const char *cells, char letter)
{
	u32 nr = 0;

	for (; *cells; cells++)
		nr += *cells == letter;
	return nr;
}

/* Letters A.. with random lengths and gaps; every tenth cannot move. */
static void random_cells(char *cells, u32 nr, u32 *rng, bool pinned)
{
	u32 b = 0, letter = 0;

	memset(cells, '.', nr);
	cells[nr] = '\0';
	while (b < nr && letter < 26) {
		u32 gap = rand_r((unsigned int *)rng) % 4, len = 1 + rand_r((unsigned int *)rng) % 5;
		char c = (pinned && rand_r((unsigned int *)rng) % 10 == 0 ? 'a' : 'A') + letter++;

		for (b += gap; len && b < nr; len--)
			cells[b++] = c;
	}
}

/* Cheapest slide by trying every pair of holes. */
static u32 brute_force_slide(const struct kv_plan_req *req, u32 want)
{
	u32 i, j, best = ~0u;

	for (i = 0; i <= req->nr_items; i++) {
		u32 free = 0, cost = 0;

		for (j = i; j <= req->nr_items; j++) {
			u32 lo = j ? req->items[j - 1].start + req->items[j - 1].nr : 0;
			u32 hi = j < req->nr_items ? req->items[j].start : req->nr_blocks;

			free += hi - lo;
			if (free >= want && cost < best)
				best = cost;
			if (j == req->nr_items || !req->items[j].movable)
				break;
			cost += req->items[j].nr;
		}
	}
	return best;
}

/* Moves go to free places, one after the other; letters survive; pinned ones stay. */
static void expect_executable(const struct case_t *c, char *cells)
{
	char before[PICTURE_MAX + 1];
	u32 i, b;

	strcpy(before, cells);
	for (i = 0; i < c->plan.nr_moves; i++) {
		const struct kv_move *m = &c->plan.moves[i];
		struct kv_plan one = { .moves = (struct kv_move *)m, .nr_moves = 1 };

		cr_assert(m->dst + m->nr <= c->req.nr_blocks && m->nr);
		for (b = m->dst; b < m->dst + m->nr; b++)
			cr_assert(cells[b] == '.' || (b >= m->src && b < m->src + m->nr),
				  "move %u of %s overwrites block %u", i, before, b);
		picture_apply(cells, &one);
	}
	for (b = 0; before[b]; b++) {
		cr_assert_eq(count(before, before[b]), count(cells, before[b]));
		if (before[b] >= 'a' && before[b] <= 'z')
			cr_assert_eq(cells[b], before[b], "%c was pinned", before[b]);
	}
}

static void expect_plan_is_good(const struct kv_planner_ops *planner, char *cells, u32 want)
{
	struct case_t c;
	u32 cost, gap;
	int err = plan(planner, &c, cells, want);

	cost = brute_force_slide(&c.req, want);
	if (longest_gap(cells) >= want) {
		cr_assert_eq(err, -EALREADY, "%s has %u", cells, want);
		return;
	}
	if (err) {
		cr_assert_eq(err, -ENOSPC);
		cr_assert_eq(cost, ~0u, "%s: %u could be made by sliding", cells, want);
		return;
	}
	cr_assert(c.plan.nr_blocks <= cost, "%s: %u moved, a slide needs %u", cells,
		  c.plan.nr_blocks, cost);
	if (planner == &kv_planner_slide)
		cr_assert_eq(c.plan.nr_blocks, cost);
	gap = c.plan.gap.start;
	expect_executable(&c, cells);
	cr_assert(c.plan.gap.nr >= want);
	for (; gap < c.plan.gap.start + c.plan.gap.nr; gap++)
		cr_assert_eq(cells[gap], '.', "the promised gap is not free in %s", cells);
}

static void expect_good_on_random_pictures(const struct kv_planner_ops *planner)
{
	const char *env = getenv("KVMM_SEED");
	u32 rng = env ? strtoul(env, NULL, 0) : 7, round;
	char cells[PICTURE_MAX + 1];

	printf("seed %u\n", rng);
	for (round = 0; round < 20000; round++) {
		random_cells(cells, 16 + round % 80, &rng, round & 1);
		expect_plan_is_good(planner, cells, 1 + round % 13);
	}
}

Test(slide, is_the_cheapest_of_all_slides)
{
	expect_good_on_random_pictures(&kv_planner_slide);
}

Test(slide, takes_the_lowest_of_equal_slides)
{
	struct case_t c;

	cr_assert_eq(plan(&kv_planner_slide, &c, ".A..B..C.", 3), 0);
	cr_expect_eq(c.plan.moves[0].src, 1);
	cr_expect_eq(c.plan.moves[0].dst, 0);
	cr_expect_eq(c.plan.gap.start, 1);
	cr_expect_eq(c.plan.gap.nr, 3);
}
