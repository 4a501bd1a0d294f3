/* SPDX-License-Identifier: Apache-2.0 */
/* What the rest of the pool has to do with its tiers: hooks that cost a branch where there are none. */
#ifndef POOL_LOWER_H
#define POOL_LOWER_H

#include <kv/types.h>

struct kvmm_pool;
struct kv_handle;

/* Blocks were hit where @refs have a gen. No lock held. */
void __lower_touched(struct kvmm_pool *pool, const struct kv_handle *refs, u32 nr);
/* Blocks were registered where @found is the same. No lock held. */
void __lower_filled(struct kvmm_pool *pool, const struct kv_handle *handles,
		    const struct kv_handle *found, u32 nr);
/* Nothing that is below now is found any more: 0, or why it may be after a restart. The pool has stopped. */
int lower_reset(struct kvmm_pool *pool);

#endif /* POOL_LOWER_H */
