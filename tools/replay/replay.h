/* SPDX-License-Identifier: Apache-2.0 */
/* The modes of the tool and what they are asked for. */
#ifndef REPLAY_REPLAY_H
#define REPLAY_REPLAY_H

#include "results.h"
#include "trace.h"

/* What the process says at its end. */
enum exit_code {
	EXIT_GOOD	= 0,
	EXIT_WRONG	= 1,	/* the library gave a wrong result, or memory ran out */
	EXIT_INPUT	= 2,	/* bad usage or a bad trace */
};

enum key_rule {
	KEYS_IDS,	/* each number of the trace is one full block */
	KEYS_VLLM,	/* full blocks of any size have keys; the last token never hits */
};

enum compact_mode { COMPACT_OFF, COMPACT_SLIDE, COMPACT_DIRECT, COMPACT_BACKGROUND };

enum progress_wish { PROGRESS_AUTO, PROGRESS_ON, PROGRESS_OFF };

struct mode;

/**
 * struct options - the command line, checked; strings are borrowed from argv
 * @trace_path: NULL: made up; "-": standard input
 * @block_bytes: content of a block; 0: ids only
 * @mark: percent of the blocks that may be asked for at a time
 * @pinned: percent of the requests that must not be moved
 * @by_time: requests arrive when the trace says so, not all at once
 */
struct options {
	const struct mode *mode;
	const char *trace_path;
	const char *policy;
	const char *alloc;
	const char *device;
	const char *report_path;
	u64 seed;
	u32 nr_blocks;
	u32 block_tokens;
	u32 block_bytes;
	u32 nr_requests;
	u32 max_runs;
	u32 mark;
	u32 pinned;
	enum key_rule keys;
	enum compact_mode compact;
	enum progress_wish progress;
	bool by_time;
	bool verify;
	bool json;
};

struct record;

/* One run of a mode; all pointers borrowed. */
struct run {
	const struct options *opt;
	const struct trace *trace;
	struct results *results;	/* out */
	struct record *record;		/* out, for the report; NULL if none is wanted */
};

/**
 * struct mode - one thing the tool can do
 * @run: do it: EXIT_GOOD; EXIT_WRONG, EXIT_INPUT: the reason has been said
 */
struct mode {
	const char *name;
	const char *purpose;
	enum exit_code (*run)(const struct run *run);
};

enum exit_code run_seq(const struct run *run);
enum exit_code run_conc(const struct run *run);
enum exit_code run_frag(const struct run *run);
enum exit_code run_waste(const struct run *run);

/* Policies that need the whole future and no pool: only seq offers them. */
bool limit_is(const char *policy);
enum exit_code run_limit(const struct run *run);

/* Say what went wrong, on stderr, after the name of the tool. Returns @code. */
enum exit_code complain(enum exit_code code, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The same for an errno of the library, with what was attempted; EXIT_WRONG, or EXIT_INPUT if
 * the option behind it names something that does not exist. */
enum exit_code complain_of(int err, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

void options_parse(struct options *opt, int argc, char **argv);

/* Blocks for @tokens. */
static inline u32 blocks_of(const struct options *opt, u64 tokens)
{
	return (u32)DIV_ROUND_UP(tokens, opt->block_tokens);
}

#endif /* REPLAY_REPLAY_H */
