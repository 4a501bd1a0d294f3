// SPDX-License-Identifier: Apache-2.0
/* Forgetting keys because somebody says so: by block id, all that nobody holds, or everything. */
#include <limits.h>

#include "local.h"

/* One round, oldest first, so that blocks without key keep their order. */
static u32 forget_round(struct kvmm_pool *pool)
{
	u32 nr = 0, nr_picked;

	for (u32 left = order_nr(&pool->order); left; left -= min(left, nr_picked)) {
		u32 picked[ORDER_PICKS];

		nr_picked = order_pick(&pool->order, left, picked);
		if (!nr_picked && !order_nr(&pool->order))
			break;
		for (u32 i = 0; i < nr_picked; i++) {
			nr += entry_forget(pool, picked[i]);
			entry_release(pool, entry_handle(pool, picked[i]));
		}
	}
	return nr;
}

/* What nobody holds; then what was held by duplicates among that only. Both locks held. */
static u32 forget_inactive(struct kvmm_pool *pool)
{
	u32 nr = 0, nr_more;

	pool->claims.forgets++;
	quota_begin(pool->order.quotas, QUOTA_NOBODY, QUOTA_ANY);
	do {
		nr_more = forget_round(pool);
		nr += nr_more;
	} while (nr_more);
	quota_end(pool->order.quotas);
	if (pool->order.classes)
		class_end(pool->order.classes);
	return nr;
}

int kvmm_reset_inactive(struct kvmm_pool *pool)
{
	int err, nr;

	err = cache_enter(pool);
	if (err)
		return err;
	order_enter(&pool->order);
	nr = forget_inactive(pool);
	order_leave(&pool->order);
	cache_leave(pool);
	return nr;
}

/* References that are not callers', but duplicates' on their elders. */
static u64 nr_refs_of_dups(const struct kvmm_pool *pool)
{
	u64 nr = 0;

	for (u32 i = 0; i < pool->nr_blocks; i++) {
		const struct kv_entry *entry = entry_at(pool, i);

		nr += !kv_word_is(entry->word, KV_ENTRY_FREE) && entry->link != KV_NONE;
	}
	return nr;
}

/* The world has stopped: counts are exact, and the order may still have what is held. */
static bool is_idle(const struct kvmm_pool *pool)
{
	const struct pool_count *count = &pool->count;
	u64 nr_named = tally_sum(pool, TALLY_REGISTERED) - count->nr_forgotten -
		       pool->claims.nr_named;

	return !pool_counts(pool).nr_ranges && count->nr_held - pool_nr_parked(pool) == nr_named &&
	       tally_sum(pool, TALLY_REFS) == nr_refs_of_dups(pool);
}

static int reset_if_idle(struct kvmm_pool *pool)
{
	bool clears;
	int nr;

	if (!is_idle(pool))
		return -EBUSY;
	clears = events_clear_begin(pool);
	order_enter(&pool->order);
	nr = forget_inactive(pool);
	order_leave(&pool->order);
	if (unlikely(clears))
		events_cleared(pool);
	return nr;
}

int kvmm_reset_cache(struct kvmm_pool *pool)
{
	int ret;

	if (!pool)
		return -EINVAL;
	kv_lock(&pool->compact_lock);
	flights_cancel(pool);
	ret = cache_enter(pool);
	if (!ret) {
		pool_stop(pool);
		kv_lock(&pool->lock);
		ret = reset_if_idle(pool);
		pool_resume(pool);
		pool_leave(pool);
	}
	kv_unlock(&pool->compact_lock);
	cache_after(pool);
	return ret;
}

/* ---- by block id ---- */

/* Whoever holds it keeps it; else it is free. False: it has no name. */
static bool forget_entry(struct kvmm_pool *pool, u32 index)
{
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
			continue;	/* somebody took a reference in between */
		order_forget(&pool->order, index);
		entry_forget(pool, index);
		entry_release(pool, handle);
		return true;
	}
}

/* Who holds it keeps it, and learns of it from the device. */
void forget_lost_entry(struct kvmm_pool *pool, struct kv_handle handle)
{
	if (entry_handle(pool, handle.index).gen == handle.gen)
		forget_entry(pool, handle.index);
}

static bool blocks_are_bad(const struct kvmm_pool *pool, const uint32_t *blocks, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		if (blocks[i] >= pool->nr_blocks)
			return true;
	return false;
}

int kvmm_evict_blocks(struct kvmm_pool *pool, const uint32_t *blocks, uint32_t nr)
{
	int err, nr_done = 0;

	if (!pool || (nr && !blocks) || nr > INT_MAX || blocks_are_bad(pool, blocks, nr))
		return -EINVAL;
	err = cache_enter(pool);
	if (err)
		return err;
	order_enter(&pool->order);
	for (u32 i = 0; i < nr; i++) {
		/* Relaxed: what an arena writes there meanwhile is no entry. */
		u32 owner = READ_ONCE(pool->owner[blocks[i]]);

		if (owner_kind(owner) == OWNER_ENTRY)
			nr_done += forget_entry(pool, owner_index(owner));
	}
	order_leave(&pool->order);
	cache_leave(pool);
	return nr_done;
}
