// SPDX-License-Identifier: Apache-2.0
/*
 * Pools of cached blocks, by policy of eviction: what it costs to evict, to say that blocks were
 * used, to match and to drop them in the shape of Dynamo's benchmark, and the cycle of a caching
 * block pool.
 */
#include "pools.h"

#define NR_VALUES	401u	/* batches, of which the median is a run's value */
#define BATCH		64u

/*
 * ---- evict: 64 of many, by policy and by how many blocks it may choose from ----
 *
 * All blocks of a pool are cached and unreferenced, each a prompt of its own: as many leaves, put
 * back in random order, the worst for the caches of the processor. 64 new ones are taken, which
 * evicts 64: victims are chosen, their names forgotten, their entries made new. Then these are
 * named and put back, which is not timed: put back as the last ones, so time goes through the whole
 * pool, and what is evicted has long left those caches.
 */

#define MAX_LEAVES	1000000u

struct leaves {
	struct kvmm_pool *pool;
	u64 seed;
	kvmm_mut_t muts[BATCH];
	kvmm_ref_t refs[BATCH];
	kvmm_key_t keys[BATCH];
};

/* 64 prompts of one block. */
static int cache_batch(struct leaves *leaves)
{
	int err = 0;

	random_keys(leaves->keys, BATCH, &leaves->seed);
	for (u32 i = 0; !err && i < BATCH; i++)
		err = kvmm_register(leaves->pool, &leaves->muts[i], &leaves->keys[i], 1,
				    &leaves->refs[i]);
	return err ? err : kvmm_put_many(leaves->pool, leaves->refs, BATCH);
}

static int fill_leaves(struct leaves *leaves, u32 nr)
{
	static kvmm_mut_t all[MAX_LEAVES];
	int err = kvmm_alloc(leaves->pool, nr, all);

	shuffle(all, nr, sizeof(*all), &leaves->seed);
	for (u32 i = 0; !err && i < nr; i += BATCH) {
		memcpy(leaves->muts, all + i, sizeof(leaves->muts));
		err = cache_batch(leaves);
	}
	return err;
}

static int evict_turn(struct bench *bench, void *arg)
{
	struct leaves *leaves = arg;
	double value[NR_VALUES];
	int err = 0;

	for (u32 i = 0; !err && i < NR_VALUES; i++) {
		u64 begin;

		/* All that the order has not heard of yet, it hears of here. */
		err = kvmm_alloc(leaves->pool, 0, leaves->muts);
		begin = ticks_begin();
		err = err ? err : kvmm_alloc(leaves->pool, BATCH, leaves->muts);
		value[i] = ticks_ns(ticks_end() - begin, 1) / BATCH;
		err = err ? err : cache_batch(leaves);
	}
	series_add(&bench->series[bench->nr_series - 1], median_of(value, NR_VALUES));
	return err;
}

static int evict_policy(struct bench *bench, const char *policy)
{
	static const struct metric metric[] = { { "evict_block_ns", "ns", VS_MUTEX } };
	static const u32 sizes[] = { 5000, 20000, 50000, MAX_LEAVES };
	static struct leaves leaves;
	int err = 0;

	for (size_t i = 0; !err && i < ARRAY_SIZE(sizes); i++) {
		leaves.seed = bench->seed;
		err = open_pool(&leaves.pool, sizes[i] / BATCH * BATCH, policy, 0);
		err = err ? err : fill_leaves(&leaves, sizes[i] / BATCH * BATCH);
		bench_set(bench, SET(metric), "policy=%s leaves=%u", policy, sizes[i]);
		err = err ? err : bench_runs(bench, evict_turn, &leaves);
		kvmm_pool_destroy(leaves.pool);
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

#define NR_BATCHES	64u
#define CALLS_A_LOG	7u	/* fewer notes than fit */

struct touched {
	struct kvmm_pool *pool;
	kvmm_mut_t muts[NR_BATCHES * BATCH];
	kvmm_ref_t refs[NR_BATCHES * BATCH];
	kvmm_key_t keys[NR_BATCHES * BATCH];
	u32 next;
	struct series *series[2];	/* on the path; with the order */
};

static int open_touched(struct touched *touched, const char *policy, u64 seed)
{
	int err = open_pool(&touched->pool, 2 * NR_BATCHES * BATCH, policy, 0);

	touched->next = 0;
	random_keys(touched->keys, NR_BATCHES * BATCH, &seed);
	err = err ? err : kvmm_alloc(touched->pool, NR_BATCHES * BATCH, touched->muts);
	for (u32 i = 0; !err && i < NR_BATCHES * BATCH; i += BATCH)
		err = kvmm_register(touched->pool, touched->muts + i, touched->keys + i, BATCH,
				    touched->refs + i);
	return err;
}

/* As many calls as the log has room for. */
static int touch(struct touched *touched)
{
	int err = 0;

	for (u32 i = 0; !err && i < CALLS_A_LOG; i++) {
		u32 first = touched->next++ % NR_BATCHES * BATCH;

		err = kvmm_touch_many(touched->pool, touched->refs + first, BATCH);
	}
	return err;
}

static int touch_turn(struct bench *bench, void *arg)
{
	double on_path[NR_VALUES], with_order[NR_VALUES];
	struct touched *touched = arg;
	int err = kvmm_alloc(touched->pool, 0, touched->muts);

	for (u32 i = 0; !err && i < NR_VALUES; i++) {
		u64 begin = ticks_begin(), middle;

		err = touch(touched);
		middle = ticks_end();
		err = err ? err : kvmm_alloc(touched->pool, 0, touched->muts);
		on_path[i] = ticks_ns(middle - begin, 1) / (CALLS_A_LOG * BATCH);
		with_order[i] = ticks_ns(ticks_end() - begin, 1) / (CALLS_A_LOG * BATCH);
	}
	series_add(touched->series[0], median_of(on_path, NR_VALUES));
	series_add(touched->series[1], median_of(with_order, NR_VALUES));
	return err;
}

int bench_touch(struct bench *bench)
{
	static const struct metric metric[] = { { "touch_ns", "ns/blk", VS_MUTEX } };
	static const char *const policies[] = { "lru", "lrfu", "slru" };
	static struct touched touched;
	int err = 0;

	for (size_t i = 0; !err && i < ARRAY_SIZE(policies); i++) {
		for (u32 all = 0; all < 2; all++)
			touched.series[all] = bench_set(bench, SET(metric), "policy=%s part=%s",
							policies[i], all ? "all" : "path");
		err = open_touched(&touched, policies[i], bench->seed);
		err = err ? err : bench_runs(bench, touch_turn, &touched);
		kvmm_pool_destroy(touched.pool);
	}
	bench_report(bench);
	return err;
}

/*
 * ---- kvbm: the benchmark of Dynamo's kvbm-logical in its own shape ----
 *
 * A prefix of 8, 32 or 128 blocks of 4 tokens is matched while another request holds it, or none
 * does, and dropped at once; per call. What the order has to do for a hit or a drop is done by the
 * call that finds its log full, one of many, so calls are timed many at once.
 */

#define KVBM_BLOCKS	(64u * 1024)
#define SLICE_BLOCKS	4096u
#define NR_LENS		3u

enum kvbm_step { MATCH_INACTIVE, MATCH_ACTIVE, DROP_SHARED, DROP, NR_KVBM_STEPS };

static const u32 kvbm_lens[NR_LENS] = { 8, 32, 128 };

struct prefixes {
	struct kvmm_pool *pool;
	u64 seed;
	u32 first;		/* block of the first prefix of this slice */
	kvmm_key_t keys[KVBM_BLOCKS];
	kvmm_ref_t refs[2][SLICE_BLOCKS];
	struct series *series[NR_LENS];
};

/* Nanoseconds a call; the second set of references is another request's. */
static double time_kvbm(struct prefixes *p, enum kvbm_step step, u32 nr, int *err)
{
	kvmm_ref_t *refs = p->refs[step == MATCH_ACTIVE || step == DROP_SHARED];
	bool matches = step == MATCH_ACTIVE || step == MATCH_INACTIVE;
	u64 begin = now_ns();

	for (u32 at = 0; at < SLICE_BLOCKS; at += nr)
		*err |= matches ?
			kvmm_match(p->pool, &p->keys[p->first + at], nr, &refs[at]) != (int)nr :
			kvmm_put_many(p->pool, &refs[at], nr);
	return (double)(now_ns() - begin) / (SLICE_BLOCKS / nr);
}

static int kvbm_turn(struct bench *bench, void *arg)
{
	double value[NR_KVBM_STEPS][BENCH_SLICES];
	struct prefixes *p = arg;
	int err = 0;

	for (u32 l = 0; !err && l < NR_LENS; l++) {
		for (u32 s = 0; s < BENCH_SLICES; s++) {
			p->first = rng_below(&p->seed,
						KVBM_BLOCKS / SLICE_BLOCKS) * SLICE_BLOCKS;
			for (u32 step = 0; step < NR_KVBM_STEPS; step++)
				value[step][s] = time_kvbm(p, step, kvbm_lens[l], &err);
		}
		for (u32 step = 0; step < NR_KVBM_STEPS; step++)
			series_add(&p->series[l][step], median_of(value[step], BENCH_SLICES));
	}
	return err ? -EUCLEAN : 0;
}

/* All blocks are registered, and unreferenced. */
static int open_prefixes(struct prefixes *p, const char *policy)
{
	static kvmm_mut_t blocks[KVBM_BLOCKS];
	kvmm_ref_t *refs = (kvmm_ref_t *)blocks;
	struct kvmm_pool_attr attr = { .size = sizeof(attr), .nr_blocks = KVBM_BLOCKS,
				       .block_tokens = 4, .policy = policy };
	int err;

	p->pool = NULL;
	err = kvmm_pool_create(&attr, &p->pool);
	err = err ? err : kvmm_alloc(p->pool, KVBM_BLOCKS, blocks);
	random_keys(p->keys, KVBM_BLOCKS, &p->seed);
	err = err ? err : kvmm_register(p->pool, blocks, p->keys, KVBM_BLOCKS, refs);
	return err ? err : kvmm_put_many(p->pool, refs, KVBM_BLOCKS);
}

static int kvbm_policy(struct bench *bench, const char *policy)
{
	static const struct metric metrics[NR_KVBM_STEPS] = {
		[MATCH_INACTIVE] = { "match_inactive_ns", "ns", VS_MUTEX },
		[MATCH_ACTIVE] = { "match_active_ns", "ns", VS_MUTEX },
		[DROP_SHARED] = { "drop_shared_ns", "ns",
				  VS_MUTEX },	/* another still holds them */
		[DROP] = { "bulk_drop_ns", "ns", VS_MUTEX },
	};
	static struct prefixes prefixes;
	int err;

	prefixes.seed = bench->seed;
	err = open_prefixes(&prefixes, policy);
	for (u32 l = 0; l < NR_LENS; l++)
		prefixes.series[l] = bench_set(bench, SET(metrics), "policy=%s blocks=%u", policy,
					       kvbm_lens[l]);
	err = err ? err : bench_turns(bench, kvbm_turn, &prefixes);
	kvmm_pool_destroy(prefixes.pool);
	return err;
}

int bench_kvbm(struct bench *bench)
{
	return bench_policies(bench, kvbm_policy);
}

/*
 * ---- blockpool: the cycle of a caching block pool ----
 *
 * Requests of 85 blocks on 100 Ki blocks, nine tenths of them referenced, so that each new block is
 * an evicted one. The steps are timed apart, per block; keys are made outside of the time.
 */

#define POOL_BLOCKS	(100u * 1024)
#define REQUEST		85u
#define NR_LIVE		(POOL_BLOCKS * 9 / 10 / REQUEST)
#define NR_REQUESTS	2000u	/* timed in each run */

struct request {
	kvmm_key_t keys[REQUEST];
	kvmm_ref_t refs[REQUEST];
};

struct cache {
	struct kvmm_pool *pool;
	struct request *live;	/* NR_LIVE */
	u64 seed;
};

enum step { MISS, REGISTER, HIT, LENGTH, TOUCH, PUT_SHARED, PUT, CYCLE, NR_STEPS };

static const struct metric cycle_metrics[NR_STEPS] = {
	[MISS] = { "acquire_new_ns", "ns/blk", VS_MUTEX },	/* all miss: evict and allocate */
	[REGISTER] = { "register_ns", "ns/blk", VS_MUTEX },
	[HIT] = { "acquire_hit_ns", "ns/blk", VS_MUTEX },	/* all hit */
	[LENGTH] = { "match_len_ns", "ns/blk", VS_MUTEX },
	[TOUCH] = { "touch_ns", "ns/blk", VS_MUTEX },
	[PUT_SHARED] = { "put_shared_ns", "ns/blk", VS_MUTEX },	/* others still hold them */
	[PUT] = { "put_last_ns", "ns/blk", VS_MUTEX },		/* they can be evicted now */
	[CYCLE] = { "cycle_ns", "ns/blk", VS_MUTEX },	/* all: a request comes, is shared, goes */
};

/* Nanoseconds a block of each step, one value a request. */
struct samples {
	double ns[NR_STEPS][NR_REQUESTS];
	u32 nr;
};

static int acquire(struct cache *cache, struct request *req, kvmm_ref_t *hits, kvmm_mut_t *fresh,
		   u32 nr_hits)
{
	struct kvmm_acquire_args want = {
		.keys = req->keys,
		.nr_keys = REQUEST,
		.max_hits = REQUEST,
		.nr_blocks = REQUEST,
		.hits = hits,
		.fresh = fresh,
	};
	int err = kvmm_acquire(cache->pool, &want);

	return err || want.nr_hits == nr_hits ? err : -EUCLEAN;
}

static void sample(struct samples *samples, enum step step, u64 since)
{
	u64 ticks = ticks_end() - since;

	if (samples && samples->nr < NR_REQUESTS)
		samples->ns[step][samples->nr] = ticks_ns(ticks, 1) / REQUEST;
}

/* A new prompt takes the place of @req. */
static int admit(struct cache *cache, struct request *req, struct samples *samples)
{
	kvmm_mut_t fresh[REQUEST];
	u64 begin;
	int err;

	random_keys(req->keys, REQUEST, &cache->seed);
	begin = ticks_begin();
	err = acquire(cache, req, req->refs, fresh, 0);
	sample(samples, MISS, begin);
	if (err)
		return err;
	begin = ticks_begin();
	err = kvmm_register(cache->pool, fresh, req->keys, REQUEST, req->refs);
	sample(samples, REGISTER, begin);
	return err;
}

/* A second request with the same prompt comes and goes. */
static int share(struct cache *cache, struct request *req, struct samples *samples)
{
	kvmm_ref_t hits[REQUEST];
	kvmm_mut_t fresh[REQUEST];
	u64 begin = ticks_begin();
	int err, len = kvmm_match_len(cache->pool, req->keys, REQUEST);

	sample(samples, LENGTH, begin);
	begin = ticks_begin();
	err = acquire(cache, req, hits, fresh, REQUEST);
	sample(samples, HIT, begin);
	if (err || len != REQUEST)
		return err ? err : -EUCLEAN;
	begin = ticks_begin();
	err = kvmm_touch_many(cache->pool, hits, REQUEST);
	sample(samples, TOUCH, begin);
	if (err)
		return err;
	begin = ticks_begin();
	err = kvmm_put_many(cache->pool, hits, REQUEST);
	sample(samples, PUT_SHARED, begin);
	return err;
}

static int cycle(struct cache *cache, struct samples *samples)
{
	struct request *req = &cache->live[rng_below(&cache->seed, NR_LIVE)];
	int err = share(cache, req, samples);
	u64 begin = ticks_begin();
	double sum = 0;

	if (!err)
		err = kvmm_put_many(cache->pool, req->refs, REQUEST);
	sample(samples, PUT, begin);
	if (!err)
		err = admit(cache, req, samples);
	if (!samples)
		return err;
	for (u32 step = 0; step < CYCLE; step++)
		sum += samples->ns[step][samples->nr];
	samples->ns[CYCLE][samples->nr++] = sum;
	return err;
}

/* Full of live requests, and everything else cached: from here on each block is evicted first. */
static int fill_cache(struct cache *cache)
{
	int err = 0;

	for (u32 i = 0; !err && i < NR_LIVE; i++)
		err = admit(cache, &cache->live[i], NULL);
	for (u32 i = 0; !err && i < NR_LIVE; i++)
		err = cycle(cache, NULL);
	return err;
}

static int cycle_turn(struct bench *bench, void *arg)
{
	static struct samples samples;
	int err = 0;

	samples.nr = 0;
	while (!err && samples.nr < NR_REQUESTS)
		err = cycle(arg, &samples);
	for (u32 i = 0; i < NR_STEPS; i++)
		series_add(&bench->series[i], median_of(samples.ns[i], NR_REQUESTS));
	return err;
}

static int blockpool_policy(struct bench *bench, const char *policy)
{
	struct cache cache = { .seed = bench->seed };
	int err = open_pool(&cache.pool, POOL_BLOCKS + 1, policy, KVMM_POOL_NULL_BLOCK);

	cache.live = must_alloc(NR_LIVE * sizeof(*cache.live));
	err = err ? err : fill_cache(&cache);
	bench_set(bench, SET(cycle_metrics), "policy=%s nr=%u request=%u load=90", policy,
		  POOL_BLOCKS,
		  REQUEST);
	err = err ? err : bench_turns(bench, cycle_turn, &cache);
	kvmm_pool_destroy(cache.pool);
	free(cache.live);
	return err;
}

int bench_blockpool(struct bench *bench)
{
	return bench_policies(bench, blockpool_policy);
}
