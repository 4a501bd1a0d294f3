// SPDX-License-Identifier: Apache-2.0
/* Room for a request that does not take it: exactly the missing blocks are evicted. */

#include <pool/local.h>

/* In their order, until @nr blocks become free. */
static bool pick_useful(struct kvmm_pool *pool, u32 nr, struct victims *victims)
{
	u32 missing = nr;

	kv_assert_held(&pool->lock);
	if (unlikely(pool->blind))	/* nothing becomes free */
		return false;
	while (missing) {
		u32 nr_useful = 0;

		if (!victims_pick(pool, victims->nr + missing, victims))
			return false;
		/* Blocks of the others go with the memory that is given back. */
		for_each_victim(pool, victims, at, i)
			nr_useful += !elastic_is_leaving(pool, (struct kvmm_extent){
							entry_block(entry_at(pool, at)), 1 });
		missing = nr - min(nr, nr_useful);
	}
	return true;
}

/* Both locks held. */
static int evict_for(struct kvmm_pool *pool, u64 nr_blocks, struct kvmm_evict_for_args *req)
{
	struct victims victims = NO_VICTIMS;
	u64 nr_free;

	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	pool_drain_local(pool);
	nr_free = pool_nr_free(pool);
	if (nr_blocks > nr_free && !pick_useful(pool, nr_blocks - nr_free, &victims)) {
		victims_unpick(pool, &victims);
		return -ENOSPC;
	}
	memset(req->evicted_of, 0, sizeof(req->evicted_of));
	for_each_victim(pool, &victims, at, i)
		req->evicted_of[class_of(pool->order.classes, at)] +=
			!(READ_ONCE(entry_at(pool, at)->word) & KV_ENTRY_MARK);
	req->nr_evicted = victims_evict(pool, &victims);
	pool_steal_shortfall(pool, nr_blocks);
	req->nr_free = pool_nr_free(pool);
	return 0;
}

int kvmm_evict_for(struct kvmm_pool *pool, struct kvmm_evict_for_args *req)
{
	u64 nr_blocks;
	int err;

	if (!pool || !req || !kv_args_are_known(req, req->size, sizeof(*req)) || req->reserved)
		return -EINVAL;
	if (req->bytes && !pool->block_bytes)
		return -EOPNOTSUPP;
	nr_blocks = req->nr_blocks;
	if (req->bytes)
		nr_blocks = max(nr_blocks, (req->bytes - 1) / pool->block_bytes + 1);
	if (nr_blocks > pool->nr_usable)
		return -ENOSPC;
	err = cache_enter(pool);
	if (err)
		return err;
	order_enter(&pool->order);
	err = evict_for(pool, nr_blocks, req);
	order_leave(&pool->order);
	cache_leave(pool);
	return err;
}
