// SPDX-License-Identifier: Apache-2.0
/*
 * The path of a cached block as an engine has it: found, put, evicted, named, in a full pool.
 *
 * Everything is a mean over SPAN blocks, so that work that calls put off is in their figures.
 * Prompts are visited in strides over the whole table: the last visit of each was long ago.
 */
#include "lru.h"
#include "pools.h"
#include "urcu.h"

#define SPAN		65536u		/* blocks in a mean */
#define PROMPT		64u		/* blocks that are matched */
#define REQUEST		85u		/* blocks that are evicted and named */
#define STRIDE		1000003u	/* a prime beyond any number of prompts */
#define WRITER_NS	200000000u
#define PHASE		512u		/* blocks between two looks at the clock */

static const char *const policies[] = { "default", "lru" };
static const u32 sizes[] = { 100u << 10, 1u << 20, 4u << 20 };

struct path {
	struct kvmm_pool *pool;
	struct urcu_table *table;	/* instead */
	struct lru *lru;		/* or that */
	kvmm_key_t *keys;	/* of prompts, one after the other */
	u32 nr_prompts;
	u32 next;		/* prompt, in strides */
	u32 node;		/* of @table: where a writer is; two take turns */
	double aside;		/* of a writer: all but naming */
	u64 seed;
	bool wrong;
};

/* New content, as it comes: evicted for, named, put. */
static int renew(struct path *path, u32 nr, const kvmm_key_t *keys, double *evict_ns)
{
	double begin = evict_ns ? bench_thread_ns() : 0;
	kvmm_mut_t muts[REQUEST];
	kvmm_ref_t refs[REQUEST];
	u32 ids[REQUEST];
	int err = path->lru ? lru_take(path->lru, nr, ids) : kvmm_alloc(path->pool, nr, muts);

	if (evict_ns)
		*evict_ns += bench_thread_ns() - begin;
	if (path->lru) {
		err = err ? err : lru_name(path->lru, ids, keys, nr);
		lru_put(path->lru, ids, err ? 0 : nr);
		return err;
	}
	err = err ? err : kvmm_register(path->pool, muts, keys, nr, refs);
	return err ? err : kvmm_put_many(path->pool, refs, nr);
}

static int path_open(struct path *path, const char *policy, u32 nr, u64 seed)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	int err;

	*path = (struct path){ .nr_prompts = nr / PROMPT, .seed = seed };
	attr.nr_blocks = nr;
	attr.policy = policy;
	err = kvmm_pool_create(&attr, &path->pool);
	if (err)
		return err;
	path->keys = must_alloc(nr * sizeof(*path->keys));
	random_keys(path->keys, nr, &path->seed);
	for (u32 i = 0; !err && i < path->nr_prompts; i++)
		err = renew(path, PROMPT, &path->keys[(u64)i * STRIDE % path->nr_prompts * PROMPT],
			    NULL);
	return err;
}

/* liburcu's table of the same names, a node beside the other as the pool's blocks are. */
static int plain_open(struct path *plain, const struct path *like)
{
	*plain = (struct path){ .nr_prompts = like->nr_prompts, .keys = like->keys };
	plain->table = urcu_open(like->keys, like->nr_prompts * PROMPT, like->seed, false);
	return plain->table ? 0 : -ENOMEM;
}

static void path_close(struct path *path)
{
	kvmm_pool_destroy(path->pool);
	free(path->keys);
}

static const kvmm_key_t *next_prompt(struct path *path)
{
	path->next = ((u64)path->next + STRIDE) % path->nr_prompts;
	return &path->keys[path->next * PROMPT];
}

static bool match(const struct path *path, const kvmm_key_t *keys, kvmm_ref_t *refs)
{
	int nr = path->table ? urcu_match(path->table, keys, PROMPT, refs) :
		 kvmm_match(path->pool, keys, PROMPT, refs);

	return nr == PROMPT;
}

static bool put(const struct path *path, const kvmm_ref_t *refs)
{
	return !(path->table ? urcu_put(path->table, refs, PROMPT) :
		 kvmm_put_many(path->pool, refs, PROMPT));
}

/* @nr blocks are matched, then put. */
static void visit(struct path *path, u32 nr, double *match_ns, double *put_ns)
{
	static kvmm_ref_t refs[SPAN];
	double at[3] = { bench_thread_ns() };

	for (u32 i = 0; i < nr; i += PROMPT)
		path->wrong |= !match(path, next_prompt(path), refs + i);
	at[1] = bench_thread_ns();
	for (u32 i = 0; i < nr; i += PROMPT)
		path->wrong |= !put(path, refs + i);
	at[2] = bench_thread_ns();
	*match_ns += at[1] - at[0];
	*put_ns += at[2] - at[1];
}

#define NR_VISITS	3u	/* figures */

/*
 * The pool, and the plain table, in turns. Cold puts: of SPAN blocks, so that the lines of the
 * first one have left the caches: as a request puts what it took some thousand steps ago.
 */
static int visit_turn(struct bench *bench, void *arg)
{
	struct series *series = &bench->series[bench->nr_series - 2 * NR_VISITS];
	struct path *path = arg;

	for (u32 p = 0; p < 2; p++) {
		double ns[NR_VISITS] = { 0 }, again = 0;

		for (u32 i = 0; i < SPAN; i += PHASE)
			visit(&path[p], PHASE, &ns[0], &ns[1]);
		visit(&path[p], SPAN, &again, &ns[2]);
		for (u32 i = 0; i < NR_VISITS; i++)
			series_add(series++, ns[i] / SPAN);
	}
	return path[0].wrong || path[1].wrong ? -EUCLEAN : 0;
}

/* @nr blocks a request: all of it, or evicting alone. */
static int renew_turn(struct path *path, u32 nr, bool evict, struct series *series)
{
	kvmm_key_t keys[REQUEST];
	double begin = bench_thread_ns(), evict_ns = 0;
	int err = 0;

	for (u32 i = 0; !err && i < SPAN / nr; i++) {
		random_keys(keys, nr, &path->seed);
		err = renew(path, nr, keys, evict ? &evict_ns : NULL);
	}
	series_add(series, (evict ? evict_ns : bench_thread_ns() - begin) / (SPAN / nr * nr));
	return err;
}

#define NR_CYCLES	3u	/* figures */

/* The pool, and the plain cache, in turns. */
static int cycle_turn(struct bench *bench, void *arg)
{
	struct series *series = &bench->series[bench->nr_series - 2 * NR_CYCLES];
	struct path *path = arg;
	int err = 0;

	for (u32 p = 0; !err && p < 2; p++, series += NR_CYCLES) {
		err = renew_turn(&path[p], REQUEST, true, series);
		err = err ? err : renew_turn(&path[p], REQUEST, false, series + 1);
		err = err ? err : renew_turn(&path[p], 1, false, series + 2);
	}
	return err;
}

/* Each of its blocks has a name. */
static int lru_path_open(struct path *plain, u32 nr, u64 seed)
{
	kvmm_key_t keys[PROMPT];
	int err = 0;

	*plain = (struct path){ .lru = lru_open(nr), .seed = seed };
	for (u32 i = 0; !err && i < nr; i += PROMPT) {
		random_keys(keys, PROMPT, &plain->seed);
		err = renew(plain, PROMPT, keys, NULL);
	}
	return err;
}

/* Everything gets a holder. */
static int hold(struct path *path)
{
	static kvmm_ref_t refs[PROMPT];
	int err = 0;

	for (u32 i = 0; !err && i < path->nr_prompts; i++)
		err = kvmm_match(path->pool, &path->keys[i * PROMPT], PROMPT, refs) == PROMPT ?
		      0 : -EUCLEAN;
	return err;
}

static int measure_visits(struct bench *bench, struct path *path, const char *policy, bool held)
{
	static const struct metric visits[NR_VISITS] = { { "match_ns", "ns/blk", ALONE },
		{ "put_ns", "ns/blk", ALONE }, { "put_cold_ns", "ns/blk", ALONE } };
	u32 nr = path->nr_prompts * PROMPT;
	struct series *ours, *plain;

	ours = bench_set(bench, SET(visits), "policy=%s nr=%u held=%u", policy, nr, held);
	plain = bench_set(bench, SET(visits), "index=lfht nr=%u held=%u", nr, held);
	for (u32 i = 0; i < NR_VISITS; i++)
		series_against(&ours[i], "lfht", &plain[i]);
	return bench_runs(bench, visit_turn, path);
}

static int measure_cycles(struct bench *bench, const char *policy, u32 nr)
{
	static const struct metric cycles[NR_CYCLES] = { { "evict_ns", "ns/blk", ALONE },
		{ "cycle_ns", "ns/blk", ALONE }, { "decode_ns", "ns/blk", ALONE } };
	struct series *ours = bench_set(bench, SET(cycles), "policy=%s nr=%u request=%u", policy,
					nr, REQUEST);
	struct series *plain = bench_set(bench, SET(cycles), "cache=lru+mutex nr=%u request=%u", nr,
					 REQUEST);
	struct path path[2] = { { .table = NULL } };
	int err = path_open(&path[0], policy, nr, bench->seed);

	for (u32 i = 0; i < NR_CYCLES; i++)
		series_against(&ours[i], "lru+mutex", &plain[i]);
	err = err ? err : lru_path_open(&path[1], nr, bench->seed);
	err = err ? err : bench_runs(bench, cycle_turn, path);
	lru_close(path[1].lru);
	path_close(&path[0]);
	return err;
}

static int measure(struct bench *bench, const char *policy, u32 nr)
{
	struct path path[2] = { { .table = NULL } };
	int err = path_open(&path[0], policy, nr, bench->seed);

	err = err ? err : plain_open(&path[1], &path[0]);
	err = err ? err : measure_visits(bench, path, policy, false);
	err = err ? err : hold(&path[0]);
	err = err ? err : measure_visits(bench, path, policy, true);
	urcu_close(path[1].table);
	path_close(&path[0]);
	err = err ? err : measure_cycles(bench, policy, nr);
	bench_report(bench);
	return err;
}

/*
 * ---- two threads that evict, name and put, in one pool; and naming alone, beside two that add to
 * liburcu's table ----
 */

static void write_step(void *arg, u32 nr)
{
	struct path *path = arg;
	kvmm_key_t keys[PROMPT];

	for (u32 i = 0; i < nr; i += PROMPT) {
		random_keys(keys, PROMPT, &path->seed);
		path->wrong = path->wrong || renew(path, PROMPT, keys, NULL);
	}
}

/* Only naming counts: what it takes to have blocks to be named, and to be rid of them, is aside. */
static void register_step(void *arg, u32 nr)
{
	static __thread kvmm_mut_t muts[PHASE];
	static __thread kvmm_ref_t refs[PHASE];
	static __thread kvmm_key_t keys[PHASE];
	struct path *path = arg;
	double at[4] = { bench_thread_ns() };
	int err = 0;

	random_keys(keys, nr, &path->seed);
	if (path->table)
		urcu_remove(path->table, path->node, nr);
	else
		err = kvmm_alloc(path->pool, nr, muts);
	at[1] = bench_thread_ns();
	for (u32 i = 0; !err && i < nr; i += PROMPT)
		err = path->table ? urcu_register(path->table, path->node + i, keys + i, PROMPT) :
		      kvmm_register(path->pool, muts + i, keys + i, PROMPT, refs + i);
	at[2] = bench_thread_ns();
	if (!err && !path->table)
		err = kvmm_put_many(path->pool, refs, nr);
	at[3] = bench_thread_ns();
	path->aside += at[1] - at[0] + at[3] - at[2];
	path->node = (path->node + 2 * PHASE) % (path->nr_prompts * PROMPT);
	path->wrong = path->wrong || err;
}

/* One writer, and two. @path[] has the seeds and places of both. Return: the first row. */
static struct series *add_writers(struct bench *bench, const char *metric, step_fn *step, u32 nr,
				  struct path *path, const char *name)
{
	struct metric rate = { metric, "M/s", ALONE };
	struct series *row[2];
	struct worker workers[2];

	for (u32 i = 0; i < 2; i++)
		workers[i] = (struct worker){ .step = step, .arg = &path[i], .nr = nr,
					      .window_ns = WRITER_NS, .on_core = true,
					      .aside = &path[i].aside };
	for (u32 i = 0; i < 2; i++)
		row[i] = bench_rate(bench_set(bench, &rate, 1, "%s nr=%u writers=%u", name,
					      path->nr_prompts * PROMPT, i + 1), workers, i + 1);
	series_against(row[1], "one writer", row[0]);
	return row[0];
}

/* Not the pool's: a second writer of what is the first one's. */
static void beside(struct path *path)
{
	path[1] = path[0];
	path[1].seed += 1;
	path[1].node = PHASE;
}

static int measure_writers(struct bench *bench, const char *policy, u32 nr)
{
	struct path path[2], plain[2] = { { .table = NULL } };
	int err = path_open(&path[0], policy, nr, bench->seed);
	char name[32];

	err = err ? err : plain_open(&plain[0], &path[0]);
	beside(path);
	beside(plain);
	snprintf(name, sizeof(name), "policy=%s", policy);
	if (!err) {
		add_writers(bench, "write_rate", write_step, PROMPT, path, name);
		series_against(add_writers(bench, "register_rate", register_step, PHASE, path,
					   name), "lfht",
			       add_writers(bench, "register_rate", register_step, PHASE, plain,
					   "index=lfht"));
		err = bench_rows(bench);
	}
	for (u32 i = 0; i < 2; i++)
		err = err || !(path[i].wrong || plain[i].wrong) ? err : -EUCLEAN;
	urcu_close(plain[0].table);
	path_close(&path[0]);
	return err;
}

int bench_path(struct bench *bench)
{
	int err = 0;

	for (size_t i = 0; !err && i < ARRAY_SIZE(policies) * ARRAY_SIZE(sizes); i++)
		err = measure(bench, policies[i % ARRAY_SIZE(policies)],
			      sizes[i / ARRAY_SIZE(policies)]);
	if (!bench_has_two_cores(bench, "two threads"))
		return err;
	for (size_t i = 0; !err && i < ARRAY_SIZE(policies); i++)
		err = measure_writers(bench, policies[i], sizes[0]);
	return err;
}
