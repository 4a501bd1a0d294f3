// SPDX-License-Identifier: Apache-2.0
/*
 * From sequences to their ranges: chains through the slots, newest range first.
 *
 * There are at least as many buckets as slots, so a chain is short unless a sequence has many
 * ranges. Guarded by pool->lock.
 */

#include "internal.h"

u32 seq_bucket(const struct kvmm_pool *pool, u64 seq)
{
	kv_assert(pool->nr_buckets);
	return kv_mul_fold(seq ^ pool->seq_secret, 0x9e3779b97f4a7c15ull) &
	       (pool->nr_buckets - 1);
}

void seq_add(struct kvmm_pool *pool, u32 index)
{
	struct slot *slot = slot_at(pool, index);
	u32 *head;

	kv_assert_held(&pool->lock);
	if (!slot->seq)
		return;
	head = &pool->bucket[seq_bucket(pool, slot->seq)];
	slot->prev = KV_NONE;
	slot->next = *head;
	if (slot->next != KV_NONE)
		slot_at(pool, slot->next)->prev = index;
	*head = index;
}

void seq_del(struct kvmm_pool *pool, u32 index)
{
	const struct slot *slot = slot_at(pool, index);

	kv_assert_held(&pool->lock);
	if (!slot->seq)
		return;
	if (slot->next != KV_NONE)
		slot_at(pool, slot->next)->prev = slot->prev;
	if (slot->prev != KV_NONE)
		slot_at(pool, slot->prev)->next = slot->next;
	else
		pool->bucket[seq_bucket(pool, slot->seq)] = slot->next;
}

static u32 skip_others(const struct kvmm_pool *pool, u32 index, u64 seq)
{
	kv_assert_held(&pool->lock);
	while (index != KV_NONE && slot_at(pool, index)->seq != seq)
		index = slot_at(pool, index)->next;
	return index;
}

u32 seq_first(const struct kvmm_pool *pool, u64 seq)
{
	kv_assert_held(&pool->lock);
	if (!pool->bucket)
		return KV_NONE;
	return skip_others(pool, pool->bucket[seq_bucket(pool, seq)], seq);
}

u32 seq_next(const struct kvmm_pool *pool, u32 index)
{
	const struct slot *slot = slot_at(pool, index);

	kv_assert_held(&pool->lock);
	return skip_others(pool, slot->next, slot->seq);
}

/* Chains are moved from their ends, so that each keeps its order. */
static void move_chain(struct kvmm_pool *pool, u32 index)
{
	u32 prev;

	kv_assert_held(&pool->lock);
	if (index == KV_NONE)
		return;
	while (slot_at(pool, index)->next != KV_NONE)
		index = slot_at(pool, index)->next;
	for (; index != KV_NONE; index = prev) {
		prev = slot_at(pool, index)->prev;
		seq_add(pool, index);
	}
}

u32 *seq_rehash(struct kvmm_pool *pool, u32 *bucket, u32 nr)
{
	u32 *old = pool->bucket;
	u32 nr_old = pool->nr_buckets;

	kv_assert_held(&pool->lock);
	memset(bucket, 0xff, nr * sizeof(*bucket));
	pool->bucket = bucket;
	pool->nr_buckets = nr;
	for (u32 i = 0; i < nr_old; i++)
		move_chain(pool, old[i]);
	return old;
}
