// SPDX-License-Identifier: Apache-2.0
/*
 * Allocations of tenants: the blocks that their limits want before they get anything.
 *
 * An allocation that would go beyond ->max or ->high is paid for by the tenant's own inactive
 * blocks, exactly as many as it would be beyond; the rest is looked for among all tenants, as
 * turn.c says. Nothing is evicted before it is known that all of it succeeds.
 */
#include "local.h"

/* ---- limits ---- */

/* How far @nr blocks more would be beyond the limits. */
struct excess {
	u64 max;
	u64 high;
};

static u64 beyond(u64 usage, u32 limit)
{
	return usage > limit ? usage - limit : 0;
}

static struct excess excess_of(struct kvmm_pool *pool, const struct account *account, u64 nr)
{
	u64 usage = account->usage - account->nr_picked + nr;

	kv_assert_held(&pool->lock);
	if (usage > min(account->limit.max, account->limit.high)) {
		credits_recall(pool);
		usage = account->usage - account->nr_picked + nr;
	}
	return (struct excess){ beyond(usage, account->limit.max),
				beyond(usage, account->limit.high) };
}

static void note_excess(struct account *account, const struct excess *excess)
{
	account->beyond = (excess->high ? BEYOND_HIGH : 0) | (excess->max ? BEYOND_MAX : 0);
}

static int refuse(struct account *account, const struct excess *excess)
{
	account->nr_high += !!excess->high;
	account->nr_max++;
	account->nr_oom++;
	return -EDQUOT;
}

/* ---- does it fit? ---- */

/* Blocks that were hit are in the order still, and must not be counted on. */
static void count_hits(struct kvmm_pool *pool, const struct alloc_ctx *ctx, u32 own)
{
	struct quotas *quotas = pool->order.quotas;

	kv_assert_held(&pool->order.lock);
	for (u32 i = 0; i < ctx->nr_hits; i++)
		if (order_has(&pool->order, alloc_hit(ctx, i)))
			account_of(&pool->order, alloc_hit(ctx, i))->nr_hits++;
	if (!ctx->nr_hits)	/* none is held: which they are is not said */
		quotas->account[own]->nr_hits += ctx->nr_idle;
}

/* Of @own, and of all, the available blocks; uncounts the hits. */
static u64 sum_up(struct kvmm_pool *pool, u32 own, u32 *nr_own)
{
	u64 sum = pool_nr_free(pool);
	struct account *account;

	kv_assert_held(&pool->order.lock);
	credits_recall(pool);
	for_each_account(&pool->order, account) {
		u32 nr = account_nr_inactive(&pool->order, account);

		nr -= min(nr, account->nr_hits);
		account->nr_hits = 0;
		if (account->id == own)
			*nr_own = nr;
		else	/* what is protected from others is not there for this one */
			nr = min((u64)nr, beyond(account->usage, account->limit.min));
		sum += nr;
	}
	return sum;
}

u64 quota_nr_available(struct kvmm_pool *pool, u32 tenant)
{
	u32 nr_own;

	return sum_up(pool, find_account(pool->order.quotas, tenant), &nr_own);
}

int quota_check_fit(struct kvmm_pool *pool, const struct alloc_ctx *ctx, u32 keep)
{
	struct quotas *quotas = pool->order.quotas;
	u32 own = find_account(quotas, ctx->tenant), nr_own = 0;
	struct excess excess = excess_of(pool, quotas->account[own], ctx->nr);
	u64 nr_available, want = (u64)ctx->nr + ctx->reserve + keep;

	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	if (!ctx->nr || (!excess.max && want <= kv_zone_nr_free(pool->zone)))
		return 0;
	count_hits(pool, ctx, own);
	nr_available = sum_up(pool, own, &nr_own);
	if (excess.max > nr_own)
		return refuse(quotas->account[own], &excess);
	return want <= nr_available ? 0 : -ENOSPC;
}

/* ---- single blocks ---- */

/* @excess.max of its own in any case, @excess.high as far as there are any. */
static int pick_own(struct kvmm_pool *pool, u32 own, const struct excess *excess,
		    struct victims *victims)
{
	struct quotas *quotas = pool->order.quotas;

	kv_assert_held(&pool->order.lock);
	quota_begin(&pool->order, own, QUOTA_OF_ONE);
	victims_pick(pool, min(max(excess->max, excess->high), (u64)pool->nr_blocks), victims);
	if (victims->nr >= excess->max)
		return 0;
	victims_unpick(pool, victims);
	return refuse(quotas->account[own], excess);
}

int quota_pick(struct kvmm_pool *pool, struct alloc_ctx *ctx, u32 nr)
{
	struct quotas *quotas = pool->order.quotas;
	u32 own = find_account(quotas, ctx->tenant);
	struct excess excess = excess_of(pool, quotas->account[own], ctx->nr);
	struct victims *victims = &ctx->victims;
	int err = 0;

	kv_assert_held(&pool->lock);
	note_excess(quotas->account[own], &excess);
	if (ctx->flags & KVMM_ALLOC_NO_EVICT)
		err = excess.max ? refuse(quotas->account[own], &excess) : 0;
	else if (excess.max || excess.high)
		err = pick_own(pool, own, &excess, victims);
	quota_begin(&pool->order, own, QUOTA_FOR_ONE);
	if (!err && victims->nr < nr && !victims_pick(pool, nr, victims)) {
		victims_unpick(pool, victims);
		err = -ENOSPC;
	}
	if (err)
		quota_end(&pool->order);
	return err;
}

/* ---- ranges ---- */

bool __quota_has_room(struct kvmm_pool *pool, u32 i, u32 nr)
{
	struct account *account = pool->order.quotas->account[i];
	struct excess excess = excess_of(pool, account, nr);

	kv_assert_held(&pool->lock);
	note_excess(account, &excess);
	return !(excess.max || excess.high);
}

int __quota_admit(struct kvmm_pool *pool, u32 i, struct alloc_ctx *ctx)
{
	struct account *account = pool->order.quotas->account[i];
	struct excess excess;

	kv_assert_held(&pool->lock);
	ctx->account = i;
	if (!ctx->squeezed)
		return __quota_has_room(pool, i, ctx->nr) ? 0 : -ENOSPC;
	excess = excess_of(pool, account, ctx->nr);
	return excess.max ? refuse(account, &excess) : 0;
}

bool __quota_bars(struct kvmm_pool *pool, const struct alloc_ctx *ctx)
{
	const struct account *account = pool->order.quotas->account[ctx->account];

	kv_assert_held(&pool->lock);
	return excess_of(pool, account, ctx->nr).max >
	       (alloc_may_evict(pool, ctx) ? account_nr_inactive(&pool->order, account) : 0);
}

/* Blocks of its own that may go; with NOWAIT not now, but if the caller could wait. */
static u32 nr_own_to_evict(struct kvmm_pool *pool, const struct alloc_ctx *ctx)
{
	u32 nr;

	kv_assert_held(&pool->lock);
	if (!flags_let_evict(pool, ctx->flags & KVMM_ALLOC_NOWAIT ? ctx->asked : ctx->flags))
		return 0;
	order_enter(&pool->order);
	nr = account_nr_inactive(&pool->order, pool->order.quotas->account[ctx->account]);
	order_leave(&pool->order);
	return nr;
}

int quota_squeeze(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	struct account *account = pool->order.quotas->account[ctx->account];
	struct excess excess = excess_of(pool, account, ctx->nr);
	struct victims own = NO_VICTIMS;
	u32 nr_own = nr_own_to_evict(pool, ctx);
	int err;

	kv_assert_held(&pool->lock);
	if (excess.max > nr_own)
		return refuse(account, &excess);
	if (!(excess.max | excess.high))
		nr_own = 0;
	ctx->squeezed = !nr_own || !(ctx->flags & KVMM_ALLOC_NOWAIT);
	if (!nr_own || !ctx->squeezed)
		return nr_own ? -ENOSPC : 0;
	order_enter(&pool->order);
	err = pick_own(pool, ctx->account, &excess, &own);
	quota_end(&pool->order);
	order_leave(&pool->order);
	victims_free_blocks(pool, &own, own.nr);
	victims_join(pool, &ctx->victims, &own);
	return err;
}

/* ---- reclaim ---- */

u32 quota_reclaim(struct kvmm_pool *pool, u32 i, u32 nr)
{
	struct victims victims = NO_VICTIMS;

	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	quota_begin(&pool->order, i, QUOTA_OF_ONE);
	victims_pick(pool, min(nr, pool->nr_blocks), &victims);
	quota_end(&pool->order);
	return victims_evict(pool, &victims);
}
