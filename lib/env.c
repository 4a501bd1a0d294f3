// SPDX-License-Identifier: Apache-2.0
/*
 * The system behind the env seam, and which table is in force.
 *
 * The hard part is host memory: jemalloc cannot be dlopen()ed late (its static TLS does not fit),
 * so a hard dependency would keep the library out of every process that does not bring jemalloc
 * along. Its functions are weak here: found at load time, they give us an arena of our own;
 * absent, malloc serves.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <kv/atomic.h>
#include <kv/bits.h>
#include <kv/env.h>

#include "internal.h"

#define NS_PER_SEC	1000000000ull

/* The part of jemalloc's documented interface that is used, without its header. */
extern void *mallocx(size_t bytes, int flags) __attribute__((weak));
extern void dallocx(void *ptr, int flags) __attribute__((weak));
extern int mallctl(const char *name, void *old, size_t *old_len, void *new, size_t new_len)
	__attribute__((weak));

#define JE_ALIGN(align)		((int)kv_log2(align))
#define JE_ZERO			0x40
#define JE_NO_TCACHE		0x100
#define JE_ARENA(arena)		((int)((arena) + 1) << 20)

/* The alignment of malloc() anyway. */
#define MALLOC_ALIGN		_Alignof(max_align_t)

/* Zero until the arena exists; then its number + 1. Set once, any thread. */
static u32 arena_plus_1;

static bool have_jemalloc(void)
{
	return mallocx && dallocx && mallctl;
}

/*
 * Two threads may both get here first: the arena of the slower one stays empty. Without an arena
 * (a jemalloc that is out of memory, or too old) the caller's default one is used.
 */
static int arena_flag(void)
{
	u32 arena = READ_ONCE(arena_plus_1);
	unsigned int made;
	size_t len = sizeof(made);

	if (!arena && !mallctl("arenas.create", &made, &len, NULL, 0)) {
		arena = made + 1;
		WRITE_ONCE(arena_plus_1, arena);
	}
	return arena ? JE_ARENA(arena - 1) : 0;
}

#define HUGE_PAGE		((uintptr_t)2 << 20)

/*
 * Memory without room for two of them would waste more than it saves. Before it is touched; advice
 * only. Look-ups in a table that large would miss the TLB as often as the caches.
 */
static void prefer_huge_pages(void *ptr, size_t bytes)
{
	uintptr_t start = kv_align_up((uintptr_t)ptr, HUGE_PAGE);
	uintptr_t end = ((uintptr_t)ptr + bytes) & ~(HUGE_PAGE - 1);

	if (unlikely(ptr && bytes >= 2 * HUGE_PAGE))
		guarded(madvise((void *)start, end - start, MADV_HUGEPAGE));
}

static void *alloc_zeroed(size_t bytes, size_t align)
{
	void *ptr;

	if (align <= MALLOC_ALIGN)
		return calloc(1, bytes);
	ptr = aligned_alloc(align, kv_align_up(bytes, align));
	if (ptr)
		memset(ptr, 0, bytes);
	return ptr;
}

/*
 * A table that grows with a pool: pages of zeroes that the system gives when they are touched, so
 * that making a pool costs the same however many blocks it has.
 */
#define TABLE_BYTES		((size_t)1 << 20)
#define PAGE_ALIGN		((size_t)4096)

static void *map_zeroed(size_t bytes)
{
	struct guard before = guard_enter();
	void *ptr = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	guard_leave(before, 0);
	if (ptr == MAP_FAILED)
		return NULL;
	prefer_huge_pages(ptr, bytes);
	return ptr;
}

/*
 * Past the thread caches: those hold memory of whichever arena, so blocks of ours would end up
 * in the application's arena and the other way round. Metadata is allocated seldom (150 ns for
 * a pair of calls of 200 bytes; 55 with the caches).
 */
static void *system_alloc(void *ctx, size_t bytes, size_t align)
{
	if (!bytes || !kv_is_pow2(align) || bytes > PTRDIFF_MAX - align)
		return NULL;
	if (bytes >= TABLE_BYTES)
		return align <= PAGE_ALIGN ? map_zeroed(bytes) : NULL;
	if (!have_jemalloc())
		return alloc_zeroed(bytes, align);
	return mallocx(bytes, JE_ALIGN(align) | JE_ZERO | JE_NO_TCACHE | arena_flag());
}

static void system_free(void *ctx, void *ptr, size_t bytes)
{
	if (!ptr)
		return;
	if (bytes >= TABLE_BYTES)
		guarded(munmap(ptr, bytes));
	else if (have_jemalloc())
		dallocx(ptr, JE_NO_TCACHE);
	else
		free(ptr);
}

static u64 read_clock(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * NS_PER_SEC + now.tv_nsec;
}

static u64 system_clock_ns(void *ctx)
{
	return read_clock(CLOCK_MONOTONIC);
}

u64 kv_system_coarse_ns(void)
{
	return read_clock(CLOCK_MONOTONIC_COARSE);
}

/* May return early for any reason: the waiter looks again. */
static void system_wait(void *ctx, u32 *word, u32 old, u64 ns)
{
	struct timespec timeout = { .tv_sec = ns / NS_PER_SEC, .tv_nsec = ns % NS_PER_SEC };

	guarded(syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, old, &timeout, NULL, 0));
}

static void system_wake(void *ctx, u32 *word)
{
	guarded(syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0));
}

/* A kernel without entropy at hand still has a clock and a randomised address space. */
static u64 system_random(void *ctx)
{
	u64 bits;

	if (guarded(getrandom(&bits, sizeof(bits), GRND_NONBLOCK)) != sizeof(bits))
		bits = (system_clock_ns(ctx) ^ (uintptr_t)&bits) * 0x9e3779b97f4a7c15ull;
	return bits;
}

const struct kv_env_ops kv_env_system = {
	.alloc		= system_alloc,
	.free		= system_free,
	.clock_ns	= system_clock_ns,
	.wait		= system_wait,
	.wake		= system_wake,
	.log		= kv_system_log,
	.random		= system_random,
	.cpu		= kv_system_cpu,
};

DEFINE_SEAM(env)
