// SPDX-License-Identifier: Apache-2.0
/*
 * Promises: blocks that are kept free for a caller that takes them later.
 *
 * A promise is a count, not a set of blocks: whichever are free serve it, compaction may move
 * things about as ever. It can be kept since it is backed by free blocks alone: those that could be
 * evicted may be hit, without any lock, and would be gone. So making a promise evicts the missing
 * blocks.
 */
#include <kv/env.h>
#include <kv/mem.h>
#include <kv/pool.h>
#include <pool/local.h>

#define MIN_PROMISES	8u
#define MAX_PROMISES	BIT(20)
#define IS_TAKEN	(KV_NONE - 1)

/* ---- the table ---- */

/* Room for one more: 0 or -ENOMEM. */
static int promises_reserve(struct kvmm_pool *pool)
{
	struct door *door = &pool->door;
	u32 nr = max(2 * door->nr_promises, MIN_PROMISES);
	struct promise *table;

	kv_assert_held(&pool->lock);
	if (door->free_promise != KV_NONE)
		return 0;
	table = nr <= MAX_PROMISES ? kv_alloc_array(nr, sizeof(*table)) : NULL;
	if (!table)
		return -ENOMEM;
	if (door->nr_promises)
		memcpy(table, door->promise, door->nr_promises * sizeof(*table));
	for (u32 i = nr; i-- > door->nr_promises;) {
		table[i] = (struct promise){ .gen = pool->gen_base, .next = door->free_promise };
		door->free_promise = i;
	}
	kv_free(door->promise);
	door->promise = table;
	door->nr_promises = nr;
	return 0;
}

/* NULL, and *@err says why. */
static struct promise *find(struct kvmm_pool *pool, kvmm_promise_t handle, int *err)
{
	struct promise *promise;

	kv_assert_held(&pool->lock);
	*err = -EINVAL;
	if (handle.index >= pool->door.nr_promises)
		return NULL;
	promise = &pool->door.promise[handle.index];
	if (promise->gen == handle.gen && promise->next == IS_TAKEN)
		return promise;
	*err = refuse_handle(pool, promise->gen, handle.gen);
	return NULL;
}

static void set_promised(struct kvmm_pool *pool, u32 nr)
{
	kv_assert_held(&pool->lock);
	pool->door.nr_promised = nr;
	door_set_guard(pool, GUARD_PROMISES, nr != 0);
}

int promise_find(struct kvmm_pool *pool, struct alloc_ctx *ctx, u32 nr)
{
	struct promise *promise;
	int err;

	kv_assert_held(&pool->lock);
	ctx->promised = 0;
	if (likely(!ctx->promise.gen))
		return 0;
	promise = find(pool, ctx->promise, &err);
	if (!promise)
		return err;
	if (nr > promise->left)
		return -EINVAL;
	ctx->promised = nr;
	return 0;
}

void promise_take(struct kvmm_pool *pool, const struct alloc_ctx *ctx, u32 nr)
{
	kv_assert_held(&pool->lock);
	if (likely(!ctx->promised))
		return;
	pool->door.promise[ctx->promise.index].left -= nr;
	set_promised(pool, pool->door.nr_promised - nr);
}

static void promises_exit(struct kvmm_pool *pool)
{
	kv_free(pool->door.promise);
}

static u64 promises_bytes(struct kvmm_pool *pool)
{
	return kv_peek(&pool->door.nr_promises) * sizeof(struct promise);
}

static int promises_check(struct kvmm_pool *pool, const struct pool_recount *re)
{
	const struct door *door = &pool->door;
	u64 sum = 0;
	u32 nr_free = 0, nr_taken = 0;

	for (u32 i = 0; i < door->nr_promises; i++) {
		nr_taken += door->promise[i].next == IS_TAKEN;
		sum += door->promise[i].left;
		if (door->promise[i].next != IS_TAKEN && door->promise[i].left)
			return -EUCLEAN;
	}
	for (u32 i = door->free_promise; i != KV_NONE; i = door->promise[i].next)
		if (i >= door->nr_promises || ++nr_free > door->nr_promises)
			return -EUCLEAN;
	return sum == door->nr_promised && nr_free + nr_taken == door->nr_promises ? 0 : -EUCLEAN;
}

POOL_PART(promises) = {
	.name	= "promises",
	.exit	= promises_exit,
	.bytes	= promises_bytes,
	.check	= promises_check,
};

/* ---- making one ---- */

struct making {
	struct alloc_ctx	ctx;
	kvmm_promise_t		made;
};

/* Room has been made: it stays. */
static int take_promise(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	struct making *making = container_of(ctx, struct making, ctx);
	struct door *door = &pool->door;
	struct promise *promise;
	u32 index;
	int err = class_admit(pool, ctx->cls, ctx->nr);

	kv_assert_held(&pool->lock);
	if (err)
		return err;
	ctx->squeezed = true;	/* no tenant is charged before they are taken */
	if (pool_nr_free(pool) < (u64)ctx->nr + door_keep(pool, ctx))
		return -ENOSPC;
	if (promises_reserve(pool))
		return -ENOMEM;
	index = door->free_promise;
	promise = &door->promise[index];
	door->free_promise = promise->next;
	promise->next = IS_TAKEN;
	promise->left = ctx->nr;
	set_promised(pool, door->nr_promised + ctx->nr);
	making->made = (kvmm_promise_t){ index, promise->gen };
	return 0;
}

#define PROMISE_FLAGS	(KVMM_ALLOC_NOWAIT | KVMM_ALLOC_HIGH | KVMM_ALLOC_URGENT | \
			 KVMM_ALLOC_RELATIVE | KVMM_ALLOC_NO_EVICT | KVMM_ALLOC_NO_COMPACT)

static int promise_make(struct kvmm_pool *pool, const struct kvmm_alloc_ctl *src,
			kvmm_promise_t *promise)
{
	struct kvmm_alloc_ctl ctl;
	struct making making;
	int err;

	err = kv_copy_attr(&ctl, sizeof(ctl), src);
	if (err)
		return err;
	if (ctl.flags & ~PROMISE_FLAGS || !ctl.nr || ctl.nr > pool->nr_usable || ctl.promise.gen)
		return -EINVAL;
	err = alloc_read_ctl(pool, &ctl, &making.ctx);
	if (!err && ctl.deadline_ns && pool->deterministic)
		err = -EINVAL;
	if (err)
		return err;
	making.ctx.take = take_promise;
	/* Where they lie does not matter yet: nothing is moved for it. */
	making.ctx.flags |= KVMM_ALLOC_NO_COMPACT;
	alloc_report_begin(pool, &making.ctx, 0);
	err = alloc_enter(pool, &making.ctx);
	alloc_report_end(&making.ctx, err);
	if (!err)
		*promise = making.made;
	return err;
}

static int promise_end(struct kvmm_pool *pool, kvmm_promise_t handle)
{
	struct door *door;
	struct promise *promise;
	int ret = pool_enter(pool);

	if (ret)
		return ret;
	door = &pool->door;
	promise = find(pool, handle, &ret);
	if (promise) {
		ret = promise->left;
		set_promised(pool, door->nr_promised - promise->left);
		promise->left = 0;
		promise->gen = next_gen(promise->gen);
		promise->next = door->free_promise;
		door->free_promise = handle.index;
		release_post(pool, ret);
	}
	pool_leave(pool);
	return ret;
}

int kvmm_promise_set(struct kvmm_pool *pool, const struct kvmm_alloc_ctl *ctl,
		     kvmm_promise_t *promise)
{
	if (!pool || !promise)
		return -EINVAL;
	return ctl ? promise_make(pool, ctl, promise) : promise_end(pool, *promise);
}
