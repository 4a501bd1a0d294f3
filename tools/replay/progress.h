/* SPDX-License-Identifier: Apache-2.0 */
/* A bar on stderr while a run takes its time. */
#ifndef REPLAY_PROGRESS_H
#define REPLAY_PROGRESS_H

#include "replay.h"

/** progress_start() - begin a bar of @total steps, if @wish and the terminal say so */
void progress_start(enum progress_wish wish, const char *what, u64 total);

/** progress_step() - @done steps are done; cheap enough for each request */
void progress_step(u64 done);

/** progress_stop() - wipe the bar */
void progress_stop(void);

#endif /* REPLAY_PROGRESS_H */
