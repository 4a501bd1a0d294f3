// SPDX-License-Identifier: Apache-2.0
/*
 * Blocks that the device may still be writing; see unseen.h.
 *
 * ->blind counts failures, so a thread that asks the device without the lock, and is told that all
 * has ended, finds out whether something else has failed meanwhile.
 */
#include <kv/log.h>

#include "local.h"

static int sees_end(const struct kvmm_pool *pool)
{
	const struct kv_dev_ops *dev = pool->parts.dev;

	return pool->dev && dev->sees_end ? dev->sees_end(pool->dev) : 0;
}

bool device_is_lost(const struct kvmm_pool *pool)
{
	return sees_end(pool) == -EIO;
}

/* Blocks that threads keep aside would not come by here. */
static void begin(struct kvmm_pool *pool)
{
	pool->arenas_barred++;
	arenas_rest(pool);
	pool_drain_local(pool);
	kv_log(KV_LOG_ERR, "kvmm: pool %s: its device cannot see the end of a copy; what is given "
	       "back is not used until it does", pool->name);
}

void device_failed(struct kvmm_pool *pool)
{
	if (likely(!sees_end(pool)))
		return;
	kv_lock(&pool->lock);
	WRITE_ONCE(pool->blind, pool->blind + 1);
	if (pool->blind == 1)
		begin(pool);
	pool_leave(pool);
}

/* ---- the end of it ---- */

static void end(struct kvmm_pool *pool)
{
	WRITE_ONCE(pool->blind, 0);
	pool->arenas_barred--;
	if (pool->nr_unseen)
		blocks_free_of(pool, OWNER_UNSEEN, (struct kvmm_extent){ 0, pool->nr_blocks });
	WRITE_ONCE(pool->nr_unseen, 0);
}

void __device_look(struct kvmm_pool *pool)
{
	u32 blind = READ_ONCE(pool->blind);

	if (sees_end(pool))
		return;
	kv_lock(&pool->lock);
	if (pool->blind == blind && blind)
		end(pool);
	pool_leave(pool);
}

static int unseen_check(struct kvmm_pool *pool, const struct pool_recount *re)
{
	u32 nr = re->nr_owned[OWNER_UNSEEN];

	return nr == pool->nr_unseen && (pool->blind || !nr) ? 0 : -EUCLEAN;
}

POOL_PART(unseen) = {
	.name	= "blocks that may be written",
	.check	= unseen_check,
};
