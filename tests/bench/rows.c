// SPDX-License-Identifier: Apache-2.0
/*
 * Rows of Documentation/performance/public-path.rst, for scripts/profile to count under callgrind
 * and massif: op_*() are what is counted. Linked with libkvmm.so, as programs of users are.
 *
 * usage: rows ROW BLOCKS	prints how many blocks, or pairs of calls, were counted
 */
#include <kvmm/ext/registry.h>
#include <kvmm/ext/testing.h>
#include <kvmm/kvmm.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUEST		85u
#define PROMPT		64u
#define PHASE		2048u		/* blocks that are named one after the other, before any is put */
#define COUNTED		17000u		/* about so many blocks, or pairs of calls */
#define MAX_RANGE	32u
#define MAX_RANGES	(1u << 20)

#define OP		static __attribute__((noinline, noclone)) void

static struct kvmm_pool *pool;
static uint64_t state = 1;
static kvmm_key_t *keys;		/* by block; the last REQUEST are those of new content */
static kvmm_mut_t muts[PHASE];
static kvmm_ref_t refs[PHASE];
static kvmm_range_t ranges[MAX_RANGES];
static uint8_t sizes[MAX_RANGES];

static void must(int err)
{
	if (!err)
		return;
	fprintf(stderr, "rows: %s\n", kvmm_strerror(err));
	exit(1);
}

static uint64_t same_random(void *ctx)
{
	uint64_t *x = ctx;

	*x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;
	return *x * 0x2545f4914f6cdd1dull;
}

static uint32_t below(uint32_t most)
{
	return (same_random(&state) >> 32) * most >> 32;
}

static void name(kvmm_key_t *key, uint32_t nr)
{
	for (uint32_t i = 0; i < nr * sizeof(*key) / 8; i++) {
		uint64_t half = same_random(&state);

		memcpy((char *)key + 8 * i, &half, 8);
	}
}

/* ---- ranges ---- */

OP op_range_free(kvmm_range_t range)
{
	must(kvmm_range_free(pool, range));
}

/* Where there is no room, the range has generation 0. */
static void range_alloc(const struct kvmm_range_attr *attr, kvmm_range_t *range)
{
	int err;

	range->gen = 0;
	err = kvmm_range_alloc_attr(pool, attr, range);
	must(err == -ENOSPC ? 0 : err);
}

OP op_range_alloc(const struct kvmm_range_attr *attr, kvmm_range_t *range)
{
	range_alloc(attr, range);
}

static void free_any(uint32_t *nr, uint32_t *used)
{
	uint32_t at = below(*nr);

	op_range_free(ranges[at]);
	*used -= sizes[at];
	ranges[at] = ranges[--*nr];
	sizes[at] = sizes[*nr];
}

/* Ranges of 1 to MAX_RANGE blocks, freed in random order, in a pool that is nine tenths full. */
static uint32_t pairs(uint32_t nr_blocks, uint32_t named)
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .max_runs = 1,
					.flags = KVMM_ALLOC_NO_COMPACT, .tenant = named };
	uint32_t nr = 0, used = 0, full = nr_blocks / 10 * 9;

	for (uint32_t i = 0; i < COUNTED;) {
		attr.nr = 1 + below(MAX_RANGE);
		attr.seq += named;
		if (used + attr.nr > full) {
			free_any(&nr, &used);
			op_range_alloc(&attr, &ranges[nr]);
			i++;
		} else {
			range_alloc(&attr, &ranges[nr]);
		}
		sizes[nr] = attr.nr;
		used += ranges[nr].gen ? attr.nr : 0;
		nr += ranges[nr].gen != 0;
		if (used > full)
			free_any(&nr, &used);
	}
	return COUNTED;
}

/* ---- cached blocks ---- */

OP op_match(uint32_t first)
{
	must(kvmm_match(pool, &keys[first], PROMPT, refs) == PROMPT ? 0 : -1);
}

OP op_alloc(uint32_t nr)
{
	must(kvmm_alloc(pool, nr, muts));
}

OP op_register(uint32_t at, const kvmm_key_t *key, uint32_t nr)
{
	must(kvmm_register(pool, muts + at, key, nr, refs + at));
}

OP op_put(uint32_t nr)
{
	must(kvmm_put_many(pool, refs, nr));
}

static void fill(uint32_t nr_blocks)
{
	name(keys, nr_blocks);
	for (uint32_t i = 0; i + PROMPT <= nr_blocks; i += PROMPT) {
		must(kvmm_alloc(pool, PROMPT, muts));
		must(kvmm_register(pool, muts, &keys[i], PROMPT, refs));
		must(kvmm_put_many(pool, refs, PROMPT));
	}
}

/* Prompts that are held by one reference at least, in no order. */
static uint32_t matches(uint32_t nr_blocks, uint32_t none)
{
	uint32_t nr = nr_blocks / PROMPT;

	(void)none;
	fill(nr_blocks);
	for (uint32_t i = 0; i < nr; i++)
		must(kvmm_match(pool, &keys[i * PROMPT], PROMPT, refs) == PROMPT ? 0 : -1);
	for (uint32_t i = 0; i < COUNTED / PROMPT; i++)
		op_match(below(nr) * PROMPT);
	return COUNTED / PROMPT * PROMPT;
}

/* Requests of new content in a full pool. */
static uint32_t renew(uint32_t nr_blocks, uint32_t nr)
{
	kvmm_key_t *fresh = keys + nr_blocks;

	fill(nr_blocks);
	for (uint32_t i = 0; i < nr_blocks / REQUEST; i++) {
		name(fresh, REQUEST);
		must(kvmm_alloc(pool, REQUEST, muts));
		must(kvmm_register(pool, muts, fresh, REQUEST, refs));
		must(kvmm_put_many(pool, refs, REQUEST));
	}
	for (uint32_t i = 0; i < COUNTED / nr; i++) {
		name(fresh, nr);
		op_alloc(nr);
		op_register(0, fresh, nr);
		op_put(nr);
	}
	return COUNTED / nr * nr;
}

/* As one of the writers of "kvmm-bench path", which counts naming alone. */
static uint32_t names(uint32_t nr_blocks, uint32_t nr)
{
	fill(nr_blocks);
	for (uint32_t i = 0; i < COUNTED / PHASE; i++) {
		op_alloc(PHASE);
		for (uint32_t at = 0; at < PHASE; at += nr) {
			name(keys + nr_blocks, nr);
			op_register(at, keys + nr_blocks, nr);
		}
		op_put(PHASE);
	}
	return COUNTED / PHASE * PHASE;
}

/* Each block named twice: so what remembers names that went is full, too. */
static uint32_t memory(uint32_t nr_blocks, uint32_t none)
{
	fill(nr_blocks);
	fill(nr_blocks);
	(void)none;
	return nr_blocks;
}

/* ---- rows ---- */

static const struct row {
	const char *name;
	const char *policy;
	uint32_t (*fn)(uint32_t nr_blocks, uint32_t arg);
	uint32_t arg;
} rows[] = {
	{ "1",		NULL,		pairs,		0 },
	{ "3",		NULL,		pairs,		1 },
	{ "5",		"default",	matches,	0 },
	{ "6",		"lru",		renew,		REQUEST },
	{ "7",		"default",	renew,		REQUEST },
	{ "8",		"lru",		renew,		REQUEST },
	{ "8-default",	"default",	renew,		REQUEST },
	{ "9",		"lru",		renew,		1 },
	{ "9-default",	"default",	renew,		1 },
	{ "14",		"lru",		names,		PROMPT },
	{ "14-default",	"default",	names,		PROMPT },
	{ "12-ranges",	NULL,		pairs,		0 },
	{ "12",		"default",	memory,		0 },
	{ "12-registry", "default",	memory,		1 },
};

int main(int argc, char **argv)
{
	static const struct kvmm_testing_host host = { .size = sizeof(host), .ctx = &state,
						       .random = same_random };
	struct kvmm_registry_attr reg_attr = KVMM_REGISTRY_ATTR_INIT;
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	const struct row *row = rows;

	while (argc == 3 && row < rows + sizeof(rows) / sizeof(*rows) && strcmp(row->name, argv[1]))
		row++;
	if (argc != 3 || row == rows + sizeof(rows) / sizeof(*rows))
		return 2;
	attr.nr_blocks = reg_attr.capacity = atoi(argv[2]);
	attr.policy = row->policy;
	keys = calloc(attr.nr_blocks + REQUEST, sizeof(*keys));
	must(kvmm_testing_set_host(&host));
	if (row->fn == memory && row->arg)
		must(kvmm_registry_create(&reg_attr, &attr.registry));
	must(kvmm_pool_create(&attr, &pool));
	printf("%u\n", row->fn(attr.nr_blocks, row->arg));
	kvmm_pool_destroy(pool);
	kvmm_registry_destroy(attr.registry);
	return 0;
}
