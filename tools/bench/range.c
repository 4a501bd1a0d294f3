// SPDX-License-Identifier: Apache-2.0
/* Ranges through the pool: what owners, handles and statistics add to the zone's call. */
#include <errno.h>
#include <kvmm/kvmm.h>

#include "churn.h"

/* A range handle is the two words that churn keeps. */
static __always_inline int pool_alloc(void *heap, u32 nr, u32 *word)
{
	kvmm_range_t range;
	int err = kvmm_range_alloc(heap, nr, KVMM_RUNS(1) | KVMM_ALLOC_NO_COMPACT, &range);

	word[0] = range.index;
	word[1] = range.gen;
	return err;
}

static __always_inline void pool_free(void *heap, const u32 *word, u32 nr)
{
	kvmm_range_free(heap, (kvmm_range_t){ word[0], word[1] });
}

CHURN_CONTENDER(pool)

static void *pool_open(const char *name, u32 nr_blocks)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_pool *pool;

	attr.nr_blocks = nr_blocks;
	return kvmm_pool_create(&attr, &pool) ? NULL : pool;
}

static void pool_close(void *heap)
{
	kvmm_pool_destroy(heap);
}

const struct contender bench_pool = { .name = "pool", CONTENDER_CALLS(pool) };

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

static int run_load(struct bench *bench, const struct load *load)
{
	const struct contender *contender[2] = { &bench_pool, zone_contender() };
	struct churn churn[2];
	struct series *pair[2], *share;

	for (u32 i = 0; i < 2; i++) {
		if (!churn_open(&churn[i], contender[i], load))
			return -ENOMEM;
		pair[i] = bench_series(bench, i ? "zone_pair_ns" : "pair_ns", "ns",
				       "sizes=%s nr=%u load=%u", load->sizes->name,
				       load->nr_blocks, load->percent);
	}
	share = bench_series(bench, "pool_pair_ns", "ns", "sizes=%s nr=%u load=%u",
			     load->sizes->name, load->nr_blocks, load->percent);
	for (unsigned int run = 0; run < bench->nr_runs; run++) {
		const struct series *mutex_pair = bench_mutex_pair(bench);

		for (u32 i = 0; i < 2; i++) {
			series_add(pair[i], churn_pair_ns(&churn[i], contender[i]));
			series_against(pair[i], "mutex_pair", mutex_pair);
		}
		series_add(share, pair[0]->value[run]);
	}
	series_against(share, "zone_pair", pair[1]);
	for (u32 i = 0; i < 2; i++)
		churn_close(&churn[i], contender[i]);
	bench_report(bench);
	return 0;
}

static int run(struct bench *bench)
{
	static const u32 nr_blocks[] = { 1u << 14, 1u << 18, 1u << 20 };
	struct sizes sizes[2];
	struct load load = { .percent = 90, .seed = bench->seed };
	int err = 0;

	sizes_uniform(&sizes[0], 32, bench->seed);
	sizes_requests(&sizes[1], bench->seed);
	for (size_t i = 0; i < ARRAY_SIZE(nr_blocks); i++) {
		for (u32 k = 0; !err && k < 2; k++) {
			load.nr_blocks = nr_blocks[i];
			load.sizes = &sizes[k];
			err = run_load(bench, &load);
		}
	}
	sizes_exit(&sizes[0]);
	sizes_exit(&sizes[1]);
	return err;
}

const struct bench_kind bench_range = {
	.name = "range",
	.what = "kvmm_range_alloc() and kvmm_range_free() in a pool, against the zone alone",
	.run = run,
};
