// SPDX-License-Identifier: Apache-2.0
/*
 * "window": the cheapest row of neighbouring items that can be cleared to make one hole.
 *
 * To get a hole, every item of some window has to give way; which one, and where to, is a packing
 * problem that no planner solves exactly in microseconds. It is not hard to find a plan, but to
 * stop: the cost of a window is known before it is tried, so windows are tried from the cheapest
 * up, in bands of cost, and the search ends a little above the first plan that works. "A little"
 * matters: among plans of about the same cost the one that leaves better holes behind saves more
 * in the plans to come than it costs now (see window_place()).
 *
 * Nothing is looked at without a bound, so there are pictures where the search finds nothing; then
 * the cheapest slide is the plan. A plan never moves more than that slide and slack() together.
 *
 * Pure: the answer depends on the request alone. All memory is the caller's scratch.
 */
#include "goal.h"
#include "window.h"

/*
 * Bounds of the search. On the Azure trace they are hardly ever met: with all of them lifted the
 * longest plan takes no longer and 2 % less is moved. They are for zones of thousands of
 * short items at 99 %, where a search without bounds moves 5 % less and takes up to 10 ms for it
 * instead of 0.5 ms. Half as many tries move 3 % more there.
 */
#define MAX_CANDIDATES	2048u		/* windows of one band */
#define MAX_TRIES	2048u		/* windows tried */
#define MAX_ASKS	BIT(15)		/* items asked whether they can step aside */

/*
 * Items looked at first. A scan of so many takes 0.1 ms. Slices of 1024 moved up to a fifth more:
 * holes of the right length are rare, and a slice has fewer of them to choose from.
 */
#define FIRST_SLICE	8192u
#define NEXT_SLICE	4u		/* times as many */

/* Windows of one search step: their items have more than @above and up to @upto blocks. */
struct band {
	u32 above;
	u32 upto;
};

/* How much dearer than the cheapest plan a better one may be, in blocks. */
static u32 slack(const struct search *s)
{
	return s->mean * 11 / 16;
}

/* ---- which windows there are ---- */

/* For each first item the shortest window of want blocks; returns the least cost of all. */
static u32 find_shortest_windows(struct search *s)
{
	const struct kv_item *items = s->req->items;
	u32 i, end = s->from, live = 0, least = KV_NONE;

	kv_assert(s->to <= s->req->nr_items);
	for (i = s->from; i < s->to; i++) {
		struct shortest *w = &s->shortest[i - s->from];

		w->live = KV_NONE;
		if (!items[i].movable) {
			end = i + 1;
			live = 0;
			continue;
		}
		/* Both ends only move up: the next window ends here or later. */
		while (end < s->to && items[end].movable &&
		       (end == i || hole_end(s->req, end) - hole_start(s->req, i) < s->req->want))
			live += items[end++].nr;
		if (hole_end(s->req, end) - hole_start(s->req, i) >= s->req->want) {
			*w = (struct shortest){ end - 1, live };
			least = min(least, live);
		}
		live -= items[i].nr;
	}
	return least;
}

/*
 * The windows of a band that begin with one item, up to the first that a slide would serve: longer
 * ones only cost more. Returns the least cost above the band, KV_NONE if there is no such window.
 */
static u32 gather_from(struct search *s, u32 first, const struct band *band)
{
	const struct kv_item *items = s->req->items;
	struct window w = { .first = first, .last = s->shortest[first - s->from].last,
			    .live = s->shortest[first - s->from].live };

	kv_assert(first >= s->from && first < s->to);
	for (; w.live <= band->upto; w.live += items[w.last].nr) {
		w.total = hole_end(s->req, w.last + 1) - hole_start(s->req, first);
		if (w.last - first >= MAX_RUNS)
			return KV_NONE;
		if (w.live > band->above && s->nr_candidates < s->max_candidates)
			s->candidates[s->nr_candidates++] = w;
		if (w.total - w.live >= s->req->want)
			return KV_NONE;
		if (++w.last == s->to || !items[w.last].movable)
			return KV_NONE;
	}
	return w.live;
}

/* Cheapest first, in 256 steps of cost; by address where they fall together. */
static void sort_candidates(struct search *s, const struct band *band)
{
	u32 at[257] = { 0 }, step = (band->upto - band->above) / 256 + 1, k;

	kv_assert(band->above < band->upto || !s->nr_candidates);
	for (k = 0; k < s->nr_candidates; k++)
		at[(s->candidates[k].live - band->above - 1) / step + 1]++;
	for (k = 1; k < 256; k++)
		at[k] += at[k - 1];
	for (k = 0; k < s->nr_candidates; k++)
		s->order[at[(s->candidates[k].live - band->above - 1) / step]++] = k;
}

/* ---- trying them ---- */

/* Keep the current proposal if it is better; a much dearer one is of no use from now on. */
static void consider(struct search *s)
{
	struct proposal *p = s->current;

	kv_assert(s->current != s->best);
	if (p->nr_moves > s->max_moves)
		return;
	s->limit = min(s->limit, p->nr_blocks + slack(s));
	if (s->found && p->score >= s->best->score)
		return;
	s->found = true;
	s->current = s->best;
	s->best = p;
}

/* Returns false if the work allowed for this slice is done. */
static bool try_candidates(struct search *s)
{
	u32 k;

	for (k = 0; k < s->nr_candidates; k++) {
		const struct window *w = &s->candidates[s->order[k]];

		if (w->live > s->limit)
			return true;
		if (!s->tries_left)
			return false;
		s->tries_left--;
		if (window_place(s, w))
			consider(s);
	}
	return true;
}

/* ---- the search ---- */

/*
 * Bands keep the number of windows small that are gathered and sorted for nothing: most plans are
 * found in the first one, which reaches a quarter above the least cost.
 */
static void search_bands(struct search *s, u32 least)
{
	struct band band = { 0, least + least / 4 + slack(s) / 2 };

	for (;;) {
		u32 next = KV_NONE;	/* the least cost above the band */

		band.upto = min(band.upto, s->limit);
		s->nr_candidates = 0;
		for (u32 i = s->from; i < s->to; i++)
			next = min(next, gather_from(s, i, &band));
		sort_candidates(s, &band);
		if (!try_candidates(s) || s->limit <= band.upto || next == KV_NONE ||
		    s->nr_candidates == s->max_candidates)
			return;
		band.above = band.upto;
		band.upto += band.upto / 2 + 1;
		if (band.upto < next)
			band.upto = next + next / 4;
	}
}

static void search_slice(struct search *s, u32 from, u32 nr)
{
	u32 least;

	kv_assert(from + nr <= s->req->nr_items);
	s->from = from;
	s->to = from + nr;
	s->tries_left = MAX_TRIES;
	s->asks_left = MAX_ASKS;
	least = find_shortest_windows(s);
	if (least > s->limit)
		return;
	holes_index(s);
	search_bands(s, least);
}

/*
 * A dear plan in a slice of the zone is a reason to look at more of it. Where in a large zone to
 * look: anywhere, but not always in the same place, or its holes would be used up. Requests differ,
 * so does this.
 */
static void search_slices(struct search *s)
{
	const struct kv_plan_req *req = s->req;
	u64 mix = ((u64)req->want << 32 | req->nr_items) * 0x9e3779b97f4a7c15ull, nr;

	for (nr = FIRST_SLICE; nr < req->nr_items; nr *= NEXT_SLICE) {
		search_slice(s, (mix >> 32) % (req->nr_items - nr + 1), nr);
		if (s->found && s->best->nr_blocks / 2 <= (u64)req->want + s->mean)
			return;
	}
	search_slice(s, 0, req->nr_items);
}

/* ---- the planner ---- */

static u32 max_candidates(u32 nr_items)
{
	return min((u64)nr_items * MAX_RUNS, (u64)MAX_CANDIDATES);
}

static size_t window_scratch_bytes(u32 nr_items)
{
	size_t bytes = sizeof(struct search) +
		       2 * ((size_t)nr_items + 1) * sizeof(u64) +
		       nr_items * sizeof(struct shortest) +
		       max_candidates(nr_items) * (sizeof(struct window) + sizeof(u16));

	return max(bytes, plan_pack_scratch(nr_items));
}

static struct search *search_init(const struct kv_plan_req *req, void *scratch)
{
	struct search *s = scratch;

	*s = (struct search){ .req = req, .max_candidates = max_candidates(req->nr_items) };
	s->current = &s->proposal[0];
	s->best = &s->proposal[1];
	s->holes = (u64 *)(s + 1);
	s->spare_holes = s->holes + req->nr_items + 1;
	s->shortest = (struct shortest *)(s->spare_holes + req->nr_items + 1);
	s->candidates = (struct window *)(s->shortest + req->nr_items);
	s->order = (u16 *)(s->candidates + s->max_candidates);
	return s;
}

static int window_plan(const struct kv_plan_req *req, struct kv_plan *plan, void *scratch)
{
	struct stretch slide;
	struct proposal *best;
	struct search *s;
	u32 nr_free;

	if (!req->want || req->runs)
		return req->apart ? -ENOSPC : plan_pack(req, plan, scratch);
	slide = plan_cheapest_stretch(req);
	if (!slide.cost)
		return -EALREADY;
	nr_free = nr_free_blocks(req);
	if (req->want > nr_free)
		return -ENOSPC;

	s = search_init(req, scratch);
	s->mean = (req->nr_blocks - nr_free) / req->nr_items;
	s->max_moves = plan->max_moves;
	/* The most that a plan may move. */
	s->limit = req->max_blocks ? req->max_blocks : KV_NONE;
	if (!req->apart && slide.first != KV_NONE)
		s->limit = min((u64)s->limit, slide.cost + slack(s));
	search_slices(s);
	if (!s->found)
		return req->apart ? -ENOSPC : plan_slide(req, plan, &slide);
	best = s->best;
	for (u32 i = 0; i < best->nr_moves; i++)
		plan_add(req, plan, best->moves[i].src, best->moves[i].dst, best->moves[i].nr);
	plan->gap = best->gap;
	return 0;
}

const struct kv_planner_ops kv_planner_window = {
	.name		= "window",
	.in_parts	= true,
	.scratch_bytes	= window_scratch_bytes,
	.plan		= window_plan,
};
