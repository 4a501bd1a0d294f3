/* SPDX-License-Identifier: Apache-2.0 */
/* What is measured: how long things took, how long blocks stayed, all numbers as text. */
#ifndef KVMM_METRICS_H
#define KVMM_METRICS_H

#include <kvmm/pool.h>
#include <kvmm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How long things took: histograms of durations, always on, of what is slow anyhow. */

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

/*
 * Residency: how long cached blocks stay, how long idle before they go, how soon used again.
 *
 * Off unless asked for. The hash of a name that is registered while it is on decides whether it is
 * sampled: the same names in each run, process, tier and engine. An event of a sampled block costs
 * a clock read; of another, a hash of the key.
 */

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

/*
 * Metrics of pools, their classes, tenants, tiers and publishers, and of slab caches, as text that
 * Prometheus reads.
 *
 *	struct kvmm_metrics_attr attr = KVMM_METRICS_ATTR_INIT;
 *
 *	attr.pools    = &pool;
 *	attr.nr_pools = 1;
 *	len = kvmm_metrics_text(&attr, buf, sizeof(buf));	// once every 15 s, say
 *
 * Takes no lock that a thread which allocates, looks up or moves blocks could wait for, and shows
 * only what pools count anyhow. Shows slab caches and publishers of the process by themselves;
 * holds the lock of each slab cache for the length of a copy. The families are in
 * Documentation/metrics.rst.
 */

/**
 * enum kvmm_metrics_format - which text
 * @KVMM_METRICS_OPENMETRICS: OpenMetrics 1.0: with units, ends with "# EOF"
 * @KVMM_METRICS_PROMETHEUS: text format 0.0.4, as the textfile collector of node-exporter reads it
 */
enum kvmm_metrics_format {
	KVMM_METRICS_OPENMETRICS,
	KVMM_METRICS_PROMETHEUS,
	KVMM_NR_METRICS_FORMATS,
};

/**
 * struct kvmm_metrics_attr - of what, and how
 * @size: sizeof(struct kvmm_metrics_attr); set by KVMM_METRICS_ATTR_INIT
 * @pools: borrowed; they live until the call returns
 * @names: NULL, or what each is called; NULL among them: by its own name. No two alike
 * @nr_pools: up to 1024
 * @format: enum kvmm_metrics_format
 * @max_tenants: so many tenants of each pool are shown, those that got limits first; what others
 *	have is summed up as "others"
 * @reserved: 0
 * @what: NULL: metrics. "table": the families there are, a line each, fields with tabs between
 *	them: name, type, unit or "-", labels, what it is; the first line begins with '#' and names
 *	the columns. Or what the kernel says of its memory, said of pools: "buddyinfo",
 *	"pagetypeinfo", "vmstat", "pressure/memory", or "slabinfo", of the slab caches of all zones
 *
 * Texts of the kernel are in the layouts of Linux, so that what reads /proc reads them. Each pool
 * is a zone of node 0, 1, ... In vmstat, of all pools together, names of the kernel stand where
 * they mean the same. For slabinfo the lock of each slab cache is taken, one at a time.
 */
struct kvmm_metrics_attr {
	size_t size;
	struct kvmm_pool *const *pools;
	const char *const *names;
	uint32_t nr_pools;
	uint32_t format;
	uint32_t max_tenants;
	uint32_t reserved;
	const char *what;
};

#define KVMM_METRICS_ATTR_INIT { sizeof(struct kvmm_metrics_attr), NULL, NULL, 0, 0, 64, 0, NULL }

/**
 * kvmm_metrics_text() - all of it, or the text that @attr->what names
 * @buf: room for @bytes, NUL included; always terminated if there is any
 *
 * Context: may allocate host memory. Reads a bit a block of each pool.
 * Return: length of the whole text without NUL (it was cut if that is @bytes or more); -EINVAL;
 * -ENOENT no such text; -ENOMEM; -EFBIG more than 64 MiB; -ECHILD. A closed pool (-EUCLEAN
 * elsewhere) has only the sample kvmm_pool_closed, and is not in the other texts.
 */
KVMM_API int kvmm_metrics_text(const struct kvmm_metrics_attr *attr, char *buf, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif /* KVMM_METRICS_H */
