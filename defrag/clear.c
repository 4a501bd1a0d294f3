// SPDX-License-Identifier: Apache-2.0
/*
 * Areas that are cleared altogether: one window for a run, or pageblocks, aligned groups of
 * 2^order blocks. Each item in them is copied to a hole outside, or lost, whichever costs less.
 *
 * The cheapest areas are known by prices. Pageblocks are hard because an item may lie in several:
 * if it moves for the sake of one, it has moved for the others, too. So the price of a pageblock is
 * divided by how many are emptied by the same moves, and it falls when an item of it goes for
 * another's sake.
 *
 * Whether all that goes has a place is only known when places are looked for. The longest item that
 * must not be lost has the least choice and goes first; then those that may be lost, the dearest
 * first: if no hole is left they are lost. If an item that must not be lost has no place the next
 * window is tried, or its pageblocks are barred and others are chosen; after a few rounds the plan
 * is made of the areas that can be emptied without the last ones.
 */
#include <string.h>

#include "bins.h"
#include "goal.h"

#define MAX_WINDOWS	64u

/* Holes that are put into bins for all windows together: about 10 ms. */
#define MAX_HOLES	BIT(20)

#define MAX_ROUNDS	12u

/* Windows that may be cleared for a run. */
struct row {
	u32 start;
	u64 price;
};

/* A chosen area is of the plan; a barred one is not, at any price. */
enum state { OPEN, CHOSEN, BARRED };

struct clearing {
	const struct kv_plan_req *req;
	struct kv_plan *plan;

	/* Placing. */
	struct kvmm_extent *area;	/* by address, apart from each other */
	u32 nr_areas;
	struct bins *bins;
	struct bin_hole *room;
	u64 *order;			/* of items that are placed: key | item */
	u64 *spare;

	/* A run. */
	u64 below;			/* a price of as much or more is of no use */
	struct row row[MAX_WINDOWS];	/* the cheapest first */
	u32 nr_rows;

	/* Pageblocks. */
	struct kv_cheapest heap;	/* a share of their prices, see price_of() */
	u32 size;			/* blocks of one */
	u32 nr;				/* pageblocks */
	u32 left;			/* still to be chosen */
	bool is_tight;			/* places are dearer than anything */
	bool bar_all;			/* that cannot be placed, not just the first of them */
	u64 nr_moving;			/* blocks of items that go, and would rather be copied */
	u64 nr_must;			/* of them: that must not be lost */
	u64 nr_room;			/* free blocks outside of the chosen areas */
	u8 *state;			/* by pageblock: enum state */
	bool *goes;			/* by item */
};

static u64 price_of(void *arg, u32 pageblock);

/* How many bytes it takes. */
static size_t lay_out(struct clearing *c, const struct kv_plan_req *req, char *base)
{
	size_t bytes = kv_align_up(sizeof(*c), 8), nr_items = req->nr_items;
	size_t nr = req->goal == KV_GOAL_PAGEBLOCKS ? kv_nr_pageblocks(req) : 0;
	size_t max_areas = max(nr, (size_t)1);

	*c = (struct clearing){ .req = req, .size = BIT(req->order), .nr = nr };
	c->area = scratch_take(base, &bytes, max_areas, sizeof(*c->area));
	c->bins = scratch_take(base, &bytes, 1, sizeof(*c->bins));
	/* A hole is cut by each area at most once. */
	c->room = scratch_take(base, &bytes, nr_items + 1 + max_areas, sizeof(*c->room));
	c->order = scratch_take(base, &bytes, nr_items, sizeof(*c->order));
	c->spare = scratch_take(base, &bytes, nr_items, sizeof(*c->spare));
	/* For each pageblock that is chosen two others at most are put there again. */
	c->heap = (struct kv_cheapest){
		.price_of = price_of, .arg = c, .max = 3 * nr,
		.heap = scratch_take(base, &bytes, 3 * nr, sizeof(struct kv_group)),
	};
	c->state = scratch_take(base, &bytes, nr, sizeof(*c->state));
	c->goes = scratch_take(base, &bytes, nr ? nr_items : 0, sizeof(*c->goes));
	return bytes;
}

size_t plan_clear_scratch(const struct kv_plan_req *req)
{
	struct clearing c;

	return lay_out(&c, req, NULL);
}

/* ---- placing ---- */

static u32 pageblock_of(const struct clearing *c, u32 block)
{
	kv_assert(block <= c->req->nr_blocks + c->size);
	return block >> c->req->order;
}

static u32 area_end(const struct clearing *c, u32 i)
{
	kv_assert(i < c->nr_areas);
	return c->area[i].start + c->area[i].nr;
}

/* The parts of holes outside of all areas, the last one first: the lowest is taken first. */
static void add_holes(struct clearing *c)
{
	u32 left = c->nr_areas;

	bins_init(c->bins, c->room);
	for (u32 i = c->req->nr_items + 1; i-- > 0;) {
		u32 start = hole_start(c->req, i), end = hole_end(c->req, i);

		while (left && c->area[left - 1].start >= end)
			left--;
		for (u32 k = left; k && area_end(c, k - 1) > start; k--) {
			if (area_end(c, k - 1) < end)
				bins_add(c->bins, area_end(c, k - 1),
					 end - area_end(c, k - 1));
			end = max(start, c->area[k - 1].start);
		}
		bins_add(c->bins, start, end - start);
	}
}

/* Items in the areas that are better copied, in the order in which they are placed: how many. */
static u32 line_up(struct clearing *c)
{
	const struct kv_plan_req *req = c->req;
	u32 nr = 0, area = 0;

	kv_assert(c->nr_areas <= max(c->nr, 1u));
	for (u32 i = 0; i < req->nr_items; i++) {
		const struct kv_item *item = &req->items[i];
		u64 drop = drop_price(req, item);
		u32 rank;

		while (area < c->nr_areas && area_end(c, area) <= item->start)
			area++;
		if (area == c->nr_areas)
			break;
		if (c->area[area].start >= item_end(item))
			continue;
		if (drop < copy_price(req, item)) {
			plan_drop(req, c->plan, item);
			continue;
		}
		rank = drop == KV_STAYS ? BIT(31) | item->nr : min(drop, (u64)BIT(31) - 1);
		c->order[nr++] = (u64)~rank << 32 | i;
	}
	plan_sort(c->order, c->spare, nr);
	return nr;
}

/* A plan of its own for the areas; false: an item has no place, so not all of them are clear. */
static bool clear_areas(struct clearing *c)
{
	bool all = true;
	u32 nr;

	kv_assert(c->nr_areas <= max(c->nr, 1u));
	plan_forget(c->plan);
	add_holes(c);
	nr = line_up(c);
	for (u32 k = 0; k < nr && (all || c->bar_all); k++) {
		const struct kv_item *item = &c->req->items[(u32)c->order[k]];
		u32 dst = bins_take(c->bins, item->nr);

		if (dst != KV_NONE) {
			plan_move(c->req, c->plan, item, dst);
		} else if (drop_price(c->req, item) != KV_STAYS) {
			plan_drop(c->req, c->plan, item);
		} else {
			/* The pageblocks that it lies in, if it is for pageblocks, stay. */
			for (u32 i = pageblock_of(c, item->start);
			     i <= pageblock_of(c, item_end(item) - 1) && i < c->nr; i++) {
				if (c->state[i] != CHOSEN)
					continue;
				c->state[i] = BARRED;
				c->plan->failed[c->plan->nr_failed++] = i;
			}
			all = false;
		}
	}
	return all;
}

/* ---- a run ---- */

static void keep(struct clearing *c, u32 start, u64 price)
{
	u32 i = min(c->nr_rows, MAX_WINDOWS - 1);

	kv_assert(c->nr_rows <= MAX_WINDOWS);
	if (price >= c->below || (c->nr_rows == MAX_WINDOWS && price >= c->row[i].price))
		return;
	for (; i && c->row[i - 1].price > price; i--)
		c->row[i] = c->row[i - 1];
	c->row[i] = (struct row){ start, price };
	c->nr_rows = min(c->nr_rows + 1, MAX_WINDOWS);
}

/* The price of an item: the lesser of its copy and its loss. */
static struct kv_priced priced_item(const void *arg, u32 i)
{
	const struct kv_plan_req *req = arg;
	const struct kv_item *item = &req->items[i];

	kv_assert(i < req->nr_items);
	return (struct kv_priced){ item->start, item->nr, item_price(req, item) };
}

/* A window begins behind an item, or ends before one: no other is cheaper than both. */
static void find_rows(struct clearing *c)
{
	const struct kv_plan_req *req = c->req;
	struct kv_window from = { .item = priced_item, .arg = req, .nr_items = req->nr_items,
				  .want = req->want }, upto = from;

	kv_assert(req->want <= req->nr_blocks);
	for (u32 i = 0; i <= req->nr_items; i++) {
		u32 start = hole_start(req, i), end = hole_end(req, i);

		if (req->nr_blocks - start >= req->want)
			keep(c, start, kv_window_slide(&from, start));
		if (end >= req->want)
			keep(c, end - req->want, kv_window_slide(&upto, end - req->want));
	}
}

int plan_evacuate(const struct kv_plan_req *req, struct kv_plan *plan, u64 below, void *scratch)
{
	u32 max_rows = max(MAX_HOLES / (req->nr_items + 1), 4u);
	struct clearing *c = scratch;

	lay_out(c, req, scratch);
	c->plan = plan;
	c->below = below;
	find_rows(c);
	/* Most plans are of the first row; what a failed one took is put back by beginning anew. */
	c->nr_areas = 1;
	for (u32 i = 0; i < c->nr_rows && i < max_rows; i++) {
		c->area[0] = (struct kvmm_extent){ c->row[i].start, req->want };
		if (!clear_areas(c) || plan->cost_ns >= below ||
		    (req->max_blocks && plan->nr_blocks > req->max_blocks))
			continue;
		plan->gap = c->area[0];
		return 0;
	}
	plan_forget(plan);
	return -ENOSPC;
}

/* ---- pageblocks ---- */

/* Items of one pageblock, and which pageblocks are empty once they are gone. */
struct tenants {
	u32 first, end;		/* items */
	u32 lo, hi;		/* pageblocks */
	u32 nr_free;		/* blocks of the pageblock */
};

static struct tenants tenants_of(const struct clearing *c, u32 pageblock)
{
	const struct kv_plan_req *req = c->req;
	u32 start = pageblock << req->order, end = start + c->size;
	struct tenants t = { .first = item_after(req, start), .lo = pageblock, .hi = pageblock + 1,
			     .nr_free = c->size };
	u32 lo, hi;

	kv_assert(pageblock < c->nr);
	for (t.end = t.first; t.end < req->nr_items && req->items[t.end].start < end; t.end++)
		t.nr_free -= req->items[t.end].nr;
	if (t.first == t.end)
		return t;
	/* They lie there and beyond, and so may others. */
	lo = req->items[t.first].start;
	hi = item_end(&req->items[t.end - 1]);
	t.nr_free += max(start, lo) - lo + hi - min(hi, end);
	t.lo = max(pageblock_of(c, lo), pageblock_of(c, hole_start(req, t.first) + c->size - 1));
	t.hi = min(pageblock_of(c, hi + c->size - 1), pageblock_of(c, hole_end(req, t.end)));
	t.hi = min(t.hi, c->nr);
	return t;
}

/* Above the price of any block: 17 s; the sum of 2^24 such is no overflow. */
#define PLACE_NS	BIT64(34)

/* By each pageblock that is gained, in 16ths; KV_STAYS: an item has to stay. */
static u64 price_of(void *arg, u32 pageblock)
{
	const struct clearing *c = arg;
	struct tenants t;
	u32 nr_gained = 0;
	u64 sum = 0;

	kv_assert(pageblock < c->nr);
	if (c->state[pageblock] != OPEN)
		return KV_STAYS;
	t = tenants_of(c, pageblock);
	for (u32 i = t.first; i < t.end; i++) {
		const struct kv_item *item = &c->req->items[i];
		u64 price = item_price(c->req, item);

		if (c->goes[i])
			continue;
		if (price == KV_STAYS)
			return KV_STAYS;
		if (c->is_tight && drop_price(c->req, item) == KV_STAYS)
			price += item->nr * PLACE_NS;
		sum += price;
	}
	for (u32 i = t.lo; i < t.hi && nr_gained < c->left; i++)
		nr_gained += c->state[i] == OPEN;
	return sum ? sum * 16 / max(nr_gained, 1u) : 0;
}

static void choose(struct clearing *c, u32 pageblock)
{
	kv_assert(pageblock < c->nr);
	c->state[pageblock] = CHOSEN;
	kv_assert(c->nr_room >= tenants_of(c, pageblock).nr_free);
	kv_assert(c->left);
	c->nr_room -= tenants_of(c, pageblock).nr_free;
	c->left--;
}

/* Is there a place outside for @nr_must blocks, without the free ones in the pageblock? */
static bool has_room(const struct clearing *c, u32 pageblock, u64 nr_must)
{
	kv_assert(pageblock < c->nr);
	return nr_must + tenants_of(c, pageblock).nr_free <= c->nr_room;
}

/* The pageblock, and those that are empty then, unless it is over the budget or the room. */
static void choose_with(struct clearing *c, u32 pageblock)
{
	const struct kv_plan_req *req = c->req;
	struct tenants t = tenants_of(c, pageblock);
	u64 moving = c->nr_moving, must = c->nr_must;

	kv_assert(pageblock < c->nr);
	for (u32 i = t.first; i < t.end; i++) {
		const struct kv_item *item = &req->items[i];

		if (c->goes[i] || drop_price(req, item) < copy_price(req, item))
			continue;
		moving += item->nr;
		must += drop_price(req, item) == KV_STAYS ? item->nr : 0;
	}
	if (!has_room(c, pageblock, must) || (req->max_blocks && moving > req->max_blocks))
		return;
	c->nr_moving = moving;
	c->nr_must = must;
	memset(c->goes + t.first, true, t.end - t.first);
	choose(c, pageblock);
	for (u32 i = t.lo; i < t.hi && c->left; i++)
		if (c->state[i] == OPEN && has_room(c, i, must))
			choose(c, i);
	if (t.first == t.end)
		return;
	kv_cheapest_put(&c->heap, pageblock_of(c, req->items[t.first].start));
	if (item_end(&req->items[t.end - 1]) <= c->nr << req->order)
		kv_cheapest_put(&c->heap, pageblock_of(c, item_end(&req->items[t.end - 1]) - 1));
}

/* A price is never too high, but too low for one that would empty more than is still wanted. */
static void choose_all(struct clearing *c)
{
	u32 pageblock;

	kv_assert(c->req->want <= c->nr);
	c->left = c->req->want;
	c->nr_moving = c->nr_must = 0;
	c->nr_room = nr_free_blocks(c->req);
	memset(c->goes, 0, c->req->nr_items * sizeof(*c->goes));
	c->heap.nr = 0;
	for (u32 i = 0; i < c->nr; i++)
		c->state[i] = c->state[i] == BARRED ? BARRED : OPEN;
	for (u32 i = 0; i < c->nr; i++)
		kv_cheapest_put(&c->heap, i);
	while (c->left && (pageblock = kv_cheapest_pop(&c->heap)) != KV_NONE)
		choose_with(c, pageblock);
}

/*
 * Once the rounds are used up, nothing is chosen for areas barred then: less and less is placed,
 * with more and more room. Returns how many pageblocks are emptied by the plan.
 */
static u32 search(struct clearing *c, bool is_tight)
{
	const struct kv_hint *hints = c->req->hints;

	c->is_tight = is_tight;
	for (u32 i = 0; i < c->nr; i++)
		c->state[i] = hints && hints[i].until > c->req->round &&
			      c->size - tenants_of(c, i).nr_free >= hints[i].held ? BARRED : OPEN;
	c->plan->nr_failed = 0;
	for (u32 round = 0; round < 2 * MAX_ROUNDS; round++) {
		if (round < MAX_ROUNDS)
			choose_all(c);
		c->bar_all = round >= MAX_ROUNDS / 2;
		c->nr_areas = 0;
		for (u32 i = 0; i < c->nr; i++)
			if (c->state[i] == CHOSEN)
				c->area[c->nr_areas++] =
					(struct kvmm_extent){ i << c->req->order, c->size };
		if (clear_areas(c))	/* else some of the chosen areas are barred now */
			return c->nr_areas;
	}
	plan_forget(c->plan);
	return c->nr_areas = 0;
}

/* If the cheapest pageblocks are not enough, those that take the fewest places may be. */
int plan_pageblocks(const struct kv_plan_req *req, struct kv_plan *plan, void *scratch)
{
	struct clearing *c = scratch;
	u32 nr;

	if (!req->want)
		return -EALREADY;
	if (req->want > kv_nr_pageblocks(req) || plan->max_pageblocks < kv_nr_pageblocks(req))
		return -ENOSPC;
	lay_out(c, req, scratch);
	c->plan = plan;
	nr = search(c, false);
	if (nr < req->want && search(c, true) <= nr)
		search(c, false);
	nr = c->nr_areas;
	for (u32 i = 0; i < nr; i++)
		plan->pageblocks[plan->nr_pageblocks++] = c->area[i].start >> req->order;
	if (nr == req->want)
		return plan->nr_moves || plan->nr_drops ? 0 : -EALREADY;
	return plan->nr_moves || plan->nr_drops ? -EAGAIN : -ENOSPC;
}
