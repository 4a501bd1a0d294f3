// SPDX-License-Identifier: Apache-2.0
/*
 * Work in parts on several threads. The linker puts our calls between the library and the threads
 * (--wrap), so that there are as many CPUs as a test says, and the n-th thread cannot be had.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <kv/sys.h>

#include "tests/support/test.h"

#define MAX_PARTS	5000
#define MAX_THREADS	16		/* as lib/env_sys.c has it */

static struct {
	u32 nr_cpus;			/* 0: cannot be told */
	u32 fail_at;			/* 1: the first; 0: none */
	bool fail_on;			/* and all later ones */
	u32 nr_asked, nr_made, nr_joined;
} threads;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
			  void *arg);
int __real_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
			  void *arg);
int __wrap_pthread_join(pthread_t thread, void **result);
int __wrap_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
			  void *arg)
{
	u32 nth = ++threads.nr_asked;

	errno = EAGAIN;			/* as a refused mapping of a stack leaves behind */
	if (threads.fail_at && (nth == threads.fail_at ||
				(nth > threads.fail_at && threads.fail_on)))
		return EAGAIN;
	threads.nr_made++;
	return __real_pthread_create(thread, attr, fn, arg);
}

int __wrap_pthread_join(pthread_t thread, void **result)
{
	threads.nr_joined++;
	return __real_pthread_join(thread, result);
}

int __wrap_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
	if (!threads.nr_cpus) {
		errno = EINVAL;
		return -1;
	}
	CPU_ZERO_S(bytes, set);
	for (u32 i = 0; i < threads.nr_cpus; i++)
		CPU_SET_S(i, bytes, set);
	return 0;
}

/* ---- each part once ---- */

struct parts {
	u32 nr;
	u8 times[MAX_PARTS];		/* owner: whoever does the part, then the caller */
	u32 nr_strange;			/* atomic; wrong numbers */
	pthread_t caller;
	u32 nr_elsewhere;		/* atomic; not on the caller's thread */
};

static void count_part(void *arg, u32 part, u32 nr_parts)
{
	struct parts *parts = arg;

	if (part >= nr_parts || nr_parts != parts->nr)
		kv_fetch_add(&parts->nr_strange, 1);
	else
		parts->times[part]++;
	if (!pthread_equal(pthread_self(), parts->caller))
		kv_fetch_add(&parts->nr_elsewhere, 1);
}

/* Expects all parts done once, @nr_threads made for it, and none of them left. */
static u32 do_and_expect(u32 nr_parts, u32 nr_threads)
{
	static struct parts parts;
	u32 made = threads.nr_made;

	parts = (struct parts){ .nr = nr_parts, .caller = pthread_self() };
	errno = 7;
	kv_parallel(count_part, &parts, nr_parts);
	cr_expect_eq(errno, 7);
	for (u32 i = 0; i < nr_parts; i++)
		cr_assert_eq(parts.times[i], 1, "part %u of %u: %u times", i, nr_parts,
			     parts.times[i]);
	cr_expect_eq(parts.nr_strange, 0);
	cr_expect_eq(threads.nr_made - made, nr_threads, "%u parts: %u threads, not %u", nr_parts,
		     threads.nr_made - made, nr_threads);
	cr_expect_eq(threads.nr_joined, threads.nr_made);
	return parts.nr_elsewhere;
}

Test(parallel, each_part_runs_once)
{
	threads.nr_cpus = 4;
	for (u32 nr = 0; nr <= 8; nr++)
		do_and_expect(nr, nr < 4 ? (nr ? nr - 1 : 0) : 3);
}

Test(parallel, there_may_be_more_parts_than_cpus)
{
	threads.nr_cpus = 2;
	do_and_expect(MAX_PARTS, 1);
}

Test(parallel, one_cpu_needs_no_thread)
{
	threads.nr_cpus = 1;
	cr_expect_eq(do_and_expect(100, 0), 0);
	cr_expect_eq(threads.nr_asked, 0);
}

Test(parallel, many_cpus_are_not_all_taken)
{
	threads.nr_cpus = 1000;
	do_and_expect(MAX_PARTS, MAX_THREADS - 1);
}

Test(parallel, cpus_that_cannot_be_told_do_no_harm)
{
	u32 online = min(sysconf(_SC_NPROCESSORS_ONLN), (long)MAX_THREADS);

	do_and_expect(MAX_PARTS, online - 1);
}

Test(parallel, threads_that_cannot_be_had_are_done_without)
{
	threads.nr_cpus = 4;
	for (u32 on = 0; on < 2; on++) {
		for (u32 nth = 1; nth <= 3; nth++) {
			threads.nr_asked = 0;
			threads.fail_at = nth;
			threads.fail_on = on;
			do_and_expect(100, nth - 1);
		}
	}
}

Test(parallel, the_caller_does_it_all_if_it_has_to)
{
	threads.nr_cpus = 8;
	threads.fail_at = 1;
	threads.fail_on = true;
	cr_expect_eq(do_and_expect(100, 0), 0);
	cr_expect_eq(threads.nr_asked, 1, "refused once, and asked again");
}

Test(parallel, a_table_without_it_has_one_thread)
{
	struct kv_sys_ops sys = kv_sys_system;

	threads.nr_cpus = 4;
	sys.parallel = NULL;
	kv_sys_set(&sys);
	cr_expect_eq(do_and_expect(100, 0), 0);
	kv_sys_set(NULL);
}

/* ---- all at once ---- */

static struct {
	pthread_barrier_t all;
	pthread_t caller;
	u32 nr_open;			/* atomic; signals that came through */
	u32 nr_shut;			/* atomic; faults that did not */
} meeting;

static const int others[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGPROF, SIGCHLD, SIGALRM };
static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL };

static void look_at_signals(void *arg, u32 part, u32 nr_parts)
{
	sigset_t mask;

	pthread_barrier_wait(&meeting.all);
	if (pthread_equal(pthread_self(), meeting.caller))
		return;
	pthread_sigmask(SIG_BLOCK, NULL, &mask);
	for (u32 i = 0; i < ARRAY_SIZE(others); i++)
		kv_fetch_add(&meeting.nr_open, !sigismember(&mask, others[i]));
	kv_fetch_add(&meeting.nr_open, !sigismember(&mask, SIGRTMIN));
	for (u32 i = 0; i < ARRAY_SIZE(faults); i++)
		kv_fetch_add(&meeting.nr_shut, !!sigismember(&mask, faults[i]));
}

static void blocked_now(sigset_t *mask)
{
	memset(mask, 0, sizeof(*mask));
	pthread_sigmask(SIG_BLOCK, NULL, mask);
}

/* Nobody gets past the barrier unless four threads are in it. */
Test(parallel, threads_run_at_once_and_leave_signals_to_others, .timeout = 30)
{
	sigset_t before, after;

	threads.nr_cpus = 4;
	meeting.caller = pthread_self();
	pthread_barrier_init(&meeting.all, NULL, 4);
	blocked_now(&before);
	kv_parallel(look_at_signals, NULL, 4);
	blocked_now(&after);
	pthread_barrier_destroy(&meeting.all);
	cr_expect_eq(threads.nr_made, 3);
	cr_expect_eq(meeting.nr_open, 0);
	cr_expect_eq(meeting.nr_shut, 0);
	cr_expect_eq(memcmp(&before, &after, sizeof(before)), 0, "the caller's mask is as it was");
	cr_expect(!sigismember(&after, SIGINT));
}

/* ---- a caller that is cancelled ---- */

static u32 nr_survived;

static void cancel_caller(void *arg, u32 part, u32 nr_parts)
{
	pthread_cancel(meeting.caller);
	pthread_testcancel();
	kv_fetch_add(&nr_survived, 1);
}

static void *be_cancelled(void *is_past)
{
	meeting.caller = pthread_self();
	kv_parallel(cancel_caller, NULL, 50);
	pthread_testcancel();
	*(bool *)is_past = true;
	return NULL;
}

Test(parallel, a_cancelled_caller_leaves_no_thread_behind, .timeout = 30)
{
	bool is_past = false;
	pthread_t caller;
	void *result;

	threads.nr_cpus = 4;
	cr_assert_eq(__real_pthread_create(&caller, NULL, be_cancelled, &is_past), 0);
	cr_assert_eq(__real_pthread_join(caller, &result), 0);
	cr_expect_eq(result, PTHREAD_CANCELED);
	cr_expect(!is_past);
	cr_expect_eq(nr_survived, 50);
	cr_expect_eq(threads.nr_made, 3);
	cr_expect_eq(threads.nr_joined, 3);
}
