/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Do blocks that go down come back, and those that come up stay? And the consequences.
 *
 * *Ghosts* remember names that the device may have no more: how often each was used, and when last,
 * in blocks filled since. A *refault* is a name that is filled again; its distance is that time. A
 * cache of more blocks than that would have had it.
 *
 *	ghost:	 63    37   36   35  32 31     0    the eight words of a line are a set: names of
 *		|  tag   | drop | uses | fills |    one part of the hashes, the oldest goes
 *
 * Three things adapt, each with one mark for on and a lower one for off:
 *
 *  *Admission*. Of names that reach ->touches uses, how many are used once more? Below a quarter
 *  copies are made in vain: one use more is asked for, until it is three eighths.
 *
 *  *Drops*. Of blocks that went down and were dropped, how many are back before the device would
 *  have evicted them anyway? Above a quarter it needs all it has, and KVMM_TIER_THRESHOLD drops
 *  blocks that are used: it only copies then, for a pause that doubles each time a trial behind it
 *  fails, and prefetches get half of ->max_up.
 *
 *  *Loads*. Of blocks that are loaded, how many were loaded before, not used, and evicted, while
 *  the device was filled less than twice? Above a half it is a loop that does not fit: LRU evicts
 *  just the block that comes next. Then every second block that is loaded leaves when it has been
 *  used, down to a quarter, so that the others stay, and hit.
 *
 * Statistics that are written without a lock may lose one another's.
 */
#ifndef POOL_TIER_THRASH_H
#define POOL_TIER_THRASH_H

#include <kv/entry.h>
#include <kv/types.h>
#include <kvmm/tier.h>

struct kvmm_pool;
struct lower;

#define LEAVING_MAX	1024u

struct thrash {
	/* Fixed at creation. */
	u64	*ghost;		/* ours */
	u32	nr_sets;	/* a power of two */
	u64	secret;
	u32	capacity[KVMM_NR_TIER_LEVELS];	/* blocks of each */

	/* No lock. */
	u32	fills;		/* the clock of distances; wraps around */
	u32	nr_reached;	/* in this window: names that have reached ->touches uses, */
	u32	nr_beyond;	/* and one more than that */
	u32	more;		/* uses that are asked for besides; 0 or 1 */
	u32	nr_back;	/* in that window: dropped blocks that are back */
	u32	nr_loads;	/* in this window: blocks; */
	u32	nr_idle;	/* that were loaded before, and not used */
	bool	is_looping;

	/* Guard: the lower's lock. */
	bool	is_thrashing;	/* READ_ONCE() as a hint */
	u32	nr_dropped;	/* in this window */
	u64	calm_ns;	/* the last episode: over then */
	u64	pause_ns;	/* of the last episode; 0: there was none */
	u32	nr_looped;	/* loads while it loops */
	u32	nr_leaving;	/* READ_ONCE() as a hint */
	struct kv_handle leaving[LEAVING_MAX];	/* to be dropped when no caller uses them */
};

/* 0 or -ENOMEM. */
int thrash_init(struct kvmm_pool *pool, struct lower *lower);
void thrash_exit(struct lower *lower);
u64 thrash_bytes(const struct thrash *thrash);

/* The name was filled: its uses, as far as is remembered, this one included. No lock needed. */
u32 thrash_filled(struct lower *lower, const kvmm_key_t *key, kvmm_domain_t domain, bool is_load);
/* The device's block of that name was used; @uses as far as is known. No lock needed. */
void thrash_used(struct lower *lower, const kvmm_key_t *key, kvmm_domain_t domain, u32 uses);
/* Uses from which on a block is worth a copy now. */
u32 thrash_touches(const struct lower *lower);

/* The device's block of that name is dropped. */
void thrash_dropped(struct lower *lower, const kvmm_key_t *key, kvmm_domain_t domain);
/* Are blocks that might be dropped to be kept? */
bool thrash_spares(struct lower *lower);
/* Blocks that a prefetch may have on their way. */
u32 thrash_max_up(const struct lower *lower);

/* A block that was loaded: is it to leave again? */
void thrash_loaded(struct lower *lower, struct kv_handle handle);
/* Those that are to leave, at most @max: how many. */
u32 thrash_leave(struct lower *lower, struct kv_handle *handles, u32 max);
/* It is to leave, when it is not used any more. */
void thrash_stay(struct lower *lower, struct kv_handle handle);

bool thrash_is_sound(const struct lower *lower);

#endif /* POOL_TIER_THRASH_H */
