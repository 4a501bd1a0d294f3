// SPDX-License-Identifier: Apache-2.0
/* kvmm-migrate: sequences of a running engine go elsewhere, by its control socket. */
#include <argp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../client/client.h"
#include "../client/table.h"

enum { GOOD, FAILED, USAGE };

enum { KEY_SOCKET = 's', KEY_POOL = 'p', KEY_JSON = 'j', KEY_COPY = 256, KEY_BACKGROUND,
       KEY_NO_EVICT, KEY_WAIT };

struct ask {
	const char *socket;
	const char *pool;
	const char *args[3];
	unsigned int nr_args;
	const char *copy;
	const char *background;
	const char *no_evict;
	double wait;
	bool json;
	struct client client;
};

static const struct argp_option options[] = {
	{ "socket", KEY_SOCKET, "PATH", 0,
	  "Of the engine [$KVMM_SOCKET, or the only one in $KVMM_SOCKET_DIR, "
	  "$XDG_RUNTIME_DIR/kvmm or /run/kvmm]", 0 },
	{ "pool", KEY_POOL, "NAME", 0, "Where it goes from [the only pool]", 0 },
	{ "copy", KEY_COPY, NULL, 0, "start: the source stays as it is", 0 },
	{ "background", KEY_BACKGROUND, NULL, 0, "start: copies take little of the bandwidth", 0 },
	{ "no-evict", KEY_NO_EVICT, NULL, 0, "start: nothing is evicted for it where it goes to", 0 },
	{ "wait", KEY_WAIT, "S", 0, "start: wait so long for the end [0]", 0 },
	{ "json", KEY_JSON, NULL, 0, "JSON on standard output", 0 },
	{ 0 }
};

static const char doc[] =
	"Migrate sequences of a running engine, and see how far they are.\v"
	"Commands:\n"
	"  start TARGET SEQ  all ranges of sequence SEQ go to TARGET: another pool of the engine, or, "
	"with a '/' first, the socket of a process that takes them (kvmm_migrate_serve())\n"
	"  status            the last migrations from the pool\n"
	"  cancel ID         unless it is committed\n"
	"\n"
	"The engine finds what has come by kvmm_range_find_seq() in the other pool. A sequence that others "
	"have references or pins on is refused.\n"
	"\n"
	"Examples:\n"
	"  kvmm-migrate start --pool gpu0 --wait 10 gpu1 4711\n"
	"  kvmm-migrate status --pool gpu0 --json\n"
	"  kvmm-migrate cancel --pool gpu0 3\n"
	"\n"
	"Exit code: 0 good; 1 there is no engine, it has refused, or the migration failed; 2 bad usage.";

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct ask *ask = state->input;
	char *end;

	switch (key) {
	case KEY_SOCKET:
		ask->socket = arg;
		return 0;
	case KEY_POOL:
		ask->pool = arg;
		return 0;
	case KEY_JSON:
		ask->json = true;
		return 0;
	case KEY_COPY:
		ask->copy = " copy";
		return 0;
	case KEY_BACKGROUND:
		ask->background = " background";
		return 0;
	case KEY_NO_EVICT:
		ask->no_evict = " no_evict";
		return 0;
	case KEY_WAIT:
		ask->wait = strtod(arg, &end);
		if (*arg < '0' || *arg > '9' || *end)
			argp_error(state, "--wait: '%s' is no number", arg);
		return 0;
	case ARGP_KEY_ARG:
		if (ask->nr_args == 3)
			argp_error(state, "what is '%s'?", arg);
		ask->args[ask->nr_args++] = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int complain_of(const struct ask *ask)
{
	fprintf(stderr, "kvmm-migrate: %s\n", ask->client.why);
	return FAILED;
}

static int ask_table(struct ask *ask, const char *line, struct answer *answer, struct table *table)
{
	if (client_call(&ask->client, answer, "%s", line))
		return complain_of(ask);
	if (!table_parse(table, answer->text))
		return GOOD;
	fprintf(stderr, "kvmm-migrate: %s: the answer is no table\n", ask->client.path);
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

static int show(struct ask *ask, const char *line)
{
	struct answer answer;
	struct table table;
	int code = ask_table(ask, line, &answer, &table);

	if (code)
		return code;
	print_table(ask, &table);
	end_table(&answer, &table);
	return GOOD;
}

/* The row of a migration; nr_rows: it was forgotten. */
static size_t row_of(const struct table *table, uint64_t id)
{
	size_t row = 0;

	while (row < table->nr_rows && table_number(table, row, "id") != id)
		row++;
	return row;
}

static bool has_phase(const struct table *table, size_t row, const char *name)
{
	const char *phase = table_cell(table, row, "phase");

	return phase && !strcmp(phase, name);
}

static bool has_ended(const struct table *table, size_t row)
{
	return row == table->nr_rows || has_phase(table, row, "done") ||
	       has_phase(table, row, "failed") || has_phase(table, row, "cancelled");
}

static int wait_for(struct ask *ask, uint64_t id)
{
	char line[128];

	snprintf(line, sizeof(line), "migrate-status %s", ask->pool);
	for (double waited = 0; ; waited += 0.02) {
		struct answer answer;
		struct table table;
		int code = ask_table(ask, line, &answer, &table);
		size_t row;

		if (code)
			return code;
		row = row_of(&table, id);
		if (has_ended(&table, row) || waited >= ask->wait) {
			code = ask->wait > 0 && !has_phase(&table, row, "done") ? FAILED : GOOD;
			print_table(ask, &table);
			end_table(&answer, &table);
			return code;
		}
		end_table(&answer, &table);
		nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
	}
}

static int cmd_start(struct ask *ask)
{
	struct answer answer;
	struct table table;
	char line[512];
	uint64_t id;
	int code, nr;

	nr = snprintf(line, sizeof(line), "migrate-start %s %s %s%s%s%s", ask->pool, ask->args[1],
		      ask->args[2], ask->copy, ask->background, ask->no_evict);
	if (nr >= (int)sizeof(line))
		return USAGE;
	code = ask_table(ask, line, &answer, &table);
	if (code)
		return code;
	id = table_number(&table, 0, "id");
	end_table(&answer, &table);
	return wait_for(ask, id);
}

static int cmd_status(struct ask *ask)
{
	char line[128];

	snprintf(line, sizeof(line), "migrate-status %s", ask->pool);
	return show(ask, line);
}

static int cmd_cancel(struct ask *ask)
{
	char line[256];
	int nr = snprintf(line, sizeof(line), "migrate-cancel %s %s", ask->pool, ask->args[1]);

	return nr < (int)sizeof(line) ? show(ask, line) : USAGE;
}

static const struct {
	const char *name;
	unsigned int nr_args;
	int (*fn)(struct ask *ask);
} commands[] = {
	{ "start", 3, cmd_start }, { "status", 1, cmd_status }, { "cancel", 2, cmd_cancel },
};

static int run(struct ask *ask)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		int code;

		if (!ask->nr_args || strcmp(ask->args[0], commands[i].name))
			continue;
		if (ask->nr_args != commands[i].nr_args)
			break;
		if (client_open(&ask->client, ask->socket))
			return complain_of(ask);
		code = commands[i].fn(ask);
		client_close(&ask->client);
		return code;
	}
	fprintf(stderr, "kvmm-migrate: start TARGET SEQ, status, or cancel ID\n"
		"Try 'kvmm-migrate --help' for more information.\n");
	return USAGE;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		options, parse, "start TARGET SEQ\nstatus\ncancel ID", doc, NULL, NULL, NULL,
	};
	static struct ask ask = { .pool = "-", .copy = "", .background = "", .no_evict = "" };
	int code;

	argp_err_exit_status = USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, &ask);
	if (strlen(ask.pool) >= 64) {
		fprintf(stderr, "kvmm-migrate: that name is too long\n");
		return USAGE;
	}
	code = run(&ask);
	if (!fflush(stdout) && !ferror(stdout))
		return code;
	perror("kvmm-migrate: standard output");
	return FAILED;
}
