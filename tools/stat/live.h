/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine says of itself through its control socket. All return an exit code, and have said why. */
#ifndef STAT_LIVE_H
#define STAT_LIVE_H

#include "../client/options.h"

/* A line for each pool, each interval; without one, once. */
int live_watch(const struct client_options *opt);

/* One command, whose answer is a table. */
int live_show(const struct client_options *opt, const char *command);

/* One whose answer is printed as it is. */
int live_print(const struct client_options *opt, const char *command);

/* Texts in layouts of the kernel, as files below @dir; each interval, or once. */
int live_proc(const struct client_options *opt, const char *dir);

/* Metrics by HTTP; @address as "[ADDR:]PORT". Comes back only if it cannot begin. */
int live_listen(const struct client_options *opt, const char *address);

/* Whatever signals come. */
void sleep_for(double seconds);

#endif /* STAT_LIVE_H */
