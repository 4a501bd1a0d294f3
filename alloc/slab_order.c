// SPDX-License-Identifier: Apache-2.0
/*
 * Slabs by fullness: a list for each number of living objects, a bit for each list that is not
 * empty, a bit for each word of bits. The fullest is two bit scans away, and kept.
 *
 * Empty slabs queue, so that a batch fills those that it made from the first block on.
 */
#include "slab.h"

void slab_order_add(struct kvmm_slab_cache *cache, struct slab *slab)
{
	struct slab_order *order = &cache->order;
	u32 used = slab->used, word = used / KV_WORD_BITS;

	kv_assert_held(&cache->lock);
	kv_assert(used < cache->shape.nr_objects);
	if (likely(used)) {
		slab->prev = KV_NONE;
		slab->next = order->head[used];
		if (slab->next != KV_NONE)
			slab_at(cache, slab->next)->prev = slab->index;
		order->head[used] = slab->index;
	} else {
		slab->prev = order->last_empty;
		slab->next = KV_NONE;
		if (slab->prev != KV_NONE)
			slab_at(cache, slab->prev)->next = slab->index;
		else
			order->head[0] = slab->index;
		order->last_empty = slab->index;
	}
	order->words[word] |= BIT64(used % KV_WORD_BITS);
	order->summary |= BIT64(word);
	order->top = max(order->top, (s32)used);
}

/* ->used is still what it was when the slab was added. */
void slab_order_del(struct kvmm_slab_cache *cache, struct slab *slab)
{
	struct slab_order *order = &cache->order;
	u32 used = slab->used, word = used / KV_WORD_BITS;

	kv_assert_held(&cache->lock);
	kv_assert(used < cache->shape.nr_objects);
	if (slab->next != KV_NONE)
		slab_at(cache, slab->next)->prev = slab->prev;
	else if (!used)
		order->last_empty = slab->prev;
	if (slab->prev != KV_NONE) {
		slab_at(cache, slab->prev)->next = slab->next;
		return;
	}
	order->head[used] = slab->next;
	if (slab->next != KV_NONE)
		return;
	order->words[word] &= ~BIT64(used % KV_WORD_BITS);
	if (!order->words[word])
		order->summary &= ~BIT64(word);
	if (order->top != (s32)used)
		return;
	order->top = -1;
	if (order->summary) {
		word = kv_highest64(order->summary);
		order->top = word * KV_WORD_BITS + kv_highest64(order->words[word]);
	}
}
