/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of sequences share: blocks of 4 tokens, prompts, pictures of the block table. */
#ifndef POOL_TEST_REQUEST_UTIL_H
#define POOL_TEST_REQUEST_UTIL_H

#include <kvmm/cache.h>
#include <kvmm/ext/seq.h>

#include "tests/pool/util.h"

#define BLOCK_TOKENS	4u

/* A pool of blocks of BLOCK_TOKENS tokens and TEST_BLOCK_BYTES bytes, policy "lru". */
struct kvmm_pool *make_token_pool(u32 nr_blocks);
struct kvmm_key_ctx *make_ctx(const char *algo);

/* Prompt first, first + 1, ..., nr tokens. */
struct kvmm_seq *make_seq(struct kvmm_pool *pool, const struct kvmm_key_ctx *ctx, u32 first, u32 nr,
			  u32 max_output);

struct kvmm_seq *make_waiting_seq(struct kvmm_pool *pool, const struct kvmm_key_ctx *ctx, u32 first,
				  u32 nr, u32 max_output, u64 wait_ns);

/* The whole prompt in one step, and @token behind it. */
void prefill(struct kvmm_seq *seq, u32 token);
void decode(struct kvmm_seq *seq, u32 token);

/*
 * One letter a block of the table: 'H' found cached, 'P' published by this sequence, 'p' private
 * and holds computed tokens, '.' private and holds none. Behind it "computed/tokens". Valid until
 * the next call.
 */
const char *table_picture(const struct kvmm_seq *seq);

struct kvmm_seq_info info_of(const struct kvmm_seq *seq);

/* Does the pool hold nothing but cached blocks that nobody references? */
bool pool_is_idle(struct kvmm_pool *pool);

#endif /* POOL_TEST_REQUEST_UTIL_H */
