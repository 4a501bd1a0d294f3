// SPDX-License-Identifier: Apache-2.0
/*
 * Host memory that a pool takes a block: what it has allocated, and what of that lies in memory,
 * once each block has been used: by ranges, by names, and by names that a registry has, too.
 */
#include <kvmm/ext/registry.h>
#include <unistd.h>

#include "pools.h"

#define MAX_RANGE	32u

static const u32 sizes[] = { 1u << 14, 1u << 18, 1u << 20 };

static const struct state {
	const char *name;
	const char *policy;
	bool registry;
} states[] = {
	{ "ranges", NULL, false },
	{ "cache", "default", false },
	{ "cache+registry", "default", true },
};

/* As tools are linked with it; absent where a sanitizer's malloc has taken its place. */
extern int mallctl(const char *name, void *old, size_t *old_len, void *new, size_t new_len)
	__attribute__((weak));

/* Pages of what was freed before count for nothing: else new memory would hide in them. */
static int look(double *resident)
{
	FILE *file = fopen("/proc/self/statm", "r");
	unsigned long pages = 0;

	if (&mallctl)
		mallctl("arena.4096.purge", NULL, NULL, NULL, 0);	/* all of them */
	if (file && fscanf(file, "%*u %lu", &pages) != 1)
		pages = 0;
	if (file)
		fclose(file);
	*resident = (double)pages * sysconf(_SC_PAGESIZE);
	return pages ? 0 : -ENOENT;
}

static int fill_ranges(struct kvmm_pool *pool, u64 *seed)
{
	kvmm_range_t range;
	int err;

	do
		err = kvmm_range_alloc(pool, 1 + rng_below(seed, MAX_RANGE), 0, &range);
	while (!err);
	return err == -ENOSPC ? 0 : err;
}

static int measure(struct bench *bench, const struct state *state, u32 nr)
{
	static const struct metric metrics[] = { { "allocated", "B/block", ALONE },
						 { "resident", "B/block", "allocated", 0 } };
	struct series *row = bench_set(bench, SET(metrics), "state=%s nr=%u", state->name, nr);
	struct kvmm_registry_attr reg_attr = KVMM_REGISTRY_ATTR_INIT;
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_pool *pool = NULL;
	struct kvmm_registry_stat reg_stat = { .bytes = 0 };
	struct kvmm_pool_stat stat;
	double before, after;
	u64 seed = bench->seed;
	int err = look(&before);

	attr.nr_blocks = reg_attr.capacity = nr;
	attr.policy = state->policy;
	if (!err && state->registry)
		err = kvmm_registry_create(&reg_attr, &attr.registry);
	err = err ? err : kvmm_pool_create(&attr, &pool);
	if (!err)
		/* Names twice: so what remembers those that went is full, too. */
		err = state->policy ? name_blocks(pool, 2 * nr, &seed) : fill_ranges(pool, &seed);
	err = err ? err : look(&after);
	err = err ? err : kvmm_pool_get_stat(pool, &stat);
	if (!err && state->registry)
		err = kvmm_registry_get_stat(attr.registry, &reg_stat);
	if (!err) {
		series_add(&row[0], (double)(stat.metadata_bytes + reg_stat.bytes) / nr);
		series_add(&row[1], (after - before) / nr);
	}
	kvmm_pool_destroy(pool);
	kvmm_registry_destroy(attr.registry);
	return err;
}

int bench_memory(struct bench *bench)
{
	int err = 0;

	for (size_t i = 0; !err && i < ARRAY_SIZE(states) * ARRAY_SIZE(sizes); i++)
		err = measure(bench, &states[i / ARRAY_SIZE(sizes)], sizes[i % ARRAY_SIZE(sizes)]);
	if (!err)
		bench_report(bench);
	return err;
}
