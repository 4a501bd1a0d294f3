// SPDX-License-Identifier: Apache-2.0
/* The clock is moved on by one thread while others use pools of the bench. Exit code 0: all is well. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include <kvmm/ext/testing.h>
#include <kvmm/kvmm.h>

#define NR_ROUNDS	3000u
#define MSEC		1000000ull
#define TICK_NS		(1ull << 20)	/* what times of blocks are exact to */

static struct kvmm_testing *t;
static struct kvmm_pool *pool;
static atomic_uint nr_bad;

/* A time that was never later than what came before it, nor earlier than the allocation. */
static void *use_pool(void *arg)
{
	for (uint32_t i = 0; i < NR_ROUNDS; i++) {
		uint64_t before = kvmm_testing_now(t);
		struct kvmm_range_info range;
		struct kvmm_block_info block;
		kvmm_range_t handle;

		if (kvmm_range_alloc(pool, 3, 0, &handle))
			continue;
		nr_bad += kvmm_range_get_info(pool, handle, &range) != 0;
		nr_bad += kvmm_block_get_info(pool, range.ext[0].start, &block) != 0;
		nr_bad += block.last_access_ns < before / TICK_NS * TICK_NS ||
			  block.last_access_ns > kvmm_testing_now(t);
		kvmm_testing_random(t);
		nr_bad += kvmm_range_free(pool, handle) != 0;
	}
	return NULL;
}

int main(void)
{
	struct kvmm_testing_pool spec = { .nr_blocks = 16, .policy = "" };
	char why[KVMM_TESTING_WHY] = "";
	pthread_t user[2];

	if (kvmm_testing_begin(&t) || kvmm_testing_pool_make(t, &spec, &pool))
		return 1;
	for (int i = 0; i < 2; i++)
		pthread_create(&user[i], NULL, use_pool, NULL);
	for (uint32_t i = 0; i < 10 * NR_ROUNDS; i++)
		kvmm_testing_advance(t, MSEC / 100);
	for (int i = 0; i < 2; i++)
		pthread_join(user[i], NULL);
	if (kvmm_testing_end(t, why, sizeof(why)))
		nr_bad++;
	printf("%s", why);
	return nr_bad ? 1 : 0;
}
