/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The price of clearing blocks: the one place where copying, dropping and waiting are compared.
 *
 * A block that is free costs nothing, a cached one without references the lesser of copying and
 * dropping, a movable one its copy. defrag/cheapest.c finds the cheapest by these prices.
 */
#ifndef POOL_COST_H
#define POOL_COST_H

#include <kv/defrag_cheapest.h>
#include <pool/internal.h>

/* The ways to clear blocks. */
struct cost_terms {
	u32 mode;	/* of moves: enum kvmm_move_mode or MOVE_STOPPED */
	bool copies;
	bool drops;	/* of cached blocks; those without a name may always be dropped */
};

/* Of all that lies there; KV_STAYS: that cannot be done. */
struct cost {
	u64 copy_ns;
	u64 drop_ns;
};

struct cost_window {
	u32 start;
	u32 nr;
	u64 ns;
	struct cost_terms terms;
};

/* A cached block without references or pins, which is not being copied. */
static inline bool entry_is_inactive(const struct kvmm_pool *pool, u32 index)
{
	u64 word = READ_ONCE(entry_at(pool, index)->word);

	return kv_word_is(word, KV_ENTRY_REGISTERED) && !kv_word_refs(word) &&
	       !(word & (KV_ENTRY_PINS | KV_ENTRY_MOVING));
}

/* @run is a whole extent, or one block. ->lock held. */
struct cost cost_of(struct kvmm_pool *pool, struct kvmm_extent run, const struct cost_terms *terms);

/*
 * Is waiting for @nr blocks to become free cheaper than @cost_ns? Only for a request that may wait,
 * and has not waited that long yet.
 */
static inline bool cost_says_wait(const struct kvmm_pool *pool, const struct alloc_ctx *room,
				  u32 nr, u64 cost_ns)
{
	return unlikely(room->patient) && nr * pool->door.costs.wait_block_ns < cost_ns;
}

/* Of moving the runs in the cheapest window of @nr blocks; KV_STAYS: none. ->lock held. */
u64 cost_of_run(struct kvmm_pool *pool, u32 nr);

/* Cached blocks are cheaper to drop than to move, some of the cheapest window. ->lock held. */
bool cost_prefers_drop(struct kvmm_pool *pool, const struct alloc_ctx *room,
		       struct cost_window *window);

/*
 * Free the cached blocks in @window that are cheaper to drop; one that has been referenced since,
 * or has children outside, stays. ->lock held; __cost_drop(): the order's lock, too.
 */
void cost_drop(struct kvmm_pool *pool, const struct cost_window *window, struct victims *victims);
void __cost_drop(struct kvmm_pool *pool, const struct cost_window *window, struct victims *victims);
/* Is there any block that is cheaper to drop? ->lock held. */
bool cost_any_to_drop(struct kvmm_pool *pool, const struct cost_window *window);

#endif /* POOL_COST_H */
