// SPDX-License-Identifier: Apache-2.0
/*
 * Threads that pin and unpin side by side where there is a limit. Exit code 0: there were never
 * more pins than that, some were refused, and the pool has counted right.
 */
#include <errno.h>
#include <sched.h>

#include <kv/types.h>

#include "tests/support/threads.h"

#define NR_BLOCKS	16u
#define MAX_PINS	10u
#define NR_ROUNDS	10000u
#define NR_THREADS	4u

static struct kvmm_pool *pool;
static kvmm_ref_t ref[NR_BLOCKS];
static u32 nr_pins, nr_refused, nr_done;	/* atomic */

/* Counted after they were made and before they go: never more than there are. */
static void *pinner(void *arg)
{
	u32 nr = 3 + (u32)(uintptr_t)arg;

	for (u32 i = 0; i < NR_ROUNDS; i++) {
		kvmm_ref_t *some = &ref[i % (NR_BLOCKS - nr)];
		int err = kvmm_pin_many(pool, some, nr);

		expect(!err || err == -E2BIG);
		kv_fetch_add(err ? &nr_refused : &nr_done, 1);
		if (err)
			continue;
		expect(kv_fetch_add(&nr_pins, nr) + nr <= MAX_PINS);
		sched_yield();	/* so that others meet these pins */
		kv_fetch_sub(&nr_pins, nr);
		expect(!kvmm_unpin_many(pool, some, nr));
		if (i % 4096 == 0)
			expect(!kvmm_validate(pool));
	}
	return NULL;
}

static int make(void)
{
	struct kvmm_evict_attr evict = { .size = sizeof(evict), .max_pins = MAX_PINS };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .policy = "lru", .evict = &evict };
	kvmm_key_t keys[NR_BLOCKS];
	kvmm_mut_t fresh[NR_BLOCKS];

	memset(keys, 0, sizeof(keys));
	for (u32 i = 0; i < NR_BLOCKS; i++)
		keys[i].byte[0] = i + 1;
	return kvmm_pool_create(&attr, &pool) || kvmm_alloc(pool, NR_BLOCKS, fresh) ||
	       kvmm_register(pool, fresh, keys, NR_BLOCKS, ref);
}

int main(void)
{
	pthread_t thread[NR_THREADS];

	if (make())
		return 1;
	for (u32 i = 0; i < NR_THREADS; i++)
		pthread_create(&thread[i], NULL, pinner, (void *)(uintptr_t)i);
	threads_join(thread, NR_THREADS);
	expect(!kvmm_validate(pool));
	expect(!kvmm_pin_many(pool, ref, MAX_PINS));
	expect(kvmm_pin_many(pool, ref, 1) == -E2BIG);
	expect(!kvmm_unpin_many(pool, ref, MAX_PINS));
	expect(nr_done && nr_refused && !kvmm_put_many(pool, ref, NR_BLOCKS));
	kvmm_pool_destroy(pool);
	printf("%u pinned, %u refused\n", nr_done, nr_refused);
	return nr_bad != 0;
}
