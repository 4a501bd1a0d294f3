// SPDX-License-Identifier: Apache-2.0
/*
 * The path of a cached block as an engine has it: found, put, evicted, named, in a full pool.
 *
 * Everything is a mean over SPAN blocks, so that work that calls put off is in their figures.
 * Prompts are visited in strides over the whole table: the last visit of each was long ago.
 */
#include "pools.h"

#define SPAN		65536u		/* blocks in a mean */
#define PROMPT		64u		/* blocks that are matched */
#define REQUEST		85u		/* blocks that are evicted and named */
#define STRIDE		1000003u	/* a prime beyond any number of prompts */
#define WRITER_NS	200000000u

static const char *const policies[] = { "lrfu", "lru" };
static const u32 sizes[] = { 100u << 10, 1u << 20, 4u << 20 };

struct path {
	struct kvmm_pool *pool;
	kvmm_key_t *keys;	/* of prompts, one after the other */
	u32 nr_prompts;
	u32 next;		/* prompt, in strides */
	u64 seed;
	bool wrong;
};

/* New content, as it comes: evicted for, named, put. @ns[]: of the three. */
static int renew(struct path *path, u32 nr, const kvmm_key_t *keys, u64 *ns)
{
	kvmm_mut_t muts[REQUEST];
	kvmm_ref_t refs[REQUEST];
	u64 at[4] = { now_ns() };
	int err = kvmm_alloc(path->pool, nr, muts);

	at[1] = now_ns();
	err = err ? err : kvmm_register(path->pool, muts, keys, nr, refs);
	at[2] = now_ns();
	err = err ? err : kvmm_put_many(path->pool, refs, nr);
	at[3] = now_ns();
	for (u32 i = 0; ns && i < 3; i++)
		ns[i] += at[i + 1] - at[i];
	return err;
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

static void path_close(struct path *path)
{
	kvmm_pool_destroy(path->pool);
	free(path->keys);
}

static int visit(struct path *path, u64 *match, u64 *put)
{
	const kvmm_key_t *keys = &path->keys[path->next * PROMPT];
	u64 begin = now_ns(), middle;
	kvmm_ref_t refs[PROMPT];
	bool wrong;

	path->next = ((u64)path->next + STRIDE) % path->nr_prompts;
	wrong = kvmm_match(path->pool, keys, PROMPT, refs) != PROMPT;
	middle = now_ns();
	wrong = wrong || kvmm_put_many(path->pool, refs, PROMPT);
	*match += middle - begin;
	*put += now_ns() - middle;
	return wrong ? -EUCLEAN : 0;
}

static int visit_turn(struct bench *bench, void *arg)
{
	u64 match = 0, put = 0;
	int err = 0;

	for (u32 i = 0; !err && i < SPAN / PROMPT; i++)
		err = visit(arg, &match, &put);
	series_add(&bench->series[bench->nr_series - 2], (double)match / SPAN);
	series_add(&bench->series[bench->nr_series - 1], (double)put / SPAN);
	return err;
}

/* @nr blocks a request. */
static int renew_turn(struct bench *bench, struct path *path, u32 nr, struct series *series)
{
	kvmm_key_t keys[REQUEST];
	u64 ns[3] = { 0 };
	int err = 0;

	for (u32 i = 0; !err && i < SPAN / nr; i++) {
		random_keys(keys, nr, &path->seed);
		err = renew(path, nr, keys, ns);
	}
	if (nr > 1)
		series_add(series++, (double)ns[0] / (SPAN / nr * nr));
	series_add(series, (double)(ns[0] + ns[1] + ns[2]) / (SPAN / nr * nr));
	return err;
}

static int cycle_turn(struct bench *bench, void *arg)
{
	struct series *series = &bench->series[bench->nr_series - 3];
	int err = renew_turn(bench, arg, REQUEST, series);

	return err ? err : renew_turn(bench, arg, 1, series + 2);
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

static int measure(struct bench *bench, const char *policy, u32 nr)
{
	static const struct metric visits[] = {
		{ "match_ns", "ns/blk", VS_MUTEX }, { "put_ns", "ns/blk", VS_MUTEX } };
	static const struct metric cycles[] = { { "evict_ns", "ns/blk", VS_MUTEX },
		{ "cycle_ns", "ns/blk", VS_MUTEX }, { "decode_ns", "ns/blk", VS_MUTEX } };
	struct path path;
	int err = path_open(&path, policy, nr, bench->seed);

	bench_set(bench, SET(visits), "policy=%s nr=%u held=0", policy, nr);
	err = err ? err : bench_runs(bench, visit_turn, &path);
	err = err ? err : hold(&path);
	bench_set(bench, SET(visits), "policy=%s nr=%u held=1", policy, nr);
	err = err ? err : bench_runs(bench, visit_turn, &path);
	path_close(&path);
	if (err)
		return err;
	err = path_open(&path, policy, nr, bench->seed);
	bench_set(bench, SET(cycles), "policy=%s nr=%u request=%u", policy, nr, REQUEST);
	err = err ? err : bench_runs(bench, cycle_turn, &path);
	path_close(&path);
	bench_report(bench);
	return err;
}

/* ---- two threads that evict, name and put, in one pool ---- */

static void write_step(void *arg, u32 nr)
{
	struct path *path = arg;
	kvmm_key_t keys[PROMPT];

	for (u32 i = 0; i < nr; i += PROMPT) {
		random_keys(keys, PROMPT, &path->seed);
		path->wrong = path->wrong || renew(path, PROMPT, keys, NULL);
	}
}

static int measure_writers(struct bench *bench, const char *policy, u32 nr)
{
	static const struct metric metric = { "write_rate", "M/s", ALONE };
	struct worker workers[2];
	struct series *one, *two;
	struct path path[2];
	int err = path_open(&path[0], policy, nr, bench->seed);

	path[1] = path[0];
	path[1].seed += 1;
	for (u32 i = 0; i < 2; i++)
		workers[i] = (struct worker){ .step = write_step, .arg = &path[i], .nr = PROMPT,
					      .window_ns = WRITER_NS, .on_core = true };
	one = bench_rate(bench_set(bench, &metric, 1, "policy=%s nr=%u writers=1", policy, nr),
			 workers, 1);
	two = bench_rate(bench_set(bench, &metric, 1, "policy=%s nr=%u writers=2", policy, nr),
			 workers, 2);
	series_against(two, "one writer", one);
	err = err ? err : bench_rows(bench);
	err = err || !(path[0].wrong || path[1].wrong) ? err : -EUCLEAN;
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
