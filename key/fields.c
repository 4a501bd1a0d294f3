// SPDX-License-Identifier: Apache-2.0
/*
 * The library's own formats, "sha256", "siphash" and "local": fields with a tag and a length.
 *
 * Documentation/keys.rst says what is hashed, byte by byte; tests/registry/keys.py computes it from
 * there. Any change here changes every key: then FORMAT_NAME must change as well.
 *
 * A context's attributes are hashed once, by SHA-256, into its *domain* D. The first chunk of each
 * block's message is absorbed in advance: zeros, and the head of the tokens. For "sha256" it begins
 * with D, for the others half of D is the key. So every block depends on the whole domain, and pays
 * nothing for it. The parent comes last: what stands before it need not wait for the block before.
 */
#include <kv/atomic.h>
#include <kv/env.h>
#include <kv/mem.h>

#include "internal.h"

#define FORMAT_NAME	"kvmm-key-3"

enum field {
	FIELD_FORMAT		= 1,
	FIELD_ALGO		= 2,
	FIELD_SECRET		= 3,
	FIELD_LAYOUT_ID		= 4,
	FIELD_TENANT		= 5,
	FIELD_GROUP		= 6,
	FIELD_BLOCK_TOKENS	= 7,
	FIELD_LORA		= 8,
	FIELD_SALT		= 9,
	FIELD_LORA_PATH		= 10,
	FIELD_PARENT		= 16,
	FIELD_TOKENS		= 17,
	FIELD_EXTRA		= 32,	/* + enum kvmm_key_kind */
};

static_assert(KVMM_KEY_MAX_BYTES + sizeof(s64) < 1u << 24, "lengths have 24 bits");
static_assert(KVMM_KEY_MAX_BLOCK_TOKENS * sizeof(u32) < 1u << 24, "lengths have 24 bits");

static inline u32 head_of(enum field field, u32 bytes)
{
	return (u32)field << 24 | bytes;
}

static inline void put_head(struct digest *digest, enum field field, u32 bytes)
{
	u32 head = head_of(field, bytes);

	memcpy(kv_digest_room(digest, sizeof(head)), &head, sizeof(head));
	digest->fill += sizeof(head);
}

static void put_field(struct digest *digest, enum field field, const void *data, size_t bytes)
{
	put_head(digest, field, bytes);
	kv_digest_put(digest, data, bytes);
}

static void put_if_given(struct digest *digest, enum field field,
			 const struct kvmm_key_bytes *bytes)
{
	if (bytes->data)
		put_field(digest, field, bytes->data, bytes->bytes);
}

/* ---- the domain ---- */

static void hash_domain(const struct kvmm_key_ctx *ctx, const struct kvmm_key_attr *attr,
			u8 domain[DIGEST_BYTES])
{
	const char *algo = ctx->format->name;
	struct digest digest;

	kv_digest_begin(&digest, kv_sha256(), &kv_sha256_start, 0);
	put_field(&digest, FIELD_FORMAT, FORMAT_NAME, strlen(FORMAT_NAME));
	put_field(&digest, FIELD_ALGO, algo, strlen(algo));
	if (kv_key_has_secret(attr))
		put_field(&digest, FIELD_SECRET, attr->secret, sizeof(attr->secret));
	put_if_given(&digest, FIELD_LAYOUT_ID, &attr->layout_id);
	put_if_given(&digest, FIELD_TENANT, &attr->tenant);
	put_field(&digest, FIELD_GROUP, &attr->group, sizeof(attr->group));
	put_field(&digest, FIELD_BLOCK_TOKENS, &ctx->block_tokens, sizeof(ctx->block_tokens));
	put_if_given(&digest, FIELD_LORA, &attr->lora);
	put_if_given(&digest, FIELD_SALT, &attr->salt);
	put_if_given(&digest, FIELD_LORA_PATH, &attr->lora_path);
	kv_digest_finish(&digest, domain);
	kv_wipe(&digest, sizeof(digest));
}

static int check_sha256(const struct kvmm_key_attr *attr)
{
	return attr->vllm_root || attr->vllm_seed.data ? -EINVAL : 0;
}

static int check_siphash(const struct kvmm_key_attr *attr)
{
	return kv_key_has_secret(attr) ? check_sha256(attr) : -EINVAL;
}

/* @chunk: what each message begins with, but for its last word. */
static void start_with(struct kvmm_key_ctx *ctx, u8 chunk[DIGEST_CHUNK])
{
	u32 head = head_of(FIELD_TOKENS, ctx->block_tokens * sizeof(u32));

	memcpy(chunk + DIGEST_CHUNK - sizeof(head), &head, sizeof(head));
	ctx->digest->absorb(&ctx->start, chunk, 1);
	ctx->absorbed = DIGEST_CHUNK;
	kv_wipe(chunk, DIGEST_CHUNK);
}

static void init_sha256(struct kvmm_key_ctx *ctx, const struct kvmm_key_attr *attr)
{
	u8 chunk[DIGEST_CHUNK] = { 0 };

	hash_domain(ctx, attr, chunk);
	ctx->digest = kv_sha256();
	ctx->start = kv_sha256_start;
	start_with(ctx, chunk);
}

static void init_keyed(struct kvmm_key_ctx *ctx, const struct kvmm_key_attr *attr,
		       const struct digest_ops *digest)
{
	u8 domain[DIGEST_BYTES], chunk[DIGEST_CHUNK] = { 0 };

	hash_domain(ctx, attr, domain);
	ctx->digest = digest;
	kv_siphash_key(&ctx->start, domain);
	kv_wipe(domain, sizeof(domain));
	start_with(ctx, chunk);
}

static void init_siphash(struct kvmm_key_ctx *ctx, const struct kvmm_key_attr *attr)
{
	init_keyed(ctx, attr, &kv_siphash24);
}

/* ---- the secret of this process ---- */

static int check_local(const struct kvmm_key_attr *attr)
{
	return kv_key_has_secret(attr) ? -EINVAL : check_sha256(attr);
}

/* Threads that are here first may draw at the same time: one's number is that of all. */
static u64 draw_once(u64 *word)
{
	u64 known = smp_load_acquire(word), fresh;

	if (known)
		return known;
	fresh = kv_random();
	fresh += !fresh;	/* 0: not drawn yet */
	return kv_cas(word, &known, fresh) ? fresh : known;
}

static void init_local(struct kvmm_key_ctx *ctx, const struct kvmm_key_attr *attr)
{
	static u64 secret[KVMM_KEY_SECRET_BYTES / sizeof(u64)];
	struct kvmm_key_attr with = *attr;
	u64 words[ARRAY_SIZE(secret)];

	for (size_t i = 0; i < ARRAY_SIZE(secret); i++)
		words[i] = draw_once(&secret[i]);
	memcpy(with.secret, words, sizeof(with.secret));
	init_keyed(ctx, &with, &kv_siphash13);
	kv_wipe(&with, sizeof(with));
	kv_wipe(words, sizeof(words));
}

/* ---- blocks ---- */

static bool takes_all(const struct kvmm_key_ctx *ctx, const struct kvmm_key_extra *extra)
{
	return true;
}

/* Of a constant length: copied without a call. */
static inline void put_parent(struct digest *digest, const void *parent)
{
	put_head(digest, FIELD_PARENT, KVMM_KEY_BYTES);
	memcpy(kv_digest_room(digest, KVMM_KEY_BYTES), parent, KVMM_KEY_BYTES);
	digest->fill += KVMM_KEY_BYTES;
}

static void put_block(struct digest *digest, struct key_walk *walk)
{
	u32 bytes = walk->ctx->block_tokens * sizeof(u32);

	kv_digest_put(digest, kv_key_tokens(walk), bytes);
	for (u32 kind = 0; walk->seq->nr_extras && kind < KVMM_KEY_NR_KINDS; kind++) {
		size_t i = kv_key_first(walk, kind), last = kv_key_last(walk, kind);

		for (; i < last; i++) {
			const struct kvmm_key_extra *extra = &walk->seq->extras[i];
			s64 offset = extra->start - walk->first;

			put_head(digest, FIELD_EXTRA + kind, sizeof(offset) + extra->bytes);
			kv_digest_put(digest, &offset, sizeof(offset));
			kv_digest_put(digest, extra->data, extra->bytes);
		}
	}
	if (walk->parent)
		put_parent(digest, walk->parent);
}

/* Blocks that are whole chunks and have no extras: the chain of the algorithm, if it has one. */
static bool hash_run(const struct key_walk *walk, u32 nr, kvmm_key_t *keys, kvmm_digest_t *digests)
{
	const struct kvmm_key_ctx *ctx = walk->ctx;
	u32 bytes = ctx->block_tokens * sizeof(u32);
	struct digest_chain chain = {
		.start = &ctx->start, .chunks = bytes / DIGEST_CHUNK,
		.head = head_of(FIELD_PARENT, KVMM_KEY_BYTES),
		.bytes = ctx->absorbed + bytes + sizeof(u32) + KVMM_KEY_BYTES,
	};

	if (!ctx->digest->chain || walk->seq->nr_extras || bytes % DIGEST_CHUNK)
		return false;
	ctx->digest->chain(&chain, (const u8 *)kv_key_tokens(walk), nr, walk->parent, (u8 *)keys,
			   (u8 *)digests);
	return true;
}

/* They differ in what they take and in their key alone. */
#define OWN_FORMAT(algo)			\
const struct key_format kv_key_##algo = {	\
	.name		= #algo,		\
	.parent_bytes	= KVMM_KEY_BYTES,	\
	.check		= check_##algo,		\
	.init		= init_##algo,		\
	.takes		= takes_all,		\
	.put_block	= put_block,		\
	.hash_run	= hash_run,		\
}

OWN_FORMAT(sha256);
OWN_FORMAT(siphash);
OWN_FORMAT(local);
