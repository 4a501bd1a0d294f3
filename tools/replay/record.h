/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the report shows over time: numbers, and a picture of the memory, at a few hundred moments
 * of the whole run, and at as many moments one after the other from its middle on.
 *
 * How long a run will be is not known before its end. So every moment is kept until there is no
 * more room, then every other one is dropped and from there on only half as many are taken.
 */
#ifndef REPLAY_RECORD_H
#define REPLAY_RECORD_H

#include <stdio.h>

#include "common.h"

#define RECORD_ROWS		400
#define RECORD_MAX_CELLS	640

/* Characters of a cell: these, or record_owner() or record_age(). */
#define CELL_FREE	'.'
#define CELL_ACTIVE	'*'
#define CELL_PINNED	'!'

/* One moment. Counts are in blocks, and since the start of the run where they say "nr". */
struct sample {
	u64 x;		/* microseconds, or requests */
	u64 held;
	u64 cached;	/* nobody uses them, but they may be hit */
	u64 largest;	/* longest free run */
	u64 runs;	/* free runs */
	u64 nr_fails;
	u64 nr_moved;
	u64 nr_hits;
	u64 nr_accesses;
	u64 nr_evicted;
};

/* Some moments with their pictures. */
struct film {
	struct sample *sample;
	char *cells;		/* RECORD_ROWS rows of record.nr_cells */
	u64 next_x;
	u64 step;
	u32 nr;
	bool due;		/* takes the moment that is being made */
};

struct record {
	struct film whole;
	struct film closeup;
	char *row;		/* cells of the moment that is being made */
	const char *x_unit;	/* "us" or "requests" */
	u32 nr_requests;
	u32 nr_blocks;
	u32 nr_cells;
	bool by_age;		/* cells are ages, not owners */
};

/** record_begin() - a run begins. Return: 0; -ENOMEM. @record may be NULL. */
int record_begin(struct record *record, u32 nr_blocks, u32 nr_requests, const char *x_unit,
		 bool by_age);

void record_exit(struct record *record);

/**
 * record_due() - is it time for a moment? If so paint record_row() and call record_add().
 * @x: now
 * @q: the request that the run has come to
 *
 * @record may be NULL: never.
 */
bool record_due(struct record *record, u64 x, u32 q);

/** record_row() - cells for the moment, all CELL_FREE */
char *record_row(struct record *record);

void record_add(struct record *record, const struct sample *sample);

/* The block in the middle of a cell: it speaks for its neighbours. */
static inline u32 record_block(const struct record *record, u32 cell)
{
	return (u32)(((u64)cell * 2 + 1) * record->nr_blocks / (2 * (u64)record->nr_cells));
}

/* Paint the cells whose middle lies in [@start, @start + @nr). */
void record_paint(struct record *record, u32 start, u32 nr, char colour);

char record_owner(u32 q);
char record_age(u64 age);

/* As JSON members of an object, without the braces. */
void record_print(const struct record *record, FILE *out);

#endif /* REPLAY_RECORD_H */
