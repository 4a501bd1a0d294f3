// SPDX-License-Identifier: Apache-2.0
/*
 * Packing: as much as can be free in as few runs as can be.
 *
 * A *stretch* is the space between two items that cannot move. If each stretch is packed for itself
 * its free blocks come to lie behind its items, a run of half a stretch in a zone that is half
 * full. So items are carried over the pins first: from the longest stretches, last item first, to
 * holes of the shortest. Then the rest slides down within its stretch.
 *
 * Items of many sizes may not fit where they should, so carrying may take more from one run than it
 * adds to another. A plan is not made if its longest run is shorter than the one that sliding alone
 * makes.
 */
#include <string.h>

#include "goal.h"

/* Holes looked at for one item, from the first that has room on. */
#define MAX_LOOKED	512u

struct packing {
	const struct kv_plan_req *req;
	struct kv_plan *plan;
	u64 *stretch;		/* length | first item; shortest first */
	u64 *spare;
	u32 nr_stretches;
	u32 longest;		/* run, if all just slides; with a budget: that there is already */
	u32 *hole;		/* those of the stretches, in their order */
	u32 nr_holes;
	u32 from;		/* the first one that is not full */
	u32 top;		/* behind the last one that got something */
	u32 *used;		/* of each hole of the picture, from its lower end */
	bool *gone;		/* items that were carried away */
};

/* The item that ends the stretch, or how many there are. */
static u32 stretch_end(const struct kv_plan_req *req, u32 first)
{
	kv_assert(first <= req->nr_items);
	while (first < req->nr_items && req->items[first].movable)
		first++;
	return first;
}

static void find_stretches(struct packing *p)
{
	const struct kv_plan_req *req = p->req;

	for (u32 first = 0, end; first <= req->nr_items; first = end + 1) {
		u32 nr_free = 0;

		end = stretch_end(req, first);
		for (u32 i = first; i <= end; i++) {
			nr_free = req->max_blocks ? hole_nr(req, i) : nr_free + hole_nr(req, i);
			p->longest = max(p->longest, nr_free);
		}
		p->stretch[p->nr_stretches++] =
			(u64)(hole_end(req, end) - hole_start(req, first)) << 32 | first;
	}
	plan_sort(p->stretch, p->spare, p->nr_stretches);
	for (u32 s = 0; s < p->nr_stretches; s++) {
		u32 first = (u32)p->stretch[s], end = stretch_end(req, first);

		for (u32 i = first; i <= end; i++)
			if (hole_nr(req, i))
				p->hole[p->nr_holes++] = i;
	}
}

static u32 room_in(const struct packing *p, u32 hole)
{
	kv_assert(p->used[hole] <= hole_nr(p->req, hole));
	return hole_nr(p->req, hole) - p->used[hole];
}

/* To one of the first @limit holes; false: none that was looked at has room, or over budget. */
static bool carry(struct packing *p, u32 i, u32 limit)
{
	const struct kv_item *item = &p->req->items[i];

	kv_assert(limit <= p->nr_holes);
	kv_assert(i < p->req->nr_items);
	while (p->from < limit && !room_in(p, p->hole[p->from]))
		p->from++;
	for (u32 k = p->from; k < limit && k - p->from < MAX_LOOKED; k++) {
		u32 hole = p->hole[k];

		if (room_in(p, hole) < item->nr)
			continue;
		if (!plan_add(p->req, p->plan, item->start,
			      hole_start(p->req, hole) + p->used[hole], item->nr))
			return false;
		p->used[hole] += item->nr;
		p->gone[i] = true;
		p->top = max(p->top, k + 1);
		return true;
	}
	return false;
}

static void carry_over_pins(struct packing *p)
{
	u32 limit = p->nr_holes;

	for (u32 s = p->nr_stretches; s-- > 1;) {
		u32 first = (u32)p->stretch[s], end = stretch_end(p->req, first);

		for (u32 i = first; i <= end; i++)
			limit -= !!hole_nr(p->req, i);
		if (p->top > limit)	/* it has got something itself */
			return;
		while (end-- > first && carry(p, end, limit))
			;
	}
}

static void note_gap(struct kv_plan *plan, u32 start, u32 end)
{
	kv_assert(start <= end);
	if (end - start > plan->gap.nr)
		plan->gap = (struct kvmm_extent){ start, end - start };
}

/* All items that were not carried away, up to those carried there. */
static void slide_down(struct packing *p)
{
	const struct kv_plan_req *req = p->req;
	const struct kv_item *item;
	u32 dst = 0;

	for (u32 i = 0; i <= req->nr_items; i++) {
		if (p->used[i]) {
			note_gap(p->plan, dst, hole_start(req, i));
			dst = hole_start(req, i) + p->used[i];
		}
		if (i == req->nr_items || p->gone[i])
			continue;
		/* Down to @dst, unless it cannot move or is over budget. */
		item = &req->items[i];
		if (!item->movable || !plan_add(req, p->plan, item->start, dst, item->nr)) {
			note_gap(p->plan, dst, item->start);
			dst = item->start;
		}
		dst += item->nr;
	}
	note_gap(p->plan, dst, req->nr_blocks);
}

static void forget(struct packing *p)
{
	memset(p->used, 0, (p->req->nr_items + 1) * sizeof(*p->used));
	memset(p->gone, 0, p->req->nr_items * sizeof(*p->gone));
	p->plan->nr_moves = p->plan->nr_blocks = 0;
	p->plan->gap = (struct kvmm_extent){ 0 };
}

size_t plan_pack_scratch(u32 nr_items)
{
	return ((size_t)nr_items + 1) * (2 * sizeof(u64) + 2 * sizeof(u32) + sizeof(bool));
}

int plan_pack(const struct kv_plan_req *req, struct kv_plan *plan, void *scratch)
{
	size_t nr = (size_t)req->nr_items + 1;
	struct packing p = { .req = req, .plan = plan, .stretch = scratch };

	p.spare = p.stretch + nr;
	p.hole = (u32 *)(p.spare + nr);
	p.used = p.hole + nr;
	p.gone = (bool *)(p.used + nr);
	forget(&p);
	find_stretches(&p);
	carry_over_pins(&p);
	slide_down(&p);
	if (plan->gap.nr < p.longest) {
		forget(&p);
		slide_down(&p);
	}
	return plan->nr_moves ? 0 : -EALREADY;
}
