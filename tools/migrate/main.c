// SPDX-License-Identifier: Apache-2.0
/* kvmm-migrate: sequences of a running engine go elsewhere, by its control socket. */
#include <argp.h>
#include <string.h>
#include <time.h>

#include "../client/options.h"
#include "../tool.h"

struct ask {
	struct client_options opt;
	const char *args[3];
	unsigned int nr_args;
	bool copy;
	bool background;
	bool no_evict;
	bool precopy;
	bool any;
	const char *key;
	double wait;
	struct client client;
};

static void take_wait(struct argp_state *state, void *base, const char *arg)
{
	((struct ask *)base)->wait = option_seconds(state, "wait", arg, 0, 86400);
}

static const struct option_row rows[] = {
	CLIENT_SOCKET, CLIENT_POOL("the only one"), CLIENT_JSON,
	ROW_FLAG("copy", 0, struct ask, copy, "start: the source stays as it is"),
	ROW_FLAG("background", 0, struct ask, background,
		"start: copies take little of the bandwidth"),
	ROW_FLAG("no-evict", 0, struct ask, no_evict,
		"start: nothing is evicted for it where it goes to"),
	ROW_FLAG("precopy", 0, struct ask, precopy,
		"start: it still decodes; what is sealed goes until finish"),
	ROW_FLAG("any", 0, struct ask, any,
		"start: TARGET is several, with ',' between; to the one with most room"),
	ROW_TEXT("key", 0, "FILE", struct ask, key,
		"start: what the other machine knows too: a file that the engine reads"),
	ROW_TAKE("wait", 0, "S", take_wait, "start: wait so long for the end [0]"),
};

static const char doc[] =
	"Migrate sequences of a running engine, and see how far they are.\v"
	"Commands:\n"
	"  start TARGET SEQ  all ranges of sequence SEQ go to TARGET: another pool of the engine, or, "
	"with a '/' first, the socket of a process that takes them (kvmm_migrate_serve()), or the address "
	"of one on another machine\n"
	"  status            the last migrations from the pool\n"
	"  finish ID         with --precopy: the engine has stopped the sequence, and the rest goes\n"
	"  cancel ID         unless it is committed\n"
	"\n"
	"The engine finds what has come by kvmm_range_find_seq() in the other pool. A sequence that others "
	"have references or pins on is refused.\n"
	"\n"
	"Columns of status: id of the migration; seq, the sequence; target; copy, 1: the source stays, too, 0: "
	"it goes; phase; error, an errno; path that copies took; blocks in all, present at the target "
	"before, copied, verified by checksum; bytes; src_runs and dst_runs that the copied blocks lay and lie "
	"in; descriptors, runs that the device was given; attempts; in_doubt, 1: the target was told to "
	"commit, and has not answered; ns from start to end; stop_ns of it after finish, for stop_blocks "
	"that were left.\n"
	"\n"
	"Examples:\n"
	"  kvmm-migrate start --pool gpu0 --wait 10 gpu1 4711\n"
	"  kvmm-migrate start --key /etc/kvmm/key ucx://10.0.0.2:9500 4711\n"
	"  kvmm-migrate status --pool gpu0 --json\n"
	"  kvmm-migrate cancel --pool gpu0 3\n"
	"\n"
	"Exit code: 0 good; 1 there is no engine, it has refused, or the migration failed; 2 bad usage.";

static void add_arg(struct argp_state *state, void *base, const char *arg)
{
	struct ask *ask = base;

	if (ask->nr_args == 3)
		bad_option(state, "unexpected argument '%s'", arg);
	ask->args[ask->nr_args++] = arg;
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

	if (client_table(&ask->client, &table, "migrate-start %s %s %s%s%s%s%s%s%s%s", ask->opt.pool,
			 ask->args[1], ask->args[2], ask->copy ? " copy" : "",
			 ask->background ? " background" : "", ask->no_evict ? " no_evict" : "",
			 ask->precopy ? " precopy" : "", ask->any ? " any" : "",
			 ask->key ? " key=" : "", ask->key ? ask->key : ""))
		return client_wrong(&ask->client);
	id = table_number(&table, 0, "id");
	table_free(&table);
	return wait_for(ask, id);
}

static int cmd_status(struct ask *ask)
{
	return client_show(&ask->client, ask->opt.json, "migrate-status %s", ask->opt.pool);
}

static int cmd_steer(struct ask *ask)
{
	return client_show(&ask->client, ask->opt.json, "migrate-%s %s %s", ask->args[0],
			   ask->opt.pool, ask->args[1]);
}

static const struct {
	const char *name;
	unsigned int nr_args;
	int (*fn)(struct ask *ask);
} commands[] = {
	{ "start", 3, cmd_start }, { "status", 1, cmd_status }, { "cancel", 2, cmd_steer },
	{ "finish", 2, cmd_steer },
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
	return complain_usage("start TARGET SEQ, status, finish ID, or cancel ID");
}

int main(int argc, char **argv)
{
	static const struct usage usage = {
		OPTION_ROWS(rows), "start TARGET SEQ\nstatus\nfinish ID\ncancel ID", doc, add_arg, NULL, false,
	};
	static struct ask ask = { .opt.pool = "-" };

	read_options(&usage, argc, argv, &ask);
	return finish_output(run(&ask));
}
