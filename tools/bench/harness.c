// SPDX-License-Identifier: Apache-2.0
/*
 * Clock, runs, medians and output of the benchmarks.
 *
 * glibc takes mutexes without atomics while a process has one thread, which makes them look three
 * times faster than they are in any engine. So a second thread is parked before anything is timed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <kvmm/kvmm.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../tool.h"
#include "harness.h"

u64 now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (u64)ts.tv_sec * 1000000000u + ts.tv_nsec;
}

void shuffle(void *items, u32 nr, size_t bytes, u64 *seed)
{
	char kept[16], *at = items;

	for (u32 i = nr; i > 1; i--) {
		char *last = at + (i - 1) * bytes, *other = at + rng_below(seed, i) * bytes;

		memcpy(kept, last, bytes);
		memmove(last, other, bytes);
		memcpy(other, kept, bytes);
	}
}

/* ---- the place to measure in ---- */

static void *park(void *lock)
{
	pthread_mutex_lock(lock);	/* held by the main thread for ever */
	return NULL;
}

static int park_thread(void)
{
	static pthread_mutex_t forever;
	pthread_t thread;

	pthread_mutex_init(&forever, NULL);
	pthread_mutex_lock(&forever);
	return -pthread_create(&thread, NULL, park, &forever);
}

static int pin_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? -errno : 0;
}

/* Cores that we may use, and the one that is measured on; fixed after bench_open(). */
static cpu_set_t allowed;
static int measured_cpu;

/* The last core of those allowed: the first one has most of the interrupts. */
static int pin_thread(void)
{
	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return -errno;
	measured_cpu = CPU_SETSIZE - 1;
	while (measured_cpu && !CPU_ISSET(measured_cpu, &allowed))
		measured_cpu--;
	return pin_to(measured_cpu);
}

int bench_other_cpu(void)
{
	for (int cpu = measured_cpu - 1; cpu >= 0; cpu--) {
		if (CPU_ISSET(cpu, &allowed))
			return cpu;
	}
	return -1;
}

int bench_open(void)
{
	int err = park_thread();

	return err ? err : pin_thread();
}

/* ---- series ---- */

struct series *bench_set(struct bench *bench, const struct metric *metrics, u32 nr,
			 const char *params, ...)
{
	struct series *set = &bench->series[bench->nr_series];
	char text[sizeof(set->params)];
	va_list args;

	bench->nr_series += nr;
	if (bench->nr_series > BENCH_MAX_SERIES) {
		fprintf(stderr, "kvmm-bench: %s: too many series\n", bench->kind->name);
		exit(1);
	}
	va_start(args, params);
	vsnprintf(text, sizeof(text), params, args);
	va_end(args);
	for (u32 i = 0; i < nr; i++) {
		const struct series *ref = &bench->mutex;

		if (metrics[i].ref != BENCH_MUTEX)
			ref = &set[metrics[i].ref];
		set[i] = (struct series){ .metric = metrics[i],
					  .ref = metrics[i].against ? ref : NULL };
		memcpy(set[i].params, text, sizeof(text));
	}
	return set;
}

struct series *bench_step(struct series *row, step_fn *step, void *arg, u32 nr)
{
	row->worker[0] = (struct worker){ .step = step, .arg = arg, .nr = nr };
	return row;
}

struct series *bench_rate(struct series *row, const struct worker *workers, u32 nr)
{
	memcpy(row->worker, workers, nr * sizeof(*workers));
	row->nr_workers = nr;
	return row;
}

void series_add(struct series *series, double value)
{
	if (series->nr < BENCH_MAX_RUNS)
		series->value[series->nr++] = value;
}

void series_add_all(struct series *series, const double *value, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		series_add(&series[i], value[i]);
}

void series_against(struct series *series, const char *name, const struct series *ref)
{
	series->metric.against = name;
	series->ref = ref;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double median_of(double *value, unsigned int nr)
{
	qsort(value, nr, sizeof(*value), compare_doubles);
	return nr % 2 ? value[nr / 2] : (value[nr / 2 - 1] + value[nr / 2]) / 2;
}

double quantile_of(double *value, unsigned int nr, double part)
{
	qsort(value, nr, sizeof(*value), compare_doubles);
	return value[(unsigned int)(nr * part)];
}

double series_median(const struct series *series)
{
	double value[BENCH_MAX_RUNS];

	if (!series->nr)
		return 0;
	memcpy(value, series->value, sizeof(value));
	return median_of(value, series->nr);
}

static double series_least(const struct series *series)
{
	double least = series->value[0];

	for (unsigned int i = 1; i < series->nr; i++)
		least = series->value[i] < least ? series->value[i] : least;
	return least;
}

static double series_most(const struct series *series)
{
	double most = series->value[0];

	for (unsigned int i = 1; i < series->nr; i++)
		most = series->value[i] > most ? series->value[i] : most;
	return most;
}

static double series_spread(const struct series *series)
{
	double mid = series_median(series);

	return mid ? (series_most(series) - series_least(series)) / mid : 0;
}

/* ---- output ---- */

/* "key=value key=value" as members of an object; values that are numbers stay numbers. */
static void print_params(const char *params)
{
	char copy[sizeof(((struct series *)0)->params)], *rest = copy, *pair, *value, *end;
	const char *comma = "";

	snprintf(copy, sizeof(copy), "%s", params);
	putchar('{');
	while ((pair = strsep(&rest, " "))) {
		value = pair;
		strsep(&value, "=");
		if (!value)
			continue;
		strtod(value, &end);
		printf(*end ? "%s\"%s\": \"%s\"" : "%s\"%s\": %s", comma, pair, value);
		comma = ", ";
	}
	putchar('}');
}

static void print_json(const struct bench *bench, const struct series *series)
{
	double value = series_median(series), ref = series->ref ? series_median(series->ref) : 0;

	printf("{\"bench\": \"%s\", \"params\": ", bench->kind->name);
	print_params(series->params);
	printf(", \"metric\": \"%s\", \"value\": %.6g, \"min\": %.6g, \"max\": %.6g",
	       series->metric.name, value, series_least(series), series_most(series));
	printf(", \"unit\": \"%s\"", series->metric.unit);
	if (series->ref)
		printf(", \"ref\": \"%s\", \"ref_value\": %.6g", series->metric.against, ref);
	else
		printf(", \"ref\": null, \"ref_value\": null");
	if (ref)
		printf(", \"ratio\": %.4g", value / ref);
	else
		printf(", \"ratio\": null");
	printf(", \"runs\": %u, \"spread\": %.3g}\n", series->nr, series_spread(series));
}

/* The parameters once, for all figures that they are of. */
static void print_row(const struct series *series, const struct series *before)
{
	double value = series_median(series), ref = series->ref ? series_median(series->ref) : 0;

	if (!before || strcmp(before->params, series->params)) {
		print_words(stdout, series->params, 0, 2, BENCH_COLUMNS);
		putchar('\n');
	}
	printf("  %-17s %10.5g %-7s ", series->metric.name, value, series->metric.unit);
	if (ref)
		printf("%8.3f %-12s ", value / ref, series->metric.against);
	else
		printf("%8s %-12s ", "-", series->ref ? series->metric.against : "-");
	printf("%8.4g %8.4g\n", series_least(series), series_most(series));
}

static void print_title(struct bench *bench)
{
	unsigned int at = (unsigned int)printf("%s:", bench->kind->name);
	char words[128];

	bench->titled = true;
	snprintf(words, sizeof(words), " %s; medians of %u runs", bench->kind->what, bench->nr_runs);
	print_words(stdout, words, at, 2, BENCH_COLUMNS);
	printf("\n\n  %-17s %10s %-7s %8s %-12s %8s %8s\n", "metric", "value", "unit", "ratio to", "", "min",
	       "max");
}

/* Groups of one benchmark are set apart by an empty line. */
void bench_report(struct bench *bench)
{
	const struct series *before = NULL;

	if (!bench->json && !bench->titled)
		print_title(bench);
	for (unsigned int i = 0; i < bench->nr_series; i++) {
		const struct series *series = &bench->series[i];

		if (series->nr && bench->json)
			print_json(bench, series);
		else if (series->nr)
			print_row(series, before);
		before = series->nr ? series : before;
	}
	if (!bench->json)
		putchar('\n');
	fflush(stdout);
	bench->nr_series = 0;
	bench->mutex.nr = 0;
}

int bench_runs(struct bench *bench, turn_fn *turn, void *arg)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	bool locks = false;	/* only what takes a lock is compared with one */
	int err = 0;

	for (unsigned int i = 0; i < bench->nr_series; i++)
		locks |= bench->series[i].ref == &bench->mutex;
	for (bench->run = 0; !err && bench->run < bench->nr_runs; bench->run++) {
		if (locks)
			series_add(&bench->mutex, step_ns(mutex_step, &mutex, 4096));
		err = turn(bench, arg);
	}
	return err;
}

int bench_turns(struct bench *bench, turn_fn *turn, void *arg)
{
	int err = bench_runs(bench, turn, arg);

	if (!err)
		bench_report(bench);
	return err;
}

#define BENCH_MAX_POLICIES	64u

int bench_policies(struct bench *bench, int (*run)(struct bench *bench, const char *policy))
{
	const char *name[BENCH_MAX_POLICIES];
	unsigned int nr = kvmm_policies(name, BENCH_MAX_POLICIES);
	int err = 0;

	for (unsigned int i = 0; !err && i < nr && i < BENCH_MAX_POLICIES; i++)
		err = run(bench, name[i]);
	return err;
}

/* Once a benchmark, not once a group. */
void bench_skip(struct bench *bench, const char *what, const char *why)
{
	for (unsigned int i = 0; i < bench->nr_skipped; i++) {
		if (!strcmp(bench->skipped[i], what))
			return;
	}
	if (bench->nr_skipped < ARRAY_SIZE(bench->skipped))
		bench->skipped[bench->nr_skipped++] = what;
	fprintf(stderr, "kvmm-bench: %s: %s left out: %s\n", bench->kind->name, what, why);
}

bool bench_has_two_cores(struct bench *bench, const char *what)
{
	if (bench_other_cpu() < 0)
		bench_skip(bench, what, "there is only one core");
	return bench_other_cpu() >= 0;
}

int bench_device_result(struct bench *bench, int err, const char *why)
{
	if (err != -ENODEV && err != -ENOENT && err != -EOPNOTSUPP)
		return err;
	bench_skip(bench, bench->device, why);
	return bench->device_is_chosen ? err : 0;
}

/* ---- time ---- */

/* Waiting for a core is not what a call costs. */
double bench_thread_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * 1e9 + ts.tv_nsec;
}

#define WARM_SLICES	3u

double step_ns(step_fn *step, void *arg, u32 nr)
{
	double slice[BENCH_SLICES];

	for (u32 i = 0; i < WARM_SLICES; i++)
		step(arg, nr);
	for (u32 i = 0; i < BENCH_SLICES; i++) {
		double begin = bench_thread_ns();

		step(arg, nr);
		slice[i] = (bench_thread_ns() - begin) / nr;
	}
	return median_of(slice, BENCH_SLICES);
}

void mutex_step(void *arg, u32 nr)
{
	pthread_mutex_t *mutex = arg;

	for (u32 i = 0; i < nr; i++) {
		pthread_mutex_lock(mutex);
		pthread_mutex_unlock(mutex);
	}
}

/* ---- threads ---- */

/* Relaxed, all: a flag that is seen some time, and only that a thread has begun matters. */
static void work(struct worker *w)
{
	u64 begin = now_ns(), done = 0;
	double on_core = bench_thread_ns();

	if (w->aside)
		*w->aside = 0;
	__atomic_store_n(&w->running, true, __ATOMIC_RELAXED);
	do {
		w->step(w->arg, w->nr);
		done += w->nr;
	} while (w->stop ? !__atomic_load_n(w->stop, __ATOMIC_RELAXED) :
			   now_ns() - begin < w->window_ns);
	w->rate = 1000.0 * done / ((w->on_core ? bench_thread_ns() - on_core : now_ns() - begin) -
				   (w->aside ? *w->aside : 0));
}

static void *work_along(void *worker)
{
	pin_to(bench_other_cpu());
	work(worker);
	return NULL;
}

/*
 * Workers at the same time, the first one in this thread, another on the other core. Slices would
 * only look at the times in which a thread happens to own a lock: so what they do in a window of
 * time is counted.
 */
static int work_beside(struct worker *workers, u32 nr)
{
	bool stop = false;
	pthread_t thread;
	int err;

	if (nr == 1) {
		work(&workers[0]);
		return 0;
	}
	workers[1].stop = &stop;
	workers[1].running = false;
	err = -pthread_create(&thread, NULL, work_along, &workers[1]);
	if (err)
		return err;
	while (!__atomic_load_n(&workers[1].running, __ATOMIC_RELAXED))
		;
	work(&workers[0]);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	return 0;
}

/* ---- rows ---- */

static int measure_row(struct series *row)
{
	struct worker *w = row->worker;
	int err;

	if (!row->nr_workers) {
		series_add(row, step_ns(w->step, w->arg, w->nr));
		return 0;
	}
	err = work_beside(w, row->nr_workers);
	if (!err)
		series_add(row, w[0].rate + (w[1].step == w[0].step ? w[1].rate : 0));
	return err;
}

int bench_measure(struct bench *bench, void *unused)
{
	int err = 0;

	for (unsigned int i = 0; !err && i < bench->nr_series; i++)
		if (bench->series[i].worker[0].step)
			err = measure_row(&bench->series[i]);
	return err;
}

int bench_rows(struct bench *bench)
{
	return bench_turns(bench, bench_measure, NULL);
}
