// SPDX-License-Identifier: Apache-2.0
/* Four requests decode in turns: do they stay in one run each? */
#include "tutorial.h"

#define NR	4

static int runs(struct kvmm_pool *pool, kvmm_range_t range)
{
	return MUST(kvmm_range_extents(pool, range, NULL, 0));
}

static void decode(struct kvmm_pool *pool, uint32_t flags, const char *how)
{
	struct kvmm_range_attr attr = { sizeof(attr), .nr = 8, .flags = flags, .expect = 40 };
	kvmm_range_t request[NR];
	int all = 0;

	for (int i = 0; i < NR; i++)
		MUST(kvmm_range_alloc_attr(pool, &attr, &request[i]));
	for (int nr = 8; nr < 40; nr++)
		for (int i = 0; i < NR; i++)
			MUST(kvmm_range_grow(pool, request[i], 1));
	for (int i = 0; i < NR; i++) {
		all += runs(pool, request[i]);
		MUST(kvmm_range_free(pool, request[i]));
	}
	printf("%s: %d requests in %d runs\n", how, NR, all);
}

int main(int argc, char **argv)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_pool *pool;

	attr.device = argc > 1 ? argv[1] : "host";
	attr.nr_blocks = 256;
	attr.block_bytes = 4096;
	MUST(kvmm_pool_create(&attr, &pool));

	decode(pool, 0, "nothing said");
	decode(pool, KVMM_ALLOC_GROWS, "will grow");
	kvmm_pool_destroy(pool);
	return 0;
}
