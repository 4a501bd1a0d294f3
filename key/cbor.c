// SPDX-License-Identifier: Apache-2.0
/*
 * Canonical CBOR: each number and each length in the fewest bytes that hold it.
 *
 * A head is one byte, of which five bits are the value if it is below 24, and else say how many
 * bytes of it follow, most significant first.
 */
#include <kv/bits.h>

#include "cbor.h"

#define CBOR_1_BYTE	24u		/* 25, 26 and 27 stand for 2, 4 and 8 */
#define CBOR_NULL	0xf6u

void kv_cbor_head(struct digest *digest, enum cbor_type type, u64 value)
{
	u32 log = (value > 0xff) + (value > 0xffff) + (value > 0xffffffff);
	u32 bytes = value < CBOR_1_BYTE ? 0 : BIT(log);
	u64 be = bytes ? __builtin_bswap64(value << (8 * (sizeof(value) - bytes))) : 0;
	u8 *to = kv_digest_room(digest, 1 + sizeof(value));

	to[0] = type << 5 | (bytes ? CBOR_1_BYTE + log : value);
	memcpy(to + 1, &be, sizeof(be));
	digest->fill += 1 + bytes;
}

void kv_cbor_string(struct digest *digest, enum cbor_type type, const void *data, size_t bytes)
{
	kv_cbor_head(digest, type, bytes);
	kv_digest_put(digest, data, bytes);
}

void kv_cbor_int(struct digest *digest, s64 value)
{
	if (value < 0)
		kv_cbor_head(digest, CBOR_NEGATIVE, ~(u64)value);
	else
		kv_cbor_head(digest, CBOR_UINT, value);
}

void kv_cbor_null(struct digest *digest)
{
	*kv_digest_room(digest, 1) = CBOR_NULL;
	digest->fill++;
}

/*
 * Without branches, since no predictor foresees whether a token takes three bytes or five: 16 of
 * them would cost half as much again as their hash. Writes five bytes and counts those that are
 * meant.
 */
static inline void put_u32(struct digest *digest, u32 value)
{
	u32 bytes = (value >= CBOR_1_BYTE) + (value > 0xff) + 2 * (value > 0xffff);
	u32 be = __builtin_bswap32((u64)value << (8 * (sizeof(value) - bytes)));
	u8 *to = kv_digest_room(digest, 1 + sizeof(value));

	to[0] = bytes ? CBOR_1_BYTE + bytes / 2 : value;
	memcpy(to + 1, &be, sizeof(be));
	digest->fill += 1 + bytes;
}

void kv_cbor_u32_array(struct digest *digest, const u32 *value, u32 nr)
{
	kv_cbor_head(digest, CBOR_ARRAY, nr);
	for (u32 i = 0; i < nr; i++)
		put_u32(digest, value[i]);
}
