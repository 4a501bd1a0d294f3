// SPDX-License-Identifier: Apache-2.0
/* Keys of a prompt: what a block costs by each algorithm, beside a copy of its tokens. */
#include "pools.h"

#define PROMPT_BLOCKS	256u
#define BLOCK_TOKENS	16u
#define MAX_ALGOS	8u

struct prompt {
	struct kvmm_key_ctx *ctx;
	u32 tokens[PROMPT_BLOCKS * BLOCK_TOKENS];
	u32 copy[PROMPT_BLOCKS * BLOCK_TOKENS];
	kvmm_key_t keys[PROMPT_BLOCKS];
};

static void key_step(void *arg, u32 nr)
{
	struct kvmm_key_seq seq = KVMM_KEY_SEQ_INIT;
	struct prompt *prompt = arg;

	seq.tokens = prompt->tokens;
	seq.nr_tokens = ARRAY_SIZE(prompt->tokens);
	for (u32 i = 0; i < nr; i += PROMPT_BLOCKS)
		kvmm_key_chain(prompt->ctx, &seq, prompt->keys, PROMPT_BLOCKS);
}

static void copy_step(void *arg, u32 nr)
{
	struct prompt *prompt = arg;

	for (u32 i = 0; i < nr; i += PROMPT_BLOCKS) {
		memcpy(prompt->copy, prompt->tokens, sizeof(prompt->copy));
		__asm__ volatile("" : : "r"(prompt->copy) : "memory");
	}
}

static int open_prompt(struct prompt *prompt, const char *algo, u64 *seed)
{
	struct kvmm_key_attr attr = KVMM_KEY_ATTR_INIT;

	for (u32 i = 0; i < ARRAY_SIZE(prompt->tokens); i++)
		prompt->tokens[i] = rng_below(seed, 128000);
	attr.algo = algo;
	attr.block_tokens = BLOCK_TOKENS;
	attr.secret[0] = !strcmp(algo, "siphash");
	return kvmm_key_ctx_create(&attr, &prompt->ctx);
}

int bench_keys(struct bench *bench)
{
	static const struct metric key = { "key_ns", "ns/blk", ALONE };
	static const struct metric copy = { "copy_ns", "ns/blk", ALONE };
	static struct prompt prompts[MAX_ALGOS];
	const char *algos[MAX_ALGOS];
	u32 nr = kvmm_key_algos(algos, MAX_ALGOS);
	struct series *memcpy_row, *row;
	u64 seed = bench->seed;
	int err = 0;

	nr = nr < MAX_ALGOS ? nr : MAX_ALGOS;
	memcpy_row = bench_step(bench_set(bench, &copy, 1, "block_tokens=%u", BLOCK_TOKENS),
				copy_step, &prompts[0], PROMPT_BLOCKS);
	for (u32 i = 0; i < nr && !err; i++) {
		err = open_prompt(&prompts[i], algos[i], &seed);
		row = bench_step(bench_set(bench, &key, 1, "algo=%s block_tokens=%u", algos[i],
					   BLOCK_TOKENS), key_step, &prompts[i], PROMPT_BLOCKS);
		series_against(row, "memcpy", memcpy_row);
	}
	err = err ? err : bench_rows(bench);
	for (u32 i = 0; i < nr; i++)
		kvmm_key_ctx_destroy(prompts[i].ctx);
	return err;
}
