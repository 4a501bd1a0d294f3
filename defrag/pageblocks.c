// SPDX-License-Identifier: Apache-2.0
/*
 * Empty so many pageblocks: aligned groups of 2^order blocks.
 *
 * The cheapest go first; each item in one is copied or lost, whichever costs less. What makes it hard
 * is that an item may lie in several pageblocks: if it moves for the sake of one, it has moved for the
 * others, too. So the price of a pageblock is divided by how many are emptied by the same moves, and
 * it falls when an item of it goes for another's sake.
 *
 * What goes has to be placed outside of all that were chosen, so places are only looked for when the
 * choice is made. An item that fits nowhere and must not be lost bars its pageblocks, and it is
 * chosen anew. After a few rounds what can be emptied without the last ones is the plan.
 */
#include <string.h>

#include "clear.h"

#define MAX_ROUNDS	12u

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

/* ---- what one costs ---- */

/* Items of one pageblock, and what else is empty once they are gone. */
struct tenants {
	u32 first, end;		/* items */
	u32 lo, hi;		/* pageblocks */
};

static struct tenants tenants_of(const struct emptying *e, u32 pageblock)
{
	const struct kv_plan_req *req = e->clear.req;
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
	u64 price = item_price(e->clear.req, item);

	if (e->is_tight && price != KV_STAYS && drop_price(e->clear.req, item) == KV_STAYS)
		price += item->nr * PLACE_NS;
	return price;
}

/* By each pageblock that is gained, in 16ths; KV_STAYS: somebody has to stay. */
static u64 price_of(void *arg, u32 pageblock)
{
	const struct emptying *e = arg;
	struct tenants t = tenants_of(e, pageblock);
	u64 sum = 0;

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

/* ---- choosing ---- */

static u32 nr_held(const struct emptying *e, u32 pageblock)
{
	u32 start = pageblock << e->clear.req->order, end = start + e->size, nr = 0;

	for (u32 i = item_after(e->clear.req, start); i < e->clear.req->nr_items; i++) {
		const struct kv_item *item = &e->clear.req->items[i];

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
	kv_cheapest_del(&e->heap, pageblock);
}

/* Is there a place outside for @nr_must blocks if what is free in the pageblock is no place? */
static bool has_room(const struct emptying *e, u32 pageblock, u64 nr_must)
{
	return nr_must + e->size - nr_held(e, pageblock) <= e->nr_room;
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
		if (e->heap.at[i] != KV_NONE && has_room(e, i, must))
			choose(e, i);
	if (t.first == t.end)
		return;
	kv_cheapest_reprice(&e->heap, pageblock_of(e, req->items[t.first].start));
	if (item_end(&req->items[t.end - 1]) <= e->nr << req->order)
		kv_cheapest_reprice(&e->heap, pageblock_of(e, item_end(&req->items[t.end - 1]) - 1));
}

/* ---- one round ---- */

static bool is_hinted(const struct emptying *e, u32 pageblock)
{
	const struct kv_hint *hint = e->clear.req->hints ? &e->clear.req->hints[pageblock] : NULL;

	return hint && hint->until > e->clear.req->round && nr_held(e, pageblock) >= hint->held;
}

static u32 nr_free(const struct kv_plan_req *req)
{
	u32 nr = 0;

	for (u32 i = 0; i <= req->nr_items; i++)
		nr += hole_nr(req, i);
	return nr;
}

/* A price is never too high, but too low for what would empty more than is still wanted. */
static void choose_all(struct emptying *e)
{
	u32 pageblock;

	e->left = e->clear.req->want;
	e->nr_moving = e->nr_must = 0;
	e->nr_room = nr_free(e->clear.req);
	memset(e->goes, 0, e->clear.req->nr_items * sizeof(*e->goes));
	kv_cheapest_init(&e->heap, e->nr);
	for (u32 i = 0; i < e->nr; i++)
		e->state[i] = e->state[i] == BARRED ? BARRED : OPEN;
	for (u32 i = 0; i < e->nr; i++)
		if (e->state[i] == OPEN)
			kv_cheapest_add(&e->heap, i);
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

/* ---- the plan ---- */

static int report(struct emptying *e)
{
	struct kv_plan *plan = e->clear.plan;

	for (u32 i = 0; i < e->nr; i++)
		if (e->state[i] == CHOSEN)
			plan->pageblocks[plan->nr_pageblocks++] = i;
	if (plan->nr_pageblocks == e->clear.req->want)
		return plan->nr_moves || plan->nr_drops ? 0 : -EALREADY;
	return plan->nr_moves || plan->nr_drops ? -EAGAIN : -ENOSPC;
}

static void give_up(struct emptying *e)
{
	plan_forget(e->clear.plan);
	for (u32 i = 0; i < e->nr; i++)
		e->state[i] = BARRED;
}

/*
 * Once the rounds are used up, nothing is chosen for what is barred then: less and less is placed,
 * with more and more room.
 */
static void search(struct emptying *e)
{
	u32 round;

	for (u32 i = 0; i < e->nr; i++)
		e->state[i] = is_hinted(e, i) ? BARRED : OPEN;
	e->clear.plan->nr_failed = 0;
	for (round = 0; round < MAX_ROUNDS; round++) {
		choose_all(e);
		if (clear_chosen(e, round >= MAX_ROUNDS / 2))
			return;
	}
	for (round = 0; round < MAX_ROUNDS; round++)
		if (clear_chosen(e, true))
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
static void search_both(struct emptying *e)
{
	u32 nr;

	search(e);
	nr = nr_chosen(e);
	if (nr == e->clear.req->want)
		return;
	e->is_tight = true;
	search(e);
	if (nr_chosen(e) > nr)
		return;
	e->is_tight = false;
	search(e);
}

/* How many bytes it takes. */
static size_t lay_out(struct emptying *e, const struct kv_plan_req *req, char *base)
{
	size_t bytes = kv_align_up(sizeof(*e), 8), nr = kv_nr_pageblocks(req);

	*e = (struct emptying){ .size = BIT(req->order), .nr = nr };
	clear_lay_out(&e->clear, req, nr, base, &bytes);
	e->heap = (struct kv_cheapest){
		.price_of = price_of, .arg = e,
		.price = scratch_take(base, &bytes, nr, sizeof(u64)),
		.heap = scratch_take(base, &bytes, nr, sizeof(u32)),
		.at = scratch_take(base, &bytes, nr, sizeof(u32)),
	};
	e->state = scratch_take(base, &bytes, nr, sizeof(*e->state));
	e->goes = scratch_take(base, &bytes, req->nr_items, sizeof(*e->goes));
	return bytes;
}

size_t plan_pageblocks_scratch(const struct kv_plan_req *req)
{
	return lay_out(&(struct emptying){ 0 }, req, NULL);
}

int plan_pageblocks(const struct kv_plan_req *req, struct kv_plan *plan, void *scratch)
{
	struct emptying *e = scratch;

	if (!req->want)
		return -EALREADY;
	if (req->want > kv_nr_pageblocks(req) || plan->max_pageblocks < kv_nr_pageblocks(req))
		return -ENOSPC;
	lay_out(e, req, scratch);
	e->clear.plan = plan;
	search_both(e);
	return report(e);
}
