// SPDX-License-Identifier: Apache-2.0
/* The command line. Everything that can be checked without the trace is checked here. */
#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include <kvmm/kvmm.h>

#include "flood.h"
#include "live.h"
#include "policies.h"
#include "replay.h"

static const struct mode modes[] = {
	{ "seq",   "prefix caching, one request after the other", run_seq, NULL },
	{ "conc",  "prefix caching, requests side by side in time", run_conc, NULL },
	{ "frag",  "one contiguous run (or a few) a request", run_frag, NULL },
	{ "waste", "empty room in last blocks", run_waste, NULL },
	{ "compare", "policies and sizes of a prefix cache, side by side", NULL, run_compare },
	{ "generate", "a made-up trace on standard output", NULL, run_generate },
};

enum option_key {
	KEY_BLOCKS = 'n', KEY_BLOCK_TOKENS = 't', KEY_KEYS = 'k', KEY_POLICY = 'p',
	KEY_ALLOC = 'a', KEY_MAX_RUNS = 'r', KEY_MARK = 'm', KEY_COMPACT = 'c',
	KEY_SEED = 's', KEY_JSON = 'j', KEY_VERIFY = 'v', KEY_DEVICE = 'd',
	KEY_ARRIVALS = 256, KEY_BLOCK_BYTES, KEY_PROGRESS, KEY_NO_PROGRESS, KEY_REPORT,
	KEY_REQUESTS, KEY_PINNED, KEY_GENERATE, KEY_AGES, KEY_POLICIES, KEY_MODE, KEY_JOBS,
	KEY_RUN_WINDOW, KEY_DIGEST, KEY_EVENTS, KEY_FLOOD, KEY_LIMITS, KEY_FLOOD_LIMITS,
	KEY_PAGEBLOCK, KEY_EMPTY_PAGEBLOCKS, KEY_STREAMS, KEY_STEP_US, KEY_THRESHOLD,
	KEY_INTERVAL, KEY_AHEAD, KEY_TRANSFERS,
	KEY_HOST_BLOCKS, KEY_HOST_POLICY, KEY_WRITE_POLICY, KEY_TOUCHES, KEY_OFFLOAD_THRESHOLD,
	KEY_TRANSFER_BANDWIDTH, KEY_TRANSFER_LATENCY, KEY_TOKEN_BYTES, KEY_RELOAD_WINDOW,
	KEY_FIXED, KEY_CONFIG, KEY_RECORD_STATE, KEY_RECORD_EVERY, KEY_RECORD_CALLS,
	KEY_DISK_BLOCKS, KEY_DISK_BANDWIDTH, KEY_DISK_LATENCY,
	KEY_GROW, KEY_WRITE_POLICIES, KEY_ANSWERS,
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "The pool:", 1 },
	{ "blocks", KEY_BLOCKS, "N", 0,
	  "Usable blocks [room for 2,560,000 tokens; frag: 8192]; compare: N,N,...", 0 },
	{ "block-tokens", KEY_BLOCK_TOKENS, "N", 0, "Tokens a block [512; frag, waste: 16]", 0 },
	{ "device", KEY_DEVICE, "NAME", 0,
	  "none: ids without memory; host: plain memory; others as the library knows them "
	  "[none; with --verify host]", 0 },
	{ "block-bytes", KEY_BLOCK_BYTES, "N", 0, "Content of a block [0; with --verify 64]", 0 },
	{ "verify", KEY_VERIFY, NULL, 0,
	  "Write a pattern into each block; check it at every hit, move and free", 0 },

	{ NULL, 0, NULL, 0, "Prefix caching (seq, conc, compare):", 2 },
	{ "policy", KEY_POLICY, "NAME", 0,
	  "Who is evicted: a policy of the library, with parameters as in multilru:3,8,15, or min "
	  "(knows the future); seq also: bound (no policy hits more), infinite (nothing is "
	  "evicted) [lru]", 0 },
	{ "ages", KEY_AGES, NULL, 0,
	  "Count how long blocks were idle when they hit and when they were evicted, and how soon "
	  "what was evicted came back", 0 },
	{ "events", KEY_EVENTS, "FILE", 0,
	  "Write all that the pool tells, and the requests, to FILE: see kvmm-events and kvmm-trace", 0 },
	{ "digest", KEY_DIGEST, NULL, 0,
	  "Make the pool deterministic, and say the digests of its history and of what it is in the "
	  "end: the same in every run", 0 },
	{ "run-window", KEY_RUN_WINDOW, "N", 0,
	  "Hand new blocks out lowest first (1), and evict blocks that lie together, from among "
	  "those needed and the next N (2 and more) [0: plain order]", 0 },
	{ "pageblock", KEY_PAGEBLOCK, "N", 0,
	  "Count the aligned groups of N blocks, a power of two, that requests got as a whole once "
	  "blocks were evicted [0: do not]", 0 },
	{ "empty-pageblocks", KEY_EMPTY_PAGEBLOCKS, NULL, 0,
	  "Of --run-window's blocks those go first that empty such a group", 0 },
	{ "transfers", KEY_TRANSFERS, NULL, 0,
	  "Count the descriptors, one a run, that sending the blocks of each prompt would take, and "
	  "those of a plain pool with one queue of free blocks. Compares with policy lru only", 0 },
	{ "flood", KEY_FLOOD, "N", 0,
	  "seq: after each request another tenant asks for N blocks that never come back [0]", 0 },
	{ "limits", KEY_LIMITS, "LIST", 0,
	  "seq: min=N,low=N,high=N,max=N, or some of these: blocks of the trace's tenant", 0 },
	{ "flood-limits", KEY_FLOOD_LIMITS, "LIST", 0, "The same of the other one", 0 },
	{ "keys", KEY_KEYS, "ids|vllm", 0,
	  "ids: each block number of the trace is one block, of as many tokens as it stands for; vllm: full "
	  "blocks of any size, the last token is always computed [ids for 512]", 0 },

	{ "grow", KEY_GROW, NULL, 0,
	  "conc: answers take their blocks as they grow; where there is none, the request that was "
	  "admitted last is preempted, and computed again", 0 },

	{ "answers", KEY_ANSWERS, NULL, 0,
	  "seq: answers take their blocks, too, one after the other, and full ones stay cached: as part "
	  "of the prompt of the next turn, where the trace has one", 0 },

	{ NULL, 0, NULL, 0, "Tiers below the pool, simulated (seq, conc, compare):", 2 },
	{ "host-blocks", KEY_HOST_BLOCKS, "N", 0, "Blocks of the host's; 0: there is none [0]", 0 },
	{ "host-policy", KEY_HOST_POLICY, "NAME", 0, "Who goes when it is full [lru]", 0 },
	{ "disk-blocks", KEY_DISK_BLOCKS, "N", 0,
	  "Blocks of a disk below that; 0: there is none [0]", 0 },
	{ "disk-bandwidth", KEY_DISK_BANDWIDTH, "MB/S", 0,
	  "Of the disk, to write and to read; 0: bytes take no time [5000]", 0 },
	{ "disk-latency", KEY_DISK_LATENCY, "US", 0, "Of each write and read [100]", 0 },
	{ "write-policy", KEY_WRITE_POLICY, "NAME", 0,
	  "When blocks are copied there: selective (used again), through (at once), back (before they "
	  "are evicted), threshold (the same, and they are free then), explicit (never here) "
	  "[selective]", 0 },
	{ "touches", KEY_TOUCHES, "N", 0, "selective: uses that make a copy worth it, 1 to 15 [2]", 0 },
	{ "offload-threshold", KEY_OFFLOAD_THRESHOLD, "F", 0,
	  "back, threshold: share of the device's blocks in use or cached above which they act, down to "
	  "0.1 below [0.9]", 0 },
	{ "transfer-bandwidth", KEY_TRANSFER_BANDWIDTH, "MB/S", 0,
	  "Of the link in each direction; 0: copies take no time besides the latency [50000]", 0 },
	{ "transfer-latency", KEY_TRANSFER_LATENCY, "US", 0, "Of each copy [0]", 0 },
	{ "token-bytes", KEY_TOKEN_BYTES, "N", 0, "Content of a token [131072]", 0 },
	{ "reload-window", KEY_RELOAD_WINDOW, "MS", 0,
	  "Blocks that come back so soon after they went count as thrashing [10000]", 0 },
	{ "fixed", KEY_FIXED, NULL, 0, "Nothing adapts to what thrashes", 0 },
	{ "config", KEY_CONFIG, "FILE", 0,
	  "Take these from a configuration file (and the environment, KVMM_TIER_...), as if they stood "
	  "here; what comes behind goes first", 0 },

	{ NULL, 0, NULL, 0, "Comparing (compare):", 3 },
	{ "policies", KEY_POLICIES, "LIST", 0,
	  "Names with commas between; lru, min, bound and infinite are always there [all]", 0 },
	{ "write-policies", KEY_WRITE_POLICIES, "LIST", 0,
	  "With --host-blocks: each policy with each of these [the one of --write-policy]", 0 },
	{ "mode", KEY_MODE, "seq|conc", 0, "How requests come [seq]", 0 },
	{ "jobs", KEY_JOBS, "N", 0, "Runs at a time; the output is the same for any number [1]", 0 },

	{ NULL, 0, NULL, 0, "Contiguous runs (frag):", 4 },
	{ "alloc", KEY_ALLOC, "NAME", 0, "Allocator: an engine of the library [zone]", 0 },
	{ "max-runs", KEY_MAX_RUNS, "K", 0, "Most runs a request may hold, 1 to 8 [1]", 0 },
	{ "mark", KEY_MARK, "PCT", 0, "Admit up to this share of the pool, 1 to 100 [100]", 0 },
	{ "arrivals", KEY_ARRIVALS, "sat|ts", 0,
	  "sat: all requests wait from the start; ts: they come as recorded [sat]", 0 },
	{ "pinned", KEY_PINNED, "PCT", 0, "Requests that no compaction may move, 0 to 100 [0]", 0 },
	{ "compact", KEY_COMPACT, "HOW", 0,
	  "off; slide: on failure, the cheapest slide; direct: on failure, the cheapest window; "
	  "beside, between: on failure, beside or between the engine's steps; background: beside "
	  "them, before anybody fails [off]", 0 },
	{ "streams", KEY_STREAMS, "N", 0,
	  "Streams of the engine whose steps read the requests' blocks, 1 to 32, on ids or on the "
	  "host only; 0: nobody reads [4 for beside and background, 1 for between, else 0]", 0 },
	{ "step-us", KEY_STEP_US, "N", 0, "Time of a step of a full pool [20000]", 0 },
	{ "threshold", KEY_THRESHOLD, "PM", 0,
	  "background: begin where so much of the free blocks is unusable, per mille [200]", 0 },
	{ "interval", KEY_INTERVAL, "MS", 0, "background: look so often [60000]", 0 },
	{ "ahead", KEY_AHEAD, "PCT", 0,
	  "beside, background: make a run for the next request before it is admitted, if that moves no "
	  "more than so much of it [50 for background, else 0]", 0 },

	{ NULL, 0, NULL, 0, "Workload made up when no TRACE is given:", 5 },
	{ "generate", KEY_GENERATE, "SPEC", 0,
	  "KIND or KIND:name=value,... of chat, agent, zipf, scan, phase, mix; kvmm-replay generate "
	  "says what they take [chat]", 0 },
	{ "requests", KEY_REQUESTS, "N", 0, "Number of requests [12000]", 0 },
	{ "seed", KEY_SEED, "S", 0, "Seed of the workload and of patterns [1]", 0 },

	{ NULL, 0, NULL, 0, "Output:", 6 },
	{ "json", KEY_JSON, NULL, 0, "One JSON object a run on standard output", 0 },
	{ "report", KEY_REPORT, "FILE.html", 0, "Also write a page: memory over time", 0 },
	{ "record-state", KEY_RECORD_STATE, "FILE", 0,
	  "Also write a recording of it, for kvmm-dump report", 0 },
	{ "record-every", KEY_RECORD_EVERY, "S", 0,
	  "A moment of it each S seconds of the simulation; seq: each S requests [about 1,200 in all]", 0 },
	{ "record-calls", KEY_RECORD_CALLS, NULL, 0,
	  "Measure calls of the library, too: then no two recordings are the same", 0 },
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
	"  compare   seq or conc with each of a set of policies and sizes, beside the limits\n"
	"  generate  write the made-up workload TRACE (a SPEC) as Mooncake JSONL\n"
	"\n"
	"TRACE is a Mooncake JSONL, an Azure CSV, or a CSV with the columns num_prefill_tokens and "
	"num_decode_tokens; the format is seen from the content. - is standard input. Without "
	"TRACE a workload of conversations is made up from the seed.\n"
	"\n"
	"Example:\n"
	"  kvmm-replay seq --policy lru --blocks 8000 TRACE\n"
	"  kvmm-replay frag --alloc zone --max-runs 4 --compact direct TRACE\n"
	"  kvmm-replay compare --json --blocks 4000,8000 TRACE > policies.json\n"
	"  kvmm-replay conc --control /run/user/1000/kvmm --slow 500 TRACE & kvmm-top\n"
	"\n"
	"Exit code: 0 good; 1 a result was wrong (the message says what); 2 bad usage or a bad "
	"trace (the message has file and line).";

/* ---- values ---- */

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
	bad_option(state, "--%s: there is no '%s', only %s%s", name, arg, list, more);
}

static void refuse_policy(struct argp_state *state, const char *option, const char *policy,
			  int err)
{
	char list[1024];

	policy_list(list, sizeof(list));
	if (err == -EINVAL && strchr(policy, ':'))
		bad_option(state, "--%s: not with these parameters: '%s'", option, policy);
	bad_option(state, "--%s: there is no '%s', only %s", option, policy, list);
}

static void check_policy(struct argp_state *state, const struct options *opt)
{
	bool limit = limit_is(opt->policy);
	int err = limit || !strcmp(opt->policy, "min") ? 0 : policy_check(opt->policy);

	if (limit && opt->mode->run != run_seq)
		bad_option(state, "--policy %s: in mode seq only", opt->policy);
	if (err)
		refuse_policy(state, "policy", opt->policy, err);
}

static void check_policies(struct argp_state *state, const struct options *opt)
{
	struct policies policies = { .nr = 0 };
	int err = opt->policies ? policies_parse(&policies, opt->policies) : 0;

	if (err)
		bad_option(state, "--policies: '%s' is not a list of at most %u names",
			   opt->policies, MAX_POLICIES);
	for (u32 i = 0; i < policies.nr; i++) {
		const char *name = policies.name[i];

		if (limit_is(name) || !strcmp(name, "min") || !strcmp(name, "all"))
			continue;
		err = policy_check(name);
		if (err)
			refuse_policy(state, "policies", name, err);
	}
}

static void check_alloc(struct argp_state *state, const struct options *opt)
{
	const char *names[64];
	unsigned int nr = (unsigned int)min_u64(kvmm_zone_engines(names, 64), 64);

	if (!is_one_of(opt->alloc, names, nr))
		refuse_name(state, "alloc", opt->alloc, names, nr, "");
}

/* ---- the whole ---- */

static bool is_cache(const struct options *opt)
{
	return opt->mode->run == run_seq || opt->mode->run == run_conc ||
	       opt->mode->whole == run_compare;
}

static void set_defaults(struct options *opt, bool keys_given)
{
	if (!opt->block_tokens)
		opt->block_tokens = is_cache(opt) ? TRACE_ID_TOKENS : 16;
	if (!opt->nr_blocks)
		opt->nr_blocks = is_cache(opt) ? 2560000 / opt->block_tokens : 8192;
	if (!keys_given || !is_cache(opt))
		opt->keys = is_cache(opt) && opt->block_tokens == TRACE_ID_TOKENS ? KEYS_IDS : KEYS_VLLM;
	if (opt->streams == U32_NONE)
		opt->streams = opt->compact == COMPACT_BETWEEN ? 1 :
			       opt->compact >= COMPACT_BACKGROUND ? 4 : 0;
	if (opt->ahead == U32_NONE)
		opt->ahead = opt->compact == COMPACT_BACKGROUND ? 50 : 0;
	if (opt->verify && !opt->block_bytes)
		opt->block_bytes = 64;
	if (!opt->device && opt->block_bytes)
		opt->device = "host";
}

static void check_sources(struct argp_state *state, struct options *opt, bool many)
{
	if (opt->nr_sources > 1 && !many)
		bad_option(state, "unexpected argument '%s': one trace at a time",
			   opt->source[1].path ? opt->source[1].path : opt->source[1].spec);
	for (u32 i = 0; i < opt->nr_sources; i++) {
		struct source *source = &opt->source[i];
		char why[160];

		workload_init(&source->work, WORKLOAD_CHAT);
		source->work.seed = opt->seed;
		source->work.requests = opt->nr_requests;
		if (!source->path && source->spec &&
		    workload_parse(&source->work, source->spec, why))
			bad_option(state, "--generate: %s", why);
	}
}

static void check_limits(struct argp_state *state, const struct options *opt)
{
	const char *limits[] = { opt->limits, opt->flood_limits };
	struct kvmm_tenant_attr attr;

	if ((opt->flood || opt->limits || opt->flood_limits) &&
	    (opt->mode->run != run_seq || limit_is(opt->policy)))
		bad_option(state, "--flood, --limits: in mode seq only, and with a policy");
	if (opt->flood && opt->ages)
		bad_option(state, "--ages: not with --flood, whose blocks have no age");
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		if (limits[i] && limits_parse(&attr, limits[i]))
			bad_option(state, "'%s' are no limits: min=N,low=N,high=N,max=N",
				   limits[i]);
}

static void check_events(struct argp_state *state, const struct options *opt)
{
	if (opt->events_path && ((opt->mode->run != run_seq && opt->mode->run != run_conc) ||
				 limit_is(opt->policy)))
		bad_option(state, "--events: in modes seq and conc only, and with a policy");
}

static void check_transfers(struct argp_state *state, const struct options *opt)
{
	if (!opt->transfers)
		return;
	if ((opt->mode->run != run_seq && opt->mode->run != run_conc) || limit_is(opt->policy))
		bad_option(state, "--transfers: in modes seq and conc only, and with a policy");
	if (opt->flood || opt->limits)
		bad_option(state, "--transfers: not with --flood or --limits");
}

static void check_pageblock(struct argp_state *state, const struct options *opt)
{
	if (opt->pageblock & (opt->pageblock - 1))
		bad_option(state, "--pageblock: %u is not a power of two", opt->pageblock);
	if (opt->empty_pageblocks && (opt->pageblock < 2 || opt->run_window < 2))
		bad_option(state, "--empty-pageblocks: needs --pageblock and --run-window");
}

/* Capacities in bytes, whole blocks of them. */
static void count_blocks(struct argp_state *state, struct options *opt)
{
	u64 bytes = (u64)opt->token_bytes * opt->block_tokens;
	u64 host = opt->host_bytes / bytes, disk = opt->disk_bytes / bytes;

	if (host > KVMM_MAX_BLOCKS || disk > KVMM_MAX_BLOCKS)
		bad_option(state, "--config: host_bytes, disk_bytes: more than %u blocks of %llu bytes",
			   KVMM_MAX_BLOCKS, (unsigned long long)bytes);
	if (opt->host_bytes)
		opt->host_blocks = (u32)host;
	if (opt->disk_bytes)
		opt->disk_blocks = (u32)disk;
}

static void check_tiers(struct argp_state *state, const struct options *opt)
{
	if (opt->low_pm != U32_NONE && opt->low_pm > opt->offload_pm)
		bad_option(state, "--offload-threshold: below the low mark of --config");
	if (opt->disk_blocks && !opt->host_blocks)
		bad_option(state, "--disk-blocks: needs --host-blocks, through which blocks go");
	if (opt->nr_writes && (!opt->host_blocks || opt->mode->whole != run_compare))
		bad_option(state, "--write-policies: in mode compare only, and with --host-blocks");
	if (!opt->host_blocks)
		return;
	if (opt->mode->whole != run_compare &&
	    ((opt->mode->run != run_seq && opt->mode->run != run_conc) || limit_is(opt->policy) ||
	     !strcmp(opt->policy, "min")))
		bad_option(state, "--host-blocks: in modes seq, conc and compare only, and with a "
			   "policy of the library");
	if (opt->flood || opt->limits || opt->ages || opt->transfers || opt->device)
		bad_option(state, "--host-blocks: not with --flood, --limits, --ages, --transfers, "
			   "--verify, --device or --block-bytes");
	if (policy_check(opt->host_policy))
		refuse_policy(state, "host-policy", opt->host_policy, policy_check(opt->host_policy));
}

static void check_grow(struct argp_state *state, const struct options *opt)
{
	if (!opt->grow)
		return;
	if (opt->mode->run != run_conc || !strcmp(opt->policy, "min"))
		bad_option(state, "--grow: in mode conc only, and with a policy of the library");
	if (opt->ages || opt->transfers || opt->device || opt->pageblock || opt->events_path)
		bad_option(state, "--grow: not with --ages, --transfers, --pageblock, --events, "
			   "--verify, --device or --block-bytes");
}

static void check_answers(struct argp_state *state, const struct options *opt)
{
	if (!opt->answers)
		return;
	if (opt->mode->run != run_seq || limit_is(opt->policy) || !strcmp(opt->policy, "min"))
		bad_option(state, "--answers: in mode seq only, and with a policy of the library");
	if (opt->ages || opt->transfers || opt->device || opt->pageblock || opt->host_blocks ||
	    opt->flood || opt->limits)
		bad_option(state, "--answers: not with --ages, --transfers, --pageblock, --host-blocks, "
			   "--flood, --limits, --verify, --device or --block-bytes");
}

/* The steps are a model of time: there is no work on a device that could be a step's. */
static bool has_steps(const char *device)
{
	return !device || !strcmp(device, "none") ||
	       (!strncmp(device, "host", 4) && (!device[4] || device[4] == ':'));
}

static void check_streams(struct argp_state *state, const struct options *opt)
{
	if (opt->compact == COMPACT_SLIDE && opt->streams)
		bad_option(state, "--streams: not with --compact slide, which is a reference");
	if (opt->compact >= COMPACT_BACKGROUND && !opt->streams)
		bad_option(state, "--streams 0: there are no steps to move blocks beside");
	if (opt->mode->run == run_frag && opt->streams && !has_steps(opt->device))
		bad_option(state, "--streams %u: its steps are a model, for --device none or host, "
			   "not '%s'", opt->streams, opt->device);
}

static void check(struct argp_state *state, struct options *opt)
{
	bool none = opt->device && !strcmp(opt->device, "none");

	if (opt->block_tokens & (opt->block_tokens - 1))
		bad_option(state, "--block-tokens: %u is not a power of two", opt->block_tokens);
	if (opt->mode->whole == run_compare)
		check_policies(state, opt);
	else if (is_cache(opt))
		check_policy(state, opt);
	check_limits(state, opt);
	if (opt->mode->run == run_frag)
		check_alloc(state, opt);
	check_streams(state, opt);
	if (none && opt->block_bytes)
		bad_option(state, "--device none has no memory for --verify or --block-bytes");
	if (none)
		opt->device = NULL;
}

/* What the parser has to remember. */
struct parse {
	struct options *opt;
	const char *blocks;	/* a number or, for compare, a list */
	bool keys_given;
};

static void parse_mode(struct argp_state *state, struct options *opt, const char *arg)
{
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++)
		if (!strcmp(arg, modes[i].name))
			opt->mode = &modes[i];
	if (!opt->mode)
		bad_option(state, "there is no mode '%s', only seq, conc, frag, waste, compare, "
			   "generate", arg);
}

static void add_source(struct argp_state *state, struct options *opt, const char *path,
		       const char *spec)
{
	if (opt->nr_sources == MAX_SOURCES)
		bad_option(state, "more than %u traces", MAX_SOURCES);
	opt->source[opt->nr_sources].path = path;
	opt->source[opt->nr_sources++].spec = spec;
}

static void parse_arg(struct argp_state *state, struct options *opt, const char *arg)
{
	if (!opt->mode)
		parse_mode(state, opt, arg);
	else if (opt->mode->whole == run_generate)
		add_source(state, opt, NULL, arg);
	else
		add_source(state, opt, arg, NULL);
}

static void parse_sizes(struct argp_state *state, struct options *opt, const char *list)
{
	char text[16];
	size_t n;

	for (;; list += n + 1) {
		n = strcspn(list, ",");
		if (opt->nr_sizes == MAX_SIZES || n >= sizeof(text))
			bad_option(state, "--blocks: '%s' is not a list of at most %u numbers",
				   list, MAX_SIZES);
		memcpy(text, list, n);
		text[n] = '\0';
		opt->size[opt->nr_sizes++] = option_number(state, "blocks", text, 1, KVMM_MAX_BLOCKS);
		if (!list[n])
			return;
	}
}

/* What could not be read before the mode was known. */
static void finish(struct argp_state *state, struct parse *parse)
{
	struct options *opt = parse->opt;

	if (!opt->mode)
		bad_option(state, "which mode? seq, conc, frag, waste, compare or generate");
	if (parse->blocks && opt->mode->whole == run_compare)
		parse_sizes(state, opt, parse->blocks);
	else if (parse->blocks)
		opt->nr_blocks = option_number(state, "blocks", parse->blocks, 1, KVMM_MAX_BLOCKS);
	if (!opt->nr_sources && opt->mode->whole != run_generate)
		add_source(state, opt, NULL, NULL);
	check_sources(state, opt, opt->mode->whole == run_compare);
	if (opt->record_path && opt->mode->whole)
		bad_option(state, "--record-state: of one run, not in mode %s", opt->mode->name);
	set_defaults(opt, parse->keys_given);
	check(state, opt);
	check_pageblock(state, opt);
	check_events(state, opt);
	check_transfers(state, opt);
	count_blocks(state, opt);
	check_tiers(state, opt);
	check_grow(state, opt);
	check_answers(state, opt);
}

#define NUMBER(key, name, field, min, max)	OPTION_NUMBER(key, name, struct options, field, min, max)
#define WORD(key, name, field, words)		OPTION_WORD(key, name, struct options, field, words)
#define FLAG(key, field)			OPTION_FLAG(key, struct options, field)
#define TEXT(key, field)			OPTION_TEXT(key, struct options, field)

const char *const write_policies[] = { "selective", "explicit", "through", "back", "threshold",
				       NULL };
static const char *const compact_modes[] = { "off", "slide", "direct", "background", "beside",
					     "between", NULL };

/* Those that go where they belong as they are. */
static const struct option_field fields[] = {
	NUMBER(KEY_BLOCK_TOKENS, "block-tokens", block_tokens, 1, 1024),
	NUMBER(KEY_BLOCK_BYTES, "block-bytes", block_bytes, 0, 1u << 30),
	TEXT(KEY_DEVICE, device),
	FLAG(KEY_VERIFY, verify),

	TEXT(KEY_ALLOC, alloc),
	NUMBER(KEY_MAX_RUNS, "max-runs", max_runs, 1, KVMM_MAX_RUNS),
	NUMBER(KEY_MARK, "mark", mark, 1, 100),
	NUMBER(KEY_PINNED, "pinned", pinned, 0, 100),
	WORD(KEY_COMPACT, "compact", compact, compact_modes),
	NUMBER(KEY_STREAMS, "streams", streams, 0, KVMM_MAX_STREAMS),
	NUMBER(KEY_STEP_US, "step-us", step_us, 1, 10000000),
	NUMBER(KEY_THRESHOLD, "threshold", threshold_pm, 1, 1000),
	NUMBER(KEY_AHEAD, "ahead", ahead, 0, 1000),
	NUMBER(KEY_INTERVAL, "interval", interval_ms, 1, 100000000),

	TEXT(KEY_POLICY, policy),
	TEXT(KEY_POLICIES, policies),
	FLAG(KEY_AGES, ages),
	TEXT(KEY_EVENTS, events_path),
	FLAG(KEY_GROW, grow),
	FLAG(KEY_ANSWERS, answers),
	FLAG(KEY_DIGEST, digest),
	NUMBER(KEY_RUN_WINDOW, "run-window", run_window, 0, KVMM_MAX_BLOCKS),
	NUMBER(KEY_PAGEBLOCK, "pageblock", pageblock, 0, KVMM_MAX_BLOCKS),
	FLAG(KEY_EMPTY_PAGEBLOCKS, empty_pageblocks),
	FLAG(KEY_TRANSFERS, transfers),
	NUMBER(KEY_FLOOD, "flood", flood, 0, KVMM_MAX_BLOCKS),
	TEXT(KEY_LIMITS, limits),
	TEXT(KEY_FLOOD_LIMITS, flood_limits),
	NUMBER(KEY_JOBS, "jobs", jobs, 1, MAX_JOBS),

	TEXT(KEY_HOST_POLICY, host_policy),
	WORD(KEY_WRITE_POLICY, "write-policy", write_policy, write_policies),
	NUMBER(KEY_TOUCHES, "touches", touches, 1, 15),
	NUMBER(KEY_TOKEN_BYTES, "token-bytes", token_bytes, 1, 1u << 30),
	NUMBER(KEY_DISK_BANDWIDTH, "disk-bandwidth", disk_mb_s, 0, 100000000),
	NUMBER(KEY_DISK_LATENCY, "disk-latency", disk_latency_us, 0, 1000000000),
	FLAG(KEY_FIXED, fixed),
	NUMBER(KEY_RELOAD_WINDOW, "reload-window", reload_ms, 0, 1000000000),

	NUMBER(KEY_REQUESTS, "requests", nr_requests, 1, 1u << 20),
	FLAG(KEY_JSON, json),
	TEXT(KEY_REPORT, report_path),
	TEXT(KEY_RECORD_STATE, record_path),
	FLAG(KEY_RECORD_CALLS, record_calls),
};

/* A number above 0 with at most three digits behind the point, times 1,000. */
static u64 thousandths(struct argp_state *state, const char *name, const char *arg)
{
	char *end;
	double value = strtod(arg, &end);

	if (*arg < '0' || *arg > '9' || *end || !(value >= 0.001 && value <= 1e9))
		bad_option(state, "--%s: '%s' is not a number from 0.001 to 1e9", name, arg);
	return (u64)(value * 1000 + 0.5);
}

/* A share with at most three digits behind the point, per mille. */
static u32 permille(struct argp_state *state, const char *name, const char *arg)
{
	char *end;
	double share = strtod(arg, &end);
	u32 pm = share >= 0 && share <= 1 ? (u32)(share * 1000 + 0.5) : U32_NONE;

	if (*arg < '0' || *arg > '9' || *end || pm == U32_NONE)
		bad_option(state, "--%s: '%s' is not a share from 0 to 1", name, arg);
	return pm;
}

static void parse_writes(struct argp_state *state, struct options *opt, const char *list)
{
	char text[16];
	size_t n;

	for (opt->nr_writes = 0;; list += n + 1) {
		n = strcspn(list, ",");
		if (opt->nr_writes == KVMM_NR_TIER_WRITES || n >= sizeof(text))
			bad_option(state, "--write-policies: '%s' is not a list of at most %u names",
				   list, KVMM_NR_TIER_WRITES);
		memcpy(text, list, n);
		text[n] = '\0';
		opt->write[opt->nr_writes++] = option_word(state, "write-policies", text, write_policies);
		if (!list[n])
			return;
	}
}

static void parse_tiers(struct argp_state *state, struct options *opt, int key, const char *arg)
{
	if (key == KEY_HOST_BLOCKS)
		opt->host_bytes = 0, opt->host_blocks = option_number(state, "host-blocks", arg, 0,
							       KVMM_MAX_BLOCKS);
	else if (key == KEY_WRITE_POLICIES)
		parse_writes(state, opt, arg);
	else if (key == KEY_OFFLOAD_THRESHOLD)
		opt->offload_pm = permille(state, "offload-threshold", arg);
	else if (key == KEY_TRANSFER_BANDWIDTH)
		opt->down.bytes_per_s = opt->up.bytes_per_s =
			1000000 * option_number(state, "transfer-bandwidth", arg, 0, 100000000);
	else if (key == KEY_TRANSFER_LATENCY)
		opt->down.latency_ns = opt->up.latency_ns =
			1000 * option_number(state, "transfer-latency", arg, 0, 1000000000);
	else if (key == KEY_CONFIG)
		parse_config(state, opt, arg);
	else
		opt->disk_bytes = 0, opt->disk_blocks = option_number(state, "disk-blocks", arg, 0,
							       KVMM_MAX_BLOCKS);
}

static void parse_rest(struct argp_state *state, struct parse *parse, int key, const char *arg)
{
	static const char *const arrivals[] = { "sat", "ts", NULL };
	static const char *const keys[] = { "ids", "vllm", NULL };
	static const char *const modes_of_compare[] = { "seq", "conc", NULL };
	struct options *opt = parse->opt;

	if (key == KEY_BLOCKS)
		parse->blocks = arg;
	else if (key == KEY_ARRIVALS)
		opt->by_time = option_word(state, "arrivals", arg, arrivals);
	else if (key == KEY_MODE)
		opt->conc = option_word(state, "mode", arg, modes_of_compare);
	else if (key == KEY_GENERATE)
		add_source(state, opt, NULL, arg);
	else if (key == KEY_SEED)
		opt->seed = option_number(state, "seed", arg, 0, UINT64_MAX);
	else if (key == KEY_RECORD_EVERY)
		opt->record_every_ms = thousandths(state, "record-every", arg);
	else if (key == KEY_PROGRESS || key == KEY_NO_PROGRESS)
		opt->progress = key == KEY_PROGRESS ? PROGRESS_ON : PROGRESS_OFF;
	else
		opt->keys = option_word(state, "keys", arg, keys), parse->keys_given = true;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct parse *parse = state->input;

	if (option_set(state, fields, ARRAY_SIZE(fields), parse->opt, key, arg))
		return 0;
	switch (key) {
	case KEY_HOST_BLOCKS: case KEY_WRITE_POLICIES: case KEY_OFFLOAD_THRESHOLD:
	case KEY_TRANSFER_BANDWIDTH: case KEY_TRANSFER_LATENCY: case KEY_CONFIG: case KEY_DISK_BLOCKS:
		parse_tiers(state, parse->opt, key, arg);
		return 0;
	case KEY_BLOCKS: case KEY_ARRIVALS: case KEY_MODE: case KEY_GENERATE: case KEY_SEED:
	case KEY_RECORD_EVERY: case KEY_PROGRESS: case KEY_NO_PROGRESS: case KEY_KEYS:
		parse_rest(state, parse, key, arg);
		return 0;
	case ARGP_KEY_ARG:
		parse_arg(state, parse->opt, arg);
		return 0;
	case ARGP_KEY_END:
		finish(state, parse);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

void options_parse(struct options *opt, int argc, char **argv)
{
	static const struct argp_child children[] = { { &live_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = {
		.children	= children,
		.options	= options,
		.parser		= parse_option,
		.args_doc	= "MODE [TRACE...]",
		.doc		= doc,
	};
	struct parse parse = { .opt = opt };

	*opt = (struct options){
		.policy		= "lru",
		.alloc		= "zone",
		.seed		= 1,
		.nr_requests	= 12000,
		.jobs		= 1,
		.max_runs	= 1,
		.mark		= 100,
		.streams	= U32_NONE,
		.ahead		= U32_NONE,
		.step_us	= 20000,
		.threshold_pm	= 200,
		.interval_ms	= 60000,
		.host_policy	= "lru",
		.offload_pm	= 900,
		.low_pm		= U32_NONE,
		.down.bytes_per_s = 50000000000,
		.up.bytes_per_s	= 50000000000,
		.client		= KVMM_TIER_CLIENT_ATTR_INIT,
		.knobs		= KVMM_TIER_CONFIG_INIT,
		.disk_use	= KVMM_TIER_DISK_ATTR_INIT,
		.token_bytes	= 131072,
		.reload_ms	= 10000,
		.disk_mb_s	= 5000,
		.disk_latency_us = 100,
	};
	read_options(&argp, argc, argv, ARGP_IN_ORDER, &parse);	/* traces are in order */
}
