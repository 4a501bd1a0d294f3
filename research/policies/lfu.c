// SPDX-License-Identifier: Apache-2.0
/*
 * lfu: fewest uses since the block was filled first (1 when filled, 1 more a hit); among equals
 * the one put back longest ago. A block's value is its number of uses.
 */
#include <kv/err.h>
#include <kv/evict.h>

#include "heap.h"
#include "research/research.h"

static void lfu_fill(void *policy, u32 block, const kvmm_key_t *key)
{
	struct heap *heap = policy;

	if (!KV_BUG_ON(block >= heap->nr_blocks))
		heap->value[block] = 1;
}

static void lfu_hit(void *policy, u32 block)
{
	struct heap *heap = policy;

	if (!KV_BUG_ON(block >= heap->nr_blocks))
		heap->value[block]++;
}

static void lfu_enter(void *policy, u32 block, const kvmm_key_t *key)
{
	struct heap *heap = policy;

	if (!KV_BUG_ON(block >= heap->nr_blocks))
		heap_enter(heap, block, key ? heap->value[block] : HEAP_UNNAMED);
}

/* Uses are counted while a block is held: in the order they still are what it was ranked by. */
static int lfu_check(const void *policy)
{
	const struct heap *heap = policy;
	int err = heap_check(heap);

	for (u32 slot = 0; !err && slot < heap->nr; slot++) {
		u64 first = heap->rank[slot].first;

		if (first != HEAP_UNNAMED && first != heap->value[heap->block[slot]])
			err = -EUCLEAN;
	}
	return err;
}

const struct kv_evict_ops kv_evict_lfu = {
	.name		= "lfu",
	.bytes		= heap_bytes,
	.init		= heap_init,
	.fill		= lfu_fill,
	.hit		= lfu_hit,
	.enter		= lfu_enter,
	HEAP_OPS,
	.check		= lfu_check,
};
