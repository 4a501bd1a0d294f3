// SPDX-License-Identifier: Apache-2.0
/* A ring of seconds. */
#include <string.h>

#include "history.h"

#define NS_PER_SEC	1000000000ull

/* Seconds that have come since are not known. */
static void advance(struct history *history, uint64_t second)
{
	uint64_t next = history->second + 1;

	if (second >= HISTORY_SECONDS && next < second - HISTORY_SECONDS + 1)
		next = second - HISTORY_SECONDS + 1;
	for (; next <= second; next++)
		for (unsigned int row = 0; row < NR_HISTORY_ROWS; row++)
			history->known[row][next % HISTORY_SECONDS] = false;
	if (second > history->second)
		history->second = second;
}

void history_add(struct history *history, enum history_row row, uint64_t from_ns, uint64_t to_ns,
		 double value)
{
	uint64_t second = from_ns / NS_PER_SEC, last = to_ns / NS_PER_SEC;

	advance(history, last);
	if (last >= HISTORY_SECONDS && second < last - HISTORY_SECONDS + 1)
		second = last - HISTORY_SECONDS + 1;
	for (; second <= last; second++) {
		unsigned int at = second % HISTORY_SECONDS;

		if (!history->known[row][at] || value > history->value[row][at])
			history->value[row][at] = value;
		history->known[row][at] = true;
	}
}

double history_most(const struct history *history, enum history_row row, unsigned int from, unsigned int to,
		    unsigned int of)
{
	unsigned int start = from * HISTORY_SECONDS / of, end = to * HISTORY_SECONDS / of;
	double most = -1;

	for (unsigned int i = start; i < end || i == start; i++) {
		unsigned int at = (history->second + 1 + i) % HISTORY_SECONDS;

		if (history->known[row][at] && history->value[row][at] > most)
			most = history->value[row][at];
	}
	return most;
}
