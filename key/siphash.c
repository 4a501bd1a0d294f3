// SPDX-License-Identifier: Apache-2.0
/*
 * SipHash with a result of 128 bits (Aumasson and Bernstein, 2012): 2-4, and 1-3 with half the
 * rounds.
 *
 * A keyed pseudorandom function: without the key no attacker can tell two messages of one hash, let
 * alone make them. A holder of the key can, so it must be a secret. For 1-3 the best differences
 * known meet inside with a chance of 2^-167 (Dobraunig, Mendel, Schlaeffer, 2014), less than that
 * two results of 128 bits are equal; more is known of what its results look like, so it is for
 * those that stay in the process.
 */
#include <kv/bits.h>

#include "digest.h"

#define WORDS	(DIGEST_CHUNK / sizeof(u64))

static inline u64 rotate(u64 word, unsigned int bits)
{
	return word << bits | word >> (64 - bits);
}

static __always_inline void sip_round(u64 v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = rotate(v[1], 13) ^ v[0];
	v[3] = rotate(v[3], 16) ^ v[2];
	v[0] = rotate(v[0], 32);
	v[2] += v[1];
	v[0] += v[3];
	v[1] = rotate(v[1], 17) ^ v[2];
	v[3] = rotate(v[3], 21) ^ v[0];
	v[2] = rotate(v[2], 32);
}

/* @rounds: of each word; the end takes two more. */
static __always_inline void sip_word(u64 v[4], u64 word, int rounds)
{
	v[3] ^= word;
	for (int i = 0; i < rounds; i++)
		sip_round(v);
	v[0] ^= word;
}

static __always_inline void sip_words(u64 v[4], const u8 *byte, size_t nr, int rounds)
{
	u64 word;

	for (; nr; nr--, byte += sizeof(word)) {
		memcpy(&word, byte, sizeof(word));
		sip_word(v, word, rounds);
	}
}

static __always_inline u64 sip_half(u64 v[4], int rounds)
{
	for (int i = 0; i < rounds + 2; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static __always_inline void sip_absorb(union digest_state *state, const u8 *chunk, size_t nr,
				       int rounds)
{
	u64 v[4];

	memcpy(v, state->sip, sizeof(v));
	sip_words(v, chunk, nr * WORDS, rounds);
	memcpy(state->sip, v, sizeof(v));
}

/* The last word holds the bytes left over and, on top, the length modulo 256. */
static __always_inline void sip_finish(struct digest *digest, u8 *result, int rounds)
{
	u32 nr = digest->fill / sizeof(u64), rest = digest->fill % sizeof(u64);
	u64 v[4], half[2], last = 0;

	memcpy(v, digest->state.sip, sizeof(v));
	sip_words(v, digest->buf, nr, rounds);
	memcpy(&last, digest->buf + nr * sizeof(u64), rest);
	sip_word(v, last | (digest->absorbed + digest->fill) << 56, rounds);
	v[2] ^= 0xee;
	half[0] = sip_half(v, rounds);
	v[1] ^= 0xdd;
	half[1] = sip_half(v, rounds);
	memcpy(result, half, sizeof(half));
}

/*
 * The end of a message and the first chunk of the next one by turns, for each step of one waits for
 * its last. Behind the last message that chunk is its own once more, for nothing.
 */
static __always_inline void sip_chain(const struct digest_chain *chain, const u8 *chunk, u32 nr,
				      const u8 *parent, u8 *key, int rounds)
{
	const u64 *start = chain->start->sip;
	u64 more = chain->chunks - 1, v[4], ahead[4], half[2];

	memcpy(half, parent, sizeof(half));
	memcpy(ahead, start, sizeof(ahead));
	sip_words(ahead, chunk, (more + 1) * WORDS, rounds);
	for (; nr; nr--, key += sizeof(half)) {
		chunk += nr > 1 ? (more + 1) * DIGEST_CHUNK : 0;
		memcpy(v, ahead, sizeof(v));
		memcpy(ahead, start, sizeof(ahead));
		sip_word(v, chain->head | half[0] << 32, rounds);
		sip_words(ahead, chunk, 2, rounds);
		sip_word(v, half[0] >> 32 | half[1] << 32, rounds);
		sip_words(ahead, chunk + 16, 2, rounds);
		sip_word(v, half[1] >> 32 | chain->bytes << 56, rounds);
		sip_words(ahead, chunk + 32, 2, rounds);
		v[2] ^= 0xee;
		half[0] = sip_half(v, rounds);
		sip_words(ahead, chunk + 48, 1, rounds);
		v[1] ^= 0xdd;
		half[1] = sip_half(v, rounds);
		sip_words(ahead, chunk + 56, 1, rounds);
		sip_words(ahead, chunk + DIGEST_CHUNK, more * WORDS, rounds);
		memcpy(key, half, sizeof(half));
	}
}

/* The constants spell "somepseudorandomlygeneratedbytes". 0xee: the result is a long one. */
void kv_siphash_key(union digest_state *state, const u8 key[16])
{
	u64 k[2];

	memcpy(k, key, sizeof(k));
	state->sip[0] = k[0] ^ 0x736f6d6570736575;
	state->sip[1] = k[1] ^ 0x646f72616e646f6d ^ 0xee;
	state->sip[2] = k[0] ^ 0x6c7967656e657261;
	state->sip[3] = k[1] ^ 0x7465646279746573;
}

#define DEFINE_SIPHASH(name, rounds)							\
static void name##_absorb(union digest_state *state, const u8 *chunk, size_t nr)		\
{												\
	sip_absorb(state, chunk, nr, rounds);							\
}												\
												\
static void name##_finish(struct digest *digest, u8 *result)					\
{												\
	sip_finish(digest, result, rounds);							\
}												\
												\
static void name##_chain(const struct digest_chain *chain, const u8 *chunk, u32 nr,		\
			 const u8 *parent, u8 *key, u8 *digest)					\
{												\
	sip_chain(chain, chunk, nr, parent, key, rounds);					\
}												\
												\
const struct digest_ops kv_##name = {								\
	.bytes	= 16,										\
	.absorb	= name##_absorb,								\
	.chain	= name##_chain,									\
	.finish	= name##_finish,								\
}

DEFINE_SIPHASH(siphash24, 2);
DEFINE_SIPHASH(siphash13, 1);
