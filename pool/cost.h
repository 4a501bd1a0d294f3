/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What making room costs: the one place where copying, dropping and waiting are compared.
 *
 * The cost of a window of blocks is the sum over its blocks: nothing for a free one, the lesser of
 * copying and dropping for a cached one that nobody references, copying for what can move. What
 * cannot move is in no window.
 */
#ifndef POOL_COST_H
#define POOL_COST_H

#include "internal.h"

struct cost_window {
	u32 start;
	u32 nr;
	u64 ns;
};

/*
 * Is waiting for @nr blocks to become free cheaper than @cost_ns? Only for who may wait, and has not
 * waited that long yet.
 */
static inline bool cost_says_wait(const struct kvmm_pool *pool, const struct room *room, u32 nr,
				  u64 cost_ns)
{
	return unlikely(room->patient) && nr * pool->door.costs.wait_block_ns < cost_ns;
}

/* Of moving what is in the cheapest window of @nr blocks; UINT64_MAX: there is none. ->lock held. */
u64 cost_of_run(struct kvmm_pool *pool, u32 nr);

/* Cached blocks are cheaper to drop than to move, and some lie in the cheapest window. ->lock held. */
bool cost_prefers_drop(struct kvmm_pool *pool, const struct room *room, struct cost_window *window);

/* Free the cached blocks in @window; who has been referenced, or has children, stays. ->lock held. */
void cost_drop(struct kvmm_pool *pool, const struct cost_window *window, struct victims *victims);

/* Would the request fit if all that can move lay together? ->lock held. */
bool cost_packing_helps(struct kvmm_pool *pool, const struct room *room);

/* Does it fit once all that is isolated has moved? ->lock held. */
bool cost_moves_help(const struct kvmm_pool *pool, const struct room *room);

#endif /* POOL_COST_H */
