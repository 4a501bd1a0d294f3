// SPDX-License-Identifier: Apache-2.0
/*
 * Any bytes as a trace. Both ways to read them must agree, and what they accept must be a trace
 * within the limits; what they refuse must be explained.
 */
#define _GNU_SOURCE	/* memfd_create() */
#include <sys/mman.h>
#include <unistd.h>

#include "tools/replay/maps.c"
#include "tools/replay/trace.c"
#include "tools/plain.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool holds)
{
	if (!holds)
		abort();
}

static void check_trace(const struct trace *trace)
{
	u64 last_us = 0, next_id = 0;

	require(trace->nr > 0 && trace->nr <= TRACE_MAX_REQUESTS);
	for (u32 q = 0; q < trace->nr; q++) {
		const struct trace_request *req = &trace->req[q];

		require(req->input > 0 && req->input <= TRACE_MAX_TOKENS);
		require(req->output <= TRACE_MAX_TOKENS);
		require(req->nr_ids == DIV_ROUND_UP(req->input, trace->id_tokens));
		require(req->first_id == next_id);
		require(req->arrival_us >= last_us && req->arrival_us <= TRACE_MAX_MS * 1000);
		for (u32 i = 0; trace->ids && i < req->nr_ids; i++)
			require(trace_id(trace, req, i) <= TRACE_MAX_ID);
		next_id += req->nr_ids;
		last_us = req->arrival_us;
	}
	require(!trace->ids || next_id == trace->nr_ids);
}

static bool is_same(const struct trace_request *a, const struct trace_request *b)
{
	return a->arrival_us == b->arrival_us && a->first_id == b->first_id &&
	       a->input == b->input && a->output == b->output && a->nr_ids == b->nr_ids;
}

static int read_as_file(struct trace *trace, const uint8_t *data, size_t bytes,
			struct trace_error *error)
{
	int fd = memfd_create("trace", 0), err;

	require(fd >= 0 && write(fd, data, bytes) == (ssize_t)bytes && !lseek(fd, 0, SEEK_SET));
	err = trace_read(trace, fd, error);
	close(fd);
	return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct trace_error error, error2;
	struct trace trace, trace2;
	int err = trace_parse(&trace, data, bytes, &error);
	int err2 = read_as_file(&trace2, data, bytes, &error2);

	require(err == err2);
	if (err) {
		require(error.line > 0 && error.what[0]);
		require(error.line == error2.line && !strcmp(error.what, error2.what));
		require(!trace.req && !trace.ids);
	} else {
		check_trace(&trace);
		require(trace.id_tokens == trace2.id_tokens);
		require(trace.nr == trace2.nr && trace.nr_ids == trace2.nr_ids);
		for (u32 q = 0; q < trace.nr; q++)
			require(is_same(&trace.req[q], &trace2.req[q]));
	}
	trace_close(&trace);
	trace_close(&trace2);
	return 0;
}
