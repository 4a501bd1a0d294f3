/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files about flights; see step.h for flights. */
#ifndef POOL_FLIGHT_H
#define POOL_FLIGHT_H

#include "move.h"
#include "step.h"

/* A block that has no owner, and cannot be had. */
static const u32 dark = (u32)OWNER_MOVE << OWNER_INDEX_BITS;

/* The caller's, or NULL. */
struct flight *flight_make(const struct kv_move *moves, u32 nr, u32 mode);
void flight_free(struct flight *flight);
/* The youngest; takes it. compact_lock held. */
void flight_add(struct kvmm_pool *pool, struct flight *flight);

/* All legs are isolated, or none: -EAGAIN something has changed, -ENOMEM. ->lock held. */
int flight_lift(struct kvmm_pool *pool, struct flight *flight);
/* As much of the copy as may begin now: 0, or the device's error. steps->lock held. */
int flight_submit(struct kvmm_pool *pool, struct steps *steps, struct flight *flight);
/* An entry is not MOVING any more. pool->lock and the order's held. */
void entry_moved(struct kvmm_pool *pool, u32 index, u32 gen);
/* The copy is over: if @good, legs get their new places, and an epoch begins. steps->lock held. */
void flight_settle(struct kvmm_pool *pool, struct flight *flight, bool good);

#endif /* POOL_FLIGHT_H */
