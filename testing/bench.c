// SPDX-License-Identifier: Apache-2.0
/*
 * The bench itself: a host that answers kvmm, and the list of what went wrong.
 *
 * kvmm asks from any thread, so what it asks for is atomic, and the log line has a lock. All the
 * rest is the test's thread's.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define START_NS	1000000000ull	/* a test may go back a little */
#define START_SEED	1ull

static struct kvmm_testing *_Atomic the_bench;	/* one a process, since there is one kvmm */

/* ---- what kvmm asks ---- */

static int refuse_alloc(void *ctx, size_t bytes)
{
	struct kvmm_testing *t = ctx;
	uint64_t nth = atomic_fetch_add(&t->nr_allocs, 1) + 1;
	uint64_t at = t->fail_at;

	if (!at || nth < at || (nth > at && !t->fail_all_later))
		return 0;
	t->nr_refused++;
	return 1;
}

static uint64_t clock_ns(void *ctx)
{
	return kvmm_testing_now(ctx);
}

static void waited(void *ctx, uint64_t ns)
{
	kvmm_testing_advance(ctx, ns);
}

static uint64_t next_random(void *ctx)
{
	return kvmm_testing_random(ctx);
}

static void keep_line(void *ctx, int level, const char *line)
{
	struct kvmm_testing *t = ctx;

	pthread_mutex_lock(&t->log_lock);
	snprintf(t->log_line, sizeof(t->log_line), "%s", line);
	pthread_mutex_unlock(&t->log_lock);
}

/* ---- beginning and end ---- */

static void free_bench(struct kvmm_testing *t)
{
	struct scrap *scrap;

	while ((scrap = t->scraps)) {
		t->scraps = scrap->next;
		free(scrap);
	}
	free(t->picture);
	pthread_mutex_destroy(&t->log_lock);
	free(t);
}

static struct kvmm_testing *new_bench(void)
{
	struct kvmm_testing *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	pthread_mutex_init(&t->log_lock, NULL);
	t->now_ns = START_NS;
	t->dice = START_SEED;
	t->host = (struct kvmm_testing_host){
		.size = sizeof(t->host), .ctx = t, .refuse_alloc = refuse_alloc,
		.clock_ns = clock_ns, .waited = waited, .random = next_random, .log = keep_line,
	};
	t->before.size = sizeof(t->before);
	kvmm_testing_get_state(&t->before);
	return t;
}

int kvmm_testing_begin(struct kvmm_testing **result)
{
	struct kvmm_testing *t, *nobody = NULL;
	int err;

	if (!result)
		return -EINVAL;
	t = new_bench();
	if (!t)
		return -ENOMEM;
	err = atomic_compare_exchange_strong(&the_bench, &nobody, t) ? 0 : -EBUSY;
	if (!err) {
		err = kvmm_testing_set_host(&t->host);
		if (err)
			the_bench = NULL;
	}
	if (err) {
		free_bench(t);
		return err;
	}
	*result = t;
	return 0;
}

static void check_library(struct kvmm_testing *t)
{
	struct kvmm_testing_state now = { .size = sizeof(now) };

	kvmm_testing_get_state(&now);
	if (now.host_bytes > t->before.host_bytes)
		bench_fail(t, 0, "%llu bytes of host memory are still held by kvmm",
			   (unsigned long long)(now.host_bytes - t->before.host_bytes));
	if (now.nr_bugs != t->before.nr_bugs)
		bench_fail(t, 0, "kvmm found an invariant of its own broken: %s", t->log_line);
}

int kvmm_testing_end(struct kvmm_testing *t, char *why, size_t bytes)
{
	int err;

	if (!t)
		return 0;
	kvmm_testing_fail_alloc(t, 0, 0);
	bench_end_pools(t);
	bench_end_soft(t);
	check_library(t);
	kvmm_testing_set_host(NULL);
	the_bench = NULL;

	err = t->nr_failures ? -EBADMSG : 0;
	if (why && bytes)
		snprintf(why, bytes, "%s", t->why);
	free_bench(t);
	return err;
}

/* ---- what went wrong ---- */

/* What there is no room for is counted all the same. */
static void add_line(struct kvmm_testing *t, const char *line)
{
	size_t room = sizeof(t->why) - t->why_len;
	int len = snprintf(t->why + t->why_len, room, "%s\n", line);

	if (len < 0 || (size_t)len >= room)
		t->why[t->why_len] = '\0';
	else
		t->why_len += len;
	snprintf(t->last_line, sizeof(t->last_line), "%s", line);
	t->nr_failures++;
}

static void add_failure(struct kvmm_testing *t, int err, const char *fmt, va_list args)
{
	char line[KVMM_TESTING_WHY];
	int len = vsnprintf(line, sizeof(line), fmt, args);

	if (err && len >= 0 && (size_t)len < sizeof(line))
		snprintf(line + len, sizeof(line) - len, ": %s", kvmm_strerror(err));
	add_line(t, line);
}

int bench_fail(struct kvmm_testing *t, int err, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	add_failure(t, err, fmt, args);
	va_end(args);
	return err ? err : -EBADMSG;
}

int kvmm_testing_expect(struct kvmm_testing *t, int is_so, const char *fmt, ...)
{
	va_list args;

	if (is_so)
		return 0;
	va_start(args, fmt);
	add_failure(t, 0, fmt, args);
	va_end(args);
	return -EBADMSG;
}

const char *kvmm_testing_why(const struct kvmm_testing *t)
{
	return t->last_line;
}

unsigned int kvmm_testing_nr_failures(const struct kvmm_testing *t)
{
	return t->nr_failures;
}

const char *kvmm_testing_log_line(const struct kvmm_testing *t)
{
	return t->log_line;
}

void *bench_alloc(struct kvmm_testing *t, size_t nr, size_t size)
{
	struct scrap *scrap;
	size_t bytes;

	if (__builtin_mul_overflow(nr, size, &bytes) ||
	    __builtin_add_overflow(bytes, sizeof(*scrap), &bytes))
		return NULL;
	scrap = calloc(1, bytes);
	if (!scrap)
		return NULL;
	scrap->next = t->scraps;
	t->scraps = scrap;
	return scrap->byte;
}

/* ---- time and random numbers ---- */

uint64_t kvmm_testing_now(const struct kvmm_testing *t)
{
	return t->now_ns;
}

void kvmm_testing_set_clock(struct kvmm_testing *t, uint64_t now_ns)
{
	t->now_ns = now_ns;
}

void kvmm_testing_advance(struct kvmm_testing *t, uint64_t ns)
{
	t->now_ns += ns;
}

void kvmm_testing_set_seed(struct kvmm_testing *t, uint64_t seed)
{
	t->dice = seed;
}

/* A Weyl sequence and a mixer: each number once, in an order that only the seed decides. */
uint64_t kvmm_testing_random(struct kvmm_testing *t)
{
	uint64_t x = atomic_fetch_add(&t->dice, 0x9e3779b97f4a7c15ull);

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

/* ---- host memory ---- */

void kvmm_testing_fail_alloc(struct kvmm_testing *t, uint64_t nth, int and_all_later)
{
	t->nr_refused = 0;
	t->fail_all_later = and_all_later;
	t->fail_at = nth ? t->nr_allocs + nth : 0;
}

int kvmm_testing_alloc_failed(const struct kvmm_testing *t)
{
	return t->nr_refused > 0;
}

int kvmm_testing_next_failure(struct kvmm_testing *t, uint64_t *nth)
{
	if (*nth && !kvmm_testing_alloc_failed(t)) {
		kvmm_testing_fail_alloc(t, 0, 0);
		return 0;
	}
	kvmm_testing_fail_alloc(t, ++*nth, 0);
	return 1;
}

uint64_t kvmm_testing_host_bytes(const struct kvmm_testing *t)
{
	struct kvmm_testing_state now = { .size = sizeof(now) };

	kvmm_testing_get_state(&now);
	return now.host_bytes;
}
