// SPDX-License-Identifier: Apache-2.0
/* kvmm-defrag: the command line. */
#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include "defrag.h"
#include "live.h"

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

static void take_goal(struct argp_state *state, void *base, const char *arg)
{
	struct ask *ask = base;

	ask->goal = KVMM_GOAL_RUN;
	while (ask->goal < KVMM_GOAL_GATHER && strcmp(arg, kvmm_goal_name(ask->goal)))
		ask->goal++;
	if (ask->goal == KVMM_GOAL_GATHER)
		bad_option(state, "there is no goal '%s', only run, pageblocks, shorten", arg);
}

/* main() has not seen it: it is not on its own. */
static void take_live(struct argp_state *state, void *base, const char *arg)
{
	bad_option(state, "--live, --socket: as options of their own");
}

static void parse_arg(struct argp_state *state, void *base, const char *arg)
{
	struct ask *ask = base;

	if (ask->command == NR_COMMANDS) {
		parse_command(state, ask, arg);
	} else if (ask->replay.source[0].path) {
		bad_option(state, "unexpected argument '%s': one trace at a time", arg);
	} else {
		ask->replay.source[0].path = arg;
	}
}

#define NUMBER(name, key, arg, field, min, max, help) \
	ROW_NUMBER(name, key, arg, struct ask, field, min, max, help)

static const struct option_row rows[] = {
	ROW_HEAD(1, "When:"),
	NUMBER("at", 'a', "N", after, 1, UINT32_MAX, "When N requests have been admitted"),
	NUMBER("occupancy", 0, "PCT", percent, 1, 100,
		"When so much of the pool is held, 1 to 100"),
	NUMBER("interval", 0, "S", interval_s, 1, 1000000,
		"watch: each S seconds of the trace [60]"),
	NUMBER("threshold", 0, "PM", threshold_pm, 1, 1000,
		"watch: compact where so much of the free blocks is of no use to the median request, "
		"per mille [never]"),

	ROW_HEAD(2, "What:"),
	NUMBER("want", 'w', "N", want, 1, KVMM_MAX_BLOCKS,
		"Make one free run of N blocks [pack all downward]"),
	ROW_TAKE("goal", 0, "NAME", take_goal,
		"plan, run: as kvmm_compact_get_plan() does: run (of --want blocks), pageblocks (--want "
		"of them empty), shorten (extents of ranges lie together) [the world stands still]"),
	NUMBER("pageblock", 0, "N", pageblock, 2, 1u << 20,
		"Blocks of a pageblock, a power of two [64]"),
	NUMBER("max-blocks", 0, "N", max_blocks, 1, KVMM_MAX_BLOCKS,
		"Move at most N blocks [no limit]"),

	ROW_HEAD(3, "The pool, as in kvmm-replay frag:"),
	NUMBER("blocks", 'n', "N", replay.nr_blocks, 1, KVMM_MAX_BLOCKS, "Its blocks [8192]"),
	NUMBER("block-tokens", 't', "N", replay.block_tokens, 1, 65536, "Tokens a block [16]"),
	NUMBER("block-bytes", 0, "N", replay.block_bytes, 8, 1u << 30,
		"Bytes a block [plan: 2097152; run: 4096]"),
	ROW_TEXT("device", 'd', "NAME", struct ask, replay.device,
		"run: where the blocks are: host, soft:0, cuda:0 [host]"),
	NUMBER("mark", 'm', "PCT", replay.mark, 1, 100, "Admit up to this share of the pool [95]"),
	NUMBER("max-runs", 'r', "K", replay.max_runs, 1, KVMM_MAX_RUNS,
		"Most runs a request may hold, 1 to 8 [1]"),
	NUMBER("pinned", 0, "PCT", replay.pinned, 0, 100,
		"Requests that must not move, 0 to 100 [0]"),
	ROW_FLAG("verify", 'v', struct ask, replay.verify,
		"run, watch: check the content of what has moved"),

	ROW_HEAD(4, "Output:"),
	ROW_TAKE("live", 'l', NULL, take_live, "Not of a replay, but of a running engine"),
	ROW_TAKE("socket", 'S', "PATH", take_live, "The same, by its control socket"),
	ROW_FLAG("json", 'j', struct ask, replay.json, "JSON: one object, or for watch one a line"),
	NUMBER("moves", 0, "N", nr_moves, 0, UINT32_MAX,
		"List at most N moves, 0 to 12 [0]; --json: any number"),
	NUMBER("mib-per-s", 0, "N", mib_per_s, 1, UINT32_MAX,
		"plan: predict with this speed of copying [500000]"),
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

static void finish(struct argp_state *state, void *base)
{
	struct ask *ask = base;
	struct options *opt = &ask->replay;

	if (ask->command == NR_COMMANDS)
		bad_option(state, "which command? plan, run or watch");
	if (ask->after && ask->percent)
		bad_option(state, "--at or --occupancy, not both");
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
	static const struct usage usage = {
		OPTION_ROWS(rows), "COMMAND [TRACE]", doc, parse_arg, finish, false,
	};
	struct ask ask = {
		.command = NR_COMMANDS, .goal = KVMM_NR_GOALS, .pageblock = 64,
		.mib_per_s = 500000, .interval_s = 60,
		.replay = { .alloc = "zone", .compact = COMPACT_DIRECT, .seed = 1, .mark = 95,
			    .nr_blocks = 8192, .block_tokens = 16, .max_runs = 1,
			    .nr_sources = 1, .no_progress = true },
	};
	struct trace trace = { 0 };
	enum exit_code code;

	if (live_is_meant(argc, argv))
		return live_main(argc, argv);
	read_options(&usage, argc, argv, &ask);
	workload_init(&ask.replay.source[0].work, WORKLOAD_CHAT);
	code = load(&ask.replay.source[0], &trace);
	if (!code)
		code = play(&ask, &trace);
	trace_close(&trace);
	return code;
}
