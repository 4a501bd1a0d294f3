// SPDX-License-Identifier: Apache-2.0
/*
 * The flat map: a table of buckets that readers search without a lock.
 *
 * What it takes to find a block in memory much larger than the caches is two lines: the bucket and
 * the entry. The time goes into waiting for them, so a query is worked on as in a pipeline: the
 * bucket of a key is asked for DISTANCE keys before its tags are compared, and the entry that they
 * point to DISTANCE keys before its name is. That way 2 * DISTANCE lines are under way at any time.
 *
 * Each key goes down one of two paths. The fast one looks at the first slot with the right tag, in
 * the home bucket, and takes the entry if it has the name; nothing can be wrong with that, however
 * old what the table said. All else is the slow path's: another slot with that tag, an overflow
 * bucket, younger blocks of the name, a table that is being replaced, and misses, which count only
 * if the bucket's version did not change meanwhile.
 *
 * Locks: resize_lock is for resizing alone. A writer holds the lock of one bucket; resizing holds
 * one in the old table and one in the new, in this order.
 */
#include <kv/env.h>
#include <kv/err.h>
#include <kv/mem.h>
#include <kv/stat.h>

#include "flat.h"

/* 8 is 15 % slower from 1 Mi entries on, 32 no faster. A power of two. */
#ifndef DISTANCE
#define DISTANCE	16u
#endif

/* Times that a reader looks again before it takes the lock. */
#define PATIENCE	8u

struct flat {
	struct kv_map map;
	struct table *table;		/* RCU; written under ->resize_lock */
	struct trace trace;
	struct kv_lock resize_lock;
};

static struct flat *flat_of(struct kv_map *map)
{
	return container_of(map, struct flat, map);
}

/* ---- debug builds know the bucket locks by their table ---- */

#ifdef KVMM_DEBUG
static __thread struct kv_lock bucket_rank[2];

static void rank_acquire(u32 table_number, u32 depth)
{
	bucket_rank[depth] = (struct kv_lock){ .rank = KV_RANK_BUCKET, .id = table_number };
	kv_rank_acquire(&bucket_rank[depth]);
}

static void rank_release(u32 depth)
{
	kv_rank_release(&bucket_rank[depth]);
}
#else
static inline void rank_acquire(u32 table_number, u32 depth) {}
static inline void rank_release(u32 depth) {}
#endif

/* ---- one key ---- */

/* What is looked for, and what is to be done with it. */
struct wanted {
	struct table *table;	/* the one to begin with */
	u64 seed;		/* of the table, for the domain */
	u64 domain;
	const struct kv_query *query;
	bool take;		/* a reference, or just look? */
};

/* A block that was found. */
struct found {
	struct kv_handle handle;
	bool is_first;		/* the reference on it is the first */
};

/* One key of a query on its way. */
struct probe {
	struct bucket *home;
	struct kv_entry *entry;	/* the one to look at first; NULL: no slot has the tag */
	u32 tag;
};

/*
 * Take a reference if the entry is registered under this name, and has none of @flags.
 *
 * The acquire load of the word pairs with the swap that made it REGISTERED (kv_edge_publish): the
 * name is visible. The swap succeeds only on the word that was loaded before the name was read.
 */
static __always_inline bool try_take(struct kv_entry *entry, const u64 key[2], u64 domain,
				     u64 flags, u64 *word)
{
	u64 wanted = KV_STATE_WORD(KV_ENTRY_REGISTERED), mask = KV_ENTRY_STATE | flags;
	u64 old = smp_load_acquire(&entry->word);

	do {
		if (unlikely((old & mask) != wanted || !kv_entry_has_name(entry, key, domain) ||
			     kv_word_refs(old) == KV_ENTRY_REFS))
			return false;
	} while (unlikely(!kv_cas(&entry->word, &old, old + KV_ENTRY_REF)));
	*word = old;
	return true;
}

/* The same without a reference. */
static __always_inline bool try_look(struct kv_entry *entry, const u64 key[2], u64 domain,
				     u64 flags, u64 *word)
{
	u64 wanted = KV_STATE_WORD(KV_ENTRY_REGISTERED), mask = KV_ENTRY_STATE | flags;

	/* Acquire and the second look pair with the swaps, as in try_take(). */
	*word = smp_load_acquire(&entry->word);
	return likely((*word & mask) == wanted && kv_entry_has_name(entry, key, domain)) &&
	       kv_is_still(&entry->word, *word, ~KV_ENTRY_FLAGS & ~(KV_ENTRY_REFS | KV_ENTRY_PINS));
}

static __always_inline bool try_entry(const struct wanted *wanted, struct kv_entry *entry,
				      const u64 key[2], u64 flags, u64 *word)
{
	return wanted->take ? try_take(entry, key, wanted->domain, flags, word) :
			      try_look(entry, key, wanted->domain, flags, word);
}

static inline struct found found_at(const struct wanted *wanted, const struct kv_entry *entry,
				    u64 word)
{
	u32 index = entry - wanted->table->entries->entry;

	return (struct found){ kv_handle_of(index, word), !kv_word_refs(word) };
}

/* ---- the slow path ---- */

/*
 * The oldest registered block of this name among @entry and those younger. Links may be of another
 * list by now; then names do not match, or do, and the block is as good as any.
 */
static bool try_with_dups(const struct wanted *wanted, u32 index, const u64 key[2],
			  struct found *found)
{
	const struct kv_entries *entries = wanted->table->entries;
	u64 word;

	for (u32 steps = 0; index < entries->nr && steps < entries->nr; steps++) {
		struct kv_entry *entry = &entries->entry[index];

		if (try_entry(wanted, entry, key, 0, &word)) {
			*found = found_at(wanted, entry, word);
			return true;
		}
		if (!kv_entry_has_name(entry, key, wanted->domain))
			return false;
		index = READ_ONCE(entry->dup_next);
	}
	return false;
}

static bool try_bucket(const struct wanted *wanted, const struct bucket *bucket, u8 tag,
		       const u64 key[2], struct found *found)
{
	struct slots slots = slots_with_tag(bucket, tag);

	for (; slots_left(slots); slots_pop(&slots)) {
		u32 index = READ_ONCE(bucket->index[slots_first(slots)]);

		if (try_with_dups(wanted, index, key, found))
			return true;
	}
	return false;
}

/* Chains change under us: the count of steps is there to end. */
static bool try_chain(const struct wanted *wanted, struct spot spot, const u64 key[2],
		      struct found *found)
{
	const struct bucket *bucket = spot.home;

	for (u32 steps = 0; bucket && steps < spot.table->nr_buckets; steps++) {
		if (try_bucket(wanted, bucket, spot.tag, key, found))
			return true;
		bucket = next_of(spot.table, bucket);
	}
	return false;
}

/* The bucket was busy each time: with the lock it stands still. False: it has moved, too. */
static bool try_locked(const struct wanted *wanted, struct spot spot, const u64 key[2],
		       struct found *found)
{
	bool hit;

	rank_acquire(spot.table->number, 0);
	spot_lock(spot);
	hit = try_chain(wanted, spot, key, found);
	spot_unlock(spot);
	rank_release(0);
	return hit;
}

/* In one table: found, or not at any moment of the call. */
static bool try_table(const struct wanted *wanted, struct spot spot, const u64 key[2],
		      struct found *found)
{
	for (u32 tries = 0; tries < PATIENCE; tries++) {
		/* Pairs with spot_unlock(): what writers did before is visible. */
		u32 seq = kv_seq_read_begin(&spot.home->seq);

		if (try_chain(wanted, spot, key, found))
			return true;
		/* Pairs with kv_seq_trylock(): if we saw half of a change, it has changed. */
		if (!kv_seq_read_retry(&spot.home->seq, seq))
			return false;
	}
	return try_locked(wanted, spot, key, found);
}

static noinline bool find_slowly(const struct wanted *wanted, u32 i, struct found *found)
{
	const kvmm_key_t *key = &wanted->query->keys[i];
	struct table *table = wanted->table;
	u64 words[2];

	kv_key_words(key, words);
	for (;;) {
		u64 hash = key_hash(key, domain_seed(table->seed, wanted->domain));
		struct spot spot = spot_of(table, hash);

		if (try_table(wanted, spot, words, found))
			return true;
		if (READ_ONCE(spot.home->next) != NEXT_MOVED)
			return false;
		/* Set before any bucket moves, and kept until after a grace period. */
		table = kv_rcu_dereference(table->successor);
	}
}

/* ---- the pipeline ---- */

static __always_inline void probe_home(const struct wanted *wanted, u32 i, struct probe *probe)
{
	u64 hash = key_hash(&wanted->query->keys[i], wanted->seed);

	probe->home = home_of(wanted->table, hash);
	probe->tag = tag_of(hash);
	kv_prefetch(probe->home);
}

static __always_inline void probe_entry(const struct wanted *wanted, struct probe *probe)
{
	struct slots slots = slots_with_tag(probe->home, probe->tag);

	probe->entry = NULL;
	if (unlikely(!slots_left(slots)))
		return;
	/* An index out of the table's memory is as good as any: all of them are entries. */
	probe->entry = &wanted->table->entries->entry[READ_ONCE(
				probe->home->index[slots_first(slots)])];
	if (wanted->take)
		kv_prefetch_write(probe->entry);
	else
		kv_prefetch(probe->entry);
}

static __always_inline bool probe_end(const struct wanted *wanted, u32 i,
				      const struct probe *probe, struct found *found)
{
	u64 key[2], word;

	kv_key_words(&wanted->query->keys[i], key);
	if (likely(probe->entry && try_entry(wanted, probe->entry, key, KV_ENTRY_DUP, &word))) {
		*found = found_at(wanted, probe->entry, word);
		return true;
	}
	return find_slowly(wanted, i, found);
}

#define RING	(2 * DISTANCE)

/* Keys on their way: ring[i % RING] for those whose home or entry has been asked for. */
struct pipe {
	struct probe ring[RING];
};

static __always_inline struct probe *pipe_at(struct pipe *pipe, u32 i)
{
	return &pipe->ring[i % RING];
}

/* Ask for what keys @i and @i + DISTANCE will need. */
static __always_inline void pipe_push(const struct wanted *wanted, struct pipe *pipe, u32 i)
{
	u32 nr = wanted->query->nr;

	if (likely(i + 2 * DISTANCE < nr))
		probe_home(wanted, i + 2 * DISTANCE, pipe_at(pipe, i));
	if (likely(i + DISTANCE < nr))
		probe_entry(wanted, pipe_at(pipe, i + DISTANCE));
}

static __always_inline void pipe_fill(const struct wanted *wanted, struct pipe *pipe)
{
	u32 nr = wanted->query->nr;

	for (u32 i = 0; i < min(nr, 2 * DISTANCE); i++)
		probe_home(wanted, i, pipe_at(pipe, i));
	for (u32 i = 0; i < min(nr, DISTANCE); i++)
		probe_entry(wanted, pipe_at(pipe, i));
}

static __always_inline struct wanted wanted_of(struct kv_map *map, const struct kv_query *query,
					       bool take)
{
	struct table *table = kv_rcu_dereference(flat_of(map)->table);
	u64 domain = kv_domain_word(query->domain);

	return (struct wanted){ table, domain_seed(table->seed, domain), domain, query, take };
}

/* ---- match, length, scan ---- */

static u32 flat_match(struct kv_map *map, const struct kv_query *query, struct kv_handle *refs,
		      u32 *nr_first)
{
	struct wanted wanted;
	struct pipe pipe;
	u32 i;

	*nr_first = 0;
	kv_rcu_read_lock();
	wanted = wanted_of(map, query, true);
	pipe_fill(&wanted, &pipe);
	for (i = 0; i < query->nr; i++) {
		struct found found;

		if (!probe_end(&wanted, i, pipe_at(&pipe, i), &found))
			break;
		pipe_push(&wanted, &pipe, i);
		refs[i] = found.handle;
		*nr_first += found.is_first;
	}
	kv_rcu_read_unlock();
	if (i < query->nr)
		trace_miss(&flat_of(map)->trace, query, i);
	return i;
}

static u32 flat_scan(struct kv_map *map, const struct kv_query *query, struct kv_handle *refs,
		     u32 *nr_first)
{
	struct wanted wanted;
	struct pipe pipe;
	u32 nr = 0;

	*nr_first = 0;
	kv_rcu_read_lock();
	wanted = wanted_of(map, query, true);
	pipe_fill(&wanted, &pipe);
	for (u32 i = 0; i < query->nr; i++) {
		struct found found = { 0 };

		if (probe_end(&wanted, i, pipe_at(&pipe, i), &found))
			nr++;
		pipe_push(&wanted, &pipe, i);
		refs[i] = found.handle;
		*nr_first += found.is_first;
	}
	kv_rcu_read_unlock();
	return nr;
}

static u32 length_linear(const struct wanted *wanted)
{
	struct found found;
	struct pipe pipe;
	u32 i;

	pipe_fill(wanted, &pipe);
	for (i = 0; i < wanted->query->nr; i++) {
		if (!probe_end(wanted, i, pipe_at(&pipe, i), &found))
			break;
		pipe_push(wanted, &pipe, i);
	}
	return i;
}

/* Probes of one round of a bisection: with 32, 1024 keys take two rounds of two misses each. */
#define SPREAD	32u

/* The @j-th of @nr probes into keys [lo, hi). */
static inline u32 spread_at(u32 lo, u32 hi, u32 nr, u32 j)
{
	return lo + (u32)((u64)(hi - lo) * (j + 1) / (nr + 1));
}

/* How many of the probes, from the first on, are there. */
static u32 spread(const struct wanted *wanted, u32 lo, u32 hi, u32 nr)
{
	struct probe probe[SPREAD];
	struct found found;
	u32 j;

	for (j = 0; j < nr; j++)
		probe_home(wanted, spread_at(lo, hi, nr, j), &probe[j]);
	for (j = 0; j < nr; j++)
		probe_entry(wanted, &probe[j]);
	for (j = 0; j < nr; j++)
		if (!probe_end(wanted, spread_at(lo, hi, nr, j), &probe[j], &found))
			break;
	return j;
}

/*
 * Keys before @lo are there, those from @hi on are not, or may not be. Where the map is closed
 * under prefixes, a key that is there says the same of all before it.
 */
static u32 length_bisect(const struct wanted *wanted)
{
	u32 lo = 0, hi = wanted->query->nr;

	while (lo < hi) {
		u32 nr = min(hi - lo, SPREAD), old_lo = lo, old_hi = hi;
		u32 hits = spread(wanted, lo, hi, nr);

		if (hits)
			lo = spread_at(old_lo, old_hi, nr, hits - 1) + 1;
		if (hits < nr)
			hi = spread_at(old_lo, old_hi, nr, hits);
	}
	return lo;
}

static u32 flat_length(struct kv_map *map, const struct kv_query *query)
{
	struct wanted wanted;
	u32 length;

	kv_rcu_read_lock();
	wanted = wanted_of(map, query, false);
	length = map->prefix_closed ? length_bisect(&wanted) : length_linear(&wanted);
	kv_rcu_read_unlock();
	return length;
}

/* ---- writers ---- */

/* Where the entry's name belongs, locked. In a read section. */
static struct spot lock_home(const struct flat *flat, const struct kv_entry *entry)
{
	struct table *table = kv_rcu_dereference(flat->table);

	for (;;) {
		struct spot spot = spot_of(table, entry_hash(entry, table->seed));

		rank_acquire(table->number, 0);
		spot_lock(spot);
		if (likely(spot.home->next != NEXT_MOVED))
			return spot;
		spot_unlock(spot);
		rank_release(0);
		table = kv_rcu_dereference(table->successor);
	}
}

static void unlock_home(struct spot spot)
{
	spot_unlock(spot);
	rank_release(0);
}

static struct kv_entry *entry_at(const struct flat *flat, u32 index)
{
	return &flat->map.entries->entry[index];
}

/* ---- duplicates: a list in order of age; the slot names its head; under the home's lock ---- */

static void dups_set(struct kv_entry *entry, u32 prev, u32 next)
{
	WRITE_ONCE(entry->dup_prev, prev);
	WRITE_ONCE(entry->dup_next, next);
}

static void dups_append(const struct flat *flat, u32 head, u32 index)
{
	struct kv_entry *first = entry_at(flat, head), *last = entry_at(flat, first->dup_prev);

	dups_set(entry_at(flat, index), first->dup_prev, KV_NONE);
	WRITE_ONCE(last->dup_next, index);
	WRITE_ONCE(first->dup_prev, index);
}

/* The first of the list that can be referenced; the reference is taken. */
static bool dups_take(const struct flat *flat, u32 head, struct found *found)
{
	for (u32 index = head; index != KV_NONE; index = entry_at(flat, index)->dup_next) {
		struct kv_entry *entry = entry_at(flat, index);
		u64 word = smp_load_acquire(&entry->word);
		int ret = kv_entry_step(entry, kv_word_gen(word), kv_edge_try_get);

		if (ret >= 0) {
			*found = (struct found){ kv_handle_of(index, word), ret };
			return true;
		}
	}
	return false;
}

/* The head is gone: the next one is the oldest now. */
static void dups_promote(const struct flat *flat, struct slot slot, struct kv_entry *head)
{
	u32 index = head->dup_next;
	struct kv_entry *next = entry_at(flat, index);

	WRITE_ONCE(next->dup_prev, head->dup_prev == index ? index : head->dup_prev);
	slot_set_index(slot, index);
	KV_BUG_ON(kv_entry_step(next, kv_word_gen(READ_ONCE(next->word)), kv_edge_promote));
}

static void dups_unlink(const struct flat *flat, u32 head, struct kv_entry *entry)
{
	WRITE_ONCE(entry_at(flat, entry->dup_prev)->dup_next, entry->dup_next);
	if (entry->dup_next != KV_NONE)
		WRITE_ONCE(entry_at(flat, entry->dup_next)->dup_prev, entry->dup_prev);
	else
		WRITE_ONCE(entry_at(flat, head)->dup_prev, entry->dup_prev);
}

/* ---- insert ---- */

static void publish(struct kv_entry *entry, u32 gen, bool is_dup)
{
	int err = is_dup ? kv_entry_step(entry, gen, kv_edge_publish_dup) :
			   kv_entry_step(entry, gen, kv_edge_publish);

	KV_BUG_ON(err);
}

/* The name is taken. */
static void insert_dup(struct flat *flat, struct kv_insert *insert, u32 i, u32 head)
{
	struct kv_handle handle = insert->handles[i];
	struct kv_entry *entry = entry_at(flat, handle.index);
	struct found found;
	bool is_held = insert->policy != KV_DUP_ALLOW && dups_take(flat, head, &found);

	if (is_held) {
		insert->nr_first += found.is_first;
		WRITE_ONCE(entry->link, found.handle.index);
	}
	insert->nr_dups++;
	if (is_held && insert->policy == KV_DUP_REJECT) {
		WRITE_ONCE(entry->link, KV_NONE);
		insert->found[i] = found.handle;
		kv_entry_step(entry, handle.gen, kv_edge_unmark);
		return;
	}
	dups_append(flat, head, handle.index);
	insert->found[i] = handle;
	publish(entry, handle.gen, true);
}

static void insert_new(struct flat *flat, struct kv_insert *insert, u32 i, struct spot spot)
{
	struct kv_handle handle = insert->handles[i];
	struct kv_entry *entry = entry_at(flat, handle.index);

	dups_set(entry, handle.index, KV_NONE);
	publish(entry, handle.gen, false);
	/* Last: a name that is in the table belongs to a block that can be taken. */
	flat_slot_add(spot, handle.index);
	insert->found[i] = handle;
}

static void insert_one(struct flat *flat, struct kv_insert *insert, u32 i)
{
	struct kv_entry *entry = entry_at(flat, insert->handles[i].index);
	struct spot spot = lock_home(flat, entry);
	struct slot slot = flat_slot_find(spot, entry);

	if (likely(!slot.bucket))
		insert_new(flat, insert, i, spot);
	else
		insert_dup(flat, insert, i, slot_index(slot));
	unlock_home(spot);
	trace_note(&flat->trace, entry, false);
}

/* What the next ones will need. */
static void prefetch_homes(struct flat *flat, const struct kv_handle *handles, u32 nr)
{
	struct table *table = kv_rcu_dereference(flat->table);

	for (u32 i = 0; i < nr; i++) {
		const struct kv_entry *entry = entry_at(flat, handles[i].index);

		kv_prefetch_write(home_of(table, entry_hash(entry, table->seed)));
		trace_prefetch(&flat->trace, entry);
	}
}

static void prefetch_entries(const struct flat *flat, const struct kv_handle *handles, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		if (handles[i].index < flat->map.entries->nr)
			kv_prefetch_write(entry_at(flat, handles[i].index));
}

static int flat_insert(struct kv_map *map, struct kv_insert *insert)
{
	struct flat *flat = flat_of(map);
	u32 nr = insert->nr;
	int err;

	insert->nr_dups = 0;
	insert->nr_first = 0;
	prefetch_entries(flat, insert->handles, min(nr, DISTANCE));
	err = batch_mark(map, insert);
	if (err)
		return err;
	kv_rcu_read_lock();
	for (u32 i = 0; i < nr; i++) {
		if (i % DISTANCE == 0)
			prefetch_homes(flat, insert->handles + i, min(nr - i, DISTANCE));
		insert_one(flat, insert, i);
	}
	kv_rcu_read_unlock();
	return 0;
}

static void flat_staged(struct kv_map *map, const struct kv_handle *handles, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		if (handles[i].index < map->entries->nr)
			trace_note(&flat_of(map)->trace, entry_at(flat_of(map), handles[i].index),
				   true);
}

/* ---- remove ---- */

static int removable(const struct flat *flat, struct kv_handle handle)
{
	u64 word;

	if (handle.index >= flat->map.entries->nr)
		return -EINVAL;
	word = smp_load_acquire(&entry_at(flat, handle.index)->word);
	if (kv_word_gen(word) != handle.gen)
		return kv_handle_refuse(flat->map.entries, kv_word_gen(word), handle.gen);
	return kv_word_is(word, KV_ENTRY_EVICTING) ? 0 : -EINVAL;
}

static int remove_locked(const struct flat *flat, struct spot spot, u32 index)
{
	struct kv_entry *entry = entry_at(flat, index);
	struct slot slot;

	if (entry->dup_prev == KV_NONE)
		return -ENOENT;
	slot = flat_slot_find(spot, entry);
	if (KV_BUG_ON(!slot.bucket))
		return -ENOENT;
	if (slot_index(slot) != index)
		dups_unlink(flat, slot_index(slot), entry);
	else if (entry->dup_next != KV_NONE)
		dups_promote(flat, slot, entry);
	else
		flat_slot_del(spot, slot);
	dups_set(entry, KV_NONE, KV_NONE);
	WRITE_ONCE(entry->link, KV_NONE);
	return 0;
}

static int remove_one(struct flat *flat, struct kv_handle handle)
{
	struct spot spot;
	int err = removable(flat, handle);

	if (err)
		return err;
	spot = lock_home(flat, entry_at(flat, handle.index));
	err = remove_locked(flat, spot, handle.index);
	unlock_home(spot);
	return err;
}

static int flat_remove(struct kv_map *map, const struct kv_handle *handles, u32 *nr)
{
	struct flat *flat = flat_of(map);
	u32 wanted = *nr;
	int err = 0;

	kv_rcu_read_lock();
	for (*nr = 0; *nr < wanted; ++*nr) {
		if (*nr % DISTANCE == 0)
			prefetch_entries(flat, handles + *nr, min(wanted - *nr, DISTANCE));
		err = remove_one(flat, handles[*nr]);
		if (err)
			break;
	}
	kv_rcu_read_unlock();
	return err;
}

/* ---- resize ---- */

/* Nobody else can lock @spot's table out of order: writers hold one bucket at a time. */
static void move_slot(struct slot slot, struct table *to)
{
	u32 index = slot_index(slot);
	struct spot spot = spot_of(to, entry_hash(&to->entries->entry[index], to->seed));

	rank_acquire(to->number, 1);
	spot_lock(spot);
	flat_slot_add(spot, index);
	spot_unlock(spot);
	rank_release(1);
}

/*
 * Until the lock is free again writers wait, and readers find what has not moved and what has, in
 * the old place. Then the version has changed, and who found nothing there goes on to the new one.
 */
static void move_bucket(struct table *from, u32 home, struct table *to)
{
	struct spot spot = { from, &from->bucket[home], 0 };
	struct slot slot;

	rank_acquire(from->number, 0);
	spot_lock(spot);
	for_each_slot(spot, slot)
		if (flat_slot_tag(slot))
			move_slot(slot, to);
	WRITE_ONCE(spot.home->next, NEXT_MOVED);
	spot_unlock(spot);
	rank_release(0);
}

static void free_table(struct kv_rcu_head *head)
{
	flat_table_destroy(container_of(head, struct table, rcu));
}

static int flat_resize(struct kv_map *map, u32 nr_entries, u64 seed)
{
	struct flat *flat = flat_of(map);
	struct table *from, *to = NULL;

	kv_lock(&flat->resize_lock);
	from = flat->table;
	to = flat_table_create(map->entries, nr_entries, seed, from->number + 1);
	if (to) {
		/* Pairs with kv_rcu_dereference() by whoever meets a bucket that has moved. */
		kv_rcu_assign(from->successor, to);
		for (u32 home = 0; home < from->nr_homes; home++)
			move_bucket(from, home, to);
		/* Pairs with kv_rcu_dereference() at the start of each call. */
		kv_rcu_assign(flat->table, to);
		kv_rcu_defer(&from->rcu, free_table);
	}
	kv_unlock(&flat->resize_lock);
	kv_rcu_barrier();
	return to ? 0 : -ENOMEM;
}

/* ---- check ---- */

/* The list that begins at @head: all of one name, all but the head marked. Adds to *@nr. */
static bool dups_are_sound(const struct flat *flat, u32 head, u32 *nr)
{
	const struct kv_entry *first = entry_at(flat, head);
	u32 prev = KV_NONE, index;

	for (index = head; index != KV_NONE; index = entry_at(flat, index)->dup_next) {
		const struct kv_entry *entry;

		if (index >= flat->map.entries->nr || ++*nr > flat->map.entries->nr)
			return false;
		entry = entry_at(flat, index);
		if (!kv_entry_has_name(entry, first->key, first->domain) ||
		    !(entry->word & KV_ENTRY_DUP) != (index == head) ||
		    (index != head && entry->dup_prev != prev))
			return false;
		prev = index;
	}
	return first->dup_prev == prev;
}

static bool slot_is_sound(const struct flat *flat, struct slot slot, u32 home, u32 *nr)
{
	struct table *table = flat->table;
	u32 index = slot_index(slot);
	u64 hash;

	if (index >= table->entries->nr)
		return false;
	hash = entry_hash(entry_at(flat, index), table->seed);
	return flat_slot_tag(slot) == tag_of(hash) && home_of(table, hash) == &table->bucket[home] &&
	       dups_are_sound(flat, index, nr);
}

/* Linked and registered, or on the way out; or neither. Adds those to *@nr. */
static bool entry_agrees(const struct kv_entry *entry, u32 *nr)
{
	bool is_linked = entry->dup_prev != KV_NONE;

	*nr += is_linked;
	if (kv_word_is(entry->word, KV_ENTRY_REGISTERED))
		return is_linked;
	if (kv_word_is(entry->word, KV_ENTRY_EVICTING))
		return true;
	return !is_linked && entry->dup_next == KV_NONE;
}

static int flat_check(struct kv_map *map, u32 *nr)
{
	struct flat *flat = flat_of(map);
	struct table *table = flat->table;
	u32 nr_slots = 0, nr_found = 0;

	*nr = 0;
	if (table->successor || !flat_table_is_sound(table, &nr_slots))
		return -EUCLEAN;
	for (u32 home = 0; home < table->nr_homes; home++) {
		struct spot spot = { table, &table->bucket[home], 0 };
		struct slot slot;

		for_each_slot(spot, slot)
			if (flat_slot_tag(slot) && !slot_is_sound(flat, slot, home, &nr_found))
				return -EUCLEAN;
	}
	for (u32 i = 0; i < map->entries->nr; i++)
		if (!entry_agrees(entry_at(flat, i), nr))
			return -EUCLEAN;
	return nr_found == *nr ? 0 : -EUCLEAN;
}

/* ---- set-up ---- */

static int flat_create(const struct kv_map_attr *attr, struct kv_map **map)
{
	struct flat *flat = kv_alloc_lines(1, sizeof(*flat));

	if (!flat)
		return -ENOMEM;
	flat->map = (struct kv_map){ &kv_map_flat, attr->entries, attr->prefix_closed };
	kv_lock_init(&flat->resize_lock, KV_RANK_TIER, 0);
	flat->table = flat_table_create(attr->entries, attr->nr_entries, attr->seed, 0);
	if (!flat->table)
		goto out_free;
	if (trace_init(&flat->trace, attr->entries->nr, attr->seed))
		goto out_destroy_table;
	*map = &flat->map;
	return 0;

out_destroy_table:
	flat_table_destroy(flat->table);
out_free:
	kv_free(flat);
	return -ENOMEM;
}

static void flat_destroy(struct kv_map *map)
{
	struct flat *flat;

	if (!map)
		return;
	flat = flat_of(map);
	trace_exit(&flat->trace);
	flat_table_destroy(flat->table);
	kv_free(flat);
}

static u64 flat_bytes(const struct kv_map *map)
{
	const struct flat *flat = container_of(map, const struct flat, map);

	return sizeof(*flat) + sizeof(*flat->table) + flat_table_bytes(flat->table) +
	       trace_bytes(&flat->trace);
}

const struct kv_map_ops kv_map_flat = {
	.name		= "flat",
	.create		= flat_create,
	.destroy	= flat_destroy,
	.match		= flat_match,
	.length		= flat_length,
	.scan		= flat_scan,
	.insert		= flat_insert,
	.staged		= flat_staged,
	.remove		= flat_remove,
	.resize		= flat_resize,
	.check		= flat_check,
	.bytes		= flat_bytes,
};
