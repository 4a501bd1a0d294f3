/* SPDX-License-Identifier: Apache-2.0 */
/* What threads that wait and tickets have in common; see queue.c. ->lock held for all of it. */
#ifndef POOL_QUEUE_H
#define POOL_QUEUE_H

#include "internal.h"

/* Into the queue. ->ticket is set, the rest is filled in. */
void waiter_enter(struct kvmm_pool *pool, struct waiter *w, struct wait *wait);
/* -ENOSPC it is not its turn, or there is not enough; else how it ends. Drops and retakes ->lock. */
int waiter_try(struct kvmm_pool *pool, struct waiter *w, struct wait *wait);
/* Out of the queue, if it still is there, with @err. */
void waiter_leave(struct kvmm_pool *pool, struct waiter *w, struct wait *wait, int err);
/* Out of the queue without blocks. */
void waiter_refuse(struct kvmm_pool *pool, struct waiter *w, int result);
/* All of them. */
void queue_refuse(struct kvmm_pool *pool, int result);

/* Heads whose deadline has passed leave. */
void queue_expire(struct kvmm_pool *pool);

/* ---- ticket.c ---- */

void tickets_exit(struct kvmm_pool *pool);

#endif /* POOL_QUEUE_H */
