/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Request traces: read from a file; workload.h makes them up.
 *
 * Whatever the bytes are, a parser either fills in a trace whose numbers all lie within the limits
 * below, so that nothing computed from them overflows, or says which line is wrong.
 */
#ifndef REPLAY_TRACE_H
#define REPLAY_TRACE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

#define TRACE_ID_TOKENS		512u			/* behind one block number, unless a trace has others */
#define TRACE_MAX_ID_TOKENS	65536u			/* as many as a block of a pool may have */
#define TRACE_MAX_TOLD_TOKENS	1024u			/* a trace that does not say how many: powers of two */
#define TRACE_MAX_TOKENS	(1u << 24)		/* of a prompt, of an answer */
#define TRACE_MAX_REQUESTS	(1u << 24)
#define TRACE_MAX_IDS		(1u << 28)
#define TRACE_MAX_ID		((1ull << 53) - 1)	/* what any JSON reader keeps exact */
#define TRACE_MAX_MS		(1ull << 40)		/* 34 years */
#define TRACE_MAX_LINE		(1u << 24)		/* bytes, without the line end */
#define TRACE_MAX_EMPTY		(1u << 20)		/* lines in a row */

/**
 * struct trace_request - one request
 * @arrival_us: since the trace began; never decreases
 * @first_id: index in trace.ids; the first number itself where the trace names no blocks
 * @input, @output: tokens; @input is at least 1
 * @nr_ids: ceil(@input / trace.id_tokens)
 */
struct trace_request {
	u64 arrival_us;
	u64 first_id;
	u32 input;
	u32 output;
	u32 nr_ids;
};

/**
 * struct trace - requests in file order
 * @ids: block numbers of all requests; NULL if the trace names none: then every prompt is new
 * @id_tokens: behind one block number, which stands for all that is before it, too
 * @has_arrivals: arrival times are in the trace
 * @name: short name, made from the file's
 */
struct trace {
	struct trace_request *req;
	u64 *ids;
	size_t nr_ids;
	size_t cap_ids;
	u32 nr;
	u32 cap;
	u32 id_tokens;
	bool has_arrivals;
	char name[48];
};

/* What is wrong, and where. */
struct trace_error {
	u64 line;
	char what[120];
};

/** trace_read() - Return: 0; -EINVAL, -EIO: see @error. */
int trace_read(struct trace *trace, FILE *in, struct trace_error *error);

/** trace_set_name() - "conversation" for ".../conversation_trace.jsonl" and so on */
void trace_set_name(struct trace *trace, const char *path);

/** trace_close() - free what a trace holds; a zeroed one is fine */
void trace_close(struct trace *trace);

/* One more request, or id: 0, -E2BIG beyond the limits. */
int trace_add(struct trace *trace, const struct trace_request *req);
int trace_add_id(struct trace *trace, u64 id);

static inline u64 trace_id(const struct trace *trace, const struct trace_request *req, u32 i)
{
	return trace->ids ? trace->ids[req->first_id + i] : req->first_id + i;
}

#endif /* REPLAY_TRACE_H */
