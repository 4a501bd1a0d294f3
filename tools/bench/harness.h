/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every benchmark shares: the clock, the runs, their medians, how they are shown.
 *
 * A benchmark names its figures in a table, makes one series of each for each set of parameters,
 * and adds one value to each of them in every run. It goes through all contenders and all baselines
 * in each run, so that whatever disturbs the machine disturbs all of them alike. Figures are judged
 * by their ratio to a baseline of the same runs.
 */
#ifndef BENCH_HARNESS_H
#define BENCH_HARNESS_H

#include "../replay/rng.h"

typedef uint16_t u16;

#ifndef __always_inline
#define __always_inline	inline __attribute__((__always_inline__))
#endif

#define BENCH_MAX_RUNS	7u
#define BENCH_MAX_SERIES	256u

struct bench;

/*
 * What the user types, one line for people, and what measures it and reports; 0 or a negative
 * errno.
 */
struct bench_kind {
	const char *name;
	const char *what;
	int (*run)(struct bench *bench);
};

typedef int bench_fn(struct bench *bench);

bench_fn bench_alloc_range, bench_alloc_request, bench_alloc_single, bench_alloc_batch,
	bench_alloc_mt, bench_growth, bench_fragmentation, bench_compact, bench_blockpool,
	bench_range, bench_range_mt, bench_overhead, bench_device, bench_keys, bench_registry, bench_kvbm, bench_prefixes,
	bench_evict, bench_touch, bench_slab, bench_magazine, bench_door, bench_shrink, bench_disk,
	bench_migrate, bench_tier, bench_events, bench_publisher, bench_control;

/**
 * struct metric - a figure of a set
 * @against: what its baseline is called; NULL: there is none
 * @ref: which figure of the set that is; BENCH_MUTEX: an uncontended pthread mutex lock + unlock
 */
struct metric {
	const char *name;
	const char *unit;
	const char *against;
	u32 ref;
};

#define BENCH_MUTEX	UINT32_MAX
#define VS_MUTEX	"mutex_pair", BENCH_MUTEX	/* the last two of one that takes a lock */
#define ALONE		NULL, 0				/* or: there is no baseline */
#define SET(metrics)	(metrics), ARRAY_SIZE(metrics)

/* One figure with its parameters: a value for each run, and what it is compared with. */
struct series {
	struct metric metric;
	char params[120];		/* "engine=zone nr=16384" */
	const struct series *ref;
	double value[BENCH_MAX_RUNS];
	unsigned int nr;
};

struct bench {
	const struct bench_kind *kind;
	unsigned int nr_runs;
	unsigned int run;		/* of bench_turns() */
	u64 seed;
	const char *device;		/* of those that take --device */
	bool device_is_chosen;		/* by the user: then it must be there */
	bool json;
	bool titled;			/* the head of the table is printed */
	struct series mutex;		/* baseline of all that take a lock; by bench_turns() */
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

/** bench_set() - one series for each of @metrics, in a row; @params: "key=value key=value" */
struct series *bench_set(struct bench *bench, const struct metric *metrics, u32 nr,
			 const char *params, ...) __attribute__((format(printf, 4, 5)));

void series_add(struct series *series, double value);
/* One value for each series of a row. */
void series_add_all(struct series *series, const double *value, u32 nr);
void series_against(struct series *series, const char *name, const struct series *ref);

typedef int turn_fn(struct bench *bench, void *arg);

/** bench_runs() - call @turn in each run, behind a look at the mutex. Return: what it returns. */
int bench_runs(struct bench *bench, turn_fn *turn, void *arg);

/** bench_turns() - and report; not where @turn has failed */
int bench_turns(struct bench *bench, turn_fn *turn, void *arg);

/** bench_report() - show the series made since the last report, and forget them. */
void bench_report(struct bench *bench);

/** bench_policies() - @run for each policy of the library. Return: 0; what @run has returned. */
int bench_policies(struct bench *bench, int (*run)(struct bench *bench, const char *policy));

/** bench_skip() - say that something cannot be measured here, and why; @what is static. */
void bench_skip(struct bench *bench, const char *what, const char *why);

/* Are there two cores? If not, @what has been skipped. */
bool bench_has_two_cores(struct bench *bench, const char *what);

/* No error where --device is not there and the user has not chosen it: then it is skipped. */
int bench_device_result(struct bench *bench, int err, const char *why);

/* ---- time ---- */

u64 now_ns(void);

#define BENCH_SLICES	25u

/* Do something @nr times. */
typedef void step_fn(void *arg, u32 nr);

/**
 * step_ns() - nanoseconds each: the median of BENCH_SLICES slices of @nr, after a warm-up
 *
 * A slice in which the thread lost its core says nothing about the step; the median drops it.
 */
double step_ns(step_fn *step, void *arg, u32 nr);

/** median_of(), quantile_of() - reorder @value */
double median_of(double *value, unsigned int nr);
double quantile_of(double *value, unsigned int nr, double part);

/** mutex_step() - lock and unlock; @arg is a pthread_mutex_t */
void mutex_step(void *arg, u32 nr);

/* Nanoseconds for which this thread had a core: waiting for one is not what a call costs. */
double thread_ns(void);

/**
 * struct worker - a thread that makes steps
 * @nr: steps between two looks at the clock
 * @on_core: divide by the time that the thread had a core, where others may use the machine; else
 * by time
 * @rate: out: steps a microsecond
 */
struct worker {
	step_fn *step;
	void *arg;
	u32 nr;
	bool on_core;
	double rate;
	bool running;		/* atomic */
	const bool *stop;	/* atomic; NULL: for @window_ns */
	u64 window_ns;
};

/**
 * bench_beside() - @workers at the same time, the first one in this thread, another on the other
 * core
 *
 * Slices would only look at the times in which a thread happens to own a lock: so what they do in
 * @window_ns is counted. Return: 0; -errno.
 */
int bench_beside(struct worker *workers, u32 nr, u64 window_ns);

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

/** histogram_ns() - the @part (0 to 1) quantile, less what reading the clock takes. */
double histogram_ns(const struct histogram *histogram, double part);

/** ticks_ns() - the same conversion for a sum of @nr durations. */
double ticks_ns(u64 ticks, u64 nr);

/** shuffle() - @nr items of @bytes each, 16 at most */
void shuffle(void *items, u32 nr, size_t bytes, u64 *seed);

/* A new folder in @where. Return: 0; -errno. */
int make_folder(char *path, size_t room, const char *where);

#endif /* BENCH_HARNESS_H */
