// SPDX-License-Identifier: Apache-2.0
/*
 * The map over liburcu's lock-free hash table: the oracle of the flat one, and the choice where
 * nobody can say how many blocks there will be.
 *
 * Readers are as free as those of the flat map. Writers are not: who is the oldest of its name is
 * decided under one lock, because the table keeps blocks of one name in the order of their arrival
 * but has no way to tell the second one that it has become the first.
 *
 * A node is allocated for each block and freed after a grace period, so that no reader ever stands
 * on one that is used again. What a node says is hearsay, as anywhere: the entry decides.
 *
 * liburcu allocates by malloc() itself, and ends the process if it gets nothing while it grows its
 * table; the flat map does not.
 */
#include <kv/env.h>
#include <kv/err.h>
#include <kv/lock.h>
#include <kv/mem.h>
#include <kv/rcu.h>
#include <kv/registry_free.h>

#include <urcu/flavor.h>
#include <urcu/rculfhash.h>

#include "registry/internal.h"
#include "research/research.h"

struct node {
	struct cds_lfht_node link;	/* the table's */
	struct kv_rcu_head rcu;
	u32 index;			/* fixed while the node lives */
};

struct lfht {
	struct kv_map map;
	struct cds_lfht *table;		/* fixed pointer */
	u64 seed;			/* fixed at creation */
	struct trace trace;
	struct kv_lock lock;		/* writers */
	struct node **node;		/* ->lock; by entry, NULL: it is not in the map */
};

/* ---- what the table asks of our read-copy-update ---- */

static void read_lock(void)
{
	kv_rcu_read_lock();
}

static void read_unlock(void)
{
	kv_rcu_read_unlock();
}

static int read_ongoing(void)
{
	return 0;	/* it asks before it waits, and is called outside of sections */
}

static void do_nothing(void)
{
}

static const struct rcu_flavor_struct flavor = {
	.read_lock		= read_lock,
	.read_unlock		= read_unlock,
	.read_ongoing		= read_ongoing,
	.update_synchronize_rcu	= kv_rcu_synchronize,
	.thread_offline		= do_nothing,
	.thread_online		= do_nothing,
	.register_thread	= do_nothing,
	.unregister_thread	= do_nothing,
};

static struct lfht *lfht_of(struct kv_map *map)
{
	return container_of(map, struct lfht, map);
}

static struct kv_entry *entry_at(const struct lfht *lfht, u32 index)
{
	return &lfht->map.entries->entry[index];
}

static struct node *node_of(struct cds_lfht_iter *iter)
{
	struct cds_lfht_node *link = cds_lfht_iter_get_node(iter);

	return link ? container_of(link, struct node, link) : NULL;
}

/* ---- names ---- */

struct name {
	u64 key[2];
	u64 domain;
	u64 hash;
};

static struct name name_of(const struct lfht *lfht, const struct kv_query *query, u32 i)
{
	u64 domain = kv_domain_word(query->domain);
	struct name name = { .domain = domain };

	kv_key_words(&query->keys[i], name.key);
	name.hash = key_hash(&query->keys[i], domain_seed(lfht->seed, domain));
	return name;
}

static struct name name_of_entry(const struct lfht *lfht, const struct kv_entry *entry)
{
	return (struct name){
		.key	= { entry->key[0], entry->key[1] },
		.domain	= entry->domain,
		.hash	= entry_hash(entry, lfht->seed),
	};
}

/* What the table asks of each node with the right hash. It may be recycled under our eyes. */
struct sought {
	const struct lfht *lfht;
	const struct name *name;
};

static int node_matches(struct cds_lfht_node *link, const void *arg)
{
	const struct node *node = container_of(link, const struct node, link);
	const struct sought *sought = arg;

	/*
	 * Pairs with alloc_nodes(). liburcu orders this already, by the swap that adds the node; the
	 * pair is there for ThreadSanitizer, which does not see into liburcu.
	 */
	return kv_entry_has_name(entry_at(sought->lfht, smp_load_acquire(&node->index)),
				 sought->name->key, sought->name->domain);
}

/* First, then next node of this name, oldest first. In a read section. */
static struct node *first_node(const struct lfht *lfht, const struct name *name,
			       struct cds_lfht_iter *iter)
{
	struct sought sought = { lfht, name };

	cds_lfht_lookup(lfht->table, name->hash, node_matches, &sought, iter);
	return node_of(iter);
}

static struct node *next_node(const struct lfht *lfht, const struct name *name,
			      struct cds_lfht_iter *iter)
{
	struct sought sought = { lfht, name };

	cds_lfht_next_duplicate(lfht->table, node_matches, &sought, iter);
	return node_of(iter);
}

/* ---- readers ---- */

/* Take, or just look at, this entry if it is registered under this name; see try_take() of flat.c. */
static bool try_entry(const struct lfht *lfht, u32 index, const struct name *name, bool take,
		      u64 *word)
{
	struct kv_entry *entry = entry_at(lfht, index);
	u64 old = smp_load_acquire(&entry->word);

	do {
		if (!kv_word_is(old, KV_ENTRY_REGISTERED) || old & KV_ENTRY_HIDDEN ||
		    !kv_entry_has_name(entry, name->key, name->domain))
			return false;
		*word = old;
		if (!take)
			return kv_is_still(&entry->word, old, ~0ull << KV_ENTRY_STATE_SHIFT);
		if (unlikely(kv_word_refs(old) == KV_ENTRY_REFS)) {
			kv_entries_note_full(lfht->map.entries);
			return false;
		}
	} while (!kv_cas(&entry->word, &old, old + KV_ENTRY_REF));
	return true;
}

static bool find(const struct lfht *lfht, const struct name *name, bool take,
		 struct kv_handle *handle, u32 *nr_first)
{
	struct cds_lfht_iter iter;
	struct node *node;

	for (node = first_node(lfht, name, &iter); node; node = next_node(lfht, name, &iter)) {
		u32 index = READ_ONCE(node->index);
		u64 word;

		if (try_entry(lfht, index, name, take, &word)) {
			*handle = kv_handle_of(index, word);
			*nr_first += !kv_word_refs(word);
			return true;
		}
	}
	return false;
}

static bool is_there(const struct lfht *lfht, const struct kv_query *query, u32 i)
{
	struct name name = name_of(lfht, query, i);
	struct kv_handle handle;
	u32 nr_first = 0;

	return find(lfht, &name, false, &handle, &nr_first);
}

/* Keys before @lo are there, @hi is not: where the map is closed under prefixes. */
static u32 length_bisect(const struct lfht *lfht, const struct kv_query *query)
{
	u32 lo = 0, hi = query->nr;

	while (lo < hi) {
		u32 mid = lo + (hi - lo) / 2;

		if (is_there(lfht, query, mid))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static u32 lfht_lookup(struct kv_map *map, const struct kv_query *query, struct kv_lookup *out)
{
	struct kv_handle *handles = out->refs ? out->refs : out->weak;
	const struct lfht *lfht = lfht_of(map);
	u32 hits = 0;

	out->nr_first = 0;
	if (out->present)
		memset(out->present, 0, (query->nr + 63) / 64 * sizeof(*out->present));
	kv_rcu_read_lock();
	if (map->prefix_closed && !handles && !out->through)
		hits = length_bisect(lfht, query);
	else
		for (u32 i = 0; i < query->nr; i++) {
			struct name name = name_of(lfht, query, i);
			struct kv_handle handle = { 0 };
			bool hit = find(lfht, &name, out->refs, &handle, &out->nr_first);

			if (!hit && !out->through)
				break;
			if (handles)
				handles[i] = handle;
			if (out->present)
				out->present[i / 64] |= (u64)hit << i % 64;
			hits += hit;
		}
	kv_rcu_read_unlock();
	return hits;
}

/* ---- what is told: under the lock, when it is done ---- */

/* Can any block of this name be found? Blocks are hidden under the lock only. */
static bool name_visible(const struct lfht *lfht, const struct name *name)
{
	struct cds_lfht_iter iter;
	struct node *node;

	for (node = first_node(lfht, name, &iter); node; node = next_node(lfht, name, &iter))
		if (!(READ_ONCE(entry_at(lfht, node->index)->word) & KV_ENTRY_HIDDEN))
			return true;
	return false;
}

/* It cannot be found any more; are there others? */
static void tell_lost(struct lfht *lfht, u32 index, const struct name *name)
{
	struct kv_feed *feed = kv_feed_of(&lfht->map.feed);

	if (unlikely(feed))
		kv_feed_entry(feed, name_visible(lfht, name) ? KV_FEED_KEPT : KVMM_EVENT_REMOVED,
			      lfht->map.entries, index);
}

static void tell_stored(struct lfht *lfht, u32 index)
{
	struct kv_feed *feed = kv_feed_of(&lfht->map.feed);

	if (unlikely(feed))
		kv_feed_entry(feed, KVMM_EVENT_STORED, lfht->map.entries, index);
}

/* ---- insert ---- */

/* The first of this name that can be referenced; the reference is taken. */
static bool take_elder(struct lfht *lfht, const struct name *name, struct kv_insert *insert, u32 i)
{
	return find(lfht, name, true, &insert->found[i], &insert->nr_first);
}

static void link_node(struct lfht *lfht, struct kv_handle handle, const struct name *name,
		      bool is_dup)
{
	struct kv_entry *entry = entry_at(lfht, handle.index);
	int err = is_dup ? kv_entry_step(entry, handle.gen, kv_edge_publish_dup) :
			   kv_entry_step(entry, handle.gen, kv_edge_publish);

	KV_BUG_ON(err);
	WRITE_ONCE(entry->dup_prev, handle.index);
	cds_lfht_add(lfht->table, name->hash, &lfht->node[handle.index]->link);
}

static void drop_node(struct lfht *lfht, u32 index)
{
	kv_free(lfht->node[index]);
	lfht->node[index] = NULL;
}

/* Under the lock, in a read section; there is a node for it. */
static void insert_one(struct lfht *lfht, struct kv_insert *insert, u32 i)
{
	struct kv_handle handle = insert->handles[i];
	struct kv_entry *entry = entry_at(lfht, handle.index);
	struct name name = name_of_entry(lfht, entry);
	struct cds_lfht_iter iter;
	bool is_dup = first_node(lfht, &name, &iter), is_held, was_found;

	is_held = is_dup && insert->policy != KV_DUP_ALLOW && take_elder(lfht, &name, insert, i);
	was_found = is_held || (is_dup && name_visible(lfht, &name));
	insert->nr_dups += was_found;
	if (is_held && insert->policy == KV_DUP_REJECT) {
		drop_node(lfht, handle.index);
		/* From here on it may be taken away from its owner, and be somebody else's. */
		kv_entry_step(entry, handle.gen, kv_edge_unmark);
		return;
	}
	if (is_held)
		WRITE_ONCE(entry->link, insert->found[i].index);
	link_node(lfht, handle, &name, is_dup);
	insert->found[i] = handle;
	if (likely(!was_found))
		tell_stored(lfht, handle.index);
	trace_registered(&lfht->trace, kv_entry_mix(entry, lfht->trace.key_seed), handle.index);
}

static void free_nodes(struct lfht *lfht, const struct kv_insert *insert, u32 nr)
{
	while (nr--)
		drop_node(lfht, insert->handles[nr].index);
}

/* Before anything is done: a batch is all or nothing. The entries are ours, nobody else sets these. */
static int alloc_nodes(struct lfht *lfht, const struct kv_insert *insert)
{
	for (u32 i = 0; i < insert->nr; i++) {
		u32 index = insert->handles[i].index;
		struct node *node = kv_alloc(sizeof(*node));

		if (!node) {
			free_nodes(lfht, insert, i);
			return -ENOMEM;
		}
		cds_lfht_node_init(&node->link);
		/* Pairs with node_matches(). */
		smp_store_release(&node->index, index);
		lfht->node[index] = node;
	}
	return 0;
}

static int lfht_insert(struct kv_map *map, struct kv_insert *insert)
{
	struct lfht *lfht = lfht_of(map);
	int err;

	insert->nr_dups = 0;
	insert->nr_first = 0;
	err = batch_mark(map, insert);
	if (err)
		return err;
	err = alloc_nodes(lfht, insert);
	if (err) {
		batch_unmark(map, insert, insert->nr);
		return err;
	}
	kv_rcu_read_lock();
	kv_lock(&lfht->lock);
	for (u32 i = 0; i < insert->nr; i++)
		insert_one(lfht, insert, i);
	kv_unlock(&lfht->lock);
	kv_rcu_read_unlock();
	return 0;
}

static void lfht_staged(struct kv_map *map, const struct kv_handle *handles, u32 nr)
{
	struct lfht *lfht = lfht_of(map);

	for (u32 i = 0; i < nr; i++)
		if (handles[i].index < map->entries->nr)
			trace_staged(&lfht->trace, handles[i].index);
}

/* ---- remove ---- */

static void free_node(struct kv_rcu_head *head)
{
	kv_free(container_of(head, struct node, rcu));
}

/* The oldest left of this name is no duplicate any more. */
static void promote(struct lfht *lfht, u32 index)
{
	struct kv_entry *next = entry_at(lfht, index);

	KV_BUG_ON(kv_entry_step(next, kv_word_gen(READ_ONCE(next->word)), kv_edge_promote));
}

/* Under the lock, in a read section. */
static int remove_one(struct lfht *lfht, struct kv_handle handle)
{
	struct kv_entry *entry = entry_at(lfht, handle.index);
	u64 word = smp_load_acquire(&entry->word);
	struct node *node = lfht->node[handle.index], *next;
	u64 mix = kv_entry_mix(entry, lfht->trace.key_seed);
	struct cds_lfht_iter iter;
	struct name name;

	if (kv_word_gen(word) != handle.gen)
		return kv_handle_refuse(lfht->map.entries, kv_word_gen(word), handle.gen);
	if (!kv_word_is(word, KV_ENTRY_EVICTING))
		return -EINVAL;
	if (!node)
		return -ENOENT;
	name = name_of_entry(lfht, entry);
	KV_BUG_ON(cds_lfht_del(lfht->table, &node->link));
	lfht->node[handle.index] = NULL;
	kv_rcu_defer(&node->rcu, free_node);
	next = first_node(lfht, &name, &iter);
	if (next && !(word & KV_ENTRY_DUP))
		promote(lfht, next->index);
	WRITE_ONCE(entry->dup_prev, KV_NONE);
	WRITE_ONCE(entry->link, KV_NONE);
	if (likely(!(word & KV_ENTRY_HIDDEN)))
		tell_lost(lfht, handle.index, &name);
	trace_left(&lfht->trace, mix, handle.index);
	if (!next)
		trace_gone(&lfht->trace,
			   trace_leave(&lfht->trace, mix, READ_ONCE(entry->domain)));
	return 0;
}

/* Under the lock, in a read section. */
static int hide_one(struct lfht *lfht, struct kv_handle handle)
{
	struct kv_entry *entry = entry_at(lfht, handle.index);
	bool was_hidden = READ_ONCE(entry->word) & KV_ENTRY_HIDDEN;
	int err = kv_handle_step(lfht->map.entries, handle, kv_edge_hide);
	struct name name;

	if (err || was_hidden)
		return err;
	name = name_of_entry(lfht, entry);
	tell_lost(lfht, handle.index, &name);
	return 0;
}

static int lfht_hide(struct kv_map *map, struct kv_handle handle)
{
	struct lfht *lfht = lfht_of(map);
	int err;

	if (handle.index >= map->entries->nr)
		return -EINVAL;
	kv_rcu_read_lock();
	kv_lock(&lfht->lock);
	err = hide_one(lfht, handle);
	kv_unlock(&lfht->lock);
	kv_rcu_read_unlock();
	return err;
}

static int lfht_remove(struct kv_map *map, const struct kv_handle *handles, u32 *nr)
{
	struct lfht *lfht = lfht_of(map);
	u32 wanted = *nr;
	int err = 0;

	kv_rcu_read_lock();
	kv_lock(&lfht->lock);
	for (*nr = 0; *nr < wanted && !err; *nr += !err)
		err = handles[*nr].index < map->entries->nr ?
		      remove_one(lfht, handles[*nr]) : -EINVAL;
	kv_unlock(&lfht->lock);
	kv_rcu_read_unlock();
	return err;
}

/* ---- the rest ---- */

/* The seed stays: nodes cannot be hashed anew. Flooding is up to whoever picks this map. */
static int lfht_resize(struct kv_map *map, u32 nr_entries, u64 seed)
{
	cds_lfht_resize(lfht_of(map)->table, BIT(kv_order(max(nr_entries, 1u))));
	return 0;
}

/* The first of its name is no duplicate, all others are. */
static bool node_is_sound(const struct lfht *lfht, const struct node *node)
{
	const struct kv_entry *entry = entry_at(lfht, node->index);
	struct name name = name_of_entry(lfht, entry);
	struct cds_lfht_iter iter;
	struct node *first = first_node(lfht, &name, &iter), *seen = first;

	while (seen && seen != node)
		seen = next_node(lfht, &name, &iter);
	return seen && !(entry->word & KV_ENTRY_DUP) == (first == node);
}

static bool entry_is_sound(const struct lfht *lfht, u32 index, u32 *nr)
{
	const struct kv_entry *entry = entry_at(lfht, index);
	const struct node *node = lfht->node[index];
	bool is_registered = kv_word_is(entry->word, KV_ENTRY_REGISTERED);

	if (!node)
		return !is_registered &&
		       (kv_entry_is_new(entry) || entry->dup_prev == KV_NONE);
	++*nr;
	return node->index == index && entry->dup_prev == index &&
	       (is_registered || kv_word_is(entry->word, KV_ENTRY_EVICTING)) &&
	       node_is_sound(lfht, node);
}

static int lfht_check(struct kv_map *map, u32 *nr)
{
	struct lfht *lfht = lfht_of(map);
	unsigned long nr_nodes;
	long before, after;
	int err = 0;

	*nr = 0;
	kv_rcu_read_lock();
	for (u32 i = 0; i < map->entries->nr && !err; i++)
		err = entry_is_sound(lfht, i, nr) ? 0 : -EUCLEAN;
	cds_lfht_count_nodes(lfht->table, &before, &nr_nodes, &after);
	kv_rcu_read_unlock();
	return err || nr_nodes != *nr ? -EUCLEAN : 0;
}

static int lfht_create(const struct kv_map_attr *attr, struct kv_map **map)
{
	u32 nr_buckets = BIT(kv_order(max(attr->nr_entries, 1u)));
	struct lfht *lfht = kv_alloc_lines(1, sizeof(*lfht));

	if (!lfht)
		return -ENOMEM;
	lfht->map = (struct kv_map){ .ops = &kv_map_lfht, .entries = attr->entries,
				      .prefix_closed = attr->prefix_closed };
	lfht->seed = attr->seed;
	kv_lock_init(&lfht->lock, KV_RANK_BUCKET, 0);
	lfht->node = registry_alloc((u64)attr->entries->nr * sizeof(*lfht->node));
	if (!lfht->node)
		goto out_free;
	if (trace_init(&lfht->trace, attr->entries, attr->seed))
		goto out_free_nodes;
	lfht->table = _cds_lfht_new(nr_buckets, 1, 0, 0, NULL, &flavor, NULL);
	if (!lfht->table)
		goto out_exit_trace;
	*map = &lfht->map;
	return 0;

out_exit_trace:
	trace_exit(&lfht->trace);
out_free_nodes:
	registry_free(lfht->node, (u64)attr->entries->nr * sizeof(*lfht->node));
out_free:
	kv_free(lfht);
	return -ENOMEM;
}

static void lfht_destroy(struct kv_map *map)
{
	struct lfht *lfht;

	if (!map)
		return;
	lfht = lfht_of(map);
	kv_rcu_read_lock();
	for (u32 i = 0; i < map->entries->nr; i++)
		if (lfht->node[i])
			cds_lfht_del(lfht->table, &lfht->node[i]->link);
	kv_rcu_read_unlock();
	KV_BUG_ON(cds_lfht_destroy(lfht->table, NULL));
	kv_rcu_barrier();
	for (u32 i = 0; i < map->entries->nr; i++)
		kv_free(lfht->node[i]);
	trace_exit(&lfht->trace);
	registry_free(lfht->node, (u64)map->entries->nr * sizeof(*lfht->node));
	kv_free(lfht);
}

/* Without what liburcu holds: a bucket of 16 bytes for each entry asked for. */
static u64 lfht_bytes(const struct kv_map *map)
{
	const struct lfht *lfht = container_of(map, const struct lfht, map);

	return sizeof(*lfht) + map->entries->nr * sizeof(*lfht->node) + trace_bytes(&lfht->trace);
}

static void lfht_missed(const struct kv_map *map, const struct kv_query *query, u32 at)
{
	trace_miss(&container_of(map, const struct lfht, map)->trace, query, at, 0);
}

static u64 lfht_nr_missed(const struct kv_map *map, enum kv_miss why)
{
	return trace_nr_missed(&container_of(map, const struct lfht, map)->trace, why);
}

const struct kv_map_ops kv_map_lfht = {
	.name		= "lfht",
	.create		= lfht_create,
	.destroy	= lfht_destroy,
	.lookup		= lfht_lookup,
	.insert		= lfht_insert,
	.staged		= lfht_staged,
	.remove		= lfht_remove,
	.hide		= lfht_hide,
	.resize		= lfht_resize,
	.check		= lfht_check,
	.bytes		= lfht_bytes,
	.missed		= lfht_missed,
	.nr_missed	= lfht_nr_missed,
};
