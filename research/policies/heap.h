/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order behind lfu, glfu and hint: an indexed heap of blocks, smallest rank first.
 *
 * A rank is what the policy says of the block, then the number of its put-back: no two are equal,
 * so the order does not depend on how the heap happens to lie, and unpick can restore it exactly.
 *
 * Invariants:
 * 1. A slot's rank is larger than that of its parent; slot i has children 4i + 1 .. 4i + 4.
 * 2. slot_of[block[s]] == s + 1 for s < nr; every other slot_of is 0.
 * 3. Picked blocks lie in the slots from nr on, newest first, until the next enter.
 *
 * Everything is guarded by the order's lock.
 */
#ifndef EVICT_HEAP_H
#define EVICT_HEAP_H

#include <kv/types.h>

/* The policy's part of a rank: blocks without key first of all. */
#define HEAP_UNNAMED	0ull

struct heap_rank {
	u64 first;		/* HEAP_UNNAMED, or the policy's value */
	u64 seq;		/* number of the put-back */
};

struct key_counts;

struct heap {
	u32 nr_blocks;			/* fixed at creation */
	u32 nr;				/* blocks in the order */
	u32 nr_picked;			/* since a block came or went: their ranks are behind the last */
	u64 next_seq;			/* larger than any seq in the heap */
	struct heap_rank *rank;		/* by slot; siblings share one cache line */
	u32 *block;			/* by slot */
	u32 *slot_of;			/* by block: its slot + 1, or 0 */
	u64 *value;			/* by block: the policy's; zero at first */
	struct key_counts *counts;	/* glfu's; ours, NULL until the first request */
};

/* The table for kv_evict_ops, as far as it is the same for all heaps. */
size_t heap_bytes(u32 nr_blocks);
void heap_init(void *policy, u32 nr_blocks);
void heap_leave(void *policy, u32 block);
u32 heap_pick(void *policy);
void heap_take(void *policy, u32 block);
void heap_unpick(void *policy, u32 block);
bool heap_has(const void *policy, u32 block);
u32 heap_nr(const void *policy);
int heap_check(const void *policy);

/* The block joins the order, behind those with the same @first. */
void heap_enter(struct heap *heap, u32 block, u64 first);

/* A block that is in the order gets another @first and keeps the number of its put-back. */
void heap_rerank(struct heap *heap, u32 block, u64 first);

static inline bool heap_holds(const struct heap *heap, u32 block)
{
	return block < heap->nr_blocks && heap->slot_of[block];
}

#define HEAP_OPS									\
	.leave = heap_leave, .pick = heap_pick, .take = heap_take,			\
	.unpick = heap_unpick, .has = heap_has, .nr = heap_nr

#endif /* EVICT_HEAP_H */
