/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bar on stderr while a run takes its time. A run that is one of many adds what it has done to
 * their sum, which its owner shows; others have a bar of their own.
 */
#ifndef REPLAY_PROGRESS_H
#define REPLAY_PROGRESS_H

#include "replay.h"

/* What one of many runs has done; *@sum is shared by threads. */
struct meter {
	u64 *sum;
	u64 done;
};

/** progress_start() - begin the bar of @run, of @total steps, if it is to have one */
void progress_start(const struct run *run, const char *what, u64 total);

/** progress_step() - @done steps are done; cheap enough for each request */
void progress_step(const struct run *run, u64 done);

/** progress_stop() - wipe the bar of @run */
void progress_stop(const struct run *run);

/* The same for whoever has many runs; main thread only. */
void bar_start(enum progress_wish wish, const char *what, u64 total);
void bar_step(u64 done);
void bar_stop(void);

#endif /* REPLAY_PROGRESS_H */
