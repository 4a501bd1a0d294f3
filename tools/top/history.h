/* SPDX-License-Identifier: Apache-2.0 */
/* What a pool did in the last two minutes, second by second. */
#ifndef TOOLS_TOP_HISTORY_H
#define TOOLS_TOP_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#define HISTORY_SECONDS	120u

enum history_row { HISTORY_USED, HISTORY_HITS, HISTORY_MOVES, HISTORY_FAILURES, NR_HISTORY_ROWS };

/* All zero: nothing is known. */
struct history {
	double value[NR_HISTORY_ROWS][HISTORY_SECONDS];	/* by second % HISTORY_SECONDS */
	bool known[NR_HISTORY_ROWS][HISTORY_SECONDS];
	uint64_t second;		/* the last one, of the monotonic clock; 0: none */
};

/* It was @value from then to then: of a second the largest is kept. Times do not go back. */
void history_add(struct history *history, enum history_row row, uint64_t from_ns, uint64_t to_ns,
		 double value);
/* The largest from @from to @to of @of equal parts of the two minutes; -1: nothing is known of then. */
double history_most(const struct history *history, enum history_row row, unsigned int from, unsigned int to,
		    unsigned int of);

#endif /* TOOLS_TOP_HISTORY_H */
