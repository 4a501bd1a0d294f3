/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bitmaps for the engines: a flat map, and a map with summaries.
 *
 * A bitree is a bitmap with a bit above each of its words, and so on up to a single word: the
 * lowest set bit, or the next one in either direction, costs one word a level for any map.
 * Four levels reach KVMM_MAX_BLOCKS. Lock rules: the zone's lock guards everything.
 */
#ifndef BUDDY_MAP_H
#define BUDDY_MAP_H

#include <kv/bits.h>
#include <kv/err.h>
#include <kv/types.h>
#include <kvmm/types.h>

static inline bool map_test(const u64 *map, u32 bit)
{
	return map[bit / KV_WORD_BITS] >> (bit % KV_WORD_BITS) & 1;
}

/* Walks the words that [lo, hi) touches; mask has the bits of the range. */
#define for_each_map_word(word, mask, lo, hi)						\
	for (u32 __at = (lo), __end = (hi);						\
	     __at < __end && (word = __at / KV_WORD_BITS,				\
			      mask = kv_mask64(__at % KV_WORD_BITS,			\
					       min(__end - word * KV_WORD_BITS,		\
						   KV_WORD_BITS)), true);		\
	     __at = (word + 1) * KV_WORD_BITS)

static inline bool map_is_clear(const u64 *map, u32 lo, u32 hi)
{
	u64 mask;
	u32 word;

	for_each_map_word(word, mask, lo, hi)
		if (map[word] & mask)
			return false;
	return true;
}

#define BITREE_LEVELS	4u

static_assert(KVMM_MAX_BLOCKS == BIT(BITREE_LEVELS * 6), "a bit for each block of any zone");

struct bitree {
	u64	*level[BITREE_LEVELS];	/* [0] is the map; [nr_levels - 1] is one word */
	u32	nr_levels;
	u32	nr_bits;		/* room in level[0] */
};

static inline size_t bitree_words(u32 nr_bits)
{
	size_t words = 0;

	kv_assert(nr_bits && nr_bits <= KVMM_MAX_BLOCKS + 1);
	do {
		nr_bits = KV_WORDS(nr_bits);
		words += nr_bits;
	} while (nr_bits > 1);
	return words;
}

/* Lays the tree out in zeroed @mem and returns the address behind it. */
static inline u64 *bitree_init(struct bitree *tree, u64 *mem, u32 nr_bits)
{
	tree->nr_levels = 0;
	tree->nr_bits = nr_bits;
	do {
		nr_bits = KV_WORDS(nr_bits);
		tree->level[tree->nr_levels++] = mem;
		mem += nr_bits;
	} while (nr_bits > 1);
	return mem;
}

static inline bool bitree_test(const struct bitree *tree, u32 bit)
{
	kv_assert(bit < tree->nr_bits);
	return map_test(tree->level[0], bit);
}

static inline void bitree_set(struct bitree *tree, u32 bit)
{
	kv_assert(bit < tree->nr_bits);
	for (u32 level = 0; level < tree->nr_levels; level++) {
		u64 *word = &tree->level[level][bit / KV_WORD_BITS];
		u64 old = *word;

		*word = old | BIT64(bit % KV_WORD_BITS);
		if (old)
			return;		/* the summaries above know of this word already */
		bit /= KV_WORD_BITS;
	}
}

static inline void bitree_clear(struct bitree *tree, u32 bit)
{
	kv_assert(bit < tree->nr_bits);
	for (u32 level = 0; level < tree->nr_levels; level++) {
		u64 *word = &tree->level[level][bit / KV_WORD_BITS];

		*word &= ~BIT64(bit % KV_WORD_BITS);
		if (*word)
			return;
		bit /= KV_WORD_BITS;
	}
}

/* Lowest set bit below word @bit of @level; that word's subtree is not empty. */
static inline u32 bitree_lowest_below(const struct bitree *tree, u32 level, u32 bit)
{
	kv_assert(level <= tree->nr_levels);
	while (level--)
		bit = bit * KV_WORD_BITS + kv_lowest64(tree->level[level][bit]);
	return bit;
}

static inline u32 bitree_highest_below(const struct bitree *tree, u32 level, u32 bit)
{
	kv_assert(level <= tree->nr_levels);
	while (level--)
		bit = bit * KV_WORD_BITS + kv_highest64(tree->level[level][bit]);
	return bit;
}

/* The tree must not be empty. */
static inline u32 bitree_lowest(const struct bitree *tree)
{
	kv_assert(*tree->level[tree->nr_levels - 1]);
	return bitree_lowest_below(tree, tree->nr_levels, 0);
}

/* Lowest set bit >= @bit, or KV_NONE. @bit may be past the end of the map. */
static inline u32 bitree_next(const struct bitree *tree, u32 bit)
{
	u32 nr_bits = tree->nr_bits;

	for (u32 level = 0; level < tree->nr_levels && bit < nr_bits; level++) {
		u32 word = bit / KV_WORD_BITS;
		u64 hit = tree->level[level][word] & ~0ull << bit % KV_WORD_BITS;

		if (hit)
			return bitree_lowest_below(tree, level,
						   word * KV_WORD_BITS + kv_lowest64(hit));
		bit = word + 1;
		nr_bits = KV_WORDS(nr_bits);
	}
	return KV_NONE;
}

/* Highest set bit <= @bit, or KV_NONE; @bit must lie in the map. */
static inline u32 bitree_prev(const struct bitree *tree, u32 bit)
{
	kv_assert(bit < tree->nr_bits);
	for (u32 level = 0; level < tree->nr_levels; level++) {
		u32 word = bit / KV_WORD_BITS;
		u64 hit = tree->level[level][word] & kv_mask64(0, bit % KV_WORD_BITS + 1);

		if (hit)
			return bitree_highest_below(tree, level,
						    word * KV_WORD_BITS + kv_highest64(hit));
		if (!word)
			break;
		bit = word - 1;
	}
	return KV_NONE;
}

/* Set bits of the whole map, counted without its summaries. */
static inline u32 bitree_count(const struct bitree *tree)
{
	u32 nr = 0;

	for (u32 word = 0; word < KV_WORDS(tree->nr_bits); word++)
		nr += __builtin_popcountll(tree->level[0][word]);
	return nr;
}

/* Does every summary bit say whether its word is empty, and nothing lie past the end? */
static inline bool bitree_is_sound(const struct bitree *tree)
{
	u32 nr_bits = tree->nr_bits;

	for (u32 level = 0; level < tree->nr_levels; level++) {
		u32 nr_words = KV_WORDS(nr_bits);
		const u64 *map = tree->level[level];

		if (!map_is_clear(map, nr_bits, nr_words * KV_WORD_BITS))
			return false;
		for (u32 word = 0; word < nr_words && level + 1 < tree->nr_levels; word++)
			if (map_test(tree->level[level + 1], word) != !!map[word])
				return false;
		nr_bits = nr_words;
	}
	return true;
}

#endif /* BUDDY_MAP_H */
