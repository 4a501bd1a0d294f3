/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For programs of threads that do one thing after the other, at random, until their time is over.
 *
 *	torture_start(read_all, 0, seed);	// read_all() again and again, by a thread of its own
 *	torture_end(ns);			// in @ns nanoseconds, all of them
 *	return torture_report("it_torture", seed, 2, (const char *const []){ "hits", "moves" });
 *
 * A thread counts what it does in done[], which is its own and is added up when it ends: a counter of all
 * would be an order between them, and ThreadSanitizer has to find orders of the library only.
 */
#ifndef TESTS_SUPPORT_TORTURE_H
#define TESTS_SUPPORT_TORTURE_H

#include <time.h>

#include <kv/mem.h>
#include <kv/rcu.h>
#include <kv/stat.h>

#include "tests/support/random.h"
#include "tests/support/threads.h"

#define NS_PER_SEC	1000000000ull
#define TORTURE_THREADS	16u
#define TORTURE_COUNTS	8u

static u32 stop;				/* atomic */
static __thread u32 torturer;			/* of the thread: from 0, as they were started */
static __thread u64 done[TORTURE_COUNTS];
static u64 all_done[TORTURE_COUNTS];		/* atomic; of threads that have ended */

static struct torturer {
	pthread_t thread;
	void (*turn)(void);
	u32 nr_turns;				/* 0: until it is told to stop */
	u64 seed;
} torturers[TORTURE_THREADS];			/* main()'s while no thread runs, else fixed */
static u32 nr_torturers;			/* main()'s */

static inline void wrong(const char *what)
{
	if (!kv_fetch_add(&nr_bad, 1))
		fprintf(stderr, "%s\n", what);
}

static void *torture_thread(void *arg)
{
	const struct torturer *self = arg;

	torturer = self - torturers;
	any_state = self->seed * 0x9e3779b97f4a7c15ull | 1;
	for (u32 i = 0; self->nr_turns ? i < self->nr_turns : !READ_ONCE(stop); i++)
		self->turn();
	for (u32 i = 0; i < TORTURE_COUNTS; i++)
		kv_fetch_add(&all_done[i], done[i]);
	return NULL;
}

static inline void torture_start(void (*turn)(void), u32 nr_turns, u64 seed)
{
	struct torturer *self = &torturers[nr_torturers++];

	self->turn = turn;
	self->nr_turns = nr_turns;
	self->seed = seed;
	if (pthread_create(&self->thread, NULL, torture_thread, self)) {
		fprintf(stderr, "no thread\n");
		exit(EXIT_FAILURE);
	}
}

static inline void sleep_ns(u64 ns)
{
	nanosleep(&(struct timespec){ .tv_sec = ns / NS_PER_SEC, .tv_nsec = ns % NS_PER_SEC }, NULL);
}

static inline void torture_end(u64 ns)
{
	sleep_ns(ns);
	WRITE_ONCE(stop, 1);
	while (nr_torturers)
		pthread_join(torturers[--nr_torturers].thread, NULL);
	WRITE_ONCE(stop, 0);
}

/* The exit code: nothing was wrong and no memory is left; a run in which nothing happens proves nothing. */
static inline int torture_report(const char *name, u64 seed, u32 nr, const char *const *what)
{
	bool is_idle = false;

	printf("%s: seed %llu", name, (unsigned long long)seed);
	for (u32 i = 0; i < nr; i++) {
		printf(", %llu %s", (unsigned long long)all_done[i], what[i]);
		is_idle |= !all_done[i];
	}
	printf(", %u wrong\n", nr_bad);
	kv_rcu_barrier();
	return nr_bad || is_idle || kv_mem_bytes() || kv_stat_sum(KV_EV_BUG);
}

#endif /* TESTS_SUPPORT_TORTURE_H */
