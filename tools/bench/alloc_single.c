// SPDX-License-Identifier: Apache-2.0
/* Single blocks: in random order, and the last one taken is the first one given back. */
#include <errno.h>
#include <kvmm/kvmm.h>

#include "contest.h"

#define LIFO_PAIRS	4096u

static void lifo_step(void *arg, u32 nr)
{
	struct kvmm_zone *zone = arg;
	u32 start;

	for (u32 i = 0; i < nr; i++) {
		kvmm_zone_alloc(zone, 1, &start);
		kvmm_zone_free(zone, start, 1);
	}
}

static struct kvmm_zone *half_full_zone(const char *engine, u32 nr_blocks)
{
	struct kvmm_zone_attr attr = KVMM_ZONE_ATTR_INIT;
	struct kvmm_zone *zone;
	u32 start;

	attr.nr_blocks = nr_blocks;
	attr.engine = engine;
	if (kvmm_zone_create(&attr, &zone))
		return NULL;
	for (u32 i = 0; i < nr_blocks / 2; i++)
		kvmm_zone_alloc(zone, 1, &start);
	return zone;
}

static int run_lifo(struct bench *bench, u32 nr_blocks)
{
	static const char *const engines[] = { "zone", "lists", "buddy" };
	struct series *pair[ARRAY_SIZE(engines)] = { NULL };
	struct kvmm_zone *zone[ARRAY_SIZE(engines)];

	for (size_t i = 0; i < ARRAY_SIZE(engines); i++) {
		zone[i] = half_full_zone(engines[i], nr_blocks);
		pair[i] = bench_series(bench, "lifo_pair_ns", "ns", "engine=%s nr=%u load=50",
				       engines[i], nr_blocks);
	}
	for (unsigned int run = 0; run < bench->nr_runs; run++) {
		const struct series *mutex_pair = bench_mutex_pair(bench);

		for (size_t i = 0; i < ARRAY_SIZE(engines); i++) {
			const struct task task = { lifo_step, zone[i], LIFO_PAIRS };

			if (!zone[i])
				continue;
			series_add(pair[i], task_ns(&task));
			series_against(pair[i], "mutex_pair", mutex_pair);
		}
	}
	for (size_t i = 0; i < ARRAY_SIZE(engines); i++)
		kvmm_zone_destroy(zone[i]);
	bench_report(bench);
	return 0;
}

static int run(struct bench *bench)
{
	static const u32 nr_blocks[] = { 1u << 14, 1u << 18, 1u << 20 };
	static const u32 percent[] = { 50, 90 };
	struct sizes sizes;
	const struct contest_plan plan = { &sizes, nr_blocks, ARRAY_SIZE(nr_blocks),
					   percent, ARRAY_SIZE(percent) };
	int err = 0;

	sizes_uniform(&sizes, 1, bench->seed);
	for (size_t i = 0; !err && i < ARRAY_SIZE(nr_blocks); i++)
		err = run_lifo(bench, nr_blocks[i]);
	if (!err)
		err = contest_plan(bench, &plan);
	sizes_exit(&sizes);
	return err;
}

const struct bench_kind bench_alloc_single = {
	.name = "alloc-single",
	.what = "single blocks, last in first out and in random order",
	.run = run,
};
