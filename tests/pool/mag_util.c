// SPDX-License-Identifier: Apache-2.0
/* What the tests of magazines share; see mag_util.h. */
#include <pthread.h>
#include <unistd.h>

#include "tests/pool/mag_util.h"

struct kvmm_pool *pool;

struct kvmm_pool *pool_with(u32 flags)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = NR_BLOCKS,
				       .policy = "lru", .flags = flags };

	return make_pool_of(&attr);
}

u32 nr_aside(struct kvmm_pool *of)
{
	u32 nr;

	kv_lock(&of->lock);
	nr = pool_nr_local(of);
	kv_unlock(&of->lock);
	return nr;
}

u32 zone_free(struct kvmm_pool *of)
{
	return kv_zone_nr_free(of->zone);
}

struct mag *own(struct kvmm_pool *of)
{
	return of->mags->mag[kv_thread_slot()];
}

void load_one(struct kvmm_pool *of)
{
	kvmm_mut_t mut;

	cr_assert_eq(kvmm_alloc(of, 1, &mut), 0);
	cr_assert_eq(kvmm_free(of, &mut, 1), 0);
	cr_assert_eq(own(of)->nr, MAG_ROUNDS + 1);
}

/* ---- another thread, step by step ---- */

static struct {
	pthread_t thread;
	u32 loaded;		/* atomic */
	u32 may_end;		/* atomic */
} other;

static void *live(void *none)
{
	kvmm_mut_t mut;

	if (!kvmm_alloc(pool, 1, &mut) && !kvmm_free(pool, &mut, 1))
		smp_store_release(&other.loaded, 1);
	while (!smp_load_acquire(&other.may_end))
		usleep(100);
	return NULL;
}

void start_other(void)
{
	other.loaded = other.may_end = 0;
	cr_assert_eq(pthread_create(&other.thread, NULL, live, NULL), 0);
	while (!smp_load_acquire(&other.loaded))
		usleep(100);
}

void end_other(void)
{
	smp_store_release(&other.may_end, 1);
	pthread_join(other.thread, NULL);
}
