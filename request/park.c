// SPDX-License-Identifier: Apache-2.0
/*
 * Blocks that are free, but readable until they are used again.
 *
 * They wait PARKED in the order of eviction, as all free blocks do with the policy "lru-classic":
 * so they count as free, and go after the free blocks of the zone. An entry keeps its generation
 * there, which ends when the block is picked. To come back it is claimed as a victim is: two that
 * want it, or one that stands twice in a batch, do not both get it.
 */
#include <kvmm/ext/ids.h>
#include <pool/local.h>

/* 0, and both locks are held; classes and tenants count no block without an owner or a name. */
static int park_enter(struct kvmm_pool *pool, const kvmm_mut_t *blocks, u32 nr)
{
	int err = cache_enter(pool);

	if (err)
		return err;
	if (nr && !blocks)
		err = -EINVAL;
	else if (pool->order.classes || pool->order.quotas)
		err = -EOPNOTSUPP;
	if (err)
		pool_leave(pool);
	else
		order_enter(&pool->order);
	return err;
}

static void park_leave(struct kvmm_pool *pool)
{
	order_leave(&pool->order);
	cache_leave(pool);
}

int kvmm_park(struct kvmm_pool *pool, const kvmm_mut_t *blocks, uint32_t nr)
{
	const struct kv_handle *handles = as_handles(blocks);
	int err = park_enter(pool, blocks, nr);
	u32 nr_marked;

	if (err)
		return err;
	/* A block that stands there twice is marked once. */
	for (nr_marked = 0; nr_marked < nr && !err; nr_marked += !err)
		err = kv_handle_step(&pool->entries, handles[nr_marked], kv_edge_mark_private);
	if (unlikely(err)) {
		entries_unmark(pool, handles, nr_marked);
		kv_count(KV_EV_BAD_HANDLE);
	}
	for (u32 i = nr; i-- > 0 && !err;)
		entry_park(pool, handles[i]);
	pool->count.frees += !err && nr;
	park_leave(pool);
	return err;
}

int kvmm_unpark(struct kvmm_pool *pool, const kvmm_mut_t *blocks, uint32_t nr)
{
	const struct kv_handle *handles = as_handles(blocks);
	struct alloc_ctx ctx = { .nr = nr };
	u32 nr_claimed = 0;
	int err = park_enter(pool, blocks, nr);

	if (err)
		return err;
	for (u32 i = 0; i < nr && !err; i++)
		err = entry_check(pool, handles[i], KV_ENTRY_PARKED, false);
	if (nr && !err)
		err = alloc_fits(pool, &ctx);	/* not those that are promised */
	for (; nr_claimed < nr && !err; nr_claimed += !err)
		/* They are parked, under both locks: one not to be claimed stands there twice. */
		err = kv_handle_step(&pool->entries, handles[nr_claimed], kv_edge_claim) ?
			-EINVAL : 0;
	for (u32 i = 0; i < nr_claimed; i++) {
		if (err) {
			claimed_step(pool, handles[i].index, kv_edge_unclaim);
			continue;
		}
		order_forget(&pool->order, handles[i].index);
		claimed_step(pool, handles[i].index, kv_edge_unpark);
		pool->count.nr_parked--;
	}
	pool->count.allocs += !err && nr;
	pool->count.alloc_blocks += err ? 0 : nr;
	park_leave(pool);
	return err;
}
