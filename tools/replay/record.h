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

/**
 * struct sample - the numbers of one moment
 *
 * In blocks, if not said otherwise; what happened is counted since the start of the run.
 *
 * @held: in use
 * @cached: nobody uses them, but they may be hit
 * @largest: the longest free run
 * @free_runs: number of free runs
 * @running: number of requests
 * @requests: admitted
 * @runs: that these were given; cache: that their new blocks came in
 * @descriptors: that sending their prompts takes
 * @fails: requests that found no run though enough was free
 * @moved: by compaction
 * @accesses: prompt blocks asked for
 * @hits_device, @hits_host, @hits_disk: of them, found there
 * @offloaded, @loaded: to and from lower tiers
 * @wait_p50, @wait_p99: us, of the requests admitted since the moment before
 */
struct sample {
	u64 held;
	u64 cached;
	u64 largest;
	u64 free_runs;
	u64 running;
	u64 requests;
	u64 runs;
	u64 descriptors;
	u64 fails;
	u64 moved;
	u64 accesses;
	u64 hits_device;
	u64 hits_host;
	u64 hits_disk;
	u64 evicted;
	u64 offloaded;
	u64 loaded;
	u64 wait_p50;
	u64 wait_p99;
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
