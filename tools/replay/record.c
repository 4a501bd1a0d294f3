// SPDX-License-Identifier: Apache-2.0
/* What replays put into their recordings. */
#include <time.h>

#include "../json.h"
#include "record.h"

static const struct column {
	const char *name;
	size_t offset;
	unsigned int in;
} columns[] = {
#define COLUMN(name, in)	{ #name, offsetof(struct sample, name), in },
	RECORD_NUMBERS(COLUMN)
};

/* ---- beginning and end ---- */

int record_open(struct record *record, const struct options *opt, const struct trace *trace)
{
	record->opt = opt;
	record->trace = trace;
	record->out = opt->record_path ? fopen(opt->record_path, "w+") : tmpfile();
	return record->out ? 0 : -errno;
}

/* Where nobody says how often, so that there will be about RECORD_MOMENTS. */
static u64 every(const struct record *record, const char *x_unit, u64 span)
{
	u64 ms = record->opt->record_every_ms;

	if (!ms)
		return max_u64(1, span / RECORD_MOMENTS);
	return strcmp(x_unit, "us") ? max_u64(1, ms / 1000) : ms * 1000;
}

static int begin(struct record *record, const char *x_unit, u64 span, u32 nr_blocks)
{
	const char *names[ARRAY_SIZE(columns)];
	struct recorder_attr attr = {
		.out		= record->out,
		.trace		= record->trace->name,
		.purpose	= record->opt->mode->purpose,
		.x_unit		= x_unit,
		.owner		= "request",
		.columns	= names,
		.nr_blocks	= nr_blocks,
		.every		= every(record, x_unit, span),
	};
	char source[64];

	snprintf(source, sizeof(source), "kvmm-replay %s", record->opt->mode->name);
	attr.source = source;
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
		if (columns[i].in & record->columns)
			names[attr.nr_columns++] = columns[i].name;
	return recorder_begin(&record->rec, &attr);
}

int record_begin(struct record *record, const char *x_unit, u64 span, unsigned int wanted)
{
	int err;

	if (!record)
		return 0;
	record->columns = wanted;
	record->close_at = record->trace->nr / 2;
	record->close_left = RECORD_CLOSE_UP;
	err = begin(record, x_unit, span, record->opt->nr_blocks);
	record->begun = !err;
	return err;
}

static void print_lines(const struct line *line, u32 nr, FILE *out)
{
	putc('[', out);
	for (u32 i = 0; i < nr; i++) {
		fputs(i ? ",[" : "[", out);
		json_string(line[i].label, out);
		putc(',', out);
		json_string(line[i].text, out);
		putc(']', out);
	}
	putc(']', out);
}

static void put_results(struct record *record, const struct results *results)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	if (!out)
		return;
	fputs("{\"results\":", out);
	results_print_members(results, out);
	fputs(",\"tiles\":", out);
	print_lines(results->tile, results->nr_tiles, out);
	fputs(",\"lines\":", out);
	print_lines(results->line, results->nr_lines, out);
	putc('}', out);
	fclose(out);
	if (text)
		recorder_line(&record->rec, text);
	free(text);
}

static void put_latencies(struct record *record)
{
	static const struct {
		const char *name;
		const char *how;
		const char *unit;
	} kinds[RECORD_NR_LATENCIES] = {
		[RECORD_WAIT]	= { "requests waited for admission", "simulated", "us" },
		[RECORD_STALL]	= { "requests waited for what they load", "simulated", "us" },
		[RECORD_CALL]	= { "calls of the library for a request's blocks", "measured", "ns" },
	};

	for (size_t i = 0; i < RECORD_NR_LATENCIES; i++)
		if (record->latency[i].nr)
			recorder_latency(&record->rec, kinds[i].name, kinds[i].how, kinds[i].unit,
					 &record->latency[i]);
}

int record_finish(struct record *record, const struct results *results)
{
	int err = 0;

	if (!record->begun)
		err = begin(record, "requests", 0, 0);
	if (err)
		return err;
	record->begun = false;
	put_latencies(record);
	put_results(record, results);
	return recorder_end(&record->rec);
}

void record_close(struct record *record)
{
	if (record->begun)
		recorder_end(&record->rec);
	if (record->out)
		fclose(record->out);
}

/* ---- moments ---- */

static bool is_close(const struct record *record, u32 q)
{
	return q >= record->close_at && record->close_left;
}

bool record_due(const struct record *record, u64 x, u32 q)
{
	return record && (recorder_due(&record->rec, x) || is_close(record, q));
}

void record_add(struct record *record, u64 x, u32 q, struct sample *sample)
{
	u64 values[ARRAY_SIZE(columns)], next = record->rec.next_x;
	bool due = recorder_due(&record->rec, x);
	u32 nr = 0;

	sample->wait_p50 = latency_quantile(&record->recent, 500);
	sample->wait_p99 = latency_quantile(&record->recent, 990);
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
		if (columns[i].in & record->columns)
			memcpy(&values[nr++], (const char *)sample + columns[i].offset, sizeof(u64));
	recorder_add(&record->rec, x, values);
	record->close_left -= is_close(record, q);
	if (!due)
		record->rec.next_x = next;	/* the others come when they would have come */
	memset(&record->recent, 0, sizeof(record->recent));
}

/* ---- latencies ---- */

void record_latency(struct record *record, enum record_latency what, u64 value)
{
	if (!record)
		return;
	latency_count(&record->latency[what], value);
	if (what == RECORD_WAIT)
		latency_count(&record->recent, value);
}

u64 record_call_begin(const struct record *record)
{
	struct timespec ts;

	if (!record || !record->opt->record_calls)
		return 0;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (u64)ts.tv_sec * 1000000000 + (u64)ts.tv_nsec;
}

void record_call_end(struct record *record, u64 since)
{
	if (since)
		record_latency(record, RECORD_CALL, record_call_begin(record) - since);
}

u64 record_span(const struct trace *trace)
{
	return trace->nr ? trace->req[trace->nr - 1].arrival_us : 0;
}
