// SPDX-License-Identifier: Apache-2.0
/*
 * glfu: the block whose key was named by the fewest requests so far first, whether the key was
 * resident then or not; looked up when the block is put back. Among equals the one put back
 * longest ago.
 *
 * The counts outlive the blocks, so they are a table by key that grows with the number of
 * different keys, up to MAX_SLOTS. A key that finds no room is not counted and ranks as rare: the
 * order gets worse, nothing fails. Rehashing millions of keys at once would hold the order's lock
 * for 135 ms, so the old table stays behind the new one, and each key that is counted moves a few
 * slots of it. What is left are the allocator's own 9 to 17 ms to give back 96 MiB.
 *
 * Guarded by the order's lock.
 */
#include <kv/bits.h>
#include <kv/env.h>
#include <kv/err.h>
#include <kv/evict.h>
#include <kv/hash.h>
#include <kv/mem.h>

#include "heap.h"
#include "research/research.h"

#define MIN_SLOTS	1024u
#define MAX_SLOTS	BIT(26)

/* Open addressing, linear probing; never deleted from. */
struct key_count {
	kvmm_key_t key;
	u32 nr;			/* requests that named it; 0 = the slot is empty */
	u32 last;		/* number of the last one: a request counts once */
};

struct key_table {
	struct key_count *slot;	/* ours */
	u32 nr_slots;		/* a power of two, or 0: there is no table */
};

/*
 * An entry of @old is valid unless @now has one of the same key. Entries stay in @old when they
 * have moved, or those behind them could no longer be found.
 */
struct key_counts {
	struct key_table now;
	struct key_table old;	/* smaller than @now */
	u32 moved;		/* slots of @old that are in @now as well */
	u32 nr;			/* keys, at most three quarters of @now */
	u32 request;		/* number of the present request */
	u64 seed;		/* fixed at creation */
};

/* The least that ends a move before the next one is due is 2. */
#define MOVES_A_KEY	8u

static u32 room_in(u32 nr_slots)
{
	return nr_slots / 4 * 3;
}

/* The key's slot, or the empty one where it belongs. */
static struct key_count *slot_in(const struct key_table *table, u64 seed, const kvmm_key_t *key)
{
	u32 at = kv_hash_key(key, seed);

	for (;; at++) {
		struct key_count *slot = &table->slot[at & (table->nr_slots - 1)];

		if (!slot->nr || kv_key_equal(&slot->key, key))
			return slot;
	}
}

/* The same in the present table, where the entry moves to if it is in the old one only. */
static struct key_count *slot_of_key(struct key_counts *counts, const kvmm_key_t *key)
{
	struct key_count *slot = slot_in(&counts->now, counts->seed, key);

	if (!slot->nr && counts->old.nr_slots)
		*slot = *slot_in(&counts->old, counts->seed, key);
	return slot;
}

static void move_slots(struct key_counts *counts, u32 nr)
{
	if (!counts->old.nr_slots)
		return;
	for (; nr && counts->moved < counts->old.nr_slots; nr--) {
		const struct key_count *slot = &counts->old.slot[counts->moved++];

		if (slot->nr)
			slot_of_key(counts, &slot->key);
	}
	if (counts->moved < counts->old.nr_slots)
		return;
	kv_free(counts->old.slot);
	counts->old = (struct key_table){ NULL, 0 };
}

/* Room for @nr more keys, as far as there is memory: one attempt a request. */
static void counts_reserve(struct key_counts *counts, u32 nr)
{
	struct key_table table = { NULL, max(counts->now.nr_slots, MIN_SLOTS) };

	while (table.nr_slots < MAX_SLOTS && room_in(table.nr_slots) < (u64)counts->nr + nr)
		table.nr_slots *= 2;
	if (table.nr_slots == counts->now.nr_slots)
		return;
	table.slot = kv_alloc_array(table.nr_slots, sizeof(*table.slot));
	if (!table.slot)
		return;
	move_slots(counts, UINT32_MAX);
	counts->old = counts->now;
	counts->now = table;
	counts->moved = 0;
}

static void count_key(struct key_counts *counts, const kvmm_key_t *key)
{
	struct key_count *slot = slot_of_key(counts, key);

	if (!slot->nr) {
		if (counts->nr >= room_in(counts->now.nr_slots))
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
	kv_free(heap->counts->now.slot);
	kv_free(heap->counts->old.slot);
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
	if (!counts->now.nr_slots)
		return;
	counts->request++;
	for (u32 i = 0; i < nr; i++) {
		count_key(counts, &keys[i]);
		move_slots(counts, MOVES_A_KEY);
	}
}

static u32 requests_with(const struct key_counts *counts, const kvmm_key_t *key)
{
	u32 nr = 0;

	if (counts && counts->now.nr_slots)
		nr = slot_in(&counts->now, counts->seed, key)->nr;
	if (!nr && counts && counts->old.nr_slots)
		nr = slot_in(&counts->old, counts->seed, key)->nr;
	return nr;
}

static void glfu_enter(void *policy, u32 block, const kvmm_key_t *key)
{
	struct heap *heap = policy;

	heap_enter(heap, block,
		   key ? HEAP_UNNAMED + 1 + requests_with(heap->counts, key) : HEAP_UNNAMED);
}

/* Each key can be found from where it hashes to. */
static bool table_is_sound(const struct key_table *table, u64 seed)
{
	for (u32 i = 0; i < table->nr_slots; i++) {
		const struct key_count *slot = &table->slot[i];

		if (slot->nr && slot_in(table, seed, &slot->key) != slot)
			return false;
	}
	return true;
}

static bool has_moved(const struct key_counts *counts, const struct key_count *slot)
{
	return slot_in(&counts->now, counts->seed, &slot->key)->nr;
}

/* There are as many keys as were counted, and what counts as moved is in its new place. */
static int counts_check(const struct key_counts *counts)
{
	u32 nr = 0;

	if (counts->nr > room_in(counts->now.nr_slots) ||
	    !table_is_sound(&counts->now, counts->seed) ||
	    !table_is_sound(&counts->old, counts->seed))
		return -EUCLEAN;
	for (u32 i = 0; i < counts->now.nr_slots; i++)
		nr += counts->now.slot[i].nr != 0;
	for (u32 i = 0; i < counts->old.nr_slots; i++) {
		const struct key_count *slot = &counts->old.slot[i];

		if (!slot->nr || has_moved(counts, slot))
			continue;
		if (i < counts->moved)
			return -EUCLEAN;
		nr++;
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
	HEAP_OPS,
	.check		= glfu_check,
};
