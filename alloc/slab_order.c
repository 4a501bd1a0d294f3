// SPDX-License-Identifier: Apache-2.0
/*
 * Slabs by fullness: a list for each number of living objects, a bit for each list that is not
 * empty, a bit for each word of bits. The fullest is two bit scans away, and kept.
 *
 * Empty slabs queue, so that a batch fills those that it made from the first block on.
 */
#include "slab.h"

static void add_first(struct kvmm_slab_cache *cache, struct slab *slab)
{
	u32 *head = &cache->order.head[slab->used];

	slab->prev = KV_NONE;
	slab->next = *head;
	if (slab->next != KV_NONE)
		slab_at(cache, slab->next)->prev = slab->index;
	*head = slab->index;
}

static void add_last_empty(struct kvmm_slab_cache *cache, struct slab *slab)
{
	struct slab_order *order = &cache->order;

	slab->prev = order->last_empty;
	slab->next = KV_NONE;
	if (slab->prev != KV_NONE)
		slab_at(cache, slab->prev)->next = slab->index;
	else
		order->head[0] = slab->index;
	order->last_empty = slab->index;
}

void slab_order_add(struct kvmm_slab_cache *cache, struct slab *slab)
{
	struct slab_order *order = &cache->order;
	u32 used = slab->used, word = used / KV_WORD_BITS;

	if (likely(used))
		add_first(cache, slab);
	else
		add_last_empty(cache, slab);
	order->words[word] |= BIT64(used % KV_WORD_BITS);
	order->summary |= BIT64(word);
	order->top = max(order->top, (s32)used);
}

static s32 find_top(const struct slab_order *order)
{
	u32 word;

	if (!order->summary)
		return -1;
	word = kv_highest64(order->summary);
	return word * KV_WORD_BITS + kv_highest64(order->words[word]);
}

static void list_became_empty(struct slab_order *order, u32 used)
{
	u32 word = used / KV_WORD_BITS;

	order->words[word] &= ~BIT64(used % KV_WORD_BITS);
	if (!order->words[word])
		order->summary &= ~BIT64(word);
	if (order->top == (s32)used)
		order->top = find_top(order);
}

/* ->used is still what it was when the slab was added. */
void slab_order_del(struct kvmm_slab_cache *cache, struct slab *slab)
{
	struct slab_order *order = &cache->order;

	if (slab->next != KV_NONE)
		slab_at(cache, slab->next)->prev = slab->prev;
	else if (!slab->used)
		order->last_empty = slab->prev;
	if (slab->prev != KV_NONE) {
		slab_at(cache, slab->prev)->next = slab->next;
		return;
	}
	order->head[slab->used] = slab->next;
	if (slab->next == KV_NONE)
		list_became_empty(order, slab->used);
}
