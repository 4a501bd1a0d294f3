/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of the flat map: buckets of one cache line, and their writers' steps.
 *
 *	0        8        12    16     20                                  64
 *	| 8 tags | 3 tags | seq | next | index 0 | index 1 | ... | index 10 |
 *
 * A tag is 8 bits of the hash, and not 0; a slot without tag is free, and its index is 0. A slot
 * has the oldest entry of its name, a block's or an added one; younger ones hang on that through
 * ->dup_next. A bucket that
 * is full goes on in overflow buckets. While there are any, no slot before the last one of the
 * chain is free: so there can never be more of them than entries / NR_SLOTS, and that many are
 * there from the start.
 *
 * ->seq is the bucket's lock and its version, odd while it is held; the home bucket's is for the
 * whole chain. Writers hold it; readers look again if it has changed and they found nothing.
 *
 * While a table is being replaced, its buckets move to ->successor one by one. One that has moved
 * says so in ->next. It is not cleared: the entries that its slots name are still there, and say
 * their names themselves. So readers look in the successor only for names that they do not find.
 */
#ifndef REGISTRY_FLAT_H
#define REGISTRY_FLAT_H

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <kv/lock.h>
#include <kv/rcu.h>

#include "internal.h"

#define NR_SLOTS	11u
#define LOW_TAGS	8u
#define NEXT_MOVED	KV_NONE		/* in bucket.next: see table.successor */

struct bucket {
	u64 tags;		/* seq lock; READ_ONCE() by readers, as is all of it */
	u32 tags_hi;		/* three, and a byte that is 0 */
	u32 seq;		/* atomic; of the home bucket only */
	u32 next;		/* index of an overflow bucket, 0 = none, or NEXT_MOVED */
	u32 index[NR_SLOTS];
} __cacheline_aligned;

static_assert(sizeof(struct bucket) == KV_CACHELINE, "a bucket is one line");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ &&
	      offsetof(struct bucket, tags_hi) == LOW_TAGS,
	      "a tag is the byte with the number of its slot");

struct table {
	/* Fixed at creation. */
	struct bucket *bucket;		/* homes, then overflow; ours */
	u32 nr_homes;
	u32 nr_buckets;
	u64 seed;		/* mixed with each domain */
	u64 key_seed;		/* the map's: keys are mixed by that; see kv_mix_key() */
	struct kv_lock rank;	/* never taken: stands for all bucket locks; ->id counts up */
	struct kv_entries *entries;	/* borrowed */

	struct table *successor;	/* RCU; NULL but while this one is being replaced */
	struct kv_rcu_head rcu;

	/* Overflow buckets; rare. */
	struct kv_lock over_lock __cacheline_aligned;
	u32 free_over;			/* ->over_lock; list through bucket.next; 0 = empty */
	u32 top_over;			/* ->over_lock; from here on never used */
};

#define NR_KNOWN	8u

struct flat {
	struct kv_map map;
	u64 known[NR_KNOWN];	/* domains, inverted, as they came; atomic, each written once */
	struct table *table;		/* RCU; written under ->resize_lock */
	struct kv_entry *entry;		/* ->map.entries' */
	struct trace trace;
	struct kv_lock resize_lock;
};

static inline struct flat *flat_of(struct kv_map *map)
{
	return container_of(map, struct flat, map);
}

/* What it says of a domain it says for ever: none is taken out. */
bool flat_learns(struct flat *flat, u64 domain);

/*
 * Is it one of the domains that came first? A miss asks for its key in each of them; only
 * names of the other domains are in the trace.
 */
static __always_inline bool flat_knows(struct flat *flat, u64 domain)
{
	return likely(READ_ONCE(flat->known[0]) == ~domain) || flat_learns(flat, domain);
}

/* Where something is, or could be. */
struct spot {
	struct table *table;
	struct bucket *home;
	u8 tag;
};

/* A block that was found: its entry, and the word before a reference was taken. */
struct found {
	u64 word;
	u32 index;
};

static inline bool found_is_first(struct found found)
{
	return !kv_word_refs(found.word);
}

struct slot {
	struct bucket *bucket;		/* NULL: there is none */
	u32 nr;
};

struct table *flat_table_create(struct kv_entries *entries, u32 nr_entries, u64 seed, u64 key_seed,
				u32 number);
void flat_table_destroy(struct table *table);
u64 flat_table_bytes(const struct table *table);

static inline u8 tag_of(u64 hash)
{
	u8 tag = hash >> 56;

	return tag ? tag : 1;
}

/* High product of the hash's lower half: any number of homes, no division. */
static inline u32 home_nr(u64 hash, u32 nr_homes)
{
	return ((hash & 0xffffffffu) * nr_homes) >> 32;
}

static inline struct spot spot_of(struct table *table, u64 hash)
{
	return (struct spot){ table, &table->bucket[home_nr(hash, table->nr_homes)], tag_of(hash) };
}

/* Where a mixed key belongs; @seed: domain_seed() of the table. */
static inline u64 mix_hash(u64 mix, u64 seed)
{
	return weaken(kv_hash_mix(mix, seed));
}

static inline u64 table_hash(const struct table *table, const struct kv_entry *entry)
{
	return mix_hash(kv_entry_mix(entry, table->key_seed),
			domain_seed(table->seed, READ_ONCE(entry->domain)));
}

/* The next of the chain, or NULL. */
static inline struct bucket *next_of(const struct table *table, const struct bucket *bucket)
{
	u32 next = READ_ONCE(bucket->next);

	return next && next < table->nr_buckets ? &table->bucket[next] : NULL;
}

/* ---- tags ---- */

#define EACH_BYTE	0x0101010101010101ull
#define EACH_BYTE_32	0x01010101u

/* The highest bit of each byte that equals @tag, and of no other. */
static inline u64 bytes_equal(u64 bytes, u8 tag)
{
	u64 diff = bytes ^ tag * EACH_BYTE, low = EACH_BYTE * 0x7f;

	return ~(((diff & low) + low) | diff | low);
}

/* The highest bits of eight bytes, side by side. */
static inline u32 high_bits(u64 bytes)
{
	return (bytes >> 7 & EACH_BYTE) * 0x0102040810204080ull >> 56;
}

/* The slots that have @tag, a bit each. */
static inline u32 slots_with_tag_words(const struct bucket *bucket, u8 tag)
{
	u64 low = bytes_equal(READ_ONCE(bucket->tags), tag);
	u64 high = bytes_equal(READ_ONCE(bucket->tags_hi), tag);

	return (high_bits(low) | high_bits(high) << LOW_TAGS) & (BIT(NR_SLOTS) - 1);
}

/*
 * A slot that has the tag in each byte of @tags, or some slot; without a branch. The byte above one
 * that has the tag may pass for another.
 */
static __always_inline u32 slot_like_tag_words(const struct bucket *bucket, u64 tags)
{
	u64 low = READ_ONCE(bucket->tags) ^ tags, equal;
	u32 high = READ_ONCE(bucket->tags_hi) ^ (u32)tags, bit;

	low = (low - EACH_BYTE) & ~low & (EACH_BYTE << 7);
	high = (high - EACH_BYTE_32) & ~high & 0x808080;
	/* Bit 8 * nr for lower slots, one more for upper ones; the last lower one if none. */
	equal = low >> 7 | high >> 6 | 1ull << 8 * (LOW_TAGS - 1);
	bit = kv_lowest64(equal);
	return bit / 8 + bit % 2 * LOW_TAGS;
}

/* The same, 0.7 ns faster where the processor can compare 16 bytes at once. */
#ifdef __SSE2__
static __always_inline u32 bytes_like_tag(const struct bucket *bucket, __m128i tags)
{
	__m128i have = _mm_set_epi64x(READ_ONCE(bucket->tags_hi), READ_ONCE(bucket->tags));

	return _mm_movemask_epi8(_mm_cmpeq_epi8(have, tags));
}

static __always_inline u32 slot_like_tag(const struct bucket *bucket, u64 tags)
{
	/* No tag is 0, as the upper bytes are; the last slot if there is none. */
	return kv_lowest64(bytes_like_tag(bucket, _mm_set1_epi64x(tags)) | BIT64(NR_SLOTS - 1));
}

static __always_inline u32 slots_with_tag(const struct bucket *bucket, u8 tag)
{
	return bytes_like_tag(bucket, _mm_set1_epi8(tag)) & (BIT(NR_SLOTS) - 1);
}
#else
#define slot_like_tag	slot_like_tag_words
#define slots_with_tag	slots_with_tag_words
#endif

/* Each slot of a bucket that has @tag. */
#define for_each_tagged(bucket, tag, nr)						\
	for (u32 __slots = slots_with_tag(bucket, tag), nr;				\
	     __slots && ((nr) = kv_lowest64(__slots), true); __slots &= __slots - 1)

/* ---- the lock of the home bucket ---- */

void flat_lock_slow(struct bucket *home);

/* Debug builds check the order of locks; those of a table count as one. At most two are held. */
#ifdef KVMM_DEBUG
void flat_rank_acquire(const struct table *table);
void flat_rank_release(const struct table *table);
#else
static inline void flat_rank_acquire(const struct table *table) {}
static inline void flat_rank_release(const struct table *table) {}
#endif

static inline void spot_lock(struct spot spot)
{
	flat_rank_acquire(spot.table);
	/* Pairs with spot_unlock(): the writes of this chain's last writer are visible. */
	if (unlikely(!kv_seq_trylock(&spot.home->seq)))
		flat_lock_slow(spot.home);
}

static inline void spot_unlock(struct spot spot)
{
	flat_rank_release(spot.table);
	/* Pairs with kv_seq_read_begin() of readers and kv_seq_trylock() of writers. */
	kv_seq_unlock(&spot.home->seq);
}

/* ---- under it ---- */

#define kv_assert_spot_held(spot)	kv_assert(READ_ONCE((spot).home->seq) & 1)

/* The slot of @entry's name in this bucket and those behind it, or none. */
struct slot flat_slot_find_from(struct spot spot, struct bucket *bucket,
				const struct kv_entry *entry);
void flat_slot_add_behind(struct spot spot, u32 index);
void flat_slot_del_behind(struct spot spot, struct slot slot);

/* Each slot of the chain, last ones too; @next_bucket is for the macro. */
#define for_each_slot(spot, slot)							\
	for ((slot) = (struct slot){ (spot).home, 0 }; (slot).bucket;			\
	     (slot) = (slot).nr + 1 < NR_SLOTS ?					\
		      (struct slot){ (slot).bucket, (slot).nr + 1 } :			\
		      (struct slot){ next_of((spot).table, (slot).bucket), 0 })

u8 flat_slot_tag(struct slot slot);

static inline void slot_set_tag(struct slot slot, u8 tag)
{
	u8 *tags = (u8 *)&slot.bucket->tags;

	kv_assert(slot.nr < NR_SLOTS);
	WRITE_ONCE(tags[slot.nr], tag);
}

static inline u32 slot_index(struct slot slot)
{
	return READ_ONCE(slot.bucket->index[slot.nr]);
}

static inline void slot_set_index(struct slot slot, u32 index)
{
	WRITE_ONCE(slot.bucket->index[slot.nr], index);
}

static inline void slot_clear(struct slot slot)
{
	slot_set_tag(slot, 0);
	slot_set_index(slot, 0);
}

/* Mostly the chain is the home bucket alone. The slot of @entry's name, or none. */
static __always_inline struct slot slot_find(struct spot spot, const struct kv_entry *entry)
{
	const struct kv_entry *entries = spot.table->entries->entry;
	struct bucket *home = spot.home;

	kv_assert_spot_held(spot);
	for_each_tagged(home, spot.tag, nr)
		if (likely(kv_entry_has_name(&entries[home->index[nr]], entry->key,
					     entry->domain)))
			return (struct slot){ home, nr };
	if (likely(!home->next))
		return (struct slot){ NULL, 0 };
	return flat_slot_find_from(spot, next_of(spot.table, home), entry);
}

/* The slot with this index in the home bucket, or none. */
static __always_inline struct slot slot_find_index(struct spot spot, u32 index)
{
	struct bucket *home = spot.home;

	for_each_tagged(home, spot.tag, nr)
		if (likely(home->index[nr] == index))
			return (struct slot){ home, nr };
	return (struct slot){ NULL, 0 };
}

/* One more slot with this index. The name is not there. */
static __always_inline void slot_add(struct spot spot, u32 index)
{
	struct bucket *home = spot.home;
	u32 free = slots_with_tag(home, 0);

	kv_assert_spot_held(spot);
	kv_assert(spot.tag && index < spot.table->entries->nr_all);
	if (likely(free)) {
		struct slot slot = { home, kv_lowest64(free) };

		slot_set_index(slot, index);
		slot_set_tag(slot, spot.tag);
	} else {
		flat_slot_add_behind(spot, index);
	}
}

/* Free this slot, and keep the chain dense. */
static __always_inline void slot_del(struct spot spot, struct slot slot)
{
	kv_assert_spot_held(spot);
	kv_assert(flat_slot_tag(slot) == spot.tag);
	if (likely(!spot.home->next))
		slot_clear(slot);
	else
		flat_slot_del_behind(spot, slot);
}

/* ---- flat_find.c ---- */

u32 flat_lookup(struct kv_map *map, const struct kv_query *query, struct kv_lookup *lookup);
void flat_missed(const struct kv_map *map, const struct kv_query *query, u32 at);

/* ---- check ---- */

/* Structure only; *@nr grows by the slots in use. No thread writes meanwhile. */
bool flat_table_is_sound(const struct table *table, u32 *nr);

#endif /* REGISTRY_FLAT_H */
