// SPDX-License-Identifier: Apache-2.0
/* The command line. Everything that can be checked without the trace is checked here. */
#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include <kvmm/kvmm.h>

#include "replay.h"

static const struct mode modes[] = {
	{ "seq",   "prefix caching, one request after the other", run_seq },
	{ "conc",  "prefix caching, requests side by side in time", run_conc },
	{ "frag",  "one contiguous run (or a few) a request", run_frag },
	{ "waste", "empty room in last blocks", run_waste },
};

enum option_key {
	KEY_BLOCKS = 'n', KEY_BLOCK_TOKENS = 't', KEY_KEYS = 'k', KEY_POLICY = 'p',
	KEY_ALLOC = 'a', KEY_MAX_RUNS = 'r', KEY_MARK = 'm', KEY_COMPACT = 'c',
	KEY_SEED = 's', KEY_JSON = 'j', KEY_VERIFY = 'v', KEY_DEVICE = 'd',
	KEY_ARRIVALS = 256, KEY_BLOCK_BYTES, KEY_PROGRESS, KEY_NO_PROGRESS, KEY_REPORT,
	KEY_REQUESTS, KEY_PINNED,
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "The pool:", 1 },
	{ "blocks", KEY_BLOCKS, "N", 0, "Usable blocks [room for 2,560,000 tokens; frag: 8192]", 0 },
	{ "block-tokens", KEY_BLOCK_TOKENS, "N", 0, "Tokens a block [512; frag, waste: 16]", 0 },
	{ "device", KEY_DEVICE, "NAME", 0,
	  "none: ids without memory; host: plain memory; others as the library knows them "
	  "[none; with --verify host]", 0 },
	{ "block-bytes", KEY_BLOCK_BYTES, "N", 0, "Content of a block [0; with --verify 64]", 0 },
	{ "verify", KEY_VERIFY, NULL, 0,
	  "Write a pattern into each block; check it at every hit, move and free", 0 },

	{ NULL, 0, NULL, 0, "Prefix caching (seq, conc):", 2 },
	{ "policy", KEY_POLICY, "NAME", 0,
	  "Who is evicted: a policy of the library, or min (knows the future); seq also: bound "
	  "(no policy hits more), infinite (nothing is evicted) [lru]", 0 },
	{ "keys", KEY_KEYS, "ids|vllm", 0,
	  "ids: each block number of the trace is one block of 512 tokens; vllm: full blocks of "
	  "any size that divides 512, the last token is always computed [ids for 512]", 0 },

	{ NULL, 0, NULL, 0, "Contiguous runs (frag):", 3 },
	{ "alloc", KEY_ALLOC, "NAME", 0, "Allocator: an engine of the library [zone]", 0 },
	{ "max-runs", KEY_MAX_RUNS, "K", 0, "Most runs a request may hold, 1 to 8 [1]", 0 },
	{ "mark", KEY_MARK, "PCT", 0, "Admit up to this share of the pool, 1 to 100 [100]", 0 },
	{ "arrivals", KEY_ARRIVALS, "sat|ts", 0,
	  "sat: all requests wait from the start; ts: they come as recorded [sat]", 0 },
	{ "pinned", KEY_PINNED, "PCT", 0, "Requests that no compaction may move, 0 to 100 [0]", 0 },
	{ "compact", KEY_COMPACT, "HOW", 0,
	  "off; slide: on failure, the cheapest slide; direct: on failure, the cheapest window; "
	  "background: between events, when much is unusable [off]", 0 },

	{ NULL, 0, NULL, 0, "Workload made up when no TRACE is given:", 4 },
	{ "requests", KEY_REQUESTS, "N", 0, "Number of requests [12000]", 0 },
	{ "seed", KEY_SEED, "S", 0, "Seed of the workload and of patterns [1]", 0 },

	{ NULL, 0, NULL, 0, "Output:", 5 },
	{ "json", KEY_JSON, NULL, 0, "One JSON object on standard output", 0 },
	{ "report", KEY_REPORT, "FILE.html", 0, "Also write a page: memory over time", 0 },
	{ "progress", KEY_PROGRESS, NULL, 0, "Progress bar on stderr [on a terminal]", 0 },
	{ "no-progress", KEY_NO_PROGRESS, NULL, 0, "No progress bar", 0 },
	{ 0 }
};

static const char doc[] =
	"Replay a trace of LLM requests on the real library and say how well memory was used.\v"
	"Modes:\n"
	"  seq    prefix caching, one request after the other: hits of a policy\n"
	"  conc   prefix caching, requests side by side in time: hits, waiting, memory in use\n"
	"  frag   each request holds one contiguous run, or a few: occupancy, failures, moves\n"
	"  waste  tokens of empty room in the last block of each request\n"
	"\n"
	"TRACE is a Mooncake JSONL, an Azure CSV, or a CSV with the columns num_prefill_tokens and "
	"num_decode_tokens; the format is seen from the content. - is standard input. Without "
	"TRACE a workload of conversations is made up from the seed.\n"
	"\n"
	"Exit code: 0 good; 1 a result was wrong (the message says what); 2 bad usage or a bad "
	"trace (the message has file and line).";

/* ---- values ---- */

static u64 number(struct argp_state *state, const char *name, const char *arg, u64 min, u64 max)
{
	unsigned long long v;
	char *end;

	errno = 0;
	v = strtoull(arg, &end, 10);
	if (*arg < '0' || *arg > '9' || *end || errno || v < min || v > max)
		argp_error(state, "--%s: '%s' is not a number from %llu to %llu", name, arg,
			   (unsigned long long)min, (unsigned long long)max);
	return v;
}

/* Index of @arg in a list of words that ends with NULL. */
static unsigned int word(struct argp_state *state, const char *name, const char *arg,
			 const char *const *words)
{
	unsigned int i;

	for (i = 0; words[i]; i++)
		if (!strcmp(arg, words[i]))
			return i;
	argp_error(state, "--%s: there is no '%s'", name, arg);
	return 0;
}

static bool is_one_of(const char *arg, const char *const *names, unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++)
		if (!strcmp(arg, names[i]))
			return true;
	return false;
}

/* Fail with the names that could have been given. */
static void refuse_name(struct argp_state *state, const char *name, const char *arg,
			const char *const *names, unsigned int nr, const char *more)
{
	char list[512] = "";

	for (unsigned int i = 0; i < nr; i++) {
		strncat(list, names[i], sizeof(list) - strlen(list) - 1);
		strncat(list, i + 1 < nr ? ", " : "", sizeof(list) - strlen(list) - 1);
	}
	argp_error(state, "--%s: there is no '%s', only %s%s", name, arg, list, more);
}

static void check_policy(struct argp_state *state, const struct options *opt)
{
	const char *names[64];
	unsigned int nr = (unsigned int)min_u64(kvmm_policies(names, 64), 64), kept = 0;

	/* Hints come from the future, which is "min" here. */
	for (unsigned int i = 0; i < nr; i++)
		if (strcmp(names[i], "hint"))
			names[kept++] = names[i];
	if (limit_is(opt->policy) && strcmp(opt->mode->name, "seq"))
		argp_error(state, "--policy %s: in mode seq only", opt->policy);
	if (!is_one_of(opt->policy, names, kept) && strcmp(opt->policy, "min") &&
	    !limit_is(opt->policy))
		refuse_name(state, "policy", opt->policy, names, kept, ", min, bound, infinite");
}

static void check_alloc(struct argp_state *state, const struct options *opt)
{
	const char *names[64];
	unsigned int nr = (unsigned int)min_u64(kvmm_zone_engines(names, 64), 64);

	if (!is_one_of(opt->alloc, names, nr))
		refuse_name(state, "alloc", opt->alloc, names, nr, "");
}

/* ---- the whole ---- */

static void set_defaults(struct options *opt, bool keys_given)
{
	bool cache = opt->mode->run == run_seq || opt->mode->run == run_conc;

	if (!opt->block_tokens)
		opt->block_tokens = cache ? TRACE_ID_TOKENS : 16;
	if (!opt->nr_blocks)
		opt->nr_blocks = cache ? 2560000 / opt->block_tokens : 8192;
	if (!keys_given)
		opt->keys = opt->block_tokens == TRACE_ID_TOKENS ? KEYS_IDS : KEYS_VLLM;
	if (opt->verify && !opt->block_bytes)
		opt->block_bytes = 64;
	if (!opt->device && opt->block_bytes)
		opt->device = "host";
}

static void check(struct argp_state *state, struct options *opt)
{
	bool cache = opt->mode->run == run_seq || opt->mode->run == run_conc;
	bool none = opt->device && !strcmp(opt->device, "none");

	if (opt->block_tokens & (opt->block_tokens - 1))
		argp_error(state, "--block-tokens: %u is not a power of two", opt->block_tokens);
	if (cache && opt->keys == KEYS_IDS && opt->block_tokens != TRACE_ID_TOKENS)
		argp_error(state, "--keys ids: needs --block-tokens %u", TRACE_ID_TOKENS);
	if (cache && opt->keys == KEYS_VLLM && opt->block_tokens > TRACE_ID_TOKENS)
		argp_error(state, "--keys vllm: --block-tokens must divide %u", TRACE_ID_TOKENS);
	if (cache)
		check_policy(state, opt);
	if (opt->mode->run == run_frag)
		check_alloc(state, opt);
	if (none && opt->block_bytes)
		argp_error(state, "--device none has no memory for --verify or --block-bytes");
	if (none)
		opt->device = NULL;
}

/* What the parser has to remember. */
struct parse {
	struct options *opt;
	bool keys_given;
	u32 nr_args;
};

static void parse_arg(struct argp_state *state, struct parse *parse, const char *arg)
{
	if (parse->nr_args == 1)
		parse->opt->trace_path = arg;
	if (parse->nr_args > 1)
		argp_error(state, "one trace at a time: what is '%s'?", arg);
	for (size_t i = 0; !parse->nr_args && i < ARRAY_SIZE(modes); i++)
		if (!strcmp(arg, modes[i].name))
			parse->opt->mode = &modes[i];
	if (!parse->opt->mode)
		argp_error(state, "there is no mode '%s', only seq, conc, frag, waste", arg);
	parse->nr_args++;
}

static void parse_pool(struct argp_state *state, struct options *opt, int key, const char *arg)
{
	if (key == KEY_BLOCKS)
		opt->nr_blocks = number(state, "blocks", arg, 1, KVMM_MAX_BLOCKS);
	else if (key == KEY_BLOCK_TOKENS)
		opt->block_tokens = number(state, "block-tokens", arg, 1, 1024);
	else if (key == KEY_BLOCK_BYTES)
		opt->block_bytes = number(state, "block-bytes", arg, 0, 1u << 30);
	else if (key == KEY_DEVICE)
		opt->device = arg;
	else
		opt->verify = true;
}

static void parse_frag(struct argp_state *state, struct options *opt, int key, const char *arg)
{
	static const char *const arrivals[] = { "sat", "ts", NULL };
	static const char *const compact[] = { "off", "slide", "direct", "background", NULL };

	if (key == KEY_ALLOC)
		opt->alloc = arg;
	else if (key == KEY_MAX_RUNS)
		opt->max_runs = number(state, "max-runs", arg, 1, KVMM_MAX_RUNS);
	else if (key == KEY_MARK)
		opt->mark = number(state, "mark", arg, 1, 100);
	else if (key == KEY_PINNED)
		opt->pinned = number(state, "pinned", arg, 0, 100);
	else if (key == KEY_ARRIVALS)
		opt->by_time = word(state, "arrivals", arg, arrivals);
	else
		opt->compact = word(state, "compact", arg, compact);
}

static void parse_cache(struct argp_state *state, struct parse *parse, int key, const char *arg)
{
	static const char *const keys[] = { "ids", "vllm", NULL };

	if (key == KEY_POLICY) {
		parse->opt->policy = arg;
		return;
	}
	parse->opt->keys = word(state, "keys", arg, keys);
	parse->keys_given = true;
}

static void parse_rest(struct argp_state *state, struct options *opt, int key, const char *arg)
{
	if (key == KEY_REQUESTS)
		opt->nr_requests = number(state, "requests", arg, 1, 1u << 20);
	else if (key == KEY_SEED)
		opt->seed = number(state, "seed", arg, 0, UINT64_MAX);
	else if (key == KEY_JSON)
		opt->json = true;
	else if (key == KEY_REPORT)
		opt->report_path = arg;
	else
		opt->progress = key == KEY_PROGRESS ? PROGRESS_ON : PROGRESS_OFF;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct parse *parse = state->input;

	switch (key) {
	case KEY_BLOCKS: case KEY_BLOCK_TOKENS: case KEY_BLOCK_BYTES: case KEY_DEVICE:
	case KEY_VERIFY:
		parse_pool(state, parse->opt, key, arg);
		return 0;
	case KEY_ALLOC: case KEY_MAX_RUNS: case KEY_MARK: case KEY_ARRIVALS: case KEY_COMPACT:
	case KEY_PINNED:
		parse_frag(state, parse->opt, key, arg);
		return 0;
	case KEY_POLICY: case KEY_KEYS:
		parse_cache(state, parse, key, arg);
		return 0;
	case KEY_REQUESTS: case KEY_SEED: case KEY_JSON: case KEY_REPORT: case KEY_PROGRESS:
	case KEY_NO_PROGRESS:
		parse_rest(state, parse->opt, key, arg);
		return 0;
	case ARGP_KEY_ARG:
		parse_arg(state, parse, arg);
		return 0;
	case ARGP_KEY_END:
		if (!parse->opt->mode)
			argp_error(state, "which mode? seq, conc, frag or waste");
		set_defaults(parse->opt, parse->keys_given);
		check(state, parse->opt);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void print_version(FILE *out, struct argp_state *state)
{
	fprintf(out, "kvmm-replay %s\n", kvmm_version());
}

void options_parse(struct options *opt, int argc, char **argv)
{
	static const struct argp argp = {
		.options	= options,
		.parser		= parse_option,
		.args_doc	= "MODE [TRACE]",
		.doc		= doc,
	};
	struct parse parse = { .opt = opt };

	*opt = (struct options){
		.policy		= "lru",
		.alloc		= "zone",
		.seed		= 1,
		.nr_requests	= 12000,
		.max_runs	= 1,
		.mark		= 100,
	};
	argp_program_version_hook = print_version;
	argp_err_exit_status = EXIT_INPUT;
	argp_parse(&argp, argc, argv, 0, NULL, &parse);
}
