/* SPDX-License-Identifier: Apache-2.0 */
/* kvmm-defrag: what compaction would do, does, and did, to the pool of a replay. */
#ifndef DEFRAG_DEFRAG_H
#define DEFRAG_DEFRAG_H

#include "../replay/frag.h"

enum command { DEFRAG_PLAN, DEFRAG_RUN, DEFRAG_WATCH, NR_COMMANDS };

/**
 * struct ask - the command line
 * @replay: the pool, and how the trace is played
 * @after, @percent: see struct frag.stop_*
 * @want: make a free run of so many blocks; 0: pack all downward
 * @goal: enum kvmm_goal; KVMM_NR_GOALS: as @want says, in a world that stands still
 * @pageblock: blocks of one, for KVMM_GOAL_PAGEBLOCKS
 * @max_blocks: move at most so many; 0: no limit
 * @nr_moves: list so many moves
 * @mib_per_s: speed for the prediction
 * @interval_s: watch: a line each so many seconds of the trace
 * @threshold_pm: watch: compact when so much is unusable; 0: never
 */
struct ask {
	enum command command;
	struct options replay;
	u32 after;
	u32 percent;
	u32 want;
	u32 goal;
	u32 pageblock;
	u32 max_blocks;
	u32 nr_moves;
	u32 mib_per_s;
	u32 interval_s;
	u32 threshold_pm;
};

/* How the free blocks lie; shares in millionths. */
struct look {
	u32 held;
	u32 free;
	u32 largest;
	u32 nr_holes;
	u64 rate_ppm;		/* 1 - largest / free */
	u64 unusable_ppm;	/* at the median request */
	char map[FRAG_MAP_WIDTH + 1];
};

/** look_at() - Return: 0; -EINVAL. */
int look_at(struct frag *frag, struct look *look);

/* Where a request's extent was, and is. */
struct moved {
	u32 from;
	u32 to;
	u32 nr;
	u32 request;
};

/**
 * struct deed - one compaction
 * @compact: what the library says of it
 * @err: what it returned
 * @moved: ours; by request
 */
struct deed {
	struct kvmm_compact compact;
	int err;
	struct look before;
	struct look after;
	struct moved *moved;
	u32 nr_moved;
};

/** deed_do() - compact, and find out what moved. Return: EXIT_GOOD, or it was said why not. */
enum exit_code deed_do(struct frag *frag, const struct ask *ask, struct deed *deed);

/* What it takes to copy so many blocks, in nanoseconds. */
u64 predicted_ns(const struct frag *frag, const struct ask *ask, u64 nr_blocks);

enum exit_code act(struct frag *frag, const struct ask *ask);
/* The same for one of the library's goals, now that the trace has come to the point. */
enum exit_code act_for(struct frag *frag, const struct ask *ask);
enum exit_code watch(struct frag *frag, const struct ask *ask);

/* ---- print.c ---- */

void print_results(const struct frag *frag, const struct ask *ask);
void print_deed(const struct frag *frag, const struct ask *ask, const struct deed *deed);

/* Both output formats of a line of watch. */
void print_head(const struct ask *ask);
void print_moment(const struct frag *frag, const struct ask *ask, const struct look *look,
		  u64 moved);

#endif /* DEFRAG_DEFRAG_H */
