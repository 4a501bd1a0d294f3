/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the report shows over time: numbers, and a picture of the memory, at a few hundred moments.
 *
 * How long a run will be is not known before its end. So every moment is kept until there is no
 * more room, then every other one is dropped and from there on only half as many are taken.
 */
#ifndef REPLAY_RECORD_H
#define REPLAY_RECORD_H

#include <stdio.h>

#include "common.h"

#define RECORD_ROWS	400
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

struct record {
	struct sample *sample;
	char *cells;		/* RECORD_ROWS rows of @nr_cells */
	const char *x_unit;	/* "us" or "requests" */
	u64 next_x;
	u64 step;
	u32 nr_blocks;
	u32 nr_cells;
	u32 nr;
	bool by_age;		/* cells are ages, not owners */
};

/** record_init() - Return: 0; -ENOMEM. */
int record_init(struct record *record);

/** record_begin() - the run knows its pool now. Return: 0; -ENOMEM. @record may be NULL. */
int record_begin(struct record *record, u32 nr_blocks, const char *x_unit, bool by_age);

void record_exit(struct record *record);

/** record_due() - is it time for the next moment? @record may be NULL: never. */
static inline bool record_due(const struct record *record, u64 x)
{
	return record && x >= record->next_x;
}

/** record_add() - keep the moment. Return: its cells, all CELL_FREE, to be painted. */
char *record_add(struct record *record, const struct sample *sample);

/* The block in the middle of a cell: it speaks for its neighbours. */
static inline u32 record_block(const struct record *record, u32 cell)
{
	return (u32)(((u64)cell * 2 + 1) * record->nr_blocks / (2 * (u64)record->nr_cells));
}

/* Paint the cells whose middle lies in [@start, @start + @nr). */
void record_paint(const struct record *record, char *cells, u32 start, u32 nr, char colour);

char record_owner(u32 q);
char record_age(u64 age);

/* As JSON members of an object, without the braces. */
void record_print(const struct record *record, FILE *out);

#endif /* REPLAY_RECORD_H */
