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

/* Fields that an older caller has no room for are not written. */
void shrink_write(struct kvmm_shrink *dst, const struct kvmm_shrink *req)
{
	struct kvmm_shrink copy = *req;

	copy.size = dst->size;
	memcpy(dst, &copy, min(copy.size, sizeof(copy)));
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

static u64 count_room(struct kvmm_pool *pool, struct elastic *el, const struct leave_pick *pick)
{
	struct leave_pick dry = *pick;

	dry.max_room = UINT64_MAX;
	leave_choose(pool, el, &dry, true);
	return dry.nr_room;
}

int shrink_make_room(struct kvmm_pool *pool, struct elastic *el, struct leave_pick *pick,
		     struct victims *victims)
{
	const struct alloc_ctx ask = { .prio = KVMM_PRIO_NORMAL };
	u32 keep = door_keep(pool, &ask);
	u64 want;

	if (keep == DOOR_SHUT || pool->blind)	/* freed blocks are not free then */
		return -EAGAIN;
	pick->nr_room = 0;
	want = count_room(pool, el, pick);
	if (leave_room(pool, keep) < (s64)want && pool->caches &&
	    !(pick->flags & KVMM_SHRINK_NO_EVICT)) {
		victims_pick(pool, want + keep - min(pool_nr_free(pool), (u32)(want + keep)),
			     victims);
		victims_free_blocks(pool, victims, victims->nr);
	}
	return 0;
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

static int choose_first(struct stop *stop)
{
	struct kvmm_pool *pool = stop->pool;
	int err;

	if (pool->caches)
		order_enter(&pool->order);
	err = shrink_make_room(pool, stop->el, &stop->pick, &stop->victims);
	if (!err)
		err = leave_choose_and_drop(pool, stop->el, &stop->pick, stop->least,
					    &stop->victims);
	if (pool->caches)
		order_leave(&pool->order);
	return err;
}

/* This one cannot be emptied after all: another one instead, if there is one. */
static int choose_again(struct stop *stop, u32 bad)
{
	struct kvmm_pool *pool = stop->pool;
	int err;

	leave_give_up(pool, stop->el, &stop->pick, bad);
	if (pool->caches)
		order_enter(&pool->order);
	err = leave_choose_and_drop(pool, stop->el, &stop->pick, stop->least, &stop->victims);
	if (pool->caches)
		order_leave(&pool->order);
	return err;
}

/* ->lock held; 0: all pageblocks that leave are empty. */
static int plan_next(struct stop *stop, u32 *nr)
{
	int err = 0;
	u32 bad;

	do {
		*nr = leave_plan(stop->pool, stop->el, MOVE_STOPPED, &bad);
		if (bad != KV_NONE)
			err = choose_again(stop, bad);
	} while (!err && bad != KV_NONE);
	return err;
}

static void count_moves(struct stop *stop, u32 nr_done)
{
	for (u32 i = 0; i < nr_done; i++)
		stop->req->moved += stop->el->move[i].nr;
	stop->req->nr_moves += nr_done;
}

static int empty_all(struct stop *stop)
{
	struct kvmm_pool *pool = stop->pool;
	u32 nr, nr_done;
	int err;

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
		count_moves(stop, nr_done);
		stop->req->copy_ns += kv_ns_since(begin_ns);
		if (err)
			return err;
	}
}

/* ->lock held: emptied pageblocks are away, the others are here again. */
static void settle_all(struct stop *stop, bool keep)
{
	struct elastic *el = stop->el;

	for (u32 pb = 0; pb < stop->pool->pb.nr; pb++) {
		if (stop->pool->pb.state[pb] != PB_LEAVING)
			continue;
		if (keep && leave_settle(stop->pool, pb))
			el->mark[pb] = MARK_FRESH;
		else
			leave_undo(stop->pool, pb);
	}
}

static u64 release_all(struct stop *stop, int *err)
{
	struct elastic *el = stop->el;
	u64 begin_ns = kv_clock_ns(), nr = 0;

	for (u32 pb = 0; pb < stop->pool->pb.nr; pb++)
		if (el->mark[pb] == MARK_FRESH)
			nr += units_release(stop->pool, el, pb, err);
	stop->req->unmap_ns += kv_ns_since(begin_ns);
	return nr;
}

static u32 nr_fresh(const struct stop *stop)
{
	u32 nr = 0;

	for (u32 pb = 0; pb < stop->pool->pb.nr; pb++)
		if (stop->el->mark[pb] == MARK_FRESH)
			nr += pb_nr(stop->pool, pb);
	return nr;
}

/* As far as the driver lets us. */
static void take_back(struct stop *stop, u64 *nr_units)
{
	struct elastic *el = stop->el;

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
	struct elastic *el = stop->el;
	int err = 0;
	u64 nr = release_all(stop, &err);

	if (err && (stop->pick.in_blocks || nr < stop->least))
		take_back(stop, &nr);
	else
		err = 0;
	stop->req->given_bytes = nr * el->unit_bytes;
	stop->req->given_blocks = nr_fresh(stop);
	el->shrunk_bytes += stop->req->given_bytes;
	return err;
}

/* @max_moved: more cannot be told to readers that keep tables. */
static int shrink_stopped(struct stop *stop)
{
	struct kvmm_pool *pool = stop->pool;
	u64 begin_ns = kv_clock_ns();
	int err;

	memset(stop->el->mark, MARK_NONE, stop->pool->pb.nr);
	kv_lock(&pool->lock);
	reserve_drop_all(pool);
	err = choose_first(stop);
	kv_unlock(&pool->lock);
	stop->req->plan_ns += kv_ns_since(begin_ns);
	if (!err)
		err = empty_all(stop);
	kv_lock(&pool->lock);
	settle_all(stop, !err);
	kv_unlock(&pool->lock);
	return err ? err : release(stop);
}

/* ->lock held. Places of victims may be anything by now if something has failed half-way. */
static void end_victims(struct stop *stop, int err)
{
	u32 nr = victims_end(stop->pool, &stop->victims, err && err != -EIO);

	release_take_back(stop->pool, stop->posted, !err || nr);
	stop->req->evicted = nr;
	stop->el->evicted += nr;
	stop->el->moved += stop->req->moved;
}

/* Drops and retakes the lock, as pool_compact(). */
static int shrink_between(struct stop *stop)
{
	struct kvmm_pool *pool = stop->pool;
	u32 max_moved = min(stop->pick.max_moved, (u64)UINT32_MAX);
	int err;

	if (max_moved == UINT32_MAX)
		max_moved = 0;
	stop->posted = pool->posted;
	pool_stop(pool);
	err = steps_stand_still(pool, &max_moved);
	if (!err) {
		stop->pick.max_moved = max_moved ? max_moved : UINT64_MAX;
		err = shrink_stopped(stop);
		steps_let_go(pool);
	}
	kv_lock(&pool->lock);
	end_victims(stop, err);
	pool_resume(pool);
	return err;
}

static int shrink_locked(struct kvmm_pool *pool, struct kvmm_shrink *req)
{
	struct stop stop = { .pool = pool, .req = req, .victims = NO_VICTIMS };
	int err = elastic_get(pool, &stop.el);

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
	shrink_write(dst, &req);
	return err;
}
