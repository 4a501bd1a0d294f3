/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of tenants where blocks are taken; see account.h. One branch where no tenant has limits.
 *
 * Part of internal.h, and included by that alone.
 */
#ifndef POOL_QUOTA_H
#define POOL_QUOTA_H

/* 0, -EDQUOT, or -ENOSPC; changes nothing but events. @keep: to stay free. Both locks held. */
int quota_check_fit(struct kvmm_pool *pool, const struct alloc_ctx *ctx, u32 keep);
/* Free blocks, and those that @tenant may have evicted. Both locks held. */
u64 quota_nr_available(struct kvmm_pool *pool, u32 tenant);
/* @nr victims for @ctx, its tenant's own first: 0, -EDQUOT, or -ENOSPC and nothing has changed. */
int quota_pick(struct kvmm_pool *pool, struct alloc_ctx *ctx, u32 nr);

/*
 * May a range of @account get so many blocks as they are? 0; -ENOSPC: not yet, the tenant's own
 * blocks come first; -EDQUOT. ->lock held.
 */
int __quota_admit(struct kvmm_pool *pool, u32 account, struct alloc_ctx *ctx);
/* May it get @nr blocks that are free, besides what it has? ->lock held. */
bool __quota_has_room(struct kvmm_pool *pool, u32 account, u32 nr);
/* Will its tenant's limits refuse it, though blocks are free? Counts nothing. Both locks held. */
bool __quota_bars(struct kvmm_pool *pool, const struct alloc_ctx *ctx);
/*
 * Make the tenant's own blocks free, as far as its limits want that. 0 or -EDQUOT; with NOWAIT
 * nothing is made free: -ENOSPC if something had to be. ->lock held.
 */
int quota_squeeze(struct kvmm_pool *pool, struct alloc_ctx *ctx);
/* Evict up to @nr of one account's. How many. Both locks held. */
u32 quota_reclaim(struct kvmm_pool *pool, u32 account, u32 nr);

/* The account of @tenant, or QUOTA_REST. ->lock held. */
static inline u32 quota_account(const struct kvmm_pool *pool, u32 tenant)
{
	if (likely(!pool->order.quotas))
		return QUOTA_REST;
	kv_assert_held(&pool->lock);
	return find_account(pool->order.quotas, tenant);
}

static inline int quota_admit(struct kvmm_pool *pool, u32 account, struct alloc_ctx *ctx)
{
	return likely(!pool->order.quotas) ? 0 : __quota_admit(pool, account, ctx);
}

static inline bool quota_has_room(struct kvmm_pool *pool, u32 account, u32 nr)
{
	kv_assert_held(&pool->lock);
	return likely(!pool->order.quotas) || __quota_has_room(pool, account, nr);
}

static inline bool quota_bars(struct kvmm_pool *pool, const struct alloc_ctx *ctx)
{
	kv_assert_held(&pool->lock);
	return unlikely(pool->order.quotas != NULL) && __quota_bars(pool, ctx);
}

#endif /* POOL_QUOTA_H */
