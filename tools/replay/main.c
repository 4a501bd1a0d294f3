// SPDX-License-Identifier: Apache-2.0
/* kvmm-replay: read a trace, replay it, say what was found. */
#include <stdio.h>
#include <string.h>

#include <kvmm/types.h>

#include "ages.h"
#include "record.h"
#include "report.h"
#include "shape.h"

static enum exit_code write_record(const struct run *run)
{
	const struct options *opt = run->opt;
	int err = record_finish(run->record, run->results);

	if (err)
		return complain(EXIT_INPUT, "%s: %s", opt->record_path ? opt->record_path : "recording",
				strerror(-err));
	if (opt->report_path)
		err = report_write(run->record->out, run->trace->name, opt->report_path);
	return err ? complain(EXIT_INPUT, "%s: %s", opt->report_path, strerror(-err)) : EXIT_GOOD;
}

static enum exit_code print(const struct run *run)
{
	const struct options *opt = run->opt;
	enum exit_code code = run->record ? write_record(run) : EXIT_GOOD;

	if (code)
		return code;
	if (opt->json)
		results_print_json(run->results, stdout);
	else
		results_print_text(run->results, stdout);
	return finish_output(EXIT_GOOD);
}

static enum exit_code replay(const struct options *opt, struct trace *trace)
{
	bool wanted = opt->report_path || opt->record_path;
	struct results results = { 0 };
	struct record record = { 0 };
	struct ages ages = { .nr = 0 };
	struct run run = {
		.opt		= opt,
		.trace		= trace,
		.results	= &results,
		.record		= wanted ? &record : NULL,
		.ages		= opt->ages ? &ages : NULL,
	};
	enum exit_code code = EXIT_GOOD;
	int err = wanted ? record_open(&record, opt, trace) : 0;

	if (err)
		code = complain(EXIT_INPUT, "%s: %s", opt->record_path ? opt->record_path : "recording",
				strerror(-err));
	if (!code)
		code = opt->mode->run(&run);
	if (!code)
		code = print(&run);
	record_close(&record);
	results_exit(&results);
	return code;
}

static enum exit_code load_and_replay(const struct options *opt)
{
	struct trace trace = { 0 };
	enum exit_code code = load(&opt->source[0], &trace);

	if (!code)
		code = shape_check(opt, &trace);
	if (!code)
		code = replay(opt, &trace);
	trace_close(&trace);
	return code;
}

int main(int argc, char **argv)
{
	struct options opt;

	options_parse(&opt, argc, argv);
	return opt.mode->whole ? opt.mode->whole(&opt) : load_and_replay(&opt);
}
