/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compaction that was in vain is not tried again until something has changed.
 *
 * A caller that asks for room and is refused asks again, and again it would take a picture of the
 * whole pool to find out that it cannot be had. Any change that could make a difference changes a
 * count: blocks taken, given back, evicted or moved, references, pins. As long as none has, the
 * answer is known. So nothing is refused that could be had: that is for background.c, where no
 * caller waits.
 */
#ifndef POOL_USELESS_H
#define POOL_USELESS_H

#include <pool/internal.h>

/* It is known to be in vain. pool->lock held, nothing kept aside by threads. */
bool useless_again(const struct kvmm_pool *pool, u32 want, u32 max_runs);
/* All that could make a difference. The same. */
u64 useless_stamp(const struct kvmm_pool *pool);
/* It was in vain, and will be where all is as it was at @stamp, before. The same. */
void useless_note(struct kvmm_pool *pool, u32 want, u32 max_runs, u64 stamp);

#endif /* POOL_USELESS_H */
