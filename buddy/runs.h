/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Run index of a zone: which blocks are free, and where is the free run that
 * fits best.
 *
 * The truth is one bit a block. Everything else is an index over the maximal
 * free runs that the map spells out, kept so that exact best fit with the
 * lowest address among equals costs a handful of loads for any number of
 * runs, and so that the memory needed is fixed when the zone is made.
 *
 * Lengths 1..1023 have a class each; above that there are 64 bins to a
 * doubling. A class of lengths in [2^k, 2^(k+1)) owns a row of bits, one
 * for each aligned group of 2^k blocks: set iff a run of the class starts in
 * the group. Two runs that long cannot start in one group, and the run covers
 * the last block of the group, so the bit names the run: its start is the end
 * of the group less the free blocks that lie right before that end. A doubling
 * of exact lengths costs one bit a block, all of them ten; a bin costs less.
 *
 * Invariants, checked by kv_runs_check():
 *  I1  Bit b of map is set iff block b is free; guard words and bits at or
 *      above nr_blocks are clear, so a search for a used block always ends.
 *  I2  Bit w of full[0] is set iff map[w] is all ones; bit w of full[i + 1] iff
 *      word w of full[i] is. The last level is one word.
 *  I3  A row has exactly one bit for each maximal free run of its class, at
 *      group (start >> k), and no other bit.
 *  I4  Bit w of a row's summary is set iff word w of the row is not zero; bit i
 *      of the class's top iff one of the 2^t summary words from i << t on is
 *      not zero, where t is the least that lets 64 bits do.
 *  I5  nr of a class is its number of runs; bit c of nonempty is set iff class
 *      c has any, bit w of nonempty_sum iff nonempty[w] is not zero.
 *  I6  bin_blocks of a bin is the sum of the lengths of its runs.
 *  I7  nr_free is the number of bits set in map, nr_runs of its maximal runs.
 *  I8  big is a maximal free run of at least KV_RUNS_EXACT blocks, or big.len is
 *      0. It is the last one that was cut or joined: an empty zone is carved
 *      from one run, with ends that are far to seek.
 *  I9  A call that returns an error has changed nothing.
 *
 * Nothing in here takes a lock: the caller holds the lock of the zone, for
 * reading calls as well.
 */
#ifndef BUDDY_RUNS_H
#define BUDDY_RUNS_H

#include <kv/bits.h>
#include <kv/types.h>

#define KV_RUNS_MAX_BLOCKS	(1u << 24)
#define KV_RUNS_NONE		KV_NONE
#define KV_RUNS_EXACT		1024u	/* lengths below have a class each */
#define KV_RUNS_BINS		64u	/* bins to a doubling from there on */
#define KV_RUNS_CLASSES		(KV_RUNS_EXACT + 15 * KV_RUNS_BINS)
#define KV_RUNS_CLASS_WORDS	(KV_RUNS_CLASSES / 64)
#define KV_RUNS_FULL_LEVELS	4

/* One size class; guard: the zone's lock, geo is fixed by kv_runs_init(). */
struct kv_runs_class {
	u64 top;		/* highest summary of the row */
	u32 geo;		/* word offset of the row << 8 | top shift << 5 | k */
	u32 nr;			/* runs in the class */
};

struct kv_run {
	u32 start;
	u32 len;
};

/* Guard of all that is not said to be fixed: the zone's lock. */
struct kv_runs {
	u64 *map;		/* fixed; one guard word before, one after */
	u64 *rows;		/* fixed; summaries lie below each row */
	u32 nr_blocks;		/* fixed */
	u32 nr_free;
	u32 nr_runs;
	u32 nonempty_sum;
	struct kv_run big;	/* I8 */
	u32 nr_classes;		/* fixed */
	u32 *bin_blocks;	/* fixed pointer; [class - KV_RUNS_EXACT] */
	u64 nonempty[KV_RUNS_CLASS_WORDS];
	u64 *full[KV_RUNS_FULL_LEVELS];	/* fixed pointers */
	u32 nr_full;		/* fixed; levels in use */
	size_t bytes;		/* fixed; of the whole memory block */
	struct kv_runs_class class[] __attribute__((aligned(64)));
};

/* Take the highest place, not the lowest, and there the end of the run. */
#define KV_RUNS_TOPDOWN		(1u << 0)
/* First fit (with TOPDOWN: last fit) in place of best fit. */
#define KV_RUNS_FIRST		(1u << 1)

/*
 * The request. A run qualifies if n blocks from a multiple of align on fit
 * into that part of it that lies in [lo, hi).
 */
struct kv_runs_req {
	u32 n;
	u32 align;		/* power of two; 0 is 1 */
	u32 lo;
	u32 hi;			/* 0 is nr_blocks */
	u32 flags;		/* KV_RUNS_* */
};

size_t kv_runs_bytes(u32 nr_blocks);
int kv_runs_init(struct kv_runs *runs, u32 nr_blocks);

u32 kv_runs_alloc(void *index, u32 n);
int kv_runs_alloc_req(struct kv_runs *runs, const struct kv_runs_req *req, u32 *start);
int kv_runs_alloc_at(struct kv_runs *runs, u32 start, u32 n);
int kv_runs_alloc_scattered(struct kv_runs *runs, u32 *ids, u32 n);
int kv_runs_free(struct kv_runs *runs, u32 start, u32 n);
int kv_runs_free_many(struct kv_runs *runs, const u32 *ids, u32 n);

bool kv_runs_range_is_free(const struct kv_runs *runs, u32 start, u32 n);
bool kv_runs_next(const struct kv_runs *runs, u32 pos, struct kv_run *run);
bool kv_runs_next_of_class(const struct kv_runs *runs, u32 class, u32 pos, struct kv_run *run);
struct kv_run kv_runs_largest(const struct kv_runs *runs);
u32 kv_runs_top(const struct kv_runs *runs, struct kv_run *out, u32 max);
u32 kv_runs_blocks_at_least(const struct kv_runs *runs, u32 len);
u32 kv_runs_count_at_least(const struct kv_runs *runs, u32 len);
int kv_runs_check(const struct kv_runs *runs);

#endif /* BUDDY_RUNS_H */
