// SPDX-License-Identifier: Apache-2.0
/* The library's clock stands still but for what is let pass, and what is random is the same in each run. */
#include <time.h>

#include <kv/atomic.h>
#include <kv/env.h>

#include "metrics_run.h"

static struct kv_env_ops env;
static u64 now_ns = 1000000000ull, nr_random;

static u64 told_clock(void *ctx)
{
	return READ_ONCE(now_ns);
}

static u64 told_random(void *ctx)
{
	u64 x = kv_fetch_add(&nr_random, 1) * 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 32) * 0xd6e8feb86659fd93ull;
	return x ^ x >> 32;
}

/* A moment, which the clock does not know of. */
static void wait_a_moment(void *ctx, u32 *word, u32 old, u64 ns)
{
	const struct timespec moment = { .tv_nsec = 50000 };

	nanosleep(&moment, NULL);
}

u64 now(void)
{
	return now_ns;
}

void pass(u64 ns)
{
	now_ns += ns;
}

void random_from(u64 nr)
{
	nr_random = nr;
}

void env_install(void)
{
	env = *kv_env();
	env.clock_ns = told_clock;
	env.random = told_random;
	env.wait = wait_a_moment;
	kv_env_set(&env);
}
