// SPDX-License-Identifier: Apache-2.0
/*
 * Which pageblocks leave, and where what is in them goes.
 *
 * A pageblock costs what its blocks cost: nothing for a free one, the lesser of copying and dropping
 * for a cached one that nobody references, copying for what can move. What cannot is in no pageblock
 * that leaves. Among equals the highest goes, so that what stays lies at the bottom. Where all that is
 * held is single blocks the cheapest pageblocks are the best choice there is: each block in them has
 * to go somewhere, and none is copied twice, since places inside are not free any more when the first
 * place is looked for.
 */
#include "leave.h"
#include "stay.h"

/* ---- what is there ---- */

/* The extent that has the block. */
static struct kvmm_extent extent_with(struct kvmm_pool *pool, u32 owner, u32 block)
{
	struct slot *slot = slot_at(pool, owner_index(owner));

	for (u32 i = 0; i < slot->nr_ext; i++)
		if (block - slot_ext(slot, i)->start < slot_ext(slot, i)->nr)
			return *slot_ext(slot, i);
	POOL_BUG_ON(pool, true);
	return (struct kvmm_extent){ block, 1 };
}

/* What moves as a whole, and has the block; its owner is somebody. */
static struct kvmm_extent run_with(struct kvmm_pool *pool, u32 block)
{
	u32 owner = pool->owner[block];

	if (owner_kind(owner) == OWNER_SLOT)
		return extent_with(pool, owner, block);
	return (struct kvmm_extent){ block, 1 };
}

static bool may_move(struct kvmm_pool *pool, struct kvmm_extent run, u32 mode)
{
	u32 owner = pool->owner[run.start];

	return run_verdict(pool, owner, run, mode).nr == run.nr;
}

static bool is_inactive(u64 word)
{
	return kv_word_is(word, KV_ENTRY_REGISTERED) && !kv_word_refs(word) &&
	       !(word & KV_ENTRY_MOVING);
}

/* Parked blocks are empty. Where tenants have limits, what is theirs may be protected. */
static bool may_drop(const struct kvmm_pool *pool, u32 block, u32 flags)
{
	const struct kvmm_alloc_costs *costs = &pool->door.costs;
	u32 owner = pool->owner[block];
	u64 word;

	if (owner_kind(owner) != OWNER_ENTRY)
		return false;
	word = READ_ONCE(entry_at(pool, owner_index(owner))->word);
	if (kv_word_is(word, KV_ENTRY_PARKED))
		return true;
	return costs->drop_block_ns < costs->copy_block_ns && !pool->order.quotas &&
	       !(flags & KVMM_SHRINK_NO_EVICT) && is_inactive(word);
}

/* ---- what a pageblock costs ---- */

struct bill {
	u64 ns;
	u32 nr_copied;
	u32 nr_dropped;
};

/* False: something there has to stay. */
static bool add_up(struct kvmm_pool *pool, const struct elastic *el, u32 pb,
		   const struct leave_pick *pick, struct bill *bill)
{
	const struct kvmm_alloc_costs *costs = &pool->door.costs;
	u32 end = pb_end(pool, el, pb);
	struct kvmm_extent run;

	*bill = (struct bill){ 0 };
	for (u32 at = pb_start(el, pb); at < end; at = run.start + run.nr) {
		run = (struct kvmm_extent){ at, 1 };
		if (owner_is_free(pool->owner[at]))
			continue;
		run = run_with(pool, at);
		if (may_drop(pool, at, pick->flags)) {
			bill->nr_dropped++;
			bill->ns += costs->drop_block_ns;
		} else if (may_move(pool, run, pick->mode)) {
			bill->nr_copied += run.nr;
			bill->ns += (u64)run.nr * costs->copy_block_ns;
		} else {
			return false;
		}
	}
	return true;
}

/* ---- cheapest first ---- */

#define PB_BITS		24u
#define MOST_NS		(BIT64(64 - PB_BITS) - 1)

/* Sorts by price, then from the top. */
static u64 key_of(const struct elastic *el, u32 pb, u64 ns)
{
	return min(ns, MOST_NS) << PB_BITS | (el->nr - 1 - pb);
}

static u32 pb_of_key(const struct elastic *el, u64 key)
{
	return el->nr - 1 - (u32)(key & (BIT(PB_BITS) - 1));
}

static void sift_down(u64 *heap, u32 nr, u32 at)
{
	for (u32 child = 2 * at + 1; child < nr; child = 2 * at + 1) {
		u64 key = heap[at];

		child += child + 1 < nr && heap[child + 1] < heap[child];
		if (key <= heap[child])
			return;
		heap[at] = heap[child];
		heap[child] = key;
		at = child;
	}
}

/* What was popped stays behind the end. */
static u64 pop(u64 *heap, u32 nr)
{
	u64 key = heap[0];

	heap[0] = heap[nr - 1];
	heap[nr - 1] = key;
	sift_down(heap, nr - 1, 0);
	return key;
}

static u32 line_up(struct kvmm_pool *pool, struct elastic *el, const struct leave_pick *pick)
{
	struct bill bill;
	u32 nr = 0;

	for (u32 pb = 0; pb < el->nr; pb++) {
		if (el->state[pb] != PB_HERE || el->mark[pb] & MARK_BARRED ||
		    !add_up(pool, el, pb, pick, &bill))
			continue;
		el->nr_copied[pb] = bill.nr_copied;
		el->nr_dropped[pb] = bill.nr_dropped;
		el->price[nr++] = key_of(el, pb, bill.ns);
	}
	for (u32 at = nr / 2; at-- > 0;)
		sift_down(el->price, nr, at);
	return nr;
}

static u64 worth(const struct kvmm_pool *pool, const struct elastic *el, u32 pb, bool in_blocks)
{
	return in_blocks ? pb_nr(pool, el, pb) : units_of_leaving(pool, el, pb);
}

static bool choose_one(struct kvmm_pool *pool, struct elastic *el, struct leave_pick *pick, u32 pb)
{
	u64 room = pick->nr_room + pb_nr(pool, el, pb) - el->nr_dropped[pb];
	u64 moved = pick->nr_moved + el->nr_copied[pb];

	if (room > pick->max_room || moved > pick->max_moved)
		return false;
	pick->nr_room = room;
	pick->nr_moved = moved;
	pick->got += worth(pool, el, pb, pick->in_blocks);
	return true;
}

void leave_choose(struct kvmm_pool *pool, struct elastic *el, struct leave_pick *pick, bool dry)
{
	u32 nr = line_up(pool, el, pick), left = nr;

	while (left && pick->got < pick->want) {
		u32 pb = pb_of_key(el, pop(el->price, left--));

		if (!choose_one(pool, el, pick, pb))
			continue;
		if (dry)
			el->state[pb] = PB_LEAVING;
		else
			leave_begin(pool, el, pb);
	}
	while (dry && left < nr)
		el->state[pb_of_key(el, el->price[left++])] = PB_HERE;
}

/* ---- where to ---- */

/* It begins in a pageblock below that is leaving, too. */
static bool was_seen(const struct elastic *el, struct kvmm_extent run, u32 pb)
{
	for (u32 i = run.start >> el->shift; i < pb; i++)
		if (el->state[i] == PB_LEAVING)
			return true;
	return false;
}

/* A place for it, which is nobody else's until the plan is ready. */
static bool plan_run(struct kvmm_pool *pool, struct kvmm_extent run, struct kv_move *move)
{
	u32 dst;

	if (kv_reserve_run(pool->zone, KV_PLACE_MOVABLE, run.nr, run.nr, &dst) != run.nr)
		return false;
	*move = (struct kv_move){ run.start, dst, run.nr };
	return true;
}

static bool is_nobodys(u32 owner)
{
	return owner_is_free(owner) || owner_is_away(owner) || owner_kind(owner) == OWNER_MOVE;
}

static u32 plan_pageblock(struct kvmm_pool *pool, struct elastic *el, u32 pb, u32 mode, u32 nr,
			  u32 *bad)
{
	u32 end = pb_end(pool, el, pb);
	struct kvmm_extent run;

	for (u32 at = pb_start(el, pb); at < end && nr < LEAVE_MOVES; at = run.start + run.nr) {
		run = (struct kvmm_extent){ at, 1 };
		if (is_nobodys(pool->owner[at]))
			continue;
		run = run_with(pool, at);
		if (was_seen(el, run, pb))
			continue;
		if (may_move(pool, run, mode) && plan_run(pool, run, &el->move[nr]))
			nr++;
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
	for (u32 pb = 0; pb < el->nr && nr < LEAVE_MOVES; pb++)
		if (el->state[pb] == PB_LEAVING)
			nr = plan_pageblock(pool, el, pb, mode, nr, bad);
	for (u32 i = 0; i < nr; i++)
		if (kv_unreserve(pool->zone, el->move[i].dst, el->move[i].nr))
			pool_poison(pool);
	return nr;
}

u64 leave_nr_held(struct kvmm_pool *pool, const struct elastic *el)
{
	u64 nr = 0;

	for (u32 pb = 0; pb < el->nr; pb++)
		for (u32 at = pb_start(el, pb);
		     el->state[pb] == PB_LEAVING && at < pb_end(pool, el, pb); at++)
			nr += !is_nobodys(pool->owner[at]);
	return nr;
}

/* ---- what is dropped ---- */

/* Who has children in the order stays until they are gone: children tend to lie behind. */
static void drop_there(struct kvmm_pool *pool, const struct elastic *el, u32 pb, u32 flags,
		       struct victims *victims)
{
	for (u32 at = pb_end(pool, el, pb); at-- > pb_start(el, pb);) {
		u32 index = owner_index(pool->owner[at]);

		if (may_drop(pool, at, flags) && order_has(&pool->order, index) &&
		    order_take(&pool->order, index))
			victims_add(pool, victims, index);
	}
}

static void drop(struct kvmm_pool *pool, struct elastic *el, u32 flags, struct victims *victims)
{
	u32 nr = victims->nr;

	if (!nr)
		victims->before = pool->order.mark;
	for (u32 pb = el->nr; pb-- > 0;)
		if (el->state[pb] == PB_LEAVING)
			drop_there(pool, el, pb, flags, victims);
	victims_free_blocks(pool, victims, victims->nr - nr);
}

/* ---- both ---- */

/* Something there was to be dropped, and is still there. */
static bool keeps_any(struct kvmm_pool *pool, const struct elastic *el, u32 pb, u32 flags)
{
	for (u32 at = pb_start(el, pb); at < pb_end(pool, el, pb); at++)
		if (may_drop(pool, at, flags))
			return true;
	return false;
}

static bool is_short(struct kvmm_pool *pool, const struct elastic *el, u32 keep)
{
	return pool_nr_free(pool) < keep + leave_nr_held(pool, el);
}

void leave_give_up(struct kvmm_pool *pool, struct elastic *el, struct leave_pick *pick, u32 pb)
{
	pick->got -= worth(pool, el, pb, pick->in_blocks);
	el->mark[pb] |= MARK_BARRED;
	leave_undo(pool, el, pb);
}

/*
 * What was to be dropped and has to stay, having children, would be copied, and neither that nor the
 * place it takes has been counted. Where there is no place to spare the pageblock stays.
 */
static bool give_up_kept(struct kvmm_pool *pool, struct elastic *el, struct leave_pick *pick, u32 keep)
{
	bool is_bounded = pick->max_moved != UINT64_MAX, any = false;

	for (u32 pb = 0; pb < el->nr; pb++) {
		if (el->state[pb] != PB_LEAVING || !keeps_any(pool, el, pb, pick->flags) ||
		    (!is_bounded && !is_short(pool, el, keep)))
			continue;
		leave_give_up(pool, el, pick, pb);
		any = true;
	}
	return any;
}

u64 leave_room(struct kvmm_pool *pool, const struct elastic *el, u32 keep)
{
	u64 nr = pool_nr_free(pool), held = leave_nr_held(pool, el);

	return nr > keep + held ? nr - keep - held : 0;
}

/* Each round but the last one bars a pageblock. */
int leave_choose_and_drop(struct kvmm_pool *pool, struct elastic *el, struct leave_pick *pick, u64 least,
			  struct victims *victims)
{
	u32 keep = door_keep(pool, &(struct ask){ .prio = KVMM_PRIO_NORMAL });

	if (keep == DOOR_SHUT)
		return pick->got < least ? -ENOSPC : 0;
	for (;;) {
		pick->nr_room = 0;
		pick->max_room = leave_room(pool, el, keep);
		leave_choose(pool, el, pick, false);
		if (pick->got < least)
			return -ENOSPC;
		if (!pool->caches)
			return 0;
		drop(pool, el, pick->flags, victims);
		if (!give_up_kept(pool, el, pick, keep))
			return 0;
	}
}
