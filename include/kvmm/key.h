/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of prefix blocks, for engines that have none of their own.
 *
 * The key of a block stands for everything that its content depends on: its tokens, those of all
 * blocks before it, and what else the model was given. Equal keys mean that one block may be used
 * for the other, so what differs must never get the same key. Hence:
 *
 * - each part enters the hash as a field with a tag and a length: a LoRA's name that happens to
 *   be another request's salt is another key;
 * - what holds for all blocks (tenant, layout, group, ...) is hashed once, into a *context*, and
 *   the context is the start of each block's hash, not only of the first one's;
 * - there is no hash without a secret unless it is SHA-256, and no key of 64 bits.
 *
 * Every byte that is hashed is written down in Documentation/keys.rst.
 *
 * A context does not change once it is made: any number of threads may use it. Make one for each
 * set of attributes, or one a request; it takes less than the keys of five blocks do.
 */
#ifndef KVMM_KEY_H
#define KVMM_KEY_H

#include <errno.h>
#include <string.h>

#include <kvmm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Most tokens a block can have here. */
#define KVMM_KEY_MAX_BLOCK_TOKENS	KVMM_MAX_BLOCK_TOKENS

/** Most bytes of one text or extra. */
#define KVMM_KEY_MAX_BYTES		65536u

/** Bytes of a secret. */
#define KVMM_KEY_SECRET_BYTES		16u

/** Bytes of a name of the engine's own. */
#define KVMM_KEY_MIN_NAME		8u
#define KVMM_KEY_MAX_NAME		64u

struct kvmm_key_ctx;

/** All of a SHA-256, of which a key is the first and the last 8 bytes: kvmm_key_of_digest(). */
typedef struct {
	uint8_t byte[32];
} kvmm_digest_t;

/** Bytes of the caller, borrowed. Data that is NULL is none at all, which is not the same as "". */
struct kvmm_key_bytes {
	const void *data;
	size_t bytes;
};

/**
 * struct kvmm_key_attr - what all keys of a context have in common
 * @size: sizeof(struct kvmm_key_attr); set by KVMM_KEY_ATTR_INIT
 * @algo: "sha256" (the default, if NULL), "siphash", "vllm-sha256-cbor", "local"; see
 *	kvmm_key_algos()
 * @block_tokens: tokens a block, 1 to KVMM_KEY_MAX_BLOCK_TOKENS; 16 if 0
 * @group: KV group
 * @secret: all zero = none. "siphash" must have one, "local" none. With one, others cannot compute
 *	keys of "sha256", nor search for two prompts of one key. Processes that exchange keys
 *	share it
 * @layout_id: tells apart blocks that hold other bytes for the same tokens: model, data type, order
 *	of dimensions, layers, rank
 * @tenant: isolation domain
 * @lora: name of the adapter
 * @salt: of the request or its user
 * @vllm_root: "vllm-sha256-cbor" only: the parent of first blocks, NONE_HASH of vLLM
 * @vllm_seed: instead of @vllm_root: the value of PYTHONHASHSEED. Without both: vLLM's own,
 *	KVMM_KEY_VLLM_SEED
 * @lora_path: where the adapter lies: a name that is given to another adapter is another key. Only
 *	with @lora; "vllm-sha256-cbor" has both or none
 *
 * "local" draws a secret when the process asks for the first such context, and tells it to none:
 * keys cost least, and mean nothing elsewhere. Take it where blocks are named, found and forgotten
 * in one process. What another process, or this program when it runs again, has under such keys (a
 * store on disk, a peer, a router that was told of events) is not found under these: no hit, so
 * never a wrong one. A child after fork() has the secret of its parent, as it has all its memory,
 * and goes on with it, also in contexts made before: a key means the same content in both, so what
 * they reach together is found rightly. Where a child is not to know the parent's names, let it
 * exec().
 *
 * "vllm-sha256-cbor" computes what vLLM 0.33 does. That format has no room for @secret,
 * @layout_id, @tenant and @group: keep those apart by other means.
 */
struct kvmm_key_attr {
	size_t size;
	const char *algo;
	uint32_t block_tokens;
	uint32_t group;
	uint8_t secret[KVMM_KEY_SECRET_BYTES];
	struct kvmm_key_bytes layout_id;
	struct kvmm_key_bytes tenant;
	struct kvmm_key_bytes lora;
	struct kvmm_key_bytes salt;
	const kvmm_digest_t *vllm_root;
	struct kvmm_key_bytes vllm_seed;
	struct kvmm_key_bytes lora_path;
};

/** Seed of vLLM where PYTHONHASHSEED is not set. */
#define KVMM_KEY_VLLM_SEED	"vllm-none-hash"

#define KVMM_KEY_ATTR_INIT { sizeof(struct kvmm_key_attr), NULL, 0, 0, { 0 }, { NULL, 0 }, \
			     { NULL, 0 }, { NULL, 0 }, { NULL, 0 }, NULL, { NULL, 0 }, \
			     { NULL, 0 } }

/**
 * enum kvmm_key_kind - what a block depends on besides tokens and context
 * @KVMM_KEY_LORA: an adapter for part of the sequence; for all of it, see &kvmm_key_attr.lora
 * @KVMM_KEY_MM: identifier of an image, a sound, ..., for the tokens that stand in for it
 * @KVMM_KEY_SALT: a salt from some token on; for all of them, see &kvmm_key_attr.salt
 * @KVMM_KEY_EMBEDS: hash of the embeddings that were given instead of tokens
 * @KVMM_KEY_OTHER: anything else
 */
enum kvmm_key_kind {
	KVMM_KEY_LORA,
	KVMM_KEY_MM,
	KVMM_KEY_SALT,
	KVMM_KEY_EMBEDS,
	KVMM_KEY_OTHER,
	KVMM_KEY_NR_KINDS,
};

/**
 * struct kvmm_key_extra - something that the blocks of some tokens depend on
 * @kind: enum kvmm_key_kind
 * @bytes: length of @data, at most KVMM_KEY_MAX_BYTES
 * @data: what it is; borrowed during the call
 * @start: its first token, counted from the first one of the call; negative if it began before
 * @nr: tokens that it is about, at least 1
 *
 * It enters the key of each block that has one of those tokens, with the place of its first token
 * counted from the first one of the block: the same image one token further on is another key.
 */
struct kvmm_key_extra {
	uint32_t kind;
	uint32_t bytes;
	const void *data;
	int64_t start;
	int64_t nr;
};

/**
 * struct kvmm_key_seq - the tokens to compute keys of
 * @size: sizeof(struct kvmm_key_seq); set by KVMM_KEY_SEQ_INIT
 * @tokens: ids
 * @nr_tokens: how many; those behind the last full block are left out
 * @extras: sorted by kind, then by start; those of one kind have no token in common
 * @nr_extras: length of @extras
 * @parent: key of the block before the first one; NULL = the sequence begins here
 * @parent_digest: the same for "vllm-sha256-cbor", a chain of all 32 bytes
 *
 * Everything is borrowed during the call.
 */
struct kvmm_key_seq {
	size_t size;
	const uint32_t *tokens;
	size_t nr_tokens;
	const struct kvmm_key_extra *extras;
	size_t nr_extras;
	const kvmm_key_t *parent;
	const kvmm_digest_t *parent_digest;
};

#define KVMM_KEY_SEQ_INIT { sizeof(struct kvmm_key_seq), NULL, 0, NULL, 0, NULL, NULL }

/** kvmm_key_algos() - kvmm_enum_names() of the algorithms. */
static inline unsigned int kvmm_key_algos(const char **names, unsigned int max)
{
	return kvmm_enum_names(KVMM_NAME_KEY_ALGO, names, max);
}

/**
 * kvmm_key_ctx_create() - hash what all blocks have in common
 * @attr: copied, and all that it points to
 * @ctx: set on success only
 *
 * Context: allocates host memory.
 * Return: 0; -EINVAL a bad attribute, or one that the algorithm has no room for; -ENOENT no
 * algorithm of that name; -ENOMEM.
 */
KVMM_API int kvmm_key_ctx_create(const struct kvmm_key_attr *attr, struct kvmm_key_ctx **ctx);

/** kvmm_key_ctx_destroy() - free a context, or NULL; its secret is overwritten. Cannot fail. */
KVMM_API void kvmm_key_ctx_destroy(struct kvmm_key_ctx *ctx);

/**
 * kvmm_key_hash() - compute the keys of all full blocks of a sequence
 * @ctx: what they have in common
 * @seq: tokens and extras
 * @keys: NULL, or one a block, in order; untouched on failure
 * @digests: NULL, or all 32 bytes of each hash; likewise
 * @max: room in both
 *
 * A sequence may be cut at any block and continued in another call, with the last key as
 * &kvmm_key_seq.parent and starts of extras counted anew: the keys are the same.
 *
 * Context: any thread, no lock, no allocation, does not sleep.
 * Return: number of keys, which is nr_tokens / block_tokens; -EINVAL that is more than @max, an
 * extra is out of order or of a kind unknown to the algorithm, or a parent of the wrong type;
 * -EOPNOTSUPP @digests of an algorithm that has only 16 bytes ("siphash", "local").
 */
KVMM_API int kvmm_key_hash(const struct kvmm_key_ctx *ctx, const struct kvmm_key_seq *seq,
			   kvmm_key_t *keys, kvmm_digest_t *digests, uint32_t max);

/** kvmm_key_chain() - kvmm_key_hash() of the keys alone. */
static inline int kvmm_key_chain(const struct kvmm_key_ctx *ctx, const struct kvmm_key_seq *seq,
				 kvmm_key_t *keys, uint32_t max)
{
	return kvmm_key_hash(ctx, seq, keys, NULL, max);
}

/** kvmm_key_digests() - kvmm_key_hash() of the digests alone. */
static inline int kvmm_key_digests(const struct kvmm_key_ctx *ctx, const struct kvmm_key_seq *seq,
				   kvmm_digest_t *digests, uint32_t max)
{
	return kvmm_key_hash(ctx, seq, NULL, digests, max);
}

/** kvmm_key_of_digest() - the key of a block with this digest: its first and its last 8 bytes.
 *
 * Routers know a block by 64 bits of its digest: those of vLLM by the last 8 bytes, those of SGLang
 * by the first. Both are in the key, so events have the numbers that the engine would send.
 */
static inline kvmm_key_t kvmm_key_of_digest(const kvmm_digest_t *digest)
{
	kvmm_key_t key;

	memcpy(key.byte, digest->byte, 8);
	memcpy(key.byte + 8, digest->byte + sizeof(digest->byte) - 8, 8);
	return key;
}

/** Names are strong hashes, of which any 16 bytes will do: see kvmm_keys_of_names(). */
#define KVMM_NAMES_ARE_HASHES	(1u << 0)

/**
 * struct kvmm_key_names - names of the engine's own
 * @size: sizeof(struct kvmm_key_names); set by KVMM_KEY_NAMES_INIT
 * @data: the first name; opaque bytes
 * @bytes: of each: KVMM_KEY_MIN_NAME (with KVMM_NAMES_ARE_HASHES 16) to KVMM_KEY_MAX_NAME
 * @stride: bytes from one name to the next, at least @bytes; 0 = @bytes
 * @nr: number of names
 * @flags: KVMM_NAMES_ARE_HASHES
 * @secret: KVMM_KEY_SECRET_BYTES that others do not know, or NULL: others can compute such keys.
 *	Not with KVMM_NAMES_ARE_HASHES
 *
 * Everything is borrowed during the call.
 */
struct kvmm_key_names {
	size_t size;
	const void *data;
	size_t bytes;
	size_t stride;
	uint32_t nr;
	uint32_t flags;
	const uint8_t *secret;
};

#define KVMM_KEY_NAMES_INIT { sizeof(struct kvmm_key_names), NULL, 0, 0, 0, 0, NULL }

/**
 * kvmm_keys_of_names() - keys of blocks that the engine names by bytes of its own
 * @names: what and how many
 * @keys: one a name, in order; untouched on failure. No part of @names
 *
 * A key is that of a SHA-256 over a tag, the secret, the length and all of the name: names are
 * never cut, and no two have one key. With KVMM_NAMES_ARE_HASHES it is the first and the last 8
 * bytes, as kvmm_key_of_digest() takes them, which costs nothing: right for SHA-256 and the like,
 * wrong for anything in which two names may have those bytes in common. Digests that are followed
 * by a group's number (vLLM: 4 bytes) are names of 32 bytes at a stride of 36; the group belongs
 * into &kvmm_domain_t.group. Do not use both kinds of keys in one domain.
 *
 * Context: any thread, no lock, no allocation, does not sleep.
 * Return: 0; -EINVAL.
 */
KVMM_API int kvmm_keys_of_names(const struct kvmm_key_names *names, kvmm_key_t *keys);

/** kvmm_key_of_bytes() - kvmm_keys_of_names() of one. Return: 0; -EINVAL. */
static inline int kvmm_key_of_bytes(const void *name, size_t bytes, const uint8_t *secret,
				    kvmm_key_t *key)
{
	struct kvmm_key_names names = KVMM_KEY_NAMES_INIT;

	names.data = name;
	names.bytes = bytes;
	names.nr = 1;
	names.secret = secret;
	return kvmm_keys_of_names(&names, key);
}

/**
 * kvmm_key_block() - the key of one block without extras
 * @parent: key of the block before it; NULL = it is the first. Not with "vllm-sha256-cbor"
 * @tokens: ids
 * @nr_tokens: at least block_tokens, less than two blocks
 * @key: set on success only
 *
 * Return: 0; -EINVAL as kvmm_key_chain(), or @nr_tokens is no block or more than one.
 */
static inline int kvmm_key_block(const struct kvmm_key_ctx *ctx, const kvmm_key_t *parent,
				 const uint32_t *tokens, uint32_t nr_tokens, kvmm_key_t *key)
{
	struct kvmm_key_seq seq = KVMM_KEY_SEQ_INIT;
	int nr;

	seq.parent = parent;
	seq.tokens = tokens;
	seq.nr_tokens = nr_tokens;
	nr = kvmm_key_chain(ctx, &seq, key, 1);
	return nr == 1 ? 0 : -EINVAL;
}

#ifdef __cplusplus
}
#endif
#endif /* KVMM_KEY_H */
