// SPDX-License-Identifier: Apache-2.0
/*
 * The contest. Throughput is timed in slices, without a look at the clock in between; quantiles
 * are of calls timed one by one, less the time that the clock takes. Quality is counted on a second
 * allocator, which is brimful.
 */
#include <kvmm/kvmm.h>
#include <stdlib.h>

#include "contest.h"

#define TIMED_REQUESTS	50000u
#define COUNT_REQUESTS	50000u

struct entrant {
	const struct contender *contender;
	struct churn churn;
	struct churn brimful;		/* engines only */
	struct series *pair, *net;	/* with and without the time of the driver */
	struct series *alloc_p50, *alloc_p99, *free_p50, *free_p99;
	struct series *failures, *occupancy, *metadata;	/* engines only */
};

static bool is_driver(const struct entrant *entrant)
{
	return entrant->contender == contender_find("driver");
}

#define ENTRANT_SERIES(metric, unit)							\
	bench_series(bench, metric, unit, "engine=%s sizes=%s nr=%u load=%u",		\
		     entrant->contender->name, load->sizes->name,			\
		     load->nr_blocks, load->percent)

static void make_series(struct bench *bench, const struct load *load, struct entrant *entrant)
{
	entrant->pair = ENTRANT_SERIES("pair_ns", "ns");
	if (is_driver(entrant))
		return;
	entrant->net = ENTRANT_SERIES("net_pair_ns", "ns");
	entrant->alloc_p50 = ENTRANT_SERIES("alloc_p50_ns", "ns");
	entrant->alloc_p99 = ENTRANT_SERIES("alloc_p99_ns", "ns");
	entrant->free_p50 = ENTRANT_SERIES("free_p50_ns", "ns");
	entrant->free_p99 = ENTRANT_SERIES("free_p99_ns", "ns");
	series_against(entrant->alloc_p99, "p50", entrant->alloc_p50);
	series_against(entrant->free_p99, "p50", entrant->free_p50);
	if (!entrant->contender->is_zone)
		return;
	entrant->failures = ENTRANT_SERIES("frag_failures", "ppm");
	entrant->occupancy = ENTRANT_SERIES("occupancy", "%");
	entrant->metadata = ENTRANT_SERIES("metadata", "B/block");
}

/* The measured ones are compared with the power-of-two buddy. */
static void against_buddy(struct entrant *entrant, u32 nr)
{
	const struct entrant *buddy = NULL;

	for (u32 i = 0; i < nr; i++) {
		if (entrant[i].contender == contender_find("buddy"))
			buddy = &entrant[i];
	}
	for (u32 i = 0; buddy && i < nr; i++) {
		if (!entrant[i].failures || &entrant[i] == buddy)
			continue;
		series_against(entrant[i].failures, "buddy", buddy->failures);
		series_against(entrant[i].occupancy, "buddy", buddy->occupancy);
		series_against(entrant[i].metadata, "buddy", buddy->metadata);
	}
}

static void take_quantiles(struct entrant *entrant)
{
	static struct histogram alloc_ticks, free_ticks;

	histogram_clear(&alloc_ticks);
	histogram_clear(&free_ticks);
	entrant->churn.alloc_ticks = &alloc_ticks;
	entrant->churn.free_ticks = &free_ticks;
	entrant->contender->timed(&entrant->churn, TIMED_REQUESTS);
	series_add(entrant->alloc_p50, histogram_ns(&alloc_ticks, 0.5));
	series_add(entrant->alloc_p99, histogram_ns(&alloc_ticks, 0.99));
	series_add(entrant->free_p50, histogram_ns(&free_ticks, 0.5));
	series_add(entrant->free_p99, histogram_ns(&free_ticks, 0.99));
}

static void take_quality(struct entrant *entrant)
{
	struct churn *churn = &entrant->brimful;
	struct kvmm_zone_stat stat = { 0 };

	churn_forget(churn);
	entrant->contender->step(churn, COUNT_REQUESTS);
	kvmm_zone_stat(churn->heap, &stat);
	series_add(entrant->failures, 1e6 * churn->failures / churn->requests);
	series_add(entrant->occupancy,
		   100.0 * churn->held / churn->requests / churn->nr_blocks);
	series_add(entrant->metadata, (double)stat.metadata_bytes / churn->nr_blocks);
}

/* All but the driver, which is the last of @entrant, and must have had its turn. */
static void take_net(struct bench *bench, struct entrant *entrant, u32 nr)
{
	const struct series *driver = entrant[nr - 1].pair;
	unsigned int run = driver->nr - 1;

	for (u32 i = 0; i + 1 < nr; i++) {
		series_add(entrant[i].net, entrant[i].pair->value[run] - driver->value[run]);
		series_against(entrant[i].net, "mutex_pair", bench->mutex_pair);
	}
}

static void take_turn(struct bench *bench, struct entrant *entrant)
{
	const struct series *mutex_pair = bench->mutex_pair;

	series_add(entrant->pair, churn_pair_ns(&entrant->churn, entrant->contender));
	series_against(entrant->pair, "mutex_pair", mutex_pair);
	if (is_driver(entrant))
		return;
	take_quantiles(entrant);
	series_against(entrant->alloc_p50, "mutex_pair", mutex_pair);
	series_against(entrant->free_p50, "mutex_pair", mutex_pair);
	if (entrant->contender->is_zone)
		take_quality(entrant);
}

static bool open_churns(struct entrant *entrant, const struct load *load)
{
	struct load brimful = *load;

	brimful.brimful = true;
	if (!churn_open(&entrant->churn, entrant->contender, load))
		return false;
	return !entrant->contender->is_zone ||
	       churn_open(&entrant->brimful, entrant->contender, &brimful);
}

/* Contenders that do not exist here are left out. */
static u32 admit(struct bench *bench, const struct load *load, struct entrant *entrant)
{
	const struct contender *all;
	unsigned int nr_all = contenders(&all);
	u32 nr = 0;

	for (unsigned int i = 0; i < nr_all; i++) {
		entrant[nr].contender = &all[i];
		if (open_churns(&entrant[nr], load))
			make_series(bench, load, &entrant[nr++]);
		else
			bench_skip(bench, all[i].name, "not there");
	}
	against_buddy(entrant, nr);
	return nr;
}

int contest_run(struct bench *bench, const struct load *load)
{
	const struct contender *all;
	struct entrant *entrant = must_alloc(contenders(&all) * sizeof(*entrant));
	u32 nr = admit(bench, load, entrant);

	for (unsigned int run = 0; run < bench->nr_runs; run++) {
		bench_mutex_pair(bench);
		for (u32 i = 0; i < nr; i++)
			take_turn(bench, &entrant[i]);
		take_net(bench, entrant, nr);
	}
	for (u32 i = 0; i < nr; i++) {
		churn_close(&entrant[i].churn, entrant[i].contender);
		churn_close(&entrant[i].brimful, entrant[i].contender);
	}
	free(entrant);
	bench_report(bench);
	return 0;
}

int contest_plan(struct bench *bench, const struct contest_plan *plan)
{
	struct load load = { .sizes = plan->sizes, .seed = bench->seed };
	int err = 0;

	for (u32 i = 0; i < plan->nr_sizes; i++) {
		load.nr_blocks = plan->nr_blocks[i];
		for (u32 k = 0; !err && k < plan->nr_loads; k++) {
			load.percent = plan->percent[k];
			err = contest_run(bench, &load);
		}
	}
	return err;
}
