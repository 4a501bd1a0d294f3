// SPDX-License-Identifier: Apache-2.0
/*
 * Forgetting keys: on request, by block id, all without references, or everything; and those of
 * content that was lost.
 */
#include <limits.h>
#include <pool/local.h>

#include "cache.h"

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
		    kv_handle_step(&pool->entries, handle, kv_edge_claim))
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
	quota_begin(&pool->order, QUOTA_NONE, QUOTA_ANY);
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
	quota_end(&pool->order);
	if (pool->order.classes)
		class_end(pool->order.classes);
	return nr;
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
		if (!pool->map->ops->hide(pool->map, handle)) {
			names_forget(pool, index);
			return true;
		}
		if (kv_handle_step(&pool->entries, handle, kv_edge_claim))
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
		err = pool_ask(pool, reset);
		kv_lock(&pool->lock);
	}
	pool_resume(pool);
	return err ? err : ret;
}

int kvmm_forget_cached(struct kvmm_pool *pool, uint32_t flags, uint32_t *held)
{
	int ret;

	if (kv_inherited(pool))
		return -ECHILD;
	if (!pool || flags & ~KVMM_FORGET_ALL)
		return -EINVAL;
	/* No move begins from here on, and no look that would hold a block. */
	kv_lock(&pool->compact_lock);
	flights_cancel(pool);
	ret = cache_enter(pool);
	if (!ret) {
		if (flags)
			ret = reset_stopped(pool);
		order_enter(&pool->order);
		if (!flags)
			ret = forget_inactive(pool);
		if (held) {
			/* Not those in magazines, nor those in the order, which have no key. */
			pool_drain_local(pool);
			*held = pool_counts(pool).range_blocks + pool->count.nr_held -
				order_nr(&pool->order);
		}
		order_leave(&pool->order);
		pool_leave(pool);
	}
	kv_unlock(&pool->compact_lock);
	cache_after(pool);
	return ret;
}

/* ---- by block id ---- */

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

/* ---- lost content ---- */

/*
 * Single blocks with content that was destroyed, or found to be wrong: no look-up finds them any
 * more, and their holders are told.
 *
 * A block is lost as long as its entry has the generation that is noted here: when it is given back
 * the note says nothing any more. Notes are made while the gate is closed. So a thread that stages
 * or publishes has either done it before, and the name is forgotten here, or sees the note.
 */
int __lost_check(struct kvmm_pool *pool, const struct kv_handle *handles, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		if (handles[i].index < pool->nr_blocks &&
		    READ_ONCE(pool->transit.lost[handles[i].index]) == handles[i].gen)
			return -EIO;
	return 0;
}

/* A reader of any_lost alone misses none. */
static int lost_notes_check(struct kvmm_pool *pool, const struct pool_recount *re)
{
	const u32 *lost = pool->transit.lost;

	for (u32 i = 0; lost && !pool->any_lost && i < pool->nr_blocks; i++)
		if (lost[i])
			return -EUCLEAN;
	return 0;
}

void entry_lose(struct kvmm_pool *pool, struct kv_handle handle)
{
	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	if (entry_handle(pool, handle.index).gen != handle.gen)
		return;
	WRITE_ONCE(pool->transit.lost[handle.index], handle.gen);
	WRITE_ONCE(pool->any_lost, true);
	/* Its holder keeps it, and learns of it from the device. */
	forget_entry(pool, handle.index);
}

/* Waits for threads inside, unless the gate is closed already. compact_lock held, ->lock not. */
bool lose_begin(struct kvmm_pool *pool)
{
	bool closed;

	kv_assert_held(&pool->compact_lock);
	kv_lock(&pool->lock);
	closed = pool->gate & GATE_STOPPED;
	if (!closed) {
		pool_stop(pool);
		kv_lock(&pool->lock);
	}
	if (pool->caches)
		order_enter(&pool->order);
	return closed;
}

void lose_end(struct kvmm_pool *pool, bool closed)
{
	if (pool->caches)
		order_leave(&pool->order);
	if (!closed)
		pool_resume(pool);
	pool_leave(pool);
}

POOL_PART(lost) = {
	.name	= "notes of lost content",
	.check	= lost_notes_check,
};
