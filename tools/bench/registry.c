// SPDX-License-Identifier: Apache-2.0
/*
 * Finding cached blocks: prefixes matched, references taken, dropped and upgraded, blocks named.
 *
 * Prompts have keys of their own, and keys are given to blocks in random order, so a prompt's
 * blocks lie all over the tables: where those are larger than the caches, every block has to be
 * fetched from memory. What is compared with is a pool that finds its blocks by liburcu's hash
 * table, and differs in nothing else.
 *
 * "held" blocks have a reference already. The first reference on a block, and the last, are noted
 * for the order of eviction; that is in the time of who takes and drops them.
 */
#include "pools.h"

#define NR_INDEXES	2u
#define REGISTER_BATCH	64u
#define SLICE_BLOCKS	8192u		/* timed at once */

static const char *const indexes[NR_INDEXES] = { "flat", "lfht" };

/* A pool full of cached blocks. */
struct cached {
	struct kvmm_pool *pool;
	u32 nr;
	u64 seed;
	kvmm_key_t *keys;	/* prompts, one after the other */
	kvmm_ref_t *refs;	/* by key; private blocks before they are registered */
};

/* @nr private blocks in random order. */
static int cached_open(struct cached *cached, const char *index, u32 nr, u64 seed)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	int err;

	*cached = (struct cached){ .nr = nr, .seed = seed };
	attr.nr_blocks = nr;
	attr.policy = "lru";
	attr.index = index;
	attr.flags = KVMM_POOL_PREFIX_CLOSED;
	err = kvmm_pool_create(&attr, &cached->pool);
	if (err)
		return err;
	cached->keys = must_alloc(nr * sizeof(*cached->keys));
	cached->refs = must_alloc(nr * sizeof(*cached->refs));
	random_keys(cached->keys, nr, &seed);
	err = kvmm_alloc(cached->pool, nr, (kvmm_mut_t *)cached->refs);
	shuffle(cached->refs, nr, sizeof(*cached->refs), &cached->seed);
	return err;
}

static void cached_close(struct cached *cached)
{
	kvmm_pool_destroy(cached->pool);
	free(cached->keys);
	free(cached->refs);
}

/* A multiple of REGISTER_BATCH. */
static int cached_register(struct cached *cached, u32 first, u32 nr)
{
	int err = 0;

	for (u32 i = first; !err && i < first + nr; i += REGISTER_BATCH)
		err = kvmm_register(cached->pool, (kvmm_mut_t *)&cached->refs[i], &cached->keys[i],
				    REGISTER_BATCH, &cached->refs[i]);
	return err;
}

/* Registered, and nobody's. */
static int cached_fill(struct cached *cached, const char *index, u32 nr, u64 seed)
{
	int err = cached_open(cached, index, nr, seed);

	err = err ? err : cached_register(cached, 0, nr);
	return err ? err : kvmm_put_many(cached->pool, cached->refs, nr);
}

/* ---- what is done with a prompt; 0, or it went wrong ---- */

struct slice {
	struct cached *cached;
	u32 len;			/* of a prompt */
	u32 nr;				/* prompts */
	u32 prompt[SLICE_BLOCKS];	/* random ones */
	kvmm_ref_t refs[SLICE_BLOCKS];
	struct cached *all;		/* by index */
	struct series *series[NR_INDEXES];
};

static int do_match(struct slice *slice, u32 i)
{
	const kvmm_key_t *keys = &slice->cached->keys[slice->prompt[i] * slice->len];

	return kvmm_match(slice->cached->pool, keys, slice->len, &slice->refs[i * slice->len]) !=
	       (int)slice->len;
}

static int do_length(struct slice *slice, u32 i)
{
	const kvmm_key_t *keys = &slice->cached->keys[slice->prompt[i] * slice->len];

	return kvmm_match_len(slice->cached->pool, keys, slice->len) != (int)slice->len;
}

static int do_touch(struct slice *slice, u32 i)
{
	return kvmm_touch_many(slice->cached->pool, &slice->refs[i * slice->len], slice->len);
}

static int do_put(struct slice *slice, u32 i)
{
	return kvmm_put_many(slice->cached->pool, &slice->refs[i * slice->len], slice->len);
}

static int do_upgrade(struct slice *slice, u32 i)
{
	kvmm_ref_t *refs = &slice->refs[i * slice->len];

	/* A weak reference is the same handle. */
	return kvmm_upgrade_many(slice->cached->pool, (const kvmm_weak_t *)refs, slice->len,
				 refs) != (int)slice->len;
}

/* Nanoseconds a block; microseconds a prompt for the length. */
static const struct metric deed_metrics[] = {
	{ "length_us", "us", ALONE }, { "match_ns", "ns/blk", ALONE },
	{ "touch_ns", "ns/blk", ALONE },
	{ "put_ns", "ns/blk", ALONE }, { "upgrade_ns", "ns/blk", ALONE },
};

/* The last one only undoes the one before. */
static int (*const deeds[])(struct slice *slice, u32 i) = {
	do_length, do_match, do_touch, do_put, do_upgrade, do_put,
};

#define NR_METRICS	ARRAY_SIZE(deed_metrics)
#define NR_DEEDS	ARRAY_SIZE(deeds)
#define NR_SLICES	32u

static double time_deed(struct slice *slice, u32 deed, int *err)
{
	u64 begin = now_ns();
	double ns;

	for (u32 i = 0; i < slice->nr; i++)
		*err |= deeds[deed](slice, i);
	ns = now_ns() - begin;
	return deed ? ns / slice->nr / slice->len : ns / slice->nr / 1000;
}

/* The median of the slices of each deed: one in which the thread lost its core says nothing. */
static int measure_deeds(struct slice *slice, struct series *series)
{
	double value[NR_DEEDS][NR_SLICES];
	struct cached *cached = slice->cached;
	int err = 0;

	slice->nr = SLICE_BLOCKS / slice->len;
	for (u32 s = 0; s < NR_SLICES; s++) {
		for (u32 i = 0; i < slice->nr; i++)
			slice->prompt[i] = rng_below(&cached->seed, cached->nr / slice->len);
		for (u32 d = 0; d < NR_DEEDS; d++)
			value[d][s] = time_deed(slice, d, &err);
	}
	for (size_t d = 0; series && d < NR_METRICS; d++)
		series_add(&series[d], median_of(value[d], NR_SLICES));
	return err ? -EUCLEAN : 0;
}

static int deeds_turn(struct bench *bench, void *arg)
{
	struct slice *slice = arg;
	int err = 0;

	/* In the first run once for nothing: memory, caches, clock. */
	for (u32 counts = bench->run != 0; !err && counts < 2; counts++)
		for (u32 x = 0; !err && x < NR_INDEXES; x++) {
			slice->cached = &slice->all[x];
			err = measure_deeds(slice, counts ? slice->series[x] : NULL);
		}
	return err;
}

/* ---- sizes ---- */

static int run_prompts(struct bench *bench, struct cached *cached, u32 len, bool held)
{
	static struct slice slice;

	slice = (struct slice){ .all = cached, .len = len };
	for (u32 x = 0; x < NR_INDEXES; x++)
		slice.series[x] = bench_set(bench, SET(deed_metrics),
					    "index=%s entries=%u blocks=%u held=%u", indexes[x],
					    cached->nr, len, held);
	for (size_t d = 0; d < NR_METRICS; d++)
		series_against(&slice.series[0][d], indexes[1], &slice.series[1][d]);
	return bench_turns(bench, deeds_turn, &slice);
}

/* Everything gets a holder. */
static int hold_all(struct cached *cached)
{
	int nr = kvmm_upgrade_many(cached->pool, (const kvmm_weak_t *)cached->refs, cached->nr,
				   cached->refs);

	return nr == (int)cached->nr ? 0 : -EUCLEAN;
}

static int run_lens(struct bench *bench, struct cached *cached, const u32 *lens, bool held)
{
	int err = 0;

	for (u32 x = 0; held && !err && x < NR_INDEXES; x++)
		err = hold_all(&cached[x]);
	for (; !err && *lens; lens++)
		err = run_prompts(bench, cached, *lens, held);
	return err;
}

static int run_size(struct bench *bench, u32 nr, const u32 *lens)
{
	struct cached cached[NR_INDEXES] = { { 0 } };
	int err = 0;

	for (u32 x = 0; !err && x < NR_INDEXES; x++)
		err = cached_fill(&cached[x], indexes[x], nr, bench->seed);
	err = err ? err : run_lens(bench, cached, lens, false);
	err = err ? err : run_lens(bench, cached, lens, true);
	for (u32 x = 0; x < NR_INDEXES; x++)
		cached_close(&cached[x]);
	return err;
}

/* ---- naming: each block once ---- */

#define NAME_BLOCKS	(1u << 20)
#define NAME_SLICES	(NAME_BLOCKS / 4 * 3 / SLICE_BLOCKS)

/* Three quarters of a pool of which the first is there; the median of the slices. */
static int time_slices(struct cached *cached, double *ns)
{
	double value[NAME_SLICES];
	int err = cached_register(cached, 0, NAME_BLOCKS / 4);

	for (u32 s = 0; !err && s < NAME_SLICES; s++) {
		u64 begin = now_ns();

		err = cached_register(cached, NAME_BLOCKS / 4 + s * SLICE_BLOCKS, SLICE_BLOCKS);
		value[s] = (double)(now_ns() - begin) / SLICE_BLOCKS;
	}
	*ns = err ? 0 : median_of(value, NAME_SLICES);
	return err;
}

static int naming_turn(struct bench *bench, void *unused)
{
	int err = 0;

	for (u32 x = 0; !err && x < NR_INDEXES; x++) {
		struct cached cached;
		double ns;

		err = cached_open(&cached, indexes[x], NAME_BLOCKS, bench->seed);
		err = err ? err : time_slices(&cached, &ns);
		if (!err)
			series_add(&bench->series[x], ns);
		cached_close(&cached);
	}
	return err;
}

static int run_naming(struct bench *bench)
{
	static const struct metric metric[] = { { "register_ns", "ns/blk", ALONE } };

	for (u32 x = 0; x < NR_INDEXES; x++)
		bench_set(bench, SET(metric), "index=%s entries=%u batch=%u", indexes[x],
			  NAME_BLOCKS,
			  REGISTER_BATCH);
	series_against(&bench->series[0], indexes[1], &bench->series[1]);
	return bench_turns(bench, naming_turn, NULL);
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
static int threads_turn(struct bench *bench, void *cached)
{
	int err = 0;

	for (size_t r = 0; !err && r < ARRAY_SIZE(rows); r++) {
		struct peer peer[2] = { { cached, 1, rows[r].held, false },
					{ cached, 2, rows[r].held, false } };
		struct worker workers[2] = {
			{ .step = read_step, .arg = &peer[0], .nr = MT_PROMPT, .on_core = true },
			{ .step = rows[r].other, .arg = &peer[1], .nr = MT_PROMPT,
			  .on_core = true },
		};

		err = bench_beside(workers, rows[r].other ? 2 : 1, MT_NS);
		series_add(&bench->series[r], workers[0].rate +
			   (rows[r].other == read_step ? workers[1].rate : 0));
		if (peer[0].wrong || peer[1].wrong)
			err = -EUCLEAN;
	}
	return err;
}

static int run_threads(struct bench *bench)
{
	static const struct metric metric[] = { { "match_put_rate", "M/s", ALONE } };
	struct cached cached;
	int err;

	if (!bench_has_two_cores(bench, "two threads"))
		return 0;
	for (size_t r = 0; r < ARRAY_SIZE(rows); r++) {
		bench_set(bench, SET(metric), "index=flat entries=%u %s", MT_ENTRIES, rows[r].what);
		if (r % 3)
			series_against(&bench->series[r], "one reader", &bench->series[r / 3 * 3]);
	}
	err = cached_open(&cached, indexes[0], MT_ENTRIES, bench->seed);
	err = err ? err : cached_register(&cached, 0, MT_ENTRIES);
	/* The first quarter stays held. */
	err = err ? err : kvmm_put_many(cached.pool, cached.refs + MT_ENTRIES / 4,
					MT_ENTRIES / 4 * 3);
	err = err ? err : bench_turns(bench, threads_turn, &cached);
	cached_close(&cached);
	return err;
}

int bench_registry(struct bench *bench)
{
	static const u32 small[] = { 85, 0 }, large[] = { 64, 1024, 0 };
	int err = run_size(bench, 100u << 10, small);

	err = err ? err : run_size(bench, 1u << 20, large);
	err = err ? err : run_size(bench, 4u << 20, large);
	err = err ? err : run_naming(bench);
	return err ? err : run_threads(bench);
}
