// SPDX-License-Identifier: Apache-2.0
/*
 * A preloaded library that makes a process see a machine whose monotonic clocks started at
 * KVMM_CLOCK_START nanoseconds when the process first read one. "make clocks" runs the unit tests so.
 *
 * Absolute time-outs on those clocks are translated back, since the kernel still counts from the real
 * start. Relative ones, and those on the wall clock, need nothing. The real clock is read by its system
 * call: an allocator reads it before dlsym() may be called.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_SEC	1000000000ull
#define EXPORT		__attribute__((visibility("default")))

/* glibc keeps a condition's clock in this bit of the word that counts its waiters. */
#define COND_IS_MONOTONIC	2u

/* Fixed by start_once. */
static uint64_t start_ns;
static uint64_t real_start_ns;
static pthread_once_t start_once = PTHREAD_ONCE_INIT;

static uint64_t to_ns(const struct timespec *time)
{
	return time->tv_sec * NS_PER_SEC + time->tv_nsec;
}

static struct timespec from_ns(uint64_t ns)
{
	return (struct timespec){ .tv_sec = ns / NS_PER_SEC, .tv_nsec = ns % NS_PER_SEC };
}

static void read_start(void)
{
	const char *start = getenv("KVMM_CLOCK_START");
	struct timespec now;

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
	real_start_ns = to_ns(&now);
	start_ns = start ? strtoull(start, NULL, 10) : real_start_ns;
}

static int is_shifted(clockid_t clock)
{
	pthread_once(&start_once, read_start);
	return clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE ||
	       clock == CLOCK_MONOTONIC_RAW || clock == CLOCK_BOOTTIME;
}

EXPORT int clock_gettime(clockid_t clock, struct timespec *time)
{
	int err = syscall(SYS_clock_gettime, clock, time);
	uint64_t real;

	if (err || !is_shifted(clock))
		return err;
	/* The coarse and the raw clock may be a little behind the one that the start was read from. */
	real = to_ns(time);
	*time = from_ns(start_ns + (real > real_start_ns ? real - real_start_ns : 0));
	return 0;
}

/* *@until on @clock as the kernel counts; @room is for the answer. */
static const struct timespec *real_time(clockid_t clock, const struct timespec *until,
					struct timespec *room)
{
	__int128 ns;

	if (!is_shifted(clock))
		return until;
	ns = (__int128)until->tv_sec * NS_PER_SEC + until->tv_nsec - start_ns + real_start_ns;
	*room = from_ns(ns < 0 ? 0 : ns > INT64_MAX ? INT64_MAX : ns);
	return room;
}

#define REAL(fn)	((__typeof__(&fn))dlsym(RTLD_NEXT, #fn))

EXPORT int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until,
			   struct timespec *left)
{
	struct timespec room;

	if (flags & TIMER_ABSTIME)
		until = real_time(clock, until, &room);
	return REAL(clock_nanosleep)(clock, flags, until, left);
}

EXPORT int pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
				  const struct timespec *until)
{
	struct timespec room;

	return REAL(pthread_cond_clockwait)(cond, mutex, clock, real_time(clock, until, &room));
}

EXPORT int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
				  const struct timespec *until)
{
	return pthread_cond_clockwait(cond, mutex, cond->__data.__wrefs & COND_IS_MONOTONIC ?
				      CLOCK_MONOTONIC : CLOCK_REALTIME, until);
}

EXPORT int sem_clockwait(sem_t *sem, clockid_t clock, const struct timespec *until)
{
	struct timespec room;

	return REAL(sem_clockwait)(sem, clock, real_time(clock, until, &room));
}
