// SPDX-License-Identifier: Apache-2.0
/*
 * Mode cluster: nodes with a cache each, a router in front of them, and a network between.
 *
 * A request goes to one node when it arrives. What that has not, and another one has, is fetched if
 * that makes the first token come sooner; the rest is computed. A node computes one prompt after the
 * other, sends to one node at a time, and receives from one. Answers take no time, blocks are there
 * for the next request at once, and the router knows all: so times are bounds from below.
 */
#include <inttypes.h>
#include <stdio.h>

#include "cache.h"
#include "live.h"

enum router { LEAST_LOADED, PREFIX_AWARE, NR_ROUTERS };

static const char *const router_names[NR_ROUTERS] = { "least-loaded", "prefix-aware" };

/**
 * struct node - a machine
 * @computes_until, @sends_until, @receives_until: in microseconds of the trace
 * @found: leading blocks of the request at hand that it has
 */
struct node {
	struct cache cache;
	u64 computes_until;
	u64 sends_until;
	u64 receives_until;
	u64 sent_blocks;
	u32 found;
};

/**
 * struct cluster - one run of the whole trace
 * @block_us: to compute a block; to send one: @send_us, behind a latency for each fetch
 * @wait_us: by admitted request: from its arrival to its first token
 */
struct cluster {
	const struct run *run;
	struct run node_run;	/* many of one: their pools have no names */
	struct meter meter;
	struct node *node;
	u32 nr_nodes;
	enum router router;
	u64 block_us;
	u64 block_bytes;
	u64 *wait_us;
	u32 nr_waits;
	u64 hits;
	u64 fetched;
	u64 accesses;
	u32 rejected;
};

static u64 send_us(const struct cluster *cluster, u64 nr_blocks)
{
	u64 mb_s = cluster->run->opt->link_mb_s;	/* bytes in a microsecond */

	return mb_s ? DIV_ROUND_UP(nr_blocks * cluster->block_bytes, mb_s) : 0;
}

/* When the first token would come if the node computes @nr blocks from @from_us on. */
static u64 computed_us(const struct cluster *cluster, const struct node *node, u64 from_us, u64 nr)
{
	return max_u64(from_us, node->computes_until) + nr * cluster->block_us;
}

/* Of equal ones that which has been idle longest. */
static struct node *route(struct cluster *cluster, u64 now_us, u32 nr_blocks)
{
	struct node *best = NULL;
	u64 best_us = 0;

	for (u32 i = 0; i < cluster->nr_nodes; i++) {
		struct node *node = &cluster->node[i];
		u64 us = cluster->router == LEAST_LOADED ? max_u64(now_us, node->computes_until) :
			 computed_us(cluster, node, now_us, nr_blocks - node->found);

		if (best && (us > best_us ||
			     (us == best_us && node->computes_until >= best->computes_until)))
			continue;
		best = node;
		best_us = us;
	}
	return best;
}

/* Another one that has most of it, if that is more than @node has; of equal ones, that can soonest. */
static struct node *find_source(struct cluster *cluster, const struct node *node)
{
	struct node *best = NULL;

	for (u32 i = 0; i < cluster->nr_nodes; i++) {
		struct node *other = &cluster->node[i];

		if (other->found <= node->found || (best && other->found < best->found))
			continue;
		if (!best || other->found > best->found || other->sends_until < best->sends_until)
			best = other;
	}
	return best;
}

/* The first token, of which @node has ->found blocks of @nr; what is fetched is counted. */
static u64 first_token_us(struct cluster *cluster, struct node *node, u64 now_us, u32 nr)
{
	struct node *source = find_source(cluster, node);
	u64 us = computed_us(cluster, node, now_us, nr - node->found), begin_us, sent_us, fetched_us;

	if (!source)
		return us;
	begin_us = max_u64(now_us, max_u64(source->sends_until, node->receives_until));
	sent_us = begin_us + send_us(cluster, source->found - node->found);
	fetched_us = computed_us(cluster, node, sent_us + cluster->run->opt->link_latency_us,
				 nr - source->found);
	if (fetched_us >= us)
		return us;
	source->sends_until = node->receives_until = sent_us;
	source->sent_blocks += source->found - node->found;
	cluster->fetched += source->found - node->found;
	return fetched_us;
}

static enum exit_code ask_all(struct cluster *cluster, u32 q, const struct shape *shape)
{
	u32 nr_keys, nr = (u32)min_u64(shape->nr_keys, shape->max_hits);
	const kvmm_key_t *keys = cache_keys(&cluster->node[0].cache, q, &nr_keys);

	for (u32 i = 0; i < cluster->nr_nodes; i++) {
		int found = kvmm_match_len(cluster->node[i].cache.pool, keys, nr);

		if (found < 0)
			return complain_of(found, "look for blocks of request %u", q);
		cluster->node[i].found = (u32)found;
	}
	return EXIT_GOOD;
}

static enum exit_code replay_request(struct cluster *cluster, u32 q)
{
	const struct trace_request *req = &cluster->run->trace->req[q];
	struct shape shape = shape_of(cluster->run->opt, req);
	struct held *held = NULL;
	enum exit_code code;
	struct node *node;

	if (shape.prompt > cluster->run->opt->nr_blocks) {
		cluster->rejected++;
		return EXIT_GOOD;
	}
	code = ask_all(cluster, q, &shape);
	if (code)
		return code;
	node = route(cluster, req->arrival_us, shape.prompt);
	node->computes_until = first_token_us(cluster, node, req->arrival_us, shape.prompt);
	cluster->wait_us[cluster->nr_waits++] = node->computes_until - req->arrival_us;
	cluster->hits += node->found;
	cluster->accesses += shape.prompt;
	code = cache_admit(&node->cache, q, shape.prompt, &held);
	if (!code && (!held || held->nr_hits != node->found))
		code = complain(EXIT_WRONG, "request %u does not find what the router saw", q);
	return code ? code : cache_release(&node->cache, held);
}

/* ---- results ---- */

static int compare_u64(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return (x > y) - (x < y);
}

/* What @pct percent of the requests do not exceed. */
static u64 percentile(const struct cluster *cluster, u32 pct)
{
	u64 rank = DIV_ROUND_UP((u64)cluster->nr_waits * pct, 100);

	return rank ? cluster->wait_us[rank - 1] : 0;
}

static void report(const struct cluster *cluster, FILE *rows)
{
	u64 sum = 0, sent_most = 0, p50 = percentile(cluster, 50), p99 = percentile(cluster, 99);
	u64 told = 0, most = 0, mean;

	for (u32 i = 0; i < cluster->nr_waits; i++)
		sum += cluster->wait_us[i];
	for (u32 i = 0; i < cluster->nr_nodes; i++) {
		const struct node *node = &cluster->node[i];

		sent_most = max_u64(sent_most, node->sent_blocks);
		most = max_u64(most, node->cache.admitted);
		told += node->cache.registered + node->cache.evictions;
	}
	mean = cluster->nr_waits ? sum / cluster->nr_waits : 0;
	fprintf(rows, "%s{\"nodes\": %u, \"router\": \"%s\", \"accesses\": %" PRIu64 ", \"hits\": %"
		PRIu64 ", \"fetched\": %" PRIu64 ", \"fetched_bytes\": %" PRIu64 ", \"sent_most\": %"
		PRIu64 ", \"requests_most\": %" PRIu64 ", \"events\": %" PRIu64 ", \"rejected\": %u, "
		"\"first_token_us\": %" PRIu64 ", \"p50_us\": %" PRIu64 ", \"p99_us\": %" PRIu64 "}",
		ftell(rows) > 1 ? ", " : "", cluster->nr_nodes, router_names[cluster->router],
		cluster->accesses, cluster->hits, cluster->fetched,
		cluster->fetched * cluster->block_bytes, sent_most, most, told, cluster->rejected, mean,
		p50, p99);
	results_say(cluster->run->results, router_names[cluster->router],
		    "%5u %6.2f %% %6.2f %% %9.1f %5.1f %% %8" PRIu64 " %10.3f %9.3f %9.3f",
		    cluster->nr_nodes, 100 * share(cluster->hits, cluster->accesses),
		    100 * share(cluster->fetched, cluster->accesses),
		    (double)(cluster->fetched * cluster->block_bytes) / 1e9,
		    100 * share(sent_most, cluster->fetched), told, (double)mean / 1e6,
		    (double)p50 / 1e6, (double)p99 / 1e6);
}

/* ---- one run, and all of them ---- */

static enum exit_code begin(struct cluster *cluster)
{
	enum exit_code code = EXIT_GOOD;

	cluster->node_run = (struct run){ .opt = cluster->run->opt, .trace = cluster->run->trace,
					  .meter = &cluster->meter };
	cluster->node = must_alloc(cluster->nr_nodes * sizeof(*cluster->node));
	cluster->wait_us = must_alloc(cluster->run->trace->nr * sizeof(*cluster->wait_us));
	for (u32 i = 0; !code && i < cluster->nr_nodes; i++)
		code = cache_init(&cluster->node[i].cache, &cluster->node_run, "us");
	return code;
}

static void end(struct cluster *cluster)
{
	for (u32 i = 0; i < cluster->nr_nodes; i++)
		if (cluster->node[i].cache.run)
			cache_exit(&cluster->node[i].cache);
	free(cluster->node);
	free(cluster->wait_us);
}

static enum exit_code run_one(const struct run *run, enum router router, u32 nr_nodes, FILE *rows)
{
	u64 block_tokens = run->opt->block_tokens;
	struct cluster cluster = {
		.run = run, .router = router, .nr_nodes = nr_nodes,
		.block_us = block_tokens * US_PER_INPUT_TOKEN,
		.block_bytes = block_tokens * run->opt->token_bytes,
	};
	enum exit_code code = begin(&cluster);

	progress_start(run, router_names[router], run->trace->nr);
	for (u32 q = 0; !code && q < run->trace->nr; q++) {
		code = replay_request(&cluster, q);
		progress_step(run, q);
	}
	progress_stop(run);
	for (u32 i = 0; !code && i < nr_nodes; i++)
		code = cache_finish(&cluster.node[i].cache);
	if (!code) {
		qsort(cluster.wait_us, cluster.nr_waits, sizeof(u64), compare_u64);
		report(&cluster, rows);
	}
	end(&cluster);
	return code;
}

static void describe(const struct run *run)
{
	const struct options *opt = run->opt;
	struct results *results = run->results;

	results_str(results, "trace", run->trace->name);
	results_str(results, "kind", "cluster");
	results_num(results, "bs", opt->block_tokens);
	results_num(results, "n", opt->nr_blocks);
	results_str(results, "policy", opt->policy);
	results_num(results, "requests", run->trace->nr);
	results_say(results, "trace", "%s, %s requests", run->trace->name, grouped(run->trace->nr));
	results_say(results, "each node", "%s blocks of %u tokens, %u bytes a token, policy %s",
		    grouped(opt->nr_blocks), opt->block_tokens, opt->token_bytes, opt->policy);
	results_say(results, "network", "%s MB/s each way, %u us", grouped(opt->link_mb_s),
		    opt->link_latency_us);
	results_say(results, "router", "nodes     hits  fetched        GB  by one   events     mean s     p50 s     p99 s");
}

enum exit_code run_cluster(const struct run *run)
{
	const struct options *opt = run->opt;
	enum exit_code code = EXIT_GOOD;
	char *text = NULL;
	size_t bytes;
	FILE *rows;

	if (!run->trace->has_arrivals)
		return complain(EXIT_INPUT, "the trace has no arrival times; cluster needs them");
	rows = open_memstream(&text, &bytes);
	if (!rows)
		return complain(EXIT_INPUT, "no memory");
	fputc('[', rows);
	describe(run);
	for (u32 i = 0; i < opt->nr_clusters; i++)
		for (u32 router = 0; !code && router < NR_ROUTERS; router++)
			code = run_one(run, router, opt->nodes[i], rows);
	fputc(']', rows);
	fclose(rows);
	if (!code)
		results_raw(run->results, "rows", text);
	free(text);
	return code;
}
