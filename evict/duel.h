/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A duel with LRU: does an order hit more often than LRU would have, in the same pool?
 *
 * Nothing is sampled, so that a thousandth shows: LRU has the keys that were used last, as many as
 * fit. Each use, and each put-back, is a turn; so it is enough to count keys by their last turn,
 * and to keep a floor such that as many are above it as fit: LRU would have hit each key that is
 * used again and lies above. The caller gives a key's last turn; of blocks that are gone, ghosts.
 *
 * If the window of buckets gets too short, they are made twice as wide. The floor never sinks.
 *
 * An order behind LRU by more than a little has lost, until it could not be worse than LRU any
 * more, or promises to win much more than it lost: some orders lose at first what they win later.
 *
 * Guarded by the order's lock.
 */
#ifndef EVICT_DUEL_H
#define EVICT_DUEL_H

#include <kv/types.h>

#define DUEL_BUCKETS	4096u

struct duel {
	u64 max_hits;		/* fixed at creation: then all sums are halved */

	u64 turn;		/* the last one */
	u32 shift;		/* turns a bucket, as a power of two */
	u32 nr_above;		/* keys above the floor */
	u64 floor;		/* bucket: keys with their last turn in it, or later, are there */
	u32 fit;		/* keys that fit; sinks slowly */
	u32 now;		/* of ->count in use */

	s64 lead;		/* hits more than LRU had */
	u64 lru_hits;		/* of LRU */
	bool lost;		/* LRU's order is to be followed */
	u64 hope;		/* in parts of a hit: promised since then */
	u32 count[2][DUEL_BUCKETS];	/* by bucket from floor on, modulo DUEL_BUCKETS */
};

void duel_init(struct duel *duel, u32 nr_blocks);

/* A key has its turn, the last one that is known of it was @turn. Returns this one. */
u64 duel_move(struct duel *duel, u64 turn);
/* The same of a key that nothing is known of. */
u64 duel_add(struct duel *duel);
/* Would LRU have it? */
bool duel_lru_has(const struct duel *duel, u64 turn);
/* So many keys fit now. */
void duel_fit(struct duel *duel, u32 nr);

/* So many hits more than LRU's there could have been of late. */
void duel_hope(struct duel *duel, u64 nr_hits);

/* One use. @promise: hits more than LRU's that are to be expected. True: ->lost has changed. */
bool duel_score(struct duel *duel, bool hit, bool lru_hit, u64 promise);

int duel_check(const struct duel *duel);

#endif /* EVICT_DUEL_H */
