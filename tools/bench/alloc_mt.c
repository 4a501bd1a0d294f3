// SPDX-License-Identifier: Apache-2.0
/*
 * Two threads on one allocator, each with requests of its own, against one thread alone.
 *
 * What both did in a fixed time is counted: slices, as elsewhere, would only look at the times in
 * which a thread happens to own the lock.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "churn.h"

#define NR_BLOCKS	(1u << 18)
#define LOAD		90u
#define WINDOW_NS	30000000u
#define STEP_PAIRS	256u	/* between two looks at the clock */

/* The second thread. */
struct companion {
	const struct task *task;	/* fixed */
	int cpu;			/* fixed */
	bool stop;			/* atomic */
	u64 done;			/* pairs so far; atomic, written by the second thread */
};

static void *keep_working(void *arg)
{
	struct companion *companion = arg;
	const struct task *task = companion->task;

	bench_pin(companion->cpu);
	/* Relaxed, both: a counter that may lag, and a flag that is seen some time. */
	while (!__atomic_load_n(&companion->stop, __ATOMIC_RELAXED)) {
		task->step(task->arg, STEP_PAIRS);
		__atomic_store_n(&companion->done, companion->done + STEP_PAIRS, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Pairs a microsecond of this thread and, if there is one, of its companion. */
static double pairs_per_us(const struct task *mine, struct companion *companion)
{
	u64 begin = now_ns(), pairs = 0, before = 0, ns;

	if (companion)
		before = __atomic_load_n(&companion->done, __ATOMIC_RELAXED);
	do {
		mine->step(mine->arg, STEP_PAIRS);
		pairs += STEP_PAIRS;
		ns = now_ns() - begin;
	} while (ns < WINDOW_NS);
	if (companion)
		pairs += __atomic_load_n(&companion->done, __ATOMIC_RELAXED) - before;
	return 1000.0 * pairs / ns;
}

static int both_per_us(const struct task *mine, const struct task *other, double *rate)
{
	struct companion companion = { .task = other, .cpu = bench_other_cpu() };
	pthread_t thread;
	int err;

	err = -pthread_create(&thread, NULL, keep_working, &companion);
	if (err)
		return err;
	/* Relaxed: only that it has begun matters. */
	while (!__atomic_load_n(&companion.done, __ATOMIC_RELAXED))
		;
	*rate = pairs_per_us(mine, &companion);
	__atomic_store_n(&companion.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	return 0;
}

/* ---- what the two do ---- */

struct pair {
	const char *name;
	const struct contender *contender;	/* NULL: the mutex */
	struct churn churn[2];
	struct churning churning[2];
	struct task task[2];
	struct series *one, *two;
};

static void pair_series(struct bench *bench, struct pair *pair)
{
	pair->one = bench_series(bench, "pairs_per_us", "1/us", "engine=%s nr=%u load=%u threads=1",
				 pair->name, NR_BLOCKS, LOAD);
	pair->two = bench_series(bench, "pairs_per_us", "1/us", "engine=%s nr=%u load=%u threads=2",
				 pair->name, NR_BLOCKS, LOAD);
	series_against(pair->two, "one_thread", pair->one);
}

/* Each of the two keeps half of the load. */
static bool pair_open(struct bench *bench, struct pair *pair, const struct sizes *sizes)
{
	const struct contender *contender = pair->contender;
	struct load load = { sizes, NR_BLOCKS, LOAD / 2, false, bench->seed };
	void *heap = contender->open(contender->name, NR_BLOCKS);

	if (!heap) {
		bench_skip(bench, contender->name, "not there");
		return false;
	}
	pair->name = contender->name;
	for (u32 i = 0; i < 2; i++) {
		pair->churn[i].heap = heap;
		load.seed = bench->seed + i;
		churn_start(&pair->churn[i], contender, &load);
		pair->churning[i] = (struct churning){ contender, &pair->churn[i] };
		pair->task[i] = churn_task(&pair->churning[i]);
	}
	pair_series(bench, pair);
	return true;
}

static void pair_close(struct pair *pair)
{
	if (!pair->contender)
		return;
	churn_end(&pair->churn[0], pair->contender);
	churn_end(&pair->churn[1], pair->contender);
	pair->contender->close(pair->churn[0].heap);
}

static void mutex_open(struct bench *bench, struct pair *pair)
{
	static pthread_mutex_t mutex;

	pthread_mutex_init(&mutex, NULL);
	pair->name = "mutex";
	pair->task[0] = pair->task[1] = (struct task){ mutex_step, &mutex, 4096 };
	pair_series(bench, pair);
}

static int measure(struct pair *pair, const struct pair *mutex)
{
	double rate;
	int err;

	series_add(pair->one, pairs_per_us(&pair->task[0], NULL));
	err = both_per_us(&pair->task[0], &pair->task[1], &rate);
	if (err)
		return err;
	series_add(pair->two, rate);
	if (pair != mutex)
		series_against(pair->one, "mutex", mutex->one);
	return 0;
}

int bench_two_threads(struct bench *bench, const struct contender *all, unsigned int nr_all)
{
	unsigned int nr = 1;
	struct pair *pair;
	struct sizes sizes;
	int err = 0;

	if (bench_other_cpu() < 0) {
		bench_skip(bench, "everything", "there is only one core");
		return 0;
	}
	pair = must_alloc((nr_all + 1) * sizeof(*pair));
	sizes_uniform(&sizes, 32, bench->seed);
	mutex_open(bench, &pair[0]);
	for (unsigned int i = 0; i < nr_all; i++) {
		pair[nr].contender = &all[i];
		nr += pair_open(bench, &pair[nr], &sizes);
	}
	for (unsigned int turn = 0; turn < bench->nr_runs; turn++) {
		for (unsigned int i = 0; !err && i < nr; i++)
			err = measure(&pair[i], &pair[0]);
	}
	for (unsigned int i = 0; i < nr; i++)
		pair_close(&pair[i]);
	bench_report(bench);
	sizes_exit(&sizes);
	free(pair);
	return err;
}

static int run(struct bench *bench)
{
	const struct contender *all;
	unsigned int nr_all = contenders(&all);

	return bench_two_threads(bench, all, nr_all);
}

const struct bench_kind bench_alloc_mt = {
	.name = "alloc-mt",
	.what = "two threads on one zone: what the second one adds to the throughput",
	.run = run,
};
