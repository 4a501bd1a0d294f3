// SPDX-License-Identifier: Apache-2.0
/*
 * What it costs to say that blocks were used, on the path of a hit.
 *
 * Requests hold blocks, 64 each, and touch all of theirs in one call. "path" is what the caller's
 * thread does: a mark in each entry and notes in the log of the order. "all" is with the order
 * hearing of it, which happens in whoever evicts next: an allocation of no block, after each eighth
 * call, applies the log before it is full.
 */
#include <kvmm/kvmm.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

#define BATCH		64u
#define NR_BATCHES	64u
#define CALLS_A_LOG	7u	/* fewer notes than fit */
#define NR_VALUES	401u

static const char *const policies[] = { "lru", "lrfu", "slru" };

struct touched {
	struct kvmm_pool *pool;
	kvmm_mut_t muts[NR_BATCHES * BATCH];
	kvmm_ref_t refs[NR_BATCHES * BATCH];
	kvmm_key_t keys[NR_BATCHES * BATCH];
	u32 next;
};

static int open_pool(struct touched *touched, const char *policy, u64 seed)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	int err;

	attr.nr_blocks = 2 * NR_BATCHES * BATCH;
	attr.policy = policy;
	for (u32 i = 0; i < NR_BATCHES * BATCH; i++) {
		u64 word[2] = { random_next(&seed), random_next(&seed) };

		memcpy(&touched->keys[i], word, sizeof(word));
	}
	touched->pool = NULL;
	touched->next = 0;
	err = kvmm_pool_create(&attr, &touched->pool);
	if (!err)
		err = kvmm_alloc(touched->pool, NR_BATCHES * BATCH, touched->muts);
	for (u32 i = 0; !err && i < NR_BATCHES * BATCH; i += BATCH)
		err = kvmm_register(touched->pool, touched->muts + i, touched->keys + i, BATCH,
				    touched->refs + i);
	return err;
}

/* As many calls as the log has room for. */
static int touch(struct touched *touched)
{
	int err = 0;

	for (u32 i = 0; !err && i < CALLS_A_LOG; i++) {
		u32 first = touched->next++ % NR_BATCHES * BATCH;

		err = kvmm_touch_many(touched->pool, touched->refs + first, BATCH);
	}
	return err;
}

static int measure(struct touched *touched, struct series *path, struct series *all)
{
	double on_path[NR_VALUES], with_order[NR_VALUES];
	int err = kvmm_alloc(touched->pool, 0, touched->muts);

	for (u32 i = 0; !err && i < NR_VALUES; i++) {
		u64 begin = ticks_begin(), middle;

		err = touch(touched);
		middle = ticks_end();
		err = err ? err : kvmm_alloc(touched->pool, 0, touched->muts);
		on_path[i] = ticks_ns(middle - begin, 1) / (CALLS_A_LOG * BATCH);
		with_order[i] = ticks_ns(ticks_end() - begin, 1) / (CALLS_A_LOG * BATCH);
	}
	series_add(path, median_of(on_path, NR_VALUES));
	series_add(all, median_of(with_order, NR_VALUES));
	return err;
}

static int run_policy(struct bench *bench, const char *policy)
{
	static struct touched touched;
	struct series *path = bench_series(bench, "touch_ns", "ns/blk", "policy=%s part=path",
					   policy);
	struct series *all = bench_series(bench, "touch_ns", "ns/blk", "policy=%s part=all",
					  policy);
	int err = open_pool(&touched, policy, bench->seed);

	for (unsigned int run = 0; !err && run < bench->nr_runs; run++) {
		const struct series *mutex_pair = bench_mutex_pair(bench);

		err = measure(&touched, path, all);
		series_against(path, "mutex_pair", mutex_pair);
		series_against(all, "mutex_pair", mutex_pair);
	}
	kvmm_pool_destroy(touched.pool);
	return err;
}

static int run(struct bench *bench)
{
	int err = 0;

	for (size_t i = 0; !err && i < ARRAY_SIZE(policies); i++)
		err = run_policy(bench, policies[i]);
	bench_report(bench);
	return err;
}

const struct bench_kind bench_touch = {
	.name = "touch",
	.what = "say that 64 held blocks were used, with and without the order hearing of it",
	.run = run,
};
