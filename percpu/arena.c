// SPDX-License-Identifier: Apache-2.0
/*
 * Arenas: allocation and release.
 *
 * The ordinary case is one hold of the arena's lock: best fit in its zone, a slot of its stock, the
 * blocks' owner noted. If either runs out the pool lends more of both in one hold of its lock; if
 * the pool has none the caller goes on as if there were no arenas, and a caller that finds nothing
 * left anywhere takes everything back first (pool_drain_local()). So no request is refused for
 * blocks that an arena keeps aside.
 *
 * The gate, and the guard of the front door, are looked at under the arena's lock. The thread that
 * closes them drains the arenas afterwards, and so has held each of their locks:
 *
 *	pool_stop()				__arena_alloc(), __arena_free()
 *
 *	gate = STOPPED
 *	lock(arena), take back, unlock
 *						lock(arena)
 *						gate: STOPPED, by the lock
 *						unlock, go the long way and wait there
 */
#include <kv/mem.h>

#include "arena.h"

#define LEND_NR		256u	/* free blocks at a time */
#define LEND_REGIONS	16u	/* in so many regions at most */
#define SLACK_REGIONS	2u	/* above the limit, before any goes back */
#define SEQ_BLOCKS	4u	/* of the pool, for each bucket of all arenas together */
#define LOOK_EVERY	65536u	/* allocations of one arena: some milliseconds */

static u32 arena_id(const struct arenas *arenas, const struct arena *arena)
{
	return arena - arenas->arena + 1;
}

/* Others look at owners of blocks that are none of theirs while this is written. */
static void own_run(struct kvmm_pool *pool, struct kvmm_extent run, u32 owner)
{
	for (u32 i = 0; i < run.nr; i++)
		WRITE_ONCE(pool->owner[run.start + i], owner);
}

/* Blocks are moving; or there are waiters, looked at under pool->lock. */
static bool gate_is_closed(const struct kvmm_pool *pool)
{
	/* Pairs with pool_resume(): a thread that finds it open sees the work done meanwhile. */
	return unlikely(smp_load_acquire(&pool->gate) || READ_ONCE(pool->guard) & ~GUARD_FLOORS);
}

/* ---- allocation ---- */

/* May a range of @attr be taken, as far as limits go? */
static bool is_paid(const struct kvmm_pool *pool, struct arena *arena,
		    const struct kvmm_range_attr *attr)
{
	const struct credit *credit = credit_at(arena, attr->tenant);

	kv_assert_held(&arena->lock);
	return likely(!pool->order.quotas) ||
	       (credit->tenant == attr->tenant && credit->left >= attr->nr);
}

/* A range of @slot got @nr blocks, or, if that is negative, lost some. */
static void charge(const struct kvmm_pool *pool, struct arena *arena, const struct slot *slot,
		   s32 nr)
{
	struct credit *credit = credit_at(arena, slot->tenant);

	kv_assert_held(&arena->lock);
	if (likely(!pool->order.quotas))
		return;
	credit->left -= nr;
	credit->least = min(credit->least, credit->left);
}

/* -ENOSPC: the pool may lend more. */
static int take(struct kvmm_pool *pool, struct arena *arena, const struct kvmm_range_attr *attr,
		kvmm_range_t *range)
{
	u32 index = arena->free_slot;
	struct kvmm_extent run;
	struct slot *slot;

	kv_assert_held(&arena->lock);
	if (gate_is_closed(pool))
		return -EAGAIN;
	if (unlikely(index == KV_NONE || arena->nr_free < attr->nr || !is_paid(pool, arena, attr)))
		return -ENOSPC;
	run = (struct kvmm_extent){ kv_zone_try(arena->zone, attr->nr), attr->nr };
	if (unlikely(run.start == KV_NONE))
		return -ENOSPC;
	slot = slot_peek(pool, index);
	arena->free_slot = slot->next;
	kv_assert(arena->nr_stock);
	arena->nr_stock--;
	WRITE_ONCE(arena->nr_free, arena->nr_free - run.nr);
	slot_fill(slot, attr, &run, 1, credit_at(arena, attr->tenant)->account);
	charge(pool, arena, slot, run.nr);
	seq_add(pool, &arena->seqs, slot, index);
	own_run(pool, run, make_owner(OWNER_SLOT, index));
	count_slot(&arena->count, slot);
	arena->count.allocs++;
	arena->count.alloc_blocks += run.nr;
	*range = slot_handle(slot, index);
	return 0;
}

/* The zone of an arena that has none: everything in it is held. And its table of sequences. */
static int make_zone(struct kvmm_pool *pool, struct arenas *arenas, struct arena *arena)
{
	struct kv_zone_attr attr = { .nr_blocks = pool->nr_blocks,
				     .engine = pool->zone->ops->name };
	u32 nr_buckets = BIT(kv_log2(max(pool->nr_blocks / arenas->nr / SEQ_BLOCKS, 1u)));
	u32 *bucket = kv_alloc_array(nr_buckets, sizeof(*bucket));
	struct kv_zone *zone;
	int err = -ENOMEM;

	kv_assert_held(&pool->lock);
	if (!bucket || kv_zone_create(&attr, &zone))
		goto out_free_bucket;
	memset(bucket, 0xff, nr_buckets * sizeof(*bucket));
	kv_lock(&zone->lock);
	err = kv_zone_take_at_locked(zone, 0, pool->nr_blocks);
	kv_unlock(&zone->lock);
	if (KV_BUG_ON(err))
		goto out_destroy_zone;
	pool->metadata_bytes += zone->metadata_bytes + nr_buckets * sizeof(*bucket);
	kv_lock(&arena->lock);
	arena->zone = zone;
	arena->seqs = (struct seq_table){ bucket, nr_buckets };
	kv_unlock(&arena->lock);
	arenas_share(pool, arenas);
	return 0;

out_destroy_zone:
	kv_zone_destroy(zone);
out_free_bucket:
	kv_free(bucket);
	return err;
}

/*
 * Blocks free there change over to the arena, and those freed there follow; or, unless @lend, back
 * to the pool.
 */
void arena_pass_region(struct kvmm_pool *pool, struct arenas *arenas, struct arena *arena,
		       u32 region, bool lend)
{
	u32 lo = region << arenas->region_order, nr_free = arena->nr_free;
	u32 hi = min(lo + BIT(arenas->region_order), pool->nr_blocks);

	kv_assert_held(&pool->lock);
	kv_assert_held(&arena->lock);
	arenas->nr_lent += lend - !!arenas->region[region];
	WRITE_ONCE(arenas->region[region], lend ? arena_id(arenas, arena) : 0);
	if (lend)
		nr_free += kv_pass_free(pool->zone, arena->zone, lo, hi);
	else
		nr_free -= kv_pass_free(arena->zone, pool->zone, lo, hi);
	WRITE_ONCE(arena->nr_free, nr_free);
}

/* In the pool's zone, if all of a region were free. */
static bool leaves_too_few(const struct kvmm_pool *pool, const struct arenas *arenas)
{
	u32 floor = door_floor(pool);

	kv_assert_held(&pool->lock);
	return floor && kv_zone_nr_free(pool->zone) < floor + BIT(arenas->region_order);
}

/*
 * The regions of the next free run that is long enough: beside those that the arena has already, so
 * that they border on few others; as far as no other arena has them, until there is enough.
 */
static void lend_blocks(struct kvmm_pool *pool, struct arenas *arenas, struct arena *arena, u32 nr)
{
	u32 id = arena_id(arenas, arena), want = arena->nr_free + LEND_NR, start, end;

	kv_assert_held(&pool->lock);
	kv_assert_held(&arena->lock);
	if (arena->nr_free >= arenas->limit)
		return;
	start = kv_find_free(pool->zone, nr, arena->at);
	if (start == KV_NONE && arena->at)
		start = kv_find_free(pool->zone, nr, 0);
	if (start == KV_NONE)
		return;
	arena->at = start;
	start >>= arenas->region_order;
	end = min(start + LEND_REGIONS, nr_regions(pool, arenas->region_order));
	for (u32 i = start; i < end && arena->nr_free < want; i++) {
		if (arenas->region[i] && arenas->region[i] != id)
			return;
		if (leaves_too_few(pool, arenas))
			return;
		arena_pass_region(pool, arenas, arena, i, true);
	}
}

static void lend_slots(struct kvmm_pool *pool, struct arenas *arenas, struct arena *arena)
{
	kv_assert_held(&pool->lock);
	kv_assert_held(&arena->lock);
	for (u32 i = 0; i < LEND_SLOTS && pool->free_slot != KV_NONE; i++) {
		u32 index = slot_take(pool);
		struct slot *slot = slot_at(pool, index);

		WRITE_ONCE(slot->arena, arena_id(arenas, arena));
		stock_add(arena, slot, index);
	}
}

/* Take it from the blocks that the pool lends now: none where limits are the pool's to look at. */
static int borrow_and_take(struct kvmm_pool *pool, struct arenas *arenas, struct arena *arena,
			   const struct kvmm_range_attr *attr, kvmm_range_t *range)
{
	int err = pool_enter(pool);

	if (err)
		return err;
	err = arenas->on && !gate_is_closed(pool) ? 0 : -EAGAIN;
	if (!err && !arena->zone)
		err = make_zone(pool, arenas, arena);
	if (!err)
		err = slots_reserve(pool);
	if (!err) {
		kv_lock(&arena->lock);
		if (is_paid(pool, arena, attr) || credit_lend(pool, arenas, arena, attr->tenant)) {
			if (arena->free_slot == KV_NONE)
				lend_slots(pool, arenas, arena);
			lend_blocks(pool, arenas, arena, attr->nr);
			err = take(pool, arena, attr, range);
		} else {
			err = -EAGAIN;
		}
		kv_unlock(&arena->lock);
	}
	pool_leave(pool);
	return err;
}

/* Wherever there is room, before the pool has to take everything back. */
static bool visit(struct kvmm_pool *pool, struct arenas *arenas, const struct kvmm_range_attr *attr,
		  kvmm_range_t *range)
{
	int err = -ENOSPC;

	for (u32 i = 0; i < arenas->nr && err == -ENOSPC; i++) {
		struct arena *arena = &arenas->arena[i];

		if (READ_ONCE(arena->nr_free) < attr->nr || !kv_trylock(&arena->lock))
			continue;
		err = take(pool, arena, attr, range);
		kv_unlock(&arena->lock);
	}
	return !err;
}

/*
 * An arena that is busy is waited for: where arenas keep most of what is free the pool has no run,
 * and a caller that goes there takes back what all of them keep.
 */
noinline bool __arena_alloc(struct kvmm_pool *pool, struct arenas *arenas,
			    const struct kvmm_range_attr *attr, kvmm_range_t *range)
{
	struct arena *arena = &arenas->arena[kv_cpu() & (arenas->nr - 1)];
	bool is_time;
	int err;

	kv_lock(&arena->lock);
	err = take(pool, arena, attr, range);
	is_time = arena->count.allocs - arena->seen_allocs >= LOOK_EVERY;
	kv_unlock(&arena->lock);
	if (unlikely(err == -ENOSPC)) {
		err = borrow_and_take(pool, arenas, arena, attr, range);
		if (err == -ENOSPC)
			return visit(pool, arenas, attr, range);
	}
	if (unlikely(is_time))
		arenas_look(pool, arenas);
	return !err;
}

/* ---- release ---- */

/* Slot and blocks go back to the arena. */
static int give(struct kvmm_pool *pool, struct arena *arena, struct slot *slot, u32 index)
{
	struct kvmm_extent run = slot->first;

	kv_assert_held(&arena->lock);
	charge(pool, arena, slot, -run.nr);
	uncount_slot(&arena->count, slot);
	seq_del(pool, &arena->seqs, slot);
	slot_close(pool, slot, &arena->count);
	stock_add(arena, slot, index);
	own_run(pool, run, OWNER_FREE);
	WRITE_ONCE(arena->nr_free, arena->nr_free + run.nr);
	arena->count.frees++;
	return kv_free_runs(arena->zone, &run, 1);
}

/* More than it may have: the highest regions go back, so that the lowest fill up. */
static noinline void trim(struct kvmm_pool *pool, struct arenas *arenas, struct arena *arena)
{
	u32 keep, region = nr_regions(pool, arenas->region_order);

	kv_assert_not_held(&pool->lock);
	if (pool_enter(pool))
		return;
	keep = arenas->limit;
	kv_lock(&arena->lock);
	arena_end_credits(pool, arena);
	while (region-- > 0 && arena->nr_free > keep)
		if (arenas->region[region] == arena_id(arenas, arena))
			arena_pass_region(pool, arenas, arena, region, false);
	kv_unlock(&arena->lock);
	pool_leave(pool);
}

static noinline void poison(struct kvmm_pool *pool)
{
	kv_lock(&pool->lock);
	pool_poison(pool);
	pool_leave(pool);
}

/*
 * Blocks of a region that is lent to another arena by now, or charged to an account that has no
 * credit here, the last generation of a slot, and any error: the pool's business.
 */
static bool is_ours_to_free(const struct kvmm_pool *pool, const struct arenas *arenas,
			    struct arena *arena, const struct slot *slot, u32 gen)
{
	const struct credit *credit = credit_at(arena, slot->tenant);

	kv_assert_held(&arena->lock);
	if (slot->gen != gen || !slot->nr_ext || next_gen(gen) == pool->gen_base ||
	    gate_is_closed(pool))
		return false;
	if (unlikely(pool->order.quotas != NULL) &&
	    (!credit->on || credit->tenant != slot->tenant || credit->account != slot->account))
		return false;
	return region_of(arenas, slot->first.start) == slot->arena &&
	       region_of(arenas, slot->first.start + slot->first.nr - 1) == slot->arena;
}

noinline bool __arena_free(struct kvmm_pool *pool, struct arenas *arenas, kvmm_range_t range)
{
	struct slot *slot = slot_peek(pool, range.index);
	u32 id = slot ? READ_ONCE(slot->arena) : 0;
	struct arena *arena;
	bool done, is_full;
	int err = 0;

	if (!id)
		return false;
	arena = &arenas->arena[id - 1];
	kv_lock(&arena->lock);
	done = READ_ONCE(slot->arena) == id &&
	       is_ours_to_free(pool, arenas, arena, slot, range.gen);
	if (likely(done))
		err = give(pool, arena, slot, range.index);
	is_full = arena->nr_free > READ_ONCE(arenas->limit) +
				   (SLACK_REGIONS << arenas->region_order);
	kv_unlock(&arena->lock);
	if (unlikely(err))
		poison(pool);
	if (unlikely(is_full))
		trim(pool, arenas, arena);
	return done;
}

/* From @start on, as far as the regions are one's. How many blocks. */
static u32 free_piece(struct kvmm_pool *pool, struct arenas *arenas, u32 start, u32 end)
{
	u32 id = region_of(arenas, start), at = start;
	struct kvmm_extent piece;
	struct arena *arena;

	kv_assert_held(&pool->lock);
	while (at < end && region_of(arenas, at) == id)
		at = min((at | (BIT(arenas->region_order) - 1)) + 1, end);
	piece = (struct kvmm_extent){ start, at - start };
	if (!id) {
		blocks_free(pool, &piece, 1);
		return piece.nr;
	}
	arena = &arenas->arena[id - 1];
	kv_lock(&arena->lock);
	own_run(pool, piece, OWNER_FREE);
	WRITE_ONCE(arena->nr_free, arena->nr_free + piece.nr);
	if (unlikely(kv_free_runs(arena->zone, &piece, 1)))
		pool_poison(pool);
	kv_unlock(&arena->lock);
	return piece.nr;
}

void arena_blocks_free(struct kvmm_pool *pool, const struct kvmm_extent *ext, u32 nr_ext)
{
	struct arenas *arenas = arenas_in_use(pool);

	kv_assert_held(&pool->lock);
	if (!arenas) {
		blocks_free(pool, ext, nr_ext);
		return;
	}
	for (u32 i = 0; i < nr_ext; i++) {
		u32 at = ext[i].start, end = at + ext[i].nr;

		while (at < end)
			at += free_piece(pool, arenas, at, end);
	}
}

/* ---- ranges change over ---- */

/* Both locks held. */
static void adopt(struct kvmm_pool *pool, struct arena *arena, struct slot *slot, u32 index)
{
	kv_assert_held(&pool->lock);
	kv_assert_held(&arena->lock);
	uncount_slot(&arena->count, slot);
	seq_del(pool, &arena->seqs, slot);
	count_slot(&pool->count, slot);
	seq_add(pool, &pool->seqs, slot, index);
	WRITE_ONCE(slot->arena, 0);
}

bool arena_adopt(struct kvmm_pool *pool, struct slot *slot, u32 *gen)
{
	struct arena *arena = &pool_arenas(pool)->arena[slot->arena - 1];
	bool found;

	kv_assert_held(&pool->lock);
	kv_lock(&arena->lock);
	found = slot->gen == *gen && slot->nr_ext;
	*gen = slot->gen;
	if (found)
		adopt(pool, arena, slot, slot_index(slot));
	kv_unlock(&arena->lock);
	return found;
}

/* The oldest first, so that they stand in the pool's chain as they did in the arena's. */
void arenas_adopt_seq(struct kvmm_pool *pool, u64 seq)
{
	struct arenas *arenas = pool->arenas;

	kv_assert_held(&pool->lock);
	for (u32 i = 0; i < arenas->nr; i++) {
		struct arena *arena = &arenas->arena[i];
		u32 at = KV_NONE, next;

		kv_lock(&arena->lock);
		if (arena->seqs.nr)
			at = arena->seqs.bucket[seq_bucket(pool, &arena->seqs, seq)];
		for (; at != KV_NONE && slot_at(pool, at)->next != KV_NONE;)
			at = slot_at(pool, at)->next;
		for (; at != KV_NONE; at = next) {
			next = slot_at(pool, at)->prev;
			if (slot_at(pool, at)->seq == seq)
				adopt(pool, arena, slot_at(pool, at), at);
		}
		kv_unlock(&arena->lock);
	}
}
