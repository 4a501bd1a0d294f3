// SPDX-License-Identifier: Apache-2.0
/*
 * Blocks that are to go down: a heap by priority, and by time of arrival within one.
 *
 * It holds entries, not names: a block that is evicted before its turn is found to be of another
 * generation then.
 */
#include "tier.h"

#define PRIO_SHIFT	56u

static u64 rank_at(const struct lower *lower, u32 pos)
{
	kv_assert_held(&lower->lock);
	kv_assert(pos < lower->nr_heap);
	return lower->below[lower->heap[pos]].rank;
}

static void place(struct lower *lower, u32 pos, u32 entry)
{
	kv_assert_held(&lower->lock);
	kv_assert(pos < lower->nr_heap);
	lower->heap[pos] = entry;
	lower->below[entry].pos = pos;
}

static void sift_up(struct lower *lower, u32 pos)
{
	u32 entry = lower->heap[pos];

	kv_assert_held(&lower->lock);
	while (pos && lower->below[entry].rank < rank_at(lower, (pos - 1) / 2)) {
		place(lower, pos, lower->heap[(pos - 1) / 2]);
		pos = (pos - 1) / 2;
	}
	place(lower, pos, entry);
}

static void sift_down(struct lower *lower, u32 pos)
{
	u32 entry = lower->heap[pos];

	kv_assert_held(&lower->lock);
	for (;;) {
		u32 kid = 2 * pos + 1;

		if (kid + 1 < lower->nr_heap && rank_at(lower, kid + 1) < rank_at(lower, kid))
			kid++;
		if (kid >= lower->nr_heap || lower->below[entry].rank <= rank_at(lower, kid))
			break;
		place(lower, pos, lower->heap[kid]);
		pos = kid;
	}
	place(lower, pos, entry);
}

static void heap_del(struct lower *lower, u32 pos)
{
	u32 last = lower->heap[lower->nr_heap - 1];

	kv_assert_held(&lower->lock);
	kv_assert(pos < lower->nr_heap);
	WRITE_ONCE(lower->nr_heap, lower->nr_heap - 1);
	if (pos == lower->nr_heap)
		return;
	lower->heap[pos] = last;
	sift_up(lower, pos);
	sift_down(lower, lower->below[last].pos);
}

/* A want for a block of an older generation waits in vain. */
struct below *below_of(struct lower *lower, struct kv_handle handle)
{
	struct below *below = &lower->below[handle.index];

	kv_assert_held(&lower->lock);
	if (below->gen == handle.gen)
		return below;
	if (below->state == BELOW_QUEUED) {
		heap_del(lower, below->pos);
		wants_end(lower, &below->wants, -ESTALE);
	}
	KV_BUG_ON(below->state == BELOW_FLYING);
	*below = (struct below){ .gen = handle.gen };
	return below;
}

struct below *below_queue(struct lower *lower, struct kv_handle handle, u32 priority)
{
	struct below *below = below_of(lower, handle);
	u64 prio = (u64)(KVMM_TIER_PRIORITIES - 1 - priority) << PRIO_SHIFT;
	u64 order = below->rank & (BIT64(PRIO_SHIFT) - 1);

	kv_assert_held(&lower->lock);
	if (below->state == BELOW_QUEUED) {
		below->rank = min(below->rank, prio | order);
		sift_up(lower, below->pos);
		return below;
	}
	below->state = BELOW_QUEUED;
	below->rank = prio | lower->nr_queued++;
	below->drop = false;
	below->name = 0;
	WRITE_ONCE(lower->nr_heap, lower->nr_heap + 1);
	place(lower, lower->nr_heap - 1, handle.index);
	sift_up(lower, lower->nr_heap - 1);
	return below;
}

struct below *below_pop(struct lower *lower, struct kv_handle *handle)
{
	struct below *below;
	u32 entry;

	kv_assert_held(&lower->lock);
	if (!lower->nr_heap)
		return NULL;
	entry = lower->heap[0];
	below = &lower->below[entry];
	heap_del(lower, 0);
	below->state = BELOW_FLYING;
	*handle = (struct kv_handle){ entry, below->gen };
	return below;
}

void below_clear(struct lower *lower, int error)
{
	kv_assert_held(&lower->lock);
	for (u32 i = 0; i < lower->nr_heap; i++) {
		struct below *below = &lower->below[lower->heap[i]];

		below->state = BELOW_NONE;
		wants_end(lower, &below->wants, error);
	}
	WRITE_ONCE(lower->nr_heap, 0);
}

bool heap_is_sound(const struct lower *lower)
{
	kv_assert_held(&lower->lock);
	for (u32 i = 0; i < lower->nr_heap; i++) {
		const struct below *below = &lower->below[lower->heap[i]];

		if (below->state != BELOW_QUEUED || below->pos != i ||
		    (i && rank_at(lower, (i - 1) / 2) > below->rank))
			return false;
	}
	return true;
}
