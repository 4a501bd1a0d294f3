// SPDX-License-Identifier: Apache-2.0
/* kvmm-migrate: sequences of a running engine go elsewhere, by its control socket. */
#include <argp.h>
#include <string.h>
#include <time.h>

#include "../client/options.h"
#include "../tool.h"

enum { KEY_COPY = 256, KEY_BACKGROUND, KEY_NO_EVICT, KEY_WAIT };

struct ask {
	struct client_options opt;
	const char *args[3];
	unsigned int nr_args;
	const char *copy;
	const char *background;
	const char *no_evict;
	double wait;
	struct client client;
};

static const struct argp_option options[] = {
	CLIENT_SOCKET, CLIENT_POOL("the only one"), CLIENT_JSON,
	{ "copy", KEY_COPY, NULL, 0, "start: the source stays as it is", 0 },
	{ "background", KEY_BACKGROUND, NULL, 0, "start: copies take little of the bandwidth", 0 },
	{ "no-evict", KEY_NO_EVICT, NULL, 0, "start: nothing is evicted for it where it goes to", 0 },
	{ "wait", KEY_WAIT, "S", 0, "start: wait so long for the end [0]", 0 },
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

	switch (key) {
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
		ask->wait = option_seconds(state, "wait", arg, 0, 86400);
		return 0;
	case ARGP_KEY_ARG:
		if (ask->nr_args == 3)
			bad_option(state, "unexpected argument '%s'", arg);
		ask->args[ask->nr_args++] = arg;
		return 0;
	default:
		return client_option(&ask->opt, key, arg, state);
	}
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
	for (double waited = 0; ; waited += 0.02) {
			struct table table;
		size_t row;
		int code;

		if (client_table(&ask->client, &table, "migrate-status %s", ask->opt.pool))
			return client_wrong(&ask->client);
		row = row_of(&table, id);
		if (has_ended(&table, row) || waited >= ask->wait) {
			code = ask->wait > 0 && !has_phase(&table, row, "done") ? EXIT_WRONG : EXIT_GOOD;
			table_show(&table, ask->opt.json, stdout);
			table_free(&table);
			return code;
		}
		table_free(&table);
		nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
	}
}

static int cmd_start(struct ask *ask)
{
	struct table table;
	uint64_t id;

	if (client_table(&ask->client, &table, "migrate-start %s %s %s%s%s%s", ask->opt.pool,
			 ask->args[1], ask->args[2], ask->copy, ask->background, ask->no_evict))
		return client_wrong(&ask->client);
	id = table_number(&table, 0, "id");
	table_free(&table);
	return wait_for(ask, id);
}

static int cmd_status(struct ask *ask)
{
	return client_show(&ask->client, ask->opt.json, "migrate-status %s", ask->opt.pool);
}

static int cmd_cancel(struct ask *ask)
{
	return client_show(&ask->client, ask->opt.json, "migrate-cancel %s %s", ask->opt.pool,
			   ask->args[1]);
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
		if (client_open(&ask->client, ask->opt.socket))
			return client_wrong(&ask->client);
		code = commands[i].fn(ask);
		client_close(&ask->client);
		return code;
	}
	return complain_usage("start TARGET SEQ, status, or cancel ID");
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		options, parse, "start TARGET SEQ\nstatus\ncancel ID", doc, NULL, NULL, NULL,
	};
	static struct ask ask = { .opt.pool = "-", .copy = "", .background = "", .no_evict = "" };

	read_options(&argp, argc, argv, 0, &ask);
	return finish_output(run(&ask));
}
