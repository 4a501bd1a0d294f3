// SPDX-License-Identifier: Apache-2.0
/*
 * Finding cached blocks: prefixes matched, references taken, dropped and upgraded, blocks named.
 *
 * Prompts have keys of their own, and keys are given to blocks in random order, so a prompt's
 * blocks lie all over the tables: where those are larger than the caches, every block has to be
 * fetched from memory. What is compared with is a pool that finds its blocks by liburcu's hash
 * table, and differs in nothing else.
 *
 * "held" blocks have a reference already. The first reference on a block, and the last, are noted
 * for the order of eviction; that is in the time of who takes and drops them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <kvmm/kvmm.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "registry.h"

/* ---- a full pool ---- */

const char *const registry_index[NR_INDEXES] = { "flat", "lfht" };

static void draw_keys(kvmm_key_t *keys, u32 nr, u64 seed)
{
	for (u32 i = 0; i < nr; i++) {
		u64 word[2] = { random_next(&seed), i };

		memcpy(&keys[i], word, sizeof(word));
	}
}

static void shuffle(kvmm_mut_t *blocks, u32 nr, u64 *seed)
{
	for (u32 i = nr; i > 1; i--) {
		u32 j = random_below(seed, i);
		kvmm_mut_t swap = blocks[i - 1];

		blocks[i - 1] = blocks[j];
		blocks[j] = swap;
	}
}

int cached_open(struct cached *cached, const char *index, u32 nr, u64 seed)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	kvmm_mut_t *blocks;
	int err;

	*cached = (struct cached){ .nr = nr, .seed = seed };
	attr.nr_blocks = nr;
	attr.policy = "lru";
	attr.index = index;
	attr.flags = KVMM_POOL_PREFIX_CLOSED;
	err = kvmm_pool_create(&attr, &cached->pool);
	if (err)
		return err;
	cached->keys = must_alloc(nr * sizeof(*cached->keys));
	cached->refs = must_alloc(nr * sizeof(*cached->refs));
	draw_keys(cached->keys, nr, seed);
	blocks = (kvmm_mut_t *)cached->refs;
	err = kvmm_alloc(cached->pool, nr, blocks);
	if (!err)
		shuffle(blocks, nr, &cached->seed);
	return err;
}

void cached_close(struct cached *cached)
{
	kvmm_pool_destroy(cached->pool);
	free(cached->keys);
	free(cached->refs);
	cached->pool = NULL;
}

int cached_register(struct cached *cached, u32 first, u32 nr)
{
	int err = 0;

	for (u32 i = first; !err && i < first + nr; i += REGISTER_BATCH)
		err = kvmm_register(cached->pool, (kvmm_mut_t *)&cached->refs[i], &cached->keys[i],
				    REGISTER_BATCH, &cached->refs[i]);
	return err;
}

/* Registered, and nobody's. */
static int cached_fill(struct cached *cached, const char *index, u32 nr, u64 seed)
{
	int err = cached_open(cached, index, nr, seed);

	err = err ? err : cached_register(cached, 0, nr);
	return err ? err : kvmm_put_many(cached->pool, cached->refs, nr);
}

/* ---- what is done with a prompt; 0, or it went wrong ---- */

struct slice {
	struct cached *cached;
	u32 len;			/* of a prompt */
	u32 nr;				/* prompts */
	u32 prompt[SLICE_BLOCKS];	/* random ones */
	kvmm_ref_t refs[SLICE_BLOCKS];
	bool held;
};

static int do_match(struct slice *slice, u32 i)
{
	const kvmm_key_t *keys = &slice->cached->keys[slice->prompt[i] * slice->len];

	return kvmm_match(slice->cached->pool, keys, slice->len, &slice->refs[i * slice->len]) !=
	       (int)slice->len;
}

static int do_length(struct slice *slice, u32 i)
{
	const kvmm_key_t *keys = &slice->cached->keys[slice->prompt[i] * slice->len];

	return kvmm_match_len(slice->cached->pool, keys, slice->len) != (int)slice->len;
}

static int do_touch(struct slice *slice, u32 i)
{
	return kvmm_touch_many(slice->cached->pool, &slice->refs[i * slice->len], slice->len);
}

static int do_put(struct slice *slice, u32 i)
{
	return kvmm_put_many(slice->cached->pool, &slice->refs[i * slice->len], slice->len);
}

static int do_upgrade(struct slice *slice, u32 i)
{
	kvmm_ref_t *refs = &slice->refs[i * slice->len];

	/* A weak reference is the same handle. */
	return kvmm_upgrade_many(slice->cached->pool, (const kvmm_weak_t *)refs, slice->len,
				 refs) != (int)slice->len;
}

static const struct deed {
	const char *metric;
	const char *unit;
	int (*run)(struct slice *slice, u32 i);
	bool by_prompt;		/* microseconds a prompt rather than nanoseconds a block */
} deeds[] = {
	{ "length_us", "us", do_length, true },
	{ "match_ns", "ns/blk", do_match, false },
	{ "touch_ns", "ns/blk", do_touch, false },
	{ "put_ns", "ns/blk", do_put, false },
	{ "upgrade_ns", "ns/blk", do_upgrade, false },
	{ NULL, NULL, do_put, false },
};

#define NR_DEEDS	ARRAY_SIZE(deeds)
#define NR_SLICES	32u

static void draw_prompts(struct slice *slice)
{
	slice->nr = SLICE_BLOCKS / slice->len;
	for (u32 i = 0; i < slice->nr; i++)
		slice->prompt[i] = random_below(&slice->cached->seed,
						slice->cached->nr / slice->len);
}

static double time_deed(struct slice *slice, const struct deed *deed, int *err)
{
	u64 begin = now_ns();
	double ns;

	for (u32 i = 0; i < slice->nr; i++)
		*err |= deed->run(slice, i);
	ns = now_ns() - begin;
	return deed->by_prompt ? ns / slice->nr / 1000 : ns / slice->nr / slice->len;
}

/* The median of the slices of each deed: one in which the thread lost its core says nothing. */
static int measure_deeds(struct slice *slice, struct series *const *series)
{
	double value[NR_DEEDS][NR_SLICES];
	int err = 0;

	for (u32 s = 0; s < NR_SLICES; s++) {
		draw_prompts(slice);
		for (size_t d = 0; d < NR_DEEDS; d++)
			value[d][s] = time_deed(slice, &deeds[d], &err);
	}
	for (size_t d = 0; d < NR_DEEDS && series; d++)
		if (deeds[d].metric)
			series_add(series[d], median_of(value[d], NR_SLICES));
	return err ? -EUCLEAN : 0;
}

/* ---- sizes ---- */

static void make_series(struct bench *bench, const struct slice *slice,
			struct series *series[NR_INDEXES][NR_DEEDS])
{
	for (u32 x = 0; x < NR_INDEXES; x++) {
		for (size_t d = 0; d < NR_DEEDS; d++) {
			if (!deeds[d].metric)
				continue;
			series[x][d] = bench_series(bench, deeds[d].metric, deeds[d].unit,
						    "index=%s entries=%u blocks=%u held=%u",
						    registry_index[x], slice->cached->nr,
						    slice->len, slice->held);
			if (x)
				series_against(series[0][d], registry_index[x], series[x][d]);
		}
	}
}

static int run_prompts(struct bench *bench, struct cached *cached, u32 len, bool held)
{
	struct series *series[NR_INDEXES][NR_DEEDS];
	static struct slice slice;
	int err = 0;

	slice = (struct slice){ .cached = cached, .len = len, .held = held };
	make_series(bench, &slice, series);
	/* Once for nothing: memory, caches, clock. */
	for (unsigned int run = 0; !err && run <= bench->nr_runs; run++) {
		for (u32 x = 0; !err && x < NR_INDEXES; x++) {
			slice.cached = &cached[x];
			err = measure_deeds(&slice, run ? series[x] : NULL);
		}
	}
	bench_report(bench);
	return err;
}

/* Everything gets a holder. */
static int hold_all(struct cached *cached)
{
	int nr = kvmm_upgrade_many(cached->pool, (const kvmm_weak_t *)cached->refs, cached->nr,
				   cached->refs);

	return nr == (int)cached->nr ? 0 : -EUCLEAN;
}

static int run_lens(struct bench *bench, struct cached *cached, const u32 *lens, bool held)
{
	int err = 0;

	for (u32 x = 0; held && !err && x < NR_INDEXES; x++)
		err = hold_all(&cached[x]);
	for (; !err && *lens; lens++)
		err = run_prompts(bench, cached, *lens, held);
	return err;
}

static int run_size(struct bench *bench, u32 nr, const u32 *lens)
{
	struct cached cached[NR_INDEXES] = { { 0 } };
	int err = 0;

	for (u32 x = 0; !err && x < NR_INDEXES; x++)
		err = cached_fill(&cached[x], registry_index[x], nr, bench->seed);
	err = err ? err : run_lens(bench, cached, lens, false);
	err = err ? err : run_lens(bench, cached, lens, true);
	for (u32 x = 0; x < NR_INDEXES; x++)
		if (cached[x].pool)
			cached_close(&cached[x]);
	return err;
}

/* ---- naming: each block once ---- */

#define NAME_BLOCKS	(1u << 20)
#define NAME_SLICES	(NAME_BLOCKS / 4 * 3 / SLICE_BLOCKS)

/* Three quarters of a pool of which the first is there; the median of the slices. */
static int time_slices(struct cached *cached, double *ns)
{
	double value[NAME_SLICES];
	int err = cached_register(cached, 0, NAME_BLOCKS / 4);

	for (u32 s = 0; !err && s < NAME_SLICES; s++) {
		u64 begin = now_ns();

		err = cached_register(cached, NAME_BLOCKS / 4 + s * SLICE_BLOCKS, SLICE_BLOCKS);
		value[s] = (double)(now_ns() - begin) / SLICE_BLOCKS;
	}
	*ns = err ? 0 : median_of(value, NAME_SLICES);
	return err;
}

static int time_naming(struct bench *bench, const char *index, double *ns)
{
	struct cached cached;
	int err = cached_open(&cached, index, NAME_BLOCKS, bench->seed);

	err = err ? err : time_slices(&cached, ns);
	if (cached.pool)
		cached_close(&cached);
	return err;
}

static int run_naming(struct bench *bench)
{
	struct series *series[NR_INDEXES];
	int err = 0;

	for (u32 x = 0; x < NR_INDEXES; x++)
		series[x] = bench_series(bench, "register_ns", "ns/blk",
					 "index=%s entries=%u batch=%u", registry_index[x],
					 NAME_BLOCKS, REGISTER_BATCH);
	series_against(series[0], registry_index[1], series[1]);
	for (unsigned int run = 0; !err && run < bench->nr_runs; run++) {
		for (u32 x = 0; !err && x < NR_INDEXES; x++) {
			double ns;

			err = time_naming(bench, registry_index[x], &ns);
			if (!err)
				series_add(series[x], ns);
		}
	}
	bench_report(bench);
	return err;
}

/* ---- all ---- */

static int run(struct bench *bench)
{
	static const u32 small[] = { 85, 0 }, large[] = { 64, 1024, 0 };
	int err = run_size(bench, 100u << 10, small);

	err = err ? err : run_size(bench, 1u << 20, large);
	err = err ? err : run_size(bench, 4u << 20, large);
	err = err ? err : run_naming(bench);
	return err ? err : registry_run_threads(bench);
}

const struct bench_kind bench_registry = {
	.name = "registry",
	.what = "match, length, touch, put, upgrade, register; two threads; against liburcu's table",
	.run = run,
};
