/* SPDX-License-Identifier: Apache-2.0 */
/* What benchmarks work on: zones and pools, keys, lengths of requests, pools in pieces. */
#ifndef BENCH_POOLS_H
#define BENCH_POOLS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kv/pool.h>
#include <kv/zone.h>
#include <kvmm/kvmm.h>

#include "harness.h"

/* A zone, a pool of ids, as they are without further words; *@pool is NULL on failure. */
int open_zone(struct kv_zone **zone, u32 nr_blocks, const char *engine);
int open_pool(struct kvmm_pool **pool, u32 nr_blocks, const char *policy, u32 flags);

/** random_keys() - names that no prompt shares */
void random_keys(kvmm_key_t *keys, u32 nr, u64 *seed);

/** name_blocks() - @nr new names in prompts, evicting where it is full; no block is held then */
int name_blocks(struct kvmm_pool *pool, u32 nr, u64 *seed);

/** large_alloc() - zeroed memory for free(), on large pages where there are any */
void *large_alloc(size_t bytes);

/* ---- lengths, drawn in advance: drawing them must not be part of what is timed ---- */

#define SIZES_MAX	900u	/* longest request, in blocks */

/** struct sizes - a circle of lengths
 * @nr: a power of two
 * @mean: of @at[]
 */
struct sizes {
	const char *name;
	u16 *at;
	u32 nr;
	double mean;
};

/**
 * sizes_open() - 1 to @longest, each as likely; 0: lengths of chat requests in blocks of 16 tokens
 *
 * These come from the Azure conversation trace in the directory $KVMM_TRACES (or
 * ../shared/traces), in random order; without it from a log-normal distribution of the same
 * logarithmic mean and variance.
 */
void sizes_open(struct sizes *sizes, u32 longest, u64 seed);

void sizes_exit(struct sizes *sizes);

/* ---- in pieces: filled with ranges of random length, then a random half is freed ---- */

/**
 * struct scattered - a pool in that state
 * @ranges: those that are left; owned
 */
struct scattered {
	struct kvmm_pool *pool;
	kvmm_range_t *ranges;
	u32 nr_ranges;
};

/** scatter_open() - @attr says which pool; ranges of 1 to @max_nr blocks */
int scatter_open(struct scattered *scattered, const struct kvmm_pool_attr *attr, u32 max_nr,
		 u64 seed);
void scatter_close(struct scattered *scattered);

#endif /* BENCH_POOLS_H */
