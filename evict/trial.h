/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trials: which half-life would have hit most often?
 *
 * Several half-lives are tried side by side on a sample of the keys, on no blocks at all. A block
 * is evicted when its key (see vtime.h) is among the smallest, so for each candidate it is enough
 * to count the sampled keys by bucket, and to keep a floor such that as many are above it as a pool
 * would hold: a use of a key above the floor would have been a hit. The floor never sinks.
 *
 * It begins as LRU. But where LRU hits next to nothing, nothing is lost by credit either: then a
 * half-life of some sizes of the pool is followed before it leads, so that blocks have their credit
 * when it counts.
 *
 * On the conversation trace the counts are within 2 % of those of real pools.
 *
 * Guarded by the order's lock.
 */
#ifndef EVICT_TRIAL_H
#define EVICT_TRIAL_H

#include "credit.h"

#define NR_TRIALS	7u
#define TRIAL_BUCKETS	4096u
#define TRIAL_WAYS	8u
#define TRIAL_MELT_SHIFT 2u		/* so much of a score melts in each epoch */
#define TRIAL_HIT	16u		/* a hit in a score */

/* A key that was sampled. Four to a cache line. */
struct trial_key {
	u32 tag;			/* 0: none */
	u32 last;			/* tick of the last use */
	u8 credit[NR_TRIALS];
};

/* One half-life. */
struct candidate {
	struct half_life half;		/* fixed at creation */
	u64 floor;			/* bucket: keys in it or above are there */
	u32 nr_above;			/* at most ->nr_fit between two uses */
	u32 score;			/* hits, older ones count less */
	u16 count[TRIAL_BUCKETS];	/* by bucket from floor on, modulo TRIAL_BUCKETS */
};

struct trial {
	/* Fixed at creation. */
	u32 nr_fit;			/* sampled keys that fit */
	u32 nr_sets;			/* a power of two */
	u32 sample_mask;		/* bits of a hash that are 0 in the sample */
	u32 shift;			/* ticks a bucket, as a power of two */
	u32 epoch;			/* uses after which older hits count less */
	struct trial_key *key;		/* behind this */

	u32 nr_uses;			/* in this epoch */
	u32 nr_recent;			/* uses, melting as scores do */
	u32 best;			/* the candidate to use */
	struct candidate candidate[NR_TRIALS];
};

size_t trial_bytes(u32 nr_blocks);
void trial_init(struct trial *trial, u32 nr_blocks);

/* Does a key of this hash count? */
static inline bool trial_samples(const struct trial *trial, u64 hash)
{
	return !(hash & trial->sample_mask);
}

/* One use of such a key at tick @now. Is another candidate the best one now? */
bool trial_use(struct trial *trial, u64 hash, u64 now);

int trial_check(const struct trial *trial);

static inline const struct half_life *trial_best(const struct trial *trial)
{
	return &trial->candidate[trial->best].half;
}

/* Hits that the best one has had beyond @sixteenths of those of LRU, older ones counting less. */
static inline u64 trial_more(const struct trial *trial, u32 sixteenths)
{
	u64 best = trial->candidate[trial->best].score;
	u64 lru = (u64)trial->candidate[0].score * sixteenths / 16;

	return best > lru ? (best - lru) / TRIAL_HIT * (trial->sample_mask + 1ull) : 0;
}

/*
 * Hits that the best one may lose at first. It had its blocks all the time, whereas an order that
 * changes to it has LRU's: so a lead that is not large is no promise.
 */
static inline u64 trial_promise(const struct trial *trial)
{
	return 2 * trial_more(trial, 24);
}

/* Its lead in the epoch that has just ended: of the sums a part melts in each. */
static inline u64 trial_news(const struct trial *trial)
{
	return trial_more(trial, 16) >> TRIAL_MELT_SHIFT;
}

/* After a use. */
static inline bool trial_has_news(const struct trial *trial)
{
	return !trial->nr_uses;
}

#endif /* EVICT_TRIAL_H */
