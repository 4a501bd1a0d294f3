// SPDX-License-Identifier: Apache-2.0
/* The command line. Everything that can be checked without the trace is checked here. */
#include <argp.h>

#include <kv/tier.h>
#include <kv/zone.h>
#include <kvmm/kvmm.h>

#include "live.h"
#include "policies.h"
#include "replay.h"

/*
 * ---- --config FILE ----
 *
 * What a configuration file of <kvmm/ext/disk.h> says of tiers, as if it stood in the options at
 * that place. What a simulation has nothing like is refused, so that nobody believes it was tried.
 */

static struct kvmm_config config = KVMM_CONFIG_INIT;	/* has the strings */

/* Keys that the replay has no use for, and why. */
static const struct refusal {
	const char *key;
	const char *why;
} refusals[] = {
	{ "host_name", "the tier has no name here" },
	{ "host_device", "no driver pins memory here" },
	{ "host_block_bytes", "a unit is a block, of --block-tokens * --token-bytes" },
	{ "host_chunk_bytes", "there is no memory to be pinned" },
	{ "host_numa_node", "there is no memory to lie anywhere" },
	{ "layout_id", "there is one pool only" },
	{ "complete", "there are no streams" },
	{ "verify_every", "there is no content" },
	{ "disk_path", "the disk is simulated" },
	{ "disk_segment_bytes", "the disk is simulated, block by block" },
	{ "disk_depth", "the disk is simulated; see disk_max_put, disk_max_get" },
	{ "disk_create", "the disk is simulated" },
	{ "disk_buffered", "the disk is simulated" },
	{ "disk_io", "the disk is simulated" },
	{ "remote_address", "there is no server" },
	{ "remote_model", "there is no server" },
	{ "remote_user", "there is no server" },
	{ "remote_password", "there is no server" },
	{ "remote_deadline", "there is no server" },
	{ "remote_ttl_s", "there is no server" },
};

static bool is_set(const char *name)
{
	const char *key;

	for (u32 i = 0; (key = kv_config_key(i)); i++)
		if (!strcmp(key, name))
			return config.set >> i & 1;
	return false;
}

static void parse_config(struct argp_state *state, struct options *opt, const char *path)
{
	struct kvmm_disk_attr disk = KVMM_DISK_ATTR_INIT;
	u32 low_pm = opt->knobs.low_pm;

	opt->knobs.low_pm = low_pm != U32_NONE ? low_pm : 0;
	config.host = &opt->host;
	config.client = &opt->client;
	config.knobs = &opt->knobs;
	config.disk = &disk;
	config.disk_use = &opt->disk_use;
	if (kvmm_config_load(&config, path))
		bad_option(state, "--config: %s", config.error);
	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++)
		if (is_set(refusals[i].key))
			bad_option(state, "--config: %s: %s is of no use in a replay: %s", path,
				   refusals[i].key, refusals[i].why);
	if (is_set("host_bytes") && is_set("host_blocks"))
		bad_option(state, "--config: %s: host_bytes or host_blocks, not both", path);
	if (!is_set("low"))
		opt->knobs.low_pm = low_pm;
	if (is_set("host_blocks"))
		opt->host.capacity_bytes = 0;
	if (is_set("disk_bytes"))
		opt->disk_bytes = disk.max_bytes;
}

/* ---- options ---- */

static const struct mode modes[] = {
	{ "seq",   "prefix caching, one request after the other", run_seq, NULL },
	{ "conc",  "prefix caching, requests side by side in time", run_conc, NULL },
	{ "frag",  "one contiguous run (or a few) a request", run_frag, NULL },
	{ "cluster", "prefix caching on many nodes, and what goes between them", run_cluster, NULL },
	{ "waste", "empty room in last blocks", run_waste, NULL },
	{ "compare", "policies and sizes of a prefix cache, side by side", NULL, run_compare },
	{ "generate", "a made-up trace on standard output", NULL, run_generate },
};

static const char doc[] =
	"Replay a trace of LLM requests on the real library and say how well memory was used.\v"
	"Modes:\n"
	"  seq    prefix caching, one request after the other: hits of a policy\n"
	"  conc   prefix caching, requests side by side in time: hits, waiting, memory in use\n"
	"  frag   each request holds one contiguous run, or a few: occupancy, failures, moves\n"
	"  cluster  a cache for each of N nodes: hits, bytes between them, time to the first token\n"
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

static void need_policy(struct argp_state *state, const char *option, const char *policy)
{
	int err = policy_check(policy);
	char list[1024];

	if (!err)
		return;
	policy_list(list, sizeof(list));
	if (err == -EINVAL && strchr(policy, ':'))
		bad_option(state, "--%s: not with these parameters: '%s'", option, policy);
	bad_option(state, "--%s: there is no '%s', only %s", option, policy, list);
}

static void check_policy(struct argp_state *state, const struct options *opt)
{
	bool limit = limit_is(opt->policy);

	if (limit && opt->mode->run != run_seq)
		bad_option(state, "--policy %s: in mode seq only", opt->policy);
	if (!limit && strcmp(opt->policy, "min"))
		need_policy(state, "policy", opt->policy);
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

		if (!limit_is(name) && strcmp(name, "min") && strcmp(name, "all"))
			need_policy(state, "policies", name);
	}
}

static void check_alloc(struct argp_state *state, const struct options *opt)
{
	const char *names[64 + 1];

	names[min_u64(kv_zone_engines(names, 64), 64)] = NULL;
	option_word(state, "alloc", opt->alloc, names);
}

/* ---- the whole ---- */

static bool is_pooled(const struct options *opt)
{
	return opt->mode->run == run_seq || opt->mode->run == run_conc;
}

static bool is_compare(const struct options *opt)
{
	return opt->mode->whole == run_compare;
}

static bool is_cluster(const struct options *opt)
{
	return opt->mode->run == run_cluster;
}

static void set_defaults(struct options *opt, bool keys_given)
{
	bool is_cache = is_pooled(opt) || is_compare(opt) || is_cluster(opt);

	if (!opt->nr_clusters)
		for (u32 nodes = 1; nodes <= 256; nodes *= 4)
			opt->nodes[opt->nr_clusters++] = nodes;

	if (!opt->block_tokens)
		opt->block_tokens = is_cache ? TRACE_ID_TOKENS : 16;
	if (!opt->nr_blocks)
		opt->nr_blocks = is_cache ? 2560000 / opt->block_tokens : 8192;
	if (!keys_given || !is_cache)
		opt->keys = is_cache && opt->block_tokens == TRACE_ID_TOKENS ? KEYS_IDS : KEYS_VLLM;
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

static void check_sources(struct argp_state *state, struct options *opt)
{
	if (opt->nr_sources > 1 && !is_compare(opt))
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

/* Capacities in bytes, whole blocks of them. */
static void count_blocks(struct argp_state *state, struct options *opt)
{
	u64 bytes = (u64)opt->token_bytes * opt->block_tokens;
	u64 host = opt->host.capacity_bytes / bytes, disk = opt->disk_bytes / bytes;

	if (host > KVMM_MAX_BLOCKS || disk > KVMM_MAX_BLOCKS)
		bad_option(state, "--config: host_bytes, disk_bytes: more than %u blocks of %llu bytes",
			   KVMM_MAX_BLOCKS, (unsigned long long)bytes);
	if (opt->host.capacity_bytes)
		opt->host.capacity_blocks = (u32)host;
	if (opt->disk_bytes)
		opt->disk_blocks = (u32)disk;
}

/* The steps are a model of time: there is no work on a device that could be a step's. */
static bool has_steps(const char *device)
{
	return !device || !strcmp(device, "none") ||
	       (!strncmp(device, "host", 4) && (!device[4] || device[4] == ':'));
}

/* What does not go together: the first one that holds is said. */
struct rule {
	bool broken;
	const char *why;
};

static void check_rules(struct argp_state *state, const struct rule *rules, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (rules[i].broken)
			bad_option(state, "%s", rules[i].why);
}

static void check_streams(struct argp_state *state, const struct options *opt)
{
	const struct rule rules[] = {
		{ opt->compact == COMPACT_SLIDE && opt->streams,
		  "--streams: not with --compact slide, which is a reference" },
		{ opt->compact >= COMPACT_BACKGROUND && !opt->streams,
		  "--streams 0: there are no steps to move blocks beside" },
	};

	check_rules(state, rules, ARRAY_SIZE(rules));
	if (opt->mode->run == run_frag && opt->streams && !has_steps(opt->device))
		bad_option(state, "--streams %u: its steps are a model, for --device none or host, "
			   "not '%s'", opt->streams, opt->device);
}

static void check_pool(struct argp_state *state, struct options *opt)
{
	bool none = opt->device && !strcmp(opt->device, "none");

	if (is_compare(opt))
		check_policies(state, opt);
	else if (is_pooled(opt) || is_cluster(opt))
		check_policy(state, opt);
	if (opt->mode->run == run_frag)
		check_alloc(state, opt);
	check_streams(state, opt);
	if (none && opt->block_bytes)
		bad_option(state, "--device none has no memory for --verify or --block-bytes");
	if (none)
		opt->device = NULL;
	if (opt->pageblock & (opt->pageblock - 1))
		bad_option(state, "--pageblock: %u is not a power of two", opt->pageblock);
}

static void check_rest(struct argp_state *state, const struct options *opt)
{
	bool limited = limit_is(opt->policy), is_min = !strcmp(opt->policy, "min");
	const struct rule rules[] = {
		{ opt->empty_pageblocks && (opt->pageblock < 2 || opt->run_window < 2),
		  "--empty-pageblocks: needs --pageblock and --run-window" },
		{ opt->events_path && (!is_pooled(opt) || limited),
		  "--events: in modes seq and conc only, and with a policy" },
		{ opt->transfers && (!is_pooled(opt) || limited),
		  "--transfers: in modes seq and conc only, and with a policy" },
		{ opt->knobs.low_pm != U32_NONE && opt->knobs.low_pm > opt->knobs.high_pm,
		  "--offload-threshold: below the low mark of --config" },
		{ opt->disk_blocks && !opt->host.capacity_blocks,
		  "--disk-blocks: needs --host-blocks, through which blocks go" },
		{ opt->nr_writes && (!opt->host.capacity_blocks || !is_compare(opt)),
		  "--write-policies: in mode compare only, and with --host-blocks" },
		{ (opt->policies || opt->conc) && !is_compare(opt),
		  "--policies, --mode conc: in mode compare only" },
		{ opt->host.capacity_blocks && !is_compare(opt) && (!is_pooled(opt) || limited || is_min),
		  "--host-blocks: in modes seq, conc and compare only, and with a policy of the library" },
		{ opt->host.capacity_blocks && (opt->ages || opt->transfers || opt->device),
		  "--host-blocks: not with --ages, --transfers, --verify, --device or --block-bytes" },
		{ is_cluster(opt) && (is_min || opt->ages || opt->device || opt->record_path ||
				      opt->report_path || opt->digest),
		  "cluster: not with --policy min, --ages, --verify, --device, --block-bytes, --digest, "
		  "--report or --record-state" },
		{ opt->grow && (opt->mode->run != run_conc || is_min),
		  "--grow: in mode conc only, and with a policy of the library" },
		{ opt->grow && (opt->ages || opt->transfers || opt->device || opt->pageblock ||
				opt->events_path),
		  "--grow: not with --ages, --transfers, --pageblock, --events, --verify, --device or "
		  "--block-bytes" },
		{ opt->answers && (opt->mode->run != run_seq || limited || is_min),
		  "--answers: in mode seq only, and with a policy of the library" },
		{ opt->answers && (opt->ages || opt->transfers || opt->device || opt->pageblock ||
				   opt->host.capacity_blocks),
		  "--answers: not with --ages, --transfers, --pageblock, --host-blocks, --verify, --device or "
		  "--block-bytes" },
	};

	check_rules(state, rules, ARRAY_SIZE(rules));
	if (opt->host.capacity_blocks)
		need_policy(state, "host-policy", opt->host.policy);
}

/* What the parser has to remember, behind the options. */
struct parse {
	struct options opt;
	const char *blocks;	/* a number or, for compare, a list */
	bool keys_given;
};

static void add_source(struct argp_state *state, struct options *opt, const char *path,
		       const char *spec)
{
	if (opt->nr_sources == MAX_SOURCES)
		bad_option(state, "more than %u traces", MAX_SOURCES);
	opt->source[opt->nr_sources].path = path;
	opt->source[opt->nr_sources++].spec = spec;
}

static void parse_arg(struct argp_state *state, void *base, const char *arg)
{
	struct options *opt = base;

	if (opt->mode) {
		bool is_spec = opt->mode->whole == run_generate;

		add_source(state, opt, is_spec ? NULL : arg, is_spec ? arg : NULL);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(modes); i++)
		if (!strcmp(arg, modes[i].name))
			opt->mode = &modes[i];
	if (!opt->mode)
		bad_option(state, "there is no mode '%s', only seq, conc, frag, cluster, waste, "
			   "compare, generate", arg);
}

/* The next of a list with commas between, of which there are @nr; NULL: that was the last. */
static const char *next_of(struct argp_state *state, const char *name, char **list, u32 nr, u32 max)
{
	if (*list && nr == max)
		bad_option(state, "--%s: more than %u values", name, max);
	return strsep(list, ",");
}

/* argv may be written to, here and below. */
static void parse_sizes(struct argp_state *state, struct options *opt, char *list)
{
	const char *text;

	while ((text = next_of(state, "blocks", &list, opt->nr_sizes, MAX_SIZES)))
		opt->size[opt->nr_sizes++] = option_number(state, "blocks", text, 1, KVMM_MAX_BLOCKS);
}

/* What could not be read before the mode was known. */
static void finish(struct argp_state *state, void *base)
{
	struct parse *parse = base;
	struct options *opt = &parse->opt;

	if (!opt->mode)
		bad_option(state, "which mode? seq, conc, frag, cluster, waste, compare or generate");
	if (parse->blocks && is_compare(opt))
		parse_sizes(state, opt, (char *)parse->blocks);
	else if (parse->blocks)
		opt->nr_blocks = option_number(state, "blocks", parse->blocks, 1, KVMM_MAX_BLOCKS);
	if (!opt->nr_sources && opt->mode->whole != run_generate)
		add_source(state, opt, NULL, NULL);
	check_sources(state, opt);
	if (opt->record_path && opt->mode->whole)
		bad_option(state, "--record-state: of one run, not in mode %s", opt->mode->name);
	set_defaults(opt, parse->keys_given);
	check_pool(state, opt);
	count_blocks(state, opt);
	check_rest(state, opt);
}

/* ---- options that are more than a field ---- */

#define TAKER(name) \
	static void take_##name(struct argp_state *state, void *base, const char *arg)

static const char *const arrivals[] = { "sat", "ts", NULL }, *const caching[] = { "seq", "conc", NULL };
const char *const write_policies[] = { "selective", "explicit", "through", "back", "threshold",
				       NULL };

TAKER(blocks)
{
	((struct parse *)base)->blocks = arg;
}

TAKER(nodes)
{
	struct options *opt = base;
	char *list = (char *)arg;
	const char *text;

	opt->nr_clusters = 0;
	while ((text = next_of(state, "nodes", &list, opt->nr_clusters, MAX_CLUSTERS)))
		opt->nodes[opt->nr_clusters++] = option_number(state, "nodes", text, 1, MAX_NODES);
}

TAKER(keys)
{
	static const char *const keys[] = { "ids", "vllm", NULL };
	struct parse *parse = base;

	parse->opt.keys = option_word(state, "keys", arg, keys);
	parse->keys_given = true;
}

TAKER(generate)
{
	add_source(state, base, NULL, arg);
}

TAKER(record_every)
{
	((struct options *)base)->record_every_ms = option_milli(state, "record-every", arg, 0.001, 1e9);
}

TAKER(host_blocks)
{
	struct options *opt = base;

	opt->host.capacity_bytes = 0;
	opt->host.capacity_blocks = option_number(state, "host-blocks", arg, 0, KVMM_MAX_BLOCKS);
}

TAKER(disk_blocks)
{
	struct options *opt = base;

	opt->disk_bytes = 0;
	opt->disk_blocks = option_number(state, "disk-blocks", arg, 0, KVMM_MAX_BLOCKS);
}

TAKER(write_policies)
{
	struct options *opt = base;
	char *list = (char *)arg;
	const char *text;

	opt->nr_writes = 0;
	while ((text = next_of(state, "write-policies", &list, opt->nr_writes, KVMM_NR_TIER_WRITES)))
		opt->write[opt->nr_writes++] = option_word(state, "write-policies", text,
							   write_policies);
}

TAKER(offload_threshold)
{
	((struct options *)base)->knobs.high_pm = option_milli(state, "offload-threshold", arg, 0, 1);
}

TAKER(fixed)
{
	((struct options *)base)->knobs.flags |= KVMM_TIER_FIXED;
}

TAKER(bandwidth)
{
	struct options *opt = base;

	opt->host.down.bytes_per_s = opt->host.up.bytes_per_s =
		1000000 * option_number(state, "transfer-bandwidth", arg, 0, 100000000);
}

TAKER(latency)
{
	struct options *opt = base;

	opt->host.down.latency_ns = opt->host.up.latency_ns =
		1000 * option_number(state, "transfer-latency", arg, 0, 1000000000);
}

TAKER(config)
{
	parse_config(state, base, arg);
}

#define HEAD				ROW_HEAD
#define TAKE				ROW_TAKE
#define NUMBER(name, key, arg, field, min, max, help) \
	ROW_NUMBER(name, key, arg, struct options, field, min, max, help)
#define SCALED(name, key, arg, field, scale, min, max, help) \
	ROW_SCALED(name, key, arg, struct options, field, scale, min, max, help)
#define WORD(name, key, arg, field, words, help) \
	ROW_WORD(name, key, arg, struct options, field, words, help)
#define FLAG(name, key, field, help)		ROW_FLAG(name, key, struct options, field, help)
#define TEXT(name, key, arg, field, help) \
	ROW_TEXT(name, key, arg, struct options, field, help)

static const struct option_row rows[] = {
	HEAD(1, "The pool:"),
	TAKE("blocks", 'n', "N", take_blocks,
		"Usable blocks [room for 2,560,000 tokens; frag: 8192]; compare: N,N,..."),
	NUMBER("block-tokens", 't', "N", block_tokens, 1, TRACE_MAX_ID_TOKENS,
		"Tokens a block [512; frag, waste: 16]"),
	TEXT("device", 'd', "NAME", device,
		"none: ids without memory; host: plain memory; others as the library knows them "
		"[none; with --verify host]"),
	NUMBER("block-bytes", 0, "N", block_bytes, 0, 1u << 30,
		"Content of a block [0; with --verify 64]"),
	FLAG("verify", 'v', verify,
		"Write a pattern into each block; check it at every hit, move and free"),

	HEAD(2, "Prefix caching (seq, conc, compare):"),
	TEXT("policy", 'p', "NAME", policy,
		"Who is evicted: a policy of the library, with parameters as in multilru:3,8,15, "
		"or min (knows the future); seq also: bound (no policy hits more), infinite "
		"(nothing is evicted) [lru]"),
	FLAG("ages", 0, ages,
		"Count how long blocks were idle when they hit and when they were evicted, and "
		"how soon what was evicted came back"),
	TEXT("events", 0, "FILE", events_path,
		"Write all that the pool tells, and the requests, to FILE: see kvmm-events and "
		"kvmm-trace"),
	FLAG("digest", 0, digest,
		"Make the pool deterministic, and say the digests of its history and of what it "
		"is in the end: the same in every run"),
	NUMBER("run-window", 0, "N", run_window, 0, KVMM_MAX_BLOCKS,
		"Hand new blocks out lowest first (1), and evict blocks that lie together, from "
		"among those needed and the next N (2 and more); 0: plain order [1]"),
	NUMBER("pageblock", 0, "N", pageblock, 0, KVMM_MAX_BLOCKS,
		"Count the aligned groups of N blocks, a power of two, that requests got as a "
		"whole once blocks were evicted [0: do not]"),
	FLAG("empty-pageblocks", 0, empty_pageblocks,
		"Of --run-window's blocks those go first that empty such a group"),
	FLAG("transfers", 0, transfers,
		"Count the descriptors, one a run, that sending the blocks of each prompt would take"),
	TAKE("keys", 'k', "ids|vllm", take_keys,
		"ids: each block number of the trace is one block, of as many tokens as it stands "
		"for; vllm: full blocks of any size, the last token is always computed [ids for "
		"512]"),
	FLAG("grow", 0, grow,
		"conc: answers take their blocks as they grow; where there is none, the request "
		"that was admitted last is preempted, and computed again"),
	FLAG("answers", 0, answers,
		"seq: answers take their blocks, too, one after the other, and full ones stay "
		"cached: as part of the prompt of the next turn, where the trace has one"),

	HEAD(3, "Tiers below the pool, simulated (seq, conc, compare):"),
	TAKE("host-blocks", 0, "N", take_host_blocks, "Blocks of the host's; 0: there is none [0]"),
	TEXT("host-policy", 0, "NAME", host.policy, "Who goes when it is full [lru]"),
	TAKE("disk-blocks", 0, "N", take_disk_blocks,
		"Blocks of a disk below that; 0: there is none [0]"),
	NUMBER("disk-bandwidth", 0, "MB/S", disk_mb_s, 0, 100000000,
		"Of the disk, to write and to read; 0: bytes take no time [5000]"),
	NUMBER("disk-latency", 0, "US", disk_latency_us, 0, 1000000000,
		"Of each write and read [100]"),
	WORD("write-policy", 0, "NAME", knobs.write, write_policies,
		"When blocks are copied there: selective (used again), through (at once), back "
		"(before they are evicted), threshold (the same, and they are free then), "
		"explicit (never here) [selective]"),
	NUMBER("touches", 0, "N", knobs.touches, 1, 15,
		"selective: uses that make a copy worth it, 1 to 15 [2]"),
	TAKE("offload-threshold", 0, "F", take_offload_threshold,
		"back, threshold: share of the device's blocks in use or cached above which they "
		"act, down to 0.1 below [0.9]"),
	TAKE("transfer-bandwidth", 0, "MB/S", take_bandwidth,
		"Of the link in each direction; 0: copies take no time besides the latency [50000]"),
	TAKE("transfer-latency", 0, "US", take_latency, "Of each copy [0]"),
	NUMBER("token-bytes", 0, "N", token_bytes, 1, 1u << 30, "Content of a token [131072]"),
	SCALED("reload-window", 0, "MS", knobs.reload_ns, NS_PER_MS, 0, 1000000000,
		"Blocks that come back so soon after they went count as thrashing [10000]"),
	TAKE("fixed", 0, NULL, take_fixed, "Nothing adapts to what thrashes"),
	TAKE("config", 0, "FILE", take_config,
		"Take these from a configuration file (and the environment, KVMM_TIER_...), as if "
		"they stood here; what comes behind goes first"),

	HEAD(4, "Comparing (compare):"),
	TEXT("policies", 0, "LIST", policies,
		"Names with commas between; lru, min, bound and infinite are always there [all]"),
	TAKE("write-policies", 0, "LIST", take_write_policies,
		"With --host-blocks: each policy with each of these [the one of --write-policy]"),
	WORD("mode", 0, "seq|conc", conc, caching, "How requests come [seq]"),
	NUMBER("jobs", 0, "N", jobs, 1, MAX_JOBS,
		"Runs at a time; the output is the same for any number [1]"),

	HEAD(5, "Many nodes (cluster):"),
	TAKE("nodes", 0, "N,N,...", take_nodes, "Nodes, each with --blocks [1,4,16,64,256]"),
	NUMBER("link-bandwidth", 0, "MB/S", link_mb_s, 0, 100000000,
		"Of each node's link, each way; 0: bytes take no time [1300: TCP on a loopback]"),
	NUMBER("link-latency", 0, "US", link_latency_us, 0, 1000000000, "Of each fetch [13: the same]"),

	HEAD(6, "Contiguous runs (frag):"),
	TEXT("alloc", 'a', "NAME", alloc, "Allocator: an engine of the library [zone]"),
	NUMBER("max-runs", 'r', "K", max_runs, 1, KVMM_MAX_RUNS,
		"Most runs a request may hold, 1 to 8 [1]"),
	NUMBER("mark", 'm', "PCT", mark, 1, 100,
		"Admit up to this share of the pool, 1 to 100 [100]"),
	WORD("arrivals", 0, "sat|ts", by_time, arrivals,
		"sat: all requests wait from the start; ts: they come as recorded [sat]"),
	NUMBER("pinned", 0, "PCT", pinned, 0, 100,
		"Requests that no compaction may move, 0 to 100 [0]"),
	WORD("compact", 'c', "HOW", compact, compact_modes,
		"off; slide: on failure, the cheapest slide; direct: on failure, the cheapest "
		"window; beside, between: on failure, beside or between the engine's steps; "
		"background: beside them, before anybody fails [off]"),
	NUMBER("streams", 0, "N", streams, 0, KVMM_MAX_STREAMS,
		"Streams of the engine whose steps read the requests' blocks, 1 to 32, on ids or "
		"on the host only; 0: nobody reads [4 for beside and background, 1 for between, "
		"else 0]"),
	NUMBER("step-us", 0, "N", step_us, 1, 10000000, "Time of a step of a full pool [20000]"),
	NUMBER("threshold", 0, "PM", threshold_pm, 1, 1000,
		"background: begin where so much of the free blocks is unusable, per mille [200]"),
	NUMBER("interval", 0, "MS", interval_ms, 1, 100000000, "background: look so often [60000]"),
	NUMBER("ahead", 0, "PCT", ahead, 0, 1000,
		"beside, background: make a run for the next request before it is admitted, if "
		"that moves no more than so much of it [50 for background, else 0]"),

	HEAD(7, "Workload made up when no TRACE is given:"),
	TAKE("generate", 0, "SPEC", take_generate,
		"KIND or KIND:name=value,... of chat, agent, zipf, scan, phase, mix; kvmm-replay "
		"generate says what they take [chat]"),
	NUMBER("requests", 0, "N", nr_requests, 1, 1u << 20, "Number of requests [12000]"),
	SCALED("seed", 's', "S", seed, 1, 0, UINT64_MAX, "Seed of the workload and of patterns [1]"),

	HEAD(8, "Output:"),
	FLAG("json", 'j', json, "One JSON object a run on standard output"),
	TEXT("report", 0, "FILE.html", report_path, "Also write a page: memory over time"),
	TEXT("record-state", 0, "FILE", record_path,
		"Also write a recording of it, for kvmm-dump report"),
	TAKE("record-every", 0, "S", take_record_every,
		"A moment of it each S seconds of the simulation; seq: each S requests [about "
		"1,200 in all]"),
	FLAG("record-calls", 0, record_calls,
		"Measure calls of the library, too: then no two recordings are the same"),
	FLAG("progress", 0, progress, "Progress bar on stderr [on a terminal]"),
	FLAG("no-progress", 0, no_progress, "No progress bar"),

	LIVE_ROWS,
};

void options_parse(struct options *opt, int argc, char **argv)
{
	static const struct usage usage = { OPTION_ROWS(rows), "MODE [TRACE...]", doc, parse_arg,
					    finish, true };	/* traces are in order */
	struct parse parse = { .opt = {
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
		.run_window	= 1,
		.host		= { .size = sizeof(struct kvmm_tier_attr), .numa_node = -1, .policy = "lru",
				    .down.bytes_per_s = 50000000000, .up.bytes_per_s = 50000000000 },
		.client		= KVMM_TIER_CLIENT_ATTR_INIT,
		.knobs		= KVMM_TIER_CONFIG_INIT,
		.disk_use	= KVMM_TIER_DISK_ATTR_INIT,
		.token_bytes	= 131072,
		.link_mb_s	= 1300,
		.link_latency_us = 13,
		.disk_mb_s	= 5000,
		.disk_latency_us = 100,
	} };

	parse.opt.knobs.low_pm = U32_NONE;
	read_options(&usage, argc, argv, &parse);
	*opt = parse.opt;
}
