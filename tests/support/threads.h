/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For programs of threads that go on when something is wrong, tell the first thing, and end with an
 * exit code.
 *
 *	threads_start(worker, 4, work);		// work((void *)1) to work((void *)4)
 *	threads_join(worker, 4);
 *	return nr_bad != 0;
 */
#ifndef TESTS_SUPPORT_THREADS_H
#define TESTS_SUPPORT_THREADS_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kv/atomic.h>
#include <kvmm/kvmm.h>

static u32 nr_bad;				/* atomic */

#define expect(cond)						\
	do {							\
		if (!(cond) && !kv_fetch_add(&nr_bad, 1))	\
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);	\
	} while (0)

/* Each gets its number, from 1. */
static inline void threads_start(pthread_t *thread, u32 nr, void *(*work)(void *arg))
{
	for (uintptr_t i = 0; i < nr; i++)
		expect(!pthread_create(&thread[i], NULL, work, (void *)(i + 1)));
}

static inline void threads_join(const pthread_t *thread, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		pthread_join(thread[i], NULL);
}

#endif /* TESTS_SUPPORT_THREADS_H */
