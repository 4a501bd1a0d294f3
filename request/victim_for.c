// SPDX-License-Identifier: Apache-2.0
/*
 * Room for a request that does not take it: exactly the missing blocks are evicted. And which ones
 * would be the next.
 */

#include <pool/local.h>

/* To a caller's of @size. It has a name. The order's lock held. */
static void tell_victim(const struct kvmm_pool *pool, u32 index, void *victim, size_t size)
{
	const struct kv_entry *entry = entry_at(pool, index);
	struct kv_handle handle = entry_handle(pool, index);
	struct kvmm_victim now = {
		.key = kv_entry_key(entry), .domain = kv_entry_domain(entry),
		.weak = { handle.index, handle.gen }, .block = entry_block(entry),
		.cls = class_of(pool->order.classes, index),
	};

	kv_assert_held(&pool->order.lock);
	kv_assert(index < pool->entries.nr);
	kv_give(victim, size, &now, sizeof(now));
}

/* In their order, until @nr blocks become free. */
static bool pick_useful(struct kvmm_pool *pool, u32 nr, struct victims *victims)
{
	kv_assert_held(&pool->lock);
	if (unlikely(pool->blind))	/* nothing becomes free */
		return !nr;
	while (nr) {
		u32 nr_known = victims->nr, nr_lost = 0;

		if (!victims_pick_named(pool, nr, victims))
			return false;
		/* These go with the memory that is given back. */
		for_each_victim(pool, victims, at, i) {
			struct kvmm_extent run = { entry_block(entry_at(pool, at)), 1 };

			if (i == victims->nr - nr_known)
				break;
			nr_lost += elastic_is_leaving(pool, run);
		}
		nr = nr_lost;
	}
	return true;
}

/* They are claimed, and have their names still; the list is newest first. */
static void tell_victims(struct kvmm_pool *pool, const struct victims *victims,
			 struct kvmm_evict_for_args *req)
{
	u32 at_end = victims->nr;

	kv_assert_held(&pool->order.lock);
	memset(req->evicted_of, 0, sizeof(req->evicted_of));
	for_each_victim(pool, victims, at, i)
		req->evicted_of[class_of(pool->order.classes, at)]++;
	req->nr_victims = min(at_end, req->max_victims);
	if (!req->nr_victims)
		return;
	for_each_victim(pool, victims, at, i)
		if (--at_end < req->max_victims)
			tell_victim(pool, at, &req->victims[at_end], sizeof(*req->victims));
}

/* Both locks held. */
static int evict_for(struct kvmm_pool *pool, u64 nr_blocks, struct kvmm_evict_for_args *req)
{
	struct victims victims = NO_VICTIMS;
	u64 nr_free;

	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	pool_drain_local(pool);
	nr_free = pool_nr_free(pool) + pool_nr_parked(pool);
	if (!pick_useful(pool, nr_blocks - min(nr_blocks, nr_free), &victims)) {
		victims_unpick(pool, &victims);
		return -ENOSPC;
	}
	victims_spare_parked(pool, &victims);
	tell_victims(pool, &victims, req);
	req->nr_evicted = victims_evict(pool, &victims);
	pool_steal_shortfall(pool, nr_blocks);
	req->nr_free = pool_nr_free(pool) + pool_nr_parked(pool);
	return 0;
}

int kvmm_evict_for(struct kvmm_pool *pool, struct kvmm_evict_for_args *req)
{
	struct kvmm_evict_for_args args;
	u64 nr_blocks;
	int err;

	/* The first version had no victims. */
	if (!pool || !req || req->size < offsetof(struct kvmm_evict_for_args, victims) ||
	    kv_copy_attr(&args, sizeof(args), req) || args.reserved ||
	    (args.max_victims && !args.victims))
		return -EINVAL;
	if (args.bytes && !pool->block_bytes)
		return -EOPNOTSUPP;
	nr_blocks = args.nr_blocks;
	if (args.bytes)
		nr_blocks = max(nr_blocks, (args.bytes - 1) / pool->block_bytes + 1);
	if (nr_blocks > pool->nr_usable)
		return -ENOSPC;
	err = cache_enter(pool);
	if (err)
		return err;
	order_enter(&pool->order);
	err = evict_for(pool, nr_blocks, &args);
	order_leave(&pool->order);
	cache_leave(pool);
	if (!err)
		kv_give_sized(req, &args, sizeof(args));
	return err;
}

/* ---- without evicting ---- */

int kvmm_evict_next_sized(struct kvmm_pool *pool, struct kvmm_victim *victims, uint32_t max,
			  size_t size)
{
	u32 index[KVMM_MAX_VICTIMS], nr = 0, nr_told = 0;
	struct order_mark before;
	int err;

	if (max && kv_size_is_bad(victims, size))
		return -EINVAL;
	err = cache_enter(pool);
	if (err)
		return err;
	order_enter(&pool->order);
	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	before = pool->order.mark;
	while (nr < ARRAY_SIZE(index) && nr_told < max) {
		u32 next = order_peek(&pool->order);
		u64 word;

		if (next == KV_NONE)
			break;
		index[nr++] = next;
		/* Not PARKED. With references it is there for a note of a hit that was lost. */
		word = READ_ONCE(entry_at(pool, next)->word) & (KV_ENTRY_STATE | KV_ENTRY_REFS);
		if (word == KV_STATE_WORD(KV_ENTRY_REGISTERED))
			tell_victim(pool, next, (u8 *)victims + nr_told++ * size, size);
	}
	/* All of them back to their places. */
	while (nr)
		order_unpeek(&pool->order, index[--nr]);
	pool->order.mark = before;
	order_leave(&pool->order);
	pool_leave(pool);
	return nr_told;
}
