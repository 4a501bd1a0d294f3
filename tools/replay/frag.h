/* SPDX-License-Identifier: Apache-2.0 */
/* Mode frag: the simulation, for readers.c and for tools that look at a pool in its middle. */
#ifndef REPLAY_FRAG_H
#define REPLAY_FRAG_H

#include <kvmm/ext/testing.h>
#include <kvmm/kvmm.h>

#include "layout.h"
#include "maps.h"
#include "pattern.h"
#include "record.h"
#include "replay.h"
#include "rng.h"

#define FRAG_CURVE_ROWS		10
#define FRAG_MAP_WIDTH		64

/* A running request. */
struct live {
	kvmm_range_t range;
	struct kvmm_extent ext[KVMM_MAX_RUNS];
	u32 nr_ext;
	u32 nr;		/* blocks it asked for */
	u32 at;		/* its place in frag.running */
	u64 ends;	/* when it will be done */
	u32 stream;	/* that works on it */
	u32 nr_told;
	struct kvmm_extent told[KVMM_MAX_RUNS];	/* where the open step reads it */
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
	char map[FRAG_MAP_WIDTH + 1];	/* as pool_map() draws it */
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
	u128 stall_us;		/* with steps: the head waited for a run, not for the mark */
};

/* One stream of the engine. */
struct reader {
	kvmm_stream_t id;
	u64 epoch;
	u64 until;		/* the open step ends; of a parked one: it has been since */
	bool open;
	bool parked;		/* it would go on, but has to wait */
	u32 blocks;		/* of its requests */
};

/**
 * struct readers - steps of the engine, see readers.h; times in microseconds
 * @reading: by block: open steps that were told it
 * @hold: nobody begins a step: blocks are to be moved while nobody reads
 * @under_way, @since: there are moves whose old places are not free, and when the first began
 * @in_vain: picture in which nothing could be moved
 * @starts, @refused, @busy: compactions that began; that found no moves; that had to wait
 * @limbo_us, @run_us, @request_us: integrals over the window of blocks, runs and requests
 * @landings, @landing_us, @longest_landing_us: from the beginning of moves until all is free
 */
struct readers {
	struct reader *reader;
	u32 *reading;
	u32 nr;
	u32 nr_open;
	u64 rng;
	bool hold;
	bool under_way;
	u64 since;
	u64 in_vain;

	u64 steps;
	u64 pauses;
	u64 pause_us;
	u64 starts;
	u64 refused;
	u64 busy;
	u32 max_limbo;
	u128 limbo_us;
	u128 run_us;
	u128 request_us;
	u64 landings;
	u128 landing_us;
	u64 longest_landing_us;
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

	struct readers readers;
	struct kvmm_testing_host host;	/* tells the library the time, if there are readers */
	u32 stop_after;		/* admitted requests; 0: the end of the trace */
	u32 stop_percent;	/* of the pool in use; 0: likewise */
	u64 head_failed;	/* when the head was first told that there is no run; or UINT64_MAX */
};

/* Free blocks. */
struct frag_free {
	u32 nr_blocks;		/* of the pool */
	u32 nr_free;
	u32 nr_runs;
	u32 largest;		/* that a request can have */
};

/* (free - largest) in parts per million of free. */
u64 frag_ext_ppm(const struct frag_free *free);

/* ---- look.c: as any allocator has them; of defrag/, by exported calls, as the default one has them ---- */

struct frag_free frag_free_now(const struct frag *frag);
/* In runs shorter than @nr, in parts per million of all that are free. */
u64 frag_unusable_ppm(struct frag *frag, u32 nr);
/* Into ->layout. */
void frag_find_holes(struct frag *frag);

/* Is this one of the requests that stay where they are? */
bool frag_is_pinned(const struct frag *frag, u32 q);

/* ---- frag.c: what both ways to let time go by have in common ---- */

u32 frag_blocks_wanted(const struct frag *frag, u32 q);
/* Requests get their blocks, from the head of the queue until one does not fit. */
enum exit_code frag_admit(struct frag *frag);
enum exit_code frag_finish(struct frag *frag, u32 q);
void frag_arrive(struct frag *frag);
void frag_integrate(struct frag *frag, u64 us);
/* Where does the range lie? *@moved: not where it did. */
int frag_look_up(struct frag *frag, u32 q, bool *moved);
/* Its content, as far as it was written. */
enum exit_code frag_check(struct frag *frag, u32 q, const struct kvmm_extent *ext, u32 nr_ext,
			  const char *when);

/* For tools that look at a pool in the middle of a replay: make it, play on, free it. */
enum exit_code frag_open(struct frag *frag, const struct run *run);
/* Until @until_us, or until what @frag->stop_* say, or the end; *@more: there are events left. */
enum exit_code frag_play(struct frag *frag, u64 until_us, bool *more);
bool frag_has_stopped(const struct frag *frag);
/* After a compaction: note the new places, see that the content came along. */
enum exit_code frag_follow_moves(struct frag *frag);
void frag_close(struct frag *frag);

/* Keep this moment for the report. */
void frag_record(struct frag *frag);

#endif /* REPLAY_FRAG_H */
