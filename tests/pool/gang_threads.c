// SPDX-License-Identifier: Apache-2.0
/*
 * Threads that reserve, commit and abort gangs over overlapping pools, in whatever order, while others
 * match, put and compact there. Exit code 0: nobody waited for ever, nothing was lost, all pools are
 * valid and end empty.
 */
#include "tests/support/random.h"
#include "tests/support/threads.h"

#define NR_POOLS	4u
#define NR_BLOCKS	24u
#define NR_THREADS	4u
#define NR_ROUNDS	10000u

static struct kvmm_pool *pool[NR_POOLS];
static u32 nr_done, nr_refused;		/* atomic */

static void give_back(struct kvmm_gang *gang, const struct kvmm_gang_attr *attr)
{
	kvmm_mut_t blocks[4 * 16], *mut = blocks;
	kvmm_range_t ranges[4], *range = ranges;

	expect(!kvmm_gang_commit(gang, blocks, ranges));
	for (u32 i = 0; i < attr->nr; i++) {
		const struct kvmm_gang_want *want = &attr->wants[i];
		struct kvmm_pool *of = attr->pools[want->pool];

		if (want->kind == KVMM_GANG_RANGE) {
			expect(!kvmm_range_free(of, *range++));
			continue;
		}
		expect(!kvmm_free(of, mut, want->nr));
		mut += want->nr;
	}
}

static void one_gang(struct kvmm_pool *const *pools, u64 *state)
{
	struct kvmm_gang_attr attr = KVMM_GANG_ATTR_INIT;
	struct kvmm_gang_want wants[4] = { 0 };
	u32 nr = 1 + any_of(state, 4);
	struct kvmm_gang *gang;

	for (u32 i = 0; i < nr; i++) {
		wants[i].pool = any_of(state, NR_POOLS);
		wants[i].kind = any_of(state, 2);
		wants[i].nr = 1 + any_of(state, 16);
		wants[i].max_runs = wants[i].kind == KVMM_GANG_RANGE ? 4 : 0;
	}
	attr.pools = pools;
	attr.nr_pools = NR_POOLS;
	attr.wants = wants;
	attr.nr = nr;
	if (kvmm_gang_reserve(&attr, &gang, NULL)) {
		kv_fetch_add(&nr_refused, 1);
		return;
	}
	kv_fetch_add(&nr_done, 1);
	if (any_of(state, 2))
		expect(!kvmm_gang_abort(gang));
	else
		give_back(gang, &attr);
}

/* Each thread numbers the pools in another order. */
static void *take_gangs(void *arg)
{
	u32 first = (uintptr_t)arg;
	struct kvmm_pool *pools[NR_POOLS];
	u64 state = first + 1;

	for (u32 i = 0; i < NR_POOLS; i++)
		pools[i] = pool[(i + first) % NR_POOLS];
	for (u32 i = 0; i < NR_ROUNDS; i++)
		one_gang(pools, &state);
	return NULL;
}

/* Requests with prefixes, and now and then what stops the world. */
static void *use_pools(void *arg)
{
	u64 state = 99;

	for (u32 i = 0; i < NR_ROUNDS; i++) {
		struct kvmm_pool *of = pool[any_of(&state, NR_POOLS)];
		kvmm_key_t keys[8];
		kvmm_mut_t fresh[8];
		kvmm_ref_t refs[8];
		struct kvmm_acquire_args req = { .keys = keys, .nr_keys = 8, .max_hits = 8,
						 .nr_blocks = 8, .hits = refs, .fresh = fresh };
		struct kvmm_prefix rest = { .keys = keys };
		struct kvmm_compact goal = { .size = sizeof(goal) };

		memset(keys, 0, sizeof(keys));
		for (u32 k = 0, first = any_of(&state, 12); k < 8; k++) {
			keys[k].byte[0] = 1 + first;
			keys[k].byte[1] = k;
		}
		if (!any_of(&state, 50))
			expect(!kvmm_validate(of));
		if (!any_of(&state, 50))
			kvmm_pool_compact(of, &goal);
		if (!any_of(&state, 100))
			expect(kvmm_reset_inactive(of) >= 0);
		if (kvmm_acquire(of, &req))
			continue;
		rest.keys += req.nr_hits;
		rest.nr = req.nr_fresh;
		rest.position = req.nr_hits;
		expect(!kvmm_prefix_register(of, &rest, fresh, refs + req.nr_hits));
		expect(!kvmm_put_many(of, refs, 8));
	}
	return arg;
}

int main(void)
{
	pthread_t thread[NR_THREADS + 1];

	for (u32 i = 0; i < NR_POOLS; i++) {
		struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
					       .policy = "default" };

		expect(!kvmm_pool_create(&attr, &pool[i]));
	}
	for (uintptr_t i = 0; i < NR_THREADS; i++)
		pthread_create(&thread[i], NULL, take_gangs, (void *)i);
	pthread_create(&thread[NR_THREADS], NULL, use_pools, NULL);
	threads_join(thread, NR_THREADS + 1);
	for (u32 i = 0; i < NR_POOLS; i++) {
		struct kvmm_pool_stat stat;

		expect(!kvmm_validate(pool[i]));
		expect(!kvmm_pool_get_stat(pool[i], &stat) && stat.nr_available == NR_BLOCKS);
		kvmm_pool_destroy(pool[i]);
	}
	printf("%u gangs, %u refused, %u bad\n", nr_done, nr_refused, nr_bad);
	return nr_bad || !nr_done ? 1 : 0;
}
