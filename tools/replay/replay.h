/* SPDX-License-Identifier: Apache-2.0 */
/* The modes of the tool and what they are asked for. */
#ifndef REPLAY_REPLAY_H
#define REPLAY_REPLAY_H

#include <kvmm/tier.h>

#include "../tool.h"
#include "results.h"
#include "trace.h"
#include "workload.h"

enum key_rule {
	KEYS_IDS,	/* each number of the trace is one full block */
	KEYS_VLLM,	/* full blocks of any size have keys; the last token never hits */
};

enum compact_mode {
	COMPACT_OFF, COMPACT_SLIDE, COMPACT_DIRECT, COMPACT_BACKGROUND, COMPACT_BESIDE,
	COMPACT_BETWEEN,
};

struct mode;

#define MAX_SOURCES	16
#define MAX_SIZES	32
#define MAX_NODES	1024u
#define MAX_CLUSTERS	10u
#define MAX_JOBS	64
#define NS_PER_MS	1000000ull
#define NS_PER_US	1000ull

/* What requests take; of their prompts, tokens that are computed. */
#define US_PER_INPUT_TOKEN	125u
#define US_PER_OUTPUT_TOKEN	20000u

/* Where a trace comes from: a file, "-" for standard input, or, without a path, @work. */
struct source {
	const char *path;
	const char *spec;	/* how @work was asked for; NULL: it was not */
	struct workload work;
};

/**
 * struct options - the command line, checked; strings are borrowed from argv
 *
 * Its row in options.c says what an option means; here is what a field has besides.
 *
 * @size, @nr_sizes: compare: blocks of the pools; none: a default set
 * @streams: 0: nothing reads, and time jumps
 * @host, @client, @knobs, @disk_use: of the tiers, by options and a configuration file
 * @knobs: the low mark may be U32_NONE: 0.1 below the high one
 * @disk_bytes, and of @host: of such a file, as long as the bytes of a block are not known; 0: none
 * @record_every_ms: in requests, times 1,000, where there is no time; 0: as fits
 * @write, @nr_writes: compare: values of @knobs.write; none: that one
 * @nodes, @nr_clusters: cluster: of each run; none: a default set
 * @by_time: requests arrive when the trace says so, not all at once
 */
struct options {
	const struct mode *mode;
	const char *policy;
	const char *policies;
	const char *alloc;
	const char *device;
	const char *report_path;
	const char *events_path;
	const char *record_path;
	u64 record_every_ms;
	u64 seed;
	struct source source[MAX_SOURCES];
	u32 nr_sources;
	u32 size[MAX_SIZES];
	u32 nr_sizes;
	u32 jobs;
	u32 nr_blocks;
	u32 block_tokens;
	u32 block_bytes;
	u32 nr_requests;
	u32 max_runs;
	u32 mark;
	u32 pinned;
	u32 streams;
	u32 step_us;
	u32 threshold_pm;
	u32 interval_ms;
	u32 ahead;
	enum key_rule keys;
	enum compact_mode compact;
	u32 by_time;
	u32 conc;
	bool progress;
	bool no_progress;
	bool verify;
	bool json;
	bool ages;
	bool digest;
	u32 run_window;
	u32 pageblock;
	bool empty_pageblocks;
	bool transfers;
	struct kvmm_tier_attr host;
	u64 disk_bytes;
	struct kvmm_tier_client_attr client;
	struct kvmm_tier_config knobs;
	struct kvmm_tier_disk_attr disk_use;
	u32 token_bytes;
	bool record_calls;
	bool grow;
	bool answers;
	u32 write[KVMM_NR_TIER_WRITES];
	u32 nr_writes;
	u32 disk_blocks;
	u32 disk_mb_s;
	u32 disk_latency_us;
	u32 nodes[MAX_CLUSTERS];
	u32 nr_clusters;
	u32 link_mb_s;
	u32 link_latency_us;
};

/* Names of enum kvmm_tier_write, in its order; ends with NULL. */
extern const char *const write_policies[];

/* Of enum compact_mode; likewise. */
extern const char *const compact_modes[];

struct ages;
struct meter;
struct record;

/**
 * struct run - one run of a mode; all pointers borrowed
 * @results: out
 * @record: out, for the report; NULL: none is wanted
 * @tally: out: how many prompt blocks hit; NULL: nobody asks
 * @ages: out: see struct options; NULL: not wanted
 * @meter: this is one of many runs; NULL: the only one
 */
struct run {
	const struct options *opt;
	const struct trace *trace;
	struct results *results;
	struct record *record;
	struct tally *tally;
	struct ages *ages;
	struct meter *meter;
};

struct tally {
	u64 hits;
	u64 accesses;
	u64 rejected;

	/* With tiers: */
	u64 device_hits;
	u64 host_hits;
	u64 disk_hits;
	u64 down_bytes;		/* device to host */
	u64 up_bytes;
	u64 write_bytes;	/* host to disk */
	u64 read_bytes;
	u64 stall_us;
};

/**
 * struct mode - one thing the tool can do
 * @run: do it with one trace: EXIT_GOOD; EXIT_WRONG, EXIT_INPUT: the reason has been said
 * @whole: instead of @run: read as many traces as it likes, and print
 */
struct mode {
	const char *name;
	const char *purpose;
	enum exit_code (*run)(const struct run *run);
	enum exit_code (*whole)(const struct options *opt);
};

enum exit_code run_seq(const struct run *run);
enum exit_code run_conc(const struct run *run);
enum exit_code run_frag(const struct run *run);
enum exit_code run_cluster(const struct run *run);
enum exit_code run_waste(const struct run *run);
enum exit_code run_compare(const struct options *opt);
enum exit_code run_generate(const struct options *opt);

/* Read or make up a trace. */
enum exit_code load(const struct source *source, struct trace *trace);

/* Policies that need the whole future and no pool: seq and compare offer them. */
bool limit_is(const char *policy);
enum exit_code run_limit(const struct run *run);

/* The first fields of seq, conc and of these. */
void describe_hits(const struct run *run, const char *kind, u32 nr_blocks, u64 hits, u64 accesses);

/** report_write() - --report: the recording in @in, from its beginning, as a page. Return: 0; -errno. */
int report_write(FILE *in, const char *name, const char *path);

void options_parse(struct options *opt, int argc, char **argv);

/* Blocks for @tokens. */
static inline u32 blocks_of(const struct options *opt, u64 tokens)
{
	return (u32)DIV_ROUND_UP(tokens, opt->block_tokens);
}

#endif /* REPLAY_REPLAY_H */
