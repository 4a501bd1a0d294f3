// SPDX-License-Identifier: Apache-2.0
/*
 * Keys of engines that name blocks themselves, by more bytes than a key has.
 *
 * Cutting a name would make one key of two names that begin alike. So it is hashed, behind a tag of
 * its own, with its length and with the secret: no name has the key of a sequence of tokens.
 */
#include <kvmm/key.h>

#include <kv/err.h>

#include "digest.h"

static const char tag[] = "kvmm name";	/* its zero is hashed, too */

int kvmm_key_of_bytes(const void *name, size_t bytes, const uint8_t *secret, kvmm_key_t *key)
{
	static const u8 no_secret[KVMM_KEY_SECRET_BYTES];
	u8 result[DIGEST_BYTES];
	struct digest digest;
	u64 len = bytes;

	if (!name || !key || bytes < KVMM_KEY_MIN_NAME || bytes > KVMM_KEY_MAX_NAME)
		return -EINVAL;
	kv_digest_begin(&digest, kv_sha256(), &kv_sha256_start, 0);
	kv_digest_put(&digest, tag, sizeof(tag));
	kv_digest_put(&digest, secret ? secret : no_secret, KVMM_KEY_SECRET_BYTES);
	kv_digest_put(&digest, &len, sizeof(len));
	kv_digest_put(&digest, name, bytes);
	kv_digest_finish(&digest, result);
	memcpy(key->byte, result, sizeof(key->byte));
	return 0;
}
