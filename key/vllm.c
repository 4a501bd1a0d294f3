// SPDX-License-Identifier: Apache-2.0
/*
 * The block hashes of vLLM's "sha256_cbor", as of 0.33: SHA-256 over the canonical CBOR of
 *
 *	[parent's hash, [tokens], null or [extra keys]]
 *
 * Extra keys are, in this order: ["lora", name, path], ["mm", identifier, offset in the block] for
 * each multimodal item, in the first block ["cache_salt", salt], ["prompt_embeds", hash of the
 * prompt's embeddings].
 */
#include <kv/mem.h>

#include "cbor.h"
#include "internal.h"

static int check_vllm(const struct kvmm_key_attr *attr)
{
	if (attr->group || attr->layout_id.data || attr->tenant.data ||
	    kv_key_has_secret(attr))
		return -EINVAL;
	if (!attr->lora.data != !attr->lora_path.data)
		return -EINVAL;
	return attr->vllm_root && attr->vllm_seed.data ? -EINVAL : 0;
}

static void init_vllm(struct kvmm_key_ctx *ctx, const struct kvmm_key_attr *attr)
{
	const struct kvmm_key_bytes preset = { KVMM_KEY_VLLM_SEED, strlen(KVMM_KEY_VLLM_SEED) };
	const struct kvmm_key_bytes *seed = attr->vllm_seed.data ? &attr->vllm_seed : &preset;
	struct digest digest;

	ctx->digest = kv_sha256();
	ctx->start = kv_sha256_start;
	if (attr->vllm_root) {
		ctx->root = *attr->vllm_root;
		return;
	}
	kv_digest_begin(&digest, kv_sha256(), &kv_sha256_start, 0);
	kv_cbor_string(&digest, CBOR_TEXT, seed->data, seed->bytes);
	kv_digest_finish(&digest, ctx->root.byte);
}

/* The hash of embeddings stands for those of one block, without saying where they are. */
static bool takes(const struct kvmm_key_ctx *ctx, const struct kvmm_key_extra *extra)
{
	if (extra->kind == KVMM_KEY_MM)
		return true;
	return extra->kind == KVMM_KEY_EMBEDS && extra->nr == ctx->block_tokens &&
	       extra->start % ctx->block_tokens == 0;
}

static void put_text(struct digest *digest, const struct kvmm_key_bytes *text)
{
	kv_cbor_string(digest, CBOR_TEXT, text->data, text->bytes);
}

/* An array of @nr, of which the first says what the others are. */
static void begin_extra(struct digest *digest, const char *source, u32 nr)
{
	kv_cbor_head(digest, CBOR_ARRAY, nr);
	kv_cbor_string(digest, CBOR_TEXT, source, strlen(source));
}

/* Positions in seq->extras, as kv_key_first() and kv_key_last() say. */
struct span {
	size_t i;
	size_t last;
};

static struct span span_of(struct key_walk *walk, enum kvmm_key_kind kind)
{
	size_t first = kv_key_first(walk, kind);

	return (struct span){ first, kv_key_last(walk, kind) };
}

static void put_extra_keys(struct digest *digest, struct key_walk *walk)
{
	const struct kvmm_key_extra *extra = walk->seq->extras;
	const struct kvmm_key_ctx *ctx = walk->ctx;
	struct span mm = span_of(walk, KVMM_KEY_MM), embeds = span_of(walk, KVMM_KEY_EMBEDS);
	bool with_lora = ctx->lora.data, with_salt = !walk->parent && ctx->salt.bytes;
	size_t nr = with_lora + mm.last - mm.i + with_salt + embeds.last - embeds.i;

	if (!nr) {
		kv_cbor_null(digest);
		return;
	}
	kv_cbor_head(digest, CBOR_ARRAY, nr);
	if (with_lora) {
		begin_extra(digest, "lora", 3);
		put_text(digest, &ctx->lora);
		put_text(digest, &ctx->lora_path);
	}
	for (; mm.i < mm.last; mm.i++) {
		begin_extra(digest, "mm", 3);
		kv_cbor_string(digest, CBOR_TEXT, extra[mm.i].data, extra[mm.i].bytes);
		kv_cbor_int(digest, extra[mm.i].start - walk->first);
	}
	if (with_salt) {
		begin_extra(digest, "cache_salt", 2);
		put_text(digest, &ctx->salt);
	}
	for (; embeds.i < embeds.last; embeds.i++) {
		begin_extra(digest, "prompt_embeds", 2);
		kv_cbor_string(digest, CBOR_BYTES, extra[embeds.i].data, extra[embeds.i].bytes);
	}
}

static void put_block(struct digest *digest, struct key_walk *walk)
{
	const void *parent = walk->parent ? walk->parent : walk->ctx->root.byte;

	kv_cbor_head(digest, CBOR_ARRAY, 3);
	kv_cbor_string(digest, CBOR_BYTES, parent, sizeof(kvmm_digest_t));
	kv_cbor_u32_array(digest, kv_key_tokens(walk), walk->ctx->block_tokens);
	put_extra_keys(digest, walk);
}

const struct key_format kv_key_vllm = {
	.name		= "vllm-sha256-cbor",
	.parent_bytes	= sizeof(kvmm_digest_t),
	.check		= check_vllm,
	.init		= init_vllm,
	.takes		= takes,
	.put_block	= put_block,
};
