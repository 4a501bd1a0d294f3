// SPDX-License-Identifier: Apache-2.0
/*
 * Requests that grow: their shape at some moment, and the blocks that come one by one.
 *
 * A block that an answer has filled gets the key that it has in the prompt of the next turn, if that is
 * known; else one that is the request's alone: traces have no numbers for answers, but a request that is
 * preempted and comes back finds its own again.
 */
#include <stdlib.h>

#include "cache.h"
#include "tiers.h"

static struct shape shape_with(const struct cache *cache, u32 q, u32 said)
{
	const struct options *opt = cache->run->opt;
	const struct trace_request *req = &cache->run->trace->req[q];
	struct shape shape = shape_of(opt, req);
	u64 tokens = (u64)req->input + said;

	if (!said)
		return shape;
	shape.prompt = (u32)max_u64(shape.prompt, blocks_of(opt, tokens));
	shape.nr_keys = (u32)max_u64(shape.nr_keys, tokens / opt->block_tokens);
	shape.max_hits = opt->keys == KEYS_IDS ? shape.nr_keys :
						 (u32)((tokens - 1) / opt->block_tokens);
	return shape;
}

struct shape cache_shape(const struct cache *cache, u32 q)
{
	return shape_with(cache, q, cache->done ? cache->done[q] : 0);
}

struct shape cache_last_shape(const struct cache *cache, u32 q)
{
	u32 output = cache->run->trace->req[q].output;

	if (cache->next)
		output -= output != 0;
	return shape_with(cache, q, cache->done ? output : 0);
}

kvmm_key_t cache_key(const struct cache *cache, u32 q, u32 i)
{
	const struct run *run = cache->run;
	const struct trace_request *req = &run->trace->req[q];

	if (i >= shape_of(run->opt, req).nr_keys && cache->next && cache->next[q] != U32_NONE)
		req = &run->trace->req[cache->next[q]];
	if (i < shape_of(run->opt, req).nr_keys)
		return key_of(key_name(run->opt, run->trace, req, i));
	return key_of(1ull << 63 | (u64)q << 32 | i);
}

enum exit_code cache_grow(struct cache *cache, struct held *held, bool *got)
{
	kvmm_mut_t *mut = &held->muts[held->nr_muts];
	struct kvmm_acquire acquire = { .nr_blocks = 1, .fresh = mut };
	int err = kvmm_acquire(cache->pool, &acquire);

	*got = !err;
	if (err)
		return err == -ENOSPC ? EXIT_GOOD : complain_of(err, "grow request %u", held->q);
	held->nr_muts++;
	cache->evictions += acquire.nr_evicted;
	cache->resident -= acquire.nr_evicted;
	tiers_recount(cache, 0);
	if (cache->filled_by)
		cache->filled_by[kvmm_block_of_mut(cache->pool, *mut)] = held->q;
	return EXIT_GOOD;
}

enum exit_code cache_keep(struct cache *cache, struct held *held)
{
	u32 from = held->nr_refs, nr = cache_shape(cache, held->q).nr_keys - from;
	struct kvmm_prefix prefix = { .keys = cache->keys, .nr = nr, .position = from };
	kvmm_key_t parent;
	int err;

	if (!nr)
		return EXIT_GOOD;
	for (u32 i = 0; i < nr; i++)
		cache->keys[i] = cache_key(cache, held->q, from + i);
	cache->keys_of = U32_NONE;
	if (from) {
		parent = cache_key(cache, held->q, from - 1);
		prefix.parent = &parent;
	}
	err = kvmm_prefix_register(cache->pool, &prefix, held->muts, held->refs + from);
	if (err)
		return complain_of(err, "register the answer of request %u", held->q);
	held->nr_refs += nr;
	held->nr_muts -= nr;
	held->muts += nr;
	cache->registered += nr;
	cache->resident += nr;
	tiers_recount(cache, 0);
	return EXIT_GOOD;
}

enum exit_code cache_preempt(struct cache *cache, struct held *held)
{
	u32 nr_missing = held->nr_lower && !held->is_loaded ? held->nr_lower : 0, behind;
	enum exit_code code = tiers_preempt(cache, held);
	int err;

	/* What has not come is behind what the device had. */
	behind = held->nr_device + nr_missing;
	if (code || !nr_missing)
		return code ? code : cache_release(cache, held);
	err = kvmm_free(cache->pool, held->muts, held->nr_muts);
	if (!err)
		err = kvmm_put_many(cache->pool, held->refs + behind, held->nr_refs - behind);
	if (!err)
		err = kvmm_put_many(cache->pool, held->refs, held->nr_device);
	free(held);
	return err ? complain_of(err, "preempt a request") : EXIT_GOOD;
}

enum exit_code cache_answer(struct cache *cache, struct held *held)
{
	const struct trace_request *req = &cache->run->trace->req[held->q];
	u32 nr_tokens = cache->run->opt->block_tokens, last = req->output - (req->output != 0);
	u32 nr = held->nr_refs + held->nr_muts, total = cache_last_shape(cache, held->q).prompt;
	enum exit_code code = EXIT_GOOD;
	bool got = true;

	for (; !code && got && nr < total; nr++) {
		cache->done[held->q] = (u32)((u64)nr * nr_tokens - req->input);
		code = cache_keep(cache, held);
		if (!code)
			code = cache_grow(cache, held, &got);
		cache->answer_blocks += !code && got;
	}
	if (!code && !got)
		return complain(EXIT_WRONG, "the answer of request %u does not fit", held->q);
	cache->peak_held = (u32)max_u64(cache->peak_held, total);
	cache->done[held->q] = last;
	return code ? code : cache_keep(cache, held);
}
