// SPDX-License-Identifier: Apache-2.0
/*
 * Private blocks, of a certain kind or any: taken, and given back.
 *
 * A plain request is taken in place, as kvmm_alloc() does: evicted blocks are handed on with their
 * entries. A run, or a place, can only be had from the zone: then room.c makes room there first, as
 * it does for ranges.
 */
#include <kv/env.h>
#include <percpu/mag.h>

#include "wait.h"

#define PRIVATE_FLAGS	(KVMM_ALLOC_PINNED | KVMM_ALLOC_TOPDOWN | KVMM_ALLOC_NO_COMPACT | \
			 KVMM_ALLOC_NO_EVICT | KVMM_ALLOC_ZERO | KVMM_ALLOC_NOWAIT | \
			 KVMM_ALLOC_HIGH | KVMM_ALLOC_URGENT | KVMM_ALLOC_MOVABLE | \
			 KVMM_ALLOC_CONTIG | KVMM_ALLOC_RELATIVE)
#define PLACES		(KVMM_ALLOC_PINNED | KVMM_ALLOC_TOPDOWN | KVMM_ALLOC_CONTIG)

/* Any free block will do, and none is promised: so will those that the thread keeps aside. */
static bool is_plain(const struct alloc_ctx *ctx)
{
	return !(ctx->flags & PLACES) && !ctx->promise.gen;
}

/* ---- from the zone ---- */

static int take_run(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	struct kvmm_range_attr attr = { .nr = ctx->nr, .max_runs = 1, .flags = ctx->flags };
	struct kvmm_extent run;
	int nr_ext;

	kv_assert_held(&pool->lock);
	if (pool_nr_free(pool) < ctx->nr)
		return -ENOSPC;
	nr_ext = alloc_runs(pool, &attr, &run);
	if (nr_ext < 0)
		return nr_ext;
	if (room_take_entries(pool, ctx, (struct kv_handle *)ctx->blocks)) {
		blocks_free(pool, &run, 1);
		return -ENOSPC;
	}
	for (u32 i = 0; i < run.nr; i++)
		entry_own(pool, ctx->blocks[i].index, run.start + i);
	return 0;
}

/* One by one, once so many are free: the lock is held. */
static int take_singles(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	enum kv_placement place = range_placement(ctx->flags);
	struct kvmm_extent one;

	kv_assert_held(&pool->lock);
	pool_steal_shortfall(pool, ctx->nr);
	if (kv_zone_nr_free(pool->zone) < ctx->nr ||
	    room_take_entries(pool, ctx, (struct kv_handle *)ctx->blocks))
		return -ENOSPC;
	for (u32 i = 0; i < ctx->nr; i++) {
		if (POOL_BUG_ON(pool, kv_alloc_runs(pool->zone, place, 1, 1, &one) != 1))
			return -EUCLEAN;
		entry_own(pool, ctx->blocks[i].index, one.start);
	}
	return 0;
}

/* A run, or a place, or a request that waits rather than evicts. */
static int take_from_zone(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	struct quotas *quotas = pool->order.quotas;
	u32 account = quota_account(pool, ctx->tenant);
	int err = promise_find(pool, ctx, ctx->nr);

	kv_assert_held(&pool->lock);
	if (!err)
		err = quota_admit(pool, account, ctx);
	if (!err)
		err = class_admit(pool, ctx->cls, ctx->nr);
	if (err)
		return err;
	if (!door_lets(pool, ctx, ctx->nr))
		return -ENOSPC;
	order_enter(&pool->order);
	quota_begin(&pool->order, account, QUOTA_FOR_ONE);
	err = ctx->flags & KVMM_ALLOC_CONTIG ? take_run(pool, ctx) : take_singles(pool, ctx);
	quota_end(&pool->order);
	order_leave(&pool->order);
	if (err)
		return err;
	quota_took(quotas, account);
	ctx->evicted += class_take(pool, ctx->cls, ctx->blocks, ctx->nr);
	for (u32 i = 0, now = pool_tick(pool); i < ctx->nr; i++)
		WRITE_ONCE(entry_at(pool, ctx->blocks[i].index)->vtime, now);
	promise_take(pool, ctx, ctx->nr);
	pool->count.allocs++;
	pool->count.alloc_blocks += ctx->nr;
	if (is_plain(ctx))
		mag_fill(pool, ctx);
	return 0;
}

/* ---- or any blocks, with evicted ones taken as they are ---- */

static int take_private(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	int err;

	kv_assert_held(&pool->lock);
	if (!ctx->in_place || ctx->patient)
		return take_from_zone(pool, ctx);
	err = ctx->promise.gen ? promise_find(pool, ctx, ctx->nr) : 0;
	if (likely(!err))
		err = class_admit(pool, ctx->cls, ctx->nr);
	if (unlikely(err))
		return err;
	order_enter(&pool->order);
	err = alloc_fits(pool, ctx);
	if (likely(!err))
		err = cache_take(pool, ctx);
	order_leave(&pool->order);
	if (unlikely(err))
		return err;
	ctx->evicted += class_take(pool, ctx->cls, ctx->blocks, ctx->nr);
	promise_take(pool, ctx, ctx->nr);
	if (!ctx->promise.gen)
		mag_fill(pool, ctx);
	return 0;
}

/* ---- the call ---- */

int alloc_read_ctl(const struct kvmm_pool *pool, const struct kvmm_alloc_ctl *ctl,
		   struct alloc_ctx *ctx)
{
	*ctx = (struct alloc_ctx){
		.nr = ctl->nr, .flags = ctl->flags, .prio = ctl->prio, .seq = ctl->seq,
		.tenant = ctl->tenant, .cls = ctl->cls, .promise = ctl->promise,
		.deadline_ns = door_deadline(pool, ctl->flags, ctl->deadline_ns),
		.report = ctl->report, .report_bytes = sizeof(*ctl->report),
	};
	if (ctl->reserved || (ctl->cls && class_is_none(pool, ctl->cls)))
		return -EINVAL;
	return door_read_flags(ctl->flags, &ctx->prio, ctl->deadline_ns);
}

int private_begin(struct kvmm_pool *pool, const struct kvmm_alloc_ctl *src, kvmm_mut_t *blocks,
		  struct alloc_ctx *ctx)
{
	struct kvmm_alloc_ctl ctl;
	int err;

	if (!pool || !src || (!blocks && src->nr))
		return -EINVAL;
	if (!pool->caches)
		return -EOPNOTSUPP;
	err = kv_copy_attr(&ctl, sizeof(ctl), src);
	if (err)
		return err;
	if (ctl.flags & ~PRIVATE_FLAGS || (ctl.flags & KVMM_ALLOC_ZERO && !pool->nr_planes))
		return -EINVAL;
	if (ctl.flags & KVMM_ALLOC_CONTIG && ctl.nr > 1 && pool->rounds)
		return -EOPNOTSUPP;
	err = alloc_read_ctl(pool, &ctl, ctx);
	if (err)
		return err;
	ctx->take = take_private;
	ctx->blocks = blocks;
	ctx->in_place = !(ctl.flags & (PLACES | KVMM_ALLOC_NOWAIT));
	alloc_report_begin(pool, ctx, ctl.flags & KVMM_ALLOC_CONTIG ? max(ctl.nr, 1u) : 1);
	return 0;
}

/* All of it, or none is the caller's. */
static noinline int fill_content(struct kvmm_pool *pool, const struct alloc_ctx *ctx)
{
	int err = 0;

	kv_assert_not_held(&pool->lock);
	if (ctx->flags & KVMM_ALLOC_ZERO) {
		/* They do not move meanwhile; see __tenant_take_muts(). */
		kv_lock(&pool->compact_lock);
		for (u32 i = 0; i < ctx->nr && !err; i++) {
			u32 block = entry_block(entry_at(pool, ctx->blocks[i].index));

			err = blocks_zero(pool, &(struct kvmm_extent){ block, 1 }, 1);
		}
		kv_unlock(&pool->compact_lock);
	}
	if (!err)
		err = tenant_take_muts(pool, ctx->blocks, ctx->nr, ctx->tenant);
	if (!err)
		return 0;
	kvmm_free(pool, ctx->blocks, ctx->nr);
	return -EIO;
}

static __always_inline int give(struct kvmm_pool *pool, const struct alloc_ctx *ctx)
{
	int err = 0;

	if (unlikely(ctx->flags & KVMM_ALLOC_ZERO || pool->zero) && ctx->nr)
		err = fill_content(pool, ctx);
	if (!err)
		kv_probe3(alloc, pool, ctx->nr, ctx->tenant);
	return err;
}

int private_end(struct kvmm_pool *pool, struct alloc_ctx *ctx, int err)
{
	if (!err)
		err = give(pool, ctx);
	alloc_report_end(ctx, err);
	return err;
}

/* From those the thread keeps aside, or the pool. Pools that refuse calls refuse 0 blocks, too. */
static __always_inline int get_private(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	if (ctx->nr && is_plain(ctx) && mag_alloc_some(pool, ctx->nr, ctx->blocks))
		return 0;
	if (!ctx->nr)
		return pool_refusal(pool);
	mag_make(pool, ctx->nr);
	return alloc_enter(pool, ctx);
}

int kvmm_alloc_submit(struct kvmm_pool *pool, const struct kvmm_alloc_ctl *ctl, kvmm_mut_t *blocks,
		      kvmm_ticket_t *ticket)
{
	struct alloc_ctx ctx;
	int err;

	if (ticket)
		return ticket_submit(pool, ctl, blocks, ticket);
	err = private_begin(pool, ctl, blocks, &ctx);
	if (!err && ctx.deadline_ns && ctx.nr && pool->deterministic)
		err = -EINVAL;	/* no thread would tell the time while this one waits */
	return err ? err : private_end(pool, &ctx, get_private(pool, &ctx));
}

static noinline int alloc_some(struct kvmm_pool *pool, u32 nr, u32 tenant, kvmm_mut_t *blocks)
{
	struct alloc_ctx ctx = { .take = take_private, .in_place = true, .nr = nr,
				 .blocks = blocks, .tenant = tenant };

	int err;

	if (!pool || (!blocks && nr))
		return -EINVAL;
	err = pool->caches ? get_private(pool, &ctx) : -EOPNOTSUPP;
	return err ? err : give(pool, &ctx);
}

int kvmm_alloc_for(struct kvmm_pool *pool, uint32_t nr, uint32_t tenant, kvmm_mut_t *blocks)
{
	if (likely(nr == 1) && likely(pool) && likely(blocks) &&
	    likely(mag_alloc_one(pool, blocks))) {
		kv_probe3_hot(alloc, pool, 1u, tenant);
		return 0;
	}
	return alloc_some(pool, nr, tenant, blocks);
}

/* ---- giving them back ---- */

/*
 * Mark all handles, or none if one is not in the state that @edge wants, or occurs more often than
 * it is held. *@nr_shares: how many of them were not the last to hold theirs.
 */
static int leave(struct kvmm_pool *pool, const struct kv_handle *handles, u32 nr, kv_edge edge,
		 u32 *nr_shares)
{
	int ret = 0;
	u32 i;

	kv_assert_held(&pool->lock);
	*nr_shares = 0;
	for (i = 0; i < nr && likely(ret >= 0); i++) {
		ret = kv_handle_step(&pool->entries, handles[i], edge);
		*nr_shares += ret > 0;
	}
	if (likely(ret >= 0))
		return 0;
	/* All references are there again before the first mark goes. */
	nr = i - 1;
	for (i = 0; i < nr; i++)
		kv_handle_step(&pool->entries, handles[i], kv_edge_rejoin);
	for (i = 0; i < nr; i++)
		kv_handle_step(&pool->entries, handles[i], kv_edge_left);
	kv_count(KV_EV_BAD_HANDLE);
	return ret;
}

/* Those without other holders go; a block that occurs twice does once. */
static noinline void release_shared(struct kvmm_pool *pool, const struct kv_handle *handles, u32 nr,
				    u32 nr_shares)
{
	u32 nr_last = 0;	/* counted as shares, but their blocks go */

	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	for (u32 i = nr; i-- > 0;) {
		u64 word = READ_ONCE(entry_at(pool, handles[i].index)->word);

		if (kv_word_gen(word) != handles[i].gen || !kv_word_is_left(word))
			continue;
		nr_last += !!(word & KV_ENTRY_LEAVING);
		entry_release(pool, handles[i]);
	}
	for (u32 i = 0; i < nr; i++)
		kv_handle_step(&pool->entries, handles[i], kv_edge_left);
	kv_assert(nr_last <= nr_shares);
	kv_fetch_sub(&pool->entries.nr_shares, nr_shares - nr_last);
}

static int free_owned(struct kvmm_pool *pool, const void *blocks, u32 nr, kv_edge edge)
{
	const struct kv_handle *handles = blocks;
	u32 nr_shares;
	int err;

	if (!blocks && nr)
		return -EINVAL;
	err = cache_enter(pool);
	if (err)
		return err;
	err = leave(pool, handles, nr, edge, &nr_shares);
	if (!err) {
		order_enter(&pool->order);
		if (unlikely(nr_shares))
			release_shared(pool, handles, nr, nr_shares);
		else
			for (u32 i = nr; i-- > 0;)
				entry_release(pool, handles[i]);
		order_leave(&pool->order);
		pool->count.frees += !!nr;
		if (edge == kv_edge_mark)
			tally_add(pool, TALLY_STAGED, -(u64)nr);
		else
			mag_spill(pool, nr);
	}
	pool_leave(pool);
	return err;
}

static noinline int free_some(struct kvmm_pool *pool, const kvmm_mut_t *blocks, u32 nr)
{
	int err = 0;

	if (!pool || !blocks || !mag_free_some(pool, blocks, nr)) {
		mag_make(pool, nr);
		err = free_owned(pool, blocks, nr, kv_edge_leave);
	}
	if (!err)
		kv_probe2(free, pool, nr);
	return err;
}

int kvmm_free(struct kvmm_pool *pool, const kvmm_mut_t *blocks, uint32_t nr)
{
	if (likely(nr == 1) && likely(pool) && likely(blocks) &&
	    likely(mag_free_one(pool, blocks))) {
		kv_probe2_hot(free, pool, 1u);
		return 0;
	}
	return free_some(pool, blocks, nr);
}

int kv_free_staged(struct kvmm_pool *pool, const kvmm_staged_t *staged, uint32_t nr)
{
	return free_owned(pool, staged, nr, kv_edge_mark);
}

/* ---- with several holders ---- */

bool kv_mut_is_shared(const struct kvmm_pool *pool, kvmm_mut_t mut)
{
	/* Pairs with kv_edge_leave(): the other holder has read it for the last time. */
	u64 word = smp_load_acquire(&entry_at(pool, mut.index)->word);

	return kv_word_gen(word) == mut.gen && kv_word_refs(word) > 1;
}

int kvmm_get_muts(struct kvmm_pool *pool, const kvmm_mut_t *blocks, uint32_t nr)
{
	int err = !blocks && nr ? -EINVAL : cache_begin(pool);
	u32 i;

	if (err)
		return err;
	for (i = 0; i < nr && !err; i++)
		err = kv_handle_step(&pool->entries, mut_handle(blocks[i]), kv_edge_share);
	if (unlikely(err)) {
		for (i--; i-- > 0;)
			kv_handle_step(&pool->entries, mut_handle(blocks[i]), kv_edge_unshare);
		kv_count(KV_EV_BAD_HANDLE);
	} else {
		kv_fetch_add(&pool->entries.nr_shares, nr);
	}
	cache_end(pool);
	return err;
}
