/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces: parts of one owner that follow each other and lie so, too. One descriptor names a piece.
 */
#ifndef DEFRAG_PARTS_H
#define DEFRAG_PARTS_H

#include "goal.h"

struct piece {
	u32 owner;
	u32 first, end;		/* of parts[] */
	u32 start, nr;		/* blocks */
	bool movable;		/* all of it */
	bool used;		/* it moves, or something comes to lie beside it */
};

struct parts {
	const struct kv_plan_req *req;
	u64 *part;		/* items with an owner, by owner and part, in the lower half */
	u64 *spare;
	u32 *place;		/* by part: where it will lie */
	u32 nr;
	struct piece *piece;	/* in the same order */
	u32 nr_pieces;
};

static inline const struct kv_item *part_item(const struct parts *parts, u32 k)
{
	kv_assert((u32)parts->part[k] < parts->req->nr_items);
	kv_assert(k < parts->nr);
	return &parts->req->items[(u32)parts->part[k]];
}

/* All arrays have room for each item of the picture; see scratch_take(). */
void parts_lay_out(struct parts *parts, const struct kv_plan_req *req, char *base, size_t *bytes);
/* Of one owner, or of all if that is 0. */
void parts_sort(struct parts *parts, u32 owner);

/* All of the piece goes to @dst. */
void piece_move(const struct parts *parts, struct kv_plan *plan, const struct piece *piece,
		u32 dst);
/* How many pieces there will be. */
u32 parts_nr_pieces(const struct parts *parts);

#endif /* DEFRAG_PARTS_H */
