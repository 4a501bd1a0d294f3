/* SPDX-License-Identifier: Apache-2.0 */
/* Bits by block, and what choosing among the window's victims asks of one; see victim.h. */
#ifndef POOL_WINDOW_H
#define POOL_WINDOW_H

#include "internal.h"

static inline bool has_bit(const u64 *bits, u32 at)
{
	return bits[at / KV_WORD_BITS] & BIT64(at % KV_WORD_BITS);
}

static inline void set_bit(u64 *bits, u32 at)
{
	bits[at / KV_WORD_BITS] |= BIT64(at % KV_WORD_BITS);
}

static inline void clear_bit(u64 *bits, u32 at)
{
	bits[at / KV_WORD_BITS] &= ~BIT64(at % KV_WORD_BITS);
}

/* The first one from @at on, or KV_NONE. */
static inline u32 next_bit(const u64 *bits, u32 nr_bits, u32 at)
{
	u32 i = at / KV_WORD_BITS, nr = KV_WORDS(nr_bits);
	u64 word;

	if (at >= nr_bits)
		return KV_NONE;
	word = bits[i] & (~0ull << at % KV_WORD_BITS);
	while (!word && ++i < nr)
		word = bits[i];
	return word ? i * KV_WORD_BITS + kv_lowest64(word) : KV_NONE;
}

static inline bool is_taken_anyhow(const struct kvmm_pool *pool, u32 block)
{
	/* Relaxed: what an arena takes or frees meanwhile is missed, or not. */
	return owner_is_free(READ_ONCE(pool->owner[block])) || has_bit(pool->window.chosen, block);
}

#endif /* POOL_WINDOW_H */
