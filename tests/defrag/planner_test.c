// SPDX-License-Identifier: Apache-2.0
/* Planners against pictures and against brute force. */
#include "tests/defrag/picture.h"
#include "tests/support/length.h"
#include "tests/support/test.h"

struct case_t {
	struct kv_item items[PICTURE_MAX];
	struct kv_move moves[PICTURE_MAX];
	struct kv_plan_req req;
	struct kv_plan plan;
};

#define GUARD_BYTES	64

/* Scratch comes with garbage in it and ends where the planner said. */
static int run_planner(const struct kv_planner_ops *planner, const struct kv_plan_req *req,
		       struct kv_plan *plan, u8 garbage)
{
	size_t bytes = planner->scratch_bytes(req->nr_items), i;
	u8 *scratch = malloc(bytes + GUARD_BYTES);
	int err;

	memset(scratch, garbage, bytes);
	memset(scratch + bytes, 0xa5, GUARD_BYTES);
	err = planner->plan(req, plan, scratch);
	for (i = bytes; i < bytes + GUARD_BYTES; i++)
		cr_assert_eq(scratch[i], 0xa5, "byte %zu behind the scratch", i - bytes);
	free(scratch);
	return err;
}

static void case_init(struct case_t *c, const char *cells, u32 want)
{
	c->req = (struct kv_plan_req){ .nr_blocks = strlen(cells), .items = c->items,
				       .want = want };
	c->req.nr_items = picture_items(cells, c->items, PICTURE_MAX);
	c->plan = (struct kv_plan){ .moves = c->moves, .max_moves = PICTURE_MAX };
}

static int plan(const struct kv_planner_ops *planner, struct case_t *c, const char *cells,
		u32 want)
{
	case_init(c, cells, want);
	return run_planner(planner, &c->req, &c->plan, 0xff);
}

static u32 count(const char *cells, char letter)
{
	u32 nr = 0;

	for (; *cells; cells++)
		nr += *cells == letter;
	return nr;
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

/* What a plan may cost more than the cheapest slide. */
static u32 slack(const struct kv_planner_ops *planner, const struct kv_plan_req *req)
{
	u32 i, held = 0;

	if (planner == &kv_planner_slide)
		return 0;
	for (i = 0; i < req->nr_items; i++)
		held += req->items[i].nr;
	return held / req->nr_items * 11 / 16;
}

static void expect_gap_is_free(const struct case_t *c, const char *cells)
{
	const struct kvmm_extent *gap = &c->plan.gap;
	u32 b;

	cr_assert(gap->nr >= c->req.want);
	for (b = gap->start; b < gap->start + gap->nr; b++)
		cr_assert_eq(cells[b], '.', "the promised gap is not free in %s", cells);
}

static void expect_plan_is_good(const struct kv_planner_ops *planner, char *cells, u32 want)
{
	struct case_t c;
	int err = plan(planner, &c, cells, want);
	u32 cost = brute_force_slide(&c.req, want);

	if (picture_longest(cells) >= want) {
		cr_assert_eq(err, -EALREADY, "%s has %u", cells, want);
		return;
	}
	if (err) {
		cr_assert_eq(err, -ENOSPC);
		cr_assert_eq(cost, ~0u, "%s: %u could be made by sliding", cells, want);
		return;
	}
	if (cost != ~0u)
		cr_assert(c.plan.nr_blocks <= cost + slack(planner, &c.req),
			  "%s: %u moved, a slide needs %u", cells, c.plan.nr_blocks, cost);
	if (planner == &kv_planner_slide)
		cr_assert_eq(c.plan.nr_blocks, cost);
	expect_executable(&c, cells);
	expect_gap_is_free(&c, cells);
}

static void expect_good_on_random_pictures(const struct kv_planner_ops *planner)
{
	u32 rng = picture_seed(7), round;
	char cells[PICTURE_MAX + 1];

	for (round = 0; round < test_length(NULL, 20000); round++) {
		picture_random(cells, 16 + round % (PICTURE_MAX - 15), 5, 0, round & 1 ? 10 : 0, &rng);
		expect_plan_is_good(planner, cells, 1 + round % 13);
	}
}

TEST_CALL(slide, is_the_cheapest_of_all_slides, expect_good_on_random_pictures(&kv_planner_slide))
TEST_CALL(window, is_executable_and_never_much_dearer_than_a_slide,
	  expect_good_on_random_pictures(&kv_planner_window))

Test(slide, takes_the_lowest_of_equal_slides)
{
	struct case_t c;

	cr_assert_eq(plan(&kv_planner_slide, &c, ".A..B..C.", 3), 0);
	cr_expect_eq(c.plan.moves[0].src, 1);
	cr_expect_eq(c.plan.moves[0].dst, 0);
	cr_expect_eq(c.plan.gap.start, 1);
	cr_expect_eq(c.plan.gap.nr, 3);
}

Test(slide, refuses_more_moves_than_there_is_room_for)
{
	struct case_t c;

	case_init(&c, ".A..B..C.", 5);
	c.plan.max_moves = 1;
	cr_expect_eq(run_planner(&kv_planner_slide, &c.req, &c.plan, 0), -ENOSPC);
	cr_expect_eq(c.plan.nr_moves, 0);
	c.plan.max_moves = 2;
	cr_expect_eq(run_planner(&kv_planner_slide, &c.req, &c.plan, 0), 0);
	cr_expect_eq(c.plan.nr_moves, 2);
}

static void expect_window_makes(const char *before, u32 want, const char *after)
{
	char cells[PICTURE_MAX + 1];
	struct case_t c;

	strcpy(cells, before);
	cr_assert_eq(plan(&kv_planner_window, &c, cells, want), 0, "%s", before);
	expect_executable(&c, cells);
	cr_expect_str_eq(cells, after);
	expect_gap_is_free(&c, cells);
}

Test(window, evacuates_into_the_shortest_hole_that_fits)
{
	expect_window_makes("..A..BBB..CCC.DDD", 5, ".....BBB..CCCADDD");
	expect_window_makes("...aa..BB..ccc..d", 5, "...aa......cccBBd");
}

Test(window, leaves_the_rest_of_a_hole_beside_the_shorter_neighbour)
{
	expect_window_makes("..A...bbbCCCC..DD", 6, "......bbbCCCCA.DD");
	expect_window_makes("..A...bbbCC..DDDD", 6, "......bbbCC.ADDDD");
}

Test(window, packs_what_fits_nowhere_without_overlap_if_it_can)
{
	expect_window_makes(".AA...b", 4, "....AAb");
	expect_window_makes("...AA.b", 4, "AA....b");
}

TEST_CALL(window, lets_a_shorter_item_step_aside,
	  expect_window_makes("...XXXX...ppp..A.qqq.", 10, "..........pppXXXXqqqA"))

Test(window, clears_what_a_slide_cannot_for_walls)
{
	struct case_t c;

	cr_expect_eq(plan(&kv_planner_slide, &c, "..A.p.q", 4), -ENOSPC);
	expect_window_makes("..A.p.q", 4, "....pAq");
	cr_expect_eq(plan(&kv_planner_window, &c, "..A.p.q", 5), -ENOSPC);
}

Test(window, packs_everything_if_nothing_is_wanted)
{
	char cells[] = ".A.BB.pp..C.D.";
	struct case_t c;

	cr_assert_eq(plan(&kv_planner_window, &c, cells, 0), 0);
	picture_apply(cells, &c.plan);
	cr_expect_str_eq(cells, "DACBB.pp......");
	cr_expect_eq(plan(&kv_planner_window, &c, cells, 0), -EALREADY);
}

Test(window, packs_nothing_where_nothing_is)
{
	struct case_t c;

	cr_expect_eq(plan(&kv_planner_window, &c, "....", 0), -EALREADY);
	cr_expect_eq(c.plan.gap.nr, 4);
	c.req.items = NULL;
	cr_expect_eq(run_planner(&kv_planner_window, &c.req, &c.plan, 0), -EALREADY);
	cr_expect_eq(c.plan.gap.nr, 4);
}

/* What lies between two items that cannot move is one run then. */
static u32 longest_after_sliding(const char *cells)
{
	u32 longest = 0, nr = 0;

	for (; *cells; cells++) {
		nr += *cells == '.';
		if (*cells >= 'a' && *cells <= 'z')
			nr = 0;
		longest = max(longest, nr);
	}
	return longest;
}

Test(window, packing_never_makes_the_longest_run_shorter)
{
	char cells[PICTURE_MAX + 1], before[PICTURE_MAX + 1];
	u32 rng = 12, round, most;

	for (round = 0; round < test_length(NULL, 20000); round++) {
		struct case_t c;

		picture_random(cells, 16 + round % (PICTURE_MAX - 15), 5, 0, 10, &rng);
		strcpy(before, cells);
		case_init(&c, before, 0);
		c.req.max_blocks = round % 2 ? 0 : 1 + round % 31;
		most = c.req.max_blocks ? picture_longest(cells) : longest_after_sliding(cells);
		if (run_planner(&kv_planner_window, &c.req, &c.plan, 0))
			continue;
		expect_executable(&c, cells);
		expect_gap_is_free(&c, cells);
		cr_assert(!c.req.max_blocks || c.plan.nr_blocks <= c.req.max_blocks);
		cr_assert_geq(picture_longest(cells), most, "%s to %s", before, cells);
		cr_assert_eq(c.plan.gap.nr, picture_longest(cells), "%s to %s", before, cells);
	}
}

Test(window, has_an_answer_where_nothing_is_held)
{
	struct case_t c;

	cr_expect_eq(plan(&kv_planner_window, &c, "....", 4), -EALREADY);
	cr_expect_eq(plan(&kv_planner_window, &c, "....", 5), -ENOSPC);
	cr_expect_eq(plan(&kv_planner_window, &c, "aaaa", 1), -ENOSPC);
}

static void expect_limits_hold(const char *cells, u32 want, u32 max_blocks, u32 max_moves)
{
	char after[PICTURE_MAX + 1];
	struct case_t c;
	u32 slide;
	int err;

	strcpy(after, cells);
	case_init(&c, cells, want);
	slide = brute_force_slide(&c.req, want);
	c.req.max_blocks = max_blocks;
	c.plan.max_moves = max_moves;
	err = run_planner(&kv_planner_window, &c.req, &c.plan, 0);
	cr_assert(c.plan.nr_blocks <= max_blocks && c.plan.nr_moves <= max_moves);
	expect_executable(&c, after);
	if (err)
		cr_assert_eq(c.plan.nr_moves, 0);
	else
		expect_gap_is_free(&c, after);
	if (max_moves >= c.req.nr_items && slide && slide <= max_blocks)
		cr_assert_eq(err, 0, "%s: a slide of %u would do for %u", cells, slide, want);
}

Test(window, keeps_to_the_limits_and_uses_them)
{
	char cells[PICTURE_MAX + 1];
	u32 rng = 11, round;

	for (round = 0; round < test_length(NULL, 20000); round++) {
		picture_random(cells, 16 + round % (PICTURE_MAX - 15), 5, 0, round & 1 ? 10 : 0, &rng);
		expect_limits_hold(cells, 4 + round % 13, 1 + round % 17,
				   round % 3 ? PICTURE_MAX : 1 + round % 4);
	}
}

/* ---- more than a picture holds ---- */

struct model {
	struct kv_item *items;
	struct kv_move *moves;
	u32 *cell;		/* 0 free, else number of the item + 1 */
	struct kv_plan_req req;
	struct kv_plan plan;
};

static void model_init(struct model *m, u32 nr_items, u32 longest, u32 *rng)
{
	u32 i, k, b = 0;

	m->items = calloc(nr_items, sizeof(*m->items));
	m->moves = calloc(nr_items, sizeof(*m->moves));
	m->cell = calloc((size_t)nr_items * 2 * longest, sizeof(*m->cell));
	for (i = 0; i < nr_items; i++) {
		u32 gap = rand_r(rng) % 6 ? 0 : 1 + rand_r(rng) % longest;

		m->items[i].start = b + gap;
		m->items[i].nr = 1 + rand_r(rng) % longest;
		m->items[i].movable = rand_r(rng) % 50 != 0;
		for (b += gap, k = 0; k < m->items[i].nr; k++)
			m->cell[b++] = i + 1;
	}
	m->req = (struct kv_plan_req){ .nr_blocks = b, .items = m->items, .nr_items = nr_items };
	m->plan = (struct kv_plan){ .moves = m->moves, .max_moves = nr_items };
}

static void model_move(struct model *m, const struct kv_move *move)
{
	u32 item = m->cell[move->src], b;

	cr_assert(item && m->items[item - 1].movable);
	cr_assert(m->items[item - 1].start == move->src && m->items[item - 1].nr == move->nr,
		  "whole items only, each at most once");
	cr_assert(move->dst + move->nr <= m->req.nr_blocks);
	memset(m->cell + move->src, 0, move->nr * sizeof(*m->cell));
	for (b = move->dst; b < move->dst + move->nr; b++) {
		cr_assert_eq(m->cell[b], 0, "block %u is overwritten", b);
		m->cell[b] = item;
	}
}

static void model_execute(struct model *m)
{
	u32 i, b, nr_blocks = 0;

	for (i = 0; i < m->plan.nr_moves; i++) {
		model_move(m, &m->plan.moves[i]);
		nr_blocks += m->plan.moves[i].nr;
	}
	cr_assert_eq(m->plan.nr_blocks, nr_blocks);
	cr_assert(m->plan.gap.nr >= m->req.want);
	for (b = 0; b < m->plan.gap.nr; b++)
		cr_assert_eq(m->cell[m->plan.gap.start + b], 0);
}

static void expect_same_plan_again(const struct model *m)
{
	struct kv_plan again = { .max_moves = m->plan.max_moves };

	again.moves = calloc(again.max_moves, sizeof(*again.moves));
	cr_assert_eq(run_planner(&kv_planner_window, &m->req, &again, 0x00), 0);
	cr_assert_eq(again.nr_moves, m->plan.nr_moves);
	cr_assert_eq(again.gap.start, m->plan.gap.start);
	cr_assert_arr_eq(again.moves, m->plan.moves, again.nr_moves * sizeof(*again.moves));
	free(again.moves);
}

static u32 slide_cost(const struct model *m)
{
	struct kv_plan slide = { .moves = calloc(m->req.nr_items, sizeof(struct kv_move)),
				 .max_moves = m->req.nr_items };
	int err = run_planner(&kv_planner_slide, &m->req, &slide, 0);

	free(slide.moves);
	return err ? ~0u : slide.nr_blocks;
}

/* Returns whether there was something to do, and it was done. */
static bool expect_good_on_model(u32 nr_items, u32 longest, u32 want, u32 *rng)
{
	struct model m;
	u32 slide;
	int err;

	model_init(&m, nr_items, longest, rng);
	m.req.want = want;
	slide = slide_cost(&m);
	err = run_planner(&kv_planner_window, &m.req, &m.plan, 0xff);
	if (slide != ~0u) {
		cr_assert_eq(err, 0);
		cr_assert(m.plan.nr_blocks <= slide + slack(&kv_planner_window, &m.req));
	}
	if (!err) {
		expect_same_plan_again(&m);
		model_execute(&m);
	}
	free(m.items);
	free(m.moves);
	free(m.cell);
	return !err;
}

Test(window, copes_with_thousands_of_items)
{
	static const u32 nr_items[] = { 100, 3000, 8192, 8193 };
	static const u32 longest[] = { 4, 40, 700 };
	u32 rng = 5, round, nr_planned = 0;

	for (round = 0; round < 60; round++) {
		u32 len = longest[round % ARRAY_SIZE(longest)];

		nr_planned += expect_good_on_model(nr_items[round % ARRAY_SIZE(nr_items)], len,
						   1 + len + len * (round % 23) / 4, &rng);
	}
	nr_planned += expect_good_on_model(100000, 9, 60, &rng);
	cr_expect(nr_planned > 40, "only %u of %u had a plan", nr_planned, round);
}

/* The promise of scratch_bytes() is exact: no reserve, and no limit built in. */
Test(window, needs_scratch_in_proportion_to_the_items)
{
	size_t few = kv_planner_window.scratch_bytes(1u << 20);
	size_t many = kv_planner_window.scratch_bytes(1u << 23);

	cr_expect(many > 7 * few && many <= 8 * few);
}
