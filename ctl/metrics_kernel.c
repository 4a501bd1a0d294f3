// SPDX-License-Identifier: Apache-2.0
/*
 * The kernel's reports on its memory, made of pools in the same layouts, so that node-exporter,
 * atop and scripts that read /proc read this.
 *
 * A pool is a zone. In vmstat a name of the kernel stands only where it means the same; what it has
 * no name for begins with "kvmm_".
 */
#include <string.h>

#include <kv/alloc.h>
#include <kv/buf.h>
#include <kv/mem.h>
#include <kvmm/ext/slab.h>

#include "metrics.h"

typedef unsigned long long llu;

#define LINE(name, field) KV_COLUMN(name, NUMBER, struct pool_view, glance.field)

static const struct kv_column vmstat[] = {
	LINE("nr_free_pages", stat.nr_free),
	LINE("nr_zone_inactive_file", stat.nr_state[KVMM_BLOCK_INACTIVE]),
	LINE("nr_zone_active_file", stat.nr_state[KVMM_BLOCK_ACTIVE]),
	LINE("pgalloc_normal", stat.alloc_blocks),
	LINE("pgsteal_direct", stat.evictions),
	LINE("allocstall_normal", alloc.taken[KVMM_STEP_EVICT]),
	LINE("workingset_refault_file", below.refaults[KVMM_TIER_DEVICE]),
	LINE("compact_stall", alloc.taken[KVMM_STEP_COMPACT]),
	LINE("compact_success", alloc.saved[KVMM_STEP_COMPACT]),
	LINE("compact_daemon_wake", background.starts),
	LINE("pgmigrate_success", stat.moved_blocks),
	LINE("pgmigrate_fail", step.failed_moves),
	LINE("pswpin", below.loads),
	LINE("pswpout", below.offloads),
	LINE("balloon_inflate", elastic.shrunk_bytes),
	LINE("balloon_deflate", elastic.grown_bytes),
	LINE("kvmm_hit", stat.hit_blocks),
	LINE("kvmm_miss", stat.miss_blocks),
	LINE("kvmm_registered", stat.registered),
	LINE("kvmm_alloc_fail_nospc", stat.fail_nospc),
	LINE("kvmm_alloc_fail_frag", stat.fail_frag),
};

static void write_vmstat(const struct views *views, const char *what, struct kv_text *text)
{
	for (u32 i = 0; i < ARRAY_SIZE(vmstat); i++) {
		u64 sum = 0;

		for (u32 k = 0; k < views->nr_pools; k++)
			sum += kv_column_number(&vmstat[i], &views->pool[k], 0);
		kv_text_printf(text, "%s %llu\n", vmstat[i].head, (llu)sum);
	}
}

/* ---- pressure: the worst average of all pools, and all the time ---- */

static void write_pressure_line(const struct views *views, const char *name, bool full,
				struct kv_text *text)
{
	u32 avg[KVMM_NR_AVGS] = { 0 };
	u64 total = 0;

	for (u32 i = 0; i < views->nr_pools; i++) {
		const struct kvmm_pressure *pressure = &views->pool[i].glance.pressure;
		const struct kvmm_pressure_line *line = full ? &pressure->full : &pressure->some;

		for (u32 k = 0; k < KVMM_NR_AVGS; k++)
			avg[k] = max(avg[k], line->avg[k]);
		total += line->total_us;
	}
	kv_text_puts(text, name);
	for (u32 k = 0; k < KVMM_NR_AVGS; k++)
		kv_text_printf(text, " avg%u=%u.%02u", k == 0 ? 10u : k == 1 ? 60u : 300u,
			       avg[k] >> KVMM_AVG_SHIFT,
			       (avg[k] & ((1u << KVMM_AVG_SHIFT) - 1)) * 100 >> KVMM_AVG_SHIFT);
	kv_text_printf(text, " total=%llu\n", (llu)total);
}

static void write_pressure(const struct views *views, const char *what, struct kv_text *text)
{
	write_pressure_line(views, "some", false, text);
	write_pressure_line(views, "full", true, text);
}

/* ---- zones ---- */

#define ZONE_TEXT	4096u

/* One word: readers of this go by blanks. */
static void copy_word(char *to, size_t room, const char *from)
{
	while (*from && room > 4) {
		u32 nr = *from == ' ' ? 0 : kv_char(from);

		if (nr)
			memcpy(to, from, nr);
		else
			*to = '_';
		nr = max(nr, 1u);
		to += nr;
		from += nr;
		room -= nr;
	}
	*to = '\0';
}

static void write_zones(const struct views *views, const char *what, struct kv_text *text)
{
	char *buf = kv_alloc(ZONE_TEXT), name[128];

	if (!buf) {
		text->err = -ENOMEM;
		return;
	}
	for (u32 i = 0; i < views->nr_pools; i++) {
		struct kv_zone_label label = { i, name };
		int nr;

		if (views->pool[i].is_closed)
			continue;
		copy_word(name, sizeof(name), views->pool[i].name);
		nr = kv_zone_glance_text(&views->pool[i].glance.zone, what, label, buf, ZONE_TEXT);
		if (nr > 0)
			kv_text_bytes(text, buf, min((u32)nr, ZONE_TEXT - 1));
	}
	kv_free(buf);
}

/* Caches may come and go between asking how long it is and reading it. */
static void write_slabinfo(const struct views *views, const char *what, struct kv_text *text)
{
	int len = kv_slab_info(NULL, 0), nr;
	u32 room = len + 1024;
	char *buf = kv_alloc(room);

	if (!buf) {
		text->err = -ENOMEM;
		return;
	}
	nr = kv_slab_info(buf, room);
	kv_text_bytes(text, buf, min((u32)nr, room - 1));
	kv_free(buf);
}

static const struct {
	const char *name;
	void (*write)(const struct views *views, const char *what, struct kv_text *text);
} files[] = {
	{ "buddyinfo", write_zones },
	{ "pagetypeinfo", write_zones },
	{ "vmstat", write_vmstat },
	{ "pressure/memory", write_pressure },
	{ "slabinfo", write_slabinfo },
};

int metrics_write_kernel(const struct views *views, const char *what, struct kv_text *text)
{
	for (u32 i = 0; i < ARRAY_SIZE(files); i++) {
		if (strcmp(files[i].name, what))
			continue;
		files[i].write(views, what, text);
		return 0;
	}
	return -ENOENT;
}
