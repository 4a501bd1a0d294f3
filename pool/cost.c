// SPDX-License-Identifier: Apache-2.0
/*
 * Costs of making room; see cost.h.
 *
 * Every answer is one pass over the owners of all blocks: it is asked for only once the zone has
 * refused, and before anything is copied.
 */
#include "cost.h"

#define NEVER	UINT64_MAX

struct prices {
	u64 move;	/* of what can be moved; NEVER: it may not */
	u64 inactive;	/* of a cached block without references */
};

static bool entry_is_inactive(const struct kvmm_pool *pool, u32 index)
{
	u64 word = READ_ONCE(entry_at(pool, index)->word);

	return kv_word_is(word, KV_ENTRY_REGISTERED) && !kv_word_refs(word);
}

static u64 price_of(const struct kvmm_pool *pool, u32 block, const struct prices *prices)
{
	u32 owner = pool->owner[block], index = owner_index(owner);

	if (elastic_is_leaving(pool, (struct kvmm_extent){ block, 1 }))
		return NEVER;
	switch (owner_kind(owner)) {
	case OWNER_FREE:
	case OWNER_LEFT:
	case OWNER_RESERVED:
		return 0;
	case OWNER_SLOT:
		return slot_is_pinned(slot_at(pool, index)) ? NEVER : prices->move;
	case OWNER_ENTRY:
		return entry_is_inactive(pool, index) ? prices->inactive : NEVER;
	default:
		return NEVER;
	}
}

/* The cheapest row of @nr blocks; false: something that must stay is in each. */
static bool cheapest(const struct kvmm_pool *pool, u32 nr, const struct prices *prices,
		     struct cost_window *window)
{
	u64 sum = 0;
	u32 start = 0;

	*window = (struct cost_window){ .nr = nr, .ns = NEVER };
	for (u32 at = 0; at < pool->nr_blocks; at++) {
		u64 price = price_of(pool, at, prices);

		if (price == NEVER) {
			start = at + 1;
			sum = 0;
			continue;
		}
		sum += price;
		if (at - start + 1 > nr)
			sum -= price_of(pool, start++, prices);
		if (at - start + 1 == nr && sum < window->ns) {
			window->start = start;
			window->ns = sum;
		}
	}
	return window->ns != NEVER;
}

u64 cost_of_run(struct kvmm_pool *pool, u32 nr)
{
	u64 copy = pool->door.costs.copy_block_ns;
	struct prices prices = { copy, copy };
	struct cost_window window;

	cheapest(pool, nr, &prices, &window);
	return window.ns;
}

/* Not where tenants have limits: what lies in the way may be protected. */
bool cost_prefers_drop(struct kvmm_pool *pool, const struct room *room, struct cost_window *window)
{
	u64 copy = pool->door.costs.copy_block_ns, drop = pool->door.costs.drop_block_ns;
	struct prices prices = { room->flags & KVMM_ALLOC_NO_COMPACT ? NEVER : copy, drop };

	return drop < copy && !pool->order.quotas && cheapest(pool, room->nr, &prices, window) && window->ns;
}

void cost_drop(struct kvmm_pool *pool, const struct cost_window *window, struct victims *victims)
{
	u32 nr = victims->nr;

	order_enter(&pool->order);
	if (!nr)
		victims->before = pool->order.mark;
	for (u32 block = window->start; block < window->start + window->nr; block++) {
		u32 owner = pool->owner[block], index = owner_index(owner);

		if (owner_kind(owner) == OWNER_ENTRY && entry_is_inactive(pool, index) &&
		    order_has(&pool->order, index) && order_take(&pool->order, index))
			victims_add(pool, victims, index);
	}
	order_leave(&pool->order);
	reserve_drop_all(pool);
	victims_free_blocks(pool, victims, victims->nr - nr);
}

/* Longest first. */
static void keep_longest(u32 *longest, u32 nr, u32 length)
{
	for (u32 i = 0; i < nr && length; i++) {
		if (length <= longest[i])
			continue;
		u32 shorter = longest[i];

		longest[i] = length;
		length = shorter;
	}
}

/* What a block is to a run of free ones. */
enum part { IS_FREE, IS_MOVED, IS_END };

static bool fits(const struct kvmm_pool *pool, const struct room *room,
		 enum part (*look)(const struct kvmm_pool *pool, u32 block))
{
	u32 longest[KVMM_MAX_RUNS] = { 0 }, nr_free = 0, sum = 0, nr = max(room->max_runs, 1u);

	for (u32 at = 0; at < pool->nr_blocks; at++) {
		enum part part = look(pool, at);

		nr_free += part == IS_FREE;
		if (part != IS_END)
			continue;
		keep_longest(longest, nr, nr_free);
		nr_free = 0;
	}
	keep_longest(longest, nr, nr_free);
	for (u32 i = 0; i < nr; i++)
		sum += longest[i];
	return sum >= room->nr;
}

/* What lies between two blocks that stay is one run then. */
static enum part look_packed(const struct kvmm_pool *pool, u32 block)
{
	const struct prices prices = { 1, 1 };
	u64 price = price_of(pool, block, &prices);

	return price == NEVER ? IS_END : price ? IS_MOVED : IS_FREE;
}

bool cost_packing_helps(struct kvmm_pool *pool, const struct room *room)
{
	return room->max_runs > 1 && fits(pool, room, look_packed);
}

static enum part look_isolated(const struct kvmm_pool *pool, u32 block)
{
	u32 owner = pool->owner[block];

	if (owner & OWNER_IS_DST || (!(owner & OWNER_IS_SRC) && !owner_is_free(owner)))
		return IS_END;
	return IS_FREE;
}

bool cost_moves_help(const struct kvmm_pool *pool, const struct room *room)
{
	return fits(pool, room, look_isolated);
}
