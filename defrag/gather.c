// SPDX-License-Identifier: Apache-2.0
/*
 * All parts of one owner in one run, in their order.
 *
 * One piece may stay if the holes about it take those before and behind it; else all go to a
 * hole. Where there is neither, a run has to be made first: the caller plans that, and comes
 * again once it is there.
 */
#include "bins.h"
#include "parts.h"

struct gathering {
	const struct kv_plan_req *req;
	struct kv_plan *plan;
	struct parts parts;
	u32 nr_blocks;		/* of all pieces */
	u32 nr_walls;		/* pieces that cannot move */
	u32 stays;		/* the piece that does, or KV_NONE */
	u32 start;		/* of the run */
};

/* The longest one about which there is room. */
static void find_who_stays(struct gathering *g)
{
	u32 before = 0, longest = 0;

	kv_assert(g->nr_blocks <= g->req->nr_blocks);
	for (u32 i = 0; i < g->parts.nr_pieces; before += g->parts.piece[i++].nr) {
		const struct piece *piece = &g->parts.piece[i];
		u32 first = (u32)g->parts.part[piece->first];
		u32 last = (u32)g->parts.part[piece->end - 1];

		if (piece->nr <= longest || g->nr_walls > !piece->movable ||
		    hole_nr(g->req, first) < before ||
		    hole_nr(g->req, last + 1) < g->nr_blocks - before - piece->nr)
			continue;
		longest = piece->nr;
		g->stays = i;
		g->start = piece->start - before;
	}
}

/* The shortest that is long enough; the first of them. */
static void find_hole(struct gathering *g)
{
	u32 best = KV_NONE;

	kv_assert(g->nr_blocks <= g->req->nr_blocks);
	for (u32 i = 0; i <= g->req->nr_items; i++) {
		u32 nr = hole_nr(g->req, i);

		if (nr < g->nr_blocks || nr >= best)
			continue;
		best = nr;
		g->start = hole_start(g->req, i);
	}
}

static int move_all(struct gathering *g)
{
	u32 dst = g->start, max_blocks = g->req->max_blocks;

	kv_assert(g->start + g->nr_blocks <= g->req->nr_blocks);
	for (u32 i = 0; i < g->parts.nr_pieces; i++) {
		if (i != g->stays)
			piece_move(&g->parts, g->plan, &g->parts.piece[i], dst);
		dst += g->parts.piece[i].nr;
	}
	if (max_blocks && g->plan->nr_blocks > max_blocks) {
		plan_forget(g->plan);
		return -ENOSPC;
	}
	g->plan->saved = g->parts.nr_pieces - 1;
	g->plan->gap = (struct kvmm_extent){ g->start, g->nr_blocks };
	return 0;
}

/* How many bytes it takes. */
static size_t lay_out(struct gathering *g, const struct kv_plan_req *req, char *base)
{
	size_t bytes = kv_align_up(sizeof(*g), 8);

	*g = (struct gathering){ .req = req, .stays = KV_NONE, .start = KV_NONE };
	parts_lay_out(&g->parts, req, base, &bytes);
	return bytes;
}

size_t plan_gather_scratch(const struct kv_plan_req *req)
{
	return lay_out(&(struct gathering){ 0 }, req, NULL);
}

int plan_gather(const struct kv_plan_req *req, struct kv_plan *plan, void *scratch, u32 *nr)
{
	struct gathering *g = scratch;

	lay_out(g, req, scratch);
	g->plan = plan;
	parts_sort(&g->parts, req->owner);
	if (g->parts.nr_pieces < 2)
		return -EALREADY;
	for (u32 i = 0; i < g->parts.nr_pieces; i++) {
		g->nr_blocks += g->parts.piece[i].nr;
		g->nr_walls += !g->parts.piece[i].movable;
	}
	*nr = g->nr_blocks;
	find_who_stays(g);
	if (g->stays == KV_NONE && !g->nr_walls)
		find_hole(g);
	if (g->start != KV_NONE)
		return move_all(g);
	return g->nr_walls ? -ENOSPC : -EAGAIN;
}
