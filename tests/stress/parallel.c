// SPDX-License-Identifier: Apache-2.0
/*
 * Work in parts, from several callers at once, for ThreadSanitizer: own main(), exit code 0 if all
 * is well.
 *
 * Nothing in here is atomic: callers fill in what the parts read, parts fill in what their caller
 * reads, and the calls alone keep these apart. All of it lies on the callers' stacks, which are
 * used again at once, so a thread that outlives a call is a race.
 */
#include <pthread.h>
#include <stdio.h>

#include <kv/sys.h>

#define NR_CALLERS	3
#define NR_ROUNDS	400
#define MAX_PARTS	40

struct work {
	u32 seed;
	u32 times[MAX_PARTS];
	u32 sum[MAX_PARTS];
};

static void do_part(void *arg, u32 part, u32 nr_parts)
{
	struct work *work = arg;

	work->times[part]++;
	work->sum[part] = work->seed + part * nr_parts;
}

static bool one_round(u32 seed)
{
	struct work work = { .seed = seed };
	u32 nr = seed % (MAX_PARTS + 1), nr_bad = 0;

	kv_parallel(do_part, &work, nr);
	for (u32 i = 0; i < MAX_PARTS; i++)
		nr_bad += i < nr ? work.times[i] != 1 || work.sum[i] != seed + i * nr :
			  work.times[i] != 0;
	return !nr_bad;
}

static void *caller(void *is_bad)
{
	for (u32 i = 0; i < NR_ROUNDS; i++)
		if (!one_round(i * 7919))
			*(bool *)is_bad = true;
	return NULL;
}

int main(void)
{
	pthread_t callers[NR_CALLERS];
	bool is_bad[NR_CALLERS] = { false };
	int failed = 0;

	for (u32 i = 0; i < NR_CALLERS; i++)
		if (pthread_create(&callers[i], NULL, caller, &is_bad[i]))
			return 2;
	for (u32 i = 0; i < NR_CALLERS; i++) {
		pthread_join(callers[i], NULL);
		failed |= is_bad[i];
	}
	printf("parallel: %u calls, %s\n", NR_CALLERS * NR_ROUNDS, failed ? "FAILED" : "ok");
	return failed;
}
