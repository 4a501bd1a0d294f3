// SPDX-License-Identifier: Apache-2.0
/*
 * hint: the block whose next use is expected farthest in the future first, as in Belady's MIN;
 * among equals the one put back longest ago. What was never hinted since it was filled is taken
 * for never needed again. A block's value is ~when, so that zero means never.
 */
#include <kv/err.h>
#include <kv/evict.h>

#include "heap.h"
#include "research/research.h"

/* Rank 0 is for blocks without key: the last two moments of time count as one. */
static u64 first_of(const struct heap *heap, u32 block)
{
	return max(heap->value[block], HEAP_UNNAMED + 1);
}

static void hint_fill(void *policy, u32 block, const kvmm_key_t *key)
{
	struct heap *heap = policy;

	if (!KV_BUG_ON(block >= heap->nr_blocks))
		heap->value[block] = 0;
}

static void hint_hint(void *policy, u32 block, u64 when)
{
	struct heap *heap = policy;

	if (KV_BUG_ON(block >= heap->nr_blocks))
		return;
	heap->value[block] = ~when;
	if (heap_holds(heap, block) &&
	    heap->rank[heap->slot_of[block] - 1].first != HEAP_UNNAMED)
		heap_rerank(heap, block, first_of(heap, block));
}

static void hint_enter(void *policy, u32 block, const kvmm_key_t *key)
{
	struct heap *heap = policy;

	if (!KV_BUG_ON(block >= heap->nr_blocks))
		heap_enter(heap, block, key ? first_of(heap, block) : HEAP_UNNAMED);
}

static int hint_check(const void *policy)
{
	const struct heap *heap = policy;
	int err = heap_check(heap);

	for (u32 slot = 0; !err && slot < heap->nr; slot++) {
		u64 first = heap->rank[slot].first;

		if (first != HEAP_UNNAMED && first != first_of(heap, heap->block[slot]))
			err = -EUCLEAN;
	}
	return err;
}

const struct kv_evict_ops kv_evict_hint = {
	.name		= "hint",
	.bytes		= heap_bytes,
	.init		= heap_init,
	.fill		= hint_fill,
	.hint		= hint_hint,
	.enter		= hint_enter,
	HEAP_OPS,
	.check		= hint_check,
};
