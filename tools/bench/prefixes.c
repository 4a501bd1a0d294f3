// SPDX-License-Identifier: Apache-2.0
/*
 * The registry of prefixes: lengths, presence, two threads.
 *
 * All nodes are there from the start, in prompts of PROMPT blocks that share nothing. Prompts are
 * asked for, forgotten and registered again in random order, and there are more of them than caches
 * hold: heads of chains and nodes come from memory. Changes, and threads, are measured by the time
 * that they had a core.
 */
#include "pools.h"

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

static struct kvmm_prefix prompt_of(const struct prefixes *p, u32 nr, u32 len)
{
	return (struct kvmm_prefix){ p->keys + (size_t)nr * PROMPT, len, 0, NULL, { 1, 0, 0 } };
}

static int prefixes_open(struct prefixes *p, kvmm_key_t *keys, u32 flags, u64 seed)
{
	struct kvmm_registry_attr attr = { .size = sizeof(attr), .capacity = NR_NODES,
					   .nr_tiers = NR_TIERS, .flags = flags };
	int err;

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
		u32 prompt = rng_below(&p->seed, NR_PROMPTS);
		struct kvmm_prefix prefix = prompt_of(p, prompt, p->len);

		p->wrong |= kvmm_registry_len(p->reg, &prefix, ALL_TIERS) != (int)p->len;
	}
}

static const u32 lens[] = { 1, 64, 1024 };

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
	u32 first = rng_below(&p->seed, NR_PROMPTS);
	u32 step = rng_below(&p->seed, NR_PROMPTS) | 1;

	for (u32 i = 0; i < nr; i++)
		prompt[i] = (first + i * step) % NR_PROMPTS;
}

static void measure_change(struct prefixes *p, u32 tier, u32 len, struct series *series)
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
	series_add(&series[0], median_of(up, BENCH_SLICES));
	series_add(&series[1], median_of(down, BENCH_SLICES));
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

struct single {
	struct prefixes *by_search;
	struct series *len[ARRAY_SIZE(lens)];		/* linear, bisect */
	struct series *change[ARRAY_SIZE(changes)];	/* present, absent */
};

static int single_turn(struct bench *bench, void *arg)
{
	struct single *single = arg;

	for (u32 i = 0; i < NR_SEARCHES * ARRAY_SIZE(lens); i++) {
		struct prefixes *p = &single->by_search[i % NR_SEARCHES];

		p->len = lens[i / NR_SEARCHES];
		series_add(&single->len[i / NR_SEARCHES][i % NR_SEARCHES],
			   step_ns(len_step, p, 1 + SLICE_BLOCKS / p->len));
	}
	for (u32 c = 0; c < ARRAY_SIZE(changes); c++)
		measure_change(&single->by_search[LINEAR], changes[c].tier, changes[c].len,
			       single->change[c]);
	return single->by_search[LINEAR].wrong || single->by_search[BISECT].wrong ? -EUCLEAN : 0;
}

static int run_single(struct bench *bench, struct prefixes *by_search)
{
	static const char *const name[NR_SEARCHES] = { "linear", "bisect" };
	static const struct metric len[] = { { "len_ns", "ns", ALONE } }, change[] = {
		{ "present_block_ns", "ns", ALONE }, { "absent_block_ns", "ns", ALONE },
	};
	struct single single = { .by_search = by_search };

	for (u32 l = 0; l < ARRAY_SIZE(lens); l++) {
		for (u32 s = 0; s < NR_SEARCHES; s++)
			single.len[l] = bench_set(bench, SET(len), "search=%s nodes=%u names=%u",
						  name[s],
						  NR_NODES, lens[l]) - s;
		series_against(&single.len[l][BISECT], "linear", &single.len[l][LINEAR]);
	}
	for (u32 c = 0; c < ARRAY_SIZE(changes); c++)
		single.change[c] = bench_set(bench, SET(change), "nodes=%u %s", NR_NODES,
					     changes[c].what);
	return bench_turns(bench, single_turn, &single);
}

/* ---- two threads: readers have the first half of the prompts, the writer the second ---- */

static void read_step(void *arg, u32 nr)
{
	struct prefixes *p = arg;

	for (u32 i = 0; i < nr; i++) {
		struct kvmm_prefix prefix = prompt_of(p, rng_below(&p->seed, NR_PROMPTS / 2),
						      MT_PROMPT);

		p->wrong |= kvmm_registry_len(p->reg, &prefix, ALL_TIERS) != MT_PROMPT;
	}
}

static void write_step(void *arg, u32 nr)
{
	struct prefixes *p = arg;

	for (u32 i = 0; i < nr; i++) {
		u32 prompt = NR_PROMPTS / 2 + rng_below(&p->seed, NR_PROMPTS / 2);
		struct kvmm_prefix prefix = prompt_of(p, prompt, MT_PROMPT);

		p->wrong |= kvmm_registry_absent(p->reg, 0, &prefix) != MT_PROMPT;
		p->wrong |= kvmm_registry_present(p->reg, 0, &prefix) != 0;
	}
}

static const struct pair {
	const char *what;
	step_fn *second;	/* thread; NULL: there is none */
} pairs[] = {
	{ "readers=1", NULL },
	{ "readers=2", read_step },
	{ "readers=1 writer=1", write_step },
};

/* Thousands of calls a second of the readers. */
static int threads_turn(struct bench *bench, void *arg)
{
	int err = 0;

	for (u32 i = 0; !err && i < ARRAY_SIZE(pairs); i++) {
		const struct prefixes *p = arg;
		struct prefixes both[2] = { *p, *p };
		struct worker workers[2] = {
			{ .step = read_step, .arg = &both[0], .nr = 1, .on_core = true },
			{ .step = pairs[i].second, .arg = &both[1], .nr = 1, .on_core = true },
		};

		both[1].seed ^= 0x5bd1e995;
		err = bench_beside(workers, pairs[i].second ? 2 : 1, MT_NS);
		series_add(&bench->series[i], 1000 * (workers[0].rate +
			   (pairs[i].second == read_step ? workers[1].rate : 0)));
		if (both[0].wrong || both[1].wrong)
			err = -EUCLEAN;
	}
	return err;
}

static int run_threads(struct bench *bench, struct prefixes *p)
{
	static const struct metric metric[] = { { "len_rate", "k/s", ALONE } };

	if (!bench_has_two_cores(bench, "two threads"))
		return 0;
	for (u32 i = 0; i < ARRAY_SIZE(pairs); i++) {
		bench_set(bench, SET(metric), "search=bisect nodes=%u names=%u %s", NR_NODES,
			  MT_PROMPT,
			  pairs[i].what);
		if (i)
			series_against(&bench->series[i], "one reader", &bench->series[0]);
	}
	return bench_turns(bench, threads_turn, p);
}

/* ---- all ---- */

int bench_prefixes(struct bench *bench)
{
	kvmm_key_t *keys = must_alloc(NR_NODES * sizeof(*keys));
	struct prefixes by_search[NR_SEARCHES] = { { .reg = NULL } };
	u64 seed = bench->seed;
	int err;

	random_keys(keys, NR_NODES, &seed);
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
