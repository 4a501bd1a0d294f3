// SPDX-License-Identifier: Apache-2.0
/* What a pool suffers from: waiting, and things that somebody may have forgotten. */
#include <string.h>

#include <kvmm/alloc.h>
#include <kvmm/owner.h>

#include "command.h"

#define NS_PER_MS	1000000ull
#define PORTION		64u

typedef unsigned long long llu;

/* ---- pressure ---- */

/* Percent with two digits, as Linux has it. */
static void write_avg(struct kv_text *text, u32 avg)
{
	u32 cents = ((u64)avg * 100) >> KVMM_AVG_SHIFT;

	kv_text_printf(text, "\t%u.%02u", cents / 100, cents % 100);
}

static void write_line(struct kv_text *text, const char *pool, const char *kind,
		       const struct kvmm_pressure_line *line)
{
	kv_text_printf(text, "%s\t%s", pool, kind);
	for (u32 i = 0; i < KVMM_NR_AVGS; i++)
		write_avg(text, line->avg[i]);
	kv_text_printf(text, "\t%llu\n", (llu)line->total_us);
}

static int write_pressure(struct kv_control_call *call, const struct kv_control_pool *entry)
{
	struct kvmm_pressure pressure;
	int err = kvmm_pressure(entry->pool, &pressure);

	if (err)
		return err;
	write_line(call->text, entry->name, "some", &pressure.some);
	write_line(call->text, entry->name, "full", &pressure.full);
	return 0;
}

static int cmd_pressure(struct kv_control_call *call)
{
	kv_text_puts(call->text, "#pool:s\tkind:s\tavg10\tavg60\tavg300\ttotal_us\n");
	return kv_call_each(call, write_pressure);
}

/* ---- leaks ---- */

static const struct {
	u32 bit;
	const char *name;
} suspicions[] = {
	{ KVMM_LEAK_EXPIRED, "expired" }, { KVMM_LEAK_OLD, "old" }, { KVMM_LEAK_LONE, "lone" },
	{ KVMM_LEAK_DEAD, "dead" },
};

static void write_leak(struct kv_text *text, const struct kvmm_owned *row)
{
	const char *between = "";

	kv_text_printf(text, "%llu\t%s\t%u\t%u\t%u\t%llu\t%llu\t%llu\t", (llu)row->owner,
		       kvmm_owned_kind_name(row->kind), row->index, row->gen, row->nr,
		       (llu)row->bytes, (llu)(row->age_ns / NS_PER_MS), (llu)row->deadline_ns);
	for (u32 i = 0; i < ARRAY_SIZE(suspicions); i++) {
		if (!(row->suspect & suspicions[i].bit))
			continue;
		kv_text_printf(text, "%s%s", between, suspicions[i].name);
		between = ",";
	}
	kv_text_printf(text, "\t%u\t%u\t", row->refs, row->pins);
	kv_text_word(text, row->text);
	kv_text_puts(text, "\n");
}

static int read_ages(struct kv_control_call *call, struct kvmm_leak_attr *attr)
{
	u64 *const field[] = { &attr->older_ns, &attr->lone_ns };

	for (u32 i = 0; i < call->nr_args; i++) {
		u64 ms;
		int err = kv_call_number(call, i, 0, UINT64_MAX / NS_PER_MS, &ms);

		if (err)
			return err;
		*field[i] = ms * NS_PER_MS;
	}
	return 0;
}

/* The pool's lock is held for some hundred ranges at a time; nothing is as of one moment. */
static int cmd_leaks(struct kv_control_call *call)
{
	struct kvmm_leak_attr attr = KVMM_LEAK_ATTR_INIT;
	struct kvmm_owned rows[PORTION];
	u64 cursor = 0;
	int nr = PORTION, err = read_ages(call, &attr);

	if (err)
		return err;
	kv_text_puts(call->text, "#owner\tkind:s\tindex\tgen\tblocks\tbytes\tage_ms\tdeadline_ns\t"
		     "why:s\trefs\tpins\ttext:s\n");
	while (nr == PORTION && !call->text->err) {
		nr = kvmm_leaks_next(call->pool, &attr, &cursor, rows, PORTION);
		for (int i = 0; i < nr; i++)
			write_leak(call->text, &rows[i]);
	}
	return nr < 0 ? nr : 0;
}

static const struct kv_command commands[] = {
	{ "pressure", "[POOL]", "time lost waiting for blocks: percent of the last 10, 60 and 300 s",
	  0, 0, 1, cmd_pressure },
	{ "leaks", "POOL [OLDER_MS [LONE_MS]]",
	  "leases that have run out, what dead owners have left, and what is older than that",
	  KV_COMMAND_POOL, 0, 2, cmd_leaks },
	{ 0 },
};

const struct kv_command_set kv_commands_show = { .commands = commands };
