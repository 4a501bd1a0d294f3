// SPDX-License-Identifier: Apache-2.0
/* kvmm-trace: traces for kvmm-replay, from what a running engine tells, or from other traces. */
#include <argp.h>
#include <string.h>
#include <unistd.h>

#include <kvmm/types.h>

#include "../client/options.h"
#include "../events/source.h"
#include "../tool.h"
#include "trace.h"

struct options {
	struct client_options client;
	bool converts;
	u32 from_lookups;
	const char *in;
	const char *out;
	u32 seconds;
	u32 nr_requests;
	u32 block_tokens;
	u32 kind;
	u32 nr_args;
};

static const char *const froms[] = { "requests", "lookups", NULL };

#define NUMBER(name, key, field, max, help) \
	ROW_NUMBER(name, key, "N", struct options, field, 1, max, help)

static const struct option_row rows[] = {
	ROW_HEAD(1, "record:"),
	CLIENT_SOCKET, CLIENT_POOL("the only one"),
	ROW_WORD("from", 0, "WHAT", struct options, from_lookups, froms,
		"requests: as the engine notes them; lookups: each lookup is a request, for engines that "
		"note none [requests]"),
	NUMBER("seconds", 0, seconds, 1u << 24, "Stop after so long"),
	NUMBER("requests", 0, nr_requests, TRACE_MAX_REQUESTS,
		"Stop after so many have ended; those that are under way then are written, too"),
	NUMBER("block-tokens", 't', block_tokens, TRACE_MAX_ID_TOKENS,
		"Tokens a block [as the events say]"),
	ROW_HEAD(2, "Both:"),
	ROW_WORD("to", 0, "FORMAT", struct options, kind, trace_kinds,
		"mooncake (JSONL), bailian (JSONL), azure (CSV), lengths (CSV) [mooncake]"),
	ROW_TEXT("output", 'o', "FILE", struct options, out, "Where the trace goes [standard output]"),
	ROW_FLAG("json", 'j', struct client_options, json,
		"Say what was done as a JSON object on standard output; needs -o"),
};

static const char doc[] =
	"Make traces that kvmm-replay reads: from the events of a running engine, or from other traces.\v"
	"record: without FILE, from a control socket, until --seconds, --requests, SIGINT, or the end of the "
	"engine; FILE is what kvmm-events record or kvmm-replay --events wrote, - standard input.\n"
	"convert: FILE is a trace in any format that kvmm-replay reads.\n"
	"\n"
	"A number in the trace stands for a block of the engine, so a replay with blocks of that size has the "
	"engine's hits.\n"
	"\n"
	"Examples:\n"
	"  kvmm-trace record --seconds 600 -o day.jsonl\n"
	"  kvmm-replay seq --block-tokens 16 --blocks 20000 day.jsonl\n"
	"  kvmm-replay seq --events run.events trace.jsonl && kvmm-trace record run.events -o again.jsonl\n"
	"  kvmm-trace convert --to lengths -o lengths.csv trace.jsonl\n"
	"\n"
	"Exit code: 0 good; 1 there was no engine, or nothing to be recorded, or writing failed; 2 bad usage "
	"or a bad file.";

static void add_arg(struct argp_state *state, void *base, const char *arg)
{
	static const char *const modes[] = { "record", "convert", NULL };
	struct options *opt = base;

	if (!opt->nr_args++)
		opt->converts = option_word(state, "mode", arg, modes);
	else if (opt->nr_args == 2)
		opt->in = arg;
	else
		bad_option(state, "more than one file");
}

static void check(struct argp_state *state, void *base)
{
	const struct options *opt = base;

	if (!opt->nr_args)
		bad_option(state, "record or convert?");
	if (opt->converts && !opt->in)
		bad_option(state, "convert: which trace?");
	if (opt->converts && (opt->client.socket || opt->client.pool || opt->seconds || opt->nr_requests ||
			      opt->block_tokens || opt->from_lookups))
		bad_option(state, "convert takes --to, -o and --json only");
	if (opt->in && opt->client.socket)
		bad_option(state, "--socket, or a file, not both");
	if (opt->client.json && !opt->out)
		bad_option(state, "--json: the trace needs a place of its own, by -o");
}

/* ---- record ---- */

static bool is_enough(const struct options *opt, const struct collect *collect)
{
	return source_is_stopped() || (opt->nr_requests && collect->nr_over >= opt->nr_requests);
}

/* An engine that ends, after it was there, ends the trace. */
static int record_all(const struct options *opt, struct source *source, struct collect *collect)
{
	const char *name = opt->in ? opt->in : source->client.path;
	struct kvmm_event event;
	enum source_answer answer;
	int err = 0;

	while (!is_enough(opt, collect)) {
		answer = source_next(source, &event);
		if (answer == SOURCE_ERROR && source->is_live && collect->nr)
			return EXIT_GOOD;
		if (answer == SOURCE_ERROR)
			return source->is_live ? complain(EXIT_WRONG, "%s", source->why) :
						 complain(EXIT_INPUT, "%s: %s", name, source->why);
		if (answer == SOURCE_EMPTY && (!source->is_live || !source_wait(source)))
			return EXIT_GOOD;
		if (answer == SOURCE_LOST)
			collect_gap(collect, source->nr_lost);
		else if (answer == SOURCE_EVENT)
			err = collect_event(collect, &event);
		if (err)
			return complain(err == -EBADMSG ? EXIT_INPUT : EXIT_WRONG, "%s: %s", name,
					kvmm_strerror(err));
	}
	return EXIT_GOOD;
}

static int open_source(const struct options *opt, struct source *source)
{
	source_stop_after(opt->seconds);
	if (opt->in) {
		if (source_open_file(source, opt->in))
			return complain(EXIT_INPUT, "%s: %s", opt->in, source->why);
		return EXIT_GOOD;
	}
	source_catch_signals();
	if (source_open_socket(source, opt->client.socket, opt->client.pool,
			       opt->from_lookups ? "lookups" : "requests"))
		return complain(EXIT_WRONG, "%s", source->why);
	return EXIT_GOOD;
}

static int fold_all(struct collect *collect, struct trace *trace, struct folded *folded)
{
	int err = collect->nr ? fold_requests(collect, trace, folded) : 0;

	if (err == -EINVAL && !collect->block_tokens)
		return complain(EXIT_INPUT, "record: no block was stored: --block-tokens?");
	if (err == -EINVAL)
		return complain(EXIT_INPUT, "record: blocks of %u tokens: more than %u",
				collect->block_tokens, TRACE_MAX_ID_TOKENS);
	if (err)
		return complain(EXIT_WRONG, "record: %s", kvmm_strerror(err));
	if (!trace->nr)
		return complain(EXIT_WRONG, "record: there was no request; does the engine note "
				"them? --from lookups does without");
	return EXIT_GOOD;
}

static int record(const struct options *opt, struct trace *trace, struct folded *folded,
		  u64 *nr_lost)
{
	struct collect collect;
	struct source source;
	int code = open_source(opt, &source);

	collect_init(&collect, opt->from_lookups, opt->block_tokens);
	if (!code)
		code = record_all(opt, &source, &collect);
	if (!code)
		code = fold_all(&collect, trace, folded);
	*nr_lost = collect.nr_lost;
	collect_exit(&collect);
	source_close(&source);
	return code;
}

/* ---- convert ---- */

static int convert(const struct options *opt, struct trace *trace, struct folded *folded)
{
	FILE *in = strcmp(opt->in, "-") ? fopen(opt->in, "re") : stdin;
	struct trace_error error;
	int err;

	if (!in)
		return complain(EXIT_INPUT, "%s: %s", opt->in, strerror(errno));
	err = trace_read(trace, in, &error);
	if (in != stdin)
		fclose(in);
	if (err)
		return complain(err == -ENOMEM ? EXIT_WRONG : EXIT_INPUT, "%s:%llu: %s", opt->in,
				(unsigned long long)error.line, error.what);
	for (u32 q = 0; q < trace->nr; q++)
		folded->nr_rounded += trace->req[q].arrival_us % 1000 != 0;
	return EXIT_GOOD;
}

/* ---- both ---- */

static int write_out(const struct options *opt, const struct trace *trace)
{
	FILE *out = opt->out ? fopen(opt->out, "w") : stdout;
	int err;

	if (!out)
		return complain(EXIT_INPUT, "%s: %s", opt->out, strerror(errno));
	err = trace_write(trace, opt->kind, out);
	if (opt->out && fclose(out))
		err = -EIO;
	return err ? complain(EXIT_WRONG, "%s: %s", opt->out ? opt->out : "standard output",
			      strerror(errno)) : EXIT_GOOD;
}

/* What could not be kept is said. Only traces in JSONL are in milliseconds. */
static void report(const struct options *opt, const struct trace *trace, struct folded *folded,
		   u64 nr_lost)
{
	u64 input = 0, output = 0;

	for (u32 q = 0; q < trace->nr; q++) {
		input += trace->req[q].input;
		output += trace->req[q].output;
	}
	if (opt->kind != TRACE_MOONCAKE)
		folded->nr_rounded = 0;
	fprintf(opt->client.json ? stdout : stderr, opt->client.json ?
		"{\"requests\": %u, \"input_tokens\": %llu, \"output_tokens\": %llu, "
		"\"lost_events\": %llu, \"broken\": %u, \"odd\": %u, "
		"\"rounded\": %u, \"format\": \"%s\"}\n" :
		"%u requests, %llu + %llu tokens; %llu events lost, left out: %u broken, %u odd; "
		"%u arrivals rounded; %s\n",
		trace->nr, (unsigned long long)input, (unsigned long long)output,
		(unsigned long long)nr_lost, folded->nr_broken, folded->nr_odd,
		folded->nr_rounded, trace_kinds[opt->kind]);
}

int main(int argc, char **argv)
{
	static const struct usage usage = {
		OPTION_ROWS(rows), "record [FILE]\nconvert FILE", doc, add_arg, check, false,
	};
	struct options opt = { 0 };
	struct folded folded = { 0 };
	struct trace trace = { 0 };
	u64 nr_lost = 0;
	int code;

	read_options(&usage, argc, argv, &opt);
	code = opt.converts ? convert(&opt, &trace, &folded) :
			      record(&opt, &trace, &folded, &nr_lost);
	if (!code)
		code = write_out(&opt, &trace);
	if (!code)
		report(&opt, &trace, &folded, nr_lost);
	trace_close(&trace);
	return code;
}
