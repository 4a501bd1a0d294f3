// SPDX-License-Identifier: Apache-2.0
/*
 * What the pool says about itself: counts as of one moment, and a picture.
 *
 * Everything here is read under the lock; blocks being moved are waited for.
 */

#include "move/goal.h"
#include "hold.h"
#include "local.h"
#include "owned.h"
#include "move/verify.h"

/* Between 0 and @most: counts that are kept without the lock may lag behind those under it. */
static u32 as_counted(u64 nr, u32 most)
{
	return (s64)nr < 0 ? 0 : min(nr, (u64)most);
}

/*
 * An engine that rounds up holds blocks that nobody owns: they count as free by state, since they
 * hold nothing, but not in nr_free, since nobody can have them.
 */
static void count_states(const struct kvmm_pool *pool, const struct pool_count *count, u32 nr_mags,
			 struct kvmm_pool_stat *stat)
{
	u64 nr_named = tally_sum(pool, TALLY_REGISTERED) - pool->count.nr_forgotten -
		       pool->claims.nr_named;
	u32 *nr_state = stat->nr_state, nr_held = pool->count.nr_held - pool_nr_parked(pool);
	u32 named;

	/* A block on its way from one thread to another may have been seen with both. */
	nr_held -= min(nr_mags, nr_held);
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

static void copy_events(const struct pool_count *count, struct kvmm_pool_stat *stat)
{
	stat->allocs = count->allocs;
	stat->alloc_blocks = count->alloc_blocks;
	stat->frees = count->frees;
	stat->fail_nospc = count->fail_nospc;
	stat->fail_frag = count->fail_frag;
	stat->evictions = count->evictions;
	stat->compactions = count->compactions;
	stat->moved_blocks = count->moved_blocks;
	stat->moves = count->moves;
}

static_assert(KVMM_MISS_GROUP + 1 == (int)KV_NR_MISSES, "reasons in the same order");

static void copy_lookups(const struct kvmm_pool *pool, struct kvmm_pool_stat *stat)
{
	stat->hit_blocks = tally_sum(pool, TALLY_HITS);
	stat->miss_blocks = tally_sum(pool, TALLY_MISSES);
	stat->registered = tally_sum(pool, TALLY_NEW);
	stat->duplicates = tally_sum(pool, TALLY_DUPS);
	for (u32 why = 0; why < KV_NR_MISSES; why++)
		stat->nr_missed[why] = pool->map->ops->nr_missed(pool->map, why);
	stat->nr_missed[KVMM_MISS_SHORT] = tally_sum(pool, TALLY_SHORT);
}

static void fill_stat(struct kvmm_pool *pool, struct kvmm_pool_stat *stat)
{
	struct pool_count count = pool_counts(pool);
	u32 nr_mags = mags_nr(pool);	/* of those that are held */
	struct kvmm_zone_stat zone;

	mags_count(pool, &count);
	kvmm_zone_stat(pool->zone, &zone);
	*stat = (struct kvmm_pool_stat){
		.nr_blocks = pool->nr_usable,
		.nr_free = zone.nr_free + pool_nr_parked(pool) + arenas_nr_free(pool) + nr_mags +
			   pool_nr_reserved(pool),
		.nr_ranges = count.nr_ranges,
		.largest = zone.largest,
		.nr_runs = zone.nr_runs,
		.block_tokens = pool->block_tokens,
		.block_bytes = pool->block_bytes,
		.nr_away = elastic_nr_away(pool),
		.metadata_bytes = pool->metadata_bytes + holds_bytes(pool) + steps_bytes(pool) +
				  door_bytes(pool) + owned_bytes(pool) + pin_types_bytes(pool) +
				  verify_bytes(pool) + elastic_bytes(pool) + goals_bytes(pool),
	};
	count_states(pool, &count, nr_mags, stat);
	stat->nr_inactive = stat->nr_state[KVMM_BLOCK_INACTIVE];
	stat->nr_available = stat->nr_free + stat->nr_inactive;
	copy_events(&count, stat);
	if (pool->caches)
		copy_lookups(pool, stat);
}

int kvmm_pool_stat(struct kvmm_pool *pool, struct kvmm_pool_stat *stat)
{
	int err;

	if (!stat)
		return -EINVAL;
	err = pool_enter(pool);
	if (err)
		return err;
	arenas_lock(pool);
	fill_stat(pool, stat);
	arenas_unlock(pool);
	pool_leave(pool);
	return 0;
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

	part->nr++;
	part->nr_away += owner_kind(owner) == OWNER_AWAY;
	if (owner_is_free(owner) || owner_kind(owner) == OWNER_RESERVED ||
	    owner_kind(owner) == OWNER_AWAY)
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
static void draw_map(const struct kvmm_pool *pool, char *buf, u32 width)
{
	for (u32 i = 0; i < width; i++) {
		u32 from = (u64)i * pool->nr_blocks / width;
		u32 to = (u64)(i + 1) * pool->nr_blocks / width;
		struct part part = { 0 };

		for (u32 block = from; block < max(to, from + 1); block++)
			look_at(pool, block, &part);
		buf[i] = letter_of(&part);
	}
	buf[width] = '\0';
}

int kvmm_pool_map(struct kvmm_pool *pool, char *buf, unsigned int width)
{
	int err;

	if (!buf || !width)
		return -EINVAL;
	err = pool_enter(pool);
	if (err)
		return err;
	arenas_lock(pool);
	draw_map(pool, buf, width);
	arenas_unlock(pool);
	pool_leave(pool);
	return 0;
}
