// SPDX-License-Identifier: Apache-2.0
/*
 * The latch of a device under fire, for ThreadSanitizer: own main(), exit code 0 if all is well.
 *
 * In each round several threads use one device, and at a call that the round decides the driver
 * reports its loss, to whichever threads are inside by then. Every thread must be told -EIO from
 * some call on and never success again; the log gets one line; no call follows the last thread's.
 */
#include <pthread.h>
#include <stdio.h>

#include "fake_driver.h"
#include "tests/support/fake_env.h"

#define NR_THREADS	4
#define NR_ROUNDS	300
#define NR_CALLS	100		/* of one thread in one round */
#define A_STREAM	((kcu_stream)0x4000)

static struct fake_driver drv;
static struct fake_env env;
static struct kcu cu;
static struct kv_gpu *gpu;
static pthread_barrier_t start;

static int one_call(u32 nth)
{
	switch (nth % 3) {
	case 0:
		return kv_gpu_call(gpu, event_query, NULL);
	case 1:
		return kv_gpu_call(gpu, mem_free, 4096);
	}
	return kv_gpu_check_stream(gpu, A_STREAM);
}

/* Sets *@bad where success or another error follows the loss. */
static void *worker(void *bad)
{
	bool lost = false;

	pthread_barrier_wait(&start);
	for (u32 i = 0; i < NR_CALLS; i++) {
		int err = one_call(i);

		if ((err && err != -EIO) || (lost && !err))
			*(bool *)bad = true;
		lost |= !!err;
	}
	return NULL;
}

static bool run_threads(void)
{
	pthread_t thread[NR_THREADS];
	bool bad[NR_THREADS] = { 0 }, any = false;

	for (u32 i = 0; i < NR_THREADS; i++)
		if (pthread_create(&thread[i], NULL, worker, &bad[i]))
			return true;
	for (u32 i = 0; i < NR_THREADS; i++) {
		pthread_join(thread[i], NULL);
		any |= bad[i];
	}
	return any;
}

/* Threads that were inside may all be told by the driver, so there may be some more failures. */
static bool round_is_good(u64 loss_at)
{
	u64 lines, calls;
	bool good;

	if (kv_gpu_create(&cu, 0, NULL, &gpu))
		return false;
	lines = env.nr_lines;
	fake_driver_fail(&drv, loss_at, KCU_E_ILLEGAL_ADDRESS, true);
	good = !run_threads() && kv_gpu_fatal(gpu) == KCU_E_ILLEGAL_ADDRESS &&
	       env.nr_lines == lines + 1 && drv.nr_failed >= 1 && drv.nr_failed <= NR_THREADS;
	calls = drv.nr_calls;
	kv_gpu_destroy(gpu);
	good &= drv.nr_calls == calls;
	fake_driver_fail(&drv, 0, 0, false);
	return good;
}

int main(void)
{
	u32 nr_bad = 0;

	pthread_barrier_init(&start, NULL, NR_THREADS);
	fake_env_install(&env);
	fake_driver_install(&drv);
	if (kcu_load(&cu, NULL))
		return 1;
	for (u32 i = 0; i < NR_ROUNDS; i++)
		nr_bad += !round_is_good(1 + i * 13 % (NR_THREADS * NR_CALLS - NR_THREADS));
	printf("%u rounds, %u bad, %llu objects left\n", NR_ROUNDS, nr_bad,
	       (unsigned long long)env.nr_live);
	return nr_bad || env.nr_live;
}
