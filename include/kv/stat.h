/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Event counters: each thread writes its own row, readers add the rows up and may lag.
 *
 * A thread's row is claimed on its first count and given back when the thread ends; the counts
 * stay. More threads than rows share the last row, atomically.
 */
#ifndef KV_STAT_H
#define KV_STAT_H

#include <kv/atomic.h>
#include <kv/types.h>

enum kv_event {
	KV_EV_ALLOC,		/* successful allocations */
	KV_EV_ALLOC_BLOCKS,	/* blocks in them */
	KV_EV_FREE,
	KV_EV_FREE_BLOCKS,
	KV_EV_FAIL_NOSPC,	/* fewer free blocks than asked for */
	KV_EV_FAIL_FRAG,	/* enough free blocks, but scattered */
	KV_EV_EVICT,		/* cached blocks that lost their key to an allocation */
	KV_EV_HIT_BLOCKS,
	KV_EV_MISS_BLOCKS,
	KV_EV_COMPACT,		/* compactions that made room */
	KV_EV_COMPACT_FAIL,
	KV_EV_MOVED_BLOCKS,
	KV_EV_BAD_HANDLE,	/* stale, foreign or made-up handles refused */
	KV_EV_BUG,		/* broken invariants */
	KV_EV_MISS_NEVER,	/* matches that ended at a name not heard of (lately) */
	KV_EV_MISS_EVICTED,	/* ... at one that was registered once */
	KV_EV_MISS_STAGED,	/* ... at one that is about to be */
	KV_EV_MISS_TENANT,	/* ... at a key of another tenant */
	KV_EV_MISS_GROUP,	/* ... at a key of another group or layout */
	KV_NR_EVENTS,
};

#define KV_WHY_BYTES	256u

struct kv_stat_row {
	u64 n[KV_NR_EVENTS];	/* owner thread; READ_ONCE() by readers */
	u64 section;		/* owner thread; acquire: see kv/rcu.h */
	u32 claimed;		/* atomic */
	u32 slot;		/* owner thread; its number among the rows */
	char why[KV_WHY_BYTES];	/* owner thread; "": nothing since kv_why_clear() */
} __cacheline_aligned;

#define KV_STAT_ROWS	256u

/* For a thread without a row: claims one, or counts in the shared one. */
void __kv_count_slow(enum kv_event ev, u64 nr);

extern __thread struct kv_stat_row *kv_stat_row __attribute__((tls_model("initial-exec")));

#ifdef CONFIG_STATS
#define KV_STATS	1
#else
#define KV_STATS	0
#endif

static inline void kv_count_add(enum kv_event ev, u64 nr)
{
	struct kv_stat_row *row = kv_stat_row;

	if (!KV_STATS)
		return;
	if (likely(row))
		WRITE_ONCE(row->n[ev], row->n[ev] + nr);
	else
		__kv_count_slow(ev, nr);
}

static inline void kv_count(enum kv_event ev)
{
	kv_count_add(ev, 1);
}

/* One more @call, and @nr of its objects: two counts for the price of one look-up. */
static inline void kv_count_call(enum kv_event call, enum kv_event what, u64 nr)
{
	struct kv_stat_row *row = kv_stat_row;

	if (!KV_STATS)
		return;
	if (likely(row)) {
		WRITE_ONCE(row->n[call], row->n[call] + 1);
		WRITE_ONCE(row->n[what], row->n[what] + nr);
	} else {
		__kv_count_slow(call, 1);
		__kv_count_slow(what, nr);
	}
}

/*
 * Objects that many threads count for have a few rows of their own, and each thread adds to one of
 * them. The first rows are of one thread each, the one with that row of event counters, which adds
 * without an atomic step; what it did is visible to the next one of that row. All others share the
 * rest.
 */
#define KV_TALLY_ROWS	16u
#define KV_TALLY_OWN	8u

static inline u32 kv_tally_row(void)
{
	const struct kv_stat_row *row = kv_stat_row;
	u32 slot = likely(row) ? row->slot : KV_TALLY_OWN;

	return likely(slot < KV_TALLY_OWN) ? slot :
	       KV_TALLY_OWN + slot % (KV_TALLY_ROWS - KV_TALLY_OWN);
}

/* Adds to a number of row @row, which is kv_tally_row(). */
static inline void kv_tally_add(u64 *sum, u32 row, u64 nr)
{
	if (likely(row < KV_TALLY_OWN))
		WRITE_ONCE(*sum, READ_ONCE(*sum) + nr);
	else
		kv_fetch_add(sum, nr);
}

/* Sum over all rows, dead threads included. */
u64 kv_stat_sum(enum kv_event ev);

#endif /* KV_STAT_H */
