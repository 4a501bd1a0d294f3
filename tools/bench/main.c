// SPDX-License-Identifier: Apache-2.0
/* kvmm-bench: what the library costs and how well it packs, always beside a baseline. */
#include <argp.h>
#include <kvmm/kvmm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tool.h"
#include "harness.h"

static const struct bench_kind kinds[] = {
	{ "request", "what a request costs from its tokens to its end",
	  bench_request },
	{ "alloc-range", "ranges of 1..32 blocks, random order, by the locked zone call",
	  bench_alloc },
	{ "alloc-request", "ranges as long as chat requests, by the locked zone call",
	  bench_alloc },
	{ "alloc-single", "single blocks, random order, by the locked zone call",
	  bench_alloc },
	{ "alloc-batch", "single blocks, 1 to 512 a call: each taken and given back",
	  bench_alloc_batch },
	{ "alloc-mt", "two threads on one zone: what the second one adds",
	  bench_alloc_mt },
	{ "growth", "sequences that grow block by block: pieces, cost of a step",
	  bench_growth },
	{ "fragmentation",
	  "10,000 blocks: what fits, what fails though it would fit",
	  bench_fragmentation },
	{ "compact", "compaction of pools in pieces: planning, blocks moved",
	  bench_compact },
	{ "blockpool", "match, evict, register and release 85 blocks at a time, by policy",
	  bench_blockpool },
	{ "range", "ranges in a pool, against the zone alone",
	  bench_range },
	{ "range-mt", "ranges in a pool: two threads, against one",
	  bench_range_mt },
	{ "peers", "a pool beside a stack, offsets by size, jemalloc, mimalloc",
	  bench_peers },
	{ "overhead", "calls that read statistics, and host memory of a pool", bench_overhead },
	{ "memory", "host memory a block: ranges, cache, registry",
	  bench_memory },
	{ "device", "scattered blocks of a device (--device) packed, beside one run",
	  bench_device },
	{ "shrink", "memory of a half full pool (--device) given back, beside copies",
	  bench_shrink },
	{ "registry",
	  "match, touch, put, register; two threads; beside liburcu's table",
	  bench_registry },
	{ "path",
	  "full pools of three sizes: match, put, evict, name; two writers",
	  bench_path },
	{ "kvbm", "match and drop prefixes, by policy, in Dynamo's shape",
	  bench_kvbm },
	{ "evict", "evict 64 of 5,000 to 1,000,000 blocks, by policy", bench_evict },
	{ "touch", "say that 64 held blocks were used",
	  bench_touch },
	{ "slab", "objects of slab caches, nanoseconds a pair",
	  bench_slab },
	{ "magazine", "single private blocks, with magazines and without",
	  bench_magazine },
	{ "migrate", "from pool to pool: bytes a second, descriptors a job", bench_migrate },
	{ "net", "to another machine, over loopback, beside bare programs",
	  bench_net },
	{ "server", "from a server below the host tier (Redis), against hiredis", bench_server },
	{ "tier", "blocks to host memory (--device) and back, beside plain copies",
	  bench_tier },
	{ "keys", "keys of a prompt, by algorithm, beside a copy of its tokens", bench_keys },
	{ "events", "what an event costs who makes it, and who reads it", bench_events },
};

struct options {
	bool wanted[ARRAY_SIZE(kinds)];
	bool list;
	bool quick;
	bool json;
	u64 seed;
	const char *device;	/* NULL: not chosen */
};

static const char doc[] =
	"Measure kvmm: time, packing, compaction, each beside a baseline of the same runs.\v"
	"Each figure is a median of several runs; with it come its ratio to the baseline, and the "
	"least and the most of them. The ratio is what can be compared between machines. "
	"Documentation/benchmarks.rst says what each benchmark does. Without a name: what a request costs "
	"from its tokens to its end, in seven lines.\n"
	"\n"
	"Columns of tables: metric, value and unit; ratio to the baseline behind it; min and max of the runs. "
	"Above each group its parameters.\n"
	"\n"
	"Example:\n"
	"  kvmm-bench\n"
	"  kvmm-bench list\n"
	"  kvmm-bench range compact\n"
	"  kvmm-bench --peers\n"
	"  kvmm-bench --quick --json all > bench.json\n"
	"\n"
	"Exit code: 0 good; 1 a benchmark could not run, or a result was wrong; 2 bad usage.";

static void add_name(struct argp_state *state, void *base, const char *name)
{
	struct options *opt = base;
	bool all = !strcmp(name, "all"), found = all || !strcmp(name, "list");

	opt->list |= !strcmp(name, "list");
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (all || !strcmp(name, kinds[i].name))
			found = opt->wanted[i] = true;
	}
	if (!found)
		bad_option(state, "no benchmark '%s'; see '%s list'", name, state->name);
}

static void add_peers(struct argp_state *state, void *base, const char *arg)
{
	add_name(state, base, "peers");
	add_name(state, base, "registry");
	add_name(state, base, "path");
}

static const struct option_row rows[] = {
	ROW_FLAG("quick", 'q', struct options, quick, "3 runs instead of 7"),
	ROW_TAKE("peers", 'P', NULL, add_peers,
		"kvmm beside what others have made: peers, registry, path"),
	ROW_FLAG("json", 'j', struct options, json, "One JSON object a line"),
	ROW_SCALED("seed", 's', "N", struct options, seed, 1, 0, UINT64_MAX,
		"Start of the random numbers (default 1)"),
	ROW_TEXT("device", 'd', "NAME", struct options, device,
		"For the benchmark \"device\": cuda:0, soft:0, host (default soft:0)"),
};

/* Where none is named: what is asked first. */
static void name_one(struct argp_state *state, void *base)
{
	const struct options *opt = base;
	bool named = opt->list;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		named |= opt->wanted[i];
	if (!named)
		add_name(state, base, kinds[0].name);
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
			failed |= !!run_kind(&kinds[i], opt);
	}
	return failed;
}

int main(int argc, char **argv)
{
	static const struct usage usage = {
		OPTION_ROWS(rows), "\nlist\nall\nNAME...", doc, add_name, name_one, false,
	};
	struct options opt = { .seed = 1 };

	read_options(&usage, argc, argv, &opt);
	if (opt.list) {
		for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
			printf("%-14s %s\n", kinds[i].name, kinds[i].what);
		return finish_output(EXIT_GOOD);
	}
	return finish_output(run_wanted(&opt));
}
