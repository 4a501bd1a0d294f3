// SPDX-License-Identifier: Apache-2.0
/*
 * Metrics as text: OpenMetrics 1.0, and Prometheus' text format 0.0.4.
 *
 * They differ in this: OpenMetrics calls a family of counters by its name without "_total", has
 * units and the type "info", and ends with "# EOF".
 */
#include <stdio.h>
#include <string.h>

#include <kv/buf.h>

#include "metrics.h"

#define MAX_TEXT	(64u << 20)

typedef unsigned long long llu;

static const char *const type_names[NR_METRIC_TYPES] = {
	[METRIC_GAUGE] = "gauge", [METRIC_COUNTER] = "counter", [METRIC_HISTOGRAM] = "histogram",
	[METRIC_LATENCY] = "histogram", [METRIC_INFO] = "info",
};

struct whose;

struct writer {
	struct kv_text *text;
	const struct views *views;
	const struct metric *metric;	/* NULL: a row of ->scope is written */
	enum metric_scope scope;
	bool open;			/* OpenMetrics */
	void (*write)(const struct writer *w, const struct whose *whose);	/* of each owner */
};

static void write_head(const struct writer *w)
{
	const struct metric *metric = w->metric;
	bool is_info = metric->type == METRIC_INFO && !w->open;
	const char *suffix = metric->type == METRIC_COUNTER && !w->open ? "_total" :
			     is_info ? "_info" : "";

	kv_text_printf(w->text, "# TYPE %s%s %s\n", metric->name, suffix,
		       is_info ? "gauge" : type_names[metric->type]);
	if (w->open && metric->unit)
		kv_text_printf(w->text, "# UNIT %s%s %s\n", metric->name, suffix, metric->unit);
	kv_text_printf(w->text, "# HELP %s%s %s\n", metric->name, suffix, metric->help);
}

/* ---- labels ---- */

/* Escapes the ends of a value: backslash, quote, end of line; bytes of no character go as '?'. */
static void write_escaped(struct kv_text *text, const char *value)
{
	while (*value) {
		u32 nr = kv_char(value);

		if (*value == '\n')
			kv_text_puts(text, "\\n");
		else if (*value == '\\' || *value == '"')
			kv_text_printf(text, "\\%c", *value);
		else if (nr)
			kv_text_bytes(text, value, nr);
		else
			kv_text_puts(text, "?");
		value += max(nr, 1u);
	}
}

static void write_label(const struct writer *w, const char *name, const char *value, bool more)
{
	kv_text_printf(w->text, "%s%s=\"", more ? "," : "{", name);
	write_escaped(w->text, value);
	kv_text_puts(w->text, "\"");
}

static void write_pool_labels(const struct writer *w, const struct pool_view *view)
{
	char device[40];

	if (strcmp(view->glance.device, "host"))
		snprintf(device, sizeof(device), "%.31s:%u", view->glance.device,
			 view->glance.device_number);
	else
		snprintf(device, sizeof(device), "host");
	write_label(w, "pool", view->name, false);
	write_label(w, "device", device, true);
}

/* The owner of numbers: a pool and maybe one of its classes or tenants, or a tier. */
struct whose {
	const struct pool_view *view;	/* NULL: a tier alone */
	const char *label;		/* besides; NULL: none */
	const char *name;		/* as it is called; others may be called the same */
	char value[80];			/* of the label */
	const void *base;		/* of the structure that the metric's offset is in */
};

static void write_labels(const struct writer *w, const struct whose *whose, u32 i)
{
	const struct metric *metric = w->metric;
	char index[12];

	if (whose->view)
		write_pool_labels(w, whose->view);
	if (whose->label)
		write_label(w, whose->label, whose->value, whose->view != NULL);
	if (!metric->label)
		return;
	snprintf(index, sizeof(index), "%u", i);
	write_label(w, metric->label, metric->values ? metric->values[i] : index, true);
}

/* ---- numbers ---- */

static void write_fraction(struct kv_text *text, u64 number, u64 unit, u32 digits)
{
	kv_text_printf(text, "%llu.%0*llu", (llu)(number / unit), (int)digits,
		       (llu)(number % unit));
}

static void write_number(struct kv_text *text, enum metric_scale scale, u64 number)
{
	switch (scale) {
	case SCALE_NS:
		return write_fraction(text, number, 1000000000, 9);
	case SCALE_US:
	case SCALE_PPM:
		return write_fraction(text, number, 1000000, 6);
	case SCALE_PER_MILLE:
		return write_fraction(text, number, 1000, 3);
	case SCALE_PERCENT:
		return write_fraction(text, (number * 10000) >> KVMM_AVG_SHIFT, 1000000, 6);
	default:
		kv_text_printf(text, "%llu", (llu)number);
	}
}

/* ---- samples ---- */

/* Bounds of long times go to the millisecond, of short ones to the microsecond. */
static void write_bucket(const struct writer *w, const struct whose *whose, u32 i, u64 nr)
{
	kv_text_printf(w->text, "%s_bucket", w->metric->name);
	write_labels(w, whose, 0);
	kv_text_puts(w->text, ",le=\"");
	if (i == KVMM_LATENCY_BOUNDS)
		kv_text_puts(w->text, "+Inf");
	else if (w->metric->type == METRIC_HISTOGRAM)
		write_fraction(w->text, kvmm_residency_bound_ns(i) / 1000000, 1000, 3);
	else
		write_fraction(w->text, kvmm_latency_bound_ns(i) / 1000, 1000000, 6);
	kv_text_printf(w->text, "\"} %llu\n", (llu)nr);
}

/* Both kinds lie alike: buckets, the one without a bound last, and a sum. */
static_assert(sizeof(struct kvmm_residency_stat) == sizeof(struct kvmm_latency_stat) &&
	      KVMM_RESIDENCY_BOUNDS == KVMM_LATENCY_BOUNDS, "one reader for both");

static void write_histogram(const struct writer *w, const struct whose *whose)
{
	struct kvmm_latency_stat hist;
	u64 nr = 0;

	memcpy(&hist, (const char *)whose->base + w->metric->column.offset, sizeof(hist));
	for (u32 i = 0; i <= KVMM_LATENCY_BOUNDS; i++) {
		nr += hist.bucket[i];
		write_bucket(w, whose, i, nr);
	}
	kv_text_printf(w->text, "%s_count", w->metric->name);
	write_labels(w, whose, 0);
	kv_text_printf(w->text, "} %llu\n%s_sum", (llu)nr, w->metric->name);
	write_labels(w, whose, 0);
	kv_text_puts(w->text, "} ");
	write_number(w->text, SCALE_NS, hist.sum_ns);
	kv_text_puts(w->text, "\n");
}

static void write_samples(const struct writer *w, const struct whose *whose)
{
	const struct metric *metric = w->metric;

	if (metric->type == METRIC_INFO) {
		const struct kv_pool_glance *glance = &whose->view->glance;

		kv_text_printf(w->text, "%s_info", metric->name);
		write_pool_labels(w, whose->view);
		write_label(w, "engine", glance->engine, true);
		write_label(w, "policy", glance->policy ? glance->policy : "", true);
		write_label(w, "version", kvmm_version(), true);
		return kv_text_puts(w->text, "} 1\n");
	}
	if (metric->type == METRIC_HISTOGRAM || metric->type == METRIC_LATENCY)
		return write_histogram(w, whose);
	for (u32 i = 0; i < metric->nr; i++) {
		u64 number = kv_column_number(&metric->column, whose->base, i);

		if (metric->column.kind == KV_CELL_LIMIT && number == UINT32_MAX)
			continue;
		kv_text_printf(w->text, "%s%s", metric->name,
			       metric->type == METRIC_COUNTER ? "_total" : "");
		write_labels(w, whose, i);
		kv_text_puts(w->text, "} ");
		write_number(w->text, metric->scale, number);
		kv_text_puts(w->text, "\n");
	}
}

/* ---- the owners ---- */

static void write_classes(const struct writer *w, const struct pool_view *view)
{
	for (u32 i = 0; i < view->glance.nr_classes; i++) {
		const struct kvmm_class_stat *class = &view->glance.class[i];
		struct whose whose = { .view = view, .label = "class", .name = whose.value,
				       .base = class };

		if (class->name)
			snprintf(whose.value, sizeof(whose.value), "%s", class->name);
		else
			snprintf(whose.value, sizeof(whose.value), "%u", i);
		w->write(w, &whose);
	}
}

static void write_tenants(const struct writer *w, const struct pool_view *view)
{
	for (u32 i = 0; i < view->nr_tenants; i++) {
		struct whose whose = { .view = view, .label = "tenant", .name = whose.value,
				       .base = &view->tenant[i] };
		u32 tenant = view->tenant[i].tenant;

		if (view->has_others && i == view->nr_tenants - 1)
			snprintf(whose.value, sizeof(whose.value), "others");
		else if (tenant == KVMM_TENANT_REST)
			snprintf(whose.value, sizeof(whose.value), "rest");
		else
			snprintf(whose.value, sizeof(whose.value), "%u", tenant);
		w->write(w, &whose);
	}
}

/* No two samples have the same labels: the second one of a name is "name#1". */
static void name_whose(struct whose *whose, const char *label, const char *name, u32 nr_before)
{
	whose->label = label;
	whose->name = name;
	if (nr_before)
		snprintf(whose->value, sizeof(whose->value), "%.64s#%u", name, nr_before);
	else
		snprintf(whose->value, sizeof(whose->value), "%.64s", name);
}

static void name_tier(const struct views *views, const struct kv_tier_glance *tier,
		      struct whose *whose)
{
	u32 nr_before = 0;

	for (const struct kv_tier_glance *at = views->tier; at < tier; at++)
		nr_before += !strcmp(at->name, tier->name);
	name_whose(whose, "tier", tier->name, nr_before);
}

static void write_slabs(const struct writer *w)
{
	const struct views *views = w->views;

	for (u32 i = 0; i < views->nr_slabs; i++) {
		struct whose whose = { .base = &views->slab[i] };
		u32 nr_before = 0;

		for (u32 k = 0; k < i; k++)
			nr_before += !strcmp(views->slab[k].name, views->slab[i].name);
		name_whose(&whose, "cache", views->slab[i].name, nr_before);
		w->write(w, &whose);
	}
}

static void write_publishers(const struct writer *w, const struct pool_view *view)
{
	const struct publisher_view *all = w->views->publisher;

	for (u32 i = 0; i < w->views->nr_publishers; i++) {
		struct whose whose = { .view = view, .base = &all[i].stat };
		u32 nr_before = 0;

		if (all[i].pool != view->pool)
			continue;
		for (u32 k = 0; k < i; k++)
			nr_before += all[k].pool == view->pool &&
				     !strcmp(all[k].endpoint, all[i].endpoint);
		name_whose(&whose, "endpoint", all[i].endpoint, nr_before);
		w->write(w, &whose);
	}
}

static void write_pool(const struct writer *w, const struct pool_view *view)
{
	struct whose whose = { .view = view, .base = view };

	if (view->is_closed && w->scope != SCOPE_ANY_POOL)
		return;
	switch (w->scope) {
	case SCOPE_CLASS:
		return write_classes(w, view);
	case SCOPE_TENANT:
		return write_tenants(w, view);
	case SCOPE_PUBLISHER:
		return write_publishers(w, view);
	case SCOPE_BELOW:
		if (!view->tier)
			return;
		name_tier(w->views, view->tier, &whose);
		whose.base = &view->glance.below;
		break;
	default:
		break;
	}
	w->write(w, &whose);
}

static void write_tiers(const struct writer *w)
{
	const struct views *views = w->views;

	for (u32 i = 0; i < views->nr_tiers; i++) {
		struct whose whose = { .base = &views->tier[i].stat };

		name_tier(views, &views->tier[i], &whose);
		if (w->scope == SCOPE_DISK)
			whose.base = views->tier[i].has_disk ? &views->tier[i].disk : NULL;
		if (whose.base)
			w->write(w, &whose);
	}
}

static void write_owners(const struct writer *w)
{
	if (w->scope == SCOPE_TIER || w->scope == SCOPE_DISK)
		return write_tiers(w);
	if (w->scope == SCOPE_SLAB)
		return write_slabs(w);
	for (u32 i = 0; i < w->views->nr_pools; i++)
		write_pool(w, &w->views->pool[i]);
}

void metrics_write(const struct views *views, enum kvmm_metrics_format format, struct kv_text *text)
{
	struct writer w = { .text = text, .views = views, .write = write_samples,
			    .open = format == KVMM_METRICS_OPENMETRICS };

	for (u32 i = 0; i < kv_nr_metrics; i++) {
		w.metric = &kv_metrics[i];
		w.scope = w.metric->scope;
		if (!w.metric->name)
			continue;
		write_head(&w);
		write_owners(&w);
	}
	if (w.open)
		kv_text_puts(text, "# EOF\n");
}

/* ---- tables ---- */

/* The labels of samples; and where it has one, the name of a table, and its first columns. */
static const struct {
	const char *labels;
	const char *table;
	const char *head;
} scopes[NR_SCOPES] = {
	[SCOPE_ANY_POOL]	= { .labels = "pool,device" },
	[SCOPE_POOL]		= { "pool,device", "stat", "#pool:s" },
	[SCOPE_CLASS]		= { "pool,device,class", "classes", "#pool:s\tclass:s" },
	[SCOPE_TENANT]		= { "pool,device,tenant", "tenants", "#pool:s\ttenant:s" },
	[SCOPE_BELOW]		= { .labels = "pool,device,tier" },
	[SCOPE_TIER]		= { .labels = "tier" },
	[SCOPE_DISK]		= { .labels = "tier" },
	[SCOPE_SLAB]		= { "cache", "slabs", "#name:s" },
	[SCOPE_PUBLISHER]	= { .labels = "pool,device,endpoint" },
};

static void write_row(const struct writer *w, const struct whose *whose)
{
	if (whose->view)
		kv_text_puts(w->text, whose->view->name);
	if (whose->view && whose->name)
		kv_text_puts(w->text, "\t");
	if (whose->name)
		kv_text_word(w->text, whose->name);
	for (u32 i = 0; i < kv_nr_metrics; i++) {
		const struct kv_column *column = &kv_metrics[i].column;

		if (kv_metrics[i].scope != w->scope || !column->head)
			continue;
		kv_text_puts(w->text, "\t");
		kv_text_cell(w->text, column, whose->base);
	}
	kv_text_puts(w->text, "\n");
}

int metrics_write_rows(const struct views *views, const char *what, struct kv_text *text)
{
	struct writer w = { .text = text, .views = views, .write = write_row };

	while (w.scope < NR_SCOPES &&
	       (!scopes[w.scope].table || strcmp(scopes[w.scope].table, what)))
		w.scope++;
	if (w.scope == NR_SCOPES)
		return -ENOENT;
	kv_text_puts(text, scopes[w.scope].head);
	for (u32 i = 0; i < kv_nr_metrics; i++)
		if (kv_metrics[i].scope == w.scope && kv_metrics[i].column.head)
			kv_text_printf(text, "\t%s", kv_metrics[i].column.head);
	kv_text_puts(text, "\n");
	write_owners(&w);
	return 0;
}

void metrics_write_table(struct kv_text *text)
{
	kv_text_puts(text, "#family:s\ttype:s\tunit:s\tlabels:s\thelp:s\n");
	for (u32 i = 0; i < kv_nr_metrics; i++) {
		const struct metric *metric = &kv_metrics[i];

		if (!metric->name)
			continue;
		kv_text_printf(text, "%s\t%s\t%s\t%s%s%s%s\t%s\n", metric->name,
			       type_names[metric->type], metric->unit ? metric->unit : "-",
			       scopes[metric->scope].labels, metric->label ? "," : "",
			       metric->label ? metric->label : "",
			       metric->type == METRIC_INFO ? ",engine,policy,version" : "",
			       metric->help);
	}
}

/* ---- the calls ---- */

/* As much as fits, and how long it is; the end of @text. */
static int give(struct kv_text *text, int err, char *buf, size_t len)
{
	u32 nr = text->len;

	err = err ? err : text->err;
	if (len)
		buf[0] = '\0';
	if (!err && len && nr) {
		nr = min((size_t)nr, len - 1);
		memcpy(buf, text->buf, nr);
		buf[nr] = '\0';
		nr = text->len;
	}
	kv_text_exit(text);
	return err ? err : (int)nr;
}

/* Nothing is in @buf on errors. */
static int look(const struct kvmm_metrics_attr *attr, struct kvmm_metrics_attr *known,
		struct views *views, char *buf, size_t len)
{
	if (len && !buf)
		return -EINVAL;
	if (len)
		buf[0] = '\0';
	if (metrics_attr(attr, known))
		return -EINVAL;
	return views_take(known, views);
}

int kvmm_metrics_text(const struct kvmm_metrics_attr *attr, char *buf, size_t len)
{
	struct kvmm_metrics_attr known;
	struct kv_text text;
	struct views views;
	int err = look(attr, &known, &views, buf, len);

	if (err)
		return err;
	kv_text_init(&text, MAX_TEXT);
	if (!known.what)
		metrics_write(&views, known.format, &text);
	else if (!strcmp(known.what, "table"))
		metrics_write_table(&text);
	else
		err = metrics_write_kernel(&views, known.what, &text);
	views_drop(&views);
	return give(&text, err, buf, len);
}
