/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tiers below the pool of seq and conc: the library's own host tier, on ids only, with links that are
 * simulated and a clock that the replay turns, and perhaps a simulated disk below it. Where there is no --host-blocks there is none of it.
 */
#ifndef REPLAY_TIERS_H
#define REPLAY_TIERS_H

#include "cache.h"

/**
 * struct tiers - the host tier and what was counted
 * @now_ns: what the clock was told last
 * @stall_ns: added up over requests: from their admission until what they load was there
 * @latency_ns: of struct kvmm_tier_time
 * @disk_stall_ns: of that, of requests that waited for the disk
 * @device_hits, @host_hits, @disk_hits: blocks; of them, those that another request was loading
 *	already are host hits
 * @max_reads: blocks on their way from the disk
 * @refused: loads that there was no room or no quota for; computed instead
 * @refused_blocks: of these
 * @aborted_blocks, @aborted_disk: hits, and those on disk, whose request was preempted before they came
 * @loads: requests that loaded
 * @refs, @levels, @answers: room for one request
 */
struct tiers {
	struct kvmm_tier *host;
	u64 now_ns;
	u64 stall_ns;
	u64 latency_ns;
	u64 device_hits;
	u64 host_hits;
	u64 disk_hits;
	u64 disk_stall_ns;
	u64 refused_blocks;
	u64 aborted_blocks;
	u64 aborted_disk;
	u32 max_reads;
	u32 refused;
	u32 loads;
	kvmm_ref_t *refs;
	u8 *levels;
	u8 *answers;
};

/** tiers_begin() - a tier below the cache's pool, if one is wanted */
enum exit_code tiers_begin(struct cache *cache, size_t nr_keys);

void tiers_end(struct cache *cache);

/* It is @now_ns; all copies that end until then have ended, and others have begun. */
enum exit_code tiers_time(struct cache *cache, u64 now_ns);

/* When the next copy ends, or UINT64_MAX. */
u64 tiers_due(const struct cache *cache);

/**
 * tiers_load() - begin to load what the request did not find in the device, if it is below
 * @held: has its hits, and fresh blocks, of which the first make room for what is loaded
 * @nr_lookups: keys that may hit
 */
enum exit_code tiers_load(struct cache *cache, struct held *held, u32 nr_hits, u32 nr_lookups);

/* Is what the request loads there? Then it has it; @done is set. */
enum exit_code tiers_fetch(struct cache *cache, struct held *held, bool *done);

enum exit_code tiers_preempt(struct cache *cache, struct held *held);

/* Turn the clock until it is. */
enum exit_code tiers_wait(struct cache *cache, struct held *held);

/* With tiers blocks come and go beside requests, too: so the pool is asked how many it has evicted, and
 * how many are cached, when @nr_coming more are. */
void tiers_recount(struct cache *cache, u32 nr_coming);

/** tiers_check() - do the library's counts agree with what was seen from here? */
enum exit_code tiers_check(struct cache *cache, const struct kvmm_pool_stat *stat);

void tiers_report(const struct cache *cache);

#endif /* REPLAY_TIERS_H */
