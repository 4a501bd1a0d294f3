// SPDX-License-Identifier: Apache-2.0
/*
 * SipHash-2-4 with a result of 128 bits (Aumasson and Bernstein, 2012).
 *
 * A keyed pseudorandom function: without the key no attacker can tell two messages of one hash, let
 * alone make them. A holder of the key can, so it must be a secret.
 */
#include <kv/bits.h>

#include "digest.h"

#define NR_FINAL_ROUNDS	4

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

static __always_inline void sip_word(u64 v[4], u64 word)
{
	v[3] ^= word;
	sip_round(v);
	sip_round(v);
	v[0] ^= word;
}

static __always_inline void sip_words(u64 v[4], const u8 *byte, size_t nr)
{
	u64 word;

	for (; nr; nr--, byte += sizeof(word)) {
		memcpy(&word, byte, sizeof(word));
		sip_word(v, word);
	}
}

static void sip_absorb(union digest_state *state, const u8 *chunk, size_t nr)
{
	u64 v[4];

	memcpy(v, state->sip, sizeof(v));
	sip_words(v, chunk, nr * DIGEST_CHUNK / sizeof(u64));
	memcpy(state->sip, v, sizeof(v));
}

static __always_inline u64 sip_half(u64 v[4])
{
	for (int i = 0; i < NR_FINAL_ROUNDS; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* The last word holds the bytes left over and, on top, the length modulo 256. */
static void sip_finish(struct digest *digest, u8 *result)
{
	u32 nr = digest->fill / sizeof(u64), rest = digest->fill % sizeof(u64);
	u64 v[4], half[2], last = 0;

	memcpy(v, digest->state.sip, sizeof(v));
	sip_words(v, digest->buf, nr);
	memcpy(&last, digest->buf + nr * sizeof(u64), rest);
	sip_word(v, last | (digest->absorbed + digest->fill) << 56);
	v[2] ^= 0xee;
	half[0] = sip_half(v);
	v[1] ^= 0xdd;
	half[1] = sip_half(v);
	memcpy(result, half, sizeof(half));
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

const struct digest_ops kv_siphash = {
	.bytes	= 16,
	.absorb	= sip_absorb,
	.finish	= sip_finish,
};
