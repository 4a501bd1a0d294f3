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
#include <kv/feed.h>

#include "tests/support/torture.h"

#define NR_BLOCKS	2048u
#define NR_WORKERS	3u
#define NR_HELD		96u
#define NR_STEPS	10000u	/* in which a worker holds blocks */

static struct kvmm_pool *pool;

enum { STEPS, LOOKS, NR_COUNTS };

static void use_prefix(void)
{
	kvmm_key_t key[8] = { 0 };
	kvmm_ref_t ref[8];
	kvmm_mut_t mut[8];
	struct kvmm_acquire_args req = { .keys = key, .nr_keys = 8, .max_hits = 8, .nr_blocks = 8,
					 .hits = ref, .fresh = mut };
	u32 prompt = any(600);

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

static void work(void)
{
	kvmm_mut_t held[NR_HELD];
	kvmm_range_t range;
	u32 nr = 0;

	for (u32 i = 0; i < NR_STEPS && !READ_ONCE(stop); i++) {
		if (any(2) && nr < NR_HELD)
			nr += !kvmm_alloc(pool, 1, &held[nr]);
		else if (nr)
			expect(!kvmm_free(pool, &held[--nr], 1));
		if (!any(8))
			use_prefix();
		if (!any(16) && !kvmm_range_alloc(pool, 1 + any(60), 0, &range))
			expect(!kvmm_range_free(pool, range));
		done[STEPS]++;
	}
	while (nr)
		expect(!kvmm_free(pool, &held[--nr], 1));
}

/* Accounts come and go. */
static void name_tenants(void)
{
	struct kvmm_tenant_attr attr = KVMM_TENANT_ATTR_INIT;

	for (u32 tenant = 1; tenant <= 5; tenant++) {
		expect(!kvmm_tenant_set(pool, tenant, &attr));
		expect(!kvmm_tenant_del(pool, tenant));
	}
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

static void watch(void)
{
	static __thread struct kvmm_pool_stat was;
	static __thread struct kv_pool_glance glance;
	struct kvmm_tenant_stat tenant[3];
	struct kvmm_counts counts;
	u32 total = 0;
	int nr = kvmm_pool_available(pool, &total);

	expect(nr >= 0 && nr <= (int)total && total == NR_BLOCKS);
	expect(!kvmm_pool_get_counts(pool, &counts));
	expect(counts.nr_available + counts.nr_used == counts.nr_blocks);
	expect(counts.nr_free + counts.nr_inactive == counts.nr_available);
	expect(counts.nr_active + counts.nr_private + counts.nr_staged + counts.range_blocks <=
	       counts.nr_used);
	expect(!kv_pool_glance(pool, &glance));
	expect_no_less(&was, &glance.stat);
	was = glance.stat;
	expect(kv_pool_glance_tenants(pool, tenant, 3) <= 6);
	done[LOOKS]++;
}

static void run(bool has_tenants, u64 ns)
{
	for (u32 i = 0; i < NR_WORKERS; i++)
		torture_start(work, 0, i + 1);
	torture_start(watch, 0, 0);
	if (has_tenants)
		torture_start(name_tenants, 0, 0);
	torture_end(ns);
}

static void check_end(void)
{
	struct kvmm_pool_stat stat, seen;

	expect(!kvmm_pool_get_stat(pool, &stat));
	expect(!kvmm_pool_peek(pool, &seen));
	expect(!memcmp(&stat, &seen, sizeof(stat)));
	expect(kvmm_pool_available(pool, NULL) == (int)stat.nr_available);
	expect(!kvmm_validate(pool));
}

int main(int argc, char **argv)
{
	u64 ns = (argc > 1 ? atof(argv[1]) : 2) * NS_PER_SEC;
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .policy = "lru" };

	if (kvmm_pool_create(&attr, &pool))
		return 1;
	expect(!kvmm_residency_set(pool, 500000));
	run(false, ns / 2);
	check_end();
	run(true, ns / 2);
	check_end();
	kvmm_pool_destroy(pool);
	return torture_report("glance_torture", 1, NR_COUNTS, (const char *const []){ "steps of workers", "looks" });
}
