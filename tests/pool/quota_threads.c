// SPDX-License-Identifier: Apache-2.0
/*
 * Threads of several tenants that fill a pool side by side, while another one gives them limits, takes
 * them away, reclaims and looks. Exit code 0: nothing was refused that may not be, nobody exceeded
 * its max, what is charged adds up, and the pool is valid.
 */
#include <sched.h>

#include "tests/support/random.h"
#include "tests/support/threads.h"

#define NR_BLOCKS	640u	/* enough for magazines */
#define NR_PROMPTS	40u
#define LENGTH		6u
#define NR_ROUNDS	4000u
#define NR_RULES	300u	/* at least so often limits change, and refuse */
#define NR_TENANTS	4u	/* 0 to 3; each is used by two threads */

static struct kvmm_pool *pool;
static u32 nr_users = 2 * NR_TENANTS;		/* atomic */
static u32 nr_ruled;				/* atomic */
static u32 nr_made, nr_refused, nr_full, nr_ranges;	/* atomic */

static void count(int err)
{
	expect(!err || err == -ENOSPC || err == -EDQUOT);
	kv_fetch_add(&nr_refused, err == -EDQUOT);
	kv_fetch_add(&nr_full, err == -ENOSPC);
}

static void name_keys(kvmm_key_t *keys, u32 prompt)
{
	memset(keys, 0, LENGTH * sizeof(*keys));
	for (u32 i = 0; i < LENGTH; i++) {
		keys[i].byte[0] = prompt;
		keys[i].byte[1] = i + 1;
	}
}

static void live(u64 *random, u32 tenant)
{
	kvmm_key_t keys[LENGTH];
	kvmm_mut_t fresh[LENGTH];
	kvmm_ref_t refs[LENGTH];
	struct kvmm_acquire_args req = { .keys = keys, .nr_keys = LENGTH, .max_hits = LENGTH,
					 .nr_blocks = LENGTH, .hits = refs, .fresh = fresh,
					 .domain.tenant = tenant };
	struct kvmm_prefix prefix = { .keys = keys, .domain.tenant = tenant };
	int err;

	name_keys(keys, any_of(random, NR_PROMPTS));
	err = kvmm_acquire(pool, &req);
	count(err);
	if (err)
		return;
	prefix.keys = keys + req.nr_hits;
	prefix.nr = req.nr_fresh;
	prefix.position = req.nr_hits;
	expect(!kvmm_prefix_register(pool, &prefix, fresh, refs + req.nr_hits));
	kv_fetch_add(&nr_made, 1);
	expect(!kvmm_put_many(pool, refs, LENGTH));
}

static void range(u64 *random, u32 tenant)
{
	struct kvmm_range_attr attr = { .size = sizeof(attr), .nr = 1 + any_of(random, 8),
					.max_runs = KVMM_MAX_RUNS, .tenant = tenant };
	kvmm_range_t range;
	int err = kvmm_range_alloc_attr(pool, &attr, &range);

	count(err);
	if (err)
		return;
	kv_fetch_add(&nr_ranges, 1);
	count(kvmm_range_grow(pool, range, 1 + any_of(random, 4)));
	expect(!kvmm_range_free(pool, range));
}

/* Before anybody has limits these come from magazines, and ranges of tenant 0 from arenas. */
static void singles(u64 *random, u32 tenant)
{
	kvmm_mut_t mut[8];
	u32 nr = 0;

	while (nr < 8 && any_of(random, 8)) {
		int err = kvmm_alloc_for(pool, 1, tenant, &mut[nr]);

		count(err);
		if (err)
			break;
		nr++;
	}
	while (nr)
		expect(!kvmm_free(pool, &mut[--nr], 1));
}

static void *user(void *arg)
{
	u32 tenant = (uintptr_t)arg % NR_TENANTS;
	u64 random = (uintptr_t)arg * 0x9e3779b97f4a7c15ull | 1;

	/* Until the other side has had its say, however the threads are scheduled. */
	for (u32 i = 0; i < NR_ROUNDS || READ_ONCE(nr_ruled) < NR_RULES ||
			READ_ONCE(nr_refused) < NR_RULES; i++) {
		if (any_of(&random, 4))
			live(&random, tenant);
		else if (any_of(&random, 2))
			range(&random, tenant);
		else
			singles(&random, tenant);
	}
	kv_fetch_add(&nr_users, -1);
	return NULL;
}

static void set_limits(u64 *random)
{
	struct kvmm_tenant_attr attr = KVMM_TENANT_ATTR_INIT;

	attr.min = any_of(random, 2) ? 0 : any_of(random, 320);
	attr.low = any_of(random, 3) ? 0 : any_of(random, 320);
	attr.high = any_of(random, 2) ? KVMM_TENANT_NO_LIMIT : any_of(random, 320);
	attr.max = any_of(random, 2) ? KVMM_TENANT_NO_LIMIT : any_of(random, any_of(random, 2) ? 16 : 320);
	expect(!kvmm_tenant_set(pool, any_of(random, NR_TENANTS), &attr));
}

static void look(void)
{
	struct kvmm_tenant_stat stat = { .size = sizeof(stat) };
	u32 cursor = 0, nr = 0;
	int err;

	while (!(err = kvmm_tenant_next(pool, &cursor, &stat))) {
		expect(stat.usage <= NR_BLOCKS && stat.nr_inactive <= stat.usage);
		expect(stat.peak >= stat.usage);
		nr++;
	}
	expect(err == -ENOENT && nr <= NR_TENANTS + 1);
}

/* As long as there are users; they have begun without limits. */
static void *ruler(void *arg)
{
	u64 random = 4711;

	while (READ_ONCE(nr_made) < NR_ROUNDS / 4)
		sched_yield();
	for (u32 i = 0; READ_ONCE(nr_users); i++) {
		u32 tenant = any_of(&random, NR_TENANTS);
		int ret;

		set_limits(&random);
		ret = kvmm_tenant_reclaim(pool, tenant, any_of(&random, 8));
		expect(ret >= 0 || ret == -ENOENT);
		ret = kvmm_tenant_del(pool, tenant);
		expect(!ret || ret == -ENOENT || ret == -EBUSY);
		look();
		kv_fetch_add(&nr_ruled, 1);
		if (i % 256 == 0)
			expect(!kvmm_validate(pool));
	}
	return NULL;
}

/* Nobody holds anything any more. */
static void expect_nothing_charged(void)
{
	struct kvmm_tenant_stat stat = { .size = sizeof(stat) };
	u32 cursor = 0;

	expect(kvmm_reset_inactive(pool) >= 0);
	while (!kvmm_tenant_next(pool, &cursor, &stat))
		expect(!stat.usage);
}

int main(void)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .policy = "lru", .dup_policy = KVMM_DUP_ALLOW };
	pthread_t thread[2 * NR_TENANTS], ruling;

	if (kvmm_pool_create(&attr, &pool))
		return 1;
	pthread_create(&ruling, NULL, ruler, NULL);
	threads_start(thread, 2 * NR_TENANTS, user);
	threads_join(thread, 2 * NR_TENANTS);
	pthread_join(ruling, NULL);
	expect(!kvmm_validate(pool));
	expect_nothing_charged();
	expect(nr_made && nr_refused && nr_ranges);
	kvmm_pool_destroy(pool);
	printf("%u prompts, %u ranges, %u beyond max, %u without room\n", nr_made, nr_ranges,
	       nr_refused, nr_full);
	return nr_bad != 0;
}
