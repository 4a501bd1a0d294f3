/* SPDX-License-Identifier: Apache-2.0 */
/* How long things took: histograms of durations, always on, of what is slow anyhow. */
#ifndef KVMM_LATENCY_H
#define KVMM_LATENCY_H

#include <kvmm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Upper bounds of a histogram; one more bucket is beyond the last. */
#define KVMM_LATENCY_BOUNDS	21u

/** kvmm_bucket_bound_ns() - upper bound of bucket @i of struct kvmm_latency_stat, or, if @of_ages,
 * of struct kvmm_residency_stat; UINT64_MAX behind the last. */
KVMM_API uint64_t kvmm_bucket_bound_ns(int of_ages, uint32_t i);

/** kvmm_latency_bound_ns() - upper bound of bucket @i, included; UINT64_MAX from
 * KVMM_LATENCY_BOUNDS on. 1, 2 and 5 of each power of ten, from 1 us to 5 s. */
static inline uint64_t kvmm_latency_bound_ns(uint32_t i)
{
	return kvmm_bucket_bound_ns(0, i);
}

/**
 * struct kvmm_latency_stat - one histogram
 * @bucket: durations up to kvmm_latency_bound_ns() of this number, above that of the one before
 * @sum_ns: of all of them
 *
 * Fixed: a histogram: the bounds are part of the format of metrics.
 */
struct kvmm_latency_stat {
	uint64_t bucket[KVMM_LATENCY_BOUNDS + 1];
	uint64_t sum_ns;
};

#ifdef __cplusplus
}
#endif
#endif /* KVMM_LATENCY_H */
