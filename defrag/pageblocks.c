// SPDX-License-Identifier: Apache-2.0
/*
 * Empty so many pageblocks: aligned groups of 2^order blocks.
 *
 * The cheapest go first, as in garbage-first collectors: of who lies in one each is copied or lost,
 * whichever costs less. What makes it hard is that an item may lie in several: who moves it for the
 * sake of one has it moved for the others, too. So the price of a pageblock is divided by how many
 * are emptied by the same moves, and it falls when an item of it goes for another's sake: a heap
 * that is updated has the cheapest at its top.
 *
 * What goes has to be placed outside of all that were chosen, so places are only looked for when the
 * choice is made: the longest first, then those that could be lost, the dearest first. An item
 * that fits nowhere and must not be lost bars its pageblocks, and it is chosen anew. After a few
 * rounds what can be emptied without the last ones is the plan.
 */
#include <string.h>

#include "bins.h"
#include "goal.h"

#define MAX_ROUNDS	12u

/* What has been chosen is of the plan; what is barred, is not, whatever it would cost. */
enum state { OPEN, CHOSEN, BARRED };

struct emptying {
	const struct kv_plan_req *req;
	struct kv_plan *plan;
	u32 size;		/* blocks of one */
	u32 nr;			/* pageblocks */
	u32 left;		/* still to be chosen */
	bool is_tight;		/* places are dearer than anything */
	u64 nr_moving;		/* blocks of items that go, and would rather be copied */
	u64 nr_must;		/* of them: that must not be lost */
	u64 nr_room;		/* free blocks outside of what is chosen */

	struct bins *bins;
	u64 *order;		/* of items that are placed: key | item */
	u64 *spare;
	u64 *price;		/* by pageblock; a share, see price_of() */
	u32 *heap;		/* pageblocks, the cheapest at the top */
	u32 *at;		/* by pageblock: in the heap, or KV_NONE */
	u32 nr_heap;
	u8 *state;		/* by pageblock: enum state */
	bool *goes;		/* by item */
};

static u32 pageblock_of(const struct emptying *e, u32 block)
{
	return block >> e->req->order;
}

/* ---- the heap ---- */

/* Of equal ones the last: what stays gathers at the bottom of the zone. */
static bool is_before(const struct emptying *e, u32 a, u32 b)
{
	return e->price[a] != e->price[b] ? e->price[a] < e->price[b] : a > b;
}

static void heap_set(struct emptying *e, u32 i, u32 pageblock)
{
	e->heap[i] = pageblock;
	e->at[pageblock] = i;
}

static void heap_up(struct emptying *e, u32 i)
{
	u32 moved = e->heap[i];

	for (; i && is_before(e, moved, e->heap[(i - 1) / 2]); i = (i - 1) / 2)
		heap_set(e, i, e->heap[(i - 1) / 2]);
	heap_set(e, i, moved);
}

static void heap_down(struct emptying *e, u32 i)
{
	u32 moved = e->heap[i], kid;

	for (; (kid = 2 * i + 1) < e->nr_heap; i = kid) {
		if (kid + 1 < e->nr_heap && is_before(e, e->heap[kid + 1], e->heap[kid]))
			kid++;
		if (!is_before(e, e->heap[kid], moved))
			break;
		heap_set(e, i, e->heap[kid]);
	}
	heap_set(e, i, moved);
}

static void heap_del(struct emptying *e, u32 pageblock)
{
	u32 i = e->at[pageblock], last;

	if (i == KV_NONE)
		return;
	e->at[pageblock] = KV_NONE;
	last = e->heap[--e->nr_heap];
	if (last == pageblock)
		return;
	heap_set(e, i, last);
	heap_up(e, i);
	heap_down(e, e->at[last]);
}

/* ---- what one costs ---- */

/* Items of one pageblock, and what else is empty once they are gone. */
struct tenants {
	u32 first, end;		/* items */
	u32 lo, hi;		/* pageblocks */
};

static struct tenants tenants_of(const struct emptying *e, u32 pageblock)
{
	const struct kv_plan_req *req = e->req;
	u32 start = pageblock << req->order, end = start + e->size;
	struct tenants t = { .first = item_after(req, start), .lo = pageblock, .hi = pageblock + 1 };

	for (t.end = t.first; t.end < req->nr_items && req->items[t.end].start < end; t.end++)
		;
	if (t.first == t.end)
		return t;
	/* They lie there and beyond; who else does? */
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
	u64 price = item_price(e->req, item);

	if (e->is_tight && price != NEVER && drop_price(e->req, item) == NEVER)
		price += item->nr * PLACE_NS;
	return price;
}

/* By each pageblock that is gained, in 16ths; NEVER: somebody has to stay. */
static u64 price_of(const struct emptying *e, u32 pageblock)
{
	struct tenants t = tenants_of(e, pageblock);
	u64 sum = 0;

	for (u32 i = t.first; i < t.end; i++) {
		u64 price = price_in_place(e, &e->req->items[i]);

		if (e->goes[i])
			continue;
		if (price == NEVER)
			return NEVER;
		sum += price;
	}
	return sum ? sum * 16 / max(nr_gained(e, &t), 1u) : 0;
}

static void reprice(struct emptying *e, u32 pageblock)
{
	if (e->at[pageblock] == KV_NONE)
		return;
	e->price[pageblock] = price_of(e, pageblock);
	heap_up(e, e->at[pageblock]);
	heap_down(e, e->at[pageblock]);
}

/* ---- choosing ---- */

static u32 nr_held(const struct emptying *e, u32 pageblock)
{
	u32 start = pageblock << e->req->order, end = start + e->size, nr = 0;

	for (u32 i = item_after(e->req, start); i < e->req->nr_items; i++) {
		const struct kv_item *item = &e->req->items[i];

		if (item->start >= end)
			break;
		nr += min(item_end(item), end) - max(item->start, start);
	}
	return nr;
}

static void choose(struct emptying *e, u32 pageblock)
{
	e->state[pageblock] = CHOSEN;
	e->nr_room -= e->size - nr_held(e, pageblock);
	e->left--;
	heap_del(e, pageblock);
}

struct need {
	u64 moving;
	u64 must;
};

static struct need need_of(const struct emptying *e, const struct tenants *t)
{
	struct need need = { e->nr_moving, e->nr_must };

	for (u32 i = t->first; i < t->end; i++) {
		const struct kv_item *item = &e->req->items[i];

		if (e->goes[i] || drop_is_cheaper(e->req, item))
			continue;
		need.moving += item->nr;
		need.must += drop_price(e->req, item) == NEVER ? item->nr : 0;
	}
	return need;
}

/* Is there a place for what must not be lost, and does the budget last? */
static bool is_affordable(const struct emptying *e, u32 pageblock, const struct need *need)
{
	u32 max_blocks = e->req->max_blocks;

	return need->must + e->size - nr_held(e, pageblock) <= e->nr_room &&
	       (!max_blocks || need->moving <= max_blocks);
}

static void choose_with(struct emptying *e, u32 pageblock)
{
	struct tenants t = tenants_of(e, pageblock);
	struct need need = need_of(e, &t);

	if (!is_affordable(e, pageblock, &need)) {
		heap_del(e, pageblock);
		return;
	}
	e->nr_moving = need.moving;
	e->nr_must = need.must;
	for (u32 i = t.first; i < t.end; i++)
		e->goes[i] = true;
	choose(e, pageblock);
	for (u32 i = t.lo; i < t.hi && e->left; i++)
		if (e->state[i] == OPEN && e->at[i] != KV_NONE &&
		    e->nr_must + e->size - nr_held(e, i) <= e->nr_room)
			choose(e, i);
	if (t.first == t.end)
		return;
	reprice(e, pageblock_of(e, e->req->items[t.first].start));
	if (item_end(&e->req->items[t.end - 1]) <= e->nr << e->req->order)
		reprice(e, pageblock_of(e, item_end(&e->req->items[t.end - 1]) - 1));
}

/* A price is never too high, but too low for what would empty more than is still wanted. */
static void choose_all(struct emptying *e)
{
	while (e->left && e->nr_heap) {
		u32 top = e->heap[0];
		u64 price = price_of(e, top);

		if (price == NEVER) {
			heap_del(e, top);
		} else if (price > e->price[top]) {
			e->price[top] = price;
			heap_down(e, 0);
		} else {
			choose_with(e, top);
		}
	}
}

/* ---- one round ---- */

static bool is_hinted(const struct emptying *e, u32 pageblock)
{
	const struct kv_hint *hint = e->req->hints ? &e->req->hints[pageblock] : NULL;

	return hint && hint->until > e->req->round && nr_held(e, pageblock) >= hint->held;
}

static u32 nr_free(const struct kv_plan_req *req)
{
	u32 nr = 0;

	for (u32 i = 0; i <= req->nr_items; i++)
		nr += hole_nr(req, i);
	return nr;
}

static void begin_round(struct emptying *e)
{
	e->left = e->req->want;
	e->nr_moving = e->nr_must = 0;
	e->nr_room = nr_free(e->req);
	e->nr_heap = 0;
	memset(e->goes, 0, e->req->nr_items * sizeof(*e->goes));
	for (u32 i = 0; i < e->nr; i++) {
		e->state[i] = e->state[i] == BARRED ? BARRED : OPEN;
		e->at[i] = KV_NONE;
	}
	for (u32 i = 0; i < e->nr; i++) {
		if (e->state[i] == BARRED)
			continue;
		e->price[i] = price_of(e, i);
		if (e->price[i] == NEVER)
			continue;
		heap_set(e, e->nr_heap, i);
		heap_up(e, e->nr_heap++);
	}
}

static bool is_chosen(const struct emptying *e, u32 pageblock)
{
	return pageblock < e->nr && e->state[pageblock] == CHOSEN;
}

/* What of a hole lies outside; the last part first, so that the lowest is taken first. */
static void add_hole(struct emptying *e, u32 start, u32 end)
{
	for (u32 at = end; at > start;) {
		u32 pageblock = pageblock_of(e, at - 1), from = max(pageblock << e->req->order, start);

		if (is_chosen(e, pageblock)) {
			if (end > at)
				bins_add(e->bins, at, end - at);
			end = from;
		}
		at = from;
	}
	if (end > start)
		bins_add(e->bins, start, end - start);
}

static void add_holes(struct emptying *e, struct bin_hole *room)
{
	bins_init(e->bins, room);
	for (u32 i = e->req->nr_items + 1; i-- > 0;)
		add_hole(e, hole_start(e->req, i), hole_end(e->req, i));
}

/* Is it in what is chosen? */
static bool is_in_the_way(const struct emptying *e, const struct kv_item *item)
{
	u32 last = pageblock_of(e, item_end(item) - 1);

	for (u32 i = pageblock_of(e, item->start); i <= last; i++)
		if (is_chosen(e, i))
			return true;
	return false;
}

/* First what must not be lost, the longest first; then the dearest. Returns how many. */
static u32 line_up(struct emptying *e)
{
	u32 nr = 0;

	for (u32 i = 0; i < e->req->nr_items; i++) {
		const struct kv_item *item = &e->req->items[i];
		u64 drop = drop_price(e->req, item);
		u32 rank;

		if (!e->goes[i] || !is_in_the_way(e, item))
			continue;
		if (drop_is_cheaper(e->req, item)) {
			plan_drop(e->req, e->plan, item);
			continue;
		}
		rank = drop == NEVER ? BIT(31) | item->nr : min(drop, (u64)BIT(31) - 1);
		e->order[nr++] = (u64)~rank << 32 | i;
	}
	plan_sort(e->order, e->spare, nr);
	return nr;
}

static void bar(struct emptying *e, const struct kv_item *item)
{
	u32 last = pageblock_of(e, item_end(item) - 1);

	for (u32 i = pageblock_of(e, item->start); i <= last; i++) {
		if (!is_chosen(e, i))
			continue;
		e->state[i] = BARRED;
		e->plan->failed[e->plan->nr_failed++] = i;
	}
}

/* False: something fits nowhere, and its pageblocks are barred now; of the first, or of @all. */
static bool place_all(struct emptying *e, struct bin_hole *room, bool all)
{
	u32 nr, nr_failed = 0;

	plan_forget(e->plan);
	add_holes(e, room);
	nr = line_up(e);
	for (u32 k = 0; k < nr && (all || !nr_failed); k++) {
		const struct kv_item *item = &e->req->items[(u32)e->order[k]];

		if (plan_place(e->req, e->plan, e->bins, item))
			continue;
		bar(e, item);
		nr_failed++;
	}
	return !nr_failed;
}

/* ---- the plan ---- */

static int report(struct emptying *e)
{
	struct kv_plan *plan = e->plan;

	for (u32 i = 0; i < e->nr; i++)
		if (e->state[i] == CHOSEN)
			plan->pageblocks[plan->nr_pageblocks++] = i;
	if (plan->nr_pageblocks == e->req->want)
		return plan->nr_moves || plan->nr_drops ? 0 : -EALREADY;
	return plan->nr_moves || plan->nr_drops ? -EAGAIN : -ENOSPC;
}

static void give_up(struct emptying *e)
{
	plan_forget(e->plan);
	for (u32 i = 0; i < e->nr; i++)
		e->state[i] = BARRED;
}

/*
 * Once the rounds are used up, nothing is chosen for what is barred then: less and less is placed,
 * with more and more room.
 */
static void search(struct emptying *e, struct bin_hole *room)
{
	u32 round;

	for (u32 i = 0; i < e->nr; i++)
		e->state[i] = is_hinted(e, i) ? BARRED : OPEN;
	e->plan->nr_failed = 0;
	for (round = 0; round < MAX_ROUNDS; round++) {
		begin_round(e);
		choose_all(e);
		if (place_all(e, room, round >= MAX_ROUNDS / 2))
			return;
	}
	for (round = 0; round < MAX_ROUNDS; round++)
		if (place_all(e, room, true))
			return;
	give_up(e);
}

static u32 nr_chosen(const struct emptying *e)
{
	u32 nr = 0;

	for (u32 i = 0; i < e->nr; i++)
		nr += e->state[i] == CHOSEN;
	return nr;
}

/* If the cheapest ones are not enough, those that take the fewest places may be. */
static void search_both(struct emptying *e, struct bin_hole *room)
{
	u32 nr;

	search(e, room);
	nr = nr_chosen(e);
	if (nr == e->req->want)
		return;
	e->is_tight = true;
	search(e, room);
	if (nr_chosen(e) > nr)
		return;
	e->is_tight = false;
	search(e, room);
}

struct layout {
	size_t bins, room, order, spare, price, heap, at, state, goes, bytes;
};

/* A hole is cut by each pageblock at most once. */
static struct layout layout_of(const struct kv_plan_req *req)
{
	u32 nr = kv_nr_pageblocks(req);
	struct layout l = { .bytes = kv_align_up(sizeof(struct emptying), 8) };

	l.bins = scratch_part(&l.bytes, 1, sizeof(struct bins));
	l.room = scratch_part(&l.bytes, (size_t)req->nr_items + nr + 2, sizeof(struct bin_hole));
	l.order = scratch_part(&l.bytes, req->nr_items, sizeof(u64));
	l.spare = scratch_part(&l.bytes, req->nr_items, sizeof(u64));
	l.price = scratch_part(&l.bytes, nr, sizeof(u64));
	l.heap = scratch_part(&l.bytes, nr, sizeof(u32));
	l.at = scratch_part(&l.bytes, nr, sizeof(u32));
	l.state = scratch_part(&l.bytes, nr, sizeof(u8));
	l.goes = scratch_part(&l.bytes, req->nr_items, sizeof(bool));
	return l;
}

size_t plan_pageblocks_scratch(const struct kv_plan_req *req)
{
	return layout_of(req).bytes;
}

int plan_pageblocks(const struct kv_plan_req *req, struct kv_plan *plan, void *scratch)
{
	struct layout l = layout_of(req);
	struct emptying *e = scratch;
	char *base = scratch;

	if (!req->want)
		return -EALREADY;
	if (req->want > kv_nr_pageblocks(req) || plan->max_pageblocks < kv_nr_pageblocks(req))
		return -ENOSPC;
	*e = (struct emptying){
		.req = req, .plan = plan, .size = BIT(req->order), .nr = kv_nr_pageblocks(req),
		.bins = (void *)(base + l.bins), .order = (void *)(base + l.order),
		.spare = (void *)(base + l.spare), .price = (void *)(base + l.price),
		.heap = (void *)(base + l.heap), .at = (void *)(base + l.at),
		.state = (void *)(base + l.state), .goes = (void *)(base + l.goes),
	};
	search_both(e, (void *)(base + l.room));
	return report(e);
}
