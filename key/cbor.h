/* SPDX-License-Identifier: Apache-2.0 */
/* The part of canonical CBOR (RFC 8949) that keys need, written straight into a hash. */
#ifndef KEY_CBOR_H
#define KEY_CBOR_H

#include "digest.h"

enum cbor_type {
	CBOR_UINT	= 0,
	CBOR_NEGATIVE	= 1,		/* -1 - value */
	CBOR_BYTES	= 2,
	CBOR_TEXT	= 3,
	CBOR_ARRAY	= 4,
};

/* The head of an item: its type, and a value or a length. */
void kv_cbor_head(struct digest *digest, enum cbor_type type, u64 value);

void kv_cbor_string(struct digest *digest, enum cbor_type type, const void *data, size_t bytes);
void kv_cbor_int(struct digest *digest, s64 value);
void kv_cbor_null(struct digest *digest);

/* An array of unsigned numbers. */
void kv_cbor_u32_array(struct digest *digest, const u32 *value, u32 nr);

#endif /* KEY_CBOR_H */
