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

#include <kv/bits.h>
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

static inline u32 *duel_count_at(struct duel *duel, u64 bucket)
{
	return &duel->count[duel->now][bucket % DUEL_BUCKETS];
}

/* The window is too short for this turn: buckets get twice as wide. */
void duel_widen(struct duel *duel);

/* A key that nothing is known of has its turn. Returns it. */
static inline u64 duel_add(struct duel *duel)
{
	u64 turn = ++duel->turn;

	if (unlikely(turn >> duel->shift >= duel->floor + DUEL_BUCKETS))
		duel_widen(duel);
	++*duel_count_at(duel, turn >> duel->shift);
	duel->nr_above++;
	return turn;
}

/* Would LRU have it? */
static inline bool duel_lru_has(const struct duel *duel, u64 turn)
{
	return turn >> duel->shift >= duel->floor;
}

/* The same of a key that had its last turn at @turn, as far as that is known. */
static inline u64 duel_move(struct duel *duel, u64 turn)
{
	u32 *count = duel_count_at(duel, turn >> duel->shift);

	/* Hits that ghosts take for another key's may have been counted otherwise. */
	if (duel_lru_has(duel, turn) && *count) {
		--*count;
		duel->nr_above--;
	}
	return duel_add(duel);
}

/* The floor, until no more keys are above it than fit. */
void duel_raise(struct duel *duel);

/* Blocks are evicted before others are named: no fewer fit for that. */
#define DUEL_FIT_TURNS	32u

/* So many keys fit now. */
static inline void duel_fit(struct duel *duel, u32 nr)
{
	if (nr < duel->fit && duel->turn % DUEL_FIT_TURNS == 0)
		duel->fit--;
	duel->fit = max(duel->fit, nr);
	if (duel->nr_above > duel->fit)
		duel_raise(duel);
}

/* So many hits more than LRU's there could have been of late. */
void duel_hope(struct duel *duel, u64 nr_hits);

/* Hits that may be lost against LRU: a few, and one of 4,096. */
#define DUEL_MAY_LOSE		8
#define DUEL_MAY_LOSE_SHIFT	12u
/* Hits that were won are no licence to lose them all: an eighth of LRU's at most. */
#define DUEL_MAY_WIN_SHIFT	3u

/* One use. True: duel_judge() is to be asked. Nothing that it looks at could matter else. */
static inline bool duel_score(struct duel *duel, bool hit, bool lru_hit)
{
	u64 lru_hits = duel->lru_hits + lru_hit;
	s64 lead = duel->lead + hit - lru_hit;

	lead = min(lead, (s64)(lru_hits >> DUEL_MAY_WIN_SHIFT) + DUEL_MAY_LOSE);
	duel->lru_hits = lru_hits;
	duel->lead = lead;
	return unlikely(duel->lost || lru_hits > duel->max_hits ||
			lead < -DUEL_MAY_LOSE - (s64)(lru_hits >> DUEL_MAY_LOSE_SHIFT));
}

/* @promise: hits more than LRU's that are to be expected. True: ->lost has changed. */
bool duel_judge(struct duel *duel, u64 promise);

int duel_check(const struct duel *duel);

#endif /* EVICT_DUEL_H */
