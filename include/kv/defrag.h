/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compaction: planners say what to move where, the mover does it through its owner's hands.
 *
 * A planner is a pure function of a picture of the zone: it takes nothing, copies nothing and can
 * be asked what it would do. The mover drives snapshot, plan, isolate, copy, commit; who owns the
 * blocks (the pool) implements each step in struct kv_movable_ops.
 */
#ifndef KV_DEFRAG_H
#define KV_DEFRAG_H

#include <kv/dev.h>
#include <kv/types.h>

/* A run of held blocks that moves as one piece, or does not move. */
struct kv_item {
	u32 start;
	u32 nr;
	bool movable;
};

/**
 * struct kv_plan_req - the picture a planner works on
 * @nr_blocks: size of the zone
 * @items: everything held, by ascending address, not overlapping
 * @nr_items: their number
 * @want: make a free run of so many blocks; 0 = pack everything movable downward
 * @max_blocks: move at most so many blocks; 0 = no limit
 * @apart: readers go on in the old places: destinations are holes of the picture, whole ones
 */
struct kv_plan_req {
	u32 nr_blocks;
	const struct kv_item *items;
	u32 nr_items;
	u32 want;
	u32 max_blocks;
	bool apart;
};

/**
 * struct kv_plan - what to do, in an order that can be executed one move after the other
 * @moves: room for @max_moves; one move an item at most
 * @nr_moves: out
 * @nr_blocks: out: sum of their lengths
 * @gap: out: the free run that will be there (want > 0)
 */
struct kv_plan {
	struct kv_move *moves;
	u32 max_moves;
	u32 nr_moves;
	u32 nr_blocks;
	struct kvmm_extent gap;
};

/**
 * struct kv_planner_ops - one way to choose moves
 * @name: as in struct kvmm_pool_attr
 * @scratch_bytes: memory for a picture of @nr_items
 * @plan: 0; -EALREADY such a run exists; -ENOSPC no allowed moves reach the goal (less than
 *	@want blocks free, pinned items in the way, or over @max_blocks; or none that keep apart).
 *	Deterministic.
 */
struct kv_planner_ops {
	const char *name;
	size_t (*scratch_bytes)(u32 nr_items);
	int (*plan)(const struct kv_plan_req *req, struct kv_plan *plan, void *scratch);
};

extern const struct kv_planner_ops kv_planner_window;	/* "window": cheapest window */
extern const struct kv_planner_ops kv_planner_slide;	/* "slide": cheapest slide of neighbours */

/**
 * struct kv_movable_ops - whose blocks they are
 * @snapshot: fill @items (room for @max), sorted by address; returns how many there are, which
 *	may be more than @max (then the content is undefined: come back with more room)
 * @isolate: mark the owners of all sources as moving and take the destinations: 0, -EAGAIN the
 *	picture is out of date (nothing done)
 * @copy: copy the content of so many moves and wait for it: 0, -EIO (all their destinations are
 *	unreadable). Either one move, which may overlap itself, or several whose destinations meet
 *	no source
 * @commit: the first @nr_done moves succeeded: publish the new places, give the old ones back;
 *	undo isolate for the rest. @lost: the content of move @nr_done was destroyed on its way
 *	(it overlapped itself): its owner must say -EIO from now on
 */
struct kv_movable_ops {
	u32 (*snapshot)(void *owner, struct kv_item *items, u32 max);
	int (*isolate)(void *owner, const struct kv_move *moves, u32 nr);
	int (*copy)(void *owner, const struct kv_move *moves, u32 nr);
	void (*commit)(void *owner, const struct kv_move *moves, u32 nr, u32 nr_done, bool lost);
};

/**
 * kv_compact() - one compaction by @planner of what @owner has
 * @compact: goal and budgets in, results out, as in kvmm_pool_compact()
 *
 * Context: the owner's compaction lock held, none below it. Allocates host memory.
 * Return: as kvmm_pool_compact(), and -ENOMEM.
 */
int kv_compact(const struct kv_planner_ops *planner, const struct kv_movable_ops *ops,
	       void *owner, u32 nr_blocks, struct kvmm_compact *compact);

/**
 * kv_compact_plan() - its first half: moves that keep apart, isolated by @ops->isolate
 * @compact: goal in; plan_ns and largest_before out
 *
 * The caller copies and commits, some time. Of @ops only snapshot and isolate are used.
 *
 * Context: as kv_compact().
 * Return: 0; -EALREADY there is such a run; -ENOSPC; -EAGAIN the picture went out of date each time;
 * -ENOMEM; what isolate says.
 */
int kv_compact_plan(const struct kv_planner_ops *planner, const struct kv_movable_ops *ops,
		    void *owner, u32 nr_blocks, struct kvmm_compact *compact);

#endif /* KV_DEFRAG_H */
