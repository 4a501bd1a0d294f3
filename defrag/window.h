/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the three files of the window planner.
 *
 * A window is a row of neighbouring items with every hole before, between and behind them. The
 * work is divided so: window.c picks windows, window_place.c finds places for the items of one,
 * window_holes.c knows the room there is outside. No function here is called from elsewhere.
 */
#ifndef DEFRAG_WINDOW_H
#define DEFRAG_WINDOW_H

#include <kv/bits.h>

#include "internal.h"

/* Scores are in sixteenths of a block: the differences that decide are below one block. */
#define SCORE_BLOCK	16

/* Items of one window: a word of bits. The longest that won on the traces had 15. */
#define MAX_RUNS	KV_WORD_BITS
#define MAX_MOVES	(MAX_RUNS + 1)	/* and the one that steps aside */
#define MAX_RESTS	(MAX_RUNS + 1)	/* each move opens one at most */
#define MAX_TAKEN	(MAX_RUNS + 2)	/* the item aside gives up the holes on both sides */

/* The rest of a hole that something went into, and how long its neighbours are now. */
struct rest {
	u32 start;
	u32 nr;
	u32 below;	/* KV_NONE: a wall or an item that cannot move */
	u32 above;
};

/* Where something fits. */
struct room {
	u32 nr;		/* length of the room; KV_NONE: it fits nowhere */
	u32 hole;	/* an untouched hole, if @rest is KV_NONE */
	u32 rest;
};

struct window {
	u32 first;	/* items first..last, holes first..last + 1 */
	u32 last;
	u32 live;	/* blocks of the items: the price of clearing it */
	u32 total;	/* blocks of the items and the holes */
};

/* The shortest window that begins with one item and is long enough. */
struct shortest {
	u32 last;
	u32 live;	/* KV_NONE: there is none */
};

/* A plan for one window; small, since nearly all that are tried are thrown away. */
struct proposal {
	s64 score;
	u32 nr_blocks;
	u32 nr_moves;
	struct kvmm_extent gap;
	struct kv_move moves[MAX_MOVES];
};

/* The scratch of one call; owned by the planner's caller. */
struct search {
	const struct kv_plan_req *req;
	u32 max_moves;
	u32 mean;			/* length of a usual item */
	u32 from, to;			/* the slice looked at: items from..to - 1 */
	u32 limit;			/* a plan that moves more is of no use */
	bool found;			/* there is a best */

	/* Work that may still be put into this slice. */
	u32 tries_left;
	u32 asks_left;

	/* The arrays behind this struct, sized by the number of items. */
	u64 *holes;			/* of the slice: length | number; empty ones are left out */
	u64 *spare_holes;		/* the other half of sorting */
	u32 nr_holes;
	struct shortest *shortest;	/* [item - from] */
	struct window *candidates;
	u16 *order;			/* of the candidates, cheapest first */
	u32 nr_candidates;
	u32 max_candidates;

	/* The window being tried. */
	struct window window;
	u32 spare;			/* blocks that items may keep in it and leave want free */
	u64 staying;			/* bit per item of the window */
	bool stepped_aside;
	u32 taken[MAX_TAKEN];		/* holes outside that are in use */
	u32 nr_taken;
	struct rest rest[MAX_RESTS];
	u32 nr_rests;
	s64 worth;			/* of the holes afterwards, less that of those before */

	struct proposal *current;
	struct proposal *best;
	struct proposal proposal[2];
};

/* Length of item @i, which stands above hole @i; KV_NONE if it never gives way. */
static inline u32 neighbour_nr(const struct kv_plan_req *req, u32 i)
{
	return i < req->nr_items && req->items[i].movable ? req->items[i].nr : KV_NONE;
}

static inline u32 below_hole(const struct kv_plan_req *req, u32 hole)
{
	kv_assert(hole <= req->nr_items);
	return hole ? neighbour_nr(req, hole - 1) : KV_NONE;
}

/* window_holes.c */
void holes_index(struct search *s);
s64 hole_worth(const struct search *s, u64 nr);
bool hole_is_taken(const struct search *s, u32 hole);
void hole_take(struct search *s, u32 hole);
u32 longest_room(const struct search *s);
struct room room_find(const struct search *s, u32 nr);
u32 room_take(struct search *s, struct room room, u32 nr);
struct room room_open(struct search *s, struct rest rest);

/* window_place.c */
bool window_place(struct search *s, const struct window *w);

#endif /* DEFRAG_WINDOW_H */
