// SPDX-License-Identifier: Apache-2.0
/*
 * Which pageblocks leave, and where the runs in them go.
 *
 * A pageblock costs as much as its blocks do; see cost.h. Among equals the highest goes, so that
 * the rest lies at the bottom. Where only single blocks are held the cheapest pageblocks are the
 * best choice there is: each block in them has to go somewhere, and none is copied twice, since
 * places inside are not free any more when the first place is looked for.
 */
#include <move/cost.h>
#include <move/move.h>
#include <move/stay.h>

#include "leave.h"

/* ---- cheapest first ---- */

static struct cost_terms terms_of(const struct leave_pick *pick)
{
	return (struct cost_terms){ .mode = pick->mode, .copies = true,
				    .drops = !(pick->flags & KVMM_SHRINK_NO_EVICT) };
}

struct choice {
	struct kvmm_pool *pool;
	struct elastic *el;
	struct cost_terms terms;
	u32 nr_copied;		/* blocks of the pageblock that was priced last */
	u32 nr_dropped;
};

static u64 price_of(void *arg, u32 pb)
{
	struct choice *choice = arg;
	struct kvmm_pool *pool = choice->pool;
	const struct elastic *el = choice->el;
	struct kvmm_extent run;
	u64 ns = 0;

	kv_assert_held(&pool->lock);
	if (pool->pb.state[pb] != PB_HERE || el->mark[pb] & MARK_BARRED)
		return KV_STAYS;
	choice->nr_copied = choice->nr_dropped = 0;
	for (u32 at = pb_start(pool, pb); at < pb_end(pool, pb); at = run.start + run.nr) {
		struct cost cost;

		run = pool_run_with(pool, at);
		if (owner_is_free(pool->owner[at]))
			continue;
		cost = cost_of(pool, run, &choice->terms);
		if (min(cost.copy_ns, cost.drop_ns) == KV_STAYS)
			return KV_STAYS;
		ns += min(cost.copy_ns, cost.drop_ns);
		if (cost.drop_ns < cost.copy_ns)
			choice->nr_dropped += run.nr;
		else
			choice->nr_copied += run.nr;
	}
	return ns;
}

static u64 worth(const struct kvmm_pool *pool, const struct elastic *el, u32 pb, bool in_blocks)
{
	kv_assert_held(&pool->compact_lock);
	return in_blocks ? pb_nr(pool, pb) : units_of_leaving(pool, el, pb);
}

void leave_choose(struct kvmm_pool *pool, struct elastic *el, struct leave_pick *pick, bool dry)
{
	struct choice choice = { .pool = pool, .el = el, .terms = terms_of(pick) };
	struct kv_cheapest cheapest = { .price_of = price_of, .arg = &choice, .heap = el->heap,
					.max = pool->pb.nr };
	u32 pb;

	kv_assert_held(&pool->compact_lock);
	kv_assert_held(&pool->lock);
	POOL_BUG_ON(pool, dry && pool->nr_leaving);
	for (pb = 0; pb < pool->pb.nr; pb++)
		kv_cheapest_put(&cheapest, pb);
	while (pick->got < pick->want && (pb = kv_cheapest_pop(&cheapest)) != KV_NONE) {
		u64 room = pick->nr_room + pb_nr(pool, pb) - choice.nr_dropped;
		u64 moved = pick->nr_moved + choice.nr_copied;

		if (room > pick->max_room || moved > pick->max_moved)
			continue;
		pick->nr_room = room;
		pick->nr_moved = moved;
		pick->got += worth(pool, el, pb, pick->in_blocks);
		if (dry)
			pool->pb.state[pb] = PB_LEAVING;
		else
			leave_begin(pool, pb);
	}
	for (pb = 0; dry && pb < pool->pb.nr; pb++)
		if (pool->pb.state[pb] == PB_LEAVING)
			pool->pb.state[pb] = PB_HERE;
}

/* ---- where to ---- */

static bool is_nobodys(u32 owner)
{
	return owner_is_free(owner) || owner_is_away(owner) || owner_kind(owner) == OWNER_MOVE;
}

static u32 plan_pageblock(struct kvmm_pool *pool, struct elastic *el, u32 pb, u32 mode, u32 nr,
			  u32 *bad)
{
	u32 end = pb_end(pool, pb), dst, first;
	struct kvmm_extent run;

	kv_assert_held(&pool->lock);
	for (u32 at = pb_start(pool, pb); at < end && nr < LEAVE_MOVES; at = run.start + run.nr) {
		run = (struct kvmm_extent){ at, 1 };
		if (is_nobodys(pool->owner[at]))
			continue;
		run = pool_run_with(pool, at);
		for (first = run.start >> pool->pb.shift; first < pb; first++)
			if (pool->pb.state[first] == PB_LEAVING)
				break;
		if (first < pb)		/* it begins in a pageblock below that is leaving, too */
			continue;
		/* A place for it, given to no other run until the plan is ready. */
		if (run_verdict(pool, pool->owner[run.start], run, mode).nr == run.nr &&
		    kv_reserve_run(pool->zone, KV_PLACE_MOVABLE, run.nr, run.nr, &dst) == run.nr)
			el->move[nr++] = (struct kv_move){ run.start, dst, run.nr };
		else
			*bad = pb;
	}
	return nr;
}

u32 leave_plan(struct kvmm_pool *pool, struct elastic *el, u32 mode, u32 *bad)
{
	u32 nr = 0;

	kv_assert_held(&pool->lock);
	*bad = KV_NONE;
	for (u32 pb = 0; pb < pool->pb.nr && nr < LEAVE_MOVES; pb++)
		if (pool->pb.state[pb] == PB_LEAVING)
			nr = plan_pageblock(pool, el, pb, mode, nr, bad);
	for (u32 i = 0; i < nr; i++)
		if (kv_unreserve(pool->zone, el->move[i].dst, el->move[i].nr))
			pool_poison(pool);
	return nr;
}

u64 leave_nr_held(struct kvmm_pool *pool)
{
	u64 nr = 0;

	kv_assert_held(&pool->lock);
	for (u32 pb = 0; pb < pool->pb.nr; pb++)
		for (u32 at = pb_start(pool, pb);
		     pool->pb.state[pb] == PB_LEAVING && at < pb_end(pool, pb); at++)
			nr += !is_nobodys(pool->owner[at]);
	return nr;
}

s64 leave_room(struct kvmm_pool *pool, u32 keep)
{
	kv_assert_held(&pool->lock);
	return pool_nr_free(pool) - (s64)keep - (s64)leave_nr_held(pool);
}

/* ---- what is dropped ---- */

static struct cost_window window_of(struct kvmm_pool *pool, u32 pb,
				    const struct leave_pick *pick)
{
	return (struct cost_window){ .start = pb_start(pool, pb), .nr = pb_nr(pool, pb),
				     .terms = terms_of(pick) };
}

/* ---- both ---- */

void leave_give_up(struct kvmm_pool *pool, struct elastic *el, struct leave_pick *pick, u32 pb)
{
	kv_assert_held(&pool->compact_lock);
	kv_assert_held(&pool->lock);
	pick->got -= worth(pool, el, pb, pick->in_blocks);
	el->mark[pb] |= MARK_BARRED;
	leave_undo(pool, pb);
}

/*
 * A block that was to be dropped and has to stay, having children, would be copied, and neither
 * that nor the place it takes has been counted. Where there is no place to spare the pageblock
 * stays.
 */
static bool give_up_kept(struct kvmm_pool *pool, struct elastic *el, struct leave_pick *pick,
			 u32 keep)
{
	bool is_bounded = pick->max_moved != UINT64_MAX, any = false;

	kv_assert_held(&pool->compact_lock);
	kv_assert_held(&pool->lock);
	for (u32 pb = 0; pb < pool->pb.nr; pb++) {
		const struct cost_window window = window_of(pool, pb, pick);

		if (pool->pb.state[pb] != PB_LEAVING || !cost_any_to_drop(pool, &window) ||
		    (!is_bounded && leave_room(pool, keep) >= 0))
			continue;
		leave_give_up(pool, el, pick, pb);
		any = true;
	}
	return any;
}

/* Each round but the last one bars a pageblock. */
int leave_choose_and_drop(struct kvmm_pool *pool, struct elastic *el, struct leave_pick *pick,
			  u64 least, struct victims *victims)
{
	u32 keep = door_keep(pool, &(struct alloc_ctx){ .prio = KVMM_PRIO_NORMAL });

	kv_assert_held(&pool->compact_lock);
	kv_assert_held(&pool->lock);
	if (keep == DOOR_SHUT)
		return pick->got < least ? -ENOSPC : 0;
	for (;;) {
		pick->nr_room = 0;
		pick->max_room = max(leave_room(pool, keep), (s64)0);
		leave_choose(pool, el, pick, false);
		if (pick->got < least)
			return -ENOSPC;
		if (!pool->caches)
			return 0;
		for (u32 pb = pool->pb.nr; pb-- > 0;) {
			const struct cost_window window = window_of(pool, pb, pick);

			if (pool->pb.state[pb] == PB_LEAVING)
				__cost_drop(pool, &window, victims);
		}
		if (!give_up_kept(pool, el, pick, keep))
			return 0;
	}
}
