// SPDX-License-Identifier: Apache-2.0
/*
 * Indexed 4-ary heap. What decides its cost is the cache: four children fill one line of ranks,
 * so a level costs one line, and 100 Ki blocks have 9 levels.
 *
 * Lock rules: see heap.h.
 */
#include <kv/bits.h>
#include <kv/err.h>
#include <kv/evict.h>

#include "heap.h"

#define ARITY		4u
#define NR_FIRST_LINE	(ARITY - 1)	/* unused ranks, so that slot 1 starts a line */

static_assert(ARITY * sizeof(struct heap_rank) == KV_CACHELINE, "siblings fill one line");

/* As one number, which needs no branch: which sibling is smallest cannot be predicted. */
static unsigned __int128 rank_value(struct heap_rank rank)
{
	return (unsigned __int128)rank.first << 64 | rank.seq;
}

static bool rank_before(struct heap_rank a, struct heap_rank b)
{
	return rank_value(a) < rank_value(b);
}

static u32 parent_of(u32 slot)
{
	return (slot - 1) / ARITY;
}

static void put_at(struct heap *heap, u32 slot, struct heap_rank rank, u32 block)
{
	heap->rank[slot] = rank;
	heap->block[slot] = block;
	heap->slot_of[block] = slot + 1;
}

static void move_to(struct heap *heap, u32 slot, u32 from)
{
	put_at(heap, slot, heap->rank[from], heap->block[from]);
}

/* Puts the block into @slot, which is a hole, or above. */
static void sift_up(struct heap *heap, u32 slot, struct heap_rank rank, u32 block)
{
	while (slot && rank_before(rank, heap->rank[parent_of(slot)])) {
		move_to(heap, slot, parent_of(slot));
		slot = parent_of(slot);
	}
	put_at(heap, slot, rank, block);
}

static u32 first_child(const struct heap *heap, u32 slot)
{
	u32 child = ARITY * slot + 1;
	u32 end = min(child + ARITY, heap->nr);
	u32 first = child;

	while (++child < end)
		if (rank_before(heap->rank[child], heap->rank[first]))
			first = child;
	return first;
}

/* Puts the block into @slot, which is a hole, or below. */
static void sift_down(struct heap *heap, u32 slot, struct heap_rank rank, u32 block)
{
	while (ARITY * slot + 1 < heap->nr) {
		u32 child = first_child(heap, slot);

		if (rank_before(rank, heap->rank[child]))
			break;
		move_to(heap, slot, child);
		slot = child;
	}
	put_at(heap, slot, rank, block);
}

static void sift(struct heap *heap, u32 slot, struct heap_rank rank, u32 block)
{
	if (slot && rank_before(rank, heap->rank[parent_of(slot)]))
		sift_up(heap, slot, rank, block);
	else
		sift_down(heap, slot, rank, block);
}

/* The last slot becomes free, and its block fills the hole. */
static void remove_slot(struct heap *heap, u32 slot)
{
	u32 last = --heap->nr;

	heap->nr_picked = 0;
	heap->slot_of[heap->block[slot]] = 0;
	if (slot != last)
		sift(heap, slot, heap->rank[last], heap->block[last]);
}

/* Ranks, values, then the arrays of u32: no padding in between. */
size_t heap_bytes(u32 nr_blocks)
{
	size_t a_block = sizeof(struct heap_rank) + sizeof(u64) + 2 * sizeof(u32);

	return sizeof(struct heap) + KV_CACHELINE + NR_FIRST_LINE * sizeof(struct heap_rank) +
	       nr_blocks * a_block;
}

void heap_init(void *policy, u32 nr_blocks)
{
	struct heap *heap = policy;
	u64 ranks = kv_align_up((uintptr_t)(heap + 1), KV_CACHELINE);

	heap->nr_blocks = nr_blocks;
	heap->rank = (struct heap_rank *)(uintptr_t)ranks + NR_FIRST_LINE;
	heap->value = (u64 *)(heap->rank + nr_blocks);
	heap->block = (u32 *)(heap->value + nr_blocks);
	heap->slot_of = heap->block + nr_blocks;
}

void heap_enter(struct heap *heap, u32 block, u64 first)
{
	struct heap_rank rank = { first, heap->next_seq };

	if (KV_BUG_ON(block >= heap->nr_blocks) || KV_BUG_ON(heap_holds(heap, block)))
		return;
	heap->nr_picked = 0;
	heap->next_seq++;
	sift_up(heap, heap->nr++, rank, block);
}

void heap_rerank(struct heap *heap, u32 block, u64 first)
{
	u32 slot = heap->slot_of[block] - 1;
	struct heap_rank rank = { first, heap->rank[slot].seq };

	sift(heap, slot, rank, block);
}

void heap_leave(void *policy, u32 block)
{
	struct heap *heap = policy;

	if (!KV_BUG_ON(!heap_holds(heap, block)))
		remove_slot(heap, heap->slot_of[block] - 1);
}

/* The victim goes to the slot that becomes free, where unpick finds it with its rank. */
static void take_slot(struct heap *heap, u32 slot)
{
	struct heap_rank rank = heap->rank[slot];
	u32 victim = heap->block[slot], nr_picked = heap->nr_picked;

	remove_slot(heap, slot);
	heap->nr_picked = nr_picked + 1;
	heap->rank[heap->nr] = rank;
	heap->block[heap->nr] = victim;
}

u32 heap_pick(void *policy)
{
	struct heap *heap = policy;

	if (!heap->nr)
		return KV_NONE;
	take_slot(heap, 0);
	return heap->block[heap->nr];
}

void heap_take(void *policy, u32 block)
{
	struct heap *heap = policy;

	if (!KV_BUG_ON(!heap_holds(heap, block)))
		take_slot(heap, heap->slot_of[block] - 1);
}

/*
 * A block has lost its rank if others have come or gone since it was picked. It came first then, so
 * that is where it goes.
 */
void heap_unpick(void *policy, u32 block)
{
	struct heap *heap = policy;
	struct heap_rank rank = { HEAP_UNNAMED, heap->next_seq };

	if (KV_BUG_ON(block >= heap->nr_blocks) || KV_BUG_ON(heap_holds(heap, block)))
		return;
	if (likely(heap->nr_picked && heap->block[heap->nr] == block)) {
		rank = heap->rank[heap->nr];
		heap->nr_picked--;
	} else {
		heap->next_seq++;
	}
	sift_up(heap, heap->nr++, rank, block);
}

bool heap_has(const void *policy, u32 block)
{
	return heap_holds(policy, block);
}

u32 heap_nr(const void *policy)
{
	const struct heap *heap = policy;

	return heap->nr;
}

static bool slot_is_sound(const struct heap *heap, u32 slot)
{
	u32 block = heap->block[slot];

	return block < heap->nr_blocks && heap->slot_of[block] == slot + 1 &&
	       heap->rank[slot].seq < heap->next_seq &&
	       (!slot || rank_before(heap->rank[parent_of(slot)], heap->rank[slot]));
}

int heap_check(const void *policy)
{
	const struct heap *heap = policy;
	u32 nr_in = 0;

	if (heap->nr > heap->nr_blocks)
		return -EUCLEAN;
	for (u32 slot = 0; slot < heap->nr; slot++)
		if (!slot_is_sound(heap, slot))
			return -EUCLEAN;
	for (u32 block = 0; block < heap->nr_blocks; block++)
		nr_in += heap->slot_of[block] != 0;
	return nr_in == heap->nr ? 0 : -EUCLEAN;
}
