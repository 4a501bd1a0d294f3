/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam to the operating system: host memory, time, sleeping, logging.
 *
 * No folder above lib/ calls libc for any of these. Tests and the simulator put their own table
 * in place: a clock that they turn, an allocation that fails the n-th time.
 */
#ifndef KV_ENV_H
#define KV_ENV_H

#include <kv/types.h>

/**
 * struct kv_env_ops - calls that the library needs of its host
 * @alloc: @bytes of host memory aligned to @align (a power of two), zeroed, or NULL; a MiB or
 *	more may be aligned to a page at most
 * @free: give back memory of alloc; @bytes as asked for
 * @clock_ns: monotonic time in nanoseconds
 * @wait: sleep until *@word differs from @old, until woken, or for @ns nanoseconds
 * @wake: wake all threads that wait on @word
 * @log: one line of text for the operator; may be called from any thread; NULL = silent
 * @random: 64 unpredictable bits
 * @cpu: number of the processor that the caller runs on, or ran on a moment ago; NULL: it is 0
 */
struct kv_env_ops {
	void *(*alloc)(void *ctx, size_t bytes, size_t align);
	void (*free)(void *ctx, void *ptr, size_t bytes);
	u64 (*clock_ns)(void *ctx);
	void (*wait)(void *ctx, u32 *word, u32 old, u64 ns);
	void (*wake)(void *ctx, u32 *word);
	void (*log)(void *ctx, int level, const char *line);
	u64 (*random)(void *ctx);
	void *ctx;
	u32 (*cpu)(void *ctx);
};

/* The system's own table: jemalloc where the process has it, malloc else, futex, vDSO clock. */
extern const struct kv_env_ops kv_env_system;

/* The table in force; never NULL. Set it before the first pool is made, or between tests. */
const struct kv_env_ops *kv_env(void);
void kv_env_set(const struct kv_env_ops *ops);	/* NULL: back to kv_env_system */

static inline u64 kv_clock_ns(void)
{
	return kv_env()->clock_ns(kv_env()->ctx);
}

/* The system's clock as it was at the last interrupt of its timer: a quarter of the price. */
u64 kv_system_coarse_ns(void);

/* When something was used last: some milliseconds do not matter. Other clocks are told exactly. */
static inline u64 kv_coarse_ns(void)
{
	return likely(kv_env() == &kv_env_system) ? kv_system_coarse_ns() : kv_clock_ns();
}

/* A deadline: @ns from @now_ns on; UINT64_MAX: never. */
static inline u64 kv_ns_after(u64 now_ns, u64 ns)
{
	return ns < UINT64_MAX - now_ns ? now_ns + ns : UINT64_MAX;
}

/* How long ago that was; 0 where the host's clock has gone back. */
static inline u64 kv_ns_since(u64 since_ns)
{
	u64 now_ns = kv_clock_ns();

	return now_ns > since_ns ? now_ns - since_ns : 0;
}

static inline u64 kv_random(void)
{
	return kv_env()->random(kv_env()->ctx);
}

/* A hint that tells threads apart which run at the same time. */
static inline u32 kv_cpu(void)
{
	const struct kv_env_ops *env = kv_env();

	return likely(env->cpu != NULL) ? env->cpu(env->ctx) : 0;
}

#endif /* KV_ENV_H */
