// SPDX-License-Identifier: Apache-2.0
/*
 * Pools of a running engine, a line each interval, as vmstat has it: what is there now, and what has
 * happened a second since the line before. The first line has nothing to compare with.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../client/client.h"
#include "../json.h"
#include "../tool.h"
#include "live.h"
#include "stat.h"

#define MAX_POOLS	64u
#define DEFAULT_LINES	24u

/**
 * struct column - of "stat"
 * @head: over it
 * @rank: those of a higher one go first where the screen is narrow
 * @is_rate: a count, of which the growth a second is shown
 */
static const struct column {
	const char *name;
	const char *head;
	unsigned int width;
	unsigned int rank;
	bool is_rate;
} columns[] = {
	{ "free", "free", 8, 0, false }, { "inactive", "inactive", 8, 0, false },
	{ "active", "active", 8, 0, false }, { "private", "private", 8, 2, false },
	{ "ranges_blocks", "ranges", 8, 1, false }, { "largest", "run", 8, 0, false },
	{ "runs", "runs", 6, 1, false },
	{ "allocs", "alloc", 7, 0, true }, { "frees", "free", 7, 3, true },
	{ "evictions", "evict", 7, 0, true }, { "hit_blocks", "hit", 8, 1, true },
	{ "miss_blocks", "miss", 8, 1, true }, { "registered", "regist", 7, 3, true },
	{ "moved_blocks", "moved", 7, 2, true }, { "fail_nospc", "nospc", 6, 2, true },
	{ "fail_frag", "frag", 6, 2, true },
};

enum { NR_COLUMNS = sizeof(columns) / sizeof(columns[0]), COLUMN_HITS = 10, COLUMN_MISSES, MAX_RANK = 3 };

#define OTHER_WIDTH	25u	/* name, hits and share of waiting */

/* A pool as it was the last time. */
struct past {
	char name[64];
	uint64_t count[NR_COLUMNS];
	double at;
	bool is_known;			/* ->at and ->count are */
};

struct watch {
	const struct client_options *opt;
	struct client client;
	struct past past[MAX_POOLS];
	unsigned int nr_past;
	unsigned int nr_lines;		/* since the last head */
	unsigned int rank;		/* columns up to this one fit */
};

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static struct past *past_of(struct watch *watch, const char *name)
{
	for (unsigned int i = 0; i < watch->nr_past; i++)
		if (!strcmp(watch->past[i].name, name))
			return &watch->past[i];
	if (watch->nr_past == MAX_POOLS)
		return NULL;
	snprintf(watch->past[watch->nr_past].name, sizeof(watch->past[0].name), "%s", name);
	return &watch->past[watch->nr_past++];
}

/* ---- one line ---- */

/* As it is, or what has happened a second; -1: not known yet. Counts of a new pool begin anew. */
static void take_values(struct past *past, const struct table *table, size_t row, double *value)
{
	double at = now(), span = at - past->at;

	for (unsigned int i = 0; i < NR_COLUMNS; i++) {
		uint64_t count = table_number(table, row, columns[i].name);

		value[i] = columns[i].is_rate ? -1 : (double)count;
		if (columns[i].is_rate && past->is_known && span > 0 && count >= past->count[i])
			value[i] = (double)(count - past->count[i]) / span;
		past->count[i] = count;
	}
	past->at = at;
	past->is_known = true;
}

static double percent_hit(const double *value)
{
	double sum = value[COLUMN_HITS] + value[COLUMN_MISSES];

	return sum > 0 ? 100 * value[COLUMN_HITS] / sum : -1;
}

static unsigned int width_of(unsigned int rank, bool rates)
{
	unsigned int width = 0;

	for (unsigned int i = 0; i < NR_COLUMNS; i++)
		if (columns[i].is_rate == rates && columns[i].rank <= rank)
			width += columns[i].width + 1;
	return width;
}

/* A word over columns, between dashes. */
static void print_over(const char *word, unsigned int width)
{
	unsigned int dashes = width - 1 - (unsigned int)strlen(word);

	putchar(' ');
	for (unsigned int i = 0; i < dashes / 2; i++)
		putchar('-');
	fputs(word, stdout);
	for (unsigned int i = dashes / 2; i < dashes; i++)
		putchar('-');
}

static void print_head(struct watch *watch)
{
	unsigned int lines, width;

	terminal_size(&lines, &width);
	if (watch->nr_lines && watch->nr_lines + 2 < (lines ? lines : DEFAULT_LINES))
		return;
	watch->nr_lines = 0;
	watch->rank = MAX_RANK;
	while (width && watch->rank &&
	       OTHER_WIDTH + width_of(watch->rank, false) + width_of(watch->rank, true) > width)
		watch->rank--;
	printf("%-12s", "");
	print_over(" blocks ", width_of(watch->rank, false));
	print_over(" a second ", width_of(watch->rank, true));
	printf("  hits   some\n%-12s", "pool");
	for (unsigned int i = 0; i < NR_COLUMNS; i++)
		if (columns[i].rank <= watch->rank)
			printf(" %*s", (int)columns[i].width, columns[i].head);
	printf(" %5s %6s\n", "%", "%10s");
}

static void print_number(double value, unsigned int width, int digits)
{
	if (!isfinite(value) || value < 0)	/* an engine may say anything */
		printf(" %*s", (int)width, "-");
	else
		printf(" %*.*f", (int)width, digits, value);
}

static void print_row(const struct watch *watch, const char *pool, const double *value, double some)
{
	printf("%-12s", pool);
	for (unsigned int i = 0; i < NR_COLUMNS; i++)
		if (columns[i].rank <= watch->rank)
			print_number(value[i], columns[i].width, 0);
	print_number(percent_hit(value), 5, 1);
	print_number(some, 6, 2);
	putchar('\n');
}

static void print_value(const char *name, const char *unit, double value, int digits)
{
	printf(", \"%s%s\": ", name, unit);
	if (!isfinite(value) || value < 0)
		fputs("null", stdout);
	else
		printf("%.*f", digits, value);
}

static void print_object(const char *pool, const double *value, double some)
{
	fputs("{\"pool\": ", stdout);
	json_string(pool, stdout);
	for (unsigned int i = 0; i < NR_COLUMNS; i++)
		print_value(columns[i].name, columns[i].is_rate ? "_per_s" : "", value[i],
			    columns[i].is_rate);
	print_value("hit_percent", "", percent_hit(value), 1);
	print_value("some_avg10", "", some, 2);
	puts("}");
}

/* Columns that are shown are there. */
static bool has_columns(const struct table *table)
{
	bool has = table_cell(table, 0, "pool");

	for (unsigned int i = 0; i < NR_COLUMNS; i++)
		has &= table_cell(table, 0, columns[i].name) != NULL;
	return has;
}

/* Share of the last 10 s that somebody has waited. */
static double some_of(const struct table *pressure, const char *pool)
{
	for (size_t row = 0; row < pressure->nr_rows; row++) {
		const char *name = table_cell(pressure, row, "pool");
		const char *kind = table_cell(pressure, row, "kind");
		const char *avg = table_cell(pressure, row, "avg10");

		if (name && kind && avg && !strcmp(name, pool) && !strcmp(kind, "some"))
			return strtod(avg, NULL);
	}
	return 0;
}

static int print_pools(struct watch *watch, const struct table *table,
		       const struct table *pressure)
{
	if (!table->nr_rows || !has_columns(table))
		return complain(EXIT_WRONG, "%s: there is no pool", watch->client.path);
	for (size_t row = 0; row < table->nr_rows; row++) {
		const char *name = table_cell(table, row, "pool");
		double value[NR_COLUMNS], some = some_of(pressure, name);
		struct past *past = past_of(watch, name);

		if (!past)
			break;
		take_values(past, table, row, value);
		if (watch->opt->json) {
			print_object(name, value, some);
			continue;
		}
		print_head(watch);
		print_row(watch, name, value, some);
		watch->nr_lines++;
	}
	return finish_output(EXIT_GOOD);
}

/* ---- asking ---- */

static int look(struct watch *watch)
{
	const char *pool = watch->opt->pool, *between = pool ? " " : "";
	struct client *client = &watch->client;
	struct table table, pressure;
	int code;

	pool = pool ? pool : "";
	if (client_table(client, &table, "stat%s%s", between, pool))
		return client_wrong(client);
	if (client_table(client, &pressure, "pressure%s%s", between, pool)) {
		code = client_wrong(client);
	} else {
		code = print_pools(watch, &table, &pressure);
		table_free(&pressure);
	}
	table_free(&table);
	return code;
}

void sleep_for(double seconds)
{
	struct timespec left = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

int live_watch(const struct client_options *opt)
{
	static struct watch watch;
	int code;

	watch.opt = opt;
	if (client_open(&watch.client, opt->socket))
		return client_wrong(&watch.client);
	code = look(&watch);
	for (unsigned long i = 1; !code && opt->interval > 0 && (!opt->count || i < opt->count); i++) {
		sleep_for(opt->interval);
		code = look(&watch);
	}
	client_close(&watch.client);
	return code;
}

int live_show(const struct client_options *opt, const char *command)
{
	struct client client;
	int code;

	if (client_open(&client, opt->socket))
		return client_wrong(&client);
	code = client_show(&client, opt->json, "%s", command);
	client_close(&client);
	return code;
}

int live_print(const struct client_options *opt, const char *command)
{
	struct client client;
	struct answer answer;

	if (client_open(&client, opt->socket) || client_call(&client, &answer, "%s", command))
		return client_wrong(&client);
	fwrite(answer.text, 1, answer.bytes, stdout);
	answer_free(&answer);
	client_close(&client);
	return EXIT_GOOD;
}
