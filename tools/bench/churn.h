/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Churn: an allocator kept at a given load by requests that come and go in random order.
 *
 * Two ways to hold the load. *Steady*: a fixed number of requests is live, each new one replaces a
 * random old one; so each turn is one release and one allocation, no branch of the loop is hard to
 * foresee, and time is what it measures. *Brimful*: as many are live as fit under the load, random
 * ones leave until the next one would fit; the load is exact, and quality is what it measures.
 *
 * A request that is refused although so many blocks are not held is a failure; random ones are
 * then freed until it fits. It is never dropped: or the survivors would be the short ones and the
 * load another one.
 *
 * The time of the loop and of calls through a table is in every figure (the contender "driver"
 * shows it).
 */
#ifndef BENCH_CHURN_H
#define BENCH_CHURN_H

#include "pools.h"

/* What is held: two words that only the contender understands, and its length. */
struct live {
	u32 word[2];
	u32 nr;
};

#define CHURN_AHEAD	16u

struct contender;

/* On lines of its own: two threads that wrote to one line would be what is measured. */
struct churn {
	const struct contender *contender;
	void *heap;			/* the contender's */
	const struct sizes *sizes;
	struct live *live;
	u32 nr_live;
	u32 nr_blocks;
	u32 target;			/* requests live at most */
	u32 limit;			/* blocks held at most */
	u32 used;			/* blocks held, as asked for */
	u32 at;				/* next of @sizes */
	u32 ahead[CHURN_AHEAD];		/* the next victims */
	u32 turn;			/* next of @ahead */
	u64 seed;
	u64 requests;
	u64 failures;			/* first tries refused with enough blocks not held */
	u64 held;			/* sum of @used after each request */
} __cacheline_aligned;

/**
 * struct contender - an allocator that churn can drive
 * @name: as reported
 * @is_zone: one of kvmm's engines; @open gets its name
 * @open: make one for @nr_blocks blocks; NULL if it does not exist here
 * @alloc, @free: a request, and two words by which it is known
 */
struct contender {
	const char *name;
	bool is_zone;
	void *(*open)(const char *name, u32 nr_blocks);
	void (*close)(void *heap);
	int (*alloc)(void *heap, u32 nr, u32 *word);
	void (*free)(void *heap, const u32 *word, u32 nr);
};

/** contenders() - all of them. Return: how many. */
unsigned int contenders(const struct contender **all);

/** contender_find() - by name; NULL */
const struct contender *contender_find(const char *name);

/**
 * struct load - what a churn is to be
 * @percent: of @nr_blocks that is held
 * @brimful: hold the load exactly, at the price of a loop that is harder to foresee
 */
struct load {
	const struct sizes *sizes;
	u32 nr_blocks;
	u32 percent;
	bool brimful;
	u64 seed;
};

/** churn_open() - a contender filled, and churned until it has forgotten how it was filled */
bool churn_open(struct churn *churn, const struct contender *contender, const struct load *load);
void churn_close(struct churn *churn);

/** churn_start() - the same in @heap, which may be shared */
void churn_start(struct churn *churn, const struct contender *contender, void *heap,
		 const struct load *load);
/** churn_end() - give everything back */
void churn_end(struct churn *churn);

/** contender_pool - ranges of a pool; contender_mutex - of a zone behind one mutex */
extern const struct contender contender_pool, contender_runs, contender_marked, contender_full,
	contender_named, contender_mutex;

/** contender_blocks - single ones of a pool; the others: see peers.c */
extern const struct contender contender_blocks, contender_stack, contender_offsets;

#define CHURN_SLICE	4096u

/** churn_step() - requests of it, CHURN_SLICE to be timed at once; @arg is a struct churn */
void churn_step(void *arg, u32 nr);

#endif /* BENCH_CHURN_H */
