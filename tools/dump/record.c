// SPDX-License-Identifier: Apache-2.0
/*
 * kvmm-dump record: a recording of an engine that runs, through its control socket. It asks for the pool's
 * numbers and, in portions, for its map; so a moment of a large pool takes some time, and what moves
 * meanwhile may be seen twice, or not at all. Nothing in the engine waits for it.
 */
#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../client/options.h"
#include "../report/recorder.h"
#include "../tool.h"
#include "depth.h"
#include "dump.h"
#include "owners.h"

#define ROWS		8192u	/* of the map, in an answer */
#define NS_PER_S	1000000000ull

/* What is recorded of "stat": under which name. */
static const struct {
	const char *column;
	const char *of;
} numbers[] = {
	{ "cached", "inactive" }, { "largest", "largest" }, { "free_runs", "runs" },
	{ "running", "ranges" }, { "accesses", NULL }, { "hits_device", "hit_blocks" },
	{ "evicted", "evictions" }, { "moved", "moved_blocks" }, { "fails", "fail_frag" },
	{ "allocs", "allocs" }, { "alloc_blocks", "alloc_blocks" }, { "held", NULL },
	{ "owned_runs", NULL }, { "owners", NULL },
};

enum { NR_NUMBERS = ARRAY_SIZE(numbers), NR_VALUES = NR_NUMBERS + NR_DEPTH_COLUMNS };

/**
 * struct live - a recording that is being made
 * @pool: its name
 * @mapped: the moment's number for each owner that was seen in it, + 1
 * @owned_runs, @nr_seen: of the moment
 */
struct live {
	struct client_options opt;
	const char *path;
	struct client client;
	struct recorder rec;
	struct owners owners;
	struct depth depth;
	char pool[64];
	char why[CLIENT_WHY];
	u32 *mapped;
	u32 nr_mapped;
	u32 owned_runs;
	u32 nr_seen;
};

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

static int fail(struct live *live, const char *why)
{
	snprintf(live->why, sizeof(live->why), "%s", why);
	return -1;
}

/* Why not is the client's. */
static int gone(struct live *live)
{
	return fail(live, live->client.why);
}

/* ---- the map ---- */

static u32 state_of(const char *state, const char *flags)
{
	static const struct {
		const char *name;
		u32 state;
	} states[] = {
		{ "range", CELL_ACTIVE }, { "private", CELL_ACTIVE }, { "active", CELL_ACTIVE },
		{ "staged", CELL_STAGED }, { "cached", CELL_CACHED }, { "claimed", CELL_CACHED },
		{ "away", CELL_AWAY }, { "moving", CELL_MOVING }, { "limbo", CELL_MOVING },
		{ "null", CELL_PINNED },
	};
	u32 found = CELL_FREE;

	for (size_t i = 0; i < ARRAY_SIZE(states); i++)
		if (!strcmp(state, states[i].name))
			found = states[i].state;
	return found == CELL_ACTIVE && strchr(flags, 'p') ? CELL_PINNED : found;
}

/* Who has it: a sequence, or whoever it was tagged with. */
static u32 owner_of(struct live *live, u64 seq, u64 tag)
{
	enum owner_kind kind = seq ? OWNER_SEQUENCE : OWNER_TAG;
	u64 id = seq ? seq : tag;
	char name[48];
	bool is_new;
	u32 owner;

	if (!id)
		return U32_NONE;
	owner = owners_find(&live->owners, kind, id, &is_new);
	if (is_new && owner != U32_NONE) {
		snprintf(name, sizeof(name), "%s %llu", kind == OWNER_TAG ? "owner" : "sequence",
			 (unsigned long long)id);
		recorder_owner(&live->rec, owner, name);
	}
	return owner;
}

/* Counts owners of the moment once each; without memory they are not counted. */
static void see_owner(struct live *live, u32 owner)
{
	u32 nr = live->owners.room;

	if (owner >= live->nr_mapped) {
		u32 *mapped = realloc(live->mapped, nr * sizeof(*mapped));

		if (!mapped)
			return;
		memset(mapped + live->nr_mapped, 0, (nr - live->nr_mapped) * sizeof(*mapped));
		live->mapped = mapped;
		live->nr_mapped = nr;
	}
	if (live->mapped[owner] == live->rec.nr_samples + 1)
		return;
	live->mapped[owner] = live->rec.nr_samples + 1;
	live->nr_seen++;
}

/* Runs of one owner side by side, which differ in what a map does not show, are one. */
static void paint_rows(struct live *live, const struct table *table, u32 *last)
{
	for (size_t i = 0; i < table->nr_rows; i++) {
		const char *state = table_cell(table, i, "state"), *flags = table_cell(table, i, "flags");
		u64 first = table_number(table, i, "first"), nr = table_number(table, i, "count");
		struct cell cell = { U32_NONE, state_of(state ? state : "", flags ? flags : "") };

		if (first > U32_NONE || nr > U32_NONE - first)
			continue;
		if (cell.state != CELL_FREE && cell.state != CELL_AWAY)
			cell.owner = owner_of(live, table_number(table, i, "seq"),
					      table_number(table, i, "owner"));
		if (cell.owner != U32_NONE) {
			live->owned_runs += cell.owner != *last;
			see_owner(live, cell.owner);
		}
		*last = cell.owner;
		recorder_paint(&live->rec, (u32)first, (u32)nr, cell);
	}
}

/* A portion of the map from block *@at on, which moves on. */
static int paint_portion(struct live *live, u32 *at, u32 *last)
{
	struct table table;
	u64 next = 0;

	if (client_table(&live->client, &table, "map %s %u %u fine", live->pool, *at, ROWS))
		return gone(live);
	if (table.nr_rows) {
		paint_rows(live, &table, last);
		next = table_number(&table, table.nr_rows - 1, "first") +
		       table_number(&table, table.nr_rows - 1, "count");
	}
	table_free(&table);
	if (next <= *at || next > U32_NONE)
		return fail(live, "the engine shows no more of its map");
	*at = (u32)next;
	return 0;
}

static int paint(struct live *live)
{
	u32 at = 0, last = U32_NONE;
	int err = 0;

	recorder_clear(&live->rec);
	live->owned_runs = live->nr_seen = 0;
	while (!err && at < live->rec.nr_blocks && !stopped)
		err = paint_portion(live, &at, &last);
	return err;
}

/* ---- moments ---- */

static u64 derived(const struct live *live, const struct table *stat, const char *column)
{
	if (!strcmp(column, "accesses"))
		return table_number(stat, 0, "hit_blocks") + table_number(stat, 0, "miss_blocks");
	if (!strcmp(column, "held"))
		return table_number(stat, 0, "ranges_blocks") + table_number(stat, 0, "private") +
		       table_number(stat, 0, "staged") + table_number(stat, 0, "active");
	return !strcmp(column, "owners") ? live->nr_seen : live->owned_runs;
}

static int add_moment(struct live *live, u64 x)
{
	u64 values[NR_VALUES];
	struct table stat;
	int err = paint(live);

	if (err || stopped)
		return err;
	if (client_pool(&live->client, &stat, "stat", live->pool))
		return gone(live);
	for (size_t i = 0; i < NR_NUMBERS; i++)
		values[i] = numbers[i].of ? table_number(&stat, 0, numbers[i].of) :
					    derived(live, &stat, numbers[i].column);
	table_free(&stat);
	err = depth_ask(&live->depth, &live->client, live->pool);
	if (err)
		return gone(live);
	memcpy(&values[NR_NUMBERS], live->depth.value, sizeof(live->depth.value));
	recorder_add(&live->rec, x, values);
	return 0;
}

static u64 now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (u64)ts.tv_sec * 1000000 + (u64)ts.tv_nsec / 1000;
}

/* A signal ends it early, and then all. */
static void wait_until(u64 us)
{
	struct timespec ts = { .tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000 * 1000) };

	while (!stopped && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

static int record(struct live *live)
{
	u64 begin = now_us(), x = 0;
	int err = 0;

	while (!err && !stopped && !live->rec.full && !live->rec.err) {
		err = add_moment(live, x);
		if (err || (live->opt.count && live->rec.nr_samples >= live->opt.count))
			break;
		x = live->rec.next_x;
		if (begin + x < now_us())
			x = now_us() - begin;
		wait_until(begin + x);
	}
	return err;
}

/* ---- the whole ---- */

static int begin(struct live *live, FILE *out)
{
	const char *columns[NR_VALUES];
	struct recorder_attr attr = {
		.out = out, .source = "kvmm-dump record", .x_unit = "us", .owner = "owner",
		.columns = columns, .nr_columns = NR_VALUES, .every = (u64)(live->opt.interval * 1e6 + .5),
	};
	char purpose[256];
	struct table stat;
	int err;

	if (client_pool(&live->client, &stat, "stat", live->opt.pool))
		return gone(live);
	for (size_t i = 0; i < NR_NUMBERS; i++)
		columns[i] = numbers[i].column;
	memcpy(&columns[NR_NUMBERS], depth_columns, sizeof(depth_columns));
	snprintf(live->pool, sizeof(live->pool), "%s", table_cell(&stat, 0, "pool"));
	attr.nr_blocks = (u32)min_u64(U32_NONE - 1, table_number(&stat, 0, "blocks") +
				      table_number(&stat, 0, "null"));
	snprintf(purpose, sizeof(purpose), "engine %.120s, pool %.64s", live->client.name, live->pool);
	attr.purpose = purpose;
	table_free(&stat);
	err = recorder_begin(&live->rec, &attr);
	return err ? fail(live, strerror(-err)) : 0;
}

/* What was recorded until the engine went is there all the same. */
static int record_to(struct live *live, FILE *out)
{
	int err = begin(live, out), err2;

	if (err)
		return err;
	err = record(live);
	depth_finish(&live->depth, &live->rec);
	err2 = recorder_end(&live->rec);
	return err || !err2 ? err : fail(live, strerror(-err2));
}

static int record_engine(struct live *live)
{
	FILE *out;
	int err;

	if (client_open(&live->client, live->opt.socket))
		return gone(live);
	out = strcmp(live->path, "-") ? fopen(live->path, "w") : stdout;
	err = out ? record_to(live, out) : fail(live, strerror(errno));
	if (out && (out == stdout ? fflush(out) : fclose(out)) && !err)
		err = fail(live, strerror(errno));
	client_close(&live->client);
	return err;
}

static const struct option_row rows[] = {
	CLIENT_SOCKET, CLIENT_POOL("the only one"), CLIENT_INTERVAL("1"),
	CLIENT_COUNT("no end: until it is interrupted, or the engine ends"),
};

static const char record_doc[] =
	"Record what the memory of an engine looks like over time, for kvmm-dump report.\v"
	"FILE is a recording, as Documentation/report.rst has it; - is standard output. It does not grow "
	"without end: after some thousand moments, or megabytes, they are taken less often. An interrupt "
	"ends it well.\n"
	"\n"
	"Example:\n"
	"  kvmm-dump record --interval 0.5 --count 600 engine.rec && kvmm-dump report engine.rec\n"
	"\n"
	"Exit code: 0 good; 1 no engine, or it has gone before N moments, or FILE cannot be written; 2 bad "
	"usage.";

static void add_file(struct argp_state *state, void *base, const char *arg)
{
	struct live *live = base;

	if (live->path)
		bad_option(state, "unexpected argument '%s': one file at a time", arg);
	live->path = arg;
}

static void check(struct argp_state *state, void *base)
{
	if (!((struct live *)base)->path)
		argp_usage(state);
}

int dump_record(int argc, char **argv)
{
	static const struct usage usage = {
		OPTION_ROWS(rows), "FILE", record_doc, add_file, check, false,
	};
	struct sigaction action = { .sa_handler = stop };
	struct live live = { .opt.interval = 1 };
	char name[] = "kvmm-dump record";
	bool ended;
	int err;

	argv[0] = name;
	read_options(&usage, argc, argv, &live);
	client_stop = &stopped;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	err = record_engine(&live);
	ended = !live.opt.count && live.rec.nr_samples;
	if (err)
		complain(EXIT_WRONG, "%s%s", live.why, ended ? ": the recording ends there" : "");
	owners_exit(&live.owners);
	free(live.mapped);
	return err && !ended ? EXIT_WRONG : EXIT_GOOD;
}
