// SPDX-License-Identifier: Apache-2.0
/*
 * Readers of one pool on two cores, and one beside a writer that evicts and registers as fast as
 * it can. What a thread did is divided by the time that it had a core: others may use it, too.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "registry.h"

#define MT_ENTRIES	(1u << 20)
#define MT_PROMPT	64u
#define MT_NS		200000000u

enum role { ROLE_READ, ROLE_READ_HELD, ROLE_CHURN };

struct worker {
	struct cached *cached;
	enum role role;
	int cpu;
	u64 seed;
	const bool *stop;	/* atomic */
	u64 blocks;
	double ns;
	int err;
};

static double thread_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * 1e9 + ts.tv_nsec;
}

/* Readers look at the first half of the keys, a quarter of which is held. */
static u32 a_prompt(struct worker *w)
{
	u32 nr = MT_ENTRIES / MT_PROMPT / 4;

	return random_below(&w->seed, nr) + (w->role == ROLE_READ ? nr : 0);
}

static int read_one(struct worker *w)
{
	kvmm_ref_t refs[MT_PROMPT];
	const kvmm_key_t *keys = &w->cached->keys[a_prompt(w) * MT_PROMPT];
	int nr = kvmm_match(w->cached->pool, keys, MT_PROMPT, refs);

	if (nr != MT_PROMPT)
		return -EUCLEAN;
	w->blocks += nr;
	return kvmm_put_many(w->cached->pool, refs, nr);
}

/* A block of the second half is forgotten, taken again, and registered again. */
static int churn_one(struct worker *w)
{
	u32 i = MT_ENTRIES / 2 + random_below(&w->seed, MT_ENTRIES / 2);
	struct cached *cached = w->cached;
	kvmm_weak_t weak = kvmm_weak_of(cached->refs[i]);
	kvmm_mut_t block;
	u32 id;
	int err;

	if (kvmm_upgrade_many(cached->pool, &weak, 1, &cached->refs[i]) != 1)
		return -EUCLEAN;
	err = kvmm_blocks_of_refs(cached->pool, &cached->refs[i], 1, &id);
	err = err ? err : kvmm_put_many(cached->pool, &cached->refs[i], 1);
	if (err || kvmm_evict_blocks(cached->pool, &id, 1) != 1)
		return err ? err : -EUCLEAN;
	err = kvmm_alloc(cached->pool, 1, &block);
	err = err ? err : kvmm_register(cached->pool, &block, &cached->keys[i], 1, &cached->refs[i]);
	w->blocks++;
	return err ? err : kvmm_put_many(cached->pool, &cached->refs[i], 1);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	double begin;

	bench_pin(w->cpu);
	begin = thread_ns();
	while (!w->err && !__atomic_load_n(w->stop, __ATOMIC_RELAXED))
		w->err = w->role == ROLE_CHURN ? churn_one(w) : read_one(w);
	w->ns = thread_ns() - begin;
	return NULL;
}

/* @mine and, if it has a core, @other, for MT_NS. */
static int work_beside(struct worker *mine, struct worker *other)
{
	static bool stop;
	struct timespec pause = { .tv_nsec = MT_NS };
	struct worker *worker[] = { mine, other };
	pthread_t thread[2];
	u32 nr = other->cpu >= 0 ? 2 : 1, started = 0;

	__atomic_store_n(&stop, false, __ATOMIC_RELAXED);
	for (; started < nr; started++) {
		worker[started]->stop = &stop;
		if (pthread_create(&thread[started], NULL, work, worker[started]))
			break;
	}
	nanosleep(&pause, NULL);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (u32 i = 0; i < started; i++)
		pthread_join(thread[i], NULL);
	if (started < nr)
		return -EAGAIN;
	return mine->err ? mine->err : other->err;
}

/* Millions of blocks a second. */
static double rate(const struct worker *w)
{
	return w->ns ? w->blocks * 1e3 / w->ns : 0;
}

/* ---- rows ---- */

struct row {
	const char *what;
	enum role role;
	bool has_other;
	enum role other;
	u32 against;		/* row */
};

static const struct row rows[] = {
	{ "readers=1 held=1", ROLE_READ_HELD, false, ROLE_READ_HELD, 0 },
	{ "readers=2 held=1", ROLE_READ_HELD, true, ROLE_READ_HELD, 0 },
	{ "readers=1 held=1 writer=1", ROLE_READ_HELD, true, ROLE_CHURN, 0 },
	{ "readers=1 held=0", ROLE_READ, false, ROLE_READ, 3 },
	{ "readers=2 held=0", ROLE_READ, true, ROLE_READ, 3 },
	{ "readers=1 held=0 writer=1", ROLE_READ, true, ROLE_CHURN, 3 },
};

static int measure(struct cached *cached, const struct row *row, struct series *series)
{
	int other_cpu = bench_other_cpu();
	struct worker mine = { .cached = cached, .role = row->role, .cpu = bench_cpu(), .seed = 1 };
	struct worker other = { .cached = cached, .role = row->other, .seed = 2,
				.cpu = row->has_other ? other_cpu : -1 };
	int err = work_beside(&mine, &other);

	series_add(series, rate(&mine) + (other.role == ROLE_CHURN ? 0 : rate(&other)));
	return err;
}

static int measure_all(struct bench *bench, struct cached *cached)
{
	struct series *series[ARRAY_SIZE(rows)];
	int err = 0;

	for (size_t r = 0; r < ARRAY_SIZE(rows); r++) {
		series[r] = bench_series(bench, "match_put_rate", "M/s", "index=flat entries=%u %s",
					 MT_ENTRIES, rows[r].what);
		if (rows[r].against != r)
			series_against(series[r], "one reader", series[rows[r].against]);
	}
	for (unsigned int run = 0; !err && run < bench->nr_runs; run++)
		for (size_t r = 0; !err && r < ARRAY_SIZE(rows); r++)
			err = measure(cached, &rows[r], series[r]);
	bench_report(bench);
	return err;
}

int registry_run_threads(struct bench *bench)
{
	struct cached cached;
	int err;

	if (bench_other_cpu() < 0) {
		bench_skip(bench, "two threads", "there is one core");
		return 0;
	}
	err = cached_open(&cached, registry_index[0], MT_ENTRIES, bench->seed);
	err = err ? err : cached_register(&cached, 0, MT_ENTRIES);
	/* The first quarter stays held. */
	err = err ? err : kvmm_put_many(cached.pool, cached.refs + MT_ENTRIES / 4,
					MT_ENTRIES / 4 * 3);
	err = err ? err : measure_all(bench, &cached);
	if (cached.pool)
		cached_close(&cached);
	return err;
}
