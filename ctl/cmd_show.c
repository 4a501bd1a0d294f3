// SPDX-License-Identifier: Apache-2.0
/* Where a pool lies, the tiers below it, and its troubles. */
#include <string.h>

#include <kv/buf.h>
#include <kv/pool.h>
#include <kvmm/ext/admission.h>
#include <kvmm/ext/inspect.h>
#include <kvmm/ext/lease.h>

#include "control.h"

#define NS_PER_MS	1000000ull
#define PORTION		64u

typedef unsigned long long llu;

/* ---- devices and tiers ---- */

/* A closed pool, too: it has the numbers that are fixed. */
static void write_device(struct kv_text *text, const struct pool_view *view)
{
	const struct kv_pool_glance *glance = &view->glance;
	const struct kvmm_pool_stat *stat = &glance->stat;

	kv_text_printf(text, "%s\t", view->name);
	kv_text_word(text, glance->device);
	kv_text_printf(text, "\t%u\t%s\t%s\t%llu\t%llu\t%llu\t%llu\t%llu\t%u\t%u\t%u\t%u\n",
		       glance->device_number, glance->engine, glance->policy ? glance->policy : "-",
		       (llu)stat->block_bytes, (llu)(stat->block_bytes * stat->nr_blocks),
		       (llu)glance->elastic.given_bytes, (llu)glance->elastic.target_bytes,
		       (llu)stat->metadata_bytes, glance->step.nr_streams,
		       kv_pool_nr_blocks(view->pool), stat->block_tokens, view->is_closed);
}

static int cmd_devices(struct kv_control_call *call)
{
	struct views shown;
	int err = control_views(call, 0, &shown);

	if (err)
		return err;
	kv_text_puts(call->text,
		     "#pool:s\tdevice:s\tnumber\tallocator:s\tpolicy:s\tblock_bytes\tbytes\t"
		     "given_bytes\tballoon_bytes\tmetadata_bytes\tstreams\tblocks\tblock_tokens\t"
		     "closed\n");
	for (u32 i = 0; i < shown.nr_pools; i++)
		write_device(call->text, &shown.pool[i]);
	return 0;
}

static void write_tiers(struct kv_text *text, const struct pool_view *view)
{
	const struct kvmm_tier_client_stat *below = &view->glance.below;
	const struct kv_tier_glance *tier = view->tier;
	const struct kvmm_disk_stat *disk;

	if (!tier)
		return;
	kv_text_printf(text, "%s\thost\t", view->name);
	kv_text_word(text, tier->name);
	kv_text_printf(text, "\t%llu\t%llu\t%u\t%u\t%u\t%u\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\t"
		       "%llu\t%llu\t%llu\n",
		       (llu)(tier->stat.units * tier->stat.unit_bytes),
		       (llu)(tier->stat.units_used * tier->stat.unit_bytes), below->blocks,
		       below->writing, below->queued, below->loading, (llu)below->offloads,
		       (llu)below->loads, (llu)below->offload_bytes, (llu)below->load_bytes,
		       (llu)below->hits, (llu)below->misses, (llu)below->evicted,
		       (llu)below->failed, (llu)below->disk_loads);
	if (!tier->has_disk)
		return;
	disk = &tier->disk;
	kv_text_printf(text, "%s\tdisk\t-\t%llu\t%llu\t%llu\t%llu\t-\t-\t%llu\t%llu\t%llu\t%llu\t"
		       "%llu\t%llu\t%llu\t%llu\t-\n",
		       view->name, (llu)disk->max_bytes, (llu)disk->record_bytes,
		       (llu)disk->nr_records, (llu)disk->nr_pending, (llu)disk->nr_put,
		       (llu)disk->nr_got, (llu)disk->put_bytes, (llu)disk->got_bytes,
		       (llu)disk->nr_got, (llu)disk->nr_missed, (llu)disk->nr_dropped,
		       (llu)(disk->nr_read_errors + disk->nr_write_errors + disk->nr_damaged));
}

static int cmd_tiers(struct kv_control_call *call)
{
	static const char head[] =
		"#pool:s\ttier:s\tname:s\tmax_bytes\tbytes\tblocks\twriting\tqueued\tloading\t"
		"stored\tloaded\tstored_bytes\tloaded_bytes\thits\tmisses\tevicted\tfailed\t"
		"from_disk\n";

	return control_rows(call, head, write_tiers);
}

/* ---- pressure ---- */

/* Percent with two digits, as Linux has it. */
static void write_line(struct kv_text *text, const char *pool, const char *kind,
		       const struct kvmm_pressure_line *line)
{
	kv_text_printf(text, "%s\t%s", pool, kind);
	for (u32 i = 0; i < KVMM_NR_AVGS; i++) {
		u32 cents = ((u64)line->avg[i] * 100) >> KVMM_AVG_SHIFT;

		kv_text_printf(text, "\t%u.%02u", cents / 100, cents % 100);
	}
	kv_text_printf(text, "\t%llu\n", (llu)line->total_us);
}

static void write_pressure(struct kv_text *text, const struct pool_view *view)
{
	write_line(text, view->name, "some", &view->glance.pressure.some);
	write_line(text, view->name, "full", &view->glance.pressure.full);
}

static int cmd_pressure(struct kv_control_call *call)
{
	return control_rows(call, "#pool:s\tkind:s\tavg10\tavg60\tavg300\ttotal_us\n",
			    write_pressure);
}

/* ---- latencies ---- */

/* All buckets of one histogram, unless there is nothing in any; @bound_ns: up to where they go. */
static void write_times(struct kv_text *text, const char *pool, const char *what, const u64 *bucket,
			u64 sum_ns, uint64_t (*bound_ns)(uint32_t i))
{
	u64 nr = 0;

	for (u32 i = 0; i <= KVMM_LATENCY_BOUNDS; i++)
		nr += bucket[i];
	for (u32 i = 0; nr && i <= KVMM_LATENCY_BOUNDS; i++) {
		kv_text_printf(text, "%s\t%s\t", pool, what);
		if (i < KVMM_LATENCY_BOUNDS)
			kv_text_printf(text, "%llu", (llu)bound_ns(i));
		else
			kv_text_puts(text, "-");
		kv_text_printf(text, "\t%llu\t%llu\n", (llu)bucket[i], (llu)sum_ns);
	}
}

static void write_latencies(struct kv_text *text, const struct pool_view *view)
{
	static const char *const kept[KVMM_NR_RESIDENCY_KINDS] = { "lifetime", "idle", "reuse",
								   "hit_age" };
	const struct kv_pool_glance *glance = &view->glance;
	const struct {
		const char *what;
		const struct kvmm_latency_stat *stat;
	} took[] = {
		{ "queue", &glance->pressure.queue }, { "room", &glance->pressure.room },
		{ "offload", &glance->below.offload_took }, { "load", &glance->below.load_took },
		{ "disk", &glance->below.disk_took },
	};

	for (u32 i = 0; i < ARRAY_SIZE(took); i++)
		write_times(text, view->name, took[i].what, took[i].stat->bucket,
			    took[i].stat->sum_ns, kvmm_latency_bound_ns);
	for (u32 i = 0; i < KVMM_NR_RESIDENCY_KINDS; i++)
		write_times(text, view->name, kept[i], glance->residency[i].bucket,
			    glance->residency[i].sum_ns, kvmm_residency_bound_ns);
}

static int cmd_latencies(struct kv_control_call *call)
{
	return control_rows(call, "#pool:s\twhat:s\tup_to_ns\tcount\tsum_ns\n", write_latencies);
}

/* ---- leaks ---- */

static const struct {
	u32 bit;
	const char *name;
} suspicions[] = {
	{ KVMM_LEAK_EXPIRED, "expired" }, { KVMM_LEAK_OLD, "old" }, { KVMM_LEAK_LONE, "lone" },
	{ KVMM_LEAK_DEAD, "dead" },
};

struct leak_row {
	struct kvmm_lease_info lease;
	const char *kind;
	u64 age_ms;
	char why[32];
};

#define LEASE(head, kind, field) KV_COLUMN(head, kind, struct leak_row, lease.field)

static const struct kv_column leak_columns[] = {
	LEASE("owner", NUMBER, owner), KV_COLUMN("kind:s", NAME, struct leak_row, kind),
	LEASE("index", NUMBER, index), LEASE("gen", NUMBER, gen), LEASE("blocks", NUMBER, nr),
	LEASE("bytes", NUMBER, bytes), KV_COLUMN("age_ms", NUMBER, struct leak_row, age_ms),
	LEASE("deadline_ns", NUMBER, deadline_ns), KV_COLUMN("why:s", CHARS, struct leak_row, why),
	LEASE("refs", NUMBER, refs), LEASE("pins", NUMBER, pins), LEASE("text:s", CHARS, text),
};

static void write_leak(struct kv_text *text, const struct kvmm_lease_info *lease)
{
	struct leak_row row = { *lease, kvmm_lease_kind_name(lease->kind),
				lease->age_ns / NS_PER_MS, "" };
	struct kv_buf why = { .at = row.why, .bytes = sizeof(row.why) };

	for (u32 i = 0; i < ARRAY_SIZE(suspicions); i++)
		if (lease->leak & suspicions[i].bit)
			kv_buf_printf(&why, "%s%s", why.len ? "," : "", suspicions[i].name);
	kv_text_row(text, leak_columns, ARRAY_SIZE(leak_columns), &row, 0);
}

/* The pool's lock is held for some hundred ranges at a time; nothing is as of one moment. */
static int cmd_leaks(struct kv_control_call *call)
{
	struct kvmm_lease_filter filter = KVMM_LEASE_FILTER_INIT;
	u64 *const age[] = { &filter.older_ns, &filter.lone_ns };
	struct kvmm_lease_info rows[PORTION];
	u64 cursor = 0;
	int nr = PORTION;

	for (u32 i = 0; i < call->nr_args; i++) {
		int err = kv_call_number(call, i, 0, UINT64_MAX / NS_PER_MS, age[i]);

		if (err)
			return err;
		*age[i] *= NS_PER_MS;
	}
	filter.leaks = KVMM_LEAK_ANY;
	kv_text_head(call->text, leak_columns, ARRAY_SIZE(leak_columns));
	while (nr == PORTION && !call->text->err) {
		nr = kvmm_lease_list(call->pool, &filter, &cursor, rows, PORTION);
		for (int i = 0; i < nr; i++)
			write_leak(call->text, &rows[i]);
	}
	return nr < 0 ? nr : 0;
}

static const struct kv_command commands[] = {
	{ "devices", "[POOL]",
	  "where pools lie, and which of them are closed since they contradict themselves",
	  0, 0, 1, cmd_devices },
	{ "tiers", "[POOL]",
	  "what is below pools: a row for host memory, and one for a disk below that",
	  0, 0, 1, cmd_tiers },
	{ "pressure", "[POOL]",
	  "time lost waiting for blocks: percent of the last 10, 60 and 300 s",
	  0, 0, 1, cmd_pressure },
	{ "latencies", "[POOL]",
	  "histograms since the pool was made: waiting in the queue, making room, copies down and "
	  "up, reads from the disk; sampled blocks", 0, 0, 1, cmd_latencies },
	{ "leaks", "POOL [OLDER_MS [LONE_MS]]",
	  "leases that have run out, what dead owners have left, and what is older than that",
	  KV_COMMAND_POOL, 0, 2, cmd_leaks },
	{ 0 },
};

const struct kv_command_set kv_commands_show = { .commands = commands };
