// SPDX-License-Identifier: Apache-2.0
/*
 * The fields. A new one is a line here, and so a family of metrics and, with a head, a column at
 * the control socket, in kvmm-stat and in the book; the test fails until it is counted once more.
 */
#include <kvmm/ext/seq.h>

#include "metrics.h"

#define __metric(head, kind, type, scope, scale, name, unit, help, of, field, label, values, nr) \
	{ { head, KV_CELL_##kind, sizeof(((struct of *)0)->field) / (nr), 0,			\
	    offsetof(struct of, field) }, name, unit, help, METRIC_##type, SCOPE_##scope,	\
	  SCALE_##scale, label, values, nr }

/* A column that is no family. */
#define COLUMN(head, scope, of, field) \
	__metric(head, NUMBER, GAUGE, scope, ONE, NULL, NULL, NULL, of, field, NULL, NULL, 1)

/* One number, in the table "stat" or in none, and an array of them with a label. */
#define STAT(head, type, name, unit, field, help) \
	__metric(head, NUMBER, type, POOL, ONE, name, unit, help, pool_view, glance.field, NULL, \
		 NULL, 1)
#define POOL(type, name, unit, field, help) STAT(NULL, type, name, unit, field, help)
#define POOLS(type, name, unit, field, label, values, help) \
	__metric(NULL, NUMBER, type, POOL, ONE, name, unit, help, pool_view, glance.field, label, \
		 values, ARRAY_SIZE(((struct pool_view *)0)->glance.field))
#define SCALED(type, scale, name, unit, field, help) \
	__metric(NULL, NUMBER, type, POOL, scale, name, unit, help, pool_view, glance.field, NULL, \
		 NULL, 1)
#define TIMES(type, scope, of, name, field, help) \
	{ { .offset = offsetof(struct of, field) }, name, "seconds", help, METRIC_##type, \
	  SCOPE_##scope, SCALE_NS, NULL, NULL, 1 }
#define HISTOGRAM(name, kind, help) \
	TIMES(HISTOGRAM, POOL, pool_view, name, glance.residency[KVMM_RESIDENCY_##kind], help)
#define LATENCY(scope, of, name, field, help) TIMES(LATENCY, scope, of, name, field, help)
#define AGE(scope, of, name, field, help) TIMES(HISTOGRAM, scope, of, name, field, help)
#define CLASS(head, kind, type, name, unit, field, help) \
	__metric(head, kind, type, CLASS, ONE, name, unit, help, kvmm_class_stat, field, NULL, \
		 NULL, 1)
#define TENANT(head, kind, type, name, unit, field, help) \
	__metric(head, kind, type, TENANT, ONE, name, unit, help, kvmm_tenant_stat, field, NULL, \
		 NULL, 1)
#define SLAB(head, type, name, unit, field, help) \
	__metric(head, NUMBER, type, SLAB, ONE, name, unit, help, kv_slab_row, stat.field, NULL, \
		 NULL, 1)
#define OTHER(scope, of, scale, type, name, unit, field, help) \
	__metric(NULL, NUMBER, type, scope, scale, name, unit, help, of, field, NULL, NULL, 1)
#define BELOW(...)	OTHER(BELOW, kvmm_tier_client_stat, ONE, __VA_ARGS__)
#define BELOW_NS(...)	OTHER(BELOW, kvmm_tier_client_stat, NS, __VA_ARGS__)
#define TIER(...)	OTHER(TIER, kvmm_tier_stat, ONE, __VA_ARGS__)
#define DISK(...)	OTHER(DISK, kvmm_disk_stat, ONE, __VA_ARGS__)
#define PUBLISHER(...)	OTHER(PUBLISHER, kvmm_publisher_stat, ONE, __VA_ARGS__)

static const char *const states[] = { "free", "null", "range", "private", "staged", "active",
				      "inactive" };
static const char *const misses[] = { "never", "evicted", "staged", "tenant", "group", "short" };
static const char *const windows[] = { "10s", "60s", "300s" };
static const char *const pins[] = { "user", "rdma", "gds", "ipc", "copy", "graph" };
static const char *const levels[] = { "device", "host", "beyond" };
static const char *const fills[] = { "full", "partial", "empty" };

static_assert(offsetof(struct kvmm_slab_stat, nr_partial) ==
	      offsetof(struct kvmm_slab_stat, nr_full) + 8 &&
	      offsetof(struct kvmm_slab_stat, nr_empty) ==
	      offsetof(struct kvmm_slab_stat, nr_full) + 16,
	      "an array of slabs by how full they are");
static_assert(ARRAY_SIZE(states) == KVMM_NR_BLOCK_STATES && ARRAY_SIZE(misses) == KVMM_NR_MISSES &&
	      ARRAY_SIZE(windows) == KVMM_NR_AVGS && ARRAY_SIZE(pins) == KVMM_NR_PIN_TYPES &&
	      ARRAY_SIZE(levels) == KVMM_NR_TIER_LEVELS,
	      "a name for each");

const struct metric kv_metrics[] = {
	{ { 0 }, "kvmm_pool", NULL, "What a pool is.", METRIC_INFO, SCOPE_POOL, 0, NULL, NULL, 1 },
	OTHER(ANY_POOL, pool_view, ONE, GAUGE, "kvmm_pool_closed", NULL, is_closed,
		"1: the pool has found that it contradicts itself, and refuses every call; it has "
		"no other sample."),

	/* The table "stat". */
	STAT("blocks", GAUGE, "kvmm_capacity_blocks", "blocks", stat.nr_blocks,
		"Blocks that can be used."),
	STAT("free", GAUGE, "kvmm_free_blocks", "blocks", stat.nr_free, "Free blocks."),
	COLUMN("inactive", POOL, pool_view, glance.stat.nr_inactive),
	STAT("available", GAUGE, "kvmm_available_blocks", "blocks", stat.nr_available,
		"Blocks that are free, or cached and not referenced (evictable)."),
	COLUMN("null", POOL, pool_view, glance.stat.nr_state[KVMM_BLOCK_NULL]),
	COLUMN("ranges_blocks", POOL, pool_view, glance.stat.nr_state[KVMM_BLOCK_RANGE]),
	COLUMN("private", POOL, pool_view, glance.stat.nr_state[KVMM_BLOCK_PRIVATE]),
	COLUMN("staged", POOL, pool_view, glance.stat.nr_state[KVMM_BLOCK_STAGED]),
	COLUMN("active", POOL, pool_view, glance.stat.nr_state[KVMM_BLOCK_ACTIVE]),
	STAT("ranges", GAUGE, "kvmm_ranges", NULL, stat.nr_ranges, "Ranges that are allocated."),
	STAT("largest", GAUGE, "kvmm_largest_free_run_blocks", "blocks", stat.largest,
		"Length of the longest run of free blocks."),
	STAT("runs", GAUGE, "kvmm_free_runs", NULL, stat.nr_runs, "Maximal runs of free blocks."),
	STAT("block_tokens", GAUGE, "kvmm_block_tokens", "tokens", stat.block_tokens,
		"Tokens of a block."),
	STAT("block_bytes", GAUGE, "kvmm_block_bytes", "bytes", stat.block_bytes,
		"Bytes of a block."),
	STAT("allocs", COUNTER, "kvmm_allocations", NULL, stat.allocs,
		"Allocations that succeeded."),
	STAT("alloc_blocks", COUNTER, "kvmm_allocated_blocks", "blocks", stat.alloc_blocks,
		"Blocks in successful allocations."),
	STAT("frees", COUNTER, "kvmm_frees", NULL, stat.frees, "Calls that gave blocks back."),
	STAT("fail_nospc", COUNTER, "kvmm_no_space", NULL, stat.fail_nospc,
		"Allocations that failed because there were not enough blocks."),
	STAT("fail_frag", COUNTER, "kvmm_fragmented", NULL, stat.fail_frag,
		"Allocations that found enough free blocks, but no run long enough: failed, or "
		"saved by compaction."),
	STAT("evictions", COUNTER, "kvmm_evicted_blocks", "blocks", stat.evictions,
		"Cached blocks that were evicted."),
	STAT("hit_blocks", COUNTER, "kvmm_hit_blocks", "blocks", stat.hit_blocks,
		"Blocks that lookups found in the cache."),
	STAT("miss_blocks", COUNTER, "kvmm_missed_blocks", "blocks", stat.miss_blocks,
		"Blocks that lookups did not find in the cache."),
	STAT("registered", COUNTER, "kvmm_registered_blocks", "blocks", stat.registered,
		"Blocks that were registered under a key, or rejected there."),
	STAT("duplicates", COUNTER, "kvmm_duplicate_blocks", "blocks", stat.duplicates,
		"Blocks that were registered, or rejected, under a key that another block has."),
	STAT("compactions", COUNTER, "kvmm_compactions", NULL, stat.compactions,
		"Compactions and shrinks that moved anything."),
	STAT("moved_blocks", COUNTER, "kvmm_moved_blocks", "blocks", stat.moved_blocks,
		"Blocks that were moved."),
	STAT("moves", COUNTER, "kvmm_moves", NULL, stat.moves, "Runs in which blocks were moved."),
	STAT("metadata_bytes", GAUGE, "kvmm_metadata_bytes", "bytes", stat.metadata_bytes,
		"Host memory that the pool uses for its own data."),
	STAT("away", GAUGE, "kvmm_away_blocks", "blocks", stat.nr_away,
		"Blocks whose memory has been given back to the device."),
	STAT("waiting", GAUGE, "kvmm_waiting_requests", "requests", alloc.nr_waiting,
		"Requests that wait for blocks."),
	STAT("steps", COUNTER, "kvmm_steps", NULL, step.steps, "Steps that were begun."),
	STAT("published_blocks", COUNTER, "kvmm_published_blocks", "blocks", step.published_blocks,
		"Of the moved blocks, those moved beside or between steps."),
	COLUMN("published_moves", POOL, pool_view, glance.step.published_moves),
	STAT("copying_blocks", GAUGE, "kvmm_copying_blocks", "blocks", step.copying_blocks,
		"Blocks that are being copied to a new place."),
	STAT("limbo_blocks", GAUGE, "kvmm_limbo_blocks", "blocks", step.limbo_blocks,
		"Old places of moved blocks that an open step may still read."),
	STAT("stagings", COUNTER, "kvmm_staged_blocks", "blocks", stat.stagings,
		"Blocks that were given a key, before they were registered."),
	STAT("reserved_blocks", GAUGE, "kvmm_reserved_blocks", "blocks", growth.nr_reserved,
		"Free blocks that are kept behind ranges that grow."),

	POOL(GAUGE, "kvmm_retired_blocks", "blocks", stat.nr_retired,
		"Blocks that cached blocks cannot have any more: their handles have had all their "
		"lives."),
	POOLS(GAUGE, "kvmm_state_blocks", "blocks", stat.nr_state, "state", states,
		"Blocks by state."),
	__metric(NULL, NUMBER, GAUGE, POOL, ONE, "kvmm_free_pieces", NULL,
		"Free aligned pieces of 2^order blocks, as buddyinfo has them.", pool_view,
		order_free, "order", NULL, KVMM_NR_ORDERS),
	__metric(NULL, NUMBER, GAUGE, POOL, PPM, "kvmm_unusable_free_ratio", "ratio",
		"Part of the free blocks that is no use for an aligned request of 2^order.",
		pool_view, unusable_ppm, "order", NULL, KVMM_NR_ORDERS),

	POOL(COUNTER, "kvmm_full_blocks_passed", NULL, stat.nr_full,
		"Lookups that passed over a cached block with as many references as there can be."),
	POOLS(COUNTER, "kvmm_misses", NULL, stat.nr_missed, "reason", misses,
		"Lookups that ended before the end of their keys, by reason."),

	POOLS(COUNTER, "kvmm_reclaim_steps", NULL, alloc.taken, "step", kv_step_names,
		"Steps of reclaim that made room."),
	POOLS(COUNTER, "kvmm_reclaim_skips", NULL, alloc.skipped, "step", kv_step_names,
		"Steps of reclaim that were skipped because another one costs less."),
	POOLS(COUNTER, "kvmm_reclaim_saves", NULL, alloc.saved, "step", kv_step_names,
		"Steps of reclaim after which the request fitted."),
	POOL(GAUGE, "kvmm_promised_blocks", "blocks", alloc.nr_promised,
		"Blocks that are promised to somebody, and not taken yet."),
	POOL(COUNTER, "kvmm_timed_out_requests", "requests", alloc.nr_timed_out,
		"Requests that timed out while they waited for blocks."),
	POOL(COUNTER, "kvmm_cancelled_requests", "requests", alloc.nr_cancelled,
		"Requests that were cancelled while they waited for blocks."),
	POOL(GAUGE, "kvmm_min_watermark_blocks", "blocks", alloc.marks.min,
		"Watermark: with fewer free blocks only urgent requests are served."),
	POOL(GAUGE, "kvmm_low_watermark_blocks", "blocks", alloc.marks.low,
		"Watermark: free blocks that normal requests do not get."),
	POOL(GAUGE, "kvmm_high_watermark_blocks", "blocks", alloc.marks.high,
		"Watermark: kvmm_reclaim() frees blocks up to here."),

	__metric(NULL, NUMBER, GAUGE, POOL, PERCENT, "kvmm_pressure_some_ratio", "ratio",
		"Share of time in which at least one request waited for memory, averaged over the "
		"window.", pool_view, glance.pressure.some.avg, "window", windows, KVMM_NR_AVGS),
	__metric(NULL, NUMBER, GAUGE, POOL, PERCENT, "kvmm_pressure_full_ratio", "ratio",
		"Share of time in which requests waited and room was made for none of them, "
		"averaged over the window.", pool_view, glance.pressure.full.avg, "window", windows,
		KVMM_NR_AVGS),
	SCALED(COUNTER, US, "kvmm_pressure_some_seconds", "seconds", pressure.some.total_us,
		"Time in which at least one request waited for memory."),
	SCALED(COUNTER, US, "kvmm_pressure_full_seconds", "seconds", pressure.full.total_us,
		"Time in which requests waited and room was made for none of them."),

	LATENCY(POOL, pool_view, "kvmm_queue_wait_seconds", glance.pressure.queue,
		"How long requests waited for their turn."),
	LATENCY(POOL, pool_view, "kvmm_make_room_seconds", glance.pressure.room,
		"How long it took to make room for a request, or to find that there is none."),

	POOL(COUNTER, "kvmm_grown_in_place", NULL, growth.in_place, "Growths of ranges in place."),
	POOL(COUNTER, "kvmm_grown_elsewhere", NULL, growth.elsewhere,
		"Growths of ranges by a further extent elsewhere."),
	POOL(COUNTER, "kvmm_stolen_blocks", "blocks", growth.stolen_blocks,
		"Reserved blocks that other requests took."),

	POOL(GAUGE, "kvmm_open_steps", NULL, step.nr_open, "Streams with an open step."),
	POOL(GAUGE, "kvmm_unseen_blocks", "blocks", step.unseen_blocks,
		"Blocks that stay unused until the device is known to have ended a failed copy."),
	POOL(COUNTER, "kvmm_void_moves", NULL, step.void_moves,
		"Moves that were given up because the owner of the blocks changed."),
	POOL(COUNTER, "kvmm_failed_moves", NULL, step.failed_moves, "Moves whose copy failed."),
	POOL(COUNTER, "kvmm_cancelled_moves", NULL, step.cancelled_moves,
		"Moves that were cancelled."),
	POOL(COUNTER, "kvmm_lost_blocks", "blocks", step.lost_blocks,
		"Blocks whose content a failed copy destroyed."),
	POOL(COUNTER, "kvmm_paced_bytes", "bytes", pace.bytes, "Bytes submitted beside steps."),
	POOL(COUNTER, "kvmm_paced_denials", NULL, pace.denied,
		"Times that a copy beside steps had to wait for its budget."),

	POOL(GAUGE, "kvmm_elastic_bytes", "bytes", elastic.total_bytes,
		"Memory that can be given back in parts."),
	POOL(GAUGE, "kvmm_given_bytes", "bytes", elastic.given_bytes,
		"Elastic memory that is given back now."),
	POOL(GAUGE, "kvmm_balloon_bytes", "bytes", elastic.target_bytes, "Target of the balloon."),
	POOL(COUNTER, "kvmm_shrunk_bytes", "bytes", elastic.shrunk_bytes,
		"Memory that was given back."),
	POOL(COUNTER, "kvmm_regained_bytes", "bytes", elastic.grown_bytes,
		"Memory that was given back, and is in use again."),

	POOL(GAUGE, "kvmm_unverified_blocks", "blocks", verify.pending,
		"Blocks whose checksum is to be taken, or to be compared after a move."),
	POOL(COUNTER, "kvmm_checksums", NULL, verify.sums, "Checksums taken."),
	POOL(COUNTER, "kvmm_comparisons", NULL, verify.checks, "Checksums compared."),
	POOL(COUNTER, "kvmm_bad_blocks", "blocks", verify.bad_blocks,
		"Blocks whose content did not match its checksum, and is lost."),
	POOL(COUNTER, "kvmm_bad_copies", NULL, verify.bad_copies,
		"Copies that did not match the checksum, and were not published."),

	SCALED(GAUGE, PER_MILLE, "kvmm_background_score_ratio", "ratio", background.score_pm,
		"Fragmentation as the background thread saw it last."),
	POOL(COUNTER, "kvmm_background_checks", NULL, background.checks,
		"Times that the background thread looked at fragmentation."),
	POOL(COUNTER, "kvmm_background_starts", NULL, background.starts,
		"Times that the background thread began to move blocks."),
	POOL(COUNTER, "kvmm_background_useless", NULL, background.useless,
		"Times that the background thread found no useful move."),

	POOLS(GAUGE, "kvmm_pinned_blocks", NULL, pins.blocks, "type", pins,
		"Pins on cached blocks; one block may have several."),
	POOLS(GAUGE, "kvmm_pinned_ranges", NULL, pins.ranges, "type", pins, "Pins on ranges."),

	SCALED(GAUGE, PPM, "kvmm_residency_sample_ratio", "ratio", residency_ppm,
		"Part of the names that is sampled for the histograms."),
	HISTOGRAM("kvmm_block_lifetime_seconds", LIFETIME,
		"Sampled: time from registration until the block is evicted or forgotten."),
	HISTOGRAM("kvmm_block_idle_before_evict_seconds", IDLE,
		"Sampled: time from the last use until the block is evicted or forgotten."),
	HISTOGRAM("kvmm_block_reuse_gap_seconds", REUSE, "Sampled: time between two uses."),
	HISTOGRAM("kvmm_block_hit_age_seconds", HIT_AGE,
		"Sampled: time from registration to a hit."),

	/* The table "classes". */
	CLASS("blocks", NUMBER, GAUGE, "kvmm_class_blocks", "blocks", nr,
		"Cached blocks of a class, referenced ones included."),
	CLASS("outside", NUMBER, GAUGE, "kvmm_class_outside_blocks", "blocks", nr_outside,
		"Private blocks and blocks of ranges of a class."),
	CLASS("bytes", NUMBER, GAUGE, "kvmm_class_bytes", "bytes", bytes, "Bytes of both."),
	CLASS("quota", LIMIT, GAUGE, "kvmm_class_quota_blocks", "blocks", quota,
		"Most blocks that a class may have."),
	CLASS("evicted", NUMBER, COUNTER, "kvmm_class_evicted_blocks", "blocks", evicted,
		"Blocks that were evicted from a class."),
	CLASS("demoted", NUMBER, COUNTER, "kvmm_class_demoted_blocks", "blocks", demoted,
		"Blocks that were demoted from a class."),
	CLASS("reached", NUMBER, COUNTER, "kvmm_class_reached", NULL, reached,
		"Calls that had to evict from a class."),

	/* The table "tenants". */
	TENANT("blocks", NUMBER, GAUGE, "kvmm_tenant_blocks", "blocks", usage,
		"Blocks charged to a tenant."),
	TENANT("peak", NUMBER, GAUGE, "kvmm_tenant_peak_blocks", "blocks", peak,
		"Most blocks that were ever charged to a tenant."),
	TENANT("min", LIMIT, GAUGE, "kvmm_tenant_min_blocks", "blocks", min,
		"Blocks of a tenant that are never taken by others."),
	TENANT("low", LIMIT, GAUGE, "kvmm_tenant_low_blocks", "blocks", low,
		"Blocks of a tenant that are taken only if nobody else has any to give."),
	TENANT("high", LIMIT, GAUGE, "kvmm_tenant_high_blocks", "blocks", high,
		"Blocks beyond which a tenant gives up its own first."),
	TENANT("max", LIMIT, GAUGE, "kvmm_tenant_max_blocks", "blocks", max,
		"Most blocks that a tenant may have."),
	TENANT("low_events", NUMBER, COUNTER, "kvmm_tenant_low_events", NULL, nr_low,
		"Blocks that a tenant lost to others while it was at or below its low."),
	TENANT("high_events", NUMBER, COUNTER, "kvmm_tenant_high_events", NULL, nr_high,
		"Allocations of a tenant beyond its high."),
	TENANT("max_events", NUMBER, COUNTER, "kvmm_tenant_max_events", NULL, nr_max,
		"Allocations that would have taken a tenant beyond its max."),
	TENANT("refused", NUMBER, COUNTER, "kvmm_tenant_refused", NULL, nr_oom,
		"Allocations of a tenant that were refused at its max."),
	TENANT("reclaimed", NUMBER, COUNTER, "kvmm_tenant_reclaimed_blocks", "blocks", nr_reclaimed,
		"Blocks that a tenant lost because of its own limits."),
	TENANT("evicted", NUMBER, COUNTER, "kvmm_tenant_evicted_blocks", "blocks", nr_evicted,
		"Blocks that a tenant lost in all."),

	BELOW(GAUGE, "kvmm_below_blocks", "blocks", blocks,
		"Readable copies that a pool has in its tier."),
	BELOW(GAUGE, "kvmm_below_bytes", "bytes", bytes, "Bytes that these copies take."),
	BELOW(GAUGE, "kvmm_below_writing_blocks", "blocks", writing,
		"Copies to the tier that are under way."),
	BELOW(GAUGE, "kvmm_below_queued_blocks", "blocks", queued,
		"Blocks that wait to be copied to the tier."),
	BELOW(GAUGE, "kvmm_below_loading_blocks", "blocks", loading,
		"Blocks that are being loaded from the tier."),
	BELOW(COUNTER, "kvmm_offloaded_blocks", "blocks", offloads,
		"Blocks that were copied to the tier."),
	BELOW(COUNTER, "kvmm_loaded_blocks", "blocks", loads,
		"Blocks that were loaded from the tier."),
	BELOW(COUNTER, "kvmm_offloaded_bytes", "bytes", offload_bytes,
		"Bytes that were copied to the tier."),
	BELOW(COUNTER, "kvmm_loaded_bytes", "bytes", load_bytes,
		"Bytes that were loaded from the tier."),
	BELOW_NS(COUNTER, "kvmm_offload_seconds", "seconds", offload_ns,
		"Time that each copy to the tier was under way, summed."),
	BELOW_NS(COUNTER, "kvmm_load_seconds", "seconds", load_ns,
		"Time that each load from the tier was under way, summed."),
	LATENCY(BELOW, kvmm_tier_client_stat, "kvmm_offload_copy_seconds", offload_took,
		"How long each copy to the tier took."),
	LATENCY(BELOW, kvmm_tier_client_stat, "kvmm_load_copy_seconds", load_took,
		"How long each load from the tier took."),
	LATENCY(BELOW, kvmm_tier_client_stat, "kvmm_disk_read_seconds", disk_took,
		"How long each read of a block from the disk took."),
	BELOW(COUNTER, "kvmm_below_hit_blocks", "blocks", hits,
		"Keys that loads from the tier were begun for."),
	BELOW(COUNTER, "kvmm_below_missed_blocks", "blocks", misses,
		"Keys that lookups did not find in the tier."),
	BELOW(COUNTER, "kvmm_below_retries", NULL, retries,
		"Keys for which the tier's answer was to ask again."),
	BELOW(COUNTER, "kvmm_below_pending", NULL, pendings,
		"Keys whose blocks were being loaded already."),
	BELOW(COUNTER, "kvmm_below_shared_blocks", "blocks", shared,
		"Blocks that joined a copy that another load had begun."),
	BELOW(COUNTER, "kvmm_below_present_blocks", "blocks", present,
		"Offloads that were skipped because the tier had a copy."),
	BELOW(COUNTER, "kvmm_below_reloaded_blocks", "blocks", reloads,
		"Blocks that were loaded again shortly after their offload."),
	BELOW(COUNTER, "kvmm_below_evicted_blocks", "blocks", evicted,
		"Copies of a pool that the tier evicted."),
	BELOW(COUNTER, "kvmm_below_aborted", NULL, aborted,
		"Operations of the tier that were aborted."),
	BELOW(COUNTER, "kvmm_below_failed_blocks", "blocks", failed,
		"Copies between pool and tier that failed."),
	BELOW(COUNTER, "kvmm_below_corrupt_blocks", "blocks", corrupt,
		"Copies from the tier whose content did not match its checksum."),
	BELOW(COUNTER, "kvmm_below_refused", NULL, refused,
		"Loads that were refused because there was no room."),
	BELOW(GAUGE, "kvmm_below_touches", NULL, touches,
		"Uses after which a block is copied to the tier, at present."),
	BELOW(GAUGE, "kvmm_below_thrashing", NULL, thrashing,
		"1 while blocks that were dropped come back too soon."),
	BELOW(COUNTER, "kvmm_below_thrashing_episodes", NULL, episodes, "Episodes of thrashing."),
	__metric(NULL, NUMBER, COUNTER, BELOW, ONE, "kvmm_refaulted_blocks", "blocks",
		"Blocks that were filled or loaded again, by how many had been since: fewer than "
		"the device has, than the host tier has, or more.", kvmm_tier_client_stat, refaults,
		"distance", levels, KVMM_NR_TIER_LEVELS),

	TIER(GAUGE, "kvmm_tier_capacity_units", "units", units,
		"Units of a host tier when all of its memory is there."),
	TIER(GAUGE, "kvmm_tier_ready_units", "units", units_ready,
		"Units of a host tier whose memory is there."),
	TIER(GAUGE, "kvmm_tier_used_units", "units", units_used,
		"Units of a host tier that blocks take."),
	TIER(GAUGE, "kvmm_tier_unit_bytes", "bytes", unit_bytes,
		"Bytes of a unit of a host tier; 0: ids only."),
	TIER(GAUGE, "kvmm_tier_blocks", "blocks", blocks, "Readable blocks of a host tier."),
	TIER(GAUGE, "kvmm_tier_read_blocks", "blocks", pinned,
		"Blocks of a host tier that are being read."),
	TIER(GAUGE, "kvmm_tier_clients", NULL, clients, "Pools that use a host tier."),
	TIER(GAUGE, "kvmm_tier_pinned_bytes", "bytes", bytes_pinned,
		"Pinned memory of a host tier: copies need no staging buffer."),
	TIER(COUNTER, "kvmm_tier_stored_blocks", "blocks", stored,
		"Copies that were made in a host tier."),
	TIER(COUNTER, "kvmm_tier_evicted_blocks", "blocks", evicted,
		"Copies that were evicted from a host tier."),
	TIER(COUNTER, "kvmm_tier_lost_blocks", "blocks", lost,
		"Copies that were evicted from a host tier without one on disk."),
	TIER(COUNTER, "kvmm_tier_demoted_blocks", "blocks", demoted,
		"Blocks that a host tier wrote to disk."),
	TIER(COUNTER, "kvmm_tier_promoted_blocks", "blocks", promoted,
		"Blocks that a host tier read from disk."),
	TIER(COUNTER, "kvmm_tier_failed_blocks", "blocks", below_failed,
		"Writes to disk and reads from it that failed."),

	TIER(COUNTER, "kvmm_tier_remote_stored_blocks", "blocks", remote_stored,
		"Blocks that a host tier stored on the server below it."),
	TIER(COUNTER, "kvmm_tier_remote_loaded_blocks", "blocks", remote_got,
		"Blocks that it loaded from there."),
	TIER(COUNTER, "kvmm_tier_remote_missed_blocks", "blocks", remote_missed,
		"Loads of what the server did not have any more."),
	TIER(COUNTER, "kvmm_tier_remote_wrong_blocks", "blocks", remote_wrong,
		"Loads that found something else than what was asked for."),
	TIER(COUNTER, "kvmm_tier_remote_failed_blocks", "blocks", remote_failed,
		"Loads that the server did not answer, or not in time."),
	TIER(COUNTER, "kvmm_tier_remote_dropped_blocks", "blocks", remote_dropped,
		"Blocks that the server did not take, or not in time."),
	TIER(COUNTER, "kvmm_tier_remote_late", NULL, remote_late,
		"Requests to the server that were over before they were answered."),
	TIER(COUNTER, "kvmm_tier_remote_deleted_names", "names", remote_deleted,
		"Names that the server has deleted."),
	TIER(COUNTER, "kvmm_tier_remote_fences", NULL, remote_fences,
		"Epochs that a host tier has begun on the server: nothing of before is found."),
	TIER(COUNTER, "kvmm_tier_remote_given_up", NULL, remote_given_up,
		"Connections to the server that were given up, or could not be made."),
	TIER(GAUGE, "kvmm_tier_remote_pending_names", "names", remote_deleting,
		"Names that the server does not know yet to be deleted."),
	TIER(GAUGE, "kvmm_tier_remote_away", NULL, remote_away,
		"1 while the server is not asked, as it failed."),

	AGE(TIER, kvmm_tier_stat, "kvmm_tier_hit_age_seconds", hit_age,
		"Age of copies in a host tier, since they became readable, when they are loaded."),
	AGE(TIER, kvmm_tier_stat, "kvmm_tier_evict_age_seconds", evict_age,
		"Age of copies in a host tier, since they became readable, when they are evicted."),

	DISK(GAUGE, "kvmm_disk_max_bytes", "bytes", max_bytes,
		"Most bytes that the file of a disk tier may have."),
	DISK(GAUGE, "kvmm_disk_file_bytes", "bytes", file_bytes,
		"Bytes of the file of a disk tier."),
	DISK(GAUGE, "kvmm_disk_records", NULL, nr_records,
		"Records of a disk tier that can be hit."),
	DISK(GAUGE, "kvmm_disk_record_bytes", "bytes", record_bytes, "Payload of these records."),
	DISK(GAUGE, "kvmm_disk_pending_records", "records", nr_pending,
		"Records that are being written."),
	DISK(GAUGE, "kvmm_disk_read_only", NULL, read_only,
		"1: too many writes failed, nothing is written any more."),
	DISK(COUNTER, "kvmm_disk_written_records", "records", nr_put, "Records written."),
	DISK(COUNTER, "kvmm_disk_written_bytes", "bytes", put_bytes,
		"Payload of the records written."),
	DISK(COUNTER, "kvmm_disk_read_records", "records", nr_got, "Records read and verified."),
	DISK(COUNTER, "kvmm_disk_read_bytes", "bytes", got_bytes, "Payload of the records read."),
	DISK(COUNTER, "kvmm_disk_missed_records", "records", nr_missed,
		"Reads of what is not there."),
	DISK(COUNTER, "kvmm_disk_damaged_records", "records", nr_damaged,
		"Records that did not verify."),
	DISK(COUNTER, "kvmm_disk_reclaimed_segments", "segments", nr_reclaimed,
		"Segments that were used again."),
	DISK(COUNTER, "kvmm_disk_dropped_records", "records", nr_dropped,
		"Records that were lost with a segment that was used again."),
	DISK(COUNTER, "kvmm_disk_reinserted_records", "records", nr_reinserted,
		"Records that were written again before their segment was used again."),
	DISK(COUNTER, "kvmm_disk_read_errors", NULL, nr_read_errors, "Reads that failed."),
	DISK(COUNTER, "kvmm_disk_write_errors", NULL, nr_write_errors, "Writes that failed."),
	DISK(COUNTER, "kvmm_disk_sync_errors", NULL, nr_sync_errors, "Flushes that failed."),
	DISK(COUNTER, "kvmm_disk_full_segments", "segments", nr_no_room,
		"Segments that the file system had no room for."),

	AGE(DISK, kvmm_disk_stat, "kvmm_disk_hit_age_seconds", hit_age,
		"Age of records on disk, since their segment was begun, when they are read."),
	AGE(DISK, kvmm_disk_stat, "kvmm_disk_evict_age_seconds", evict_age,
		"Age of records on disk, since their segment was begun, when they are lost with "
		"it."),

	/* The table "slabs". */
	SLAB("objects", GAUGE, "kvmm_slab_objects", "objects", nr_objects,
		"Objects of a slab cache that are in use."),
	SLAB("slots", GAUGE, "kvmm_slab_slots", "slots", nr_slots,
		"Objects that fit into the slabs of a cache."),
	COLUMN("object_bytes", SLAB, kv_slab_row, shape.stride),
	COLUMN("objects_per_slab", SLAB, kv_slab_row, shape.nr_objects),
	COLUMN("blocks_per_slab", SLAB, kv_slab_row, shape.nr_blocks),
	COLUMN("slabs", SLAB, kv_slab_row, stat.nr_slabs),
	COLUMN("full", SLAB, kv_slab_row, stat.nr_full),
	COLUMN("partial", SLAB, kv_slab_row, stat.nr_partial),
	COLUMN("empty", SLAB, kv_slab_row, stat.nr_empty),
	SLAB("blocks", GAUGE, "kvmm_slab_blocks", "blocks", nr_blocks,
		"Base blocks of the slabs of a cache."),
	SLAB("held_bytes", GAUGE, "kvmm_slab_held_bytes", "bytes", held_bytes,
		"Bytes of the slabs of a cache."),
	SLAB("live_bytes", GAUGE, "kvmm_slab_live_bytes", "bytes", live_bytes,
		"Bytes of the objects of a cache that are in use."),
	COLUMN("waste_pm", SLAB, kv_slab_row, stat.waste_pm),
	SLAB("allocs", COUNTER, "kvmm_slab_allocated_objects", "objects", allocs,
		"Objects that were allocated from a slab cache."),
	SLAB("frees", COUNTER, "kvmm_slab_freed_objects", "objects", frees,
		"Objects that were freed to a slab cache."),
	SLAB("fail_nospc", COUNTER, "kvmm_slab_no_space", NULL, fail_nospc,
		"Requests that found no room in the zone."),
	{ { NULL, KV_CELL_NUMBER, 8, 0, offsetof(struct kv_slab_row, stat.nr_full) }, "kvmm_slabs",
	  "slabs", "Slabs of a cache, by how full they are.", METRIC_GAUGE, SCOPE_SLAB, SCALE_ONE,
	  "state", fills, ARRAY_SIZE(fills) },
	SLAB(NULL, GAUGE, "kvmm_slab_slack_bytes", "bytes", slack_bytes,
		"Bytes of the slabs of a cache that belong to no object."),
	SLAB(NULL, GAUGE, "kvmm_slab_unused_bytes", "bytes", unused_bytes,
		"Bytes of the objects of a cache that are not in use."),
	SLAB(NULL, GAUGE, "kvmm_slab_metadata_bytes", "bytes", metadata_bytes,
		"Host memory of a slab cache."),
	SLAB(NULL, COUNTER, "kvmm_slab_made_slabs", "slabs", slabs_made, "Slabs that were made."),
	SLAB(NULL, COUNTER, "kvmm_slab_returned_slabs", "slabs", slabs_returned,
		"Slabs that went back to the zone."),

	PUBLISHER(COUNTER, "kvmm_publisher_batches", "batches", batches,
		"Batches that were published."),
	PUBLISHER(COUNTER, "kvmm_publisher_events", "events", events,
		"Events that were published."),
	PUBLISHER(COUNTER, "kvmm_publisher_bytes", "bytes", bytes, "Bytes of published batches."),
	PUBLISHER(COUNTER, "kvmm_publisher_unsent_batches", "batches", unsent,
		"Batches that libzmq did not take."),
	PUBLISHER(COUNTER, "kvmm_publisher_lost_events", "events", lost,
		"Events that the pool overwrote before the publisher read them."),
	PUBLISHER(COUNTER, "kvmm_publisher_resyncs", NULL, resyncs,
		"Times that a publisher sent everything anew because it had missed events."),
	PUBLISHER(COUNTER, "kvmm_publisher_replays", NULL, replays,
		"Replays that were asked for and answered."),
	PUBLISHER(COUNTER, "kvmm_publisher_snapshots", NULL, snapshots,
		"Snapshots that were asked for and answered."),
	PUBLISHER(COUNTER, "kvmm_publisher_refused", NULL, refused,
		"Requests that a publisher could not understand."),
};

const u32 kv_nr_metrics = ARRAY_SIZE(kv_metrics);
