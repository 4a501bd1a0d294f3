// SPDX-License-Identifier: Apache-2.0
/* The buffer in front of each hash. No locks: a hash belongs to the thread that computes it. */
#include <kv/bits.h>

#include "digest.h"

/* Whole chunks go, less than one stays. */
noinline void __kv_digest_drain(struct digest *digest)
{
	u32 nr = digest->fill / DIGEST_CHUNK, bytes = nr * DIGEST_CHUNK;

	digest->ops->absorb(&digest->state, digest->buf, nr);
	digest->absorbed += bytes;
	digest->fill -= bytes;
	memmove(digest->buf, digest->buf + bytes, digest->fill);
}

/* Full chunks first: their copy is four instructions, and no call. */
void kv_digest_put(struct digest *digest, const void *data, size_t bytes)
{
	const u8 *byte = data;

	for (; bytes >= DIGEST_CHUNK; bytes -= DIGEST_CHUNK, byte += DIGEST_CHUNK) {
		memcpy(kv_digest_room(digest, DIGEST_CHUNK), byte, DIGEST_CHUNK);
		digest->fill += DIGEST_CHUNK;
	}
	if (bytes) {
		memcpy(kv_digest_room(digest, bytes), byte, bytes);
		digest->fill += bytes;
	}
}
