// SPDX-License-Identifier: Apache-2.0
/*
 * Private blocks for those who say more than how many: kvmm_alloc_ctl().
 *
 * What is asked for plainly is taken as kvmm_alloc() does: evicted blocks are handed on with their
 * entries. A run, or a place, can only be had from the zone: then room.c makes room there first, as
 * it does for ranges.
 */
#include <kv/env.h>

#include "local.h"
#include "private.h"

#define PRIVATE_FLAGS	(KVMM_ALLOC_PINNED | KVMM_ALLOC_TOPDOWN | KVMM_ALLOC_NO_COMPACT | \
			 KVMM_ALLOC_NO_EVICT | KVMM_ALLOC_ZERO | KVMM_ALLOC_NOWAIT | \
			 KVMM_ALLOC_HIGH | KVMM_ALLOC_URGENT | KVMM_ALLOC_MOVABLE | \
			 KVMM_ALLOC_CONTIG | KVMM_ALLOC_RELATIVE)
#define FROM_ZONE	(KVMM_ALLOC_PINNED | KVMM_ALLOC_TOPDOWN | KVMM_ALLOC_CONTIG | \
			 KVMM_ALLOC_NOWAIT)

/* Any free block will do, and none is promised: so will those that the thread keeps aside. */
static bool is_plain(const struct private_req *req)
{
	const u32 places = KVMM_ALLOC_PINNED | KVMM_ALLOC_TOPDOWN | KVMM_ALLOC_CONTIG;

	return !(req->ctl.flags & places) && !req->ctl.promise.gen;
}

/* ---- from the zone ---- */

static struct private_req *req_of(struct room *room)
{
	return container_of(room, struct private_req, room);
}

static int take_run(struct kvmm_pool *pool, struct private_req *req)
{
	struct kvmm_extent run;
	int nr_ext = kv_alloc_runs(pool->zone, range_placement(req->ctl.flags), req->ctl.nr, 1, &run);

	if (nr_ext < 0)
		return nr_ext;
	if (room_take_entries(pool, &req->room, (struct kv_handle *)req->blocks)) {
		blocks_free(pool, &run, 1);
		return -ENOSPC;
	}
	for (u32 i = 0; i < run.nr; i++)
		entry_own(pool, req->blocks[i].index, run.start + i);
	return 0;
}

/* One by one: so many are free, and the lock is held. */
static int take_singles(struct kvmm_pool *pool, struct private_req *req)
{
	enum kv_placement place = range_placement(req->ctl.flags);
	struct kvmm_extent one;

	if (room_take_entries(pool, &req->room, (struct kv_handle *)req->blocks))
		return -ENOSPC;
	for (u32 i = 0; i < req->ctl.nr; i++) {
		if (POOL_BUG_ON(pool, kv_alloc_runs(pool->zone, place, 1, 1, &one) != 1))
			return -EUCLEAN;
		entry_own(pool, req->blocks[i].index, one.start);
	}
	return 0;
}

static int take_from_zone(struct kvmm_pool *pool, struct room *room)
{
	struct private_req *req = req_of(room);
	struct quotas *quotas = pool->order.quotas;
	u32 account = quota_account(pool, req->ctl.tenant);
	int err = promise_find(pool, &room->ask, room->nr);

	if (!err)
		err = quota_admit(pool, account, room);
	if (!err)
		err = class_admit(pool, req->ctl.cls, room->nr);
	if (err)
		return err;
	pool_steal_shortfall(pool, room->nr);
	if (kv_zone_nr_free(pool->zone) < room->nr || !door_lets(pool, &room->ask, room->nr))
		return -ENOSPC;
	order_enter(&pool->order);
	quota_begin(quotas, account, QUOTA_FOR_WHO);
	err = req->ctl.flags & KVMM_ALLOC_CONTIG ? take_run(pool, req) : take_singles(pool, req);
	quota_end(quotas);
	order_leave(&pool->order);
	if (err)
		return err;
	quota_took(quotas, account);
	room->evicted += class_take(pool, req->ctl.cls, req->blocks, room->nr);
	for (u32 i = 0, now = mags_tick(pool); i < room->nr; i++)
		WRITE_ONCE(entry_at(pool, req->blocks[i].index)->vtime, now);
	promise_take(pool, &room->ask, room->nr);
	pool->count.allocs++;
	pool->count.alloc_blocks += room->nr;
	if (is_plain(req))
		mag_fill(pool, room->nr);
	return 0;
}

/* ---- or as kvmm_alloc() does ---- */

static int take_plainly(struct kvmm_pool *pool, struct private_req *req)
{
	struct take take = { .nr = req->ctl.nr, .blocks = req->blocks, .ask = req->wait.ask,
			     .tenant = req->ctl.tenant,
			     .no_evict = req->ctl.flags & KVMM_ALLOC_NO_EVICT };
	int err = cache_enter(pool);

	if (err)
		return err;
	err = promise_find(pool, &take.ask, take.nr);
	if (!err)
		err = class_admit(pool, req->ctl.cls, take.nr);
	if (!err)
		err = private_take(pool, &take);
	if (!err) {
		req->room.evicted += class_take(pool, req->ctl.cls, take.blocks, take.nr);
		req->room.evicted += take.nr_evicted;
		promise_take(pool, &take.ask, take.nr);
		if (is_plain(req))
			mag_fill(pool, take.nr);
	}
	cache_leave(pool);
	return err;
}

static int try_private(struct kvmm_pool *pool, struct wait *wait)
{
	struct private_req *req = container_of(wait, struct private_req, wait);

	if (!(req->ctl.flags & FROM_ZONE) && !wait->patient)
		return take_plainly(pool, req);
	req->room.ask = wait->ask;
	req->room.patient = wait->patient;
	req->room.squeezed = false;
	return pool_take_room(pool, &req->room);
}

/* ---- the call ---- */

static int check(const struct kvmm_pool *pool, struct kvmm_alloc_ctl *ctl)
{
	if (ctl->cls && class_is_none(pool, ctl->cls))
		return -EINVAL;
	if (ctl->flags & ~PRIVATE_FLAGS || (ctl->flags & KVMM_ALLOC_ZERO && !pool->nr_planes))
		return -EINVAL;
	if (ctl->flags & KVMM_ALLOC_CONTIG && ctl->nr > 1 && pool->rounds)
		return -EOPNOTSUPP;
	return door_read_flags(pool, ctl->flags, &ctl->prio, ctl->deadline_ns);
}

int private_begin(struct kvmm_pool *pool, const struct kvmm_alloc_ctl *ctl, kvmm_mut_t *blocks,
		  struct private_req *req)
{
	int err;

	if (!pool || !ctl || (!blocks && ctl->nr))
		return -EINVAL;
	if (!pool->caches)
		return -EOPNOTSUPP;
	*req = (struct private_req){ .blocks = blocks };
	err = kv_copy_attr(&req->ctl, sizeof(req->ctl), ctl);
	if (!err)
		err = check(pool, &req->ctl);
	if (err)
		return err;
	ctl = &req->ctl;
	req->wait = (struct wait){
		.try = try_private, .nr = ctl->nr, .flags = ctl->flags, .seq = ctl->seq,
		.deadline_ns = door_deadline(ctl->flags, ctl->deadline_ns),
		.ask = { .prio = ctl->prio, .promise = ctl->promise },
	};
	req->room = (struct room){ .take = take_from_zone, .nr = ctl->nr, .flags = ctl->flags };
	if (!ctl->report)
		return 0;
	req->begin_ns = kv_clock_ns();
	req->fragmentation_ppm = kvmm_zone_unusable(pool->zone, ctl->flags & KVMM_ALLOC_CONTIG ?
						    max(ctl->nr, 1u) : 1);
	return 0;
}

/* They do not move meanwhile; see __tenant_take_muts(). */
static int zero_asked(struct kvmm_pool *pool, const struct private_req *req)
{
	int err = 0;

	if (!(req->ctl.flags & KVMM_ALLOC_ZERO))
		return 0;
	kv_lock(&pool->compact_lock);
	for (u32 i = 0; i < req->ctl.nr && !err; i++) {
		u32 block = entry_block(entry_at(pool, req->blocks[i].index));

		err = blocks_zero(pool, &(struct kvmm_extent){ block, 1 }, 1);
	}
	kv_unlock(&pool->compact_lock);
	return err;
}

/* All of it, or none is the caller's. */
static int fill_content(struct kvmm_pool *pool, const struct private_req *req)
{
	const struct kvmm_alloc_ctl *ctl = &req->ctl;
	int err = zero_asked(pool, req);

	if (!err)
		err = tenant_take_muts(pool, req->blocks, ctl->nr, ctl->tenant);
	if (!err)
		return 0;
	kvmm_free(pool, req->blocks, ctl->nr);
	return -EIO;
}

int private_end(struct kvmm_pool *pool, struct private_req *req, int err)
{
	if (!err)
		err = fill_content(pool, req);
	if (!err)
		kv_probe3(alloc, pool, req->ctl.nr, req->ctl.tenant);
	if (!req->ctl.report || !door_reports(err))
		return err;
	*req->ctl.report = (struct kvmm_alloc_report){
		.time_ns = kv_ns_since(req->begin_ns), .evicted = req->room.evicted,
		.moved = req->room.moved, .fragmentation_ppm = req->fragmentation_ppm,
		.waited_ns = req->wait.waited_ns,
	};
	return err;
}

int kvmm_alloc_ctl(struct kvmm_pool *pool, const struct kvmm_alloc_ctl *ctl, kvmm_mut_t *blocks)
{
	struct private_req req;
	int err = private_begin(pool, ctl, blocks, &req);

	if (err)
		return err;
	if (!req.ctl.nr || (is_plain(&req) && mag_alloc_some(pool, req.ctl.nr, req.blocks)))
		return private_end(pool, &req, 0);
	mag_make(pool, req.ctl.nr);
	return private_end(pool, &req, door_wait(pool, &req.wait));
}
