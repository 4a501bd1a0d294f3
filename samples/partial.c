// SPDX-License-Identifier: Apache-2.0
/*
 * An engine that fills blocks token by token and lets the pool remember what is in them: a block is named by
 * its own tokens when it is full, and two beams share what they have in common. Routers are told the tokens,
 * to name the block in their own way.
 */
#include <errno.h>
#include <kvmm/kvmm.h>
#include <stdio.h>

#define BLOCK_TOKENS	4

static struct kvmm_pool *pool;
static struct kvmm_key_ctx *ctx;
static struct kvmm_publisher *publisher;	/* NULL: there is no libzmq */

/* Drafts are appended, and those that the model does not confirm taken back. */
static int decode(kvmm_mut_t block)
{
	const uint32_t draft[] = { 1, 2, 9 }, model[] = { 3, 4 };
	uint32_t tokens[BLOCK_TOKENS];
	int nr = kvmm_block_append_tokens(pool, block, draft, 3);

	if (nr == 3)
		nr = kvmm_block_pop_tokens(pool, block, 1);
	if (nr == 2)
		nr = kvmm_block_append_tokens(pool, block, model, 2);
	if (nr != BLOCK_TOKENS || kvmm_block_tokens(pool, block, tokens, BLOCK_TOKENS) != nr)
		return nr < 0 ? nr : -EPROTO;
	printf("tokens: %u %u %u %u\n", tokens[0], tokens[1], tokens[2], tokens[3]);
	return 0;
}

static int name(kvmm_mut_t block, kvmm_key_t *key, kvmm_ref_t *ref)
{
	kvmm_staged_t staged;
	struct kvmm_stage_tokens_args stage = { .blocks = &block, .nr = 1, .ctx = ctx,
						.staged = &staged,
						.keys = key };
	struct kvmm_publish_args publish = { .staged = &staged, .nr = 1, .refs = ref };
	struct kvmm_publisher_note note = KVMM_PUBLISHER_NOTE_INIT;
	uint32_t tokens[BLOCK_TOKENS];
	int err = kvmm_block_tokens(pool, block, tokens, BLOCK_TOKENS) != BLOCK_TOKENS ? -EPROTO : 0;

	if (!err)
		err = kvmm_stage_tokens(pool, &stage);	/* -ENODATA: it is not full */
	note.keys = key;
	note.nr = 1;
	note.tokens = tokens;
	note.session_id = "chat-1";
	if (!err && publisher)
		err = kvmm_publisher_tell(publisher, &note);
	return err ? err : kvmm_publish(pool, &publish);
}

/* Events go to all that subscribe at the endpoint. */
static int start_publisher(void)
{
	struct kvmm_publisher_attr attr = KVMM_PUBLISHER_ATTR_INIT;
	int err;

	attr.endpoint = "inproc://partial";
	attr.token_blocks = 16;
	attr.note_bytes = 64;
	err = kvmm_publisher_start(pool, &attr, &publisher);
	if (err == -ENOENT)
		printf("no events: %s\n", kvmm_why());
	return err == -ENOENT ? 0 : err;
}

static int run(void)
{
	struct kvmm_publisher_stat stat = { .size = sizeof(stat) };
	struct kvmm_prefix prefix = { .nr = 2 };
	uint64_t present = 0;
	kvmm_key_t key[2];
	kvmm_mut_t block;
	kvmm_ref_t ref;
	int err = kvmm_alloc(pool, 1, &block);

	if (!err)
		err = decode(block);
	if (!err)
		err = name(block, &key[0], &ref);
	if (!err)
		err = kvmm_get(pool, ref);	/* a second beam goes on from here */
	/* What has a name of another kind: an image, say, that the engine knows by a path. */
	if (!err)
		err = kvmm_key_of_bytes("s3://bucket/image-7", 19, NULL, &key[1]);
	if (err)
		return err;
	prefix.keys = key;
	err = kvmm_prefix_probe(pool, &prefix, &present);
	printf("cached: %s, %s\n", present & 1 ? "the tokens" : "-", present & 2 ? "the image" : "-");
	kvmm_put(pool, ref);
	kvmm_put(pool, ref);
	if (publisher && !kvmm_publisher_get_stat(publisher, &stat))
		printf("%llu events lost\n", (unsigned long long)stat.lost);
	return err == 1 ? 0 : -EPROTO;
}

int main(void)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_key_attr key_attr = KVMM_KEY_ATTR_INIT;
	int err;

	attr.nr_blocks = 16;
	attr.block_tokens = key_attr.block_tokens = BLOCK_TOKENS;
	err = kvmm_key_ctx_create(&key_attr, &ctx);
	if (!err)
		err = kvmm_pool_create(&attr, &pool);
	if (!err)
		err = start_publisher();
	if (!err)
		err = run();
	if (err)
		fprintf(stderr, "%s\n", kvmm_strerror(err));
	kvmm_publisher_stop(publisher);
	kvmm_pool_destroy(pool);
	kvmm_key_ctx_destroy(ctx);
	return err != 0;
}
