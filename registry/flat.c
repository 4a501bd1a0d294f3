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

#include "flat.h"

/* ---- writers ---- */

static struct kv_entry *entry_at(const struct flat *flat, u32 index)
{
	return &flat->map.entries->entry[index];
}

/* Where the entry's name belongs, locked; @spot: where in some table. In a read section. */
static __always_inline struct spot lock_home(const struct kv_entry *entry, struct spot spot)
{
	for (;;) {
		struct table *table = spot.table;

		spot_lock(spot);
		if (likely(spot_home(spot)->next != NEXT_MOVED))
			return spot;
		spot_unlock(spot);
		table = kv_rcu_dereference(table->successor);
		spot = spot_of(table, entry_hash(entry, table->seed));
	}
}

/* ---- blocks on their way ---- */

/*
 * A writer's work on a block waits for its bucket, and swaps that overlap with nothing; so writers
 * find out where it goes, and ask for that, so many blocks before.
 */
#define QUEUE_AHEAD	24u
#define QUEUE_SIZE	32u		/* a power of two, more than QUEUE_AHEAD */

struct queue {
	struct table *table;
	struct spot spot[QUEUE_SIZE];
	u64 trace[QUEUE_SIZE];			/* hashes for the trace */
};

/* Its entry was asked for before. */
static void queue_arrive(struct queue *queue, struct kv_handle handle, u32 i)
{
	const struct kv_entry *entry = &queue->table->entries->entry[handle.index];

	queue->spot[i % QUEUE_SIZE] = spot_of(queue->table, entry_hash(entry, queue->table->seed));
	kv_prefetch_write(spot_home(queue->spot[i % QUEUE_SIZE]));
}

/* ---- duplicates: a list in order of age; the slot names its head; under the home's lock ---- */

static void dups_set(struct kv_entry *entry, u32 prev, u32 next)
{
	WRITE_ONCE(entry->dup_prev, prev);
	WRITE_ONCE(entry->dup_next, next);
}

/* A reference on the first of the list that can be had. 1 if it is its first, 0, or -ENOENT. */
static int dups_take(const struct flat *flat, u32 head, struct kv_handle *elder)
{
	for (u32 index = head; index != KV_NONE; index = entry_at(flat, index)->dup_next) {
		struct kv_entry *entry = entry_at(flat, index);
		u64 word = smp_load_acquire(&entry->word);
		int ret = kv_entry_step(entry, kv_word_gen(word), kv_edge_try_get);

		if (ret >= 0) {
			*elder = kv_handle_of(index, word);
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

/*
 * Can a reader find any block by a first name in this list, or by an added one? A block is hidden
 * under the home's lock only.
 */
static bool name_visible(const struct flat *flat, u32 head, const struct kv_entry *entry)
{
	for (u32 index = head; index != KV_NONE; index = entry_at(flat, index)->dup_next)
		if (!(READ_ONCE(entry_at(flat, index)->word) & KV_ENTRY_HIDDEN))
			return true;
	return kv_alias_visible(flat->map.aliases, flat->map.entries, entry->key, entry->domain);
}

/* ---- records for the feed: under the home's lock, when it is done ---- */

/* No entry of this list can be found any more; the other entries are the list from @head on. */
static void tell_lost(struct flat *flat, const struct kv_entry *entry, u32 index, u32 head)
{
	struct kv_feed *feed = kv_feed_of(&flat->map.feed);

	if (unlikely(feed))
		kv_feed_entry(feed, name_visible(flat, head, entry) ? KV_FEED_KEPT :
								      KVMM_EVENT_REMOVED,
			      entry, index);
}

static void tell_stored(struct flat *flat, const struct kv_entry *entry, u32 index)
{
	struct kv_feed *feed = kv_feed_of(&flat->map.feed);

	if (unlikely(feed))
		kv_feed_entry(feed, KVMM_EVENT_STORED, entry, index);
}

/* ---- insert ---- */

static void publish(struct kv_entry *entry, u32 gen, bool is_dup)
{
	int err = is_dup ? kv_entry_step(entry, gen, kv_edge_publish_dup) :
			   kv_entry_step(entry, gen, kv_edge_publish);

	KV_BUG_ON(err);
}

/* The youngest of the list now. */
static void dups_append(const struct flat *flat, u32 head, u32 index)
{
	struct kv_entry *first = entry_at(flat, head);

	dups_set(entry_at(flat, index), first->dup_prev, KV_NONE);
	WRITE_ONCE(entry_at(flat, first->dup_prev)->dup_next, index);
	WRITE_ONCE(first->dup_prev, index);
}

/* The name is taken. */
static void insert_dup(struct flat *flat, struct kv_insert *insert, u32 i, u32 head)
{
	struct kv_handle handle = insert->handles[i];
	struct kv_entry *entry = entry_at(flat, handle.index);
	struct kv_handle elder;
	int ret = -ENOENT;
	bool was_found;

	if (insert->policy != KV_DUP_ALLOW)
		ret = dups_take(flat, head, &elder);
	if (ret >= 0) {
		insert->nr_first += ret;
		WRITE_ONCE(entry->link, elder.index);
	}
	insert->nr_dups++;
	if (ret >= 0 && insert->policy == KV_DUP_REJECT) {
		WRITE_ONCE(entry->link, KV_NONE);
		insert->found[i] = elder;
		kv_entry_step(entry, handle.gen, kv_edge_unmark);
		return;
	}
	was_found = name_visible(flat, head, entry);
	dups_append(flat, head, handle.index);
	insert->found[i] = handle;
	publish(entry, handle.gen, true);
	if (unlikely(!was_found))
		tell_stored(flat, entry, handle.index);
}

static void insert_one(struct flat *flat, struct kv_insert *insert, u32 i, struct spot spot)
{
	struct kv_handle handle = insert->handles[i];
	struct kv_entry *entry = entry_at(flat, handle.index);
	struct slot slot;

	kv_assert_reading();
	spot = lock_home(entry, spot);
	slot = flat_slot_find(spot, entry);
	if (likely(!slot.bucket)) {
		dups_set(entry, handle.index, KV_NONE);
		publish(entry, handle.gen, false);
		/* Last: a name that is in the table belongs to a block that can be taken. */
		flat_slot_add(spot, handle.index);
		insert->found[i] = handle;
		if (likely(!name_visible(flat, KV_NONE, entry)))
			tell_stored(flat, entry, handle.index);
	} else {
		insert_dup(flat, insert, i, slot_index(slot));
	}
	spot_unlock(spot);
}

static void insert_arrive(struct flat *flat, struct queue *queue, struct kv_handle handle, u32 i)
{
	queue_arrive(queue, handle, i);
	queue->trace[i % QUEUE_SIZE] = trace_arrive(&flat->trace, entry_at(flat, handle.index));
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
	queue.table = kv_rcu_dereference(flat->table);
	for (u32 i = 0; i < min(nr, QUEUE_AHEAD); i++)
		insert_arrive(flat, &queue, insert->handles[i], i);
	for (u32 i = 0; i < nr; i++) {
		if (i + QUEUE_AHEAD < nr)
			insert_arrive(flat, &queue, insert->handles[i + QUEUE_AHEAD],
				      i + QUEUE_AHEAD);
		insert_one(flat, insert, i, queue.spot[i % QUEUE_SIZE]);
		trace_registered(&flat->trace, queue.trace[i % QUEUE_SIZE],
				 insert->handles[i].index);
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

static __always_inline int remove_locked(struct flat *flat, struct spot spot, u32 index)
{
	struct kv_entry *entry = entry_at(flat, index);
	u32 head = entry->dup_next;
	struct slot slot;

	kv_assert_spot_held(spot);
	if (entry->dup_prev == KV_NONE)
		return -ENOENT;
	slot = flat_slot_find(spot, entry);
	if (KV_BUG_ON(!slot.bucket))
		return -ENOENT;
	if (slot_index(slot) != index) {
		head = slot_index(slot);
		dups_unlink(flat, head, entry);
	} else if (entry->dup_next != KV_NONE) {
		dups_promote(flat, slot, entry);
	} else {
		flat_slot_del(spot, slot);
	}
	dups_set(entry, KV_NONE, KV_NONE);
	WRITE_ONCE(entry->link, KV_NONE);
	if (likely(!(READ_ONCE(entry->word) & KV_ENTRY_HIDDEN)))
		tell_lost(flat, entry, index, head);
	return 0;
}

/* lock_home(), from the table of today. */
static struct spot lock_name(const struct flat *flat, const struct kv_entry *entry)
{
	struct table *table = kv_rcu_dereference(flat->table);

	kv_assert_reading();
	return lock_home(entry, spot_of(table, entry_hash(entry, table->seed)));
}

/* ---- added names ---- */

enum alias_step { ALIAS_ADD, ALIAS_DEL, ALIAS_HIDE };

/*
 * The home's lock of a name is held while that name is added or goes, as for first names: so
 * whether any block has it, by either kind, is decided there, and records are in order. A record
 * says so if the name appears, or disappears; a block that is @hidden has told it.
 */
static void alias_step(struct flat *flat, struct kv_alias *alias, enum alias_step step, bool hidden)
{
	/* As an entry would have it. */
	struct kv_entry entry = {
		.key = { alias->key[0], alias->key[1] }, .domain = alias->domain,
		.position = alias->position,
		.place = READ_ONCE(entry_at(flat, alias->handle.index)->place),
	};
	struct spot spot = lock_name(flat, &entry);
	struct slot slot = flat_slot_find(spot, &entry);
	u32 head = slot.bucket ? slot_index(slot) : KV_NONE, kind = KVMM_EVENT_STORED;
	bool was_visible = name_visible(flat, head, &entry);
	struct kv_feed *feed;

	kv_assert_spot_held(spot);
	if (step == ALIAS_ADD)
		kv_alias_link(flat->map.aliases, alias);
	if (step == ALIAS_DEL)
		kv_alias_unlink(flat->map.aliases, alias);
	if (step != ALIAS_ADD)
		kind = name_visible(flat, head, &entry) ? KV_FEED_KEPT : KVMM_EVENT_REMOVED;
	feed = kv_feed_of(&flat->map.feed);
	if (unlikely(feed != NULL) && !hidden && !(step == ALIAS_ADD && was_visible))
		kv_feed_alias(feed, kind, &entry);
	spot_unlock(spot);
}

static void aliases_step(struct flat *flat, u32 index, enum alias_step step, bool hidden)
{
	struct kv_alias *alias = kv_alias_first(flat->map.aliases, index), *more;

	kv_assert_reading();
	for (; unlikely(alias != NULL); alias = more) {
		more = alias->more;
		alias_step(flat, alias, step, hidden);
		if (step != ALIAS_DEL)
			continue;
		kv_alias_take(flat->map.aliases, alias);
		kv_alias_free(alias);
	}
}

static void flat_name_add(struct kv_map *map, struct kv_alias *alias)
{
	kv_assert(alias->handle.index < map->entries->nr);
	kv_rcu_read_lock();
	alias_step(flat_of(map), alias, ALIAS_ADD, false);
	kv_rcu_read_unlock();
}

static void flat_name_del(struct kv_map *map, struct kv_alias *alias)
{
	struct flat *flat = flat_of(map);
	u64 word = READ_ONCE(entry_at(flat, alias->handle.index)->word);

	kv_assert(kv_word_gen(word) == alias->handle.gen);
	kv_rcu_read_lock();
	alias_step(flat, alias, ALIAS_DEL, word & KV_ENTRY_HIDDEN);
	kv_rcu_read_unlock();
	kv_alias_take(map->aliases, alias);
	kv_alias_free(alias);
}

/*
 * Out of sight, but in the table until it is removed. A block that is in no list of the table is
 * between two first names, of which the old one was told; it is hidden when it gets the new one.
 */
static int flat_hide(struct kv_map *map, struct kv_handle handle)
{
	struct flat *flat = flat_of(map);
	struct kv_entry *entry;
	bool was_hidden;
	struct slot slot;
	struct spot spot;
	int err;

	if (handle.index >= map->entries->nr)
		return -EINVAL;
	entry = entry_at(flat, handle.index);
	kv_rcu_read_lock();
	spot = lock_name(flat, entry);
	was_hidden = READ_ONCE(entry->word) & KV_ENTRY_HIDDEN;
	err = kv_handle_step(map->entries, handle, kv_edge_hide);
	if (!err && !was_hidden && entry->dup_prev != KV_NONE) {
		slot = flat_slot_find(spot, entry);
		if (!KV_BUG_ON(!slot.bucket))
			tell_lost(flat, entry, handle.index, slot_index(slot));
	}
	spot_unlock(spot);
	if (!err && !was_hidden)
		aliases_step(flat, handle.index, ALIAS_HIDE, false);
	kv_rcu_read_unlock();
	return err;
}

/* ---- another first name ---- */

static int flat_name_unlink(struct kv_map *map, struct kv_handle handle)
{
	struct flat *flat = flat_of(map);
	struct kv_entry *entry = entry_at(flat, handle.index);
	u32 elder = READ_ONCE(entry->link);
	struct spot spot;
	int err = 0;

	if (READ_ONCE(entry->dup_prev) == KV_NONE)
		return -EINVAL;
	kv_rcu_read_lock();
	spot = lock_name(flat, entry);
	/* Younger ones with references on it find it by its name. */
	for (u32 i = entry->dup_next; i != KV_NONE; i = entry_at(flat, i)->dup_next)
		err = entry_at(flat, i)->link == handle.index ? -EBUSY : err;
	if (!err)
		err = remove_locked(flat, spot, handle.index);
	/* A reader may come to any entry, by a slot that is free or was its: see line_take(). */
	if (!err)
		KV_BUG_ON(kv_handle_step(map->entries, handle, kv_edge_unname));
	if (!err && READ_ONCE(entry->word) & KV_ENTRY_DUP)
		KV_BUG_ON(kv_handle_step(map->entries, handle, kv_edge_promote));
	WRITE_ONCE(entry->link, elder);
	spot_unlock(spot);
	if (!err)
		trace_removed(&flat->trace, trace_leave(&flat->trace, entry), handle.index);
	kv_rcu_read_unlock();
	return err;
}

/*
 * The entry has been REGISTERED all the time; so what is written here is only where it is found. In
 * a list it is the youngest, even if its content is older.
 */
static void flat_name_link(struct kv_map *map, struct kv_handle handle)
{
	struct flat *flat = flat_of(map);
	struct kv_entry *entry = entry_at(flat, handle.index);
	struct slot slot;
	struct spot spot;
	bool was_visible;

	kv_assert(READ_ONCE(entry->dup_prev) == KV_NONE);
	kv_rcu_read_lock();
	spot = lock_name(flat, entry);
	slot = flat_slot_find(spot, entry);
	was_visible = name_visible(flat, slot.bucket ? slot_index(slot) : KV_NONE, entry);
	KV_BUG_ON(kv_handle_step(map->entries, handle, kv_edge_name));
	if (slot.bucket) {
		KV_BUG_ON(kv_handle_step(map->entries, handle, kv_edge_demote));
		dups_append(flat, slot_index(slot), handle.index);
	} else {
		dups_set(entry, handle.index, KV_NONE);
		flat_slot_add(spot, handle.index);
	}
	if (!was_visible && !(READ_ONCE(entry->word) & KV_ENTRY_HIDDEN))
		tell_stored(flat, entry, handle.index);
	spot_unlock(spot);
	trace_registered(&flat->trace, trace_arrive(&flat->trace, entry), handle.index);
	kv_rcu_read_unlock();
}

static const struct kv_name_ops flat_names = {
	.add	= flat_name_add,
	.del	= flat_name_del,
	.unlink	= flat_name_unlink,
	.link	= flat_name_link,
};

static int remove_one(struct flat *flat, struct kv_handle handle, struct spot spot, u64 trace)
{
	int err = removable(flat, handle);

	kv_assert_reading();
	if (err)
		return err;
	spot = lock_home(entry_at(flat, handle.index), spot);
	err = remove_locked(flat, spot, handle.index);
	spot_unlock(spot);
	if (!err)
		trace_removed(&flat->trace, trace, handle.index);
	return err;
}

/* A value that is no handle is refused when its turn comes; here it is just not followed. */
static void remove_arrive(struct flat *flat, struct queue *queue, const struct kv_handle *handles,
			  u32 i, u32 nr)
{
	const struct kv_entries *entries = flat->map.entries;

	if (i + QUEUE_AHEAD < nr)
		kv_handle_prefetch(entries, handles[i + QUEUE_AHEAD]);
	if (i >= nr || handles[i].index >= entries->nr)
		return;
	queue_arrive(queue, handles[i], i);
	queue->trace[i % QUEUE_SIZE] = trace_leave(&flat->trace,
						   entry_at(flat, handles[i].index));
}

static int flat_remove(struct kv_map *map, const struct kv_handle *handles, u32 *nr)
{
	struct flat *flat = flat_of(map);
	u32 wanted = *nr;
	struct queue queue;
	int err = 0;

	kv_rcu_read_lock();
	queue.table = kv_rcu_dereference(flat->table);
	for (u32 i = 0; i < min(wanted, QUEUE_AHEAD); i++)
		kv_handle_prefetch(map->entries, handles[i]);
	for (u32 i = 0; i < min(wanted, QUEUE_AHEAD); i++)
		remove_arrive(flat, &queue, handles, i, wanted);
	for (*nr = 0; *nr < wanted && !err; *nr += !err) {
		remove_arrive(flat, &queue, handles, *nr + QUEUE_AHEAD, wanted);
		err = remove_one(flat, handles[*nr], queue.spot[*nr % QUEUE_SIZE],
				 queue.trace[*nr % QUEUE_SIZE]);
	}
	for (u32 i = 0; unlikely(map->aliases != NULL) && i < *nr; i++)
		aliases_step(flat, handles[i].index, ALIAS_DEL,
			     READ_ONCE(entry_at(flat, handles[i].index)->word) & KV_ENTRY_HIDDEN);
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
	struct spot spot = { from, home, 0 };
	struct slot slot;

	spot_lock(spot);
	for_each_slot(spot, slot) {
		u32 index = slot_index(slot);
		struct spot new;

		if (!flat_slot_tag(slot))
			continue;
		/* Not out of order: other writers hold one bucket at a time. */
		new = spot_of(to, entry_hash(&to->entries->entry[index], to->seed));
		spot_lock(new);
		flat_slot_add(new, index);
		spot_unlock(new);
	}
	/* Pairs with find_slowly(): a reader that sees it sees ->successor and the copies. */
	smp_store_release(&spot_home(spot)->next, NEXT_MOVED);
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
	to = flat_table_create(map->entries, nr_entries, seed, from->rank.id + 1);
	if (to) {
		to->map = map;
		/* Pairs with kv_rcu_dereference() by readers that meet a bucket that has moved. */
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
	return flat_slot_tag(slot) == tag_of(hash) && home_nr(hash, table->nr_homes) == home &&
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
		struct spot spot = { table, home, 0 };
		struct slot slot;

		for_each_slot(spot, slot)
			if (flat_slot_tag(slot) && !slot_is_sound(flat, slot, home, &nr_found))
				return -EUCLEAN;
	}
	for (u32 i = 0; i < map->entries->nr; i++)
		if (!entry_agrees(entry_at(flat, i), nr))
			return -EUCLEAN;
	return nr_found == *nr ? kv_aliases_check(map->aliases, map->entries) : -EUCLEAN;
}

/* ---- set-up ---- */

static int flat_create(const struct kv_map_attr *attr, struct kv_map **map)
{
	struct flat *flat = kv_alloc_lines(1, sizeof(*flat));

	if (!flat)
		return -ENOMEM;
	flat->map = (struct kv_map){ .ops = &kv_map_flat, .entries = attr->entries,
				      .prefix_closed = attr->prefix_closed };
	kv_lock_init(&flat->resize_lock, KV_RANK_TIER, 0);
	flat->table = flat_table_create(attr->entries, attr->nr_entries, attr->seed, 0);
	if (!flat->table)
		goto out_free;
	flat->table->map = &flat->map;
	if (trace_init(&flat->trace, attr->entries, attr->seed))
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
	kv_aliases_destroy(map->aliases);
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

static void flat_missed(const struct kv_map *map, const struct kv_query *query, u32 at)
{
	trace_miss(&container_of(map, const struct flat, map)->trace, query, at);
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
