// SPDX-License-Identifier: Apache-2.0
/*
 * Pools of a running engine, a line each interval, as vmstat has it: what is there now, and what has
 * happened a second since the line before. The first line has nothing to compare with.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "../client/client.h"
#include "../json.h"
#include "../tool.h"
#include "live.h"
#include "stat.h"

#define MAX_POOLS	64u
#define DEFAULT_LINES	24u

/* Counts that are shown a second. */
static const char *const rates[] = {
	"allocs", "frees", "evictions", "hit_blocks", "miss_blocks", "registered", "moved_blocks",
	"fail_nospc", "fail_frag",
};
#define NR_RATES (sizeof(rates) / sizeof(rates[0]))

enum { RATE_HITS = 3, RATE_MISSES = 4 };

static const char *const gauges[] = {
	"free", "inactive", "active", "private", "ranges_blocks", "largest", "runs",
};
#define NR_GAUGES (sizeof(gauges) / sizeof(gauges[0]))

/* A pool as it was the last time. */
struct past {
	char name[64];
	uint64_t count[NR_RATES];
	double at;
};

struct watch {
	const struct client_options *opt;
	struct client client;
	struct past past[MAX_POOLS];
	unsigned int nr_past;
	unsigned int nr_lines;		/* since the last head */
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

/* What has happened a second, or -1: that is not known yet. Counts of a new pool begin anew. */
static void take_rates(struct past *past, const struct table *table, size_t row, double *rate)
{
	double at = now(), span = at - past->at;

	for (unsigned int i = 0; i < NR_RATES; i++) {
		uint64_t count = table_number(table, row, rates[i]);

		rate[i] = -1;
		if (past->at > 0 && span > 0 && count >= past->count[i])
			rate[i] = (double)(count - past->count[i]) / span;
		past->count[i] = count;
	}
	past->at = at;
}

static double percent_hit(const double *rate)
{
	double sum = rate[RATE_HITS] + rate[RATE_MISSES];

	return sum > 0 ? 100 * rate[RATE_HITS] / sum : -1;
}

static unsigned int lines_of_screen(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || size.ws_row < 4)
		return DEFAULT_LINES - 2;
	return size.ws_row - 2u;
}

static void print_head(struct watch *watch)
{
	if (watch->nr_lines && watch->nr_lines < lines_of_screen())
		return;
	watch->nr_lines = 0;
	printf("%-12s %-60s %-70s %5s %6s\n", "",
	       "-------------------------- blocks -------------------------",
	       "------------------------------ a second ------------------------------",
	       "hits", "some");
	printf("%-12s %8s %8s %8s %8s %8s %8s %6s %7s %7s %7s %8s %8s %7s %7s %6s %6s %5s %6s\n",
	       "pool", "free", "inactive", "active", "private", "ranges", "run", "runs", "alloc",
	       "free", "evict", "hit", "miss", "regist", "moved", "nospc", "frag", "%", "%10s");
}

static void print_number(double value, int width, int digits)
{
	if (value < 0)
		printf(" %*s", width, "-");
	else
		printf(" %*.*f", width, digits, value);
}

static void print_row(const struct table *table, size_t row, const double *rate, const char *some)
{
	static const int width[NR_RATES] = { 7, 7, 7, 8, 8, 7, 7, 6, 6 };

	printf("%-12s", table_cell(table, row, "pool"));
	for (unsigned int i = 0; i < NR_GAUGES; i++)
		printf(" %*s", i + 1 < NR_GAUGES ? 8 : 6, table_cell(table, row, gauges[i]));
	for (unsigned int i = 0; i < NR_RATES; i++)
		print_number(rate[i], width[i], 0);
	print_number(percent_hit(rate), 5, 1);
	printf(" %6s\n", some);
}

static void print_value(const char *name, double value)
{
	if (value < 0)
		printf(", \"%s\": null", name);
	else
		printf(", \"%s\": %.1f", name, value);
}

static void print_object(const struct table *table, size_t row, const double *rate,
			 const char *some)
{
	char name[64];

	fputs("{\"pool\": ", stdout);
	json_string(table_cell(table, row, "pool"), stdout);
	for (unsigned int i = 0; i < NR_GAUGES; i++) {
		printf(", \"%s\": ", gauges[i]);
		table_print_value(table_cell(table, row, gauges[i]), false, stdout);
	}
	for (unsigned int i = 0; i < NR_RATES; i++) {
		snprintf(name, sizeof(name), "%s_per_s", rates[i]);
		print_value(name, rate[i]);
	}
	print_value("hit_percent", percent_hit(rate));
	fputs(", \"some_avg10\": ", stdout);
	table_print_value(some, false, stdout);
	fputs("}\n", stdout);
}

/* Columns that are shown are there. */
static bool has_columns(const struct table *table)
{
	bool has = table_cell(table, 0, "pool");

	for (unsigned int i = 0; i < NR_GAUGES; i++)
		has &= table_cell(table, 0, gauges[i]) != NULL;
	return has;
}

/* Share of the last 10 s that somebody has waited. */
static const char *some_of(const struct table *pressure, const char *pool)
{
	for (size_t row = 0; row < pressure->nr_rows; row++) {
		const char *name = table_cell(pressure, row, "pool");
		const char *kind = table_cell(pressure, row, "kind");
		const char *avg = table_cell(pressure, row, "avg10");

		if (name && kind && avg && !strcmp(name, pool) && !strcmp(kind, "some"))
			return avg;
	}
	return "0";
}

static int print_pools(struct watch *watch, const struct table *table,
		       const struct table *pressure)
{
	if (!table->nr_rows || !has_columns(table)) {
		return complain(EXIT_WRONG, "%s: there is no pool", watch->client.path);
	}
	for (size_t row = 0; row < table->nr_rows; row++) {
		const char *name = table_cell(table, row, "pool");
		struct past *past = past_of(watch, name);
		double rate[NR_RATES];

		if (!past)
			break;
		take_rates(past, table, row, rate);
		if (watch->opt->json) {
			print_object(table, row, rate, some_of(pressure, name));
			continue;
		}
		print_head(watch);
		print_row(table, row, rate, some_of(pressure, name));
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
