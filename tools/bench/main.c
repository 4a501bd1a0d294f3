// SPDX-License-Identifier: Apache-2.0
/* kvmm-bench: what the library costs and how well it packs, always beside a baseline. */
#include <argp.h>
#include <kvmm/kvmm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tool.h"
#include "harness.h"

static const struct bench_kind *const kinds[] = {
	&bench_alloc_range,   &bench_alloc_request, &bench_alloc_single,
	&bench_alloc_batch,   &bench_alloc_mt,      &bench_growth,
	&bench_fragmentation, &bench_compact,       &bench_blockpool,
	&bench_range,         &bench_range_mt,      &bench_overhead,      &bench_device,
	&bench_keys,	      &bench_registry,	    &bench_kvbm,
	&bench_prefixes,     &bench_evict,	    &bench_touch,
	&bench_slab,	     &bench_magazine,     &bench_door,
	&bench_shrink,	     &bench_disk,	    &bench_migrate,
	&bench_tier,
	&bench_events,
	&bench_publisher,
	&bench_control,
};

struct options {
	bool wanted[ARRAY_SIZE(kinds)];
	bool list;
	bool quick;
	bool json;
	u64 seed;
	const char *device;	/* NULL: not chosen */
};

enum { KEY_QUICK = 'q', KEY_JSON = 'j', KEY_SEED = 's', KEY_DEVICE = 'd' };

static const struct argp_option argp_options[] = {
	{ "quick", KEY_QUICK, NULL, 0, "3 runs instead of 7", 0 },
	{ "json", KEY_JSON, NULL, 0, "One JSON object a line", 0 },
	{ "seed", KEY_SEED, "N", 0, "Start of the random numbers (default 1)", 0 },
	{ "device", KEY_DEVICE, "NAME", 0, "For the benchmark \"device\": cuda:0, soft:0, host "
	  "(default soft:0)", 0 },
	{ 0 },
};

static const char doc[] =
	"Measure kvmm: time, packing, compaction, each beside a baseline of the same runs.\v"
	"Each figure is a median of several runs; with it come the least and the most of them, and its ratio "
	"to the baseline, which is what can be compared between machines. Documentation/benchmarks.rst says "
	"what each benchmark does.\n"
	"\n"
	"Example:\n"
	"  kvmm-bench list\n"
	"  kvmm-bench range churn\n"
	"  kvmm-bench --quick --json all > bench.json\n"
	"\n"
	"Exit code: 0 good; 1 a benchmark could not run, or a result was wrong; 2 bad usage.";

static void add_name(struct options *opt, struct argp_state *state, const char *name)
{
	bool all = !strcmp(name, "all"), found = all || !strcmp(name, "list");

	opt->list |= !strcmp(name, "list");
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (all || !strcmp(name, kinds[i]->name))
			found = opt->wanted[i] = true;
	}
	if (!found)
		bad_option(state, "no benchmark '%s'; see '%s list'", name, state->name);
}

static u64 parse_seed(struct argp_state *state, const char *arg)
{
	char *end;
	u64 seed = strtoull(arg, &end, 0);

	if (!*arg || *end)
		bad_option(state, "'%s' is not a number", arg);
	return seed;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *opt = state->input;

	switch (key) {
	case KEY_QUICK:
		opt->quick = true;
		return 0;
	case KEY_JSON:
		opt->json = true;
		return 0;
	case KEY_SEED:
		opt->seed = parse_seed(state, arg);
		return 0;
	case KEY_DEVICE:
		opt->device = arg;
		return 0;
	case ARGP_KEY_ARG:
		add_name(opt, state, arg);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_usage(state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void list_kinds(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		printf("%-14s %s\n", kinds[i]->name, kinds[i]->what);
}

static int run_kind(const struct bench_kind *kind, const struct options *opt)
{
	static struct bench bench;
	int err;

	bench = (struct bench){
		.kind = kind,
		.nr_runs = opt->quick ? 3 : BENCH_MAX_RUNS,
		.seed = opt->seed,
		.device = opt->device ? opt->device : "soft:0",
		.device_is_chosen = opt->device,
		.json = opt->json,
	};
	err = kind->run(&bench);
	if (err)
		complain(EXIT_WRONG, "%s: %s", kind->name, kvmm_strerror(err));
	return err;
}

static int run_wanted(const struct options *opt)
{
	int err = bench_open(), failed = 0;

	if (err)
		return complain(EXIT_WRONG, "no thread pinned and parked: %s", strerror(-err));
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (opt->wanted[i])
			failed |= !!run_kind(kinds[i], opt);
	}
	return failed;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		argp_options, parse, "list\nall\nNAME...", doc, NULL, NULL, NULL,
	};
	struct options opt = { .seed = 1 };

	read_options(&argp, argc, argv, 0, &opt);
	if (opt.list) {
		list_kinds();
		return finish_output(EXIT_GOOD);
	}
	return finish_output(run_wanted(&opt));
}
