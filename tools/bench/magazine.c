// SPDX-License-Identifier: Apache-2.0
/*
 * Single private blocks of a pool, with magazines and without, beside a mutex pair and a stack of
 * the thread's own, which is the least that any allocator costs; then the same on two threads.
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include <kvmm/kvmm.h>

#include "harness.h"

#define NR_BLOCKS	(1u << 16)
#define SLICE_PAIRS	4096u
#define MAX_BATCH	64u
#define NR_LIVE		48u
#define WINDOW_NS	30000000u
#define STEP_PAIRS	256u
#define STEPS		16u	/* between two looks at the clock */

/* What one thread works on. */
struct work {
	struct kvmm_pool *pool;
	kvmm_mut_t live[NR_LIVE];
	u32 batch;
	u64 seed;
} __attribute__((aligned(128)));

/* ---- steps ---- */

static void pair_step(void *arg, u32 nr)
{
	struct work *work = arg;
	kvmm_mut_t mut;

	for (u32 i = 0; i < nr; i++) {
		kvmm_alloc(work->pool, 1, &mut);
		kvmm_free(work->pool, &mut, 1);
	}
}

/* One of those that are held goes, another comes. */
static void random_step(void *arg, u32 nr)
{
	struct work *work = arg;

	for (u32 i = 0; i < nr; i++) {
		kvmm_mut_t *mut = &work->live[random_below(&work->seed, NR_LIVE)];

		kvmm_free(work->pool, mut, 1);
		kvmm_alloc(work->pool, 1, mut);
	}
}

static void batch_step(void *arg, u32 nr)
{
	struct work *work = arg;
	kvmm_mut_t muts[MAX_BATCH];

	for (u32 i = 0; i < nr; i += work->batch) {
		kvmm_alloc(work->pool, work->batch, muts);
		kvmm_free(work->pool, muts, work->batch);
	}
}

static __thread struct {
	u32 nr;
	u32 id[MAX_BATCH];
} stack = { .nr = MAX_BATCH };

/* Not inline: nor are the library's calls. */
static __attribute__((noinline)) int stack_pop(u32 *id)
{
	if (!stack.nr)
		return -1;
	*id = stack.id[--stack.nr];
	return 0;
}

static __attribute__((noinline)) int stack_push(const u32 *id)
{
	if (stack.nr == MAX_BATCH)
		return -1;
	stack.id[stack.nr++] = *id;
	return 0;
}

static void stack_step(void *arg, u32 nr)
{
	u32 id;

	for (u32 i = 0; i < nr; i++) {
		stack_pop(&id);
		stack_push(&id);
	}
}

/* ---- two threads ---- */

/*
 * Pairs a microsecond that the thread was on its core: on a machine that others use, too, wall time
 * says how much of a core was left.
 */
struct worker {
	const struct task *task;	/* fixed */
	u32 running;			/* atomic; 1 since it has begun */
	bool stop;			/* atomic */
	double rate;			/* the thread; after its end anybody */
};

static u64 core_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static double pairs_per_us(const struct task *task, const bool *stop)
{
	u64 begin = core_ns(), pairs = 0, ns;

	do {
		for (u32 i = 0; i < STEPS; i++)
			task->step(task->arg, STEP_PAIRS);
		pairs += STEPS * STEP_PAIRS;
		ns = core_ns() - begin;
		/* Relaxed: it is seen some time. */
	} while (stop ? !__atomic_load_n(stop, __ATOMIC_RELAXED) : ns < WINDOW_NS);
	return 1000.0 * pairs / ns;
}

static void *work_along(void *arg)
{
	struct worker *worker = arg;

	bench_pin(bench_other_cpu());
	/* Relaxed: only that it has begun matters. */
	__atomic_store_n(&worker->running, 1, __ATOMIC_RELAXED);
	worker->rate = pairs_per_us(worker->task, &worker->stop);
	return NULL;
}

static int both_per_us(const struct task *mine, const struct task *other, double *rate)
{
	struct worker worker = { .task = other };
	pthread_t thread;
	int err = -pthread_create(&thread, NULL, work_along, &worker);

	if (err)
		return err;
	while (!__atomic_load_n(&worker.running, __ATOMIC_RELAXED))
		;
	*rate = pairs_per_us(mine, NULL);
	__atomic_store_n(&worker.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	*rate += worker.rate;
	return 0;
}

/* ---- the runs ---- */

/* A pool, and what two threads hold of it. */
struct side {
	struct kvmm_pool *pool;
	struct work work[2];
	struct task random[2];
	struct series *pair, *random_pair, *batch, *one, *two;
};

static void side_series(struct bench *bench, struct side *side, const char *name)
{
	side->pair = bench_series(bench, "pair_ns", "ns", "pool=%s", name);
	side->random_pair = bench_series(bench, "random_pair_ns", "ns", "pool=%s live=%u", name,
					 NR_LIVE);
	side->batch = bench_series(bench, "block_ns", "ns", "pool=%s batch=%u", name, MAX_BATCH);
	side->one = bench_series(bench, "pairs_per_us", "1/us", "pool=%s threads=1", name);
	side->two = bench_series(bench, "pairs_per_us", "1/us", "pool=%s threads=2", name);
	series_against(side->two, "one_thread", side->one);
}

static int side_open(struct bench *bench, struct side *side, const char *name, u32 flags)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	int err;

	attr.nr_blocks = NR_BLOCKS;
	attr.policy = "default";
	attr.flags = flags;
	err = kvmm_pool_create(&attr, &side->pool);
	for (u32 i = 0; !err && i < 2; i++) {
		struct work *work = &side->work[i];

		*work = (struct work){ .pool = side->pool, .batch = MAX_BATCH,
				       .seed = bench->seed + i };
		err = kvmm_alloc(side->pool, NR_LIVE, work->live);
		side->random[i] = (struct task){ random_step, work, SLICE_PAIRS };
	}
	side_series(bench, side, name);
	return err;
}

static int measure(struct side *side, const struct series *mutex_pair)
{
	const struct task pair = { pair_step, &side->work[0], SLICE_PAIRS };
	const struct task batch = { batch_step, &side->work[0], SLICE_PAIRS };
	double rate;
	int err;

	series_add(side->pair, task_ns(&pair));
	series_add(side->random_pair, task_ns(&side->random[0]));
	series_add(side->batch, task_ns(&batch));
	series_against(side->pair, "mutex_pair", mutex_pair);
	series_against(side->random_pair, "mutex_pair", mutex_pair);
	series_against(side->batch, "mutex_pair", mutex_pair);
	if (bench_other_cpu() < 0)
		return 0;
	err = both_per_us(&side->random[0], &side->random[1], &rate);
	if (err)
		return err;
	series_add(side->one, pairs_per_us(&side->random[0], NULL));
	series_add(side->two, rate);
	return 0;
}

/* How much of a second core there is: nothing is shared. */
static int measure_stack(struct series *pair, struct series *one, struct series *two)
{
	const struct task task = { stack_step, NULL, SLICE_PAIRS };
	double rate;
	int err;

	series_add(pair, task_ns(&task));
	if (bench_other_cpu() < 0)
		return 0;
	err = both_per_us(&task, &task, &rate);
	if (err)
		return err;
	series_add(one, pairs_per_us(&task, NULL));
	series_add(two, rate);
	return 0;
}

static int run_all(struct bench *bench, struct side *side, u32 nr_sides)
{
	struct series *pair = bench_series(bench, "pair_ns", "ns", "pool=none (stack)");
	struct series *one = bench_series(bench, "pairs_per_us", "1/us", "pool=none threads=1");
	struct series *two = bench_series(bench, "pairs_per_us", "1/us", "pool=none threads=2");
	int err = 0;

	series_against(two, "one_thread", one);
	for (unsigned int run = 0; !err && run < bench->nr_runs; run++) {
		const struct series *mutex_pair = bench_mutex_pair(bench);

		series_against(pair, "mutex_pair", mutex_pair);
		err = measure_stack(pair, one, two);
		for (u32 i = 0; !err && i < nr_sides; i++)
			err = measure(&side[i], mutex_pair);
	}
	return err;
}

static int run(struct bench *bench)
{
	static struct side side[2];
	int err;

	if (bench_other_cpu() < 0)
		bench_skip(bench, "two threads", "there is only one core");
	err = side_open(bench, &side[0], "magazines", 0);
	if (!err)
		err = side_open(bench, &side[1], "lock", KVMM_POOL_NO_MAGAZINES);
	if (!err)
		err = run_all(bench, side, 2);
	if (!err)
		bench_report(bench);
	kvmm_pool_destroy(side[0].pool);
	kvmm_pool_destroy(side[1].pool);
	return err;
}

const struct bench_kind bench_magazine = {
	.name = "magazine",
	.what = "single private blocks, one and two threads, with magazines and without",
	.run = run,
};
