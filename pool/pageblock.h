/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Victims that empty pageblocks: aligned groups of so many blocks, all of which are free then.
 *
 * Of the blocks that a window looks at, those go first whose going leaves a pageblock with nobody
 * in it, and with them all that follow them in their chains, which have to go before. Cheapest
 * first: what a pageblock takes is counted when the window is looked at; what others that were
 * chosen before have taken of it already is no longer to be paid when its turn comes.
 */
#ifndef POOL_PAGEBLOCK_H
#define POOL_PAGEBLOCK_H

#include <kv/types.h>

struct kvmm_pool;

/* Pageblocks are told apart by their price up to here; who costs more comes by its place. */
#define PAGEBLOCK_PRICES	256u

struct pageblocks {
	u32 size;		/* fixed at creation: in blocks, a power of two; 0: off */

	/* The order's lock. */
	u32 *next;		/* ours; by pageblock: the next one of that price, or KV_NONE */
	u32 *wanted;		/* ours; entries that have to go for the one that is looked at */
	u32 first[PAGEBLOCK_PRICES];	/* by price, or KV_NONE; lowest first */
	u32 last[PAGEBLOCK_PRICES];
};

/* 0 or -ENOMEM. @pageblocks->size is set. */
int pageblocks_init(struct pageblocks *pageblocks, u32 nr_blocks);
void pageblocks_exit(struct pageblocks *pageblocks);
u64 pageblocks_bytes(const struct pageblocks *pageblocks, u32 nr_blocks);

/*
 * From ->seen to ->chosen of the window, at most @nr. How many more are to be chosen. Both locks
 * held.
 */
u32 pageblocks_choose(struct kvmm_pool *pool, u32 nr);

#endif /* POOL_PAGEBLOCK_H */
