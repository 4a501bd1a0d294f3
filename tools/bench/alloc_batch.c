// SPDX-License-Identifier: Apache-2.0
/*
 * Single blocks by the batch. Two zones go through the same requests: one in batches, the other
 * one block at a time, which is the baseline.
 */
#include <errno.h>
#include <kvmm/kvmm.h>
#include <stdlib.h>

#include "harness.h"

#define NR_BLOCKS	(1u << 18)
#define LOAD		90u
#define SLICE_BLOCKS	8192u

/* Groups of @batch ids; group g is at ids[g * batch]. */
struct batches {
	struct kvmm_zone *zone;
	u32 *ids;
	u32 nr_groups;
	u32 batch;
	u64 seed;
};

static void batch_step(void *arg, u32 nr)
{
	struct batches *b = arg;

	for (u32 i = 0; i < nr; i += b->batch) {
		u32 *ids = &b->ids[random_below(&b->seed, b->nr_groups) * b->batch];

		kvmm_zone_free_many(b->zone, ids, b->batch);
		kvmm_zone_alloc_many(b->zone, b->batch, ids);
	}
}

static void single_step(void *arg, u32 nr)
{
	struct batches *b = arg;

	for (u32 i = 0; i < nr; i += b->batch) {
		u32 *ids = &b->ids[random_below(&b->seed, b->nr_groups) * b->batch];

		for (u32 k = 0; k < b->batch; k++)
			kvmm_zone_free(b->zone, ids[k], 1);
		for (u32 k = 0; k < b->batch; k++)
			kvmm_zone_alloc(b->zone, 1, &ids[k]);
	}
}

static int batches_open(struct batches *b, u32 batch, u64 seed)
{
	struct kvmm_zone_attr attr = KVMM_ZONE_ATTR_INIT;
	int err;

	attr.nr_blocks = NR_BLOCKS;
	err = kvmm_zone_create(&attr, &b->zone);
	if (err)
		return err;
	b->batch = batch;
	b->seed = seed;
	b->nr_groups = (u64)NR_BLOCKS * LOAD / 100 / batch;
	b->ids = must_alloc((size_t)b->nr_groups * batch * sizeof(*b->ids));
	for (u32 g = 0; !err && g < b->nr_groups; g++)
		err = kvmm_zone_alloc_many(b->zone, batch, &b->ids[g * batch]);
	return err;
}

static void batches_close(struct batches *b)
{
	kvmm_zone_destroy(b->zone);
	free(b->ids);
}

static void measure(struct bench *bench, struct batches *many, struct batches *ones)
{
	const struct task batched = { batch_step, many, SLICE_BLOCKS };
	const struct task single = { single_step, ones, SLICE_BLOCKS };
	struct series *block, *alone, *locked;

	block = bench_series(bench, "block_ns", "ns", "batch=%u nr=%u load=%u", many->batch,
			     NR_BLOCKS, LOAD);
	locked = bench_series(bench, "batch_ns", "ns", "batch=%u nr=%u load=%u", many->batch,
			      NR_BLOCKS, LOAD);
	alone = bench_series(bench, "single_block_ns", "ns", "batch=%u nr=%u load=%u",
			     many->batch, NR_BLOCKS, LOAD);
	series_against(block, "one_by_one", alone);

	for (unsigned int run = 0; run < bench->nr_runs; run++) {
		const struct series *mutex_pair = bench_mutex_pair(bench);
		double ns = task_ns(&batched);

		series_add(block, ns);
		series_add(locked, ns * many->batch);
		series_add(alone, task_ns(&single));
		series_against(locked, "mutex_pair", mutex_pair);
		series_against(alone, "mutex_pair", mutex_pair);
	}
	bench_report(bench);
}

static int run(struct bench *bench)
{
	static const u32 batch[] = { 1, 8, 64, 512 };
	int err = 0;

	for (size_t i = 0; !err && i < ARRAY_SIZE(batch); i++) {
		struct batches many = { 0 }, ones = { 0 };

		err = batches_open(&many, batch[i], bench->seed);
		if (!err)
			err = batches_open(&ones, batch[i], bench->seed);
		if (!err)
			measure(bench, &many, &ones);
		batches_close(&many);
		batches_close(&ones);
	}
	return err;
}

const struct bench_kind bench_alloc_batch = {
	.name = "alloc-batch",
	.what = "single blocks, 1 to 512 a call: allocating and freeing each of them",
	.run = run,
};
