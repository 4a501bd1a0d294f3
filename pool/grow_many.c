// SPDX-License-Identifier: Apache-2.0
/*
 * One step of a whole batch: many ranges grow by the same, or none does.
 *
 * Who had grown before one failed is cut back: nobody can have been told of the new blocks. Where a
 * tenant's limit may refuse one range alone, or content has to be zeroed without the lock, they grow
 * one after the other.
 */
#include <kvmm/grow.h>

#include "internal.h"

struct batch {
	struct room		room;
	const kvmm_range_t	*ranges;
	u32			nr;
	u32			by;
	bool			reaps;
};

/*
 * Bad handles are found before anything has changed. What is forbidden to one is forbidden to all, and
 * they are as urgent as the least of them.
 */
static int find_all(struct kvmm_pool *pool, struct batch *batch)
{
	struct room *room = &batch->room;
	struct slot *slot;

	room->flags = 0;
	room->ask = (struct ask){ .prio = KVMM_PRIO_URGENT, .inside = true };
	for (u32 i = 0; i < batch->nr; i++) {
		int err = slot_find(pool, batch->ranges[i], &slot);

		if (unlikely(err))
			return err;
		room->flags |= slot->flags;
		room->ask.prio = min(room->ask.prio, (u32)slot->prio);
	}
	return likely(door_lets(pool, &room->ask, room->nr)) ? 0 : -ENOSPC;
}

static void undo(struct kvmm_pool *pool, const struct batch *batch, u32 nr_grown)
{
	while (nr_grown--)
		grow_undo(pool, slot_at(pool, batch->ranges[nr_grown].index), batch->by);
}

static int take_batch(struct kvmm_pool *pool, struct room *room)
{
	struct batch *batch = container_of(room, struct batch, room);
	int err = find_all(pool, batch);

	for (u32 i = 0; i < batch->nr && !err; i++) {
		u32 index = batch->ranges[i].index;
		struct slot *slot = slot_at(pool, index);

		err = grow_slot(pool, slot, index, batch->by, room->scatter);
		batch->reaps |= slot->nr_ext > KVMM_MAX_RUNS;
		if (unlikely(err))
			undo(pool, batch, i);
	}
	return err;
}

static int grow_at_once(struct kvmm_pool *pool, struct batch *batch)
{
	int err;

	err = pool_enter(pool);
	if (err)
		return err;
	err = take_batch(pool, &batch->room);
	pool_leave(pool);
	if (unlikely(err == -ENOSPC))
		err = pool_get_room(pool, &batch->room);
	if (unlikely(batch->reaps))
		kv_rcu_reap();
	return err;
}

static int grow_in_turn(struct kvmm_pool *pool, const struct batch *batch)
{
	struct slot *slot;
	int err = 0;
	u32 i;

	for (i = 0; i < batch->nr; i++) {
		err = kvmm_range_grow(pool, batch->ranges[i], batch->by);
		if (err)
			break;
	}
	while (err && i-- > 0) {
		if (range_enter(pool, batch->ranges[i], &slot))
			continue;
		if (slot->nr > batch->by)
			grow_undo(pool, slot, batch->by);
		pool_leave(pool);
	}
	return err;
}

int kvmm_range_grow_many(struct kvmm_pool *pool, const kvmm_range_t *ranges, uint32_t nr,
			 uint32_t by)
{
	struct batch batch = {
		.room = { .take = take_batch, .nr = nr * by, .scatters = true },
		.ranges = ranges, .nr = nr, .by = by,
	};

	if (!pool || (!ranges && nr) || !by || by > pool->nr_usable)
		return -EINVAL;
	if (!nr)
		return 0;
	if ((u64)nr * by > pool->nr_usable)
		return -ENOSPC;
	if (pool->zero || pool->order.quotas)
		return grow_in_turn(pool, &batch);
	return grow_at_once(pool, &batch);
}
