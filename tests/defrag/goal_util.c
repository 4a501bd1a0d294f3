// SPDX-License-Identifier: Apache-2.0
/* Plans for goals on pictures; see goal_util.h. */
#include "tests/defrag/goal_util.h"
#include "tests/support/test.h"

#define GUARD_BYTES	64

void goal_init(struct goal_case *c, const char *cells, u32 goal, u32 want, u64 drop_ns)
{
	memset(c, 0, sizeof(*c));
	strcpy(c->after, cells);
	c->prices = (struct kv_prices){ .copy_ns = 10, .drop_ns = drop_ns };
	c->req = (struct kv_plan_req){
		.nr_blocks = strlen(cells), .items = c->items, .want = want, .apart = true,
		.goal = goal, .order = 2, .prices = &c->prices,
		.nr_items = picture_items(cells, c->items, PICTURE_MAX),
	};
	for (u32 i = 0; i < c->req.nr_items; i++) {
		char letter = cells[c->items[i].start];

		c->items[i].drop = drop_ns && letter >= 'Q' && letter <= 'Z';
	}
	c->plan = (struct kv_plan){
		.moves = c->moves, .max_moves = PICTURE_MAX, .drops = c->drops,
		.max_drops = PICTURE_MAX, .pageblocks = c->pageblocks, .failed = c->failed,
		.max_pageblocks = PICTURE_MAX,
	};
}

static u32 find(const struct goal_case *c, const char *cells, char letter)
{
	for (u32 i = 0; i < c->req.nr_items; i++)
		if (cells[c->items[i].start] == letter)
			return i;
	cr_assert_fail("%c is not in %s", letter, cells);
	return 0;
}

void goal_owner(struct goal_case *c, u32 owner, const char *letters)
{
	for (u32 part = 0; letters[part]; part++) {
		struct kv_item *item = &c->items[find(c, c->after, letters[part])];

		item->owner = owner;
		item->part = part;
	}
}

static u32 place_of(const struct goal_case *c, const struct kv_item *item, bool after)
{
	for (u32 i = 0; after && i < c->plan.nr_moves; i++)
		if (c->moves[i].src == item->start)
			return c->moves[i].dst;
	return item->start;
}

/* What follows right behind @item, if it is the next part of its owner. */
static bool is_continued(const struct goal_case *c, const struct kv_item *item, bool after)
{
	const struct kv_item *next = NULL;

	for (u32 i = 0; i < c->req.nr_items; i++)
		if (c->items[i].owner == item->owner && c->items[i].part == item->part + 1)
			next = &c->items[i];
	return next && place_of(c, next, after) == place_of(c, item, after) + item->nr;
}

u32 goal_nr_pieces(const struct goal_case *c, bool after)
{
	u32 nr = 0;

	for (u32 i = 0; i < c->req.nr_items; i++)
		nr += c->items[i].owner && !is_continued(c, &c->items[i], after);
	return nr;
}

static const struct kv_item *item_at(const struct goal_case *c, u32 start, u32 nr)
{
	for (u32 i = 0; i < c->req.nr_items; i++)
		if (c->items[i].start == start && c->items[i].nr == nr)
			return &c->items[i];
	cr_assert_fail("%u blocks at %u of %s are no item", nr, start, c->after);
	return NULL;
}

/* Readers go on in all that was held: a new place is a hole of the picture. */
static void apply(struct goal_case *c)
{
	char before[PICTURE_MAX + 1];
	u64 cost = 0;
	u32 nr = 0;

	strcpy(before, c->after);
	for (u32 i = 0; i < c->plan.nr_drops; i++) {
		const struct kv_item *item = item_at(c, c->drops[i].start, c->drops[i].nr);

		cr_assert(item->drop, "%s: %c must not be lost", before, before[item->start]);
		cr_assert(c->after[item->start] != '.', "lost twice");
		memset(c->after + item->start, '.', item->nr);
		cost += c->prices.drop_ns * item->drop;
	}
	for (u32 i = 0; i < c->plan.nr_moves; i++) {
		const struct kv_move *move = &c->moves[i];
		const struct kv_item *item = item_at(c, move->src, move->nr);

		cr_assert(item->movable, "%s: %c moves", before, before[move->src]);
		cr_assert_eq(c->after[move->src], before[move->src], "moved twice");
		for (u32 b = 0; b < move->nr; b++) {
			cr_assert_eq(before[move->dst + b], '.', "%s: %u is no hole", before,
				     move->dst + b);
			cr_assert_eq(c->after[move->dst + b], '.', "%s: two go to %u", before,
				     move->dst + b);
			c->after[move->src + b] = '.';
			c->after[move->dst + b] = before[move->src];
		}
		nr += move->nr;
		cost += c->prices.copy_ns * move->nr + c->prices.move_ns;
	}
	cr_assert_eq(c->plan.nr_blocks, nr);
	cr_assert_eq(c->plan.cost_ns, cost);
	cr_assert(!c->req.max_blocks || nr <= c->req.max_blocks);
}

int goal_run(struct goal_case *c)
{
	size_t bytes = kv_goal_scratch(&kv_planner_window, &c->req);
	u8 *scratch = malloc(bytes + GUARD_BYTES);
	int err;

	memset(scratch, 0xff, bytes);
	memset(scratch + bytes, 0xa5, GUARD_BYTES);
	err = kv_goal_plan(&kv_planner_window, &c->req, &c->plan, scratch);
	for (size_t i = bytes; i < bytes + GUARD_BYTES; i++)
		cr_assert_eq(scratch[i], 0xa5, "byte %zu behind the scratch", i - bytes);
	free(scratch);
	if (err && err != -EAGAIN)
		cr_assert_eq(c->plan.nr_moves + c->plan.nr_drops, 0);
	apply(c);
	return err;
}

/* ---- all that could have been done ---- */

struct brute {
	const struct goal_case *c;
	u32 hole[PICTURE_MAX];		/* what is left of those outside */
	u32 nr_holes;
	u32 item[PICTURE_MAX];		/* in the way */
	u32 nr_items;
	u64 best;
};

static void place_from(struct brute *b, u32 i, u64 cost)
{
	const struct kv_item *item;

	if (cost >= b->best)
		return;
	if (i == b->nr_items) {
		b->best = cost;
		return;
	}
	item = &b->c->items[b->item[i]];
	if (item->drop)
		place_from(b, i + 1, cost + b->c->prices.drop_ns);
	for (u32 k = 0; item->movable && k < b->nr_holes; k++) {
		if (b->hole[k] < item->nr)
			continue;
		b->hole[k] -= item->nr;
		place_from(b, i + 1, cost + item->nr * b->c->prices.copy_ns);
		b->hole[k] += item->nr;
	}
}

u64 goal_least(const struct goal_case *c, const char *cells, const bool *area)
{
	struct brute b = { .c = c, .best = ~0ull };

	for (u32 i = 0, nr = 0; i <= c->req.nr_blocks; i++) {
		if (i < c->req.nr_blocks && cells[i] == '.' && !area[i]) {
			nr++;
			continue;
		}
		if (nr)
			b.hole[b.nr_holes++] = nr;
		nr = 0;
	}
	for (u32 i = 0; i < c->req.nr_items; i++) {
		bool hit = false;

		for (u32 k = 0; k < c->items[i].nr; k++)
			hit |= area[c->items[i].start + k];
		if (hit)
			b.item[b.nr_items++] = i;
	}
	place_from(&b, 0, 0);
	return b.best;
}
