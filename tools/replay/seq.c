// SPDX-License-Identifier: Apache-2.0
/*
 * Mode seq: one request after the other, each finished before the next: cache hits and no time.
 *
 * --flood: a neighbour of the trace, in the same pool: another tenant, whose requests never come
 * back. What it caches is worth nothing, and pushes out what the trace would have hit, unless
 * limits say how much either of them may have.
 */
#include "cache.h"
#include "live.h"
#include "record.h"
#include "tiers.h"

#define TENANT_OF_TRACE	0u
#define TENANT_OF_FLOOD	1u

/* ---- limits of tenants ---- */

static int parse_one(struct kvmm_tenant_attr *attr, const char *text, size_t n)
{
	const struct {
		const char *name;
		u32 *value;
	} words[] = {
		{ "min=", &attr->min }, { "low=", &attr->low },
		{ "high=", &attr->high }, { "max=", &attr->max },
	};
	char *end;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		size_t skip = strlen(words[i].name);
		unsigned long long v;

		if (strncmp(text, words[i].name, skip))
			continue;
		if (text[skip] < '0' || text[skip] > '9')
			return -EINVAL;
		v = strtoull(text + skip, &end, 10);
		if (end != text + n || v > KVMM_MAX_BLOCKS)
			return -EINVAL;
		*words[i].value = (u32)v;
		return 0;
	}
	return -EINVAL;
}

/* --limits and --flood-limits: "min=N,low=N,high=N,max=N" or some of that. 0 or -EINVAL. */
int limits_parse(struct kvmm_tenant_attr *attr, const char *text)
{
	*attr = (struct kvmm_tenant_attr)KVMM_TENANT_ATTR_INIT;
	for (;;) {
		size_t n = strcspn(text, ",");
		int err = parse_one(attr, text, n);

		if (err || !text[n])
			return err;
		text += n + 1;
	}
}

static enum exit_code set(struct cache *cache, u32 tenant, const char *text)
{
	struct kvmm_tenant_attr attr;
	int err = limits_parse(&attr, text);

	if (!err)
		err = kvmm_tenant_set(cache->pool, tenant, &attr);
	return err ? complain_of(err, "limits '%s'", text) : EXIT_GOOD;
}

/* Give both their limits. Return: EXIT_GOOD, or it was said why not. */
static enum exit_code flood_begin(struct cache *cache)
{
	const struct options *opt = cache->run->opt;
	enum exit_code code = EXIT_GOOD;

	if (opt->limits)
		code = set(cache, TENANT_OF_TRACE, opt->limits);
	if (!code && opt->flood_limits)
		code = set(cache, TENANT_OF_FLOOD, opt->flood_limits);
	return code;
}

/* ---- the neighbour ---- */

static int publish(struct cache *cache, const kvmm_mut_t *muts, u32 nr)
{
	kvmm_key_t *keys = must_alloc(nr * sizeof(*keys));
	kvmm_ref_t *refs = must_alloc(nr * sizeof(*refs));
	struct kvmm_prefix prefix = { .keys = keys, .nr = nr,
				      .domain = { .tenant = TENANT_OF_FLOOD } };
	int err;

	for (u32 i = 0; i < nr; i++)
		keys[i] = key_of(cache->flood_blocks + i);
	err = kvmm_prefix_register(cache->pool, &prefix, muts, refs);
	if (!err)
		err = kvmm_put_many(cache->pool, refs, nr);
	free(keys);
	free(refs);
	return err;
}

static void count(struct cache *cache, u32 nr, u32 nr_evicted)
{
	cache->flood_blocks += nr;
	cache->evictions += nr_evicted;
	cache->resident += nr - nr_evicted;
}

/* Who is refused goes on with its next request, as a server would. */
static int request(struct cache *cache, kvmm_mut_t *muts, u32 nr)
{
	struct kvmm_acquire_args acquire = { .nr_blocks = nr, .fresh = muts,
					     .domain = { .tenant = TENANT_OF_FLOOD } };
	int err = kvmm_acquire(cache->pool, &acquire);

	if (err == -ENOSPC || err == -EDQUOT) {
		cache->flood_refused++;
		return 0;
	}
	if (!err)
		err = publish(cache, muts, nr);
	if (!err)
		count(cache, nr, acquire.nr_evicted);
	return err;
}

/* One request of the neighbour, taken, cached, and given back */
static enum exit_code flood_step(struct cache *cache)
{
	u32 nr = cache->run->opt->flood;
	kvmm_mut_t *muts = must_alloc(nr * sizeof(*muts));
	int err = nr ? request(cache, muts, nr) : 0;

	free(muts);
	return err ? complain_of(err, "a request of the neighbour") : EXIT_GOOD;
}

/* ---- results ---- */

/* Names of what is said of one tenant. */
struct labels {
	const char *who, *usage, *peak, *evicted, *reclaimed;
};

static void describe_tenant(const struct cache *cache, u32 tenant, const struct labels *labels)
{
	struct kvmm_tenant_stat stat = { .size = sizeof(stat) };
	struct results *results = cache->run->results;
	char a[32], b[32];

	if (kvmm_tenant_get_stat(cache->pool, tenant, &stat))
		return;
	results_num(results, labels->usage, stat.usage);
	results_num(results, labels->peak, stat.peak);
	results_num(results, labels->evicted, stat.nr_evicted);
	results_num(results, labels->reclaimed, stat.nr_reclaimed);
	results_say(results, labels->who, "%u blocks, %u at most; lost %s, %s of them for its limits",
		    stat.usage, stat.peak, format_grouped(stat.nr_evicted, a),
		    format_grouped(stat.nr_reclaimed, b));
}

/* Nothing is said without a neighbour or limits. */
static void flood_describe(const struct cache *cache)
{
	static const struct labels
		of_trace = { "the trace has", "trace_usage", "trace_peak", "trace_evicted",
			     "trace_reclaimed" },
		of_flood = { "the neighbour has", "flood_usage", "flood_peak", "flood_evicted",
			     "flood_reclaimed" };
	const struct options *opt = cache->run->opt;
	struct results *results = cache->run->results;
	char a[32];

	if (!opt->flood && !opt->limits)
		return;
	results_num(results, "flood_blocks", cache->flood_blocks);
	results_num(results, "flood_refused", cache->flood_refused);
	results_say(results, "neighbour", "%s blocks that never came back, %u requests refused",
		    format_grouped(cache->flood_blocks, a), cache->flood_refused);
	describe_tenant(cache, TENANT_OF_TRACE, &of_trace);
	describe_tenant(cache, TENANT_OF_FLOOD, &of_flood);
}

/* ---- the trace ---- */

/* Then a request may be refused though the pool would have room. */
static bool has_limits(const struct options *opt)
{
	return opt->limits || opt->flood_limits;
}

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
	if (!code && !held && has_limits(run->opt)) {
		cache->rejected++;
		return tell_over(cache, q, 0);
	}
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
	char a[32];

	cache_describe(cache, "seq");
	results_num(results, "resident_end", cache->resident);
	results_num(results, "peak_resident", cache->peak_resident);
	results_num(results, "peak_held", cache->peak_held);
	results_num(results, "full_hits", cache->full_hits);
	results_num(results, "hit_tokens", cache->hit_tokens);
	results_num(results, "input_tokens", cache->input_tokens);
	if (cache->next)
		results_num(results, "answer_blocks", cache->answer_blocks);
	results_hex(results, "fp", cache->fp);

	cache_say(cache);
	flood_describe(cache);
	results_tile(results, "prompts found whole", "%u", cache->full_hits);
	results_say(results, "whole prompts", "%u found without a miss", cache->full_hits);
	if (cache->next)
		results_say(results, "answers", "took %s blocks more",
			    format_grouped(cache->answer_blocks, a));
	results_say(results, "cached at the end", "%s blocks",
		    format_grouped(cache->resident, a));
}

enum exit_code run_seq(const struct run *run)
{
	enum exit_code code;
	struct cache cache;

	if (limit_is(run->opt->policy))
		return run_limit(run);
	code = cache_init(&cache, run, "requests");
	if (!code)
		code = flood_begin(&cache);
	if (!code)
		code = cache_record_begin(&cache, false);
	progress_start(run, "seq", run->trace->nr);
	for (u32 q = 0; !code && q < run->trace->nr; q++) {
		code = replay_request(&cache, q);
		if (!code)
			code = flood_step(&cache);
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
