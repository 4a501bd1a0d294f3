// SPDX-License-Identifier: Apache-2.0
/* What looking costs: each call that reads statistics, on a pool in pieces. */
#include <errno.h>
#include <stdlib.h>

#include "scatter.h"

#define MAP_WIDTH	100u

static void stat_step(void *arg, u32 nr)
{
	struct scattered *s = arg;
	struct kvmm_pool_stat stat;

	for (u32 i = 0; i < nr; i++)
		kvmm_pool_stat(s->pool, &stat);
}

static void zone_stat_step(void *arg, u32 nr)
{
	struct scattered *s = arg;
	struct kvmm_zone_stat stat;

	for (u32 i = 0; i < nr; i++)
		kvmm_zone_stat(kvmm_pool_zone(s->pool), &stat);
}

static void unusable_step(void *arg, u32 nr)
{
	struct scattered *s = arg;

	for (u32 i = 0; i < nr; i++)
		kvmm_zone_unusable(kvmm_pool_zone(s->pool), 1 + i % 32);
}

static void fragmentation_step(void *arg, u32 nr)
{
	struct scattered *s = arg;

	for (u32 i = 0; i < nr; i++)
		kvmm_zone_fragmentation(kvmm_pool_zone(s->pool), 1 + i % 32);
}

static void buddyinfo_step(void *arg, u32 nr)
{
	struct scattered *s = arg;
	u64 counts[KVMM_NR_MOBILITY * KVMM_NR_ORDERS];

	for (u32 i = 0; i < nr; i++)
		kvmm_zone_buddyinfo(kvmm_pool_zone(s->pool), counts);
}

/* In the order of a shuffle: the next range is not in the cache by chance. */
static void extents_step(void *arg, u32 nr)
{
	struct scattered *s = arg;
	struct kvmm_extent ext[KVMM_MAX_RUNS];

	for (u32 i = 0; i < nr; i++)
		kvmm_range_extents(s->pool, s->ranges[i % s->nr_ranges], ext, KVMM_MAX_RUNS);
}

static void info_step(void *arg, u32 nr)
{
	struct scattered *s = arg;
	struct kvmm_range_info info;

	for (u32 i = 0; i < nr; i++)
		kvmm_range_info(s->pool, s->ranges[i % s->nr_ranges], &info);
}

static void map_step(void *arg, u32 nr)
{
	struct scattered *s = arg;
	char map[MAP_WIDTH + 1];

	for (u32 i = 0; i < nr; i++)
		kvmm_pool_map(s->pool, map, MAP_WIDTH);
}

static void validate_step(void *arg, u32 nr)
{
	struct scattered *s = arg;

	for (u32 i = 0; i < nr; i++)
		kvmm_validate(s->pool);
}

/* @nr a slice; those that walk the pool get 1. */
static const struct look {
	const char *name;
	void (*step)(void *arg, u32 nr);
	u32 nr;
} looks[] = {
	{ "pool_stat_ns", stat_step, 1024 },
	{ "zone_stat_ns", zone_stat_step, 1024 },
	{ "unusable_ns", unusable_step, 1024 },
	{ "fragmentation_ns", fragmentation_step, 1024 },
	{ "range_extents_ns", extents_step, 1024 },
	{ "range_info_ns", info_step, 1024 },
	{ "buddyinfo_ns", buddyinfo_step, 1 },
	{ "pool_map_ns", map_step, 1 },
	{ "validate_ns", validate_step, 1 },
};

static int run_size(struct bench *bench, u32 nr_blocks)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct series *cost[ARRAY_SIZE(looks)], *metadata;
	struct kvmm_pool_stat stat;
	struct scattered s;
	int err;

	attr.nr_blocks = nr_blocks;
	err = scatter_open(&s, &attr, 32, bench->seed);
	if (err)
		return err;
	for (size_t i = 0; i < ARRAY_SIZE(looks); i++)
		cost[i] = bench_series(bench, looks[i].name, "ns", "nr=%u", nr_blocks);
	metadata = bench_series(bench, "metadata", "B/block", "nr=%u", nr_blocks);
	for (unsigned int run = 0; run < bench->nr_runs; run++) {
		const struct series *mutex_pair = bench_mutex_pair(bench);

		for (size_t i = 0; i < ARRAY_SIZE(looks); i++) {
			const struct task task = { looks[i].step, &s, looks[i].nr };

			series_add(cost[i], task_ns(&task));
			series_against(cost[i], "mutex_pair", mutex_pair);
		}
		kvmm_pool_stat(s.pool, &stat);
		series_add(metadata, (double)stat.metadata_bytes / nr_blocks);
	}
	scatter_close(&s);
	bench_report(bench);
	return 0;
}

static int run(struct bench *bench)
{
	static const u32 nr_blocks[] = { 1u << 14, 1u << 18, 1u << 20 };
	int err = 0;

	for (size_t i = 0; !err && i < ARRAY_SIZE(nr_blocks); i++)
		err = run_size(bench, nr_blocks[i]);
	return err;
}

const struct bench_kind bench_overhead = {
	.name = "overhead",
	.what = "calls that read statistics, and host memory of a pool",
	.run = run,
};
