/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many words of a checksum at once, for the host: kv_sum_word() in each lane of a vector.
 *
 * The sum is the same however it is made, so a processor does it as well as it can: with AVX-512
 * there is a multiplication of 64-bit lanes, with AVX2 the compiler makes one of three of 32 bits.
 * The processor is asked at each piece, which is a load and a branch; nothing is set up before.
 * Four vectors at a time, since a multiplication takes longer than the loads do. A copy that sums
 * what it reads goes through memory once, as fast as one that does not: both go past caches.
 *
 * Included by kernel.h alone.
 */
#ifndef KV_KERNEL_WORDS_H
#define KV_KERNEL_WORDS_H

/*
 * Words at @byte, the first of which is number @pos; returns how many: whole rounds only. The words
 * read go to put(@dst) as well.
 */
#define DEFINE_ROUNDS(name, isa, lanes, put)					\
__attribute__((target(isa)))							\
static inline u64 name(u8 *dst, const u8 *byte, u64 nr, u64 pos, u64 *sum)	\
{										\
	typedef u64 vec __attribute__((vector_size(lanes * 8)));		\
	const u64 step = lanes * KV_SUM_STEP, round = 4 * lanes;		\
	vec key, total[4] = { { 0 } };						\
	u64 done;								\
										\
	for (u32 i = 0; i < lanes; i++)						\
		key[i] = (pos + i + 1) * KV_SUM_STEP;				\
	for (done = 0; done + round <= nr; done += round)			\
		for (u32 i = 0; i < 4; i++) {					\
			vec x;							\
										\
			__builtin_memcpy(&x, byte + 8 * (done + i * lanes), sizeof(x)); \
			put(dst, 8 * (done + i * lanes), x);			\
			x += key;						\
			key += step;						\
			x = (x ^ x >> 30) * KV_SUM_MUL_1;			\
			x = (x ^ x >> 27) * KV_SUM_MUL_2;			\
			total[i] += x ^ x >> 31;				\
		}								\
	total[0] += total[1] + total[2] + total[3];				\
	for (u32 i = 0; i < lanes; i++)						\
		*sum += total[0][i];						\
	return done;								\
}

/* The same without a sum. */
#define DEFINE_STREAM(name, isa, lanes, put)					\
__attribute__((target(isa)))							\
static inline u64 name(u8 *dst, const u8 *byte, u64 nr)				\
{										\
	typedef u64 vec __attribute__((vector_size(lanes * 8)));		\
	const u64 round = 4 * lanes;						\
	u64 done;								\
										\
	for (done = 0; done + round <= nr; done += round)			\
		for (u32 i = 0; i < 4; i++) {					\
			vec x;							\
										\
			__builtin_memcpy(&x, byte + 8 * (done + i * lanes), sizeof(x)); \
			put(dst, 8 * (done + i * lanes), x);			\
		}								\
	return done;								\
}

/* Words copied in one go are not kept in caches: their destination need not be read before. */
#define KV_STREAM_BYTES		4096u

#if defined(__x86_64__) && !defined(__CHECKER__)	/* sparse: no __builtin_cpu_supports() */

#include <immintrin.h>

#define PUT_NOWHERE(to, at, x)	((void)(to))
#define PUT_STREAM64(to, at, x)	_mm512_stream_si512((void *)((to) + (at)), (__m512i)(x))
#define PUT_STREAM32(to, at, x)	_mm256_stream_si256((void *)((to) + (at)), (__m256i)(x))

DEFINE_ROUNDS(kv_sum_avx512, "avx512f,avx512dq", 8, PUT_NOWHERE)
DEFINE_ROUNDS(kv_sum_avx2, "avx2", 4, PUT_NOWHERE)
DEFINE_ROUNDS(kv_copy_avx512, "avx512f,avx512dq", 8, PUT_STREAM64)
DEFINE_ROUNDS(kv_copy_avx2, "avx2", 4, PUT_STREAM32)
DEFINE_STREAM(kv_stream_avx512, "avx512f,avx512dq", 8, PUT_STREAM64)
DEFINE_STREAM(kv_stream_avx2, "avx2", 4, PUT_STREAM32)

/* As far as vectors go: adds to *@sum, and returns how many words that were. */
static inline u64 kv_sum_rounds(const u8 *byte, u64 nr, u64 pos, u64 *sum)
{
	if (__builtin_cpu_supports("avx512dq"))
		return kv_sum_avx512(NULL, byte, nr, pos, sum);
	if (__builtin_cpu_supports("avx2"))
		return kv_sum_avx2(NULL, byte, nr, pos, sum);
	return 0;
}

/* The same, and copies them; 0 if @dst is not aligned for that. */
static inline u64 kv_copy_rounds(u8 *dst, const u8 *byte, u64 nr, u64 pos, u64 *sum)
{
	u64 done;

	if ((uintptr_t)dst % 64)
		return 0;
	if (__builtin_cpu_supports("avx512dq"))
		done = kv_copy_avx512(dst, byte, nr, pos, sum);
	else if (__builtin_cpu_supports("avx2"))
		done = kv_copy_avx2(dst, byte, nr, pos, sum);
	else
		return 0;
	/* This alone orders streaming stores before the word that the copy is complete. */
	_mm_sfence();
	return done;
}

static inline u64 kv_stream_rounds(u8 *dst, const u8 *byte, u64 nr)
{
	u64 done;

	if ((uintptr_t)dst % 64)
		return 0;
	if (__builtin_cpu_supports("avx512dq"))
		done = kv_stream_avx512(dst, byte, nr);
	else if (__builtin_cpu_supports("avx2"))
		done = kv_stream_avx2(dst, byte, nr);
	else
		return 0;
	_mm_sfence();		/* as above */
	return done;
}

#else

static inline u64 kv_sum_rounds(const u8 *byte, u64 nr, u64 pos, u64 *sum)
{
	return 0;
}

static inline u64 kv_copy_rounds(u8 *dst, const u8 *byte, u64 nr, u64 pos, u64 *sum)
{
	return 0;
}

static inline u64 kv_stream_rounds(u8 *dst, const u8 *byte, u64 nr)
{
	return 0;
}

#endif

#endif /* KV_KERNEL_WORDS_H */
