// SPDX-License-Identifier: Apache-2.0
/* kvmm-defrag: the command line. */
#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include "defrag.h"
#include "live.h"

enum {
	KEY_AT = 'a', KEY_BLOCKS = 'n', KEY_BLOCK_TOKENS = 't', KEY_JSON = 'j',
	KEY_MARK = 'm', KEY_MAX_RUNS = 'r', KEY_DEVICE = 'd', KEY_VERIFY = 'v', KEY_WANT = 'w',
	KEY_OCCUPANCY = 256, KEY_MAX_BLOCKS, KEY_MOVES, KEY_SPEED, KEY_INTERVAL, KEY_THRESHOLD,
	KEY_BLOCK_BYTES, KEY_PINNED, KEY_GOAL, KEY_PAGEBLOCK,
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "When:", 1 },
	{ "at", KEY_AT, "N", 0, "When N requests have been admitted", 0 },
	{ "occupancy", KEY_OCCUPANCY, "PCT", 0, "When so much of the pool is held, 1 to 100", 0 },
	{ "interval", KEY_INTERVAL, "S", 0, "watch: each S seconds of the trace [60]", 0 },
	{ "threshold", KEY_THRESHOLD, "PM", 0,
	  "watch: compact where so much of the free blocks is of no use to the median request, "
	  "per mille [never]", 0 },

	{ NULL, 0, NULL, 0, "What:", 2 },
	{ "want", KEY_WANT, "N", 0, "Make one free run of N blocks [pack all downward]", 0 },
	{ "goal", KEY_GOAL, "NAME", 0,
	  "plan, run: as kvmm_compact_get_plan() does: run (of --want blocks), pageblocks (--want "
	  "of them empty), shorten (extents of ranges lie together) [the world stands still]", 0 },
	{ "pageblock", KEY_PAGEBLOCK, "N", 0, "Blocks of a pageblock, a power of two [64]", 0 },
	{ "max-blocks", KEY_MAX_BLOCKS, "N", 0, "Move at most N blocks [no limit]", 0 },

	{ NULL, 0, NULL, 0, "The pool, as in kvmm-replay frag:", 3 },
	{ "blocks", KEY_BLOCKS, "N", 0, "Its blocks [8192]", 0 },
	{ "block-tokens", KEY_BLOCK_TOKENS, "N", 0, "Tokens a block, a power of two [16]", 0 },
	{ "block-bytes", KEY_BLOCK_BYTES, "N", 0, "Bytes a block [plan: 2097152; run: 4096]", 0 },
	{ "device", KEY_DEVICE, "NAME", 0,
	  "run: where the blocks are: host, soft:0, cuda:0 [host]", 0 },
	{ "mark", KEY_MARK, "PCT", 0, "Admit up to this share of the pool [95]", 0 },
	{ "max-runs", KEY_MAX_RUNS, "K", 0, "Most runs a request may hold, 1 to 8 [1]", 0 },
	{ "pinned", KEY_PINNED, "PCT", 0, "Requests that must not move, 0 to 100 [0]", 0 },
	{ "verify", KEY_VERIFY, NULL, 0, "run, watch: check the content of what has moved", 0 },

	{ NULL, 0, NULL, 0, "Output:", 4 },
	{ "live", 'l', NULL, 0, "Not of a replay, but of a running engine", 5 },
	{ "socket", 'S', "PATH", 0, "The same, by its control socket", 0 },
	{ "json", KEY_JSON, NULL, 0, "JSON: one object, or for watch one a line", 0 },
	{ "moves", KEY_MOVES, "N", 0, "List at most N moves, 0 to 12 [0]; --json: any number", 0 },
	{ "mib-per-s", KEY_SPEED, "N", 0, "plan: predict with this speed of copying [500000]", 0 },
	{ 0 }
};

static const char doc[] =
	"Compact the pool of a replay at some point, and say what that takes and brings. With --live or "
	"--socket PATH: the pool of a running engine (kvmm-defrag --live --help).\v"
	"Commands:\n"
	"  plan   how the pool is, what would move, and how long about that would take\n"
	"  run    the same, done and measured\n"
	"  watch  a line for each interval of the trace's time\n"
	"\n"
	"TRACE is what kvmm-replay takes; without it conversations are made up. Rate is 1 - longest "
	"free run / free blocks; unusable is the share of free blocks in runs that are too short "
	"for the median request.\n"
	"\n"
	"Examples:\n"
	"  kvmm-defrag plan --at 9683 --want 400 trace.csv\n"
	"  kvmm-defrag plan --at 9683 --goal pageblocks --want 4 trace.csv\n"
	"  kvmm-defrag run --occupancy 95 --max-runs 4 --verify trace.csv\n"
	"  kvmm-defrag watch --interval 60 --threshold 200 --want 256 trace.csv\n"
	"\n"
	"Exit code: 0 good; 1 the goal was not reached, or a result was wrong; 2 bad usage or a bad "
	"trace.";

static void parse_command(struct argp_state *state, struct ask *ask, const char *arg)
{
	static const char *const names[] = { "plan", "run", "watch" };

	for (u32 i = 0; i < NR_COMMANDS; i++)
		if (!strcmp(arg, names[i]))
			ask->command = i;
	if (ask->command == NR_COMMANDS)
		bad_option(state, "there is no command '%s', only plan, run, watch", arg);
}

static void parse_goal(struct argp_state *state, struct ask *ask, const char *arg)
{
	ask->goal = KVMM_GOAL_RUN;
	while (ask->goal < KVMM_GOAL_GATHER && strcmp(arg, kvmm_goal_name(ask->goal)))
		ask->goal++;
	if (ask->goal == KVMM_GOAL_GATHER)
		bad_option(state, "there is no goal '%s', only run, pageblocks, shorten", arg);
}

static void parse_arg(struct argp_state *state, struct ask *ask, const char *arg)
{
	if (ask->command == NR_COMMANDS) {
		parse_command(state, ask, arg);
	} else if (ask->replay.source[0].path) {
		bad_option(state, "unexpected argument '%s': one trace at a time", arg);
	} else {
		ask->replay.source[0].path = arg;
	}
}

#define NUMBER(key, name, field, min, max)	OPTION_NUMBER(key, name, struct ask, field, min, max)

static const struct option_field fields[] = {
	NUMBER(KEY_AT, "at", after, 1, UINT32_MAX),
	NUMBER(KEY_OCCUPANCY, "occupancy", percent, 1, 100),
	NUMBER(KEY_INTERVAL, "interval", interval_s, 1, 1000000),
	NUMBER(KEY_THRESHOLD, "threshold", threshold_pm, 1, 1000),
	NUMBER(KEY_WANT, "want", want, 1, KVMM_MAX_BLOCKS),
	NUMBER(KEY_PAGEBLOCK, "pageblock", pageblock, 2, 1u << 20),
	NUMBER(KEY_MAX_BLOCKS, "max-blocks", max_blocks, 1, KVMM_MAX_BLOCKS),
	NUMBER(KEY_MOVES, "moves", nr_moves, 0, UINT32_MAX),
	NUMBER(KEY_SPEED, "mib-per-s", mib_per_s, 1, UINT32_MAX),
	NUMBER(KEY_BLOCKS, "blocks", replay.nr_blocks, 1, KVMM_MAX_BLOCKS),
	NUMBER(KEY_BLOCK_TOKENS, "block-tokens", replay.block_tokens, 1, 1024),
	NUMBER(KEY_BLOCK_BYTES, "block-bytes", replay.block_bytes, 8, 1u << 30),
	NUMBER(KEY_MARK, "mark", replay.mark, 1, 100),
	NUMBER(KEY_MAX_RUNS, "max-runs", replay.max_runs, 1, KVMM_MAX_RUNS),
	NUMBER(KEY_PINNED, "pinned", replay.pinned, 0, 100),
	OPTION_TEXT(KEY_DEVICE, struct ask, replay.device),
	OPTION_FLAG(KEY_JSON, struct ask, replay.json),
	OPTION_FLAG(KEY_VERIFY, struct ask, replay.verify),
};

static void check_goal(struct argp_state *state, const struct ask *ask)
{
	if (ask->goal == KVMM_NR_GOALS)
		return;
	if (ask->command == DEFRAG_WATCH)
		bad_option(state, "--goal: for plan and run only");
	if (ask->goal != KVMM_GOAL_SHORTEN && !ask->want)
		bad_option(state, "--goal %s: needs --want", kvmm_goal_name(ask->goal));
	if (ask->pageblock & (ask->pageblock - 1))
		bad_option(state, "--pageblock: %u is not a power of two", ask->pageblock);
}

static void finish(struct argp_state *state, struct ask *ask)
{
	struct options *opt = &ask->replay;

	if (ask->command == NR_COMMANDS)
		bad_option(state, "which command? plan, run or watch");
	if (ask->after && ask->percent)
		bad_option(state, "--at or --occupancy, not both");
	if (opt->block_tokens & (opt->block_tokens - 1))
		bad_option(state, "--block-tokens: %u is not a power of two", opt->block_tokens);
	if (ask->want > opt->nr_blocks)
		bad_option(state, "--want: the pool has %u blocks", opt->nr_blocks);
	check_goal(state, ask);
	if (!ask->replay.json && ask->nr_moves > 12)
		bad_option(state, "--moves: more than 12 only with --json");
	if (ask->command == DEFRAG_PLAN && (opt->device || opt->verify))
		bad_option(state, "--device, --verify: a plan has no content");
	if (ask->command != DEFRAG_PLAN && !opt->device)
		opt->device = "host";
	if (!opt->block_bytes)
		opt->block_bytes = ask->command == DEFRAG_PLAN ? 2u << 20 : 4096;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct ask *ask = state->input;

	if (option_set(state, fields, ARRAY_SIZE(fields), ask, key, arg))
		return 0;
	switch (key) {
	case KEY_GOAL:
		parse_goal(state, ask, arg);
		return 0;
	case ARGP_KEY_ARG:
		parse_arg(state, ask, arg);
		return 0;
	case ARGP_KEY_END:
		finish(state, ask);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* A plan is made on ids: the bytes are for its prediction only. */
static enum exit_code open_pool(struct frag *frag, struct ask *ask, const struct run *run)
{
	u32 bytes = ask->replay.block_bytes;
	enum exit_code code;

	if (ask->command == DEFRAG_PLAN)
		ask->replay.block_bytes = 0;
	code = frag_open(frag, run);
	ask->replay.block_bytes = bytes;
	frag->stop_after = ask->after;
	frag->stop_percent = ask->percent;
	return code;
}

static enum exit_code play(struct ask *ask, struct trace *trace)
{
	struct results results = { 0 };
	struct run run = { .opt = &ask->replay, .trace = trace, .results = &results };
	struct frag frag;
	enum exit_code code = open_pool(&frag, ask, &run);

	if (!code)
		code = ask->command == DEFRAG_WATCH ? watch(&frag, ask) : act(&frag, ask);
	code = finish_output(code);
	frag_close(&frag);
	results_exit(&results);
	return code;
}

int main(int argc, char **argv)
{
	static const struct argp argp = { .options = options, .parser = parse, .doc = doc,
					  .args_doc = "COMMAND [TRACE]" };
	struct ask ask = {
		.command = NR_COMMANDS, .goal = KVMM_NR_GOALS, .pageblock = 64,
		.mib_per_s = 500000, .interval_s = 60,
		.replay = { .alloc = "zone", .compact = COMPACT_DIRECT, .seed = 1, .mark = 95,
			    .nr_blocks = 8192, .block_tokens = 16, .max_runs = 1,
			    .nr_sources = 1, .progress = PROGRESS_OFF },
	};
	struct trace trace = { 0 };
	enum exit_code code;

	if (live_is_meant(argc, argv))
		return live_main(argc, argv);
	read_options(&argp, argc, argv, 0, &ask);
	workload_init(&ask.replay.source[0].work, WORKLOAD_CHAT);
	code = load(&ask.replay.source[0], &trace);
	if (!code)
		code = play(&ask, &trace);
	trace_close(&trace);
	return code;
}
