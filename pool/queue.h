/* SPDX-License-Identifier: Apache-2.0 */
/* The queue itself; see queue.c. ->lock held for all of it. */
#ifndef POOL_QUEUE_H
#define POOL_QUEUE_H

#include "internal.h"

/* Behind all of its priority; then the caller sets GUARD_QUEUE. */
void queue_add(struct kvmm_pool *pool, struct waiter *w);
/* The next one may have its turn now. */
void queue_del(struct kvmm_pool *pool, struct waiter *w);
/* Out of the queue without blocks. */
void waiter_refuse(struct kvmm_pool *pool, struct waiter *w, int result);
/* All of them. */
void queue_refuse(struct kvmm_pool *pool, int result);

/* Heads leave when their deadline has passed. */
void queue_expire(struct kvmm_pool *pool);

#endif /* POOL_QUEUE_H */
