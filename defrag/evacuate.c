// SPDX-License-Identifier: Apache-2.0
/*
 * A run by clearing one window altogether, of which each item is copied or lost.
 *
 * The window planner weighs copies in blocks, and knows no other way. Where cached blocks may be lost,
 * the cheapest window by price can be another one, and the cheapest ones are tried, in the order of
 * their price, until what is not lost has a place outside. A window begins behind an item, or ends
 * before one: no other is cheaper than both.
 */
#include "clear.h"

#define MAX_WINDOWS	64u

/* Holes that are put into bins for all of them together: about 10 ms. */
#define MAX_HOLES	BIT(20)

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

static void find_rows(struct evacuation *e)
{
	const struct kv_plan_req *req = e->clear.req;
	struct kv_window from = { .item = clear_item, .arg = req, .nr_items = req->nr_items,
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
static size_t lay_out(struct evacuation *e, const struct kv_plan_req *req, char *base)
{
	size_t bytes = kv_align_up(sizeof(*e), 8);

	e->nr_rows = 0;
	e->clear.nr_areas = 1;
	clear_lay_out(&e->clear, req, 1, base, &bytes);
	return bytes;
}

size_t plan_evacuate_scratch(const struct kv_plan_req *req)
{
	struct evacuation e;

	return lay_out(&e, req, NULL);
}

int plan_evacuate(const struct kv_plan_req *req, struct kv_plan *plan, u64 below, void *scratch)
{
	u32 max_rows = max(MAX_HOLES / (req->nr_items + 1), 4u);
	struct evacuation *e = scratch;

	lay_out(e, req, scratch);
	e->clear.plan = plan;
	e->below = below;
	find_rows(e);
	for (u32 i = 0; i < e->nr_rows && i < max_rows; i++)
		if (try_row(e, &e->row[i]))
			return 0;
	plan_forget(plan);
	return -ENOSPC;
}
