/* SPDX-License-Identifier: Apache-2.0 */
/* The contest: all contenders under the same churn, side by side. */
#ifndef BENCH_CONTEST_H
#define BENCH_CONTEST_H

#include "churn.h"

/** contest_run() - every figure of one load: measured in nr_runs turns, then reported */
int contest_run(struct bench *bench, const struct load *load);

/* Each of @nr_sizes sizes at each of @nr_loads loads. */
struct contest_plan {
	const struct sizes *sizes;
	const u32 *nr_blocks;
	u32 nr_sizes;
	const u32 *percent;
	u32 nr_loads;
};

int contest_plan(struct bench *bench, const struct contest_plan *plan);

#endif /* BENCH_CONTEST_H */
