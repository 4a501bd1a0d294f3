// SPDX-License-Identifier: Apache-2.0
/* Any bytes as a trace. What is accepted is within the limits; what is refused is explained. */
#include "tests/fuzz/require.h"
#include "tools/replay/maps.c"
#include "tools/replay/trace.c"
#include "tools/report/scan.c"
#include "tools/plain.c"
#include "tools/tool.c"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	FILE *in = fmemopen((void *)data, bytes, "r");
	struct trace_error error;
	struct trace trace;
	int err;

	require(in);
	err = trace_read(&trace, in, &error);
	fclose(in);
	if (!err)
		check_trace(&trace);
	else
		require(error.line > 0 && error.what[0] && !trace.req && !trace.ids);
	trace_close(&trace);
	return 0;
}
