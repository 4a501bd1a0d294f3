// SPDX-License-Identifier: Apache-2.0
/* A host that tests turn by hand: see fake_env.h. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kv/atomic.h>

#include "fake_env.h"

#define LIVE	0x616c697665626c6bull
#define DEAD	0x6465616420626c6bull

/* Stands right before each object. */
struct tag {
	u64 state;
	u64 bytes;
	void *base;
	u64 spare;
};

static struct tag *tag_of(void *ptr)
{
	return (struct tag *)ptr - 1;
}

static bool must_fail(const struct fake_env *fake, u64 nth)
{
	return fake->fail_at && (fake->fail_on ? nth >= fake->fail_at : nth == fake->fail_at);
}

static void *fake_alloc(void *ctx, size_t bytes, size_t align)
{
	struct fake_env *fake = ctx;
	size_t room = max(align, sizeof(struct tag));
	size_t total;
	char *base;

	if (must_fail(fake, kv_fetch_add(&fake->nr_allocs, 1) + 1)) {
		kv_fetch_add(&fake->nr_failed, 1);
		return NULL;
	}
	if (__builtin_add_overflow(bytes, 2 * room, &total) || total > PTRDIFF_MAX)
		return NULL;
	base = aligned_alloc(room, (total + room - 1) & ~(room - 1));
	if (!base)
		return NULL;
	memset(base, 0, room + bytes);
	*tag_of(base + room) = (struct tag){ .state = LIVE, .bytes = bytes, .base = base };
	kv_fetch_add(&fake->nr_live, 1);
	kv_fetch_add(&fake->live_bytes, bytes);
	return base + room;
}

static void fake_free(void *ctx, void *ptr, size_t bytes)
{
	struct fake_env *fake = ctx;
	struct tag *tag = tag_of(ptr);

	if (tag->state != LIVE || tag->bytes != bytes) {
		kv_fetch_add(&fake->nr_bad_frees, 1);
		return;
	}
	tag->state = DEAD;
	memset(ptr, FAKE_ENV_POISON, bytes);
	kv_fetch_sub(&fake->nr_live, 1);
	kv_fetch_sub(&fake->live_bytes, bytes);
	free(tag->base);
}

static u64 fake_clock_ns(void *ctx)
{
	struct fake_env *fake = ctx;

	return READ_ONCE(fake->now_ns);
}

static void fake_wait(void *ctx, u32 *word, u32 old, u64 ns)
{
	struct fake_env *fake = ctx;

	kv_fetch_add(&fake->nr_waits, 1);
	if (READ_ONCE(*word) != old)
		return;
	fake_env_advance(fake, ns);
	sched_yield();
}

static void fake_wake(void *ctx, u32 *word)
{
	struct fake_env *fake = ctx;

	kv_fetch_add(&fake->nr_wakes, 1);
}

static void fake_log(void *ctx, int level, const char *line)
{
	struct fake_env *fake = ctx;

	kv_fetch_add(&fake->nr_lines, 1);
	fake->level = level;
	snprintf(fake->line, sizeof(fake->line), "%s", line);
}

/* Weyl sequence and a mixer: each number once, in an order that only the seed decides. */
static u64 fake_random(void *ctx)
{
	struct fake_env *fake = ctx;
	u64 x = kv_fetch_add(&fake->seed, 0x9e3779b97f4a7c15ull);

	x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
	x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
	return x ^ (x >> 32);
}

void fake_env_install(struct fake_env *fake)
{
	const char *start = getenv("KVMM_CLOCK_START");

	*fake = (struct fake_env){
		.ops = {
			.alloc		= fake_alloc,
			.free		= fake_free,
			.clock_ns	= fake_clock_ns,
			.wait		= fake_wait,
			.wake		= fake_wake,
			.log		= fake_log,
			.random		= fake_random,
			.ctx		= fake,
		},
		.now_ns = start ? strtoull(start, NULL, 10) : 0,
		.seed = 1,
	};
	kv_env_set(&fake->ops);
}

void fake_env_remove(struct fake_env *fake)
{
	kv_env_set(NULL);
}

void fake_env_fail(struct fake_env *fake, u64 nth, bool on)
{
	fake->nr_failed = 0;
	fake->fail_at = nth ? fake->nr_allocs + nth : 0;
	fake->fail_on = on;
}

bool fake_env_failed(const struct fake_env *fake)
{
	return READ_ONCE(fake->nr_failed) > 0;
}

void fake_env_advance(struct fake_env *fake, u64 ns)
{
	kv_fetch_add(&fake->now_ns, ns);
}
