// SPDX-License-Identifier: Apache-2.0
/*
 * Areas that are cleared altogether: one window for a run, or pageblocks, aligned groups of 2^order
 * blocks. Each item in them is copied to a hole outside, or lost, whichever costs less.
 *
 * Which areas are cheapest is known by prices, and easy to find for a window. Of pageblocks the cheapest
 * go first, too; hard is that an item may lie in several: if it moves for the sake of one, it has moved
 * for the others, too. So the price of a pageblock is divided by how many are emptied by the same
 * moves, and it falls when an item of it goes for another's sake.
 *
 * Whether there are places for all that goes is only found out when they are looked for. The longest
 * item that must not be lost has the least choice and goes first; then those that may be lost, the
 * dearest first: if no hole is left they are lost. When an item has no place and must not be lost the
 * next window is tried, or its pageblocks are barred, and it is chosen anew; after a few rounds the
 * plan is what can be emptied without the last ones.
 */
#include <string.h>

#include "bins.h"
#include "goal.h"

#define MAX_WINDOWS	64u

/* Holes that are put into bins for all windows together: about 10 ms. */
#define MAX_HOLES	BIT(20)

#define MAX_ROUNDS	12u

/* ---- placing ---- */

struct clearing {
	const struct kv_plan_req *req;
	struct kv_plan *plan;
	struct kvmm_extent *area;	/* by address, apart from each other */
	u32 nr_areas;
	struct bins *bins;
	struct bin_hole *room;
	u64 *order;			/* of items that are placed: key | item */
	u64 *spare;
};

/* A hole is cut by each area at most once. */
static void lay_out_areas(struct clearing *clear, const struct kv_plan_req *req, u32 max_areas,
			  char *base, size_t *bytes)
{
	size_t nr = req->nr_items;

	clear->req = req;
	clear->area = scratch_take(base, bytes, max_areas, sizeof(*clear->area));
	clear->bins = scratch_take(base, bytes, 1, sizeof(*clear->bins));
	clear->room = scratch_take(base, bytes, nr + 1 + max_areas, sizeof(*clear->room));
	clear->order = scratch_take(base, bytes, nr, sizeof(*clear->order));
	clear->spare = scratch_take(base, bytes, nr, sizeof(*clear->spare));
}

static u32 area_end(const struct clearing *clear, u32 i)
{
	return clear->area[i].start + clear->area[i].nr;
}

/* The parts of holes outside of all areas, the last one first: the lowest is taken first. */
static void add_holes(struct clearing *clear)
{
	u32 left = clear->nr_areas;

	bins_init(clear->bins, clear->room);
	for (u32 i = clear->req->nr_items + 1; i-- > 0;) {
		u32 start = hole_start(clear->req, i), end = hole_end(clear->req, i);

		while (left && clear->area[left - 1].start >= end)
			left--;
		for (u32 k = left; k && area_end(clear, k - 1) > start; k--) {
			if (area_end(clear, k - 1) < end)
				bins_add(clear->bins, area_end(clear, k - 1),
					 end - area_end(clear, k - 1));
			end = max(start, clear->area[k - 1].start);
		}
		bins_add(clear->bins, start, end - start);
	}
}

/* Items in the areas that are better copied, in the order in which they are placed: how many. */
static u32 line_up(struct clearing *clear)
{
	const struct kv_plan_req *req = clear->req;
	u32 nr = 0, area = 0;

	for (u32 i = 0; i < req->nr_items; i++) {
		const struct kv_item *item = &req->items[i];
		u64 drop = drop_price(req, item);
		u32 rank;

		while (area < clear->nr_areas && area_end(clear, area) <= item->start)
			area++;
		if (area == clear->nr_areas)
			break;
		if (clear->area[area].start >= item_end(item))
			continue;
		if (drop < copy_price(req, item)) {
			plan_drop(req, clear->plan, item);
			continue;
		}
		rank = drop == KV_STAYS ? BIT(31) | item->nr : min(drop, (u64)BIT(31) - 1);
		clear->order[nr++] = (u64)~rank << 32 | i;
	}
	plan_sort(clear->order, clear->spare, nr);
	return nr;
}

/*
 * A plan of its own for the areas; true if all of them are clear. An item that fits nowhere and must not
 * be lost is given to @failed, which says whether to go on; NULL: it ends there.
 */
static bool clear_areas(struct clearing *clear,
			bool (*failed)(void *arg, const struct kv_item *item), void *arg)
{
	bool all = true;
	u32 nr;

	plan_forget(clear->plan);
	add_holes(clear);
	nr = line_up(clear);
	for (u32 k = 0; k < nr; k++) {
		const struct kv_item *item = &clear->req->items[(u32)clear->order[k]];
		u32 dst = bins_take(clear->bins, item->nr);

		if (dst != KV_NONE) {
			plan_move(clear->req, clear->plan, item, dst);
		} else if (drop_price(clear->req, item) != KV_STAYS) {
			plan_drop(clear->req, clear->plan, item);
		} else {
			all = false;
			if (!failed || !failed(arg, item))
				break;
		}
	}
	return all;
}

/* ---- a run ---- */

struct row {
	u32 start;		/* of the run that is made */
	u64 price;
};

struct evacuation {
	struct clearing clear;
	u64 below;			/* what costs as much or more is of no use */
	struct row row[MAX_WINDOWS];	/* the cheapest first */
	u32 nr_rows;
};

static void keep(struct evacuation *e, u32 start, u64 price)
{
	u32 i = min(e->nr_rows, MAX_WINDOWS - 1);

	if (price >= e->below || (e->nr_rows == MAX_WINDOWS && price >= e->row[i].price))
		return;
	for (; i && e->row[i - 1].price > price; i--)
		e->row[i] = e->row[i - 1];
	e->row[i] = (struct row){ start, price };
	e->nr_rows = min(e->nr_rows + 1, MAX_WINDOWS);
}

/* What an item costs: the lesser of its copy and its loss. */
static struct kv_priced priced_item(const void *arg, u32 i)
{
	const struct kv_plan_req *req = arg;
	const struct kv_item *item = &req->items[i];

	return (struct kv_priced){ item->start, item->nr, item_price(req, item) };
}

/* A window begins behind an item, or ends before one: no other is cheaper than both. */
static void find_rows(struct evacuation *e)
{
	const struct kv_plan_req *req = e->clear.req;
	struct kv_window from = { .item = priced_item, .arg = req, .nr_items = req->nr_items,
				  .want = req->want }, upto = from;

	for (u32 i = 0; i <= req->nr_items; i++) {
		u32 start = hole_start(req, i), end = hole_end(req, i);

		if (req->nr_blocks - start >= req->want)
			keep(e, start, kv_window_slide(&from, start));
		if (end >= req->want)
			keep(e, end - req->want, kv_window_slide(&upto, end - req->want));
	}
}

/* Most plans are of the first row; what a failed one took is put back by beginning anew. */
static bool try_row(struct evacuation *e, const struct row *row)
{
	const struct kv_plan_req *req = e->clear.req;
	struct kv_plan *plan = e->clear.plan;

	e->clear.area[0] = (struct kvmm_extent){ row->start, req->want };
	if (!clear_areas(&e->clear, NULL, NULL) || plan->cost_ns >= e->below ||
	    (req->max_blocks && plan->nr_blocks > req->max_blocks))
		return false;
	plan->gap = e->clear.area[0];
	return true;
}

/* How many bytes it takes. */
static size_t lay_out_run(struct evacuation *e, const struct kv_plan_req *req, char *base)
{
	size_t bytes = kv_align_up(sizeof(*e), 8);

	e->nr_rows = 0;
	e->clear.nr_areas = 1;
	lay_out_areas(&e->clear, req, 1, base, &bytes);
	return bytes;
}

size_t plan_evacuate_scratch(const struct kv_plan_req *req)
{
	struct evacuation e;

	return lay_out_run(&e, req, NULL);
}

int plan_evacuate(const struct kv_plan_req *req, struct kv_plan *plan, u64 below, void *scratch)
{
	u32 max_rows = max(MAX_HOLES / (req->nr_items + 1), 4u);
	struct evacuation *e = scratch;

	lay_out_run(e, req, scratch);
	e->clear.plan = plan;
	e->below = below;
	find_rows(e);
	for (u32 i = 0; i < e->nr_rows && i < max_rows; i++)
		if (try_row(e, &e->row[i]))
			return 0;
	plan_forget(plan);
	return -ENOSPC;
}

/* ---- pageblocks ---- */

/* What has been chosen is of the plan; what is barred, is not, whatever it would cost. */
enum state { OPEN, CHOSEN, BARRED };

struct emptying {
	struct clearing clear;
	struct kv_cheapest heap;	/* of pageblocks; a share, see price_of() */
	u32 size;		/* blocks of one */
	u32 nr;			/* pageblocks */
	u32 left;		/* still to be chosen */
	bool is_tight;		/* places are dearer than anything */
	bool bar_all;		/* that cannot be placed, not just the first of them */
	u64 nr_moving;		/* blocks of items that go, and would rather be copied */
	u64 nr_must;		/* of them: that must not be lost */
	u64 nr_room;		/* free blocks outside of what is chosen */
	u8 *state;		/* by pageblock: enum state */
	bool *goes;		/* by item */
};

static u32 pageblock_of(const struct emptying *e, u32 block)
{
	return block >> e->clear.req->order;
}

/* Items of one pageblock, and which pageblocks are empty once they are gone. */
struct tenants {
	u32 first, end;		/* items */
	u32 lo, hi;		/* pageblocks */
	u32 nr_free;		/* blocks of the pageblock */
};

static struct tenants tenants_of(const struct emptying *e, u32 pageblock)
{
	const struct kv_plan_req *req = e->clear.req;
	u32 start = pageblock << req->order, end = start + e->size;
	struct tenants t = { .first = item_after(req, start), .lo = pageblock, .hi = pageblock + 1,
			     .nr_free = e->size };

	for (t.end = t.first; t.end < req->nr_items && req->items[t.end].start < end; t.end++)
		t.nr_free -= min(item_end(&req->items[t.end]), end) -
			     max(req->items[t.end].start, start);
	if (t.first == t.end)
		return t;
	/* They lie there and beyond, and so may others. */
	t.lo = max(pageblock_of(e, req->items[t.first].start),
		   pageblock_of(e, hole_start(req, t.first) + e->size - 1));
	t.hi = min(pageblock_of(e, item_end(&req->items[t.end - 1]) + e->size - 1),
		   pageblock_of(e, hole_end(req, t.end)));
	t.hi = min(t.hi, e->nr);
	return t;
}

static u32 nr_gained(const struct emptying *e, const struct tenants *t)
{
	u32 nr = 0;

	for (u32 i = t->lo; i < t->hi && nr < e->left; i++)
		nr += e->state[i] == OPEN;
	return nr;
}

/* Above the price of any block: 17 s; the sum of 2^24 such is no overflow. */
#define PLACE_NS	BIT64(34)

static u64 price_in_place(const struct emptying *e, const struct kv_item *item)
{
	u64 price = item_price(e->clear.req, item);

	if (e->is_tight && price != KV_STAYS && drop_price(e->clear.req, item) == KV_STAYS)
		price += item->nr * PLACE_NS;
	return price;
}

/* By each pageblock that is gained, in 16ths; KV_STAYS: an item has to stay. */
static u64 price_of(void *arg, u32 pageblock)
{
	const struct emptying *e = arg;
	struct tenants t = tenants_of(e, pageblock);
	u64 sum = 0;

	if (e->state[pageblock] != OPEN)
		return KV_STAYS;
	for (u32 i = t.first; i < t.end; i++) {
		u64 price = price_in_place(e, &e->clear.req->items[i]);

		if (e->goes[i])
			continue;
		if (price == KV_STAYS)
			return KV_STAYS;
		sum += price;
	}
	return sum ? sum * 16 / max(nr_gained(e, &t), 1u) : 0;
}

static void choose(struct emptying *e, u32 pageblock)
{
	e->state[pageblock] = CHOSEN;
	e->nr_room -= tenants_of(e, pageblock).nr_free;
	e->left--;
}

/* Is there a place outside for @nr_must blocks if what is free in the pageblock is no place? */
static bool has_room(const struct emptying *e, u32 pageblock, u64 nr_must)
{
	return nr_must + tenants_of(e, pageblock).nr_free <= e->nr_room;
}

/* The pageblock, and those that are empty then, unless it is over the budget or the room. */
static void choose_with(struct emptying *e, u32 pageblock)
{
	const struct kv_plan_req *req = e->clear.req;
	struct tenants t = tenants_of(e, pageblock);
	u64 moving = e->nr_moving, must = e->nr_must;

	for (u32 i = t.first; i < t.end; i++) {
		const struct kv_item *item = &req->items[i];

		if (e->goes[i] || drop_price(req, item) < copy_price(req, item))
			continue;
		moving += item->nr;
		must += drop_price(req, item) == KV_STAYS ? item->nr : 0;
	}
	if (!has_room(e, pageblock, must) || (req->max_blocks && moving > req->max_blocks))
		return;
	e->nr_moving = moving;
	e->nr_must = must;
	memset(e->goes + t.first, true, t.end - t.first);
	choose(e, pageblock);
	for (u32 i = t.lo; i < t.hi && e->left; i++)
		if (e->state[i] == OPEN && has_room(e, i, must))
			choose(e, i);
	if (t.first == t.end)
		return;
	kv_cheapest_put(&e->heap, pageblock_of(e, req->items[t.first].start));
	if (item_end(&req->items[t.end - 1]) <= e->nr << req->order)
		kv_cheapest_put(&e->heap, pageblock_of(e, item_end(&req->items[t.end - 1]) - 1));
}

static bool is_hinted(const struct emptying *e, u32 pageblock)
{
	const struct kv_hint *hint = e->clear.req->hints ? &e->clear.req->hints[pageblock] : NULL;

	return hint && hint->until > e->clear.req->round &&
	       e->size - tenants_of(e, pageblock).nr_free >= hint->held;
}

/* A price is never too high, but too low for what would empty more than is still wanted. */
static void choose_all(struct emptying *e)
{
	u32 pageblock;

	e->left = e->clear.req->want;
	e->nr_moving = e->nr_must = 0;
	e->nr_room = nr_free_blocks(e->clear.req);
	memset(e->goes, 0, e->clear.req->nr_items * sizeof(*e->goes));
	e->heap.nr = 0;
	for (u32 i = 0; i < e->nr; i++)
		e->state[i] = e->state[i] == BARRED ? BARRED : OPEN;
	for (u32 i = 0; i < e->nr; i++)
		kv_cheapest_put(&e->heap, i);
	while (e->left && (pageblock = kv_cheapest_pop(&e->heap)) != KV_NONE)
		choose_with(e, pageblock);
}

/* An item has no place: the pageblocks that it lies in cannot be emptied. */
static bool bar(void *arg, const struct kv_item *item)
{
	struct emptying *e = arg;
	u32 last = pageblock_of(e, item_end(item) - 1);

	for (u32 i = pageblock_of(e, item->start); i <= last && i < e->nr; i++) {
		if (e->state[i] != CHOSEN)
			continue;
		e->state[i] = BARRED;
		e->clear.plan->failed[e->clear.plan->nr_failed++] = i;
	}
	return e->bar_all;
}

/* False: some of what was chosen is barred now. */
static bool clear_chosen(struct emptying *e, bool bar_all)
{
	e->bar_all = bar_all;
	e->clear.nr_areas = 0;
	for (u32 i = 0; i < e->nr; i++)
		if (e->state[i] == CHOSEN)
			e->clear.area[e->clear.nr_areas++] =
				(struct kvmm_extent){ i << e->clear.req->order, e->size };
	return clear_areas(&e->clear, bar, e);
}

/*
 * Once the rounds are used up, nothing is chosen for what is barred then: less and less is placed,
 * with more and more room. Returns how many pageblocks are emptied by the plan.
 */
static u32 search(struct emptying *e, bool is_tight)
{
	e->is_tight = is_tight;
	for (u32 i = 0; i < e->nr; i++)
		e->state[i] = is_hinted(e, i) ? BARRED : OPEN;
	e->clear.plan->nr_failed = 0;
	for (u32 round = 0; round < 2 * MAX_ROUNDS; round++) {
		if (round < MAX_ROUNDS)
			choose_all(e);
		if (clear_chosen(e, round >= MAX_ROUNDS / 2))
			return e->clear.nr_areas;
	}
	plan_forget(e->clear.plan);
	return e->clear.nr_areas = 0;
}

/* How many bytes it takes. */
static size_t lay_out_pageblocks(struct emptying *e, const struct kv_plan_req *req, char *base)
{
	size_t bytes = kv_align_up(sizeof(*e), 8), nr = kv_nr_pageblocks(req);

	*e = (struct emptying){ .size = BIT(req->order), .nr = nr };
	lay_out_areas(&e->clear, req, nr, base, &bytes);
	/* A pageblock that is chosen has at most two others put there again. */
	e->heap = (struct kv_cheapest){
		.price_of = price_of, .arg = e, .max = 3 * nr,
		.heap = scratch_take(base, &bytes, 3 * nr, sizeof(struct kv_group)),
	};
	e->state = scratch_take(base, &bytes, nr, sizeof(*e->state));
	e->goes = scratch_take(base, &bytes, req->nr_items, sizeof(*e->goes));
	return bytes;
}

size_t plan_pageblocks_scratch(const struct kv_plan_req *req)
{
	return lay_out_pageblocks(&(struct emptying){ 0 }, req, NULL);
}

/* If the cheapest pageblocks are not enough, those that take the fewest places may be. */
int plan_pageblocks(const struct kv_plan_req *req, struct kv_plan *plan, void *scratch)
{
	struct emptying *e = scratch;
	u32 nr;

	if (!req->want)
		return -EALREADY;
	if (req->want > kv_nr_pageblocks(req) || plan->max_pageblocks < kv_nr_pageblocks(req))
		return -ENOSPC;
	lay_out_pageblocks(e, req, scratch);
	e->clear.plan = plan;
	nr = search(e, false);
	if (nr < req->want && search(e, true) <= nr)
		search(e, false);
	nr = e->clear.nr_areas;
	for (u32 i = 0; i < nr; i++)
		plan->pageblocks[plan->nr_pageblocks++] = e->clear.area[i].start >> req->order;
	if (nr == req->want)
		return plan->nr_moves || plan->nr_drops ? 0 : -EALREADY;
	return plan->nr_moves || plan->nr_drops ? -EAGAIN : -ENOSPC;
}
