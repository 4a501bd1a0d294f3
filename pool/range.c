// SPDX-License-Identifier: Apache-2.0
/* Ranges: shared, ended, looked at. They are taken, and given back by handle, in request/. */
#include <kv/env.h>

#include "local.h"
#include "lease.h"

static void count_range_del(struct kvmm_pool *pool, const struct slot *slot)
{
	kv_assert_held(&pool->lock);
	uncount_slot(&pool->count, slot);
	quota_charge_range(pool->order.quotas, slot->account, -(s64)slot->nr);
	class_charge(pool->order.classes, slot->cls, -(s64)slot->nr);
}

void range_del(struct kvmm_pool *pool, u32 index)
{
	struct slot *slot = slot_at(pool, index);

	kv_assert_held(&pool->lock);
	/* Else the zone's lock would wait for these lines. */
	kv_prefetch_write(&pool->owner[slot->first.start]);
	kv_prefetch_write(&pool->owner[slot->first.start + slot->first.nr - 1]);
	if (unlikely(slot->pins))
		__slot_forget_pins(pool, slot);
	count_range_del(pool, slot);
	grow_count_end(pool, slot);
	seq_del(pool, &pool->seqs, slot);
	reserve_drop(pool, slot);
	slot_free_blocks(pool, slot);
	slot_put(pool, index);
	pool->count.frees++;
}

/* ---- ranges that no caller has been given yet ---- */

void range_hide(struct kvmm_pool *pool, kvmm_range_t range)
{
	kv_assert_held(&pool->lock);
	slot_at(pool, range.index)->pins = 1;
	pool->count.range_pins++;
}

void range_show(struct kvmm_pool *pool, kvmm_range_t range, u64 seq, bool keep_pin)
{
	struct slot *slot = slot_at(pool, range.index);

	kv_assert_held(&pool->lock);
	if (!keep_pin)
		slot_unpin_own(pool, slot);
	if (!seq)
		return;
	slot->seq = seq;
	pool->count.range_seqs += seq;
	seq_add(pool, &pool->seqs, slot, range.index);
}

void range_untake(struct kvmm_pool *pool, kvmm_range_t range)
{
	struct slot *slot = slot_at(pool, range.index);
	u32 nr = slot->nr;

	kv_assert_held(&pool->lock);
	__slot_forget_pins(pool, slot);
	count_range_del(pool, slot);
	seq_del(pool, &pool->seqs, slot);
	reserve_drop(pool, slot);
	slot_free_blocks(pool, slot);
	slot_unput(pool, range.index);
	pool->count.allocs--;
	pool->count.alloc_blocks -= nr;
}

/* Enter, and find the slot; on error the lock is not held. */
int range_enter(struct kvmm_pool *pool, kvmm_range_t range, struct slot **slot)
{
	int err;

	err = pool_enter(pool);
	if (unlikely(err))
		return err;
	err = slot_find(pool, range, slot);
	if (unlikely(err))
		pool_leave(pool);
	return err;
}

int kvmm_range_get(struct kvmm_pool *pool, kvmm_range_t range)
{
	struct slot *slot;
	int err;

	err = range_enter(pool, range, &slot);
	if (err)
		return err;
	if (slot->refs == UINT32_MAX) {
		err = -EOVERFLOW;
	} else {
		slot->refs++;
		pool->count.range_refs++;
	}
	pool_leave(pool);
	return err;
}

void put_slot(struct kvmm_pool *pool, struct slot *slot, u32 index)
{
	kv_assert_held(&pool->lock);
	if (likely(slot->refs == 1)) {
		range_del(pool, index);
		return;
	}
	kv_assert(slot->refs);
	slot->refs--;
	pool->count.range_refs--;
	own_put_range(pool, slot, index);
}

int kvmm_ranges_of_seq(struct kvmm_pool *pool, uint64_t seq, int drop, kvmm_range_t *ranges,
		       unsigned int max)
{
	u32 i, next;
	int err, nr = 0;

	if (!seq || (!ranges && max))
		return -EINVAL;
	err = pool_enter(pool);
	if (err)
		return err;
	for (i = seq_first(pool, seq); drop && i != KV_NONE; i = seq_next(pool, i))
		if (last_put_is_barred(slot_at(pool, i)))
			nr = -EBUSY;
	for (i = seq_first(pool, seq); i != KV_NONE && nr >= 0; i = next, nr++) {
		next = seq_next(pool, i);
		if ((u32)nr < max)
			ranges[nr] = slot_handle(slot_at(pool, i), i);
		if (drop)
			put_slot(pool, slot_at(pool, i), i);
	}
	pool_leave(pool);
	return nr;
}

static void give_info(const struct kvmm_pool *pool, struct slot *slot, u32 index,
		      struct kvmm_range_info *info, size_t size)
{
	struct kvmm_range_info now = {
		.seq = slot->seq, .bytes = slot->nr * pool->block_bytes, .nr = slot->nr,
		.refs = slot->refs, .pins = slot->pins, .prio = slot->prio,
		.flags = slot->flags & KVMM_ALLOC_KEPT, .nr_ext = slot->nr_ext,
		.range = slot_handle(slot, index),
	};

	kv_assert_held(&pool->lock);
	slot_copy_ext(slot, now.ext);
	kv_give(info, size, &now, sizeof(now));
}

static int next_info(struct kvmm_pool *pool, u32 *cursor, struct kvmm_range_info *info, size_t size)
{
	u32 i, nr;
	int err;

	err = pool_enter(pool);
	if (err)
		return err;
	arenas_lock(pool);
	nr = pool->slots ? dir_nr_slots(pool->slots) : 0;
	for (i = *cursor; i < nr && !slot_at(pool, i)->nr_ext; i++)
		;
	if (i < nr) {
		give_info(pool, slot_at(pool, i), i, info, size);
		*cursor = i + 1;
	} else {
		err = -ENOENT;
	}
	arenas_unlock(pool);
	pool_leave(pool);
	return err;
}

int kvmm_range_get_info_of(struct kvmm_pool *pool, kvmm_range_t range, uint32_t *cursor,
			   struct kvmm_range_info *info, size_t size)
{
	struct slot *slot;
	int err;

	if (kv_size_is_bad(info, size))
		return -EINVAL;
	if (cursor)
		return next_info(pool, cursor, info, size);
	err = range_enter(pool, range, &slot);
	if (err)
		return err;
	give_info(pool, slot, range.index, info, size);
	pool_leave(pool);
	return 0;
}
