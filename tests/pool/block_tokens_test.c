// SPDX-License-Identifier: Apache-2.0
/* Blocks of any number of tokens, as hybrid models have them: 528, 1,056, 2,112 and others. */
#include <kvmm/event.h>

#include "request_util.h"

static const u32 sizes[] = { 1, 3, 17, 528, 1000, 1056, 2112, 65535, KVMM_MAX_BLOCK_TOKENS };

#define for_each_size(size)								\
	for (u32 __nth = 0; __nth < ARRAY_SIZE(sizes); __nth++)				\
		for (u32 size = sizes[__nth]; size; size = 0)

#define NR_FULL		3u	/* blocks of a prompt, which has a token more */

static struct kvmm_pool *make_sized(u32 size)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 8, .policy = "lru",
				       .block_tokens = size };

	return make_pool_of(&attr);
}

static struct kvmm_key_ctx *ctx_of(u32 size)
{
	struct kvmm_key_attr attr = { .size = sizeof(attr), .block_tokens = size };
	struct kvmm_key_ctx *ctx = NULL;

	cr_assert_eq(kvmm_key_ctx_create(&attr, &ctx), 0);
	return ctx;
}

static u32 *tokens_of(u32 nr)
{
	u32 *token = calloc(nr, sizeof(*token));

	cr_assert_not_null(token);
	for (u32 i = 0; i < nr; i++)
		token[i] = i * 2654435761u;
	return token;
}

static struct kvmm_seq *make_prompt(struct kvmm_pool *pool, const struct kvmm_key_ctx *ctx, u32 nr)
{
	struct kvmm_seq_attr attr = KVMM_SEQ_ATTR_INIT;
	u32 *prompt = tokens_of(nr);
	struct kvmm_seq *seq = NULL;

	attr.keys = ctx;
	attr.prompt = prompt;
	attr.nr_prompt = nr;
	attr.max_output = 2;
	cr_assert_eq(kvmm_seq_create(pool, &attr, &seq), 0);
	free(prompt);
	return seq;
}

Test(block_tokens, a_prompt_of_three_blocks_is_found_again)
{
	for_each_size(size) {
		struct kvmm_pool *pool = make_sized(size);
		struct kvmm_key_ctx *ctx = ctx_of(size);
		struct kvmm_seq *seq = make_prompt(pool, ctx, NR_FULL * size + 1);
		struct kvmm_seq *again;

		prefill(seq, 7);
		cr_expect_eq(info_of(seq).nr_computed, NR_FULL * size + 1);
		again = make_prompt(pool, ctx, NR_FULL * size + 1);
		cr_expect_eq(kvmm_seq_acquire(again), (int)NR_FULL, "%u tokens", size);
		cr_expect_eq(info_of(again).nr_computed, NR_FULL * size);
		kvmm_seq_destroy(again);
		kvmm_seq_destroy(seq);
		cr_expect_eq(stat_of(pool).block_tokens, size);
		end_pool(pool);
		kvmm_key_ctx_destroy(ctx);
	}
}

/* Tokens are kept to the last one, and a block that lacks it gets no name. */
Test(block_tokens, a_block_is_full_with_its_last_token_and_not_before)
{
	for_each_size(size) {
		struct kvmm_pool *pool = make_sized(size);
		struct kvmm_events_attr events_attr = KVMM_EVENTS_ATTR_INIT;
		u32 *token = tokens_of(size), *got = calloc(size, sizeof(*got));
		u64 nr_lost;
		kvmm_key_t key[8];
		struct kvmm_event event;
		struct kvmm_events *events;
		kvmm_mut_t mut[8];
		kvmm_ref_t ref[8];

		cr_assert_eq(kvmm_events_open(pool, &events_attr, &events), 0);
		cr_assert_eq(kvmm_alloc(pool, 8, mut), 0);
		for (u32 i = 0; i < 8; i++) {
			key[i] = key_of(i);
			token[0] = i;
			cr_expect_eq(kvmm_block_append_tokens(pool, mut[i], token, size - 1),
				     (int)size - 1);
		}
		cr_expect_eq(kvmm_register(pool, mut, key, 8, ref), size > 1 ? -ENODATA : 0);
		for (u32 i = 0; i < 8 && size > 1; i++)
			cr_expect_eq(kvmm_block_append_tokens(pool, mut[i], token + size - 1, 1),
				     (int)size);
		for (u32 i = 0; i < 8 && size > 1; i++) {
			cr_expect_eq(kvmm_block_append_tokens(pool, mut[i], token, 1), -ENOSPC);
			token[0] = i;
			cr_assert_eq(kvmm_block_tokens(pool, mut[i], got, size), (int)size);
			cr_expect_arr_eq(got, token, size * sizeof(*got));
		}
		if (size > 1)
			cr_expect_eq(kvmm_register(pool, mut, key, 8, ref), 0);
		cr_assert_eq(kvmm_events_read(events, &event, 1, &nr_lost), 1);
		cr_expect_eq(event.tokens, size);
		kvmm_events_close(events);
		cr_expect_eq(kvmm_put_many(pool, ref, 8), 0);
		end_pool(pool);
		free(token);
		free(got);
	}
}

Test(block_tokens, the_table_of_tokens_has_chunks_of_a_mebibyte_or_one_row)
{
	for_each_size(size) {
		struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 1024,
					       .policy = "lru", .block_tokens = size };
		struct kvmm_pool *pool = make_pool_of(&attr);
		u64 before = stat_of(pool).metadata_bytes, more;
		kvmm_mut_t mut;
		u32 token = 1;

		cr_assert_eq(kvmm_alloc(pool, 1, &mut), 0);
		cr_assert_eq(kvmm_block_append_tokens(pool, mut, &token, 1), 1);
		more = stat_of(pool).metadata_bytes - before;
		cr_expect_lt(more, (1u << 20) + 1024 * sizeof(void *) + 256, "%u tokens", size);
		cr_expect_gt(more, size * sizeof(u32));
		cr_assert_eq(kvmm_free(pool, &mut, 1), 0);
		end_pool(pool);
	}
}

Test(block_tokens, a_pool_and_a_key_context_refuse_one_more)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 8, .policy = "lru",
				       .block_tokens = KVMM_MAX_BLOCK_TOKENS + 1 };
	struct kvmm_key_attr key_attr = { .size = sizeof(key_attr),
					  .block_tokens = KVMM_MAX_BLOCK_TOKENS + 1 };
	struct kvmm_pool *pool;
	struct kvmm_key_ctx *ctx;

	cr_expect_eq(kvmm_pool_create(&attr, &pool), -EINVAL);
	cr_expect_eq(kvmm_key_ctx_create(&key_attr, &ctx), -EINVAL);
}
