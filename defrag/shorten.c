// SPDX-License-Identifier: Apache-2.0
/*
 * Fewer descriptors: pieces of one owner come to lie behind one another.
 *
 * Three things help: a piece goes right behind the one before it, or right before the one behind
 * it, where there is a hole; or some that follow each other go to a hole that takes all of them.
 * Each saves so many descriptors for so many blocks, and they are done from the cheapest a
 * descriptor up, as long as they meet neither each other nor the budget. Nothing is moved for less
 * than one.
 */
#include "bins.h"
#include "parts.h"

/* Most pieces that go to one hole together. */
#define MAX_JOINED	8u

enum way { BEHIND, BEFORE, TOGETHER };

struct idea {
	u32 first, last;	/* pieces that move */
	enum way way;
};

struct shortening {
	const struct kv_plan_req *req;
	struct kv_plan *plan;
	struct parts parts;
	struct bins *bins;	/* hole i of the picture is number i */
	struct bin_hole *room;
	struct idea *idea;
	u32 nr_ideas;
	u64 *order;		/* price of a descriptor | idea */
	u64 *spare;
};

/* ---- possible moves ---- */

static struct bin_hole *hole_behind(const struct shortening *s, const struct piece *piece)
{
	kv_assert(piece->first < piece->end);
	return &s->bins->hole[(u32)s->parts.part[piece->end - 1] + 1];
}

static struct bin_hole *hole_before(const struct shortening *s, const struct piece *piece)
{
	kv_assert(piece->first < piece->end);
	return &s->bins->hole[(u32)s->parts.part[piece->first]];
}

static bool is_owners(const struct shortening *s, u32 i, u32 owner)
{
	return i < s->parts.nr_pieces && s->parts.piece[i].owner == owner;
}

static void suggest(struct shortening *s, u32 first, u32 last, enum way way, u32 nr_blocks,
		    u32 saved)
{
	u32 key = min((u64)nr_blocks * 256 / saved, (u64)UINT32_MAX);

	kv_assert(first <= last && last < s->parts.nr_pieces && saved);
	s->idea[s->nr_ideas] = (struct idea){ first, last, way };
	s->order[s->nr_ideas] = (u64)key << 32 | s->nr_ideas;
	s->nr_ideas++;
}

/* Two, if it fills the hole between its neighbours. */
static u32 saved_behind(const struct shortening *s, u32 i)
{
	const struct piece *piece = &s->parts.piece[i], *before = piece - 1, *behind = piece + 1;

	kv_assert(i < s->parts.nr_pieces);
	return 1 + (is_owners(s, i + 1, piece->owner) &&
		    before->start + before->nr + piece->nr == behind->start);
}

static void suggest_from(struct shortening *s, u32 i)
{
	const struct piece *piece = &s->parts.piece[i];
	u32 owner = piece->owner, nr = 0;

	kv_assert(i < s->parts.nr_pieces);
	if (!piece->movable)
		return;
	if (i && piece[-1].owner == owner && hole_behind(s, piece - 1)->nr >= piece->nr)
		suggest(s, i, i, BEHIND, piece->nr, saved_behind(s, i));
	if (is_owners(s, i + 1, owner) && hole_before(s, piece + 1)->nr >= piece->nr)
		suggest(s, i, i, BEFORE, piece->nr, 1);
	for (u32 k = i; k < i + MAX_JOINED && is_owners(s, k, owner); k++) {
		if (!s->parts.piece[k].movable)
			return;
		nr += s->parts.piece[k].nr;
		if (k > i)
			suggest(s, i, k, TOGETHER, nr, k - i);
	}
}

/* ---- doing it ---- */

static void move_all(struct shortening *s, const struct idea *idea, u32 dst)
{
	kv_assert(idea->last < s->parts.nr_pieces);
	for (u32 i = idea->first; i <= idea->last; i++) {
		piece_move(&s->parts, s->plan, &s->parts.piece[i], dst);
		s->parts.piece[i].used = true;
		dst += s->parts.piece[i].nr;
	}
}

static void go_behind(struct shortening *s, const struct idea *idea)
{
	struct piece *piece = &s->parts.piece[idea->first];
	struct bin_hole *hole = hole_behind(s, piece - 1);
	u32 saved = saved_behind(s, idea->first);

	kv_assert(idea->first && idea->first == idea->last);
	if (piece[-1].used || hole->nr < piece->nr ||
	    hole->start != piece[-1].start + piece[-1].nr)
		return;
	if (saved == 2 && piece[1].used)
		saved = 1;
	piece[-1].used = true;
	if (saved == 2)
		piece[1].used = true;
	s->plan->saved += saved;
	move_all(s, idea, hole->start);
	hole->start += piece->nr;
	hole->nr -= piece->nr;
}

static void go_before(struct shortening *s, const struct idea *idea)
{
	struct piece *piece = &s->parts.piece[idea->first];
	struct bin_hole *hole = hole_before(s, piece + 1);

	kv_assert(idea->first == idea->last && idea->last + 1 < s->parts.nr_pieces);
	if (piece[1].used || hole->nr < piece->nr || hole->start + hole->nr != piece[1].start)
		return;
	piece[1].used = true;
	s->plan->saved++;
	hole->nr -= piece->nr;
	move_all(s, idea, hole->start + hole->nr);
}

static void try_idea(struct shortening *s, const struct idea *idea)
{
	u32 max_blocks = s->req->max_blocks, nr = 0, dst;

	for (u32 i = idea->first; i <= idea->last; i++) {
		if (s->parts.piece[i].used)
			return;
		nr += s->parts.piece[i].nr;
	}
	if (max_blocks && s->plan->nr_blocks + nr > max_blocks)
		return;
	if (idea->way == BEHIND) {
		go_behind(s, idea);
	} else if (idea->way == BEFORE) {
		go_before(s, idea);
	} else {
		dst = bins_take(s->bins, nr);
		if (dst == KV_NONE)
			return;
		s->plan->saved += idea->last - idea->first;
		move_all(s, idea, dst);
	}
}

/* ---- the plan ---- */

/* How many bytes it takes. */
static size_t lay_out(struct shortening *s, const struct kv_plan_req *req, char *base)
{
	size_t bytes = kv_align_up(sizeof(*s), 8), nr = req->nr_items;
	size_t nr_ideas = nr * (MAX_JOINED + 1);

	*s = (struct shortening){ .req = req, .parts = { .req = req } };
	s->bins = scratch_take(base, &bytes, 1, sizeof(*s->bins));
	s->room = scratch_take(base, &bytes, nr + 1, sizeof(*s->room));
	s->idea = scratch_take(base, &bytes, nr_ideas, sizeof(*s->idea));
	s->order = scratch_take(base, &bytes, nr_ideas, sizeof(*s->order));
	s->spare = scratch_take(base, &bytes, nr_ideas, sizeof(*s->spare));
	parts_lay_out(&s->parts, req, base, &bytes);
	return bytes;
}

size_t plan_shorten_scratch(const struct kv_plan_req *req)
{
	return lay_out(&(struct shortening){ 0 }, req, NULL);
}

int plan_shorten(const struct kv_plan_req *req, struct kv_plan *plan, void *scratch)
{
	struct shortening *s = scratch;

	lay_out(s, req, scratch);
	s->plan = plan;
	parts_sort(&s->parts, 0);
	bins_init(s->bins, s->room);
	for (u32 i = 0; i <= req->nr_items; i++)
		bins_add(s->bins, hole_start(req, i), hole_nr(req, i));
	for (u32 i = 0; i < s->parts.nr_pieces; i++)
		suggest_from(s, i);
	plan_sort(s->order, s->spare, s->nr_ideas);
	for (u32 k = 0; k < s->nr_ideas && (!req->want || plan->saved < req->want); k++)
		try_idea(s, &s->idea[(u32)s->order[k]]);
	/* Pieces that come to lie behind another part by chance count, too. */
	plan->saved = s->parts.nr_pieces - parts_nr_pieces(&s->parts);
	if (!plan->saved)
		return s->nr_ideas ? -ENOSPC : -EALREADY;
	return plan->saved >= req->want ? 0 : -EAGAIN;
}
