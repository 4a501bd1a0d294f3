// SPDX-License-Identifier: Apache-2.0
/*
 * Giving memory back beside running steps.
 *
 * No thread is waited for. Each call goes on as far as things are: blocks that became free in a
 * pageblock that leaves are set aside, blocks that may move are given a flight, and a pageblock
 * that is empty waits until all steps of today have ended on the device: blocks that their owner
 * has freed may be read by one that began before. So
 *
 *	every block is OWNER_AWAY | an epoch begins | no step of an older one is left: unmap
 *
 * Moves need no waiting of their own: an old place is set aside when its flight lands.
 */
#include <kv/env.h>
#include <kv/pool_migrate.h>
#include <move/step.h>

#include "leave.h"

#define PORTION		256u	/* moves of one flight */

void job_due(struct kvmm_pool *pool, const struct elastic *el)
{
	bool due = el->job.active || el->wait.nr || el->balloon_on;

	kv_assert_held(&pool->compact_lock);
	WRITE_ONCE(pool->elastic_tick, due ? elastic_work : NULL);
}

/* ---- the end ---- */

static void job_end(struct kvmm_pool *pool, struct elastic *el, int end)
{
	kv_assert_held(&pool->compact_lock);
	kv_lock(&pool->lock);
	shrink_undo(pool);
	pool_leave(pool);
	el->job.active = false;
	el->job.end = end;
	arenas_unbar(pool);
	job_due(pool, el);
}

void job_cancel(struct kvmm_pool *pool, struct elastic *el)
{
	kv_assert_held(&pool->compact_lock);
	if (el->job.active)
		job_end(pool, el, 0);
}

/* ---- empty pageblocks ---- */

static void set_waiting(struct elastic *el, u32 pb, enum wait_state state)
{
	kv_assert(state <= WAIT_EPOCH);
	el->wait.nr += (state != WAIT_NO) - (u32)(el->waiting[pb] != WAIT_NO);
	el->waiting[pb] = state;
}

static void settle_leaving(struct kvmm_pool *pool, struct elastic *el)
{
	kv_assert_held(&pool->compact_lock);
	kv_lock(&pool->lock);
	if (pool->nr_leaving)
		pool_drain_local(pool);
	for (u32 pb = 0; pb < pool->pb.nr && pool->nr_leaving; pb++) {
		if (pool->pb.state[pb] != PB_LEAVING)
			continue;
		leave_claim(pool, pb);
		if (leave_settle(pool, pb))
			set_waiting(el, pb, WAIT_EMPTY);
	}
	pool_leave(pool);
}

/* ---- until no step can read it ---- */

static void begin_wait(struct kvmm_pool *pool, struct elastic *el)
{
	bool any = false;

	kv_assert_held(&pool->compact_lock);
	for (u32 pb = 0; pb < pool->pb.nr && !el->wait.on; pb++) {
		if (el->waiting[pb] != WAIT_EMPTY)
			continue;
		el->waiting[pb] = WAIT_EPOCH;
		any = true;
	}
	if (!any)
		return;
	el->wait.epoch = kv_pool_epoch_begin(pool);
	el->wait.on = true;
}

/* All of them, before the first unit goes: it may have a byte of two. */
static void mark_passed(struct kvmm_pool *pool, struct elastic *el)
{
	kv_assert_held(&pool->compact_lock);
	kv_lock(&pool->lock);
	for (u32 pb = 0; pb < pool->pb.nr; pb++) {
		if (el->waiting[pb] != WAIT_EPOCH)
			continue;
		set_waiting(el, pb, WAIT_NO);
		el->mark[pb] = MARK_FRESH;
	}
	pool_leave(pool);
	el->wait.on = false;
}

static int release_passed(struct kvmm_pool *pool, struct elastic *el)
{
	u64 begin_ns = kv_clock_ns(), units = 0, blocks = 0;
	struct leave_job *job = &el->job;
	int err = 0;

	kv_assert_held(&pool->compact_lock);
	if (!el->wait.on)
		return 0;
	/*
	 * Steps of the epoch and later ones began when no engine could be told of these blocks.
	 * While the device is blind, the ends of steps are unknown.
	 */
	if (!kv_pool_epoch_passed(pool, el->wait.epoch) || READ_ONCE(pool->blind))
		return 0;
	mark_passed(pool, el);
	for (u32 pb = 0; pb < pool->pb.nr; pb++) {
		if (el->mark[pb] != MARK_FRESH)
			continue;
		units += units_release(pool, el, pb, &err);
		blocks += pb_nr(pool, pb);
		el->mark[pb] = MARK_NONE;
	}
	el->shrunk_bytes += units * el->unit_bytes;
	job->done += job->in_blocks ? blocks : units;
	job->out.given_bytes += units * el->unit_bytes;
	job->out.given_blocks += blocks;
	job->out.unmap_ns += kv_ns_since(begin_ns);
	return err;
}

/* ---- runs that have to move ---- */

/* Another one instead, if there is one, with the blocks free now. ->lock held. */
static void replace(struct kvmm_pool *pool, struct elastic *el, u32 bad)
{
	struct leave_job *job = &el->job;
	struct leave_pick pick = { .mode = job->mode, .flags = job->flags | KVMM_SHRINK_NO_EVICT,
				   .in_blocks = job->in_blocks, .want = job->want,
				   .max_moved = UINT64_MAX, .got = job->got };
	struct victims victims = NO_VICTIMS;
	u32 nr;

	kv_assert_held(&pool->compact_lock);
	kv_assert_held(&pool->lock);
	leave_give_up(pool, el, &pick, bad);
	reserve_drop_all(pool);		/* ranges may have grown since the job began */
	shrink_choose(pool, el, &pick, 0, &victims, false);
	nr = victims_end(pool, &victims, false);
	job->out.evicted += nr;
	el->evicted += nr;
	job->got = pick.got;
}

/* 0, or -EIO. */
static int move_some(struct kvmm_pool *pool, struct elastic *el)
{
	u64 begin_ns = kv_clock_ns();
	u32 max = el->job.max_moved ? el->job.max_moved - el->job.out.moved : UINT32_MAX;
	u32 nr, nr_planned, nr_blocks = 0, bad;
	int err;

	kv_assert_held(&pool->compact_lock);
	kv_lock(&pool->lock);
	nr_planned = min(leave_plan(pool, el, el->job.mode, &bad), PORTION);
	for (nr = 0; nr < nr_planned && nr_blocks + el->move[nr].nr <= max; nr++)
		nr_blocks += el->move[nr].nr;
	if (!nr && bad != KV_NONE && !pool->transit.nr_flights)
		replace(pool, el, bad);
	pool_leave(pool);
	el->job.out.plan_ns += kv_ns_since(begin_ns);
	if (!nr)
		return 0;
	err = flights_start(pool, el->move, nr, el->job.mode);
	if (err)
		return err == -EIO ? err : 0;
	el->job.out.moved += nr_blocks;
	el->job.out.nr_moves += nr;
	el->moved += nr_blocks;
	return 0;
}

/* ---- going on ---- */

static void job_step(struct kvmm_pool *pool, struct elastic *el)
{
	int err = 0;

	kv_assert_held(&pool->compact_lock);
	if (pool->nr_leaving)
		err = move_some(pool, el);
	if (err)
		job_end(pool, el, err);
	else if (el->job.got < el->job.least)
		job_end(pool, el, -ENOSPC);
	else if (!pool->nr_leaving && !el->wait.nr)
		job_end(pool, el, el->job.done < el->job.least ? -ENOSPC : 0);
}

void job_advance(struct kvmm_pool *pool, struct elastic *el)
{
	struct steps *steps = steps_of(pool);
	int err;

	kv_assert_held(&pool->compact_lock);
	if (!steps || steps->nr_quiet || pool_refusal(pool))
		return;
	flights_poll(pool);
	settle_leaving(pool, el);
	begin_wait(pool, el);
	err = release_passed(pool, el);
	if (err && el->job.active)
		job_end(pool, el, err);
	begin_wait(pool, el);
	if (el->job.active)
		job_step(pool, el);
	job_due(pool, el);
}

/* ---- starting ---- */

int job_start(struct kvmm_pool *pool, struct elastic *el, const struct kvmm_shrink *req, u32 mode)
{
	struct leave_pick pick = { .mode = mode };
	struct steps *steps = steps_get(pool);
	struct victims victims = NO_VICTIMS;
	u32 nr_evicted = 0, posted;
	u64 least;
	int err;

	kv_assert_held(&pool->compact_lock);
	if (!steps)
		return -ENOMEM;
	if (el->job.active || steps->nr_quiet)
		return -EBUSY;
	if (mode >= KVMM_NR_MOVE_MODES)
		return -EINVAL;
	err = shrink_goal(el, req, &pick, &least);
	if (err)
		return err;
	flights_poll(pool);
	memset(el->mark, MARK_NONE, pool->pb.nr);
	arenas_bar(pool);
	err = pool_enter(pool);
	if (!err) {
		posted = pool->posted;
		pool_drain_local(pool);
		reserve_drop_all(pool);
		/* Victims are gone for good; or there are none, and nothing leaves. */
		err = shrink_choose(pool, el, &pick, least, &victims, true);
		if (err)
			shrink_undo(pool);
		nr_evicted = victims_end(pool, &victims, err);
		/* It was free, or could be evicted, before. */
		release_take_back(pool, posted, !err || nr_evicted);
		pool_leave(pool);
	}
	if (err) {
		arenas_unbar(pool);
		return err;
	}
	el->job = (struct leave_job){
		.active = true, .mode = mode, .flags = req->flags,
		.in_blocks = pick.in_blocks, .want = pick.want, .least = least,
		.got = pick.got, .max_moved = req->max_moved, .out = *req,
	};
	el->job.out.evicted = nr_evicted;
	el->evicted += nr_evicted;
	job_advance(pool, el);
	return 0;
}

/* ---- calls ---- */

int kvmm_pool_shrink_start(struct kvmm_pool *pool, const struct kvmm_shrink *src, uint32_t mode)
{
	struct kvmm_shrink req;
	struct elastic *el;
	int err = 0;

	if (kv_inherited(pool))
		return -ECHILD;
	if (!pool || mode >= KVMM_NR_MOVE_MODES)
		return -EINVAL;
	if (src)
		err = shrink_read(pool, src, &req);
	if (err)
		return err;
	kv_lock(&pool->compact_lock);
	el = pool->elastic;
	if (src) {
		err = pool_refusal(pool);
		if (!err)
			err = elastic_get(pool, &el);
		if (!err)
			err = job_start(pool, el, &req, mode);
	} else if (el && el->job.active) {
		job_cancel(pool, el);
	} else {
		err = -EINVAL;
	}
	kv_unlock(&pool->compact_lock);
	cache_after(pool);
	return err;
}

/* The request is kept; room for results is the caller's word of today. */
static int write_results(struct elastic *el, struct kvmm_shrink *dst)
{
	struct kvmm_shrink now, out = el->job.out;
	int err = kv_copy_attr(&now, sizeof(now), dst);

	if (err)
		return err;
	if (now.max_ranges && !now.ranges)
		return -EINVAL;
	out.ranges = now.ranges;
	out.max_ranges = now.max_ranges;
	out.nr_ranges = units_tell(el, out.ranges, out.max_ranges);
	kv_give_sized(dst, &out, sizeof(out));
	return 0;
}

int kvmm_pool_shrink_poll(struct kvmm_pool *pool, struct kvmm_shrink *req)
{
	struct elastic *el;
	int ret = 0;

	if (kv_inherited(pool))
		return -ECHILD;
	if (!pool)
		return -EINVAL;
	kv_lock(&pool->compact_lock);
	el = pool->elastic;
	if (el) {
		job_advance(pool, el);
		if (req)
			ret = write_results(el, req);
		if (!ret && el->job.active)
			ret = 1;
		else if (!ret) {
			ret = el->job.end;
			el->job.end = 0;
		}
	}
	kv_unlock(&pool->compact_lock);
	cache_after(pool);
	return ret;
}
