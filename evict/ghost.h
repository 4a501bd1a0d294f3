/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Remains of blocks that were evicted: credit and last use, 8 bytes each.
 *
 * Sets of 8 on one cache line; the one used longest ago makes room. Two keys of one set are taken
 * for each other once in 2^20: the order gets worse by a little, nothing else happens. Ages come in
 * 16,384 steps, turns in 2^24, and wrap: older ones seem young, if it has not been
 * displaced by then, as nearly all will.
 *
 * Guarded by the order's lock.
 */
#ifndef EVICT_GHOST_H
#define EVICT_GHOST_H

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <kv/atomic.h>
#include <kv/bits.h>
#include <kv/types.h>

#define GHOST_WAYS	8u

/*
 * In one word, 0 if there is none:
 *
 *	| turn: 24, in units | last: 14, in steps | credit: 6 | tag: 20 |
 *
 * The credit is in twice the unit of credit.h, and 1 more. The tag is not 0.
 */
#define GHOST_TAG_MASK		(BIT(20) - 1)
#define GHOST_LAST_SHIFT	26
#define GHOST_STEPS		BIT(14)
#define GHOST_CREDIT_SHIFT	20
#define GHOST_CREDIT_MASK	(BIT(6) - 1)
#define GHOST_TURN_SHIFT	40
#define GHOST_NR_UNITS		BIT(24)
#define GHOST_CREDIT_STEP		2u

/* A ghost's record; @turn is any number that grows, as that of duel.h. */
struct ghost_past {
	u32 credit;
	u64 last;	/* tick of the last use, or a bit later */
	u64 turn;
};

struct ghosts {
	/* Fixed at creation. */
	u32 nr_sets;		/* a power of two */
	u32 step_shift;		/* ticks a step, as a power of two */
	u32 turn_shift;		/* turns a unit, likewise */
	u64 *ghost;		/* behind this; aligned to a cache line */
};

size_t ghosts_bytes(u32 nr_blocks);
void ghosts_init(struct ghosts *ghosts, u32 nr_blocks);

/* Bits of a key hash that matter. */
#define GHOST_HASH_BITS	48u

static inline u64 *ghost_set(const struct ghosts *ghosts, u64 hash)
{
	return &ghosts->ghost[(hash >> 24 & (ghosts->nr_sets - 1)) * GHOST_WAYS];
}

/* The ghost of this key is about to be put, or taken: asks for its set. */
static inline void ghost_expect(const struct ghosts *ghosts, u64 hash)
{
	kv_prefetch_write(ghost_set(ghosts, hash));
}

/* ---- ways of a set, a bit each ---- */

/* Those with this tag; 0: those where there is none. */
static inline u32 ghost_ways_with_words(const u64 *set, u32 tag)
{
	u32 ways = 0;

	for (u32 i = 0; i < GHOST_WAYS; i++)
		ways |= (u32)((set[i] & GHOST_TAG_MASK) == tag) << i;
	return ways;
}

/* The lowest one is of the first of those that were used longest before @step. */
static inline u32 ghost_oldest_words(const u64 *set, u32 step)
{
	u32 most = 0, ways = BIT(0);

	for (u32 i = 0; i < GHOST_WAYS; i++) {
		u32 steps = (step - (u32)(set[i] >> GHOST_LAST_SHIFT)) & (GHOST_STEPS - 1);

		ways = steps > most ? BIT(i) : ways;
		most = max(most, steps);
	}
	return ways;
}

/* The same in a third of the instructions where the processor can compare 16 bytes at once. */
#ifdef __SSE2__
/* 32 bits of each of four words, from @shift on. */
static __always_inline __m128i ghost_parts(const u64 *four, int shift)
{
	__m128i low = _mm_srli_epi64(_mm_load_si128((const __m128i *)four), shift);
	__m128i high = _mm_srli_epi64(_mm_load_si128((const __m128i *)four + 1), shift);

	return (__m128i)_mm_shuffle_ps((__m128)low, (__m128)high, _MM_SHUFFLE(2, 0, 2, 0));
}

static inline u32 ghost_ways_with(const u64 *set, u32 tag)
{
	__m128i mask = _mm_set1_epi32(GHOST_TAG_MASK), wanted = _mm_set1_epi32(tag);
	__m128i low = _mm_cmpeq_epi32(_mm_and_si128(ghost_parts(set, 0), mask), wanted);
	__m128i high = _mm_cmpeq_epi32(_mm_and_si128(ghost_parts(set + 4, 0), mask), wanted);

	return _mm_movemask_epi8(_mm_packs_epi16(_mm_packs_epi32(low, high), _mm_setzero_si128()));
}

static inline u32 ghost_oldest(const u64 *set, u32 step)
{
	__m128i mask = _mm_set1_epi32(GHOST_STEPS - 1), now = _mm_set1_epi32(step);
	__m128i low = _mm_and_si128(_mm_sub_epi32(now, ghost_parts(set, GHOST_LAST_SHIFT)), mask);
	__m128i high = _mm_and_si128(_mm_sub_epi32(now, ghost_parts(set + 4, GHOST_LAST_SHIFT)),
				     mask);
	__m128i steps = _mm_packs_epi32(low, high), most = steps;

	most = _mm_max_epi16(most, _mm_shuffle_epi32(most, _MM_SHUFFLE(1, 0, 3, 2)));
	most = _mm_max_epi16(most, _mm_shuffle_epi32(most, _MM_SHUFFLE(2, 3, 0, 1)));
	most = _mm_max_epi16(most, _mm_or_si128(_mm_slli_epi32(most, 16),
						_mm_srli_epi32(most, 16)));
	return _mm_movemask_epi8(_mm_packs_epi16(_mm_cmpeq_epi16(steps, most),
						 _mm_setzero_si128()));
}
#else
#define ghost_ways_with	ghost_ways_with_words
#define ghost_oldest	ghost_oldest_words
#endif

/* ---- calls ---- */

static inline u32 ghost_tag(u64 hash)
{
	u32 tag = hash & GHOST_TAG_MASK;

	return tag + !tag;
}

/* Where a new one goes: on its former self, where nothing is, or on the oldest. */
static __always_inline u64 *ghost_place(u64 *set, u32 tag, u32 step)
{
	u32 ways = ghost_ways_with(set, tag);

	ways = likely(!ways) ? ghost_ways_with(set, 0) : ways;
	ways = ways ? ways : ghost_oldest(set, step);
	return &set[kv_lowest64(ways)];
}

/* Keep the record of a block of key hash @hash; it is tick @now. */
static __always_inline void ghost_put(struct ghosts *ghosts, u64 hash,
				      const struct ghost_past *past, u64 now)
{
	u64 step = past->last >> ghosts->step_shift, unit = past->turn >> ghosts->turn_shift;
	u32 tag = ghost_tag(hash);

	*ghost_place(ghost_set(ghosts, hash), tag, now >> ghosts->step_shift) =
		tag | (u64)(past->credit / GHOST_CREDIT_STEP + 1) << GHOST_CREDIT_SHIFT |
		(step & (GHOST_STEPS - 1)) << GHOST_LAST_SHIFT | unit << GHOST_TURN_SHIFT;
}

/* Is it known? Then it is forgotten here. In: @past->last and @past->turn are those of now. */
static __always_inline bool ghost_take(struct ghosts *ghosts, u64 hash,
				       struct ghost_past *past)
{
	u64 *set = ghost_set(ghosts, hash), *ghost;
	u32 ways = ghost_ways_with(set, ghost_tag(hash)), step, unit;

	if (!ways)
		return false;
	ghost = &set[kv_lowest64(ways)];
	past->credit = ((*ghost >> GHOST_CREDIT_SHIFT & GHOST_CREDIT_MASK) - 1) * GHOST_CREDIT_STEP;
	step = (past->last >> ghosts->step_shift) - (*ghost >> GHOST_LAST_SHIFT);
	past->last -= min((u64)(step & (GHOST_STEPS - 1)) << ghosts->step_shift, past->last);
	unit = (past->turn >> ghosts->turn_shift) - (*ghost >> GHOST_TURN_SHIFT);
	past->turn -= min((u64)(unit & (GHOST_NR_UNITS - 1)) << ghosts->turn_shift, past->turn);
	*ghost = 0;
	return true;
}

#endif /* EVICT_GHOST_H */
