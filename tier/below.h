/* SPDX-License-Identifier: Apache-2.0 */
/* The store below a host tier, and what is on its way there and back. */
#ifndef TIER_BELOW_H
#define TIER_BELOW_H

#include "internal.h"

enum below_kind { BELOW_FREE, BELOW_PUT, BELOW_GET, NR_BELOW_KINDS };

/* Most pieces of a block whose checksum is made in host memory. */
#define MAX_SUM_PLANES	256u
/* Victims that are looked at for one without a copy below. */
#define LOOK_VICTIMS	64u

/* Guard: tier->lock while free; else whoever has taken it, and the store. */
struct below_io {
	struct kv_tier_io	io;
	struct kv_tier_slot	slot;		/* BELOW_PUT: SLOT_BUSY for it; BELOW_GET: WRITING */
	struct below_io		*next;		/* free */
	u32			kind;		/* enum below_kind */
	u32			is_done;	/* BELOW_GET: the store is through; release, acquire */
	u32			owner;		/* of the slot, when it began */
	u64			begin_ns;
	u64			end_ns;		/* when it is done */
};

struct below {
	/* Fixed at creation. */
	const struct kv_tier_ops *ops;
	void			*store;		/* ours */
	u32			high_pm;
	u32			max_put;
	u32			max_get;
	struct below_io		*io;		/* ours */

	struct below_io		*free;		/* tier->lock */
	u32			nr_used[NR_BELOW_KINDS];	/* tier->lock */
	u64			demoted;	/* tier->lock */
	u64			promoted;	/* tier->lock */
	u64			failed;		/* tier->lock */
	u64			bytes[NR_BELOW_KINDS];	/* tier->lock; of those that ended well; */
	u64			ns[NR_BELOW_KINDS];	/* tier->lock; what each took, added up */
};

/* What the store is through with; how many. No lock held. */
u32 below_poll(struct kvmm_tier *tier);
/* Waits for what is being written. */
void below_exit(struct kvmm_tier *tier);

#endif /* TIER_BELOW_H */
