// SPDX-License-Identifier: Apache-2.0
/*
 * Why a name was not found.
 *
 * There: which entries are staged, registered, or added names, by key alone, for any domain; but
 * for those that the map finds itself. Sets of 16 words, a cache line each; added names have their
 * own, in pages that are no memory until they are used. A word stands in the first of its key's
 * NR_CHOICES sets that had room:
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
 * Gone: 16 bits of each of the names that were removed last, in lines of LINE_NAMES: a new one
 * takes the place of the oldest of its line. There is room for 2.4 times as many as there are
 * entries, so that of the last so many one in a million has lost its place. A name not heard of is
 * found once in 2,000 times.
 */
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <kv/env.h>
#include <kv/err.h>
#include <kv/mem.h>
#include <kv/probe.h>
#include <kv/stat.h>
#include <kv/sys.h>

#include "internal.h"

#define NR_WAYS		16u
#define NR_CHOICES	4u
#define SET_BYTES	(NR_WAYS * sizeof(u32))
#define STAGED		BIT(31)		/* of a word, beside its index + 1 */

#define LINE_NAMES	31u
#define LINE_BYTES	(sizeof(u16) * (1 + LINE_NAMES))	/* where the next goes, and names */
#define BYTES_AN_ENTRY	5u

static u32 sets_for(u32 nr)
{
	return (u64)nr * 3 / 2 / NR_WAYS + NR_CHOICES;
}

static u64 blocks_bytes(const struct trace *trace)
{
	return (u64)trace->there[0].nr * SET_BYTES + (u64)trace->nr_lines * LINE_BYTES;
}

static u64 names_bytes(const struct trace *trace)
{
	return (u64)trace->there[1].nr * SET_BYTES;
}

int trace_init(struct trace *trace, const struct kv_entries *entries, u64 key_seed)
{
	*trace = (struct trace){
		.missed		= kv_alloc_lines(KV_TALLY_ROWS, sizeof(*trace->missed)),
		.entries	= entries,
		.there[0].nr	= sets_for(entries->nr),
		.there[1].nr	= sets_for(entries->nr_all - entries->nr),
		.key_seed	= key_seed,
		.index_mask	= BIT(kv_order(entries->nr_all + 1)) - 1,
		.nr_lines	= (u64)entries->nr * BYTES_AN_ENTRY / LINE_BYTES + 1,
	};
	trace->there[0].word = registry_alloc(blocks_bytes(trace));
	trace->there[1].word = kv_sys()->map_pages(kv_sys()->ctx, names_bytes(trace), -1);
	if (!trace->missed || !trace->there[0].word || !trace->there[1].word) {
		trace_exit(trace);
		return -ENOMEM;
	}
	trace->gone = (u16 *)(trace->there[0].word + trace->there[0].nr * NR_WAYS);
	return 0;
}

u64 trace_bytes(const struct trace *trace)
{
	return blocks_bytes(trace) + KV_TALLY_ROWS * sizeof(*trace->missed) +
	       (u64)(trace->entries->top_name - trace->entries->nr) * sizeof(u32) * 3 / 2;
}

void trace_exit(struct trace *trace)
{
	if (trace->there[1].word)
		kv_sys()->unmap_pages(kv_sys()->ctx, trace->there[1].word, names_bytes(trace));
	registry_free(trace->there[0].word, blocks_bytes(trace));
	kv_free(trace->missed);
}

static inline u64 hash_of(const struct trace *trace, u64 mix)
{
	return kv_hash_mix(mix, ~trace->key_seed);
}

static u64 entry_hash_of(const struct trace *trace, const struct kv_entry *entry)
{
	return hash_of(trace, kv_entry_mix(entry, trace->key_seed));
}

/* ---- there ---- */

static const struct trace_sets *sets_of(const struct trace *trace, u32 index)
{
	return &trace->there[index >= trace->entries->nr];
}

static u32 *set_of(const struct trace_sets *sets, u64 hash, u32 choice)
{
	u32 part = hash >> 16 * choice | hash << (64 - 16 * choice) % 64;

	return &sets->word[((u64)part * sets->nr >> 32) * NR_WAYS];
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
	kv_assert((word & trace->index_mask) - 1 < trace->entries->nr_all);
	return &trace->entries->entry[(word & trace->index_mask) - 1];
}

/* And by the name that this word was made for. */
static bool is_staged(const struct trace *trace, u32 word)
{
	const struct kv_entry *entry = entry_of(trace, word);

	return kv_word_is(READ_ONCE(entry->word), KV_ENTRY_STAGED) &&
	       may_be(trace, word, word_of(trace, entry_hash_of(trace, entry), 0));
}

/* A load of four words is none of a word for the race checker, which sees them one by one. */
#if defined(__SANITIZE_THREAD__)
#define LOADS_FOUR	0
#elif defined(__has_feature)
#define LOADS_FOUR	(!__has_feature(thread_sanitizer))
#else
#define LOADS_FOUR	1
#endif

/* The ways of a set that have this word, one bit each. Each word is read whole: they are hints. */
#if defined(__SSE2__) && LOADS_FOUR
static __always_inline __m128i quarter_with(const u32 *set, u32 quarter, __m128i wanted)
{
	return _mm_cmpeq_epi32(_mm_load_si128((const __m128i *)set + quarter), wanted);
}

static __always_inline u32 ways_with(const u32 *set, u32 word)
{
	__m128i wanted = _mm_set1_epi32(word);
	__m128i low = _mm_packs_epi32(quarter_with(set, 0, wanted), quarter_with(set, 1, wanted));
	__m128i high = _mm_packs_epi32(quarter_with(set, 2, wanted), quarter_with(set, 3, wanted));

	return _mm_movemask_epi8(_mm_packs_epi16(low, high));
}
#else
static u32 ways_with(const u32 *set, u32 word)
{
	u32 ways = 0;

	for (u32 i = 0; i < NR_WAYS; i++)
		ways |= (u32)(READ_ONCE(set[i]) == word) << i;
	return ways;
}
#endif

static u32 *room_in(const struct trace *trace, u32 *set)
{
	u32 ways = ways_with(set, 0);

	if (likely(ways))
		return &set[kv_lowest64(ways)];
	for (u32 i = 0; i < NR_WAYS; i++) {
		u32 word = READ_ONCE(set[i]);

		if (word & STAGED && !is_staged(trace, word))
			return &set[i];
	}
	return NULL;
}

void trace_expect(const struct trace *trace, u64 mix)
{
	kv_prefetch_write(set_of(&trace->there[0], hash_of(trace, mix), 0));
}

/* One set in twenty is full. */
static noinline void add_elsewhere(const struct trace *trace, const struct trace_sets *sets,
				   u64 hash, u32 word)
{
	u32 *room = NULL;

	for (u32 i = 0; i < NR_CHOICES && !room; i++)
		room = room_in(trace, set_of(sets, hash, i));
	if (room)
		WRITE_ONCE(*room, word);
}

/* Of two threads that find the same room one is left out: its index is a hint. */
static __always_inline void add(const struct trace *trace, const struct trace_sets *sets, u64 hash,
				u32 word)
{
	u32 *set = set_of(sets, hash, 0), ways = ways_with(set, 0);

	if (likely(ways))
		WRITE_ONCE(set[kv_lowest64(ways)], word);
	else
		add_elsewhere(trace, sets, hash, word);
}

void trace_registered(const struct trace *trace, u64 mix, u32 index)
{
	u64 hash = hash_of(trace, mix);

	add(trace, sets_of(trace, index), hash, word_of(trace, hash, index));
}

void trace_staged(const struct trace *trace, u32 index)
{
	u64 hash = entry_hash_of(trace, &trace->entries->entry[index]);

	kv_assert(index < trace->entries->nr);
	add(trace, &trace->there[0], hash, word_of(trace, hash, index) | STAGED);
}

static __always_inline bool del_in(u32 *set, u32 word)
{
	u32 ways = ways_with(set, word);

	if (likely(ways))
		WRITE_ONCE(set[kv_lowest64(ways)], 0);
	return ways;
}

static noinline void del_elsewhere(const struct trace_sets *sets, u64 hash, u32 word)
{
	for (u32 choice = 1; choice < NR_CHOICES; choice++)
		if (del_in(set_of(sets, hash, choice), word))
			return;
}

static __always_inline void del(const struct trace_sets *sets, u64 hash, u32 word)
{
	if (unlikely(!del_in(set_of(sets, hash, 0), word)))
		del_elsewhere(sets, hash, word);
}

void trace_left(const struct trace *trace, u64 mix, u32 index)
{
	u64 hash = hash_of(trace, mix);

	del(sets_of(trace, index), hash, word_of(trace, hash, index));
}

/* ---- gone ---- */

static u64 name_bits(u64 mix, u64 domain)
{
	return kv_mul_fold(mix ^ 0xe7037ed1a0b428dbull, domain ^ 0xa0761d6478bd642full);
}

static u16 *line_of(const struct trace *trace, u64 bits)
{
	return &trace->gone[((u64)(u32)bits * trace->nr_lines >> 32) * (1 + LINE_NAMES)];
}

/* What is kept of a name; 0: nothing. */
static u16 print_of(u64 bits)
{
	return (bits >> 48) + !(bits >> 48);
}

/* Of two threads at the same line one may lose its name. */
static void remember(u16 *line, u16 print)
{
	u32 at = READ_ONCE(*line);

	kv_assert(at < LINE_NAMES);
	WRITE_ONCE(line[1 + at], print);
	WRITE_ONCE(*line, at + 1 < LINE_NAMES ? at + 1 : 0);
}

static bool is_remembered(const u16 *line, u16 print)
{
	bool found = false;

	for (u32 i = 1; i <= LINE_NAMES; i++)
		found |= READ_ONCE(line[i]) == print;
	return found;
}

u64 trace_leave(const struct trace *trace, u64 mix, u64 domain)
{
	u64 bits = name_bits(mix, domain);

	kv_prefetch_write(line_of(trace, bits));
	return bits;
}

void trace_gone(const struct trace *trace, u64 gone)
{
	remember(line_of(trace, gone), print_of(gone));
}

/* ---- reasons ---- */

static_assert(KV_EV_MISS_GROUP - KV_EV_MISS_NEVER == KV_MISS_GROUP, "events in the same order");

enum kv_miss trace_told_by(const struct kv_entry *entry, const u64 key[2], u64 domain)
{
	u64 word = smp_load_acquire(&entry->word), other = READ_ONCE(entry->domain);
	bool is_out = word & (KV_ENTRY_HIDDEN | KV_ENTRY_MARK);

	if (!kv_entry_has_name(entry, key, other))
		return KV_MISS_NEVER;
	if (kv_word_is(word, KV_ENTRY_STAGED))
		return other == domain ? KV_MISS_STAGED : KV_MISS_NEVER;
	if (!kv_word_has_name(word))
		return KV_MISS_NEVER;
	if (other == domain)	/* hidden by now, no room for a reference, or registered since */
		return is_out || kv_word_refs(word) == KV_ENTRY_REFS ? KV_MISS_EVICTED :
								       KV_MISS_STAGED;
	if (is_out)
		return KV_MISS_NEVER;
	return (u32)other == (u32)domain ? KV_MISS_GROUP : KV_MISS_TENANT;
}

/* The answers of those entries that have a word for the key in @sets, a bit each. */
static u32 told_in(const struct trace *trace, const struct trace_sets *sets, u64 hash,
		   const u64 key[2], u64 domain)
{
	u32 wanted = word_of(trace, hash, 0), told = 0;

	for (u32 i = 0; i < NR_CHOICES; i++)
		kv_prefetch(set_of(sets, hash, i));
	for (u32 i = 0; i < NR_CHOICES * NR_WAYS; i++) {
		u32 word = READ_ONCE(set_of(sets, hash, i / NR_WAYS)[i % NR_WAYS]);

		if (may_be(trace, word, wanted))
			told |= BIT(trace_told_by(entry_of(trace, word), key, domain));
	}
	return told;
}

static enum kv_miss reason(const struct trace *trace, const kvmm_key_t *key, u64 domain, u32 told)
{
	static const u8 sure[] = { KV_MISS_STAGED, KV_MISS_GROUP, KV_MISS_TENANT, KV_MISS_EVICTED };
	u64 half[2] = { 0 }, mix, hash, bits;

	kv_key_words(key, half);
	mix = kv_mix_key(half, trace->key_seed);
	hash = hash_of(trace, mix);
	bits = name_bits(mix, domain);
	told |= told_in(trace, &trace->there[0], hash, half, domain);
	if (READ_ONCE(trace->entries->nr_names))
		told |= told_in(trace, &trace->there[1], hash, half, domain);
	for (u32 i = 0; i < ARRAY_SIZE(sure); i++)
		if (told & BIT(sure[i]))
			return sure[i];
	return is_remembered(line_of(trace, bits), print_of(bits)) ? KV_MISS_EVICTED :
								     KV_MISS_NEVER;
}

void trace_miss(const struct trace *trace, const struct kv_query *query, u32 at, u32 told)
{
	enum kv_miss why = reason(trace, &query->keys[at], kv_domain_word(query->domain), told);
	u32 row = kv_tally_row();

	kv_tally_add(&trace->missed[row].nr[why], row, 1);
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
