/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a key goes in a table.
 *
 * Keys come from outside, and a tenant that chooses keys must not choose the bucket too: both
 * halves are mixed with secrets before the first multiplication. With a known factor there, a key
 * that makes it zero would send any other half to the same place.
 */
#ifndef KV_HASH_H
#define KV_HASH_H

#include <string.h>

#include <kv/types.h>
#include <kvmm/types.h>

/* All 128 bits of the product, folded: each bit of the result depends on all of @a and @b. */
static inline u64 kv_mul_fold(u64 a, u64 b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (u64)product ^ (u64)(product >> 64);
}

/* The other secret that comes with a seed. */
static inline u64 kv_hash_second(u64 seed)
{
	return seed * 0x9e3779b97f4a7c15ull ^ 0xd6e8feb86659fd93ull;
}

/* The first multiplication: any number of hashes of one key may be made from that. */
static inline u64 kv_mix_key(const u64 half[2], u64 seed)
{
	return kv_mul_fold(half[0] ^ seed, half[1] ^ kv_hash_second(seed));
}

/* One of them for each @seed. */
static inline u64 kv_hash_mix(u64 mix, u64 seed)
{
	return kv_mul_fold(mix ^ seed, 0xa0761d6478bd642full);
}

static inline u64 kv_hash_key(const kvmm_key_t *key, u64 seed)
{
	u64 half[2];

	memcpy(half, key, sizeof(half));
	return kv_hash_mix(kv_mix_key(half, seed), kv_hash_second(seed));
}

static inline bool kv_key_equal(const kvmm_key_t *a, const kvmm_key_t *b)
{
	return !memcmp(a, b, sizeof(*a));
}

#endif /* KV_HASH_H */
