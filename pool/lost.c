// SPDX-License-Identifier: Apache-2.0
/*
 * Single blocks with content that was destroyed, or found to be wrong: no look-up finds them any
 * more, and their holders are told.
 *
 * A block is lost as long as its entry has the generation that is noted here: when it is given back
 * the note says nothing any more. Notes are made while the gate is closed. So a thread that stages
 * or publishes has either done it before, and the name is forgotten here, or sees the note.
 */
#include "internal.h"

int __lost_check(struct kvmm_pool *pool, const struct kv_handle *handles, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		if (handles[i].index < pool->nr_blocks &&
		    READ_ONCE(pool->transit.lost[handles[i].index]) == handles[i].gen)
			return -EIO;
	return 0;
}

/* A reader of any_lost alone misses none. */
static int lost_notes_check(struct kvmm_pool *pool, const struct pool_recount *re)
{
	const u32 *lost = pool->transit.lost;

	for (u32 i = 0; lost && !pool->any_lost && i < pool->nr_blocks; i++)
		if (lost[i])
			return -EUCLEAN;
	return 0;
}

void entry_lose(struct kvmm_pool *pool, struct kv_handle handle)
{
	kv_assert_held(&pool->lock);
	if (entry_handle(pool, handle.index).gen != handle.gen)
		return;
	WRITE_ONCE(pool->transit.lost[handle.index], handle.gen);
	WRITE_ONCE(pool->any_lost, true);
	forget_lost_entry(pool, handle);
}

/* Waits for threads inside, unless the gate is closed already. compact_lock held, ->lock not. */
bool lose_begin(struct kvmm_pool *pool)
{
	bool closed;

	kv_assert_held(&pool->compact_lock);
	kv_lock(&pool->lock);
	closed = pool->gate & GATE_STOPPED;
	if (!closed) {
		pool_stop(pool);
		kv_lock(&pool->lock);
	}
	if (pool->caches)
		order_enter(&pool->order);
	return closed;
}

void lose_end(struct kvmm_pool *pool, bool closed)
{
	if (pool->caches)
		order_leave(&pool->order);
	if (!closed)
		pool_resume(pool);
	pool_leave(pool);
}

POOL_PART(lost) = {
	.name	= "notes of lost content",
	.check	= lost_notes_check,
};
