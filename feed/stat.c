// SPDX-License-Identifier: Apache-2.0
/*
 * The statistics of a pool: counts as of one moment, and a picture.
 *
 * Read under the lock, blocks being moved are waited for; or in passing, by a reader that watches
 * and must not keep a thread waiting.
 */

#include <kvmm/compact.h>
#include <kvmm/ext/inspect.h>
#include <kvmm/ext/lease.h>
#include <pool/local.h>

#include "internal.h"

/* Between 0 and @most: counts that are kept without the lock may lag behind those under it. */
static u32 as_counted(u64 nr, u32 most)
{
	return (s64)nr < 0 ? 0 : min(nr, (u64)most);
}

/* The numbers that the counts are made of. */
struct raw {
	struct pool_count	count;		/* that of arenas and magazines included */
	struct claims		claims;
	struct kvmm_zone_stat	zone;
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
		.count = pool_counts(pool), .claims = pool->claims, .nr_mags = mags_nr(pool),
		.nr_arenas = arenas_nr_free(pool), .nr_reserved = pool_nr_reserved(pool),
		.nr_away = pool->pb.nr_away,
		.metadata_bytes = pool->metadata_bytes + bytes_beside(pool),
	};
	mags_count(pool, &raw.count);
	kvmm_zone_get_stat(pool->zone, &raw.zone);
	fill_stat(pool, &raw, stat);
	arenas_unlock(pool);
	pool_leave(pool);
	return 0;
}

/* ---- the same in passing, without a lock ---- */

/* Counts of magazines come to the pool's own counts now and then: never seen in both. */
static void peek_counts(const struct kvmm_pool *pool, struct raw *raw)
{
	u32 seq;

	do {
		seq = kv_seq_read_begin(&pool->fold_seq);
		kv_peek_copy(&raw->count, &pool->count, sizeof(raw->count));
		raw->nr_mags = mags_peek(pool, &raw->count);
	} while (kv_seq_read_retry(&pool->fold_seq, seq));
}

int pool_peek(struct kvmm_pool *pool, const struct kv_zone_glance *zone,
	      struct kvmm_pool_stat *stat)
{
	const struct arenas *arenas = pool_arenas(pool);
	struct pool_count count;
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
	peek_counts(pool, &raw);
	for (u32 i = 0; arenas && i < arenas->nr; i++) {
		kv_peek_copy(&count, &arenas->arena[i].count, sizeof(count));
		arena_count_add(&count, &raw.count);
		raw.nr_arenas += READ_ONCE(arenas->arena[i].nr_free);
	}
	fill_stat(pool, &raw, stat);
	return 0;
}

int peek_stat_read(struct kvmm_pool *pool, void *stat)
{
	struct kv_zone_glance zone;

	kv_zone_glance(pool->zone, &zone);
	return pool_peek(pool, &zone, stat);
}

/* ---- the map ---- */

struct part {
	u32 nr;
	u32 nr_held;
	u32 nr_cached;		/* of nr_held: only cached, evictable */
	u32 nr_away;
	bool has_pinned;
};

static void look_at(const struct kvmm_pool *pool, u32 block, struct part *part)
{
	u32 owner = pool->owner[block];
	u32 index = owner_index(owner);

	kv_assert_held(&pool->lock);
	kv_assert(block < pool->nr_blocks);
	part->nr++;
	part->nr_away += owner_is_away(owner);
	if (owner_is_free(owner) || owner_kind(owner) == OWNER_RESERVED || owner_is_away(owner))
		return;
	if (owner_kind(owner) == OWNER_SLOT)
		part->has_pinned |= slot_is_pinned(slot_at(pool, index));
	if (owner_kind(owner) == OWNER_ENTRY) {
		u64 word = READ_ONCE(entry_at(pool, index)->word);

		if (kv_word_is(word, KV_ENTRY_PARKED) || kv_word_is(word, KV_ENTRY_FREE))
			return;
		part->nr_cached += kv_word_is(word, KV_ENTRY_REGISTERED) && !kv_word_refs(word);
	}
	part->nr_held++;
}

/* "Half" is between a third and two thirds. */
static char letter_of(const struct part *part)
{
	kv_assert(part->nr && part->nr_held <= part->nr);
	if (part->has_pinned)
		return 'P';
	if (part->nr_away == part->nr)
		return '-';
	if (!part->nr_held)
		return ' ';
	if (part->nr_cached == part->nr_held)
		return 'c';
	if (part->nr_held == part->nr)
		return '@';
	if (3ull * part->nr_held < part->nr)
		return '.';
	return 3ull * part->nr_held <= 2ull * part->nr ? ':' : '#';
}

/* With more parts than blocks a block is seen in several of them. */
int kvmm_pool_map(struct kvmm_pool *pool, char *buf, unsigned int width)
{
	int err;

	if (!buf || !width)
		return -EINVAL;
	err = pool_enter(pool);
	if (err)
		return err;
	arenas_lock(pool);
	for (u32 i = 0; i < width; i++) {
		u32 from = (u64)i * pool->nr_blocks / width;
		u32 to = (u64)(i + 1) * pool->nr_blocks / width;
		struct part part = { 0 };

		for (u32 block = from; block < max(to, from + 1); block++)
			look_at(pool, block, &part);
		buf[i] = letter_of(&part);
	}
	buf[width] = '\0';
	arenas_unlock(pool);
	pool_leave(pool);
	return 0;
}

/* ---- words for numbers ---- */

static const char *const steps[KVMM_NR_STEPS] = {
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

static const char *const hold_reasons[KVMM_NR_HOLD_REASONS] = {
	[KVMM_HOLD_USER] = "user", [KVMM_HOLD_REQUEST] = "request",
	[KVMM_HOLD_TRANSFER] = "transfer", [KVMM_HOLD_RDMA] = "rdma",
	[KVMM_HOLD_GDS] = "gds", [KVMM_HOLD_IPC] = "ipc", [KVMM_HOLD_COPY] = "copy",
	[KVMM_HOLD_GRAPH] = "graph",
};

static const char *const owned_kinds[KVMM_NR_OWNED_KINDS] = {
	[KVMM_OWNED_RANGE] = "range", [KVMM_OWNED_PRIVATE] = "private",
	[KVMM_OWNED_STAGED] = "staged", [KVMM_OWNED_HOLD] = "hold",
	[KVMM_OWNED_PIN] = "pin",
};

static const struct {
	const char *const *name;
	u32 nr;
} names[KVMM_NR_NAMES] = {
	[KVMM_NAME_STEP] = { steps, KVMM_NR_STEPS },
	[KVMM_NAME_GOAL] = { goals, KVMM_NR_GOALS },
	[KVMM_NAME_MAP_STATE] = { map_states, KVMM_NR_MAP_STATES },
	[KVMM_NAME_HOLD_REASON] = { hold_reasons, KVMM_NR_HOLD_REASONS },
	[KVMM_NAME_OWNED_KIND] = { owned_kinds, KVMM_NR_OWNED_KINDS },
};

const char *kvmm_enum_name(enum kvmm_name_of what, uint32_t number)
{
	if ((u32)what >= KVMM_NR_NAMES || number >= names[what].nr)
		return "?";
	return names[what].name[number];
}
