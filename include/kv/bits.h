/* SPDX-License-Identifier: Apache-2.0 */
/* Bits, powers of two, and arithmetic that says when it overflows. */
#ifndef KV_BITS_H
#define KV_BITS_H

#include <kv/types.h>

#define BIT(n)			(1u << (n))
#define BIT64(n)		(1ull << (n))
#define KV_WORD_BITS		64u
#define KV_WORDS(bits)		(((bits) + KV_WORD_BITS - 1) / KV_WORD_BITS)

/* Bits [lo, hi) of a word; 0 <= lo < hi <= 64. */
static inline u64 kv_mask64(unsigned int lo, unsigned int hi)
{
	return (~0ull >> (64 - (hi - lo))) << lo;
}

/* Index of the lowest / highest set bit; the word must not be 0. */
static inline unsigned int kv_lowest64(u64 w)
{
	return __builtin_ctzll(w);
}

static inline unsigned int kv_highest64(u64 w)
{
	return 63 - __builtin_clzll(w);
}

/* Largest k with 2^k <= n; n must not be 0. */
static inline unsigned int kv_log2(u64 n)
{
	return kv_highest64(n);
}

/* Smallest k with 2^k >= n; n must not be 0. */
static inline unsigned int kv_order(u64 n)
{
	return n > 1 ? kv_highest64(n - 1) + 1 : 0;
}

static inline bool kv_is_pow2(u64 n)
{
	return n && !(n & (n - 1));
}

/* Bit @at of an array of words. */
static inline bool kv_has_bit(const u64 *bits, u32 at)
{
	return bits[at / KV_WORD_BITS] & BIT64(at % KV_WORD_BITS);
}

static inline void kv_set_bit(u64 *bits, u32 at)
{
	bits[at / KV_WORD_BITS] |= BIT64(at % KV_WORD_BITS);
}

static inline void kv_clear_bit(u64 *bits, u32 at)
{
	bits[at / KV_WORD_BITS] &= ~BIT64(at % KV_WORD_BITS);
}

static inline void kv_put_bits(u64 *bits, u32 at, u32 nr, bool on)
{
	for (; nr; nr--, at++)
		if (on)
			kv_set_bit(bits, at);
		else
			kv_clear_bit(bits, at);
}

/* The first set bit from @at on of @nr_bits, or KV_NONE. */
static inline u32 kv_next_bit(const u64 *bits, u32 nr_bits, u32 at)
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

static inline u64 kv_align_up(u64 n, u64 align)
{
	return (n + align - 1) & ~(align - 1);
}

#define kv_add_overflows(a, b, sum)	__builtin_add_overflow(a, b, sum)
#define kv_mul_overflows(a, b, prod)	__builtin_mul_overflow(a, b, prod)

#endif /* KV_BITS_H */
