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

#include "harness.h"

/* Fixed after bench_open(). */
static struct {
	double ns_per_tick;
	double empty_ticks;	/* between begin and end of nothing */
	u64 step_ticks;		/* the clock counts in steps of so many */
} clock_facts = { 1, 0, 1 };

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

int make_folder(char *path, size_t room, const char *where)
{
	snprintf(path, room, "%s/kvmm-bench-XXXXXX", where);
	return mkdtemp(path) ? 0 : -errno;
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

int bench_pin(int cpu)
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
	return bench_pin(measured_cpu);
}

int bench_cpu(void)
{
	return measured_cpu;
}

int bench_other_cpu(void)
{
	for (int cpu = measured_cpu - 1; cpu >= 0; cpu--) {
		if (CPU_ISSET(cpu, &allowed))
			return cpu;
	}
	return -1;
}

static u64 common_divisor(u64 a, u64 b)
{
	while (b) {
		u64 rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* The fastest nine tenths: the others were interrupted. */
static void time_nothing(void)
{
	static struct histogram seen;
	u64 sum = 0, nr = 0;

	for (u32 i = 0; i < 200000; i++) {
		u64 begin = ticks_begin();

		histogram_add(&seen, ticks_end() - begin);
	}
	clock_facts.step_ticks = 0;
	for (u32 t = 0; t < BENCH_MAX_TICKS - 1 && nr < 180000; t++) {
		nr += seen.count[t];
		sum += (u64)seen.count[t] * t;
		if (seen.count[t])
			clock_facts.step_ticks = common_divisor(clock_facts.step_ticks, t);
	}
	clock_facts.empty_ticks = (double)sum / nr;
	clock_facts.step_ticks = clock_facts.step_ticks ? clock_facts.step_ticks : 1;
}

static void look_at_clock(void)
{
	u64 ns = now_ns(), ticks = ticks_begin();

	while (now_ns() - ns < 50000000)
		;
	clock_facts.ns_per_tick = (double)(now_ns() - ns) / (ticks_end() - ticks);
	time_nothing();
}

int bench_open(void)
{
	int err = park_thread();

	err = err ? err : pin_thread();
	if (!err)
		look_at_clock();
	return err;
}

/* ---- series ---- */

struct series *bench_set(struct bench *bench, const struct metric *metrics, u32 nr,
			 const char *params, ...)
{
	struct series *set = &bench->series[bench->nr_series];
	va_list args;

	bench->nr_series += nr;
	if (bench->nr_series > BENCH_MAX_SERIES) {
		fprintf(stderr, "kvmm-bench: %s: too many series\n", bench->kind->name);
		exit(1);
	}
	for (u32 i = 0; i < nr; i++) {
		const struct series *ref = &bench->mutex;

		if (metrics[i].ref != BENCH_MUTEX)
			ref = &set[metrics[i].ref];
		set[i] = (struct series){ .metric = metrics[i],
					  .ref = metrics[i].against ? ref : NULL };
		va_start(args, params);
		vsnprintf(set[i].params, sizeof(set[i].params), params, args);
		va_end(args);
	}
	return set;
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

static double series_median(const struct series *series)
{
	double value[BENCH_MAX_RUNS];

	if (!series->nr)
		return 0;
	memcpy(value, series->value, sizeof(value));
	return median_of(value, series->nr);
}

static double series_spread(const struct series *series)
{
	double mid = series_median(series), low = series->value[0], high = low;

	for (unsigned int i = 1; i < series->nr; i++) {
		low = series->value[i] < low ? series->value[i] : low;
		high = series->value[i] > high ? series->value[i] : high;
	}
	return mid ? (high - low) / mid : 0;
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
	printf(", \"metric\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"", series->metric.name,
	       value, series->metric.unit);
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

static void print_row(const struct series *series, int width)
{
	double value = series_median(series), ref = series->ref ? series_median(series->ref) : 0;

	printf("  %-17s %-*s %10.5g %-7s ", series->metric.name, width, series->params,
	       value, series->metric.unit);
	if (series->ref)
		printf("%-12s %10.5g ", series->metric.against, ref);
	else
		printf("%-12s %10s ", "-", "");
	if (ref)
		printf("%8.3f ", value / ref);
	else
		printf("%8s ", "-");
	printf("%6.0f%%\n", 100 * series_spread(series));
}

static int params_width(const struct bench *bench)
{
	size_t width = strlen("parameters");

	for (unsigned int i = 0; i < bench->nr_series; i++) {
		if (strlen(bench->series[i].params) > width)
			width = strlen(bench->series[i].params);
	}
	return width;
}

static void print_title(struct bench *bench, int width)
{
	if (bench->titled)
		return;
	bench->titled = true;
	printf("%s: %s; medians of %u runs\n\n", bench->kind->name, bench->kind->what,
	       bench->nr_runs);
	printf("  %-17s %-*s %10s %-7s %-12s %10s %8s %7s\n", "metric", width, "parameters",
	       "value", "unit", "against", "its value", "ratio", "spread");
}

/* Groups of one benchmark are set apart by an empty line. */
void bench_report(struct bench *bench)
{
	int width = params_width(bench);

	if (!bench->json)
		print_title(bench, width);
	for (unsigned int i = 0; i < bench->nr_series; i++) {
		const struct series *series = &bench->series[i];

		if (!series->nr)
			continue;
		if (bench->json)
			print_json(bench, series);
		else
			print_row(series, width);
	}
	if (!bench->json)
		putchar('\n');
	fflush(stdout);
	bench->nr_series = 0;
	bench->mutex.nr = 0;
}

/* Only what takes a lock is compared with one. */
static void time_mutex(struct bench *bench)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	bool wanted = false;

	for (unsigned int i = 0; i < bench->nr_series; i++)
		wanted |= bench->series[i].ref == &bench->mutex;
	if (wanted)
		series_add(&bench->mutex, step_ns(mutex_step, &mutex, 4096));
}

int bench_runs(struct bench *bench, turn_fn *turn, void *arg)
{
	int err = 0;

	for (bench->run = 0; !err && bench->run < bench->nr_runs; bench->run++) {
		time_mutex(bench);
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

#define WARM_SLICES	3u

double step_ns(step_fn *step, void *arg, u32 nr)
{
	double slice[BENCH_SLICES];

	for (u32 i = 0; i < WARM_SLICES; i++)
		step(arg, nr);
	for (u32 i = 0; i < BENCH_SLICES; i++) {
		u64 begin = now_ns();

		step(arg, nr);
		slice[i] = (double)(now_ns() - begin) / nr;
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

double thread_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * 1e9 + ts.tv_nsec;
}

/* ---- threads ---- */

/* Relaxed, all: a flag that is seen some time, and only that a thread has begun matters. */
static void work(struct worker *w)
{
	u64 begin = now_ns(), done = 0;
	double on_core = thread_ns();

	__atomic_store_n(&w->running, true, __ATOMIC_RELAXED);
	do {
		w->step(w->arg, w->nr);
		done += w->nr;
	} while (w->stop ? !__atomic_load_n(w->stop, __ATOMIC_RELAXED) :
			   now_ns() - begin < w->window_ns);
	w->rate = 1000.0 * done / (w->on_core ? thread_ns() - on_core : now_ns() - begin);
}

static void *work_along(void *worker)
{
	bench_pin(bench_other_cpu());
	work(worker);
	return NULL;
}

int bench_beside(struct worker *workers, u32 nr, u64 window_ns)
{
	bool stop = false;
	pthread_t thread;
	int err;

	workers[0].window_ns = window_ns;
	if (nr == 1) {
		work(&workers[0]);
		return 0;
	}
	workers[1].stop = &stop;
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

/* ---- single operations ---- */

double ticks_ns(u64 ticks, u64 nr)
{
	double net = nr ? (double)ticks / nr - clock_facts.empty_ticks : 0;

	return net > 0 ? net * clock_facts.ns_per_tick : 0;
}

/*
 * Where the clock counts in coarse steps, what takes 1.3 steps is seen as 1 or as 2: within a
 * step the quantile is interpolated.
 */
double histogram_ns(const struct histogram *histogram, double part)
{
	double wanted = part * histogram->total, below = 0, ticks;
	u32 t = 0;

	while (t < BENCH_MAX_TICKS - 1 && below + histogram->count[t] < wanted)
		below += histogram->count[t++];
	ticks = t;
	if (histogram->count[t])
		ticks += ((wanted - below) / histogram->count[t] - 0.5) * clock_facts.step_ticks;
	ticks -= clock_facts.empty_ticks;
	return ticks > 0 ? ticks * clock_facts.ns_per_tick : 0;
}
