// SPDX-License-Identifier: Apache-2.0
/*
 * The host tier of tiers.h, asked the way an engine does: what the device has not is looked for below,
 * and loaded into as many of the request's blocks as it is; the rest is computed.
 *
 * A request's blocks are taken first, all or nothing and by the rule for one tier, so a request that
 * waits changes nothing. Then those that are found below are given back for the load, which takes as
 * many: it cannot fail for want of room, only for want of quota.
 */
#include <research/sim_disk.h>

#include "record.h"
#include "tiers.h"

#define LOW_BELOW_PM	100u	/* from the high mark down to the low one */
#define MAX_BATCH	4096u	/* blocks of one copy: a request's are mostly one */
#define MAX_UP		(1u << 16)
#define MAX_READS	4096u	/* blocks on their way up from the disk */

/* ---- beginning and end ---- */

static int make_disk(struct cache *cache, struct tiers *tiers)
{
	const struct options *opt = cache->run->opt;
	struct kvmm_tier_sim_attr sim = KVMM_TIER_SIM_ATTR_INIT;
	struct kvmm_tier_disk_attr attr = opt->disk_use;

	tiers->max_reads = attr.max_get = attr.max_get ? attr.max_get : MAX_READS;
	if (!opt->disk_blocks)
		return 0;
	sim.capacity_blocks = opt->disk_blocks;
	sim.write.latency_ns = sim.read.latency_ns = opt->disk_latency_us * NS_PER_US;
	sim.write.bytes_per_s = sim.read.bytes_per_s = opt->disk_mb_s * 1000000ull;
	return kvmm_tier_simulate_disk(tiers->host, &sim, &attr);
}

static int attach(struct cache *cache, struct tiers *tiers)
{
	const struct options *opt = cache->run->opt;
	struct kvmm_tier_config config = opt->knobs;
	struct kvmm_tier_client_attr attr = opt->client;

	if (config.low_pm == U32_NONE)
		config.low_pm = config.high_pm - (u32)min_u64(config.high_pm, LOW_BELOW_PM);
	attr.block_bytes = (u64)opt->token_bytes * opt->block_tokens;
	attr.batch_blocks = attr.batch_blocks ? attr.batch_blocks : MAX_BATCH;
	attr.max_up = attr.max_up ? attr.max_up : MAX_UP;
	attr.config = &config;
	return kvmm_tier_attach(cache->pool, tiers->host, &attr);
}

enum exit_code tiers_begin(struct cache *cache, size_t nr_keys)
{
	const struct options *opt = cache->run->opt;
	struct kvmm_tier_attr attr = opt->host;
	struct tiers *tiers;
	int err;

	if (!opt->host.capacity_blocks)
		return EXIT_GOOD;
	cache->tiers = tiers = must_alloc(sizeof(*tiers));
	tiers->refs = must_alloc(nr_keys * sizeof(*tiers->refs));
	tiers->levels = must_alloc(nr_keys);
	tiers->answers = must_alloc(nr_keys);
	attr.capacity_bytes = 0;
	attr.flags = KVMM_TIER_TOLD_CLOCK;
	err = kvmm_tier_host_create(&attr, &tiers->host);
	if (!err)
		err = make_disk(cache, tiers);
	if (!err)
		err = attach(cache, tiers);
	return err ? complain_of(err, "a host tier of %u blocks", opt->host.capacity_blocks) : EXIT_GOOD;
}

void tiers_end(struct cache *cache)
{
	struct tiers *tiers = cache->tiers;

	if (!tiers)
		return;
	kvmm_tier_destroy(tiers->host);
	free(tiers->answers);
	free(tiers->levels);
	free(tiers->refs);
	free(tiers);
	cache->tiers = NULL;
}

/* ---- time ---- */

u64 tiers_due(const struct cache *cache)
{
	struct kvmm_tier_time time;

	if (!cache->tiers || kvmm_tier_get_time(cache->pool, &time))
		return UINT64_MAX;
	return time.due_ns;
}

static int tell(struct cache *cache, u64 now_ns)
{
	struct tiers *tiers = cache->tiers;
	int err = kvmm_tier_clock(tiers->host, now_ns);

	tiers->now_ns = now_ns;
	if (!err)
		err = kvmm_tier_poll(cache->pool);
	return err;
}

enum exit_code tiers_time(struct cache *cache, u64 now_ns)
{
	struct kvmm_tier_time time = { 0 };
	u64 due_ns;
	int err;

	if (!cache->tiers)
		return EXIT_GOOD;
	err = kvmm_tier_poll(cache->pool);	/* what has been queued begins before time goes on */
	while (err >= 0 && (due_ns = tiers_due(cache)) <= now_ns)
		err = tell(cache, max_u64(due_ns, cache->tiers->now_ns));
	if (err >= 0)
		err = tell(cache, now_ns);
	if (err >= 0)
		err = kvmm_tier_get_time(cache->pool, &time);
	cache->tiers->latency_ns = time.load_ns;
	return err < 0 ? complain_of(err, "copy blocks") : EXIT_GOOD;
}

/* ---- loading ---- */

/* Of what can be had, what is not in the device, where some lie behind a hole. */
struct below {
	u32 nr_host;
	u32 nr_disk;
};

/* As many of @nr as may be read from the disk at a time. */
static int count_below(const struct tiers *tiers, int nr, struct below *below)
{
	*below = (struct below){ 0 };
	for (int i = 0; i < nr; i++) {
		bool is_disk = tiers->answers[i] == KVMM_TIER_HIT &&
			       tiers->levels[i] == KVMM_TIER_DISK;

		if (is_disk && below->nr_disk == tiers->max_reads)
			return i;
		below->nr_disk += is_disk;
		below->nr_host += tiers->levels[i] == KVMM_TIER_HOST ||
				  tiers->answers[i] == KVMM_TIER_PENDING;
	}
	return nr;
}

/* How many keys from @nr_hits on can be had, or, with --config's recompute_time, are worth it; and where. */
static int ask(struct cache *cache, u32 nr_hits, u32 nr_lookups, struct below *below)
{
	u8 *levels = cache->tiers->levels, *answers = cache->tiers->answers;
	struct kvmm_prefix prefix = {
		.keys = cache->keys + nr_hits, .nr = nr_lookups - nr_hits, .position = nr_hits,
		.parent = nr_hits ? cache->keys + nr_hits - 1 : NULL,
	};
	struct kvmm_tier_match_args match = { .size = sizeof(match), .prefix = &prefix,
					      .refs = cache->tiers->refs, .levels = levels,
					      .answers = answers, .flags = KVMM_TIER_ACQUIRED };
	int nr = kvmm_tier_match(cache->pool, &match), err = 0;

	if (nr > 0 && match.nr_device)
		err = kvmm_put_many(cache->pool, match.refs, match.nr_device);
	if (nr > 0 && cache->run->opt->knobs.recompute_ns)
		nr = match.nr_device + match.nr_load;
	return err ? err : count_below(cache->tiers, nr, below);
}

static bool is_refusal(int err)
{
	return err == -ENOSPC || err == -EAGAIN || err == -EDQUOT || err == -E2BIG ||
	       err == -ERANGE;
}

enum exit_code tiers_load(struct cache *cache, struct held *held, u32 nr_hits, u32 nr_lookups)
{
	struct kvmm_prefix prefix = {
		.keys = cache->keys + nr_hits, .position = nr_hits,
		.parent = nr_hits ? cache->keys + nr_hits - 1 : NULL,
	};
	struct kvmm_tier_load_args req = { .size = sizeof(req), .prefix = &prefix };
	struct tiers *tiers = cache->tiers;
	struct below below = { 0 };
	int err, nr = 0;

	held->nr_device = nr_hits;
	if (!tiers)
		return EXIT_GOOD;
	tiers->device_hits += nr_hits;
	if (nr_hits < nr_lookups)
		nr = ask(cache, nr_hits, nr_lookups, &below);
	if (nr <= 0)
		return nr ? complain_of(nr, "look below") : EXIT_GOOD;
	/* As many of its fresh blocks as are needed become room for the load. */
	prefix.nr = (u32)nr;
	err = kvmm_free(cache->pool, held->muts, nr);
	if (!err)
		err = kvmm_tier_load(cache->pool, &req, &held->op);
	if (is_refusal(err)) {
		/* They are computed, and still there, since they have just been given back. */
		tiers->refused++;
		tiers->refused_blocks += nr;
		err = kvmm_alloc(cache->pool, nr, held->muts);
		return err ? complain_of(err, "take blocks back") : EXIT_GOOD;
	}
	if (err)
		return complain_of(err, "load %d blocks for request %u", nr, held->q);
	held->muts += nr;
	held->nr_lower = nr;
	held->nr_disk = below.nr_disk;
	held->since_ns = tiers->now_ns;
	tiers->host_hits += below.nr_host;
	tiers->disk_hits += below.nr_disk;
	tiers->device_hits += nr - below.nr_host - below.nr_disk;
	tiers->loads++;
	return EXIT_GOOD;
}

enum exit_code tiers_fetch(struct cache *cache, struct held *held, bool *done)
{
	struct kvmm_tier_result result = { .size = sizeof(result), .nr = held->nr_lower,
					   .refs = held->refs + held->nr_device };
	int err;

	*done = true;
	if (!held->nr_lower || held->is_loaded)
		return EXIT_GOOD;
	err = kvmm_tier_get_result(cache->pool, held->op, &result);
	*done = err != -EAGAIN;
	if (err == -EAGAIN)
		return EXIT_GOOD;
	held->is_loaded = true;
	held->waited_us = (cache->tiers->now_ns - held->since_ns) / NS_PER_US;
	cache->tiers->stall_ns += cache->tiers->now_ns - held->since_ns;
	record_latency(cache->run->record, RECORD_STALL,
		       (cache->tiers->now_ns - held->since_ns) / NS_PER_US);
	if (!err)
		cache_own(cache, held->q, result.refs, held->nr_lower);
	if (held->nr_disk)
		cache->tiers->disk_stall_ns += cache->tiers->now_ns - held->since_ns;
	return err ? complain_of(err, "load blocks of request %u", held->q) : EXIT_GOOD;
}

/* The load of one that is preempted is called off; else what it has goes down, before all others. */
enum exit_code tiers_preempt(struct cache *cache, struct held *held)
{
	struct tiers *tiers = cache->tiers;
	struct kvmm_tier_offload_args offload = { .size = sizeof(offload), .refs = held->refs,
						  .nr = held->nr_refs,
						  .priority = KVMM_TIER_PRIORITIES - 1 };
	int err;

	if (!tiers)
		return EXIT_GOOD;
	if (held->nr_lower && !held->is_loaded) {
		tiers->aborted_blocks += held->nr_lower;
		tiers->aborted_disk += held->nr_disk;
		err = kvmm_tier_abort(cache->pool, held->op);
	} else {
		err = offload.nr ? kvmm_tier_offload(cache->pool, &offload, NULL) : 0;
	}
	return err ? complain_of(err, "preempt request %u", held->q) : EXIT_GOOD;
}

enum exit_code tiers_wait(struct cache *cache, struct held *held)
{
	enum exit_code code = EXIT_GOOD;
	bool done = !cache->tiers;

	while (!code && !done) {
		code = tiers_fetch(cache, held, &done);
		if (code || done)
			break;
		if (tiers_due(cache) == UINT64_MAX)
			return complain(EXIT_WRONG, "request %u waits for no copy", held->q);
		code = tiers_time(cache, max_u64(tiers_due(cache), cache->tiers->now_ns));
	}
	return code;
}

/* ---- results ---- */

void tiers_recount(struct cache *cache, u32 nr_coming)
{
	struct kvmm_pool_stat stat;

	if (!cache->tiers || kvmm_pool_get_stat(cache->pool, &stat))
		return;
	cache->evictions = stat.evictions;
	cache->resident = stat.nr_state[KVMM_BLOCK_INACTIVE] + stat.nr_state[KVMM_BLOCK_ACTIVE] +
			  nr_coming;
}

/* Blocks that were loaded are new to the device, unless somebody else had brought them meanwhile. */
enum exit_code tiers_check(struct cache *cache, const struct kvmm_pool_stat *stat)
{
	const struct tiers *tiers = cache->tiers;
	struct kvmm_tier_client_stat client;
	u64 filled, cached = stat->nr_state[KVMM_BLOCK_INACTIVE];
	int err = kvmm_tier_client_get_stat(cache->pool, &client, sizeof(client));

	if (err)
		return complain_of(err, "ask the host tier");
	cache->resident = cached;
	cache->evictions = stat->evictions;
	filled = cache->registered + client.loads;
	if (tiers->device_hits + tiers->host_hits + tiers->disk_hits != stat->hit_blocks + client.hits ||
	    stat->hit_blocks + stat->miss_blocks != cache->lookups || client.failed ||
	    client.loads + client.shared + tiers->aborted_blocks <
		    tiers->host_hits + tiers->disk_hits ||
	    client.disk_loads + tiers->aborted_disk < tiers->disk_hits || cached + stat->evictions > filled)
		return complain(EXIT_WRONG, "the pool counts %llu hits, %llu loads, %llu evictions, "
				"%llu cached blocks, but %llu hits, %llu loads, %llu blocks were seen",
				(unsigned long long)stat->hit_blocks,
				(unsigned long long)client.loads,
				(unsigned long long)stat->evictions, (unsigned long long)cached,
				(unsigned long long)tiers->device_hits,
				(unsigned long long)(tiers->host_hits + tiers->disk_hits),
				(unsigned long long)filled);
	return EXIT_GOOD;
}

/* Per million; of nothing, none. */
static u64 ppm(u64 part, u64 whole)
{
	return whole ? (u64)((u128)part * 1000000 / whole) : 0;
}

static void describe_moves(struct results *results, const struct kvmm_tier_client_stat *client)
{
	results_num(results, "offloads", client->offloads);
	results_num(results, "offload_bytes", client->offload_bytes);
	results_num(results, "offload_ns", client->offload_ns);
	results_num(results, "loads", client->loads);
	results_num(results, "load_bytes", client->load_bytes);
	results_num(results, "load_ns", client->load_ns);
	results_num(results, "shared", client->shared);
	results_num(results, "reloads", client->reloads);
	results_num(results, "thrash_ppm", ppm(client->reloads, client->offloads));
	results_num(results, "refaults_device", client->refaults[KVMM_TIER_DEVICE]);
	results_num(results, "refaults_host", client->refaults[KVMM_TIER_HOST]);
	results_num(results, "refaults_far", client->refaults[KVMM_TIER_DISK]);
	results_num(results, "thrash_episodes", client->episodes);
	results_num(results, "touches_end", client->touches);
	results_num(results, "host_evictions", client->evicted);
	results_num(results, "host_resident_end", client->blocks);
}

static void report_disk(const struct cache *cache, const struct kvmm_tier_client_stat *client,
			const struct kvmm_tier_stat *stat)
{
	struct results *results = cache->run->results;
	const struct tiers *tiers = cache->tiers;

	if (!cache->run->opt->disk_blocks)
		return;
	results_num(results, "disk_blocks", cache->run->opt->disk_blocks);
	results_num(results, "disk_hits", tiers->disk_hits);
	results_num(results, "disk_writes", stat->demoted);
	results_num(results, "disk_write_bytes", stat->demoted_bytes);
	results_num(results, "disk_write_ns", stat->demote_ns);
	results_num(results, "disk_reads", client->disk_loads);
	results_num(results, "disk_read_bytes", client->disk_load_bytes);
	results_num(results, "disk_read_ns", client->disk_load_ns);
	results_num(results, "disk_stall_us", tiers->disk_stall_ns / NS_PER_US);
	results_num(results, "disk_dropped", stat->sim_dropped);
	results_num(results, "disk_resident_end", stat->sim_blocks);
	results_num(results, "host_lost", stat->lost);
	results_say(results, "disk", "%.2f %% of the prompt blocks; %s blocks, of %s",
		    100 * share(tiers->disk_hits, cache->accesses), grouped(stat->sim_blocks),
		    grouped(cache->run->opt->disk_blocks));
	results_say(results, "written, read", "%s blocks, %.1f GB; %s blocks, %.1f GB",
		    grouped(stat->demoted), (double)stat->demoted_bytes / 1e9,
		    grouped(client->disk_loads), (double)client->disk_load_bytes / 1e9);
	results_say(results, "stalls with disk", "%.3f s in all", (double)tiers->disk_stall_ns / 1e9);
}

void tiers_report(const struct cache *cache)
{
	const struct tiers *tiers = cache->tiers;
	struct results *results = cache->run->results;
	const struct options *opt = cache->run->opt;
	struct tally *tally = cache->run->tally;
	struct kvmm_tier_client_stat client;
	struct kvmm_tier_stat stat;

	if (!tiers || kvmm_tier_client_get_stat(cache->pool, &client, sizeof(client)) ||
	    kvmm_tier_get_stat(tiers->host, &stat, sizeof(stat)))
		return;
	if (tally) {
		tally->device_hits = tiers->device_hits;
		tally->host_hits = tiers->host_hits;
		tally->disk_hits = tiers->disk_hits;
		tally->down_bytes = client.offload_bytes;
		tally->up_bytes = client.load_bytes;
		tally->write_bytes = stat.demoted_bytes;
		tally->read_bytes = client.disk_load_bytes;
		tally->stall_us = tiers->stall_ns / NS_PER_US;
	}
	results_say(results, "tiers", "device %.2f %%, host %.2f %% of the prompt blocks; host of %s "
		    "blocks, %s", 100 * share(tiers->device_hits, cache->accesses),
		    100 * share(tiers->host_hits, cache->accesses),
		    grouped(opt->host.capacity_blocks), write_policies[opt->knobs.write]);
	results_say(results, "down", "%s blocks, %.1f GB", grouped(client.offloads),
		    (double)client.offload_bytes / 1e9);
	results_say(results, "up", "%s blocks, %.1f GB, for %s requests", grouped(client.loads),
		    (double)client.load_bytes / 1e9, grouped(tiers->loads));
	results_say(results, "stalls", "%.3f s in all, %.3f ms a request that loads",
		    (double)tiers->stall_ns / 1e9, share(tiers->stall_ns, tiers->loads) / 1e6);
	results_num(results, "host_blocks", opt->host.capacity_blocks);
	results_str(results, "write_policy", write_policies[opt->knobs.write]);
	results_num(results, "offload_pm", opt->knobs.high_pm);
	results_num(results, "device_hits", tiers->device_hits);
	results_num(results, "host_hits", tiers->host_hits);
	results_num(results, "combined_ppm",
		    ppm(tiers->device_hits + tiers->host_hits + tiers->disk_hits, cache->accesses));
	describe_moves(results, &client);
	report_disk(cache, &client, &stat);
	results_num(results, "stall_us", tiers->stall_ns / NS_PER_US);
	results_num(results, "latency_us", tiers->latency_ns / NS_PER_US);
	results_num(results, "loading_requests", tiers->loads);
	results_num(results, "refused_loads", tiers->refused);
	results_num(results, "refused_blocks", tiers->refused_blocks);
	results_say(results, "thrashing", "%s blocks back within %u ms: %.2f %% of those that went",
		    grouped(client.reloads), (unsigned int)(opt->knobs.reload_ns / NS_PER_MS),
		    100 * share(client.reloads, client.offloads));
	if (tiers->refused)
		results_say(results, "computed instead", "%s blocks, in %u loads over a quota",
			    grouped(tiers->refused_blocks), tiers->refused);
}
