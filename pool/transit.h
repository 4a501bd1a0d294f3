/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the pool knows of moves beside and between steps, which themselves are above it; see
 * move/step.h.
 *
 * Part of internal.h, and included by that alone.
 */
#ifndef POOL_TRANSIT_H
#define POOL_TRANSIT_H

#include <kv/atomic.h>
#include <kv/bits.h>
#include <kv/types.h>

struct kvmm_pool;

/**
 * struct transit_ops - the mover's calls
 * @await: so that the host may touch content: copies that are published, but not complete, are
 *	waited for; no lock held below compact_lock
 * @look: the same with compact_lock held, and owners of those that failed are told
 * @void_block: a block's content changes: its copies under way come to nothing; compact_lock held
 * @cancel: how many blocks stay because of it; waits for the device; compact_lock held
 */
struct transit_ops {
	void (*await)(struct kvmm_pool *pool);
	void (*look)(struct kvmm_pool *pool);
	void (*void_block)(struct kvmm_pool *pool, u32 block);
	u32 (*cancel)(struct kvmm_pool *pool);
};

struct transit {
	const struct transit_ops	*ops;	/* atomic; NULL: no steps yet; fixed once there */
	u64				*flying;	/* pool->lock; ours; a bit a block */
	u32				*lost;	/* ours; by entry; NULL without a policy; cache/ */
	u32				nr_dark;	/* pool->lock; blocks of OWNER_MOVE */
	u32				nr_flights;	/* compact_lock; READ_ONCE() as a hint */
};

/* Its content is being copied from there. pool->lock held, and there are steps. */
static inline bool is_flying(const struct transit *transit, u32 block)
{
	return transit->flying[block / KV_WORD_BITS] >> block % KV_WORD_BITS & 1;
}

/* NULL: nothing has ever been moved beside or between steps. */
static inline const struct transit_ops *transit_ops(const struct transit *transit)
{
	/* Pairs with steps_get(): the tables are there. */
	return smp_load_acquire(&transit->ops);
}

#endif /* POOL_TRANSIT_H */
