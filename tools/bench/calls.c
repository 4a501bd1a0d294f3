// SPDX-License-Identifier: Apache-2.0
/*
 * What single calls cost, each beside an uncontended mutex: statistics and maps of a pool in pieces
 * (overhead), keys of a prompt (keys), requests with and without watermarks (door), single blocks
 * by the batch (alloc-batch), single private blocks with magazines and without (magazine).
 */
#include "pools.h"

/* ---- overhead: what looking costs ---- */

#define MAP_WIDTH	100u

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
static struct kvmm_zone_stat zone_stat;
static struct kvmm_range_info range_info;
static struct kvmm_extent extents[KVMM_MAX_RUNS];
static u64 order_counts[KVMM_NR_MOBILITY * KVMM_NR_ORDERS];
static char map[MAP_WIDTH + 1];

LOOK(pool_stat, kvmm_pool_get_stat(s->pool, &pool_stat))
LOOK(zone_stat, kvmm_zone_get_stat(kvmm_pool_zone(s->pool), &zone_stat))
LOOK(unusable, kvmm_zone_unusable(kvmm_pool_zone(s->pool), 1 + i % 32))
LOOK(fragmentation, kvmm_zone_fragmentation(kvmm_pool_zone(s->pool), 1 + i % 32))
LOOK(extents, kvmm_range_extents(s->pool, SOME_RANGE, extents, KVMM_MAX_RUNS))
LOOK(info, kvmm_range_get_info(s->pool, SOME_RANGE, &range_info))
LOOK(buddyinfo, kvmm_zone_buddyinfo(kvmm_pool_zone(s->pool), order_counts))
LOOK(map, kvmm_pool_map(s->pool, map, MAP_WIDTH))
LOOK(validate, kvmm_validate(s->pool))

/* @nr a slice; those that walk the pool get 1. */
static const struct look {
	struct metric metric;
	step_fn *step;
	u32 nr;
} looks[] = {
	{ { "pool_stat_ns", "ns", VS_MUTEX }, pool_stat_step, 1024 },
	{ { "zone_stat_ns", "ns", VS_MUTEX }, zone_stat_step, 1024 },
	{ { "unusable_ns", "ns", VS_MUTEX }, unusable_step, 1024 },
	{ { "fragmentation_ns", "ns", VS_MUTEX }, fragmentation_step, 1024 },
	{ { "range_extents_ns", "ns", VS_MUTEX }, extents_step, 1024 },
	{ { "range_info_ns", "ns", VS_MUTEX }, info_step, 1024 },
	{ { "buddyinfo_ns", "ns", VS_MUTEX }, buddyinfo_step, 1 },
	{ { "pool_map_ns", "ns", VS_MUTEX }, map_step, 1 },
	{ { "validate_ns", "ns", VS_MUTEX }, validate_step, 1 },
	{ { "metadata", "B/block", ALONE }, NULL, 0 },
};

static int overhead_turn(struct bench *bench, void *s)
{
	struct series *series = bench->series;

	for (size_t i = 0; looks[i].step; i++, series++)
		series_add(series, step_ns(looks[i].step, s, looks[i].nr));
	series_add(series, (double)pool_stat.metadata_bytes / pool_stat.nr_blocks);
	return 0;
}

int bench_overhead(struct bench *bench)
{
	static const u32 sizes[] = { 1u << 14, 1u << 18, 1u << 20 };
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct scattered s;
	int err = 0;

	for (size_t i = 0; !err && i < ARRAY_SIZE(sizes); i++) {
		attr.policy = NULL;
		attr.nr_blocks = sizes[i];
		err = scatter_open(&s, &attr, 32, bench->seed);
		if (err)
			return err;
		for (size_t k = 0; k < ARRAY_SIZE(looks); k++)
			bench_set(bench, &looks[k].metric, 1, "nr=%u", attr.nr_blocks);
		err = bench_turns(bench, overhead_turn, &s);
		scatter_close(&s);
	}
	return err;
}

/*
 * ---- keys: the names of a prompt, for each algorithm, and a context ----
 *
 * Token ids are drawn from a vocabulary of 128 Ki, so that in CBOR most take five bytes and some
 * three, in no foreseeable order.
 */

#define KEYS		85u		/* blocks of the mean prompt of a chat */
#define MAX_TOKENS	(64 * KEYS)
#define VOCABULARY	131072u
#define MAX_ALGOS	8u

struct prompt {
	struct kvmm_key_attr attr;
	struct kvmm_key_ctx *ctx;
	struct kvmm_key_seq seq;
	u32 tokens[MAX_TOKENS];
	kvmm_key_t keys[KEYS];
	struct series *cost;
};

struct prompts {
	struct prompt of[MAX_ALGOS];
	u32 nr;
};

static void chain_step(void *arg, u32 nr)
{
	struct prompt *p = arg;

	for (u32 i = 0; i < nr; i += KEYS)
		kvmm_key_chain(p->ctx, &p->seq, p->keys, KEYS);
}

/* Each token that is generated fills a block once in 16 steps: one key, its parent known. */
static void block_step(void *arg, u32 nr)
{
	struct prompt *p = arg;
	u32 block_tokens = p->attr.block_tokens, at = 0;

	for (u32 i = 0; i < nr; i++, at = (at + 1) % KEYS)
		kvmm_key_block(p->ctx, p->keys, p->tokens + at * block_tokens, block_tokens,
			       p->keys);
}

static void ctx_step(void *arg, u32 nr)
{
	struct prompt *p = arg;
	struct kvmm_key_ctx *ctx;

	for (u32 i = 0; i < nr; i++) {
		if (!kvmm_key_ctx_create(&p->attr, &ctx))
			kvmm_key_ctx_destroy(ctx);
	}
}

static int prompt_init(struct prompt *p, const char *algo, u32 block_tokens, u64 seed)
{
	p->attr = (struct kvmm_key_attr)KVMM_KEY_ATTR_INIT;
	p->attr.algo = algo;
	p->attr.block_tokens = block_tokens;
	if (strncmp(algo, "vllm", 4)) {
		memcpy(p->attr.secret, &seed, sizeof(seed));
		p->attr.secret[15] = 1;
		p->attr.tenant = (struct kvmm_key_bytes){ "tenant", 6 };
	} else {
		p->attr.vllm_seed = (struct kvmm_key_bytes){ "0", 1 };
	}
	for (u32 i = 0; i < MAX_TOKENS; i++)
		p->tokens[i] = rng_below(&seed, VOCABULARY);
	p->seq = (struct kvmm_key_seq)KVMM_KEY_SEQ_INIT;
	p->seq.tokens = p->tokens;
	p->seq.nr_tokens = block_tokens * KEYS;
	return kvmm_key_ctx_create(&p->attr, &p->ctx);
}

static int keys_turn(struct bench *bench, void *arg)
{
	struct prompts *prompts = arg;

	for (u32 i = 0; i < prompts->nr; i++) {
		struct prompt *p = &prompts->of[i];

		series_add(&p->cost[0], step_ns(chain_step, p, 16 * KEYS));
		/*
		 * vLLM's format wants a digest for a parent: what is timed there would be an error.
		 */
		if (!p->attr.vllm_seed.data)
			series_add(&p->cost[1], step_ns(block_step, p, 16 * KEYS));
		series_add(&p->cost[2], step_ns(ctx_step, p, 256));
	}
	return 0;
}

int bench_keys(struct bench *bench)
{
	static const struct metric costs[] = {
		{ "chain_block_ns", "ns", VS_MUTEX }, { "block_ns", "ns", VS_MUTEX },
		{ "ctx_ns", "ns", VS_MUTEX },
	};
	static struct prompts prompts;
	const char *algos[MAX_ALGOS];
	u32 nr = kvmm_key_algos(algos, MAX_ALGOS);
	int err = 0;

	for (u32 block_tokens = 16; !err && block_tokens <= 64; block_tokens += 48) {
		prompts.nr = 0;
		while (!err && prompts.nr < nr && prompts.nr < MAX_ALGOS) {
			struct prompt *p = &prompts.of[prompts.nr];

			err = prompt_init(p, algos[prompts.nr], block_tokens, bench->seed);
			p->cost = bench_set(bench, SET(costs), "algo=%s block_tokens=%u",
					    p->attr.algo,
					    block_tokens);
			prompts.nr += !err;
		}
		err = err ? err : bench_turns(bench, keys_turn, &prompts);
		while (prompts.nr)
			kvmm_key_ctx_destroy(prompts.of[--prompts.nr].ctx);
	}
	return err;
}

/*
 * ---- door: what watermarks, promises and the long form of a request add to a pair of calls ----
 *
 * With all of it off the short calls look at one word; that is what "off" is to stay at.
 */

#define DOOR_BLOCKS	4096u
#define DOOR_BATCH	128u	/* too many for a thread to keep aside */

static void range_step(void *arg, u32 nr)
{
	kvmm_range_t range;

	for (u32 i = 0; i < nr; i++) {
		kvmm_range_alloc(arg, 8, 0, &range);
		kvmm_range_free(arg, range);
	}
}

static void door_batch_step(void *arg, u32 nr)
{
	kvmm_mut_t mut[DOOR_BATCH];

	for (u32 i = 0; i < nr; i++) {
		kvmm_alloc(arg, DOOR_BATCH, mut);
		kvmm_free(arg, mut, DOOR_BATCH);
	}
}

static void ctl_step(void *arg, u32 nr)
{
	struct kvmm_alloc_ctl ctl = { .size = sizeof(ctl), .nr = DOOR_BATCH };
	kvmm_mut_t mut[DOOR_BATCH];

	for (u32 i = 0; i < nr; i++) {
		kvmm_alloc_as(arg, &ctl, mut);
		kvmm_free(arg, mut, DOOR_BATCH);
	}
}

static const struct door_row {
	const char *call;
	step_fn *step;
	bool guarded;
	u32 nr;
} door_rows[] = {
	{ "range", range_step, false, 4096 },
	{ "range", range_step, true, 4096 },
	{ "alloc", door_batch_step, false, 256 },
	{ "alloc", door_batch_step, true, 256 },
	{ "alloc_ctl", ctl_step, false, 256 },
};

static int door_turn(struct bench *bench, void *arg)
{
	struct kvmm_pool **pool = arg;

	for (size_t i = 0; i < ARRAY_SIZE(door_rows); i++)
		series_add(&bench->series[i], step_ns(door_rows[i].step, pool[door_rows[i].guarded],
						      door_rows[i].nr));
	return 0;
}

int bench_door(struct bench *bench)
{
	static const struct metric metric[] = { { "pair_ns", "ns", VS_MUTEX } };
	struct kvmm_alloc_attr marks = { .size = sizeof(marks), .marks = { 16, 64, 128 } };
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = DOOR_BLOCKS,
				       .policy = "lru" };
	struct kvmm_pool *pool[2] = { NULL };
	int err = open_pool(&pool[0], DOOR_BLOCKS, "lru", 0);

	attr.alloc = &marks;
	err = err ? err : kvmm_pool_create(&attr, &pool[1]);
	for (size_t i = 0; i < ARRAY_SIZE(door_rows); i++)
		bench_set(bench, SET(metric), "call=%s marks=%s", door_rows[i].call,
			  door_rows[i].guarded ? "on" : "off");
	err = err ? err : bench_turns(bench, door_turn, pool);
	kvmm_pool_destroy(pool[0]);
	kvmm_pool_destroy(pool[1]);
	return err;
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
	struct kvmm_zone *zone;
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

		kvmm_zone_free_many(b->zone, ids, b->batch);
		kvmm_zone_alloc_many(b->zone, b->batch, ids);
	}
}

static void single_step(void *arg, u32 nr)
{
	struct batches *b = arg;

	for (u32 i = 0; i < nr; i += b->batch) {
		u32 *ids = some_group(b);

		for (u32 k = 0; k < b->batch; k++)
			kvmm_zone_free(b->zone, ids[k], 1);
		for (u32 k = 0; k < b->batch; k++)
			kvmm_zone_alloc(b->zone, 1, &ids[k]);
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
		err = kvmm_zone_alloc_many(b->zone, batch, &b->ids[g * batch]);
	return err;
}

static int batches_turn(struct bench *bench, void *arg)
{
	struct batches *b = arg;
	double many = step_ns(batch_step, &b[0], SLICE_BLOCKS);

	series_add_all(bench->series, (double[]){
		many, many * b->batch, step_ns(single_step, &b[1], SLICE_BLOCKS) }, 3);
	return 0;
}

int bench_alloc_batch(struct bench *bench)
{
	static const struct metric metrics[] = {
		{ "block_ns", "ns", "one_by_one", 2 }, { "batch_ns", "ns", VS_MUTEX },
		{ "single_block_ns", "ns", VS_MUTEX },
	};
	int err = 0;

	for (u32 batch = 1; !err && batch <= 512; batch *= 8) {
		struct batches b[2] = { { .ids = NULL } };

		for (u32 i = 0; !err && i < 2; i++)
			err = batches_open(&b[i], batch, bench->seed);
		bench_set(bench, SET(metrics), "batch=%u nr=%u load=%u", batch, BATCH_BLOCKS,
			  BATCH_LOAD);
		err = err ? err : bench_turns(bench, batches_turn, b);
		for (u32 i = 0; i < 2; i++) {
			kvmm_zone_destroy(b[i].zone);
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
	u64 seed;
} __attribute__((aligned(128)));

static void pair_step(void *arg, u32 nr)
{
	struct work *work = arg;
	kvmm_mut_t mut;

	for (u32 i = 0; i < nr; i++) {
		kvmm_alloc(work->pool, 1, &mut);
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
static __attribute__((noinline)) int stack_pop(u32 *id)
{
	if (!stack.nr)
		return -1;
	*id = stack.id[--stack.nr];
	return 0;
}

static __attribute__((noinline)) int stack_push(const u32 *id)
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

/* A pool and what two threads hold of it; or none, for the stack. */
struct side {
	struct kvmm_pool *pool;
	struct work work[2];
	struct series *cost;		/* a pair, and of a pool a random pair and a block */
	struct series *rate[2];		/* of one thread, of two */
};

/* Random pairs, of one thread and of two. */
static int add_rates(struct side *side)
{
	struct worker workers[2];
	int err = 0;

	for (u32 nr = 2; !err && nr; nr--) {
		for (u32 i = 0; i < 2; i++)
			workers[i] = (struct worker){ .step = side->pool ? random_step : stack_step,
						      .arg = &side->work[i], .nr = 4096,
						      .on_core = true };
		err = bench_beside(workers, nr, 30000000);
		series_add(side->rate[nr - 1], workers[0].rate + (nr > 1 ? workers[1].rate : 0));
	}
	return err;
}

static int magazine_turn(struct bench *bench, void *arg)
{
	struct side *sides = arg;
	int err = 0;

	for (u32 i = 0; !err && i < 3; i++) {
		struct side *side = &sides[i];
		struct work *work = &side->work[0];

		series_add(side->cost, step_ns(side->pool ? pair_step : stack_step, work,
					       SLICE_PAIRS));
		if (side->pool) {
			series_add(&side->cost[1], step_ns(random_step, work, SLICE_PAIRS));
			series_add(&side->cost[2], step_ns(mag_batch_step, work, SLICE_PAIRS));
		}
		if (bench_other_cpu() >= 0)
			err = add_rates(side);
	}
	return err;
}

static void side_series(struct bench *bench, struct side *side, const char *name)
{
	static const struct metric pair[] = { { "pair_ns", "ns", VS_MUTEX } },
		random_pair[] = { { "random_pair_ns", "ns", VS_MUTEX } },
		block[] = { { "block_ns", "ns", VS_MUTEX } },
			rate[] = { { "pairs_per_us", "1/us", ALONE } };

	side->cost = bench_set(bench, SET(pair), "pool=%s%s", name, side->pool ? "" : " (stack)");
	if (side->pool) {
		bench_set(bench, SET(random_pair), "pool=%s live=%u", name, NR_LIVE);
		bench_set(bench, SET(block), "pool=%s batch=%u", name, MAX_BATCH);
	}
	for (u32 i = 0; i < 2; i++)
		side->rate[i] = bench_set(bench, SET(rate), "pool=%s threads=%u", name, i + 1);
	series_against(side->rate[1], "one_thread", side->rate[0]);
}

static int side_open(struct bench *bench, struct side *side, const char *name, u32 flags)
{
	int err = open_pool(&side->pool, MAG_BLOCKS, "default", flags);

	for (u32 i = 0; !err && i < 2; i++) {
		side->work[i] = (struct work){ .pool = side->pool, .seed = bench->seed + i };
		err = kvmm_alloc(side->pool, NR_LIVE, side->work[i].live);
	}
	side_series(bench, side, name);
	return err;
}

int bench_magazine(struct bench *bench)
{
	static struct side sides[3];
	int err;

	bench_has_two_cores(bench, "two threads");
	err = side_open(bench, &sides[0], "magazines", 0);
	err = err ? err : side_open(bench, &sides[1], "lock", KVMM_POOL_NO_MAGAZINES);
	/* How much of a second core there is: nothing is shared. */
	side_series(bench, &sides[2], "none");
	err = err ? err : bench_turns(bench, magazine_turn, sides);
	kvmm_pool_destroy(sides[0].pool);
	kvmm_pool_destroy(sides[1].pool);
	return err;
}
