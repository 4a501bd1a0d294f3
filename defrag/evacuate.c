// SPDX-License-Identifier: Apache-2.0
/*
 * A run by clearing one window altogether, of which each item is copied or lost.
 *
 * The window planner weighs copies in blocks, and knows no other way. Where cached blocks may be lost,
 * the cheapest window by price can be another one, and the cheapest ones are tried, in the order of
 * their price, until what is not lost has a place outside. A window begins behind an item, or ends
 * before one: no other is cheaper than both.
 */
#include "bins.h"
#include "goal.h"

#define MAX_WINDOWS	64u

/* Holes that are put into bins for all of them together: about 10 ms. */
#define MAX_HOLES	BIT(20)

struct row {
	u32 start;		/* of the run that is made */
	u32 first, end;		/* items that have to go */
	u64 price;
};

struct evacuation {
	const struct kv_plan_req *req;
	struct kv_plan *plan;
	u64 below;		/* what costs as much or more is of no use */
	struct row row[MAX_WINDOWS];	/* the cheapest first */
	u32 nr_rows;
	struct bins *bins;
	u64 *order;
	u64 *spare;
};

static void keep(struct evacuation *e, const struct row *row)
{
	u32 i;

	if (row->price >= e->below)
		return;
	if (e->nr_rows == MAX_WINDOWS && row->price >= e->row[MAX_WINDOWS - 1].price)
		return;
	i = min(e->nr_rows, MAX_WINDOWS - 1);
	for (; i && e->row[i - 1].price > row->price; i--)
		e->row[i] = e->row[i - 1];
	e->row[i] = *row;
	e->nr_rows = min(e->nr_rows + 1, MAX_WINDOWS);
}

/* Prices of items first..end - 1; an item that stays is in none. */
struct slider {
	u32 first, end;
	u32 nr_walls;
	u64 sum;
};

static void count_in(const struct evacuation *e, struct slider *s, u32 i, bool in)
{
	u64 price = item_price(e->req, &e->req->items[i]);

	if (price == NEVER)
		s->nr_walls += in ? 1 : -1;
	else
		s->sum += in ? price : -price;
}

/* The window [start, start + want), which is behind all that were looked at. */
static void slide_to(struct evacuation *e, struct slider *s, u32 start)
{
	const struct kv_plan_req *req = e->req;
	u32 end = start + req->want;
	struct row row;

	while (s->end < req->nr_items && req->items[s->end].start < end)
		count_in(e, s, s->end++, true);
	while (s->first < s->end && item_end(&req->items[s->first]) <= start)
		count_in(e, s, s->first++, false);
	row = (struct row){ start, s->first, s->end, s->sum };
	if (!s->nr_walls)
		keep(e, &row);
}

static void find_rows(struct evacuation *e)
{
	const struct kv_plan_req *req = e->req;
	struct slider from = { 0 }, upto = { 0 };

	for (u32 i = 0; i <= req->nr_items; i++) {
		u32 start = hole_start(req, i), end = hole_end(req, i);

		if (req->nr_blocks - start >= req->want)
			slide_to(e, &from, start);
		if (end >= req->want)
			slide_to(e, &upto, end - req->want);
	}
}

/* ---- trying one ---- */

/* The longest first. */
static u32 line_up(struct evacuation *e, const struct row *row)
{
	u32 nr = 0;

	for (u32 i = row->first; i < row->end; i++) {
		const struct kv_item *item = &e->req->items[i];

		if (drop_is_cheaper(e->req, item))
			plan_drop(e->req, e->plan, item);
		else
			e->order[nr++] = (u64)~item->nr << 32 | i;
	}
	plan_sort(e->order, e->spare, nr);
	return nr;
}

/* Holes about the window are cut where it ends. */
static void skip_window(struct evacuation *e, const struct row *row)
{
	u32 lo = hole_start(e->req, row->first), lo_end = min(row->start, hole_end(e->req, row->first));
	u32 hi_end = hole_end(e->req, row->end);
	u32 hi = max(row->start + e->req->want, hole_start(e->req, row->end));

	e->bins->skip_first = row->first;
	e->bins->skip_end = row->end + 1;
	if (lo_end > lo)
		bins_add(e->bins, lo, lo_end - lo);
	if (hi_end > hi)
		bins_add(e->bins, hi, hi_end - hi);
}

static bool try_row(struct evacuation *e, const struct row *row)
{
	u32 nr = line_up(e, row), max_blocks = e->req->max_blocks;

	skip_window(e, row);
	for (u32 k = 0; k < nr; k++) {
		if (!plan_place(e->req, e->plan, e->bins, &e->req->items[(u32)e->order[k]]))
			return false;
	}
	return e->plan->cost_ns < e->below &&
	       (!max_blocks || e->plan->nr_blocks <= max_blocks);
}

static void add_holes(struct evacuation *e, struct bin_hole *room)
{
	bins_init(e->bins, room);
	for (u32 i = 0; i <= e->req->nr_items; i++)
		bins_add(e->bins, hole_start(e->req, i), hole_nr(e->req, i));
}

/* Most plans are of the first row; what a failed one took is put back by beginning anew. */
static int try_rows(struct evacuation *e, struct bin_hole *room)
{
	u32 max_rows = max(MAX_HOLES / (e->req->nr_items + 1), 4u);

	for (u32 i = 0; i < e->nr_rows && i < max_rows; i++) {
		add_holes(e, room);
		plan_forget(e->plan);
		if (!try_row(e, &e->row[i]))
			continue;
		e->plan->gap = (struct kvmm_extent){ e->row[i].start, e->req->want };
		return 0;
	}
	plan_forget(e->plan);
	return -ENOSPC;
}

struct layout {
	size_t bins, room, order, spare, bytes;
};

static struct layout layout_of(const struct kv_plan_req *req)
{
	struct layout l = { .bytes = kv_align_up(sizeof(struct evacuation), 8) };

	l.bins = scratch_part(&l.bytes, 1, sizeof(struct bins));
	l.room = scratch_part(&l.bytes, (size_t)req->nr_items + 3, sizeof(struct bin_hole));
	l.order = scratch_part(&l.bytes, req->nr_items, sizeof(u64));
	l.spare = scratch_part(&l.bytes, req->nr_items, sizeof(u64));
	return l;
}

size_t plan_evacuate_scratch(const struct kv_plan_req *req)
{
	return layout_of(req).bytes;
}

int plan_evacuate(const struct kv_plan_req *req, struct kv_plan *plan, u64 below, void *scratch)
{
	struct layout l = layout_of(req);
	struct evacuation *e = scratch;
	char *base = scratch;

	e->req = req;
	e->plan = plan;
	e->below = below;
	e->nr_rows = 0;
	e->bins = (void *)(base + l.bins);
	e->order = (void *)(base + l.order);
	e->spare = (void *)(base + l.spare);
	find_rows(e);
	return try_rows(e, (void *)(base + l.room));
}
