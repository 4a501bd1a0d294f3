// SPDX-License-Identifier: Apache-2.0
/* Traces as files, in the formats that kvmm-replay and others read. */
#include <inttypes.h>

#include "trace.h"

#define US_PER_DAY	86400000000ull

const char *const trace_kinds[NR_TRACE_KINDS + 1] = { "mooncake", "azure", "lengths", "bailian", NULL };

/* Readers know powers of two by the numbers of a prompt; others are said. */
static void write_ids(const struct trace *trace, const struct trace_request *req, FILE *out)
{
	if (trace->id_tokens & (trace->id_tokens - 1) || trace->id_tokens > TRACE_MAX_TOLD_TOKENS)
		fprintf(out, "\"block_tokens\": %u, ", trace->id_tokens);
	fputs("\"hash_ids\": [", out);
	for (u32 i = 0; i < req->nr_ids; i++)
		fprintf(out, "%s%" PRIu64, i ? ", " : "", (uint64_t)trace_id(trace, req, i));
	fputs("]}\n", out);
}

static void write_mooncake(const struct trace *trace, const struct trace_request *req, FILE *out)
{
	fprintf(out, "{\"timestamp\": %" PRIu64 ", \"input_length\": %u, \"output_length\": %u, ",
		(uint64_t)(req->arrival_us / 1000), req->input, req->output);
	write_ids(trace, req, out);
}

/* Each request is a chat of its own: which of them go on with another one is not known. */
static void write_bailian(const struct trace *trace, const struct trace_request *req, FILE *out)
{
	fprintf(out, "{\"chat_id\": %u, \"parent_chat_id\": -1, \"timestamp\": %" PRIu64 ".%06u, "
		"\"input_length\": %u, \"output_length\": %u, \"type\": \"text\", \"turn\": 1, ",
		(u32)(req - trace->req), (uint64_t)(req->arrival_us / 1000000),
		(u32)(req->arrival_us % 1000000), req->input, req->output);
	write_ids(trace, req, out);
}

/* Days since 1970 as a date, by 400-year cycles that begin in March. */
static void date_of(u64 days, u32 *year, u32 *month, u32 *day)
{
	u64 z = days + 719468, era = z / 146097, of_era = z % 146097;
	u64 of_year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	u64 of_day = of_era - (365 * of_year + of_year / 4 - of_year / 100);
	u64 shifted = (5 * of_day + 2) / 153;

	*day = (u32)(of_day - (153 * shifted + 2) / 5 + 1);
	*month = (u32)(shifted < 10 ? shifted + 3 : shifted - 9);
	*year = (u32)(of_year + era * 400 + (*month <= 2));
}

static void write_azure(const struct trace *trace, const struct trace_request *req, FILE *out)
{
	u64 us = req->arrival_us % US_PER_DAY, seconds = us / 1000000;
	u32 year, month, day;

	(void)trace;
	date_of(req->arrival_us / US_PER_DAY, &year, &month, &day);
	fprintf(out, "%04u-%02u-%02u %02u:%02u:%02u.%06u0,%u,%u\n", year, month, day,
		(u32)(seconds / 3600), (u32)(seconds / 60 % 60), (u32)(seconds % 60),
		(u32)(us % 1000000), req->input, req->output);
}

static void write_lengths(const struct trace *trace, const struct trace_request *req, FILE *out)
{
	(void)trace;
	fprintf(out, "%u,%u\n", req->input, req->output);
}

static const struct {
	const char *head;
	void (*write)(const struct trace *trace, const struct trace_request *req, FILE *out);
} writers[NR_TRACE_KINDS] = {
	[TRACE_MOONCAKE] = { "", write_mooncake },
	[TRACE_AZURE] = { "TIMESTAMP,ContextTokens,GeneratedTokens\n", write_azure },
	[TRACE_BAILIAN] = { "", write_bailian },
	[TRACE_LENGTHS] = { "num_prefill_tokens,num_decode_tokens\n", write_lengths },
};

int trace_write(const struct trace *trace, enum trace_kind kind, FILE *out)
{
	fputs(writers[kind].head, out);
	for (u32 q = 0; q < trace->nr; q++)
		writers[kind].write(trace, &trace->req[q], out);
	return fflush(out) || ferror(out) ? -EIO : 0;
}
