/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is seen of a replay while it goes on. --control, --publish and --slow. One process, one
 * socket.
 */
#ifndef REPLAY_LIVE_H
#define REPLAY_LIVE_H

#include "replay.h"

struct kvmm_pool;

/* Rows of the command line; the socket is there from the first pool on. */
#define LIVE_ROWS \
	ROW_HEAD(90, "While it goes on:"), \
	ROW_TAKE("control", 0, "DIR", live_take_control, "Serve a control socket, DIR/replay.sock: " \
		"kvmm-stat and others look at the replay there"), \
	ROW_TAKE("publish", 0, "PUB[,ROUTER]", live_take_publish, "Publish events of the cache at an " \
		"endpoint of ZeroMQ, as tcp://127.0.0.1:5557, with replay and snapshots at a second one; " \
		"not in mode frag"), \
	ROW_TAKE("slow", 0, "US", live_take_slow, "Rest for US microseconds behind each request [0]")

void live_take_control(struct argp_state *state, void *base, const char *arg);
void live_take_publish(struct argp_state *state, void *base, const char *arg);
void live_take_slow(struct argp_state *state, void *base, const char *arg);

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

/* What one of many runs has done; *@sum is shared by threads, of which the main one @shows it. */
struct meter {
	u64 *sum;
	u64 done;
	bool shows;
};

/** progress_start() - begin the bar of @run, of @total steps, if it is to have one */
void progress_start(const struct run *run, const char *what, u64 total);

/** progress_step() - @done steps are done; cheap enough for each request */
void progress_step(const struct run *run, u64 done);

/** progress_stop() - wipe the bar of @run */
void progress_stop(const struct run *run);

/* The same for the owner of many runs; main thread only. */
void bar_start(const struct options *opt, const char *what, u64 total);
void bar_stop(void);

#endif /* REPLAY_LIVE_H */
