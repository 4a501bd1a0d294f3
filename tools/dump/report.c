// SPDX-License-Identifier: Apache-2.0
/* kvmm-dump report: recordings, and what kvmm-replay compare --json says, as one HTML file. */
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../report/page.h"
#include "../tool.h"
#include "dump.h"

#define MAX_FILES	64

struct report {
	const char *out;
	const char *file[MAX_FILES];
	unsigned int nr_files;
};

static const struct option_row rows[] = {
	ROW_TEXT("output", 'o', "FILE", struct report, out, "The page; - is standard output [report.html]"),
};

static const char report_doc[] =
	"One HTML file of recordings: the memory map over time, occupancy, runs, hits by tier, moves, "
	"latencies; several files side by side.\v"
	"FILE is a recording, of kvmm-replay --record-state or of kvmm-dump record, or what kvmm-replay "
	"compare --json has printed; - is standard input. The page is complete in itself, and needs no "
	"network. Documentation/report.rst says what is on it.\n"
	"\n"
	"Example:\n"
	"  kvmm-replay frag --compact direct --record-state moving.rec TRACE\n"
	"  kvmm-replay frag --record-state still.rec TRACE\n"
	"  kvmm-dump report moving.rec still.rec -o report.html\n"
	"\n"
	"Exit code: 0 good; 1 a file cannot be read, or is no recording (the message has file and line), "
	"or the page cannot be written; 2 bad usage.";

static void add_file(struct argp_state *state, void *base, const char *arg)
{
	struct report *report = base;

	if (report->nr_files == MAX_FILES)
		bad_option(state, "more than %u files", MAX_FILES);
	report->file[report->nr_files++] = arg;
}

static void check(struct argp_state *state, void *base)
{
	if (!((struct report *)base)->nr_files)
		argp_usage(state);
}

/* The file's name without folders, and without what is behind the last dot. */
static void name_of(const char *path, char name[64])
{
	const char *base = strrchr(path, '/');
	char *dot;

	snprintf(name, 64, "%s", !strcmp(path, "-") ? "standard input" : base ? base + 1 : path);
	dot = strrchr(name, '.');
	if (dot && dot != name)
		*dot = '\0';
}

static int say_what(const char *path, const struct recording *rec, int err)
{
	if (err == -EINVAL && rec)
		complain(EXIT_WRONG, "%s:%llu: %s", path, (unsigned long long)rec->line, rec->why);
	else
		complain(EXIT_WRONG, "%s: %s", path, strerror(-err));
	return err;
}

static int put_file(struct page *page, const char *path)
{
	FILE *in = strcmp(path, "-") ? fopen(path, "r") : stdin;
	struct recording rec = { 0 };
	char name[64];
	int err;

	if (!in)
		return say_what(path, &rec, -errno);
	name_of(path, name);
	err = page_add(page, in, name, &rec);
	if (err)
		say_what(path, &rec, err);
	else if (rec.kind == RECORDING_STATES && !rec.ended)
		complain(EXIT_WRONG, "%s: was cut off after %u moments", path, rec.nr_samples);
	if (in != stdin)
		fclose(in);
	return err;
}

static int write_report(const struct report *report)
{
	struct page page;
	int err = page_begin(&page, report->out), err2;

	if (err)
		return say_what(report->out, NULL, err);
	for (unsigned int i = 0; !err && i < report->nr_files; i++)
		err = put_file(&page, report->file[i]);
	err2 = page_finish(&page, err);
	return err || !err2 ? err : say_what(report->out, NULL, err2);
}

int dump_report(int argc, char **argv)
{
	static const struct usage usage = {
		OPTION_ROWS(rows), "FILE...", report_doc, add_file, check, false,
	};
	struct report report = { .out = "report.html" };
	char name[] = "kvmm-dump report";

	argv[0] = name;
	read_options(&usage, argc, argv, &report);
	return write_report(&report) ? EXIT_WRONG : EXIT_GOOD;
}
