// SPDX-License-Identifier: Apache-2.0
/*
 * Find a place for every item of one window, so that it becomes one hole of the wanted length.
 *
 * An item, the longest first since it has the least choice,
 *	1. goes into the shortest hole outside that holds it; else
 *	2. stays, as long as the window is longer than wanted by that much; else
 *	3. once for each window, goes where a shorter item outside was that can step aside.
 * Items that stay are packed to the two ends. If all stay this is a slide, if none, an evacuation;
 * most plans that win are neither. Moves that must keep apart are evacuations: 2 and 3 are not for
 * them.
 */
#include "window.h"

/* How many items are asked whether they could step aside, the nearest behind the window first. */
#define MAX_ASKED	512u

/* A move that overlaps itself cannot be undone half-way: rather move anything else. */
#define OVERLAP_WEIGHT	BIT64(32)

/*
 * The price of a block written onto a source beyond its copy, in sixteenths: such a move has to
 * wait for another one. Half a block takes a third of them away on the Azure trace at 95 %, fewer
 * at 97 %, a whole one no more than that, and neither costs copies.
 */
#define WAIT_PENALTY	(SCORE_BLOCK / 2)

/* Blocks paid now for one block of better holes afterwards. */
#define WORTH_GAIN	2

static void propose_move(struct search *s, u32 i, u32 dst)
{
	const struct kv_item *item = &s->req->items[i];
	struct proposal *p = s->current;

	kv_assert(i < s->req->nr_items);
	if (item->start == dst)
		return;
	p->moves[p->nr_moves++] = (struct kv_move){ item->start, dst, item->nr };
	p->nr_blocks += item->nr;
}

/* ---- stepping aside ---- */

/* Item @i and the holes beside it, less the part that belongs to the window. */
static struct rest span_of(const struct search *s, u32 i)
{
	const struct kv_plan_req *req = s->req;
	const struct kv_item *item = &req->items[i];
	u32 lo = i == s->window.last + 1 ? item->start : hole_start(req, i);
	u32 hi = i + 1 == s->window.first ? item->start + item->nr : hole_end(req, i + 1);

	return (struct rest){ lo, hi - lo, below_hole(req, i), neighbour_nr(req, i + 1) };
}

/* If @i went elsewhere, but not just into the holes beside it, would @nr blocks fit there? */
static bool can_step_aside(struct search *s, u32 i, u32 nr)
{
	const struct kv_item *item = &s->req->items[i];
	bool fits;

	kv_assert(i < s->req->nr_items);
	if (!item->movable || span_of(s, i).nr < nr)
		return false;
	/* The holes beside it must be as the picture has them; an end of the window is no part. */
	if ((i != s->window.last + 1 && hole_is_taken(s, i)) ||
	    (i + 1 != s->window.first && hole_is_taken(s, i + 1)))
		return false;
	hole_take(s, i);
	hole_take(s, i + 1);
	fits = room_find(s, item->nr).nr != KV_NONE;
	s->nr_taken -= 2;
	return fits;
}

/* The shortest item of less than @below blocks that makes room for @nr by going, or KV_NONE. */
static u32 find_who_steps_aside(struct search *s, u32 nr, u32 below)
{
	u32 nr_outside = s->to - s->from - (s->window.last - s->window.first + 1);
	u32 nr_asked = min(nr_outside, MAX_ASKED), longest = longest_room(s);
	u32 best = KV_NONE, i = s->window.last;

	kv_assert(nr && below);
	if (nr_asked > s->asks_left)
		return KV_NONE;
	s->asks_left -= nr_asked;
	while (nr_asked--) {
		u32 len;

		/* The next item outside the window, around the end of the slice. */
		kv_assert(i >= s->from && i < s->to);
		if (++i == s->to)
			i = s->from;
		if (i == s->window.first)
			i = s->window.last + 1;
		if (i == s->to)
			i = s->from;
		len = s->req->items[i].nr;
		if (len >= below || len > longest || !can_step_aside(s, i, nr))
			continue;
		best = i;
		below = len;
	}
	return best;
}

/* Move item @i away; returns where @nr blocks fit then. */
static u32 step_aside(struct search *s, u32 i, u32 nr)
{
	const struct kv_item *item = &s->req->items[i];
	struct rest span = span_of(s, i);
	u32 below = item->start - span.start, above = span.nr - below - item->nr;

	kv_assert(i < s->req->nr_items);
	s->stepped_aside = true;
	hole_take(s, i);
	hole_take(s, i + 1);
	propose_move(s, i, room_take(s, room_find(s, item->nr), item->nr));
	s->worth += hole_worth(s, span.nr) - hole_worth(s, below) - hole_worth(s, above);
	return room_take(s, room_open(s, span), nr);
}

/* ---- one item ---- */

/*
 * Step 3. Without it 4 % more is moved; a second one for the same window changed nothing that
 * could be told from noise.
 */
static bool place_by_stepping_aside(struct search *s, u32 i)
{
	u32 nr = s->req->items[i].nr, who;

	kv_assert(i < s->req->nr_items);
	if (s->stepped_aside || s->window.live >= s->limit)
		return false;
	who = find_who_steps_aside(s, nr, min(nr, s->limit - s->window.live + 1));
	if (who == KV_NONE)
		return false;
	propose_move(s, i, step_aside(s, who, nr));
	return true;
}

static bool place_item(struct search *s, u32 i)
{
	u32 nr = s->req->items[i].nr;
	struct room room = room_find(s, nr);

	kv_assert(i < s->req->nr_items);
	if (room.nr != KV_NONE) {
		propose_move(s, i, room_take(s, room, nr));
		return true;
	}
	if (s->req->apart)
		return false;
	if (nr <= s->spare) {
		s->staying |= BIT64(i - s->window.first);
		s->spare -= nr;
		return true;
	}
	return place_by_stepping_aside(s, i);
}

/* The items of the window, longest first, then by address. */
static bool place_all(struct search *s)
{
	const struct kv_item *items = s->req->items;
	u32 order[MAX_RUNS], nr = 0, i, k;

	for (i = s->window.first; i <= s->window.last; i++) {
		for (k = nr++; k && items[order[k - 1]].nr < items[i].nr; k--)
			order[k] = order[k - 1];
		order[k] = i;
	}
	for (k = 0; k < nr; k++)
		if (!place_item(s, order[k]))
			return false;
	return true;
}

/* ---- packing the items that stay ---- */

struct packing {
	u32 item[MAX_RUNS];	/* by address */
	u32 nr;
	u32 cut;		/* the first of those that go up */
};

static u64 move_weight(const struct kv_item *item, u32 dst)
{
	u32 way = max(item->start, dst) - min(item->start, dst);

	kv_assert(item->nr);
	if (!way)
		return 0;
	return way < item->nr ? item->nr * OVERLAP_WEIGHT : item->nr;
}

static u64 packing_weight(const struct search *s, const struct packing *pack, u32 cut)
{
	u32 lo = hole_start(s->req, s->window.first), hi = hole_end(s->req, s->window.last + 1);
	u64 weight = 0;
	u32 k;

	kv_assert(cut <= pack->nr);
	for (k = 0; k < cut; k++) {
		const struct kv_item *item = &s->req->items[pack->item[k]];

		weight += move_weight(item, lo);
		lo += item->nr;
	}
	for (k = pack->nr; k-- > cut;) {
		const struct kv_item *item = &s->req->items[pack->item[k]];

		hi -= item->nr;
		weight += move_weight(item, hi);
	}
	return weight;
}

/* Which go down and which up: the least to move, and downward where that is equal. */
static void choose_cut(const struct search *s, struct packing *pack)
{
	u64 weight, least = packing_weight(s, pack, pack->nr);
	u32 k;

	pack->cut = pack->nr;
	for (k = pack->nr; k-- > 0;) {
		weight = packing_weight(s, pack, k);
		if (weight < least) {
			least = weight;
			pack->cut = k;
		}
	}
}

/*
 * The order makes each destination free when its turn comes: items that go elsewhere have left, and
 * each group starts with the item at its end of the window.
 */
static void pack_staying(struct search *s)
{
	u32 lo = hole_start(s->req, s->window.first), hi = hole_end(s->req, s->window.last + 1), k;
	struct packing pack;
	u64 left;

	pack.nr = 0;
	for (left = s->staying; left; left &= left - 1)
		pack.item[pack.nr++] = s->window.first + kv_lowest64(left);
	choose_cut(s, &pack);
	for (k = 0; k < pack.cut; k++) {
		propose_move(s, pack.item[k], lo);
		lo += s->req->items[pack.item[k]].nr;
	}
	for (k = pack.nr; k-- > pack.cut;) {
		hi -= s->req->items[pack.item[k]].nr;
		propose_move(s, pack.item[k], hi);
	}
	s->current->gap = (struct kvmm_extent){ lo, hi - lo };
}

/* ---- one window ---- */

/* Blocks that are written where another move, or the same one, reads. */
static u32 blocks_that_wait(const struct proposal *p)
{
	u32 i, k, nr_blocks = 0;

	for (i = 0; i < p->nr_moves; i++) {
		const struct kv_move *to = &p->moves[i];

		for (k = 0; k < p->nr_moves; k++) {
			const struct kv_move *from = &p->moves[k];

			if (to->dst >= from->src + from->nr || from->src >= to->dst + to->nr)
				continue;
			nr_blocks += to->nr;
			break;
		}
	}
	return nr_blocks;
}

static void open_window(struct search *s, const struct window *w)
{
	u32 i;

	kv_assert(w->last - w->first < MAX_RUNS && w->total >= s->req->want);
	s->window = *w;
	s->spare = w->total - s->req->want;
	s->staying = 0;
	s->stepped_aside = false;
	s->nr_taken = s->nr_rests = 0;
	s->worth = 0;
	s->current->nr_moves = s->current->nr_blocks = 0;
	for (i = w->first; i <= w->last + 1; i++)
		s->worth -= hole_worth(s, hole_nr(s->req, i));
}

/*
 * The score of a plan is the blocks it moves, less the gain in the holes. Without the second part
 * each plan is as cheap as can be and leaves crumbs that the next one pays for.
 */
bool window_place(struct search *s, const struct window *w)
{
	struct proposal *p = s->current;

	open_window(s, w);
	if (!place_all(s))
		return false;
	s->worth += hole_worth(s, s->spare);
	pack_staying(s);
	p->score = (s64)p->nr_blocks * SCORE_BLOCK - WORTH_GAIN * s->worth +
		   (s64)blocks_that_wait(p) * WAIT_PENALTY;
	return true;
}
