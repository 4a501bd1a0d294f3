// SPDX-License-Identifier: Apache-2.0
/* The writer of recordings. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "../json.h"
#include "../replay/results.h"
#include "recorder.h"

/* What may still come when the room is full: latencies, results and the end. */
#define RESERVED_BYTES		(256u << 10)

/* Longest text of a cell: a count, a letter, an owner, a space. */
#define CELL_BYTES		18u

__attribute__((format(printf, 2, 3)))
static void put(struct recorder *rec, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vfprintf(rec->out, format, args);
	va_end(args);
	if (n < 0 && !rec->err)
		rec->err = -EIO;
	rec->bytes += n > 0 ? (u64)n : 0;
}

static void put_string(struct recorder *rec, const char *text)
{
	json_string(text, rec->out);
	rec->bytes += strlen(text) + 2;
}

static void put_member(struct recorder *rec, const char *name, const char *text)
{
	if (!text)
		return;
	put(rec, ",\"%s\":", name);
	put_string(rec, text);
}

/* ---- beginning and end ---- */

static void put_head(struct recorder *rec, const struct recorder_attr *attr)
{
	put(rec, "{\"kvmm_recording\":%u", RECORDER_VERSION);
	put_member(rec, "source", attr->source);
	put_member(rec, "trace", attr->trace);
	put_member(rec, "purpose", attr->purpose);
	put_member(rec, "x", attr->x_unit);
	put_member(rec, "owner", attr->owner);
	put(rec, ",\"blocks\":%u,\"cells\":%u,\"every\":%llu,\"columns\":[", rec->nr_blocks,
	    rec->nr_cells, (unsigned long long)rec->every);
	for (u32 i = 0; i < attr->nr_columns; i++) {
		put(rec, i ? "," : "");
		put_string(rec, attr->columns[i]);
	}
	put(rec, "]}\n");
}

int recorder_begin(struct recorder *rec, const struct recorder_attr *attr)
{
	if (attr->nr_columns > RECORDER_COLUMNS || !attr->every)
		return -EINVAL;
	*rec = (struct recorder){
		.out		= attr->out,
		.nr_blocks	= attr->nr_blocks,
		.nr_cells	= (u32)min_u64(attr->nr_blocks, RECORDER_CELLS),
		.nr_columns	= attr->nr_columns,
		.every		= attr->every,
		.max_bytes	= attr->max_bytes ? attr->max_bytes : RECORDER_BYTES,
		.max_samples	= attr->max_samples ? attr->max_samples : RECORDER_SAMPLES,
	};
	rec->mark_bytes = rec->max_bytes / 2;
	rec->mark_samples = rec->max_samples / 2;
	rec->row = calloc(max_u64(1, rec->nr_cells), sizeof(*rec->row));
	rec->last = calloc(max_u64(1, rec->nr_cells), sizeof(*rec->last));
	if (!rec->row || !rec->last) {
		free(rec->row);
		free(rec->last);
		return -ENOMEM;
	}
	put_head(rec, attr);
	return 0;
}

int recorder_end(struct recorder *rec)
{
	put(rec, "{\"end\":%u,\"every\":%llu,\"full\":%s}\n", rec->nr_samples,
	    (unsigned long long)rec->every, rec->full ? "true" : "false");
	if (!rec->err && (fflush(rec->out) || ferror(rec->out)))
		rec->err = -EIO;
	free(rec->row);
	free(rec->last);
	rec->row = rec->last = NULL;
	return rec->err;
}

/* ---- the picture ---- */

void recorder_clear(struct recorder *rec)
{
	for (u32 i = 0; i < rec->nr_cells; i++)
		rec->row[i] = (struct cell){ U32_NONE, CELL_FREE };
}

void recorder_paint(struct recorder *rec, u32 start, u32 nr, struct cell paint)
{
	u64 n = rec->nr_cells, cell = (u64)start * n / max_u64(1, rec->nr_blocks);

	for (; cell < n && recorder_block(rec, (u32)cell) < (u64)start + nr; cell++)
		if (recorder_block(rec, (u32)cell) >= start)
			rec->row[cell] = paint;
}

static bool is_same(const struct cell *a, const struct cell *b)
{
	return a->owner == b->owner && a->state == b->state;
}

/* How many cells from @at on are as they were? */
static u32 count_unchanged(const struct recorder *rec, u32 at)
{
	u32 n = 0;

	while (rec->nr_samples && at + n < rec->nr_cells &&
	       is_same(&rec->row[at + n], &rec->last[at + n]))
		n++;
	return n;
}

/* How many cells from @at on are alike? */
static u32 count_alike(const struct recorder *rec, u32 at)
{
	u32 n = 1;

	while (at + n < rec->nr_cells && is_same(&rec->row[at], &rec->row[at + n]))
		n++;
	return n;
}

static u32 put_run(struct recorder *rec, u32 at)
{
	const struct cell *cell = &rec->row[at];
	u32 unchanged = count_unchanged(rec, at), alike = count_alike(rec, at);
	const char *space = at ? " " : "";

	if (unchanged >= alike) {
		put(rec, "%s%u=", space, unchanged);
		return unchanged;
	}
	if (cell->owner == U32_NONE)
		put(rec, "%s%u%c", space, alike, (char)cell->state);
	else
		put(rec, "%s%u%c%u", space, alike, (char)cell->state, cell->owner);
	return alike;
}

static void put_picture(struct recorder *rec)
{
	put(rec, ",\"map\":\"");
	for (u32 at = 0; at < rec->nr_cells; )
		at += put_run(rec, at);
	put(rec, "\"");
	memcpy(rec->last, rec->row, rec->nr_cells * sizeof(*rec->row));
}

/* ---- moments ---- */

/*
 * Half of the room is used up, or an eighth of what was left: be half as fast from now on. Halving what
 * is left each time would be over after a dozen times; so there is room for some forty, for ever.
 */
static void slow_down(struct recorder *rec)
{
	u64 worst = (u64)rec->nr_cells * CELL_BYTES + rec->nr_columns * 21u + 64;

	while (rec->bytes >= rec->mark_bytes && rec->mark_bytes + 1 < rec->max_bytes) {
		rec->mark_bytes += DIV_ROUND_UP(rec->max_bytes - rec->mark_bytes, 8);
		rec->every *= 2;
	}
	while (rec->nr_samples >= rec->mark_samples && rec->mark_samples + 1 < rec->max_samples) {
		rec->mark_samples += DIV_ROUND_UP(rec->max_samples - rec->mark_samples, 8);
		rec->every *= 2;
	}
	rec->full = rec->nr_samples >= rec->max_samples ||
		    rec->bytes + worst + RESERVED_BYTES > rec->max_bytes;
}

void recorder_add(struct recorder *rec, u64 x, const u64 *values)
{
	if (rec->full)
		return;
	put(rec, "{\"x\":%llu,\"v\":[", (unsigned long long)x);
	for (u32 i = 0; i < rec->nr_columns; i++)
		put(rec, "%s%llu", i ? "," : "", (unsigned long long)values[i]);
	put(rec, "]");
	if (rec->nr_cells)
		put_picture(rec);
	put(rec, "}\n");
	rec->nr_samples++;
	slow_down(rec);
	/* The next multiple: who comes late does not push back those behind. */
	rec->next_x = x > UINT64_MAX - rec->every ? UINT64_MAX : x - x % rec->every + rec->every;
}

/* ---- other lines ---- */

void recorder_owner(struct recorder *rec, u32 owner, const char *name)
{
	if (rec->full)
		return;
	put(rec, "{\"owner\":%u", owner);
	put_member(rec, "name", name);
	put(rec, "}\n");
}

void recorder_latency(struct recorder *rec, const char *name, const char *how, const char *unit,
		      const struct latency *latency)
{
	const char *comma = "";

	put(rec, "{\"latency\":");
	put_string(rec, name);
	put_member(rec, "how", how);
	put_member(rec, "unit", unit);
	put(rec, ",\"n\":%llu,\"sum\":%llu,\"max\":%llu,\"buckets\":[",
	    (unsigned long long)latency->nr, (unsigned long long)latency->sum,
	    (unsigned long long)latency->max);
	for (u32 i = 0; i < LATENCY_BUCKETS; i++) {
		if (!latency->bucket[i])
			continue;
		put(rec, "%s[%llu,%llu]", comma, (unsigned long long)latency_limit(i),
		    (unsigned long long)latency->bucket[i]);
		comma = ",";
	}
	put(rec, "]}\n");
}

void recorder_line(struct recorder *rec, const char *json)
{
	put(rec, "%s\n", json);
}
