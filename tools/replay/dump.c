// SPDX-License-Identifier: Apache-2.0
/* Mode generate: a made-up workload as a trace that this tool and others can read. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "replay.h"

static void print_request(const struct trace *trace, const struct trace_request *req)
{
	printf("{\"timestamp\": %" PRIu64 ", \"input_length\": %u, \"output_length\": %u, "
	       "\"hash_ids\": [", req->arrival_us / 1000, req->input, req->output);
	for (u32 i = 0; i < req->nr_ids; i++)
		printf("%s%" PRIu64, i ? ", " : "", trace_id(trace, req, i));
	puts("]}");
}

enum exit_code run_generate(const struct options *opt)
{
	struct trace trace = { 0 };
	enum exit_code code;

	if (!opt->nr_sources) {
		workload_print_help();
		return EXIT_GOOD;
	}
	code = load(&opt->source[0], &trace);
	for (u32 q = 0; !code && q < trace.nr; q++)
		print_request(&trace, &trace.req[q]);
	trace_close(&trace);
	return finish_output(code);
}
