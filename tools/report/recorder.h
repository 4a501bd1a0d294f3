/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a recording: what a pool looked like over time, as lines of JSON. Documentation/report.rst
 * has the format.
 *
 * Nothing is kept but the last picture, so a run may be as long as it likes. The file is bounded all
 * the same: a picture has at most RECORDER_CELLS cells, whatever the pool, and when half of the room is
 * used up, and then after each eighth of what is left, moments are taken half as often from there on.
 * Equal calls write equal bytes.
 */
#ifndef REPORT_RECORDER_H
#define REPORT_RECORDER_H

#include <stdio.h>

#include "../replay/common.h"
#include "latency.h"

#define RECORDER_VERSION	1
#define RECORDER_CELLS		8192
#define RECORDER_COLUMNS	64
#define RECORDER_SAMPLES	7200
#define RECORDER_BYTES		(16u << 20)
#define RECORDER_MAX_OWNER	((1u << 28) - 2)

/* What a block is. */
enum cell_state {
	CELL_FREE	= '.',
	CELL_ACTIVE	= 'a',	/* somebody uses it */
	CELL_CACHED	= 'c',	/* nobody does, but it may be hit */
	CELL_PINNED	= 'p',	/* in use, and it must stay where it is */
	CELL_STAGED	= 's',	/* named, but not yet to be found */
	CELL_MOVING	= 'm',	/* on its way, or an old place that somebody may still read */
	CELL_AWAY	= 'x',	/* has no memory now */
};

/* A part of the picture; @owner is U32_NONE where there is none. */
struct cell {
	u32 owner;
	u32 state;
};

/**
 * struct recorder_attr - what is recorded; strings are borrowed until recorder_begin() returns
 * @out: borrowed until recorder_end()
 * @source: the program, and what it did
 * @trace, @purpose: more words about that; may be NULL
 * @x_unit: "us" or "requests"
 * @owner: what an owner's number counts, as in "request"
 * @columns: names of the numbers of a moment
 * @every: between two moments, in that unit; at least 1
 * @nr_blocks: 0: there are no pictures
 * @max_bytes, @max_samples: 0: the usual
 */
struct recorder_attr {
	FILE *out;
	const char *source;
	const char *trace;
	const char *purpose;
	const char *x_unit;
	const char *owner;
	const char *const *columns;
	u32 nr_columns;
	u32 nr_blocks;
	u64 every;
	u64 max_bytes;
	u32 max_samples;
};

/**
 * struct recorder - a recording that is being written
 * @row: picture of the moment that is being made
 * @last: that of the moment before
 * @next_x: when the next moment is due
 * @bytes: written so far
 * @mark_bytes, @mark_samples: from there on half as often
 * @full: nothing more fits
 * @err: the first error of @out
 */
struct recorder {
	FILE *out;
	struct cell *row;
	struct cell *last;
	u32 nr_blocks;
	u32 nr_cells;
	u32 nr_columns;
	u32 nr_samples;
	u64 every;
	u64 next_x;
	u64 bytes;
	u64 max_bytes;
	u64 mark_bytes;
	u32 max_samples;
	u32 mark_samples;
	bool full;
	int err;
};

/** recorder_begin() - Return: 0; -ENOMEM, -EINVAL; nothing is to be freed then. */
int recorder_begin(struct recorder *rec, const struct recorder_attr *attr);

/** recorder_end() - the last line. Frees all. Return: 0; -errno: @out has taken not all. */
int recorder_end(struct recorder *rec);

/* Is a moment due? */
static inline bool recorder_due(const struct recorder *rec, u64 x)
{
	return x >= rec->next_x && !rec->full;
}

/* The picture of the moment, all free. */
void recorder_clear(struct recorder *rec);

/* The block in the middle of a cell: it speaks for its neighbours. */
static inline u32 recorder_block(const struct recorder *rec, u32 cell)
{
	return (u32)(((u64)cell * 2 + 1) * rec->nr_blocks / (2 * (u64)rec->nr_cells));
}

/* The cells whose middle lies in [@start, @start + @nr). */
void recorder_paint(struct recorder *rec, u32 start, u32 nr, struct cell cell);

/** recorder_add() - the moment, with its picture as it was painted; @x never decreases */
void recorder_add(struct recorder *rec, u64 x, const u64 *values);

/* An owner has a name. */
void recorder_owner(struct recorder *rec, u32 owner, const char *name);

/* How long something took: @how is "simulated" or "measured", @unit "us" or "ns". */
void recorder_latency(struct recorder *rec, const char *name, const char *how, const char *unit,
		      const struct latency *latency);

/* A line of one's own: @json is one object without line ends. */
void recorder_line(struct recorder *rec, const char *json);

#endif /* REPORT_RECORDER_H */
