// SPDX-License-Identifier: Apache-2.0
/*
 * Pools of cached blocks: what it costs to find them, to take, touch, drop, name and evict them.
 *
 * Prompts have keys of their own, and keys are given to blocks in random order, so a prompt's
 * blocks lie all over the tables: where those are larger than the caches, every block has to be
 * fetched from memory.
 *
 * "held" blocks have a reference already. The first reference on a block, and the last, are noted
 * for the order of eviction; that is in the time of the calls that take and drop them.
 */
#include "pools.h"
#include "urcu.h"

#define BATCH		64u		/* blocks of a call that registers, touches or evicts */
#define SLICE_BLOCKS	8192u		/* timed at once */
#define NR_VALUES	401u		/* calls, of which the median is a run's value */

/* A pool with cached blocks. */
struct cached {
	struct kvmm_pool *pool;
	struct urcu_table *table;	/* instead */
	u32 nr;
	u32 prompt;		/* blocks that are registered together; @nr is a multiple */
	u64 seed;
	kvmm_key_t *keys;	/* prompts, one after the other */
	kvmm_ref_t *refs;	/* by key; private blocks before they are registered */
};

/* @nr private blocks of such a pool, in random order. */
static int cached_open(struct cached *cached, const struct kvmm_pool_attr *attr, u32 nr, u32 prompt,
		       u64 seed)
{
	int err;

	*cached = (struct cached){ .nr = nr, .prompt = prompt };
	err = kvmm_pool_create(attr, &cached->pool);
	if (err)
		return err;
	cached->keys = must_alloc(nr * sizeof(*cached->keys));
	cached->refs = must_alloc(nr * sizeof(*cached->refs));
	random_keys(cached->keys, nr, &seed);
	cached->seed = seed;	/* goes on: no key comes twice */
	err = kvmm_alloc(cached->pool, nr, (kvmm_mut_t *)cached->refs);
	shuffle(cached->refs, nr, sizeof(*cached->refs), &cached->seed);
	return err;
}

static void cached_close(struct cached *cached)
{
	kvmm_pool_destroy(cached->pool);
	urcu_close(cached->table);
	free(cached->keys);
	free(cached->refs);
}

/* Whole prompts, which then have a reference on each block. */
static int cached_register(struct cached *cached, u32 first, u32 nr)
{
	int err = 0;

	for (u32 i = first; !err && i < first + nr; i += cached->prompt)
		err = kvmm_register(cached->pool, (kvmm_mut_t *)&cached->refs[i], &cached->keys[i],
				    cached->prompt, &cached->refs[i]);
	return err;
}

/* All of them registered, and unreferenced. */
static int cached_fill(struct cached *cached)
{
	int err = cached_register(cached, 0, cached->nr);

	return err ? err : kvmm_put_many(cached->pool, cached->refs, cached->nr);
}

/*
 * ---- prompts: what is done with them, one deed after the other, many prompts at a time ----
 *
 * What the order has to do for a hit or a drop is done by the call that finds its log full, one of
 * many: so calls are timed many at once.
 */

#define MAX_DEEDS	8u
#define NR_SLICES	32u
#define STRIDE		1000003u	/* a prime beyond any number of prompts */

struct slice {
	struct cached *cached;
	u32 len;			/* of a prompt */
	u32 nr;				/* prompts */
	u32 prompt[SLICE_BLOCKS];	/* different ones, here and there */
	kvmm_ref_t refs[2][SLICE_BLOCKS];
};

/**
 * struct deed - something to be done with a prompt
 * @metric: without a name it only undoes another one
 * @act: 0, or it went wrong; prompt @i of the slice has @refs
 * @set: which references: the second set is another request's
 * @per: nanoseconds of the unit, for a prompt; 0: nanoseconds a block
 */
struct deed {
	struct metric metric;
	int (*act)(const struct slice *slice, u32 i, kvmm_ref_t *refs);
	u32 set;
	u32 per;
};

static const kvmm_key_t *keys_of(const struct slice *slice, u32 i)
{
	return &slice->cached->keys[slice->prompt[i] * slice->len];
}

static int do_match(const struct slice *slice, u32 i, kvmm_ref_t *refs)
{
	return kvmm_match(slice->cached->pool, keys_of(slice, i), slice->len, refs) !=
	       (int)slice->len;
}

static int do_length(const struct slice *slice, u32 i, kvmm_ref_t *refs)
{
	return kvmm_match_len(slice->cached->pool, keys_of(slice, i), slice->len) !=
	       (int)slice->len;
}

static int do_touch(const struct slice *slice, u32 i, kvmm_ref_t *refs)
{
	return kvmm_touch_many(slice->cached->pool, refs, slice->len);
}

static int do_put(const struct slice *slice, u32 i, kvmm_ref_t *refs)
{
	return kvmm_put_many(slice->cached->pool, refs, slice->len);
}

/* A weak reference is the same handle. */
static int do_upgrade(const struct slice *slice, u32 i, kvmm_ref_t *refs)
{
	return kvmm_upgrade_many(slice->cached->pool, (const kvmm_weak_t *)refs, slice->len,
				 refs) != (int)slice->len;
}

/*
 * The median of the slices of each deed: one in which the thread lost its core says nothing.
 * @series NULL: once for nothing, for memory, caches and clock.
 */
static int measure_deeds(struct cached *cached, u32 len, const struct deed *deeds, u32 nr,
			 struct series *series)
{
	static struct slice slice;
	double value[MAX_DEEDS][NR_SLICES];
	int err = 0;

	slice.cached = cached;
	slice.len = len;
	slice.nr = SLICE_BLOCKS / len;
	for (u32 s = 0; s < NR_SLICES; s++) {
		u32 nr_prompts = cached->nr / len, first = rng_below(&cached->seed, nr_prompts);

		for (u32 i = 0; i < slice.nr; i++)
			slice.prompt[i] = (first + (u64)i * STRIDE) % nr_prompts;
		for (u32 d = 0; d < nr; d++) {
			double begin = bench_thread_ns();

			for (u32 i = 0; i < slice.nr; i++)
				err |= deeds[d].act(&slice, i, &slice.refs[deeds[d].set][i * len]);
			value[d][s] = (bench_thread_ns() - begin) / slice.nr /
				      (deeds[d].per ? deeds[d].per : len);
		}
	}
	for (u32 d = 0; series && d < nr; d++)
		if (deeds[d].metric.name)
			series_add(series++, median_of(value[d], NR_SLICES));
	return err ? -EUCLEAN : 0;
}

static struct series *deed_series(struct bench *bench, const struct deed *deeds, u32 nr,
				  const char *params)
{
	struct series *first = &bench->series[bench->nr_series];

	for (u32 d = 0; d < nr; d++)
		if (deeds[d].metric.name)
			bench_set(bench, &deeds[d].metric, 1, "%s", params);
	return first;
}

/* ---- registry: beside liburcu's table, with a count of references, and nothing else ---- */

enum { FLAT, LFHT, NR_INDEXES };

static const char *const indexes[NR_INDEXES] = { "flat", "lfht" };

static int table_match(const struct slice *slice, u32 i, kvmm_ref_t *refs)
{
	return urcu_match(slice->cached->table, keys_of(slice, i), slice->len, refs) !=
	       (int)slice->len;
}

static int table_length(const struct slice *slice, u32 i, kvmm_ref_t *refs)
{
	return table_match(slice, i, NULL);
}

static int table_put(const struct slice *slice, u32 i, kvmm_ref_t *refs)
{
	return urcu_put(slice->cached->table, refs, slice->len);
}

/* As the first ones of the registry's. */
static const struct deed table_deeds[] = {
	{ { "length_us", "us", ALONE }, table_length, 0, 1000 },
	{ { "match_ns", "ns/blk", ALONE }, table_match, 0, 0 },
	{ { "put_ns", "ns/blk", ALONE }, table_put, 0, 0 },
};

static const struct deed registry_deeds[] = {
	{ { "length_us", "us", ALONE }, do_length, 0, 1000 },
	{ { "match_ns", "ns/blk", ALONE }, do_match, 0, 0 },
	{ { "put_ns", "ns/blk", ALONE }, do_put, 0, 0 },
	{ { NULL, NULL, ALONE }, do_match, 0, 0 },
	{ { "touch_ns", "ns/blk", ALONE }, do_touch, 0, 0 },
	{ { NULL, NULL, ALONE }, do_put, 0, 0 },
	{ { "upgrade_ns", "ns/blk", ALONE }, do_upgrade, 0, 0 },
	{ { NULL, NULL, ALONE }, do_put, 0, 0 },
};

static const struct {
	const struct deed *deeds;
	u32 nr;
} deeds_of[NR_INDEXES] = {
	[FLAT] = { registry_deeds, ARRAY_SIZE(registry_deeds) },
	[LFHT] = { table_deeds, ARRAY_SIZE(table_deeds) },
};

static int open_index(struct cached *cached, u32 nr, u64 seed)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;

	attr.nr_blocks = nr;
	attr.policy = "default";
	return cached_open(cached, &attr, nr, BATCH, seed);
}

/* The keys of a pool that is open. */
static int open_table(struct cached *cached, const struct cached *like)
{
	*cached = (struct cached){ .nr = like->nr, .prompt = like->prompt, .seed = like->seed };
	cached->keys = must_alloc(like->nr * sizeof(*like->keys));
	memcpy(cached->keys, like->keys, like->nr * sizeof(*like->keys));
	cached->table = urcu_open(like->keys, like->nr, like->seed, true);
	return cached->table ? 0 : -ENOMEM;
}

struct versus {
	struct cached *cached;			/* by index */
	struct series *series[NR_INDEXES];
	u32 len;
};

static int deeds_turn(struct bench *bench, void *arg)
{
	struct versus *v = arg;
	int err = 0;

	for (u32 counts = bench->run != 0; !err && counts < 2; counts++)
		for (u32 x = 0; !err && x < NR_INDEXES; x++)
			err = measure_deeds(&v->cached[x], v->len, deeds_of[x].deeds,
					    deeds_of[x].nr, counts ? v->series[x] : NULL);
	return err;
}

static int run_prompts(struct bench *bench, struct cached *cached, u32 len, bool held)
{
	struct versus v = { .cached = cached, .len = len };
	char params[80];

	for (u32 x = 0; x < NR_INDEXES; x++) {
		snprintf(params, sizeof(params), "index=%s entries=%u blocks=%u held=%u",
			 indexes[x], cached->nr, len, held);
		v.series[x] = deed_series(bench, deeds_of[x].deeds, deeds_of[x].nr, params);
	}
	for (u32 i = 0; i < ARRAY_SIZE(table_deeds); i++)
		series_against(v.series[FLAT] + i, indexes[LFHT], v.series[LFHT] + i);
	return bench_turns(bench, deeds_turn, &v);
}

static int run_lens(struct bench *bench, struct cached *cached, const u32 *lens, bool held)
{
	int err = 0;

	/* Everything gets a holder. */
	if (held)
		err = kvmm_upgrade_many(cached->pool, (const kvmm_weak_t *)cached->refs,
					cached->nr, cached->refs) == (int)cached->nr ?
		      0 : -EUCLEAN;
	for (; !err && *lens; lens++)
		err = run_prompts(bench, cached, *lens, held);
	return err;
}

static int run_size(struct bench *bench, u32 nr, const u32 *lens)
{
	struct cached cached[NR_INDEXES] = { { 0 } };
	int err = open_index(&cached[FLAT], nr, bench->seed);

	err = err ? err : cached_fill(&cached[FLAT]);
	err = err ? err : open_table(&cached[LFHT], &cached[FLAT]);
	err = err ? err : run_lens(bench, cached, lens, false);
	err = err ? err : run_lens(bench, cached, lens, true);
	for (u32 x = 0; x < NR_INDEXES; x++)
		cached_close(&cached[x]);
	return err;
}

/*
 * ---- two threads: readers of one pool on two cores, and one beside a writer that evicts and
 * registers ----
 *
 * What a thread did is divided by the time that it had a core: others may use it, too.
 */

#define MT_ENTRIES	(1u << 20)
#define MT_PROMPT	64u
#define MT_NS		200000000u

struct peer {
	struct cached *cached;
	u64 seed;
	bool held;		/* it reads what is held */
	bool wrong;
};

/* Readers look at the first half of the keys, a quarter of which is held. */
static int read_one(struct peer *p)
{
	u32 nr_prompts = MT_ENTRIES / MT_PROMPT / 4;
	u32 prompt = rng_below(&p->seed, nr_prompts) + (p->held ? 0 : nr_prompts);
	kvmm_ref_t refs[MT_PROMPT];

	if (kvmm_match(p->cached->pool, &p->cached->keys[prompt * MT_PROMPT], MT_PROMPT,
		       refs) != MT_PROMPT)
		return -EUCLEAN;
	return kvmm_put_many(p->cached->pool, refs, MT_PROMPT);
}

/* A block of the second half is forgotten, taken again, and registered again. */
static int churn_one(struct peer *p)
{
	u32 i = MT_ENTRIES / 2 + rng_below(&p->seed, MT_ENTRIES / 2);
	struct cached *cached = p->cached;
	kvmm_weak_t weak = kvmm_weak_of(cached->refs[i]);
	kvmm_mut_t block;
	u32 id;
	int err;

	if (kvmm_upgrade_many(cached->pool, &weak, 1, &cached->refs[i]) != 1)
		return -EUCLEAN;
	err = kvmm_blocks_of_refs(cached->pool, &cached->refs[i], 1, &id);
	err = err ? err : kvmm_put_many(cached->pool, &cached->refs[i], 1);
	if (err || kvmm_evict_blocks(cached->pool, &id, 1) != 1)
		return err ? err : -EUCLEAN;
	err = kvmm_alloc(cached->pool, 1, &block);
	err = err ? err : kvmm_register(cached->pool, &block, &cached->keys[i], 1,
					&cached->refs[i]);
	return err ? err : kvmm_put_many(cached->pool, &cached->refs[i], 1);
}

static void read_step(void *arg, u32 nr)
{
	struct peer *p = arg;

	for (u32 i = 0; i < nr; i += MT_PROMPT)
		p->wrong = p->wrong || read_one(p);
}

static void churn_step(void *arg, u32 nr)
{
	struct peer *p = arg;

	for (u32 i = 0; i < nr; i++)
		p->wrong = p->wrong || churn_one(p);
}

static const struct row {
	const char *what;
	bool held;
	step_fn *other;		/* of a second thread; NULL: there is none */
} rows[] = {
	{ "readers=1 held=1", true, NULL },
	{ "readers=2 held=1", true, read_step },
	{ "readers=1 held=1 writer=1", true, churn_step },
	{ "readers=1 held=0", false, NULL },
	{ "readers=2 held=0", false, read_step },
	{ "readers=1 held=0 writer=1", false, churn_step },
};

/* Millions of blocks a second of all readers. */
static int measure_threads(struct bench *bench, struct cached *cached)
{
	static const struct metric metric = { "match_put_rate", "M/s", ALONE };
	struct peer peer[ARRAY_SIZE(rows)][2];
	struct series *row[ARRAY_SIZE(rows)];
	int err;

	for (size_t r = 0; r < ARRAY_SIZE(rows); r++) {
		struct worker workers[2];

		for (u32 i = 0; i < 2; i++) {
			peer[r][i] = (struct peer){ cached, 1 + i, rows[r].held, false };
			workers[i] = (struct worker){ .step = i ? rows[r].other : read_step,
						      .arg = &peer[r][i], .nr = MT_PROMPT,
						      .window_ns = MT_NS, .on_core = true };
		}
		row[r] = bench_rate(bench_set(bench, &metric, 1, "index=flat entries=%u %s",
					      MT_ENTRIES, rows[r].what),
				    workers, rows[r].other ? 2 : 1);
		if (r % 3)
			series_against(row[r], "one reader", row[r / 3 * 3]);
	}
	err = bench_rows(bench);
	for (size_t r = 0; !err && r < ARRAY_SIZE(rows); r++)
		err = peer[r][0].wrong || peer[r][1].wrong ? -EUCLEAN : 0;
	return err;
}

static int run_threads(struct bench *bench)
{
	struct cached cached;
	int err;

	if (!bench_has_two_cores(bench, "two threads"))
		return 0;
	err = open_index(&cached, MT_ENTRIES, bench->seed);
	err = err ? err : cached_register(&cached, 0, MT_ENTRIES);
	/* The first quarter stays held. */
	err = err ? err : kvmm_put_many(cached.pool, cached.refs + MT_ENTRIES / 4,
					MT_ENTRIES / 4 * 3);
	err = err ? err : measure_threads(bench, &cached);
	cached_close(&cached);
	return err;
}

int bench_registry(struct bench *bench)
{
	static const u32 small[] = { 85, 0 }, large[] = { 64, 1024, 0 };
	int err = run_size(bench, 100u << 10, small);

	err = err ? err : run_size(bench, 1u << 20, large);
	err = err ? err : run_size(bench, 4u << 20, large);
	return err ? err : run_threads(bench);
}

/*
 * ---- kvbm: the benchmark of Dynamo's kvbm-logical in its own shape ----
 *
 * A prefix of 8, 32 or 128 blocks of 4 tokens is matched while another request holds it, or none
 * does, and dropped at once; per call.
 */

#define KVBM_BLOCKS	(64u * 1024)
#define NR_LENS		3u

static const u32 kvbm_lens[NR_LENS] = { 8, 32, 128 };

static const struct deed kvbm_deeds[] = {
	{ { "match_inactive_ns", "ns", VS_MUTEX }, do_match, 0, 1 },
	{ { "match_active_ns", "ns", VS_MUTEX }, do_match, 1, 1 },
	{ { "drop_shared_ns", "ns", VS_MUTEX }, do_put, 1, 1 },	/* another has them */
	{ { "bulk_drop_ns", "ns", VS_MUTEX }, do_put, 0, 1 },
};

static int kvbm_turn(struct bench *bench, void *cached)
{
	int err = 0;

	for (u32 l = 0; !err && l < NR_LENS; l++)
		err = measure_deeds(cached, kvbm_lens[l], kvbm_deeds, ARRAY_SIZE(kvbm_deeds),
				    &bench->series[l * ARRAY_SIZE(kvbm_deeds)]);
	return err;
}

static int kvbm_policy(struct bench *bench, const char *policy)
{
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = KVBM_BLOCKS,
				       .block_tokens = 4, .policy = policy };
	struct cached cached;
	char params[80];
	int err = cached_open(&cached, &attr, KVBM_BLOCKS, kvbm_lens[NR_LENS - 1], bench->seed);

	for (u32 l = 0; l < NR_LENS; l++) {
		snprintf(params, sizeof(params), "policy=%s blocks=%u", policy, kvbm_lens[l]);
		deed_series(bench, kvbm_deeds, ARRAY_SIZE(kvbm_deeds), params);
	}
	err = err ? err : cached_fill(&cached);
	err = err ? err : bench_turns(bench, kvbm_turn, &cached);
	cached_close(&cached);
	return err;
}

int bench_kvbm(struct bench *bench)
{
	return bench_policies(bench, kvbm_policy);
}

/*
 * ---- evict: 64 of many, by policy and by how many blocks it may choose from ----
 *
 * All blocks of a pool are cached and unreferenced, each a prompt of its own: as many leaves, put
 * back in random order, the worst for the caches of the processor. 64 new ones are taken, which
 * evicts 64: victims are chosen, their names forgotten, their entries made new. Then these are
 * named and put back, which is not timed: put back as the last ones, so time goes through the whole
 * pool, and what is evicted has long left those caches.
 */

static int evict_turn(struct bench *bench, void *arg)
{
	struct cached fresh = *(struct cached *)arg;	/* the first ones, each time */
	double value[NR_VALUES];
	int err = 0;

	fresh.nr = BATCH;
	for (u32 i = 0; !err && i < NR_VALUES; i++) {
		kvmm_mut_t *muts = (kvmm_mut_t *)fresh.refs;
		double begin;

		/* All that the order has not heard of yet, it hears of here. */
		err = kvmm_alloc(fresh.pool, 0, muts);
		begin = bench_thread_ns();
		err = err ? err : kvmm_alloc(fresh.pool, BATCH, muts);
		value[i] = (bench_thread_ns() - begin) / BATCH;
		random_keys(fresh.keys, BATCH, &fresh.seed);
		err = err ? err : cached_fill(&fresh);
	}
	((struct cached *)arg)->seed = fresh.seed;
	series_add(&bench->series[bench->nr_series - 1], median_of(value, NR_VALUES));
	return err;
}

static int evict_policy(struct bench *bench, const char *policy)
{
	static const struct metric metric[] = { { "evict_block_ns", "ns", VS_MUTEX } };
	static const u32 sizes[] = { 5000, 20000, 50000, 1000000 };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .policy = policy };
	struct cached cached;
	int err = 0;

	for (size_t i = 0; !err && i < ARRAY_SIZE(sizes); i++) {
		attr.nr_blocks = sizes[i] / BATCH * BATCH;
		err = cached_open(&cached, &attr, attr.nr_blocks, 1, bench->seed);
		err = err ? err : cached_fill(&cached);
		bench_set(bench, SET(metric), "policy=%s leaves=%u", policy, sizes[i]);
		err = err ? err : bench_runs(bench, evict_turn, &cached);
		cached_close(&cached);
	}
	bench_report(bench);
	return err;
}

int bench_evict(struct bench *bench)
{
	return bench_policies(bench, evict_policy);
}

/*
 * ---- touch: say that blocks were used, on the path of a hit ----
 *
 * Requests hold blocks, 64 each, and touch all of theirs in one call. "path" is what the caller's
 * thread does: a mark in each entry and notes in the log of the order. "all" is with the order
 * hearing of it, which happens in the thread that evicts next: an allocation of no block, after
 * each eighth call, applies the log before it is full.
 */

#define TOUCH_BLOCKS	4096u
#define CALLS_A_LOG	7u	/* fewer notes than fit */

/* As many calls as the log has room for. */
static int touch(struct cached *cached, u32 *next)
{
	int err = 0;

	for (u32 i = 0; !err && i < CALLS_A_LOG; i++, *next = (*next + BATCH) % TOUCH_BLOCKS)
		err = kvmm_touch_many(cached->pool, cached->refs + *next, BATCH);
	return err;
}

static int touch_turn(struct bench *bench, void *arg)
{
	double on_path[NR_VALUES], with_order[NR_VALUES];
	struct series *series = &bench->series[bench->nr_series - 2];
	struct cached *cached = arg;
	kvmm_mut_t none;
	int err = kvmm_alloc(cached->pool, 0, &none);
	u32 next = 0;

	for (u32 i = 0; !err && i < NR_VALUES; i++) {
		u64 begin = now_ns(), middle;

		err = touch(cached, &next);
		middle = now_ns();
		err = err ? err : kvmm_alloc(cached->pool, 0, &none);
		on_path[i] = (double)(middle - begin) / (CALLS_A_LOG * BATCH);
		with_order[i] = (double)(now_ns() - begin) / (CALLS_A_LOG * BATCH);
	}
	series_add(&series[0], median_of(on_path, NR_VALUES));
	series_add(&series[1], median_of(with_order, NR_VALUES));
	return err;
}

int bench_touch(struct bench *bench)
{
	static const struct metric metric[] = { { "touch_ns", "ns/blk", VS_MUTEX } };
	static const char *const policies[] = { "lru", "lrfu", "slru" };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = 2 * TOUCH_BLOCKS };
	struct cached cached;
	int err = 0;

	for (size_t i = 0; !err && i < ARRAY_SIZE(policies); i++) {
		attr.policy = policies[i];
		for (u32 all = 0; all < 2; all++)
			bench_set(bench, SET(metric), "policy=%s part=%s", policies[i],
				  all ? "all" : "path");
		err = cached_open(&cached, &attr, TOUCH_BLOCKS, BATCH, bench->seed);
		err = err ? err : cached_register(&cached, 0, TOUCH_BLOCKS);
		err = err ? err : bench_runs(bench, touch_turn, &cached);
		cached_close(&cached);
	}
	bench_report(bench);
	return err;
}

/*
 * ---- blockpool: the cycle of a caching block pool ----
 *
 * Requests of 85 blocks on 100 Ki blocks, nine tenths of them referenced, so that each new block is
 * an evicted one. A second request with the same prompt comes and goes, then a new prompt takes the
 * place of both.
 */

#define POOL_BLOCKS	(100u * 1024)
#define REQUEST		85u
#define LIVE_BLOCKS	(POOL_BLOCKS * 9 / 10 / REQUEST * REQUEST)

/* What the prompt's first request holds. */
static kvmm_ref_t *refs_of(const struct slice *slice, u32 i)
{
	return &slice->cached->refs[slice->prompt[i] * slice->len];
}

static int acquire(const struct slice *slice, u32 i, kvmm_ref_t *hits, u32 nr_hits)
{
	kvmm_mut_t fresh[REQUEST];
	struct kvmm_acquire_args want = {
		.keys = keys_of(slice, i), .nr_keys = REQUEST, .max_hits = REQUEST,
		.nr_blocks = REQUEST, .hits = hits, .fresh = fresh,
	};
	int err = kvmm_acquire(slice->cached->pool, &want);

	memcpy(hits + want.nr_hits, fresh, want.nr_fresh * sizeof(*fresh));
	return err || want.nr_hits != nr_hits;
}

static int do_acquire_hit(const struct slice *slice, u32 i, kvmm_ref_t *refs)
{
	return acquire(slice, i, refs, REQUEST);
}

static int do_put_last(const struct slice *slice, u32 i, kvmm_ref_t *refs)
{
	return kvmm_put_many(slice->cached->pool, refs_of(slice, i), REQUEST);
}

static int do_new_keys(const struct slice *slice, u32 i, kvmm_ref_t *refs)
{
	struct cached *cached = slice->cached;

	random_keys(&cached->keys[slice->prompt[i] * REQUEST], REQUEST, &cached->seed);
	return 0;
}

static int do_acquire_new(const struct slice *slice, u32 i, kvmm_ref_t *refs)
{
	return acquire(slice, i, refs_of(slice, i), 0);
}

static int do_register(const struct slice *slice, u32 i, kvmm_ref_t *refs)
{
	return cached_register(slice->cached, slice->prompt[i] * REQUEST, REQUEST);
}

static const struct deed cycle_deeds[] = {
	{ { "match_len_ns", "ns/blk", VS_MUTEX }, do_length, 1, 0 },
	{ { "acquire_hit_ns", "ns/blk", VS_MUTEX }, do_acquire_hit, 1, 0 },	/* all hit */
	{ { "touch_ns", "ns/blk", VS_MUTEX }, do_touch, 1, 0 },
	{ { "put_shared_ns", "ns/blk", VS_MUTEX }, do_put, 1, 0 },	/* others hold them */
	{ { "put_last_ns", "ns/blk", VS_MUTEX }, do_put_last, 0, 0 },	/* evictable now */
	{ { NULL, NULL, ALONE }, do_new_keys, 0, 0 },
	{ { "acquire_new_ns", "ns/blk", VS_MUTEX }, do_acquire_new, 0, 0 },	/* evicts */
	{ { "register_ns", "ns/blk", VS_MUTEX }, do_register, 0, 0 },
};

/* All of them together: a request comes, is shared, goes. */
static int cycle_turn(struct bench *bench, void *cached)
{
	int err = measure_deeds(cached, REQUEST, cycle_deeds, ARRAY_SIZE(cycle_deeds),
				bench->series);
	struct series *last = &bench->series[bench->nr_series - 1];
	double sum = 0;

	for (struct series *s = bench->series; s < last; s++)
		sum += s->value[bench->run];
	series_add(last, sum);
	return err;
}

static int blockpool_policy(struct bench *bench, const char *policy)
{
	static const struct metric cycle = { "cycle_ns", "ns/blk", VS_MUTEX };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = POOL_BLOCKS + 1,
				       .policy = policy, .flags = KVMM_POOL_NULL_BLOCK };
	struct cached cached;
	char params[80];
	int err = cached_open(&cached, &attr, LIVE_BLOCKS, REQUEST, bench->seed);

	err = err ? err : cached_register(&cached, 0, LIVE_BLOCKS);
	/* For nothing, until all other blocks are cached: from then on each new one is evicted. */
	err = err ? err : measure_deeds(&cached, REQUEST, cycle_deeds, ARRAY_SIZE(cycle_deeds),
					NULL);
	snprintf(params, sizeof(params), "policy=%s nr=%u request=%u load=90", policy, POOL_BLOCKS,
		 REQUEST);
	deed_series(bench, cycle_deeds, ARRAY_SIZE(cycle_deeds), params);
	bench_set(bench, &cycle, 1, "%s", params);
	err = err ? err : bench_turns(bench, cycle_turn, &cached);
	cached_close(&cached);
	return err;
}

int bench_blockpool(struct bench *bench)
{
	return bench_policies(bench, blockpool_policy);
}
