// SPDX-License-Identifier: Apache-2.0
/* Ranges of 1 to 32 blocks, each length as likely, at three sizes and three loads. */
#include "contest.h"

static int run(struct bench *bench)
{
	static const u32 nr_blocks[] = { 1u << 14, 1u << 18, 1u << 20 };
	static const u32 percent[] = { 50, 90, 97 };
	struct sizes sizes;
	const struct contest_plan plan = { &sizes, nr_blocks, ARRAY_SIZE(nr_blocks),
					   percent, ARRAY_SIZE(percent) };
	int err;

	sizes_uniform(&sizes, 32, bench->seed);
	err = contest_plan(bench, &plan);
	sizes_exit(&sizes);
	return err;
}

const struct bench_kind bench_alloc_range = {
	.name = "alloc-range",
	.what = "ranges of 1..32 blocks, random order, through the locked zone call",
	.run = run,
};
