// SPDX-License-Identifier: Apache-2.0
/* Ranges as long as chat requests: few, long, and of very different lengths. */
#include "contest.h"

static int run(struct bench *bench)
{
	static const u32 nr_blocks[] = { 1u << 14, 1u << 18 };
	static const u32 percent[] = { 50, 90, 95, 97 };
	struct sizes sizes;
	const struct contest_plan plan = { &sizes, nr_blocks, ARRAY_SIZE(nr_blocks),
					   percent, ARRAY_SIZE(percent) };
	int err;

	sizes_requests(&sizes, bench->seed);
	err = contest_plan(bench, &plan);
	sizes_exit(&sizes);
	return err;
}

const struct bench_kind bench_alloc_request = {
	.name = "alloc-request",
	.what = "ranges as long as chat requests, through the locked zone call",
	.run = run,
};
