/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the maps: how a name is hashed, large memory, why a match ended. */
#ifndef REGISTRY_INTERNAL_H
#define REGISTRY_INTERNAL_H

#include <kv/entry.h>
#include <kv/hash.h>
#include <kv/registry_feed.h>
#include <kv/registry_map.h>
#include <kv/registry_name.h>
#include <kvmm/event.h>

/*
 * Tests compile the maps with hashes that have 16 values, the same in each part of them:
 * everything collides, and only the comparison of names keeps blocks apart.
 */
#ifdef KV_MAP_4_BIT_HASH
#define weaken(hash)	(((hash) & 15) * 0x1111111111111111ull)
#else
#define weaken(hash)	(hash)
#endif

/* The seed for the keys of one domain: mixed once a call instead of once a key. */
static inline u64 domain_seed(u64 seed, u64 domain)
{
	return kv_mul_fold(seed ^ domain, ~seed * 0x9e3779b97f4a7c15ull ^ 0xe7037ed1a0b428dbull);
}

static inline u64 key_hash(const kvmm_key_t *key, u64 seed_of_domain)
{
	u64 hash = kv_hash_key(key, seed_of_domain);

	return weaken(hash);
}

static inline u64 entry_hash(const struct kv_entry *entry, u64 seed)
{
	kvmm_key_t key = kv_entry_key(entry);

	return key_hash(&key, domain_seed(seed, READ_ONCE(entry->domain)));
}

static inline u64 kv_entry_mix(const struct kv_entry *entry, u64 key_seed)
{
	u64 key[2] = { READ_ONCE(entry->key[0]), READ_ONCE(entry->key[1]) };

	return kv_mix_key(key, key_seed);
}

/* ---- memory.c: zeroed, in huge pages where it is large ---- */

void *registry_alloc(u64 bytes);
void registry_free(void *ptr, u64 bytes);

/* ---- trace.c: names that are there, and names that went ---- */

struct miss_row {
	u64 nr[KV_NR_MISSES];	/* kv_tally_add() */
} __cacheline_aligned;

struct trace_sets {
	u32 *word;		/* ours; atomic, and hints */
	u32 nr;			/* sets; fixed at creation */
};

struct trace {
	struct miss_row *missed;		/* ours; KV_TALLY_ROWS */
	const struct kv_entries *entries;	/* borrowed */
	struct trace_sets there[2];		/* of blocks; of added names: pages */
	u16 *gone;				/* behind those of blocks; words are atomic */

	/* Fixed at creation. */
	u64 key_seed;
	u32 index_mask;
	u32 nr_lines;				/* of @gone */
};

/* Keys are mixed by @key_seed, and hashed by no other one, for all domains. */
int trace_init(struct trace *trace, const struct kv_entries *entries, u64 key_seed);
void trace_exit(struct trace *trace);
/* In use: words of names that were never added are none. */
u64 trace_bytes(const struct trace *trace);

/* A key that is mixed so will be registered: asks for the line. */
void trace_expect(const struct trace *trace, u64 mix);
void trace_registered(const struct trace *trace, u64 mix, u32 index);
void trace_staged(const struct trace *trace, u32 index);
/* It is not registered under this name any more. */
void trace_left(const struct trace *trace, u64 mix, u32 index);
/* Soon no entry will have this name: asks for the line. Returns what trace_gone() is to be told. */
u64 trace_leave(const struct trace *trace, u64 mix, u64 domain);
void trace_gone(const struct trace *trace, u64 gone);
/* This entry's answer for the name; KV_MISS_NEVER: nothing. */
enum kv_miss trace_told_by(const struct kv_entry *entry, const u64 key[2], u64 domain);
/* A match of @query ended before key @at; counts why. @told: answers by others, a bit each. */
void trace_miss(const struct trace *trace, const struct kv_query *query, u32 at, u32 told);
u64 trace_nr_missed(const struct trace *trace, enum kv_miss why);

/* ---- batch.c: the maps' work on a batch before and after ---- */

/* All of them STAGED, no handle twice, all marked; or none that was not: -ESTALE, -EINVAL. */
int batch_mark(const struct kv_map *map, const struct kv_insert *insert);
void batch_unmark(const struct kv_map *map, const struct kv_insert *insert, u32 nr);

#endif /* REGISTRY_INTERNAL_H */
