// SPDX-License-Identifier: Apache-2.0

#include "request_util.h"

struct kvmm_pool *make_token_pool(u32 nr_blocks)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = nr_blocks,
				       .policy = "lru", .block_tokens = BLOCK_TOKENS,
				       .block_bytes = TEST_BLOCK_BYTES };

	return make_pool_of(&attr);
}

struct kvmm_key_ctx *make_ctx(const char *algo)
{
	struct kvmm_key_attr attr = { .size = sizeof(attr), .algo = algo,
				      .block_tokens = BLOCK_TOKENS };
	struct kvmm_key_ctx *ctx = NULL;

	if (algo && algo[0] == 's' && algo[1] == 'i')
		attr.secret[3] = 7;
	if (algo && algo[0] == 'v')
		attr.vllm_seed = (struct kvmm_key_bytes){ "0", 1 };
	cr_assert_eq(kvmm_key_ctx_create(&attr, &ctx), 0);
	return ctx;
}

struct kvmm_seq *make_seq(struct kvmm_pool *pool, const struct kvmm_key_ctx *ctx, u32 first, u32 nr,
			  u32 max_output)
{
	return make_waiting_seq(pool, ctx, first, nr, max_output, 0);
}

struct kvmm_seq *make_waiting_seq(struct kvmm_pool *pool, const struct kvmm_key_ctx *ctx, u32 first,
				  u32 nr, u32 max_output, u64 wait_ns)
{
	struct kvmm_seq_attr attr = KVMM_SEQ_ATTR_INIT;
	struct kvmm_seq *seq = NULL;
	u32 prompt[256];

	cr_assert_leq(nr, 256);
	for (u32 i = 0; i < nr; i++)
		prompt[i] = first + i;
	attr.keys = ctx;
	attr.prompt = prompt;
	attr.nr_prompt = nr;
	attr.max_output = max_output;
	attr.wait_ns = wait_ns;
	cr_assert_eq(kvmm_seq_create(pool, &attr, &seq), 0);
	return seq;
}

void prefill(struct kvmm_seq *seq, u32 token)
{
	cr_assert_eq(kvmm_seq_schedule_prefill(seq, info_of(seq).nr_waiting), 0);
	cr_assert_geq(kvmm_seq_apply(seq, &token, 1), 0);
}

void decode(struct kvmm_seq *seq, u32 token)
{
	cr_assert_eq(kvmm_seq_schedule_decode(seq), 0);
	cr_assert_geq(kvmm_seq_apply(seq, &token, 1), 0);
}

static char letter_of(const struct kvmm_seq_info *info, u32 block)
{
	if (block < info->nr_published)
		return block < info->nr_hits ? 'H' : 'P';
	return block * BLOCK_TOKENS < info->nr_computed ? 'p' : '.';
}

const char *table_picture(const struct kvmm_seq *seq)
{
	struct kvmm_seq_info info = info_of(seq);
	static char line[512];
	u32 i;

	cr_assert_lt(info.nr_blocks, 256);
	for (i = 0; i < info.nr_blocks; i++)
		line[i] = letter_of(&info, i);
	sprintf(line + i, " %u/%u", info.nr_computed, info.nr_tokens);
	return line;
}

struct kvmm_seq_info info_of(const struct kvmm_seq *seq)
{
	struct kvmm_seq_info info;

	cr_assert_eq(kvmm_seq_get_info(seq, &info), 0);
	return info;
}

bool pool_is_idle(struct kvmm_pool *pool)
{
	struct kvmm_pool_stat stat = stat_of(pool);

	return stat.nr_available == stat.nr_blocks;
}
