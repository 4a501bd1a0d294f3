/* SPDX-License-Identifier: Apache-2.0 */
/* The pool's runs, as planners see them, and moves of them while the gate is closed; see move.c. */
#ifndef POOL_MOVE_H
#define POOL_MOVE_H

#include <kv/defrag.h>
#include <pool/internal.h>

/* The run that moves as a whole: the extent with the block, or the block alone. ->lock held. */
struct kvmm_extent pool_run_with(struct kvmm_pool *pool, u32 block);
/* Extents that have come to lie behind one another are one. */
void slot_join_extents(struct slot *slot);

/* Where a run is made: a picture of all of a large pool takes long. */
enum where {
	IN_POOL,
	PART_FIRST,	/* of a large pool; several runs in all of it */
	PART_ONLY,
};

/*
 * Compact with the gate closed: one run, or with @runs that the goal's blocks are free in so many.
 * compact_lock and lock held; drops and retakes lock.
 */
int pool_compact(struct kvmm_pool *pool, struct kvmm_compact *goal, enum where where, u32 runs);

/*
 * Moves to free places, each of them one apart from all others: how many could be copied in
 * *@nr_done, and why it was not all of them. As long as the world has stopped, and steps stand
 * still.
 */
int pool_move(struct kvmm_pool *pool, const struct kv_move *moves, u32 nr, u32 *nr_done);

/* The picture that planners look at; made anew by each pool_snapshot(). */
struct picture {
	/* The caller's: */
	struct kvmm_pool	*pool;
	u32			mode;		/* enum kvmm_move_mode, or MOVE_STOPPED */
	struct kvmm_extent	part;		/* of the pool, to be seen; .nr 0: all of it */
	/* Out: */
	struct kvmm_stay	stay;
	struct kv_item		*items;		/* borrowed */
	u32			max;
	u32			nr;		/* items that there are, maybe more than @max */
};

/* As the movers' snapshot. No lock held below compact_lock. */
u32 pool_snapshot(struct picture *picture, struct kv_item *items, u32 max);

/* So much has a new place, at once: one compaction, if anything has. ->lock held. */
void moves_count(struct kvmm_pool *pool, u64 nr_moves, u64 nr_blocks);

#endif /* POOL_MOVE_H */
