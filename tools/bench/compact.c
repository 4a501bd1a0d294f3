// SPDX-License-Identifier: Apache-2.0
/*
 * Compaction: planning, timed on pools of ids alone, so that nothing else is. Its baseline is one
 * walk over the free runs, which no planner can do without. What copying takes is in device.c.
 */
#include "pools.h"

#define MAX_RANGE	16u	/* makes over 20,000 free runs of 2^20 blocks */

/* A compactor, and the run that it is to make; 0: pack everything. */
static const struct planner {
	const char *name;
	u32 want_run;
} planners[] = {
	{ "window", 512 }, { "window", 4096 }, { "slide", 512 }, { "slide", 4096 }, { "slide", 0 },
};

enum { PLAN_US, MOVED, WALK_US, FREE_RUNS };

static const struct metric metrics[] = {
	[PLAN_US] = { "plan_us", "us", "walk", WALK_US }, [MOVED] = { "moved", "blocks", ALONE },
	[WALK_US] = { "walk_us", "us", ALONE }, [FREE_RUNS] = { "free_runs", "runs", ALONE },
};

static double walk_us(struct kv_zone *zone)
{
	struct kvmm_extent run = { 0, 0 };
	u64 begin = now_ns();

	while (!kv_zone_next_free(zone, run.start + run.nr, &run))
		;
	return (now_ns() - begin) / 1e3;
}

/* A compactor that is not there leaves its series empty. */
static int plan_once(struct bench *bench, const struct planner *planner, u32 nr_blocks,
		     struct series *series)
{
	struct kvmm_compact compact = { .size = sizeof(compact), .want_run = planner->want_run };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = nr_blocks,
				       .compactor = planner->name };
	struct kvmm_pool_stat stat;
	struct scattered s;
	int err = scatter_open(&s, &attr, MAX_RANGE, bench->seed + bench->run);

	if (err == -ENOENT) {
		bench_skip(bench, planner->name, "not there");
		return 0;
	}
	if (err)
		return err;
	kvmm_pool_get_stat(s.pool, &stat);
	series_add(&series[FREE_RUNS], stat.nr_runs);
	series_add(&series[WALK_US], walk_us(kv_pool_zone(s.pool)));
	err = kvmm_pool_compact(s.pool, &compact);
	if (!err) {
		series_add(&series[PLAN_US], compact.plan_ns / 1e3);
		series_add(&series[MOVED], compact.moved);
	}
	scatter_close(&s);
	return err;
}

static int plan_turn(struct bench *bench, void *nr_blocks)
{
	int err = 0;

	for (size_t i = 0; !err && i < ARRAY_SIZE(planners); i++)
		err = plan_once(bench, &planners[i], *(u32 *)nr_blocks,
				&bench->series[i * ARRAY_SIZE(metrics)]);
	return err;
}

/* A request that has its run made: all of the call, which holds the pool's lock. */
static int direct_turn(struct bench *bench, void *nr_blocks)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = *(u32 *)nr_blocks };
	struct kvmm_pool_stat stat;
	struct scattered s;
	kvmm_range_t run;
	u64 begin_ns;
	int err = scatter_open(&s, &attr, MAX_RANGE, bench->seed + bench->run);

	if (err)
		return err;
	series_add(&bench->series[1], walk_us(kv_pool_zone(s.pool)));
	begin_ns = now_ns();
	err = kvmm_range_alloc(s.pool, planners[0].want_run, KVMM_RUNS(1), &run);
	series_add(&bench->series[0], (now_ns() - begin_ns) / 1e3);
	kvmm_pool_get_stat(s.pool, &stat);
	series_add(&bench->series[2], stat.moved_blocks);
	scatter_close(&s);
	return err;
}

static const struct metric direct_metrics[] = {
	{ "direct_us", "us", "walk", 1 }, { "walk_us", "us", ALONE }, { "moved", "blocks", ALONE },
};

int bench_compact(struct bench *bench)
{
	u32 nr_blocks[] = { 1u << 14, 1u << 18, 1u << 20 };
	int err = 0;

	for (size_t i = 0; !err && i < ARRAY_SIZE(nr_blocks); i++) {
		struct series *row[ARRAY_SIZE(planners)];

		for (size_t p = 0; p < ARRAY_SIZE(planners); p++)
			row[p] = bench_set(bench, SET(metrics), "planner=%s want=%u nr=%u",
					   planners[p].name, planners[p].want_run, nr_blocks[i]);
		for (size_t p = 0; p < 2; p++)	/* the slides that want as much */
			series_against(&row[p][MOVED], "slide", &row[p + 2][MOVED]);
		err = bench_turns(bench, plan_turn, &nr_blocks[i]);
		if (err)
			break;
		bench_set(bench, SET(direct_metrics), "want=%u nr=%u", planners[0].want_run,
			  nr_blocks[i]);
		err = bench_turns(bench, direct_turn, &nr_blocks[i]);
	}
	return err;
}
