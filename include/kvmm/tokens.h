/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partial blocks: the tokens of private blocks, and blocks that are named by their own tokens.
 *
 * For engines that fill blocks one by one and have no sequence of <kvmm/seq.h>. The pool remembers
 * what is in a private block until the block is freed, or has become a cached one; then nothing has
 * to be cleared. Memory for it is taken at first use, for 256 blocks at a time.
 *
 *	kvmm_block_append_tokens(pool, block, &token, 1);	// how many are in it now
 *	...
 *	kvmm_stage_tokens(pool, &req);				// full: name it; else -ENODATA
 *	kvmm_publish(pool, &publish);
 *
 * A block to which tokens were appended can be named only while it is full, by any call: else
 * kvmm_stage() and kvmm_register() say -ENODATA, too. Of others the pool knows nothing, and takes
 * the engine's word.
 *
 * A block's tokens are its owner's, as the block is. Any thread; no lock is held on return.
 */
#ifndef KVMM_TOKENS_H
#define KVMM_TOKENS_H

#include <kvmm/cache.h>
#include <kvmm/key.h>
#include <kvmm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * kvmm_block_append_tokens() - these come next in the block
 *
 * Context: allocates host memory.
 * Return: how many are in it now; -ENOSPC they do not all fit, and none was appended; -ENOMEM;
 * -ESTALE, -EINVAL; -EOPNOTSUPP the pool has no policy.
 */
KVMM_API int kvmm_block_append_tokens(struct kvmm_pool *pool, kvmm_mut_t block,
				      const uint32_t *tokens, uint32_t nr);

/** kvmm_block_pop_tokens() - forget the last @nr. Return: how many are left; -ERANGE there are not
 * so many, and none was forgotten; -ESTALE, -EINVAL. */
KVMM_API int kvmm_block_pop_tokens(struct kvmm_pool *pool, kvmm_mut_t block, uint32_t nr);

/** kvmm_block_tokens() - what is in the block. Return: how many, which may be more than @max;
 * -ESTALE, -EINVAL. */
KVMM_API int kvmm_block_tokens(struct kvmm_pool *pool, kvmm_mut_t block, uint32_t *tokens,
			       uint32_t max);

/** kvmm_block_nr_tokens() - how many. Return: as kvmm_block_tokens(). */
static inline int kvmm_block_nr_tokens(struct kvmm_pool *pool, kvmm_mut_t block)
{
	return kvmm_block_tokens(pool, block, NULL, 0);
}

/**
 * struct kvmm_stage_tokens_args - full blocks to be named by their tokens
 * @blocks: private blocks that follow each other; taken on success
 * @nr: how many, at least 1
 * @ctx: how they are named, for blocks of as many tokens as the pool's
 * @parent, @parent_digest: name of the block before, as in struct kvmm_key_seq
 * @extras, @nr_extras: the same; starts count from the first token of the first block
 * @position: of the first, in blocks from the start of the prompt
 * @domain: their tenant, layout and group
 * @staged: room for @nr; may be the memory of @blocks
 * @keys: room for @nr: their names; untouched on failure
 * @digests: NULL, or room for @nr: the same in full, for the next @parent_digest; likewise
 */
struct kvmm_stage_tokens_args {
	const kvmm_mut_t *blocks;
	uint32_t nr;
	const struct kvmm_key_ctx *ctx;
	const kvmm_key_t *parent;
	const kvmm_digest_t *parent_digest;
	const struct kvmm_key_extra *extras;
	size_t nr_extras;
	uint32_t position;
	kvmm_domain_t domain;
	kvmm_staged_t *staged;
	kvmm_key_t *keys;
	kvmm_digest_t *digests;
};

KVMM_API int kvmm_stage_tokens_sized(struct kvmm_pool *pool,
				     const struct kvmm_stage_tokens_args *req,
				     size_t size);

/**
 * kvmm_stage_tokens() - kvmm_stage(), with names that are computed from the blocks' own tokens
 *
 * Context: allocates host memory.
 * Return: 0; -ENODATA one of them is not full; -ENOMEM; -EOPNOTSUPP @digests of an algorithm that
 * has none; -ESTALE, -EINVAL. On failure all are still private, their tokens as they were.
 */
static inline int kvmm_stage_tokens(struct kvmm_pool *pool,
				    const struct kvmm_stage_tokens_args *req)
{
	return kvmm_stage_tokens_sized(pool, req, sizeof(*req));
}

#ifdef __cplusplus
}
#endif
#endif /* KVMM_TOKENS_H */
