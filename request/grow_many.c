// SPDX-License-Identifier: Apache-2.0
/*
 * One step of a whole batch: many ranges grow by the same, or none does.
 *
 * Ranges that had grown before one failed are cut back: the engine has not been told of the new
 * blocks. Where a tenant's limit may refuse one range alone, or content has to be zeroed without
 * the lock, room is made for one after the other, under one lock hold: all victims wait until the
 * last range has grown, and nothing is moved, since a place that content was moved to is lost to
 * its victim.
 */
#include <kv/mem.h>
#include <kvmm/pool.h>
#include <pool/internal.h>

struct batch {
	struct alloc_ctx	ctx;
	u32			by;		/* each of ctx.grows */
	struct range_growth	*growth;	/* by range, if they grow in turn */
};

/* Each is charged before the next is looked at: classes have their quotas over the whole batch. */
static int admit_all(struct kvmm_pool *pool, const struct batch *batch)
{
	struct classes *classes = pool->order.classes;
	int err = 0;
	u32 i;

	kv_assert_held(&pool->lock);
	for (i = 0; i < batch->ctx.nr_grows && !err; i++) {
		u32 cls = slot_at(pool, batch->ctx.grows[i].index)->cls;

		err = class_admit(pool, cls, batch->by);
		class_charge(classes, cls, batch->by);
	}
	while (i-- > 0)
		class_charge(classes, slot_at(pool, batch->ctx.grows[i].index)->cls, -(s64)batch->by);
	return err;
}

/*
 * Bad handles are found before anything has changed. A thing forbidden to one is forbidden to all,
 * and they are as urgent as the least of them.
 */
static int find_all(struct kvmm_pool *pool, struct batch *batch)
{
	struct alloc_ctx *ctx = &batch->ctx;
	struct slot *slot;

	kv_assert_held(&pool->lock);
	ctx->flags = 0;
	ctx->prio = KVMM_PRIO_URGENT;
	for (u32 i = 0; i < batch->ctx.nr_grows; i++) {
		int err = slot_find(pool, batch->ctx.grows[i], &slot);

		if (unlikely(err))
			return err;
		if (likely(slot->flags & SLOT_GREW))
			__builtin_prefetch(slot_grow(slot), 1);
		ctx->flags |= slot->flags & GROWTH_FLAGS;
		ctx->prio = min(ctx->prio, (u32)slot->prio);
	}
	if (unlikely(pool->order.classes && admit_all(pool, batch)))
		return -EDQUOT;
	return likely(door_lets(pool, ctx, ctx->nr)) ? 0 : -ENOSPC;
}

static void undo(struct kvmm_pool *pool, const struct batch *batch, u32 nr_grown)
{
	kv_assert_held(&pool->lock);
	while (nr_grown--) {
		struct slot *slot = slot_at(pool, batch->ctx.grows[nr_grown].index);

		grow_undo(pool, slot, slot->nr - batch->by, batch->by);
	}
}

/* Only now: a class that is over its quota gives up cached blocks for good. */
static void all_took(struct kvmm_pool *pool, const struct batch *batch)
{
	kv_assert_held(&pool->lock);
	for (u32 i = 0; i < batch->ctx.nr_grows; i++)
		grow_took(pool, slot_at(pool, batch->ctx.grows[i].index));
}

static int take_batch(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	struct batch *batch = container_of(ctx, struct batch, ctx);
	int err = find_all(pool, batch);

	kv_assert_held(&pool->lock);
	for (u32 i = 0; i < batch->ctx.nr_grows && !err; i++) {
		u32 index = batch->ctx.grows[i].index;
		struct slot *slot = slot_at(pool, index);

		err = grow_slot(pool, slot, index, batch->by, ctx->scatter);
		ctx->reaps |= slot->nr_ext > KVMM_MAX_RUNS;
		if (unlikely(err))
			undo(pool, batch, i);
	}
	if (unlikely(!err && pool->order.classes))
		all_took(pool, batch);
	return err;
}

/* A thing forbidden to one is forbidden to all. */
static u32 flags_of_all(struct kvmm_pool *pool, const struct batch *batch)
{
	struct slot *slot;
	u32 flags = 0;

	kv_assert_held(&pool->lock);
	for (u32 i = 0; i < batch->ctx.nr_grows; i++)
		if (likely(!slot_find(pool, batch->ctx.grows[i], &slot)))
			flags |= slot->flags & GROWTH_FLAGS;
	return flags;
}

/*
 * The lock is held from the first one to the last. @reclaims: room is made for each, and its
 * victims are the batch's.
 */
static int take_all(struct kvmm_pool *pool, struct batch *batch, bool reclaims)
{
	int err = 0;
	u32 i;

	kv_assert_held(&pool->lock);
	batch->ctx.flags = flags_of_all(pool, batch);
	for (i = 0; i < batch->ctx.nr_grows && !err; i++) {
		struct alloc_ctx *ctx = &batch->growth[i].ctx;

		batch->growth[i].in_batch = batch->ctx.flags | KVMM_ALLOC_NO_COMPACT;
		ctx->squeezed = false;
		ctx->victims = batch->ctx.victims;
		err = reclaims ? alloc_reclaim(pool, ctx) : ctx->take(pool, ctx);
		batch->ctx.victims = ctx->victims;
		batch->ctx.reaps |= ctx->reaps;
		batch->ctx.scattered |= ctx->scattered;
	}
	if (likely(!err)) {
		all_took(pool, batch);
		return 0;
	}
	for (u32 k = i - 1; pool->zero && k-- > 0;)
		slot_unpin_own(pool, slot_at(pool, batch->ctx.grows[k].index));
	undo(pool, batch, i - 1);
	return err;
}

static int take_in_turn(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	kv_assert_held(&pool->lock);
	return take_all(pool, container_of(ctx, struct batch, ctx), false);
}

static int reclaim_in_turn(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	int err = take_all(pool, container_of(ctx, struct batch, ctx), true);

	kv_assert_held(&pool->lock);
	if (err)
		victims_still_left(pool, &ctx->victims);
	return err;
}

static int grow_in_turn(struct kvmm_pool *pool, struct batch *batch)
{
	int err, failed = 0;

	batch->growth = kv_alloc_array(batch->ctx.nr_grows, sizeof(*batch->growth));
	if (!batch->growth)
		return -ENOMEM;
	for (u32 i = 0; i < batch->ctx.nr_grows; i++)
		batch->growth[i] = (struct range_growth){
			.ctx = { .take = growth_take, .nr = batch->by, .scatters = true,
				 .inside = true },
			.range = batch->ctx.grows[i],
		};
	batch->ctx.take = take_in_turn;
	batch->ctx.reclaim = reclaim_in_turn;
	err = alloc_enter(pool, &batch->ctx);
	if (!err && pool->zero) {
		for (u32 i = 0; i < batch->ctx.nr_grows && !failed; i++)
			failed = growth_zero(pool, &batch->growth[i]);
		/* Newest first, if it was in vain. */
		for (u32 i = batch->ctx.nr_grows; i-- > 0;) {
			int ended = growth_end(pool, &batch->growth[i], failed);

			err = err ? err : ended;
		}
	}
	kv_free(batch->growth);
	return err ? err : failed;
}

/* More than the pool has. */
static int refuse(struct kvmm_pool *pool, const struct batch *batch)
{
	int err = pool_enter(pool);

	if (err)
		return err;
	alloc_count(pool, &batch->ctx, -ENOSPC);
	pool_leave(pool);
	return -ENOSPC;
}

int kvmm_range_grow_many(struct kvmm_pool *pool, const kvmm_range_t *ranges, uint32_t nr,
			 uint32_t by)
{
	struct batch batch = {
		.ctx = { .take = take_batch, .nr = nr * by, .scatters = true, .inside = true,
			 .grows = ranges, .nr_grows = nr },
		.by = by,
	};

	if (!pool || (!ranges && nr) || !by || by > pool->nr_usable)
		return -EINVAL;
	if (likely(nr == 1))
		return grow_one(pool, ranges[0], by);
	if (!nr)
		return 0;
	if ((u64)nr * by > pool->nr_usable)
		return refuse(pool, &batch);
	if (pool->zero || pool->order.quotas)
		return grow_in_turn(pool, &batch);
	return alloc_enter(pool, &batch.ctx);
}
