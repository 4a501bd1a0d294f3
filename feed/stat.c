// SPDX-License-Identifier: Apache-2.0
/*
 * The statistics of a pool: counts as of one moment.
 *
 * Read under the lock, blocks being moved are waited for; or in passing, by a reader that watches
 * and must not keep a thread waiting.
 */

#include <kv/evict.h>
#include <kv/key.h>
#include <kvmm/compact.h>
#include <kvmm/ext/inspect.h>
#include <kvmm/ext/lease.h>
#include <percpu/arena.h>
#include <percpu/mag.h>
#include <kvmm/ext/migrate.h>

#include "internal.h"

/* The numbers that the counts are made of. */
struct raw {
	struct pool_count	count;		/* that of arenas and magazines included */
	struct claims		claims;
	struct kv_zone_stat	zone;
	u32			nr_mags;	/* of those that are held */
	u32			nr_arenas;	/* free there */
	u32			nr_reserved;
	u32			nr_away;
	u64			metadata_bytes;
};

static u32 nr_parked_of(const struct raw *raw)
{
	return raw->count.nr_parked - (raw->claims.nr - raw->claims.nr_named);
}

/*
 * An engine that rounds up holds blocks without an owner: they count as free by state, since they
 * hold nothing, but not in nr_free, since no request can have them.
 */
static void count_states(const struct kvmm_pool *pool, const struct raw *raw,
			 struct kvmm_pool_stat *stat)
{
	const struct pool_count *count = &raw->count;
	u64 nr_named = tally_sum(pool, TALLY_REGISTERED) - count->nr_forgotten -
		       raw->claims.nr_named;
	u32 *nr_state = stat->nr_state, nr_held = count->nr_held - nr_parked_of(raw);
	u32 named;

	/* A block on its way from one thread to another may have been seen with both. */
	nr_held -= min(raw->nr_mags, nr_held);
	named = as_counted(nr_named, nr_held);
	nr_state[KVMM_BLOCK_NULL] = pool->has_null;
	nr_state[KVMM_BLOCK_RANGE] = count->range_blocks;
	nr_state[KVMM_BLOCK_STAGED] = as_counted(tally_sum(pool, TALLY_STAGED), nr_held - named);
	nr_state[KVMM_BLOCK_PRIVATE] = nr_held - named - nr_state[KVMM_BLOCK_STAGED];
	nr_state[KVMM_BLOCK_ACTIVE] = as_counted(tally_sum(pool, TALLY_ACTIVE), named);
	nr_state[KVMM_BLOCK_INACTIVE] = named - nr_state[KVMM_BLOCK_ACTIVE];
	nr_state[KVMM_BLOCK_FREE] = pool->nr_blocks - stat->nr_away;
	for (u32 i = KVMM_BLOCK_FREE + 1; i < KVMM_NR_BLOCK_STATES; i++)
		nr_state[KVMM_BLOCK_FREE] -= nr_state[i];
}

static_assert(KVMM_MISS_GROUP + 1 == (int)KV_NR_MISSES, "reasons in the same order");

static void copy_lookups(const struct kvmm_pool *pool, struct kvmm_pool_stat *stat)
{
	stat->hit_blocks = tally_sum(pool, TALLY_HITS);
	stat->miss_blocks = tally_sum(pool, TALLY_MISSES);
	stat->stagings = tally_sum(pool, TALLY_STAGINGS);
	stat->nr_retired = READ_ONCE(pool->entries.nr_retired);
	stat->nr_full = READ_ONCE(pool->entries.nr_full);
	stat->registered = tally_sum(pool, TALLY_NEW);
	stat->duplicates = tally_sum(pool, TALLY_DUPS);
	for (u32 why = 0; why < KV_NR_MISSES; why++)
		stat->nr_missed[why] = pool->map->ops->nr_missed(pool->map, why);
	stat->nr_missed[KVMM_MISS_SHORT] = tally_sum(pool, TALLY_SHORT);
}

static void fill_stat(struct kvmm_pool *pool, const struct raw *raw, struct kvmm_pool_stat *stat)
{
	*stat = (struct kvmm_pool_stat){
		.nr_blocks = pool->nr_usable,
		.nr_free = raw->zone.nr_free + nr_parked_of(raw) + raw->nr_arenas + raw->nr_mags +
			   raw->nr_reserved,
		.nr_ranges = raw->count.nr_ranges,
		.largest = raw->zone.largest,
		.nr_runs = raw->zone.nr_runs,
		.block_tokens = pool->block_tokens,
		.block_bytes = pool->block_bytes,
		.nr_away = raw->nr_away,
		.metadata_bytes = raw->metadata_bytes,
		.allocs = raw->count.allocs,
		.alloc_blocks = raw->count.alloc_blocks,
		.frees = raw->count.frees,
		.fail_nospc = raw->count.fail_nospc,
		.fail_frag = raw->count.fail_frag,
		.evictions = raw->count.evictions,
		.compactions = raw->count.compactions,
		.moved_blocks = raw->count.moved_blocks,
		.moves = raw->count.moves,
	};
	count_states(pool, raw, stat);
	stat->nr_inactive = stat->nr_state[KVMM_BLOCK_INACTIVE];
	stat->nr_available = stat->nr_free + stat->nr_inactive;
	if (pool->caches)
		copy_lookups(pool, stat);
}

/* Of parts that are made when they are first wanted. */
static u64 bytes_beside(struct kvmm_pool *pool)
{
	u64 bytes = 0;

	for (const struct pool_part *const *part = pool->parts.all; *part; part++)
		if ((*part)->bytes)
			bytes += (*part)->bytes(pool);
	return bytes;
}

int pool_stat_read(struct kvmm_pool *pool, void *stat)
{
	struct raw raw;
	int err = pool_enter(pool);

	if (err)
		return err;
	arenas_lock(pool);
	raw = (struct raw){
		.count = pool_counts(pool), .claims = pool->claims,
		.nr_arenas = arenas_nr_free(pool), .nr_reserved = pool_nr_reserved(pool),
		.nr_away = pool->pb.nr_away,
		.metadata_bytes = pool->metadata_bytes + bytes_beside(pool),
	};
	raw.nr_mags = mags_peek(pool, &raw.count);
	kv_zone_get_stat(pool->zone, &raw.zone);
	fill_stat(pool, &raw, stat);
	arenas_unlock(pool);
	pool_leave(pool);
	return 0;
}

/* ---- the same in passing, without a lock ---- */

int pool_peek(struct kvmm_pool *pool, const struct kv_zone_glance *zone,
	      struct kvmm_pool_stat *stat)
{
	const struct arenas *arenas = pool_arenas(pool);
	struct raw raw;
	int err = pool_refusal(pool);

	if (err)
		return err;
	raw = (struct raw){
		.zone = { .nr_free = zone->nr_free, .nr_runs = zone->nr_runs,
			  .largest = zone->largest },
		.nr_reserved = kv_peek(&pool->grow.nr_reserved),
		.nr_away = kv_peek(&pool->pb.nr_away),
		.metadata_bytes = kv_peek(&pool->metadata_bytes) + bytes_beside(pool),
	};
	kv_peek_copy(&raw.claims, &pool->claims, sizeof(raw.claims));
	raw.nr_mags = counts_peek(pool, &raw.count);
	for (u32 i = 0; arenas && i < arenas->nr; i++)
		raw.nr_arenas += READ_ONCE(arenas->arena[i].nr_free);
	fill_stat(pool, &raw, stat);
	return 0;
}

int peek_stat_read(struct kvmm_pool *pool, void *stat)
{
	struct kv_zone_glance zone;

	kv_zone_glance(pool->zone, &zone);
	return pool_peek(pool, &zone, stat);
}

/* ---- words for numbers ---- */

const char *const kv_step_names[KVMM_NR_STEPS] = {
	[KVMM_STEP_DRAIN]   = "drain",	 [KVMM_STEP_STEAL]   = "steal",
	[KVMM_STEP_EVICT]   = "evict",	 [KVMM_STEP_DROP]    = "drop",
	[KVMM_STEP_COMPACT] = "compact", [KVMM_STEP_OFFLOAD] = "offload",
	[KVMM_STEP_WAIT]    = "wait",
};

static const char *const goals[KVMM_NR_GOALS] = {
	[KVMM_GOAL_RUN] = "run", [KVMM_GOAL_PAGEBLOCKS] = "pageblocks",
	[KVMM_GOAL_SHORTEN] = "shorten", [KVMM_GOAL_GATHER] = "gather",
};

static const char *const map_states[KVMM_NR_MAP_STATES] = {
	[KVMM_MAP_FREE] = "free", [KVMM_MAP_NULL] = "null", [KVMM_MAP_RANGE] = "range",
	[KVMM_MAP_PRIVATE] = "private", [KVMM_MAP_STAGED] = "staged",
	[KVMM_MAP_ACTIVE] = "active", [KVMM_MAP_CACHED] = "cached",
	[KVMM_MAP_AWAY] = "away", [KVMM_MAP_RESERVED] = "reserved",
	[KVMM_MAP_ASIDE] = "aside", [KVMM_MAP_CLAIMED] = "claimed",
	[KVMM_MAP_MOVING] = "moving", [KVMM_MAP_LIMBO] = "limbo",
};

static const char *const lease_reasons[KVMM_NR_LEASE_REASONS] = {
	[KVMM_LEASE_USER] = "user", [KVMM_LEASE_REQUEST] = "request",
	[KVMM_LEASE_TRANSFER] = "transfer", [KVMM_LEASE_RDMA] = "rdma",
	[KVMM_LEASE_GDS] = "gds", [KVMM_LEASE_IPC] = "ipc", [KVMM_LEASE_COPY] = "copy",
	[KVMM_LEASE_GRAPH] = "graph",
};

static const char *const lease_kinds[KVMM_NR_LEASE_KINDS] = {
	[KVMM_LEASED_RANGE] = "range", [KVMM_LEASED_PRIVATE] = "private",
	[KVMM_LEASED_STAGED] = "staged", [KVMM_LEASED_REFS] = "hold",
	[KVMM_LEASED_PINS] = "pin",
};

static const char *const stay_reasons[KVMM_NR_STAY_REASONS] = {
	[KVMM_STAY_PIN_USER] = "pin_user", [KVMM_STAY_PIN_RDMA] = "pin_rdma",
	[KVMM_STAY_PIN_GDS] = "pin_gds", [KVMM_STAY_PIN_IPC] = "pin_ipc",
	[KVMM_STAY_PIN_COPY] = "pin_copy", [KVMM_STAY_PIN_GRAPH] = "pin_graph",
	[KVMM_STAY_FIXED] = "fixed", [KVMM_STAY_PRIVATE] = "private",
	[KVMM_STAY_STAGED] = "staged", [KVMM_STAY_UNSEALED] = "unsealed",
	[KVMM_STAY_GROWING] = "growing", [KVMM_STAY_WRITTEN] = "written",
	[KVMM_STAY_FLYING] = "flying", [KVMM_STAY_HELD] = "held",
	[KVMM_STAY_GOING] = "going", [KVMM_STAY_LOST] = "lost",
	[KVMM_STAY_QUIESCENT] = "quiescent", [KVMM_STAY_RECENT] = "recent",
};

static const char *const migrate_phases[KVMM_NR_MIGRATE_PHASES] = {
	[KVMM_MIGRATE_PREPARE] = "prepare", [KVMM_MIGRATE_WAIT] = "wait",
	[KVMM_MIGRATE_COPYING] = "copying", [KVMM_MIGRATE_VERIFY] = "verify",
	[KVMM_MIGRATE_COMMIT] = "commit", [KVMM_MIGRATE_GRACE] = "grace",
	[KVMM_MIGRATE_DONE] = "done", [KVMM_MIGRATE_CANCELLING] = "cancelling",
	[KVMM_MIGRATE_CANCELLED] = "cancelled", [KVMM_MIGRATE_FAILED] = "failed",
};

static const char *const migrate_paths[KVMM_NR_MIGRATE_PATHS] = {
	[KVMM_MIGRATE_PATH_NONE] = "none", [KVMM_MIGRATE_PATH_LOCAL] = "local",
	[KVMM_MIGRATE_PATH_PEER] = "peer", [KVMM_MIGRATE_PATH_HOST] = "host",
	[KVMM_MIGRATE_PATH_STAGED] = "staged", [KVMM_MIGRATE_PATH_SHARED] = "shared",
	[KVMM_MIGRATE_PATH_DEVICE] = "device", [KVMM_MIGRATE_PATH_REMOTE] = "remote",
};

static const struct {
	const char *const *name;
	u32 nr;
} names[KVMM_NR_NAMES] = {
	[KVMM_NAME_STEP] = { kv_step_names, KVMM_NR_STEPS },
	[KVMM_NAME_GOAL] = { goals, KVMM_NR_GOALS },
	[KVMM_NAME_MAP_STATE] = { map_states, KVMM_NR_MAP_STATES },
	[KVMM_NAME_LEASE_REASON] = { lease_reasons, KVMM_NR_LEASE_REASONS },
	[KVMM_NAME_LEASE_KIND] = { lease_kinds, KVMM_NR_LEASE_KINDS },
	[KVMM_NAME_STAY_REASON] = { stay_reasons, KVMM_NR_STAY_REASONS },
	[KVMM_NAME_MIGRATE_PHASE] = { migrate_phases, KVMM_NR_MIGRATE_PHASES },
	[KVMM_NAME_MIGRATE_PATH] = { migrate_paths, KVMM_NR_MIGRATE_PATHS },
};

const char *kvmm_enum_name(enum kvmm_name_of what, uint32_t number)
{
	const char *name = NULL;

	if (what == KVMM_NAME_POLICY && number < KV_MAX_POLICIES && kv_evict_policies[number])
		name = kv_evict_policies[number]->name;
	else if (what == KVMM_NAME_KEY_ALGO)
		name = kv_key_algo(number);
	else if ((u32)what < KVMM_NR_NAMES && number < names[what].nr)
		name = names[what].name[number];
	return name ? name : "?";
}
