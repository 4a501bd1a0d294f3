// SPDX-License-Identifier: Apache-2.0
/*
 * How well the engines pack. 10,000 blocks, three scenes: requests of 10 blocks; a pool of random
 * ranges of which a random half is freed; random traffic at a load
 * that is held exactly, or that rises until the first request fails. Each run has another seed,
 * so the spread says how much is chance.
 */
#include "churn.h"

#define NR_BLOCKS	10000u

static const char *const engines[] = { "zone", "lists", "buddy" };

#define NR_ENGINES	ARRAY_SIZE(engines)
#define BUDDY		(NR_ENGINES - 1)

/* What an engine has; the buddy's are the baselines of the others. */
struct rows {
	struct series *of[NR_ENGINES];
};

static struct rows make_rows(struct bench *bench, const struct metric *metrics, u32 nr,
			     const char *params)
{
	struct rows rows;

	for (size_t i = 0; i < NR_ENGINES; i++)
		rows.of[i] = bench_set(bench, metrics, nr, "engine=%s %s", engines[i], params);
	for (size_t i = 0; i < BUDDY; i++)
		for (u32 m = 0; m < nr; m++)
			if (!metrics[m].against)
				series_against(&rows.of[i][m], "buddy", &rows.of[BUDDY][m]);
	return rows;
}

/* ---- requests of 10 blocks ---- */

#define TEN	10u

/* As many as fit; nanoseconds each. */
static u32 fill_tens(struct kv_zone *zone, u32 *start, u32 nr_most, double *ns)
{
	u64 begin = now_ns();
	u32 nr = 0;

	while (nr < nr_most && !kv_zone_alloc(zone, TEN, &start[nr]))
		nr++;
	*ns = nr ? (double)(now_ns() - begin) / nr : 0;
	return nr;
}

static void tens(struct series *series, const char *engine, u64 seed)
{
	u32 start[NR_BLOCKS / TEN], nr, again;
	struct kv_zone *zone;
	double alloc_ns, free_ns;
	u64 begin;

	if (open_zone(&zone, NR_BLOCKS, engine))
		return;
	nr = fill_tens(zone, start, NR_BLOCKS / TEN, &alloc_ns);
	shuffle(start, nr, sizeof(*start), &seed);
	begin = now_ns();
	for (u32 i = 0; i < nr / 2; i++)
		kv_zone_free(zone, start[i], TEN);
	free_ns = nr / 2 ? (double)(now_ns() - begin) / (nr / 2) : 0;
	again = fill_tens(zone, start, nr / 2, &alloc_ns);
	series_add_all(series, (double[]){ 100.0 * nr * TEN / NR_BLOCKS, nr / 2 - again, alloc_ns,
					   free_ns },
		       4);
	kv_zone_destroy(zone);
}

static int tens_turn(struct bench *bench, void *arg)
{
	struct rows *rows = arg;

	for (size_t i = 0; i < NR_ENGINES; i++)
		tens(rows->of[i], engines[i], bench->seed + bench->run);
	return 0;
}

/* ---- half freed ---- */

static int look_at_half(struct series *series, const char *engine, u64 seed)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .allocator = engine };
	struct kv_zone_stat stat;
	struct scattered s;
	int err = scatter_open(&s, &attr, 32, seed);

	if (err)
		return err == -ENOENT ? 0 : err;
	kv_zone_get_stat(kv_pool_zone(s.pool), &stat);
	series_add(&series[0], kv_zone_unusable(kv_pool_zone(s.pool), 32) / 1e4);
	series_add(&series[1], 100.0 * (stat.nr_free - stat.largest) / stat.nr_free);
	scatter_close(&s);
	return 0;
}

static int half_turn(struct bench *bench, void *arg)
{
	struct rows *rows = arg;
	int err = 0;

	for (size_t i = 0; !err && i < NR_ENGINES; i++)
		err = look_at_half(rows->of[i], engines[i], bench->seed + bench->run);
	return err;
}

/* ---- traffic ---- */

#define COUNT_REQUESTS	20000u

struct traffic {
	struct rows rows;
	u32 longest;		/* 0: lengths of requests */
	bool rises;
	u32 percent;
};

/* Everything that lives is replaced about once at each percent. */
static double first_failure(struct churn *churn)
{
	for (u32 permille = 500; permille <= 1000; permille += 5) {
		churn->limit = (u64)NR_BLOCKS * permille / 1000;
		churn_step(churn, 1 + churn->nr_live / 2);
		if (churn->failures)
			return permille / 10.0;
	}
	return 100;
}

static int traffic_turn(struct bench *bench, void *arg)
{
	struct traffic *traffic = arg;
	struct sizes sizes;
	struct load load = { &sizes, NR_BLOCKS, traffic->percent, true, bench->seed + bench->run };

	sizes_open(&sizes, traffic->longest, load.seed);
	for (size_t i = 0; i < NR_ENGINES; i++) {
		struct series *series = traffic->rows.of[i];
		struct churn churn;

		if (!churn_open(&churn, contender_find(engines[i]), &load))
			continue;
		if (traffic->rises) {
			series_add(series, first_failure(&churn));
		} else {
			churn_step(&churn, COUNT_REQUESTS);
			series_add(&series[0], 1e6 * churn.failures / churn.requests);
			series_add(&series[1], 100.0 * churn.held / churn.requests / NR_BLOCKS);
		}
		churn_close(&churn);
	}
	sizes_exit(&sizes);
	return 0;
}

/* At @percent, or, where that is 0, from 50 on until the first request fails. */
static int run_traffic(struct bench *bench, u32 longest, u32 percent)
{
	static const struct metric held[] = { { "frag_failures", "ppm", ALONE },
					      { "occupancy", "%", ALONE } },
		rising[] = { { "first_failure", "%", ALONE } };
	struct traffic traffic = { .longest = longest, .rises = !percent,
				   .percent = percent ? percent : 50 };
	struct sizes sizes;
	char params[80];

	sizes_open(&sizes, longest, 1);
	if (percent)
		snprintf(params, sizeof(params), "scene=traffic sizes=%s load=%u", sizes.name,
			 percent);
	else
		snprintf(params, sizeof(params), "scene=rising sizes=%s nr=%u", sizes.name,
			 NR_BLOCKS);
	sizes_exit(&sizes);
	traffic.rows = percent ? make_rows(bench, SET(held), params) :
				 make_rows(bench, SET(rising), params);
	return bench_turns(bench, traffic_turn, &traffic);
}

int bench_fragmentation(struct bench *bench)
{
	static const struct metric ten[] = {
		{ "filled", "%", ALONE }, { "refused", "of 500", ALONE },
		{ "alloc_ns", "ns", VS_MUTEX },
		{ "free_ns", "ns", VS_MUTEX },
	}, half[] = { { "unusable_32", "%", ALONE }, { "not_in_largest", "%", ALONE } };
	static const u32 percent[] = { 0, 80, 90, 95 };
	struct rows rows = make_rows(bench, SET(ten), "scene=ten nr=10000");
	int err = bench_turns(bench, tens_turn, &rows);

	rows = make_rows(bench, SET(half), "scene=half nr=10000");
	err = err ? err : bench_turns(bench, half_turn, &rows);
	for (size_t i = 0; !err && i < 2 * ARRAY_SIZE(percent); i++)
		err = run_traffic(bench, i < ARRAY_SIZE(percent) ? 32 : 0,
				  percent[i % ARRAY_SIZE(percent)]);
	return err;
}
