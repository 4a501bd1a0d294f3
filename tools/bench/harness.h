/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every benchmark shares: the clock, the runs, their medians, how they are shown.
 *
 * A benchmark names its figures in a table and makes one series of each for each set of parameters.
 * Most are rows: a step and what it works on, which bench_rows() times; others add one value to
 * each series in every run. All contenders and all baselines have their turn in each run, so that
 * what disturbs the machine disturbs all of them alike. Figures are judged by their ratio to a
 * baseline of the same runs.
 */
#ifndef BENCH_HARNESS_H
#define BENCH_HARNESS_H

#include "../replay/rng.h"

typedef uint16_t u16;

#ifndef __always_inline
#define __always_inline	inline __attribute__((__always_inline__))
#endif

#define BENCH_MAX_RUNS	7u
#define BENCH_COLUMNS	80u		/* of what people read */
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

bench_fn bench_request, bench_alloc, bench_alloc_batch, bench_alloc_mt, bench_growth, bench_fragmentation,
	bench_compact, bench_blockpool, bench_memory, bench_range, bench_range_mt, bench_peers,
	bench_overhead, bench_device,
	bench_shrink, bench_registry, bench_path, bench_kvbm, bench_evict, bench_touch, bench_slab,
	bench_magazine,
	bench_migrate, bench_net, bench_server, bench_tier, bench_keys, bench_events;

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

/* Do something @nr times. */
typedef void step_fn(void *arg, u32 nr);

/**
 * struct worker - a thread that makes steps
 * @nr: steps between two looks at the clock
 * @window_ns: how long; of a second worker: as long as the first
 * @on_core: divide by the time that the thread had a core, where others may use the machine; else
 * by time
 * @aside: nanoseconds of that time that went into what is not measured, counted by @step; or NULL
 * @rate: out: steps a microsecond
 */
struct worker {
	step_fn *step;
	void *arg;
	u32 nr;
	u64 window_ns;
	bool on_core;
	double *aside;
	double rate;
	bool running;		/* atomic */
	const bool *stop;	/* atomic; NULL: for @window_ns */
};

/**
 * struct series - a figure with its parameters: a value for each run, and what it is compared with
 * @params: "engine=zone nr=16384"
 * @worker: for rows: what makes a value; without a step a turn adds them
 * @nr_workers: that work at the same time; 0: the first one's steps are timed in slices
 */
struct series {
	struct metric metric;
	char params[120];
	const struct series *ref;
	double value[BENCH_MAX_RUNS];
	unsigned int nr;
	struct worker worker[2];
	u32 nr_workers;
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

/** bench_other_cpu() - a core that the measuring thread is not on; -1 if there is none */
int bench_other_cpu(void);

/** bench_set() - one series for each of @metrics, in a row; @params: "key=value key=value" */
struct series *bench_set(struct bench *bench, const struct metric *metrics, u32 nr,
			 const char *params, ...) __attribute__((format(printf, 4, 5)));

/**
 * bench_step(), bench_rate() - make @row, of bench_set(), one that bench_rows() measures: the
 * nanoseconds of a step, @nr at a time; steps a microsecond of @nr threads, together where the
 * second one makes the same steps. Return: @row.
 */
struct series *bench_step(struct series *row, step_fn *step, void *arg, u32 nr);
struct series *bench_rate(struct series *row, const struct worker *workers, u32 nr);

/** bench_rows() - measure them all by turns, and report. Return: 0; -errno. */
int bench_rows(struct bench *bench);

void series_add(struct series *series, double value);
double series_median(const struct series *series);
/* One value for each series of a row. */
void series_add_all(struct series *series, const double *value, u32 nr);
void series_against(struct series *series, const char *name, const struct series *ref);

typedef int turn_fn(struct bench *bench, void *arg);

/** bench_measure() - the turn of bench_rows() */
turn_fn bench_measure;

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

/** bench_thread_ns() - for how long this thread had a core */
double bench_thread_ns(void);

#define BENCH_SLICES	25u

/**
 * step_ns() - nanoseconds each: the median of BENCH_SLICES slices of @nr, after a warm-up
 *
 * By the time that the thread had a core. The median drops a slice that found its caches lost.
 */
double step_ns(step_fn *step, void *arg, u32 nr);

/** median_of(), quantile_of() - reorder @value */
double median_of(double *value, unsigned int nr);
double quantile_of(double *value, unsigned int nr, double part);

/** mutex_step() - lock and unlock; @arg is a pthread_mutex_t */
void mutex_step(void *arg, u32 nr);

/** shuffle() - @nr items of @bytes each, 16 at most */
void shuffle(void *items, u32 nr, size_t bytes, u64 *seed);

#endif /* BENCH_HARNESS_H */
