/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device that cannot see the end of its work.
 *
 * A copy has failed, and the driver cannot say that nothing writes to its destination any more.
 * Failed work comes back to the pool in many ways: by moves, loads, migrations, by callers that
 * give up blocks they could not fill. So as long as the device is blind, blocks given back have no
 * owner but the first block of their run, since an engine that rounds wants runs as it gave them:
 *
 *  1. While ->blind is not 0, no block becomes free: it is OWNER_UNSEEN. No old place of a move
 *     becomes free either, since the end of steps may not be seen.
 *  2. The device says that all has ended: all of them are free. It is lost: they stay until the
 *     pool is destroyed.
 *  3. ->blind is set before any block of failed work is given back.
 */
#ifndef POOL_UNSEEN_H
#define POOL_UNSEEN_H

#include <kv/atomic.h>
#include <kv/types.h>

struct kvmm_extent;
struct kvmm_pool;

/* The device will never say anything again. */
bool device_is_lost(const struct kvmm_pool *pool);

/*
 * Work of the pool's on its device has failed: call it before the destination is given back. No
 * lock held at or below pool->lock.
 */
void device_failed(struct kvmm_pool *pool);

void __device_look(struct kvmm_pool *pool);
/* Does it see again? compact_lock may be held, but none below. */
#define device_look(pool)						\
	do {								\
		if (unlikely(READ_ONCE((pool)->blind)))			\
			__device_look(pool);				\
	} while (0)

#endif /* POOL_UNSEEN_H */
