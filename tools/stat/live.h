/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine says of itself through its control socket. */
#ifndef STAT_LIVE_H
#define STAT_LIVE_H

#include <stdbool.h>

/**
 * struct live - what is asked for
 * @socket: path, or NULL
 * @pool: name, or NULL: all
 * @interval: seconds between two lines; 0: one line
 * @count: lines; 0: no end
 * @json: an object a line
 */
struct live {
	const char *socket;
	const char *pool;
	double interval;
	unsigned long count;
	bool json;
};

/* Both return an exit code, and have said why. */
int live_watch(const struct live *live);

/* One command, whose answer is a table. */
int live_show(const struct live *live, const char *command);

/* One whose answer is printed as it is. */
int live_print(const struct live *live, const char *command);

#endif /* STAT_LIVE_H */
