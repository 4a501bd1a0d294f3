/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers of workloads and benchmarks: the same ones for the same seed, everywhere. */
#ifndef REPLAY_RNG_H
#define REPLAY_RNG_H

#include <math.h>

#include "common.h"

static inline u64 rng_next(u64 *rng)
{
	*rng += 0x9e3779b97f4a7c15u;
	return mix64(*rng);
}

/* In (0, 1). */
static inline double rng_unit(u64 *rng)
{
	return ((double)(rng_next(rng) >> 11) + 0.5) * 0x1p-53;
}

static inline u32 rng_below(u64 *rng, u32 n)
{
	return (u32)((rng_next(rng) >> 32) * n >> 32);
}

static inline double rng_exponential(u64 *rng, double mean)
{
	return -mean * log(rng_unit(rng));
}

static inline double rng_normal(u64 *rng)
{
	double radius = sqrt(-2 * log(rng_unit(rng)));

	return radius * cos(2 * 3.14159265358979323846 * rng_unit(rng));
}

static inline u32 rng_lognormal(u64 *rng, double median, double sigma, u32 min, u32 max)
{
	double x = median * exp(sigma * rng_normal(rng));

	return x < min ? min : x > max ? max : (u32)x;
}

#endif /* REPLAY_RNG_H */
