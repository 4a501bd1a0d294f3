// SPDX-License-Identifier: Apache-2.0
/*
 * Added names: see kv/registry_alias.h.
 *
 * Chains grow at their end and are read without a lock. A record that has left its chain still
 * leads on to those behind it, so a reader that stands on it misses none that stays.
 */
#include <kv/err.h>
#include <kv/mem.h>
#include <kv/registry_alias.h>

#include "internal.h"

#define MIN_BUCKETS	8u

struct kv_aliases *kv_aliases_create(u32 nr_entries, u64 seed)
{
	struct kv_aliases *aliases = kv_alloc(sizeof(*aliases));

	if (!aliases)
		return NULL;
	aliases->nr_entries = nr_entries;
	aliases->nr_buckets = BIT(kv_order(max(nr_entries / 2, MIN_BUCKETS)));
	aliases->seed = seed;
	aliases->bucket = registry_alloc((u64)aliases->nr_buckets * sizeof(*aliases->bucket));
	aliases->first = registry_alloc((u64)nr_entries * sizeof(*aliases->first));
	if (aliases->bucket && aliases->first)
		return aliases;
	kv_aliases_destroy(aliases);
	return NULL;
}

void kv_aliases_destroy(struct kv_aliases *aliases)
{
	if (!aliases)
		return;
	for (u32 i = 0; aliases->first && i < aliases->nr_entries; i++) {
		struct kv_alias *alias = aliases->first[i], *more;

		for (; alias; alias = more) {
			more = alias->more;
			kv_free(alias);
		}
	}
	registry_free(aliases->bucket, (u64)aliases->nr_buckets * sizeof(*aliases->bucket));
	registry_free(aliases->first, (u64)aliases->nr_entries * sizeof(*aliases->first));
	kv_free(aliases);
}

u64 kv_aliases_bytes(const struct kv_aliases *aliases)
{
	if (!aliases)
		return 0;
	return sizeof(*aliases) + (u64)aliases->nr_buckets * sizeof(*aliases->bucket) +
	       (u64)aliases->nr_entries * sizeof(*aliases->first) +
	       (u64)READ_ONCE(aliases->nr) * sizeof(struct kv_alias);
}

/* ---- records ---- */

struct kv_alias *kv_alias_create(struct kv_handle handle, const kvmm_key_t *key,
				 kvmm_domain_t domain, u32 position)
{
	struct kv_alias *alias = kv_alloc(sizeof(*alias));

	if (!alias)
		return NULL;
	kv_key_words(key, alias->key);
	alias->domain = kv_domain_word(domain);
	alias->position = position;
	alias->handle = handle;
	return alias;
}

static void free_alias(struct kv_rcu_head *head)
{
	kv_free(container_of(head, struct kv_alias, rcu));
}

void kv_alias_free(struct kv_alias *alias)
{
	kv_rcu_defer(&alias->rcu, free_alias);
}

void kv_alias_give(struct kv_aliases *aliases, struct kv_alias *alias)
{
	struct kv_alias **at = &aliases->first[alias->handle.index];

	kv_assert(alias->handle.index < aliases->nr_entries);
	while (*at)
		at = &(*at)->more;
	*at = alias;
}

void kv_alias_take(struct kv_aliases *aliases, struct kv_alias *alias)
{
	struct kv_alias **at = &aliases->first[alias->handle.index];

	kv_assert(alias->handle.index < aliases->nr_entries);
	while (*at && *at != alias)
		at = &(*at)->more;
	if (!KV_BUG_ON(!*at))
		*at = alias->more;
	alias->more = NULL;
}

struct kv_alias *kv_alias_of(const struct kv_aliases *aliases, u32 index, const u64 key[2],
			     u64 domain)
{
	struct kv_alias *alias = kv_alias_first(aliases, index);

	while (alias && (alias->key[0] != key[0] || alias->key[1] != key[1] ||
			 alias->domain != domain))
		alias = alias->more;
	return alias;
}

/* ---- chains ---- */

static struct kv_alias **chain_of(const struct kv_aliases *aliases, const u64 key[2], u64 domain)
{
	kvmm_key_t name;
	u64 hash;

	memcpy(&name, key, sizeof(name));
	hash = key_hash(&name, domain_seed(aliases->seed, domain));
	return &aliases->bucket[hash & (aliases->nr_buckets - 1)];
}

void kv_alias_link(struct kv_aliases *aliases, struct kv_alias *alias)
{
	struct kv_alias **at = chain_of(aliases, alias->key, alias->domain);

	kv_assert(!alias->next);
	alias->serial = ++aliases->serial;
	while (*at)
		at = &(*at)->next;
	/* Pairs with first_like() and kv_alias_next(): the record is whole. */
	kv_rcu_assign(*at, alias);
	/* Pairs with readers that found nothing here: the name may leave its first place now. */
	smp_store_release(&aliases->version, aliases->version + 1);
	WRITE_ONCE(aliases->nr, aliases->nr + 1);
}

/* ->next stays as it was, for readers that stand on it. */
void kv_alias_unlink(struct kv_aliases *aliases, struct kv_alias *alias)
{
	struct kv_alias **at = chain_of(aliases, alias->key, alias->domain);

	kv_assert(aliases->nr);
	while (*at && *at != alias)
		at = &(*at)->next;
	if (KV_BUG_ON(!*at))
		return;
	/* Pairs with readers that find nothing: first the version, then the chain without it. */
	smp_store_release(&aliases->version, aliases->version + 1);
	kv_rcu_assign(*at, alias->next);
	WRITE_ONCE(aliases->nr, aliases->nr - 1);
}

/* From @alias on, the first of that name. */
static const struct kv_alias *first_like(const struct kv_alias *alias, const u64 key[2], u64 domain)
{
	while (alias && (alias->key[0] != key[0] || alias->key[1] != key[1] ||
			 alias->domain != domain))
		alias = kv_rcu_dereference(alias->next);
	return alias;
}

/* The word of its block, or 0: the block has gone, or is hidden. */
static u64 word_of(const struct kv_entries *entries, const struct kv_alias *alias)
{
	u64 word = smp_load_acquire(&entries->entry[alias->handle.index].word);

	kv_assert(alias->handle.index < entries->nr);
	return kv_word_gen(word) == alias->handle.gen && !(word & KV_ENTRY_HIDDEN) &&
	       (kv_word_is(word, KV_ENTRY_REGISTERED) || kv_word_is(word, KV_ENTRY_EVICTING)) ?
	       word : 0;
}

u32 kv_alias_find(const struct kv_aliases *aliases, struct kv_entries *entries, const u64 key[2],
		  u64 domain, bool take, u64 *word)
{
	const struct kv_alias *alias = kv_rcu_dereference(*chain_of(aliases, key, domain));

	kv_assert_reading();
	while ((alias = first_like(alias, key, domain))) {
		struct kv_entry *entry = &entries->entry[alias->handle.index];
		u64 old = word_of(entries, alias);

		/* The swap succeeds only on the very block that the record names. */
		while (kv_word_is(old, KV_ENTRY_REGISTERED)) {
			bool is_full = take && kv_word_refs(old) == KV_ENTRY_REFS;

			*word = old;
			if (unlikely(is_full)) {
				kv_entries_note_full(entries);
				break;
			}
			if (!take || likely(kv_cas(&entry->word, &old, old + KV_ENTRY_REF)))
				return alias->handle.index;
			old = word_of(entries, alias);
		}
		alias = kv_rcu_dereference(alias->next);
	}
	return KV_NONE;
}

bool kv_alias_visible(const struct kv_aliases *aliases, const struct kv_entries *entries,
		      const u64 key[2], u64 domain)
{
	const struct kv_alias *alias;

	if (likely(!aliases))
		return false;
	kv_assert_reading();
	alias = kv_rcu_dereference(*chain_of(aliases, key, domain));
	while ((alias = first_like(alias, key, domain)) && !word_of(entries, alias))
		alias = kv_rcu_dereference(alias->next);
	return alias;
}

const struct kv_alias *kv_alias_next(const struct kv_aliases *aliases,
				     const struct kv_entries *entries, u32 *at, u64 *serial)
{
	kv_assert_reading();
	for (; *at < aliases->nr_buckets; ++*at) {
		const struct kv_alias *alias = kv_rcu_dereference(aliases->bucket[*at]);

		while (alias && (alias->serial <= *serial || !word_of(entries, alias)))
			alias = kv_rcu_dereference(alias->next);
		if (alias) {
			*serial = alias->serial;
			return alias;
		}
		*serial = 0;
	}
	return NULL;
}

/* ---- check ---- */

int kv_aliases_check(const struct kv_aliases *aliases, const struct kv_entries *entries)
{
	u32 nr = 0;

	for (u32 i = 0; aliases && i < aliases->nr_entries; i++)
		for (const struct kv_alias *alias = aliases->first[i]; alias; alias = alias->more) {
			const struct kv_alias *at = *chain_of(aliases, alias->key, alias->domain);
			u64 word = entries->entry[i].word;

			while (at && at != alias && at->next && at->serial < at->next->serial)
				at = at->next;
			if (alias->handle.index != i || alias->handle.gen != kv_word_gen(word) ||
			    at != alias || alias->going ||
			    kv_alias_of(aliases, i, alias->key, alias->domain) != alias ||
			    (!kv_word_is(word, KV_ENTRY_REGISTERED) &&
			     !kv_word_is(word, KV_ENTRY_EVICTING)))
				return -EUCLEAN;
			nr++;
		}
	return aliases && nr != aliases->nr ? -EUCLEAN : 0;
}
