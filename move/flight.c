// SPDX-License-Identifier: Apache-2.0
/*
 * Moves beside or between steps: planned, copied, published, landed.
 *
 * An owner may change its blocks while they are copied: a range grows or goes, a caller pins. No
 * caller is held up by a copy; the thread that publishes looks whether the run still is what it
 * was, and if not the move is void and the copy forgotten. So cancelling is nothing but publishing
 * without looking.
 *
 * The copy begins behind everything that the engine's streams were given: their last writes are in
 * it, and what they read at the destination, before it was freed, has been read. It is complete
 * before its places are published, or the streams wait for it: their next reads find it. And an old
 * place is given to no owner until steps of earlier epochs are through: their reads are still of
 * it.
 */
#include <cache/cache.h>
#include <kv/env.h>
#include <kv/mem.h>
#include <kvmm/ext/moves.h>
#include <pool/local.h>

#include "flight.h"
#include "stay.h"
#include "verify.h"

/* ---- flights ---- */

void flight_free(struct flight *flight)
{
	if (!flight)
		return;
	kv_free(flight->move);
	kv_free(flight->leg);
	kv_free(flight);
}

struct flight *flight_make(const struct kv_move *moves, u32 nr, u32 mode)
{
	struct flight *flight = kv_alloc(sizeof(*flight));

	kv_assert(nr);
	if (!flight)
		return NULL;
	flight->mode = mode;
	flight->nr = nr;
	flight->move = kv_alloc_array(nr, sizeof(*flight->move));
	flight->leg = kv_alloc_array(nr, sizeof(*flight->leg));
	if (!flight->move || !flight->leg) {
		flight_free(flight);
		return NULL;
	}
	memcpy(flight->move, moves, nr * sizeof(*moves));
	for (u32 i = 0; i < nr; i++)
		flight->nr_blocks += moves[i].nr;
	return flight;
}

void flight_add(struct kvmm_pool *pool, struct flight *flight)
{
	struct flight **at = &pool->steps->oldest;

	kv_assert_held(&pool->compact_lock);
	while (*at)
		at = &(*at)->next;
	*at = flight;
	WRITE_ONCE(pool->transit.nr_flights, pool->transit.nr_flights + 1);
}

static void flight_del(struct kvmm_pool *pool, struct flight **at)
{
	struct flight *flight = *at;

	*at = flight->next;
	WRITE_ONCE(pool->transit.nr_flights, pool->transit.nr_flights - 1);
	flight_free(flight);
}

/* ---- taking off ---- */

/* The extent that begins with the move and has all of it; KV_NONE: not any more. */
static u32 extent_of(struct slot *slot, const struct kv_move *move)
{
	for (u32 i = 0; i < slot->nr_ext; i++)
		if (slot_ext(slot, i)->start == move->src && slot_ext(slot, i)->nr >= move->nr)
			return i;
	return KV_NONE;
}

/* The run is as the planner saw it, and may still move. */
static bool source_is_good(struct kvmm_pool *pool, const struct kv_move *move, u32 mode,
			   struct leg *leg)
{
	u32 owner = pool->owner[move->src], i;
	struct kvmm_extent run = { move->src, 1 };
	struct slot *slot;

	kv_assert_held(&pool->lock);
	*leg = (struct leg){ .owner = owner };
	if (owner_kind(owner) == OWNER_SLOT) {
		slot = slot_at(pool, owner_index(owner));
		i = extent_of(slot, move);
		if (i == KV_NONE)
			return false;
		run = *slot_ext(slot, i);
		leg->gen = slot->gen;
		leg->cuts = run.nr > move->nr;
	} else if (owner_kind(owner) == OWNER_ENTRY) {
		leg->gen = entry_handle(pool, owner_index(owner)).gen;
	}
	return run_verdict(pool, owner, run, mode).nr == move->nr;
}

/* Private and staged blocks need no mark: no caller enters until they have their new places. */
static int mark_entry(struct kvmm_pool *pool, struct leg *leg)
{
	struct kv_handle handle = { owner_index(leg->owner), leg->gen };
	u64 word = READ_ONCE(entry_at(pool, handle.index)->word);

	kv_assert_held(&pool->lock);
	if (!kv_word_is(word, KV_ENTRY_REGISTERED))
		return 0;
	if (kv_handle_step(&pool->entries, handle, kv_edge_move))
		return -EAGAIN;
	leg->marked = true;
	pool->steps->nr_moving++;
	return 0;
}

/* The destination is ours, and the source is known to fly. -EAGAIN: something has changed. */
static int leg_lift(struct kvmm_pool *pool, struct flight *flight, u32 i)
{
	const struct kv_move *move = &flight->move[i];
	struct leg *leg = &flight->leg[i];

	kv_assert_held(&pool->lock);
	if (!source_is_good(pool, move, flight->mode, leg) ||
	    kv_zone_alloc_at(pool->zone, move->dst, move->nr))
		return -EAGAIN;
	if (owner_kind(leg->owner) == OWNER_SLOT) {
		kv_put_bits(pool->transit.flying, move->src, move->nr, true);
		pool->nr_flying++;
	} else if (mark_entry(pool, leg)) {
		kv_free_runs(pool->zone, &(struct kvmm_extent){ move->dst, move->nr }, 1);
		return -EAGAIN;
	}
	owner_fill(pool, move->dst, move->nr, dark);
	pool->transit.nr_dark += move->nr;
	return 0;
}

/* ---- landing ---- */

/* Blocks of a run that have no owner and no reader. */
static void free_dark(struct kvmm_pool *pool, u32 start, u32 nr)
{
	kv_assert_held(&pool->lock);
	nr = blocks_free_of(pool, OWNER_MOVE, (struct kvmm_extent){ start, nr });
	pool->transit.nr_dark -= nr;
}

/* It was moved in vain, or has been moved. Both locks held. */
void entry_moved(struct kvmm_pool *pool, u32 index, u32 gen)
{
	struct kv_handle handle = { index, gen };
	int ret = kv_handle_step(&pool->entries, handle, kv_edge_moved);

	kv_assert_held(&pool->lock);
	kv_assert_held(&pool->order.lock);
	pool->steps->nr_moving--;
	if (POOL_BUG_ON(pool, ret < 0))
		return;
	if (ret == 2) {	/* it was held for the copy only */
		order_forget(&pool->order, index);
		entry_forget(pool, index);
		entry_release(pool, handle);
	} else if (!kv_word_refs(READ_ONCE(entry_at(pool, index)->word)) &&
		   !order_has(&pool->order, index)) {	/* an evictor has met it meanwhile */
		order_apply(&pool->order, NOTE_PUT, handle);
	}
}

/* The run has a new place, and the old one is dark. */
static void run_moved(struct kvmm_pool *pool, const struct kv_move *move, u32 owner)
{
	kv_assert_held(&pool->lock);
	owner_fill(pool, move->src, move->nr, dark);
	owner_fill(pool, move->dst, move->nr, owner);
	tenant_move(pool, move->src, move->dst, move->nr);
}

/* The rest of extent @i, behind its first @nr blocks, is an extent of its own: 0 or -ENOMEM. */
static int slot_cut_extent(struct kvmm_pool *pool, struct slot *slot, u32 i, u32 nr)
{
	struct kvmm_extent ext = *slot_ext(slot, i);

	kv_assert_held(&pool->lock);
	if (slot_reserve_ext(pool, slot, slot->nr_ext + 1))
		return -ENOMEM;
	slot_write_begin(slot);
	for (u32 k = slot->nr_ext; k > i + 1; k--)
		slot_set_ext(slot, k, slot_ext(slot, k - 1)->start, slot_ext(slot, k - 1)->nr);
	slot_set_ext(slot, i, ext.start, nr);
	slot_set_ext(slot, i + 1, ext.start + nr, ext.nr - nr);
	WRITE_ONCE(slot->nr_ext, slot->nr_ext + 1);
	slot_write_end(slot);
	return 0;
}

/* The extent of the leg, which is the leg's alone from here on; KV_NONE: it stays. */
static u32 leg_extent(struct kvmm_pool *pool, struct slot *slot, const struct kv_move *move,
		      const struct leg *leg)
{
	u32 i = extent_of(slot, move);

	kv_assert_held(&pool->lock);
	if (slot->gen != leg->gen || i == KV_NONE || slot_is_pinned(slot))
		return KV_NONE;
	if (slot_ext(slot, i)->nr == move->nr)
		return i;
	/* The extent that was to move as a whole has grown: it does not go to pieces for us. */
	return leg->cuts && !slot_cut_extent(pool, slot, i, move->nr) ? i : KV_NONE;
}

static bool slot_publish(struct kvmm_pool *pool, const struct kv_move *move, const struct leg *leg)
{
	struct slot *slot = slot_at(pool, owner_index(leg->owner));
	u32 i = leg_extent(pool, slot, move, leg);

	kv_assert_held(&pool->lock);
	if (i == KV_NONE)
		return false;
	run_moved(pool, move, leg->owner);
	if (i + 1 == slot->nr_ext)
		reserve_drop(pool, slot);
	slot_write_begin(slot);
	WRITE_ONCE(slot_ext(slot, i)->start, move->dst);
	slot_write_end(slot);
	return true;
}

/* No caller can have pinned or evicted it. */
static bool entry_publish(struct kvmm_pool *pool, const struct kv_move *move, const struct leg *leg)
{
	struct kv_entry *entry = entry_at(pool, owner_index(leg->owner));

	kv_assert_held(&pool->lock);
	run_moved(pool, move, leg->owner);
	/* Pairs with entry_block_told(): the copy is seen with its place. */
	smp_store_release(&entry->place, move->dst);
	return true;
}

/* The copy of one leg is over, and good if @good. Both locks held. */
static void leg_settle(struct kvmm_pool *pool, const struct kv_move *move, struct leg *leg,
		       bool good)
{
	bool is_slot = owner_kind(leg->owner) == OWNER_SLOT;

	kv_assert_held(&pool->lock);
	if (good && !leg->bad)
		leg->done = is_slot ? slot_publish(pool, move, leg) :
				      entry_publish(pool, move, leg);
	if (is_slot) {
		kv_put_bits(pool->transit.flying, move->src, move->nr, false);
		pool->nr_flying--;
	} else if (leg->marked) {
		entry_moved(pool, owner_index(leg->owner), leg->gen);
	}
	if (leg->done && !is_slot && !leg->seen)
		verify_moved(pool, owner_index(leg->owner));
	if (leg->done)
		return;
	tenant_forget(pool, move->dst, move->nr);
	free_dark(pool, move->dst, move->nr);
	free_dark(pool, move->src, move->nr);	/* given back while it was copied */
}

/* No slot has that generation, so the move is void when it is to be published. */
static void void_block(struct kvmm_pool *pool, u32 block)
{
	kv_assert_held(&pool->compact_lock);
	for (struct flight *flight = pool->steps->oldest; flight; flight = flight->next)
		for (u32 i = 0; i < flight->nr && flight->state == FLIGHT_COPYING; i++)
			if (block - flight->move[i].src < flight->move[i].nr &&
			    owner_kind(flight->leg[i].owner) == OWNER_SLOT)
				flight->leg[i].gen = 0;
}

static void count_settled(struct kvmm_pool *pool, struct kvmm_step_stat *stat,
			  const struct flight *flight, bool good)
{
	u64 nr_moves = 0, nr_blocks = 0;

	kv_assert_held(&pool->lock);
	stat->copying_blocks -= flight->nr_blocks;
	for (u32 i = 0; i < flight->nr; i++) {
		if (flight->leg[i].done) {
			nr_moves++;
			nr_blocks += flight->move[i].nr;
		} else if (good) {
			stat->void_moves++;
		}
	}
	stat->published_moves += nr_moves;
	stat->published_blocks += nr_blocks;
	stat->limbo_blocks += nr_blocks;
	moves_count(pool, nr_moves, nr_blocks);
}

static void settle_legs(struct kvmm_pool *pool, struct flight *flight, bool good)
{
	kv_assert_held(&pool->lock);
	if (pool->caches)
		order_enter(&pool->order);
	for (u32 i = 0; i < flight->nr; i++)
		leg_settle(pool, &flight->move[i], &flight->leg[i], good);
	if (pool->caches)
		order_leave(&pool->order);
	/* Extents that have come to lie behind one another are one. */
	for (u32 i = 0; i < flight->nr; i++)
		if (flight->leg[i].done && owner_kind(flight->leg[i].owner) == OWNER_SLOT)
			slot_join_extents(slot_at(pool, owner_index(flight->leg[i].owner)));
}

/*
 * The copy is over, or the streams wait for it: @good legs get their new places, and an epoch
 * begins. Steps that see the epoch see the places, which are written before under pool->lock.
 */
void flight_settle(struct kvmm_pool *pool, struct flight *flight, bool good)
{
	struct steps *steps = pool->steps;

	kv_assert_held(&steps->lock);
	kv_lock(&pool->lock);
	settle_legs(pool, flight, good);
	count_settled(pool, &steps->stat, flight, good);
	pool_leave(pool);
	flight->state = FLIGHT_PUBLISHED;
	if (!good)
		return;
	for (u32 i = 0; i < flight->nr; i++)
		if (flight->leg[i].done)
			steps_relocated(steps, &flight->move[i],
					flight->mode == KVMM_MOVE_BETWEEN);
	flight->epoch = ++steps->epoch;
}

/* ---- copies that fail ---- */

/*
 * The streams have gone on in new places that a failed copy has left undefined. As a rule the
 * device is lost, and all of this is only for the books.
 */
static void leg_lose(struct kvmm_pool *pool, const struct kv_move *move, const struct leg *leg)
{
	u32 index = owner_index(leg->owner);

	kv_assert_held(&pool->lock);
	if (!leg->done)
		return;
	pool->steps->stat.lost_blocks += move->nr;
	if (owner_kind(leg->owner) == OWNER_ENTRY)
		entry_lose(pool, (struct kv_handle){ index, leg->gen });
	else if (slot_at(pool, index)->gen == leg->gen)
		slot_lose(pool, slot_at(pool, index));
}

static void flight_lose(struct kvmm_pool *pool, struct flight *flight)
{
	bool closed = lose_begin(pool);

	kv_assert_held(&pool->compact_lock);
	flight->is_lost = true;
	for (u32 i = 0; i < flight->nr; i++)
		leg_lose(pool, &flight->move[i], &flight->leg[i]);
	pool->steps->stat.failed_moves += flight->nr;
	lose_end(pool, closed);
}

/* ---- submitting ---- */

#define PORTION_MOVES	128u

/* The next moves, or parts of moves, of @max blocks at most. Returns how many blocks. */
static u32 cut_portion(struct flight *flight, struct kv_move *moves, u32 *nr, u32 max)
{
	u32 nr_blocks = 0;

	kv_assert(max);
	for (*nr = 0; *nr < PORTION_MOVES && flight->at < flight->nr && nr_blocks < max;) {
		const struct kv_move *move = &flight->move[flight->at];
		u32 take = min(move->nr - flight->at_block, max - nr_blocks);

		moves[(*nr)++] = (struct kv_move){ move->src + flight->at_block,
						   move->dst + flight->at_block, take };
		nr_blocks += take;
		flight->at_block += take;
		if (flight->at_block < move->nr)
			continue;
		flight->at++;
		flight->at_block = 0;
	}
	return nr_blocks;
}

static int submit_moves(struct kvmm_pool *pool, struct flight *flight, const struct kv_move *moves,
			u32 nr)
{
	struct kv_planes planes = { pool->plane, pool->nr_planes };
	struct kv_copy copy = {
		.src = planes, .dst = planes, .moves = moves, .nr = nr, .dir = KV_COPY_LOCAL,
		.flags = flight->mode == KVMM_MOVE_BESIDE ? KV_COPY_BACKGROUND : 0,
		.after = flight->after,
	};

	kv_assert_held(&pool->steps->lock);
	return pool->nr_planes ? pool->parts.dev->copy_blocks(pool->dev, &copy, &flight->fence) : 0;
}

/* All in one go where nothing limits it. 0 also without a credit; or the device's error. */
int flight_submit(struct kvmm_pool *pool, struct steps *steps, struct flight *flight)
{
	struct kv_move moves[PORTION_MOVES];
	u32 max = UINT32_MAX, nr, nr_blocks;
	int err;

	kv_assert_held(&steps->lock);
	if (flight->mode == KVMM_MOVE_BESIDE)
		max = pace_may(pool, steps);
	if (!max)
		return 0;
	if (!flight->at && !flight->at_block && max >= flight->nr_blocks) {
		flight->at = flight->nr;
		nr_blocks = flight->nr_blocks;
		err = submit_moves(pool, flight, flight->move, flight->nr);
	} else {
		nr_blocks = cut_portion(flight, moves, &nr, max);
		err = submit_moves(pool, flight, moves, nr);
	}
	if (!err && flight->mode == KVMM_MOVE_BESIDE)
		pace_pay(pool, steps, nr_blocks);
	return err == -EAGAIN ? -EIO : err;
}

/* Copies run on one stream, one after the other: the last one is complete last. */
static void await_copies(struct kvmm_pool *pool)
{
	struct steps *steps = pool->steps;
	struct kv_fence fence;

	if (!pool->dev)
		return;
	kv_lock(&steps->lock);
	fence = steps->between;
	kv_unlock(&steps->lock);
	if (fence.id)
		pool->parts.dev->wait(pool->dev, fence);
}

/* ---- polling ---- */

static int poll_copy(struct kvmm_pool *pool, const struct flight *flight)
{
	kv_assert_held(&pool->steps->lock);
	if (unlikely(flight->error))
		return flight->error;
	return pool->dev ? pool->parts.dev->poll(pool->dev, flight->fence) : 0;
}

/* The rest of the copy goes on: 0 all of it is complete, -EAGAIN it is not, or why it failed. */
static int go_on(struct kvmm_pool *pool, struct steps *steps, struct flight *flight)
{
	int err = poll_copy(pool, flight);

	kv_assert_held(&steps->lock);
	if (err && err != -EAGAIN)
		device_failed(pool);
	if (err || flight->at == flight->nr)
		return err;
	err = flight_submit(pool, steps, flight);
	if (err && pool->completions.are_told)
		flight->error = err;
	return err ? err : -EAGAIN;
}

static void try_publish(struct kvmm_pool *pool, struct steps *steps, struct flight *flight)
{
	int err = completion_result(&pool->completions, &flight->completion,
				    go_on(pool, steps, flight));

	kv_assert_held(&steps->lock);
	if (!err && !pool->completions.are_told)
		err = verify_flight(pool, flight);
	else if (err && err != -EAGAIN)
		verify_drop_flight(pool, flight);
	if (err == -EAGAIN || (!err && !steps_have_room(steps, flight->nr)))
		return;
	flight_settle(pool, flight, !err);
	if (err)
		steps->stat.failed_moves += flight->nr;
}

/* False: it is still under way. A copy between steps that has failed is lost. */
static bool has_arrived(struct kvmm_pool *pool, struct flight *flight)
{
	int err = completion_result(&pool->completions, &flight->completion,
				    poll_copy(pool, flight));

	kv_assert_held(&pool->steps->lock);
	if (err == -EAGAIN)
		return false;
	if (err)
		device_failed(pool);
	if (err && flight->mode == KVMM_MOVE_BETWEEN && !flight->is_lost)
		flight_lose(pool, flight);
	return true;
}

/*
 * Its old places are free: also if the copy has failed, then they never were used for it. Not while
 * the device is blind: steps that read there may have ended as little as the copy.
 */
static bool try_land(struct kvmm_pool *pool, struct flight *flight, u64 oldest)
{
	kv_assert_held(&pool->steps->lock);
	if (flight->state != FLIGHT_PUBLISHED || oldest < flight->epoch)
		return false;
	if (!has_arrived(pool, flight) || READ_ONCE(pool->blind))
		return false;
	kv_lock(&pool->lock);
	for (u32 i = 0; i < flight->nr; i++) {
		if (!flight->leg[i].done)
			continue;
		free_dark(pool, flight->move[i].src, flight->move[i].nr);
		pool->steps->stat.limbo_blocks -= flight->move[i].nr;
	}
	pool_leave(pool);
	return true;
}

/* Streams wait for a copy between steps, but do not fail with it; one of its new place has to. */
int flights_signal(struct kvmm_pool *pool, struct steps *steps, struct kv_fence *fence)
{
	int err = 0;

	kv_assert_held(&steps->lock);
	for (struct flight *flight = steps->oldest; flight && !err; flight = flight->next) {
		struct kv_fence both[2] = { *fence, flight->fence };

		if (flight->state != FLIGHT_PUBLISHED || flight->is_lost)
			continue;
		err = poll_copy(pool, flight);
		if (err == -EAGAIN)
			err = pool->parts.dev->join(pool->dev, both, 2, fence);
	}
	return err ? -EIO : 0;
}

/* The last copy between steps is complete last, but each has a status of its own. */
static void look_at_copies(struct kvmm_pool *pool)
{
	struct steps *steps = pool->steps;

	kv_assert_held(&pool->compact_lock);
	await_copies(pool);
	if (!pool->transit.nr_flights)
		return;
	kv_lock(&steps->lock);
	for (struct flight *flight = steps->oldest; flight; flight = flight->next)
		if (flight->state == FLIGHT_PUBLISHED)
			has_arrived(pool, flight);
	kv_unlock(&steps->lock);
}

static void poll_all(struct kvmm_pool *pool, struct steps *steps, bool publish)
{
	u64 oldest;

	kv_assert_held(&steps->lock);
	for (struct flight *flight = steps->oldest; publish && flight; flight = flight->next)
		if (flight->state == FLIGHT_COPYING)
			try_publish(pool, steps, flight);
	oldest = steps_oldest(pool, steps, false);
	for (struct flight **at = &steps->oldest; *at;) {
		if (try_land(pool, *at, oldest))
			flight_del(pool, at);
		else
			at = &(*at)->next;
	}
}

static void poll_flights(struct kvmm_pool *pool, bool publish)
{
	struct steps *steps = steps_of(pool);

	kv_assert_held(&pool->compact_lock);
	device_look(pool);
	verify_poll(pool);
	if (!pool->transit.nr_flights)
		return;
	kv_lock(&steps->lock);
	poll_all(pool, steps, publish);
	kv_unlock(&steps->lock);
}

void flights_poll(struct kvmm_pool *pool)
{
	kv_assert_held(&pool->compact_lock);
	poll_flights(pool, true);
}

void flights_land(struct kvmm_pool *pool)
{
	kv_assert_held(&pool->compact_lock);
	poll_flights(pool, false);
}

/* How a copy has gone on this rank, which is told to all; a wrong one has failed as a whole. */
static int copy_told(struct kvmm_pool *pool, struct steps *steps, struct flight *flight)
{
	int err;

	kv_assert_held(&steps->lock);
	if (flight->state != FLIGHT_COPYING)
		return poll_copy(pool, flight);
	err = go_on(pool, steps, flight);
	return err ? err : verify_told_flight(pool, flight);
}

void flights_walk(struct kvmm_pool *pool, struct completion_walk *walk)
{
	struct steps *steps = steps_of(pool);

	kv_assert_held(&pool->compact_lock);
	if (!steps)
		return;
	verify_walk(pool, walk);
	kv_lock(&steps->lock);
	for (struct flight *flight = steps->oldest; flight; flight = flight->next)
		completion_meet(walk, &flight->completion, copy_told(pool, steps, flight));
	steps_walk(pool, steps, walk);
	kv_unlock(&steps->lock);
}

/* ---- cancelling ---- */

static u32 cancel_all(struct kvmm_pool *pool, struct steps *steps)
{
	u32 nr = 0;

	kv_assert_held(&steps->lock);
	for (struct flight *flight = steps->oldest; flight; flight = flight->next) {
		if (flight->state != FLIGHT_COPYING)
			continue;
		if (pool->dev && pool->parts.dev->wait(pool->dev, flight->fence))
			device_failed(pool);
		verify_drop_flight(pool, flight);
		flight_settle(pool, flight, false);
		flight->completion.is_over = true;
		steps->stat.cancelled_moves += flight->nr;
		nr += flight->nr_blocks;
	}
	return nr;
}

static u32 cancel(struct kvmm_pool *pool)
{
	struct steps *steps = pool->steps;
	u32 nr;

	kv_assert_held(&pool->compact_lock);
	verify_cancel(pool);
	if (!pool->transit.nr_flights)
		return 0;
	kv_lock(&steps->lock);
	nr = cancel_all(pool, steps);
	poll_all(pool, steps, true);
	kv_unlock(&steps->lock);
	return nr;
}

const struct transit_ops flight_ops = {
	.await		= await_copies,
	.look		= look_at_copies,
	.void_block	= void_block,
	.cancel		= cancel,
};

void flights_exit(struct kvmm_pool *pool, struct steps *steps)
{
	while (steps->oldest) {
		if (pool->dev)
			pool->parts.dev->wait(pool->dev, steps->oldest->fence);
		flight_del(pool, &steps->oldest);
	}
}

/* ---- taking off, all of it ---- */

/* Until they have landed, moves have two places: the second must be promised to no request. */
int flight_lift(struct kvmm_pool *pool, struct flight *flight)
{
	kv_assert_held(&pool->lock);
	if (pool_nr_free(pool) < (u64)flight->nr_blocks + pool->door.nr_promised)
		return -ENOSPC;
	for (u32 i = 0; i < flight->nr; i++) {
		int err = leg_lift(pool, flight, i);

		if (!err)
			continue;
		if (pool->caches)
			order_enter(&pool->order);
		for (u32 k = 0; k < i; k++)	/* lifted runs stay where they are */
			leg_settle(pool, &flight->move[k], &flight->leg[k], false);
		if (pool->caches)
			order_leave(&pool->order);
		return err;
	}
	pool->steps->stat.copying_blocks += flight->nr_blocks;
	return 0;
}

/* ---- calls ---- */

int kvmm_compact_poll(struct kvmm_pool *pool)
{
	int nr = 0;

	if (kv_inherited(pool))
		return -ECHILD;
	if (!pool)
		return -EINVAL;
	if (!steps_of(pool) && likely(!READ_ONCE(pool->blind)))
		return 0;
	kv_lock(&pool->compact_lock);
	flights_poll(pool);
	for (struct flight *flight = pool->steps ? pool->steps->oldest : NULL; flight;
	     flight = flight->next)
		nr += flight->nr;
	if (nr && unlikely(READ_ONCE(pool->blind)) && device_is_lost(pool))
		nr = -EIO;
	kv_unlock(&pool->compact_lock);
	cache_after(pool);
	return nr;
}

int quiescent_set(struct kvmm_pool *pool, const void *value)
{
	bool on = value && *(const u32 *)value;
	struct steps *steps;
	int err = 0;

	if (!value)
		return -EINVAL;
	kv_lock(&pool->compact_lock);
	steps = on ? steps_get(pool) : steps_of(pool);
	if (on ? !steps : !steps || !steps->nr_quiet)
		err = on ? -ENOMEM : -EINVAL;
	else if (on && steps->nr_quiet == UINT32_MAX)
		err = -EOVERFLOW;
	else
		steps->nr_quiet += on ? 1 : -1;
	if (on && !err)
		flights_cancel(pool);
	kv_unlock(&pool->compact_lock);
	if (on)
		cache_after(pool);
	return err;
}
