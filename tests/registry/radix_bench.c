// SPDX-License-Identifier: Apache-2.0
/*
 * How long the registry of prefixes takes.
 *
 * usage: radix_bench [--nodes N] [--runs N]
 *
 * All nodes are registered in prompts of PROMPT blocks that share nothing. Prompts are asked for in
 * random order, and there are more of them than caches hold, so heads of chains and nodes come from
 * memory. Times are CPU times of the thread, the median of all runs; so are rates of several
 * threads: calls for each second that they were let run, added up. "churn" is a writer that forgets
 * and registers prompts, other than those asked for, as fast as it can.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kv/atomic.h>
#include <kv/types.h>
#include <kvmm/registry.h>

#define MAX_RUNS	9u
#define PROMPT		1024u
#define NR_CALLS	2000u
#define NR_TIERS	4u

static u32 nr_nodes = 1u << 20, nr_runs = 5;
static kvmm_key_t *keys;
static struct kvmm_registry *reg;

static u64 now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static u64 next_random(u64 *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state >> 16;
}

static void make_keys(void)
{
	u64 state = 0x9e3779b97f4a7c15ull;

	keys = malloc((size_t)nr_nodes * sizeof(*keys));
	if (!keys)
		exit(EXIT_FAILURE);
	for (u32 i = 0; i < nr_nodes; i++) {
		u64 word[2] = { next_random(&state), next_random(&state) << 20 ^ i };

		memcpy(&keys[i], word, sizeof(word));
	}
}

static u32 nr_prompts(void)
{
	return nr_nodes / PROMPT;
}

static struct kvmm_prefix prompt(u32 nr, u32 len)
{
	return (struct kvmm_prefix){ keys + (size_t)nr * PROMPT, len, 0, NULL, { 1, 0, 0 } };
}

static void make_registry(bool prefix_closed)
{
	struct kvmm_registry_attr attr = KVMM_REGISTRY_ATTR_INIT;

	attr.capacity = nr_nodes;
	attr.nr_tiers = NR_TIERS;
	attr.flags = prefix_closed ? KVMM_REGISTRY_PREFIX_CLOSED : 0;
	if (kvmm_registry_create(&attr, &reg))
		exit(EXIT_FAILURE);
}

static void register_all(u32 tier)
{
	for (u32 i = 0; i < nr_prompts(); i++) {
		struct kvmm_prefix prefix = prompt(i, PROMPT);

		if (kvmm_registry_present(reg, tier, &prefix))
			exit(EXIT_FAILURE);
	}
}

/* ---- output ---- */

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *value)
{
	qsort(value, nr_runs, sizeof(*value), compare);
	return value[nr_runs / 2];
}

static void row(const char *what, double *value, const char *unit)
{
	double middle = median(value);

	printf("%-44s %9.2f %-9s (%.2f to %.2f)\n", what, middle, unit, value[0],
	       value[nr_runs - 1]);
	fflush(stdout);
}

/* ---- lengths ---- */

/* Of every second prompt: the others belong to the writer. Nanoseconds a call. */
static double time_len(u32 len, u64 *random, u32 nr_calls)
{
	u64 start = now_ns();

	for (u32 i = 0; i < nr_calls; i++) {
		u32 nr = next_random(random) % (nr_prompts() / 2) * 2;
		struct kvmm_prefix prefix = prompt(nr, len);

		if (kvmm_registry_len(reg, &prefix, 3) != (int)len)
			exit(EXIT_FAILURE);
	}
	return (double)(now_ns() - start) / nr_calls;
}

static void bench_len(bool prefix_closed)
{
	static const u32 len[] = { 1, 64, 1024 };
	u64 random = 88172645463325252ull;
	double value[MAX_RUNS];
	char what[64];

	for (u32 l = 0; l < ARRAY_SIZE(len); l++) {
		for (u32 run = 0; run < nr_runs; run++)
			value[run] = time_len(len[l], &random, NR_CALLS);
		snprintf(what, sizeof(what), "longest prefix %s, %u keys",
			 prefix_closed ? "bisected" : "linear", len[l]);
		row(what, value, "ns");
	}
}

/* ---- presence ---- */

static double time_change(u32 tier, u32 len, bool present, u64 *random)
{
	u32 nr = nr_prompts(), step = next_random(random) | 1;
	u64 start = now_ns(), blocks = 0;

	for (u32 i = 0; i < nr; i++) {
		struct kvmm_prefix prefix = prompt((u64)i * step % nr, len);

		if (present)
			kvmm_registry_present(reg, tier, &prefix);
		else
			kvmm_registry_absent(reg, tier, &prefix);
		blocks += len;
	}
	return (double)(now_ns() - start) / blocks;
}

/* @step is odd and the number of prompts a power of two: each once. */
static void bench_change(u32 tier, u32 len, const char *what)
{
	double up[MAX_RUNS], down[MAX_RUNS];
	u64 random = 12345;
	char text[64];

	/* Memory is touched for the first time in here. */
	time_change(tier, len, true, &random);
	time_change(tier, len, false, &random);
	for (u32 run = 0; run < nr_runs; run++) {
		up[run] = time_change(tier, len, true, &random);
		down[run] = time_change(tier, len, false, &random);
	}
	snprintf(text, sizeof(text), "present, batch of %u, %s", len, what);
	row(text, up, "ns/block");
	snprintf(text, sizeof(text), "absent, batch of %u, %s", len, what);
	row(text, down, "ns/block");
}

/* ---- threads ---- */

static u32 stop, len_of_readers;

struct reader {
	pthread_t thread;
	u32 cpu;
	double rate;		/* thousands of calls a second */
};

static void pin_to(u32 cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

static void *read_on(void *arg)
{
	struct reader *reader = arg;
	u64 random = 999 + reader->cpu, calls = 0, start;

	pin_to(reader->cpu);
	start = now_ns();
	while (!READ_ONCE(stop)) {
		time_len(len_of_readers, &random, 256);
		calls += 256;
	}
	reader->rate = calls * 1e6 / (now_ns() - start);
	return NULL;
}

static void *churn(void *arg)
{
	double *rate = arg;
	u64 random = 4711, blocks = 0, start;

	pin_to(1);
	start = now_ns();
	while (!READ_ONCE(stop)) {
		u32 nr = next_random(&random) % (nr_prompts() / 2) * 2 + 1;
		struct kvmm_prefix prefix = prompt(nr, 64);

		kvmm_registry_absent(reg, 0, &prefix);
		kvmm_registry_present(reg, 0, &prefix);
		blocks += 64;
	}
	*rate = blocks * 1e3 / (now_ns() - start);
	return NULL;
}

/* Thousands of calls a second of all readers. */
static double time_threads(u32 nr_readers, double *writer_rate)
{
	struct reader reader[2] = { { .cpu = 0 }, { .cpu = 1 } };
	struct timespec nap = { 0, 300000000 };
	pthread_t writer;
	double rate = 0;

	WRITE_ONCE(stop, 0);
	for (u32 i = 0; i < nr_readers; i++)
		pthread_create(&reader[i].thread, NULL, read_on, &reader[i]);
	if (writer_rate)
		pthread_create(&writer, NULL, churn, writer_rate);
	nanosleep(&nap, NULL);
	WRITE_ONCE(stop, 1);
	for (u32 i = 0; i < nr_readers; i++) {
		pthread_join(reader[i].thread, NULL);
		rate += reader[i].rate;
	}
	if (writer_rate)
		pthread_join(writer, NULL);
	return rate;
}

static void bench_threads(u32 len)
{
	double one[MAX_RUNS], two[MAX_RUNS], churned[MAX_RUNS], writes[MAX_RUNS];
	char text[64];

	len_of_readers = len;
	for (u32 run = 0; run < nr_runs; run++) {
		one[run] = time_threads(1, NULL);
		two[run] = time_threads(2, NULL) / one[run];
		churned[run] = time_threads(1, &writes[run]) / one[run];
	}
	snprintf(text, sizeof(text), "longest prefix of %u, one reader", len);
	row(text, one, "k/s");
	snprintf(text, sizeof(text), "longest prefix of %u, two readers", len);
	row(text, two, "x");
	snprintf(text, sizeof(text), "longest prefix of %u, beside churn", len);
	row(text, churned, "x");
	row("churn, blocks forgotten and registered", writes, "M/s");
}

/* ---- all ---- */

static void parse(int argc, char **argv)
{
	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "--nodes"))
			nr_nodes = strtoul(argv[i + 1], NULL, 0);
		else if (!strcmp(argv[i], "--runs"))
			nr_runs = min((u32)strtoul(argv[i + 1], NULL, 0), MAX_RUNS);
	}
	if (nr_nodes < 4 * PROMPT || nr_nodes & (nr_nodes - 1) || !nr_runs) {
		fprintf(stderr, "usage: radix_bench [--nodes 2^N] [--runs 1-9]\n");
		exit(2);
	}
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	make_keys();
	make_registry(false);
	bench_change(0, 1024, "new names");
	bench_change(0, 64, "new names");
	register_all(0);
	bench_change(1, 64, "registered names");
	bench_len(false);
	kvmm_registry_destroy(reg);

	make_registry(true);
	register_all(0);
	bench_len(true);
	bench_threads(64);
	bench_threads(1024);
	printf("%u nodes, %.1f bytes a node\n", nr_nodes,
	       (double)kvmm_registry_bytes(reg) / nr_nodes);
	kvmm_registry_destroy(reg);
	free(keys);
	return 0;
}
