/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads recordings, and the lines of kvmm-replay compare --json, a line at a time. What it lets through
 * is what Documentation/report.rst says, so that a page need not doubt it.
 */
#ifndef REPORT_RECORDING_H
#define REPORT_RECORDING_H

#include <stdio.h>

#include "recorder.h"

#define RECORDING_MAX_LINE	(1u << 20)
#define RECORDING_MAX_CELLS	65536u

enum recording_kind { RECORDING_UNKNOWN, RECORDING_STATES, RECORDING_COMPARISON };

/**
 * struct recording - what has been read so far
 * @line: number of the last line
 * @why: what is wrong with it
 * @nr_blocks, @nr_cells, @nr_columns: of the head
 * @nr_samples: moments
 * @nr_rows: of a comparison
 * @last_x: of the last moment
 * @ended: the last line has been there
 */
struct recording {
	enum recording_kind kind;
	u64 line;
	char why[160];
	u32 nr_blocks;
	u32 nr_cells;
	u32 nr_columns;
	u32 nr_samples;
	u32 nr_rows;
	u64 last_x;
	bool ended;
};

/** recording_line() - the next line, without its end. Return: 0; -EINVAL: see @rec->why. */
int recording_line(struct recording *rec, const char *text, size_t bytes);

/**
 * recording_finish() - there are no more lines
 *
 * A recording without its last line is one whose writer was stopped: it is good as far as it goes.
 *
 * Return: 0; -EINVAL: there was nothing.
 */
int recording_finish(struct recording *rec);

/* What to do with each good line. Return: 0, or what recording_read() is to return. */
typedef int (*recording_fn)(void *arg, const struct recording *rec, const char *text, size_t bytes);

/** recording_read() - a whole stream. Return: 0; -EINVAL: see @rec; -errno: it cannot be read. */
int recording_read(struct recording *rec, FILE *in, recording_fn fn, void *arg);

#endif /* REPORT_RECORDING_H */
