/* SPDX-License-Identifier: Apache-2.0 */
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
#ifndef KVMM_METRICS_H
#define KVMM_METRICS_H

#include <kvmm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

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
