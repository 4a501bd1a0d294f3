// SPDX-License-Identifier: Apache-2.0
/*
 * What an engine's author asks first: what does a request cost, from its tokens to its end?
 *
 * A request is a sequence of 100 blocks of 16 tokens and 64 tokens of output: in a pool that is full of what
 * others have left, then new in an empty one, then with 80 of its blocks cached there. Each part of a life
 * is timed by itself; a run's value is the median of its lives.
 */
#include <kvmm/ext/seq.h>

#include "../tool.h"
#include "pools.h"

#define NR_BLOCKS	100u
#define NR_CACHED	80u
#define BLOCK_TOKENS	16u
#define NR_TOKENS	(NR_BLOCKS * BLOCK_TOKENS)
#define NR_STEPS	64u
#define NR_LIVES	50u
#define POOL_BLOCKS	16384u

enum part { ADMIT_NEW, ADMIT_CACHED, ADMIT_FULL, STEP, TABLE, END, BYTES, NR_PARTS };

/* For people: a value of the row, in its unit, stands behind the words. */
static const struct answer {
	struct metric metric;
	const char *words;
	double per;		/* of the metric's unit in that of the words */
	const char *unit;
} answers[NR_PARTS] = {
	[ADMIT_NEW]    = { { "admit_new", "ns", VS_MUTEX }, "admission of a request of 100 blocks", 1e3, "us" },
	[ADMIT_CACHED] = { { "admit_cached", "ns", VS_MUTEX }, "  with 80 of them cached", 1e3, "us" },
	[ADMIT_FULL]   = { { "admit_full", "ns", VS_MUTEX }, "  in a full pool: 100 are evicted", 1e3, "us" },
	[STEP]	       = { { "step", "ns", VS_MUTEX }, "a decode step of a sequence", 1, "ns" },
	[TABLE]	       = { { "table", "ns", VS_MUTEX }, "its block table is read", 1, "ns" },
	[END]	       = { { "end", "ns", VS_MUTEX }, "it ends, and its blocks stay cached", 1e3, "us" },
	[BYTES]	       = { { "host_bytes", "bytes", ALONE }, "host memory of the pool, a block", 1, "bytes" },
};

/* What the lives of a run took, by part; of each no more than are asked for. */
struct lives {
	struct kvmm_pool *pool;
	const struct kvmm_key_ctx *keys;
	u64 seed;
	u32 tokens[NR_TOKENS];
	double ns[NR_PARTS][NR_LIVES];
	u32 nr[NR_PARTS];
};

static void note(struct lives *lives, enum part part, double ns)
{
	if (lives->nr[part] < NR_LIVES)
		lives->ns[part][lives->nr[part]++] = ns;
}

/* The first blocks are those of all others. */
static void make_prompt(struct lives *lives, u32 nr_shared)
{
	for (u32 i = 0; i < NR_TOKENS; i++)
		lives->tokens[i] = i < nr_shared * BLOCK_TOKENS ? i : 1000 + rng_below(&lives->seed, 100000);
}

static int admit(struct lives *lives, enum part part, struct kvmm_seq **seq)
{
	struct kvmm_seq_attr attr = KVMM_SEQ_ATTR_INIT;
	u32 ids[NR_BLOCKS];
	u64 begin = now_ns(), taken;
	int hits;

	attr.keys = lives->keys;
	attr.prompt = lives->tokens;
	attr.nr_prompt = NR_TOKENS;
	attr.max_output = NR_STEPS + 1;
	hits = kvmm_seq_create(lives->pool, &attr, seq);
	if (hits)
		return hits;
	hits = kvmm_seq_acquire(*seq);
	if (hits < 0)
		return hits;
	taken = now_ns();
	kvmm_seq_block_table(*seq, ids, NR_BLOCKS);
	note(lives, TABLE, now_ns() - taken);
	note(lives, part, now_ns() - begin);
	hits = kvmm_seq_schedule_prefill(*seq, NR_TOKENS - BLOCK_TOKENS * hits);
	return hits < 0 ? hits : 0;
}

static int decode(struct lives *lives, struct kvmm_seq *seq)
{
	u32 token = 7;
	int err = kvmm_seq_apply(seq, &token, 1);
	u64 begin = now_ns();

	for (u32 i = 0; err >= 0 && i < NR_STEPS; i++) {
		err = kvmm_seq_schedule_decode(seq);
		if (err >= 0)
			err = kvmm_seq_apply(seq, &token, 1);
	}
	note(lives, STEP, (now_ns() - begin) / (double)NR_STEPS);
	return err < 0 ? err : 0;
}

static int live(struct lives *lives, enum part part, u32 nr_shared)
{
	struct kvmm_seq *seq = NULL;
	u64 begin;
	int err;

	make_prompt(lives, nr_shared);
	err = admit(lives, part, &seq);
	if (!err)
		err = decode(lives, seq);
	begin = now_ns();
	kvmm_seq_destroy(seq);
	note(lives, END, now_ns() - begin);
	return err;
}

static int live_often(struct lives *lives, u32 nr, enum part part, u32 nr_shared)
{
	int err = 0;

	while (!err && nr--)
		err = live(lives, part, nr_shared);
	return err;
}

/* A pool in which nothing was ever kept would be faulted in: it has been full before. */
static int empty(struct kvmm_pool *pool)
{
	kvmm_range_t all;
	int err = kvmm_range_alloc(pool, POOL_BLOCKS, KVMM_RUNS(1), &all);

	return err ? err : kvmm_range_free(pool, all);
}

static int live_all(struct lives *lives)
{
	struct kvmm_pool_stat stat = { 0 };
	int err = live_often(lives, POOL_BLOCKS / NR_BLOCKS, BYTES, 0);

	if (!err)
		err = live_often(lives, NR_LIVES, ADMIT_FULL, 0);
	if (!err)
		err = empty(lives->pool);
	if (!err)
		err = live_often(lives, NR_LIVES, ADMIT_NEW, 0);
	if (!err)
		err = live_often(lives, 1, ADMIT_NEW, NR_CACHED);	/* finds nothing, and is not counted */
	if (!err)
		err = live_often(lives, NR_LIVES, ADMIT_CACHED, NR_CACHED);
	kvmm_pool_get_stat(lives->pool, &stat);
	lives->nr[BYTES] = 1;
	lives->ns[BYTES][0] = (double)stat.metadata_bytes / POOL_BLOCKS;
	return err;
}

static int turn(struct bench *bench, void *arg)
{
	struct lives *lives = arg;
	int err = open_pool(&lives->pool, POOL_BLOCKS, "default", 0);

	memset(lives->nr, 0, sizeof(lives->nr));
	lives->seed = bench->seed + bench->run;
	if (!err)
		err = live_all(lives);
	for (u32 i = 0; !err && i < NR_PARTS; i++)
		series_add(&bench->series[i], median_of(lives->ns[i], lives->nr[i]));
	kvmm_pool_destroy(lives->pool);
	lives->pool = NULL;
	return err;
}

static void say(struct bench *bench)
{
	unsigned int at = (unsigned int)printf("A request from its tokens to its end:");
	char head[96];

	snprintf(head, sizeof(head), " blocks of %u tokens, a pool of %u, one thread, medians of %u runs",
		 BLOCK_TOKENS, POOL_BLOCKS, bench->nr_runs);
	print_words(stdout, head, at, 2, BENCH_COLUMNS);
	putchar('\n');
	for (u32 i = 0; i < NR_PARTS; i++)
		printf("  %-40s %8.3g %s\n", answers[i].words, series_median(&bench->series[i]) / answers[i].per,
		       answers[i].unit);
	putchar('\n');
	bench->nr_series = 0;
	bench->mutex.nr = 0;
}

int bench_request(struct bench *bench)
{
	struct kvmm_key_attr attr = KVMM_KEY_ATTR_INIT;
	struct kvmm_key_ctx *keys;
	static struct lives lives;
	int err = kvmm_key_ctx_create(&attr, &keys);

	if (err)
		return err;
	lives.keys = keys;
	for (u32 i = 0; i < NR_PARTS; i++)
		bench_set(bench, &answers[i].metric, 1, "blocks=%u tokens=%u pool=%u", NR_BLOCKS, NR_TOKENS,
			  POOL_BLOCKS);
	err = bench_runs(bench, turn, &lives);
	if (!err && bench->json)
		bench_report(bench);
	else if (!err)
		say(bench);
	kvmm_key_ctx_destroy(keys);
	return err;
}
