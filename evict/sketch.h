/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often was a key used, about? A count-min sketch of counters of 4 bits, halved now and then.
 *
 * A key has four counters, each chosen by bits of its hash that choose nothing else: all counters
 * of all words are in use. Only the smallest of the four are raised, and the answer is the
 * smallest, so it is never too low, but for the ceiling of 15, and for halvings. Each key that is
 * added halves a word while some are due, so no call ever halves them all at once.
 *
 * Guarded by the order's lock.
 */
#ifndef EVICT_SKETCH_H
#define EVICT_SKETCH_H

#include <kv/types.h>

#define SKETCH_MAX	15u

struct sketch {
	/* Fixed at creation. */
	u32 nr_words;			/* a power of two */
	u64 window;			/* keys added between two halvings */

	u64 nr_added;
	u64 nr_halved;			/* words, all rounds together */
	u64 word[] __cacheline_aligned;	/* 16 counters each */
};

/* Four counters for each of @capacity keys. */
size_t sketch_bytes(u32 capacity);
/* Of zeroed memory, aligned to a cache line. */
void sketch_init(struct sketch *sketch, u32 capacity);

void sketch_add(struct sketch *sketch, u64 hash);

/* 0 to SKETCH_MAX. */
u32 sketch_estimate(const struct sketch *sketch, u64 hash);

#endif /* EVICT_SKETCH_H */
