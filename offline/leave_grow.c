// SPDX-License-Identifier: Apache-2.0
/*
 * Having memory again: mapped first, all of it, and only then are blocks free. So a request finds
 * memory behind each block, and a driver that has not enough leaves nothing behind.
 *
 * A balloon is pageblocks that leave and come back by ticks, so that the memory away comes near a
 * target. It goes by whole pageblocks and by the blocks in them: half a pageblock too much would
 * make it come and go for ever.
 */
#include <kv/pool.h>
#include <move/step.h>

#include "leave.h"

#define PORTION		8u	/* pageblocks a tick */
#define MOST_DEFERRED	6u

/* ---- having again ---- */

static u64 block_bytes(const struct elastic *el)
{
	u64 sum = 0;

	for (u32 i = 0; i < el->nr_spans; i++)
		sum += el->span[i].stride;
	return sum;
}

/* Blocks. */
static int regain_goal(const struct elastic *el, const struct kvmm_regain *req, u64 *want,
		       u64 *least)
{
	u64 bytes = block_bytes(el);

	if (req->bytes && !bytes)
		return -EOPNOTSUPP;
	*want = req->nr_blocks;
	*least = req->min_blocks ? req->min_blocks : req->nr_blocks;
	if (req->bytes) {
		*want = (req->bytes - 1) / bytes + 1;
		*least = req->min_bytes ? (req->min_bytes - 1) / bytes + 1 : *want;
	}
	if (!*want)
		*want = UINT64_MAX;
	return 0;
}

static void regain_show(struct kvmm_pool *pool, struct elastic *el)
{
	kv_assert_held(&pool->compact_lock);
	kv_lock(&pool->lock);
	for (u32 pb = 0; pb < pool->pb.nr; pb++) {
		if (el->mark[pb] != MARK_BACK)
			continue;
		el->mark[pb] = MARK_NONE;
		el->wait.nr -= el->waiting[pb] != WAIT_NO;
		el->waiting[pb] = WAIT_NO;
		leave_undo(pool, pb);
	}
	pool_leave(pool);
}

/* Lowest first. Why it was not all, if nothing else than that it is not away. */
static int regain_units(struct kvmm_pool *pool, struct elastic *el, u64 want, u64 *got,
			u64 *nr_units)
{
	int err = 0;

	kv_assert_held(&pool->compact_lock);
	memset(el->mark, MARK_NONE, pool->pb.nr);
	for (u32 pb = 0; pb < pool->pb.nr && *got < want && (!err || err == -ENOSPC); pb++) {
		if (pool->pb.state[pb] != PB_AWAY)
			continue;
		err = units_regain(pool, el, pb, nr_units);
		if (err)
			continue;
		el->mark[pb] = MARK_BACK;
		*got += pb_nr(pool, pb);
	}
	return err;
}

int regain(struct kvmm_pool *pool, struct elastic *el, struct kvmm_regain *req)
{
	u64 want, least, got = 0, nr_units = 0;
	int err = regain_goal(el, req, &want, &least);

	kv_assert_held(&pool->compact_lock);
	if (err)
		return err;
	err = regain_units(pool, el, want, &got, &nr_units);
	if (got < least) {
		for (u32 pb = 0; pb < pool->pb.nr; pb++)
			el->mark[pb] = el->mark[pb] == MARK_BACK ? MARK_FRESH : MARK_NONE;
		for (u32 pb = 0; pb < pool->pb.nr; pb++)
			if (el->mark[pb] == MARK_FRESH)
				units_release(pool, el, pb, &(int){ 0 });
		return err ? err : -ENOSPC;
	}
	regain_show(pool, el);
	req->regained_blocks = got;
	req->regained_bytes = nr_units * el->unit_bytes;
	el->grown_bytes += req->regained_bytes;
	return 0;
}

static int regain_read(const struct kvmm_pool *pool, const struct kvmm_regain *src,
		       struct kvmm_regain *req)
{
	int err;

	if (!pool || !src)
		return -EINVAL;
	err = kv_copy_attr(req, sizeof(*req), src);
	if (err)
		return err;
	if ((req->bytes && req->nr_blocks) || req->min_bytes > req->bytes ||
	    req->min_blocks > req->nr_blocks || (req->nr_ranges && !req->ranges))
		return -EINVAL;
	req->regained_blocks = 0;
	req->regained_bytes = 0;
	return 0;
}

static int grow_locked(struct kvmm_pool *pool, struct kvmm_regain *req)
{
	struct elastic *el;
	int err = pool_refusal(pool);

	kv_assert_held(&pool->compact_lock);
	if (!err)
		err = elastic_get(pool, &el);
	if (!err)
		err = el->job.active ? -EBUSY : 0;
	/* The caller has memory again behind the blocks it hands back, come what may. */
	if (!err && req->nr_ranges)
		err = pool->area || !el->unit_bytes ? -EINVAL :
		      units_take_back(el, req->ranges, req->nr_ranges);
	if (!err)
		err = regain(pool, el, req);
	if (!err)
		job_due(pool, el);
	return err;
}

int kvmm_pool_grow(struct kvmm_pool *pool, struct kvmm_regain *dst)
{
	struct kvmm_regain req;
	int err = regain_read(pool, dst, &req);

	if (err)
		return err;
	kv_lock(&pool->compact_lock);
	err = grow_locked(pool, &req);
	kv_unlock(&pool->compact_lock);
	kv_give_sized(dst, &req, sizeof(req));
	return err;
}

/* ---- the balloon ---- */

static u32 nr_away(const struct kvmm_pool *pool)
{
	u32 nr = 0;

	kv_assert_held(&pool->compact_lock);
	for (u32 pb = 0; pb < pool->pb.nr; pb++)
		if (pool->pb.state[pb] == PB_AWAY)
			nr += pb_nr(pool, pb);
	return nr;
}

/* After a try in vain the next 2, 4, ... 64 ticks are left out. */
static void inflate(struct kvmm_pool *pool, struct elastic *el, u64 nr_blocks)
{
	struct kvmm_shrink req = { .size = sizeof(req), .min_blocks = 1 };

	kv_assert_held(&pool->compact_lock);
	if (el->nr_deferred) {
		el->nr_deferred--;
		return;
	}
	req.nr_blocks = min(nr_blocks, (u64)PORTION << pool->pb.shift);
	if (!job_start(pool, el, &req, KVMM_MOVE_BESIDE)) {
		el->job.balloon = true;
		el->defer_shift = 0;
		return;
	}
	el->defer_shift = min(el->defer_shift + 1, MOST_DEFERRED);
	el->nr_deferred = BIT(el->defer_shift);
}

/* 1: there is more to do. */
static int balloon_portion(struct kvmm_pool *pool, struct elastic *el)
{
	u64 want = el->target / block_bytes(el), have = nr_away(pool);
	struct kvmm_regain req = { .size = sizeof(req), .min_blocks = 1 };

	kv_assert_held(&pool->compact_lock);
	if (have + pool->pb.size <= want) {
		inflate(pool, el, (want - have) >> pool->pb.shift << pool->pb.shift);
	} else if (have >= want + pool->pb.size || (have && !want)) {
		req.nr_blocks = max((have - want) >> pool->pb.shift << pool->pb.shift, 1ull);
		req.nr_blocks = min(req.nr_blocks, (u64)PORTION << pool->pb.shift);
		if (regain(pool, el, &req))
			el->balloon_on = false;	/* it is the caller's, or the device has none */
	} else {
		el->balloon_on = false;
	}
	return el->job.active || el->balloon_on;
}

/* A thread that moves blocks at the moment does not wait for us, nor we for it. */
int elastic_work(struct kvmm_pool *pool)
{
	struct elastic *el;
	int ret = 0;

	if (!kv_trylock(&pool->compact_lock))
		return 1;
	el = pool->elastic;
	if (el) {
		ret = 1;
		if (el->job.active || el->wait.nr)
			job_advance(pool, el);
		if (!el->job.active && el->balloon_on && !pool_refusal(pool))
			ret = balloon_portion(pool, el);
		job_due(pool, el);
		ret = ret && pool->elastic_tick;
	}
	kv_unlock(&pool->compact_lock);
	cache_after(pool);
	return ret;
}

int kv_balloon_tick(struct kvmm_pool *pool)
{
	if (kv_inherited(pool))
		return -ECHILD;
	if (!pool)
		return -EINVAL;
	return READ_ONCE(pool->elastic_tick) ? elastic_work(pool) : 0;
}

static int balloon_set(struct kvmm_pool *pool, u64 target)
{
	struct elastic *el;
	int err = elastic_get(pool, &el);

	kv_assert_held(&pool->compact_lock);
	if (err)
		return err;
	if (!el->unit_bytes)
		return -EOPNOTSUPP;
	if (!steps_get(pool))
		return -ENOMEM;
	if (el->job.active && el->job.balloon)
		job_cancel(pool, el);
	el->target = target;
	el->balloon_on = true;
	el->nr_deferred = el->defer_shift = 0;
	job_due(pool, el);
	return 0;
}

int balloon_set_bytes(struct kvmm_pool *pool, const void *value)
{
	int err;

	if (!value)
		return -EINVAL;
	kv_lock(&pool->compact_lock);
	err = pool_refusal(pool);
	if (!err)
		err = balloon_set(pool, *(const u64 *)value);
	kv_unlock(&pool->compact_lock);
	return err;
}

/* ---- left for a request ---- */

/* Could it be served if all blocks away were free? Those left in small runs are not looked at. */
static bool may_fit(struct kvmm_pool *pool, const struct alloc_ctx *room, u64 want)
{
	u64 nr = pool_nr_free(pool) + pool->pb.nr_away;
	bool fits;

	kv_assert_held(&pool->lock);
	if (!pool->caches)
		return nr >= want && !quota_bars(pool, room);
	order_enter(&pool->order);
	fits = nr + order_nr(&pool->order) >= want && !quota_bars(pool, room);
	order_leave(&pool->order);
	return fits;
}

/* 0 also if the request will be refused for another reason than the balloon. */
static u64 nr_lacking(struct kvmm_pool *pool, const struct alloc_ctx *room)
{
	u64 want, nr_free, nr = 0;
	u32 keep;

	kv_assert_held(&pool->compact_lock);
	kv_lock(&pool->lock);
	pool_drain_local(pool);
	keep = door_keep(pool, room);
	want = (u64)room->nr + keep;
	nr_free = pool_nr_free(pool);
	if (keep != DOOR_SHUT && want > nr_free && may_fit(pool, room, want))
		nr = want - nr_free;
	pool_leave(pool);
	return nr;
}

u64 __elastic_relent(struct kvmm_pool *pool, const struct alloc_ctx *room)
{
	struct kvmm_regain req = { .size = sizeof(req), .min_blocks = 1 };
	struct elastic *el = pool->elastic;
	u64 nr, target = el->target;

	kv_assert_held(&pool->compact_lock);
	if (!target || pool_refusal(pool) || !nr_lacking(pool, room))
		return 0;
	if (el->job.active && el->job.balloon)
		job_cancel(pool, el);
	nr = nr_lacking(pool, room);
	req.nr_blocks = min(nr, (u64)nr_away(pool));
	if (req.nr_blocks)
		regain(pool, el, &req);
	el->target = (u64)nr_away(pool) * block_bytes(el);
	el->balloon_on = false;
	el->nr_relents++;
	job_due(pool, el);
	return target;
}

void __elastic_unrelent(struct kvmm_pool *pool, u64 target)
{
	struct elastic *el = pool->elastic;

	kv_assert_held(&pool->compact_lock);
	el->target = target;
	el->balloon_on = true;
	el->nr_relents--;
	job_due(pool, el);
}
