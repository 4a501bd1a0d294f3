// SPDX-License-Identifier: Apache-2.0
/*
 * Blocks that the device may still be writing; see unseen.h.
 *
 * ->blind counts failures, so who asks the device without the lock, and is told that all has ended,
 * finds out whether something else has failed meanwhile.
 */
#include <kv/log.h>

#include "flight.h"
#include "../local.h"
#include "unseen.h"

static int sees_end(const struct kvmm_pool *pool)
{
	const struct kv_dev_ops *dev = pool->parts.dev;

	return pool->dev && dev->sees_end ? dev->sees_end(pool->dev) : 0;
}

bool device_is_lost(const struct kvmm_pool *pool)
{
	return sees_end(pool) == -EIO;
}

/* What threads keep aside would not come by here. */
static void begin(struct kvmm_pool *pool)
{
	pool->arenas_barred++;
	arenas_rest(pool);
	pool_drain_local(pool);
	kv_log(KV_LOG_ERR, "kvmm: pool %s: its device cannot see the end of a copy; what is given back "
	       "is not used until it does", pool->name);
}

void device_failed(struct kvmm_pool *pool)
{
	if (likely(!sees_end(pool)))
		return;
	kv_lock(&pool->lock);
	WRITE_ONCE(pool->blind, pool->blind + 1);
	if (pool->blind == 1)
		begin(pool);
	kv_unlock(&pool->lock);
}

/* ---- given back meanwhile ---- */

static void keep(struct kvmm_pool *pool, u32 block)
{
	owner_fill(pool, block, 1, make_owner(OWNER_UNSEEN, 0));
	WRITE_ONCE(pool->nr_unseen, pool->nr_unseen + 1);
}

static void free_later(struct kvmm_pool *pool, u32 block)
{
	if (pool->nr_flying && is_flying(pool->steps, block))
		flight_keep(pool, block);
	else if (pool->blind)
		keep(pool, block);
	else
		blocks_free_now(pool, &(struct kvmm_extent){ block, 1 }, 1);
}

void blocks_free_later(struct kvmm_pool *pool, const struct kvmm_extent *ext, u32 nr_ext)
{
	kv_assert_held(&pool->lock);
	for (u32 i = 0; i < nr_ext; i++)
		for (u32 b = ext[i].start; b < ext[i].start + ext[i].nr; b++)
			free_later(pool, b);
}

/* ---- the end of it ---- */

static void end(struct kvmm_pool *pool)
{
	WRITE_ONCE(pool->blind, 0);
	pool->arenas_barred--;
	for (u32 b = 0; b < pool->nr_blocks && pool->nr_unseen; b++) {
		if (owner_kind(pool->owner[b]) != OWNER_UNSEEN)
			continue;
		WRITE_ONCE(pool->nr_unseen, pool->nr_unseen - 1);
		block_free(pool, b);
	}
}

void __device_look(struct kvmm_pool *pool)
{
	u32 blind = READ_ONCE(pool->blind);

	if (sees_end(pool))
		return;
	kv_lock(&pool->lock);
	if (pool->blind == blind && blind)
		end(pool);
	kv_unlock(&pool->lock);
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
