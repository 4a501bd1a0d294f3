// SPDX-License-Identifier: Apache-2.0
/*
 * The contest: all contenders under the same churn, side by side. Throughput is timed in slices,
 * without a look at the clock in between; quantiles are of calls timed one by one, less the time
 * that the clock takes. Quality is counted on a second allocator, which is brimful.
 *
 * Also two threads on one allocator, each with requests of its own, against one thread alone; and
 * ranges through the pool: what owners, handles and statistics add to the zone's call.
 */
#include <pthread.h>

#include "churn.h"

#define TIMED_REQUESTS	50000u
#define COUNT_REQUESTS	50000u
#define MAX_ENTRANTS	8u

static const u32 pool_sizes[] = { 1u << 14, 1u << 18, 1u << 20 };

/* The first one is all that the driver has, and the last three are of engines only. */
enum { PAIR, NET, ALLOC_P50, ALLOC_P99, FREE_P50, FREE_P99, FAILURES, OCCUPANCY, METADATA };

static const struct metric contest_metrics[] = {
	[PAIR]		= { "pair_ns", "ns", VS_MUTEX },
	[NET]		= { "net_pair_ns", "ns", VS_MUTEX },	/* without the time of the driver */
	[ALLOC_P50]	= { "alloc_p50_ns", "ns", VS_MUTEX },
	[ALLOC_P99]	= { "alloc_p99_ns", "ns", "p50", ALLOC_P50 },
	[FREE_P50]	= { "free_p50_ns", "ns", VS_MUTEX },
	[FREE_P99]	= { "free_p99_ns", "ns", "p50", FREE_P50 },
	[FAILURES]	= { "frag_failures", "ppm", ALONE },
	[OCCUPANCY]	= { "occupancy", "%", ALONE },
	[METADATA]	= { "metadata", "B/block", ALONE },
};

struct entrant {
	const struct contender *contender;
	struct churn churn;
	struct churn brimful;		/* engines only */
	struct series *series;
};

/* The driver is the last of them. */
struct contest {
	struct entrant entrant[MAX_ENTRANTS];
	u32 nr;
};

static bool is_driver(const struct entrant *entrant)
{
	return entrant->contender == contender_find("driver");
}

static void take_quantiles(struct entrant *entrant)
{
	static struct histogram alloc_ticks, free_ticks;

	alloc_ticks = free_ticks = (struct histogram){ .total = 0 };
	entrant->churn.alloc_ticks = &alloc_ticks;
	entrant->churn.free_ticks = &free_ticks;
	entrant->contender->timed(&entrant->churn, TIMED_REQUESTS);
	series_add(&entrant->series[ALLOC_P50], histogram_ns(&alloc_ticks, 0.5));
	series_add(&entrant->series[ALLOC_P99], histogram_ns(&alloc_ticks, 0.99));
	series_add(&entrant->series[FREE_P50], histogram_ns(&free_ticks, 0.5));
	series_add(&entrant->series[FREE_P99], histogram_ns(&free_ticks, 0.99));
}

static void take_quality(struct entrant *entrant)
{
	struct churn *churn = &entrant->brimful;
	struct kvmm_zone_stat stat = { 0 };

	churn_forget(churn);
	churn_step(churn, COUNT_REQUESTS);
	kvmm_zone_get_stat(churn->heap, &stat);
	series_add(&entrant->series[FAILURES], 1e6 * churn->failures / churn->requests);
	series_add(&entrant->series[OCCUPANCY],
		   100.0 * churn->held / churn->requests / churn->nr_blocks);
	series_add(&entrant->series[METADATA], (double)stat.metadata_bytes / churn->nr_blocks);
}

static int contest_turn(struct bench *bench, void *arg)
{
	struct contest *contest = arg;
	double driver;

	for (u32 i = 0; i < contest->nr; i++) {
		struct entrant *entrant = &contest->entrant[i];

		series_add(&entrant->series[PAIR], churn_pair_ns(&entrant->churn));
		if (is_driver(entrant))
			break;
		take_quantiles(entrant);
		if (entrant->contender->is_zone)
			take_quality(entrant);
	}
	driver = contest->entrant[contest->nr - 1].series[PAIR].value[bench->run];
	for (u32 i = 0; i + 1 < contest->nr; i++) {
		struct series *series = contest->entrant[i].series;

		series_add(&series[NET], series[PAIR].value[bench->run] - driver);
	}
	return 0;
}

static bool open_churns(struct entrant *entrant, const struct load *load)
{
	struct load brimful = *load;

	brimful.brimful = true;
	return churn_open(&entrant->churn, entrant->contender, load) &&
	       (!entrant->contender->is_zone ||
		churn_open(&entrant->brimful, entrant->contender, &brimful));
}

/*
 * Contenders that do not exist here are left out; the quality of engines is compared with the
 * buddy's.
 */
static void admit(struct bench *bench, const struct load *load, struct contest *contest)
{
	const struct contender *all;
	unsigned int nr_all = contenders(&all);
	const struct series *buddy = NULL;

	for (unsigned int i = 0; i < nr_all; i++) {
		struct entrant *entrant = &contest->entrant[contest->nr];
		u32 nr;

		entrant->contender = &all[i];
		if (!open_churns(entrant, load)) {
			bench_skip(bench, all[i].name, "not there");
			continue;
		}
		contest->nr++;
		nr = is_driver(entrant) ? 1 : all[i].is_zone ? METADATA + 1 : FAILURES;
		entrant->series = bench_set(bench, contest_metrics, nr,
					    "engine=%s sizes=%s nr=%u load=%u", all[i].name,
					    load->sizes->name, load->nr_blocks, load->percent);
		if (&all[i] == contender_find("buddy"))
			buddy = entrant->series;
	}
	for (u32 i = 0; buddy && i < contest->nr; i++)
		for (u32 m = FAILURES; contest->entrant[i].contender->is_zone && m <= METADATA; m++)
			if (contest->entrant[i].series != buddy)
				series_against(&contest->entrant[i].series[m], "buddy", &buddy[m]);
}

/* All contenders at each of @nr_sizes sizes, at each of the loads, which end with 0. */
static int run_contest(struct bench *bench, const struct sizes *sizes, u32 nr_sizes,
		       const u32 *percent)
{
	int err = 0;

	for (u32 i = 0; i < nr_sizes; i++) {
		for (u32 k = 0; !err && percent[k]; k++) {
			struct load load = { sizes, pool_sizes[i], percent[k], false, bench->seed };
			struct contest *contest = must_alloc(sizeof(*contest));

			admit(bench, &load, contest);
			err = bench_turns(bench, contest_turn, contest);
			for (u32 e = 0; e < contest->nr; e++) {
				churn_close(&contest->entrant[e].churn);
				churn_close(&contest->entrant[e].brimful);
			}
			free(contest);
		}
	}
	return err;
}

/* Ranges of 1 to 32 blocks, each length as likely, at three sizes and three loads. */
int bench_alloc_range(struct bench *bench)
{
	struct sizes sizes;
	int err;

	sizes_uniform(&sizes, 32, bench->seed);
	err = run_contest(bench, &sizes, 3, (const u32[]){ 50, 90, 97, 0 });
	sizes_exit(&sizes);
	return err;
}

/* Ranges as long as chat requests: few, long, and of very different lengths. */
int bench_alloc_request(struct bench *bench)
{
	struct sizes sizes;
	int err;

	sizes_requests(&sizes, bench->seed);
	err = run_contest(bench, &sizes, 2, (const u32[]){ 50, 90, 95, 97, 0 });
	sizes_exit(&sizes);
	return err;
}

/* ---- single blocks: in random order, and the last one taken is the first one given back ---- */

#define LIFO_PAIRS	4096u
#define NR_ENGINES	3u

struct lifo {
	struct kvmm_zone *zone[NR_ENGINES];
	struct series *pair[NR_ENGINES];
};

static void lifo_step(void *arg, u32 nr)
{
	struct kvmm_zone *zone = arg;
	u32 start;

	for (u32 i = 0; i < nr; i++) {
		kvmm_zone_alloc(zone, 1, &start);
		kvmm_zone_free(zone, start, 1);
	}
}

static int lifo_turn(struct bench *bench, void *arg)
{
	struct lifo *lifo = arg;

	for (u32 i = 0; i < NR_ENGINES; i++)
		if (lifo->zone[i])
			series_add(lifo->pair[i], step_ns(lifo_step, lifo->zone[i], LIFO_PAIRS));
	return 0;
}

/* In zones that are half full. */
static int run_lifo(struct bench *bench, u32 nr_blocks)
{
	static const char *const engines[NR_ENGINES] = { "zone", "lists", "buddy" };
	static const struct metric metric[] = { { "lifo_pair_ns", "ns", VS_MUTEX } };
	struct lifo lifo;
	u32 start;
	int err;

	for (u32 e = 0; e < NR_ENGINES; e++) {
		err = open_zone(&lifo.zone[e], nr_blocks, engines[e]);
		for (u32 i = 0; !err && i < nr_blocks / 2; i++)
			kvmm_zone_alloc(lifo.zone[e], 1, &start);
		lifo.pair[e] = bench_set(bench, SET(metric), "engine=%s nr=%u load=50", engines[e],
					 nr_blocks);
	}
	err = bench_turns(bench, lifo_turn, &lifo);
	for (u32 e = 0; e < NR_ENGINES; e++)
		kvmm_zone_destroy(lifo.zone[e]);
	return err;
}

int bench_alloc_single(struct bench *bench)
{
	struct sizes sizes;
	int err = 0;

	for (size_t i = 0; !err && i < ARRAY_SIZE(pool_sizes); i++)
		err = run_lifo(bench, pool_sizes[i]);
	sizes_uniform(&sizes, 1, bench->seed);
	err = err ? err : run_contest(bench, &sizes, 3, (const u32[]){ 50, 90, 0 });
	sizes_exit(&sizes);
	return err;
}

/* ---- ranges through the pool ---- */

/* The pool's default engine, without a pool. */
static const struct contender *zone_contender(void)
{
	const struct contender *zone = contender_find("zone");
	void *heap = zone->open(zone->name, 1);

	if (!heap)
		return contender_find("lists");
	zone->close(heap);
	return zone;
}

struct versus {
	struct churn pool, zone;
	struct series *series;
};

static int versus_turn(struct bench *bench, void *arg)
{
	struct versus *v = arg;
	double pool = churn_pair_ns(&v->pool), zone = churn_pair_ns(&v->zone);

	series_add_all(v->series, (double[]){ pool, zone, pool }, 3);
	return 0;
}

int bench_range(struct bench *bench)
{
	static const struct metric metrics[] = {
		{ "pair_ns", "ns", VS_MUTEX }, { "zone_pair_ns", "ns", VS_MUTEX },
		{ "pool_pair_ns", "ns", "zone_pair", 1 },
	};
	struct sizes sizes[2];
	int err = 0;

	sizes_uniform(&sizes[0], 32, bench->seed);
	sizes_requests(&sizes[1], bench->seed);
	for (size_t i = 0; !err && i < 2 * ARRAY_SIZE(pool_sizes); i++) {
		struct load load = { &sizes[i % 2], pool_sizes[i / 2], 90, false, bench->seed };
		struct versus v = { .series = NULL };

		if (!churn_open(&v.pool, &contender_pool, &load) ||
		    !churn_open(&v.zone, zone_contender(), &load))
			return -ENOMEM;
		v.series = bench_set(bench, SET(metrics), "sizes=%s nr=%u load=%u",
				     load.sizes->name,
				     load.nr_blocks, load.percent);
		err = bench_turns(bench, versus_turn, &v);
		churn_close(&v.pool);
		churn_close(&v.zone);
	}
	sizes_exit(&sizes[0]);
	sizes_exit(&sizes[1]);
	return err;
}

/* ---- two threads ---- */

#define MT_BLOCKS	(1u << 18)
#define MT_LOAD		90u
#define WINDOW_NS	30000000u
#define STEP_PAIRS	256u	/* between two looks at the clock */

/* What the two do; each keeps half of the load. */
struct pair {
	const struct contender *contender;	/* NULL: the mutex */
	struct churn churn[2];
	struct series *series;			/* one thread, two threads */
};

struct pairs {
	struct pair pair[MAX_ENTRANTS];
	u32 nr;
	pthread_mutex_t mutex;
};

static int pairs_turn(struct bench *bench, void *arg)
{
	struct pairs *pairs = arg;
	int err = 0;

	for (u32 i = 0; !err && i < pairs->nr; i++) {
		struct pair *pair = &pairs->pair[i];
		struct worker workers[2];

		for (u32 t = 0; t < 2; t++)
			workers[t] = (struct worker){ .nr = STEP_PAIRS,
				.step = pair->contender ? churn_step : mutex_step,
				.arg = pair->contender ? (void *)&pair->churn[t] : &pairs->mutex };
		bench_beside(workers, 1, WINDOW_NS);
		series_add(&pair->series[0], workers[0].rate);
		err = bench_beside(workers, 2, WINDOW_NS);
		series_add(&pair->series[1], workers[0].rate + workers[1].rate);
	}
	return err;
}

static void add_pair(struct bench *bench, struct pairs *pairs, const struct contender *contender,
		     const struct sizes *sizes)
{
	static const struct metric metric[] = { { "pairs_per_us", "1/us", ALONE } };
	struct load load = { sizes, MT_BLOCKS, MT_LOAD / 2, false, bench->seed };
	struct pair *pair = &pairs->pair[pairs->nr];
	const char *name = contender ? contender->name : "mutex";
	void *heap = contender ? contender->open(name, MT_BLOCKS) : NULL;

	if (contender && !heap) {
		bench_skip(bench, name, "not there");
		return;
	}
	pair->contender = contender;
	for (u32 i = 0; contender && i < 2; i++, load.seed++)
		churn_start(&pair->churn[i], contender, heap, &load);
	for (u32 threads = 1; threads <= 2; threads++) {
		struct series *series = bench_set(bench, SET(metric),
						  "engine=%s nr=%u load=%u threads=%u",
						  name, MT_BLOCKS, MT_LOAD, threads);

		if (threads == 1)
			pair->series = series;
	}
	series_against(&pair->series[1], "one_thread", &pair->series[0]);
	if (pairs->nr++)
		series_against(&pair->series[0], "mutex", pairs->pair[0].series);
}

static int run_two_threads(struct bench *bench, const struct contender *const *all, u32 nr_all)
{
	struct sizes sizes;
	struct pairs *pairs;
	int err;

	if (!bench_has_two_cores(bench, "everything"))
		return 0;
	pairs = must_alloc(sizeof(*pairs));
	pthread_mutex_init(&pairs->mutex, NULL);
	sizes_uniform(&sizes, 32, bench->seed);
	add_pair(bench, pairs, NULL, &sizes);
	for (u32 i = 0; i < nr_all; i++)
		add_pair(bench, pairs, all[i], &sizes);
	err = bench_turns(bench, pairs_turn, pairs);
	for (u32 i = 1; i < pairs->nr; i++) {
		struct pair *pair = &pairs->pair[i];

		churn_end(&pair->churn[0]);
		churn_close(&pair->churn[1]);
	}
	sizes_exit(&sizes);
	free(pairs);
	return err;
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
	static const struct contender *const each[] = { &contender_pool, &contender_mutex };

	return run_two_threads(bench, each, ARRAY_SIZE(each));
}
