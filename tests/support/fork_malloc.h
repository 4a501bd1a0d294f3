/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For programs that fork while threads are inside the library, under a sanitizer too.
 *
 * At a fork libc and jemalloc take the locks of their allocators; those that the sanitizers of clang 14
 * put in their place do not. A child of a moment at which another thread was inside malloc() then waits
 * in its own first malloc() for ever, whatever the library does. Here no thread of the library is in
 * malloc() or free() while the process forks.
 */
#ifndef TESTS_SUPPORT_FORK_MALLOC_H
#define TESTS_SUPPORT_FORK_MALLOC_H

#include <pthread.h>

#include <kv/env.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define FORKS_FORGET_MALLOC 1
#endif
#endif

#ifdef FORKS_FORGET_MALLOC
static pthread_mutex_t malloc_lock = PTHREAD_MUTEX_INITIALIZER;

static void malloc_take(void)
{
	pthread_mutex_lock(&malloc_lock);
}

static void malloc_leave(void)
{
	pthread_mutex_unlock(&malloc_lock);
}

static void *alloc_beside_forks(void *ctx, size_t bytes, size_t align)
{
	void *ptr;

	malloc_take();
	ptr = kv_env_system.alloc(ctx, bytes, align);
	malloc_leave();
	return ptr;
}

static void free_beside_forks(void *ctx, void *ptr, size_t bytes)
{
	malloc_take();
	kv_env_system.free(ctx, ptr, bytes);
	malloc_leave();
}
#endif

/* Before the first pool: handlers of the library then run, and allocate, outside these. */
static inline int malloc_keep_off_forks(void)
{
#ifdef FORKS_FORGET_MALLOC
	static struct kv_env_ops ops;

	ops = kv_env_system;
	ops.alloc = alloc_beside_forks;
	ops.free = free_beside_forks;
	kv_env_set(&ops);
	return pthread_atfork(malloc_take, malloc_leave, malloc_leave);
#else
	return 0;
#endif
}

#endif /* TESTS_SUPPORT_FORK_MALLOC_H */
