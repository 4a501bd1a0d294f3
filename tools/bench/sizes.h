/* SPDX-License-Identifier: Apache-2.0 */
/* Lengths of requests, drawn in advance: drawing them must not be part of what is timed. */
#ifndef BENCH_SIZES_H
#define BENCH_SIZES_H

#include "harness.h"

#define SIZES_MAX	900u	/* longest request, in blocks */

/** struct sizes - a circle of lengths
 * @nr: a power of two
 * @mean: of @at[]
 */
struct sizes {
	const char *name;
	u16 *at;
	u32 nr;
	double mean;
};

/** sizes_uniform() - 1 to @max, each as likely */
void sizes_uniform(struct sizes *sizes, u32 max, u64 seed);

/**
 * sizes_requests() - lengths of chat requests in blocks of 16 tokens
 *
 * From the Azure conversation trace in the directory $KVMM_TRACES (or ../shared/traces), in random
 * order; without it from a log-normal distribution of the same logarithmic mean and variance.
 */
void sizes_requests(struct sizes *sizes, u64 seed);

void sizes_exit(struct sizes *sizes);

#endif /* BENCH_SIZES_H */
