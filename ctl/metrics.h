/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics: one table of families, their sources, and their form.
 *
 * First all pools are looked at, then the text is made, family by family, since all samples of one
 * have to stand together.
 */
#ifndef CTL_METRICS_H
#define CTL_METRICS_H

#include <kv/alloc.h>
#include <kv/feed.h>
#include <kv/tier.h>
#include <kvmm/ext/slab.h>
#include <kvmm/metrics.h>

#include "publisher.h"
#include "text.h"

/* The owner of one sample of a family: its labels, and where its number lies. */
enum metric_scope {
	SCOPE_ANY_POOL,		/* struct pool_view, closed ones, too */
	SCOPE_POOL,		/* struct pool_view */
	SCOPE_CLASS,		/* struct kvmm_class_stat */
	SCOPE_TENANT,		/* struct kvmm_tenant_stat */
	SCOPE_BELOW,		/* struct kvmm_tier_client_stat: a pool in a tier */
	SCOPE_TIER,		/* struct kvmm_tier_stat */
	SCOPE_DISK,		/* struct kvmm_disk_stat */
	SCOPE_SLAB,		/* struct kvmm_slab_stat */
	SCOPE_PUBLISHER,	/* struct kvmm_publisher_stat */
	NR_SCOPES,
};

/* Two kinds of histograms: struct kvmm_residency_stat, struct kvmm_latency_stat. */
enum metric_type {
	METRIC_GAUGE, METRIC_COUNTER, METRIC_HISTOGRAM, METRIC_LATENCY, METRIC_INFO, NR_METRIC_TYPES
};

/* The form in which a number is stored. */
enum metric_scale {
	SCALE_ONE,
	SCALE_NS,		/* nanoseconds; shown: seconds */
	SCALE_US,
	SCALE_PER_MILLE,	/* shown: of 1 */
	SCALE_PPM,
	SCALE_PERCENT,		/* with KVMM_AVG_SHIFT fraction bits */
};

/**
 * struct metric - a family
 * @name: without the "_total" of counters
 * @unit: the end of the name, or NULL
 * @help: a sentence
 * @offset, @bytes: of the number; 4 or 8 bytes; UINT32_MAX of 4 is no limit: there is no sample
 * @label: of an array of numbers, or NULL
 * @values: the label's, by index; NULL: the index itself
 * @nr: length of that array
 */
struct metric {
	const char *name;
	const char *unit;
	const char *help;
	u8 type;
	u8 scope;
	u8 scale;
	u8 bytes;
	u32 offset;
	const char *label;
	const char *const *values;
	u32 nr;
};

extern const struct metric kv_metrics[];
extern const u32 kv_nr_metrics;

/* One pool. */
struct pool_view {
	const char *name;			/* as it is shown */
	const struct kvmm_pool *pool;		/* only compared */
	struct kv_pool_glance glance;
	u64 order_free[KVMM_NR_ORDERS];		/* of all classes */
	u64 unusable_ppm[KVMM_NR_ORDERS];	/* free memory that is no use for 2^order blocks */
	u32 nr_tenants;				/* in ->tenant; "others", if any, is the last one */
	bool has_others;
	struct kvmm_tenant_stat *tenant;	/* ours */
	u32 tier;				/* in views, or KV_NONE */
	u32 is_closed;				/* it contradicts itself: no more is said of it */
};

struct views {
	u32 nr_pools;
	u32 nr_tiers;
	u32 nr_slabs;
	u32 nr_publishers;
	struct pool_view *pool;			/* ours */
	struct kv_tier_glance *tier;		/* ours; room for one a pool */
	struct kvmm_tier **tier_of;		/* ours; the same */
	struct kv_slab_row *slab;		/* ours; caches of the whole process */
	struct publisher_view *publisher;	/* ours; of other pools, too */
};

/* 0; -EINVAL, -ENOMEM, -ECHILD, and nothing is left. @attr is complete. */
int views_take(const struct kvmm_metrics_attr *attr, struct views *views);
void views_drop(struct views *views);

/* A caller's attributes, checked: 0 or -EINVAL. */
int metrics_attr(const struct kvmm_metrics_attr *from, struct kvmm_metrics_attr *attr);

void metrics_write(const struct views *views, enum kvmm_metrics_format format,
		   struct kv_text *text);
void metrics_write_table(struct kv_text *text);
/* 0 or -ENOENT. */
int metrics_write_kernel(const struct views *views, const char *what, struct kv_text *text);

#endif /* CTL_METRICS_H */
