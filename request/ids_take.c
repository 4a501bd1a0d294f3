// SPDX-License-Identifier: Apache-2.0
/*
 * Blocks that the caller names, free ones and victims, become its private blocks.
 *
 * All of it is under both locks. Free ones are taken in the zone as they are looked at, victims are
 * claimed but stay in the order of eviction: so a block that cannot be had undoes that exactly.
 */
#include <cache/cache.h>
#include <kv/mem.h>
#include <kvmm/ext/ids.h>
#include <pool/local.h>

/* The entry that has the block, or KV_NONE. */
static u32 entry_with(const struct kvmm_pool *pool, u32 id)
{
	u32 owner = pool->owner[id];

	kv_assert_held(&pool->lock);
	return owner_kind(owner) == OWNER_ENTRY ? owner_index(owner) : KV_NONE;
}

/*
 * A free block is taken in the zone, a victim claimed. Its place in the batch is in ->chain: so a
 * block that stands there twice is told from one that another thread has claimed.
 */
static int claim(struct kvmm_pool *pool, const int32_t *ids, u32 at, u32 *nr_entries)
{
	u32 owner, before, index;
	struct kv_entry *entry;

	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	if ((u32)ids[at] >= pool->nr_blocks)
		return -EINVAL;
	owner = pool->owner[ids[at]];
	if (owner_kind(owner) == OWNER_NULL)
		return -EINVAL;
	/* Nothing is kept aside: a free block that the zone has not stands there twice. */
	if (owner_is_free(owner))
		return kv_zone_alloc_at(pool->zone, ids[at], 1) ? -EINVAL : 0;
	index = entry_with(pool, ids[at]);
	if (index == KV_NONE)
		return -EBUSY;
	entry = entry_at(pool, index);
	before = READ_ONCE(entry->chain);
	if (kv_word_is(READ_ONCE(entry->word), KV_ENTRY_EVICTING))
		return before < at && ids[before] == ids[at] ? -EINVAL : -EBUSY;
	if (kv_handle_step(&pool->entries, entry_handle(pool, index), kv_edge_claim))
		return -EBUSY;
	if (pool->order.quotas && !quota_spares(&pool->order, index)) {
		claimed_step(pool, index, kv_edge_unclaim);
		return -ENOSPC;
	}
	if (pool->order.quotas)
		quota_picked(&pool->order, index);
	WRITE_ONCE(entry->chain, at);
	/* An entry in its last generation is not used again. */
	*nr_entries += entry_handle(pool, index).gen != pool->entries.gen_last;
	return 0;
}

/*
 * Both locks held. Those that are claimed are in the order still, and claimed no more where it was
 * in vain. Victims lose their names and entries; their blocks never get to the zone.
 */
static int take_these(struct kvmm_pool *pool, const int32_t *ids, u32 account,
		      struct alloc_ctx *ctx)
{
	u32 nr_claimed = 0, nr_named = 0, nr_entries;
	int fits = alloc_fits(pool, ctx), err = 0;

	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	pool_drain_local(pool);
	if (pool->grow.nr_reserved)
		pool_steal_reserved(pool, pool->grow.nr_reserved);
	nr_entries = pool->entries.nr_free;
	for (; nr_claimed < ctx->nr && !err; nr_claimed += !err)
		err = claim(pool, ids, nr_claimed, &nr_entries);
	/* A block that cannot be had says why, before there are too few. */
	if (!err)
		err = fits ? fits : nr_entries < ctx->nr ? -ENOSPC : 0;
	/* Its own that it takes do not count twice. */
	if (!err)
		err = quota_admit(pool, account, ctx);
	while (err && nr_claimed-- > 0) {
		u32 id = ids[nr_claimed], index = entry_with(pool, id);

		if (index == KV_NONE) {
			POOL_BUG_ON(pool, kv_zone_free_many(pool->zone, &id, 1));
			continue;
		}
		if (pool->order.quotas)
			quota_unpicked(pool->order.quotas, index);
		claimed_step(pool, index, kv_edge_unclaim);
	}
	if (err)
		return err;
	for (u32 i = 0; i < ctx->nr; i++) {
		u32 index = entry_with(pool, ids[i]);

		if (index == KV_NONE)
			continue;
		order_forget(&pool->order, index);
		nr_named += entry_forget(pool, index);
		/* Out of the map before another block gets the entry: see request/ids.c. */
		owner_clear(pool, ids[i], 1);
		entry_free(pool, entry_handle(pool, index));
	}
	count_evictions(pool, nr_named);
	if (POOL_BUG_ON(pool, kv_entries_take(&pool->entries, ctx->nr,
					      (struct kv_handle *)ctx->blocks)))
		return -EUCLEAN;
	for (u32 i = 0, now = pool_tick(pool); i < ctx->nr; i++) {
		entry_own(pool, ctx->blocks[i].index, ids[i]);
		WRITE_ONCE(entry_at(pool, ctx->blocks[i].index)->vtime, now);
	}
	pool->count.allocs++;
	pool->count.alloc_blocks += ctx->nr;
	return 0;
}

/* As they are: those that were used otherwise since are another's, or free, or parked anew. */
static int take_parked(struct kvmm_pool *pool, const int32_t *ids, u32 nr, kvmm_mut_t *muts)
{
	int err = pool_enter(pool);

	if (err)
		return err;
	for (u32 i = 0; i < nr && !err; i++) {
		u32 index = (u32)ids[i] < pool->nr_blocks ? entry_with(pool, ids[i]) : KV_NONE;

		if (index == KV_NONE) {
			err = (u32)ids[i] < pool->nr_blocks ? -ESTALE : -EINVAL;
			continue;
		}
		muts[i] = (kvmm_mut_t){ index, entry_handle(pool, index).gen };
		if (!kv_word_is(READ_ONCE(entry_at(pool, index)->word), KV_ENTRY_PARKED))
			err = -ESTALE;
	}
	pool_leave(pool);
	return err ? err : kvmm_unpark(pool, muts, nr);
}

int kvmm_ids_take(struct kvmm_pool *pool, const int32_t *ids, uint32_t nr, uint32_t tenant,
		  uint32_t flags)
{
	/* Its tenant gives up no other blocks for these. */
	struct alloc_ctx ctx = { .nr = nr, .tenant = tenant, .squeezed = true };
	kvmm_mut_t *muts;
	u32 account;
	int err = pool ? pool_refusal(pool) : -EINVAL;

	if (err)
		return err;
	if (!pool->caches || pool->parts.planner)
		return -EOPNOTSUPP;
	if (flags & ~KVMM_IDS_PARKED || (nr && !ids) || nr > pool->nr_blocks)
		return -EINVAL;
	if (!nr)
		return 0;
	muts = kv_alloc_array(nr, sizeof(*muts));
	if (!muts)
		return -ENOMEM;
	if (flags) {
		err = take_parked(pool, ids, nr, muts);
		goto out;
	}
	ctx.blocks = muts;
	err = pool_enter(pool);
	if (err)
		goto out;
	account = quota_account(pool, tenant);
	/* Freed blocks may not be free: they are copied, unseen, or go with their memory. */
	err = pool->nr_flying | pool->blind | pool->nr_leaving ? -EBUSY : 0;
	if (!err) {
		order_enter(&pool->order);
		quota_begin(&pool->order, account, QUOTA_FOR_ONE);
		err = take_these(pool, ids, account, &ctx);
		quota_end(&pool->order);
		order_leave(&pool->order);
	}
	if (!err)
		quota_took(pool->order.quotas, account);
	cache_leave(pool);
	if (!err && tenant_take_muts(pool, muts, nr, tenant)) {
		kvmm_free(pool, muts, nr);
		err = -EIO;
	}
out:
	kv_free(muts);
	return err;
}
