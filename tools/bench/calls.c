// SPDX-License-Identifier: Apache-2.0
/*
 * What single calls cost, each beside an uncontended mutex: statistics and maps of a pool in pieces
 * (overhead), single blocks by the batch (alloc-batch), single private blocks with magazines and
 * without (magazine).
 */
#include <kvmm/ext/admission.h>

#include "../map.h"
#include "churn.h"
#include "pools.h"

/* ---- overhead: what looking costs ---- */

#define LOOK(name, call)						\
	static void name##_step(void *arg, u32 nr)			\
	{								\
		struct scattered *s = arg;				\
									\
		for (u32 i = 0; i < nr; i++)				\
			call;						\
	}

/* Ranges in the order of a shuffle: the next one is not in the cache by chance. */
#define SOME_RANGE	s->ranges[i % s->nr_ranges]

static struct kvmm_pool_stat pool_stat;
static struct kvmm_range_info range_info;
static struct kvmm_extent extents[KVMM_MAX_RUNS];
static char map[101];
static struct kvmm_counts counts;
static u32 total;

LOOK(pool_stat, kvmm_pool_get_stat(s->pool, &pool_stat))
LOOK(extents, kvmm_range_extents(s->pool, SOME_RANGE, extents, KVMM_MAX_RUNS))
LOOK(info, kvmm_range_get_info(s->pool, SOME_RANGE, &range_info))
LOOK(map, pool_map(s->pool, map, sizeof(map) - 1))
LOOK(validate, kvmm_validate(s->pool))
LOOK(available, kvmm_pool_available(s->pool, &total))
LOOK(counts, kvmm_pool_get_counts(s->pool, &counts))
LOOK(peek, kvmm_pool_peek(s->pool, &pool_stat))

/* @nr a slice; those that walk the pool get 1. */
static const struct look {
	struct metric metric;
	step_fn *step;
	u32 nr;
} looks[] = {
	{ { "pool_stat_ns", "ns", VS_MUTEX }, pool_stat_step, 1024 },
	{ { "range_extents_ns", "ns", VS_MUTEX }, extents_step, 1024 },
	{ { "range_info_ns", "ns", VS_MUTEX }, info_step, 1024 },
	{ { "pool_map_ns", "ns", VS_MUTEX }, map_step, 1 },
	{ { "validate_ns", "ns", VS_MUTEX }, validate_step, 1 },
}, asked[] = {
	{ { "available_ns", "ns", VS_MUTEX }, available_step, 1024 },
	{ { "counts_ns", "ns", VS_MUTEX }, counts_step, 1024 },
	{ { "stat_ns", "ns", VS_MUTEX }, pool_stat_step, 1024 },
	{ { "peek_ns", "ns", VS_MUTEX }, peek_step, 16 },
};

/* What an engine asks at each step, of a pool that caches: half of it, once used. */
static int bench_asked(struct bench *bench, u32 nr_blocks)
{
	struct scattered s = { .pool = NULL };
	int err = open_pool(&s.pool, nr_blocks, "default", 0);
	kvmm_key_t key = { { 0 } };
	kvmm_mut_t mut;
	kvmm_ref_t ref;

	for (u32 i = 0; !err && i < nr_blocks / 2; i++) {
		memcpy(key.byte, &i, sizeof(i));
		err = kvmm_alloc(s.pool, 1, &mut);
		err = err ? err : kvmm_register(s.pool, &mut, &key, 1, &ref);
		err = err ? err : kvmm_put(s.pool, ref);
	}
	for (size_t k = 0; !err && k < ARRAY_SIZE(asked); k++)
		bench_step(bench_set(bench, &asked[k].metric, 1, "nr=%u", nr_blocks),
			   asked[k].step, &s, asked[k].nr);
	err = err ? err : bench_rows(bench);
	kvmm_pool_destroy(s.pool);
	return err;
}

int bench_overhead(struct bench *bench)
{
	static const struct metric metadata = { "metadata", "B/block", ALONE };
	static const u32 sizes[] = { 1u << 14, 1u << 18, 1u << 20 };
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct scattered s;
	int err = 0;

	attr.policy = NULL;
	for (size_t i = 0; !err && i < ARRAY_SIZE(sizes); i++) {
		attr.nr_blocks = sizes[i];
		err = scatter_open(&s, &attr, 32, bench->seed);
		if (err)
			return err;
		for (size_t k = 0; k < ARRAY_SIZE(looks); k++)
			bench_step(bench_set(bench, &looks[k].metric, 1, "nr=%u", attr.nr_blocks),
				   looks[k].step, &s, looks[k].nr);
		kvmm_pool_get_stat(s.pool, &pool_stat);
		series_add(bench_set(bench, &metadata, 1, "nr=%u", attr.nr_blocks),
			   (double)pool_stat.metadata_bytes / pool_stat.nr_blocks);
		err = bench_rows(bench);
		scatter_close(&s);
	}
	err = err ? err : bench_asked(bench, 1u << 13);
	return err ? err : bench_asked(bench, 1u << 20);
}

/*
 * ---- alloc-batch: two zones go through the same requests, one in batches, the other, the
 * baseline, one block at a time ----
 */

#define BATCH_BLOCKS	(1u << 18)
#define BATCH_LOAD	90u
#define SLICE_BLOCKS	8192u

/* Groups of @batch ids; group g is at ids[g * batch]. */
struct batches {
	struct kv_zone *zone;
	u32 *ids;
	u32 nr_groups;
	u32 batch;
	u64 seed;
};

static u32 *some_group(struct batches *b)
{
	return &b->ids[rng_below(&b->seed, b->nr_groups) * b->batch];
}

static void batch_step(void *arg, u32 nr)
{
	struct batches *b = arg;

	for (u32 i = 0; i < nr; i += b->batch) {
		u32 *ids = some_group(b);

		kv_zone_free_many(b->zone, ids, b->batch);
		kv_zone_alloc_many(b->zone, b->batch, ids);
	}
}

static void single_step(void *arg, u32 nr)
{
	struct batches *b = arg;

	for (u32 i = 0; i < nr; i += b->batch) {
		u32 *ids = some_group(b);

		for (u32 k = 0; k < b->batch; k++)
			kv_zone_free(b->zone, ids[k], 1);
		for (u32 k = 0; k < b->batch; k++)
			kv_zone_alloc(b->zone, 1, &ids[k]);
	}
}

static int batches_open(struct batches *b, u32 batch, u64 seed)
{
	u32 nr_groups = (u64)BATCH_BLOCKS * BATCH_LOAD / 100 / batch;
	int err = open_zone(&b->zone, BATCH_BLOCKS, NULL);

	b->batch = batch;
	b->seed = seed;
	b->nr_groups = nr_groups;
	b->ids = must_alloc((size_t)nr_groups * batch * sizeof(*b->ids));
	for (u32 g = 0; !err && g < nr_groups; g++)
		err = kv_zone_alloc_many(b->zone, batch, &b->ids[g * batch]);
	return err;
}

int bench_alloc_batch(struct bench *bench)
{
	static const struct metric many = { "block_ns", "ns", ALONE },
		single = { "single_block_ns", "ns", VS_MUTEX };
	int err = 0;

	for (u32 batch = 1; !err && batch <= 512; batch *= 8) {
		struct batches b[2] = { { .ids = NULL } };
		struct series *row;
		char params[60];

		for (u32 i = 0; !err && i < 2; i++)
			err = batches_open(&b[i], batch, bench->seed);
		snprintf(params, sizeof(params), "batch=%u nr=%u load=%u", batch, BATCH_BLOCKS,
			 BATCH_LOAD);
		row = bench_step(bench_set(bench, &many, 1, "%s", params), batch_step, &b[0],
				 SLICE_BLOCKS);
		series_against(row, "one_by_one",
			       bench_step(bench_set(bench, &single, 1, "%s", params), single_step,
					  &b[1], SLICE_BLOCKS));
		err = err ? err : bench_rows(bench);
		for (u32 i = 0; i < 2; i++) {
			kv_zone_destroy(b[i].zone);
			free(b[i].ids);
		}
	}
	return err;
}

/*
 * ---- magazine: single private blocks of a pool, with magazines and without ----
 *
 * Beside a stack of the thread's own, which is the least that any allocator costs; then the same on
 * two threads. Pairs a microsecond are of the time that the thread was on its core: on a machine
 * that others use, too, wall time says how much of a core was left.
 */

#define MAG_BLOCKS	(1u << 16)
#define SLICE_PAIRS	4096u
#define MAX_BATCH	64u
#define NR_LIVE		48u

/* What one thread works on. */
struct work {
	struct kvmm_pool *pool;
	kvmm_mut_t live[NR_LIVE];
	u32 tenant;
	u64 seed;
} __attribute__((aligned(128)));

static void pair_step(void *arg, u32 nr)
{
	struct work *work = arg;
	kvmm_mut_t mut;

	for (u32 i = 0; i < nr; i++) {
		kvmm_alloc_for(work->pool, 1, work->tenant, &mut);
		kvmm_free(work->pool, &mut, 1);
	}
}

/* One of those that are held goes, another comes. */
static void random_step(void *arg, u32 nr)
{
	struct work *work = arg;

	for (u32 i = 0; i < nr; i++) {
		kvmm_mut_t *mut = &work->live[rng_below(&work->seed, NR_LIVE)];

		kvmm_free(work->pool, mut, 1);
		kvmm_alloc(work->pool, 1, mut);
	}
}

static void mag_batch_step(void *arg, u32 nr)
{
	struct work *work = arg;
	kvmm_mut_t muts[MAX_BATCH];

	for (u32 i = 0; i < nr; i += MAX_BATCH) {
		kvmm_alloc(work->pool, MAX_BATCH, muts);
		kvmm_free(work->pool, muts, MAX_BATCH);
	}
}

static __thread struct {
	u32 nr;
	u32 id[MAX_BATCH];
} stack = { .nr = MAX_BATCH };

/* Not inline: nor are the library's calls. */
static noinline int stack_pop(u32 *id)
{
	if (!stack.nr)
		return -1;
	*id = stack.id[--stack.nr];
	return 0;
}

static noinline int stack_push(const u32 *id)
{
	if (stack.nr == MAX_BATCH)
		return -1;
	stack.id[stack.nr++] = *id;
	return 0;
}

static void stack_step(void *arg, u32 nr)
{
	u32 id;

	for (u32 i = 0; i < nr; i++) {
		stack_pop(&id);
		stack_push(&id);
	}
}

/* ---- in states that pools are in ---- */

/* A full cache: blocks are evicted for, named and put, by the batch but for the first call. */
static void turn(struct work *work, u32 nr, u32 a_call)
{
	kvmm_mut_t muts[MAX_BATCH];
	kvmm_ref_t refs[MAX_BATCH];
	kvmm_key_t keys[MAX_BATCH];

	for (u32 i = 0; i < nr; i += MAX_BATCH) {
		for (u32 at = 0; at < MAX_BATCH; at += a_call)
			kvmm_alloc(work->pool, a_call, muts + at);
		random_keys(keys, MAX_BATCH, &work->seed);
		kvmm_register(work->pool, muts, keys, MAX_BATCH, refs);
		kvmm_put_many(work->pool, refs, MAX_BATCH);
	}
}

static void turn_one_step(void *arg, u32 nr)
{
	turn(arg, nr, 1);
}

static void turn_batch_step(void *arg, u32 nr)
{
	turn(arg, nr, MAX_BATCH);
}

/* Watermarks as engines set them: a hundredth, a fiftieth. */
static int open_marked(struct kvmm_pool **pool)
{
	struct kvmm_watermarks marks = { MAG_BLOCKS / 200, MAG_BLOCKS / 100, MAG_BLOCKS / 50 };
	int err = open_pool(pool, MAG_BLOCKS, "default", 0);

	return err ? err : kvmm_watermarks_set(*pool, &marks);
}

static void add_pairs(struct bench *bench, const char *name, struct work *work)
{
	static const struct metric pair = { "pair_ns", "ns", VS_MUTEX };

	bench_step(bench_set(bench, &pair, 1, "pool=%s", name), pair_step, work, SLICE_PAIRS);
}

/* An object of a general allocator: what a program has without an allocator of blocks. */
static void object_step(void *arg, u32 nr)
{
	const struct contender *of = *(const struct contender **)arg;
	void *heap = of->open(of->name, 0);
	u32 word[2];

	for (u32 i = 0; i < nr; i++) {
		of->alloc(heap, 1, word);
		of->free(heap, word, 1);
	}
}

static void add_objects(struct bench *bench)
{
	static const struct metric pair = { "pair_ns", "ns", VS_MUTEX };
	static const char *const names[] = { "jemalloc", "mimalloc" };
	static const struct contender *of[ARRAY_SIZE(names)];

	for (u32 i = 0; i < ARRAY_SIZE(names); i++) {
		of[i] = contender_find(names[i]);
		if (of[i]->open(names[i], 0))
			bench_step(bench_set(bench, &pair, 1, "objects=%s", names[i]), object_step,
				   &of[i], SLICE_PAIRS);
		else
			bench_skip(bench, names[i], "not there");
	}
}

static int bench_states(struct bench *bench)
{
	static const struct metric one = { "turn_ns", "ns/blk", VS_MUTEX };
	static struct work marked, rented, seeded, full;
	struct series *batch;
	int err = open_marked(&marked.pool);

	err = err ? err : open_pool(&seeded.pool, MAG_BLOCKS, "default", KVMM_POOL_DETERMINISTIC);
	err = err ? err : open_pool(&full.pool, MAG_BLOCKS, "default", 0);
	if (!err) {
		turn_batch_step(&full, 2 * MAG_BLOCKS);
		add_pairs(bench, "marks", &marked);
		rented = (struct work){ .pool = marked.pool, .tenant = 1 };
		add_pairs(bench, "marks+tenant", &rented);
		add_pairs(bench, "deterministic", &seeded);
		add_objects(bench);
		batch = bench_step(bench_set(bench, &one, 1, "pool=full alloc=%u", MAX_BATCH),
				   turn_batch_step, &full, SLICE_PAIRS);
		series_against(bench_step(bench_set(bench, &one, 1, "pool=full alloc=1"),
					  turn_one_step, &full, SLICE_PAIRS), "batch", batch);
		err = bench_rows(bench);
	}
	kvmm_pool_destroy(marked.pool);
	kvmm_pool_destroy(seeded.pool);
	kvmm_pool_destroy(full.pool);
	return err;
}

/* What the first of two threads does, in slices; and random pairs of one, and of both. */
static void add_rows(struct bench *bench, const char *name, struct work *work)
{
	static const struct metric pair = { "pair_ns", "ns", VS_MUTEX },
		random_pair = { "random_pair_ns", "ns", VS_MUTEX },
		block = { "block_ns", "ns", VS_MUTEX }, rate = { "pairs_per_us", "1/us", ALONE };
	bool is_pool = work->pool;
	struct series *row[2];
	struct worker workers[2];

	bench_step(bench_set(bench, &pair, 1, "pool=%s%s", name, is_pool ? "" : " (stack)"),
		   is_pool ? pair_step : stack_step, work, SLICE_PAIRS);
	if (is_pool) {
		bench_step(bench_set(bench, &random_pair, 1, "pool=%s live=%u", name, NR_LIVE),
			   random_step, work, SLICE_PAIRS);
		bench_step(bench_set(bench, &block, 1, "pool=%s batch=%u", name, MAX_BATCH),
			   mag_batch_step, work, SLICE_PAIRS);
	}
	for (u32 i = 0; i < 2; i++)
		workers[i] = (struct worker){ .step = is_pool ? random_step : stack_step,
					      .arg = &work[i], .nr = 4096, .window_ns = 30000000,
					      .on_core = true };
	for (u32 i = 0; bench_other_cpu() >= 0 && i < 2; i++)
		row[i] = bench_rate(bench_set(bench, &rate, 1, "pool=%s threads=%u", name, i + 1),
				    workers, i + 1);
	if (bench_other_cpu() >= 0)
		series_against(row[1], "one_thread", row[0]);
}

int bench_magazine(struct bench *bench)
{
	static const char *const names[] = { "magazines", "lock", "none" };
	static struct work work[3][2];	/* of two threads, which share nothing in the last */
	struct kvmm_pool *pool[3] = { NULL };
	int err = open_pool(&pool[0], MAG_BLOCKS, "default", 0);

	bench_has_two_cores(bench, "two threads");
	err = err ? err : open_pool(&pool[1], MAG_BLOCKS, "default", KVMM_POOL_NO_MAGAZINES);
	for (u32 i = 0; !err && i < 3; i++) {
		for (u32 t = 0; t < 2; t++) {
			work[i][t] = (struct work){ .pool = pool[i], .seed = bench->seed + t };
			if (!err && pool[i])
				err = kvmm_alloc(pool[i], NR_LIVE, work[i][t].live);
		}
		add_rows(bench, names[i], work[i]);
	}
	err = err ? err : bench_rows(bench);
	kvmm_pool_destroy(pool[0]);
	kvmm_pool_destroy(pool[1]);
	return err ? err : bench_states(bench);
}
