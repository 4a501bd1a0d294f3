// SPDX-License-Identifier: Apache-2.0
/*
 * The contest: all contenders under the same churn, side by side, timed in slices without a look
 * at the clock in between.
 *
 * Also two threads on one allocator, each with requests of its own, against one thread alone; and
 * ranges through the pool: what owners, handles and statistics add to the zone's call.
 */
#include <pthread.h>

#include "churn.h"

#define MAX_ENTRANTS	8u

static const u32 pool_sizes[] = { 1u << 14, 1u << 18, 1u << 20 };

/* A contender that does not exist here is left out; of engines the memory is said, too. */
static bool enter(struct bench *bench, struct churn *churn, const struct contender *contender,
		  const struct load *load)
{
	static const struct metric pair = { "pair_ns", "ns", VS_MUTEX },
		metadata = { "metadata", "B/block", ALONE };
	const struct kv_zone *zone;
	char params[80];

	if (!churn_open(churn, contender, load)) {
		bench_skip(bench, contender->name, "not there");
		return false;
	}
	snprintf(params, sizeof(params), "engine=%s sizes=%s nr=%u load=%u", contender->name,
		 load->sizes->name, load->nr_blocks, load->percent);
	bench_step(bench_set(bench, &pair, 1, "%s", params), churn_step, churn, CHURN_SLICE);
	zone = churn->heap;
	if (contender->is_zone)
		series_add(bench_set(bench, &metadata, 1, "%s", params),
			   (double)zone->metadata_bytes / load->nr_blocks);
	return true;
}

/* All contenders at each of @nr_sizes sizes, at each of the loads, which end with 0. */
static int run_contest(struct bench *bench, const struct sizes *sizes, u32 nr_sizes,
		       const u32 *percent)
{
	static struct churn churn[MAX_ENTRANTS];
	const struct contender *all;
	unsigned int nr_all = contenders(&all);
	int err = 0;

	for (u32 i = 0; i < nr_sizes; i++) {
		for (u32 k = 0; !err && percent[k]; k++) {
			struct load load = { sizes, pool_sizes[i], percent[k], false, bench->seed };
			u32 nr = 0;

			for (unsigned int c = 0; c < nr_all; c++)
				nr += enter(bench, &churn[nr], &all[c], &load);
			err = bench_rows(bench);
			while (nr)
				churn_close(&churn[--nr]);
		}
	}
	return err;
}

/* By benchmark: lengths up to which each is as likely, or 0: those of requests; sizes and loads. */
static const struct {
	const char *name;
	u32 longest;
	u32 nr_sizes;
	u32 percent[5];
} contests[] = {
	{ "alloc-range", 32, 3, { 50, 90, 97 } },
	{ "alloc-request", 0, 2, { 50, 90, 95, 97 } },
	{ "alloc-single", 1, 3, { 50, 90 } },
};

int bench_alloc(struct bench *bench)
{
	struct sizes sizes;
	size_t i = 0;
	int err;

	while (strcmp(contests[i].name, bench->kind->name))
		i++;
	sizes_open(&sizes, contests[i].longest, bench->seed);
	err = run_contest(bench, &sizes, contests[i].nr_sizes, contests[i].percent);
	sizes_exit(&sizes);
	return err;
}

/* ---- ranges through the pool ---- */

static int run_range(struct bench *bench, const struct load *load)
{
	static const struct metric metrics[] = {
		{ "pair_ns", "ns", VS_MUTEX }, { "zone_pair_ns", "ns", VS_MUTEX },
		{ "pool_pair_ns", "ns", ALONE }, { "runs_pair_ns", "ns", ALONE },
		{ "named_pair_ns", "ns", ALONE },
	};
	struct churn pool, zone, runs, named, *const of[] = { &pool, &zone, &pool, &runs, &named };
	struct series *row[ARRAY_SIZE(metrics)];
	int err;

	if (!churn_open(&pool, &contender_pool, load) ||
	    !churn_open(&zone, contender_find("zone"), load) ||
	    !churn_open(&runs, &contender_runs, load) ||
	    !churn_open(&named, &contender_named, load))
		return -ENOMEM;
	for (u32 i = 0; i < ARRAY_SIZE(metrics); i++)
		row[i] = bench_step(bench_set(bench, &metrics[i], 1, "sizes=%s nr=%u load=%u",
					      load->sizes->name, load->nr_blocks, load->percent),
				    churn_step, of[i], CHURN_SLICE);
	series_against(row[2], "zone_pair", row[1]);
	series_against(row[3], "pair", row[0]);
	series_against(row[4], "pair", row[0]);
	err = bench_rows(bench);
	churn_close(&pool);
	churn_close(&zone);
	churn_close(&runs);
	churn_close(&named);
	return err;
}

int bench_range(struct bench *bench)
{
	struct sizes sizes[2];
	int err = 0;

	sizes_open(&sizes[0], 32, bench->seed);
	sizes_open(&sizes[1], 0, bench->seed);
	for (size_t i = 0; !err && i < 2 * ARRAY_SIZE(pool_sizes); i++) {
		struct load load = { &sizes[i % 2], pool_sizes[i / 2], 90, false, bench->seed };

		err = run_range(bench, &load);
	}
	sizes_exit(&sizes[0]);
	sizes_exit(&sizes[1]);
	return err;
}

/* ---- two threads, of which each keeps half of the load ---- */

#define MT_BLOCKS	(1u << 18)
#define MT_LOAD		90u
#define WINDOW_NS	30000000u
#define STEP_PAIRS	256u	/* between two looks at the clock */

/* One thread, then both. */
static struct series *add_pair(struct bench *bench, const char *name, step_fn *step, void *first,
			       void *second)
{
	static const struct metric metric = { "pairs_per_us", "1/us", ALONE };
	const struct worker workers[] = {
		{ .step = step, .arg = first, .nr = STEP_PAIRS, .window_ns = WINDOW_NS },
		{ .step = step, .arg = second, .nr = STEP_PAIRS },
	};
	struct series *row[2];

	for (u32 i = 0; i < 2; i++)
		row[i] = bench_rate(bench_set(bench, &metric, 1, "engine=%s nr=%u load=%u threads=%u",
					      name, MT_BLOCKS, MT_LOAD, i + 1), workers, i + 1);
	series_against(row[1], "one_thread", row[0]);
	return row[0];
}

static int run_two_threads(struct bench *bench, const struct contender *const *all, u32 nr_all)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	static struct churn churn[MAX_ENTRANTS][2];
	struct series *alone;
	struct sizes sizes;
	u32 nr = 0;
	int err;

	if (!bench_has_two_cores(bench, "everything"))
		return 0;
	sizes_open(&sizes, 32, bench->seed);
	alone = add_pair(bench, "mutex", mutex_step, &mutex, &mutex);
	for (u32 i = 0; i < nr_all; i++) {
		struct load load = { &sizes, MT_BLOCKS, MT_LOAD / 2, false, bench->seed };
		void *heap = all[i]->open(all[i]->name, MT_BLOCKS);

		if (!heap) {
			bench_skip(bench, all[i]->name, "not there");
			continue;
		}
		for (u32 t = 0; t < 2; t++, load.seed++)
			churn_start(&churn[nr][t], all[i], heap, &load);
		series_against(add_pair(bench, all[i]->name, churn_step, &churn[nr][0],
					&churn[nr][1]), "mutex", alone);
		nr++;
	}
	err = bench_rows(bench);
	for (; nr; nr--) {
		churn_end(&churn[nr - 1][0]);
		churn_close(&churn[nr - 1][1]);
	}
	sizes_exit(&sizes);
	return err;
}

/*
 * ---- peers: what a program would take instead, one thread in slices; ranges for two, too ----
 *
 * The first one is ours, and what the others are measured against. Refused: what did not fit at
 * once although so many blocks were free.
 */

static int run_peers(struct bench *bench, const struct contender *const *each, u32 nr_each,
		     const struct load *load)
{
	static const struct metric refused = { "refused", "ppm", ALONE };
	static struct churn churn[MAX_ENTRANTS];
	struct series *row[MAX_ENTRANTS];
	u32 nr = 0;
	int err;

	for (u32 i = 0; i < nr_each; i++) {
		row[nr] = &bench->series[bench->nr_series];
		if (!enter(bench, &churn[nr], each[i], load))
			continue;
		bench_set(bench, &refused, 1, "%s", row[nr]->params);
		if (nr)
			series_against(row[nr], each[0]->name, row[0]);
		nr++;
	}
	err = bench_runs(bench, bench_measure, NULL);
	for (u32 i = 0; i < nr; i++) {
		series_add(row[i] + 1, 1e6 * churn[i].failures / churn[i].requests);
		churn_close(&churn[i]);
	}
	bench_report(bench);
	return err;
}

int bench_peers(struct bench *bench)
{
	const struct contender *jemalloc = contender_find("jemalloc"),
		*mimalloc = contender_find("mimalloc"), *driver = contender_find("driver");
	const struct contender *const blocks[] = { &contender_blocks, &contender_stack, jemalloc,
						   mimalloc, driver },
		*const ranges[] = { &contender_pool, &contender_offsets, jemalloc, mimalloc,
				    driver };
	struct sizes single, sizes;
	int err = 0;

	sizes_open(&single, 1, bench->seed);
	sizes_open(&sizes, 32, bench->seed);
	for (u32 i = 0; !err && i < ARRAY_SIZE(pool_sizes); i++) {
		struct load load = { &single, pool_sizes[i], 90, false, bench->seed };

		err = run_peers(bench, blocks, ARRAY_SIZE(blocks), &load);
		load.sizes = &sizes;
		err = err ? err : run_peers(bench, ranges, ARRAY_SIZE(ranges), &load);
	}
	sizes_exit(&single);
	sizes_exit(&sizes);
	bench_skip(bench, "vLLM's block pool", "Python: see bindings/python/bench.py");
	bench_skip(bench, "SGLang's prefix caches",
		   "Python: see bindings/python/engines/sglang/bench.py");
	return err ? err : run_two_threads(bench, ranges, ARRAY_SIZE(ranges));
}

int bench_alloc_mt(struct bench *bench)
{
	const struct contender *all, *each[MAX_ENTRANTS];
	unsigned int nr = contenders(&all);

	for (unsigned int i = 0; i < nr; i++)
		each[i] = &all[i];
	return run_two_threads(bench, each, nr);
}

/* Ranges of a pool, and what an engine would write around an allocator that knows no threads. */
int bench_range_mt(struct bench *bench)
{
	static const struct contender *const each[] = { &contender_pool, &contender_marked,
							&contender_named, &contender_full,
							&contender_mutex };

	return run_two_threads(bench, each, ARRAY_SIZE(each));
}
