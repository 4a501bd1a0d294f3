/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Residency: how long cached blocks stay, how long idle before they go, how soon used again.
 *
 * Off unless asked for. The hash of a name that is registered while it is on decides whether it is
 * sampled: the same names in each run, process, tier and engine. An event of a sampled block costs
 * a clock read; of another, a hash of the key.
 */
#ifndef KVMM_RESIDENCY_H
#define KVMM_RESIDENCY_H

#include <kvmm/latency.h>
#include <kvmm/pool.h>
#include <kvmm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One name in a hundred, in parts per million. */
#define KVMM_RESIDENCY_DEFAULT_PPM	10000u

/**
 * enum kvmm_residency_kind - what is measured of a sampled block
 * @KVMM_RESIDENCY_LIFETIME: from its registration until it loses its name: evicted, or otherwise
 * @KVMM_RESIDENCY_IDLE: from its last use until then; the registration is a use
 * @KVMM_RESIDENCY_REUSE: from one use to the next
 * @KVMM_RESIDENCY_HIT_AGE: from its registration to each hit
 */
enum kvmm_residency_kind {
	KVMM_RESIDENCY_LIFETIME,
	KVMM_RESIDENCY_IDLE,
	KVMM_RESIDENCY_REUSE,
	KVMM_RESIDENCY_HIT_AGE,
	KVMM_NR_RESIDENCY_KINDS,
};

/** Upper bounds of a histogram; one more bucket is beyond the last. */
#define KVMM_RESIDENCY_BOUNDS	21u

/** kvmm_residency_bound_ns() - upper bound of bucket @i, included; UINT64_MAX from
 * KVMM_RESIDENCY_BOUNDS on. From 1 ms to 1800 s. */
static inline uint64_t kvmm_residency_bound_ns(uint32_t i)
{
	return kvmm_bucket_bound_ns(1, i);
}

/**
 * struct kvmm_residency_stat - one histogram
 * @bucket: times up to kvmm_residency_bound_ns() of this number, above that of the one before
 * @sum_ns: of all of them
 *
 * Fixed: a histogram: the bounds are part of the format of metrics.
 */
struct kvmm_residency_stat {
	uint64_t bucket[KVMM_RESIDENCY_BOUNDS + 1];
	uint64_t sum_ns;
};

/**
 * kvmm_residency_set() - sample names from now on
 * @ppm: of a million names, so many, at most 1000000; 0 = none. Running samples go on to their end
 *
 * The first call takes 24 bytes of host memory a block, until the pool is destroyed.
 *
 * Return: 0; -EINVAL; -ENOMEM; -EOPNOTSUPP the pool caches nothing; -EUCLEAN, -ECHILD.
 */
static inline int kvmm_residency_set(struct kvmm_pool *pool, uint32_t ppm)
{
	return kvmm_pool_set(pool, KVMM_SET_RESIDENCY, &ppm);
}

/** kvmm_residency_get_stat() - a histogram, lock-free; all 0 if never on. Return: 0; -EINVAL. */
static inline int kvmm_residency_get_stat(struct kvmm_pool *pool, enum kvmm_residency_kind kind,
					  struct kvmm_residency_stat *stat)
{
	struct kvmm_residency_stat all[KVMM_NR_RESIDENCY_KINDS];
	int err = stat && kind < KVMM_NR_RESIDENCY_KINDS ?
		  kvmm_pool_stat_of(pool, KVMM_STAT_RESIDENCY, all, sizeof(all)) : -22 /* EINVAL */;

	if (!err)
		*stat = all[kind];
	return err;
}

#ifdef __cplusplus
}
#endif
#endif /* KVMM_RESIDENCY_H */
