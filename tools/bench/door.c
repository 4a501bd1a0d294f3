// SPDX-License-Identifier: Apache-2.0
/*
 * The front door: what watermarks, promises and the long form of a request add to a pair of calls.
 * With all of it off the short calls look at one word; that is what "off" is to stay at.
 */
#include <errno.h>
#include <kvmm/kvmm.h>

#include "harness.h"

#define NR_BLOCKS	4096u
#define PAIRS		4096u
#define BATCH		128u	/* too many for a thread to keep aside */
#define RANGE_NR	8u

static void range_step(void *arg, u32 nr)
{
	kvmm_range_t range;

	for (u32 i = 0; i < nr; i++) {
		kvmm_range_alloc(arg, RANGE_NR, 0, &range);
		kvmm_range_free(arg, range);
	}
}

static void batch_step(void *arg, u32 nr)
{
	kvmm_mut_t mut[BATCH];

	for (u32 i = 0; i < nr; i++) {
		kvmm_alloc(arg, BATCH, mut);
		kvmm_free(arg, mut, BATCH);
	}
}

static void ctl_step(void *arg, u32 nr)
{
	struct kvmm_alloc_ctl ctl = KVMM_ALLOC_CTL_INIT;
	kvmm_mut_t mut[BATCH];

	ctl.nr = BATCH;
	for (u32 i = 0; i < nr; i++) {
		kvmm_alloc_ctl(arg, &ctl, mut);
		kvmm_free(arg, mut, BATCH);
	}
}

static const struct row {
	const char *call;
	void (*step)(void *arg, u32 nr);
	bool guarded;
	u32 nr;
} rows[] = {
	{ "range",     range_step, false, PAIRS },
	{ "range",     range_step, true,  PAIRS },
	{ "alloc",     batch_step, false, PAIRS / 16 },
	{ "alloc",     batch_step, true,  PAIRS / 16 },
	{ "alloc_ctl", ctl_step,   false, PAIRS / 16 },
};

static struct kvmm_pool *open_pool(bool guarded)
{
	struct kvmm_alloc_attr door = { .size = sizeof(door), .marks = { 16, 64, 128 } };
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_pool *pool;

	attr.nr_blocks = NR_BLOCKS;
	attr.policy = "lru";
	attr.alloc = guarded ? &door : NULL;
	return kvmm_pool_create(&attr, &pool) ? NULL : pool;
}

static int run(struct bench *bench)
{
	struct kvmm_pool *pool[2] = { open_pool(false), open_pool(true) };
	struct series *pair[ARRAY_SIZE(rows)];
	int err = pool[0] && pool[1] ? 0 : -ENOMEM;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		pair[i] = bench_series(bench, "pair_ns", "ns", "call=%s marks=%s", rows[i].call,
				       rows[i].guarded ? "on" : "off");
	for (unsigned int n = 0; !err && n < bench->nr_runs; n++) {
		const struct series *mutex_pair = bench_mutex_pair(bench);

		for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
			const struct task task = { rows[i].step, pool[rows[i].guarded], rows[i].nr };

			series_add(pair[i], task_ns(&task));
			series_against(pair[i], "mutex_pair", mutex_pair);
		}
	}
	kvmm_pool_destroy(pool[0]);
	kvmm_pool_destroy(pool[1]);
	if (!err)
		bench_report(bench);
	return err;
}

const struct bench_kind bench_door = {
	.name = "door",
	.what = "ranges of 8 and batches of 128 blocks, with and without watermarks",
	.run = run,
};
