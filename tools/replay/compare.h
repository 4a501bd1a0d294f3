/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mode compare: a board of traces, rows (policies, then what no policy can know) and columns
 * (sizes). Each field is one run of seq or conc, exactly as it would be alone.
 */
#ifndef REPLAY_COMPARE_H
#define REPLAY_COMPARE_H

#include "ages.h"
#include "policies.h"
#include "progress.h"

/* The rows at the end, in this order. */
enum reference { REF_MIN, REF_BOUND, REF_INFINITE, NR_REFS };

/* One run; everything in it is its own but what @run borrows from the board. */
struct job {
	struct options opt;
	struct run run;
	struct results results;
	struct tally tally;
	struct ages ages;
	struct meter meter;
	enum exit_code code;
	char complaint[COMPLAINT_BYTES];
};

/**
 * struct board - all runs
 * @nr_blocks: by trace: prompt blocks of all requests, what rates are rates of
 * @policy: names
 * @row: what the rows are called: a policy, or one and a policy of writing
 * @policy_of, @write_of: by row: which of @policy, and enum kvmm_tier_write
 * @lru: the row that others are compared with
 * @job: by trace, row and column; the row "infinite" has only the first column
 */
struct board {
	const struct options *opt;
	struct trace trace[MAX_SOURCES];
	u64 nr_blocks[MAX_SOURCES];
	struct policies policy;
	struct policies row;
	u8 policy_of[MAX_POLICIES];
	u8 write_of[MAX_POLICIES];
	u32 size[MAX_SIZES];
	u32 nr_traces;
	u32 nr_sizes;
	u32 lru;
	struct job *job;
	u32 nr_jobs;
};

static inline u32 first_reference(const struct board *board)
{
	return board->row.nr - NR_REFS;
}

/* Always there, whatever the size. */
static inline bool is_infinite(const struct board *board, u32 row)
{
	return row == first_reference(board) + REF_INFINITE;
}

static inline struct job *job_at(const struct board *board, u32 trace, u32 row, u32 column)
{
	if (is_infinite(board, row))
		column = 0;
	return &board->job[(trace * board->row.nr + row) * board->nr_sizes + column];
}

static inline u64 hits_at(const struct board *board, u32 trace, u32 row, u32 column)
{
	return job_at(board, trace, row, column)->tally.hits;
}

/* Share of all prompt blocks; those of a request that is too large for the pool did not hit. */
static inline double rate_at(const struct board *board, u32 trace, u32 row, u32 column)
{
	return 100 * share(hits_at(board, trace, row, column), board->nr_blocks[trace]);
}

/**
 * gap_closed() - how far a row has come from lru to min, in millionths, rounded toward zero
 *
 * Return: false if min hits no more than lru.
 */
bool gap_closed(const struct board *board, u32 trace, u32 row, u32 column, s64 *ppm);

/* Does no policy of the board hit more here? */
bool is_best(const struct board *board, u32 trace, u32 row, u32 column);

/* The ages of a run, NULL if nobody counted them. */
const struct ages *ages_at(const struct board *board, u32 trace, u32 row, u32 column);

void compare_print_text(const struct board *board, FILE *out);

/* Adds to the results of each run where it stands among the others; then they can be printed as JSON. */
void compare_describe(const struct board *board);
void compare_print_json(const struct board *board, FILE *out);

/** compare_write_page() - Return: 0; -errno. */
int compare_write_page(const struct board *board, const char *path);

#endif /* REPLAY_COMPARE_H */
