// SPDX-License-Identifier: Apache-2.0
/*
 * Giving memory back with the world stopped.
 *
 * The hard part is to fail without a trace. Victims keep their entries until memory has gone, as in
 * room.c; pageblocks that have been emptied come back with all of their blocks free, and copied
 * runs stay where they are by then. Only units that a driver has unmapped and will not map again
 * are lost, and that is free memory.
 */
#include <kv/env.h>
#include <move/move.h>
#include <move/stay.h>
#include <move/step.h>

#include "leave.h"

/* ---- requests ---- */

#define SHRINK_FLAGS	KVMM_SHRINK_NO_EVICT

int shrink_read(const struct kvmm_pool *pool, const struct kvmm_shrink *src,
		struct kvmm_shrink *req)
{
	int err;

	if (!pool || !src)
		return -EINVAL;
	err = kv_copy_attr(req, sizeof(*req), src);
	if (err)
		return err;
	if (req->flags & ~SHRINK_FLAGS || !req->bytes == !req->nr_blocks ||
	    req->min_bytes > req->bytes || req->min_blocks > req->nr_blocks ||
	    (req->max_ranges && !req->ranges))
		return -EINVAL;
	req->nr_ranges = req->given_blocks = req->moved = req->nr_moves = req->evicted = 0;
	req->given_bytes = req->plan_ns = req->copy_ns = req->unmap_ns = 0;
	return 0;
}

int shrink_goal(const struct elastic *el, const struct kvmm_shrink *req, struct leave_pick *pick,
		u64 *least)
{
	if (req->bytes && !el->unit_bytes)
		return -EOPNOTSUPP;
	pick->flags = req->flags;
	pick->in_blocks = !req->bytes;
	pick->max_moved = req->max_moved ? req->max_moved : UINT64_MAX;
	if (pick->in_blocks) {
		pick->want = req->nr_blocks;
		*least = req->min_blocks ? req->min_blocks : req->nr_blocks;
		return 0;
	}
	pick->want = (req->bytes - 1) / el->unit_bytes + 1;
	*least = req->min_bytes ? (req->min_bytes - 1) / el->unit_bytes + 1 : pick->want;
	return 0;
}

/* ---- room for the runs that are there ---- */

/* Victims, claimed, their blocks free, to make way for @pick: 0; -EAGAIN. */
static int make_room(struct kvmm_pool *pool, struct elastic *el, struct leave_pick *pick,
		     struct victims *victims)
{
	const struct alloc_ctx ask = { .prio = KVMM_PRIO_NORMAL };
	u32 keep = door_keep(pool, &ask);
	struct leave_pick dry = *pick;
	u32 missing;
	u64 want;

	kv_assert_held(&pool->compact_lock);
	kv_assert_held(&pool->lock);
	if (keep == DOOR_SHUT || pool->blind)	/* freed blocks are not free then */
		return -EAGAIN;
	pick->nr_room = dry.nr_room = 0;
	dry.max_room = UINT64_MAX;
	leave_choose(pool, el, &dry, true);
	want = dry.nr_room;
	if (leave_room(pool, keep) >= (s64)want || !pool->caches)
		return 0;
	missing = want + keep - min(pool_nr_free(pool), (u32)(want + keep));
	if (pick->flags & KVMM_SHRINK_NO_EVICT)
		victims_pick_parked(pool, min(missing, pool_nr_parked(pool)), victims);
	else
		victims_pick(pool, missing, victims);
	victims_free_blocks(pool, victims, victims->nr);
	return 0;
}

int shrink_choose(struct kvmm_pool *pool, struct elastic *el, struct leave_pick *pick, u64 least,
		  struct victims *victims, bool is_first)
{
	int err = 0;

	kv_assert_held(&pool->compact_lock);
	kv_assert_held(&pool->lock);
	if (pool->caches)
		order_enter(&pool->order);
	if (is_first)
		err = make_room(pool, el, pick, victims);
	if (!err)
		err = leave_choose_and_drop(pool, el, pick, least, victims);
	if (pool->caches)
		order_leave(&pool->order);
	return err;
}

void shrink_undo(struct kvmm_pool *pool)
{
	kv_assert_held(&pool->compact_lock);
	kv_assert_held(&pool->lock);
	for (u32 pb = 0; pb < pool->pb.nr; pb++)
		if (pool->pb.state[pb] == PB_LEAVING)
			leave_undo(pool, pb);
}

/* ---- the world has stopped ---- */

struct stop {
	struct kvmm_pool *pool;
	struct elastic *el;
	struct kvmm_shrink *req;
	struct leave_pick pick;
	u64 least;
	struct victims victims;
	u32 posted;		/* the pool's, before anything was freed */
};

/* ->lock held; 0: all pageblocks that leave are empty. */
static int plan_next(struct stop *stop, u32 *nr)
{
	int err = 0;
	u32 bad;

	kv_assert_held(&stop->pool->lock);
	do {
		*nr = leave_plan(stop->pool, stop->el, MOVE_STOPPED, &bad);
		if (bad == KV_NONE)
			break;
		/* It cannot be emptied after all: another one instead, if there is one. */
		leave_give_up(stop->pool, stop->el, &stop->pick, bad);
		err = shrink_choose(stop->pool, stop->el, &stop->pick, stop->least, &stop->victims,
				    false);
	} while (!err);
	return err;
}

static int empty_all(struct stop *stop)
{
	struct kvmm_pool *pool = stop->pool;
	u32 nr, nr_done;
	int err;

	kv_assert_held(&pool->compact_lock);
	for (;;) {
		u64 begin_ns = kv_clock_ns();

		kv_lock(&pool->lock);
		err = plan_next(stop, &nr);
		kv_unlock(&pool->lock);
		stop->req->plan_ns += kv_ns_since(begin_ns);
		if (err || !nr)
			return err;
		begin_ns = kv_clock_ns();
		err = pool_move(pool, stop->el->move, nr, &nr_done);
		for (u32 i = 0; i < nr_done; i++)
			stop->req->moved += stop->el->move[i].nr;
		stop->req->nr_moves += nr_done;
		stop->req->copy_ns += kv_ns_since(begin_ns);
		if (err)
			return err;
	}
}

/* ->lock held: emptied pageblocks are away, the others are here again. */
static void settle_all(struct stop *stop, bool keep)
{
	struct elastic *el = stop->el;

	kv_assert_held(&stop->pool->lock);
	for (u32 pb = 0; pb < stop->pool->pb.nr; pb++) {
		if (stop->pool->pb.state[pb] != PB_LEAVING)
			continue;
		if (keep && leave_settle(stop->pool, pb))
			el->mark[pb] = MARK_FRESH;
		else
			leave_undo(stop->pool, pb);
	}
}

/* As far as the driver lets us. */
static void take_back(struct stop *stop, u64 *nr_units)
{
	struct elastic *el = stop->el;

	kv_assert_held(&stop->pool->compact_lock);
	for (u32 pb = 0; pb < stop->pool->pb.nr; pb++) {
		u64 nr = 0;

		if (el->mark[pb] != MARK_FRESH || units_regain(stop->pool, el, pb, &nr))
			continue;
		*nr_units -= nr;
		el->mark[pb] = MARK_NONE;
		kv_lock(&stop->pool->lock);
		leave_undo(stop->pool, pb);
		kv_unlock(&stop->pool->lock);
	}
}

/* Memory goes, and if too little does, it comes back. */
static int release(struct stop *stop)
{
	struct kvmm_pool *pool = stop->pool;
	struct elastic *el = stop->el;
	u64 begin_ns = kv_clock_ns(), nr = 0;
	int err = 0;

	kv_assert_held(&pool->compact_lock);
	for (u32 pb = 0; pb < pool->pb.nr; pb++)
		if (el->mark[pb] == MARK_FRESH)
			nr += units_release(pool, el, pb, &err);
	stop->req->unmap_ns += kv_ns_since(begin_ns);
	if (err && (stop->pick.in_blocks || nr < stop->least))
		take_back(stop, &nr);
	else
		err = 0;
	stop->req->given_bytes = nr * el->unit_bytes;
	stop->req->given_blocks = 0;
	for (u32 pb = 0; pb < pool->pb.nr; pb++)
		if (el->mark[pb] == MARK_FRESH)
			stop->req->given_blocks += pb_nr(pool, pb);
	el->shrunk_bytes += stop->req->given_bytes;
	return err;
}

static int shrink_stopped(struct stop *stop)
{
	struct kvmm_pool *pool = stop->pool;
	u64 begin_ns = kv_clock_ns();
	int err;

	kv_assert_held(&pool->compact_lock);
	memset(stop->el->mark, MARK_NONE, stop->pool->pb.nr);
	kv_lock(&pool->lock);
	reserve_drop_all(pool);
	err = shrink_choose(pool, stop->el, &stop->pick, stop->least, &stop->victims, true);
	kv_unlock(&pool->lock);
	stop->req->plan_ns += kv_ns_since(begin_ns);
	if (!err)
		err = empty_all(stop);
	kv_lock(&pool->lock);
	settle_all(stop, !err);
	kv_unlock(&pool->lock);
	return err ? err : release(stop);
}

/* Drops and retakes the lock, as pool_compact(). */
static int shrink_between(struct stop *stop)
{
	struct kvmm_pool *pool = stop->pool;
	int err;

	kv_assert_held(&pool->compact_lock);
	kv_assert_held(&pool->lock);
	stop->posted = pool->posted;
	pool_stop(pool);
	err = steps_stand_still(pool);
	if (!err) {
		err = shrink_stopped(stop);
		steps_let_go(pool);
	}
	kv_lock(&pool->lock);
	/* Places of victims may be anything by now if something has failed half-way. */
	stop->req->evicted = victims_end(pool, &stop->victims, err && err != -EIO);
	release_take_back(pool, stop->posted, !err || stop->req->evicted);
	stop->el->evicted += stop->req->evicted;
	stop->el->moved += stop->req->moved;
	pool_resume(pool);
	return err;
}

static int shrink_locked(struct kvmm_pool *pool, struct kvmm_shrink *req)
{
	struct stop stop = { .pool = pool, .req = req, .victims = NO_VICTIMS };
	int err = elastic_get(pool, &stop.el);

	kv_assert_held(&pool->compact_lock);
	if (!err)
		err = stop.el->job.active ? -EBUSY : 0;
	stop.pick.mode = MOVE_STOPPED;
	if (!err)
		err = shrink_goal(stop.el, req, &stop.pick, &stop.least);
	if (err)
		return err;
	flights_poll(pool);
	err = pool_enter(pool);
	if (err)
		return err;
	err = shrink_between(&stop);
	pool_leave(pool);
	if (!err)
		req->nr_ranges = units_tell(stop.el, req->ranges, req->max_ranges);
	return err;
}

int kvmm_pool_shrink(struct kvmm_pool *pool, struct kvmm_shrink *dst)
{
	struct kvmm_shrink req;
	int err = shrink_read(pool, dst, &req);

	if (kv_inherited(pool))
		return -ECHILD;
	if (err)
		return err;
	kv_lock(&pool->compact_lock);
	err = pool_refusal(pool);
	if (!err)
		err = shrink_locked(pool, &req);
	kv_unlock(&pool->compact_lock);
	cache_after(pool);
	kv_give_sized(dst, &req, sizeof(req));
	return err;
}
