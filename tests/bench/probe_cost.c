// SPDX-License-Identifier: Apache-2.0
/*
 * What probe-cost.sh counts instructions of.
 *
 * usage: probe_cost alloc|batch|range|lookup ROUNDS
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kvmm/kvmm.h>

#define NR_BLOCKS	4096u
#define NR_KEYS		32u

static struct kvmm_pool *pool;
static kvmm_key_t key[NR_KEYS];

static int alloc(void)
{
	kvmm_mut_t mut;

	return kvmm_alloc(pool, 1, &mut) || kvmm_free(pool, &mut, 1);
}

static int batch(void)
{
	kvmm_mut_t mut[16];

	return kvmm_alloc(pool, 16, mut) || kvmm_free(pool, mut, 16);
}

static int range(void)
{
	kvmm_range_t one;

	return kvmm_range_alloc(pool, 16, 0, &one) || kvmm_range_free(pool, one);
}

static int lookup(void)
{
	kvmm_ref_t ref[NR_KEYS];

	return kvmm_match(pool, key, NR_KEYS, ref) != NR_KEYS || kvmm_put_many(pool, ref, NR_KEYS);
}

static const struct {
	const char *name;
	int (*fn)(void);
} kinds[] = { { "alloc", alloc }, { "batch", batch }, { "range", range }, { "lookup", lookup } };

static int fill(void)
{
	kvmm_mut_t mut[NR_KEYS];
	kvmm_ref_t ref[NR_KEYS];

	for (unsigned int i = 0; i < NR_KEYS; i++)
		key[i].byte[0] = (uint8_t)(1 + i);
	return kvmm_alloc(pool, NR_KEYS, mut) || kvmm_register(pool, mut, key, NR_KEYS, ref) ||
	       kvmm_put_many(pool, ref, NR_KEYS);
}

int main(int argc, char **argv)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	int ret = 2;

	if (argc != 3)
		return 2;
	attr.nr_blocks = NR_BLOCKS;
	attr.policy = "lru";
	if (kvmm_pool_create(&attr, &pool) || fill())
		return 1;
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		if (strcmp(kinds[k].name, argv[1]))
			continue;
		ret = 0;
		for (long i = atol(argv[2]); i > 0 && !ret; i--)
			ret = kinds[k].fn();
	}
	kvmm_pool_destroy(pool);
	return ret;
}
