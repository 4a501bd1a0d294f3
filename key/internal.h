/* SPDX-License-Identifier: Apache-2.0 */
/* Between the calls that compute keys (key.c) and the formats that they hash. */
#ifndef KEY_INTERNAL_H
#define KEY_INTERNAL_H

#include <kvmm/key.h>

#include "digest.h"

struct key_walk;

/**
 * struct key_format - the bytes that are hashed for each block
 * @name: as in &kvmm_key_attr.algo
 * @parent_bytes: what of a block enters the next block's hash: 16, its key, or 32, its result
 * @check: an attribute that is wrong for this format: -EINVAL; those of all formats are checked
 * @init: set ->digest and all else the format needs of @ctx; lora and salt are set already
 * @takes: is this extra, which is sound in itself, one that the format has room for?
 * @put_block: everything about the block that @walk is at
 * @hash_run: the results of @nr blocks from there on, of which the first has a parent, in less
 *	time; false: it takes other blocks only. NULL: none
 */
struct key_format {
	const char *name;
	u32 parent_bytes;
	int (*check)(const struct kvmm_key_attr *attr);
	void (*init)(struct kvmm_key_ctx *ctx, const struct kvmm_key_attr *attr);
	bool (*takes)(const struct kvmm_key_ctx *ctx, const struct kvmm_key_extra *extra);
	void (*put_block)(struct digest *digest, struct key_walk *walk);
	bool (*hash_run)(const struct key_walk *walk, u32 nr, kvmm_key_t *keys,
			 kvmm_digest_t *digests);
};

/* All fixed at creation. */
struct kvmm_key_ctx {
	const struct key_format *format;
	const struct digest_ops *digest;
	union digest_state start;	/* of each block's hash */
	u64 absorbed;			/* bytes that led to it */
	u32 block_tokens;
	kvmm_digest_t root;		/* parent of first blocks, if the format wants one */
	struct kvmm_key_bytes lora;	/* in text */
	struct kvmm_key_bytes salt;	/* in text */
	struct kvmm_key_bytes lora_path;	/* in text */
	u8 text[];
};

/* Where a call is. Owner: the caller's thread. */
struct key_walk {
	const struct kvmm_key_ctx *ctx;
	const struct kvmm_key_seq *seq;
	const void *parent;			/* NULL: the block is the first of its sequence */
	s64 first;			/* token of the block, as in &kvmm_key_extra.start */
	size_t next[KVMM_KEY_NR_KINDS];		/* first extra of a kind that does not end before */
	size_t end[KVMM_KEY_NR_KINDS];		/* one past the last extra of a kind */
	u8 result[DIGEST_BYTES];		/* of the last block */
	kvmm_key_t key;				/* of the last block */
};

extern const struct key_format kv_key_sha256, kv_key_siphash, kv_key_vllm, kv_key_local;

static inline bool kv_key_has_secret(const struct kvmm_key_attr *attr)
{
	static const u8 none[KVMM_KEY_SECRET_BYTES];

	return memcmp(attr->secret, none, sizeof(none));
}

/* Extras of one kind that the block depends on: kv_key_first() .. kv_key_last() - 1. */
size_t kv_key_first(struct key_walk *walk, enum kvmm_key_kind kind);
size_t kv_key_last(const struct key_walk *walk, enum kvmm_key_kind kind);

static inline const u32 *kv_key_tokens(const struct key_walk *walk)
{
	return walk->seq->tokens + walk->first;
}

#endif /* KEY_INTERNAL_H */
