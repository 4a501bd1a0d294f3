// SPDX-License-Identifier: Apache-2.0
/*
 * Watching a pool in passing while threads allocate, look up, evict and give back: own main(), exit
 * code 0 if all is well.
 *
 * usage: glance_torture [SECONDS]
 *
 * Counts of events must never go down, whatever was folded into what meanwhile, and nothing may be
 * more than there is. Under ThreadSanitizer: nothing is read that may be gone.
 */
#include <time.h>

#include <kv/feed.h>

#include "tests/support/threads.h"

#define NR_BLOCKS	2048u
#define NR_WORKERS	3u
#define NR_HELD		96u

static struct kvmm_pool *pool;
static u32 stop;			/* atomic */
static u64 nr_looks;			/* atomic */

static u32 any(u64 *random, u32 below)
{
	*random = *random * 6364136223846793005ull + 1442695040888963407ull;
	return (u32)((*random >> 33) % below);
}

static void use_prefix(u64 *random)
{
	kvmm_key_t key[8] = { 0 };
	kvmm_ref_t ref[8];
	kvmm_mut_t mut[8];
	struct kvmm_acquire_args req = { .keys = key, .nr_keys = 8, .max_hits = 8, .nr_blocks = 8,
					 .hits = ref, .fresh = mut };
	u32 prompt = any(random, 600);

	for (u32 i = 0; i < 8; i++) {
		key[i].byte[0] = prompt;
		key[i].byte[1] = prompt >> 8;
		key[i].byte[2] = i;
	}
	if (kvmm_acquire(pool, &req))
		return;
	if (req.nr_fresh)
		expect(!kvmm_register(pool, mut, key + req.nr_hits, req.nr_fresh, ref + req.nr_hits));
	expect(!kvmm_put_many(pool, ref, 8));
}

static void *work(void *arg)
{
	u64 random = (uintptr_t)arg;
	kvmm_mut_t held[NR_HELD];
	kvmm_range_t range;
	u32 nr = 0;

	while (!READ_ONCE(stop)) {
		if (any(&random, 2) && nr < NR_HELD)
			nr += !kvmm_alloc(pool, 1, &held[nr]);
		else if (nr)
			expect(!kvmm_free(pool, &held[--nr], 1));
		if (!any(&random, 8))
			use_prefix(&random);
		if (!any(&random, 16) && !kvmm_range_alloc(pool, 1 + any(&random, 60), 0, &range))
			expect(!kvmm_range_free(pool, range));
	}
	while (nr)
		expect(!kvmm_free(pool, &held[--nr], 1));
	return NULL;
}

/* Accounts come and go. */
static void *name_tenants(void *arg)
{
	struct kvmm_tenant_attr attr = KVMM_TENANT_ATTR_INIT;
	u32 tenant = 1;

	while (!READ_ONCE(stop)) {
		expect(!kvmm_tenant_set(pool, tenant, &attr));
		expect(!kvmm_tenant_del(pool, tenant));
		tenant = tenant % 5 + 1;
	}
	return arg;
}

static void expect_no_less(const struct kvmm_pool_stat *was, const struct kvmm_pool_stat *now)
{
	expect(now->allocs >= was->allocs);
	expect(now->alloc_blocks >= was->alloc_blocks);
	expect(now->frees >= was->frees);
	expect(now->evictions >= was->evictions);
	expect(now->hit_blocks >= was->hit_blocks);
	expect(now->miss_blocks >= was->miss_blocks);
	expect(now->registered >= was->registered);
	for (u32 i = 0; i < KVMM_NR_MISSES; i++)
		expect(now->nr_missed[i] >= was->nr_missed[i]);
	expect(now->nr_state[KVMM_BLOCK_ACTIVE] <= now->nr_blocks);
	expect(now->nr_state[KVMM_BLOCK_INACTIVE] <= now->nr_blocks);
	expect(now->largest <= now->nr_blocks);
}

static void *watch(void *arg)
{
	struct kv_pool_glance *glance = malloc(sizeof(*glance));
	struct kvmm_tenant_stat tenant[3], rest;
	struct kvmm_pool_stat was = { 0 };

	while (!READ_ONCE(stop)) {
		expect(!kv_pool_glance(pool, glance));
		expect_no_less(&was, &glance->stat);
		was = glance->stat;
		expect(kv_pool_glance_tenants(pool, tenant, 3, &rest) <= 6);
		kv_fetch_add(&nr_looks, 1);
	}
	free(glance);
	return arg;
}

static void run(bool has_tenants, double seconds)
{
	struct timespec wait = { (time_t)seconds, (long)(seconds * 1e9) % 1000000000 };
	pthread_t thread[NR_WORKERS + 2];
	u32 nr = 0;

	WRITE_ONCE(stop, 0);
	for (u32 i = 0; i < NR_WORKERS; i++)
		pthread_create(&thread[nr++], NULL, work, (void *)(uintptr_t)(i + 1));
	pthread_create(&thread[nr++], NULL, watch, NULL);
	if (has_tenants)
		pthread_create(&thread[nr++], NULL, name_tenants, NULL);
	nanosleep(&wait, NULL);
	WRITE_ONCE(stop, 1);
	while (nr)
		pthread_join(thread[--nr], NULL);
}

static void check_end(void)
{
	struct kvmm_pool_stat stat, seen;

	expect(!kvmm_pool_get_stat(pool, &stat));
	expect(!kvmm_pool_peek(pool, &seen));
	expect(!memcmp(&stat, &seen, sizeof(stat)));
	expect(!kvmm_validate(pool));
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 2;
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .policy = "lru" };

	if (kvmm_pool_create(&attr, &pool))
		return 1;
	expect(!kvmm_residency_set(pool, 500000));
	run(false, seconds / 2);
	check_end();
	run(true, seconds / 2);
	check_end();
	kvmm_pool_destroy(pool);
	printf("glance_torture: %llu looks, %u wrong\n", (unsigned long long)nr_looks, nr_bad);
	return nr_bad || !nr_looks;
}
