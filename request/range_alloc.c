// SPDX-License-Identifier: Apache-2.0
/*
 * Ranges are taken, and given back.
 *
 * The ordinary allocation is one pass under pool->lock: blocks from the zone, a slot from the free
 * list, their owner noted. Everything else goes through room.c.
 */
#include <kv/env.h>
#include <move/background.h>
#include <move/move.h>
#include <percpu/arena.h>
#include <lease/lease.h>

#define DEFAULT_MAX_RUNS	4u
#define ALLOC_FLAGS		(KVMM_ALLOC_PINNED | KVMM_ALLOC_TOPDOWN | KVMM_ALLOC_NO_COMPACT | \
				 KVMM_ALLOC_NO_EVICT | KVMM_ALLOC_ZERO | KVMM_ALLOC_NOWAIT | \
				 KVMM_ALLOC_HIGH | KVMM_ALLOC_URGENT | KVMM_ALLOC_MOVABLE | \
				 KVMM_ALLOC_CONTIG | KVMM_ALLOC_RELATIVE | KVMM_ALLOC_GROWS)

/* It has an end of the pool of its own, or needs room behind it. */
#define STAYS_LOW		(KVMM_ALLOC_TOPDOWN | KVMM_ALLOC_PINNED | KVMM_ALLOC_GROWS)

/* Size of the report for callers that were built before it had waited_ns. */
#define OLD_REPORT		offsetof(struct kvmm_alloc_report, reserved)

int range_check_attr(const struct kvmm_pool *pool, struct kvmm_range_attr *attr)
{
	if (!attr->nr || attr->nr > pool->nr_usable)
		return -EINVAL;
	if (attr->flags & KVMM_ALLOC_CONTIG && attr->max_runs > 1)
		return -EINVAL;
	if (!attr->max_runs)
		attr->max_runs = attr->flags & KVMM_ALLOC_CONTIG ? 1 : DEFAULT_MAX_RUNS;
	if (attr->max_runs > KVMM_MAX_RUNS || attr->flags & ~ALLOC_FLAGS)
		return -EINVAL;
	if (attr->flags & KVMM_ALLOC_ZERO && !pool->nr_planes)
		return -EINVAL;
	if (unlikely(attr->owner | attr->lease_ns | attr->own_flags) && own_attr_is_bad(attr))
		return -EINVAL;
	if (unlikely(attr->cls) && class_is_none(pool, attr->cls))
		return -EINVAL;
	if (likely(!(attr->flags | attr->prio | attr->deadline_ns)))
		return 0;
	if (attr->deadline_ns && pool->deterministic)	/* no thread would tell the time */
		return -EINVAL;
	return door_read_flags(attr->flags, &attr->prio, attr->deadline_ns);
}

kvmm_range_t range_add(struct kvmm_pool *pool, const struct kvmm_range_attr *attr,
		       const struct kvmm_extent *ext, u32 nr_ext, u32 account)
{
	u32 index = slot_take(pool);
	struct slot *slot = slot_at(pool, index);

	kv_assert_held(&pool->lock);
	slot_fill(slot, attr, ext, nr_ext, account);
	for (u32 i = 0; i < nr_ext; i++)
		owner_fill(pool, ext[i].start, ext[i].nr, make_owner(OWNER_SLOT, index));
	seq_add(pool, &pool->seqs, slot, index);
	count_slot(&pool->count, slot);
	quota_charge_range(pool->order.quotas, slot->account, slot->nr);
	class_charge(pool->order.classes, slot->cls, slot->nr);
	return slot_handle(slot, index);
}

static bool is_zeroed(const struct kvmm_pool *pool, u32 flags)
{
	return flags & KVMM_ALLOC_ZERO || pool->zero;
}

static void untake(struct kvmm_pool *pool, struct kvmm_extent *ext, int nr_ext, u32 spare)
{
	const struct kvmm_extent *last = &ext[nr_ext - 1];

	kv_assert_held(&pool->lock);
	if (spare && kv_unreserve(pool->zone, last->start + last->nr, spare))
		pool_poison(pool);
	blocks_free(pool, ext, nr_ext);
}

static struct range_request *request_of(struct alloc_ctx *ctx)
{
	return container_of(ctx, struct range_request, ctx);
}

static void count_taken(struct kvmm_pool *pool, u32 nr)
{
	kv_assert_held(&pool->lock);
	asked_for(&pool->asked, nr);
	pool->count.allocs++;
	pool->count.alloc_blocks += nr;
}

/* A slot for a range of so many extents, and what @attr wants beside it: 0 or -ENOMEM. */
static int reserve_slot(struct kvmm_pool *pool, const struct kvmm_range_attr *attr, int nr_ext)
{
	bool has_side = nr_ext > 1 || attr->flags & KVMM_ALLOC_GROWS;

	kv_assert_held(&pool->lock);
	if (unlikely(slots_reserve(pool)))
		return -ENOMEM;
	if (unlikely(has_side) && slot_reserve_side(pool, slot_at(pool, pool->free_slot)))
		return -ENOMEM;
	return unlikely(attr->owner) ? own_reserve_slot(pool) : 0;
}

/*
 * What would have to be moved to make the hole longer on that side. An end of the pool cannot; a
 * free block there is another range's room, or the run does not lie at an end of its hole.
 */
static u32 neighbour(struct kvmm_pool *pool, u32 block)
{
	kv_assert_held(&pool->lock);
	if (block >= pool->nr_blocks || owner_is_free(pool->owner[block]))
		return UINT32_MAX;
	return pool_run_with(pool, block).nr;
}

/*
 * Where blocks are moved to make runs, one at the lower end of its hole goes to the upper one if
 * the longer neighbour is there: what is left of the hole lies beside the shorter one, which costs
 * less to move.
 */
static noinline void nestle(struct kvmm_pool *pool, const struct kvmm_range_attr *attr,
			    struct kvmm_extent *run)
{
	const struct kv_planner_ops *planner = pool->parts.planner;
	u32 end = run->start + run->nr, nr;
	struct kvmm_extent rest;

	kv_assert_held(&pool->lock);
	if (attr->flags & STAYS_LOW || !(attr->max_runs == 1 || attr->flags & KVMM_ALLOC_CONTIG) ||
	    !planner || !planner->in_parts)
		return;
	if (end == pool->nr_blocks || !owner_is_free(pool->owner[end]) ||
	    kv_zone_next_free(pool->zone, end, &rest) || rest.start != end ||
	    neighbour(pool, end + rest.nr) <= neighbour(pool, run->start - 1))
		return;
	nr = min(run->nr, rest.nr);
	if (kv_zone_alloc_at(pool->zone, end + rest.nr - nr, nr))
		return;
	kv_free_runs(pool->zone, &(struct kvmm_extent){ run->start, nr }, 1);
	run->start += rest.nr;
}

/* The blocks first: a request that fails for want of them has not grown the table. */
int range_take(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	const struct kvmm_range_attr *attr = &request_of(ctx)->attr;
	kvmm_range_t *range = &request_of(ctx)->range;
	struct kvmm_extent ext[KVMM_MAX_RUNS];
	u32 account = quota_account(pool, attr->tenant);
	u32 spare = 0;
	int nr_ext, err;

	kv_assert_held(&pool->lock);
	err = quota_admit(pool, account, ctx);
	if (likely(!err))
		err = class_admit(pool, attr->cls, attr->nr);
	if (unlikely(err))
		return err;
	if (unlikely(ctx->promise.gen)) {
		err = promise_find(pool, ctx, attr->nr);
		if (err)
			return err;
	}
	if (unlikely(!door_lets(pool, ctx, attr->nr)))
		return -ENOSPC;
	if (unlikely(attr->flags & KVMM_ALLOC_GROWS))
		nr_ext = grow_alloc(pool, attr, ext, &spare);
	else
		nr_ext = alloc_runs(pool, attr, ext);
	if (unlikely(nr_ext < 0))
		return nr_ext;
	if (unlikely(pool->count.compactions) && nr_ext == 1)
		nestle(pool, attr, ext);
	if (unlikely(reserve_slot(pool, attr, nr_ext))) {
		untake(pool, ext, nr_ext, spare);
		return -ENOMEM;
	}
	promise_take(pool, ctx, attr->nr);
	*range = range_add(pool, attr, ext, nr_ext, account);
	quota_took(pool->order.quotas, account);
	ctx->evicted += class_took(pool, attr->cls);
	if (unlikely(attr->flags & KVMM_ALLOC_GROWS))
		grow_adopt(pool, range->index, spare, attr->expect);
	if (unlikely(attr->owner))
		own_new_range(pool, *range, attr);
	count_taken(pool, attr->nr);
	return 0;
}

static int take_range(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	int err = range_take(pool, ctx);

	kv_assert_held(&pool->lock);
	if (unlikely(err))
		return err;
	if (unlikely(is_zeroed(pool, ctx->flags)))	/* until range_zero() is done */
		range_hide(pool, request_of(ctx)->range);
	return 0;
}

/*
 * No caller has the handle yet, but the walks can find the range: its first pin keeps it alive, and
 * where it is, until the content is zero. New extents are in the slot; if another thread lets it
 * grow meanwhile, that is zeroed once more.
 */
int range_zero(struct kvmm_pool *pool, kvmm_range_t range)
{
	struct kvmm_extent ext[KVMM_MAX_RUNS];
	u32 nr_ext, flags, tenant;
	int err, failed = 0;
	struct slot *slot;

	kv_assert_not_held(&pool->lock);
	err = range_enter(pool, range, &slot);
	if (err)
		return err;
	nr_ext = slot_copy_ext(slot, ext);
	flags = slot->flags;
	tenant = slot->tenant;
	pool_leave(pool);

	if (flags & KVMM_ALLOC_ZERO)
		failed = blocks_zero(pool, ext, nr_ext);
	for (u32 i = 0; i < nr_ext && !failed; i++)
		failed = tenant_take_run(pool, ext[i], tenant);

	err = range_enter(pool, range, &slot);
	if (err)
		return err;
	slot_unpin_own(pool, slot);
	if (failed)
		range_del(pool, range.index);
	pool_leave(pool);
	return failed;
}

static int fill_request(struct kvmm_pool *pool, struct range_request *req,
			const struct kvmm_range_attr *src)
{
	const struct kvmm_range_attr *attr = &req->attr;
	int err = 0;

	if (unlikely(src->size != sizeof(*src)))
		err = kv_copy_attr(&req->attr, sizeof(req->attr), src);
	else
		req->attr = *src;
	if (!err)
		err = range_check_attr(pool, &req->attr);
	if (unlikely(err))
		return err;
	req->ctx = (struct alloc_ctx){
		.take = take_range, .nr = attr->nr, .flags = attr->flags,
		.max_runs = attr->max_runs, .prio = attr->prio, .promise = attr->promise,
		.report = attr->report, .tenant = attr->tenant,
	};
	if (likely(!(attr->deadline_ns || attr->report)))
		return 0;
	req->ctx.seq = attr->seq;
	req->ctx.deadline_ns = door_deadline(pool, attr->flags, attr->deadline_ns);
	req->ctx.report_bytes = src->size <= offsetof(struct kvmm_range_attr, deadline_ns) ?
				OLD_REPORT : sizeof(*attr->report);
	return 0;
}

/* ---- most requests: for blocks, and nothing else ---- */

/* Asks for blocks and a sequence at most, and is not -EINVAL. */
static inline bool attr_is_plain(const struct kvmm_pool *pool, const struct kvmm_range_attr *attr)
{
	const u32 harmless = KVMM_ALLOC_NO_COMPACT | KVMM_ALLOC_NO_EVICT | KVMM_ALLOC_MOVABLE |
			     KVMM_ALLOC_CONTIG;

	return attr->size == sizeof(*attr) && attr->nr && attr->nr <= pool->nr_usable &&
	       attr->max_runs <= (attr->flags & KVMM_ALLOC_CONTIG ? 1 : KVMM_MAX_RUNS) &&
	       !((attr->flags & ~harmless) | attr->prio | attr->promise.gen | attr->cls |
		 attr->deadline_ns | attr->owner | attr->lease_ns | attr->own_flags |
		 (uintptr_t)attr->report);
}

/*
 * One hold of a lock, of an arena or of the pool, and no request structure. It is for the state in
 * which no rule has to be asked but the door's, and whether its tenant's limits are far: no content
 * to be made zero. One free run has to be long enough, and a slot free. False: nothing has
 * happened, and the long way knows why.
 */
static inline bool alloc_plain(struct kvmm_pool *pool, const struct kvmm_range_attr *attr,
			kvmm_range_t *range)
{
	static const struct alloc_ctx plain;
	struct kvmm_extent run = { KV_NONE, attr->nr };
	u32 account;

	if (unlikely(!attr_is_plain(pool, attr)))
		return false;
	if (arena_alloc(pool, attr, range))
		return true;
	if (unlikely(arena_pool_enter(pool)))
		return false;
	account = quota_account(pool, attr->tenant);
	if (likely(!(pool->zero || pool->free_slot == KV_NONE) &&
		   door_lets(pool, &plain, attr->nr) && quota_has_room(pool, account, attr->nr)))
		run.start = kv_zone_try(pool->zone, attr->nr);
	if (likely(run.start != KV_NONE)) {
		if (unlikely(pool->count.compactions))
			nestle(pool, attr, &run);
		*range = range_add(pool, attr, &run, 1, account);
		quota_took(pool->order.quotas, account);
		count_taken(pool, attr->nr);
	}
	pool_leave(pool);
	return likely(run.start != KV_NONE);
}

int kvmm_range_alloc_attr(struct kvmm_pool *pool, const struct kvmm_range_attr *attr,
			  kvmm_range_t *range)
{
	struct range_request req;
	int err;

	if (unlikely(!pool || !attr || !range))
		return -EINVAL;
	if (likely(alloc_plain(pool, attr, range))) {
		kv_probe3(alloc, pool, attr->nr, attr->tenant);
		return 0;
	}
	err = fill_request(pool, &req, attr);
	if (unlikely(err))
		return err;
	alloc_report_begin(pool, &req.ctx, req.ctx.nr);
	err = alloc_enter(pool, &req.ctx);
	if (unlikely(!err && is_zeroed(pool, req.ctx.flags)))
		err = range_zero(pool, req.range);
	alloc_report_end(&req.ctx, err);
	if (unlikely(err))
		return err;
	*range = req.range;
	kv_probe3(alloc, pool, req.attr.nr, req.attr.tenant);
	return 0;
}

int kvmm_range_free(struct kvmm_pool *pool, kvmm_range_t range)
{
	struct slot *slot;
	int err;

	if (unlikely(!pool))
		return -EINVAL;
	if (arena_free(pool, range)) {
		kv_probe2(free, pool, 0u);
		return 0;
	}
	/* Far away, as a rule: it comes while the lock waits for stores of the latest call. */
	kv_prefetch_write(slot_peek(pool, range.index));
	err = arena_pool_enter(pool);
	if (unlikely(err))
		return err;
	err = slot_find(pool, range, &slot);
	if (unlikely(err))
		;
	else if (unlikely(last_put_is_barred(slot)))
		err = -EBUSY;
	else
		put_slot(pool, slot, range.index);
	pool_leave(pool);
	if (!err)
		kv_probe2(free, pool, 0u);
	return err;
}
