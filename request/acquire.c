// SPDX-License-Identifier: Apache-2.0
/*
 * Match and allocate in one step.
 *
 * The hits are referenced before the pool's lock is taken, so they are safe; but they stay in the
 * order of eviction until it is sure that the rest fits: undoing then leaves no trace there.
 */
#include <kv/env.h>
#include <pool/local.h>

/* A request, and the blocks matched for it. */
struct acquiring {
	struct alloc_ctx	ctx;
	struct kvmm_acquire_args	*req;
};

static int take_hits(struct kvmm_pool *pool, const struct kvmm_acquire_args *req,
		     struct alloc_ctx *ctx)
{
	struct kv_query query = { req->keys, min(req->nr_keys, req->max_hits), req->domain };
	int err = cache_begin(pool);

	if (err)
		return err;
	ctx->hits = as_handles(req->hits);
	ctx->nr_hits = match_refs(pool, &query, (struct kv_handle *)req->hits, &ctx->nr_idle);
	tally_add(pool, TALLY_REFS, ctx->nr_hits);
	tally_add(pool, TALLY_ACTIVE, ctx->nr_idle);
	cache_end(pool);
	return 0;
}

/* An entry in the order is where it was; another one was dropped from there, and comes back. */
void undo_hit(struct kvmm_pool *pool, struct kv_handle ref)
{
	int ret = kv_entry_put(&pool->entries, ref);

	kv_assert_held(&pool->lock);
	if (unlikely(ret < 0))	/* a caller has put a reference it did not own */
		return;
	tally_add(pool, TALLY_REFS, -1);
	tally_add(pool, TALLY_ACTIVE, ret > 0 ? -1 : 0);
	if (ret == 1) {
		order_catch_up(&pool->order);
		if (!order_has(&pool->order, ref.index))
			order_apply(&pool->order, NOTE_PUT, ref);
	}
	if (ret != 2)
		return;
	order_forget(&pool->order, ref.index);
	entry_forget(pool, ref.index);
	entry_release(pool, ref);
}

/*
 * Hits that are counted as available. Not those that are about to enter the order: the thread that
 * put them last has not noted it yet.
 */
static u32 nr_in_order(struct kvmm_pool *pool, const struct alloc_ctx *ctx)
{
	u32 nr = 0;

	kv_assert_held(&pool->order.lock);
	for (u32 i = 0; i < ctx->nr_hits && nr < ctx->nr_idle; i++)
		nr += order_has(&pool->order, alloc_hit(ctx, i));
	return nr;
}

int alloc_fits(struct kvmm_pool *pool, const struct alloc_ctx *ctx)
{
	u32 keep = door_keep(pool, ctx), nr;
	u64 want = (u64)ctx->nr + ctx->reserve + keep;
	bool fits;

	kv_assert_held(&pool->order.lock);
	if (!ctx->nr && (ctx->nr_hits || !ctx->nr_idle))
		return 0;
	if (unlikely(keep == DOOR_SHUT))
		return -ENOSPC;
	if (unlikely(pool->order.quotas != NULL))
		return quota_check_fit(pool, ctx, keep);
	if (likely(want + ctx->nr_idle <= cache_nr_available(pool)))
		return 0;
	want += ctx->nr_hits ? nr_in_order(pool, ctx) : ctx->nr_idle;
	nr = pool_drain_local(pool);
	fits = want <= cache_nr_available(pool);
	step_count(&pool->door, KVMM_STEP_DRAIN, nr, fits);
	return fits ? 0 : -ENOSPC;
}

int pool_fits(struct kvmm_pool *pool, const struct alloc_ctx *ctx)
{
	int err = cache_enter(pool);

	if (err)
		return err;
	order_enter(&pool->order);
	err = alloc_fits(pool, ctx);
	order_leave(&pool->order);
	cache_leave(pool);
	return err;
}

static int take_rest(struct kvmm_pool *pool, struct alloc_ctx *ctx,
		     const struct kvmm_acquire_args *req)
{
	int err = req->nr_blocks < ctx->nr_hits ? -EINVAL : alloc_fits(pool, ctx);
	u32 now;

	kv_assert_held(&pool->lock);
	if (err)
		return err;
	order_seen(&pool->order, req->domain.tenant, req->keys, req->nr_keys);
	now = ctx->nr_hits ? mags_tick(pool) : 0;
	for (u32 i = 0; i < ctx->nr_hits; i++) {
		order_apply(&pool->order, NOTE_HIT, ctx->hits[i]);
		WRITE_ONCE(entry_at(pool, ctx->hits[i].index)->vtime, now);
	}
	err = cache_take(pool, ctx);
	if (err)
		return err;
	pool_tell(pool, hit, ctx->hits, ctx->nr_hits);
	if (ctx->nr)
		kv_probe3(alloc, pool, ctx->nr, ctx->tenant);
	return 0;
}

/* Hits are put back at once, so it is tried only once. */
static int take_acquired(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	int err;

	kv_assert_held(&pool->lock);
	order_enter(&pool->order);
	err = take_rest(pool, ctx, container_of(ctx, struct acquiring, ctx)->req);
	for (u32 i = ctx->nr_hits; err && i-- > 0;)
		undo_hit(pool, ctx->hits[i]);
	order_leave(&pool->order);
	return err;
}

int acquire_uncounted(struct kvmm_pool *pool, struct kvmm_acquire_args *req)
{
	struct acquiring a = { .req = req, .ctx.take = take_acquired, .ctx.in_place = true };
	struct alloc_ctx *ctx = &a.ctx;
	int err;

	if (!req || (req->nr_keys && !req->keys) || (req->nr_blocks && !req->fresh) ||
	    (min(req->nr_keys, req->max_hits) && !req->hits))
		return -EINVAL;
	ctx->tenant = req->domain.tenant;
	ctx->reserve = req->reserve;
	ctx->blocks = req->fresh;
	ctx->keys = req->evicted;
	ctx->max_keys = req->nr_blocks;
	err = take_hits(pool, req, ctx);
	if (err)
		return err;
	ctx->nr = req->nr_blocks - ctx->nr_hits;
	err = alloc_enter(pool, ctx);
	if (err)
		return err;
	req->nr_hits = ctx->nr_hits;
	req->nr_fresh = req->nr_blocks - ctx->nr_hits;
	req->nr_evicted = min(ctx->evicted, req->evicted ? req->nr_blocks : UINT32_MAX);
	req->nr_untold = ctx->evicted - req->nr_evicted;
	pool_tell(pool, touched, ctx->hits, ctx->nr_hits);
	if (!tenant_take_muts(pool, req->fresh, req->nr_fresh, req->domain.tenant))
		return 0;
	/* The content of new blocks could not be zeroed. */
	kvmm_free(pool, req->fresh, req->nr_fresh);
	kvmm_put_many(pool, req->hits, req->nr_hits);
	req->nr_fresh = req->nr_hits = 0;
	return -EIO;
}

int kvmm_acquire_sized(struct kvmm_pool *pool, struct kvmm_acquire_args *req, size_t size)
{
	struct kv_query query;
	int err;

	if (!kv_args_are_known(req, size, sizeof(*req)))
		return -EINVAL;
	err = acquire_uncounted(pool, req);
	if (err)
		return err;
	query = (struct kv_query){ req->keys, req->nr_keys, req->domain };
	kv_lookup_end(pool, &query, min(req->nr_keys, req->max_hits), req->nr_hits,
		      req->nr_blocks);
	tally_add(pool, TALLY_SHORT, !req->nr_keys && req->nr_blocks);
	return 0;
}
