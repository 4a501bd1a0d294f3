// SPDX-License-Identifier: Apache-2.0
/* The reader of recordings. */
#include <stdlib.h>
#include <string.h>

#include "recording.h"
#include "scan.h"

/* ---- the head ---- */

static bool read_columns(struct recording *rec, struct scan *scan)
{
	struct scan_text text;

	if (!scan_take(scan, '['))
		return false;
	if (scan_if(scan, ']'))
		return true;
	do {
		if (rec->nr_columns == RECORDER_COLUMNS)
			return scan_fail(scan, "more than 64 columns");
		if (!scan_string(scan, &text))
			return false;
		rec->nr_columns++;
	} while (scan_if(scan, ','));
	return scan_take(scan, ']');
}

static bool read_u32(struct scan *scan, u32 max, u32 *value)
{
	u64 v;

	if (!scan_number(scan, max, &v))
		return false;
	*value = (u32)v;
	return true;
}

static bool read_unit(struct scan *scan)
{
	struct scan_text text;

	if (!scan_string(scan, &text))
		return false;
	return scan_is(&text, "us") || scan_is(&text, "requests") ||
	       scan_fail(scan, "x is in us or in requests");
}

static bool read_head_member(struct recording *rec, struct scan *scan, const struct scan_text *name)
{
	struct scan_text text;

	if (scan_is(name, "x"))
		return read_unit(scan);
	if (scan_is(name, "blocks"))
		return read_u32(scan, U32_NONE - 1, &rec->nr_blocks);
	if (scan_is(name, "cells"))
		return read_u32(scan, RECORDING_MAX_CELLS, &rec->nr_cells);
	if (scan_is(name, "columns"))
		return !rec->nr_columns ? read_columns(rec, scan) :
					  scan_fail(scan, "columns, a second time");
	if (scan_is(name, "source") || scan_is(name, "trace") || scan_is(name, "purpose") ||
	    scan_is(name, "owner"))
		return scan_string(scan, &text);
	return scan_value(scan);
}

static bool read_head(struct recording *rec, struct scan *scan)
{
	struct scan_text name;
	u64 version;

	if (!scan_number(scan, UINT64_MAX, &version))
		return false;
	if (version != RECORDER_VERSION)
		return scan_fail(scan, "a version of the format that this program does not know");
	while (scan_if(scan, ','))
		if (!scan_name(scan, &name) || !read_head_member(rec, scan, &name))
			return false;
	if (rec->nr_cells > rec->nr_blocks)
		return scan_fail(scan, "more cells than blocks");
	rec->kind = RECORDING_STATES;
	return scan_take(scan, '}') && scan_done(scan);
}

/* ---- a moment ---- */

static bool read_values(struct recording *rec, struct scan *scan)
{
	u32 nr = 0;
	u64 value;

	if (!scan_take(scan, '['))
		return false;
	if (scan_if(scan, ']'))
		return !rec->nr_columns || scan_fail(scan, "not as many values as columns");
	do {
		if (!scan_number(scan, UINT64_MAX, &value))
			return false;
		nr++;
	} while (scan_if(scan, ','));
	if (nr != rec->nr_columns)
		return scan_fail(scan, "not as many values as columns");
	return scan_take(scan, ']');
}

/* Digits and nothing else: what is behind them is a state, perhaps a point. */
static bool read_digits(struct scan *map, u32 max, u32 *value)
{
	u64 v = 0;

	if (map->at == map->end || *map->at < '0' || *map->at > '9')
		return false;
	for (; map->at < map->end && *map->at >= '0' && *map->at <= '9'; map->at++) {
		v = v * 10 + (u64)(*map->at - '0');
		if (v > max)
			return false;
	}
	*value = (u32)v;
	return true;
}

static bool read_run(const struct recording *rec, struct scan *map, u32 left, u32 *nr)
{
	char state;
	u32 owner;

	if (!read_digits(map, left, nr))
		return scan_fail(map, "a run without a length, or longer than what is left of the map");
	state = map->at < map->end ? *map->at++ : '\0';
	if (!*nr)
		return scan_fail(map, "a run of no cells");
	if (state == '=')
		return rec->nr_samples || scan_fail(map, "the first picture cannot be as the one before");
	if (!state || !strchr(".acpsmx", state))
		return scan_fail(map, "a state that is none of .acpsmx=");
	if (map->at < map->end && *map->at != ' ')
		return read_digits(map, RECORDER_MAX_OWNER, &owner) ||
		       scan_fail(map, "an owner that is no number, or too large");
	return true;
}

static bool read_map(const struct recording *rec, struct scan *scan)
{
	struct scan_text text;
	struct scan map = { 0 };
	u32 left = rec->nr_cells, nr = 0;

	if (!scan_string(scan, &text))
		return false;
	map = (struct scan){ .at = text.at, .end = text.at + text.bytes };
	while (map.at < map.end) {
		if (!read_run(rec, &map, left, &nr))
			return scan_fail(scan, map.why);
		left -= nr;
		if (map.at < map.end && *map.at++ != ' ')
			return scan_fail(scan, "runs of a map have one space between them");
	}
	return !left || scan_fail(scan, "a map that is too short");
}

static bool read_sample(struct recording *rec, struct scan *scan)
{
	bool has_values = false, has_map = false;
	struct scan_text name;
	u64 x;

	if (!scan_number(scan, UINT64_MAX, &x))
		return false;
	if (x < rec->last_x)
		return scan_fail(scan, "x goes back");
	while (scan_if(scan, ',')) {
		if (!scan_name(scan, &name))
			return false;
		if (scan_is(&name, "v") && !has_values)
			has_values = read_values(rec, scan);
		else if (scan_is(&name, "map") && !has_map)
			has_map = read_map(rec, scan);
		else
			return scan_fail(scan, "a moment has x, v and map, each once");
		if (scan->why)
			return false;
	}
	if (!has_values || has_map != (rec->nr_cells > 0))
		return scan_fail(scan, "a moment needs v, and map if there are cells");
	rec->last_x = x;
	rec->nr_samples++;
	return scan_take(scan, '}') && scan_done(scan);
}

/* ---- other lines ---- */

static bool read_rest(struct scan *scan)
{
	struct scan_text name;

	while (scan_if(scan, ','))
		if (!scan_name(scan, &name) || !scan_value(scan))
			return false;
	return scan_take(scan, '}') && scan_done(scan);
}

/* [[limit, count], ...], limits rising */
static bool read_buckets(struct scan *scan)
{
	u64 limit, count, last = 0;
	bool first = true;

	if (!scan_take(scan, '['))
		return false;
	if (scan_if(scan, ']'))
		return true;
	do {
		if (!scan_take(scan, '[') || !scan_number(scan, UINT64_MAX, &limit) ||
		    !scan_take(scan, ',') || !scan_number(scan, UINT64_MAX, &count) ||
		    !scan_take(scan, ']'))
			return false;
		if (!first && limit <= last)
			return scan_fail(scan, "buckets that do not rise");
		last = limit;
		first = false;
	} while (scan_if(scan, ','));
	return scan_take(scan, ']');
}

static bool read_latency(struct scan *scan)
{
	struct scan_text text, name;
	bool has_buckets = false;

	if (!scan_string(scan, &text))
		return false;
	while (scan_if(scan, ',')) {
		if (!scan_name(scan, &name))
			return false;
		if (!scan_is(&name, "buckets")) {
			if (!scan_value(scan))
				return false;
			continue;
		}
		if (!read_buckets(scan))
			return false;
		has_buckets = true;
	}
	return (has_buckets || scan_fail(scan, "a latency without buckets")) &&
	       scan_take(scan, '}') && scan_done(scan);
}

static bool read_owner(struct scan *scan)
{
	struct scan_text name;
	u32 owner;

	return read_u32(scan, RECORDER_MAX_OWNER, &owner) && scan_take(scan, ',') && scan_name(scan, &name) &&
	       (scan_is(&name, "name") || scan_fail(scan, "an owner has a name")) &&
	       scan_string(scan, &name) && scan_take(scan, '}') && scan_done(scan);
}

static bool read_results(struct scan *scan)
{
	if (scan_peek(scan) != '{')
		return scan_fail(scan, "results are an object");
	return scan_value(scan) && read_rest(scan);
}

static bool read_end(struct recording *rec, struct scan *scan)
{
	u64 nr;

	if (!scan_number(scan, UINT64_MAX, &nr))
		return false;
	if (nr != rec->nr_samples)
		return scan_fail(scan, "not as many moments as the last line says");
	rec->ended = true;
	return read_rest(scan);
}

static bool read_line(struct recording *rec, struct scan *scan, const struct scan_text *name)
{
	if (rec->ended)
		return scan_fail(scan, "there is more behind the end");
	if (scan_is(name, "x"))
		return read_sample(rec, scan);
	if (scan_is(name, "owner"))
		return read_owner(scan);
	if (scan_is(name, "latency"))
		return read_latency(scan);
	if (scan_is(name, "results"))
		return read_results(scan);
	if (scan_is(name, "end"))
		return read_end(rec, scan);
	return scan_fail(scan, "a line of none of the known kinds");
}

/* ---- a comparison: what compare --json says of each run ---- */

enum { HAS_TRACE = 1, HAS_POLICY = 2, HAS_BLOCKS = 4, HAS_ACCESSES = 8, HAS_HITS = 16, HAS_ALL = 31 };

static bool read_run_member(struct scan *scan, const struct scan_text *name, unsigned int *has)
{
	struct scan_text text;
	u64 value;

	if (scan_is(name, "trace") || scan_is(name, "policy")) {
		*has |= scan_is(name, "trace") ? HAS_TRACE : HAS_POLICY;
		return scan_string(scan, &text);
	}
	if (scan_is(name, "n") || scan_is(name, "hits") || scan_is(name, "prompt_blocks")) {
		*has |= scan_is(name, "n") ? HAS_BLOCKS : scan_is(name, "hits") ? HAS_HITS : HAS_ACCESSES;
		return scan_number(scan, UINT64_MAX, &value);
	}
	return scan_value(scan);
}

static bool read_run_of(struct recording *rec, struct scan *scan, struct scan_text *name)
{
	unsigned int has = 0;

	for (;;) {
		if (!read_run_member(scan, name, &has))
			return false;
		if (!scan_if(scan, ','))
			break;
		if (!scan_name(scan, name))
			return false;
	}
	if (has != HAS_ALL)
		return scan_fail(scan, "neither a recording nor a run of compare (trace, policy, n, hits, "
				 "prompt_blocks)");
	rec->kind = RECORDING_COMPARISON;
	rec->nr_rows++;
	return scan_take(scan, '}') && scan_done(scan);
}

/* ---- the whole ---- */

static bool read_any(struct recording *rec, struct scan *scan)
{
	struct scan_text name;

	if (!scan_take(scan, '{') || !scan_name(scan, &name))
		return false;
	if (rec->kind == RECORDING_STATES)
		return read_line(rec, scan, &name);
	if (rec->kind == RECORDING_COMPARISON)
		return read_run_of(rec, scan, &name);
	if (scan_is(&name, "kvmm_recording"))
		return read_head(rec, scan);
	return read_run_of(rec, scan, &name);
}

int recording_line(struct recording *rec, const char *text, size_t bytes)
{
	struct scan scan = { .at = text, .end = text + bytes };

	rec->line++;
	if (bytes > RECORDING_MAX_LINE)
		scan_fail(&scan, "a line of more than a megabyte");
	else if (read_any(rec, &scan))
		return 0;
	snprintf(rec->why, sizeof(rec->why), "%s (at byte %zu)", scan.why,
		 (size_t)(scan.at - text) + 1);
	return -EINVAL;
}

int recording_finish(struct recording *rec)
{
	if (rec->kind != RECORDING_UNKNOWN)
		return 0;
	rec->line = 1;
	snprintf(rec->why, sizeof(rec->why), "there is nothing in it");
	return -EINVAL;
}

/*
 * The next line into @text, of which one byte more is taken than may be: then it is too long.
 * *@whole: its end is there. Return: is there one?
 */
static bool take_line(FILE *in, char *text, size_t *bytes, bool *whole)
{
	size_t n = 0;
	int c;

	while ((c = getc_unlocked(in)) != EOF && c != '\n') {
		text[n++] = (char)c;
		if (n > RECORDING_MAX_LINE)
			break;
	}
	*bytes = n;
	*whole = c != EOF;
	return n || c != EOF;
}

/* Whoever wrote it was stopped in the middle of a line. */
static bool is_cut_off(const struct recording *rec, bool whole)
{
	return !whole && rec->kind == RECORDING_STATES && rec->line > 1 && !rec->ended;
}

int recording_read(struct recording *rec, FILE *in, recording_fn fn, void *arg)
{
	char *text = malloc(RECORDING_MAX_LINE + 1);
	bool whole = true;
	size_t bytes;
	int err = 0;

	*rec = (struct recording){ .kind = RECORDING_UNKNOWN };
	if (!text)
		return -ENOMEM;
	while (!err && take_line(in, text, &bytes, &whole)) {
		err = recording_line(rec, text, bytes);
		if (err && is_cut_off(rec, whole)) {
			err = 0;
			break;
		}
		if (!err)
			err = fn(arg, rec, text, bytes);
	}
	free(text);
	if (!err && ferror(in))
		return -EIO;
	return err ? err : recording_finish(rec);
}
