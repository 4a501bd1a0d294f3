/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Added names: names of registered blocks besides the one in their entry.
 *
 * Each is a record of its own, which never changes while it can be found: a reader that has found
 * one, in a read section, knows that the block had that name then. The reference that it takes is
 * by the handle in the record, so it is on that very block. A reader that finds nothing, while
 * ->version has changed, looks for the name once more, as first names and here: it may have moved
 * from one to the other.
 *
 * The table is made for the first name that is added. Its writers exclude each other, by the
 * pool's lock; names come and go while the map's lock for that name is held.
 */
#ifndef KV_REGISTRY_ALIAS_H
#define KV_REGISTRY_ALIAS_H

#include <kv/entry.h>
#include <kv/rcu.h>

struct kv_alias {
	/* Fixed. */
	u64 key[2];
	u64 domain;
	u32 position;
	struct kv_handle handle;	/* of the block */
	u64 serial;			/* ascending in each chain */

	struct kv_alias *next;		/* RCU; of this hash, oldest first */
	struct kv_alias *more;		/* writers; of this block, oldest first */
	bool going;			/* writers; the call under way removes it */
	struct kv_rcu_head rcu;
};

struct kv_aliases {
	/* Fixed at creation. */
	struct kv_alias **bucket;	/* ours; RCU */
	struct kv_alias **first;	/* ours; by entry; writers */
	u32 nr_buckets;			/* a power of two */
	u32 nr_entries;
	u64 seed;

	u32 version;			/* counts names that came or went; atomic */
	u32 nr;				/* atomic; names that can be found */
	u64 serial;			/* writers */
};

struct kv_aliases *kv_aliases_create(u32 nr_entries, u64 seed);
/* No other thread uses it, nor any record. Takes NULL. */
void kv_aliases_destroy(struct kv_aliases *aliases);
u64 kv_aliases_bytes(const struct kv_aliases *aliases);

/* A record, which no other thread has yet, or NULL. */
struct kv_alias *kv_alias_create(struct kv_handle handle, const kvmm_key_t *key,
				 kvmm_domain_t domain, u32 position);
/* Readers may have it still. */
void kv_alias_free(struct kv_alias *alias);

/* It is the block's, but not found yet; and no more. */
void kv_alias_give(struct kv_aliases *aliases, struct kv_alias *alias);
void kv_alias_take(struct kv_aliases *aliases, struct kv_alias *alias);
/* It is found; and no more. */
void kv_alias_link(struct kv_aliases *aliases, struct kv_alias *alias);
void kv_alias_unlink(struct kv_aliases *aliases, struct kv_alias *alias);

/* The block's added name like this, or NULL. By writers. */
struct kv_alias *kv_alias_of(const struct kv_aliases *aliases, u32 index, const u64 key[2],
			     u64 domain);
/* The oldest added name of the entry, or NULL; ->more has the next. Takes NULL. By writers. */
static inline struct kv_alias *kv_alias_first(const struct kv_aliases *aliases, u32 index)
{
	return likely(!aliases) ? NULL : aliases->first[index];
}

/*
 * The entry of the oldest block with that added name that can be had, or KV_NONE; with a reference
 * if @take. *@word: its word before. In a read section.
 */
u32 kv_alias_find(const struct kv_aliases *aliases, struct kv_entries *entries, const u64 key[2],
		  u64 domain, bool take, u64 *word);
/* Is there a block with that added name that is not hidden? Takes NULL. */
bool kv_alias_visible(const struct kv_aliases *aliases, const struct kv_entries *entries,
		      const u64 key[2], u64 domain);
/* The next of a block that is not hidden, in chain *@at after serial *@serial, or NULL at the end.
 * In a read section. */
const struct kv_alias *kv_alias_next(const struct kv_aliases *aliases,
				     const struct kv_entries *entries, u32 *at, u64 *serial);

/* 0 or -EUCLEAN. No other thread uses it. Takes NULL. */
int kv_aliases_check(const struct kv_aliases *aliases, const struct kv_entries *entries);

#endif /* KV_REGISTRY_ALIAS_H */
