/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A replay that can be looked at while it goes on: --control, --publish and --slow. One process, one socket.
 */
#ifndef REPLAY_LIVE_H
#define REPLAY_LIVE_H

#include <argp.h>

#include "replay.h"

struct kvmm_pool;

/* Takes these options; the socket is there from the first pool on. */
extern const struct argp live_argp;

bool live_is_on(void);

/* A pool of the replay can be seen, as long as it is one of one: 0 or -errno. */
int live_add(const struct run *run, struct kvmm_pool *pool);
/* It goes; NULL, or one that was never seen, does nothing. */
void live_remove(const struct run *run, struct kvmm_pool *pool);

/* Between two requests. */
void live_step(void);

#endif /* REPLAY_LIVE_H */
