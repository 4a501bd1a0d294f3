// SPDX-License-Identifier: Apache-2.0
/*
 * kvmm-defrag on a running engine, through its control socket. What it asks for is carried out in the
 * engine's process, beside its steps; here it is only waited for.
 */
#include <argp.h>
#include <string.h>
#include <time.h>

#include "../client/options.h"
#include "../tool.h"
#include "live.h"

struct ask {
	struct client_options opt;
	const char *args[3];
	unsigned int nr_args;
	char goal[512];			/* words for compact-plan and compact-run */
	double wait;
	struct client client;
};

/* ---- the command line ---- */

static void add_word(struct argp_state *state, struct ask *ask, const char *name, const char *value)
{
	size_t len = strlen(ask->goal);
	int nr = snprintf(ask->goal + len, sizeof(ask->goal) - len, " %s%s", name, value);

	if (nr < 0 || (size_t)nr >= sizeof(ask->goal) - len)
		bad_option(state, "that is too long");
}

/* Options that are words of the protocol. */
#define WORD(name, word)								\
	static void take_##name(struct argp_state *state, void *base, const char *arg)	\
	{										\
		add_word(state, base, word, arg ? arg : "");				\
	}

WORD(goal, "goal=")
WORD(want, "want=")
WORD(pageblock, "pageblock=")
WORD(seq, "seq=")
WORD(max_blocks, "max_blocks=")
WORD(max_us, "max_us=")
WORD(drop, "drop")
WORD(best, "best")
WORD(between, "between")

static void take_wait(struct argp_state *state, void *base, const char *arg)
{
	((struct ask *)base)->wait = option_seconds(state, "wait", arg, 0, 86400);
}

/* main() has seen it. */
static void take_live(struct argp_state *state, void *base, const char *arg)
{
}

static const struct option_row rows[] = {
	ROW_HEAD(1, "Which engine:"),
	CLIENT_SOCKET,
	ROW_TAKE("live", 'l', NULL, take_live, "A running engine, the one that --socket says"),
	CLIENT_POOL("the only one"),

	ROW_HEAD(2, "plan, run:"),
	ROW_TAKE("goal", 0, "NAME", take_goal, "run, pageblocks, shorten or gather [run]"),
	ROW_TAKE("want", 'w', "N", take_want, "A free run of N blocks, or N empty pageblocks"),
	ROW_TAKE("pageblock", 0, "N", take_pageblock, "Blocks of a pageblock, a power of two [64]"),
	ROW_TAKE("seq", 0, "N", take_seq, "gather: ranges of this sequence"),
	ROW_TAKE("max-blocks", 0, "N", take_max_blocks, "Move at most N blocks [no limit]"),
	ROW_TAKE("max-us", 0, "N", take_max_us, "Plan and copy for at most N microseconds [no limit]"),
	ROW_TAKE("drop", 0, NULL, take_drop, "Cached blocks may be lost where that costs less"),
	ROW_TAKE("best", 0, NULL, take_best, "The longest run that can be had, if not N"),
	ROW_TAKE("between", 0, NULL, take_between, "Between steps, not beside them"),
	ROW_TAKE("wait", 0, "S", take_wait, "run: wait so long for the end, 0 = do not [60]"),

	ROW_HEAD(3, "watch:"),
	CLIENT_INTERVAL("1"), CLIENT_COUNT("no end"),

	ROW_HEAD(4, "Output:"),
	CLIENT_JSON,
};

static const char doc[] =
	"Compact a pool of a running engine.\v"
	"Commands:\n"
	"  plan            what would move, and what that would bring\n"
	"  run             the same, done beside the engine's steps, and waited for\n"
	"  status, cancel  of the last run\n"
	"  watch           a line each interval\n"
	"  config          settings that can be changed live\n"
	"  set NAME VALUE  change one, as background_threshold_pm, pace_bytes_per_ms, balloon_bytes\n"
	"\n"
	"Rate is the share of the free blocks that is of no use to a request of --want blocks; of watch, "
	"1 - longest free run / free blocks.\n"
	"\n"
	"Examples:\n"
	"  kvmm-defrag plan --live --want 512\n"
	"  kvmm-defrag run --socket /run/kvmm/engine.sock --pool kv --want 512 --best\n"
	"  kvmm-defrag watch --live --interval 5\n"
	"  kvmm-defrag set --live background_threshold_pm 300\n"
	"\n"
	"Without --socket and --live it plays a trace: see kvmm-defrag --help.\n"
	"\n"
	"Exit code: 0 good; 1 there is no engine, it has refused, or the goal was not reached; 2 bad usage.";

/* The engine's own words for it would not say which option. */
static bool lacks_want(const struct ask *ask)
{
	return !strstr(ask->goal, " want=") &&
	       (!strstr(ask->goal, " goal=") || strstr(ask->goal, " goal=run") ||
		strstr(ask->goal, " goal=pageblocks"));
}

static void add_arg(struct argp_state *state, void *base, const char *arg)
{
	struct ask *ask = base;

	if (ask->nr_args == 3)
		bad_option(state, "unexpected argument '%s'", arg);
	ask->args[ask->nr_args++] = arg;
}

static void check(struct argp_state *state, void *base)
{
	const struct ask *ask = base;

	if (ask->nr_args && lacks_want(ask) &&
	    (!strcmp(ask->args[0], "plan") || !strcmp(ask->args[0], "run")))
		bad_option(state, "%s: --want how many?", ask->args[0]);
}

/* ---- asking ---- */

/* A line with the pool in it; what is wrong is said. */
static int ask_table(struct ask *ask, const char *command, const char *rest, struct table *table)
{
	if (client_table(&ask->client, table, "%s %s%s", command, ask->opt.pool, rest))
		return client_wrong(&ask->client);
	return EXIT_GOOD;
}

static int show(struct ask *ask, const char *command, const char *rest)
{
	return client_show(&ask->client, ask->opt.json, "%s %s%s", command, ask->opt.pool, rest);
}

/* ---- plan and run ---- */

static double percent(const struct table *table, const char *name)
{
	return (double)table_number(table, 0, name) / 1e4;
}

static void say_result(const struct table *table, const char *verb, const char *time)
{
	char bytes[BYTES_TEXT];

	printf("%-10s %llu blocks in %llu moves, %s, %.3f ms (plan %.3f ms)\n", verb,
	       (unsigned long long)table_number(table, 0, "blocks"),
	       (unsigned long long)table_number(table, 0, "moves"),
	       text_of_bytes((double)table_number(table, 0, "bytes"), bytes),
	       (double)table_number(table, 0, time) / 1e6,
	       (double)table_number(table, 0, "plan_ns") / 1e6);
	if (table_number(table, 0, "drops"))
		printf("%-10s %llu cached blocks\n", "lost",
		       (unsigned long long)table_number(table, 0, "drops"));
	printf("%-10s %llu -> %llu blocks\n", "longest",
	       (unsigned long long)table_number(table, 0, "largest_before"),
	       (unsigned long long)table_number(table, 0, "largest_after"));
	printf("%-10s %.1f %% -> %.1f %%\n", "rate", percent(table, "unusable_ppm_before"),
	       percent(table, "unusable_ppm_after"));
	if (table_number(table, 0, "partial"))
		printf("%-10s not reached, but nearer\n", "goal");
}

static int cmd_plan(struct ask *ask)
{
	struct table table;
	int code = ask_table(ask, "compact-plan", ask->goal, &table);

	if (code)
		return code;
	if (ask->opt.json)
		table_print_json(&table, stdout);
	else
		say_result(&table, "would move", "copy_ns");
	code = table_number(&table, 0, "partial") ? EXIT_WRONG : EXIT_GOOD;
	table_free(&table);
	return code;
}

static void rest_ms(long ms)
{
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

static bool is_moving(const struct table *table)
{
	const char *state = table_cell(table, 0, "state");

	return state && !strcmp(state, "moves");
}

/* Until it has ended, or for ->wait seconds. */
static int wait_for_run(struct ask *ask, struct table *table)
{
	for (double waited = 0; is_moving(table) && waited < ask->wait; waited += 0.02) {
		int code;

		rest_ms(20);
		table_free(table);
		code = ask_table(ask, "compact-status", "", table);
		if (code)
			return code;
	}
	return EXIT_GOOD;
}

static int cmd_run(struct ask *ask)
{
	struct table table;
	int code = ask_table(ask, "compact-run", ask->goal, &table);

	if (!code)
		code = wait_for_run(ask, &table);
	if (code)
		return code;
	if (ask->opt.json)
		table_print_json(&table, stdout);
	else
		say_result(&table, is_moving(&table) ? "moving" : "moved", "ns");
	if (table_number(&table, 0, "partial") || (ask->wait > 0 && is_moving(&table)))
		code = EXIT_WRONG;
	table_free(&table);
	return code;
}

/* ---- watch ---- */

static void print_moment(const struct ask *ask, const struct table *table)
{
	uint64_t free = table_number(table, 0, "free"), most = table_number(table, 0, "largest");
	double rate = free ? 100 * (1 - (double)most / (double)free) : 0;

	if (ask->opt.json)
		printf("{\"free\": %llu, \"largest\": %llu, \"runs\": %llu, \"rate_percent\": %.2f, "
		       "\"moved_blocks\": %llu}\n", (unsigned long long)free, (unsigned long long)most,
		       (unsigned long long)table_number(table, 0, "runs"), rate,
		       (unsigned long long)table_number(table, 0, "moved_blocks"));
	else
		printf("%10llu %10llu %8llu %7.1f %12llu\n", (unsigned long long)free,
		       (unsigned long long)most,
		       (unsigned long long)table_number(table, 0, "runs"), rate,
		       (unsigned long long)table_number(table, 0, "moved_blocks"));
	fflush(stdout);
}

static int cmd_watch(struct ask *ask)
{
	if (!ask->opt.json)
		printf("%10s %10s %8s %7s %12s\n", "free", "longest", "runs", "rate %", "moved");
	for (unsigned long i = 0; !ferror(stdout) && (!ask->opt.count || i < ask->opt.count); i++) {
			struct table table;
		int code;

		if (i)
			rest_ms((long)(ask->opt.interval * 1000));
		code = ask_table(ask, "stat", "", &table);
		if (code)
			return code;
		print_moment(ask, &table);
		table_free(&table);
	}
	return EXIT_GOOD;
}

/* ---- the rest ---- */

static int cmd_status(struct ask *ask)
{
	return show(ask, "compact-status", "");
}

static int cmd_cancel(struct ask *ask)
{
	return show(ask, "compact-cancel", "");
}

static int cmd_config(struct ask *ask)
{
	return show(ask, "config", "");
}

static int cmd_set(struct ask *ask)
{
	char rest[256];
	int nr = snprintf(rest, sizeof(rest), " %s %s", ask->args[1], ask->args[2]);

	return nr < (int)sizeof(rest) ? show(ask, "set", rest) : complain_usage("that is too long");
}

static const struct {
	const char *name;
	unsigned int nr_args;
	int (*fn)(struct ask *ask);
} commands[] = {
	{ "plan", 1, cmd_plan }, { "run", 1, cmd_run }, { "watch", 1, cmd_watch },
	{ "status", 1, cmd_status }, { "cancel", 1, cmd_cancel }, { "config", 1, cmd_config },
	{ "set", 3, cmd_set },
};

/* Compaction is asked for by name, even of the only pool. */
static int find_pool(struct ask *ask, char name[CLIENT_POOL_BYTES])
{
	struct table table;

	if (ask->opt.pool)
		return EXIT_GOOD;
	if (client_pool(&ask->client, &table, "stat", NULL))
		return client_wrong(&ask->client);
	snprintf(name, CLIENT_POOL_BYTES, "%s", table_cell(&table, 0, "pool"));
	ask->opt.pool = name;
	table_free(&table);
	return EXIT_GOOD;
}

static int run(struct ask *ask)
{
	char name[CLIENT_POOL_BYTES];
	int code;

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (!ask->nr_args || strcmp(ask->args[0], commands[i].name))
			continue;
		if (ask->nr_args != commands[i].nr_args)
			break;
		if (client_open(&ask->client, ask->opt.socket))
			return client_wrong(&ask->client);
		code = find_pool(ask, name);
		if (!code)
			code = commands[i].fn(ask);
		client_close(&ask->client);
		return code;
	}
	return complain_usage("plan, run, watch, status, cancel, config, or set NAME VALUE");
}

bool live_is_meant(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
		if (!strcmp(argv[i], "--live") || !strcmp(argv[i], "-l") ||
		    !strncmp(argv[i], "--socket", 8) || !strncmp(argv[i], "-S", 2))
			return true;
	return false;
}

int live_main(int argc, char **argv)
{
	static const struct usage usage = {
		OPTION_ROWS(rows), "COMMAND", doc, add_arg, check, false,
	};
	static struct ask ask = { .opt.interval = 1, .wait = 60 };

	read_options(&usage, argc, argv, &ask);
	return finish_output(run(&ask));
}
