// SPDX-License-Identifier: Apache-2.0
/*
 * Threads of several tenants that fill a pool side by side, while another one gives them limits,
 * takes them away, reclaims and looks; then once more with classes, quotas of these and a window, where
 * all of them own and demote blocks. Exit code 0: nothing was refused that may not be, no tenant
 * exceeded its max, what is charged adds up, and the pool is valid.
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
#define NR_OWNERS	20u

static struct kvmm_pool *pool;
static bool has_classes;	/* fixed while there are threads */

static struct counts {		/* atomic */
	u32 users, ruled;
	u32 made, refused, full, ranges;
	u32 demoted, told;	/* by owner; of victims */
} seen;

static void count(int err)
{
	expect(!err || err == -ENOSPC || err == -EDQUOT);
	kv_fetch_add(&seen.refused, err == -EDQUOT);
	kv_fetch_add(&seen.full, err == -ENOSPC);
}

static void name_keys(kvmm_key_t *keys, u32 prompt)
{
	memset(keys, 0, LENGTH * sizeof(*keys));
	for (u32 i = 0; i < LENGTH; i++) {
		keys[i].byte[0] = prompt;
		keys[i].byte[1] = i + 1;
	}
}

/* A prompt of @nr_hits blocks that others have filled, and fresh ones. */
static void use_classes(u64 *random, const kvmm_ref_t *refs, u32 nr_hits)
{
	int err = kvmm_class_set(pool, refs + nr_hits, LENGTH - nr_hits, 1 + any_of(random, 2));

	expect(!err || err == -EPERM);	/* another one has met and demoted them already */
	expect(!kvmm_set_owner(pool, refs, LENGTH, 1 + any_of(random, NR_OWNERS)));
	if (any_of(random, 2))
		expect(kvmm_demote(pool, refs, LENGTH, any_of(random, 3)) >= 0);
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
	kv_fetch_add(&seen.made, 1);
	if (has_classes)
		use_classes(random, refs, req.nr_hits);
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
	kv_fetch_add(&seen.ranges, 1);
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
	for (u32 i = 0; i < NR_ROUNDS || READ_ONCE(seen.ruled) < NR_RULES ||
			READ_ONCE(seen.refused) < NR_RULES; i++) {
		if (any_of(&random, 4))
			live(&random, tenant);
		else if (any_of(&random, 2))
			range(&random, tenant);
		else
			singles(&random, tenant);
	}
	kv_fetch_add(&seen.users, -1);
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

static void take_told(void)
{
	struct kvmm_class_event events[8];
	struct kvmm_class_stat stat;
	int nr_events = kvmm_class_events(pool, events, ARRAY_SIZE(events), NULL);

	expect(nr_events >= 0);
	for (int i = 0; i < nr_events; i++)
		kv_fetch_add(&seen.told, events[i].nr);
	expect(!kvmm_class_get_stat(pool, 0, &stat));
}

static void rule_classes(u64 *random)
{
	struct kvmm_evict_for_args req = { .size = sizeof(req),
					   .nr_blocks = any_of(random, NR_BLOCKS / 2) };
	int ret = kvmm_demote_owner(pool, 1 + any_of(random, NR_OWNERS), any_of(random, 2));
	int err = kvmm_evict_for(pool, &req);

	expect(ret >= 0);
	expect(!err || err == -ENOSPC);
	kv_fetch_add(&seen.demoted, ret);
	take_told();
}

/* As long as there are users; they have begun without limits. */
static void *ruler(void *arg)
{
	u64 random = 4711;

	while (READ_ONCE(seen.made) < NR_ROUNDS / 4)
		sched_yield();
	for (u32 i = 0; READ_ONCE(seen.users); i++) {
		u32 tenant = any_of(&random, NR_TENANTS);
		int ret;

		set_limits(&random);
		ret = kvmm_tenant_del(pool, tenant);
		expect(!ret || ret == -ENOENT || ret == -EBUSY);
		look();
		if (has_classes)
			rule_classes(&random);
		kv_fetch_add(&seen.ruled, 1);
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

static void make(void)
{
	struct kvmm_class classes[] = { { .name = "low" }, { .name = "mid", .quota_blocks = 200 },
					{ .name = "high", .flags = KVMM_CLASS_TELL } };
	struct kvmm_evict_attr evict = { .size = sizeof(evict), .classes = classes,
					 .nr_classes = 3, .default_class = 2, .run_window = 16 };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .policy = "lru", .dup_policy = KVMM_DUP_ALLOW,
				       .evict = has_classes ? &evict : NULL };

	expect(!kvmm_pool_create(&attr, &pool));
}

static void run(bool with_classes)
{
	pthread_t thread[2 * NR_TENANTS], ruling;

	has_classes = with_classes;
	seen = (struct counts){ .users = 2 * NR_TENANTS };
	make();
	pthread_create(&ruling, NULL, ruler, NULL);
	threads_start(thread, 2 * NR_TENANTS, user);
	threads_join(thread, 2 * NR_TENANTS);
	pthread_join(ruling, NULL);
	expect(!kvmm_validate(pool));
	expect_nothing_charged();
	expect(seen.made && seen.refused && seen.ranges);
	if (has_classes)
		take_told();
	expect(!has_classes || (seen.demoted && seen.told));
	kvmm_pool_destroy(pool);
	printf("%u prompts, %u ranges, %u beyond max, %u without room, %u demoted, %u told\n",
	       seen.made, seen.ranges, seen.refused, seen.full, seen.demoted, seen.told);
}

int main(void)
{
	run(false);
	run(true);
	return nr_bad != 0;
}
