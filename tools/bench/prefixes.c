// SPDX-License-Identifier: Apache-2.0
/*
 * The registry of prefixes: lengths, presence, two threads.
 *
 * All nodes are there from the start, in prompts of PROMPT blocks that share nothing. Prompts are
 * asked for, forgotten and registered again in random order, and there are more of them than caches
 * hold: heads of chains and nodes come from memory. Changes, and threads, are measured by the time
 * that they had a core.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <kvmm/kvmm.h>

#include "harness.h"

#define NR_NODES	(1u << 20)
#define PROMPT		1024u
#define NR_PROMPTS	(NR_NODES / PROMPT)
#define NR_TIERS	4u
#define ALL_TIERS	((1u << NR_TIERS) - 1)
#define SLICE_BLOCKS	16384u		/* timed at once */
#define WARM_UP		10u
#define MT_PROMPT	64u
#define MT_NS		200000000u

/* Tier 0 has all names, tier 1 none but while it is measured. */
struct prefixes {
	struct kvmm_registry *reg;
	kvmm_key_t *keys;
	u64 seed;
	u32 len;		/* of what is asked for */
	bool wrong;
};

/* Waiting for a core is not what a call costs. */
static double thread_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * 1e9 + ts.tv_nsec;
}

static struct kvmm_prefix prompt_of(const struct prefixes *p, u32 nr, u32 len)
{
	return (struct kvmm_prefix){ p->keys + (size_t)nr * PROMPT, len, 0, NULL, { 1, 0, 0 } };
}

static void keys_fill(kvmm_key_t *keys, u64 seed)
{
	for (u32 i = 0; i < NR_NODES; i++) {
		u64 word[2] = { random_next(&seed), random_next(&seed) };

		memcpy(&keys[i], word, sizeof(word));
	}
}

static int prefixes_open(struct prefixes *p, kvmm_key_t *keys, u32 flags, u64 seed)
{
	struct kvmm_registry_attr attr = KVMM_REGISTRY_ATTR_INIT;
	int err;

	attr.capacity = NR_NODES;
	attr.nr_tiers = NR_TIERS;
	attr.flags = flags;
	*p = (struct prefixes){ .keys = keys, .seed = seed };
	err = kvmm_registry_create(&attr, &p->reg);
	for (u32 i = 0; !err && i < NR_PROMPTS; i++) {
		struct kvmm_prefix prefix = prompt_of(p, i, PROMPT);

		err = kvmm_registry_present(p->reg, 0, &prefix);
	}
	return err;
}

/* ---- lengths ---- */

static void len_step(void *arg, u32 nr)
{
	struct prefixes *p = arg;

	for (u32 i = 0; i < nr; i++) {
		u32 prompt = random_below(&p->seed, NR_PROMPTS);
		struct kvmm_prefix prefix = prompt_of(p, prompt, p->len);

		p->wrong |= kvmm_registry_len(p->reg, &prefix, ALL_TIERS) != (int)p->len;
	}
}

static const u32 lens[] = { 1, 64, 1024 };

static void measure_len(struct prefixes *p, u32 len, struct series *series)
{
	struct task task = { len_step, p, 1 + SLICE_BLOCKS / len };

	p->len = len;
	series_add(series, task_ns(&task));
}

/* ---- presence ---- */

/* @tier loses the first @len names of some prompts and gets them back, or the other way round. */
static void time_change(struct prefixes *p, u32 tier, u32 len, bool present, const u32 *prompt,
			u32 nr, double *ns)
{
	double begin = thread_ns();

	for (u32 i = 0; i < nr; i++) {
		struct kvmm_prefix prefix = prompt_of(p, prompt[i], len);

		if (present)
			p->wrong |= kvmm_registry_present(p->reg, tier, &prefix) != 0;
		else
			p->wrong |= kvmm_registry_absent(p->reg, tier, &prefix) != (int)len;
	}
	*ns = (thread_ns() - begin) / (nr * len);
}

/* Different ones, somewhere. */
static void draw_prompts(struct prefixes *p, u32 *prompt, u32 nr)
{
	u32 first = random_below(&p->seed, NR_PROMPTS);
	u32 step = random_below(&p->seed, NR_PROMPTS) | 1;

	for (u32 i = 0; i < nr; i++)
		prompt[i] = (first + i * step) % NR_PROMPTS;
}

static void measure_change(struct prefixes *p, u32 tier, u32 len, struct series *present,
			   struct series *absent)
{
	double up[BENCH_SLICES], down[BENCH_SLICES];
	u32 prompt[SLICE_BLOCKS / 64], nr = SLICE_BLOCKS / len;

	/* Slots that are forgotten come back after a while: by then all memory has been touched. */
	for (u32 i = 0; i < WARM_UP + BENCH_SLICES; i++) {
		u32 slice = i % BENCH_SLICES;

		draw_prompts(p, prompt, nr);
		if (tier)
			time_change(p, tier, len, true, prompt, nr, &up[slice]);
		time_change(p, tier, len, false, prompt, nr, &down[slice]);
		if (!tier)
			time_change(p, tier, len, true, prompt, nr, &up[slice]);
	}
	series_add(present, median_of(up, BENCH_SLICES));
	series_add(absent, median_of(down, BENCH_SLICES));
}

static const struct change {
	const char *what;
	u32 tier;
	u32 len;
} changes[] = {
	{ "names=new batch=64", 0, 64 },
	{ "names=new batch=1024", 0, 1024 },
	{ "names=there batch=64", 1, 64 },
	{ "names=there batch=1024", 1, 1024 },
};

/* ---- one thread ---- */

enum { LINEAR, BISECT, NR_SEARCHES };

static int run_single(struct bench *bench, struct prefixes *by_search)
{
	static const char *const name[NR_SEARCHES] = { "linear", "bisect" };
	struct series *len[NR_SEARCHES][ARRAY_SIZE(lens)];
	struct series *present[ARRAY_SIZE(changes)], *absent[ARRAY_SIZE(changes)];

	for (u32 l = 0; l < ARRAY_SIZE(lens); l++) {
		for (u32 s = 0; s < NR_SEARCHES; s++)
			len[s][l] = bench_series(bench, "len_ns", "ns",
						 "search=%s nodes=%u names=%u", name[s], NR_NODES,
						 lens[l]);
		series_against(len[BISECT][l], "linear", len[LINEAR][l]);
	}
	for (u32 c = 0; c < ARRAY_SIZE(changes); c++) {
		present[c] = bench_series(bench, "present_block_ns", "ns", "nodes=%u %s", NR_NODES,
					  changes[c].what);
		absent[c] = bench_series(bench, "absent_block_ns", "ns", "nodes=%u %s", NR_NODES,
					 changes[c].what);
	}
	for (unsigned int run = 0; run < bench->nr_runs; run++) {
		for (u32 i = 0; i < NR_SEARCHES * ARRAY_SIZE(lens); i++)
			measure_len(&by_search[i % NR_SEARCHES], lens[i / NR_SEARCHES],
				    len[i % NR_SEARCHES][i / NR_SEARCHES]);
		for (u32 c = 0; c < ARRAY_SIZE(changes); c++)
			measure_change(&by_search[LINEAR], changes[c].tier, changes[c].len,
				       present[c], absent[c]);
	}
	bench_report(bench);
	return by_search[LINEAR].wrong || by_search[BISECT].wrong ? -EUCLEAN : 0;
}

/* ---- two threads ---- */

struct worker {
	struct prefixes p;
	pthread_t thread;
	int cpu;
	bool writes;
	const bool *stop;	/* atomic */
	u64 calls;
	double ns;
};

/* Readers have the first half of the prompts, the writer the second. */
static void work_once(struct worker *w)
{
	u32 nr = random_below(&w->p.seed, NR_PROMPTS / 2);
	struct kvmm_prefix prefix = prompt_of(&w->p, nr + (w->writes ? NR_PROMPTS / 2 : 0),
					      MT_PROMPT);

	w->calls++;
	if (!w->writes) {
		w->p.wrong |= kvmm_registry_len(w->p.reg, &prefix, ALL_TIERS) != MT_PROMPT;
		return;
	}
	w->p.wrong |= kvmm_registry_absent(w->p.reg, 0, &prefix) != MT_PROMPT;
	w->p.wrong |= kvmm_registry_present(w->p.reg, 0, &prefix) != 0;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	double begin;

	bench_pin(w->cpu);
	begin = thread_ns();
	while (!__atomic_load_n(w->stop, __ATOMIC_RELAXED))
		work_once(w);
	w->ns = thread_ns() - begin;
	return NULL;
}

/* Thousands of calls a second of the readers among them. */
static int work_together(struct worker *workers, u32 nr, double *rate)
{
	static bool stop;
	struct timespec pause = { .tv_nsec = MT_NS };
	u32 started = 0;

	*rate = 0;
	__atomic_store_n(&stop, false, __ATOMIC_RELAXED);
	for (; started < nr; started++) {
		workers[started].stop = &stop;
		if (pthread_create(&workers[started].thread, NULL, work, &workers[started]))
			break;
	}
	nanosleep(&pause, NULL);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (u32 i = 0; i < started; i++) {
		pthread_join(workers[i].thread, NULL);
		if (!workers[i].writes && workers[i].ns)
			*rate += workers[i].calls * 1e6 / workers[i].ns;
		if (workers[i].p.wrong)
			return -EUCLEAN;
	}
	return started < nr ? -EAGAIN : 0;
}

static const struct pair {
	const char *what;
	u32 nr;
	bool writes;		/* the second one */
} pairs[] = {
	{ "readers=1", 1, false },
	{ "readers=2", 2, false },
	{ "readers=1 writer=1", 2, true },
};

static int measure_pair(const struct prefixes *p, const struct pair *pair, struct series *series)
{
	struct worker workers[2] = {
		{ .p = *p, .cpu = bench_cpu() },
		{ .p = *p, .cpu = bench_other_cpu(), .writes = pair->writes },
	};
	double rate;
	int err;

	workers[1].p.seed ^= 0x5bd1e995;
	err = work_together(workers, pair->nr, &rate);
	series_add(series, rate);
	return err;
}

static int run_threads(struct bench *bench, const struct prefixes *p)
{
	struct series *series[ARRAY_SIZE(pairs)];
	int err = 0;

	if (bench_other_cpu() < 0) {
		bench_skip(bench, "two threads", "there is one core");
		return 0;
	}
	for (u32 i = 0; i < ARRAY_SIZE(pairs); i++) {
		series[i] = bench_series(bench, "len_rate", "k/s",
					 "search=bisect nodes=%u names=%u %s", NR_NODES, MT_PROMPT,
					 pairs[i].what);
		if (i)
			series_against(series[i], "one reader", series[0]);
	}
	for (unsigned int run = 0; !err && run < bench->nr_runs; run++)
		for (u32 i = 0; !err && i < ARRAY_SIZE(pairs); i++)
			err = measure_pair(p, &pairs[i], series[i]);
	bench_report(bench);
	return err;
}

/* ---- all ---- */

static int run(struct bench *bench)
{
	kvmm_key_t *keys = must_alloc(NR_NODES * sizeof(*keys));
	struct prefixes by_search[NR_SEARCHES] = { { .reg = NULL } };
	int err;

	keys_fill(keys, bench->seed);
	err = prefixes_open(&by_search[LINEAR], keys, 0, bench->seed + 1);
	err = err ? err : prefixes_open(&by_search[BISECT], keys, KVMM_REGISTRY_PREFIX_CLOSED,
					bench->seed + 2);
	err = err ? err : run_single(bench, by_search);
	err = err ? err : run_threads(bench, &by_search[BISECT]);
	for (u32 s = 0; s < NR_SEARCHES; s++)
		kvmm_registry_destroy(by_search[s].reg);
	free(keys);
	return err;
}

const struct bench_kind bench_prefixes = {
	.name = "prefixes",
	.what = "the registry of prefixes: lengths, presence, two threads",
	.run = run,
};
