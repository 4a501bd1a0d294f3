/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is still known of blocks that were evicted: credit and last use, 4 bytes each.
 *
 * Sets of 16 on one cache line; the one used longest ago makes room. Two keys of one set are taken
 * for each other once in 65,536: the order gets worse by a little, nothing else happens. Ages come
 * in 1,024 steps and wrap: what is older than that seems young, if it has not been displaced by
 * then, as nearly all will.
 *
 * Guarded by the order's lock.
 */
#ifndef EVICT_GHOST_H
#define EVICT_GHOST_H

#include <kv/types.h>

#define GHOST_WAYS	16u

struct ghost {
	u16 tag;
	u16 credit	: 6;	/* in twice the unit of credit.h, and 1 more: 0 is no ghost */
	u16 last	: 10;	/* in steps */
};

struct ghosts {
	/* Fixed at creation. */
	u32 nr_sets;		/* a power of two */
	u32 step_shift;		/* ticks a step, as a power of two */
	struct ghost *ghost;	/* behind this; aligned to a cache line */
};

size_t ghosts_bytes(u32 nr_blocks);
void ghosts_init(struct ghosts *ghosts, u32 nr_blocks);

/* Keep what is known of a block of key hash @hash; @now and @last in ticks. */
void ghost_put(struct ghosts *ghosts, u64 hash, u32 credit, u64 last, u64 now);

/* Is it known? Then it is forgotten here. @age: ticks since its last use. */
bool ghost_take(struct ghosts *ghosts, u64 hash, u64 now, u32 *credit, u32 *age);

#endif /* EVICT_GHOST_H */
