// SPDX-License-Identifier: Apache-2.0
/*
 * Keys of engines that name blocks themselves, by more bytes than a key has.
 *
 * Cutting a name would make one key of two names that begin alike. So it is hashed, behind a tag of
 * its own, with its length and with the secret: no name has the key of a sequence of tokens. What
 * is a strong hash already need not be hashed again: it may be cut anywhere.
 */
#include <kvmm/key.h>

#include <kv/bits.h>
#include <kv/err.h>
#include <kv/mem.h>

#include "internal.h"

static const char tag[] = "kvmm name";	/* its zero is hashed, too */

#define NAME_AT		(sizeof(tag) + KVMM_KEY_SECRET_BYTES + sizeof(u64))
#define MAX_MESSAGE	(2 * DIGEST_CHUNK)

static_assert(NAME_AT + KVMM_KEY_MAX_NAME + 1 + sizeof(u64) <= MAX_MESSAGE, "two chunks, padded");

/* All of a message but its name, and what pads it. Return: its chunks. */
static u32 make_message(u8 message[MAX_MESSAGE], u64 len, const u8 *secret)
{
	u32 end = NAME_AT + len;
	u32 chunks = kv_align_up(end + 1 + sizeof(u64), DIGEST_CHUNK) / DIGEST_CHUNK;
	u64 bits = __builtin_bswap64(end * 8);

	memset(message, 0, MAX_MESSAGE);
	memcpy(message, tag, sizeof(tag));
	if (secret)
		memcpy(message + sizeof(tag), secret, KVMM_KEY_SECRET_BYTES);
	memcpy(message + NAME_AT - sizeof(len), &len, sizeof(len));
	message[end] = 0x80;
	memcpy(message + chunks * DIGEST_CHUNK - sizeof(bits), &bits, sizeof(bits));
	return chunks;
}

static void take_key(kvmm_key_t *key, const union digest_state *state)
{
	static const u8 word[] = { 0, 1, 6, 7 };	/* both ends of the digest */

	for (u32 i = 0; i < ARRAY_SIZE(word); i++) {
		u32 bytes = __builtin_bswap32(state->sha[word[i]]);

		memcpy(key->byte + i * sizeof(bytes), &bytes, sizeof(bytes));
	}
}

/* Two at a time, where there are two. */
static void hash_names(const struct kvmm_key_names *names, size_t step, kvmm_key_t *keys)
{
	const struct digest_ops *sha256 = kv_sha256();
	u8 message[2][MAX_MESSAGE];
	union digest_state state[2];
	const u8 *name = names->data;
	u32 chunks = make_message(message[0], names->bytes, names->secret), both;

	if (names->nr > 1)
		memcpy(message[1], message[0], sizeof(message[1]));
	for (u32 i = 0; i < names->nr; i += both, name += 2 * step) {
		both = min(names->nr - i, 2u);
		for (u32 k = 0; k < both; k++) {
			memcpy(message[k] + NAME_AT, name + k * step, names->bytes);
			state[k] = kv_sha256_start;
		}
		for (u32 at = 0; both == 2 && at < chunks; at++)
			sha256->absorb_two(state, (const u8 *[]){
				message[0] + at * DIGEST_CHUNK, message[1] + at * DIGEST_CHUNK });
		if (both == 1)
			sha256->absorb(state, message[0], chunks);
		for (u32 k = 0; k < both; k++)
			take_key(&keys[i + k], &state[k]);
	}
	if (names->secret)
		kv_wipe(message, sizeof(message));
}

int kvmm_keys_of_names(const struct kvmm_key_names *names, kvmm_key_t *keys)
{
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

	if (!is_hash)
		hash_names(names, step, keys);
	for (u32 i = 0; is_hash && i < names->nr; i++) {
		const u8 *name = (const u8 *)names->data + i * step;

		memcpy(keys[i].byte, name, 8);
		memcpy(keys[i].byte + 8, name + len - 8, 8);
	}
	return 0;
}
