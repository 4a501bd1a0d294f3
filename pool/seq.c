// SPDX-License-Identifier: Apache-2.0
/*
 * From sequences to their ranges: chains through the slots, newest range first.
 *
 * There are at least as many buckets as slots, so a chain is short unless a sequence has many
 * ranges. The pool has one table, guarded by pool->lock, and each arena one of its own, guarded by
 * its lock, so that a range with a sequence comes and goes without the pool's. A walk begins at
 * seq_first(), which has the sequence's ranges in arenas change over to the pool.
 */

#include "local.h"

u32 seq_bucket(const struct kvmm_pool *pool, const struct seq_table *seqs, u64 seq)
{
	kv_assert(seqs->nr);
	return kv_mul_fold(seq ^ pool->seq_secret, 0x9e3779b97f4a7c15ull) & (seqs->nr - 1);
}

/* Slots are looked up as by a thread without pool->lock: it may be an arena's that is held. */
void __seq_add(struct kvmm_pool *pool, struct seq_table *seqs, struct slot *slot, u32 index)
{
	u32 *head = &seqs->bucket[seq_bucket(pool, seqs, slot->seq)];

	slot->prev = KV_NONE;
	slot->next = *head;
	if (slot->next != KV_NONE)
		slot_peek(pool, slot->next)->prev = index;
	*head = index;
}

void __seq_del(struct kvmm_pool *pool, struct seq_table *seqs, const struct slot *slot)
{
	if (slot->next != KV_NONE)
		slot_peek(pool, slot->next)->prev = slot->prev;
	if (slot->prev != KV_NONE)
		slot_peek(pool, slot->prev)->next = slot->next;
	else
		seqs->bucket[seq_bucket(pool, seqs, slot->seq)] = slot->next;
}

static u32 skip_others(const struct kvmm_pool *pool, u32 index, u64 seq)
{
	kv_assert_held(&pool->lock);
	while (index != KV_NONE && slot_at(pool, index)->seq != seq)
		index = slot_at(pool, index)->next;
	return index;
}

u32 seq_first(struct kvmm_pool *pool, u64 seq)
{
	kv_assert_held(&pool->lock);
	if (unlikely(pool->arenas != NULL))
		pool->local->adopt_seq(pool, seq);
	if (!pool->seqs.nr)
		return KV_NONE;
	return skip_others(pool, pool->seqs.bucket[seq_bucket(pool, &pool->seqs, seq)], seq);
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
		__seq_add(pool, &pool->seqs, slot_at(pool, index), index);
	}
}

u32 *seq_rehash(struct kvmm_pool *pool, u32 *bucket, u32 nr)
{
	struct seq_table old = pool->seqs;

	kv_assert_held(&pool->lock);
	memset(bucket, 0xff, nr * sizeof(*bucket));
	pool->seqs = (struct seq_table){ bucket, nr };
	for (u32 i = 0; i < old.nr; i++)
		move_chain(pool, old.bucket[i]);
	return old.bucket;
}

/*
 * Chains of a table are whole: each range in it is live, and in its place. @nr: there are so many.
 * @arena: of these slots, number + 1, or 0.
 */
int seqs_check(const struct kvmm_pool *pool, const struct seq_table *seqs, u32 nr, u32 arena)
{
	u32 nr_slots = pool->slots ? dir_nr_slots(pool->slots) : 0, seen = 0;

	kv_assert_held(&pool->lock);
	for (u32 i = 0; i < seqs->nr; i++) {
		const struct slot *slot;

		for (u32 at = seqs->bucket[i], prev = KV_NONE; at != KV_NONE; at = slot->next) {
			if (at >= nr_slots || ++seen > nr)
				return pool_complain(pool, "chain of a sequence goes astray", at);
			slot = slot_at(pool, at);
			if (!slot->nr_ext || !slot->seq || slot->prev != prev ||
			    slot->arena != arena || seq_bucket(pool, seqs, slot->seq) != i)
				return pool_complain(pool, "range in the wrong chain", at);
			prev = at;
		}
	}
	return seen == nr ? 0 : pool_complain(pool, "ranges missing in chains", nr);
}
