/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by requests that wait, with a thread or in a ticket. ->lock held where nothing is said. */
#ifndef REQUEST_WAIT_H
#define REQUEST_WAIT_H

#include <pool/internal.h>

struct ticket {
	struct ticket		*next;		/* ->lock */
	struct waiter		waiter;		/* see there */
	struct alloc_ctx	ctx;		/* the polling thread */
	kvmm_ticket_t		*name;		/* the submitter's, until it is queued */
	bool			busy;		/* ->lock; it is being tried */
};

/* Into the queue. ->ticket is set, the rest is filled in. */
void waiter_enter(struct kvmm_pool *pool, struct waiter *w, struct alloc_ctx *ctx);
/* -ENOSPC not its turn, or not enough; else how it ends. Drops and retakes ->lock. */
int waiter_try(struct kvmm_pool *pool, struct waiter *w, struct alloc_ctx *ctx);
/* Out of the queue, if it still is there, with @err. */
void waiter_leave(struct kvmm_pool *pool, struct waiter *w, struct alloc_ctx *ctx, int err);

/* ---- private.c ---- */

/* A request for private blocks: read, checked, and the time noted: 0, or why not. */
int private_begin(struct kvmm_pool *pool, const struct kvmm_alloc_ctl *ctl, kvmm_mut_t *blocks,
		  struct alloc_ctx *ctx);
/* It has ended with @err: zero the content, write the report. No lock held. Returns the end. */
int private_end(struct kvmm_pool *pool, struct alloc_ctx *ctx, int err);

/* ---- ticket.c ---- */

/* Private blocks, or the ticket is queued for them: -EINPROGRESS. */
int ticket_submit(struct kvmm_pool *pool, const struct kvmm_alloc_ctl *ctl, kvmm_mut_t *blocks,
		  kvmm_ticket_t *ticket);
/* The request of a ticket stands in the queue from here on: -EINPROGRESS. */
int ticket_queue(struct kvmm_pool *pool, struct alloc_ctx *ctx);

#endif /* REQUEST_WAIT_H */
