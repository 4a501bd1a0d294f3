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
	u32				first;		/* block of the part */
	struct kv_item			*items;		/* ours; room for max_items */
	u32				max_items;
	struct kv_plan_req		req;
	struct kv_plan			plan;
	u64				start_ns;
};

/*
 * A picture of the part, and a plan made from it.
 *
 * Room for items of a usual length first: to count them is to walk all of the part once more. The
 * owner goes on working, too: its items may have become more between asking and filling. The
 * planner sees the part as a zone of its own.
 */
static int make_plan(struct compaction *c)
{
	u32 nr = c->req.nr_blocks / 8 + 16;
	void *scratch;
	int err;

	for (;;) {
		if (nr > c->max_items) {
			kv_free(c->items);
			c->max_items = 0;
			c->items = kv_alloc_array(nr, sizeof(*c->items));
			if (!c->items)
				return -ENOMEM;
			c->max_items = nr;
		}
		nr = c->ops->snapshot(c->owner, c->items, c->max_items);
		if (nr <= c->max_items)
			break;
		nr += nr / 8;
	}
	for (u32 i = 0; c->first && i < nr; i++)
		c->items[i].start -= c->first;
	c->req.items = c->items;
	c->req.nr_items = nr;

	kv_free(c->plan.moves);
	c->plan = (struct kv_plan){ .max_moves = nr };
	c->plan.moves = kv_alloc_array(nr + 1, sizeof(*c->plan.moves));
	scratch = kv_alloc(c->planner->scratch_bytes(nr) + 1);
	if (c->plan.moves && scratch)
		err = c->planner->plan(&c->req, &c->plan, scratch);
	else
		err = -ENOMEM;
	kv_free(scratch);
	for (u32 i = 0; !err && i < c->plan.nr_moves; i++) {
		c->plan.moves[i].src += c->first;
		c->plan.moves[i].dst += c->first;
	}
	return err;
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

	kv_assert(move->nr);
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

static int execute(struct compaction *c, struct kvmm_compact *goal)
{
	const struct kv_move *moves = c->plan.moves;
	u64 begin_ns = kv_clock_ns();
	u32 nr_done, nr;
	bool lost = false;
	int err = 0;

	kv_assert(c->plan.nr_moves <= c->plan.max_moves);
	for (nr_done = 0; nr_done < c->plan.nr_moves; nr_done += nr) {
		struct batch batch = { .lo = KV_NONE, .hi = 0, .below = 0, .above = KV_NONE };
		u32 max_nr = min(c->plan.nr_moves - nr_done, MAX_BATCH);

		for (nr = 0; nr < max_nr; nr++)
			if (!batch_add(&batch, &moves[nr_done + nr]))
				break;
		nr = max(nr, 1u);
		if (goal->max_us && kv_clock_ns() - c->start_ns >= goal->max_us * 1000ull)
			err = -EAGAIN;
		else
			err = c->ops->copy(c->owner, &moves[nr_done], nr);
		if (err)
			break;
	}
	if (err && err != -EAGAIN) {	/* a move that overlaps itself cannot be undone */
		const struct kv_move *move = &moves[nr_done];

		lost = max(move->src, move->dst) - min(move->src, move->dst) < move->nr;
	}
	c->ops->commit(c->owner, c->plan.moves, c->plan.nr_moves, nr_done, lost);

	for (u32 i = 0; i < nr_done; i++)
		goal->moved += moves[i].nr;
	goal->nr_moves += nr_done;
	goal->copy_ns += kv_ns_since(begin_ns);
	return err;
}

int kv_compact(const struct kv_planner_ops *planner, const struct kv_movable_ops *ops,
	       void *owner, struct kvmm_extent part, u32 runs, struct kvmm_compact *goal)
{
	struct compaction c = {
		.planner = planner, .ops = ops, .owner = owner, .first = part.start,
		.req = { .nr_blocks = part.nr, .want = goal->want_run, .runs = runs,
			 .max_blocks = goal->max_blocks },
		.start_ns = kv_clock_ns(),
	};
	int err, tries = MAX_TRIES;

	goal->moved = goal->nr_moves = 0;
	goal->copy_ns = 0;
	do {	/* until sources and destinations are ours to use */
		err = make_plan(&c);
		if (!err)
			err = ops->isolate(owner, c.plan.moves, c.plan.nr_moves);
	} while (err == -EAGAIN && --tries);
	goal->plan_ns += kv_ns_since(c.start_ns);
	if (!err)
		err = execute(&c, goal);
	else if (err == -EALREADY)
		err = 0;
	kv_free(c.plan.moves);
	kv_free(c.items);
	return err;
}
