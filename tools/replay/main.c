// SPDX-License-Identifier: Apache-2.0
/* kvmm-replay: read a trace, replay it, say what was found. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <kvmm/types.h>

#include "progress.h"
#include "report.h"

static void print_prefix(void)
{
	progress_stop();
	fputs("kvmm-replay: ", stderr);
}

enum exit_code complain(enum exit_code code, const char *format, ...)
{
	va_list args;

	print_prefix();
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	putc('\n', stderr);
	return code;
}

enum exit_code complain_of(int err, const char *format, ...)
{
	va_list args;

	print_prefix();
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, ": %s\n", kvmm_strerror(err));
	return err == -ENOENT || err == -EINVAL ? EXIT_INPUT : EXIT_WRONG;
}

static enum exit_code load_file(const char *path, struct trace *trace)
{
	bool is_stdin = !strcmp(path, "-");
	int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	struct trace_error error;
	int err;

	if (fd < 0)
		return complain(EXIT_INPUT, "%s: %s", path, strerror(errno));
	err = trace_read(trace, fd, &error);
	if (!is_stdin)
		close(fd);
	if (err)
		return complain(EXIT_INPUT, "%s:%llu: %s", is_stdin ? "<stdin>" : path,
				(unsigned long long)error.line, error.what);
	trace_set_name(trace, is_stdin ? "stdin" : path);
	return EXIT_GOOD;
}

static enum exit_code load(const struct options *opt, struct trace *trace)
{
	if (opt->trace_path)
		return load_file(opt->trace_path, trace);
	if (trace_generate(trace, opt->nr_requests, opt->seed))
		return complain(EXIT_WRONG, "no memory for %u requests", opt->nr_requests);
	return EXIT_GOOD;
}

static enum exit_code print(const struct run *run)
{
	const struct options *opt = run->opt;
	int err = run->record ? report_write(run, opt->report_path) : 0;

	if (err)
		return complain(EXIT_INPUT, "%s: %s", opt->report_path, strerror(-err));
	if (opt->json)
		results_print_json(run->results, stdout);
	else
		results_print_text(run->results, stdout);
	return fflush(stdout) ? complain(EXIT_WRONG, "standard output: %s", strerror(errno)) :
				EXIT_GOOD;
}

static enum exit_code replay(const struct options *opt, struct trace *trace)
{
	struct results results = { 0 };
	struct record record = { 0 };
	struct run run = {
		.opt		= opt,
		.trace		= trace,
		.results	= &results,
		.record		= opt->report_path ? &record : NULL,
	};
	enum exit_code code = opt->mode->run(&run);

	if (!code)
		code = print(&run);
	record_exit(&record);
	results_exit(&results);
	return code;
}

int main(int argc, char **argv)
{
	struct trace trace = { 0 };
	struct options opt;
	enum exit_code code;

	options_parse(&opt, argc, argv);
	code = load(&opt, &trace);
	if (!code)
		code = replay(&opt, &trace);
	trace_close(&trace);
	return code;
}
