/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a recording of an engine has besides the pool's own numbers: the tiers below it, the time that
 * requests lost, and how long things took, as the engine's histograms have it.
 *
 * An engine that knows nothing of one of these questions is recorded without it.
 */
#ifndef DUMP_DEPTH_H
#define DUMP_DEPTH_H

#include <stdio.h>

#include "../client/client.h"
#include "../report/recorder.h"

/* Room for a histogram of the engine's. */
#define TIME_BUCKETS	64u

enum time_kind {
	TIME_QUEUE, TIME_ROOM, TIME_OFFLOAD, TIME_LOAD, TIME_DISK,
	TIME_LIFETIME, TIME_IDLE, TIME_REUSE, TIME_HIT_AGE, NR_TIMES,
};

/**
 * struct times - a histogram: since the pool was made
 * @limit_ns: the largest value that falls into a bucket, rising; TIME_OPEN: any
 */
struct times {
	u64 limit_ns[TIME_BUCKETS];
	u64 count[TIME_BUCKETS];
	u32 nr;
};

/* As large as a number of JSON may be. */
#define TIME_OPEN	((1ull << 53) - 1)

enum depth_column {
	DEPTH_HITS_HOST, DEPTH_HITS_DISK, DEPTH_OFFLOADED, DEPTH_LOADED, DEPTH_OFFLOADED_BYTES,
	DEPTH_LOADED_BYTES, DEPTH_HOST_BLOCKS, DEPTH_DISK_BLOCKS, DEPTH_STALLED_US,
	DEPTH_QUEUE_P99, DEPTH_ROOM_P99, DEPTH_OFFLOAD_P99, DEPTH_LOAD_P99, DEPTH_DISK_P99,
	NR_DEPTH_COLUMNS,
};

extern const char *const depth_columns[NR_DEPTH_COLUMNS];

/**
 * struct depth - of one recording
 * @value: of the last moment that was asked about, by enum depth_column
 * @first, @before, @now: histograms when it began, at the moment before, and at this one
 * @begun: @first is there
 */
struct depth {
	u64 value[NR_DEPTH_COLUMNS];
	struct times first[NR_TIMES];
	struct times before[NR_TIMES];
	struct times now[NR_TIMES];
	bool begun;
};

/* Ask the engine. 0, or -1 and client->why: the connection is gone. */
int depth_ask(struct depth *depth, struct client *client, const char *pool);

/* Histograms of what has been since the first question. */
void depth_finish(const struct depth *depth, struct recorder *rec);

#endif /* DUMP_DEPTH_H */
