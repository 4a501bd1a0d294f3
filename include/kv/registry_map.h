/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps: from a name (key, tenant, layout, group) to the entry of the block that has it.
 *
 * Readers take no lock and write nothing but the reference that they ask for. The entry's word and
 * the name in it decide what they find, never the map: a map that lags can make a reader look
 * again, it cannot make it take the wrong block.
 *
 * Guarantees, each with its test in tests/registry/flat_test.c and tests/stress/:
 *
 *  1. A block is found from the return of insert() until an evictor claims it, under any load of
 *     insertions, removals, and resizes.
 *  2. Of several blocks of one name the oldest that is still registered is found.
 *  3. A block found had the name asked for, in all of its parts, when the reference was taken.
 *  4. insert() takes all blocks or none.
 *  5. Looking for names that are not there leaves memory as it was.
 */
#ifndef KV_REGISTRY_MAP_H
#define KV_REGISTRY_MAP_H

#include <kv/entry.h>
#include <kv/types.h>

struct kv_feed;
struct kv_map;

/* The fate of a block with a name that is taken. */
enum kv_dup_policy {
	KV_DUP_ALLOW,		/* registered as well, to be found when its elders are gone */
	KV_DUP_HOLD,		/* the same, with a reference on the one found; see ->link */
	KV_DUP_REJECT,		/* stays STAGED; a reference on the one that is found instead */
	KV_NR_DUP_POLICIES,
};

/* Why a match ended before the end of its keys, as far as it is known. */
enum kv_miss {
	KV_MISS_NEVER,		/* a name not heard of (lately) */
	KV_MISS_EVICTED,	/* one that was registered once */
	KV_MISS_STAGED,		/* one that is about to be */
	KV_MISS_TENANT,		/* the key is another tenant's */
	KV_MISS_GROUP,		/* another group's, or of another layout */
	KV_NR_MISSES,
};

/**
 * struct kv_query - the names of a prompt's blocks
 * @keys: first to last
 * @nr: how many
 * @domain: of all of them
 */
struct kv_query {
	const kvmm_key_t *keys;
	u32 nr;
	kvmm_domain_t domain;
};

/**
 * struct kv_lookup - how the names of a query are looked for, and what was found
 * @refs: NULL, or room for all: a reference on each block that is found, *taken* by the caller;
 *	with @through ->gen is 0 where there is none
 * @weak: NULL, or without @refs: the same handles without references
 * @present: NULL, or with @through and without @refs: bit i % 64 of @present[i / 64] says whether
 *	key i is there
 * @through: all keys; else up to the first one that is not there
 * @nr_first: out, with @refs: how many blocks had no reference before
 */
struct kv_lookup {
	struct kv_handle *refs;
	struct kv_handle *weak;
	u64 *present;
	bool through;
	u32 nr_first;
};

/**
 * struct kv_insert - blocks to be registered
 * @handles: STAGED, the caller's; each once
 * @nr: how many
 * @policy: enum kv_dup_policy
 * @is_marked: the caller has checked and marked them, in this read section; not so after an error
 * @found: out: the block that serves the name now: the same handle, or with KV_DUP_REJECT that of
 *	an elder, with a reference. May be @handles, if nothing is rejected. Where KV_DUP_HOLD took
 *	a reference the block's ->link leads to the name by which it was found
 * @nr_dups: out: blocks with a name that was taken
 * @nr_first: out: references taken on elders that had none (KV_DUP_HOLD, KV_DUP_REJECT)
 */
struct kv_insert {
	const struct kv_handle *handles;
	u32 nr;
	enum kv_dup_policy policy;
	bool is_marked;
	struct kv_handle *found;
	u32 nr_dups;
	u32 nr_first;
};

/**
 * struct kv_map_attr - a map to be made
 * @entries: the blocks that are registered; borrowed, outlives the map
 * @nr_entries: names expected
 * @seed: secret; where a name goes cannot be told without it
 * @prefix_closed: the user registers a block only after the one before it, and evicts it
 *	first: lengths may be found by bisection
 */
struct kv_map_attr {
	struct kv_entries *entries;
	u32 nr_entries;
	u64 seed;
	bool prefix_closed;
};

/**
 * struct kv_name_ops - names that change while their blocks are held
 *
 * Callers exclude each other, remove() and hide(), and are in no read section.
 *
 * Names are told by their entries: that of the block is its first one, those of kv_name_take() are
 * added ones.
 *
 * @link: a name that is out is in the map, as the youngest, unless its block is HIDDEN
 * @unlink: one that is in the map is out, and marked. A grace period later that of a block may be
 *	written
 * @find: the entry of this block by its name, or KV_NONE; of @wanted key and domain are looked at
 * @holders: references that duplicates have on its block by that name (KV_DUP_HOLD)
 * @release: of one that is out, a grace period after @unlink: those are the caller's now. Returns
 *	how many
 * @swap: the block's first name, which is out, was written anew, as this added one: it takes its
 *	place, and the added one is out. In between the block is found all the time
 */
struct kv_name_ops {
	void (*link)(struct kv_map *map, u32 name);
	void (*unlink)(struct kv_map *map, u32 name);
	u32 (*find)(struct kv_map *map, u32 block, const struct kv_entry *wanted);
	u32 (*holders)(struct kv_map *map, u32 name);
	u32 (*release)(struct kv_map *map, u32 name);
	void (*swap)(struct kv_map *map, u32 name);
};

/**
 * struct kv_map_ops - one kind of map
 *
 * All but create, destroy, resize and check may be called by any thread at any time.
 *
 * @name: for the log
 * @create: 0 or -ENOMEM
 * @destroy: it has no user any more. May wait for a grace period
 * @lookup: the one way to read: how many keys were found, of all or in the longest prefix. Each
 *	is an answer of a moment of its own, between call and return
 * @expect: the first of these names are about to be inserted: ask for their memory. Changes
 *	nothing; may be NULL
 * @insert: STAGED -> REGISTERED. 0; -ENOMEM, -ESTALE, -EINVAL: nothing was registered
 * @staged: these blocks are STAGED: misses of their names are counted as such. A hint
 * @remove: forget EVICTING blocks, with all names. 0; -ENOENT, -ESTALE, -EINVAL: those before *@nr
 *	are gone
 * @hide: forget the names of a block that is held, or being moved: it is marked, and no look-up
 *	finds it. 0; -EBUSY, -ESTALE, -EINVAL: as kv_edge_hide()
 * @resize: make it fit for so many names, and for those of all blocks in any case, and choose
 *	another seed. All threads go on meanwhile. One at a time. 0 or -ENOMEM. The memory of before
 *	is free after kv_rcu_barrier()
 * @check: 0 or -EUCLEAN; *@nr: entries in it. No other thread uses it
 * @bytes: memory held
 * @missed: a match of this query ended before key @at, and is to be counted
 * @nr_missed: of those, by reason
 * @names: NULL: blocks keep the one name that they were registered with
 */
struct kv_map_ops {
	const char *name;
	int (*create)(const struct kv_map_attr *attr, struct kv_map **map);
	void (*destroy)(struct kv_map *map);
	u32 (*lookup)(struct kv_map *map, const struct kv_query *query, struct kv_lookup *lookup);
	int (*insert)(struct kv_map *map, struct kv_insert *insert);
	void (*expect)(struct kv_map *map, const struct kv_query *query);
	void (*staged)(struct kv_map *map, const struct kv_handle *handles, u32 nr);
	int (*remove)(struct kv_map *map, const struct kv_handle *handles, u32 *nr);
	int (*hide)(struct kv_map *map, struct kv_handle handle);
	int (*resize)(struct kv_map *map, u32 nr_entries, u64 seed);
	int (*check)(struct kv_map *map, u32 *nr);
	u64 (*bytes)(const struct kv_map *map);
	void (*missed)(const struct kv_map *map, const struct kv_query *query, u32 at);
	u64 (*nr_missed)(const struct kv_map *map, enum kv_miss why);
	const struct kv_name_ops *names;
};

/* The part that all kinds share; first in theirs. */
struct kv_map {
	const struct kv_map_ops *ops;	/* fixed at creation */
	struct kv_entries *entries;	/* fixed at creation; borrowed */
	bool prefix_closed;		/* fixed at creation */
	u32 nr_fit;			/* callers of resize(); names that it is made for */
	struct kv_feed *feed;	/* atomic; the listener, fixed once it is there; see kv_feed_of() */
};

/* Length of the longest prefix that is there; no reference is taken. */
static inline u32 kv_map_length(struct kv_map *map, const struct kv_query *query)
{
	return map->ops->lookup(map, query, &(struct kv_lookup){ .refs = NULL });
}

extern const struct kv_map_ops kv_map_flat;	/* the default */

/* The kind of this name, or NULL. No name: the default. */
const struct kv_map_ops *kv_map_find(const char *name);

/* One more kind to choose by name. Before the first pool is made: the table has no lock. */
void kv_map_add(const struct kv_map_ops *ops);

#endif /* KV_REGISTRY_MAP_H */
