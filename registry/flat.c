// SPDX-License-Identifier: Apache-2.0
/*
 * The flat map: its structure and its writers. Its readers are in flat_find.c.
 *
 * A writer holds the lock of one bucket, that of the home of the name at hand, for all blocks of
 * that name: which is the oldest of them, and which follows, is decided there.
 *
 * Resizing, one at a time by resize_lock, moves bucket by bucket; it holds one in the old table and
 * one in the new, in this order. No other thread ever holds two.
 */
#include <kv/env.h>
#include <kv/err.h>
#include <kv/mem.h>
#include <kv/registry_free.h>

#include "flat.h"

/* ---- writers ---- */

static struct kv_entry *entry_at(const struct flat *flat, u32 index)
{
	return &flat->entry[index];
}

/* Where the entry's name belongs, locked; @spot: where in some table. In a read section. */
static __always_inline struct spot lock_home(const struct kv_entry *entry, struct spot spot)
{
	for (;;) {
		struct table *table = spot.table;

		spot_lock(spot);
		if (likely(spot.home->next != NEXT_MOVED))
			return spot;
		spot_unlock(spot);
		table = kv_rcu_dereference(table->successor);
		spot = spot_of(table, table_hash(table, entry));
	}
}

noinline bool flat_learns(struct flat *flat, u64 domain)
{
	for (u32 i = 0; i < NR_KNOWN && ~domain; i++) {
		u64 known = READ_ONCE(flat->known[i]);

		if (known == ~domain ||
		    (!known && (kv_cas(&flat->known[i], &known, ~domain) || known == ~domain)))
			return true;
	}
	return false;
}

static __always_inline void trace_in(struct flat *flat, u32 index)
{
	const struct kv_entry *entry = entry_at(flat, index);

	if (unlikely(!flat_knows(flat, READ_ONCE(entry->domain))))
		trace_registered(&flat->trace, kv_entry_mix(entry, flat->trace.key_seed), index);
}

/* ---- blocks on their way ---- */

/*
 * A writer's work on a block waits for its bucket, and swaps that overlap with nothing; so writers
 * find out where it goes, and ask for that, so many blocks before. Removal asks for three lines a
 * block: ns a block of 1 Mi, from 85 in a full cache, with 4: 124, 8: 122, 16: 131, 24: 140.
 */
#define QUEUE_AHEAD	24u
#define REMOVE_AHEAD	8u
#define QUEUE_SIZE	32u		/* a power of two, more than either */

struct queue {
	struct table *table;
	u64 domain, seed;			/* of the last one; of the table for it */
	bool known;				/* flat_knows() that one */
	struct bucket *home[QUEUE_SIZE];	/* where in that table */
	u8 tag[QUEUE_SIZE];
	u64 gone[QUEUE_SIZE];			/* what trace_leave() said */
};

/* In a read section. */
static void queue_begin(struct queue *queue, const struct flat *flat)
{
	kv_assert_reading();
	queue->table = kv_rcu_dereference(flat->table);
	queue->domain = ~0ull;
	queue->seed = domain_seed(queue->table->seed, queue->domain);
	queue->known = false;
}

/* Its entry was asked for before. */
static __always_inline u64 queue_arrive(struct queue *queue, struct flat *flat,
					const struct kv_entry *entry, u32 i)
{
	struct table *table = queue->table;
	u64 mix = kv_entry_mix(entry, table->key_seed), domain = READ_ONCE(entry->domain);
	struct spot spot;

	if (unlikely(domain != queue->domain)) {
		queue->domain = domain;
		queue->seed = domain_seed(table->seed, domain);
		queue->known = flat_knows(flat, domain);
	}
	spot = spot_of(table, mix_hash(mix, queue->seed));
	kv_prefetch_write(spot.home);
	queue->home[i % QUEUE_SIZE] = spot.home;
	queue->tag[i % QUEUE_SIZE] = spot.tag;
	if (unlikely(!queue->known))
		trace_expect(&flat->trace, mix);
	return mix;
}

static __always_inline struct spot queue_spot(const struct queue *queue, u32 i)
{
	return (struct spot){ queue->table, queue->home[i % QUEUE_SIZE],
			      queue->tag[i % QUEUE_SIZE] };
}

/* ---- duplicates: a list in order of age; the slot names its head; under the home's lock ---- */

static void dups_set(struct kv_entry *entry, u32 prev, u32 next)
{
	WRITE_ONCE(entry->dup_prev, prev);
	WRITE_ONCE(entry->dup_next, next);
}

/*
 * A reference on the first of the list with a block that can be had. 1: its first, 0, or -ENOENT.
 * *@name: the entry by which it was found.
 */
static int dups_take(const struct flat *flat, u32 head, struct kv_handle *elder, u32 *name)
{
	for (u32 index = head; index != KV_NONE; index = entry_at(flat, index)->dup_next) {
		struct kv_handle block = kv_name_block(flat->map.entries, index);
		int ret = kv_entry_step(entry_at(flat, block.index), block.gen, kv_edge_try_get);

		if (ret >= 0) {
			*elder = block;
			*name = index;
			return ret;
		}
		if (unlikely(ret == -EOVERFLOW))
			kv_entries_note_full(flat->map.entries);
	}
	return -ENOENT;
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

/* Can a reader find any block by this list? Names are hidden under the home's lock only. */
static bool name_visible(const struct flat *flat, u32 head)
{
	for (u32 index = head; index != KV_NONE; index = entry_at(flat, index)->dup_next)
		if (!(READ_ONCE(entry_at(flat, index)->word) & KV_ENTRY_HIDDEN))
			return true;
	return false;
}

/* ---- records for the feed: under the home's lock, when it is done ---- */

/* It cannot be found by this entry any more; the other entries are the list from @head on. */
static __always_inline void tell_lost(struct flat *flat, u32 index, u32 head)
{
	struct kv_feed *feed = kv_feed_of(&flat->map.feed);

	if (unlikely(feed != NULL))
		kv_feed_entry(feed, name_visible(flat, head) ? KV_FEED_KEPT : KVMM_EVENT_REMOVED,
			      flat->map.entries, index);
}

static __always_inline void tell_stored(struct flat *flat, u32 index)
{
	struct kv_feed *feed = kv_feed_of(&flat->map.feed);

	if (unlikely(feed != NULL))
		kv_feed_entry(feed, KVMM_EVENT_STORED, flat->map.entries, index);
}

/* ---- insert ---- */

/* The youngest of the list now. */
static void dups_append(const struct flat *flat, u32 head, u32 index)
{
	struct kv_entry *first = entry_at(flat, head);

	dups_set(entry_at(flat, index), first->dup_prev, KV_NONE);
	WRITE_ONCE(entry_at(flat, first->dup_prev)->dup_next, index);
	WRITE_ONCE(first->dup_prev, index);
}

/* There are blocks of this name, seen or hidden. Is this one in the table, too? */
static bool insert_dup(struct flat *flat, struct kv_insert *insert, u32 i, u32 head)
{
	struct kv_handle handle = insert->handles[i];
	struct kv_entry *entry = entry_at(flat, handle.index);
	struct kv_handle elder;
	int ret = -ENOENT;
	bool was_found;
	u32 name;

	if (insert->policy != KV_DUP_ALLOW)
		ret = dups_take(flat, head, &elder, &name);
	if (ret >= 0) {
		insert->nr_first += ret;
		WRITE_ONCE(entry->link, name);
	}
	was_found = ret >= 0 || name_visible(flat, head);
	insert->nr_dups += was_found;
	if (ret >= 0 && insert->policy == KV_DUP_REJECT) {
		WRITE_ONCE(entry->link, KV_NONE);
		insert->found[i] = elder;
		kv_entry_step(entry, handle.gen, kv_edge_unmark);
		return false;
	}
	dups_append(flat, head, handle.index);
	insert->found[i] = handle;
	kv_entry_step_alone(entry, kv_edge_publish_dup);
	if (unlikely(!was_found))
		tell_stored(flat, handle.index);
	return true;
}

static void insert_one(struct flat *flat, struct kv_insert *insert, u32 i, struct spot spot)
{
	struct kv_handle handle = insert->handles[i];
	struct kv_entry *entry = entry_at(flat, handle.index);
	bool is_in = true;
	struct slot slot;

	kv_assert_reading();
	spot = lock_home(entry, spot);
	slot = slot_find(spot, entry);
	if (likely(!slot.bucket)) {
		dups_set(entry, handle.index, KV_NONE);
		kv_entry_step_alone(entry, kv_edge_publish);
		/* Last: a name that is in the table belongs to a block that can be taken. */
		slot_add(spot, handle.index);
		insert->found[i] = handle;
		tell_stored(flat, handle.index);
	} else {
		is_in = insert_dup(flat, insert, i, slot_index(slot));
	}
	spot_unlock(spot);
	if (likely(is_in))
		trace_in(flat, handle.index);
}

/* While they are being staged, in a read section. */
static void flat_expect(struct kv_map *map, const struct kv_query *query)
{
	struct table *table = kv_rcu_dereference(flat_of(map)->table);
	u64 domain = kv_domain_word(query->domain), seed = domain_seed(table->seed, domain);
	bool known = flat_knows(flat_of(map), domain);

	for (u32 i = 0; i < min(query->nr, QUEUE_AHEAD); i++) {
		u64 key[2] = { 0 }, mix;

		kv_key_words(&query->keys[i], key);
		mix = kv_mix_key(key, table->key_seed);
		kv_prefetch_write(spot_of(table, mix_hash(mix, seed)).home);
		if (unlikely(!known))
			trace_expect(&flat_of(map)->trace, mix);
	}
}

static int flat_insert(struct kv_map *map, struct kv_insert *insert)
{
	struct flat *flat = flat_of(map);
	struct queue queue;
	u32 nr = insert->nr;
	int err;

	insert->nr_dups = 0;
	insert->nr_first = 0;
	err = batch_mark(map, insert);
	if (err)
		return err;
	/* All of them are marked: no other thread changes their names. */
	kv_rcu_read_lock();
	queue_begin(&queue, flat);
	for (u32 i = 0; i < min(nr, QUEUE_AHEAD); i++)
		queue_arrive(&queue, flat, entry_at(flat, insert->handles[i].index), i);
	for (u32 i = 0; i < nr; i++) {
		u32 next = i + QUEUE_AHEAD;

		if (next < nr)
			queue_arrive(&queue, flat, entry_at(flat, insert->handles[next].index),
				     next);
		insert_one(flat, insert, i, queue_spot(&queue, i));
	}
	kv_rcu_read_unlock();
	return 0;
}

static void flat_staged(struct kv_map *map, const struct kv_handle *handles, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		if (handles[i].index < map->entries->nr)
			trace_staged(&flat_of(map)->trace, handles[i].index);
}

/* ---- remove ---- */

#define NAME_STAYS	1		/* with other blocks */

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

/* It may have younger ones, or elders: NAME_STAYS. */
static noinline int remove_of_many(struct flat *flat, struct spot spot, u32 index)
{
	struct kv_entry *entry = entry_at(flat, index);
	u32 head = entry->dup_next;
	struct slot slot;
	int ret = NAME_STAYS;

	kv_assert_spot_held(spot);
	if (entry->dup_prev == KV_NONE)
		return -ENOENT;
	slot = slot_find(spot, entry);
	if (KV_BUG_ON(!slot.bucket))
		return -ENOENT;
	if (slot_index(slot) != index) {
		head = slot_index(slot);
		dups_unlink(flat, head, entry);
	} else if (entry->dup_next != KV_NONE) {
		dups_promote(flat, slot, entry);
	} else {
		slot_del(spot, slot);
		ret = 0;
	}
	dups_set(entry, KV_NONE, KV_NONE);
	if (likely(!(READ_ONCE(entry->word) & KV_ENTRY_HIDDEN)))
		tell_lost(flat, index, head);
	return ret;
}

/* Mostly it is the only one of its name, in the home bucket: no other entry is looked at. */
static __always_inline int remove_locked(struct flat *flat, struct spot spot, u32 index)
{
	struct kv_entry *entry = entry_at(flat, index);
	struct slot slot = slot_find_index(spot, index);

	kv_assert_spot_held(spot);
	if (unlikely(!slot.bucket || entry->dup_next != KV_NONE))
		return remove_of_many(flat, spot, index);
	slot_del(spot, slot);
	dups_set(entry, KV_NONE, KV_NONE);
	if (likely(!(READ_ONCE(entry->word) & KV_ENTRY_HIDDEN)))
		tell_lost(flat, index, KV_NONE);
	return 0;
}

/* After remove_locked(), which returned @ret; @gone: as trace_leave() said. */
static __always_inline void trace_out(struct flat *flat, u64 gone, u32 index, int ret)
{
	const struct kv_entry *entry = entry_at(flat, index);

	if (likely(!ret))
		trace_gone(&flat->trace, gone);
	if (unlikely(ret >= 0 && !flat_knows(flat, READ_ONCE(entry->domain))))
		trace_left(&flat->trace, kv_entry_mix(entry, flat->trace.key_seed), index);
}

/* lock_home(), from the table of today. */
static struct spot lock_name(const struct flat *flat, const struct kv_entry *entry)
{
	struct table *table = kv_rcu_dereference(flat->table);

	kv_assert_reading();
	return lock_home(entry, spot_of(table, table_hash(table, entry)));
}

/*
 * Out of sight, but in the table until it is removed. A name that is out was told, and is hidden
 * when it gets in again.
 */
static int flat_hide(struct kv_map *map, struct kv_handle handle)
{
	struct flat *flat = flat_of(map);
	u32 name = handle.index;
	int err = 0;

	if (handle.index >= map->entries->nr)
		return -EINVAL;
	kv_rcu_read_lock();
	do {
		struct kv_entry *entry = entry_at(flat, name);
		bool is_block = name == handle.index, was_hidden;
		struct spot spot = lock_name(flat, entry);

		was_hidden = READ_ONCE(entry->word) & KV_ENTRY_HIDDEN;
		err = is_block ? kv_handle_step(map->entries, handle, kv_edge_hide) :
		      kv_entry_step(entry, kv_word_gen(entry->word), kv_edge_hide);
		if (!err && !was_hidden && !kv_name_is_out(map->entries, name))
			tell_lost(flat, name, slot_index(slot_find(spot, entry)));
		spot_unlock(spot);
		if (err)
			break;
		name = is_block ? kv_name_first(map->entries, name) : entry->chain;
	} while (name);
	kv_rcu_read_unlock();
	return err;
}

/* ---- names that come and go while the block is held ---- */

/* References of this list by the name @from are by @to. Returns how many. */
static u32 dups_relink(const struct flat *flat, u32 head, u32 from, u32 to)
{
	u32 nr = 0;

	for (u32 i = head; i != KV_NONE; i = entry_at(flat, i)->dup_next) {
		if (kv_name_is_added(flat->map.entries, i) || entry_at(flat, i)->link != from)
			continue;
		WRITE_ONCE(entry_at(flat, i)->link, to);
		nr++;
	}
	return nr;
}

static void name_step(const struct flat *flat, u32 name, kv_edge edge)
{
	struct kv_entry *entry = entry_at(flat, name);

	KV_BUG_ON(kv_entry_step(entry, kv_word_gen(READ_ONCE(entry->word)), edge));
}

static void flat_name_unlink(struct kv_map *map, u32 name)
{
	struct flat *flat = flat_of(map);
	struct kv_entry *entry = entry_at(flat, name);
	struct spot spot;
	int ret;

	kv_assert(!kv_name_is_out(map->entries, name));
	kv_rcu_read_lock();
	spot = lock_name(flat, entry);
	ret = remove_locked(flat, spot, name);
	KV_BUG_ON(ret < 0);
	/* A reader may come to any entry, by a slot that is free or was its: see line_take(). */
	name_step(flat, name, kv_edge_unname);
	if (READ_ONCE(entry->word) & KV_ENTRY_DUP)
		name_step(flat, name, kv_edge_promote);
	spot_unlock(spot);
	trace_out(flat, trace_leave(&flat->trace, kv_entry_mix(entry, flat->trace.key_seed),
				    READ_ONCE(entry->domain)), name, ret);
	kv_rcu_read_unlock();
}

/* References that duplicates have by @name are by @to. Returns how many. */
static u32 name_relink(struct flat *flat, u32 name, u32 to)
{
	struct slot slot;
	struct spot spot;
	u32 nr = 0;

	kv_rcu_read_lock();
	spot = lock_name(flat, entry_at(flat, name));
	slot = slot_find(spot, entry_at(flat, name));
	if (slot.bucket)
		nr = dups_relink(flat, slot_index(slot), name, to);
	spot_unlock(spot);
	kv_rcu_read_unlock();
	return nr;
}

/* One that is looked for, in an entry that is none. */
static u32 flat_name_find(struct kv_map *map, u32 block, const struct kv_entry *wanted)
{
	struct flat *flat = flat_of(map);
	u32 name = KV_NONE;
	struct slot slot;
	struct spot spot;

	kv_rcu_read_lock();
	spot = lock_name(flat, wanted);
	slot = slot_find(spot, wanted);
	if (slot.bucket)
		name = slot_index(slot);
	while (name != KV_NONE && kv_name_block(map->entries, name).index != block)
		name = entry_at(flat, name)->dup_next;
	spot_unlock(spot);
	kv_rcu_read_unlock();
	return name;
}

static u32 flat_name_holders(struct kv_map *map, u32 name)
{
	return name_relink(flat_of(map), name, name);
}

static u32 flat_name_release(struct kv_map *map, u32 name)
{
	kv_assert(kv_name_is_out(map->entries, name));
	return name_relink(flat_of(map), name, KV_LET_GO);
}

/*
 * The block has been REGISTERED all the time; so what is written here is only where it is found. In
 * a list it is the youngest, even if its content is older.
 */
static void flat_name_link(struct kv_map *map, u32 name)
{
	struct flat *flat = flat_of(map);
	struct kv_entry *entry = entry_at(flat, name);
	bool was_visible = false;
	struct slot slot;
	struct spot spot;

	kv_assert(kv_name_is_out(map->entries, name));
	kv_rcu_read_lock();
	spot = lock_name(flat, entry);
	slot = slot_find(spot, entry);
	name_step(flat, name, kv_edge_name);
	if (slot.bucket) {
		was_visible = name_visible(flat, slot_index(slot));
		name_step(flat, name, kv_edge_demote);
		dups_append(flat, slot_index(slot), name);
	} else {
		dups_set(entry, name, KV_NONE);
		slot_add(spot, name);
	}
	if (!was_visible && !(READ_ONCE(entry->word) & KV_ENTRY_HIDDEN))
		tell_stored(flat, name);
	spot_unlock(spot);
	trace_in(flat, name);
	kv_rcu_read_unlock();
}

/* A snapshot that has passed the block's entry, and not come to the added name, has to be told. */
static void flat_name_swap(struct kv_map *map, u32 name)
{
	struct flat *flat = flat_of(map);
	struct kv_entry *from = entry_at(flat, name), *entry = entry_at(flat, from->link);
	u32 index = from->link, head;
	struct spot spot;
	struct slot slot;

	kv_assert(kv_name_is_out(map->entries, index) && !kv_name_is_out(map->entries, name));
	kv_rcu_read_lock();
	spot = lock_name(flat, entry);
	slot = slot_find(spot, entry);
	head = slot_index(slot);
	dups_relink(flat, head, name, index);
	name_step(flat, index, kv_edge_name);
	if (head != name)
		name_step(flat, index, kv_edge_demote);
	dups_set(entry, from->dup_prev == name ? index : from->dup_prev, from->dup_next);
	if (from->dup_next != KV_NONE)
		WRITE_ONCE(entry_at(flat, from->dup_next)->dup_prev, index);
	else if (head != name)
		WRITE_ONCE(entry_at(flat, head)->dup_prev, index);
	if (head == name)
		slot_set_index(slot, index);
	else
		WRITE_ONCE(entry_at(flat, from->dup_prev)->dup_next, index);
	name_step(flat, name, kv_edge_unname);
	dups_set(from, KV_NONE, KV_NONE);
	if (!(READ_ONCE(entry->word) & KV_ENTRY_HIDDEN))
		tell_lost(flat, name, index);
	spot_unlock(spot);
	trace_out(flat, 0, name, NAME_STAYS);
	trace_in(flat, index);
	kv_rcu_read_unlock();
}

static const struct kv_name_ops flat_names = {
	.link	= flat_name_link,
	.unlink	= flat_name_unlink,
	.find	= flat_name_find,
	.holders = flat_name_holders,
	.release = flat_name_release,
	.swap	= flat_name_swap,
};

static void remove_added(struct flat *flat, u32 index)
{
	struct kv_entries *entries = flat->map.entries;
	u32 name;

	kv_assert_reading();
	while ((name = kv_name_first(entries, index))) {
		if (!kv_name_is_out(entries, name))
			flat_name_unlink(&flat->map, name);
		kv_name_put(entries, name);
	}
}

static __always_inline int remove_one(struct flat *flat, struct kv_handle handle, struct spot spot,
				      u64 gone)
{
	int ret = removable(flat, handle);

	kv_assert_reading();
	if (ret)
		return ret;
	spot = lock_home(entry_at(flat, handle.index), spot);
	ret = remove_locked(flat, spot, handle.index);
	if (ret >= 0)
		WRITE_ONCE(entry_at(flat, handle.index)->link, KV_NONE);
	spot_unlock(spot);
	trace_out(flat, gone, handle.index, ret);
	return min(ret, 0);
}

/* A value that is no handle is refused when its turn comes; here it is just not followed. */
static __always_inline void remove_arrive(struct flat *flat, struct queue *queue,
					  const struct kv_handle *handles, u32 i, u32 nr)
{
	const struct kv_entries *entries = flat->map.entries;
	u64 mix;

	if (i + REMOVE_AHEAD < nr)
		kv_handle_prefetch(entries, handles[i + REMOVE_AHEAD]);
	if (i >= nr || handles[i].index >= entries->nr)
		return;
	mix = queue_arrive(queue, flat, entry_at(flat, handles[i].index), i);
	queue->gone[i % QUEUE_SIZE] = trace_leave(&flat->trace, mix, queue->domain);
}

static int flat_remove(struct kv_map *map, const struct kv_handle *handles, u32 *nr)
{
	struct flat *flat = flat_of(map);
	u32 wanted = *nr, i;
	struct queue queue;
	int err = 0;

	kv_rcu_read_lock();
	queue_begin(&queue, flat);
	for (i = 0; i < min(wanted, REMOVE_AHEAD); i++)
		kv_handle_prefetch(map->entries, handles[i]);
	for (i = 0; i < min(wanted, REMOVE_AHEAD); i++)
		remove_arrive(flat, &queue, handles, i, wanted);
	for (i = 0; i < wanted && likely(!err); i++) {
		remove_arrive(flat, &queue, handles, i + REMOVE_AHEAD, wanted);
		err = remove_one(flat, handles[i], queue_spot(&queue, i),
				 queue.gone[i % QUEUE_SIZE]);
	}
	*nr = i - !!err;
	for (i = 0; unlikely(READ_ONCE(map->entries->nr_names)) && i < *nr; i++)
		remove_added(flat, handles[i].index);
	kv_rcu_read_unlock();
	return err;
}

/* ---- resize ---- */

/*
 * Until the lock is free again writers wait, and readers find entries in the old place, moved or
 * not. Then the version has changed, and a reader that found nothing there goes on to the new one.
 */
static void move_bucket(struct table *from, u32 home, struct table *to)
{
	struct spot spot = { from, &from->bucket[home], 0 };
	struct slot slot;

	spot_lock(spot);
	for_each_slot(spot, slot) {
		u32 index = slot_index(slot);
		struct spot new = spot_of(to, table_hash(to, &to->entries->entry[index]));

		if (!flat_slot_tag(slot))
			continue;
		/* Not out of order: other writers hold one bucket at a time. */
		spot_lock(new);
		slot_add(new, index);
		spot_unlock(new);
	}
	/* Pairs with find_slowly(): a reader that sees it sees ->successor and the copies. */
	smp_store_release(&spot.home->next, NEXT_MOVED);
	spot_unlock(spot);
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
	to = flat_table_create(map->entries, nr_entries, seed, from->key_seed, from->rank.id + 1);
	if (to) {
		/* Pairs with kv_rcu_dereference() by readers that meet a bucket that has moved. */
		kv_rcu_assign(from->successor, to);
		for (u32 home = 0; home < from->nr_homes; home++)
			move_bucket(from, home, to);
		/* Pairs with kv_rcu_dereference() at the start of each call. */
		kv_rcu_assign(flat->table, to);
		kv_rcu_defer(&from->rcu, free_table);
		map->nr_fit = nr_entries;
	}
	kv_unlock(&flat->resize_lock);
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

		if (index >= flat->map.entries->nr_all || ++*nr > flat->map.entries->nr_all)
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

	if (index >= table->entries->nr_all)
		return false;
	hash = table_hash(table, entry_at(flat, index));
	return flat_slot_tag(slot) == tag_of(hash) && home_nr(hash, table->nr_homes) == home &&
	       dups_are_sound(flat, index, nr);
}

/* Linked and registered, or on the way out; or neither. Adds those to *@nr. */
static bool entry_agrees(const struct kv_entry *entry, u32 *nr)
{
	bool is_linked = entry->dup_prev != KV_NONE;

	if (kv_entry_is_new(entry))
		return !entry->dup_prev && !entry->dup_next;
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
	return nr_found == *nr + map->entries->nr_names ? 0 : -EUCLEAN;
}

/* ---- set-up ---- */

static int flat_create(const struct kv_map_attr *attr, struct kv_map **map)
{
	struct flat *flat = kv_alloc_lines(1, sizeof(*flat));

	if (!flat)
		return -ENOMEM;
	flat->map = (struct kv_map){ .ops = &kv_map_flat, .entries = attr->entries,
				      .prefix_closed = attr->prefix_closed,
				      .nr_fit = attr->nr_entries };
	flat->entry = attr->entries->entry;
	kv_lock_init(&flat->resize_lock, KV_RANK_TIER, 0);
	flat->table = flat_table_create(attr->entries, attr->nr_entries, attr->seed, ~attr->seed,
					0);
	if (!flat->table)
		goto out_free;
	if (trace_init(&flat->trace, attr->entries, ~attr->seed))
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

static u64 flat_nr_missed(const struct kv_map *map, enum kv_miss why)
{
	return trace_nr_missed(&container_of(map, const struct flat, map)->trace, why);
}

const struct kv_map_ops kv_map_flat = {
	.name		= "flat",
	.create		= flat_create,
	.destroy	= flat_destroy,
	.lookup		= flat_lookup,
	.expect		= flat_expect,
	.insert		= flat_insert,
	.staged		= flat_staged,
	.remove		= flat_remove,
	.hide		= flat_hide,
	.resize		= flat_resize,
	.check		= flat_check,
	.bytes		= flat_bytes,
	.missed		= flat_missed,
	.nr_missed	= flat_nr_missed,
	.names		= &flat_names,
};
