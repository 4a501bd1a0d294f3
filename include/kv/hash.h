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

static inline u64 kv_hash_key(const kvmm_key_t *key, u64 seed)
{
	u64 second = seed * 0x9e3779b97f4a7c15ull ^ 0xd6e8feb86659fd93ull;
	u64 half[2];

	memcpy(half, key, sizeof(half));
	half[0] = kv_mul_fold(half[0] ^ seed, half[1] ^ second);
	return kv_mul_fold(half[0] ^ second, 0xa0761d6478bd642full);
}

static inline bool kv_key_equal(const kvmm_key_t *a, const kvmm_key_t *b)
{
	return !memcmp(a, b, sizeof(*a));
}

#endif /* KV_HASH_H */
