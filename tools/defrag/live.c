// SPDX-License-Identifier: Apache-2.0
/*
 * kvmm-defrag on a running engine, through its control socket. What it asks for is carried out in the
 * engine's process, beside its steps; here it is only waited for.
 */
#include <argp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../client/client.h"
#include "../client/table.h"
#include "live.h"

enum { GOOD, FAILED, USAGE };

enum {
	KEY_SOCKET = 's', KEY_POOL = 'p', KEY_WANT = 'w', KEY_JSON = 'j', KEY_LIVE = 256, KEY_GOAL,
	KEY_PAGEBLOCK, KEY_MAX_BLOCKS, KEY_MAX_US, KEY_SEQ, KEY_FLAG_DROP, KEY_FLAG_BEST,
	KEY_FLAG_BETWEEN, KEY_INTERVAL, KEY_COUNT, KEY_WAIT,
};

struct ask {
	const char *socket;
	const char *pool;
	const char *args[3];
	unsigned int nr_args;
	bool json;
	char goal[512];			/* words for compact-plan and compact-run */
	double interval;
	double wait;
	unsigned long count;
	struct client client;
};

static const struct argp_option options[] = {
	{ "socket", KEY_SOCKET, "PATH", 0, "Of the engine", 1 },
	{ "live", KEY_LIVE, NULL, 0, "The engine of $KVMM_SOCKET, or of the only socket there is", 0 },
	{ "pool", KEY_POOL, "NAME", 0, "Which of its pools [the only one]", 0 },

	{ NULL, 0, NULL, 0, "plan, run:", 2 },
	{ "goal", KEY_GOAL, "NAME", 0, "run, pageblocks, shorten or gather [run]", 0 },
	{ "want", KEY_WANT, "N", 0, "A free run of N blocks, or N empty pageblocks", 0 },
	{ "pageblock", KEY_PAGEBLOCK, "N", 0, "Blocks of a pageblock, a power of two [64]", 0 },
	{ "seq", KEY_SEQ, "N", 0, "gather: ranges of this sequence", 0 },
	{ "max-blocks", KEY_MAX_BLOCKS, "N", 0, "Move at most N blocks [no limit]", 0 },
	{ "max-us", KEY_MAX_US, "N", 0, "Plan and copy for at most N microseconds [no limit]", 0 },
	{ "drop", KEY_FLAG_DROP, NULL, 0, "Cached blocks may be lost where that costs less", 0 },
	{ "best", KEY_FLAG_BEST, NULL, 0, "The longest run that can be had, if not N", 0 },
	{ "between", KEY_FLAG_BETWEEN, NULL, 0, "Between steps, not beside them", 0 },
	{ "wait", KEY_WAIT, "S", 0, "run: wait so long for the end, 0 = do not [60]", 0 },

	{ NULL, 0, NULL, 0, "watch:", 3 },
	{ "interval", KEY_INTERVAL, "S", 0, "Seconds between two lines [1]", 0 },
	{ "count", KEY_COUNT, "N", 0, "So many lines [no end]", 0 },

	{ "json", KEY_JSON, NULL, 0, "JSON on standard output", 4 },
	{ 0 }
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

/* ---- the command line ---- */

static void add_word(struct argp_state *state, struct ask *ask, const char *name, const char *value)
{
	size_t len = strlen(ask->goal);
	int nr = snprintf(ask->goal + len, sizeof(ask->goal) - len, " %s%s", name, value);

	if (nr < 0 || (size_t)nr >= sizeof(ask->goal) - len)
		argp_error(state, "that is too long");
}

static double number(struct argp_state *state, const char *arg)
{
	char *end;
	double value = strtod(arg, &end);

	if (*arg < '0' || *arg > '9' || *end || value > 1e9)
		argp_error(state, "'%s' is no number", arg);
	return value;
}

/* Options that are words of the protocol. */
static const struct {
	int key;
	const char *word;
} words[] = {
	{ KEY_GOAL, "goal=" }, { KEY_WANT, "want=" }, { KEY_PAGEBLOCK, "pageblock=" },
	{ KEY_SEQ, "seq=" }, { KEY_MAX_BLOCKS, "max_blocks=" }, { KEY_MAX_US, "max_us=" },
	{ KEY_FLAG_DROP, "drop" }, { KEY_FLAG_BEST, "best" }, { KEY_FLAG_BETWEEN, "between" },
};

static error_t parse_word(int key, const char *arg, struct argp_state *state)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (words[i].key != key)
			continue;
		add_word(state, state->input, words[i].word, arg ? arg : "");
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct ask *ask = state->input;

	switch (key) {
	case KEY_SOCKET:
		ask->socket = arg;
		return 0;
	case KEY_LIVE:
		return 0;
	case KEY_POOL:
		ask->pool = arg;
		return 0;
	case KEY_JSON:
		ask->json = true;
		return 0;
	case KEY_INTERVAL:
		ask->interval = number(state, arg);
		return 0;
	case KEY_COUNT:
		ask->count = (unsigned long)number(state, arg);
		return 0;
	case KEY_WAIT:
		ask->wait = number(state, arg);
		return 0;
	case ARGP_KEY_ARG:
		if (ask->nr_args == 3)
			argp_error(state, "what is '%s'?", arg);
		ask->args[ask->nr_args++] = arg;
		return 0;
	}
	return parse_word(key, arg, state);
}

/* ---- asking ---- */

static int complain_of(const struct ask *ask)
{
	fprintf(stderr, "kvmm-defrag: %s\n", ask->client.why);
	return FAILED;
}

/* A line with the pool in it; its table is the caller's, with the text that it lies in. */
static int ask_table(struct ask *ask, const char *command, const char *rest, struct answer *answer,
		     struct table *table)
{
	if (client_call(&ask->client, answer, "%s %s%s", command, ask->pool, rest))
		return complain_of(ask);
	if (!table_parse(table, answer->text))
		return GOOD;
	fprintf(stderr, "kvmm-defrag: %s: the answer is no table\n", ask->client.path);
	answer_free(answer);
	return FAILED;
}

static void end_table(struct answer *answer, struct table *table)
{
	table_free(table);
	answer_free(answer);
}

static void print_table(const struct ask *ask, const struct table *table)
{
	if (ask->json)
		table_print_json(table, stdout);
	else
		table_print(table, stdout);
}

static int show(struct ask *ask, const char *command, const char *rest)
{
	struct answer answer;
	struct table table;
	int code = ask_table(ask, command, rest, &answer, &table);

	if (code)
		return code;
	print_table(ask, &table);
	end_table(&answer, &table);
	return GOOD;
}

/* ---- plan and run ---- */

static double percent(const struct table *table, const char *name)
{
	return (double)table_number(table, 0, name) / 1e4;
}

static void say_result(const struct table *table, const char *verb, const char *time)
{
	printf("%-10s %llu blocks in %llu moves, %.1f MiB, %.3f ms (plan %.3f ms)\n", verb,
	       (unsigned long long)table_number(table, 0, "blocks"),
	       (unsigned long long)table_number(table, 0, "moves"),
	       (double)table_number(table, 0, "bytes") / (1 << 20),
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
	struct answer answer;
	struct table table;
	int code = ask_table(ask, "compact-plan", ask->goal, &answer, &table);

	if (code)
		return code;
	if (ask->json)
		table_print_json(&table, stdout);
	else
		say_result(&table, "would move", "copy_ns");
	code = table_number(&table, 0, "partial") ? FAILED : GOOD;
	end_table(&answer, &table);
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
static int wait_for_run(struct ask *ask, struct answer *answer, struct table *table)
{
	for (double waited = 0; is_moving(table) && waited < ask->wait; waited += 0.02) {
		int code;

		rest_ms(20);
		end_table(answer, table);
		code = ask_table(ask, "compact-status", "", answer, table);
		if (code)
			return code;
	}
	return GOOD;
}

static int cmd_run(struct ask *ask)
{
	struct answer answer;
	struct table table;
	int code = ask_table(ask, "compact-run", ask->goal, &answer, &table);

	if (!code)
		code = wait_for_run(ask, &answer, &table);
	if (code)
		return code;
	if (ask->json)
		table_print_json(&table, stdout);
	else
		say_result(&table, is_moving(&table) ? "moving" : "moved", "ns");
	if (table_number(&table, 0, "partial") || (ask->wait > 0 && is_moving(&table)))
		code = FAILED;
	end_table(&answer, &table);
	return code;
}

/* ---- watch ---- */

static void print_moment(const struct ask *ask, const struct table *table)
{
	uint64_t free = table_number(table, 0, "free"), most = table_number(table, 0, "largest");
	double rate = free ? 100 * (1 - (double)most / (double)free) : 0;

	if (ask->json)
		printf("{\"free\": %llu, \"largest\": %llu, \"runs\": %llu, \"rate_percent\": %.2f, "
		       "\"moved_blocks\": %llu}\n", (unsigned long long)free, (unsigned long long)most,
		       (unsigned long long)table_number(table, 0, "runs"), rate,
		       (unsigned long long)table_number(table, 0, "moved"));
	else
		printf("%10llu %10llu %8llu %7.1f %12llu\n", (unsigned long long)free,
		       (unsigned long long)most,
		       (unsigned long long)table_number(table, 0, "runs"), rate,
		       (unsigned long long)table_number(table, 0, "moved"));
	fflush(stdout);
}

static int cmd_watch(struct ask *ask)
{
	if (!ask->json)
		printf("%10s %10s %8s %7s %12s\n", "free", "longest", "runs", "rate %", "moved");
	for (unsigned long i = 0; !ask->count || i < ask->count; i++) {
		struct answer answer;
		struct table table;
		int code;

		if (i)
			rest_ms((long)(ask->interval * 1000));
		code = ask_table(ask, "stat", "", &answer, &table);
		if (code)
			return code;
		print_moment(ask, &table);
		end_table(&answer, &table);
	}
	return GOOD;
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

	return nr < (int)sizeof(rest) ? show(ask, "set", rest) : USAGE;
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

/* "stat -" is no pool: the only one has to be named there. */
static int find_pool(struct ask *ask, char name[64])
{
	struct answer answer;
	struct table table;
	int code = GOOD;

	if (ask->pool)
		return GOOD;
	if (client_call(&ask->client, &answer, "pools"))
		return complain_of(ask);
	if (table_parse(&table, answer.text) || table.nr_rows != 1 || !table_cell(&table, 0, "pool")) {
		fprintf(stderr, "kvmm-defrag: %s: which pool? name one by --pool\n", ask->client.path);
		code = FAILED;
	} else {
		snprintf(name, 64, "%s", table_cell(&table, 0, "pool"));
		ask->pool = name;
	}
	end_table(&answer, &table);
	return code;
}

static int run(struct ask *ask)
{
	char name[64];
	int code = FAILED;

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (!ask->nr_args || strcmp(ask->args[0], commands[i].name))
			continue;
		if (ask->nr_args != commands[i].nr_args)
			break;
		if (client_open(&ask->client, ask->socket))
			return complain_of(ask);
		code = find_pool(ask, name);
		if (!code)
			code = commands[i].fn(ask);
		client_close(&ask->client);
		return code;
	}
	fprintf(stderr, "kvmm-defrag: plan, run, watch, status, cancel, config, or set NAME VALUE\n");
	return USAGE;
}

bool live_is_meant(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
		if (!strcmp(argv[i], "--live") || !strncmp(argv[i], "--socket", 8) ||
		    !strncmp(argv[i], "-s", 2))
			return true;
	return false;
}

int live_main(int argc, char **argv)
{
	static const struct argp argp = { .options = options, .parser = parse, .doc = doc,
					  .args_doc = "COMMAND" };
	static struct ask ask = { .interval = 1, .wait = 60 };
	int code;

	argp_err_exit_status = USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, &ask);
	code = run(&ask);
	if (!fflush(stdout) && !ferror(stdout))
		return code;
	perror("kvmm-defrag: standard output");
	return FAILED;
}
