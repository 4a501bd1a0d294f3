// SPDX-License-Identifier: Apache-2.0
/* The memory of one request: few runs, one handle. */
#include "tutorial.h"

static void show(struct kvmm_pool *pool, kvmm_range_t range)
{
	struct kvmm_extent ext[4];
	int nr = MUST(kvmm_range_extents(pool, range, ext, 4));

	for (int i = 0; i < nr; i++)
		printf("blocks %u to %u\n", ext[i].start, ext[i].start + ext[i].nr - 1);
}

int main(int argc, char **argv)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_pool *pool;
	kvmm_range_t range, tail;

	attr.device = argc > 1 ? argv[1] : "host";
	attr.nr_blocks = 256;
	attr.block_bytes = 4096;
	MUST(kvmm_pool_create(&attr, &pool));

	MUST(kvmm_range_alloc(pool, 75, KVMM_RUNS(4), &range));		/* 1200 tokens */
	show(pool, range);
	MUST(kvmm_range_grow(pool, range, 5));				/* 80 more */
	show(pool, range);

	MUST(kvmm_range_get(pool, range));			/* a second beam reads it, too ... */
	MUST(kvmm_range_free(pool, range));			/* ... and ends */
	MUST(kvmm_range_split(pool, range, 75, &tail));		/* the last blocks by themselves */
	MUST(kvmm_range_free(pool, tail));
	show(pool, range);
	MUST(kvmm_range_free(pool, range));
	printf("a second free: %s\n", kvmm_strerror(kvmm_range_free(pool, range)));
	kvmm_pool_destroy(pool);
	return 0;
}
