/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often was a key used, about? A count-min sketch of counters of 4 bits, halved now and then.
 *
 * A key has four counters, each chosen by bits of its hash that choose nothing else: all counters
 * of all words are in use. Only the smallest of the four are raised, and the answer is the
 * smallest, so it is never too low, but for the ceiling of 15, for halvings, and for threads that
 * add one key at the same moment: they may count once.
 *
 * Any number of threads, no lock. Each notes keys in a batch of its own, which is added when it is
 * full: one swap for each counter raised. A note costs a store, 1 to 2 ns; the thread that adds a
 * batch also halves the few words that are due, so no thread ever halves them all at once.
 */
#ifndef EVICT_SKETCH_H
#define EVICT_SKETCH_H

#include <kv/types.h>

#define SKETCH_BATCH	64u
#define SKETCH_MAX	15u

struct sketch {
	/* Fixed at creation. */
	u32 nr_words;			/* a power of two */
	u64 window;			/* keys added between two halvings */

	u64 nr_added __cacheline_aligned;	/* atomic */
	u64 nr_halved;			/* atomic; words, all rounds together */
	u64 word[] __cacheline_aligned;	/* atomic; 16 counters each */
};

struct sketch_batch {
	u32 nr;				/* owner thread */
	u64 hash[SKETCH_BATCH];		/* owner thread */
};

/* Four counters for each of @capacity keys. */
size_t sketch_bytes(u32 capacity);
/* Of zeroed memory, aligned to a cache line. */
void sketch_init(struct sketch *sketch, u32 capacity);

void sketch_flush(struct sketch *sketch, struct sketch_batch *batch);

/* 0 to SKETCH_MAX, without notes that wait in batches. */
u32 sketch_estimate(const struct sketch *sketch, u64 hash);

static inline void sketch_note(struct sketch *sketch, struct sketch_batch *batch, u64 hash)
{
	batch->hash[batch->nr++] = hash;
	if (unlikely(batch->nr == SKETCH_BATCH))
		sketch_flush(sketch, batch);
}

#endif /* EVICT_SKETCH_H */
