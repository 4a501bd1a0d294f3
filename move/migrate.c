// SPDX-License-Identifier: Apache-2.0
/*
 * A pool as seen by migrations of its content to elsewhere; see kv/pool_migrate.h.
 *
 * Nothing here waits and nothing is kept: a migration is known to the pool by the references and
 * pins that it holds, like any other caller's.
 */
#include <kv/pool_migrate.h>
#include <pool/local.h>

#include "step.h"

void kv_pool_view(const struct kvmm_pool *pool, struct kv_pool_view *view)
{
	*view = (struct kv_pool_view){
		.ops = pool->parts.dev, .dev = pool->dev, .dev_number = pool->parts.dev_number,
		.planes = { pool->plane, pool->nr_planes }, .block_bytes = pool->block_bytes,
		.block_tokens = pool->block_tokens, .nr_usable = pool->nr_usable,
		.caches = pool->caches,
	};
}

void kv_pool_device_failed(struct kvmm_pool *pool)
{
	kv_assert_not_held(&pool->lock);
	device_failed(pool);
}

int kv_pool_refusal(const struct kvmm_pool *pool)
{
	return pool_refusal(pool);
}

/* ---- names ---- */

/* Registered and referenced; in a read section no thread writes these fields. */
void kv_pool_names(struct kvmm_pool *pool, const kvmm_ref_t *refs, u32 nr,
		   struct kv_block_name *names)
{
	const struct pool_presence *presence = &pool->presence;

	kv_rcu_read_lock();
	for (u32 i = 0; i < nr; i++) {
		u32 index = refs[i].index;
		const struct kv_entry *entry = entry_at(pool, index);

		names[i] = (struct kv_block_name){
			.key = kv_entry_key(entry), .domain = kv_entry_domain(entry),
			.position = READ_ONCE(entry->position),
		};
		if (!presence->reg || !(READ_ONCE(presence->mark[index]) & PRESENCE_PARENT))
			continue;
		names[i].has_parent = 1;
		names[i].parent = presence->parent[index];
	}
	kv_rcu_read_unlock();
}

/* ---- private blocks ---- */

static void let_muts(struct kvmm_pool *pool, const kvmm_mut_t *muts, u32 nr)
{
	kv_assert_reading();
	while (nr)
		kv_entry_write_end(&pool->entries, mut_handle(muts[--nr]));
}

int kv_pool_keep_muts(struct kvmm_pool *pool, const kvmm_mut_t *muts, u32 nr)
{
	int err = cache_begin(pool);

	if (err)
		return err;
	for (u32 i = 0; i < nr && !err; i++) {
		err = muts[i].index < pool->nr_blocks ?
		      kv_entry_write_begin(&pool->entries, mut_handle(muts[i])) : -EINVAL;
		if (err)
			let_muts(pool, muts, i);
	}
	cache_end(pool);
	return err;
}

void kv_pool_let_muts(struct kvmm_pool *pool, const kvmm_mut_t *muts, u32 nr)
{
	if (cache_begin(pool))
		return;
	let_muts(pool, muts, nr);
	cache_end(pool);
}

/* ---- ranges ---- */

static void del_pin(struct kvmm_pool *pool, struct slot *slot)
{
	kv_assert_held(&pool->lock);
	slot_unpin_own(pool, slot);	/* unless a caller has dropped more than its own */
	release_post(pool, 1);
}

static struct kv_range_kind kind_of(struct kvmm_pool *pool, const struct slot *slot)
{
	kv_assert_held(&pool->lock);
	return (struct kv_range_kind){
		.seq = slot->seq, .nr = slot->nr, .tenant = slot->tenant, .prio = slot->prio,
		.flags = slot->flags & KVMM_ALLOC_KEPT, .sealed = slot_sealed(slot),
	};
}

int kv_pool_range_kind(struct kvmm_pool *pool, kvmm_range_t range, struct kv_range_kind *kind)
{
	struct slot *slot;
	int err = range_enter(pool, range, &slot);

	if (err)
		return err;
	err = slot->lost ? -EIO : 0;
	*kind = kind_of(pool, slot);
	pool_leave(pool);
	return err;
}

int kv_pool_hold_range(struct kvmm_pool *pool, kvmm_range_t range, struct kv_range_kind *kind)
{
	struct slot *slot;
	int err = range_enter(pool, range, &slot);

	if (err)
		return err;
	if (slot->lost) {
		err = -EIO;
	} else if (slot->refs != 1 || slot_is_pinned(slot)) {
		err = -EBUSY;
	} else {
		slot_hold(pool, slot);
		*kind = kind_of(pool, slot);
	}
	pool_leave(pool);
	return err;
}

void kv_pool_drop_range(struct kvmm_pool *pool, kvmm_range_t range)
{
	struct slot *slot;

	if (range_enter(pool, range, &slot))
		return;
	del_pin(pool, slot);
	put_slot(pool, slot, range.index);
	pool_leave(pool);
}

int kv_pool_end_range(struct kvmm_pool *pool, kvmm_range_t range)
{
	struct slot *slot;
	u32 refs;
	int err = range_enter(pool, range, &slot);

	if (err)
		return err;
	refs = slot->refs;
	if (refs > 2 || slot->pins > 1) {
		err = -EBUSY;
	} else {
		del_pin(pool, slot);
		for (; refs; refs--)	/* its owner may have let go of it himself */
			put_slot(pool, slot, range.index);
	}
	pool_leave(pool);
	return err;
}

int kv_pool_name_range(struct kvmm_pool *pool, kvmm_range_t range, u64 seq, u32 sealed)
{
	struct slot *slot;
	int err = range_enter(pool, range, &slot);

	if (err)
		return err;
	/* A seal is leave to move it: without memory for one it stays where it is. */
	if (!sealed || !slot_reserve_side(pool, slot))
		slot_seal(slot, min(sealed, slot->nr));
	if (slot->seq != seq) {
		seq_del(pool, &pool->seqs, slot);
		pool->count.range_seqs += seq - slot->seq;
		slot->seq = seq;
		seq_add(pool, &pool->seqs, slot, range.index);
	}
	pool_leave(pool);
	return 0;
}

/* ---- steps ---- */

u64 kv_pool_epoch_begin(struct kvmm_pool *pool)
{
	struct steps *steps = steps_of(pool);
	u64 epoch;

	if (!steps)
		return 0;
	kv_lock(&steps->lock);
	epoch = ++steps->epoch;
	kv_unlock(&steps->lock);
	return epoch;
}

static bool has_passed(struct kvmm_pool *pool, u64 epoch, bool began)
{
	struct steps *steps = steps_of(pool);
	bool passed;

	if (!steps || !epoch)
		return true;
	kv_lock(&steps->lock);
	passed = steps_oldest(pool, steps, began) >= epoch;
	kv_unlock(&steps->lock);
	return passed;
}

bool kv_pool_epoch_passed(struct kvmm_pool *pool, u64 epoch)
{
	return has_passed(pool, epoch, false);
}

bool kv_pool_steps_passed(struct kvmm_pool *pool, u64 epoch)
{
	return has_passed(pool, epoch, true);
}

int kv_pool_signal(struct kvmm_pool *pool, struct kv_fence *fence)
{
	struct steps *steps = steps_of(pool);
	int err;

	*fence = (struct kv_fence){ 0 };
	if (!steps)
		return 0;
	kv_lock(&steps->lock);
	err = steps_signal(pool, steps, fence);
	kv_unlock(&steps->lock);
	return err;
}

/* ---- next victims ---- */

int kv_pool_coldest(struct kvmm_pool *pool, u32 nr, kvmm_weak_t *weak)
{
	struct victims victims = NO_VICTIMS;
	int err = cache_enter(pool);
	u32 found;

	if (err)
		return err;
	order_enter(&pool->order);
	victims_pick(pool, nr, &victims);
	found = victims.nr;
	for_each_victim(pool, &victims, index, i) {
		struct kv_handle handle = entry_handle(pool, index);

		weak[i] = (kvmm_weak_t){ handle.index, handle.gen };
	}
	victims_unpick(pool, &victims);
	order_leave(&pool->order);
	cache_leave(pool);
	return found;
}
