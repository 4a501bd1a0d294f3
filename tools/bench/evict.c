// SPDX-License-Identifier: Apache-2.0
/*
 * What eviction costs, by policy and by how many blocks it may choose from.
 *
 * All blocks of a pool are cached and nobody's, each a prompt of its own: as many leaves, put back in
 * random order, the worst for the caches of the processor. 64 new ones are taken, which evicts 64:
 * victims are chosen, their names forgotten, their entries made new. Then these are named and put
 * back, which is not timed: put back as the last ones, so time goes through the whole pool, and what
 * is evicted has long left those caches.
 */
#include <errno.h>
#include <kvmm/kvmm.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

#define BATCH		64u
#define MAX_BLOCKS	1000000u

static const u32 sizes[] = { 5000, 20000, 50000, MAX_BLOCKS };

struct leaves {
	struct kvmm_pool *pool;
	u64 seed;
	kvmm_mut_t muts[BATCH];
	kvmm_ref_t refs[BATCH];
	kvmm_key_t keys[BATCH];
};

/* 64 prompts of one block. */
static int cache_batch(struct leaves *leaves)
{
	int err = 0;

	for (u32 i = 0; i < BATCH; i++) {
		u64 word[2] = { random_next(&leaves->seed), random_next(&leaves->seed) };

		memcpy(&leaves->keys[i], word, sizeof(word));
	}
	for (u32 i = 0; !err && i < BATCH; i++)
		err = kvmm_register(leaves->pool, &leaves->muts[i], &leaves->keys[i], 1,
				    &leaves->refs[i]);
	return err ? err : kvmm_put_many(leaves->pool, leaves->refs, BATCH);
}

static int fill(struct leaves *leaves, u32 nr)
{
	static kvmm_mut_t all[MAX_BLOCKS];
	int err = kvmm_alloc(leaves->pool, nr, all);

	for (u32 i = nr; !err && i > 1; i--) {
		u32 other = random_below(&leaves->seed, i);
		kvmm_mut_t last = all[i - 1];

		all[i - 1] = all[other];
		all[other] = last;
	}
	for (u32 i = 0; !err && i < nr; i += BATCH) {
		memcpy(leaves->muts, all + i, sizeof(leaves->muts));
		err = cache_batch(leaves);
	}
	return err;
}

static int open_pool(struct leaves *leaves, const char *policy, u32 nr, u64 seed)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	int err;

	attr.nr_blocks = nr / BATCH * BATCH;
	attr.policy = policy;
	leaves->pool = NULL;
	leaves->seed = seed;
	err = kvmm_pool_create(&attr, &leaves->pool);
	return err ? err : fill(leaves, attr.nr_blocks);
}

/* Nanoseconds a block, the median of many batches. */
static int measure(struct leaves *leaves, struct series *series)
{
	double value[401];
	int err = 0;

	for (u32 i = 0; !err && i < ARRAY_SIZE(value); i++) {
		u64 begin;

		/* Whatever the order has not heard of yet, it hears of here. */
		err = kvmm_alloc(leaves->pool, 0, leaves->muts);
		begin = ticks_begin();

		err = err ? err : kvmm_alloc(leaves->pool, BATCH, leaves->muts);
		value[i] = ticks_ns(ticks_end() - begin, 1) / BATCH;
		err = err ? err : cache_batch(leaves);
	}
	series_add(series, median_of(value, ARRAY_SIZE(value)));
	return err;
}

static int run_size(struct bench *bench, const char *policy, u32 nr)
{
	static struct leaves leaves;
	struct series *series = bench_series(bench, "evict_block_ns", "ns", "policy=%s leaves=%u",
					     policy, nr);
	int err = open_pool(&leaves, policy, nr, bench->seed);

	for (unsigned int run = 0; !err && run < bench->nr_runs; run++) {
		const struct series *mutex_pair = bench_mutex_pair(bench);

		err = measure(&leaves, series);
		series_against(series, "mutex_pair", mutex_pair);
	}
	kvmm_pool_destroy(leaves.pool);
	return err;
}

static int run_policy(struct bench *bench, const char *policy)
{
	int err = 0;

	for (size_t i = 0; !err && i < ARRAY_SIZE(sizes); i++)
		err = run_size(bench, policy, sizes[i]);
	bench_report(bench);
	return err;
}

static int run(struct bench *bench)
{
	return bench_policies(bench, run_policy);
}

const struct bench_kind bench_evict = {
	.name = "evict",
	.what = "evict 64 of 5,000 to 1,000,000 blocks, by policy",
	.run = run,
};
