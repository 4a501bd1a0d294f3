// SPDX-License-Identifier: Apache-2.0
/*
 * Keys of engines that name blocks themselves, by more bytes than a key has.
 *
 * Cutting a name would make one key of two names that begin alike. So it is hashed, behind a tag of
 * its own, with its length and with the secret: no name has the key of a sequence of tokens. What
 * is a strong hash already need not be hashed again: it may be cut anywhere.
 */
#include <kvmm/key.h>

#include <kv/err.h>

#include "digest.h"

static const char tag[] = "kvmm name";	/* its zero is hashed, too */

int kvmm_keys_of_names(const struct kvmm_key_names *names, kvmm_key_t *keys)
{
	static const u8 no_secret[KVMM_KEY_SECRET_BYTES];
	kvmm_digest_t result;
	struct digest digest;
	bool is_hash;
	size_t step;
	u64 len;

	if (!names || names->size != sizeof(*names) || names->flags & ~KVMM_NAMES_ARE_HASHES ||
	    (names->nr && (!names->data || !keys)))
		return -EINVAL;
	len = names->bytes;
	is_hash = names->flags & KVMM_NAMES_ARE_HASHES;
	step = names->stride ? names->stride : len;
	if (len < (is_hash ? KVMM_KEY_BYTES : KVMM_KEY_MIN_NAME) || len > KVMM_KEY_MAX_NAME ||
	    step < len || (is_hash && names->secret))
		return -EINVAL;

	for (u32 i = 0; i < names->nr; i++) {
		const u8 *name = (const u8 *)names->data + i * step;

		if (is_hash) {
			memcpy(keys[i].byte, name, 8);
			memcpy(keys[i].byte + 8, name + len - 8, 8);
			continue;
		}
		kv_digest_begin(&digest, kv_sha256(), &kv_sha256_start, 0);
		kv_digest_put(&digest, tag, sizeof(tag));
		kv_digest_put(&digest, names->secret ? names->secret : no_secret,
			      KVMM_KEY_SECRET_BYTES);
		kv_digest_put(&digest, &len, sizeof(len));
		kv_digest_put(&digest, name, len);
		kv_digest_finish(&digest, result.byte);
		keys[i] = kvmm_key_of_digest(&result);
	}
	return 0;
}
