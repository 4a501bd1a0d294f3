// SPDX-License-Identifier: Apache-2.0
/*
 * The pool's side of compaction: its runs, which of them may move, and where they lie afterwards.
 *
 * The gate is closed all the while, so nothing changes but what is done here; isolate checks the
 * plan against the owners nevertheless, since a wrong move destroys an owner's content. A block may
 * be a source once and a destination once, and a destination must be free or the source of the same
 * or an earlier move: the marks in owner[] say which is which.
 *
 * Destinations that were free belong to OWNER_MOVE from isolate on. A move that succeeded turns its
 * source into OWNER_MOVE and its destination into the range's or the entry's. Blocks left to
 * OWNER_MOVE in the end are free.
 */
#include <kv/sys.h>
#include <pool/determ.h>
#include <pool/local.h>

#include "flight.h"
#include "stay.h"
#include "verify.h"

#define OWNER_MARKS	(OWNER_IS_SRC | OWNER_IS_DST)

/* Of a large pool, where a request has a run made. */
#define PART_BLOCKS	4096u	/* at least */
#define NR_PARTS	16u	/* are looked at */

/* ---- the picture ---- */

static bool is_in_pool(const struct kvmm_pool *pool, u32 start, u32 nr)
{
	return nr && start < pool->nr_blocks && nr <= pool->nr_blocks - start;
}

struct kvmm_extent pool_run_with(struct kvmm_pool *pool, u32 block)
{
	u32 owner = pool->owner[block] & ~OWNER_MARKS;
	struct slot *slot;

	kv_assert_held(&pool->lock);
	if (owner_is_away(owner))
		return elastic_run(pool, block);
	if (owner_kind(owner) != OWNER_SLOT)
		return (struct kvmm_extent){ block, 1 };
	slot = slot_at(pool, owner_index(owner));
	for (u32 i = 0; i < slot->nr_ext; i++)
		if (block - slot_ext(slot, i)->start < slot_ext(slot, i)->nr)
			return *slot_ext(slot, i);
	POOL_BUG_ON(pool, true);
	return (struct kvmm_extent){ block, 1 };
}

static void picture_add(struct picture *picture, const struct kv_item *item)
{
	if (!item->nr)
		return;
	if (picture->nr < picture->max)
		picture->items[picture->nr] = *item;
	picture->nr++;
}

/* An extent of which only the first part may move is two items. */
static void add_run(struct picture *picture, u32 owner, struct kvmm_extent run)
{
	struct verdict verdict = stay_look(picture->pool, &picture->stay, owner, run,
					   picture->mode);
	struct kv_item moves = { .start = run.start, .nr = verdict.nr, .movable = true };
	struct kv_item stays = { .start = run.start + verdict.nr, .nr = run.nr - verdict.nr,
				 .stay = verdict.why };

	kv_assert_held(&picture->pool->lock);
	picture_add(picture, &moves);
	picture_add(picture, &stays);
}

/*
 * All that is not free, by address: whole extents of ranges, else single blocks. An extent that
 * lies across the border of the part stays.
 */
u32 pool_snapshot(struct picture *picture, struct kv_item *items, u32 max)
{
	struct kvmm_pool *pool = picture->pool;
	u32 begin = picture->part.start, end = picture->part.nr ? begin + picture->part.nr :
								  pool->nr_blocks;
	struct kvmm_extent run;

	picture->items = items;
	picture->max = max;
	picture->nr = 0;
	picture->stay = (struct kvmm_stay){ 0 };
	kv_lock(&pool->lock);
	for (u32 at = begin; at < end; at = run.start + run.nr) {
		u32 owner = pool->owner[at];

		run = (struct kvmm_extent){ at, 1 };
		if (owner_is_free(owner) || owner_kind(owner) == OWNER_RESERVED)
			continue;
		run = pool_run_with(pool, at);
		if (POOL_BUG_ON(pool, (run.start != at && at != begin) ||
				      !is_in_pool(pool, run.start, run.nr)))
			run = (struct kvmm_extent){ at, 1 };
		if (likely(run.start == at && run.start + run.nr <= end)) {
			add_run(picture, owner, run);
			continue;
		}
		run = (struct kvmm_extent){ at, min(run.start + run.nr, end) - at };
		picture_add(picture, &(struct kv_item){ .start = at, .nr = run.nr });
	}
	kv_unlock(&pool->lock);
	return picture->nr;
}

/* All that the mover's calls need. */
struct mover {
	struct kvmm_pool *pool;
	struct picture picture;
	u32 runs;		/* see struct kv_plan_req */
};

static u32 snapshot(void *arg, struct kv_item *items, u32 max)
{
	struct mover *mover = arg;

	return pool_snapshot(&mover->picture, items, max);
}

/* ---- isolate ---- */

/* The move is of one whole item, which may move and does not yet. */
static bool source_is_good(struct kvmm_pool *pool, const struct kv_move *move)
{
	struct kvmm_extent run;
	u32 owner;

	kv_assert_held(&pool->lock);
	if (!is_in_pool(pool, move->src, move->nr) || !is_in_pool(pool, move->dst, move->nr))
		return false;
	owner = pool->owner[move->src];
	if (owner & OWNER_MARKS)
		return false;
	run = pool_run_with(pool, move->src);
	return run.start == move->src && run.nr == move->nr &&
	       run_verdict(pool, owner, run, MOVE_STOPPED).nr == run.nr;
}

/* Blocks of one move's destination that are free lie in runs; take each as a whole. */
static int take_destination(struct kvmm_pool *pool, const struct kv_move *move)
{
	u32 end = move->dst + move->nr;

	kv_assert_held(&pool->lock);
	for (u32 b = move->dst, nr; b < end; b += nr) {
		for (nr = 0; b + nr < end && owner_is_free(pool->owner[b + nr]); nr++)
			;
		if (nr) {
			if (kv_zone_alloc_at(pool->zone, b, nr))
				return -EAGAIN;
			owner_fill(pool, b, nr, make_owner(OWNER_MOVE, 0));
			continue;
		}
		nr = 1;
		if ((pool->owner[b] & OWNER_MARKS) != OWNER_IS_SRC)
			return -EAGAIN;
		pool->owner[b] |= OWNER_IS_DST;
	}
	return 0;
}

static void clear_marks(struct kvmm_pool *pool, const struct kv_move *moves, u32 nr)
{
	kv_assert_held(&pool->lock);
	for (u32 i = 0; i < nr; i++)
		for (u32 b = 0; b < moves[i].nr; b++)
			pool->owner[moves[i].src + b] &= ~OWNER_MARKS;
}

static void give_back(struct kvmm_pool *pool, const struct kv_move *moves, u32 nr)
{
	kv_assert_held(&pool->lock);
	for (u32 i = 0; i < nr; i++) {
		blocks_free_of(pool, OWNER_MOVE, (struct kvmm_extent){ moves[i].src, moves[i].nr });
		blocks_free_of(pool, OWNER_MOVE, (struct kvmm_extent){ moves[i].dst, moves[i].nr });
	}
}

/* A move that was refused may have marked its source and taken part of its destination. */
static void undo_isolate(struct kvmm_pool *pool, const struct kv_move *moves, u32 nr_tried)
{
	const struct kv_move *last = &moves[nr_tried - 1];

	kv_assert_held(&pool->lock);
	clear_marks(pool, moves, nr_tried - 1);
	give_back(pool, moves, nr_tried - 1);
	if (!is_in_pool(pool, last->src, last->nr) || !is_in_pool(pool, last->dst, last->nr))
		return;
	clear_marks(pool, last, 1);
	give_back(pool, last, 1);
}

static int isolate(void *arg, const struct kv_move *moves, u32 nr)
{
	struct mover *mover = arg;
	struct kvmm_pool *pool = mover->pool;
	struct steps *steps = steps_of(pool);
	int err = unlikely(steps != NULL) ? steps_will_tell(steps, nr) : 0;

	kv_assert_held(&pool->compact_lock);
	kv_lock(&pool->lock);
	if (!err)
		reserve_drop_all(pool);
	for (u32 i = 0; i < nr && !err; i++) {
		err = source_is_good(pool, &moves[i]) ? 0 : -EAGAIN;
		for (u32 b = 0; b < moves[i].nr && !err; b++)
			pool->owner[moves[i].src + b] |= OWNER_IS_SRC;
		if (!err)
			err = take_destination(pool, &moves[i]);
		if (err)
			undo_isolate(pool, moves, i + 1);
	}
	kv_unlock(&pool->lock);
	return err;
}

/* ---- copy ---- */

static int copy(void *arg, const struct kv_move *moves, u32 nr)
{
	struct mover *mover = arg;
	struct kvmm_pool *pool = mover->pool;
	const struct kv_dev_ops *dev = pool->parts.dev;
	struct kv_planes planes = { pool->plane, pool->nr_planes };
	struct kv_copy copy = { .src = planes, .dst = planes, .moves = moves, .nr = nr };
	struct kv_fence fence;
	int err, cancel;

	kv_assert_held(&pool->compact_lock);
	if (!pool->nr_planes)
		return 0;
	cancel = kv_cancel_off();
	err = dev->copy_blocks(pool->dev, &copy, &fence);
	if (!err)
		err = dev->wait(pool->dev, fence);
	if (err)
		device_failed(pool);
	kv_cancel_restore(cancel);
	return err ? -EIO : 0;
}

/* ---- commit ---- */

static void move_extent(struct kvmm_pool *pool, struct slot *slot, u32 src, u32 dst)
{
	u32 i = 0;

	kv_assert_held(&pool->lock);
	while (i < slot->nr_ext && slot_ext(slot, i)->start != src)
		i++;
	if (POOL_BUG_ON(pool, i == slot->nr_ext))
		return;
	slot_write_begin(slot);
	WRITE_ONCE(slot_ext(slot, i)->start, dst);
	slot_write_end(slot);
}

/* Our old blocks have no new owner yet: isolate let only later moves want them. */
static void commit_move(struct kvmm_pool *pool, const struct kv_move *move)
{
	u32 owner = pool->owner[move->src];

	kv_assert_held(&pool->lock);
	owner_fill(pool, move->src, move->nr, make_owner(OWNER_MOVE, 0));
	owner_fill(pool, move->dst, move->nr, owner);
	tenant_move(pool, move->src, move->dst, move->nr);
	if (owner_kind(owner) == OWNER_SLOT)
		move_extent(pool, slot_at(pool, owner_index(owner)), move->src, move->dst);
	else
		WRITE_ONCE(entry_at(pool, owner_index(owner))->place, move->dst);
	if (owner_kind(owner) == OWNER_ENTRY)
		verify_moved(pool, owner_index(owner));
}

void slot_join_extents(struct slot *slot)
{
	u32 nr = 1;

	slot_write_begin(slot);
	for (u32 i = 1; i < slot->nr_ext; i++) {
		struct kvmm_extent ext = *slot_ext(slot, i), last = *slot_ext(slot, nr - 1);

		if (last.start + last.nr == ext.start)
			slot_set_ext(slot, nr - 1, last.start, last.nr + ext.nr);
		else
			slot_set_ext(slot, nr++, ext.start, ext.nr);
	}
	WRITE_ONCE(slot->nr_ext, nr);
	slot_write_end(slot);
}

static void join_moved(struct kvmm_pool *pool, const struct kv_move *moves, u32 nr_done)
{
	kv_assert_held(&pool->lock);
	for (u32 i = 0; i < nr_done; i++) {
		u32 owner = pool->owner[moves[i].dst];

		if (owner_kind(owner) == OWNER_SLOT)
			slot_join_extents(slot_at(pool, owner_index(owner)));
	}
}

void moves_count(struct kvmm_pool *pool, u64 nr_moves, u64 nr_blocks)
{
	kv_assert_held(&pool->lock);
	if (!nr_moves)
		return;
	pool->count.compactions++;
	pool->count.moves += nr_moves;
	pool->count.moved_blocks += nr_blocks;
	kv_probe3(move, pool, nr_moves, nr_blocks);
	kv_count_add(KV_EV_COMPACT, 1);
	kv_count_add(KV_EV_MOVED_BLOCKS, nr_blocks);
}

static void commit(void *arg, const struct kv_move *moves, u32 nr, u32 nr_done, bool lost)
{
	struct mover *mover = arg;
	struct kvmm_pool *pool = mover->pool;
	struct steps *steps = steps_of(pool);
	u64 nr_blocks = 0;
	u32 owner;

	kv_assert_held(&pool->compact_lock);
	/* No step is open: the next ones are of a new epoch. */
	for (u32 i = 0; unlikely(steps != NULL) && i < nr_done; i++)
		steps_relocated(steps, &moves[i], true);
	if (steps)
		steps->epoch++;
	kv_lock(&pool->lock);
	clear_marks(pool, moves, nr);
	for (u32 i = 0; i < nr_done; i++) {
		commit_move(pool, &moves[i]);
		nr_blocks += moves[i].nr;
	}
	for (u32 i = nr_done; i < nr; i++)
		tenant_forget(pool, moves[i].dst, moves[i].nr);
	/* Only a run that overlaps itself can be lost, and that is never a single block. */
	owner = lost ? pool->owner[moves[nr_done].src] : 0;
	if (lost && !POOL_BUG_ON(pool, owner_kind(owner) != OWNER_SLOT))
		slot_lose(pool, slot_at(pool, owner_index(owner)));
	give_back(pool, moves, nr);
	join_moved(pool, moves, nr_done);
	moves_count(pool, nr_done, nr_blocks);
	kv_unlock(&pool->lock);
}

static const struct kv_movable_ops movable_ops = {
	.snapshot	= snapshot,
	.isolate	= isolate,
	.copy		= copy,
	.commit		= commit,
};

/* ---- for other planners ---- */

#define MOVE_BATCH	256u

int pool_move(struct kvmm_pool *pool, const struct kv_move *moves, u32 nr, u32 *nr_done)
{
	struct mover mover = { .pool = pool };
	int err = isolate(&mover, moves, nr);

	kv_assert_held(&pool->compact_lock);
	*nr_done = 0;
	if (err)
		return err;
	while (*nr_done < nr && !err) {
		u32 batch = min(nr - *nr_done, MOVE_BATCH);

		err = copy(&mover, moves + *nr_done, batch);
		*nr_done += err ? 0 : batch;
	}
	commit(&mover, moves, nr, *nr_done, false);
	return err;
}

/* ---- entry ---- */

/* By address: an engine of aligned pieces may not know it. */
static u32 longest_free(struct kvmm_pool *pool)
{
	struct kvmm_extent run = { 0, 0 };
	struct kv_zone_stat stat;
	u32 longest = 0;

	if (kv_zone_takes_any_run(pool->zone)) {
		kv_zone_get_stat(pool->zone, &stat);
		return stat.largest;
	}
	while (!kv_zone_next_free(pool->zone, run.start + run.nr, &run))
		longest = max(longest, run.nr);
	return longest;
}

/*
 * Where a run for a request is made: the emptiest of a few places, each with twice the free blocks
 * that it takes if it is like the pool. A picture of all of a large pool is most of the time that
 * its lock is held. The places differ from time to time, or the holes of one would be used up.
 * .nr 0: all of the pool, which is not much larger, and the plan is better for it; or, if it need
 * not be a part @only, because no such place has so many free blocks.
 */
static struct kvmm_extent emptiest_part(struct kvmm_pool *pool, u32 want, bool only)
{
	u64 nr = min(max(pool->nr_blocks / 16, PART_BLOCKS), 2 * PART_BLOCKS);
	u64 nr_free = kv_zone_nr_free(pool->zone);
	struct kvmm_extent best = { 0, 0 };
	u32 most = 0, shift;

	kv_assert_held(&pool->compact_lock);
	if (!only)
		nr = max(nr, 2ull * want * pool->nr_blocks / max(nr_free, 1ull));
	nr = kv_align_up(nr, 64ull);
	if (nr > pool->nr_blocks / 4)
		return best;
	shift = pool->count.compactions * 0x9e3779b9u % (pool->nr_blocks - nr);
	kv_lock(&pool->zone->lock);
	for (u32 i = 0; i < NR_PARTS; i++) {
		u64 at = (shift + (u64)i * pool->nr_blocks / NR_PARTS) % (pool->nr_blocks - nr);
		u32 word = at / 64, nr_here = 0;

		for (u32 k = 0; k < nr / 64; k++)
			nr_here += __builtin_popcountll(pool->zone->ops->peek(pool->zone->engine,
								       word + k));
		if (i && nr_here <= most)
			continue;
		most = nr_here;
		best = (struct kvmm_extent){ word * 64, nr };
	}
	kv_unlock(&pool->zone->lock);
	return most < want && !only ? (struct kvmm_extent){ 0, 0 } : best;
}

static int compact_part(struct mover *mover, struct kvmm_extent part, struct kvmm_compact *goal)
{
	struct kvmm_pool *pool = mover->pool;
	struct kvmm_extent all = { 0, pool->nr_blocks };

	kv_assert_held(&pool->compact_lock);
	mover->picture.part = part;
	return kv_compact(pool->parts.planner, &movable_ops, mover, part.nr ? part : all,
			  mover->runs, goal);
}

/* -EBUSY: the engine is in the middle of a step, or has not read where blocks are by now. */
static int compact_between(struct kvmm_pool *pool, struct kvmm_compact *goal, enum where where,
			   u32 runs)
{
	struct mover mover = { pool, { .pool = pool, .mode = MOVE_STOPPED }, runs };
	struct kvmm_extent part = { 0, 0 };
	int err = steps_stand_still(pool);

	kv_assert_held(&pool->compact_lock);
	if (err)
		return err;
	goal->largest_before = longest_free(pool);
	goal->plan_ns = 0;
	if ((where == PART_ONLY || (where == PART_FIRST && !runs)) &&
	    pool->parts.planner->in_parts)
		part = emptiest_part(pool, goal->want_run, where == PART_ONLY);
	err = compact_part(&mover, part, goal);
	if (err == -ENOSPC && part.nr && where != PART_ONLY)
		err = compact_part(&mover, (struct kvmm_extent){ 0, 0 }, goal);
	kv_lock(&pool->lock);
	if (!err)	/* the goal is reached without them */
		reserve_drop_all(pool);
	kv_unlock(&pool->lock);
	goal->largest_after = longest_free(pool);
	stay_report(pool, &mover.picture.stay, goal);
	steps_let_go(pool);
	return err;
}

/* Drops and retakes the lock; the gate keeps all other threads out meanwhile. */
int pool_compact(struct kvmm_pool *pool, struct kvmm_compact *goal, enum where where, u32 runs)
{
	int err;

	kv_assert_held(&pool->compact_lock);
	kv_assert_held(&pool->lock);
	if (!pool->parts.planner || pool->rounds)
		return -EOPNOTSUPP;
	pool_stop(pool);
	err = compact_between(pool, goal, where, runs);
	kv_lock(&pool->lock);
	pool_resume(pool);
	return err;
}

static int compact_pool(struct kvmm_pool *pool, struct kvmm_compact *goal)
{
	int err;

	kv_lock(&pool->compact_lock);
	/* Where ranks decide alike, time is so many blocks as take that long to be copied. */
	if (pool->deterministic && goal->max_us) {
		u64 nr = max(goal->max_us * 1000ull / pool_copy_ns(pool), 1ull);

		if (!goal->max_blocks || nr < goal->max_blocks)
			goal->max_blocks = min(nr, (u64)UINT32_MAX);
		goal->max_us = 0;
	}
	err = pool_enter(pool);
	if (!err) {
		err = pool_compact(pool, goal, IN_POOL, 0);
		pool_leave(pool);
	}
	kv_unlock(&pool->compact_lock);
	return err;
}

/* Fields that an older caller has no room for are not written. */
int kvmm_pool_compact(struct kvmm_pool *pool, struct kvmm_compact *compact)
{
	struct kvmm_compact goal, known;
	int err;

	if (!pool || !compact)
		return -EINVAL;
	err = kv_copy_attr(&goal, sizeof(goal), compact);
	if (err)
		return err;
	if (goal.want_run > pool->nr_usable)
		return -EINVAL;
	known = goal;
	err = compact_pool(pool, &goal);
	goal.max_blocks = known.max_blocks;
	goal.max_us = known.max_us;
	kv_give_sized(compact, &goal, sizeof(goal));
	return err;
}
