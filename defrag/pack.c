// SPDX-License-Identifier: Apache-2.0
/*
 * Packing: as much as can be free in as few runs as can be, or so much in so many.
 *
 * A *stretch* is the space between two items that cannot move. If each stretch is packed for itself
 * its free blocks come to lie behind its items, a run of half a stretch in a zone that is half
 * full. So items are carried over the pins first: from the longest stretches, last item first, to
 * holes of the shortest. Then the rest slides down within its stretch.
 *
 * Where so much is wanted in so many runs it is from stretches with the most free blocks to those
 * with the fewest, and no more of them are emptied than that takes. Nothing slides in others than
 * those that will be free. What sliding alone makes is always found.
 *
 * Items of many sizes may not fit where they should, so carrying may take more from one run than it
 * adds to another, and leaves some in front of what was carried. Then there are other ways.
 */
#include <string.h>

#include "goal.h"

/* Holes of which the tree knows no more than the most room. */
#define GROUP		8u

/* Ways to pack, the cheapest first. */
enum way {
	TO_HOLES,	/* what is carried goes to holes as they are */
	TO_STRETCHES,	/* what lies where something is carried slides first: it is one hole */
	LAST_WAY,	/* the same, by length; if nothing is wanted, nothing is carried */
};

struct packing {
	const struct kv_plan_req *req;
	struct kv_plan *plan;
	enum way way;
	u64 *stretch;		/* length or free blocks | first item; least first */
	u64 *free;		/* of each of them, in the same order */
	u32 nr_stretches;
	u32 longest;		/* run, if all just slides; with a budget: that there is already */
	u64 most[KVMM_MAX_RUNS];	/* free blocks | stretch: the best ones */
	u32 sum;		/* of runs that were made there */
	u64 *hole;		/* stretch | hole, in this order */
	u32 nr_holes;
	u32 *room;		/* left in each of them */
	u32 *most_room;		/* of groups of them, from nr_groups on, and of pairs of pairs */
	u32 nr_groups;		/* a power of two */
	u32 *used;		/* of each hole of the picture, from its lower end */
	bool *gone;		/* items that have been given their place */
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
	bool by_free = req->runs && p->way != LAST_WAY;

	p->nr_stretches = 0;
	for (u32 first = 0, end; first <= req->nr_items; first = end + 1) {
		u32 nr_free = 0, length;

		end = stretch_end(req, first);
		length = hole_end(req, end) - hole_start(req, first);
		for (u32 i = first; i <= end; i++) {
			nr_free += hole_nr(req, i);
			p->longest = max(p->longest, req->max_blocks ? hole_nr(req, i) : nr_free);
		}
		p->stretch[p->nr_stretches++] = (u64)(by_free ? nr_free : length) << 32 | first;
	}
	plan_sort(p->stretch, p->free, p->nr_stretches);
}

/* ---- the first hole with room ---- */

static void set_most_room(struct packing *p, u32 group)
{
	u32 most = 0, end = min((group + 1) * GROUP, p->nr_holes);

	kv_assert(group < p->nr_groups);
	for (u32 k = group * GROUP; k < end; k++)
		most = max(most, p->room[k]);
	for (u32 at = group + p->nr_groups; at && p->most_room[at] != most; at /= 2) {
		p->most_room[at] = most;
		most = max(most, p->most_room[at ^ 1]);
	}
}

static void set_room(struct packing *p, u32 k, u32 nr)
{
	p->room[k] = nr;
	set_most_room(p, k / GROUP);
}

/* The number of holes: none has. */
static u32 first_with_room(const struct packing *p, u32 nr)
{
	u32 at = 1, k;

	if (p->most_room[1] < nr)
		return p->nr_holes;
	while (at < p->nr_groups) {
		at *= 2;
		at += p->most_room[at] < nr;
	}
	for (k = (at - p->nr_groups) * GROUP; p->room[k] < nr; k++)
		kv_assert(k < p->nr_holes);
	return k;
}

static void add_hole(struct packing *p, u32 s, u32 i, u32 nr)
{
	if (!nr)
		return;
	p->room[p->nr_holes] = nr;
	p->hole[p->nr_holes++] = (u64)s << 32 | i;
}

static void list_holes(struct packing *p)
{
	p->nr_holes = 0;
	for (u32 s = 0; s < p->nr_stretches; s++) {
		u32 first = (u32)p->stretch[s], end = stretch_end(p->req, first);

		p->free[s] = 0;
		for (u32 i = first; i <= end; i++) {
			p->free[s] += hole_nr(p->req, i);
			if (p->way == TO_HOLES)
				add_hole(p, s, i, hole_nr(p->req, i));
		}
		if (p->way != TO_HOLES)
			add_hole(p, s, first, p->free[s]);
	}
	for (p->nr_groups = 1; p->nr_groups * GROUP < p->nr_holes; p->nr_groups *= 2)
		;
	memset(p->most_room, 0, 2 * p->nr_groups * sizeof(*p->most_room));
	for (u32 group = 0; group < p->nr_groups; group++)
		set_most_room(p, group);
}

/* ---- carrying ---- */

/* The stretches with the most free blocks: so many as runs are wanted. Is it enough there? */
static bool is_enough(struct packing *p)
{
	u64 sum = 0;

	memset(p->most, 0, sizeof(p->most));
	for (u32 s = 0; s < p->nr_stretches; s++) {
		u64 word = p->free[s] << 32 | s;

		for (u32 r = 0; r < p->req->runs; r++) {
			u64 more = max(p->most[r], word);

			word = min(p->most[r], word);
			p->most[r] = more;
		}
	}
	for (u32 r = 0; r < p->req->runs; r++)
		sum += p->most[r] >> 32;
	return p->req->runs && sum >= p->req->want;
}

/* False: over budget, and nothing may be carried there. */
static bool slide_to_front(struct packing *p, u32 first)
{
	const struct kv_plan_req *req = p->req;

	for (u32 i = first, end = stretch_end(req, first); i < end; i++) {
		const struct kv_item *item = &req->items[i];

		if (!plan_add(req, p->plan, item->start, hole_start(req, first) + p->used[first],
			      item->nr))
			return false;
		p->used[first] += item->nr;
		p->gone[i] = true;
	}
	return true;
}

/* To the first hole with room, if it is one of the first @limit; false also if over budget. */
static bool carry(struct packing *p, u32 i, u32 limit)
{
	const struct kv_item *item = &p->req->items[i];
	u32 k = first_with_room(p, item->nr), hole;

	kv_assert(limit <= p->nr_holes);
	if (k >= limit)
		return false;
	hole = (u32)p->hole[k];
	if (p->way != TO_HOLES && !p->used[hole] && !slide_to_front(p, hole)) {
		set_room(p, k, 0);
		return false;
	}
	if (!plan_add(p->req, p->plan, item->start, hole_start(p->req, hole) + p->used[hole],
		      item->nr))
		return false;
	p->used[hole] += item->nr;
	set_room(p, k, p->room[k] - item->nr);
	p->free[p->hole[k] >> 32] -= item->nr;
	p->gone[i] = true;
	return true;
}

/* To shorter stretches only, and none from where something has been carried to. */
static void carry_over_pins(struct packing *p)
{
	u32 limit = p->nr_holes, nr = 0;

	for (u32 s = p->nr_stretches; s--; nr++) {
		u32 first = (u32)p->stretch[s];
		bool got = false;

		/* To find out is dear: each time that twice as many have been emptied. */
		if (!(nr & (nr - 1)) && is_enough(p))
			return;
		for (; limit && p->hole[limit - 1] >> 32 == s; limit--)
			got |= p->used[(u32)p->hole[limit - 1]] > 0;
		for (u32 i = stretch_end(p->req, first); !got && i-- > first;)
			if (carry(p, i, limit))
				p->free[s] += p->req->items[i].nr;
	}
	is_enough(p);
}

static void note_gap(struct packing *p, u32 start, u32 end, u32 *longest)
{
	u32 nr = end - start;

	kv_assert(start <= end);
	*longest = max(*longest, nr);
	if (nr > p->plan->gap.nr)
		p->plan->gap = (struct kvmm_extent){ start, nr };
}

/* All items that were not carried away, up to those carried there. The longest run is counted. */
static void slide_down(struct packing *p, u32 first)
{
	const struct kv_plan_req *req = p->req;
	const struct kv_item *item;
	u32 dst = hole_start(req, first), end = stretch_end(req, first), longest = 0;

	for (u32 i = first; i <= end; i++) {
		if (p->used[i]) {
			note_gap(p, dst, hole_start(req, i), &longest);
			dst = hole_start(req, i) + p->used[i];
		}
		if (i == end || p->gone[i])
			continue;
		item = &req->items[i];
		if (!plan_add(req, p->plan, item->start, dst, item->nr)) {	/* over budget */
			note_gap(p, dst, item->start, &longest);
			dst = item->start;
		}
		dst += item->nr;
	}
	note_gap(p, dst, hole_end(req, end), &longest);
	p->sum += longest;
}

/* False: what is wanted would not be there, or less than if all just slid. */
static bool pack(struct packing *p)
{
	const struct kv_plan_req *req = p->req;

	kv_assert(req->runs <= KVMM_MAX_RUNS);
	memset(p->used, 0, (req->nr_items + 1) * sizeof(*p->used));
	memset(p->gone, 0, req->nr_items * sizeof(*p->gone));
	p->plan->nr_moves = p->plan->nr_blocks = p->sum = 0;
	p->plan->gap = (struct kvmm_extent){ 0 };
	find_stretches(p);
	list_holes(p);
	if (req->runs || p->way != LAST_WAY)
		carry_over_pins(p);
	for (u32 r = 0; r < min(req->runs, p->nr_stretches); r++)
		slide_down(p, (u32)p->stretch[(u32)p->most[r]]);
	for (u32 i = 0; !req->runs && i <= req->nr_items; i = stretch_end(req, i) + 1)
		slide_down(p, i);
	return req->runs ? p->sum >= req->want :
			   p->way == LAST_WAY || p->plan->gap.nr >= p->longest;
}

size_t plan_pack_scratch(u32 nr_items)
{
	/* Fewer than twice as many groups as there have to be, and one less above them. */
	return ((size_t)nr_items + 1) * (3 * sizeof(u64) + 2 * sizeof(u32) + sizeof(bool)) +
	       4 * (nr_items / GROUP + 1) * sizeof(u32);
}

int plan_pack(const struct kv_plan_req *req, struct kv_plan *plan, void *scratch)
{
	size_t nr = (size_t)req->nr_items + 1;
	struct packing p = { .req = req, .plan = plan, .stretch = scratch };

	p.free = p.stretch + nr;
	p.hole = p.free + nr;
	p.room = (u32 *)(p.hole + nr);
	p.used = p.room + nr;
	p.most_room = p.used + nr;
	p.gone = (bool *)(p.most_room + 4 * (req->nr_items / GROUP + 1));
	while (!pack(&p))
		if (p.way++ == LAST_WAY)
			return -ENOSPC;
	return plan->nr_moves ? 0 : -EALREADY;
}
