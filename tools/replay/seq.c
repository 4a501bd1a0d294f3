// SPDX-License-Identifier: Apache-2.0
/*
 * Mode seq: one request after the other, each finished before the next: cache hits and no time.
 */
#include "cache.h"
#include "live.h"
#include "record.h"
#include "tiers.h"

/*
 * Order is all that matters here, but for copies, which take time: so a request takes as much as in
 * mode conc, behind what it waits for.
 */
static enum exit_code finish(struct cache *cache, struct held *held)
{
	enum exit_code code = tiers_wait(cache, held);
	u64 us = cache_service_us(cache, held);

	if (!code && cache->next)
		code = cache_answer(cache, held);
	if (!code)
		code = cache_release(cache, held);
	if (!code && cache->tiers)
		code = tiers_time(cache, cache->tiers->now_ns + us * NS_PER_US);
	return code;
}

/* Blocks that are being copied down cannot be evicted: then the request waits for the copy. */
static enum exit_code admit(struct cache *cache, u32 q, u32 nr, struct held **held)
{
	enum exit_code code = cache_admit(cache, q, nr, held);

	while (!code && !*held && tiers_due(cache) != UINT64_MAX) {
		code = tiers_time(cache, max_u64(tiers_due(cache), cache->tiers->now_ns));
		if (!code)
			code = cache_admit(cache, q, nr, held);
	}
	return code;
}

static enum exit_code replay_request(struct cache *cache, u32 q)
{
	const struct run *run = cache->run;
	u32 nr = shape_of(run->opt, &run->trace->req[q]).prompt, hits;
	struct held *held = NULL;
	enum exit_code code = tell_request(cache, q);

	if (code)
		return code;
	if (cache_last_shape(cache, q).prompt > run->opt->nr_blocks) {
		cache->rejected++;
		cache->fp = fold(cache->fp, 0);
		return tell_over(cache, q, 0);
	}
	cache_time(cache, q);
	code = admit(cache, q, nr, &held);
	if (!code && !held)
		code = complain(EXIT_WRONG, "request %u does not fit into an idle pool", q);
	hits = held ? held->nr_hits : 0;
	cache->fp = fold(cache->fp, hits);
	if (!code)
		cache_record(cache, q, q, 1);
	return code ? code : finish(cache, held);
}

static void report(const struct cache *cache)
{
	struct results *results = cache->run->results;

	cache_report(cache, "seq");
	results_num(results, "resident_end", cache->resident);
	results_num(results, "peak_resident", cache->peak_resident);
	results_num(results, "peak_held", cache->peak_held);
	results_num(results, "full_hits", cache->full_hits);
	results_num(results, "hit_tokens", cache->hit_tokens);
	results_num(results, "input_tokens", cache->input_tokens);
	if (cache->next)
		results_num(results, "answer_blocks", cache->answer_blocks);
	results_hex(results, "fp", cache->fp);
	results_tile(results, "prompts found whole", "%u", cache->full_hits);
	results_say(results, "whole prompts", "%u found without a miss", cache->full_hits);
	if (cache->next)
		results_say(results, "answers", "took %s blocks more",
			    grouped(cache->answer_blocks));
	results_say(results, "cached at the end", "%s blocks", grouped(cache->resident));
}

enum exit_code run_seq(const struct run *run)
{
	enum exit_code code;
	struct cache cache;

	if (limit_is(run->opt->policy))
		return run_limit(run);
	code = cache_init(&cache, run, "requests");
	if (!code)
		code = cache_record_begin(&cache, false);
	progress_start(run, "seq", run->trace->nr);
	for (u32 q = 0; !code && q < run->trace->nr; q++) {
		code = replay_request(&cache, q);
		progress_step(run, q);
	}
	progress_stop(run);
	if (!code)
		code = cache_finish(&cache);
	if (!code)
		report(&cache);
	cache_exit(&cache);
	return code;
}
