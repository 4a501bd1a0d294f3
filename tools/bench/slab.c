// SPDX-License-Identifier: Apache-2.0
/*
 * Slab caches: what an object costs, one at a time and in batches, and what the presets of hybrid
 * models waste on one zone, beside uniform pages.
 */
#include "pools.h"

#define OBJECT_BYTES	(560u << 10)	/* a state: 4 in 35 blocks */
#define BLOCK_BYTES	(64u << 10)
#define LOAD_OBJECTS	16384u
#define SLICE_PAIRS	8192u
#define MAX_BATCH	64u
#define NR_REQUESTS	64u

struct load {
	struct kvmm_zone *zone;
	struct kvmm_slab_cache *cache;
	kvmm_slab_obj_t *objs;		/* groups of @batch */
	u32 batch;
	u32 keep_empty;
	u64 seed;
};

/* The last one taken is the first one given back. */
static void lifo_step(void *arg, u32 nr)
{
	struct load *load = arg;
	kvmm_slab_obj_t objs[MAX_BATCH];

	for (u32 i = 0; i < nr; i += load->batch) {
		kvmm_slab_alloc(load->cache, load->batch, objs);
		kvmm_slab_free(load->cache, load->batch, objs);
	}
}

/* Some group goes, another comes. */
static void random_step(void *arg, u32 nr)
{
	struct load *load = arg;

	for (u32 i = 0; i < nr; i += load->batch) {
		u32 group = rng_below(&load->seed, LOAD_OBJECTS / load->batch);
		kvmm_slab_obj_t *objs = &load->objs[group * load->batch];

		kvmm_slab_free(load->cache, load->batch, objs);
		kvmm_slab_alloc(load->cache, load->batch, objs);
	}
}

static int open_cache(struct load *load)
{
	struct kvmm_slab_attr attr = { .size = sizeof(attr), .name = "state",
				       .object_bytes = OBJECT_BYTES,
				       .base_block_bytes = BLOCK_BYTES, .align = 256,
				       .keep_empty = load->keep_empty };
	struct kvmm_slab_shape shape;
	int err = kvmm_slab_get_shape(NULL, &attr, &shape);

	if (err)
		return err;
	err = open_zone(&load->zone,
			(LOAD_OBJECTS + MAX_BATCH) / shape.nr_objects * shape.nr_blocks +
			shape.nr_blocks, NULL);
	if (err)
		return err;
	return kvmm_slab_cache_create(load->zone, &attr, &load->cache);
}

static void load_close(struct load *load)
{
	kvmm_slab_cache_destroy(load->cache);
	kvmm_zone_destroy(load->zone);
	free(load->objs);
}

static int load_open(struct load *load, u32 batch, u32 keep_empty, u64 seed)
{
	int err;

	*load = (struct load){ .batch = batch, .keep_empty = keep_empty,
				.seed = seed };
	load->objs = must_alloc(LOAD_OBJECTS * sizeof(*load->objs));
	err = open_cache(load);
	for (u32 i = 0; !err && i < LOAD_OBJECTS; i += batch)
		err = kvmm_slab_alloc(load->cache, batch, &load->objs[i]);
	if (err)
		load_close(load);
	return err;
}

struct turn {
	struct load load;
	struct series *lifo, *random;
};

static int turn(struct bench *bench, void *arg)
{
	struct turn *turn = arg;

	series_add(turn->lifo, step_ns(lifo_step, &turn->load, SLICE_PAIRS));
	series_add(turn->random, step_ns(random_step, &turn->load, SLICE_PAIRS));
	return 0;
}

/* An empty slab goes at once, or enough of them stay for the next batch. */
static int run_batch(struct bench *bench, u32 batch, u32 keep)
{
	static const struct metric lifo[] = { { "lifo_pair_ns", "ns", VS_MUTEX } },
		random[] = { { "random_pair_ns", "ns", VS_MUTEX } };
	struct turn each;
	int err = load_open(&each.load, batch, keep, bench->seed);

	if (err)
		return err;
	each.lifo = bench_set(bench, SET(lifo), "batch=%u keep=%u", batch, keep);
	each.random = bench_set(bench, SET(random), "batch=%u keep=%u live=%u", batch, keep,
				LOAD_OBJECTS);
	err = bench_turns(bench, turn, &each);
	load_close(&each.load);
	return err;
}

/* ---- waste ---- */

static u64 needed(const struct kvmm_slab_preset *preset)
{
	u64 bytes = 0;

	for (u32 i = 0; i < preset->nr_sizes; i++)
		bytes += preset->size[i].nr * preset->size[i].bytes;
	return bytes;
}

static int fill_cache(struct kvmm_zone *zone, const struct kvmm_slab_preset *preset, u32 size,
		      struct kvmm_slab_cache **cache)
{
	struct kvmm_slab_attr attr = { .size = sizeof(attr), .name = preset->size[size].name,
				       .object_bytes = preset->size[size].bytes,
				       .align = preset->size[size].align,
				       .base_block_bytes = preset->base_block_bytes,
				       .max_waste_pm = preset->max_waste_pm };
	u32 nr = preset->size[size].nr;
	kvmm_slab_obj_t *objs;
	int err = kvmm_slab_cache_create(zone, &attr, cache);

	if (err)
		return err;
	objs = must_alloc(nr * sizeof(*objs));
	for (u32 i = 0; !err && i < NR_REQUESTS; i++)
		err = kvmm_slab_alloc(*cache, nr, objs);
	free(objs);
	return err;
}

static int measure_waste(const struct kvmm_slab_preset *preset, double *percent)
{
	struct kvmm_slab_cache *cache[KVMM_SLAB_PRESET_SIZES] = { NULL };
	u64 blocks = NR_REQUESTS * needed(preset) / preset->base_block_bytes;
	struct kvmm_slab_stat total;
	struct kvmm_zone *zone;
	int err = open_zone(&zone, blocks + blocks / 50, NULL);

	if (err)
		return err;
	for (u32 i = 0; !err && i < preset->nr_sizes; i++)
		err = fill_cache(zone, preset, i, &cache[i]);
	kvmm_slab_total(zone, &total);
	*percent = 100 - 100.0 * total.live_bytes / total.held_bytes;
	for (u32 i = 0; i < preset->nr_sizes; i++)
		kvmm_slab_cache_destroy(cache[i]);
	kvmm_zone_destroy(zone);
	return err;
}

static int run_presets(struct bench *bench)
{
	static const struct metric waste[] = {
		{ "waste", "%", "uniform", 1 }, { "uniform_waste", "%", ALONE },
	};
	const struct kvmm_slab_preset *preset;

	for (u32 i = 0; (preset = kvmm_slab_preset_at(i)); i++) {
		struct series *series;
		double percent;
		int err = measure_waste(preset, &percent);

		if (err)
			return err;
		series = bench_set(bench, SET(waste), "preset=%s", preset->name);
		series_add(&series[0], percent);
		series_add(&series[1], 100 - 100.0 * needed(preset) /
			   (preset->uniform_pages * preset->uniform_page_bytes));
	}
	bench_report(bench);
	return 0;
}

int bench_slab(struct bench *bench)
{
	static const u32 batches[] = { 1, 8, 64 };
	int err = 0;

	for (size_t i = 0; !err && i < 2 * ARRAY_SIZE(batches); i++)
		err = run_batch(bench, batches[i / 2], i % 2 ? MAX_BATCH : 0);
	return err ? err : run_presets(bench);
}
