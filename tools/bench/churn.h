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
 * The loop is compiled once for each contender with its calls inlined, as an engine would have
 * them; the time of the loop itself is in every figure (the contender "driver" shows it).
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
	struct histogram *alloc_ticks;	/* of the timed form only */
	struct histogram *free_ticks;
};

typedef int churn_alloc_fn(void *heap, u32 nr, u32 *word);
typedef void churn_free_fn(void *heap, const u32 *word, u32 nr);

/*
 * The next victim, chosen some turns ago: what is known of it has come into the cache meanwhile,
 * or a large zone would be charged for the table of its user. The
 * random numbers are of the cheapest kind that will do.
 */
static __always_inline u32 churn_pick(struct churn *churn)
{
	u32 *ahead = &churn->ahead[churn->turn++ & (CHURN_AHEAD - 1)];
	u32 pick = *ahead;
	u64 x = churn->seed;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	churn->seed = x;
	*ahead = (u32)(((x >> 32) * churn->nr_live) >> 32);
	__builtin_prefetch(&churn->live[*ahead], 1);
	return pick < churn->nr_live ? pick : *ahead;
}

/* An allocator that refuses although it is empty ends the benchmark. */
void churn_need_live(const struct churn *churn);

static __always_inline void churn_drop(struct churn *churn, churn_free_fn *give, bool timed)
{
	struct live *live = &churn->live[churn_pick(churn)];
	struct live gone = *live;
	u64 begin;

	*live = churn->live[--churn->nr_live];
	churn->used -= gone.nr;
	if (!timed) {
		give(churn->heap, gone.word, gone.nr);
		return;
	}
	begin = ticks_begin();
	give(churn->heap, gone.word, gone.nr);
	histogram_add(churn->free_ticks, ticks_end() - begin);
}

static __always_inline int churn_take(struct churn *churn, u32 nr, churn_alloc_fn *take,
				      bool timed)
{
	u32 *word = churn->live[churn->nr_live].word;
	u64 begin;
	int err;

	if (!timed)
		return take(churn->heap, nr, word);
	begin = ticks_begin();
	err = take(churn->heap, nr, word);
	histogram_add(churn->alloc_ticks, ticks_end() - begin);
	return err;
}

static __always_inline void churn_loop(struct churn *churn, u32 nr_requests,
				       churn_alloc_fn *take, churn_free_fn *give, bool timed)
{
	for (u32 i = 0; i < nr_requests; i++) {
		u32 nr = churn->sizes->at[churn->at++ & (churn->sizes->nr - 1)];

		if (churn->nr_live >= churn->target)
			churn_drop(churn, give, timed);
		while (churn->used + nr > churn->limit)
			churn_drop(churn, give, timed);
		if (churn_take(churn, nr, take, timed)) {
			churn->failures++;
			do {
				churn_need_live(churn);
				churn_drop(churn, give, timed);
			} while (churn_take(churn, nr, take, timed));
		}
		churn->live[churn->nr_live++].nr = nr;
		churn->used += nr;
		churn->held += churn->used;
	}
	churn->requests += nr_requests;
}

/**
 * struct contender - an allocator that churn can drive
 * @name: as reported
 * @is_zone: one of kvmm's engines; @open gets its name
 * @open: make one for @nr_blocks blocks; NULL if it does not exist here
 * @step: churn_loop() with its calls
 * @timed: the same, each call timed by itself
 */
struct contender {
	const char *name;
	bool is_zone;
	void *(*open)(const char *name, u32 nr_blocks);
	void (*close)(void *heap);
	void (*empty)(struct churn *churn);
	void (*step)(struct churn *churn, u32 nr);
	void (*timed)(struct churn *churn, u32 nr);
};

#define CHURN_CONTENDER(prefix)								\
	static void prefix##_step(struct churn *churn, u32 nr)				\
	{										\
		churn_loop(churn, nr, prefix##_alloc, prefix##_free, false);		\
	}										\
	static void prefix##_timed(struct churn *churn, u32 nr)				\
	{										\
		churn_loop(churn, nr, prefix##_alloc, prefix##_free, true);		\
	}										\
	static void prefix##_empty(struct churn *churn)					\
	{										\
		while (churn->nr_live)							\
			churn_drop(churn, prefix##_free, false);			\
	}

#define CONTENDER_CALLS(prefix, how_to_close)						\
	.open = prefix##_open, .close = how_to_close, .empty = prefix##_empty,	\
	.step = prefix##_step, .timed = prefix##_timed

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
extern const struct contender contender_pool, contender_mutex;

/** churn_forget() - count failures and occupancy from now on */
void churn_forget(struct churn *churn);

/** churn_step() - requests of it; @arg is a struct churn */
void churn_step(void *arg, u32 nr);

/** churn_pair_ns() - one more measurement of a request: its allocation and a release */
double churn_pair_ns(struct churn *churn);

#endif /* BENCH_CHURN_H */
