// SPDX-License-Identifier: Apache-2.0
/*
 * Match and allocate in one step.
 *
 * The hits are referenced before the pool's lock is taken, so they are safe; but they stay in the
 * order of eviction until it is sure that the rest fits: undoing then leaves no trace there.
 */
#include <cache/cache.h>
#include <kv/env.h>
#include <pool/local.h>

/* A request, and the blocks matched for it. */
struct acquiring {
	struct alloc_ctx	ctx;
	struct kvmm_acquire_args	*req;
};

/* An entry in the order is where it was; another one was dropped from there, and comes back. */
void undo_hit(struct kvmm_pool *pool, struct kv_handle ref)
{
	int ret = kv_handle_step(&pool->entries, ref, kv_edge_put);

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

/* Hits are put back at once, so it is tried only once. */
static int take_acquired(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	const struct kvmm_acquire_args *req = container_of(ctx, struct acquiring, ctx)->req;
	int err;

	kv_assert_held(&pool->lock);
	order_enter(&pool->order);
	err = req->nr_blocks < ctx->nr_hits ? -EINVAL : alloc_fits(pool, ctx);
	if (likely(!err)) {
		u32 now = ctx->nr_hits ? pool_tick(pool) : 0;

		order_seen(&pool->order, req->domain.tenant, req->keys, req->nr_keys);
		for (u32 i = 0; i < ctx->nr_hits; i++) {
			order_apply(&pool->order, NOTE_HIT, ctx->hits[i]);
			WRITE_ONCE(entry_at(pool, ctx->hits[i].index)->vtime, now);
		}
		err = cache_take(pool, ctx);
	}
	if (likely(!err)) {
		pool_tell(pool, hit, ctx->hits, ctx->nr_hits);
		if (ctx->nr)
			kv_probe3(alloc, pool, ctx->nr, ctx->tenant);
	}
	for (u32 i = ctx->nr_hits; unlikely(err) && i-- > 0;)
		undo_hit(pool, ctx->hits[i]);
	order_leave(&pool->order);
	return err;
}

int acquire_uncounted(struct kvmm_pool *pool, struct kvmm_acquire_args *req, bool inside)
{
	struct acquiring a = { .req = req, .ctx.take = take_acquired, .ctx.in_place = true,
			       .ctx.inside = inside };
	struct alloc_ctx *ctx = &a.ctx;
	struct kv_query query;
	int err;

	if (!req || (req->nr_keys && !req->keys) || (req->nr_blocks && !req->fresh) ||
	    (min(req->nr_keys, req->max_hits) && !req->hits))
		return -EINVAL;
	query = (struct kv_query){ req->keys, min(req->nr_keys, req->max_hits), req->domain };
	ctx->tenant = req->domain.tenant;
	ctx->reserve = req->reserve;
	ctx->blocks = req->fresh;
	ctx->keys = req->evicted;
	ctx->hits = as_handles(req->hits);
	err = cache_begin(pool);
	if (err)
		return err;
	ctx->nr_hits = match_refs(pool, &query, (struct kv_handle *)req->hits, &ctx->nr_idle);
	tally_add(pool, TALLY_REFS, ctx->nr_hits);
	tally_add(pool, TALLY_ACTIVE, ctx->nr_idle);
	cache_end(pool);
	ctx->nr = req->nr_blocks - ctx->nr_hits;
	err = alloc_enter(pool, ctx);
	if (err)
		return err;
	req->nr_hits = ctx->nr_hits;
	req->nr_fresh = ctx->nr;
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
	err = acquire_uncounted(pool, req, false);
	if (err)
		return err;
	query = (struct kv_query){ req->keys, req->nr_keys, req->domain };
	kv_lookup_end(pool, &query, min(req->nr_keys, req->max_hits), req->nr_hits,
		      req->nr_blocks);
	tally_add(pool, TALLY_SHORT, !req->nr_keys && req->nr_blocks);
	return 0;
}
