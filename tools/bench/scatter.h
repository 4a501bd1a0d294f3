/* SPDX-License-Identifier: Apache-2.0 */
/* A pool or zone in pieces: filled with ranges of random length, then a random half is freed. */
#ifndef BENCH_SCATTER_H
#define BENCH_SCATTER_H

#include <kvmm/kvmm.h>

#include "harness.h"

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

#endif /* BENCH_SCATTER_H */
