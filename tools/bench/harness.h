/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every benchmark shares: the clock, the runs, their medians, how they are shown.
 *
 * A benchmark makes one series for each figure that it reports and adds one value to each of them
 * in every run. It goes through all contenders and all baselines in each run, so that whatever
 * disturbs the machine disturbs all of them alike. Figures are judged by their ratio to a
 * baseline of the same runs.
 */
#ifndef BENCH_HARNESS_H
#define BENCH_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#ifndef __always_inline
#define __always_inline	inline __attribute__((__always_inline__))
#endif

#define BENCH_MAX_RUNS	7u

struct bench;

/**
 * struct bench_kind - one benchmark
 * @name: what the user types
 * @what: one line for people
 * @run: measure everything and report it; 0 or a negative errno
 */
struct bench_kind {
	const char *name;
	const char *what;
	int (*run)(struct bench *bench);
};

extern const struct bench_kind bench_alloc_range, bench_alloc_request, bench_alloc_single,
	bench_alloc_batch, bench_alloc_mt, bench_growth, bench_fragmentation, bench_compact,
	bench_blockpool, bench_range, bench_overhead, bench_device, bench_keys,
	bench_registry, bench_kvbm, bench_prefixes, bench_evict, bench_touch, bench_slab,
	bench_magazine, bench_range_mt, bench_door, bench_shrink, bench_disk, bench_migrate,
	bench_tier, bench_events, bench_publisher, bench_control;

/* One figure: a value for each run, and what it is compared with. */
struct series {
	char params[120];		/* "engine=zone nr=16384" */
	const char *metric;		/* static */
	const char *unit;		/* static */
	const char *ref_name;		/* static; NULL without a baseline */
	const struct series *ref;	/* another series of the same benchmark */
	double value[BENCH_MAX_RUNS];
	unsigned int nr;
};

#define BENCH_MAX_SERIES	256u
#define BENCH_MAX_POLICIES	64u

struct bench {
	const struct bench_kind *kind;
	unsigned int nr_runs;
	u64 seed;
	const char *device;		/* of the benchmark "device" */
	bool device_is_chosen;		/* by the user: then it must be there */
	bool json;
	bool titled;			/* the head of the table is printed */
	struct series *mutex_pair;	/* of this group; NULL until asked for */
	struct series series[BENCH_MAX_SERIES];
	unsigned int nr_series;
	const char *skipped[8];		/* what the user was told of */
	unsigned int nr_skipped;
};

/** bench_open() - pin this thread, park another one, look at the clock. Return: 0; -errno. */
int bench_open(void);

/** bench_cpu() - the core that the measuring thread is on */
int bench_cpu(void);

/** bench_other_cpu() - a core that the measuring thread is not on; -1 if there is none */
int bench_other_cpu(void);

/** bench_pin() - put the calling thread on @cpu. Return: 0; -errno. */
int bench_pin(int cpu);

/** bench_series() - one more figure; @params is a format for "key=value key=value". */
struct series *bench_series(struct bench *bench, const char *metric, const char *unit,
			    const char *params, ...) __attribute__((format(printf, 4, 5)));

void series_add(struct series *series, double value);
void series_against(struct series *series, const char *name, const struct series *ref);

/** bench_report() - show the series made since the last report, and forget them. */
void bench_report(struct bench *bench);

/** bench_policies() - @run for each policy of the library. Return: 0; what @run has returned. */
int bench_policies(struct bench *bench, int (*run)(struct bench *bench, const char *policy));

/** bench_skip() - say that something cannot be measured here, and why; @what is static. */
void bench_skip(struct bench *bench, const char *what, const char *why);

/* ---- time ---- */

u64 now_ns(void);

#define BENCH_SLICES	25u

/**
 * struct task - something that can be done again and again
 * @step: do it @nr times
 */
struct task {
	void (*step)(void *arg, u32 nr);
	void *arg;
	u32 nr;
};

/**
 * task_ns() - nanoseconds each: the median of BENCH_SLICES slices of @task->nr, after a warm-up
 *
 * A slice in which the thread lost its core says nothing about the task; the median drops it.
 */
double task_ns(const struct task *task);

/** median_of() - reorders @value */
double median_of(double *value, unsigned int nr);

/**
 * bench_mutex_pair() - measure an uncontended pthread mutex lock + unlock once more
 *
 * To be called once in each run. Return: the series, the baseline of whatever takes a lock.
 */
const struct series *bench_mutex_pair(struct bench *bench);

/** mutex_step() - the step of that task; @arg is a pthread_mutex_t */
void mutex_step(void *arg, u32 nr);

/* ---- time of single operations ---- */

#if defined(__x86_64__)
/* Instructions by hand: sparse does not know the compiler's intrinsics. */
static inline u64 __ticks(void)
{
	u32 lo, hi;

	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi) : : "memory");
	return (u64)hi << 32 | lo;
}

static inline void __ticks_fence(void)
{
	__asm__ volatile("lfence" : : : "memory");
}

/* Fenced on both sides: nothing of the operation is outside, nothing else inside. */
static inline u64 ticks_begin(void)
{
	u64 now;

	__ticks_fence();
	now = __ticks();
	__ticks_fence();
	return now;
}

static inline u64 ticks_end(void)
{
	return ticks_begin();
}
#else
static inline u64 ticks_begin(void)
{
	return now_ns();
}

static inline u64 ticks_end(void)
{
	return now_ns();
}
#endif

#define BENCH_MAX_TICKS	65536u

/* How often each duration was seen. The last one stands for all longer ones. */
struct histogram {
	u32 count[BENCH_MAX_TICKS];
	u64 total;
};

static inline void histogram_add(struct histogram *histogram, u64 ticks)
{
	histogram->count[ticks < BENCH_MAX_TICKS ? ticks : BENCH_MAX_TICKS - 1]++;
	histogram->total++;
}

void histogram_clear(struct histogram *histogram);

/** histogram_ns() - the @part (0 to 1) quantile, less what reading the clock takes. */
double histogram_ns(const struct histogram *histogram, double part);

/** ticks_ns() - the same conversion for a sum of @nr durations. */
double ticks_ns(u64 ticks, u64 nr);

/* ---- chance ---- */

/** random_next() - 64 bits; the same for the same start. */
u64 random_next(u64 *state);

static inline u32 random_below(u64 *state, u32 limit)
{
	return (u32)(((random_next(state) >> 32) * limit) >> 32);
}

/* ---- memory: out of it is the end of a benchmark ---- */

void *must_alloc(size_t bytes);

#endif /* BENCH_HARNESS_H */
