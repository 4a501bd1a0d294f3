// SPDX-License-Identifier: Apache-2.0
/*
 * What the pool says about itself: counts as of one moment, and a picture.
 *
 * Everything here is read under the lock; blocks being moved are waited for.
 */

#include "internal.h"

/*
 * An engine that rounds up holds blocks that nobody owns: they count as free by state, since they
 * hold nothing, but not in nr_free, since nobody can have them.
 */
static void count_states(const struct kvmm_pool *pool, struct kvmm_pool_stat *stat)
{
	const u32 *nr = pool->count.nr_entries;
	u32 *nr_state = stat->nr_state;

	nr_state[KVMM_BLOCK_NULL] = pool->has_null;
	nr_state[KVMM_BLOCK_RANGE] = pool->count.range_blocks;
	nr_state[KVMM_BLOCK_PRIVATE] = nr[ENTRY_PRIVATE];
	nr_state[KVMM_BLOCK_ACTIVE] = nr[ENTRY_ACTIVE];
	nr_state[KVMM_BLOCK_INACTIVE] = nr[ENTRY_INACTIVE];
	nr_state[KVMM_BLOCK_FREE] = pool->nr_blocks;
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
	stat->hit_blocks = count->hit_blocks;
	stat->miss_blocks = count->miss_blocks;
	stat->registered = count->registered;
	stat->compactions = count->compactions;
	stat->moved_blocks = count->moved_blocks;
	stat->moves = count->moves;
}

static void fill_stat(struct kvmm_pool *pool, struct kvmm_pool_stat *stat)
{
	struct kvmm_zone_stat zone;

	kvmm_zone_stat(pool->zone, &zone);
	*stat = (struct kvmm_pool_stat){
		.nr_blocks = pool->nr_usable,
		.nr_free = zone.nr_free + pool->count.nr_entries[ENTRY_UNNAMED],
		.nr_inactive = pool->count.nr_entries[ENTRY_INACTIVE],
		.nr_ranges = pool->count.nr_ranges,
		.largest = zone.largest,
		.nr_runs = zone.nr_runs,
		.block_tokens = pool->block_tokens,
		.block_bytes = pool->block_bytes,
		.metadata_bytes = pool->metadata_bytes,
	};
	stat->nr_available = stat->nr_free + stat->nr_inactive;
	count_states(pool, stat);
	copy_events(&pool->count, stat);
}

int kvmm_pool_stat(struct kvmm_pool *pool, struct kvmm_pool_stat *stat)
{
	int err;

	if (!stat)
		return -EINVAL;
	err = pool_enter(pool);
	if (err)
		return err;
	fill_stat(pool, stat);
	pool_leave(pool);
	return 0;
}

/* ---- the map ---- */

struct part {
	u32 nr;
	u32 nr_held;
	u32 nr_cached;		/* of nr_held: only cached, evictable */
	bool has_pinned;
};

static void look_at(const struct kvmm_pool *pool, u32 block, struct part *part)
{
	u32 owner = pool->owner[block];
	u32 index = owner_index(owner);

	part->nr++;
	if (owner_kind(owner) == OWNER_FREE)
		return;
	if (owner_kind(owner) == OWNER_SLOT)
		part->has_pinned |= slot_is_pinned(slot_at(pool, index));
	if (owner_kind(owner) == OWNER_ENTRY) {
		if (pool->entry[index].state == ENTRY_UNNAMED)
			return;
		part->nr_cached += pool->entry[index].state == ENTRY_INACTIVE;
	}
	part->nr_held++;
}

/* "Half" is between a third and two thirds. */
static char letter_of(const struct part *part)
{
	if (part->has_pinned)
		return 'P';
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
	draw_map(pool, buf, width);
	pool_leave(pool);
	return 0;
}
