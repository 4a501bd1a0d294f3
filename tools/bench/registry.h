/* SPDX-License-Identifier: Apache-2.0 */
/* A pool full of cached blocks, and what the files of the benchmark "registry" share. */
#ifndef BENCH_REGISTRY_H
#define BENCH_REGISTRY_H

#include <kvmm/kvmm.h>

#include "harness.h"

#define NR_INDEXES	2u
#define REGISTER_BATCH	64u
#define SLICE_BLOCKS	8192u		/* timed at once */

extern const char *const registry_index[NR_INDEXES];

struct cached {
	struct kvmm_pool *pool;
	u32 nr;
	u64 seed;
	kvmm_key_t *keys;	/* prompts, one after the other */
	kvmm_ref_t *refs;	/* by key; private blocks before they are registered */
};

/** cached_open() - a pool of @nr private blocks in random order. Return: 0; -errno. */
int cached_open(struct cached *cached, const char *index, u32 nr, u64 seed);
void cached_close(struct cached *cached);

/** cached_register() - @nr of them, a multiple of REGISTER_BATCH. */
int cached_register(struct cached *cached, u32 first, u32 nr);

/** registry_run_threads() - two readers; a reader beside a writer. */
int registry_run_threads(struct bench *bench);

#endif /* BENCH_REGISTRY_H */
