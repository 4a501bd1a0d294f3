// SPDX-License-Identifier: Apache-2.0
/* Two requests with the same system prompt: the second one computes only what is new. */
#include <kvmm/kvmm.h>
#include <stdio.h>

#define NR_TOKENS	96	/* 64 of the system prompt, 32 of the user */
#define NR_BLOCKS	(NR_TOKENS / 16)

static int serve(struct kvmm_pool *pool, const struct kvmm_key_ctx *ctx, const char *user)
{
	struct kvmm_key_seq seq = KVMM_KEY_SEQ_INIT;
	uint32_t tokens[NR_TOKENS];
	kvmm_key_t keys[NR_BLOCKS];
	kvmm_mut_t fresh[NR_BLOCKS];
	kvmm_ref_t refs[NR_BLOCKS];
	struct kvmm_acquire_args req = { .keys = keys, .nr_keys = NR_BLOCKS, .max_hits = NR_BLOCKS,
					 .nr_blocks = NR_BLOCKS, .hits = refs, .fresh = fresh };
	int err;

	for (uint32_t i = 0; i < NR_TOKENS; i++)
		tokens[i] = i < 64 ? i : i + (unsigned char)user[0] * 1000;
	seq.tokens = tokens, seq.nr_tokens = NR_TOKENS;
	err = kvmm_key_chain(ctx, &seq, keys, NR_BLOCKS);	/* one key a full block */
	if (err < 0)
		return err;
	err = kvmm_acquire(pool, &req);
	if (err)
		return err;		/* -ENOSPC: wait for another request to end */
	printf("%s: %u blocks reused, %u to compute\n", user, req.nr_hits, req.nr_fresh);
	/* ... compute the fresh blocks; then they can be shared ... */
	err = kvmm_register(pool, fresh, keys + req.nr_hits, req.nr_fresh, refs + req.nr_hits);
	return err ? err : kvmm_put_many(pool, refs, NR_BLOCKS);	/* done; still cached */
}

int main(void)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_key_attr key_attr = KVMM_KEY_ATTR_INIT;
	struct kvmm_key_ctx *ctx = NULL;
	struct kvmm_pool *pool = NULL;
	int err;

	attr.nr_blocks = 1024;		/* of 16 tokens */
	key_attr.tenant = (struct kvmm_key_bytes){ "acme", 4 };
	err = kvmm_key_ctx_create(&key_attr, &ctx);
	if (!err)
		err = kvmm_pool_create(&attr, &pool);
	if (!err)
		err = serve(pool, ctx, "alice");
	if (!err)
		err = serve(pool, ctx, "bob");
	if (err)
		fprintf(stderr, "%s\n", kvmm_strerror(err));
	kvmm_pool_destroy(pool);
	kvmm_key_ctx_destroy(ctx);
	return err ? 1 : 0;
}
