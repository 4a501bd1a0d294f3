/* SPDX-License-Identifier: Apache-2.0 */
/* The store below a host tier, and transfers there and back. */
#ifndef TIER_BELOW_H
#define TIER_BELOW_H

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
};

/* Waits for blocks being written. */
void below_exit(struct kvmm_tier *tier);
/* Until the store knows of every put of a DOOMED slot. */
void below_wait_given(struct kvmm_tier *tier);

#endif /* TIER_BELOW_H */
