/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Victims that lie together: of the next ones, those next to each other or to free blocks.
 *
 * In plain order the victims of one request were filled by several, and lie in pieces; so does the
 * request's content then, and copying it takes a descriptor a piece. Here some blocks beyond the
 * shortfall are looked at, and the longest runs among all of them are taken. Short pieces stay
 * until their neighbours come near the end of the order, too, or until they leave the window at its
 * old end.
 *
 * Before that, and if asked for, those go that leave a pageblock empty by going, an aligned group
 * of so many blocks, and with them all that follow them in their chains, which have to go before.
 * The cheapest pageblock goes first: the victims that one takes are counted when the window is
 * looked at; those of them that others chosen before have taken already are not paid again.
 *
 * Candidates that are not taken return to their place in the order, newest first; then the chosen
 * ones are taken one by one in the order of eviction. So a failed allocation leaves the order as it
 * was.
 */
#ifndef POOL_VICTIM_H
#define POOL_VICTIM_H

#include <kv/defrag_cheapest.h>
#include <kvmm/ext/evict.h>
#include <kvmm/types.h>

struct kvmm_pool;
struct victims;

/* Runs are told apart by length up to here. */
#define WINDOW_LENGTHS	256u

/* This much is nothing to choose from: plain order, but new blocks are handed out lowest first. */
#define WINDOW_SORTS	1u	/* the default */

struct window {
	u32 nr;			/* fixed at creation: blocks beyond the shortfall; 0: plain order */
	u32 nr_blocks;		/* fixed at creation */
	u32 size;		/* fixed at creation: of a pageblock; 0: none is asked for */

	/* The order's lock. */
	u32 from;		/* of ->index: those before go in any case */
	u32 *index;		/* ours; the candidates, in the order of eviction; if ->nr > 1 */
	u64 *seen;		/* ours; a bit a block: candidates that may be left; if ->nr > 1 */
	u64 *chosen;		/* ours; a bit a block; both are 0 between calls */
	u32 quota[WINDOW_LENGTHS];	/* blocks to be taken from runs of that length */
	struct kv_group *heap;	/* ours; of pageblocks, or NULL */
	u32 *wanted;		/* ours; entries that go for the pageblock being priced */
	u32 left;		/* victims that pageblocks may still take */
};

/* 0 or -ENOMEM. ->nr and ->size are set. */
int window_init(struct window *window, u32 nr_blocks);
void window_exit(struct window *window);
u64 window_bytes(const struct window *window);

/* Up to @nr victims; the missing ones may be picked in plain order. The order's lock held. */
void window_pick(struct kvmm_pool *pool, u32 nr, struct victims *victims);

/* By where they lie, lowest first. @nr is not 0. The order's lock held. */
void window_sort(struct kvmm_pool *pool, kvmm_mut_t *blocks, u32 nr);

#endif /* POOL_VICTIM_H */
