/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of arenas say which processor they are on. */
#ifndef TESTS_POOL_ARENA_H
#define TESTS_POOL_ARENA_H

#include <kv/env.h>

#include "percpu/arena.h"
#include "tests/pool/util.h"

static u32 cpu;
static struct kv_env_ops env;

static inline u32 test_cpu(void *ctx)
{
	return cpu;
}

static inline void set_up(void)
{
	env = kv_env_system;
	env.cpu = test_cpu;
	kv_env_set(&env);
	cpu = 0;
}

static inline void tear_down(void)
{
	kv_env_set(NULL);
}

static inline kvmm_range_t take_on(u32 number, struct kvmm_pool *pool, u32 nr)
{
	cpu = number;
	return take(pool, nr, KVMM_RUNS(1));
}

static inline u32 arena_with(const struct kvmm_pool *pool, kvmm_range_t range)
{
	return slot_at(pool, range.index)->arena;
}

#endif /* TESTS_POOL_ARENA_H */
