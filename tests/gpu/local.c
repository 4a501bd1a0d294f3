// SPDX-License-Identifier: Apache-2.0
/* E2: how fast the device copies to itself, and how near the move kernel comes. */
#include "gpu.h"

#define MANY	(256 * KIB)		/* pieces of a list, at most */

struct launch {
	struct scatter scatter;
	u32 groups, threads;
};

static double ceiling_gbs;		/* set first; of this run */

static void submit_memcpy(void *arg)
{
	CU(memcpy_dtod_async, gpu.pool + gpu.pool_bytes / 2, gpu.pool, *(u64 *)arg, gpu.stream);
}

static void measure_ceiling(void)
{
	u64 bytes = min(gpu.pool_bytes / 2, 2 * GIB);
	struct samples us, gbs = { .nr = 0 };

	time_device(&us, submit_memcpy, &bytes);
	for (u32 i = 0; i < us.nr; i++)
		add_sample(&gbs, rate(bytes, us.value[i]));
	ceiling_gbs = median(&gbs);
	report("memcpy_rate", "GB/s", &gbs, NULL, 0, "bytes=%llu", (unsigned long long)bytes);
}

static void submit_launch(void *arg)
{
	struct launch *launch = arg;

	scatter_launch(&launch->scatter, launch->groups, launch->threads);
}

static void measure_launch(struct launch *launch)
{
	u64 bytes = scatter_bytes(&launch->scatter);
	struct samples us, gbs = { .nr = 0 };

	scatter_poison(&launch->scatter);
	time_device(&us, submit_launch, launch);
	scatter_verify(&launch->scatter);
	for (u32 i = 0; i < us.nr; i++)
		add_sample(&gbs, rate(bytes, us.value[i]));
	report("kernel_rate", "GB/s", &gbs, "memcpy", ceiling_gbs,
	       "piece=%llu nr=%u groups=%u threads=%u", (unsigned long long)launch->scatter.piece,
	       launch->scatter.nr, launch->groups, launch->threads);
}

static void measure(u64 piece, u32 groups, u32 threads)
{
	struct launch launch = { .groups = groups, .threads = threads };

	if (out_of_time())
		return;
	scatter_open(&launch.scatter, piece, 2 * GIB, MANY);
	launch.threads = threads ?: launch.scatter.nr_threads;
	measure_launch(&launch);
	scatter_close(&launch.scatter);
}

static void run(void)
{
	static const u64 pieces[] = { 1, 4, 8, 16, 32, 64, 128, 256, 2048 };
	static const u32 groups[] = { 8, 16, 32, 66, 132, 264, 528, 1056, 2112 };
	static const u32 threads[] = { 64, 128, 256, 512 };

	gpu_randomise();
	measure_ceiling();
	for (u32 i = 0; i < ARRAY_SIZE(pieces); i++)
		measure(pieces[i] * KIB, 8 * gpu.nr_sms, 0);
	for (u32 i = 0; i < ARRAY_SIZE(groups); i++)
		measure(32 * KIB, groups[i], 0);
	for (u32 i = 0; i < ARRAY_SIZE(threads); i++)
		measure(32 * KIB, 8 * gpu.nr_sms, threads[i]);
	for (u32 i = 0; i < ARRAY_SIZE(pieces); i++)
		measure(pieces[i] * KIB, gpu.nr_sms, 0);
}

const struct experiment experiment_local = {
	"E2", "moves on the device: the kernel beside one plain copy", run, 8,
};
