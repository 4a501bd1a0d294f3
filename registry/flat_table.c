// SPDX-License-Identifier: Apache-2.0
/*
 * Buckets of the flat map: slots, chains, overflow; see flat.h for their layout.
 *
 * Everything but set-up and check runs under the lock of the home bucket. Overflow buckets change
 * hands under over_lock, which is a leaf: it is taken for one bucket in thirty.
 */
#include <kv/env.h>
#include <kv/err.h>
#include <kv/mem.h>

#include "flat.h"

/*
 * Entries for each home bucket at the number asked for. With 6.5 of 11 slots in use, 3 buckets of
 * 100 overflow, which is 1 look-up in 100; with 8, 4 of them.
 */
#define ENTRIES_PER_TWO_HOMES	13u

/* ---- set-up ---- */

u64 flat_table_bytes(const struct table *table)
{
	return (u64)table->nr_buckets * sizeof(struct bucket);
}

struct table *flat_table_create(struct kv_entries *entries, u32 nr_entries, u64 seed, u64 key_seed,
				u32 number)
{
	struct table *table = kv_alloc_lines(1, sizeof(*table));

	if (!table)
		return NULL;
	table->nr_homes = 2ull * min(nr_entries, entries->nr_all) / ENTRIES_PER_TWO_HOMES + 1;
	/* For any hash: as many chains as there are, or one with all names. */
	table->nr_buckets = table->nr_homes + max(nr_entries, entries->nr) / NR_SLOTS + 1;
	table->top_over = table->nr_homes;
	table->seed = seed;
	table->key_seed = key_seed;
	kv_lock_init(&table->rank, KV_RANK_BUCKET, number);
	table->entries = entries;
	kv_lock_init(&table->over_lock, KV_RANK_LEAF, 0);
	table->bucket = registry_alloc(flat_table_bytes(table));
	if (!table->bucket) {
		kv_free(table);
		return NULL;
	}
	return table;
}

void flat_table_destroy(struct table *table)
{
	if (!table)
		return;
	registry_free(table->bucket, flat_table_bytes(table));
	kv_free(table);
}

/* ---- the lock ---- */

/* As many pauses as kv_lock() makes; then let the holder have this core. */
#define BUCKET_SPINS	100u
#define BUCKET_SLEEP_NS	20000ull

/* Sleepers are not woken: sections are a few stores long, and each bucket has its own lock. */
noinline void flat_lock_slow(struct bucket *home)
{
	const struct kv_env_ops *env = kv_env();
	u32 spins = 0;

	while (!kv_seq_trylock(&home->seq)) {
		u32 seq = READ_ONCE(home->seq);

		cpu_relax();
		if (++spins % BUCKET_SPINS == 0 && seq & 1)
			env->wait(env->ctx, &home->seq, seq, BUCKET_SLEEP_NS);
	}
}

#ifdef KVMM_DEBUG
void flat_rank_acquire(const struct table *table)
{
	kv_rank_acquire(&table->rank);
}

void flat_rank_release(const struct table *table)
{
	kv_rank_release(&table->rank);
}
#endif

/* ---- slots ---- */

u8 flat_slot_tag(struct slot slot)
{
	if (slot.nr < LOW_TAGS)
		return READ_ONCE(slot.bucket->tags) >> 8 * slot.nr;
	return READ_ONCE(slot.bucket->tags_hi) >> 8 * (slot.nr - LOW_TAGS);
}

struct slot flat_slot_find_from(struct spot spot, struct bucket *bucket,
				const struct kv_entry *entry)
{
	const struct kv_entry *entries = spot.table->entries->entry;

	kv_assert_spot_held(spot);
	for (; bucket; bucket = next_of(spot.table, bucket)) {
		for_each_tagged(bucket, spot.tag, nr)
			if (kv_entry_has_name(&entries[bucket->index[nr]], entry->key,
					      entry->domain))
				return (struct slot){ bucket, nr };
	}
	return (struct slot){ NULL, 0 };
}

/* ---- overflow ---- */

/* Empty and alone. There is always one: see flat_table_create(). */
static u32 over_take(struct table *table)
{
	u32 over;

	kv_lock(&table->over_lock);
	over = table->free_over;
	if (over)
		table->free_over = table->bucket[over].next;
	else
		over = table->top_over++;
	kv_unlock(&table->over_lock);
	KV_BUG_ON(over >= table->nr_buckets);
	WRITE_ONCE(table->bucket[over].next, 0);
	return over;
}

static void over_put(struct table *table, u32 over)
{
	kv_assert(over >= table->nr_homes && over < table->nr_buckets);
	kv_lock(&table->over_lock);
	WRITE_ONCE(table->bucket[over].next, table->free_over);
	table->free_over = over;
	kv_unlock(&table->over_lock);
}

/* The last bucket of the chain, and in *@before the one before it, or NULL. */
static struct bucket *last_of(struct spot spot, struct bucket **before)
{
	struct bucket *last = spot.home, *next;

	*before = NULL;
	while ((next = next_of(spot.table, last))) {
		*before = last;
		last = next;
	}
	return last;
}

void flat_slot_add_behind(struct spot spot, u32 index)
{
	struct bucket *before, *last = last_of(spot, &before);
	u32 free = slots_with_tag(last, 0);
	struct slot slot = { last, 0 };

	kv_assert_spot_held(spot);
	if (free) {
		slot.nr = kv_lowest64(free);
	} else {
		u32 over = over_take(spot.table);

		slot = (struct slot){ &spot.table->bucket[over], 0 };
		WRITE_ONCE(last->next, over);
	}
	slot_set_index(slot, index);
	slot_set_tag(slot, spot.tag);
}

/*
 * A reader may pass by the slot that is being filled before it is, and come to the one that it was
 * filled from when that is clear. It finds nothing then, sees that ->seq has changed, and looks
 * again.
 */
void flat_slot_del_behind(struct spot spot, struct slot slot)
{
	struct bucket *before, *last = last_of(spot, &before);
	struct slot mover;

	kv_assert_spot_held(spot);
	kv_assert(before != NULL);
	mover = (struct slot){ last, NR_SLOTS - 1 };
	while (mover.nr && !flat_slot_tag(mover))
		mover.nr--;
	slot_set_index(slot, slot_index(mover));
	slot_set_tag(slot, flat_slot_tag(mover));
	slot_clear(mover);
	if (!last->tags && !last->tags_hi) {
		WRITE_ONCE(before->next, 0);
		over_put(spot.table, last - spot.table->bucket);
	}
}

/* ---- check ---- */

static u32 nr_used(const struct bucket *bucket)
{
	u32 nr = 0;

	for (u32 i = 0; i < NR_SLOTS; i++)
		nr += !!flat_slot_tag((struct slot){ (struct bucket *)bucket, i });
	return nr;
}

static bool slots_are_clear_or_used(const struct bucket *bucket)
{
	if (bucket->tags_hi >> 24)
		return false;
	for (u32 i = 0; i < NR_SLOTS; i++)
		if (!flat_slot_tag((struct slot){ (struct bucket *)bucket, i }) && bucket->index[i])
			return false;
	return true;
}

/* One chain: *@nr_slots and *@nr_over grow by its slots. */
static bool chain_is_sound(const struct table *table, u32 home, u32 *nr_slots, u32 *nr_over)
{
	const struct bucket *bucket = &table->bucket[home], *next;

	if (bucket->seq & 1 || bucket->next == NEXT_MOVED)
		return false;
	for (; bucket; bucket = next) {
		u32 used = nr_used(bucket);

		next = next_of(table, bucket);
		if (!slots_are_clear_or_used(bucket) || (next && used != NR_SLOTS) ||
		    (bucket->next && (!next || bucket->next < table->nr_homes)) ||
		    (bucket != &table->bucket[home] && (!used || bucket->seq)) ||
		    *nr_over > table->nr_buckets)
			return false;
		*nr_slots += used;
		*nr_over += !!next;
	}
	return true;
}

/* Length of the list of free overflow buckets, at most one too many. */
static u32 nr_free_over(const struct table *table)
{
	u32 nr = 0;

	for (u32 over = table->free_over; over; over = table->bucket[over].next)
		if (over < table->nr_homes || over >= table->nr_buckets ||
		    nr_used(&table->bucket[over]) || nr++ > table->nr_buckets)
			return KV_NONE;
	return nr;
}

bool flat_table_is_sound(const struct table *table, u32 *nr)
{
	u32 nr_over = 0;

	for (u32 home = 0; home < table->nr_homes; home++)
		if (!chain_is_sound(table, home, nr, &nr_over))
			return false;
	return table->top_over >= table->nr_homes && table->top_over <= table->nr_buckets &&
	       nr_free_over(table) == table->top_over - table->nr_homes - nr_over;
}
