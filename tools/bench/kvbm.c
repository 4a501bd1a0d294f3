// SPDX-License-Identifier: Apache-2.0
/*
 * The benchmark of Dynamo's kvbm-logical in its own shape: a prefix of 8, 32 or 128 blocks of 4
 * tokens is matched while somebody holds it, or nobody does, and dropped at once; per call, for each
 * order of eviction.
 *
 * What the order has to do for a hit or a drop is done by whoever finds its log full, one call of
 * many, so calls are timed many at once.
 */
#include <errno.h>
#include <kvmm/kvmm.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

#define NR_BLOCKS	(64u * 1024)
#define SLICE_BLOCKS	4096u
enum step { STEP_INACTIVE, STEP_ACTIVE, STEP_DROP_SHARED, STEP_DROP, NR_STEPS };

static const char *const step_name[NR_STEPS] = {
	[STEP_INACTIVE] = "match_inactive_ns",
	[STEP_ACTIVE] = "match_active_ns",
	[STEP_DROP_SHARED] = "drop_shared_ns",	/* somebody else still holds them */
	[STEP_DROP] = "bulk_drop_ns",
};

static const u32 sizes[] = { 8, 32, 128 };

struct prefixes {
	struct kvmm_pool *pool;
	u64 seed;
	u32 first;		/* block of the first prefix of this slice */
	kvmm_key_t keys[NR_BLOCKS];
	kvmm_ref_t refs[2][SLICE_BLOCKS];
};

static int do_match(struct prefixes *p, u32 at, u32 nr, kvmm_ref_t *refs)
{
	return kvmm_match(p->pool, &p->keys[p->first + at], nr, &refs[at]) != (int)nr;
}

static int do_drop(struct prefixes *p, u32 at, u32 nr, kvmm_ref_t *refs)
{
	return kvmm_put_many(p->pool, &refs[at], nr);
}

/* Nanoseconds a call; @refs is whose references are taken, or dropped. */
static double time_calls(struct prefixes *p, enum step step, u32 nr, int *err)
{
	kvmm_ref_t *refs = p->refs[step == STEP_ACTIVE || step == STEP_DROP_SHARED];
	bool matches = step == STEP_ACTIVE || step == STEP_INACTIVE;
	u64 begin = now_ns();

	for (u32 at = 0; at < SLICE_BLOCKS; at += nr)
		*err |= matches ? do_match(p, at, nr, refs) : do_drop(p, at, nr, refs);
	return (double)(now_ns() - begin) / (SLICE_BLOCKS / nr);
}

static int measure(struct prefixes *p, u32 nr, struct series *const *series)
{
	double value[NR_STEPS][BENCH_SLICES];
	int err = 0;

	for (u32 s = 0; s < BENCH_SLICES; s++) {
		p->first = random_below(&p->seed, NR_BLOCKS / SLICE_BLOCKS) * SLICE_BLOCKS;
		for (u32 step = 0; step < NR_STEPS; step++)
			value[step][s] = time_calls(p, step, nr, &err);
	}
	for (u32 step = 0; step < NR_STEPS; step++)
		series_add(series[step], median_of(value[step], BENCH_SLICES));
	return err ? -EUCLEAN : 0;
}

/* All blocks are registered, and nobody's. */
static int fill(struct prefixes *p)
{
	static kvmm_mut_t blocks[NR_BLOCKS];
	kvmm_ref_t *refs = (kvmm_ref_t *)blocks;
	int err = kvmm_alloc(p->pool, NR_BLOCKS, blocks);

	for (u32 i = 0; i < NR_BLOCKS; i++) {
		u64 word[2] = { random_next(&p->seed), i };

		memcpy(&p->keys[i], word, sizeof(word));
	}
	err = err ? err : kvmm_register(p->pool, blocks, p->keys, NR_BLOCKS, refs);
	return err ? err : kvmm_put_many(p->pool, refs, NR_BLOCKS);
}

static int open_pool(struct prefixes *p, const char *policy, u64 seed)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	int err;

	attr.nr_blocks = NR_BLOCKS;
	attr.block_tokens = 4;
	attr.policy = policy;
	p->seed = seed;
	p->pool = NULL;
	err = kvmm_pool_create(&attr, &p->pool);
	return err ? err : fill(p);
}

static int run_policy(struct bench *bench, const char *policy)
{
	struct series *series[ARRAY_SIZE(sizes)][NR_STEPS];
	static struct prefixes prefixes;
	int err = open_pool(&prefixes, policy, bench->seed);

	for (size_t s = 0; s < ARRAY_SIZE(sizes); s++)
		for (u32 step = 0; step < NR_STEPS; step++)
			series[s][step] = bench_series(bench, step_name[step], "ns",
						       "policy=%s blocks=%u", policy, sizes[s]);
	for (unsigned int run = 0; !err && run < bench->nr_runs; run++) {
		const struct series *mutex_pair = bench_mutex_pair(bench);

		for (size_t s = 0; !err && s < ARRAY_SIZE(sizes); s++) {
			err = measure(&prefixes, sizes[s], series[s]);
			for (u32 step = 0; step < NR_STEPS; step++)
				series_against(series[s][step], "mutex_pair", mutex_pair);
		}
	}
	kvmm_pool_destroy(prefixes.pool);
	bench_report(bench);
	return err;
}

static int run(struct bench *bench)
{
	return bench_policies(bench, run_policy);
}

const struct bench_kind bench_kvbm = {
	.name = "kvbm",
	.what = "match and drop prefixes of 8, 32 and 128 blocks, by policy, in Dynamo's shape",
	.run = run,
};
