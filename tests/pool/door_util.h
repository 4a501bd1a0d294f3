/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Others, in tests of waiting: what they do at which time.
 *
 * There is one thread. When it would sleep the clock goes on to the next thing that somebody does,
 * which is done then, or to the end of its sleep.
 */
#ifndef POOL_DOOR_UTIL_H
#define POOL_DOOR_UTIL_H

#include <kv/types.h>
#include <kvmm/kvmm.h>

#include "tests/support/fake_env.h"

struct deed {
	u64 at_ns;
	void (*fn)(struct kvmm_pool *pool, void *arg);
	void *arg;
};

extern struct fake_env fake;

void door_set_up(void);
void door_tear_down(void);

/* @nr deeds on @pool, by time, from now on; all must be done when the test ends. */
void others_do(struct kvmm_pool *pool, const struct deed *deeds, u32 nr);

/* 8 blocks of a cache "lru" unless told otherwise, and what @attr says. */
struct kvmm_pool *make_door(u32 nr_blocks, const struct kvmm_alloc_attr *attr);

/* What kvmm_alloc_as() returns. */
int ask_for(struct kvmm_pool *pool, u32 nr, u32 flags, u64 deadline_ns, kvmm_mut_t *blocks);

struct kvmm_alloc_stat door_stat(struct kvmm_pool *pool);

#endif /* POOL_DOOR_UTIL_H */
