// SPDX-License-Identifier: Apache-2.0
/*
 * What limits of tenants cost: evicting 64 blocks for one that floods a pool, beside others whose
 * blocks are older, and protected.
 *
 * The pool is full: of what the others have cached, and of 4,096 blocks of the one that floods. Prints
 * nanoseconds a block of kvmm_alloc_for(), median of rounds. Run by hand: tests/pool/quota_bench [policy]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kv/env.h>
#include <kvmm/kvmm.h>

#define BATCH		64u
#define FLOOD		4096u
#define NR_ROUNDS	2000u
#define FLOODER		1u
#define OTHERS		100u

enum protection { NOTHING, PLAIN, MIN, LOW, FLOODER_MAX };

struct load {
	const char *what;
	uint32_t nr_leaves;	/* of others */
	uint32_t nr_others;	/* tenants */
	enum protection kind;
};

static struct kvmm_pool *pool;
static uint32_t next_key;

static void must(int err, const char *what)
{
	if (err >= 0)
		return;
	fprintf(stderr, "%s: %d\n", what, err);
	exit(1);
}

static void publish(const kvmm_mut_t *mut, uint32_t tenant)
{
	kvmm_key_t key[BATCH];
	kvmm_ref_t ref[BATCH];
	struct kvmm_prefix prefix = { .keys = key, .nr = BATCH, .domain.tenant = tenant };

	memset(key, 0, sizeof(key));
	for (uint32_t i = 0; i < BATCH; i++) {
		uint32_t name = next_key++ * 2654435761u;

		memcpy(key[i].byte, &name, sizeof(name));
		memcpy(key[i].byte + 8, &name, sizeof(name));
	}
	must(kvmm_prefix_register(pool, &prefix, mut, ref), "register");
	must(kvmm_put_many(pool, ref, BATCH), "put");
}

/* 64 blocks; how long it took to get them. */
static double fill(uint32_t tenant)
{
	kvmm_mut_t mut[BATCH];
	double begin = kv_clock_ns();

	must(kvmm_alloc_for(pool, BATCH, tenant, mut), "alloc");
	begin = kv_clock_ns() - begin;
	publish(mut, tenant);
	return begin;
}

static void set(uint32_t tenant, uint32_t min, uint32_t low, uint32_t max)
{
	struct kvmm_tenant_attr attr = { .size = sizeof(attr), .high = KVMM_TENANT_NO_LIMIT,
					 .min = min, .low = low, .max = max };

	must(kvmm_tenant_set(pool, tenant, &attr), "set");
}

static void set_limits(const struct load *load)
{
	uint32_t all = UINT32_MAX;

	if (load->kind == NOTHING)
		return;
	set(FLOODER, 0, 0, load->kind == FLOODER_MAX ? FLOOD : all);
	for (uint32_t i = 0; i < load->nr_others; i++)
		set(OTHERS + i, load->kind == MIN ? all : 0, load->kind == LOW ? all : 0, all);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void run(const struct load *load, const char *policy)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = load->nr_leaves + FLOOD,
				       .policy = policy };
	static double took[NR_ROUNDS];
	struct kvmm_pool_stat stat;
	uint64_t bytes;

	must(kvmm_pool_create(&attr, &pool), "create");
	must(kvmm_pool_get_stat(pool, &stat), "stat");
	bytes = stat.metadata_bytes;
	set_limits(load);
	for (uint32_t i = 0; i < load->nr_leaves / BATCH; i++)
		fill(OTHERS + i % load->nr_others);
	for (uint32_t i = 0; i < FLOOD / BATCH; i++)
		fill(FLOODER);
	for (uint32_t i = 0; i < NR_ROUNDS; i++)
		took[i] = fill(FLOODER);
	qsort(took, NR_ROUNDS, sizeof(took[0]), by_size);
	must(kvmm_pool_get_stat(pool, &stat), "stat");
	printf("%-34s %8u leaves %4u tenants %7.1f ns a block, 99%%: %7.1f, %5.1f bytes a block and tenant\n",
	       load->what, load->nr_leaves, load->nr_others, took[NR_ROUNDS / 2] / BATCH,
	       took[NR_ROUNDS * 99 / 100] / BATCH,
	       (double)(stat.metadata_bytes - bytes) / attr.nr_blocks / (load->nr_others + 1));
	must(kvmm_validate(pool), "validate");
	kvmm_pool_destroy(pool);
}

int main(int argc, char **argv)
{
	static const struct load loads[] = {
		{ "nobody has limits", 64 * 80, 1, NOTHING },
		{ "nobody has limits", 64 * 800, 1, NOTHING },
		{ "nobody has limits", 64 * 16000, 1, NOTHING },
		{ "equals, by age", 64 * 80, 1, PLAIN },
		{ "equals, by age", 64 * 800, 1, PLAIN },
		{ "equals, by age", 64 * 800, 16, PLAIN },
		{ "equals, by age", 64 * 800, 256, PLAIN },
		{ "others below min", 64 * 80, 1, MIN },
		{ "others below min", 64 * 800, 1, MIN },
		{ "others below min", 64 * 16000, 1, MIN },
		{ "others below min", 64 * 800, 16, MIN },
		{ "others below min", 64 * 800, 256, MIN },
		{ "others below low", 64 * 800, 1, LOW },
		{ "others below low", 64 * 800, 16, LOW },
		{ "others below low", 64 * 800, 256, LOW },
		{ "the one that floods at max", 64 * 80, 1, FLOODER_MAX },
		{ "the one that floods at max", 64 * 16000, 1, FLOODER_MAX },
		{ "the one that floods at max", 64 * 800, 256, FLOODER_MAX },
	};

	for (uint32_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++)
		run(&loads[i], argc > 1 ? argv[1] : "lru");
	return 0;
}
