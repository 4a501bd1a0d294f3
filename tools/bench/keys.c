// SPDX-License-Identifier: Apache-2.0
/*
 * What names cost: the keys of a prompt, for each algorithm, and a context.
 *
 * Token ids are drawn from a vocabulary of 128 Ki, so that in CBOR most take five bytes and some
 * three, in no foreseeable order.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <kvmm/kvmm.h>

#include "harness.h"

#define NR_BLOCKS	85u		/* of the mean prompt of a chat */
#define MAX_TOKENS	(64 * NR_BLOCKS)
#define VOCABULARY	131072u
#define MAX_ALGOS	8u
#define NR_COSTS	3

struct prompt {
	struct kvmm_key_attr attr;
	struct kvmm_key_ctx *ctx;
	struct kvmm_key_seq seq;
	u32 tokens[MAX_TOKENS];
	kvmm_key_t keys[NR_BLOCKS];
	struct series *cost[NR_COSTS];
};

static void chain_step(void *arg, u32 nr)
{
	struct prompt *p = arg;

	for (u32 i = 0; i < nr; i += NR_BLOCKS)
		kvmm_key_chain(p->ctx, &p->seq, p->keys, NR_BLOCKS);
}

/* Each token that is generated fills a block once in 16 steps: one key, its parent known. */
static void block_step(void *arg, u32 nr)
{
	struct prompt *p = arg;
	u32 block_tokens = p->attr.block_tokens, at = 0;

	for (u32 i = 0; i < nr; i++, at = (at + 1) % NR_BLOCKS)
		kvmm_key_block(p->ctx, p->keys, p->tokens + at * block_tokens, block_tokens,
			       p->keys);
}

static void ctx_step(void *arg, u32 nr)
{
	struct prompt *p = arg;
	struct kvmm_key_ctx *ctx;

	for (u32 i = 0; i < nr; i++) {
		if (!kvmm_key_ctx_create(&p->attr, &ctx))
			kvmm_key_ctx_destroy(ctx);
	}
}

static int prompt_init(struct prompt *p, const char *algo, u32 block_tokens, u64 seed)
{
	p->attr = (struct kvmm_key_attr)KVMM_KEY_ATTR_INIT;
	p->attr.algo = algo;
	p->attr.block_tokens = block_tokens;
	if (strncmp(algo, "vllm", 4)) {
		memcpy(p->attr.secret, &seed, sizeof(seed));
		p->attr.secret[15] = 1;
		p->attr.tenant = (struct kvmm_key_bytes){ "tenant", 6 };
	} else {
		p->attr.vllm_seed = (struct kvmm_key_bytes){ "0", 1 };
	}
	for (u32 i = 0; i < MAX_TOKENS; i++)
		p->tokens[i] = random_below(&seed, VOCABULARY);
	p->seq = (struct kvmm_key_seq)KVMM_KEY_SEQ_INIT;
	p->seq.tokens = p->tokens;
	p->seq.nr_tokens = block_tokens * NR_BLOCKS;
	return kvmm_key_ctx_create(&p->attr, &p->ctx);
}

static const struct cost {
	const char *name;
	void (*step)(void *arg, u32 nr);
	u32 nr;
} costs[NR_COSTS] = {
	{ "chain_block_ns", chain_step, 16 * NR_BLOCKS },
	{ "block_ns", block_step, 16 * NR_BLOCKS },
	{ "ctx_ns", ctx_step, 256 },
};

static void make_series(struct bench *bench, struct prompt *p)
{
	for (size_t i = 0; i < ARRAY_SIZE(costs); i++)
		p->cost[i] = bench_series(bench, costs[i].name, "ns", "algo=%s block_tokens=%u",
					  p->attr.algo, p->attr.block_tokens);
}

static void measure(struct prompt *p, const struct series *mutex_pair)
{
	/* The format wants a digest for a parent: what is timed there would be an error. */
	bool by_block = !p->attr.vllm_seed.data;

	for (size_t i = 0; i < ARRAY_SIZE(costs); i++) {
		const struct task task = { costs[i].step, p, costs[i].nr };

		if (costs[i].step == block_step && !by_block)
			continue;
		series_add(p->cost[i], task_ns(&task));
		series_against(p->cost[i], "mutex_pair", mutex_pair);
	}
}

static void measure_all(struct bench *bench, struct prompt *prompts, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		make_series(bench, &prompts[i]);
	for (unsigned int run = 0; run < bench->nr_runs; run++) {
		const struct series *mutex_pair = bench_mutex_pair(bench);

		for (u32 i = 0; i < nr; i++)
			measure(&prompts[i], mutex_pair);
	}
	bench_report(bench);
}

static int run_size(struct bench *bench, u32 block_tokens)
{
	static struct prompt prompts[MAX_ALGOS];
	const char *algos[MAX_ALGOS];
	u32 nr_algos = kvmm_key_algos(algos, MAX_ALGOS), nr = 0;
	int err = 0;

	while (!err && nr < nr_algos && nr < MAX_ALGOS) {
		err = prompt_init(&prompts[nr], algos[nr], block_tokens, bench->seed);
		nr += !err;
	}
	if (!err)
		measure_all(bench, prompts, nr);
	while (nr)
		kvmm_key_ctx_destroy(prompts[--nr].ctx);
	return err;
}

static int run(struct bench *bench)
{
	int err = run_size(bench, 16);

	return err ? err : run_size(bench, 64);
}

const struct bench_kind bench_keys = {
	.name = "keys",
	.what = "keys of prefix blocks, nanoseconds a block",
	.run = run,
};
