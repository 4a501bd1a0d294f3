// SPDX-License-Identifier: Apache-2.0
/*
 * The cycle of a caching block pool: requests of 85 blocks on 100 Ki blocks, nine tenths of them
 * referenced, so that each new block is an evicted one. The steps are timed apart, per block;
 * keys are made outside of the time.
 */
#include <errno.h>
#include <kvmm/kvmm.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

#define NR_BLOCKS	(100u * 1024)
#define REQUEST		85u
#define NR_LIVE		(NR_BLOCKS * 9 / 10 / REQUEST)
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

enum step {
	STEP_MISS, STEP_REGISTER, STEP_HIT, STEP_LENGTH, STEP_TOUCH, STEP_PUT_SHARED, STEP_PUT,
	STEP_CYCLE, NR_STEPS
};

static const char *const step_name[NR_STEPS] = {
	[STEP_MISS] = "acquire_new_ns",		/* all miss: evict and allocate */
	[STEP_REGISTER] = "register_ns",
	[STEP_HIT] = "acquire_hit_ns",		/* all hit */
	[STEP_LENGTH] = "match_len_ns",
	[STEP_TOUCH] = "touch_ns",
	[STEP_PUT_SHARED] = "put_shared_ns",	/* others still hold them */
	[STEP_PUT] = "put_last_ns",		/* the last reference: they can be evicted now */
	[STEP_CYCLE] = "cycle_ns",		/* all of these: a request comes, is shared, goes */
};

/* Nanoseconds a block of each step, one value a request. */
struct samples {
	double ns[NR_STEPS][NR_REQUESTS];
	u32 nr;
};

static void draw_keys(struct cache *cache, struct request *req)
{
	for (u32 i = 0; i < REQUEST; i++) {
		u64 word[2] = { random_next(&cache->seed), random_next(&cache->seed) };

		memcpy(&req->keys[i], word, sizeof(word));
	}
}

static int acquire(struct cache *cache, struct request *req, kvmm_ref_t *hits, kvmm_mut_t *fresh,
		   u32 *nr_hits)
{
	struct kvmm_acquire want = {
		.keys = req->keys,
		.nr_keys = REQUEST,
		.max_hits = REQUEST,
		.nr_blocks = REQUEST,
		.hits = hits,
		.fresh = fresh,
	};
	int err = kvmm_acquire(cache->pool, &want);

	*nr_hits = want.nr_hits;
	return err;
}

static void sample(struct samples *samples, enum step step, u64 ticks)
{
	if (samples && samples->nr < NR_REQUESTS)
		samples->ns[step][samples->nr] = ticks_ns(ticks, 1) / REQUEST;
}

/* A new prompt takes the place of @req. */
static int admit(struct cache *cache, struct request *req, struct samples *samples)
{
	kvmm_mut_t fresh[REQUEST];
	u64 begin, between;
	u32 nr_hits;
	int err;

	draw_keys(cache, req);
	begin = ticks_begin();
	err = acquire(cache, req, req->refs, fresh, &nr_hits);
	sample(samples, STEP_MISS, ticks_end() - begin);
	if (err || nr_hits)
		return err ? err : -EUCLEAN;
	between = ticks_begin();
	err = kvmm_register(cache->pool, fresh, req->keys, REQUEST, req->refs);
	sample(samples, STEP_REGISTER, ticks_end() - between);
	return err;
}

/* A second request with the same prompt comes and goes. */
static int share(struct cache *cache, struct request *req, struct samples *samples)
{
	kvmm_ref_t hits[REQUEST];
	kvmm_mut_t fresh[REQUEST];
	u32 nr_hits;
	u64 begin = ticks_begin();
	int err, len = kvmm_match_len(cache->pool, req->keys, REQUEST);

	sample(samples, STEP_LENGTH, ticks_end() - begin);
	begin = ticks_begin();
	err = acquire(cache, req, hits, fresh, &nr_hits);
	sample(samples, STEP_HIT, ticks_end() - begin);
	if (err || nr_hits != REQUEST || len != REQUEST)
		return err ? err : -EUCLEAN;
	begin = ticks_begin();
	err = kvmm_touch_many(cache->pool, hits, REQUEST);
	sample(samples, STEP_TOUCH, ticks_end() - begin);
	if (err)
		return err;
	begin = ticks_begin();
	err = kvmm_put_many(cache->pool, hits, REQUEST);
	sample(samples, STEP_PUT_SHARED, ticks_end() - begin);
	return err;
}

static void end_cycle(struct samples *samples)
{
	double sum = 0;

	for (u32 step = 0; step < STEP_CYCLE; step++)
		sum += samples->ns[step][samples->nr];
	samples->ns[STEP_CYCLE][samples->nr++] = sum;
}

static int cycle(struct cache *cache, struct samples *samples)
{
	struct request *req = &cache->live[random_below(&cache->seed, NR_LIVE)];
	int err = share(cache, req, samples);
	u64 begin = ticks_begin();

	if (!err)
		err = kvmm_put_many(cache->pool, req->refs, REQUEST);
	sample(samples, STEP_PUT, ticks_end() - begin);
	if (!err)
		err = admit(cache, req, samples);
	if (samples)
		end_cycle(samples);
	return err;
}

/* Full of live requests, and everything else cached: from here on each block is evicted first. */
static int cache_open(struct cache *cache, const char *policy, u64 seed)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	int err;

	attr.nr_blocks = NR_BLOCKS + 1;
	attr.flags = KVMM_POOL_NULL_BLOCK;
	attr.policy = policy;
	cache->seed = seed;
	cache->live = NULL;
	err = kvmm_pool_create(&attr, &cache->pool);
	if (err)
		return err;
	cache->live = must_alloc(NR_LIVE * sizeof(*cache->live));
	for (u32 i = 0; !err && i < NR_LIVE; i++)
		err = admit(cache, &cache->live[i], NULL);
	for (u32 i = 0; !err && i < NR_LIVE; i++)
		err = cycle(cache, NULL);
	return err;
}

static int measure(struct cache *cache, struct series **step)
{
	static struct samples samples;
	int err = 0;

	samples.nr = 0;
	while (!err && samples.nr < NR_REQUESTS)
		err = cycle(cache, &samples);
	for (u32 i = 0; i < NR_STEPS; i++)
		series_add(step[i], median_of(samples.ns[i], NR_REQUESTS));
	return err;
}

static int run_policy(struct bench *bench, const char *policy)
{
	struct series *step[NR_STEPS];
	struct cache cache;
	int err = cache_open(&cache, policy, bench->seed);

	for (u32 i = 0; i < NR_STEPS; i++)
		step[i] = bench_series(bench, step_name[i], "ns/blk",
				       "policy=%s nr=%u request=%u load=90", policy, NR_BLOCKS,
				       REQUEST);
	for (unsigned int run = 0; !err && run < bench->nr_runs; run++) {
		const struct series *mutex_pair = bench_mutex_pair(bench);

		err = measure(&cache, step);
		for (u32 i = 0; i < NR_STEPS; i++)
			series_against(step[i], "mutex_pair", mutex_pair);
	}
	if (cache.live)
		kvmm_pool_destroy(cache.pool);
	free(cache.live);
	bench_report(bench);
	return err;
}

static int run(struct bench *bench)
{
	return bench_policies(bench, run_policy);
}

const struct bench_kind bench_blockpool = {
	.name = "blockpool",
	.what = "match, evict, register and release 85 blocks at a time, by policy",
	.run = run,
};
