// SPDX-License-Identifier: Apache-2.0
/*
 * A snapshot as the pickle that PyTorch's memory_viz shows: one segment for the pool, a block for each run,
 * and a trace in which everything that is there was allocated as long ago as it is old.
 *
 * Only those opcodes are used that the viewer's own unpickler has been seen to know: PROTO, EMPTY_DICT,
 * EMPTY_LIST, MARK, SETITEMS, APPENDS, BINUNICODE, BININT, BININT1, LONG1 and STOP.
 */
#include <stdlib.h>
#include <string.h>

#include "snap.h"

/* Where block 0 lies, since nobody says: not 0, which viewers take for "no address". */
#define BASE	(1ull << 32)

static void put_le(uint64_t number, unsigned int bytes, FILE *out)
{
	for (unsigned int i = 0; i < bytes; i++)
		fputc(number >> 8 * i & 0xff, out);
}

static void put_text(const char *text, FILE *out)
{
	fputc('X', out);
	put_le(strlen(text), 4, out);
	fputs(text, out);
}

/* LONG1 is signed, so the highest bit stays 0. */
static void put_number(uint64_t number, FILE *out)
{
	unsigned int bytes = 1;

	if (number < 256) {
		fputc('K', out);
		put_le(number, 1, out);
	} else if (number <= INT32_MAX) {
		fputc('J', out);
		put_le(number, 4, out);
	} else {
		while (bytes < 8 && number >> (8 * bytes - 1))
			bytes++;
		bytes += bytes == 8 && number >> 63;
		fprintf(out, "\x8a%c", (int)bytes);
		put_le(number, bytes < 8 ? bytes : 8, out);
		if (bytes == 9)
			fputc(0, out);
	}
}

static void put_pair(const char *name, uint64_t number, FILE *out)
{
	put_text(name, out);
	put_number(number, out);
}

static void put_text_pair(const char *name, const char *text, FILE *out)
{
	put_text(name, out);
	put_text(text, out);
}

/* What comes is a dict, or a list, up to end_dict() or end_list(). */
static void begin_dict(FILE *out)
{
	fputs("}(", out);
}

static void end_dict(FILE *out)
{
	fputc('u', out);
}

static void begin_list(FILE *out)
{
	fputs("](", out);
}

static void end_list(FILE *out)
{
	fputc('e', out);
}

/* ---- blocks ---- */

/* What nobody needs may still be there: it waits to be used otherwise. */
static const char *state_name(uint32_t state)
{
	switch (kvmm_map_block_state(state)) {
	case KVMM_BLOCK_RANGE:
	case KVMM_BLOCK_PRIVATE:
	case KVMM_BLOCK_STAGED:
	case KVMM_BLOCK_ACTIVE:
	case KVMM_BLOCK_NULL:
		return "active_allocated";
	case KVMM_BLOCK_INACTIVE:
		return "active_pending_free";
	default:
		return state == KVMM_MAP_MOVING || state == KVMM_MAP_LIMBO ? "active_pending_free" :
									     "inactive";
	}
}

static bool is_active(const struct snap_row *row)
{
	return *state_name(row->state) == 'a';
}

static bool is_allocated(const struct snap_row *row)
{
	return !strcmp(state_name(row->state), "active_allocated");
}

static void put_frame(const char *name, const char *file, FILE *out)
{
	begin_dict(out);
	put_text_pair("filename", file, out);
	put_pair("line", 0, out);
	put_text_pair("name", name, out);
	end_dict(out);
}

/* Who has it stands where the viewer shows stacks: innermost first. */
static void put_frames(const struct snap *snap, const struct snap_row *row, FILE *out)
{
	char text[128];
	size_t nr = 0;

	put_text("frames", out);
	begin_list(out);
	if (is_active(row)) {
		nr = snprintf(text, sizeof(text), "%s", kvmm_map_state_name(row->state));
		if (snap_has(row, SNAP_SEQ))
			nr += snprintf(text + nr, sizeof(text) - nr, " sequence %llu",
				       (unsigned long long)row->seq);
		if (snap_has(row, SNAP_POSITION))
			nr += snprintf(text + nr, sizeof(text) - nr, " position %u", row->position);
		put_frame(text, snap->pool, out);
		snprintf(text, sizeof(text), "owner %llu", (unsigned long long)row->owner);
		put_frame(text, snap->pool, out);
		snprintf(text, sizeof(text), "tenant %u", row->tenant);
		put_frame(text, snap->pool, out);
	}
	end_list(out);
}

static uint64_t address_of(const struct snap *snap, const struct snap_row *row)
{
	return BASE + snap_bytes(snap, row->first);
}

static void put_block(const struct snap *snap, const struct snap_row *row, FILE *out)
{
	begin_dict(out);
	put_pair("address", address_of(snap, row), out);
	put_pair("size", snap_bytes(snap, row->nr), out);
	put_pair("requested_size", is_allocated(row) ? snap_bytes(snap, row->nr) : 0, out);
	put_text_pair("state", state_name(row->state), out);
	put_frames(snap, row, out);
	end_dict(out);
}

/* ---- the segment ---- */

static uint64_t sum_bytes(const struct snap *snap, bool (*counts)(const struct snap_row *row))
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < snap->nr; i++)
		if (counts(&snap->row[i]))
			bytes += snap_bytes(snap, snap->row[i].nr);
	return bytes;
}

static void put_segment(const struct snap *snap, FILE *out)
{
	begin_dict(out);
	put_pair("device", 0, out);
	put_pair("address", BASE, out);
	put_pair("total_size", snap_bytes(snap, snap->nr_blocks), out);
	put_pair("allocated_size", sum_bytes(snap, is_allocated), out);
	put_pair("active_size", sum_bytes(snap, is_active), out);
	put_pair("requested_size", sum_bytes(snap, is_allocated), out);
	put_pair("stream", 0, out);
	put_text_pair("segment_type", "large", out);
	put_text("segment_pool_id", out);
	begin_list(out);
	put_number(0, out);
	put_number(0, out);
	end_list(out);
	put_pair("is_expandable", 0, out);
	put_text("frames", out);
	fputc(']', out);
	put_text("blocks", out);
	begin_list(out);
	for (size_t i = 0; i < snap->nr; i++)
		put_block(snap, &snap->row[i], out);
	end_list(out);
	end_dict(out);
}

/* ---- the trace ---- */

static void put_action(const struct snap *snap, const char *action, const struct snap_row *row,
		       FILE *out)
{
	uint64_t age_ns = row->age_ns < snap->time_ns ? row->age_ns : snap->time_ns;

	begin_dict(out);
	put_text_pair("action", action, out);
	put_pair("addr", row->nr ? address_of(snap, row) : 0, out);
	put_pair("size", snap_bytes(snap, row->nr), out);
	put_pair("stream", 0, out);
	put_pair("time_us", (snap->time_ns - age_ns) / 1000, out);
	put_frames(snap, row, out);
	end_dict(out);
}

static int by_age(const void *a, const void *b)
{
	const struct snap_row *const *x = a, *const *y = b;

	if ((*x)->age_ns != (*y)->age_ns)
		return (*x)->age_ns > (*y)->age_ns ? -1 : 1;
	return (*x)->first < (*y)->first ? -1 : 1;
}

static int put_trace(const struct snap *snap, FILE *out)
{
	const struct snap_row **rows = calloc(snap->nr + 1, sizeof(*rows)), end = { 0 };
	size_t nr = 0;

	if (!rows)
		return -1;
	for (size_t i = 0; i < snap->nr; i++)
		if (is_allocated(&snap->row[i]) || snap->row[i].state == KVMM_MAP_CACHED)
			rows[nr++] = &snap->row[i];
	qsort(rows, nr, sizeof(*rows), by_age);
	begin_list(out);
	for (size_t i = 0; i < nr; i++)
		put_action(snap, "alloc", rows[i], out);
	put_action(snap, "snapshot", &end, out);
	end_list(out);
	free(rows);
	return 0;
}

int snap_pickle(const struct snap *snap, FILE *out)
{
	int err;

	fwrite("\x80\x02", 1, 2, out);
	begin_dict(out);
	put_text("segments", out);
	begin_list(out);
	put_segment(snap, out);
	end_list(out);
	put_text("device_traces", out);
	begin_list(out);
	err = put_trace(snap, out);
	end_list(out);
	end_dict(out);
	fputc('.', out);
	return err;
}
