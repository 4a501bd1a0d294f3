// SPDX-License-Identifier: Apache-2.0
/*
 * How moves beside or between steps begin: planned from a picture, isolated, given to the device.
 *
 * The picture may be out of date when its plan is carried out: isolate looks again, and the planner
 * tries again.
 */
#include <kv/env.h>
#include <kvmm/ext/moves.h>
#include <pool/local.h>

#include "flight.h"
#include "goal.h"
#include "stay.h"

struct start {
	struct kvmm_pool *pool;
	struct steps *steps;
	struct goal *goal;	/* purpose */
	struct flight *flight;	/* out; NULL: nothing moves */
	struct picture picture;
	u32 mode;
	bool stopped;		/* the gate is closed, by us */
};

static u32 snapshot(void *arg, struct kv_item *items, u32 max)
{
	struct start *start = arg;

	return pool_snapshot(&start->picture, items, max);
}

/*
 * Between steps private and staged blocks move, too. Nothing in their words keeps owners from
 * giving them away, and threads from handing them on; so no thread is inside until they have new
 * places. That is not for long: the device gets its work meanwhile, and no thread waits for it.
 */
static void stop_owners(struct start *start)
{
	struct kvmm_pool *pool = start->pool;

	kv_assert_held(&pool->lock);
	if (start->mode != KVMM_MOVE_BETWEEN || !pool->caches)
		return;
	pool_stop(pool);
	start->stopped = true;
	kv_lock(&pool->lock);
}

static void let_owners_go(struct start *start)
{
	kv_assert_held(&start->pool->compact_lock);
	if (!start->stopped)
		return;
	kv_lock(&start->pool->lock);
	pool_resume(start->pool);
	kv_unlock(&start->pool->lock);
	start->stopped = false;
}

static int isolate(void *arg, const struct kv_move *moves, u32 nr)
{
	struct start *start = arg;
	struct kvmm_pool *pool = start->pool;
	int err;

	kv_assert_held(&pool->compact_lock);
	kv_lock(&start->steps->lock);
	err = steps_make_room(start->steps, nr);
	kv_unlock(&start->steps->lock);
	if (err)
		return err;
	start->flight = nr ? flight_make(moves, nr, start->mode) : NULL;
	if (nr && !start->flight)
		return -ENOMEM;
	kv_lock(&pool->lock);
	stop_owners(start);
	err = start->goal ? goal_claim(start->goal) : 0;
	if (!err) {
		err = nr ? flight_lift(pool, start->flight) : 0;
		if (start->goal)
			goal_claimed(start->goal, !err);
	}
	pool_leave(pool);
	if (err || !nr) {
		let_owners_go(start);
		flight_free(start->flight);
		start->flight = NULL;
	}
	return err;
}

static const struct kv_movable_ops start_ops = {
	.snapshot	= snapshot,
	.isolate	= isolate,
};

/* Behind all that the engine has given its streams so far. */
static int submit(struct kvmm_pool *pool, struct steps *steps, struct flight *flight)
{
	int err = pool->nr_planes ? steps_signal(pool, steps, &flight->after) : 0;

	kv_assert_held(&steps->lock);
	return err ? err : flight_submit(pool, steps, flight);
}

/* Between steps the streams wait for the copy, and the places are new at once. */
static int submit_between(struct kvmm_pool *pool, struct steps *steps, struct flight *flight)
{
	int err = submit(pool, steps, flight);

	kv_assert_held(&steps->lock);
	if (err)
		return err;
	err = steps_stall(pool, steps, flight->fence);
	if (!err) {
		steps->between = flight->fence;
		flight_settle(pool, flight, true);
		return 0;
	}
	if (pool->dev)
		pool->parts.dev->wait(pool->dev, flight->fence);
	return err;
}

/* Ranks are told of a copy that could not begin, as of one that failed later. ->lock held. */
static int defer_failure(struct kvmm_pool *pool, struct flight *flight, int err)
{
	kv_assert_held(&pool->steps->lock);
	if (!err || err == -EBUSY || !pool->completions.are_told)
		return err;
	device_failed(pool);
	flight->error = err;
	if (flight->mode == KVMM_MOVE_BETWEEN)
		flight_settle(pool, flight, true);
	return 0;
}

/* Some may have begun a step while we planned. */
static int take_off(struct start *start)
{
	struct kvmm_pool *pool = start->pool;
	struct steps *steps = start->steps;
	struct flight *flight = start->flight;
	int err;

	kv_assert_held(&pool->compact_lock);
	kv_lock(&steps->lock);
	completion_begin(&pool->completions, &flight->completion);
	if (start->mode == KVMM_MOVE_BESIDE)
		err = submit(pool, steps, flight);
	else if (steps_are_open(steps) || !steps_have_room(steps, flight->nr))
		err = -EBUSY;
	else
		err = submit_between(pool, steps, flight);
	err = defer_failure(pool, flight, err);
	if (err) {
		device_failed(pool);
		flight_settle(pool, flight, false);
		steps->stat.failed_moves += err != -EBUSY ? flight->nr : 0;
	}
	kv_unlock(&steps->lock);
	let_owners_go(start);
	if (err)
		flight_free(flight);
	else
		flight_add(pool, flight);
	return err == -EBUSY || err == -ENOMEM || !err ? err : -EIO;
}

static void report(struct start *start)
{
	struct kvmm_stay *stay = &start->picture.stay;
	u32 nr = start->goal->nr_recent;

	kv_assert_held(&start->pool->compact_lock);
	stay->movable -= nr;
	stay->staying += nr;
	stay->blocks[KVMM_STAY_RECENT] += nr;
	stay_report(start->pool, stay, NULL);
}

/* compact_lock held: nothing else moves blocks, and no other thread closes the gate. */
static int start_moves(struct start *start)
{
	struct kvmm_pool *pool = start->pool;
	int err;

	kv_assert_held(&pool->compact_lock);
	flights_poll(pool);
	if (!pool->parts.planner || pool->rounds)
		return -EOPNOTSUPP;
	if (start->goal->go &&
	    (start->steps->nr_quiet || pool->transit.nr_flights == MAX_FLIGHTS))
		return -EBUSY;
	err = pool_enter(pool);
	if (err)
		return err;
	pool_leave(pool);
	err = goal_plan(start->goal, &start_ops, start);
	report(start);
	return err || !start->flight ? err : take_off(start);
}

int flights_start_goal(struct kvmm_pool *pool, struct goal *goal)
{
	u32 mode = goal->ask->mode;
	struct start start = { .pool = pool, .goal = goal, .mode = mode,
			       .picture = { .pool = pool, .mode = mode } };
	int err;

	kv_assert_held(&pool->compact_lock);
	start.steps = steps_get(pool);
	if (!start.steps)
		return -ENOMEM;
	arenas_bar(pool);
	err = start_moves(&start);
	arenas_unbar(pool);
	return err;
}

int flights_start(struct kvmm_pool *pool, const struct kv_move *moves, u32 nr, u32 mode)
{
	struct start start = { .pool = pool, .steps = steps_of(pool), .mode = mode };
	int err = start.steps->nr_quiet || pool->transit.nr_flights == MAX_FLIGHTS ? -EBUSY : 0;

	kv_assert_held(&pool->compact_lock);
	if (!err)
		err = isolate(&start, moves, nr);
	return err ? err : take_off(&start);
}

/* A failed plan is not made again for each request: the next 1, 3, 7, ... 63 are left out. */
#define MOST_USELESS	6u

void flights_make_run(struct kvmm_pool *pool, u32 nr)
{
	struct kvmm_compact_goal ask = {
		.size = sizeof(ask), .goal = KVMM_GOAL_RUN, .mode = KVMM_MOVE_BESIDE, .want = nr,
		.max_blocks = pool->compact_max_blocks,
	};
	struct goal goal = { .pool = pool, .ask = &ask, .go = true };
	struct steps *steps = steps_of(pool);
	bool moves;

	kv_assert_held(&pool->compact_lock);
	if (!steps || pool->transit.nr_flights || !nr || nr > pool->nr_usable)
		return;
	if (steps->nr_skip) {
		steps->nr_skip--;
		return;
	}
	moves = !flights_start_goal(pool, &goal) && goal.plan.nr_moves;
	goal_exit(&goal);
	if (moves) {
		steps->nr_useless = 0;
		return;
	}
	steps->nr_useless = min(steps->nr_useless + 1, MOST_USELESS);
	steps->nr_skip = BIT(steps->nr_useless) - 1;
}
