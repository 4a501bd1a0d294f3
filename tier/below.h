/* SPDX-License-Identifier: Apache-2.0 */
/* The store below a host tier, and transfers there and back. */
#ifndef TIER_BELOW_H
#define TIER_BELOW_H

#include <kv/pool_completion.h>

#include "internal.h"

enum below_kind { BELOW_FREE, BELOW_PUT, BELOW_GET, NR_BELOW_KINDS };

/* Most pieces of a block with a checksum made in host memory. */
#define MAX_SUM_PLANES	256u
#define LOOK_MAX	1024u	/* victims that one look goes through */
#define LOOK_STEPS	8u	/* for each slot that has come into the order, or left it, since */

/* Guard: tier->lock while free; else the thread that has taken it, and the store. */
struct below_io {
	struct kv_tier_io	io;
	struct kv_tier_slot	slot;		/* BELOW_PUT: SLOT_BUSY; BELOW_GET: WRITING */
	struct below_io		*next;		/* free */
	u32			kind;		/* enum below_kind */
	u32			is_done;	/* BELOW_GET: it has come; release, acquire */
	bool			is_given;	/* tier->lock; BELOW_PUT: the store knows of it */
	bool			is_left;	/* tier->lock; BELOW_GET: its client has gone */
	u32			owner;		/* of the slot, when it began */
	u64			begin_ns;
	u64			end_ns;		/* when it is done */
	struct completion	completion;	/* ->alike: that of the pool above */
	u32			is_here;	/* ->alike: over on this rank; release, acquire */
};

/* At the next victims. Guard: tier->lock. */
struct below_look {
	u64			news;		/* tier's, at the last one */
	u64			long_news;	/* at the last long one */
	u32			nr;		/* victims that went through; 0: next one is long */
	u32			at;		/* first in the queue not dealt with */
	u32			nr_queued;
	struct kv_tier_slot	queue[LOOK_MAX];	/* without a copy then; next to go first */
};

#define ALIKE_SET	8u

struct alike_name {
	u64			fp[2];
	u64			stamp;		/* ->nr_added when it came; 0: none */
};

/*
 * What ranks that decide alike take to be in their stores: a name is added when all have been told
 * that it was written, and dropped when all have been told that one could not read it, or at the
 * same call. What a store has lost meanwhile is a load that fails, and no hit from then on. Names
 * are as many as the store has room for, the latest ones.
 * Guard: tier->lock, but ->all: the thread that calls the pool.
 */
struct alike {
	struct completions	*all;		/* of the pool above; NULL: there is none */
	u64			seed;		/* fixed */
	u64			max_names;	/* fixed */
	u32			nr_sets;	/* fixed; a power of two */
	u64			nr_added;
	struct alike_name	*name;		/* ours; sets of ALIKE_SET */
};

struct below {
	/* Fixed at creation. */
	const struct kv_tier_ops *ops;
	void			*store;		/* ours */
	u32			high_pm;
	u32			max_put;
	u32			max_get;
	struct below_io		*io;		/* ours */

	u32			*busy;		/* tier->lock; ours; for evict_one(): max_put */
	struct below_look	look;		/* tier->lock */
	struct below_io		*free;		/* tier->lock */
	u32			nr_used[NR_BELOW_KINDS];	/* tier->lock */
	struct alike		*alike;		/* ours; NULL until ranks are told; then fixed */
};

/* Waits for blocks being written. */
void below_exit(struct kvmm_tier *tier);
/*
 * Until the store knows of every put of client @owner, or, if that is 0, of a DOOMED slot.
 * tier->lock is held, and let go of meanwhile.
 */
void below_wait_given(struct kvmm_tier *tier, u32 owner);
/* Transfers that the store is through with: how many. Where ranks are told, no more than that. */
u32 below_poll(struct kvmm_tier *tier);

static inline struct alike *alike_of(const struct kvmm_tier *tier)
{
	/* Pairs with kv_tier_join(): it is made. */
	return tier->below ? smp_load_acquire(&tier->below->alike) : NULL;
}

/* ---- alike.c ---- */

/* For blocks of so many bytes in the store of @tier, or NULL. */
struct alike *alike_make(const struct kvmm_tier *tier, u64 seed, u64 record_bytes);
void alike_free(struct alike *alike);
u64 alike_bytes(const struct alike *alike);
bool alike_has(struct kvmm_tier *tier, const struct kv_tier_name *name);
/* Was it there? */
bool alike_drop(struct kvmm_tier *tier, const struct kv_tier_name *name);
void alike_clear(struct kvmm_tier *tier);
/* Written, or read: in effect. tier->lock held. */
void alike_settle(struct kvmm_tier *tier, const struct below_io *io, int error);
/* 0 or -EUCLEAN. tier->lock held. */
int alike_check(const struct kvmm_tier *tier);

#endif /* TIER_BELOW_H */
