// SPDX-License-Identifier: Apache-2.0
/*
 * The mover: snapshot, plan, isolate, copy, commit.
 *
 * The hard part is to stop half-way without a trace: a copy may fail, the time may run out, the
 * picture may be out of date. So nothing is published before its copy is done, moves are copied
 * together only if none can harm another, and the moves not reached are handed back to the owner as
 * they were.
 *
 * The owner's compaction lock is held throughout and serialises everything here; no other lock is
 * held across a copy.
 */
#include <kv/env.h>
#include <kv/mem.h>

#include "internal.h"

/* How often a picture may go out of date between snapshot and isolation. */
#define MAX_TRIES	8

/* Most moves in one copy: the time is looked at in between. */
#define MAX_BATCH	256u

struct compaction {
	const struct kv_planner_ops	*planner;
	const struct kv_movable_ops	*ops;
	void				*owner;
	struct kv_item			*items;		/* ours; room for max_items */
	u32				max_items;
	struct kv_plan_req		req;
	struct kv_plan			plan;
	u64				start_ns;
};

static u32 largest_hole(const struct kv_plan_req *req)
{
	u32 i, largest = 0;

	for (i = 0; i <= req->nr_items; i++)
		if (hole_nr(req, i) > largest)
			largest = hole_nr(req, i);
	return largest;
}

/* The owner goes on working: its items may have become more between asking and filling. */
static int take_picture(struct compaction *c)
{
	for (;;) {
		u32 nr = c->ops->snapshot(c->owner, c->items, c->max_items);

		if (nr <= c->max_items) {
			c->req.items = c->items;
			c->req.nr_items = nr;
			return 0;
		}
		kv_free(c->items);
		c->max_items = nr + nr / 8;
		c->items = kv_alloc_array(c->max_items, sizeof(*c->items));
		if (!c->items) {
			c->max_items = 0;
			return -ENOMEM;
		}
	}
}

static int make_plan(struct compaction *c)
{
	void *scratch;
	int err;

	kv_free(c->plan.moves);
	c->plan = (struct kv_plan){ .max_moves = c->req.nr_items };
	c->plan.moves = kv_alloc_array(c->req.nr_items + 1, sizeof(*c->plan.moves));
	scratch = kv_alloc(c->planner->scratch_bytes(c->req.nr_items) + 1);
	if (c->plan.moves && scratch)
		err = c->planner->plan(&c->req, &c->plan, scratch);
	else
		err = -ENOMEM;
	kv_free(scratch);
	return err;
}

static bool overlaps_itself(const struct kv_move *move)
{
	u32 gap = move->src > move->dst ? move->src - move->dst : move->dst - move->src;

	return gap < move->nr;
}

/*
 * Moves that may be one copy: if it fails, all of their sources must still be whole, so no
 * destination may meet a source. The stretch that holds all sources stands for them: a window's
 * runs lie together and go elsewhere. Runs that slide go one by one.
 */
struct batch {
	u32 lo, hi;	/* the stretch of the sources */
	u32 below;	/* destinations under the stretch end here at the latest */
	u32 above;	/* those over it begin here at the earliest */
};

static bool batch_add(struct batch *batch, const struct kv_move *move)
{
	u32 end = move->dst + move->nr;

	batch->lo = min(batch->lo, move->src);
	batch->hi = max(batch->hi, move->src + move->nr);
	if (end <= batch->lo)
		batch->below = max(batch->below, end);
	else if (move->dst >= batch->hi)
		batch->above = min(batch->above, move->dst);
	else
		return false;
	return batch->below <= batch->lo && batch->above >= batch->hi;
}

/* How many moves from @i on, at least one. */
static u32 batch_from(const struct kv_plan *plan, u32 i)
{
	struct batch batch = { .lo = KV_NONE, .hi = 0, .below = 0, .above = KV_NONE };
	u32 nr, max_nr = min(plan->nr_moves - i, MAX_BATCH);

	for (nr = 0; nr < max_nr; nr++)
		if (!batch_add(&batch, &plan->moves[i + nr]))
			break;
	return max(nr, 1u);
}

/* Returns how many moves were copied; *@err says why it was not all of them. */
static u32 copy_moves(struct compaction *c, const struct kvmm_compact *goal, int *err)
{
	u32 i, nr;

	*err = 0;
	for (i = 0; i < c->plan.nr_moves; i += nr) {
		nr = batch_from(&c->plan, i);
		if (goal->max_us && kv_clock_ns() - c->start_ns >= goal->max_us * 1000ull)
			*err = -EAGAIN;
		else
			*err = c->ops->copy(c->owner, &c->plan.moves[i], nr);
		if (*err)
			break;
	}
	return i;
}

static int execute(struct compaction *c, struct kvmm_compact *goal)
{
	u64 begin_ns = kv_clock_ns();
	u32 i, nr_done;
	bool lost;
	int err;

	nr_done = copy_moves(c, goal, &err);
	lost = err && err != -EAGAIN && overlaps_itself(&c->plan.moves[nr_done]);
	c->ops->commit(c->owner, c->plan.moves, c->plan.nr_moves, nr_done, lost);

	for (i = 0; i < nr_done; i++)
		goal->moved += c->plan.moves[i].nr;
	goal->nr_moves += nr_done;
	goal->copy_ns += kv_ns_since(begin_ns);
	return err;
}

/* A plan with sources and destinations that are ours to use. */
static int plan_and_isolate(struct compaction *c, struct kvmm_compact *goal)
{
	int err, tries = MAX_TRIES;

	do {
		u64 begin_ns;

		err = take_picture(c);
		if (err)
			return err;
		begin_ns = kv_clock_ns();
		goal->largest_before = goal->largest_after = largest_hole(&c->req);
		err = make_plan(c);
		goal->plan_ns += kv_ns_since(begin_ns);
		if (err)
			return err;
		err = c->ops->isolate(c->owner, c->plan.moves, c->plan.nr_moves);
	} while (err == -EAGAIN && --tries);
	return err;
}

static int run_compaction(struct compaction *c, struct kvmm_compact *goal)
{
	int err;

	err = plan_and_isolate(c, goal);
	if (err == -EALREADY)
		return 0;
	if (err)
		return err;

	err = execute(c, goal);
	if (!take_picture(c))
		goal->largest_after = largest_hole(&c->req);
	return err;
}

static struct compaction begin(const struct kv_planner_ops *planner,
			       const struct kv_movable_ops *ops, void *owner, u32 nr_blocks,
			       struct kvmm_compact *goal)
{
	goal->moved = goal->nr_moves = 0;
	goal->plan_ns = goal->copy_ns = 0;
	goal->largest_before = goal->largest_after = 0;
	return (struct compaction){
		.planner = planner, .ops = ops, .owner = owner,
		.req = { .nr_blocks = nr_blocks, .want = goal->want_run,
			 .max_blocks = goal->max_blocks },
		.start_ns = kv_clock_ns(),
	};
}

static void end(struct compaction *c)
{
	kv_free(c->plan.moves);
	kv_free(c->items);
}

int kv_compact(const struct kv_planner_ops *planner, const struct kv_movable_ops *ops,
	       void *owner, u32 nr_blocks, struct kvmm_compact *goal)
{
	struct compaction c = begin(planner, ops, owner, nr_blocks, goal);
	int err = run_compaction(&c, goal);

	end(&c);
	return err;
}
