/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks ordered by virtual time: the base of all policies.
 *
 * A policy maps each block to a bucket, a number that may grow for ever; smaller ones are evicted
 * first, within a bucket the block that came first. The window of VTIME_BUCKETS buckets from @base
 * on is a ring of intrusive lists, and two levels of bits name the lists that are not empty: so
 * every call takes constant time. A bucket outside the window counts as the nearest one inside.
 *
 * A picked block keeps its links, and they are good again once everything that was done after has
 * been undone: so unpick is exact, from wherever the block was taken.
 *
 * A policy's memory begins with its struct vtime: so VTIME_OPS are calls of kv_evict_ops as they
 * stand, and a policy writes only those in which it differs.
 *
 * Invariants, recomputed by vtime_check():
 * 1. A block is in one list at most, and in one if it is marked so; nr of them are.
 * 2. ->ahead of all links adds up to ->ahead_sum.
 * 3. The bit of a bucket is set exactly if its list is not empty, that of a word if it is not 0.
 *
 * Everything is guarded by the order's lock.
 */
#ifndef EVICT_VTIME_H
#define EVICT_VTIME_H

#include <kv/bits.h>
#include <kv/evict.h>
#include <kv/types.h>

#define VTIME_BUCKETS	4096u
#define VTIME_WORDS	(VTIME_BUCKETS / 64)

/*
 * All that a call needs of a block is on one cache line. A thread that follows the links finds out
 * where the next one is when it has this one, so each waits for memory in full; ->ahead names the
 * one that came VTIME_AHEAD blocks later, and is likely to be picked so many later.
 */
struct vtime_link {
	u32 next;
	u32 prev;	/* and VTIME_IN; a head always is in its list */
	u32 ahead;	/* may be wrong */
	u32 reserved;	/* 0 */
};

#define VTIME_IN	BIT(31)
#define VTIME_AHEAD	16u

struct vtime {
	u32 nr_blocks;			/* fixed at creation */
	u32 nr;				/* blocks in the order */
	u32 nr_picked;			/* victims that can be put back where they were */
	u64 ahead_sum;			/* of ->ahead of all links */
	u32 nr_entered;			/* at the end of some bucket; wraps */
	u32 last[VTIME_AHEAD];		/* those that did last, modulo VTIME_AHEAD */
	u64 base;			/* first bucket of the window */
	u64 words;			/* words of ->bits that are not 0 */
	u64 bits[VTIME_WORDS];		/* by bucket, modulo VTIME_BUCKETS */
	struct vtime_link *link;	/* fixed at creation; by block, then heads by bucket */
};

/* Parts of a policy's memory begin on a cache line each. */
static inline size_t line_up(size_t bytes)
{
	return kv_align_up(bytes, KV_CACHELINE);
}

/* The links, which the policy gives room. */
size_t vtime_bytes(u32 nr_blocks);
/* Of zeroed memory, as @links. */
void vtime_init(struct vtime *vtime, u32 nr_blocks, void *links);

/* The block joins the order, behind the others of that bucket. */
void vtime_enter(struct vtime *vtime, u32 block, u64 bucket);
/* The same of blocks of one bucket, which leave before if they are in. */
void vtime_enter_many(struct vtime *vtime, const u32 *blocks, u32 nr, u64 bucket);
/* The same, before the others. */
void vtime_enter_front(struct vtime *vtime, u32 block, u64 bucket);
void vtime_leave(void *policy, u32 block);

/* The next victim, or KV_NONE. */
u32 vtime_first(const struct vtime *vtime);
/* The next victim of one bucket, or KV_NONE. */
u32 vtime_first_in(const struct vtime *vtime, u64 bucket);
/* vtime_first(), and it leaves the order; vtime_unpick() may undo it. */
u32 vtime_pick(void *policy);
/* Up to @nr of them: how many. */
u32 vtime_pick_many(void *policy, u32 nr, u32 *victims);
/* Any block leaves the order likewise. */
void vtime_take(void *policy, u32 block);
/*
 * Newest first; some may never come back. If others have come or gone since, the block goes before
 * all others.
 */
void vtime_unpick(void *policy, u32 block);

/* The window begins at @base now, if it did not later: older blocks count as of @base. */
void vtime_advance(struct vtime *vtime, u64 base);

/* As kv_evict_ops has them. */
void vtime_expect(const void *policy, const u32 *blocks, u32 nr, bool soon);
void vtime_ahead(const void *policy, const u32 *blocks, u32 nr, u32 *ahead);
u32 vtime_nr(const void *policy);
int vtime_check(const void *policy);

static inline bool vtime_has(const void *policy, u32 block)
{
	const struct vtime *vtime = policy;

	return block < vtime->nr_blocks && vtime->link[block].prev & VTIME_IN;
}

#define VTIME_OPS								\
	.leave = vtime_leave, .pick = vtime_pick, .take = vtime_take,		\
	.unpick = vtime_unpick, .ahead = vtime_ahead, .has = vtime_has,		\
	.nr = vtime_nr

#endif /* EVICT_VTIME_H */
