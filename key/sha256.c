// SPDX-License-Identifier: Apache-2.0
/*
 * SHA-256 (FIPS 180-4), in C and with the SHA extensions of x86.
 *
 * Which one is decided when a context is made, by the processor's own word: the library
 * is built for any x86-64. The extensions use SSE registers only, so it does not take the
 * operating system's consent.
 */
#if defined(__x86_64__) && !defined(__CHECKER__)	/* sparse does not know the intrinsics */
#define HAVE_SHA_NI	1
#include <cpuid.h>
#include <immintrin.h>
#else
#define HAVE_SHA_NI	0
#endif

#include <kv/atomic.h>
#include <kv/bits.h>

#include "digest.h"

#define NR_ROUNDS	64
#define LENGTH_BYTES	8		/* at the end of the padding */

/* First 32 bits of the fractional parts of the square roots of the first 8 primes. */
const union digest_state kv_sha256_start = { .sha = {
	0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
	0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
} };

/* The same of the cube roots of the first 64 primes. */
static const u32 round_constant[NR_ROUNDS] __attribute__((aligned(16))) = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
	0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
	0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
	0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
	0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
	0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
	0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
	0xc67178f2,
};

/* ---- in C ---- */

static inline u32 rotate(u32 word, unsigned int bits)
{
	return word >> bits | word << (32 - bits);
}

/* All 64 words of the message schedule. */
static void expand(u32 w[NR_ROUNDS], const u8 *chunk)
{
	memcpy(w, chunk, DIGEST_CHUNK);
	for (int t = 0; t < 16; t++)
		w[t] = __builtin_bswap32(w[t]);
	for (int t = 16; t < NR_ROUNDS; t++) {
		u32 a = w[t - 15], b = w[t - 2];

		a = rotate(a, 7) ^ rotate(a, 18) ^ a >> 3;
		b = rotate(b, 17) ^ rotate(b, 19) ^ b >> 10;
		w[t] = w[t - 16] + a + w[t - 7] + b;
	}
}

/*
 * Round @t of eight, after which each variable is back in its place: the standard moves all eight
 * by one, here the names move. With a constant @t all of them stay in registers.
 */
static __always_inline void sha_round(u32 v[8], unsigned int t, u32 word)
{
#define VAR(letter)	v[(#letter[0] - 'a' - t) % 8]
	u32 choice = (VAR(e) & VAR(f)) ^ (~VAR(e) & VAR(g));
	u32 majority = (VAR(a) & VAR(b)) ^ (VAR(a) & VAR(c)) ^ (VAR(b) & VAR(c));
	u32 sum1 = rotate(VAR(e), 6) ^ rotate(VAR(e), 11) ^ rotate(VAR(e), 25);
	u32 sum0 = rotate(VAR(a), 2) ^ rotate(VAR(a), 13) ^ rotate(VAR(a), 22);

	VAR(h) += sum1 + choice + word;
	VAR(d) += VAR(h);
	VAR(h) += sum0 + majority;
#undef VAR
}

static inline void eight_rounds(u32 v[8], const u32 *constant, const u32 *w)
{
	sha_round(v, 0, constant[0] + w[0]);
	sha_round(v, 1, constant[1] + w[1]);
	sha_round(v, 2, constant[2] + w[2]);
	sha_round(v, 3, constant[3] + w[3]);
	sha_round(v, 4, constant[4] + w[4]);
	sha_round(v, 5, constant[5] + w[5]);
	sha_round(v, 6, constant[6] + w[6]);
	sha_round(v, 7, constant[7] + w[7]);
}

static void absorb_portable(union digest_state *state, const u8 *chunk, size_t nr)
{
	u32 w[NR_ROUNDS], v[8];

	for (; nr; nr--, chunk += DIGEST_CHUNK) {
		expand(w, chunk);
		memcpy(v, state->sha, sizeof(v));
		for (int t = 0; t < NR_ROUNDS; t += 8)
			eight_rounds(v, round_constant + t, w + t);
		for (int i = 0; i < 8; i++)
			state->sha[i] += v[i];
	}
}

static void absorb_two_portable(union digest_state state[2], const u8 *const chunk[2])
{
	absorb_portable(&state[0], chunk[0], 1);
	absorb_portable(&state[1], chunk[1], 1);
}

/* ---- the end, common to both ---- */

static void sha_finish(struct digest *digest, u8 *result)
{
	u64 bits = __builtin_bswap64((digest->absorbed + digest->fill) * 8);
	u32 end;

	kv_digest_room(digest, 1 + LENGTH_BYTES);
	/* A one, zeros up to the end of a chunk, and in its last bytes how many bits there were. */
	digest->buf[digest->fill++] = 0x80;
	end = kv_align_up(digest->fill + LENGTH_BYTES, DIGEST_CHUNK);
	memset(digest->buf + digest->fill, 0, end - LENGTH_BYTES - digest->fill);
	memcpy(digest->buf + end - LENGTH_BYTES, &bits, sizeof(bits));
	digest->fill = end;
	digest->ops->absorb(&digest->state, digest->buf, digest->fill / DIGEST_CHUNK);
	for (int i = 0; i < 8; i++) {
		u32 word = __builtin_bswap32(digest->state.sha[i]);

		memcpy(result + i * sizeof(word), &word, sizeof(word));
	}
}

const struct digest_ops kv_sha256_portable = {
	.bytes	= 32,
	.absorb	= absorb_portable,
	.absorb_two = absorb_two_portable,
	.finish	= sha_finish,
};

/* ---- with the extensions ---- */

#if HAVE_SHA_NI

#define __sha_ni	__attribute__((target("sha,sse4.1")))

/*
 * The state as sha256rnds2 wants it: words of the standard from the highest lane to the lowest.
 */
struct lanes {
	__m128i abef;
	__m128i cdgh;
};

#define REVERSE		0x1b	/* of the four lanes */
#define UPPER_HALF	0x0e

static inline __sha_ni struct lanes load_state(const u32 sha[8])
{
	__m128i low = _mm_loadu_si128((const __m128i *)(const void *)sha);
	__m128i high = _mm_loadu_si128((const __m128i *)(const void *)(sha + 4));

	return (struct lanes){
		.abef = _mm_shuffle_epi32(_mm_unpacklo_epi64(low, high), REVERSE),
		.cdgh = _mm_shuffle_epi32(_mm_unpackhi_epi64(low, high), REVERSE),
	};
}

static inline __sha_ni void store_state(u32 sha[8], struct lanes v)
{
	v.abef = _mm_shuffle_epi32(v.abef, REVERSE);
	v.cdgh = _mm_shuffle_epi32(v.cdgh, REVERSE);
	_mm_storeu_si128((__m128i *)(void *)sha, _mm_unpacklo_epi64(v.abef, v.cdgh));
	_mm_storeu_si128((__m128i *)(void *)(sha + 4), _mm_unpackhi_epi64(v.abef, v.cdgh));
}

static inline __sha_ni __m128i swap_bytes(__m128i words)
{
	return _mm_shuffle_epi8(words, _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203));
}

/* Four words of a chunk or a result, which are big endian. */
static inline __sha_ni __m128i load_words(const u8 *byte)
{
	return swap_bytes(_mm_loadu_si128((const __m128i *)(const void *)byte));
}

static inline __sha_ni u8 *store_words(u8 *byte, __m128i words)
{
	_mm_storeu_si128((__m128i *)(void *)byte, swap_bytes(words));
	return byte + 16;
}

/* Rounds t to t + 3, with words t to t + 3. @constant: the first of theirs. */
static inline __sha_ni void four_rounds(struct lanes *v, __m128i words, const u32 *constant)
{
	words = _mm_add_epi32(words, _mm_load_si128((const __m128i *)(const void *)constant));
	v->cdgh = _mm_sha256rnds2_epu32(v->cdgh, v->abef, words);
	words = _mm_shuffle_epi32(words, UPPER_HALF);
	v->abef = _mm_sha256rnds2_epu32(v->abef, v->cdgh, words);
}

/* Words t + 16 to t + 19 from words t to t + 15. */
static inline __sha_ni __m128i next_words(__m128i w0, __m128i w4, __m128i w8, __m128i w12)
{
	__m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(w0, w4), _mm_alignr_epi8(w12, w8, 4));

	return _mm_sha256msg2_epu32(sum, w12);
}

static __always_inline __sha_ni void load_chunk(__m128i w[4], const u8 *chunk)
{
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++)
		w[i] = load_words(chunk + 16 * i);
}

/*
 * A chunk each of @nr messages, four rounds by turns: those of one wait for its last four, and the
 * other's go on meanwhile.
 */
static __always_inline __sha_ni void absorb_words(struct lanes *sum, __m128i w[][4],
						  unsigned int nr)
{
	const u32 *constant = round_constant;
	struct lanes v[2];

	/* The compiler would keep them in registers, and chunks on the stack. */
	__asm__ volatile("" : "+r"(constant));
#pragma GCC unroll 2
	for (unsigned int i = 0; i < nr; i++)
		v[i] = sum[i];
#pragma GCC unroll 16
	for (int t = 0; t < NR_ROUNDS; t += 4) {
		int j = t / 4;

#pragma GCC unroll 2
		for (unsigned int i = 0; i < nr; i++) {
			four_rounds(&v[i], w[i][j % 4], constant + t);
			if (t < NR_ROUNDS - 16)
				w[i][j % 4] = next_words(w[i][j % 4], w[i][(j + 1) % 4],
							 w[i][(j + 2) % 4], w[i][(j + 3) % 4]);
		}
	}
#pragma GCC unroll 2
	for (unsigned int i = 0; i < nr; i++) {
		sum[i].abef = _mm_add_epi32(sum[i].abef, v[i].abef);
		sum[i].cdgh = _mm_add_epi32(sum[i].cdgh, v[i].cdgh);
	}
}

static __always_inline __sha_ni void absorb_chunks(struct lanes *sum, const u8 *chunk, size_t nr)
{
	__m128i w[1][4];

	for (; nr; nr--, chunk += DIGEST_CHUNK) {
		load_chunk(w[0], chunk);
		absorb_words(sum, w, 1);
	}
}

static __sha_ni void absorb_native(union digest_state *state, const u8 *chunk, size_t nr)
{
	struct lanes sum = load_state(state->sha);

	absorb_chunks(&sum, chunk, nr);
	store_state(state->sha, sum);
}

static __sha_ni void absorb_two_native(union digest_state state[2], const u8 *const chunk[2])
{
	struct lanes sum[2] = { load_state(state[0].sha), load_state(state[1].sha) };
	__m128i w[2][4];

	load_chunk(w[0], chunk[0]);
	load_chunk(w[1], chunk[1]);
	absorb_words(sum, w, 2);
	store_state(state[0].sha, sum[0]);
	store_state(state[1].sha, sum[1]);
}

#define PICK(v, i0, i1, i2, i3)	/* two of abef, two of cdgh, from the lowest lane up */	\
	_mm_castps_si128(_mm_shuffle_ps(_mm_castsi128_ps((v).abef), _mm_castsi128_ps((v).cdgh), \
					_MM_SHUFFLE(i3, i2, i1, i0)))

/*
 * Of each message only the last chunk needs the result before: it goes with the first chunk of the
 * next message. Behind the last message that is its own once more, for nothing.
 */
static __sha_ni void chain_native(const struct digest_chain *chain, const u8 *chunk, u32 nr,
				  const u8 *parent, u8 *key, u8 *digest)
{
	const __m128i head = _mm_set_epi32(__builtin_bswap32(chain->head), 0, 0, 0);
	const __m128i one = _mm_set_epi32(0, 0, 0, (int)0x80000000);
	const __m128i bits = _mm_set_epi32(chain->bytes * 8, chain->bytes >> 29, 0, 0);
	const struct lanes start = load_state(chain->start->sha);
	struct lanes sum[2] = { start, start };	/* of a message, and of the next one */
	__m128i w[2][4], name = load_words(parent);

	absorb_chunks(&sum[1], chunk, chain->chunks);
	for (; nr; nr--) {
		w[0][0] = _mm_alignr_epi8(name, head, 12);
		w[0][1] = _mm_alignr_epi8(one, name, 12);
		w[0][2] = _mm_setzero_si128();
		w[0][3] = bits;
		chunk += nr > 1 ? chain->chunks * DIGEST_CHUNK : 0;
		load_chunk(w[1], chunk);
		sum[0] = sum[1];
		sum[1] = start;
		absorb_words(sum, w, 2);
		absorb_chunks(&sum[1], chunk + DIGEST_CHUNK, chain->chunks - 1);
		name = PICK(sum[0], 3, 2, 1, 0);
		if (key)
			key = store_words(key, name);
		if (digest) {
			digest = store_words(digest, PICK(sum[0], 3, 2, 3, 2));
			digest = store_words(digest, PICK(sum[0], 1, 0, 1, 0));
		}
	}
}

static const struct digest_ops sha256_native = {
	.bytes	= 32,
	.absorb	= absorb_native,
	.absorb_two = absorb_two_native,
	.chain	= chain_native,
	.finish	= sha_finish,
};

#define LEAF1_ECX_WANTED	(bit_SSSE3 | bit_SSE4_1)

static bool cpu_has_sha(void)
{
	u32 eax, ebx, ecx, edx;

	if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) ||
	    (ecx & LEAF1_ECX_WANTED) != LEAF1_ECX_WANTED)
		return false;
	return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && ebx & bit_SHA;
}

/* Asking the processor takes microseconds in a virtual machine: once will do. */
const struct digest_ops *kv_sha256_native(void)
{
	static u32 answer_plus_1;	/* 0 until asked; all threads would write the same */
	u32 known = READ_ONCE(answer_plus_1);

	if (!known) {
		known = cpu_has_sha() + 1u;
		WRITE_ONCE(answer_plus_1, known);
	}
	return known > 1 ? &sha256_native : NULL;
}

#else

const struct digest_ops *kv_sha256_native(void)
{
	return NULL;
}

#endif /* HAVE_SHA_NI */

const struct digest_ops *kv_sha256(void)
{
	const struct digest_ops *native = kv_sha256_native();

	return native ? native : &kv_sha256_portable;
}
