// SPDX-License-Identifier: Apache-2.0
/*
 * How well the engines pack. 10,000 blocks, three scenes: requests of 10 blocks; a pool of random
 * ranges of which a random half is freed and which is then defragmented; random traffic at a load
 * that is held exactly, or that rises until the first request fails. Each run has another seed,
 * so the spread says how much is chance.
 */
#include <errno.h>
#include <stdlib.h>

#include "churn.h"
#include "scatter.h"

#define NR_BLOCKS	10000u

static const char *const engines[] = { "zone", "lists", "buddy" };

#define NR_ENGINES	ARRAY_SIZE(engines)
#define BUDDY		(NR_ENGINES - 1)

/* One figure for each engine; the buddy is the baseline of the others. */
struct row {
	struct series *of[NR_ENGINES];
};

#define MAKE_ROW(row, metric, unit, ...)						\
	do {										\
		for (size_t i_ = 0; i_ < NR_ENGINES; i_++)				\
			(row)->of[i_] = bench_series(bench, metric, unit,		\
						     "engine=%s " __VA_ARGS__);		\
		for (size_t i_ = 0; i_ < BUDDY; i_++)					\
			series_against((row)->of[i_], "buddy", (row)->of[BUDDY]);	\
	} while (0)

/* The engine of this row comes first in each list of parameters. */
#define EACH_ENGINE	engines[i_]

/* ---- requests of 10 blocks ---- */

#define TEN	10u

struct ten_rows {
	struct row filled, refused, alloc, free;
};

/* As many as fit; nanoseconds each. */
static u32 fill_tens(struct kvmm_zone *zone, u32 *start, u32 nr_most, double *ns)
{
	u64 begin = now_ns();
	u32 nr = 0;

	while (nr < nr_most && !kvmm_zone_alloc(zone, TEN, &start[nr]))
		nr++;
	*ns = nr ? (double)(now_ns() - begin) / nr : 0;
	return nr;
}

static double free_tens(struct kvmm_zone *zone, const u32 *start, u32 nr)
{
	u64 begin = now_ns();

	for (u32 i = 0; i < nr; i++)
		kvmm_zone_free(zone, start[i], TEN);
	return nr ? (double)(now_ns() - begin) / nr : 0;
}

static void shuffle(u32 *start, u32 nr, u64 *seed)
{
	for (u32 i = nr; i > 1; i--) {
		u32 other = random_below(seed, i), kept = start[i - 1];

		start[i - 1] = start[other];
		start[other] = kept;
	}
}

static void tens(struct ten_rows *rows, size_t engine, u64 seed)
{
	struct kvmm_zone_attr attr = KVMM_ZONE_ATTR_INIT;
	u32 start[NR_BLOCKS / TEN], nr, again;
	struct kvmm_zone *zone;
	double alloc_ns, free_ns;

	attr.nr_blocks = NR_BLOCKS;
	attr.engine = engines[engine];
	if (kvmm_zone_create(&attr, &zone))
		return;
	nr = fill_tens(zone, start, NR_BLOCKS / TEN, &alloc_ns);
	shuffle(start, nr, &seed);
	free_ns = free_tens(zone, start, nr / 2);
	again = fill_tens(zone, start, nr / 2, &alloc_ns);
	series_add(rows->filled.of[engine], 100.0 * nr * TEN / NR_BLOCKS);
	series_add(rows->refused.of[engine], nr / 2 - again);
	series_add(rows->alloc.of[engine], alloc_ns);
	series_add(rows->free.of[engine], free_ns);
	kvmm_zone_destroy(zone);
}

static void run_tens(struct bench *bench)
{
	struct ten_rows rows;

	MAKE_ROW(&rows.filled, "filled", "%", "scene=ten nr=%u", EACH_ENGINE, NR_BLOCKS);
	MAKE_ROW(&rows.refused, "refused", "of 500", "scene=ten nr=%u", EACH_ENGINE, NR_BLOCKS);
	MAKE_ROW(&rows.alloc, "alloc_ns", "ns", "scene=ten nr=%u", EACH_ENGINE, NR_BLOCKS);
	MAKE_ROW(&rows.free, "free_ns", "ns", "scene=ten nr=%u", EACH_ENGINE, NR_BLOCKS);
	for (unsigned int run = 0; run < bench->nr_runs; run++) {
		const struct series *mutex_pair = bench_mutex_pair(bench);

		for (size_t i = 0; i < NR_ENGINES; i++) {
			tens(&rows, i, bench->seed + run);
			series_against(rows.alloc.of[i], "mutex_pair", mutex_pair);
			series_against(rows.free.of[i], "mutex_pair", mutex_pair);
		}
	}
	bench_report(bench);
}

/* ---- half freed, then defragmented ---- */

struct half_rows {
	struct row unusable, scattered;
	struct series *moved, *live, *time;
};

static int look_at_half(struct half_rows *rows, size_t engine, u64 seed)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_zone_stat stat;
	struct scattered s;
	int err;

	attr.nr_blocks = NR_BLOCKS;
	attr.allocator = engines[engine];
	err = scatter_open(&s, &attr, 32, seed);
	if (err)
		return err == -ENOENT ? 0 : err;
	kvmm_zone_stat(kvmm_pool_zone(s.pool), &stat);
	series_add(rows->unusable.of[engine],
		   kvmm_zone_unusable(kvmm_pool_zone(s.pool), 32) / 1e4);
	series_add(rows->scattered.of[engine],
		   100.0 * (stat.nr_free - stat.largest) / stat.nr_free);
	scatter_close(&s);
	return 0;
}

static int defragment_half(struct half_rows *rows, u64 seed)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_compact compact = { .size = sizeof(compact) };
	struct kvmm_pool_stat stat;
	struct scattered s;
	u64 begin;
	int err;

	attr.nr_blocks = NR_BLOCKS;
	err = scatter_open(&s, &attr, 32, seed);
	if (err)
		return err;
	begin = now_ns();
	err = kvmm_pool_compact(s.pool, &compact);
	if (!err) {
		series_add(rows->time, (now_ns() - begin) / 1e3);
		series_add(rows->moved, compact.moved);
		kvmm_pool_stat(s.pool, &stat);
		series_add(rows->live, stat.nr_blocks - stat.nr_free);
	}
	scatter_close(&s);
	return err;
}

static int run_half(struct bench *bench)
{
	struct half_rows rows;
	int err = 0;

	MAKE_ROW(&rows.unusable, "unusable_32", "%", "scene=half nr=%u", EACH_ENGINE, NR_BLOCKS);
	MAKE_ROW(&rows.scattered, "not_in_largest", "%", "scene=half nr=%u", EACH_ENGINE,
		 NR_BLOCKS);
	rows.moved = bench_series(bench, "moved", "blocks", "scene=defragment nr=%u", NR_BLOCKS);
	rows.live = bench_series(bench, "live", "blocks", "scene=defragment nr=%u", NR_BLOCKS);
	rows.time = bench_series(bench, "defragment_us", "us", "scene=defragment nr=%u ids=only",
				 NR_BLOCKS);
	series_against(rows.moved, "live", rows.live);
	for (unsigned int run = 0; !err && run < bench->nr_runs; run++) {
		for (size_t i = 0; !err && i < NR_ENGINES; i++)
			err = look_at_half(&rows, i, bench->seed + run);
		if (!err)
			err = defragment_half(&rows, bench->seed + run);
	}
	bench_report(bench);
	return err;
}

/* ---- traffic ---- */

#define COUNT_REQUESTS	20000u

struct load_rows {
	struct row failures, occupancy;
};

static void hold_load(struct load_rows *rows, size_t engine, const struct load *load)
{
	const struct contender *contender = contender_find(engines[engine]);
	struct churn churn;

	if (!churn_open(&churn, contender, load))
		return;
	contender->step(&churn, COUNT_REQUESTS);
	series_add(rows->failures.of[engine], 1e6 * churn.failures / churn.requests);
	series_add(rows->occupancy.of[engine], 100.0 * churn.held / churn.requests / NR_BLOCKS);
	churn_close(&churn, contender);
}

static void draw_sizes(struct sizes *sizes, bool requests, u64 seed)
{
	if (requests)
		sizes_requests(sizes, seed);
	else
		sizes_uniform(sizes, 32, seed);
}

static void run_load(struct bench *bench, bool requests, u32 percent)
{
	struct load_rows rows;
	struct sizes sizes;
	struct load load = { &sizes, NR_BLOCKS, percent, true, 0 };

	draw_sizes(&sizes, requests, 1);
	MAKE_ROW(&rows.failures, "frag_failures", "ppm", "scene=traffic sizes=%s load=%u",
		 EACH_ENGINE, sizes.name, percent);
	MAKE_ROW(&rows.occupancy, "occupancy", "%", "scene=traffic sizes=%s load=%u",
		 EACH_ENGINE, sizes.name, percent);
	sizes_exit(&sizes);
	for (unsigned int run = 0; run < bench->nr_runs; run++) {
		load.seed = bench->seed + run;
		draw_sizes(&sizes, requests, load.seed);
		for (size_t i = 0; i < NR_ENGINES; i++)
			hold_load(&rows, i, &load);
		sizes_exit(&sizes);
	}
	bench_report(bench);
}

/* Everything that lives is replaced about once at each percent. */
static double first_failure(struct churn *churn, const struct contender *contender)
{
	for (u32 permille = 500; permille <= 1000; permille += 5) {
		churn->limit = (u64)NR_BLOCKS * permille / 1000;
		contender->step(churn, 1 + churn->nr_live / 2);
		if (churn->failures)
			return permille / 10.0;
	}
	return 100;
}

static void run_rising(struct bench *bench, bool requests)
{
	struct sizes sizes;
	struct load load = { &sizes, NR_BLOCKS, 50, true, 0 };
	struct row row;

	draw_sizes(&sizes, requests, 1);
	MAKE_ROW(&row, "first_failure", "%", "scene=rising sizes=%s nr=%u", EACH_ENGINE,
		 sizes.name, NR_BLOCKS);
	sizes_exit(&sizes);
	for (unsigned int run = 0; run < bench->nr_runs; run++) {
		load.seed = bench->seed + run;
		draw_sizes(&sizes, requests, load.seed);
		for (size_t i = 0; i < NR_ENGINES; i++) {
			const struct contender *contender = contender_find(engines[i]);
			struct churn churn;

			if (!churn_open(&churn, contender, &load))
				continue;
			series_add(row.of[i], first_failure(&churn, contender));
			churn_close(&churn, contender);
		}
		sizes_exit(&sizes);
	}
	bench_report(bench);
}

static int run(struct bench *bench)
{
	static const u32 percent[] = { 80, 90, 95 };
	int err;

	run_tens(bench);
	err = run_half(bench);
	for (u32 requests = 0; !err && requests < 2; requests++) {
		run_rising(bench, requests);
		for (size_t i = 0; i < ARRAY_SIZE(percent); i++)
			run_load(bench, requests, percent[i]);
	}
	return err;
}

const struct bench_kind bench_fragmentation = {
	.name = "fragmentation",
	.what = "10,000 blocks: what fits, what fails though it would fit, what must be moved",
	.run = run,
};
