// SPDX-License-Identifier: Apache-2.0
/* What is seen in passing: the same as under the locks, and without them. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include <kv/pool_glance.h>

#include "pool/internal.h"
#include "tests/pool/drive.h"
#include "tests/pool/util.h"

#define NR_STEPS	600u
#define NR_BLOCKS	700u	/* enough for magazines */

/* A buddy's pieces are not runs. */
static void forget_pieces(struct kvmm_pool_stat *stat)
{
	stat->nr_runs = stat->largest = 0;
}

static void expect_same(struct kvmm_pool *pool, const char *engine, u32 step)
{
	struct kvmm_pool_stat stat, seen;

	cr_assert_eq(kvmm_pool_stat(pool, &stat), 0);
	memset(&seen, 0xa5, sizeof(seen));
	cr_assert_eq(kvmm_pool_peek(pool, &seen), 0);
	if (engine && strstr(engine, "buddy")) {
		forget_pieces(&stat);
		forget_pieces(&seen);
	}
	cr_assert_eq(memcmp(&stat, &seen, sizeof(stat)), 0, "%s: step %u: free %u, seen %u; runs %u, "
		     "seen %u; held %u, seen %u; bytes %llu, seen %llu", engine, step, stat.nr_free,
		     seen.nr_free, stat.nr_runs, seen.nr_runs, stat.nr_state[KVMM_BLOCK_PRIVATE],
		     seen.nr_state[KVMM_BLOCK_PRIVATE], (unsigned long long)stat.metadata_bytes,
		     (unsigned long long)seen.metadata_bytes);
}

static void expect_orders(struct kvmm_pool *pool)
{
	u64 counts[KVMM_NR_MOBILITY * KVMM_NR_ORDERS];
	struct kv_zone_glance glance;
	char text[4096], seen[4096];

	cr_assert_eq(kvmm_zone_buddyinfo(kvmm_pool_zone(pool), counts), 0);
	kv_zone_glance(kvmm_pool_zone(pool), &glance);
	cr_assert_eq(memcmp(counts, glance.free, sizeof(counts)), 0);
	for (u32 i = 0; i < 2; i++) {
		const char *what = i ? "pagetypeinfo" : "buddyinfo";

		kvmm_zone_text(kvmm_pool_zone(pool), what, text, sizeof(text));
		kv_zone_glance_text(&glance, what,
				    (struct kv_zone_label){ 0, "kv" }, seen, sizeof(seen));
		cr_assert_str_eq(text, seen);
	}
}

static void drive_and_compare(const char *engine, u32 flags, u64 seed)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct drive drive;

	attr.nr_blocks = NR_BLOCKS;
	attr.policy = "lru";
	attr.allocator = engine;
	attr.flags = flags;
	drive_init(&drive, make_pool_of(&attr), seed);
	for (u32 i = 0; i < NR_STEPS; i++) {
		drive_step(&drive);
		expect_same(drive.pool, engine, i);
		if (i % 16 == 0)
			expect_orders(drive.pool);
	}
	drive_end(&drive);
	expect_same(drive.pool, engine, NR_STEPS);
	end_pool(drive.pool);
}

Test(glance, equals_the_statistics_whatever_happened)
{
	const char *engines[8];
	unsigned int nr = kvmm_zone_engines(engines, 8);

	for (unsigned int i = 0; i < nr; i++)
		drive_and_compare(engines[i], i % 2 ? KVMM_POOL_NULL_BLOCK : 0, 77 + i);
}

Test(glance, equals_them_without_magazines_too)
{
	drive_and_compare("zone", KVMM_POOL_NO_MAGAZINES, 4711);
	drive_and_compare("zone", KVMM_POOL_DETERMINISTIC, 4712);
}

/* Words of the map that end in the middle, and runs across words. */
Test(glance, map_of_any_length)
{
	for (u32 nr = 1; nr < 200; nr += 3) {
		struct kvmm_pool *pool = make_pool(nr);

		expect_same(pool, NULL, nr);
		if (nr > 2) {
			kvmm_range_t first = take(pool, nr / 2, 0), second = take(pool, 1, 0);

			cr_assert_eq(kvmm_range_free(pool, first), 0);
			expect_same(pool, NULL, nr);
			expect_orders(pool);
			cr_assert_eq(kvmm_range_free(pool, second), 0);
		}
		end_pool(pool);
	}
}

/* Taking a lock that this thread has would hang it, or stop a debug build. */
Test(glance, takes_no_lock_of_the_hot_ones, .timeout = 20)
{
	struct kvmm_pool *pool = make_cache(NR_BLOCKS, "lru");
	struct kv_pool_glance *glance = malloc(sizeof(*glance));
	struct kvmm_tenant_stat tenant[4], rest;
	struct kvmm_tenant_attr attr = KVMM_TENANT_ATTR_INIT;
	struct kvmm_pool_stat stat;

	cr_assert_eq(kvmm_tenant_set(pool, 7, &attr), 0);
	cache_keys(pool, 1, 20);
	kv_lock(&pool->compact_lock);
	kv_lock(&pool->lock);
	kv_lock(&pool->order.lock);
	kv_lock(&pool->zone->lock);
	cr_expect_eq(kvmm_pool_peek(pool, &stat), 0);
	cr_expect_eq(stat.nr_inactive, 20);
	cr_expect_eq(kv_pool_glance(pool, glance), 0);
	cr_expect_eq(kv_pool_glance_tenants(pool, tenant, 4, &rest), 2);
	kv_unlock(&pool->zone->lock);
	kv_unlock(&pool->order.lock);
	kv_unlock(&pool->lock);
	kv_unlock(&pool->compact_lock);
	cr_expect_eq(glance->stat.nr_inactive, 20);
	cr_expect_str_eq(glance->engine, "zone");
	cr_expect_str_eq(glance->policy, "lru");
	cr_expect_eq(tenant[0].tenant, KVMM_TENANT_REST);
	cr_expect_eq(tenant[0].usage, 20);
	cr_expect_eq(tenant[1].tenant, 7);
	free(glance);
	end_pool(pool);
}

Test(glance, tenants_beyond_the_limit_are_summed_up)
{
	struct kvmm_pool *pool = make_cache(64, "lru");
	struct kvmm_tenant_attr attr = KVMM_TENANT_ATTR_INIT;
	struct kvmm_tenant_stat tenant[3], rest;
	kvmm_mut_t mut[6];

	for (u32 i = 1; i <= 5; i++)
		cr_assert_eq(kvmm_tenant_set(pool, i, &attr), 0);
	for (u32 i = 1; i <= 5; i++)
		cr_assert_eq(kvmm_alloc_for(pool, 1, i, &mut[i]), 0);
	cr_expect_eq(kv_pool_glance_tenants(pool, tenant, 3, &rest), 6);
	cr_expect_eq(tenant[2].tenant, 2);
	cr_expect_eq(tenant[2].usage, 1);
	cr_expect_eq(rest.usage, 3);
	cr_assert_eq(kvmm_free(pool, &mut[4], 1), 0);
	cr_assert_eq(kvmm_tenant_del(pool, 4), 0);
	cr_expect_eq(kv_pool_glance_tenants(pool, tenant, 3, &rest), 5);
	cr_expect_eq(rest.usage, 2);
	end_pool(pool);
}

Test(glance, refuses_what_is_no_pool)
{
	struct kvmm_pool *pool = make_pool(8);
	struct kvmm_pool_stat stat;

	cr_expect_eq(kvmm_pool_peek(NULL, &stat), -EINVAL);
	cr_expect_eq(kvmm_pool_peek(pool, NULL), -EINVAL);
	kv_lock(&pool->lock);
	pool_poison(pool);
	kv_unlock(&pool->lock);
	cr_expect_eq(kvmm_pool_peek(pool, &stat), -EUCLEAN);
	kvmm_pool_destroy(pool);
}
