// SPDX-License-Identifier: Apache-2.0
/*
 * From a goal to a plan: the picture with owners and prices, budgets, and trying again.
 *
 * A picture says where items lie and whether they may move. Their owners are looked up from the
 * ranges' side, so that a range of many extents is walked once. Between the picture and this the
 * pool goes on: items that are not where the picture has them are left out, and isolate looks
 * again.
 */
#include <kv/env.h>
#include <kv/mem.h>
#include <kvmm/ext/moves.h>
#include <pool/determ.h>
#include <pool/local.h>

#include "background.h"
#include "cost.h"
#include "goal.h"

/* How often a picture may be out of date by the time that its plan is made. */
#define MAX_TRIES	8u

/* Time that planning is predicted to take of a budget, by item: measured, and rounded up. */
#define PLAN_ITEM_NS	40u

/* So often a plan that takes too long is made anew with less. */
#define MAX_CUTS	4u

/* ---- the picture ---- */

static int take_picture(struct goal *goal, const struct kv_movable_ops *ops, void *owner)
{
	kv_assert_held(&goal->pool->compact_lock);
	for (;;) {
		u32 nr = ops->snapshot(owner, goal->items, goal->max_items);

		if (nr <= goal->max_items) {
			goal->req.items = goal->items;
			goal->req.nr_items = nr;
			return 0;
		}
		kv_free(goal->items);
		goal->max_items = nr + nr / 8;
		goal->items = kv_alloc_array(goal->max_items, sizeof(*goal->items));
		if (!goal->items) {
			goal->max_items = 0;
			return -ENOMEM;
		}
	}
}

/* The item that begins at @start, or KV_NONE. */
static u32 item_at(const struct goal *goal, u32 start)
{
	u32 lo = 0, left = goal->req.nr_items;

	kv_assert(goal->req.nr_items <= goal->max_items);
	while (left) {
		u32 half = left / 2;

		if (goal->items[lo + half].start < start) {
			lo += half + 1;
			left -= half + 1;
		} else {
			left = half;
		}
	}
	return lo < goal->req.nr_items && goal->items[lo].start == start ? lo : KV_NONE;
}

/* An extent is one item, or two if only its first part may move. Parts from @part on. */
static void set_owner(struct goal *goal, struct slot *slot, u32 owner, u32 part)
{
	kv_assert_held(&goal->pool->lock);
	for (u32 i = 0; i < slot->nr_ext; i++, part += 2) {
		struct kvmm_extent ext = *slot_ext(slot, i);
		u32 at = item_at(goal, ext.start);

		if (at == KV_NONE || part + 1 > UINT16_MAX)
			continue;
		goal->items[at].owner = owner;
		goal->items[at].part = part;
		if (goal->items[at].nr >= ext.nr || at + 1 == goal->req.nr_items)
			continue;
		goal->items[at + 1].owner = owner;
		goal->items[at + 1].part = part + 1;
	}
}

static u32 owner_of_slot(u32 index)
{
	return index + 1;
}

/* Each range once: at the item of its first extent. */
static void find_owners(struct goal *goal)
{
	struct kvmm_pool *pool = goal->pool;

	kv_assert_held(&goal->pool->lock);
	goal->nr_extents = 0;
	for (u32 i = 0; i < goal->req.nr_items; i++) {
		u32 owner = pool->owner[goal->items[i].start];
		struct slot *slot;

		if (owner_kind(owner) != OWNER_SLOT)
			continue;
		slot = slot_at(pool, owner_index(owner));
		if (!slot->nr_ext || slot_ext(slot, 0)->start != goal->items[i].start)
			continue;
		goal->nr_extents += slot->nr_ext;
		set_owner(goal, slot, owner_of_slot(owner_index(owner)), 0);
	}
}

/* Ranges of the sequence are one owner; the chain has the newest first. */
static int find_sequence(struct goal *goal, u64 seq)
{
	struct kvmm_pool *pool = goal->pool;
	u32 part = 0, first = seq_first(pool, seq);

	kv_assert_held(&goal->pool->lock);
	if (first == KV_NONE)
		return -ESTALE;
	for (u32 i = first; i != KV_NONE; i = seq_next(pool, i))
		part += 2 * slot_at(pool, i)->nr_ext;
	goal->req.owner = owner_of_slot(first);
	for (u32 i = first; i != KV_NONE; i = seq_next(pool, i)) {
		part -= 2 * slot_at(pool, i)->nr_ext;
		set_owner(goal, slot_at(pool, i), goal->req.owner, part);
	}
	return 0;
}

static int find_who_gathers(struct goal *goal)
{
	struct slot *slot;
	int err;

	kv_assert_held(&goal->pool->lock);
	if (goal->req.goal != KV_GOAL_GATHER)
		return 0;
	if (!goal->ask->range.gen)
		return find_sequence(goal, goal->ask->seq);
	err = slot_find(goal->pool, goal->ask->range, &slot);
	goal->req.owner = err ? 0 : owner_of_slot(goal->ask->range.index);
	return err;
}

static int look_at_owners(struct goal *goal)
{
	int err;

	kv_assert_held(&goal->pool->compact_lock);
	kv_lock(&goal->pool->lock);
	goal->median = max(asked_median(&goal->pool->asked), 1u);
	find_owners(goal);
	err = find_who_gathers(goal);
	kv_unlock(&goal->pool->lock);
	return err;
}

static int see(struct goal *goal, const struct kv_movable_ops *ops, void *owner)
{
	int err = take_picture(goal, ops, owner);

	kv_assert_held(&goal->pool->compact_lock);
	if (!err)
		err = look_at_owners(goal);
	if (!err)
		err = goal_calm(goal);
	if (!err)
		goal_price_drops(goal);
	return err;
}

/* ---- budgets ---- */

/* The measured price, in the cheapest way that the device has; 0: nothing is measured. */
static u64 measured_ns(const struct kvmm_pool *pool, u32 nr_moves, u64 nr_blocks)
{
	struct kv_dev_stat stat = { 0 };
	u64 bytes = nr_blocks * pool->block_bytes, least = 0;

	if (pool->dev && pool->nr_planes)
		pool->parts.dev->stat(pool->dev, &stat);
	for (u32 path = KV_PATH_KERNEL; path < KV_NR_PATHS; path++) {
		u32 rate = stat.mib_per_s[KV_COPY_LOCAL][path];
		u64 calls = path == KV_PATH_KERNEL ? 1 : (u64)nr_moves * pool->nr_planes, ns;

		if (!rate)
			continue;
		ns = calls * stat.call_ns[KV_COPY_LOCAL][path] + (bytes >> 10) * 976562 / rate;
		least = least ? min(least, ns) : ns;
	}
	return least;
}

u64 goal_copy_ns(const struct kvmm_pool *pool, u32 nr_moves, u64 nr_blocks)
{
	u64 ns = 0;

	if (pool->deterministic)
		return nr_blocks * pool_copy_ns(pool);
	if (nr_blocks)
		ns = measured_ns(pool, nr_moves, nr_blocks);
	return ns ? ns : nr_blocks * pool->door.costs.copy_block_ns;
}

/* Blocks that all budgets allow; 0 = no limit, which a budget for less than one block is not. */
static int set_budget(struct goal *goal)
{
	const struct kvmm_compact_goal *ask = goal->ask;
	u64 most = ask->max_blocks ? ask->max_blocks : KV_NONE, nr_free, nr_promised;

	kv_assert_held(&goal->pool->compact_lock);
	kv_lock(&goal->pool->lock);
	nr_free = pool_nr_free(goal->pool);
	nr_promised = goal->pool->door.nr_promised;
	pool_leave(goal->pool);
	/*
	 * Moves have two places until they have landed; promised blocks are not for the second one.
	 * If nothing can be moved, and nothing needs to be, that is still a plan.
	 */
	if (nr_promised && nr_free > nr_promised)
		most = min(most, nr_free - nr_promised);
	if (ask->max_bytes)
		most = min(most, ask->max_bytes / goal->pool->block_bytes);
	goal->req.max_blocks = most == KV_NONE ? 0 : most;
	return most ? 0 : -ENOSPC;
}

/* By how much is it over? A plan that is not is left alone. */
static u64 time_left(const struct goal *goal)
{
	u64 plan_ns = (u64)goal->req.nr_items * PLAN_ITEM_NS, all_ns = goal->ask->max_us * 1000ull;

	return all_ns - min(all_ns, plan_ns);
}

/* ---- the plan ---- */

static void free_plan(struct goal *goal)
{
	kv_free(goal->plan.moves);
	kv_free(goal->plan.drops);
	kv_free(goal->plan.pageblocks);
	kv_free(goal->plan.failed);
	goal->plan = (struct kv_plan){ 0 };
}

void goal_exit(struct goal *goal)
{
	free_plan(goal);
	kv_free(goal->items);
}

static int alloc_plan(struct goal *goal)
{
	struct kv_plan *plan = &goal->plan;
	u32 nr = goal->req.nr_items;

	free_plan(goal);
	plan->max_moves = plan->max_drops = nr;
	plan->moves = kv_alloc_array((size_t)nr + 1, sizeof(*plan->moves));
	plan->drops = kv_alloc_array((size_t)nr + 1, sizeof(*plan->drops));
	if (!plan->moves || !plan->drops)
		return -ENOMEM;
	if (goal->req.goal != KV_GOAL_PAGEBLOCKS)
		return 0;
	plan->max_pageblocks = kv_nr_pageblocks(&goal->req);
	plan->pageblocks = kv_alloc_array((size_t)plan->max_pageblocks + 1, sizeof(u32));
	plan->failed = kv_alloc_array((size_t)plan->max_pageblocks + 1, sizeof(u32));
	return plan->pageblocks && plan->failed ? 0 : -ENOMEM;
}

static int plan_once(struct goal *goal, void *scratch)
{
	int err = alloc_plan(goal);

	kv_assert_held(&goal->pool->compact_lock);
	if (!err)
		err = kv_goal_plan(goal->pool->parts.planner, &goal->req, &goal->plan, scratch);
	goal->is_partial = err == -EAGAIN;
	return err == -EAGAIN ? 0 : err;
}

/* A plan that takes too long is made again for the time there is, a little less each time. */
static int plan_in_time(struct goal *goal, void *scratch)
{
	int err = plan_once(goal, scratch);

	kv_assert_held(&goal->pool->compact_lock);
	for (u32 cut = 0; !err && goal->ask->max_us; cut++) {
		u64 ns = goal_copy_ns(goal->pool, goal->plan.nr_moves, goal->plan.nr_blocks);

		if (ns <= time_left(goal))
			break;
		goal->req.max_blocks = goal->plan.nr_blocks * time_left(goal) / ns * 7 / 8;
		if (cut == MAX_CUTS || !goal->req.max_blocks)
			return -ETIME;
		err = plan_once(goal, scratch);
		if (err == -ENOSPC)
			return -ETIME;
	}
	return err;
}

static int plan_run_of(struct goal *goal, u32 nr, void *scratch)
{
	int err = set_budget(goal);

	kv_assert_held(&goal->pool->compact_lock);
	goal->req.want = nr;
	return err ? err : plan_in_time(goal, scratch);
}

/* The longest free run of the picture. */
static u32 largest(const struct goal *goal)
{
	u32 end = 0, most = 0;

	for (u32 i = 0; i < goal->req.nr_items; i++) {
		most = max(most, goal->items[i].start - end);
		end = goal->items[i].start + goal->items[i].nr;
	}
	return max(most, goal->req.nr_blocks - end);
}

/*
 * The longest run that there is a way to, by bisection of lengths between the longest there is and
 * one there is no way to. Planners are no oracles: a longer one may be within reach although this
 * one was not.
 */
static int plan_longest(struct goal *goal, void *scratch)
{
	u32 lo = largest(goal), hi = goal->req.want, most = lo;
	int err = -ENOSPC;

	kv_assert_held(&goal->pool->compact_lock);
	while (hi - lo > 1) {
		u32 mid = lo + (hi - lo) / 2;

		err = plan_run_of(goal, mid, scratch);
		if (!err)
			lo = most = mid;
		else if (err == -ENOSPC || err == -ETIME)
			hi = mid;
		else
			return err;
	}
	if (most == largest(goal))
		return -ENOSPC;
	if (err)
		err = plan_run_of(goal, most, scratch);
	goal->is_partial = true;
	return err;
}

static int make_plan(struct goal *goal)
{
	void *scratch = kv_alloc(kv_goal_scratch(goal->pool->parts.planner, &goal->req) + 1);
	u64 begin_ns = kv_clock_ns();
	int err;

	kv_assert_held(&goal->pool->compact_lock);
	if (!scratch)
		return -ENOMEM;
	err = set_budget(goal);
	if (!err)
		err = plan_in_time(goal, scratch);
	if ((err == -ENOSPC || err == -ETIME) && goal->ask->flags & KVMM_GOAL_BEST)
		err = plan_longest(goal, scratch);
	kv_free(scratch);
	goal->plan_ns += kv_ns_since(begin_ns);
	return err;
}

/* Nothing is to be moved, but softly reserved blocks may lie in such a run. */
static void clear_for_run(struct goal *goal)
{
	struct kvmm_pool *pool = goal->pool;
	struct kv_zone_stat zone;

	kv_assert_held(&goal->pool->compact_lock);
	if (!goal->go || goal->req.goal != KV_GOAL_RUN)
		return;
	kv_lock(&pool->lock);
	kv_zone_get_stat(pool->zone, &zone);
	if (zone.largest < goal->req.want)
		reserve_drop_all(pool);
	pool_leave(pool);
}

static void begin(struct goal *goal)
{
	const struct kvmm_compact_goal *ask = goal->ask;
	const struct kvmm_alloc_costs *costs = &goal->pool->door.costs;

	kv_assert_held(&goal->pool->compact_lock);
	goal->prices = (struct kv_prices){
		.copy_ns = costs->copy_block_ns, .drop_ns = costs->drop_block_ns,
	};
	goal->req = (struct kv_plan_req){
		.nr_blocks = goal->pool->nr_blocks, .want = ask->want, .apart = true,
		.goal = ask->goal, .prices = &goal->prices,
		.order = ask->pageblock_blocks ? kv_log2(ask->pageblock_blocks) : 0,
	};
}

static int try_once(struct goal *goal, const struct kv_movable_ops *ops, void *owner)
{
	int err = see(goal, ops, owner);

	kv_assert_held(&goal->pool->compact_lock);
	goal->req.want = goal->ask->want;
	if (!err)
		err = make_plan(goal);
	if (err == -EALREADY)
		clear_for_run(goal);
	if (err == -ENOSPC)
		goal_remember(goal);	/* which pageblocks failed */
	if (err || !goal->go)
		return err;
	err = ops->isolate(owner, goal->plan.moves, goal->plan.nr_moves);
	if (!err)
		goal_remember(goal);
	return err;
}

int goal_plan(struct goal *goal, const struct kv_movable_ops *ops, void *owner)
{
	u32 tries = MAX_TRIES;
	int err;

	kv_assert_held(&goal->pool->compact_lock);
	begin(goal);
	do {
		err = try_once(goal, ops, owner);
	} while (err == -EAGAIN && --tries);
	return err == -ETIME ? -EAGAIN : err;
}

/* ---- before and after ---- */

u64 goal_measured_ns(const struct kvmm_pool *pool)
{
	return measured_ns(pool, 1, 1);
}

int goal_state(const struct goal *goal, bool after, struct kvmm_compact_state *state)
{
	u32 nr_blocks = goal->req.nr_blocks, want = goal->median, nr = 0;
	const struct kv_plan *plan = &goal->plan;
	u64 *bits = kv_alloc_array(KV_WORDS(nr_blocks), sizeof(*bits)), nr_free = 0, nr_usable = 0;

	if (!bits)
		return -ENOMEM;
	for (u32 i = 0; i < goal->req.nr_items; i++)
		kv_put_bits(bits, goal->items[i].start, goal->items[i].nr, true);
	for (u32 i = 0; after && i < plan->nr_drops; i++)
		kv_put_bits(bits, plan->drops[i].start, plan->drops[i].nr, false);
	for (u32 i = 0; after && i < plan->nr_moves; i++) {
		kv_put_bits(bits, plan->moves[i].src, plan->moves[i].nr, false);
		kv_put_bits(bits, plan->moves[i].dst, plan->moves[i].nr, true);
	}
	if (goal->req.goal == KV_GOAL_RUN)
		want = goal->ask->want;
	else if (goal->req.goal == KV_GOAL_PAGEBLOCKS)
		want = BIT(goal->req.order);
	for (u32 b = 0; b <= nr_blocks; b++) {
		if (b < nr_blocks && !kv_has_bit(bits, b)) {
			nr++;
			continue;
		}
		nr_free += nr;
		nr_usable += nr >= want ? nr : 0;
		state->largest = max(state->largest, nr);
		nr = 0;
	}
	kv_free(bits);
	state->unusable_ppm = nr_free ? (nr_free - nr_usable) * 1000000 / nr_free : 1000000;
	state->extents = goal->nr_extents - (after ? goal->plan.saved : 0);
	return 0;
}
