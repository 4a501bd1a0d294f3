// SPDX-License-Identifier: Apache-2.0
/* kvmm-replay: read a trace, replay it, say what was found; and the modes that need no pool. */
#include <inttypes.h>
#include <stdio.h>

#include <kvmm/types.h>

#include "../report/page.h"
#include "ages.h"
#include "record.h"
#include "replay.h"
#include "shape.h"

int report_write(FILE *in, const char *name, const char *path)
{
	struct recording recording;
	struct page page;
	int err = page_begin(&page, path);

	if (err)
		return err;
	rewind(in);
	return page_finish(&page, page_add(&page, in, name, &recording));
}

/* ---- mode waste: tokens of room that the last block of each request leaves empty ---- */

enum exit_code run_waste(const struct run *run)
{
	struct results *results = run->results;
	u64 blocks = 0, tokens = 0, waste;

	for (u32 q = 0; q < run->trace->nr; q++) {
		u64 n = (u64)run->trace->req[q].input + run->trace->req[q].output;

		blocks += blocks_of(run->opt, n);
		tokens += n;
	}
	waste = blocks * run->opt->block_tokens - tokens;

	results_str(results, "trace", run->trace->name);
	results_str(results, "kind", "waste");
	results_num(results, "bs", run->opt->block_tokens);
	results_num(results, "requests", run->trace->nr);
	results_num(results, "blocks", blocks);
	results_num(results, "tokens", tokens);
	results_num(results, "waste", waste);

	results_tile(results, "of the room is empty", "%.2f %%",
		     100 * share(waste, (u128)blocks * run->opt->block_tokens));
	results_say(results, "trace", "%s, %s requests", run->trace->name, grouped(run->trace->nr));
	results_say(results, "blocks", "%s of %u tokens", grouped(blocks), run->opt->block_tokens);
	results_say(results, "empty", "%s of %s tokens: %.2f %%", grouped(waste),
		    grouped(blocks * run->opt->block_tokens),
		    100 * share(waste, (u128)blocks * run->opt->block_tokens));
	return EXIT_GOOD;
}

/* ---- mode generate: a made-up workload as a trace that this tool and others can read ---- */

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

/* ---- the others ---- */

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
