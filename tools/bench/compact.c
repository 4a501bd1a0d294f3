// SPDX-License-Identifier: Apache-2.0
/*
 * Compaction. Planning is timed on pools of ids alone, so that nothing else is; its baseline is
 * one walk over the free runs, which no planner can do without. Copying is timed on blocks of
 * 64 KiB of plain memory that hold something (memory never written would be one page of zeros,
 * read from the cache), against one memcpy() of as many bytes in the same run.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "scatter.h"

#define MAX_RANGE	16u	/* makes over 20,000 free runs of 2^20 blocks */

struct planner {
	const char *name;	/* of the compactor */
	u32 want_run;		/* 0: pack everything */
};

/* A compactor that is not there leaves its series empty. */
static int open_scattered(struct bench *bench, struct scattered *s,
			  const struct kvmm_pool_attr *attr, u64 seed)
{
	int err = scatter_open(s, attr, MAX_RANGE, seed);

	if (err == -ENOENT)
		bench_skip(bench, attr->compactor, "not there");
	return err;
}

/* ---- planning ---- */

struct plan_figures {
	struct series *plan, *moved, *walk, *runs;
};

static double walk_us(struct kvmm_zone *zone)
{
	struct kvmm_extent run = { 0, 0 };
	u64 begin = now_ns();

	while (!kvmm_zone_next_free(zone, run.start + run.nr, &run))
		;
	return (now_ns() - begin) / 1e3;
}

static int plan_once(struct bench *bench, const struct planner *planner, struct plan_figures *f,
		     u32 nr_blocks, u64 seed)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_compact compact = { .size = sizeof(compact), .want_run = planner->want_run };
	struct kvmm_pool_stat stat;
	struct scattered s;
	int err;

	attr.nr_blocks = nr_blocks;
	attr.compactor = planner->name;
	err = open_scattered(bench, &s, &attr, seed);
	if (err)
		return err == -ENOENT ? 0 : err;
	kvmm_pool_stat(s.pool, &stat);
	series_add(f->runs, stat.nr_runs);
	series_add(f->walk, walk_us(kvmm_pool_zone(s.pool)));
	err = kvmm_pool_compact(s.pool, &compact);
	if (!err) {
		series_add(f->plan, compact.plan_ns / 1e3);
		series_add(f->moved, compact.moved);
	}
	scatter_close(&s);
	return err;
}

static int run_planning(struct bench *bench, u32 nr_blocks)
{
	static const struct planner planners[] = {
		{ "window", 512 }, { "window", 4096 }, { "slide", 512 }, { "slide", 4096 },
		{ "slide", 0 },
	};
	struct plan_figures f[ARRAY_SIZE(planners)];
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(planners); i++) {
#define PLAN_SERIES(metric, unit)							\
	bench_series(bench, metric, unit, "planner=%s want=%u nr=%u", planners[i].name,	\
		     planners[i].want_run, nr_blocks)
		f[i].plan = PLAN_SERIES("plan_us", "us");
		f[i].moved = PLAN_SERIES("moved", "blocks");
		f[i].walk = PLAN_SERIES("walk_us", "us");
		f[i].runs = PLAN_SERIES("free_runs", "runs");
#undef PLAN_SERIES
		series_against(f[i].plan, "walk", f[i].walk);
	}
	series_against(f[0].moved, "slide", f[2].moved);
	series_against(f[1].moved, "slide", f[3].moved);
	for (unsigned int run = 0; !err && run < bench->nr_runs; run++) {
		for (size_t i = 0; !err && i < ARRAY_SIZE(planners); i++)
			err = plan_once(bench, &planners[i], &f[i], nr_blocks,
					bench->seed + run);
	}
	bench_report(bench);
	return err;
}

/* ---- goals ---- */

/* A sixteenth of the pool's pageblocks of 64 blocks; all extents that can be joined; one range. */
static int plan_goal(struct kvmm_pool *pool, u32 goal, u32 nr_blocks, struct kvmm_compact_plan *plan)
{
	struct kvmm_compact_goal ask = KVMM_COMPACT_GOAL_INIT;
	struct kvmm_range_info info;
	uint32_t cursor = 0;

	ask.goal = goal;
	ask.mode = KVMM_MOVE_BETWEEN;
	ask.pageblock_blocks = 64;
	ask.want = goal == KVMM_GOAL_RUN ? 512 : goal == KVMM_GOAL_PAGEBLOCKS ? nr_blocks / 1024 : 0;
	while (goal == KVMM_GOAL_GATHER && !kvmm_range_next(pool, &cursor, &info)) {
		ask.range = info.range;
		if (info.nr_ext > 1)
			break;
	}
	return kvmm_compact_plan(pool, &ask, plan);
}

static int goal_once(struct bench *bench, struct series *times[KVMM_NR_GOALS], u32 nr_blocks, u64 seed)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct scattered s;
	int err;

	attr.nr_blocks = nr_blocks;
	err = open_scattered(bench, &s, &attr, seed);
	if (err)
		return err == -ENOENT ? 0 : err;
	for (u32 goal = 0; !err && goal < KVMM_NR_GOALS; goal++) {
		struct kvmm_compact_plan plan = KVMM_COMPACT_PLAN_INIT;

		err = plan_goal(s.pool, goal, nr_blocks, &plan);
		if (!err)
			series_add(times[goal], plan.plan_ns / 1e3);
		err = err == -ENOSPC ? 0 : err;
	}
	scatter_close(&s);
	return err;
}

static int run_goals(struct bench *bench, u32 nr_blocks)
{
	struct series *times[KVMM_NR_GOALS];
	int err = 0;

	for (u32 goal = 0; goal < KVMM_NR_GOALS; goal++)
		times[goal] = bench_series(bench, "plan_us", "us", "goal=%s nr=%u",
					   kvmm_goal_name(goal), nr_blocks);
	for (unsigned int run = 0; !err && run < bench->nr_runs; run++)
		err = goal_once(bench, times, nr_blocks, bench->seed + run);
	bench_report(bench);
	return err;
}

/* ---- copying ---- */

#define BLOCK_BYTES	65536u
#define NR_BLOCKS	2048u	/* half are freed: about 1000 blocks move when packed */

struct copy_figures {
	struct series *plan, *bandwidth, *moved, *total, *memcpy;
};

static int write_blocks(struct kvmm_pool *pool)
{
	void *block = must_alloc(BLOCK_BYTES);
	int err = 0;

	for (u32 i = 0; !err && i < NR_BLOCKS; i++) {
		memset(block, i + 1, BLOCK_BYTES);
		err = kvmm_block_write(pool, i, 0, block, BLOCK_BYTES);
	}
	free(block);
	return err;
}

/* Gigabytes a second of one copy between two buffers that were written before. */
static double memcpy_rate(size_t bytes)
{
	unsigned char *from = must_alloc(bytes), *to = must_alloc(bytes);
	u64 begin;
	double rate;

	memset(from, 1, bytes);
	memset(to, 2, bytes);
	begin = now_ns();
	memcpy(to, from, bytes);
	/* The copy must not be found useless. */
	__asm__ volatile("" : : "r"(to) : "memory");
	rate = (double)bytes / (now_ns() - begin);
	free(from);
	free(to);
	return rate;
}

static int copy_once(struct bench *bench, const struct planner *planner, struct copy_figures *f,
		     u64 seed)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_compact compact = { .size = sizeof(compact), .want_run = planner->want_run };
	struct scattered s;
	double bytes;
	int err;

	attr.nr_blocks = NR_BLOCKS;
	attr.block_bytes = BLOCK_BYTES;
	attr.compactor = planner->name;
	err = open_scattered(bench, &s, &attr, seed);
	if (err)
		return err == -ENOENT ? 0 : err;
	err = write_blocks(s.pool);
	if (!err)
		err = kvmm_pool_compact(s.pool, &compact);
	scatter_close(&s);
	if (err)
		return err;
	bytes = (double)compact.moved * BLOCK_BYTES;
	series_add(f->plan, compact.plan_ns / 1e3);
	series_add(f->moved, compact.moved);
	series_add(f->total, (compact.plan_ns + compact.copy_ns) / 1e3);
	series_add(f->bandwidth, bytes / compact.copy_ns);
	series_add(f->memcpy, memcpy_rate(bytes));
	return 0;
}

static int run_copying(struct bench *bench)
{
	static const struct planner planners[] = { { "slide", 0 }, { "window", 512 } };
	struct copy_figures f[ARRAY_SIZE(planners)];
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(planners); i++) {
#define COPY_SERIES(metric, unit)							\
	bench_series(bench, metric, unit, "planner=%s want=%u nr=%u block_bytes=%u",	\
		     planners[i].name, planners[i].want_run, NR_BLOCKS, BLOCK_BYTES)
		f[i].moved = COPY_SERIES("moved", "blocks");
		f[i].plan = COPY_SERIES("plan_us", "us");
		f[i].total = COPY_SERIES("compact_us", "us");
		f[i].bandwidth = COPY_SERIES("copy_rate", "GB/s");
		f[i].memcpy = COPY_SERIES("memcpy_rate", "GB/s");
#undef COPY_SERIES
		series_against(f[i].bandwidth, "memcpy", f[i].memcpy);
		series_against(f[i].plan, "compact", f[i].total);
	}
	for (unsigned int run = 0; !err && run < bench->nr_runs; run++) {
		for (size_t i = 0; !err && i < ARRAY_SIZE(planners); i++)
			err = copy_once(bench, &planners[i], &f[i], bench->seed + run);
	}
	bench_report(bench);
	return err;
}

static int run(struct bench *bench)
{
	static const u32 nr_blocks[] = { 1u << 14, 1u << 18, 1u << 20 };
	int err = run_copying(bench);

	for (size_t i = 0; !err && i < ARRAY_SIZE(nr_blocks); i++)
		err = run_planning(bench, nr_blocks[i]);
	for (size_t i = 0; !err && i < ARRAY_SIZE(nr_blocks); i++)
		err = run_goals(bench, nr_blocks[i]);
	return err;
}

const struct bench_kind bench_compact = {
	.name = "compact",
	.what = "compaction of pools in pieces: planning, copying, blocks moved",
	.run = run,
};
