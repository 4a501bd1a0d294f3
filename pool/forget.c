// SPDX-License-Identifier: Apache-2.0
/* Forgetting keys on request: by block id, all without references, or everything. */
#include <limits.h>

#include "local.h"

static u64 nr_named(struct kvmm_pool *pool)
{
	kv_assert_held(&pool->lock);
	return tally_sum(pool, TALLY_REGISTERED) - pool->count.nr_forgotten - pool->claims.nr_named;
}

/* A broken policy does not hand out all of them: the rest, as far as it has no references. */
static u32 forget_left(struct kvmm_pool *pool)
{
	s64 left = nr_named(pool) - tally_sum(pool, TALLY_ACTIVE);
	u32 nr = 0;

	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	for (u32 i = 0; i < pool->nr_blocks && nr < left; i++) {
		struct kv_handle handle = entry_handle(pool, i);
		u64 word = READ_ONCE(entry_at(pool, i)->word);

		/* It is referenced, being copied, claimed, or has no name. */
		if (!kv_word_is(word, KV_ENTRY_REGISTERED) ||
		    kv_entry_claim(&pool->entries, handle))
			continue;
		order_forget(&pool->order, i);
		entry_forget(pool, i);
		entry_release(pool, handle);
		nr++;
	}
	return nr;
}

/* Blocks without references, oldest first: so those without key keep order. */
static u32 forget_inactive(struct kvmm_pool *pool)
{
	u32 nr = 0, nr_picked;

	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	pool->claims.forgets++;
	quota_begin(pool->order.quotas, QUOTA_NOBODY, QUOTA_ANY);
	for (u32 left = order_nr(&pool->order); left; left -= min(left, nr_picked)) {
		u32 picked[ORDER_PICKS];

		nr_picked = order_pick(&pool->order, left, picked);
		if (!nr_picked && order_is_spent(&pool->order))
			break;
		for (u32 i = 0; i < nr_picked; i++) {
			nr += entry_forget(pool, picked[i]);
			entry_release(pool, entry_handle(pool, picked[i]));
		}
	}
	nr += forget_left(pool);
	quota_end(pool->order.quotas);
	if (pool->order.classes)
		class_end(pool->order.classes);
	return nr;
}

/* Blocks without key in the order are free, too: the order counts them. */
static u32 nr_held(struct kvmm_pool *pool)
{
	struct pool_count count = pool_counts(pool);

	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	return count.range_blocks + count.nr_held - mags_nr(pool) - order_nr(&pool->order);
}

/* compact_lock is held from here on: no move begins, and no look that would hold a block. */
static int reset_begin(struct kvmm_pool *pool)
{
	if (kv_inherited(pool))
		return -ECHILD;
	if (!pool)
		return -EINVAL;
	kv_lock(&pool->compact_lock);
	flights_cancel(pool);
	return 0;
}

static void reset_end(struct kvmm_pool *pool)
{
	kv_assert_held(&pool->compact_lock);
	kv_unlock(&pool->compact_lock);
	cache_after(pool);
}

int kvmm_reset_inactive_held(struct kvmm_pool *pool, uint32_t *held)
{
	int ret = reset_begin(pool);

	if (ret)
		return ret;
	ret = cache_enter(pool);
	if (!ret) {
		order_enter(&pool->order);
		ret = forget_inactive(pool);
		if (held)
			*held = nr_held(pool);
		order_leave(&pool->order);
		pool_leave(pool);
	}
	reset_end(pool);
	return ret;
}

/* A holder keeps the block; without one it is free. False: it has no name. */
static bool forget_entry(struct kvmm_pool *pool, u32 index)
{
	kv_assert_held(&pool->lock);
	kv_assert(index < pool->entries.nr);
	for (;;) {
		struct kv_handle handle = entry_handle(pool, index);
		u64 word = smp_load_acquire(&entry_at(pool, index)->word);

		if (!kv_word_is(word, KV_ENTRY_REGISTERED) || word & KV_ENTRY_HIDDEN) {
			pool->claims.forgets += kv_word_is(word, KV_ENTRY_EVICTING);
			return false;
		}
		if (!pool->map->ops->hide(pool->map, handle))
			return true;
		if (kv_entry_claim(&pool->entries, handle))
			continue;	/* another thread took a reference in between */
		order_forget(&pool->order, index);
		entry_forget(pool, index);
		entry_release(pool, handle);
		return true;
	}
}

/* ---- everything ---- */

static int reset_if_idle(struct kvmm_pool *pool)
{
	int nr;

	kv_assert_held(&pool->lock);
	/* The world has stopped: counts are exact; the order may still have referenced blocks. */
	if (pool_counts(pool).nr_ranges || tally_sum(pool, TALLY_REFS) ||
	    pool->count.nr_held - pool_nr_parked(pool) != nr_named(pool))
		return -EBUSY;
	pool_tell(pool, clear_begin);
	order_enter(&pool->order);
	nr = forget_inactive(pool);
	order_leave(&pool->order);
	pool_tell(pool, clear_end);
	return nr;
}

/* The gate is closed all the time: no load brings back a block not gone below yet. */
static int reset_stopped(struct kvmm_pool *pool)
{
	int ret, err = 0;

	kv_assert_held(&pool->compact_lock);
	pool_stop(pool);
	kv_lock(&pool->lock);
	ret = reset_if_idle(pool);
	if (ret >= 0) {
		pool_leave(pool);
		for (u64 on = READ_ONCE(pool->observed); on && !err; on &= on - 1) {
			const struct pool_observer *to =
				pool->parts.all[__builtin_ctzll(on)]->observer;

			if (to->reset)
				err = to->reset(pool);
		}
		kv_lock(&pool->lock);
	}
	pool_resume(pool);
	return err ? err : ret;
}

int kvmm_reset_cache(struct kvmm_pool *pool)
{
	int ret = reset_begin(pool);

	if (ret)
		return ret;
	ret = cache_enter(pool);
	if (!ret) {
		ret = reset_stopped(pool);
		pool_leave(pool);
	}
	reset_end(pool);
	return ret;
}

/* ---- by block id ---- */

/* Its holder keeps it, and learns of it from the device. */
void forget_lost_entry(struct kvmm_pool *pool, struct kv_handle handle)
{
	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	if (entry_handle(pool, handle.index).gen == handle.gen)
		forget_entry(pool, handle.index);
}

int kvmm_evict_blocks(struct kvmm_pool *pool, const uint32_t *blocks, uint32_t nr)
{
	int err, nr_done = 0;

	if (!pool || (nr && !blocks) || nr > INT_MAX)
		return -EINVAL;
	for (u32 i = 0; i < nr; i++)
		if (blocks[i] >= pool->nr_blocks)
			return -EINVAL;
	err = cache_enter(pool);
	if (err)
		return err;
	order_enter(&pool->order);
	for (u32 i = 0; i < nr; i++) {
		/* Relaxed: a word that an arena writes there meanwhile is no entry's. */
		u32 owner = READ_ONCE(pool->owner[blocks[i]]);

		if (owner_kind(owner) == OWNER_ENTRY)
			nr_done += forget_entry(pool, owner_index(owner));
	}
	order_leave(&pool->order);
	cache_leave(pool);
	return nr_done;
}
