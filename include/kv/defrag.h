/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compaction: planners say what to move where, the mover does it through its owner's hands.
 *
 * A planner is a pure function of a picture of the zone: it takes nothing, copies nothing and can
 * be asked what it would do. The mover drives snapshot, plan, isolate, copy, commit; the owner of
 * the blocks (the pool) implements each step in struct kv_movable_ops.
 */
#ifndef KV_DEFRAG_H
#define KV_DEFRAG_H

#include <kv/dev.h>
#include <kv/types.h>
#include <kvmm/compact.h>

/**
 * enum kv_goal - the purpose of a plan
 * @KV_GOAL_RUN: a free run of @want blocks; with @runs, so many of them that together they have
 *	@want; 0 = pack, as much free in as few runs as can be
 * @KV_GOAL_PAGEBLOCKS: @want aligned groups of 2^@order blocks without any item in them
 * @KV_GOAL_SHORTEN: @want descriptors fewer, 0 = as many as can be: extents of one owner join
 * @KV_GOAL_GATHER: all parts of @owner in one run, in their order
 */
enum kv_goal {
	KV_GOAL_RUN,
	KV_GOAL_PAGEBLOCKS,
	KV_GOAL_SHORTEN,
	KV_GOAL_GATHER,
};

/**
 * struct kv_item - a run of held blocks that moves as one piece, is lost as one, or stays
 * @start, @nr: where it lies
 * @movable: or why not:
 * @stay: the owner's reason, to be counted
 * @part: with an @owner: which of its parts this is; they need not be numbered without holes
 * @drop: without: blocks that are lost with it, itself included; 0 = it must not be lost
 * @owner: of several items that better lie together; 0 = it is alone
 */
struct kv_item {
	u32 start;
	u32 nr;
	bool movable;
	u8 stay;
	union {
		u16 part;
		u16 drop;
	};
	u32 owner;
};

static_assert(sizeof(struct kv_item) == 16, "four to a cache line: there may be 2^23");

/**
 * struct kv_prices - in nanoseconds
 * @copy_ns: to copy a block
 * @move_ns: to copy a run, besides
 * @drop_ns: to lose a block; of each item the lesser of both is paid
 */
struct kv_prices {
	u64 copy_ns;
	u64 move_ns;
	u64 drop_ns;
};

/**
 * struct kv_hint - a pageblock that could not be emptied lately
 * @held: blocks that were held in it then: with fewer it is worth another try
 * @until: @round up to which it is left out otherwise
 */
struct kv_hint {
	u32 held;
	u32 until;
};

/**
 * struct kv_plan_req - the picture a planner works on
 * @nr_blocks: size of the zone
 * @items: everything held, by ascending address, not overlapping
 * @nr_items: their number
 * @want: as enum kv_goal says
 * @runs: KV_GOAL_RUN: 0, or at most so many make up @want, up to KVMM_MAX_RUNS
 * @max_blocks: move at most so many blocks; 0 = no limit
 * @apart: readers go on in the old places: destinations are holes of the picture, whole ones. So it
 *	always is but for KV_GOAL_RUN
 * @goal: enum kv_goal
 * @order: KV_GOAL_PAGEBLOCKS: of one
 * @owner: KV_GOAL_GATHER: the owner of the parts
 * @prices: the prices to weigh; NULL: a block is a block, and nothing is lost
 * @hints: by pageblock, or NULL
 * @round: see struct kv_hint
 */
struct kv_plan_req {
	u32 nr_blocks;
	const struct kv_item *items;
	u32 nr_items;
	u32 want;
	u32 runs;
	u32 max_blocks;
	bool apart;
	u32 goal;
	u32 order;
	u32 owner;
	const struct kv_prices *prices;
	const struct kv_hint *hints;
	u32 round;
};

/**
 * struct kv_plan - moves in an order that can be executed one after the other
 * @moves: room for @max_moves; one move an item at most
 * @nr_moves: out
 * @nr_blocks: out: sum of their lengths
 * @gap: out: the free run that will be there (KV_GOAL_RUN, want > 0), the longest of several
 * @drops: room for @max_drops: items that are lost, before anything moves
 * @nr_drops: out
 * @pageblocks: KV_GOAL_PAGEBLOCKS: by number, ascending; all that is in them has been moved or
 *	lost, or they were empty before. Room for @max_pageblocks, at least kv_nr_pageblocks()
 * @nr_pageblocks: out
 * @failed: the same room: those that were tried in vain, for hints; no order
 * @nr_failed: out
 * @saved: out: descriptors fewer (KV_GOAL_SHORTEN, KV_GOAL_GATHER)
 * @cost_ns: out: by @prices: of moves and drops
 */
struct kv_plan {
	struct kv_move *moves;
	u32 max_moves;
	u32 nr_moves;
	u32 nr_blocks;
	struct kvmm_extent gap;
	struct kvmm_extent *drops;
	u32 max_drops;
	u32 nr_drops;
	u32 *pageblocks;
	u32 *failed;
	u32 max_pageblocks;
	u32 nr_pageblocks;
	u32 nr_failed;
	u32 saved;
	u64 cost_ns;
};

/**
 * struct kv_planner_ops - one way to choose moves
 * @name: as in struct kvmm_pool_attr
 * @in_parts: a run that it makes in an empty part of a large zone costs about what one in all does
 * @scratch_bytes: memory for a picture of @nr_items
 * @plan: 0; -EALREADY such a run exists; -ENOSPC no allowed moves reach the goal (less than
 *	@want blocks free, pinned items in the way, or over @max_blocks; or none that keep apart).
 *	Deterministic.
 */
struct kv_planner_ops {
	const char *name;
	bool in_parts;
	size_t (*scratch_bytes)(u32 nr_items);
	int (*plan)(const struct kv_plan_req *req, struct kv_plan *plan, void *scratch);
};

extern const struct kv_planner_ops kv_planner_window;	/* "window": cheapest window */
extern const struct kv_planner_ops kv_planner_slide;	/* "slide": cheapest slide of neighbours */

/**
 * kv_goal_plan() - a plan for any goal
 * @runs: the planner for KV_GOAL_RUN
 * @scratch: kv_goal_scratch() bytes
 *
 * All goals but KV_GOAL_RUN end with what is within reach: then it is -EAGAIN, with that plan.
 *
 * Return: 0; -EALREADY nothing is to be done; -EAGAIN a part of the goal; -ENOSPC no allowed moves
 * get any nearer to it. Deterministic.
 */
int kv_goal_plan(const struct kv_planner_ops *runs, const struct kv_plan_req *req,
		 struct kv_plan *plan, void *scratch);
size_t kv_goal_scratch(const struct kv_planner_ops *runs, const struct kv_plan_req *req);

static inline u32 kv_nr_pageblocks(const struct kv_plan_req *req)
{
	return req->nr_blocks >> req->order;	/* without the rest at the end */
}

/**
 * struct kv_movable_ops - steps of the owner of the blocks
 * @snapshot: fill @items (room for @max), sorted by address; returns how many there are, which
 *	may be more than @max (then the content is undefined: come back with more room)
 * @isolate: mark the owners of all sources as moving and take the destinations: 0, -EAGAIN the
 *	picture is out of date (nothing done)
 * @copy: copy the content of so many moves and wait for it: 0, -EIO (all their destinations are
 *	unreadable). Either one move, which may overlap itself, or several without a destination
 *	that meets a source
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
 * kv_compact() - one compaction by @planner of @owner's blocks
 * @part: those that it sees: @snapshot has items from there alone, and they stay there
 * @runs: most that may make up what is wanted, see struct kv_plan_req
 * @compact: goal and budgets in, results out, as in kvmm_pool_compact(), but for the longest runs;
 *	to @plan_ns all is added but the copies
 *
 * Context: the owner's compaction lock held, none below it. Allocates host memory.
 * Return: as kvmm_pool_compact(), and -ENOMEM.
 */
int kv_compact(const struct kv_planner_ops *planner, const struct kv_movable_ops *ops,
	       void *owner, struct kvmm_extent part, u32 runs, struct kvmm_compact *compact);

#endif /* KV_DEFRAG_H */
