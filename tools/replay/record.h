/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recording of a replay (../report/recorder.h): what goes into --record-state and into the report.
 *
 * Moments come at equal distances, and besides, 256 of them one after the other from the middle of the
 * run on: the close-up. All of it is the simulation's, so equal runs make equal recordings; but for what
 * --record-calls adds, which is measured.
 */
#ifndef REPLAY_RECORD_H
#define REPLAY_RECORD_H

#include <stdio.h>

#include "../report/recorder.h"
#include "replay.h"

#define RECORD_MOMENTS		1200	/* of a run, where nobody says how many */
#define RECORD_CLOSE_UP		256

/* Which modes have a number. */
enum { IN_FRAG = 1, IN_CACHE = 2, IN_TIERS = 4, IN_TRANSFERS = 8, IN_TIME = 16, IN_MOVES = 32 };

/*
 * The numbers of one moment, and which modes have them; in blocks, if not said otherwise. What
 * happened is counted since the start of the run.
 */
#define RECORD_NUMBERS(N)									\
	N(held,		IN_FRAG | IN_CACHE)	/* in use */					\
	N(cached,	IN_CACHE)		/* not in use, but they may be hit */		\
	N(largest,	IN_FRAG | IN_CACHE)	/* the longest free run */			\
	N(free_runs,	IN_FRAG | IN_CACHE)	/* number of free runs */			\
	N(running,	IN_TIME)		/* number of requests */			\
	N(requests,	IN_FRAG | IN_CACHE)	/* admitted */					\
	N(runs,		IN_FRAG | IN_CACHE)	/* that these, or their new blocks, came in */	\
	N(descriptors,	IN_TRANSFERS)		/* that sending their prompts takes */		\
	N(fails,	IN_FRAG)		/* requests without a run, though enough was free */ \
	N(moved,	IN_MOVES)		/* by compaction */				\
	N(accesses,	IN_CACHE)		/* prompt blocks asked for; of them, found: */	\
	N(hits_device,	IN_CACHE)								\
	N(hits_host,	IN_TIERS)								\
	N(hits_disk,	IN_TIERS)								\
	N(evicted,	IN_CACHE)								\
	N(offloaded,	IN_TIERS)		/* to lower tiers */				\
	N(loaded,	IN_TIERS)		/* and from them */				\
	N(wait_p50,	IN_TIME)		/* us, of requests admitted since the moment before */ \
	N(wait_p99,	IN_TIME)

struct sample {
#define SAMPLE_FIELD(name, in)	u64 name;
	RECORD_NUMBERS(SAMPLE_FIELD)
};

enum record_latency {
	RECORD_WAIT,	/* us: from its arrival until a request is admitted */
	RECORD_STALL,	/* us: from then until what it loads is there */
	RECORD_CALL,	/* ns: measured: one call of the library for its blocks */
	RECORD_NR_LATENCIES,
};

/**
 * struct record - a recording that is being made
 * @out: it; a temporary file where it has no name
 * @begun: the mode has something to record
 * @columns: IN_*
 * @close_at: the request at which the close-up begins
 * @close_left: its moments
 * @recent: waits since the last moment
 */
struct record {
	struct recorder rec;
	const struct options *opt;
	const struct trace *trace;
	FILE *out;
	bool begun;
	unsigned int columns;
	u32 close_at;
	u32 close_left;
	struct latency latency[RECORD_NR_LATENCIES];
	struct latency recent;
};

/** record_open() - make the file, if the options want any. Return: 0; -errno. */
int record_open(struct record *record, const struct options *opt, const struct trace *trace);

/** record_begin() - a run begins; @span: about how long it will be. Return: 0; -ENOMEM. */
int record_begin(struct record *record, const char *x_unit, u64 span, unsigned int columns);

/** record_finish() - it is over, with @results. Return: 0; -errno: it could not be written. */
int record_finish(struct record *record, const struct results *results);

void record_close(struct record *record);

/**
 * record_due() - is it time for a moment? If so paint it and call record_add().
 * @x: now
 * @q: the request that the run has come to
 *
 * @record may be NULL: never.
 */
bool record_due(const struct record *record, u64 x, u32 q);

void record_add(struct record *record, u64 x, u32 q, struct sample *sample);

/* Something took so long; @record may be NULL. */
void record_latency(struct record *record, enum record_latency what, u64 value);

/* Nanoseconds before a call that is measured, or 0: it is not; and behind it. */
u64 record_call_begin(const struct record *record);
void record_call_end(struct record *record, u64 since);

/* How long a trace would take that is not held up: until its last arrival, in us. */
u64 record_span(const struct trace *trace);

#endif /* REPLAY_RECORD_H */
