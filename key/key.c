// SPDX-License-Identifier: Apache-2.0
/*
 * Keys of prefix blocks: contexts, the checks of callers' arguments, the walk along a sequence.
 *
 * All checks come first, so that a call that fails has written nothing. Extras are sorted, which
 * makes the order in which they are hashed the only one possible, and lets a cursor for each kind
 * go along with the blocks: a call takes time in proportion to blocks and extras, not to their
 * product. Contexts never change: no lock.
 */
#include <kv/key.h>
#include <kv/bits.h>
#include <kv/err.h>
#include <kv/mem.h>

#include "internal.h"

#define DEFAULT_BLOCK_TOKENS	16u
#define FARTHEST_TOKEN		(INT64_MAX / 4)		/* sums and differences of two fit */

static const struct key_format *const formats[] = {
	&kv_key_sha256, &kv_key_siphash, &kv_key_vllm, &kv_key_local,
};

const char *kv_key_algo(u32 i)
{
	return i < ARRAY_SIZE(formats) ? formats[i]->name : NULL;
}

/* ---- contexts ---- */

static bool bytes_are_sound(const struct kvmm_key_bytes *bytes)
{
	return bytes->data ? bytes->bytes <= KVMM_KEY_MAX_BYTES : !bytes->bytes;
}

/* Copies to @to. Return: the byte behind the copy. */
static u8 *keep(struct kvmm_key_bytes *copy, const struct kvmm_key_bytes *bytes, u8 *to)
{
	if (!bytes->data)
		return to;
	memcpy(to, bytes->data, bytes->bytes);
	*copy = (struct kvmm_key_bytes){ to, bytes->bytes };
	return to + bytes->bytes;
}

int kvmm_key_ctx_create(const struct kvmm_key_attr *attr, struct kvmm_key_ctx **result)
{
	const struct key_format *format;
	struct kvmm_key_ctx *ctx;
	size_t i = 0;
	u8 *text;

	if (!attr || !result || attr->size != sizeof(*attr) ||
	    attr->block_tokens > KVMM_KEY_MAX_BLOCK_TOKENS ||
	    !bytes_are_sound(&attr->layout_id) || !bytes_are_sound(&attr->tenant) ||
	    !bytes_are_sound(&attr->lora) || !bytes_are_sound(&attr->salt) ||
	    !bytes_are_sound(&attr->vllm_seed) || !bytes_are_sound(&attr->lora_path) ||
	    (attr->lora_path.data && !attr->lora.data))
		return -EINVAL;
	while (i < ARRAY_SIZE(formats) && attr->algo && strcmp(attr->algo, formats[i]->name))
		i++;
	if (i == ARRAY_SIZE(formats))
		return -ENOENT;
	format = formats[i];
	if (format->check(attr))
		return -EINVAL;

	ctx = kv_alloc(sizeof(*ctx) + attr->lora.bytes + attr->salt.bytes + attr->lora_path.bytes);
	if (!ctx)
		return -ENOMEM;
	ctx->format = format;
	ctx->block_tokens = attr->block_tokens ? attr->block_tokens : DEFAULT_BLOCK_TOKENS;
	text = keep(&ctx->lora, &attr->lora, ctx->text);
	text = keep(&ctx->salt, &attr->salt, text);
	keep(&ctx->lora_path, &attr->lora_path, text);
	format->init(ctx, attr);
	*result = ctx;
	return 0;
}

void kvmm_key_ctx_destroy(struct kvmm_key_ctx *ctx)
{
	if (ctx)
		kv_wipe(ctx, sizeof(*ctx) + ctx->lora.bytes + ctx->salt.bytes +
			     ctx->lora_path.bytes);
	kv_free(ctx);
}

u32 kv_key_block_tokens(const struct kvmm_key_ctx *ctx)
{
	return ctx->block_tokens;
}

bool kv_key_has_digests(const struct kvmm_key_ctx *ctx)
{
	return ctx->format->parent_bytes == sizeof(kvmm_digest_t);
}

/* ---- callers' arguments ---- */

static bool extra_is_sound(const struct kvmm_key_extra *extra)
{
	return extra->kind < KVMM_KEY_NR_KINDS && extra->data &&
	       extra->bytes <= KVMM_KEY_MAX_BYTES &&
	       extra->start >= -FARTHEST_TOKEN && extra->start <= FARTHEST_TOKEN &&
	       extra->nr >= 1 && extra->nr <= FARTHEST_TOKEN;
}

/* Sorted by kind, then by start: a walk along the blocks needs to look at each but once. */
int kv_key_check_extras(const struct kvmm_key_extra *extra, size_t nr)
{
	if (!extra && nr)
		return -EINVAL;
	for (size_t i = 0; i < nr; i++, extra++)
		if (!extra_is_sound(extra) || (i && extra[-1].kind > extra->kind) ||
		    (i && extra[-1].kind == extra->kind &&
		     extra[-1].start + extra[-1].nr > extra->start))
			return -EINVAL;
	return 0;
}

/* Finds, while it is at it, where the extras of each kind lie. */
static int check_extras(struct key_walk *walk)
{
	const struct kvmm_key_extra *extra = walk->seq->extras;

	if (kv_key_check_extras(extra, walk->seq->nr_extras))
		return -EINVAL;
	for (size_t i = 0; i < walk->seq->nr_extras; i++, extra++) {
		if (!walk->ctx->format->takes(walk->ctx, extra))
			return -EINVAL;
		if (!walk->end[extra->kind])
			walk->next[extra->kind] = i;
		walk->end[extra->kind] = i + 1;
	}
	return 0;
}

/* Return: number of full blocks, at most @max; -EINVAL. */
static int begin(struct key_walk *walk, const struct kvmm_key_ctx *ctx,
		 const struct kvmm_key_seq *seq, u32 max)
{
	bool whole;
	size_t nr;

	if (!ctx || !seq || seq->size != sizeof(*seq) || (seq->nr_tokens && !seq->tokens))
		return -EINVAL;
	nr = seq->nr_tokens / ctx->block_tokens;
	if (nr > max || nr > INT32_MAX)
		return -EINVAL;

	walk->ctx = ctx;
	walk->seq = seq;
	walk->first = 0;
	memset(walk->next, 0, sizeof(walk->next));
	memset(walk->end, 0, sizeof(walk->end));
	whole = kv_key_has_digests(ctx);
	if (whole ? seq->parent != NULL : seq->parent_digest != NULL)
		return -EINVAL;
	walk->parent = whole ? (const void *)seq->parent_digest : seq->parent;
	return check_extras(walk) ? -EINVAL : (int)nr;
}

/* ---- the walk ---- */

size_t kv_key_first(struct key_walk *walk, enum kvmm_key_kind kind)
{
	const struct kvmm_key_extra *extra = walk->seq->extras;
	size_t i = walk->next[kind];

	kv_assert(walk->end[kind] <= walk->seq->nr_extras);
	while (i < walk->end[kind] && extra[i].start + extra[i].nr <= walk->first)
		i++;
	walk->next[kind] = i;
	return i;
}

size_t kv_key_last(const struct key_walk *walk, enum kvmm_key_kind kind)
{
	const struct kvmm_key_extra *extra = walk->seq->extras;
	s64 end = walk->first + walk->ctx->block_tokens;
	size_t i = walk->next[kind];

	while (i < walk->end[kind] && extra[i].start < end)
		i++;
	return i;
}

static void hash_blocks(struct key_walk *walk, int from, int to, kvmm_key_t *keys,
			kvmm_digest_t *digests)
{
	const struct kvmm_key_ctx *ctx = walk->ctx;
	struct digest digest;

	for (int i = from; i < to; i++) {
		kv_digest_begin(&digest, ctx->digest, &ctx->start, ctx->absorbed);
		ctx->format->put_block(&digest, walk);
		kv_digest_finish(&digest, walk->result);
		memcpy(&walk->key, walk->result, sizeof(walk->key));
		if (ctx->digest->bytes == sizeof(kvmm_digest_t))
			walk->key = kvmm_key_of_digest((const kvmm_digest_t *)walk->result);
		walk->parent = kv_key_has_digests(ctx) ? walk->result : walk->key.byte;
		walk->first += ctx->block_tokens;
		if (keys)
			keys[i] = walk->key;
		if (digests)
			memcpy(&digests[i], walk->result, sizeof(*digests));
	}
}

int kvmm_key_hash(const struct kvmm_key_ctx *ctx, const struct kvmm_key_seq *seq, kvmm_key_t *keys,
		  kvmm_digest_t *digests, uint32_t max)
{
	struct key_walk walk;
	int nr = begin(&walk, ctx, seq, max), first;

	if (nr > 0 && !keys && !digests)
		return -EINVAL;
	if (nr >= 0 && digests && ctx->digest->bytes < sizeof(*digests))
		return -EOPNOTSUPP;
	if (nr <= 0)
		return nr;
	first = !walk.parent;
	hash_blocks(&walk, 0, first, keys, digests);
	if (nr == first || !ctx->format->hash_run ||
	    !ctx->format->hash_run(&walk, nr - first, keys ? keys + first : NULL,
				   digests ? digests + first : NULL))
		hash_blocks(&walk, first, nr, keys, digests);
	return nr;
}
