// SPDX-License-Identifier: Apache-2.0
/*
 * Making room: what an allocation does when the zone says no.
 *
 * In this order: evict what its tenant's limits want, evict exactly the shortfall, then move blocks
 * until the run is there. The hard part is that failing must leave no trace, the order of eviction
 * included. So victims keep their entries and keys until the allocation has succeeded; only their
 * blocks go to the zone, and come back from there if it fails. The gate is closed while the lock is
 * dropped for the copies, so nobody sees, or takes, what is under way.
 *
 * All of it runs with compact_lock held: one caller at a time makes room.
 */

#include "local.h"

void victims_free_blocks(struct kvmm_pool *pool, const struct victims *victims)
{
	for (u32 at = victims->newest, i = 0; i < victims->nr; i++, at = entry_at(pool, at)->chain)
		block_free(pool, entry_block(entry_at(pool, at)));
}

/* They were picked later than those that are there. */
static void victims_join(struct kvmm_pool *pool, struct victims *victims,
			 const struct victims *more)
{
	u32 at = more->newest;

	if (!more->nr)
		return;
	if (!victims->nr)
		victims->before = more->before;
	for (u32 i = 1; i < more->nr; i++)
		at = entry_at(pool, at)->chain;
	WRITE_ONCE(entry_at(pool, at)->chain, victims->newest);
	victims->newest = more->newest;
	victims->nr += more->nr;
}

static bool evict_more(struct kvmm_pool *pool, const struct room *room, u32 nr,
		       struct victims *victims)
{
	struct victims more = NO_VICTIMS;
	bool enough;

	order_enter(&pool->order);
	quota_begin(pool->order.quotas, room->account, QUOTA_FOR_WHO);
	enough = victims_pick(pool, nr, &more);
	if (!enough)
		victims_unpick(pool, &more);
	quota_end(pool->order.quotas);
	order_leave(&pool->order);
	victims_free_blocks(pool, &more);
	victims_join(pool, victims, &more);
	return enough;
}

/* Its place may have been used by what was moved; then it is gone after all. */
static bool victim_restore(struct kvmm_pool *pool, u32 index)
{
	u32 block = entry_block(entry_at(pool, index));

	if (kvmm_zone_alloc_at(pool->zone, block, 1))
		return false;
	owner_fill(pool, block, 1, make_owner(OWNER_ENTRY, index));
	order_unpick(&pool->order, index);
	return true;
}

/* Evict them for good, or put them back where they were. */
static void victims_end(struct kvmm_pool *pool, struct victims *victims, bool restore,
			struct room *room)
{
	if (!victims->nr)
		return;
	order_enter(&pool->order);
	if (restore)
		pool->order.mark = victims->before;
	for (; victims->nr; victims->nr--) {
		u32 index = victims->newest;

		victims->newest = entry_at(pool, index)->chain;
		if (restore && victim_restore(pool, index))
			continue;
		room->evicted += entry_forget(pool, index);
		entry_free(pool, entry_handle(pool, index));
	}
	order_leave(&pool->order);
	count_evictions(pool, room->evicted);
}

/* Free exactly so many cached blocks as are missing, if there are so many. */
static int evict_shortfall(struct kvmm_pool *pool, const struct room *room, u32 nr_free,
			   struct victims *victims)
{
	u32 shortfall = room->nr - nr_free;

	if (room->flags & KVMM_ALLOC_NO_EVICT || !pool->caches)
		return -ENOSPC;
	return evict_more(pool, room, shortfall, victims) ? 0 : -ENOSPC;
}

/* Moving is for nothing where the engine may not take the run that it makes. */
static int compact_and_take(struct kvmm_pool *pool, struct room *room)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = room->nr,
				     .max_blocks = pool->compact_max_blocks };
	int err;

	if (room->flags & KVMM_ALLOC_NO_COMPACT || !kv_zone_takes_any_run(pool->zone))
		return -ENOSPC;
	err = pool_compact(pool, &goal);
	room->moved += goal.moved;
	if (!err)
		return room->take(pool, room);
	kv_count(KV_EV_COMPACT_FAIL);
	return err == -EIO || err == -ENOMEM ? err : -ENOSPC;
}

static int fail(struct kvmm_pool *pool, const struct room *room, u32 nr_free)
{
	if (nr_free < room->nr)
		pool->count.fail_nospc++;
	else
		pool->count.fail_frag++;
	return -ENOSPC;
}

/* Refused for now: perhaps because its tenant has to give something up first. */
static int squeeze_and_take(struct kvmm_pool *pool, struct room *room, struct victims *victims)
{
	int err = quota_squeeze(pool, room, victims);

	return err ? err : room->take(pool, room);
}

static int try_harder(struct kvmm_pool *pool, struct room *room, struct victims *victims)
{
	u32 nr_free;
	int err;

	pool_drain_local(pool);
	err = room->take(pool, room);	/* somebody may have freed some meanwhile */
	if (err == -ENOSPC && unlikely(pool->order.quotas != NULL))
		err = squeeze_and_take(pool, room, victims);
	if (err != -ENOSPC)
		return err;
	pool_steal_shortfall(pool, room->nr);
	nr_free = kv_zone_nr_free(pool->zone);
	if (nr_free < room->nr) {
		if (evict_shortfall(pool, room, nr_free, victims))
			return fail(pool, room, nr_free);
		err = room->take(pool, room);
	}
	if (err != -ENOSPC)
		return err;
	fail(pool, room, room->nr);
	err = compact_and_take(pool, room);
	if (err != -ENOSPC || !room->scatters)
		return err;
	room->scatter = true;
	return room->take(pool, room);
}

int pool_get_room(struct kvmm_pool *pool, struct room *room)
{
	struct victims victims = NO_VICTIMS;
	int err;

	kv_lock(&pool->compact_lock);
	flights_poll(pool);
	err = pool_enter(pool);
	if (!err) {
		err = try_harder(pool, room, &victims);
		/* A copy that failed may have gone half-way, to where a victim was. */
		victims_end(pool, &victims, err && err != -EIO, room);
		pool_leave(pool);
	}
	kv_unlock(&pool->compact_lock);
	cache_after(pool);
	return err;
}
