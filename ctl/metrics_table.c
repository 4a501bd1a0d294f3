// SPDX-License-Identifier: Apache-2.0
/*
 * The families. A new one is a line here; the test fails until Documentation/metrics.rst has it, for which
 * "tests/ctl/metrics.py --table" prints the rows, and until it is counted once more.
 */
#include "metrics.h"

#define __metric(type, scope, scale, name, unit, help, of, field, label, values, nr)		\
	{ name, unit, help, METRIC_##type, SCOPE_##scope, SCALE_##scale,			\
	  sizeof(((struct of *)0)->field) / (nr), offsetof(struct of, field), label, values, nr }

/* One number, and an array of them with a label. */
#define POOL(type, name, unit, field, help) \
	__metric(type, POOL, ONE, name, unit, help, pool_view, glance.field, NULL, NULL, 1)
#define POOLS(type, name, unit, field, label, values, help) \
	__metric(type, POOL, ONE, name, unit, help, pool_view, glance.field, label, values, \
		 ARRAY_SIZE(((struct pool_view *)0)->glance.field))
#define SCALED(type, scale, name, unit, field, help) \
	__metric(type, POOL, scale, name, unit, help, pool_view, glance.field, NULL, NULL, 1)
#define HISTOGRAM(name, kind, help) \
	{ name, "seconds", help, METRIC_HISTOGRAM, SCOPE_POOL, SCALE_NS, 8, \
	  offsetof(struct pool_view, glance.residency[KVMM_RESIDENCY_##kind]), NULL, NULL, 1 }
#define LATENCY(scope, of, name, field, help) \
	{ name, "seconds", help, METRIC_LATENCY, SCOPE_##scope, SCALE_NS, 8, \
	  offsetof(struct of, field), NULL, NULL, 1 }
#define AGE(scope, of, name, field, help) \
	{ name, "seconds", help, METRIC_HISTOGRAM, SCOPE_##scope, SCALE_NS, 8, \
	  offsetof(struct of, field), NULL, NULL, 1 }
#define CLASS(type, name, unit, field, help) \
	__metric(type, CLASS, ONE, name, unit, help, kvmm_class_stat, field, NULL, NULL, 1)
#define TENANT(type, name, unit, field, help) \
	__metric(type, TENANT, ONE, name, unit, help, kvmm_tenant_stat, field, NULL, NULL, 1)
#define BELOW(type, name, unit, field, help) \
	__metric(type, BELOW, ONE, name, unit, help, kvmm_tier_client_stat, field, NULL, NULL, 1)
#define BELOW_NS(type, name, unit, field, help) \
	__metric(type, BELOW, NS, name, unit, help, kvmm_tier_client_stat, field, NULL, NULL, 1)
#define TIER(type, name, unit, field, help) \
	__metric(type, TIER, ONE, name, unit, help, kvmm_tier_stat, field, NULL, NULL, 1)
#define DISK(type, name, unit, field, help) \
	__metric(type, DISK, ONE, name, unit, help, kvmm_disk_stat, field, NULL, NULL, 1)
#define SLAB(type, name, unit, field, help) \
	__metric(type, SLAB, ONE, name, unit, help, kvmm_slab_stat, field, NULL, NULL, 1)
#define PUBLISHER(type, name, unit, field, help) \
	__metric(type, PUBLISHER, ONE, name, unit, help, kvmm_publisher_stat, field, NULL, NULL, 1)

static const char *const states[] = { "free", "null", "range", "private", "staged", "active",
				      "inactive" };
static const char *const misses[] = { "never", "evicted", "staged", "tenant", "group", "short" };
static const char *const steps[] = { "drain", "steal", "evict", "drop", "compact", "offload", "wait" };
static const char *const windows[] = { "10s", "60s", "300s" };
static const char *const pins[] = { "user", "rdma", "gds", "ipc", "copy", "graph" };
static const char *const levels[] = { "device", "host", "beyond" };
static const char *const fills[] = { "full", "partial", "empty" };

static_assert(offsetof(struct kvmm_slab_stat, nr_partial) == offsetof(struct kvmm_slab_stat, nr_full) + 8 &&
	      offsetof(struct kvmm_slab_stat, nr_empty) == offsetof(struct kvmm_slab_stat, nr_full) + 16,
	      "an array of slabs by how full they are");
static_assert(ARRAY_SIZE(states) == KVMM_NR_BLOCK_STATES && ARRAY_SIZE(misses) == KVMM_NR_MISSES &&
	      ARRAY_SIZE(steps) == KVMM_NR_STEPS && ARRAY_SIZE(windows) == KVMM_NR_AVGS &&
	      ARRAY_SIZE(pins) == KVMM_NR_PIN_TYPES && ARRAY_SIZE(levels) == KVMM_NR_TIER_LEVELS,
	      "a name for each");

const struct metric kv_metrics[] = {
	{ "kvmm_pool", NULL, "What a pool is.", METRIC_INFO, SCOPE_POOL, 0, 0, 0, NULL, NULL, 1 },

	POOL(GAUGE, "kvmm_capacity_blocks", "blocks", stat.nr_blocks, "Blocks that can be used."),
	POOL(GAUGE, "kvmm_free_blocks", "blocks", stat.nr_free, "Blocks that hold nothing."),
	POOL(GAUGE, "kvmm_available_blocks", "blocks", stat.nr_available, "Blocks that are free, or cached and referenced by nobody."),
	POOL(GAUGE, "kvmm_away_blocks", "blocks", stat.nr_away, "Blocks whose memory is given back."),
	POOLS(GAUGE, "kvmm_state_blocks", "blocks", stat.nr_state, "state", states, "Blocks by state."),
	POOL(GAUGE, "kvmm_ranges", NULL, stat.nr_ranges, "Ranges."),
	POOL(GAUGE, "kvmm_largest_free_run_blocks", "blocks", stat.largest, "Length of the longest run of free blocks."),
	POOL(GAUGE, "kvmm_free_runs", NULL, stat.nr_runs, "Maximal runs of free blocks."),
	{ "kvmm_free_pieces", NULL, "Free aligned pieces of 2^order blocks, as buddyinfo has them.", METRIC_GAUGE, SCOPE_POOL, SCALE_ONE, 8, offsetof(struct pool_view, order_free), "order", NULL, KVMM_NR_ORDERS },
	{ "kvmm_unusable_free_ratio", "ratio", "Part of the free blocks that is no use for an aligned request of 2^order.", METRIC_GAUGE, SCOPE_POOL, SCALE_PPM, 8, offsetof(struct pool_view, unusable_ppm), "order", NULL, KVMM_NR_ORDERS },
	POOL(GAUGE, "kvmm_block_bytes", "bytes", stat.block_bytes, "Bytes of a block."),
	POOL(GAUGE, "kvmm_block_tokens", "tokens", stat.block_tokens, "Tokens of a block."),
	POOL(GAUGE, "kvmm_metadata_bytes", "bytes", stat.metadata_bytes, "Host memory of the pool."),

	POOL(COUNTER, "kvmm_allocations", NULL, stat.allocs, "Allocations that succeeded."),
	POOL(COUNTER, "kvmm_allocated_blocks", "blocks", stat.alloc_blocks, "Blocks in them."),
	POOL(COUNTER, "kvmm_frees", NULL, stat.frees, "Calls that gave blocks back."),
	POOL(COUNTER, "kvmm_no_space", NULL, stat.fail_nospc, "Requests that failed for want of blocks."),
	POOL(COUNTER, "kvmm_fragmented", NULL, stat.fail_frag, "Requests that did not fit although enough blocks were free: failed, or saved by compaction."),
	POOL(COUNTER, "kvmm_evicted_blocks", "blocks", stat.evictions, "Cached blocks that lost their name for others."),
	POOL(COUNTER, "kvmm_hit_blocks", "blocks", stat.hit_blocks, "Blocks that lookups found."),
	POOL(COUNTER, "kvmm_missed_blocks", "blocks", stat.miss_blocks, "Blocks that they did not."),
	POOL(COUNTER, "kvmm_staged_blocks", "blocks", stat.stagings, "Blocks that were given a key, before they were registered."),
	POOL(COUNTER, "kvmm_registered_blocks", "blocks", stat.registered, "Blocks that got a name."),
	POOL(COUNTER, "kvmm_duplicate_blocks", "blocks", stat.duplicates, "Of them, or rejected: under a name that was taken."),
	POOLS(COUNTER, "kvmm_misses", NULL, stat.nr_missed, "reason", misses, "Lookups that ended before the end of their keys, by reason."),
	POOL(COUNTER, "kvmm_compactions", NULL, stat.compactions, "Compactions and shrinks that moved anything."),
	POOL(COUNTER, "kvmm_moved_blocks", "blocks", stat.moved_blocks, "Blocks that were moved."),
	POOL(COUNTER, "kvmm_moves", NULL, stat.moves, "Runs in which they were."),

	POOLS(COUNTER, "kvmm_reclaim_steps", NULL, alloc.taken, "step", steps, "What was done to make room, and changed something."),
	POOLS(COUNTER, "kvmm_reclaim_skips", NULL, alloc.skipped, "step", steps, "What was not, since it costs more than something else."),
	POOLS(COUNTER, "kvmm_reclaim_saves", NULL, alloc.saved, "step", steps, "Steps after which the request fitted."),
	POOL(GAUGE, "kvmm_waiting_requests", "requests", alloc.nr_waiting, "Requests that wait for blocks."),
	POOL(GAUGE, "kvmm_promised_blocks", "blocks", alloc.nr_promised, "Blocks that are promised, and not taken."),
	POOL(COUNTER, "kvmm_timed_out_requests", "requests", alloc.nr_timed_out, "Requests that waited for nothing."),
	POOL(COUNTER, "kvmm_cancelled_requests", "requests", alloc.nr_cancelled, "Requests that were called off while they waited."),
	POOL(GAUGE, "kvmm_min_watermark_blocks", "blocks", alloc.marks.min, "Below so many free blocks only urgent requests get any."),
	POOL(GAUGE, "kvmm_low_watermark_blocks", "blocks", alloc.marks.low, "So many are kept free from normal requests."),
	POOL(GAUGE, "kvmm_high_watermark_blocks", "blocks", alloc.marks.high, "Up to here kvmm_reclaim() frees."),

	__metric(GAUGE, POOL, PERCENT, "kvmm_pressure_some_ratio", "ratio", "Time in which a request waited for memory, of all time, averaged.", pool_view, glance.pressure.some.avg, "window", windows, KVMM_NR_AVGS),
	__metric(GAUGE, POOL, PERCENT, "kvmm_pressure_full_ratio", "ratio", "The same for time in which nobody got anywhere.", pool_view, glance.pressure.full.avg, "window", windows, KVMM_NR_AVGS),
	SCALED(COUNTER, US, "kvmm_pressure_some_seconds", "seconds", pressure.some.total_us, "Time in which a request waited for memory."),
	SCALED(COUNTER, US, "kvmm_pressure_full_seconds", "seconds", pressure.full.total_us, "Time in which nobody got anywhere."),

	LATENCY(POOL, pool_view, "kvmm_queue_wait_seconds", glance.pressure.queue, "How long requests waited for their turn."),
	LATENCY(POOL, pool_view, "kvmm_make_room_seconds", glance.pressure.room, "How long it took to make room for a request, or to find that there is none."),

	POOL(GAUGE, "kvmm_reserved_blocks", "blocks", growth.nr_reserved, "Free blocks that are kept behind ranges that grow."),
	POOL(COUNTER, "kvmm_grown_in_place", NULL, growth.in_place, "Pieces that ranges grew by behind their end."),
	POOL(COUNTER, "kvmm_grown_elsewhere", NULL, growth.elsewhere, "Pieces that became a further extent."),
	POOL(COUNTER, "kvmm_stolen_blocks", "blocks", growth.stolen_blocks, "Reserved blocks that others took."),

	POOL(GAUGE, "kvmm_open_steps", NULL, step.nr_open, "Streams with an open step."),
	POOL(GAUGE, "kvmm_copying_blocks", "blocks", step.copying_blocks, "Blocks on their way to a new place."),
	POOL(GAUGE, "kvmm_limbo_blocks", "blocks", step.limbo_blocks, "Old places that a step may still read."),
	POOL(GAUGE, "kvmm_unseen_blocks", "blocks", step.unseen_blocks, "Blocks that nobody may have until the end of a failed copy is seen."),
	POOL(COUNTER, "kvmm_steps", NULL, step.steps, "Steps that were begun."),
	POOL(COUNTER, "kvmm_published_blocks", "blocks", step.published_blocks, "Of the moved blocks, those moved beside or between steps."),
	POOL(COUNTER, "kvmm_void_moves", NULL, step.void_moves, "Moves given up because their owner changed."),
	POOL(COUNTER, "kvmm_failed_moves", NULL, step.failed_moves, "Moves whose copy failed."),
	POOL(COUNTER, "kvmm_cancelled_moves", NULL, step.cancelled_moves, "Moves that were called off."),
	POOL(COUNTER, "kvmm_lost_blocks", "blocks", step.lost_blocks, "Blocks whose content a failed copy destroyed."),
	POOL(COUNTER, "kvmm_paced_bytes", "bytes", pace.bytes, "Bytes submitted beside steps."),
	POOL(COUNTER, "kvmm_paced_denials", NULL, pace.denied, "Times that a copy beside steps had to wait for its budget."),

	POOL(GAUGE, "kvmm_elastic_bytes", "bytes", elastic.total_bytes, "Memory that can be given back in parts."),
	POOL(GAUGE, "kvmm_given_bytes", "bytes", elastic.given_bytes, "Of it, what is given back now."),
	POOL(GAUGE, "kvmm_balloon_bytes", "bytes", elastic.target_bytes, "What the balloon aims at."),
	POOL(COUNTER, "kvmm_shrunk_bytes", "bytes", elastic.shrunk_bytes, "Memory that was given back."),
	POOL(COUNTER, "kvmm_regained_bytes", "bytes", elastic.grown_bytes, "Memory that came back."),

	POOL(GAUGE, "kvmm_unverified_blocks", "blocks", verify.pending, "Blocks to be summed, or checked after a move."),
	POOL(COUNTER, "kvmm_checksums", NULL, verify.sums, "Checksums taken."),
	POOL(COUNTER, "kvmm_comparisons", NULL, verify.checks, "Checksums compared."),
	POOL(COUNTER, "kvmm_bad_blocks", "blocks", verify.bad_blocks, "Blocks that were wrong, and are lost."),
	POOL(COUNTER, "kvmm_bad_copies", NULL, verify.bad_copies, "Copies that were wrong, and were not published."),

	SCALED(GAUGE, PER_MILLE, "kvmm_background_score_ratio", "ratio", background.score_pm, "Fragmentation as the background thread saw it last."),
	POOL(COUNTER, "kvmm_background_checks", NULL, background.checks, "Times it looked."),
	POOL(COUNTER, "kvmm_background_starts", NULL, background.starts, "Times it began to move blocks."),
	POOL(COUNTER, "kvmm_background_useless", NULL, background.useless, "Times it found no allowed moves."),

	POOLS(GAUGE, "kvmm_pinned_blocks", NULL, pins.blocks, "type", pins, "Pins on cached blocks; one block may have several."),
	POOLS(GAUGE, "kvmm_pinned_ranges", NULL, pins.ranges, "type", pins, "Pins on ranges."),

	SCALED(GAUGE, PPM, "kvmm_residency_sample_ratio", "ratio", residency_ppm, "Part of the names that is sampled for the histograms."),
	HISTOGRAM("kvmm_block_lifetime_seconds", LIFETIME, "Sampled: from registration until the name is forgotten."),
	HISTOGRAM("kvmm_block_idle_before_evict_seconds", IDLE, "Sampled: from the last use until then."),
	HISTOGRAM("kvmm_block_reuse_gap_seconds", REUSE, "Sampled: from one use to the next."),
	HISTOGRAM("kvmm_block_hit_age_seconds", HIT_AGE, "Sampled: from registration to each hit."),

	CLASS(GAUGE, "kvmm_class_blocks", "blocks", nr, "Cached blocks of a class, referenced ones included."),
	CLASS(GAUGE, "kvmm_class_quota_blocks", "blocks", quota, "Most it may have."),
	CLASS(COUNTER, "kvmm_class_evicted_blocks", "blocks", evicted, "Blocks that were evicted from it."),
	CLASS(COUNTER, "kvmm_class_demoted_blocks", "blocks", demoted, "Blocks that came down from it."),
	CLASS(COUNTER, "kvmm_class_reached", NULL, reached, "Calls that evicted from it."),

	TENANT(GAUGE, "kvmm_tenant_blocks", "blocks", usage, "Blocks charged to a tenant."),
	TENANT(GAUGE, "kvmm_tenant_peak_blocks", "blocks", peak, "The most there were."),
	TENANT(GAUGE, "kvmm_tenant_min_blocks", "blocks", min, "Protected for sure."),
	TENANT(GAUGE, "kvmm_tenant_low_blocks", "blocks", low, "Protected as long as others have something."),
	TENANT(GAUGE, "kvmm_tenant_high_blocks", "blocks", high, "Beyond it gives up its own first."),
	TENANT(GAUGE, "kvmm_tenant_max_blocks", "blocks", max, "Most it may have."),
	TENANT(COUNTER, "kvmm_tenant_low_events", NULL, nr_low, "Blocks it lost to others although it was at or below its low."),
	TENANT(COUNTER, "kvmm_tenant_high_events", NULL, nr_high, "Allocations beyond its high."),
	TENANT(COUNTER, "kvmm_tenant_max_events", NULL, nr_max, "Allocations that would have gone beyond its max."),
	TENANT(COUNTER, "kvmm_tenant_refused", NULL, nr_oom, "Of these, refused."),
	TENANT(COUNTER, "kvmm_tenant_reclaimed_blocks", "blocks", nr_reclaimed, "Blocks it lost for its own limits."),
	TENANT(COUNTER, "kvmm_tenant_evicted_blocks", "blocks", nr_evicted, "Blocks it lost in all."),

	BELOW(GAUGE, "kvmm_below_blocks", "blocks", blocks, "Readable copies that a pool has in its tier."),
	BELOW(GAUGE, "kvmm_below_bytes", "bytes", bytes, "What they take."),
	BELOW(GAUGE, "kvmm_below_writing_blocks", "blocks", writing, "Copies on their way down."),
	BELOW(GAUGE, "kvmm_below_queued_blocks", "blocks", queued, "Blocks that wait to be copied down."),
	BELOW(GAUGE, "kvmm_below_loading_blocks", "blocks", loading, "Blocks on their way up."),
	BELOW(COUNTER, "kvmm_offloaded_blocks", "blocks", offloads, "Blocks that were copied down."),
	BELOW(COUNTER, "kvmm_loaded_blocks", "blocks", loads, "Blocks that were copied up."),
	BELOW(COUNTER, "kvmm_offloaded_bytes", "bytes", offload_bytes, "Bytes that were copied down."),
	BELOW(COUNTER, "kvmm_loaded_bytes", "bytes", load_bytes, "Bytes that were copied up."),
	BELOW_NS(COUNTER, "kvmm_offload_seconds", "seconds", offload_ns, "Time that copies down were under way, added up."),
	BELOW_NS(COUNTER, "kvmm_load_seconds", "seconds", load_ns, "Time that copies up were under way, added up."),
	LATENCY(BELOW, kvmm_tier_client_stat, "kvmm_offload_copy_seconds", offload_took, "How long each copy down took."),
	LATENCY(BELOW, kvmm_tier_client_stat, "kvmm_load_copy_seconds", load_took, "How long each copy up took."),
	LATENCY(BELOW, kvmm_tier_client_stat, "kvmm_disk_read_seconds", disk_took, "How long each read of a block from the disk took."),
	BELOW(COUNTER, "kvmm_below_hit_blocks", "blocks", hits, "Keys that were asked for below, and found."),
	BELOW(COUNTER, "kvmm_below_missed_blocks", "blocks", misses, "Keys that were not."),
	BELOW(COUNTER, "kvmm_below_retries", NULL, retries, "Keys that were answered: ask again."),
	BELOW(COUNTER, "kvmm_below_pending", NULL, pendings, "Keys that were on their way up already."),
	BELOW(COUNTER, "kvmm_below_shared_blocks", "blocks", shared, "Blocks of loads that waited for another one's copy."),
	BELOW(COUNTER, "kvmm_below_present_blocks", "blocks", present, "Offloads that found a copy."),
	BELOW(COUNTER, "kvmm_below_reloaded_blocks", "blocks", reloads, "Loads of what had gone down shortly before."),
	BELOW(COUNTER, "kvmm_below_evicted_blocks", "blocks", evicted, "Copies that had to go."),
	BELOW(COUNTER, "kvmm_below_aborted", NULL, aborted, "Operations that were called off."),
	BELOW(COUNTER, "kvmm_below_failed_blocks", "blocks", failed, "Copies that did not end well."),
	BELOW(COUNTER, "kvmm_below_corrupt_blocks", "blocks", corrupt, "Of these, those whose content was wrong."),
	BELOW(COUNTER, "kvmm_below_refused", NULL, refused, "Loads that did not fit."),
	BELOW(GAUGE, "kvmm_below_touches", NULL, touches, "Uses that make a block worth a copy now."),
	BELOW(GAUGE, "kvmm_below_thrashing", NULL, thrashing, "1: dropped blocks have come back too soon."),
	BELOW(COUNTER, "kvmm_below_thrashing_episodes", NULL, episodes, "How often that was so."),
	__metric(COUNTER, BELOW, ONE, "kvmm_refaulted_blocks", "blocks", "Blocks that were filled or loaded again, by how many had been since: fewer than the device has, than the host tier has, or more.", kvmm_tier_client_stat, refaults, "distance", levels, KVMM_NR_TIER_LEVELS),

	TIER(GAUGE, "kvmm_tier_capacity_units", "units", units, "Units of a host tier in the end."),
	TIER(GAUGE, "kvmm_tier_ready_units", "units", units_ready, "Units that are there."),
	TIER(GAUGE, "kvmm_tier_used_units", "units", units_used, "Units that blocks take."),
	TIER(GAUGE, "kvmm_tier_unit_bytes", "bytes", unit_bytes, "Bytes of a unit; 0: ids only."),
	TIER(GAUGE, "kvmm_tier_blocks", "blocks", blocks, "Readable blocks."),
	TIER(GAUGE, "kvmm_tier_read_blocks", "blocks", pinned, "Of them, those being read."),
	TIER(GAUGE, "kvmm_tier_clients", NULL, clients, "Pools that use it."),
	TIER(GAUGE, "kvmm_tier_pinned_bytes", "bytes", bytes_pinned, "Memory that copies need no staging for."),
	TIER(COUNTER, "kvmm_tier_stored_blocks", "blocks", stored, "Copies that were made."),
	TIER(COUNTER, "kvmm_tier_evicted_blocks", "blocks", evicted, "Copies that had to go."),
	TIER(COUNTER, "kvmm_tier_lost_blocks", "blocks", lost, "Of these, those without a copy below."),
	TIER(COUNTER, "kvmm_tier_demoted_blocks", "blocks", demoted, "Blocks written to the disk."),
	TIER(COUNTER, "kvmm_tier_promoted_blocks", "blocks", promoted, "Blocks read from it."),
	TIER(COUNTER, "kvmm_tier_failed_blocks", "blocks", below_failed, "Of either, what did not end well."),

	AGE(TIER, kvmm_tier_stat, "kvmm_tier_hit_age_seconds", hit_age, "From when a copy became readable to each load of it."),
	AGE(TIER, kvmm_tier_stat, "kvmm_tier_evict_age_seconds", evict_age, "From then until it had to go."),

	DISK(GAUGE, "kvmm_disk_max_bytes", "bytes", max_bytes, "The file never has more."),
	DISK(GAUGE, "kvmm_disk_file_bytes", "bytes", file_bytes, "What it has."),
	DISK(GAUGE, "kvmm_disk_records", NULL, nr_records, "Records that can be hit."),
	DISK(GAUGE, "kvmm_disk_record_bytes", "bytes", record_bytes, "Their payload."),
	DISK(GAUGE, "kvmm_disk_pending_records", "records", nr_pending, "Records that are being written."),
	DISK(GAUGE, "kvmm_disk_read_only", NULL, read_only, "1: too many writes failed, nothing is written any more."),
	DISK(COUNTER, "kvmm_disk_written_records", "records", nr_put, "Records written."),
	DISK(COUNTER, "kvmm_disk_written_bytes", "bytes", put_bytes, "Their payload."),
	DISK(COUNTER, "kvmm_disk_read_records", "records", nr_got, "Records read and verified."),
	DISK(COUNTER, "kvmm_disk_read_bytes", "bytes", got_bytes, "Their payload."),
	DISK(COUNTER, "kvmm_disk_missed_records", "records", nr_missed, "Reads of what is not there."),
	DISK(COUNTER, "kvmm_disk_damaged_records", "records", nr_damaged, "Records that did not verify."),
	DISK(COUNTER, "kvmm_disk_reclaimed_segments", "segments", nr_reclaimed, "Segments that were used again."),
	DISK(COUNTER, "kvmm_disk_dropped_records", "records", nr_dropped, "Records lost by that."),
	DISK(COUNTER, "kvmm_disk_reinserted_records", "records", nr_reinserted, "Records that went along."),
	DISK(COUNTER, "kvmm_disk_read_errors", NULL, nr_read_errors, "Reads that failed."),
	DISK(COUNTER, "kvmm_disk_write_errors", NULL, nr_write_errors, "Writes that failed."),
	DISK(COUNTER, "kvmm_disk_sync_errors", NULL, nr_sync_errors, "Flushes that failed."),
	DISK(COUNTER, "kvmm_disk_full_segments", "segments", nr_no_room, "Segments that the file system had no room for."),

	AGE(DISK, kvmm_disk_stat, "kvmm_disk_hit_age_seconds", hit_age, "From when the segment of a record was begun to each read of it."),
	AGE(DISK, kvmm_disk_stat, "kvmm_disk_evict_age_seconds", evict_age, "From then until the record was lost with its segment."),

	SLAB(GAUGE, "kvmm_slab_objects", "objects", nr_objects, "Objects of a slab cache that live."),
	SLAB(GAUGE, "kvmm_slab_slots", "slots", nr_slots, "Objects that fit into its slabs."),
	{ "kvmm_slabs", "slabs", "Its slabs, by how full they are.", METRIC_GAUGE, SCOPE_SLAB, SCALE_ONE, 8, offsetof(struct kvmm_slab_stat, nr_full), "state", fills, ARRAY_SIZE(fills) },
	SLAB(GAUGE, "kvmm_slab_blocks", "blocks", nr_blocks, "Base blocks that they take."),
	SLAB(GAUGE, "kvmm_slab_held_bytes", "bytes", held_bytes, "Bytes of these blocks."),
	SLAB(GAUGE, "kvmm_slab_live_bytes", "bytes", live_bytes, "Of them, bytes of living objects."),
	SLAB(GAUGE, "kvmm_slab_slack_bytes", "bytes", slack_bytes, "Of them, bytes outside all objects."),
	SLAB(GAUGE, "kvmm_slab_unused_bytes", "bytes", unused_bytes, "Of them, bytes of objects that do not live."),
	SLAB(GAUGE, "kvmm_slab_metadata_bytes", "bytes", metadata_bytes, "Host memory of the cache."),
	SLAB(COUNTER, "kvmm_slab_allocated_objects", "objects", allocs, "Objects that were taken."),
	SLAB(COUNTER, "kvmm_slab_freed_objects", "objects", frees, "Objects that were given back."),
	SLAB(COUNTER, "kvmm_slab_made_slabs", "slabs", slabs_made, "Slabs that were made."),
	SLAB(COUNTER, "kvmm_slab_returned_slabs", "slabs", slabs_returned, "Slabs that went back to the zone."),
	SLAB(COUNTER, "kvmm_slab_no_space", NULL, fail_nospc, "Requests that found no room in the zone."),

	PUBLISHER(COUNTER, "kvmm_publisher_batches", "batches", batches, "Batches that were published."),
	PUBLISHER(COUNTER, "kvmm_publisher_events", "events", events, "Events in them."),
	PUBLISHER(COUNTER, "kvmm_publisher_bytes", "bytes", bytes, "Bytes of these batches."),
	PUBLISHER(COUNTER, "kvmm_publisher_unsent_batches", "batches", unsent, "Of them, those that libzmq did not take."),
	PUBLISHER(COUNTER, "kvmm_publisher_lost_events", "events", lost, "Events that the publisher missed itself."),
	PUBLISHER(COUNTER, "kvmm_publisher_resyncs", NULL, resyncs, "Times that it published everything anew for that."),
	PUBLISHER(COUNTER, "kvmm_publisher_replays", NULL, replays, "Replays that were asked for and answered."),
	PUBLISHER(COUNTER, "kvmm_publisher_snapshots", NULL, snapshots, "Snapshots that were."),
	PUBLISHER(COUNTER, "kvmm_publisher_refused", NULL, refused, "Requests that were none."),
};

const u32 kv_nr_metrics = ARRAY_SIZE(kv_metrics);
