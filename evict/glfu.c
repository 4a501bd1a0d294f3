// SPDX-License-Identifier: Apache-2.0
/*
 * glfu: the block whose key was named by the fewest requests so far first, whether the key was
 * resident then or not; looked up when the block is put back. Among equals the one put back
 * longest ago.
 *
 * The counts outlive the blocks, so they are a table by key that grows with the number of
 * different keys, up to MAX_SLOTS. A key that finds no room is not counted and ranks as rare: the
 * order gets worse, nothing fails. Growing rehashes all of it under the pool's lock; each key is
 * moved less than twice on average.
 *
 * Guarded by the pool's lock.
 */
#include <kv/bits.h>
#include <kv/env.h>
#include <kv/err.h>
#include <kv/evict.h>
#include <kv/hash.h>
#include <kv/mem.h>

#include "heap.h"

#define MIN_SLOTS	1024u
#define MAX_SLOTS	BIT(26)

/* Open addressing, linear probing; never deleted from. */
struct key_count {
	kvmm_key_t key;
	u32 nr;			/* requests that named it; 0 = the slot is empty */
	u32 last;		/* number of the last one: a request counts once */
};

struct key_counts {
	struct key_count *slot;	/* ours */
	u32 nr_slots;		/* a power of two, or 0 */
	u32 nr;			/* slots in use, at most three quarters */
	u32 request;		/* number of the present request */
	u64 seed;		/* fixed at creation */
};

static u32 room_in(u32 nr_slots)
{
	return nr_slots / 4 * 3;
}

/* The key's slot, or the empty one where it belongs. Needs a table. */
static struct key_count *slot_of_key(const struct key_counts *counts, const kvmm_key_t *key)
{
	u32 at = kv_hash_key(key, counts->seed);

	for (;; at++) {
		struct key_count *slot = &counts->slot[at & (counts->nr_slots - 1)];

		if (!slot->nr || kv_key_equal(&slot->key, key))
			return slot;
	}
}

static void rehash_into(struct key_counts *counts, struct key_count *slots, u32 nr_slots)
{
	struct key_count *old = counts->slot;
	u32 nr_old = counts->nr_slots;

	counts->slot = slots;
	counts->nr_slots = nr_slots;
	for (u32 i = 0; i < nr_old; i++)
		if (old[i].nr)
			*slot_of_key(counts, &old[i].key) = old[i];
	kv_free(old);
}

/* Room for @nr more keys, as far as there is memory: one attempt a request. */
static void counts_reserve(struct key_counts *counts, u32 nr)
{
	u32 nr_slots = max(counts->nr_slots, MIN_SLOTS);
	struct key_count *slots;

	while (nr_slots < MAX_SLOTS && room_in(nr_slots) < (u64)counts->nr + nr)
		nr_slots *= 2;
	if (nr_slots == counts->nr_slots)
		return;
	slots = kv_alloc_array(nr_slots, sizeof(*slots));
	if (slots)
		rehash_into(counts, slots, nr_slots);
}

static void count_key(struct key_counts *counts, const kvmm_key_t *key)
{
	struct key_count *slot = slot_of_key(counts, key);

	if (!slot->nr) {
		if (counts->nr >= room_in(counts->nr_slots))
			return;
		counts->nr++;
		*slot = (struct key_count){ .key = *key };
	} else if (slot->last == counts->request) {
		return;
	}
	slot->last = counts->request;
	if (slot->nr != UINT32_MAX)
		slot->nr++;
}

static struct key_counts *counts_create(void)
{
	struct key_counts *counts = kv_alloc(sizeof(*counts));

	if (counts)
		counts->seed = kv_random();
	return counts;
}

static void glfu_exit(void *policy)
{
	struct heap *heap = policy;

	if (!heap->counts)
		return;
	kv_free(heap->counts->slot);
	kv_free(heap->counts);
	heap->counts = NULL;
}

static void glfu_seen(void *policy, const kvmm_key_t *keys, u32 nr)
{
	struct heap *heap = policy;
	struct key_counts *counts;

	if (!heap->counts)
		heap->counts = counts_create();
	counts = heap->counts;
	if (!counts)
		return;
	counts_reserve(counts, nr);
	if (!counts->nr_slots)
		return;
	counts->request++;
	for (u32 i = 0; i < nr; i++)
		count_key(counts, &keys[i]);
}

static u32 requests_with(const struct key_counts *counts, const kvmm_key_t *key)
{
	return counts && counts->nr_slots ? slot_of_key(counts, key)->nr : 0;
}

static void glfu_enter(void *policy, u32 block, const kvmm_key_t *key)
{
	struct heap *heap = policy;

	heap_enter(heap, block,
		   key ? HEAP_UNNAMED + 1 + requests_with(heap->counts, key) : HEAP_UNNAMED);
}

/* Each key can be found from where it hashes to, and there are as many as were counted. */
static int counts_check(const struct key_counts *counts)
{
	u32 nr = 0;

	if (counts->nr > room_in(counts->nr_slots))
		return -EUCLEAN;
	for (u32 i = 0; i < counts->nr_slots; i++) {
		const struct key_count *slot = &counts->slot[i];

		if (slot->nr && slot_of_key(counts, &slot->key) != slot)
			return -EUCLEAN;
		nr += slot->nr != 0;
	}
	return nr == counts->nr ? 0 : -EUCLEAN;
}

static int glfu_check(const void *policy)
{
	const struct heap *heap = policy;
	int err = heap_check(heap);

	if (err || !heap->counts)
		return err;
	return counts_check(heap->counts);
}

const struct kv_evict_ops kv_evict_glfu = {
	.name		= "glfu",
	.bytes		= heap_bytes,
	.init		= heap_init,
	.exit		= glfu_exit,
	.seen		= glfu_seen,
	.enter		= glfu_enter,
	.leave		= heap_leave,
	.pick		= heap_pick,
	.unpick		= heap_unpick,
	.nr		= heap_nr,
	.check		= glfu_check,
};
