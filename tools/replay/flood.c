// SPDX-License-Identifier: Apache-2.0
/* Two tenants in one pool: the trace, and one that floods it; see flood.h. */
#include <stdlib.h>
#include <string.h>

#include "flood.h"

/* ---- limits ---- */

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

enum exit_code flood_begin(struct cache *cache)
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
	kvmm_key_t *keys = malloc(nr * sizeof(*keys));
	kvmm_ref_t *refs = malloc(nr * sizeof(*refs));
	struct kvmm_prefix prefix = { .keys = keys, .nr = nr,
				      .domain = { .tenant = TENANT_OF_FLOOD } };
	int err = keys && refs ? 0 : -ENOMEM;

	for (u32 i = 0; i < nr && !err; i++)
		keys[i] = key_of(cache->flood_blocks + i);
	if (!err)
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
	struct kvmm_acquire acquire = { .nr_blocks = nr, .fresh = muts,
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

enum exit_code flood_step(struct cache *cache)
{
	u32 nr = cache->run->opt->flood;
	kvmm_mut_t *muts;
	int err = -ENOMEM;

	if (!nr)
		return EXIT_GOOD;
	muts = malloc(nr * sizeof(*muts));
	if (muts)
		err = request(cache, muts, nr);
	free(muts);
	return err ? complain_of(err, "a request of the neighbour") : EXIT_GOOD;
}

/* ---- results ---- */

/* Names of what is said of one tenant. */
struct labels {
	const char *who, *usage, *peak, *evicted, *reclaimed;
};

static void describe(const struct cache *cache, u32 tenant, const struct labels *labels)
{
	struct kvmm_tenant_stat stat = { .size = sizeof(stat) };
	struct results *results = cache->run->results;
	char a[32], b[32];

	if (kvmm_tenant_stat(cache->pool, tenant, &stat))
		return;
	results_num(results, labels->usage, stat.usage);
	results_num(results, labels->peak, stat.peak);
	results_num(results, labels->evicted, stat.nr_evicted);
	results_num(results, labels->reclaimed, stat.nr_reclaimed);
	results_say(results, labels->who, "%u blocks, %u at most; lost %s, %s of them for its limits",
		    stat.usage, stat.peak, format_grouped(stat.nr_evicted, a),
		    format_grouped(stat.nr_reclaimed, b));
}

void flood_describe(const struct cache *cache)
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
	describe(cache, TENANT_OF_TRACE, &of_trace);
	describe(cache, TENANT_OF_FLOOD, &of_flood);
}
