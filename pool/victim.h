/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run-aware victims: of the next ones, those that lie next to each other or to free blocks.
 *
 * In plain order what is evicted for one request was filled by several, and lies in pieces; so does
 * the request's content then, and copying it takes a descriptor a piece. Here some blocks beyond
 * the shortfall are looked at, and the longest runs among all of them are taken. Short pieces stay
 * until their neighbours come near the end of the order, too, or until they leave the window at its
 * old end.
 *
 * Who is looked at and not taken is given back to where it was, newest first; then who was chosen
 * is taken one by one in the order of eviction. So a failed allocation leaves the order as it was.
 */
#ifndef POOL_VICTIM_H
#define POOL_VICTIM_H

#include <kv/types.h>
#include <kvmm/evict.h>
#include <kvmm/types.h>

#include "pageblock.h"

struct kvmm_pool;
struct victims;

/* Runs are told apart by length up to here. */
#define WINDOW_LENGTHS	256u

/* This much is nothing to choose from: plain order, but new blocks are handed out lowest first. */
#define WINDOW_SORTS	1u

struct window {
	u32 nr;			/* fixed at creation: blocks beyond the shortfall; 0: plain order */
	u32 nr_blocks;		/* fixed at creation */

	/* The order's lock. */
	u32 from;		/* of ->index: who comes before goes in any case */
	u32 *index;		/* ours; who is looked at, in the order of eviction */
	u64 *seen;		/* ours; a bit a block: who is looked at, and may be left */
	u64 *chosen;		/* ours; a bit a block; both are 0 between calls */
	u32 quota[WINDOW_LENGTHS];	/* blocks to be taken from runs of that length */
	struct pageblocks pageblocks;	/* which go before any run */
};

/* 0 or -ENOMEM. ->nr and ->pageblocks.size are set. */
int window_init(struct window *window, u32 nr_blocks);
void window_exit(struct window *window);
u64 window_bytes(const struct window *window);

/* Up to @nr victims; who is missing then may be picked in plain order. The order's lock held. */
void window_pick(struct kvmm_pool *pool, u32 nr, struct victims *victims);

/* By where they lie, lowest first. The order's lock held. */
void window_sort(struct kvmm_pool *pool, kvmm_mut_t *blocks, u32 nr);

#endif /* POOL_VICTIM_H */
