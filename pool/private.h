/* SPDX-License-Identifier: Apache-2.0 */
/* A request for private blocks on its way, in a call or in a ticket. */
#ifndef POOL_PRIVATE_H
#define POOL_PRIVATE_H

#include "queue.h"

struct private_req {
	struct room		room;
	struct wait		wait;
	struct kvmm_alloc_ctl	ctl;
	kvmm_mut_t		*blocks;	/* the caller's */
	u64			begin_ns;	/* if there is a report */
	u32			fragmentation_ppm;
};

struct ticket {
	struct ticket		*next;		/* ->lock */
	struct waiter		waiter;		/* see there */
	struct private_req	req;		/* whoever polls */
	bool			busy;		/* ->lock; it is being tried */
};

/* Read, check, note the time: 0, or why not. */
int private_begin(struct kvmm_pool *pool, const struct kvmm_alloc_ctl *ctl, kvmm_mut_t *blocks,
		  struct private_req *req);
/* It has ended with @err: zero the content, write the report. No lock held. Returns the end. */
int private_end(struct kvmm_pool *pool, struct private_req *req, int err);

#endif /* POOL_PRIVATE_H */
