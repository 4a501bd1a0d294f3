/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How old blocks are when they hit and when they are evicted, and how soon what was evicted is
 * wanted again. All of it from what a request gets and what the pool says it evicted for it.
 *
 * A name that is cached twice is one block here, as old as its last use.
 */
#ifndef REPLAY_AGES_H
#define REPLAY_AGES_H

#include <kvmm/types.h>

#include "maps.h"
#include "results.h"

#define HISTOGRAM_BUCKETS	65

/* Bucket 0 counts zeros, bucket k values from 2^(k-1) up to 2^k - 1. */
struct histogram {
	u64 bucket[HISTOGRAM_BUCKETS];
	u64 nr;
	u128 sum;
};

struct life;

/* Why a request's hits ended: at a name that is new, or was evicted; or there were no more. */
enum end { END_NEVER, END_EVICTED, END_WHOLE, NR_ENDS };

/**
 * struct ages - what is known of all names that were ever cached
 * @index: by the first half of the key, which is one to one with the name: index in @life
 * @unit: of times: "requests" or "us"
 * @now: the caller's clock
 * @idle_at_hit: from the last use, or the last release, to the hit
 * @idle_at_eviction: the same, to the eviction
 * @age_at_eviction: from the filling to the eviction
 * @refault: evictions from that of a name to its being filled again: how many more blocks would
 *	have kept it, in an order of last use
 * @nr_near: refaults that a pool of twice the size would have kept
 * @nr_unused: evicted without having been hit
 * @nr_ended: requests by why they did not hit further
 */
struct ages {
	struct idmap index;
	struct life *life;
	u32 nr;
	u32 cap;
	u32 nr_blocks;
	const char *unit;
	u64 now;
	u64 nr_evictions;
	u64 nr_near;
	u64 nr_unused;
	u64 nr_ended[NR_ENDS];
	struct histogram idle_at_hit;
	struct histogram idle_at_eviction;
	struct histogram age_at_eviction;
	struct histogram refault;
};

/** ages_begin() - a run begins with an empty pool; @ages may be NULL here and below: nothing */
void ages_begin(struct ages *ages, u32 nr_blocks, const char *unit);

/** ages_miss() - the hits of a request end at @key; NULL: it may not hit further */
void ages_miss(struct ages *ages, const kvmm_key_t *key);

/** ages_hit(), ages_release() - a block is taken, is given back */
void ages_hit(struct ages *ages, const kvmm_key_t *key);
void ages_release(struct ages *ages, const kvmm_key_t *key);

/** ages_evict() - before what it was evicted for is filled */
void ages_evict(struct ages *ages, const kvmm_key_t *key);

void ages_fill(struct ages *ages, const kvmm_key_t *key);

/** ages_end() - the run is over: only the counts are kept */
void ages_end(struct ages *ages);

void ages_report(const struct ages *ages, struct results *results);

void histogram_add(struct histogram *histogram, u64 value);

/* The least 2^k - 1 that is not exceeded by @percent of the values; 0 of none. */
u64 histogram_within(const struct histogram *histogram, unsigned int percent);

#endif /* REPLAY_AGES_H */
