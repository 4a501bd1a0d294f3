// SPDX-License-Identifier: Apache-2.0
/*
 * kvmm-gpu-check: what the engine costs and reaches on the card at hand, beside what the driver
 * does.
 *
 * Writes a table, and with --json the same for programs. On the software driver its figures mean
 * nothing, since that one has a clock of its own; it is there so that this program is tested.
 */
#include <argp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <time.h>

#include "gpu.h"

static const struct experiment *const experiments[] = {
	&experiment_load, &experiment_local, &experiment_end_to_end, &experiment_baseline,
	&experiment_defrag, &experiment_interference, &experiment_layout, &experiment_stress,
	&experiment_pcie, &experiment_vmm,
};

static struct options {
	const char *device, *json, *only;
	double seconds;
	bool quick;
} opt = { .device = "cuda", .seconds = 420 };

static struct {
	const struct experiment *experiment;
	jmp_buf end;
	u64 deadline_ns;
	bool late;
	u32 nr_rows, nr_failed;
	FILE *json;
	const char *comma;
} now = { .comma = "" };

/* ---- the command line ---- */

enum { KEY_DEVICE = 'd', KEY_JSON = 'j', KEY_ONLY = 'o', KEY_SECONDS = 's', KEY_QUICK = 'q' };

static const struct argp_option argp_options[] = {
	{ "device", KEY_DEVICE, "soft|cuda", 0, "Driver of the card, or the software one [cuda]", 0 },
	{ "seconds", KEY_SECONDS, "N", 0, "For everything; what does not fit is left out [420]", 0 },
	{ "quick", KEY_QUICK, NULL, 0, "Tiny sizes, 2 runs: does it work at all?", 0 },
	{ "only", KEY_ONLY, "NAME", 0, "One experiment, as E2", 0 },
	{ "json", KEY_JSON, "FILE", 0, "Also write the results there", 0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	char *end;

	switch (key) {
	case KEY_DEVICE:
		opt.device = arg;
		if (strcmp(arg, "soft") && strcmp(arg, "cuda"))
			argp_error(state, "no device '%s'", arg);
		return 0;
	case KEY_JSON:
		opt.json = arg;
		return 0;
	case KEY_ONLY:
		opt.only = arg;
		return 0;
	case KEY_SECONDS:
		opt.seconds = strtod(arg, &end);
		if (*end || opt.seconds <= 0)
			argp_error(state, "'%s' is no time", arg);
		return 0;
	case KEY_QUICK:
		opt.quick = true;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* ---- samples ---- */

u64 now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

u32 wanted_runs(void)
{
	return opt.quick ? 2 : 20;
}

void add_sample(struct samples *samples, double value)
{
	if (samples->nr < MAX_RUNS)
		samples->value[samples->nr++] = value;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static struct samples sorted(const struct samples *samples)
{
	struct samples copy = *samples;

	qsort(copy.value, copy.nr, sizeof(copy.value[0]), compare);
	return copy;
}

double median(const struct samples *samples)
{
	struct samples s = sorted(samples);

	if (!s.nr)
		return 0;
	return s.nr % 2 ? s.value[s.nr / 2] : (s.value[s.nr / 2 - 1] + s.value[s.nr / 2]) / 2;
}

static double spread(const struct samples *samples)
{
	struct samples s = sorted(samples);
	double mid = median(samples);

	return mid ? (s.value[s.nr - 1] - s.value[0]) / mid : 0;
}

/* ---- results ---- */

static void json_text(const char *text)
{
	fputc('"', now.json);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', now.json);
		if ((unsigned char)*text >= ' ')
			fputc(*text, now.json);
	}
	fputc('"', now.json);
}

/* "key=value key=value"; values that are numbers stay numbers. */
static void json_params(const char *params)
{
	char copy[256], *rest = copy, *pair;
	const char *comma = "";

	snprintf(copy, sizeof(copy), "%s", params);
	fputc('{', now.json);
	while ((pair = strsep(&rest, " "))) {
		char *value = pair, *end;

		strsep(&value, "=");
		if (!value)
			continue;
		strtod(value, &end);
		fprintf(now.json, *end ? "%s\"%s\": \"%s\"" : "%s\"%s\": %s", comma, pair, value);
		comma = ", ";
	}
	fputc('}', now.json);
}

static void begin_json_row(void)
{
	fprintf(now.json, "%s\n  {\"bench\": \"%s\", ", now.comma, now.experiment->name);
	now.comma = ",";
}

static void json_row(const char *metric, const char *unit, const struct samples *samples,
		     const char *ref_name, double ref, const char *params)
{
	double value = median(samples);

	begin_json_row();
	fprintf(now.json, "\"params\": ");
	json_params(params);
	fprintf(now.json, ", \"metric\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"", metric, value,
		unit);
	if (ref_name)
		fprintf(now.json, ", \"ref\": \"%s\", \"ref_value\": %.6g", ref_name, ref);
	else
		fprintf(now.json, ", \"ref\": null, \"ref_value\": null");
	if (ref_name && ref)
		fprintf(now.json, ", \"ratio\": %.4g", value / ref);
	else
		fprintf(now.json, ", \"ratio\": null");
	fprintf(now.json, ", \"runs\": %u, \"spread\": %.3g}", samples->nr, spread(samples));
}

void report(const char *metric, const char *unit, const struct samples *samples,
	    const char *ref_name, double ref, const char *params, ...)
{
	double value = median(samples);
	char text[256];
	va_list args;

	va_start(args, params);
	vsnprintf(text, sizeof(text), params, args);
	va_end(args);
	printf("  %-22s %-52s %10.4g %-5s", metric, text, value, unit);
	if (ref_name && ref)
		printf(" %6.3f of %-8s", value / ref, ref_name);
	else
		printf(" %18s", "");
	printf(" +-%.0f%%\n", 50 * spread(samples));
	fflush(stdout);
	if (now.json)
		json_row(metric, unit, samples, ref_name, ref, text);
	now.nr_rows++;
}

void report_fact(const char *what, const char *fmt, ...)
{
	char text[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	printf("  %-22s %s\n", what, text);
	fflush(stdout);
	if (!now.json)
		return;
	begin_json_row();
	fprintf(now.json, "\"fact\": ");
	json_text(what);
	fprintf(now.json, ", \"text\": ");
	json_text(text);
	fprintf(now.json, "}");
}

/* ---- running ---- */

void give_up(const char *fmt, ...)
{
	char text[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	report_fact("FAILED", "%s", text);
	now.nr_failed++;
	longjmp(now.end, 1);
}

void must_cu(kcu_result result, const char *what)
{
	if (result)
		give_up("%s: %s (%d)", what, kcu_error_name(result), result);
}

void must_be(bool good, const char *what)
{
	if (!good)
		give_up("%s: not to be had", what);
}

bool out_of_time(void)
{
	if (now_ns() < now.deadline_ns)
		return false;
	if (!now.late)
		report_fact("time is up", "the rest of %s is left out", now.experiment->name);
	now.late = true;
	return true;
}

/* What an experiment does not use is shared by those after it. */
static void run_one(const struct experiment *experiment, u64 end_ns, u32 shares_left)
{
	u64 left = end_ns > now_ns() ? end_ns - now_ns() : 0;

	now.experiment = experiment;
	now.late = false;
	now.deadline_ns = now_ns() + left / shares_left * experiment->share;
	printf("\n%s: %s\n", experiment->name, experiment->what);
	if (!setjmp(now.end))
		experiment->run();
}

static bool is_wanted(const struct experiment *experiment)
{
	return !opt.only || !strcmp(opt.only, experiment->name);
}

static void run_all(void)
{
	u64 end_ns = now_ns() + (u64)(opt.seconds * 1e9);
	u32 shares = 0;

	for (u32 i = 0; i < ARRAY_SIZE(experiments); i++)
		shares += is_wanted(experiments[i]) ? experiments[i]->share : 0;
	for (u32 i = 0; i < ARRAY_SIZE(experiments); i++) {
		if (!is_wanted(experiments[i]))
			continue;
		run_one(experiments[i], end_ns, shares);
		shares -= experiments[i]->share;
	}
}

static void print_head(void)
{
	time_t seconds = time(NULL);
	char date[32];

	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", gmtime(&seconds));
	printf("kvmm-gpu-check: %s, driver %d.%d, %s%s\n", gpu_name(),
	       gpu.cu->driver_version / 1000, gpu.cu->driver_version % 1000 / 10, date,
	       gpu.is_soft ? " (a simulation: its times mean nothing)" : "");
	if (!now.json)
		return;
	fprintf(now.json, "{\"device\": ");
	json_text(gpu_name());
	fprintf(now.json, ", \"driver\": \"%s\", \"driver_version\": %d, \"date\": \"%s\", "
		"\"quick\": %s, \"rows\": [", opt.device, gpu.cu->driver_version, date,
		opt.quick ? "true" : "false");
}

static int finish(void)
{
	int err = 0;

	if (now.json) {
		fprintf(now.json, "\n], \"failed\": %u}\n", now.nr_failed);
		err = fclose(now.json);
	}
	if (err)
		perror(opt.json);
	printf("\n%u rows, %u failed\n", now.nr_rows, now.nr_failed);
	return err || now.nr_failed || !now.nr_rows;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		argp_options, parse, NULL,
		"Measure copies, moves and memory management on a GPU, and verify each.\v"
		"Exit code: 0 good; 1 an experiment failed or moved wrong bytes; 2 bad usage; "
		"3 no device.", NULL, NULL, NULL,
	};
	int err;

	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, &opt);
	err = gpu_open(opt.device, opt.quick);
	if (err) {
		fprintf(stderr, "kvmm-gpu-check: no device: %s\n", strerror(-err));
		return 3;
	}
	stress_hook_library();
	now.json = opt.json ? fopen(opt.json, "w") : NULL;
	if (opt.json && !now.json) {
		perror(opt.json);
		return 2;
	}
	print_head();
	run_all();
	err = finish();
	gpu_close();
	return err;
}
