// SPDX-License-Identifier: Apache-2.0
/* Slab caches: what an object costs, one at a time and in batches. */
#include "pools.h"

#define OBJECT_BYTES	(560u << 10)	/* a state: 4 in 35 blocks */
#define BLOCK_BYTES	(64u << 10)
#define LOAD_OBJECTS	16384u
#define SLICE_PAIRS	8192u
#define MAX_BATCH	64u

struct load {
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
				       .keep_empty = load->keep_empty,
				       .nr_blocks = (LOAD_OBJECTS + MAX_BATCH) / 4 * 35 + 35 };

	return kvmm_slab_cache_create(&attr, &load->cache);
}

static void load_close(struct load *load)
{
	kvmm_slab_cache_destroy(load->cache);
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

/* An empty slab goes at once, or enough of them stay for the next batch. */
static int run_batch(struct bench *bench, u32 batch, u32 keep)
{
	static const struct metric lifo = { "lifo_pair_ns", "ns", VS_MUTEX },
		random = { "random_pair_ns", "ns", VS_MUTEX };
	struct load load;
	int err = load_open(&load, batch, keep, bench->seed);

	if (err)
		return err;
	bench_step(bench_set(bench, &lifo, 1, "batch=%u keep=%u", batch, keep), lifo_step, &load,
		   SLICE_PAIRS);
	bench_step(bench_set(bench, &random, 1, "batch=%u keep=%u live=%u", batch, keep,
			     LOAD_OBJECTS), random_step, &load, SLICE_PAIRS);
	err = bench_rows(bench);
	load_close(&load);
	return err;
}

int bench_slab(struct bench *bench)
{
	static const u32 batches[] = { 1, 8, 64 };
	int err = 0;

	for (size_t i = 0; !err && i < 2 * ARRAY_SIZE(batches); i++)
		err = run_batch(bench, batches[i / 2], i % 2 ? MAX_BATCH : 0);
	return err;
}
