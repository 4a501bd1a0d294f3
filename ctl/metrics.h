/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is counted: one table of fields, for Prometheus' families, for the tables of the control
 * socket, and for what adds up.
 *
 * First all pools are looked at, then the text is made: family by family, since all samples of one
 * have to stand together, or row by row.
 */
#ifndef CTL_METRICS_H
#define CTL_METRICS_H

#include <kv/alloc.h>
#include <kv/feed.h>
#include <kv/tier.h>
#include <kvmm/ext/inspect.h>
#include <kvmm/ext/slab.h>

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
	SCOPE_SLAB,		/* struct kv_slab_row */
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
 * struct metric - a field: a family of samples, a column of the table of its scope, or both
 * @column: where the number is; without a @head it is in no table. Columns come in the order of the
 *	fields, new ones last. KV_CELL_LIMIT: without a limit there is no sample
 * @name: of the family, without the "_total" of counters; NULL: a column alone
 * @unit: the end of the name, or NULL
 * @help: a sentence
 * @label: of an array of numbers, or NULL
 * @values: the label's, by index; NULL: the index itself
 * @nr: length of that array
 */
struct metric {
	struct kv_column column;
	const char *name;
	const char *unit;
	const char *help;
	u8 type;
	u8 scope;
	u8 scale;
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
	struct kv_tier_glance *tier;		/* in views, or NULL */
	u32 is_closed;				/* it contradicts itself: no more is said of it */
};

struct views {
	u32 nr_pools;
	u32 nr_tiers;
	u32 nr_slabs;
	u32 nr_publishers;
	struct pool_view *pool;			/* ours */
	struct kv_tier_glance *tier;		/* ours; room for one a pool */
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
/* A row of each owner of one scope: "stat", "tenants", "classes", "slabs"; else -ENOENT. */
int metrics_write_rows(const struct views *views, const char *what, struct kv_text *text);
/* 0 or -ENOENT. */
int metrics_write_kernel(const struct views *views, const char *what, struct kv_text *text);

#endif /* CTL_METRICS_H */
