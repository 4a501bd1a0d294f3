// SPDX-License-Identifier: Apache-2.0
/* The memory of one request: take it, let it grow, see where it lies, give it back. */
#include <kvmm/kvmm.h>
#include <stdio.h>

static int fail(const char *what, int err)
{
	fprintf(stderr, "%s: %s\n", what, kvmm_strerror(err));
	return 1;
}

/* Two beams share a prompt, go apart, and end together with the request that they are of. */
static int beams(struct kvmm_pool *pool)
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 64, .seq = 42 };
	kvmm_range_t first, second;
	int err = kvmm_range_alloc_attr(pool, &attr, &first);

	if (!err)
		err = kvmm_range_get(pool, first);		/* the second beam reads it, too */
	if (!err)
		err = kvmm_range_free(pool, first);		/* ... and ends */
	if (!err)
		err = kvmm_range_split(pool, first, 40, &second);	/* the last 24 blocks, by themselves */
	if (!err)
		err = kvmm_range_shrink(pool, second, 4);
	if (err)
		return err;
	printf("sequence 42: %d ranges given back\n", kvmm_range_free_seq(pool, 42));
	return 0;
}

int main(void)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_extent ext[KVMM_MAX_RUNS];
	struct kvmm_pool *pool;
	kvmm_range_t range;
	int i, nr, err;

	attr.nr_blocks = 65536;		/* 16 tokens each */
	attr.block_bytes = 4096;	/* plain memory here; engines pass their tensors as planes */
	err = kvmm_pool_create(&attr, &pool);
	if (err)
		return fail("kvmm_pool_create", err);

	err = kvmm_range_alloc(pool, 75, KVMM_RUNS(4), &range);		/* a prompt of 1200 tokens */
	if (err)
		return fail("kvmm_range_alloc", err);	/* -ENOSPC: nothing was taken */
	err = kvmm_range_grow(pool, range, 5);		/* 80 more tokens were decoded */
	if (err)
		return fail("kvmm_range_grow", err);

	nr = kvmm_range_extents(pool, range, ext, KVMM_MAX_RUNS);
	for (i = 0; i < nr; i++)
		printf("blocks %u to %u\n", ext[i].start, ext[i].start + ext[i].nr - 1);

	kvmm_range_free(pool, range);
	err = kvmm_range_free(pool, range);
	printf("a second free: %s\n", kvmm_strerror(err));
	err = beams(pool);
	if (err)
		return fail("beams", err);
	kvmm_pool_destroy(pool);
	return 0;
}
