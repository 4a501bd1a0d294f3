/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all of kvmm-replay shares. Runs have nothing in common but options and trace, which no run
 * changes; so runs of compare may have a thread each, and nothing but its list of jobs is shared.
 */
#ifndef REPLAY_COMMON_H
#define REPLAY_COMMON_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../must.h"

typedef uint8_t u8;
typedef uint32_t u32;
typedef int64_t s64;
typedef uint64_t u64;
typedef unsigned __int128 u128;

#define U32_NONE		UINT32_MAX
#define ARRAY_SIZE(a)		(sizeof(a) / sizeof((a)[0]))
#define DIV_ROUND_UP(n, d)	(((n) + (d) - 1) / (d))

static inline u64 min_u64(u64 a, u64 b)
{
	return a < b ? a : b;
}

static inline u64 max_u64(u64 a, u64 b)
{
	return a > b ? a : b;
}

/* A bijection of 64-bit words that spreads neighbours far apart (splitmix64's finalizer). */
static inline u64 mix64(u64 x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* Order-dependent fingerprint of the contract: f * 1000003 + value. */
static inline u64 fold(u64 fp, u64 value)
{
	return fp * 1000003u + value;
}

/* For qsort(): upwards. */
static inline int compare_u32(const void *a, const void *b)
{
	u32 x = *(const u32 *)a, y = *(const u32 *)b;

	return (x > y) - (x < y);
}

#endif /* REPLAY_COMMON_H */
