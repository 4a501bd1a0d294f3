// SPDX-License-Identifier: Apache-2.0
/*
 * Why a name was not found.
 *
 * There: which entries of blocks are staged or registered, by key alone, for any domain. Sets of 16
 * words, a cache line each; a word stands in the first of its key's NR_CHOICES sets that had room:
 *
 *	31       30             0
 *	| staged | hash | index + 1 |
 *
 * The entry itself says its name and state, so no reason is guessed; the bits of the hash that the
 * index leaves room for spare a look at most others. Two thirds of the words are in use when all
 * entries are registered: the sets of two keys in a million are full then, and their entries are
 * left out. Staged entries that leave are not removed: a word with that mark makes room for others
 * once its entry is not staged under this name any more.
 *
 * Gone: the names that were removed last, in a ring of filters for a fourth as many names as there
 * are entries each. One filter is being filled and the next one emptied, line by line, so that the
 * others and the current one have at least as many names as there are entries. A name sets a bit in
 * each word of one cache line a filter; one not heard of finds them set once in 2,000 times.
 */
#include <kv/env.h>
#include <kv/err.h>
#include <kv/mem.h>
#include <kv/probe.h>
#include <kv/stat.h>

#include "internal.h"

#define NR_WAYS		16u
#define NR_CHOICES	4u
#define STAGED		BIT(31)		/* of a word, beside its index + 1 */

#define NR_FILTERS	6u		/* four are full, one is filled, one emptied */
#define LINE_BITS	512u
#define BITS_A_NAME	24u
#define LINE_NAMES	(LINE_BITS / BITS_A_NAME)
#define NR_BITS		(LINE_BITS / 64)	/* one in each word of a line */
#define BIT_BITS	6u		/* of a hash, for one of a word */

static u64 table_bytes(const struct trace *trace)
{
	return (u64)trace->nr_sets * NR_WAYS * sizeof(*trace->there) +
	       (u64)trace->nr_lines * NR_FILTERS * LINE_BITS / 8;
}

int trace_init(struct trace *trace, const struct kv_entries *entries, u64 seed)
{
	u32 quarter = max(entries->nr / 4 + !!(entries->nr % 4), 1u);

	*trace = (struct trace){
		.missed		= kv_alloc_lines(KV_TALLY_ROWS, sizeof(*trace->missed)),
		.entries	= entries,
		.seed		= ~seed,
		.index_mask	= BIT(kv_order(entries->nr + 1)) - 1,
		.nr_sets	= (u64)entries->nr * 3 / 2 / NR_WAYS + NR_CHOICES,
		.quarter	= quarter,
		.nr_lines	= (u64)quarter * BITS_A_NAME / LINE_BITS + 1,
	};
	if (!trace->missed)
		return -ENOMEM;
	trace->there = registry_alloc(table_bytes(trace));
	if (trace->there) {
		trace->gone = (u64 *)(trace->there + trace->nr_sets * NR_WAYS);
		return 0;
	}
	kv_free(trace->missed);
	return -ENOMEM;
}

u64 trace_bytes(const struct trace *trace)
{
	return table_bytes(trace) + KV_TALLY_ROWS * sizeof(*trace->missed);
}

void trace_exit(struct trace *trace)
{
	registry_free(trace->there, table_bytes(trace));
	kv_free(trace->missed);
}

static u64 hash_of(const struct trace *trace, const struct kv_entry *entry)
{
	kvmm_key_t key = kv_entry_key(entry);

	return kv_hash_key(&key, trace->seed);
}

/* ---- there ---- */

static u32 *set_of(const struct trace *trace, u64 hash, u32 choice)
{
	u32 part = hash >> 16 * choice | hash << (64 - 16 * choice) % 64;

	return &trace->there[((u64)part * trace->nr_sets >> 32) * NR_WAYS];
}

static u32 word_of(const struct trace *trace, u64 hash, u32 index)
{
	return ((u32)kv_mul_fold(hash, 0xd6e8feb86659fd93ull) & ~(trace->index_mask | STAGED)) |
	       (index + 1);
}

static bool may_be(const struct trace *trace, u32 word, u32 wanted)
{
	return word && !((word ^ wanted) & ~(trace->index_mask | STAGED));
}

static const struct kv_entry *entry_of(const struct trace *trace, u32 word)
{
	kv_assert((word & trace->index_mask) - 1 < trace->entries->nr);
	return &trace->entries->entry[(word & trace->index_mask) - 1];
}

/* And by the name that this word was made for. */
static bool is_staged(const struct trace *trace, u32 word)
{
	const struct kv_entry *entry = entry_of(trace, word);

	return kv_word_is(READ_ONCE(entry->word), KV_ENTRY_STAGED) &&
	       may_be(trace, word, word_of(trace, hash_of(trace, entry), 0));
}

/* Words begin anywhere, so that the first one looked at mostly is empty. */
static u32 *room_in(const struct trace *trace, u32 *set, u32 way)
{
	for (u32 i = 0; i < NR_WAYS; i++)
		if (!READ_ONCE(set[(way + i) % NR_WAYS]))
			return &set[(way + i) % NR_WAYS];
	for (u32 i = 0; i < NR_WAYS; i++) {
		u32 word = READ_ONCE(set[i]);

		if (word & STAGED && !is_staged(trace, word))
			return &set[i];
	}
	return NULL;
}

void trace_expect(const struct trace *trace, const kvmm_key_t *key)
{
	kv_prefetch_write(set_of(trace, kv_hash_key(key, trace->seed), 0));
}

u64 trace_arrive(const struct trace *trace, const struct kv_entry *entry)
{
	u64 hash = hash_of(trace, entry);

	kv_prefetch_write(set_of(trace, hash, 0));
	return hash;
}

/* Of two threads that find the same room one is left out: its index is a hint. */
static void add(const struct trace *trace, u64 hash, u32 word)
{
	u32 *room = NULL;

	for (u32 i = 0; i < NR_CHOICES && !room; i++)
		room = room_in(trace, set_of(trace, hash, i), hash);
	if (room)
		WRITE_ONCE(*room, word);
}

void trace_registered(const struct trace *trace, u64 hash, u32 index)
{
	add(trace, hash, word_of(trace, hash, index));
}

void trace_staged(const struct trace *trace, u32 index)
{
	u64 hash = hash_of(trace, &trace->entries->entry[index]);

	kv_assert(index < trace->entries->nr);
	add(trace, hash, word_of(trace, hash, index) | STAGED);
}

/* Looked for as room was: mostly it is the first one. */
static void del(const struct trace *trace, u64 hash, u32 word)
{
	for (u32 choice = 0; choice < NR_CHOICES; choice++) {
		u32 *set = set_of(trace, hash, choice);

		for (u32 i = 0; i < NR_WAYS; i++) {
			u32 *at = &set[((u32)hash + i) % NR_WAYS];

			if (READ_ONCE(*at) == word) {
				WRITE_ONCE(*at, 0);
				return;
			}
		}
	}
}

/* ---- gone ---- */

/* Lines of one number stand together: a look-up asks all filters. */
static u64 *line_of(const struct trace *trace, u64 line, u32 filter)
{
	kv_assert(line < trace->nr_lines && filter < NR_FILTERS);
	return &trace->gone[(line * NR_FILTERS + filter) * (LINE_BITS / 64)];
}

static u64 line_for(const struct trace *trace, u64 bits)
{
	return (u64)(u32)bits * trace->nr_lines >> 32;
}

static u64 name_bits(u64 hash, u64 domain)
{
	return kv_mul_fold(hash ^ 0xe7037ed1a0b428dbull, domain ^ 0xa0761d6478bd642full);
}

static void set_bits(u64 *line, u64 bits)
{
	bits = kv_mul_fold(bits, 0x9e3779b97f4a7c15ull);
#pragma GCC unroll 8
	for (u32 i = 0; i < NR_BITS; i++, bits >>= BIT_BITS)
		WRITE_ONCE(line[i], READ_ONCE(line[i]) | BIT64(bits % 64));
}

static bool has_bits(const u64 *line, u64 bits)
{
	u64 all = 1;

	bits = kv_mul_fold(bits, 0x9e3779b97f4a7c15ull);
	for (u32 i = 0; i < NR_BITS; i++, bits >>= BIT_BITS)
		all &= READ_ONCE(line[i]) >> bits % 64;
	return all;
}

/* A line of the next filter for each LINE_NAMES names: that is all of them, some twice. */
static void empty_next(const struct trace *trace, u32 nr, u32 filter)
{
	u64 *line;

	if (likely(nr % LINE_NAMES))
		return;
	line = line_of(trace, nr / LINE_NAMES % trace->nr_lines, filter);
	for (u32 word = 0; word < LINE_BITS / 64; word++)
		WRITE_ONCE(line[word], 0);
}

u64 trace_leave(const struct trace *trace, const struct kv_entry *entry)
{
	u64 hash = trace_arrive(trace, entry), bits = name_bits(hash, READ_ONCE(entry->domain));

	kv_prefetch_write(line_of(trace, line_for(trace, bits), READ_ONCE(trace->filter)));
	return hash;
}

void trace_removed(struct trace *trace, u64 hash, u32 index)
{
	u32 nr = READ_ONCE(trace->nr_gone), filter = READ_ONCE(trace->filter);
	u64 bits = name_bits(hash, READ_ONCE(trace->entries->entry[index].domain));

	kv_assert(nr < trace->quarter && filter < NR_FILTERS);
	if (!kv_name_is_added(trace->entries, index))
		del(trace, hash, word_of(trace, hash, index));
	set_bits(line_of(trace, line_for(trace, bits), filter), bits);
	empty_next(trace, nr, (filter + 1) % NR_FILTERS);
	if (++nr == trace->quarter) {
		WRITE_ONCE(trace->filter, (filter + 1) % NR_FILTERS);
		nr = 0;
	}
	WRITE_ONCE(trace->nr_gone, nr);
}

/* ---- reasons ---- */

static_assert(KV_EV_MISS_GROUP - KV_EV_MISS_NEVER == KV_MISS_GROUP, "events in the same order");

/* This entry's answer for the name; KV_MISS_NEVER: nothing. */
static enum kv_miss told_by(const struct kv_entry *entry, const u64 key[2], u64 domain)
{
	u64 word = smp_load_acquire(&entry->word), other = READ_ONCE(entry->domain);

	if (!kv_entry_has_name(entry, key, other))
		return KV_MISS_NEVER;
	if (kv_word_is(word, KV_ENTRY_STAGED))
		return other == domain ? KV_MISS_STAGED : KV_MISS_NEVER;
	if (!kv_word_is(word, KV_ENTRY_REGISTERED))
		return KV_MISS_NEVER;
	if (other == domain)	/* hidden by now, no room for a reference, or registered since */
		return word & KV_ENTRY_HIDDEN || (word & KV_ENTRY_REFS) == KV_ENTRY_REFS ?
		       KV_MISS_EVICTED : KV_MISS_STAGED;
	return (u32)other == (u32)domain ? KV_MISS_GROUP : KV_MISS_TENANT;
}

static enum kv_miss reason(const struct trace *trace, const kvmm_key_t *key, u64 domain)
{
	static const u8 sure[] = { KV_MISS_STAGED, KV_MISS_EVICTED, KV_MISS_GROUP, KV_MISS_TENANT };
	u64 hash = kv_hash_key(key, trace->seed), half[2];
	u32 wanted = word_of(trace, hash, 0), told = 0;
	u64 bits = name_bits(hash, domain), line = line_for(trace, bits);

	kv_key_words(key, half);
	for (u32 i = 0; i < NR_CHOICES; i++)
		kv_prefetch(set_of(trace, hash, i));
	for (u32 i = 0; i < NR_CHOICES * NR_WAYS; i++) {
		u32 word = READ_ONCE(set_of(trace, hash, i / NR_WAYS)[i % NR_WAYS]);

		if (may_be(trace, word, wanted))
			told |= BIT(told_by(entry_of(trace, word), half, domain));
	}
	for (u32 i = 0; i < ARRAY_SIZE(sure); i++)
		if (told & BIT(sure[i]))
			return sure[i];
	for (u32 i = 0; i < NR_FILTERS; i++)
		if (has_bits(line_of(trace, line, i), bits))
			return KV_MISS_EVICTED;
	return KV_MISS_NEVER;
}

void trace_miss(const struct trace *trace, const struct kv_query *query, u32 at)
{
	enum kv_miss why = reason(trace, &query->keys[at], kv_domain_word(query->domain));

	kv_fetch_add(&trace->missed[kv_tally_row()].nr[why], 1);
	kv_count(KV_EV_MISS_NEVER + why);
	kv_probe2(miss, (u32)why, at);
}

u64 trace_nr_missed(const struct trace *trace, enum kv_miss why)
{
	u64 sum = 0;

	for (u32 i = 0; i < KV_TALLY_ROWS; i++)
		sum += READ_ONCE(trace->missed[i].nr[why]);
	return sum;
}
