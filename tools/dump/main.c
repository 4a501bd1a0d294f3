// SPDX-License-Identifier: Apache-2.0
/* kvmm-dump: what is in a disk tier, without opening it for use. */
#include <argp.h>
#include <string.h>

#include "../tool.h"
#include "dump.h"
#include "view.h"

static const struct option_row rows[] = {
	ROW_FLAG("json", 'j', struct dump, json, "One JSON object on standard output"),
	ROW_FLAG("quiet", 'q', struct dump, quiet, "Segments and sums, not each record"),
	ROW_FLAG("no-verify", 'n', struct dump, believe,
		"Believe headers and footers: do not read payload"),
};

static const char doc[] =
	"Show what is in a disk tier, record by record, or in the memory of a pool, block by block.\v"
	"snapshot, show, pickle and graphviz are of the memory of an engine that runs, or of a snapshot of it: "
	"see kvmm-dump snapshot --help. record writes down what it looks like over time, and report makes a "
	"page of that: see kvmm-dump report --help.\n"
	"\n"
	"tier: lists the records of a disk tier, and verifies each of them. "
	"DIR is the folder of the store. Nothing is written, and nobody is locked out: it may be in use "
	"meanwhile. Records that were replaced or forgotten are listed as long as they are on disk; "
	"segments that are used again in the middle are said to be.\n"
	"\n"
	"Example:\n"
	"  kvmm-dump tier /var/cache/engine/kv\n"
	"  kvmm-dump tier --json DIR | jq '.segments[].records[].status'\n"
	"\n"
	"Exit code: 0 good; 1 it cannot be read, or something in it is damaged; 2 bad usage.";

static void add_arg(struct argp_state *state, void *base, const char *arg)
{
	struct dump *dump = base;

	if (state->arg_num == 0 && strcmp(arg, "tier"))
		bad_option(state, "there is no command '%s', only tier, record, report, snapshot, show, "
			   "pickle, graphviz", arg);
	if (state->arg_num == 1)
		dump->path = arg;
	if (state->arg_num > 1)
		bad_option(state, "unexpected argument '%s': one folder at a time", arg);
}

static void check(struct argp_state *state, void *base)
{
	if (!((struct dump *)base)->path)
		argp_usage(state);
}

int main(int argc, char **argv)
{
	static const struct usage usage = {
		OPTION_ROWS(rows),
		"tier DIR\nrecord FILE\nreport FILE...\nsnapshot\nshow\npickle\ngraphviz", doc, add_arg, check,
		false,
	};
	struct dump dump = { .path = NULL };
	int err;

	if (argc > 1 && !strcmp(argv[1], "report"))
		return dump_report(argc - 1, argv + 1);
	if (argc > 1 && !strcmp(argv[1], "record"))
		return dump_record(argc - 1, argv + 1);
	if (argc > 1 && is_view(argv[1]))
		return dump_view(argc - 1, argv + 1);
	read_options(&usage, argc, argv, &dump);
	err = dump_tier(&dump);
	if (err)
		return complain(EXIT_WRONG, "%s: %s", dump.path, kvmm_strerror(err));
	return finish_output(dump.sum.nr_damaged ? EXIT_WRONG : EXIT_GOOD);
}
