/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holes by length: an item of @nr blocks gets them from a hole that is hardly longer.
 *
 * Lengths up to BIN_EXACT have a bin each, longer ones eight for each power of two, as in TLSF. So
 * taking and putting back the rest are a few instructions, however many holes there are. Of
 * holes of one bin the one that was put there last is taken.
 */
#ifndef DEFRAG_BINS_H
#define DEFRAG_BINS_H

#include <kv/bits.h>
#include <kv/err.h>

#define BIN_EXACT	64u
#define NR_BINS		(BIN_EXACT + 8 * (32 - 6))

/* One may become shorter in its bin: it is looked at before it is taken. */
struct bin_hole {
	u32 start;
	u32 nr;
	u32 next;		/* in its bin, or KV_NONE */
};

struct bins {
	struct bin_hole *hole;	/* room for as many as are added */
	u32 nr_holes;
	u64 full[KV_WORDS(NR_BINS)];	/* a bit a bin: there are some */
	u32 first[NR_BINS];
};

void bins_init(struct bins *bins, struct bin_hole *room);
/* Its number is that of those before it. @nr may be 0: then no search finds it. */
void bins_add(struct bins *bins, u32 start, u32 nr);
/* The first of @nr blocks, which are no hole any more; KV_NONE: no hole is so long. */
u32 bins_take(struct bins *bins, u32 nr);

#endif /* DEFRAG_BINS_H */
