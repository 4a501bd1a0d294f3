// SPDX-License-Identifier: Apache-2.0
/* Traces are read, and what is wrong with anything is said: for all tools that replay. */
#define _GNU_SOURCE	/* program_invocation_short_name */
#include <stdarg.h>
#include <stdio.h>

#include <kvmm/types.h>

#include "../plain.h"
#include "live.h"

static enum exit_code load_file(const char *path, struct trace *trace)
{
	bool is_stdin = !strcmp(path, "-");
	FILE *in = is_stdin ? stdin : fopen(path, "re");
	struct trace_error error;
	int err;

	if (!in)
		return complain(EXIT_INPUT, "%s: %s", path, strerror(errno));
	err = trace_read(trace, in, &error);
	if (!is_stdin)
		fclose(in);
	if (err)
		return complain(EXIT_INPUT, "%s:%llu: %s", is_stdin ? "<stdin>" : path,
				(unsigned long long)error.line, error.what);
	trace_set_name(trace, is_stdin ? "stdin" : path);
	return EXIT_GOOD;
}

enum exit_code load(const struct source *source, struct trace *trace)
{
	int err;

	if (source->path)
		return load_file(source->path, trace);
	err = workload_generate(trace, &source->work);
	if (err == -E2BIG)
		return complain(EXIT_INPUT, "%s: more than %u requests or %u blocks",
				source->spec ? source->spec : "chat", TRACE_MAX_REQUESTS,
				TRACE_MAX_IDS);
	if (source->spec)
		snprintf(trace->name, sizeof(trace->name), "%s", source->spec);
	make_plain_word(trace->name);
	return EXIT_GOOD;
}
