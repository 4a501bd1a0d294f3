// SPDX-License-Identifier: Apache-2.0
/*
 * Blocks of pageblocks that leave and come back; see pageblock.h.
 *
 * The zone believes blocks that are away to be taken; setting them aside and giving them back is no
 * allocation and no free, so the calls for soft reservations serve.
 */
#include <order/digest.h>

#include "internal.h"

static const u32 away = (u32)OWNER_AWAY << OWNER_INDEX_BITS;

/* ---- blocks ---- */

/* The content left there by an entry is still there. */
static void run_away(struct kvmm_pool *pool, u32 start, u32 nr)
{
	for (u32 at = start; at < start + nr; at++) {
		u32 was = pool->owner[at];

		owner_fill(pool, at, 1, away);
		if (owner_kind(was) == OWNER_LEFT)
			pool->owner[at] = make_owner(OWNER_LEFT_AWAY, owner_index(was));
	}
	tenant_forget(pool, start, nr);
	pool->pb.nr_away += nr;
}

/* Blocks that others keep aside in the zone are not free there, and come to us later. */
void leave_claim(struct kvmm_pool *pool, u32 pb)
{
	u32 at = pb_start(pool, pb), end = pb_end(pool, pb);
	struct kvmm_extent run;

	kv_assert_held(&pool->lock);
	for (; at < end && !kv_zone_next_free(pool->zone, at, &run) && run.start < end;
	     at = run.start + run.nr) {
		u32 lo = max(run.start, at), hi = min(run.start + run.nr, end);

		if (POOL_BUG_ON(pool, kv_reserve_behind(pool->zone, lo, hi - lo, hi - lo) !=
				hi - lo))
			return;
		run_away(pool, lo, hi - lo);
	}
}

void leave_begin(struct kvmm_pool *pool, u32 pb)
{
	pool->pb.state[pb] = PB_LEAVING;
	pool->nr_leaving++;
	leave_claim(pool, pb);
}

static void run_is_back(struct kvmm_pool *pool, u32 start, u32 nr)
{
	for (u32 at = start; at < start + nr; at++) {
		u32 was = pool->owner[at];

		owner_clear(pool, at, 1);
		if (owner_kind(was) == OWNER_LEFT_AWAY)
			pool->owner[at] = make_owner(OWNER_LEFT, owner_index(was));
	}
	if (unlikely(kv_unreserve(pool->zone, start, nr)))
		pool_poison(pool);
	pool->pb.nr_away -= nr;
}

void leave_undo(struct kvmm_pool *pool, u32 pb)
{
	u32 end = pb_end(pool, pb);

	pool->nr_leaving -= pool->pb.state[pb] == PB_LEAVING;
	pool->pb.state[pb] = PB_HERE;
	for (u32 at = pb_start(pool, pb), nr; at < end; at += max(nr, 1u)) {
		for (nr = 0; at + nr < end && owner_is_away(pool->owner[at + nr]); nr++)
			;
		if (!nr)
			continue;
		run_is_back(pool, at, nr);
		release_post(pool, nr);
	}
}

bool leave_settle(struct kvmm_pool *pool, u32 pb)
{
	for (u32 at = pb_start(pool, pb); at < pb_end(pool, pb); at++)
		if (!owner_is_away(pool->owner[at]))
			return false;
	/* Content left there goes with the memory. */
	for (u32 at = pb_start(pool, pb); at < pb_end(pool, pb); at++)
		pool->owner[at] = away;
	pool->pb.state[pb] = PB_AWAY;
	pool->nr_leaving--;
	return true;
}

/* ---- blocks of other files ---- */

static enum pageblock_state state_of(const struct kvmm_pool *pool, u32 block)
{
	return pool->pb.state[block >> pool->pb.shift];
}

void elastic_free(struct kvmm_pool *pool, struct kvmm_extent run)
{
	run_away(pool, run.start, run.nr);
}

void elastic_victim_left(struct kvmm_pool *pool, u32 block, u32 index)
{
	if (pool->owner[block] == away && state_of(pool, block) == PB_LEAVING)
		pool->owner[block] = make_owner(OWNER_LEFT_AWAY, index);
}

void elastic_victim_return(struct kvmm_pool *pool, u32 block, u32 index)
{
	if (pool->owner[block] == make_owner(OWNER_LEFT_AWAY, index))
		run_is_back(pool, block, 1);
}

struct kvmm_extent elastic_run(const struct kvmm_pool *pool, u32 start)
{
	u32 end = start;

	while (end < pool->nr_blocks && owner_is_away(pool->owner[end]))
		end++;
	return (struct kvmm_extent){ start, end - start };
}

bool elastic_is_away(const struct kvmm_pool *pool, u32 block)
{
	kv_assert_held(&pool->compact_lock);
	return unlikely(pool->pb.nr) && state_of(pool, block) == PB_AWAY;
}

bool __elastic_is_leaving(const struct kvmm_pool *pool, struct kvmm_extent run)
{
	const struct pageblocks *pbs = &pool->pb;

	kv_assert_held(&pool->lock);
	for (u32 pb = run.start >> pbs->shift; pb <= (run.start + run.nr - 1) >> pbs->shift; pb++)
		if (pbs->state[pb] == PB_LEAVING)
			return true;
	return false;
}

void elastic_sum(struct sum *sum, const struct kvmm_pool *pool)
{
	const struct pageblocks *pbs = &pool->pb;

	for (u32 pb = 0; pb < pbs->nr; pb++)
		if (pbs->state[pb] != PB_HERE)
			sum_add_two(sum, pb, pbs->size);
}
