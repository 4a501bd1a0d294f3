/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is seen of a replay while it goes on. --control, --publish and --slow. One process, one
 * socket.
 */
#ifndef REPLAY_LIVE_H
#define REPLAY_LIVE_H

#include <argp.h>

#include "replay.h"

struct kvmm_pool;

/* Takes these options; the socket is there from the first pool on. */
const struct argp *live_argp(void);

bool live_is_on(void);

/* A pool of the replay can be seen, as long as it is one of one: 0 or -errno. */
int live_add(const struct run *run, struct kvmm_pool *pool);
/* It goes; NULL, or one that was never seen, does nothing. */
void live_remove(const struct run *run, struct kvmm_pool *pool);

/*
 * ---- a bar on stderr while a run takes its time ----
 *
 * A run that is one of many adds what it has done to their sum, which its owner shows; others have
 * a bar of their own.
 */

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

/* The same for the owner of many runs; main thread only. */
void bar_start(enum progress_wish wish, const char *what, u64 total);
void bar_step(u64 done);
void bar_stop(void);

#endif /* REPLAY_LIVE_H */
