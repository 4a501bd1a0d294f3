// SPDX-License-Identifier: Apache-2.0
/*
 * Compaction. Planning is timed on pools of ids alone, so that nothing else is; its baseline is
 * one walk over the free runs, which no planner can do without. Copying is timed on blocks of
 * 64 KiB of plain memory that hold something (memory never written would be one page of zeros,
 * read from the cache), against one memcpy() of as many bytes in the same run.
 */
#include "pools.h"

#define MAX_RANGE	16u	/* makes over 20,000 free runs of 2^20 blocks */

struct planner {
	const char *name;	/* of the compactor */
	u32 want_run;		/* 0: pack everything */
};

/* Pools that turns are about, and what is found of each planner, or goal. */
#define MAX_ROWS	8u

struct turn {
	struct kvmm_pool_attr attr;
	struct series *series[MAX_ROWS];
};

/* A compactor that is not there leaves its series empty. */
static int open_scattered(struct bench *bench, struct scattered *s, struct kvmm_pool_attr *attr,
			  const char *compactor)
{
	int err;

	attr->compactor = compactor;
	err = scatter_open(s, attr, MAX_RANGE, bench->seed + bench->run);
	if (err == -ENOENT)
		bench_skip(bench, compactor, "not there");
	return err;
}

/* ---- planning ---- */

enum { PLAN_US, MOVED, WALK_US, FREE_RUNS };

static const struct metric plan_metrics[] = {
	[PLAN_US] = { "plan_us", "us", "walk", WALK_US }, [MOVED] = { "moved", "blocks", ALONE },
	[WALK_US] = { "walk_us", "us", ALONE }, [FREE_RUNS] = { "free_runs", "runs", ALONE },
};

static const struct planner planners[] = {
	{ "window", 512 }, { "window", 4096 }, { "slide", 512 }, { "slide", 4096 }, { "slide", 0 },
};

static double walk_us(struct kvmm_zone *zone)
{
	struct kvmm_extent run = { 0, 0 };
	u64 begin = now_ns();

	while (!kvmm_zone_next_free(zone, run.start + run.nr, &run))
		;
	return (now_ns() - begin) / 1e3;
}

static int plan_once(struct bench *bench, struct turn *turn, const struct planner *planner,
		     struct series *series)
{
	struct kvmm_compact compact = { .size = sizeof(compact), .want_run = planner->want_run };
	struct kvmm_pool_stat stat;
	struct scattered s;
	int err = open_scattered(bench, &s, &turn->attr, planner->name);

	if (err)
		return err == -ENOENT ? 0 : err;
	kvmm_pool_get_stat(s.pool, &stat);
	series_add(&series[FREE_RUNS], stat.nr_runs);
	series_add(&series[WALK_US], walk_us(kvmm_pool_zone(s.pool)));
	err = kvmm_pool_compact(s.pool, &compact);
	if (!err) {
		series_add(&series[PLAN_US], compact.plan_ns / 1e3);
		series_add(&series[MOVED], compact.moved);
	}
	scatter_close(&s);
	return err;
}

static int plan_turn(struct bench *bench, void *arg)
{
	struct turn *turn = arg;
	int err = 0;

	for (size_t i = 0; !err && i < ARRAY_SIZE(planners); i++)
		err = plan_once(bench, turn, &planners[i], turn->series[i]);
	return err;
}

static int run_planning(struct bench *bench, u32 nr_blocks)
{
	struct turn turn = { .attr = KVMM_POOL_ATTR_INIT };

	turn.attr.policy = NULL;
	turn.attr.nr_blocks = nr_blocks;
	for (size_t i = 0; i < ARRAY_SIZE(planners); i++)
		turn.series[i] = bench_set(bench, SET(plan_metrics), "planner=%s want=%u nr=%u",
					   planners[i].name, planners[i].want_run, nr_blocks);
	series_against(&turn.series[0][MOVED], "slide", &turn.series[2][MOVED]);
	series_against(&turn.series[1][MOVED], "slide", &turn.series[3][MOVED]);
	return bench_turns(bench, plan_turn, &turn);
}

/* ---- goals ---- */

/* A sixteenth of the pool's pageblocks of 64 blocks; all extents that can be joined; one range. */
static int plan_goal(struct kvmm_pool *pool, u32 goal, u32 nr_blocks,
		     struct kvmm_compact_plan *plan)
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
	return kvmm_compact_get_plan(pool, &ask, plan);
}

static int goal_turn(struct bench *bench, void *arg)
{
	struct turn *turn = arg;
	struct scattered s;
	int err = open_scattered(bench, &s, &turn->attr, NULL);

	if (err)
		return err == -ENOENT ? 0 : err;
	for (u32 goal = 0; !err && goal < KVMM_NR_GOALS; goal++) {
		struct kvmm_compact_plan plan = KVMM_COMPACT_PLAN_INIT;

		err = plan_goal(s.pool, goal, turn->attr.nr_blocks, &plan);
		if (!err)
			series_add(&bench->series[goal], plan.plan_ns / 1e3);
		err = err == -ENOSPC ? 0 : err;
	}
	scatter_close(&s);
	return err;
}

static int run_goals(struct bench *bench, u32 nr_blocks)
{
	static const struct metric metric[] = { { "plan_us", "us", ALONE } };
	struct turn turn = { .attr = KVMM_POOL_ATTR_INIT };

	turn.attr.policy = NULL;
	turn.attr.nr_blocks = nr_blocks;
	for (u32 goal = 0; goal < KVMM_NR_GOALS; goal++)
		bench_set(bench, SET(metric), "goal=%s nr=%u", kvmm_goal_name(goal), nr_blocks);
	return bench_turns(bench, goal_turn, &turn);
}

/* ---- copying ---- */

#define BLOCK_BYTES	65536u
#define NR_BLOCKS	2048u	/* half are freed: about 1000 blocks move when packed */

static const struct metric copy_metrics[] = {
	{ "moved", "blocks", ALONE }, { "plan_us", "us", "compact", 2 },
	{ "compact_us", "us", ALONE },
	{ "copy_rate", "GB/s", "memcpy", 4 }, { "memcpy_rate", "GB/s", ALONE },
};

static const struct planner copiers[] = { { "slide", 0 }, { "window", 512 } };

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

static int copy_once(struct bench *bench, struct turn *turn, const struct planner *planner,
		     struct series *series)
{
	struct kvmm_compact compact = { .size = sizeof(compact), .want_run = planner->want_run };
	struct scattered s;
	double bytes;
	int err = open_scattered(bench, &s, &turn->attr, planner->name);

	if (err)
		return err == -ENOENT ? 0 : err;
	err = write_blocks(s.pool);
	if (!err)
		err = kvmm_pool_compact(s.pool, &compact);
	scatter_close(&s);
	if (err)
		return err;
	bytes = (double)compact.moved * BLOCK_BYTES;
	series_add_all(series, (double[]){ compact.moved, compact.plan_ns / 1e3,
		       (compact.plan_ns + compact.copy_ns) / 1e3, bytes / compact.copy_ns,
		       memcpy_rate(bytes) }, ARRAY_SIZE(copy_metrics));
	return 0;
}

static int copy_turn(struct bench *bench, void *arg)
{
	struct turn *turn = arg;
	int err = 0;

	for (size_t i = 0; !err && i < ARRAY_SIZE(copiers); i++)
		err = copy_once(bench, turn, &copiers[i], turn->series[i]);
	return err;
}

static int run_copying(struct bench *bench)
{
	struct turn turn = { .attr = KVMM_POOL_ATTR_INIT };

	turn.attr.policy = NULL;
	turn.attr.nr_blocks = NR_BLOCKS;
	turn.attr.block_bytes = BLOCK_BYTES;
	for (size_t i = 0; i < ARRAY_SIZE(copiers); i++)
		turn.series[i] = bench_set(bench, SET(copy_metrics),
					   "planner=%s want=%u nr=%u block_bytes=%u", copiers[i].name,
					   copiers[i].want_run, NR_BLOCKS, BLOCK_BYTES);
	return bench_turns(bench, copy_turn, &turn);
}

int bench_compact(struct bench *bench)
{
	static const u32 nr_blocks[] = { 1u << 14, 1u << 18, 1u << 20 };
	int err = run_copying(bench);

	for (size_t i = 0; !err && i < ARRAY_SIZE(nr_blocks); i++)
		err = run_planning(bench, nr_blocks[i]);
	for (size_t i = 0; !err && i < ARRAY_SIZE(nr_blocks); i++)
		err = run_goals(bench, nr_blocks[i]);
	return err;
}
