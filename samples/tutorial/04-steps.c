// SPDX-License-Identifier: Apache-2.0
/* Blocks move while steps read them: free memory comes together, and no step waits. */
#include "tutorial.h"

#define NR	8

/* The model reads each block of a request where it lies in this step. */
static void read_all(struct kvmm_pool *pool, kvmm_range_t request, uint32_t number)
{
	struct kvmm_extent ext;
	uint32_t word;

	MUST(kvmm_range_extents(pool, request, &ext, 1));
	for (uint32_t i = 0; i < ext.nr; i++)
		if (MUST(kvmm_block_read(pool, ext.start + i, 0, &word, 4)), word != number)
			MUST(-EBADMSG);
}

static void fill(struct kvmm_pool *pool, kvmm_range_t *request, uint32_t number)
{
	MUST(kvmm_range_alloc(pool, 32, KVMM_RUNS(1), request));
	for (uint32_t i = 0; i < 32; i++)
		MUST(kvmm_range_write(pool, *request, i, 0, &number, 4));
	MUST(kvmm_range_seal(pool, *request, 32));	/* written for good: it may move */
}

int main(int argc, char **argv)
{
	struct kvmm_background how = KVMM_BACKGROUND_INIT;
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_pool_stat stat;
	kvmm_range_t request[NR];
	struct kvmm_pool *pool;
	kvmm_stream_t lane;
	uint64_t epoch;

	attr.device = argc > 1 ? argv[1] : "host";
	attr.nr_blocks = 256;
	attr.block_bytes = 4096;
	MUST(kvmm_pool_create(&attr, &pool));
	MUST(kvmm_stream_add(pool, new_stream(attr.device), 0, &lane));
	how.interval_ms = 1;
	how.request_blocks = 128;	/* such a request is to find a run */
	MUST(kvmm_background_set(pool, &how));
	for (uint32_t i = 0; i < NR; i++)
		fill(pool, &request[i], i);
	for (uint32_t i = 0; i < NR; i += 2)
		MUST(kvmm_range_free(pool, request[i]));	/* four holes of 32 blocks */
	do {
		MUST(kvmm_step_begin(pool, lane, &epoch));
		for (uint32_t i = 1; i < NR; i += 2)
			read_all(pool, request[i], i);
		MUST(kvmm_background_tick(pool));	/* copies go on beside the steps */
		MUST(kvmm_step_end(pool, lane, epoch));
		MUST(kvmm_pool_get_stat(pool, &stat));
	} while (stat.largest < 128);
	printf("%d blocks moved; a run of %u is free\n", (int)stat.moved_blocks, stat.largest);
	kvmm_pool_destroy(pool);
	return 0;
}
