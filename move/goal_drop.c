// SPDX-License-Identifier: Apache-2.0
/*
 * Cached blocks that are lost rather than moved: which may be, and their eviction.
 *
 * A block is never evicted before those that follow it in its chain, so these go with it, wherever
 * they lie, and are paid for. All are claimed as victims, in that order, before anything is lifted;
 * if that fails they are put back: exactly where they were if nothing has happened to the order
 * meanwhile, else among the next ones. Blocks that another thread evicts just now are gone as well.
 */
#include <pool/local.h>

#include <kvmm/ext/moves.h>

#include "cost.h"
#include "goal.h"

/* With more behind it a block is not lost: it would be a whole prompt. */
#define MOST_LOST	64u

/* ---- the price ---- */

/* The class in turn; others are above it. KV_NONE: there are no victims. */
static u32 class_in_turn(struct order *order)
{
	u32 index = order_peek(order), class;

	kv_assert_held(&order->lock);
	if (index == KV_NONE)
		return KV_NONE;
	class = class_of(order->classes, index);
	order_unpeek(order, index);
	return class;
}

/* With all that follow; more than MOST_LOST: that is enough to know. */
static u32 nr_lost_with(const struct order *order, u32 top)
{
	u32 list[MOST_LOST + 1], nr = 1;

	kv_assert_held(&order->lock);
	list[0] = top;
	for (u32 i = 0; i < nr; i++) {
		u32 kid = order_child(order, list[i], KV_NONE);

		for (; kid != KV_NONE; kid = order_child(order, list[i], kid)) {
			if (nr > MOST_LOST)
				return nr;
			list[nr++] = kid;
		}
	}
	return nr;
}

void goal_price_drops(struct goal *goal)
{
	struct kvmm_pool *pool = goal->pool;
	u32 class;

	kv_assert_held(&pool->compact_lock);
	if (!(goal->ask->flags & KVMM_GOAL_DROP) || !pool->caches || pool->order.quotas)
		return;
	kv_lock(&pool->lock);
	order_enter(&pool->order);
	class = class_in_turn(&pool->order);
	for (u32 i = 0; class != KV_NONE && i < goal->req.nr_items; i++) {
		struct kv_item *item = &goal->items[i];
		u32 owner = pool->owner[item->start], index = owner_index(owner), nr;

		if (item->owner || owner_kind(owner) != OWNER_ENTRY ||
		    !entry_is_inactive(pool, index) || !order_has(&pool->order, index) ||
		    class_of(pool->order.classes, index) != class)
			continue;
		nr = nr_lost_with(&pool->order, index);
		item->drop = nr <= MOST_LOST ? nr : 0;
	}
	order_leave(&pool->order);
	pool_leave(pool);
}

/* ---- claiming ---- */

/* It and all that follow it, from their ends. False: it is in use again, or far more follow now. */
static bool claim(struct goal *goal, u32 index)
{
	struct kvmm_pool *pool = goal->pool;

	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	for (u32 nr = 0; nr <= MOST_LOST; nr++) {
		u32 last = index;

		for (u32 kid; (kid = order_child(&pool->order, last, KV_NONE)) != KV_NONE;)
			last = kid;
		if (!entry_is_inactive(pool, last) || !order_take(&pool->order, last))
			return false;
		victims_add(pool, &goal->victims, last);
		goal->victims.stamp = pool->order.stamp;
		if (last == index)
			return true;
	}
	return false;
}

static bool claim_block(struct goal *goal, u32 block)
{
	const struct kvmm_pool *pool = goal->pool;
	u32 owner = pool->owner[block], index = owner_index(owner);

	kv_assert_held(&pool->lock);
	if (owner_kind(owner) == OWNER_FREE || owner_kind(owner) == OWNER_RESERVED)
		return true;
	if (owner_kind(owner) != OWNER_ENTRY)
		return false;
	if (kv_word_is(READ_ONCE(entry_at(pool, index)->word), KV_ENTRY_EVICTING))
		return true;	/* with another one, or evicted by another thread */
	return claim(goal, index);
}

static void put_back(struct goal *goal)
{
	struct kvmm_pool *pool = goal->pool;
	struct victims *victims = &goal->victims;

	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	if (victims->stamp == pool->order.stamp) {
		victims_unpick(pool, victims);
		return;
	}
	for (; victims->nr; victims->nr--) {
		u32 index = victims->newest;

		victims->newest = entry_at(pool, index)->chain;
		order_unpick_late(&pool->order, index);
	}
}

/* A range with a reservation loses all of it. */
static void clear_run(struct kvmm_pool *pool, u32 start, u32 nr)
{
	kv_assert_held(&pool->lock);
	for (u32 b = start; b < start + nr && pool->grow.nr_reserved; b++)
		if (owner_kind(pool->owner[b]) == OWNER_RESERVED)
			reserve_drop(pool, slot_at(pool, owner_index(pool->owner[b])));
}

/* Blocks that were reserved softly are free in the picture; here they have to be. */
static void clear_way(struct goal *goal)
{
	const struct kv_plan *plan = &goal->plan;
	u32 order = goal->req.order;

	kv_assert_held(&goal->pool->lock);
	for (u32 i = 0; i < plan->nr_moves; i++)
		clear_run(goal->pool, plan->moves[i].dst, plan->moves[i].nr);
	for (u32 i = 0; i < plan->nr_pageblocks; i++)
		clear_run(goal->pool, plan->pageblocks[i] << order, BIT(order));
	if (goal->req.goal == KV_GOAL_RUN)
		clear_run(goal->pool, plan->gap.start, plan->gap.nr);
}

int goal_claim(struct goal *goal)
{
	struct kvmm_pool *pool = goal->pool;
	int err = 0;

	kv_assert_held(&pool->lock);
	pool_drain_local(pool);
	clear_way(goal);
	goal->victims = NO_VICTIMS;
	if (!goal->plan.nr_drops)
		return 0;
	order_enter(&pool->order);
	goal->victims.before = pool->order.mark;
	for (u32 i = 0; i < goal->plan.nr_drops && !err; i++)
		err = claim_block(goal, goal->plan.drops[i].start) ? 0 : -EAGAIN;
	if (err)
		put_back(goal);
	order_leave(&pool->order);
	return err;
}

void goal_claimed(struct goal *goal, bool good)
{
	struct kvmm_pool *pool = goal->pool;

	kv_assert_held(&pool->lock);
	if (!goal->victims.nr)
		return;
	order_enter(&pool->order);
	if (good)
		victims_evict(pool, &goal->victims);
	else
		put_back(goal);
	order_leave(&pool->order);
}
