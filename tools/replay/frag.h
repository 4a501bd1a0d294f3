/* SPDX-License-Identifier: Apache-2.0 */
/* Mode frag, shared by the simulation (frag.c) and its output (frag_report.c). */
#ifndef REPLAY_FRAG_H
#define REPLAY_FRAG_H

#include <kvmm/kvmm.h>

#include "heap.h"
#include "layout.h"
#include "pattern.h"
#include "record.h"
#include "replay.h"

#define FRAG_CURVE_ROWS		10
#define FRAG_MAP_WIDTH		64

/* A running request. */
struct live {
	kvmm_range_t range;
	struct kvmm_extent ext[KVMM_MAX_RUNS];
	u32 nr_ext;
	u32 nr;		/* blocks it asked for */
	u32 at;		/* its place in frag.running */
};

/* What the pool looked like at a tenth of the run. */
struct curve_row {
	u64 now;
	u32 admitted;
	u32 held;
	u32 asked;
	u32 free;
	u32 largest;
	u32 nr_holes;
	char map[FRAG_MAP_WIDTH + 1];	/* as kvmm_pool_map() draws it */
};

/* Sums over the run; ppm are summed as they are. */
struct frag_count {
	u64 first_tries;
	u64 retries;
	u64 fail_frag;
	u64 fail_capacity;
	u64 fail_but_extent;	/* the engine could not use a hole that is long enough */
	u64 fail_compacted;	/* enough was free, and compaction did not help */
	u64 slide_blocks;
	u64 bound_blocks;
	u64 compactions;
	u64 moved_blocks;
	u64 rejected;
	u64 admitted;
	u64 runs;		/* extents, of all admitted requests */
	u64 asked_blocks;
	u64 held_blocks;
	u128 ext_ppm;
	u128 unusable_ppm;
	u128 wait_us;
};

/* Integrals over the middle of the run, from 10 % to 90 % of the admissions. */
struct frag_window {
	bool inside;
	u64 begin;
	u64 us;
	u128 held;
	u128 asked;
	u128 tokens;
	u128 ext_ppm;
};

/**
 * struct frag - the simulation
 * @live: by request; NULL if it does not run
 * @running: requests that run, in no order
 * @head: the first request that waits
 * @head_tried: it has been tried already
 * @stuck: it did not fit and nothing was freed since
 * @arrived: requests that have arrived so far
 * @limit: blocks that running requests may ask for together
 * @median: of all requests, in blocks; for background compaction
 * @asked, @tokens: of the running requests
 */
struct frag {
	const struct run *run;
	struct kvmm_pool *pool;
	struct kvmm_zone *zone;
	struct pattern pattern;
	struct layout layout;
	struct heap finish;
	struct live **live;
	u32 *running;
	u32 nr_running;
	u32 head;
	u32 arrived;
	bool head_tried;
	bool stuck;
	u64 now;
	u64 limit;
	u64 asked;
	u64 tokens;
	u32 median;

	struct frag_count count;
	struct frag_window window;
	struct curve_row curve[FRAG_CURVE_ROWS];
	u32 nr_curve;
	u64 fp;
};

/* The pool as it is now. */
struct kvmm_zone_stat frag_zone_stat(const struct frag *frag);

/* (free - largest) in parts per million of free. */
u64 frag_ext_ppm(const struct kvmm_zone_stat *stat);

/* Is this one of the requests that stay where they are? */
bool frag_is_pinned(const struct frag *frag, u32 q);

void frag_record(struct frag *frag);
void frag_report(const struct frag *frag);

#endif /* REPLAY_FRAG_H */
