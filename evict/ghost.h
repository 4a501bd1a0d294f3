/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Remains of blocks that were evicted: credit and last use, 8 bytes each.
 *
 * Sets of 8 on one cache line; the one used longest ago makes room. Two keys of one set are taken
 * for each other once in 2^20: the order gets worse by a little, nothing else happens. Ages come in
 * 16,384 steps, turns in 2^24, and wrap: older ones seem young, if it has not been
 * displaced by then, as nearly all will.
 *
 * Guarded by the order's lock.
 */
#ifndef EVICT_GHOST_H
#define EVICT_GHOST_H

#include <kv/atomic.h>
#include <kv/types.h>

#define GHOST_WAYS	8u

/*
 * In one word, 0 if there is none:
 *
 *	| turn: 24, in units | last: 14, in steps | credit: 6 | tag: 20 |
 *
 * The credit is in twice the unit of credit.h, and 1 more.
 */
/* A ghost's record; @turn is any number that grows, as that of duel.h. */
struct ghost_past {
	u32 credit;
	u64 last;	/* tick of the last use, or a bit later */
	u64 turn;
};

struct ghosts {
	/* Fixed at creation. */
	u32 nr_sets;		/* a power of two */
	u32 step_shift;		/* ticks a step, as a power of two */
	u32 turn_shift;		/* turns a unit, likewise */
	u64 *ghost;		/* behind this; aligned to a cache line */
};

size_t ghosts_bytes(u32 nr_blocks);
void ghosts_init(struct ghosts *ghosts, u32 nr_blocks);

/* Bits of a key hash that matter. */
#define GHOST_HASH_BITS	48u

static inline u64 *ghost_set(const struct ghosts *ghosts, u64 hash)
{
	return &ghosts->ghost[(hash >> 24 & (ghosts->nr_sets - 1)) * GHOST_WAYS];
}

/* The ghost of this key is about to be put, or taken: asks for its set. */
static inline void ghost_expect(const struct ghosts *ghosts, u64 hash)
{
	kv_prefetch_write(ghost_set(ghosts, hash));
}

/* Keep the record of a block of key hash @hash; it is tick @now. */
void ghost_put(struct ghosts *ghosts, u64 hash, const struct ghost_past *past, u64 now);

/* Is it known? Then it is forgotten here. In: @past->last and @past->turn are those of now. */
bool ghost_take(struct ghosts *ghosts, u64 hash, struct ghost_past *past);

#endif /* EVICT_GHOST_H */
