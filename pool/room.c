// SPDX-License-Identifier: Apache-2.0
/*
 * Making room: what an allocation does when the zone says no.
 *
 * In this order: what others keep aside, what its tenant's limits want evicted, exactly the
 * shortfall of cached blocks, then a run: by dropping what lies in its way where that is cheaper
 * than moving it, else by moving. What a step would cost is weighed by cost.c. The hard part is
 * that failing must leave no trace, the order of eviction included. So victims keep their
 * entries and keys until the allocation has succeeded; only their blocks go to the zone, and
 * come back from there if it fails. The gate is closed while the lock is dropped for the copies,
 * so nobody sees, or takes, what is under way.
 *
 * All of it runs with compact_lock held: one caller at a time makes room.
 */

#include "cost.h"
#include "local.h"

void victim_left(struct kvmm_pool *pool, u32 index)
{
	u32 block = entry_block(entry_at(pool, index));

	if (pool->owner[block] == OWNER_FREE)
		pool->owner[block] = make_owner(OWNER_LEFT, index);
	else if (unlikely(pool->nr_leaving))
		elastic_victim_left(pool, block, index);
}

/* Whoever takes a block in between names himself as its owner. */
bool victim_return(struct kvmm_pool *pool, u32 index)
{
	u32 block = entry_block(entry_at(pool, index));

	if (unlikely(pool->nr_leaving))
		elastic_victim_return(pool, block, index);
	if (pool->owner[block] != make_owner(OWNER_LEFT, index) ||
	    kvmm_zone_alloc_at(pool->zone, block, 1))
		return false;
	owner_fill(pool, block, 1, make_owner(OWNER_ENTRY, index));
	return true;
}

void victims_free_blocks(struct kvmm_pool *pool, const struct victims *victims, u32 nr)
{
	for (u32 at = victims->newest, i = 0; i < nr; i++, at = entry_at(pool, at)->chain) {
		block_free(pool, entry_block(entry_at(pool, at)));
		victim_left(pool, at);
	}
}

void victims_join(struct kvmm_pool *pool, struct victims *victims, const struct victims *more)
{
	u32 at = more->newest;

	if (!more->nr)
		return;
	if (!victims->nr)
		victims->before = more->before;
	victims->stamp = more->stamp;
	for (u32 i = 1; i < more->nr; i++)
		at = entry_at(pool, at)->chain;
	WRITE_ONCE(entry_at(pool, at)->chain, victims->newest);
	victims->newest = more->newest;
	victims->nr += more->nr;
}

static bool may_evict(const struct kvmm_pool *pool, const struct room *room)
{
	return pool->caches && !(room->flags & KVMM_ALLOC_NO_EVICT) && likely(!pool->blind);
}

static bool evict_more(struct kvmm_pool *pool, const struct room *room, u32 nr,
		       struct victims *victims)
{
	struct victims more = NO_VICTIMS;
	bool enough;

	if (!pool->caches || unlikely(pool->blind))	/* there is nothing, or it does not become free */
		return false;
	order_enter(&pool->order);
	quota_begin(pool->order.quotas, room->account, QUOTA_FOR_WHO);
	enough = may_evict(pool, room) ? victims_pick(pool, nr, &more) :
					 victims_pick_parked(pool, nr, &more);
	if (!enough)
		victims_unpick(pool, &more);
	quota_end(pool->order.quotas);
	order_leave(&pool->order);
	victims_free_blocks(pool, &more, more.nr);
	victims_join(pool, victims, &more);
	return enough;
}

/* Something may have been moved to its place, and on again; then it is gone after all. */
static bool victim_restore(struct kvmm_pool *pool, u32 index, bool late)
{
	if (!victim_return(pool, index))
		return false;
	if (late)
		order_unpick_late(&pool->order, index);
	else
		order_unpick(&pool->order, index);
	return true;
}

/* The order's lock held. */
static void end_victims(struct kvmm_pool *pool, struct victims *victims, bool restore,
			struct room *room)
{
	bool lost = false;
	u32 nr = 0;

	if (restore)
		pool->order.mark = victims->before;
	for (; victims->nr; victims->nr--) {
		u32 index = victims->newest;

		victims->newest = entry_at(pool, index)->chain;
		if (restore && victim_restore(pool, index, lost))
			continue;
		lost = true;	/* picks are not undone one by one any more */
		nr += entry_forget(pool, index);
		entry_free(pool, entry_handle(pool, index));
	}
	count_evictions(pool, nr);
	room->evicted += nr;	/* of all tries of one that waits */
}

void victims_end(struct kvmm_pool *pool, struct victims *victims, bool restore,
		 struct room *room)
{
	if (!victims->nr)
		return;
	order_enter(&pool->order);
	end_victims(pool, victims, restore, room);
	order_leave(&pool->order);
}

/* Those that are not in their last generation: they can be used again. */
static u32 nr_entries_of(const struct kvmm_pool *pool, const struct victims *victims)
{
	u32 nr = 0, at = victims->newest;

	for (u32 i = 0; i < victims->nr; i++, at = entry_at(pool, at)->chain)
		nr += entry_handle(pool, at).gen != pool->entries.gen_last;
	return nr;
}

int room_take_entries(struct kvmm_pool *pool, struct room *room, struct kv_handle *handles)
{
	if (likely(!kv_entries_take(&pool->entries, room->nr, handles)))
		return 0;
	if (!room->victims ||
	    pool->entries.nr_free + nr_entries_of(pool, room->victims) < room->nr)
		return -ENOSPC;
	end_victims(pool, room->victims, false, room);
	return kv_entries_take(&pool->entries, room->nr, handles);
}

/* What a step needs to know: how many blocks must be free, so that what has to stay stays. */
struct effort {
	struct room	*room;
	struct victims	victims;
	u64		want;
	u32		nr_free;
};

void victims_still_left(struct kvmm_pool *pool, const struct victims *victims)
{
	u32 at = victims->newest;

	for (u32 i = 0; i < victims->nr; i++, at = entry_at(pool, at)->chain)
		if (!kv_word_is_lent(READ_ONCE(entry_at(pool, at)->word)))
			victim_left(pool, at);
}

static int try_to_take(struct kvmm_pool *pool, struct effort *e)
{
	int err = e->room->take(pool, e->room);

	if (err)
		victims_still_left(pool, &e->victims);
	return err;
}

/* Done, and did it help? */
static int take_after(struct kvmm_pool *pool, struct effort *e, enum kvmm_step step, u32 nr)
{
	int err = try_to_take(pool, e);

	step_count(&pool->door, step, nr, !err);
	return err;
}

/* Free blocks that threads keep aside: it costs nobody's time. */
static int drain_and_take(struct kvmm_pool *pool, struct effort *e)
{
	u32 nr = pool_drain_local(pool);

	return take_after(pool, e, KVMM_STEP_DRAIN, nr);	/* somebody may have freed some, too */
}

/* There are enough, but for those that are reserved softly: they are needed in the zone. */
static int steal_and_take(struct kvmm_pool *pool, struct effort *e, u32 nr_evicted)
{
	u32 nr_free = kv_zone_nr_free(pool->zone), nr = 0;

	if (nr_free < e->room->nr)
		nr = pool_steal_reserved(pool, e->room->nr - nr_free);
	if (!nr && !nr_evicted)
		return -ENOSPC;
	if (!nr_evicted)
		return take_after(pool, e, KVMM_STEP_STEAL, nr);
	step_count(&pool->door, KVMM_STEP_STEAL, nr, false);
	return take_after(pool, e, KVMM_STEP_EVICT, nr_evicted);
}

/*
 * Free exactly so many cached blocks as are missing, if there are so many; or, where nothing may be
 * evicted, free blocks that the policy has. What lay where memory is going has gone there with it, and
 * others make up for that.
 */
static int evict_shortfall(struct kvmm_pool *pool, struct effort *e)
{
	u32 shortfall = e->want - e->nr_free, nr_free = e->nr_free;

	if (may_evict(pool, e->room) &&
	    cost_says_wait(pool, e->room, shortfall, shortfall * pool->door.costs.drop_block_ns)) {
		pool->door.skipped[KVMM_STEP_EVICT]++;
		return -ENOSPC;
	}
	for (; nr_free < e->want; nr_free = pool_nr_free(pool))
		if (!evict_more(pool, e->room, e->want - nr_free, &e->victims))
			return -ENOSPC;
	return 0;
}

/* Cached blocks in the way of the cheapest run, if losing them costs less than moving them. */
static int drop_window(struct kvmm_pool *pool, struct effort *e)
{
	struct cost_window window;
	u32 nr = e->victims.nr;

	if (!may_evict(pool, e->room) || !cost_prefers_drop(pool, e->room, &window))
		return -ENOSPC;
	cost_drop(pool, &window, &e->victims);
	return take_after(pool, e, KVMM_STEP_DROP, e->victims.nr - nr);
}

/* Places that something has been moved to are not what they were, even if it is moved on. */
static void victims_overrun(struct kvmm_pool *pool, const struct victims *victims)
{
	u32 at = victims->newest;

	for (u32 i = 0; i < victims->nr; i++, at = entry_at(pool, at)->chain) {
		u32 owner = pool->owner[entry_block(entry_at(pool, at))];

		if (owner != make_owner(OWNER_LEFT, at) && owner != make_owner(OWNER_LEFT_AWAY, at))
			claimed_step(pool, at, kv_edge_lose);
	}
}

static int compact(struct kvmm_pool *pool, struct effort *e, u32 want_run)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = want_run,
				     .max_blocks = pool->compact_max_blocks };
	u32 max_runs = want_run ? 1 : e->room->max_runs;
	int err;

	if (useless_again(pool, e->room->nr, max_runs)) {
		pool->door.skipped[KVMM_STEP_COMPACT]++;
		return -ENOSPC;
	}
	err = pool_compact(pool, &goal, e->room);
	if (err == -ENOSPC)
		useless_note(pool, e->room->nr, max_runs);
	e->room->moved += goal.moved;
	e->room->barred |= err == -EBUSY;
	if (!goal.moved && err != -EIO)
		victims_still_left(pool, &e->victims);
	victims_overrun(pool, &e->victims);
	if (!err)
		return take_after(pool, e, KVMM_STEP_COMPACT, 1);
	kv_count(KV_EV_COMPACT_FAIL);
	return err == -EIO || err == -ENOMEM ? err : -ENOSPC;
}

/*
 * Moving is for nothing where the engine may not take the run that it makes, or no old place becomes
 * free. If what is pinned leaves no place for one run, there may still be enough in a few, once all
 * lies together.
 */
static int compact_and_take(struct kvmm_pool *pool, struct effort *e)
{
	int err;

	if (e->room->flags & KVMM_ALLOC_NO_COMPACT || !kv_zone_takes_any_run(pool->zone) ||
	    unlikely(pool->blind))
		return -ENOSPC;
	if (e->room->patient &&
	    cost_says_wait(pool, e->room, e->room->nr, cost_of_run(pool, e->room->nr))) {
		pool->door.skipped[KVMM_STEP_COMPACT]++;
		return -ENOSPC;
	}
	err = compact(pool, e, e->room->nr);
	if (err != -ENOSPC || !cost_packing_helps(pool, e->room))
		return err;
	return compact(pool, e, 0);
}

/* Who waits has not failed yet. */
static int fail(struct kvmm_pool *pool, const struct effort *e)
{
	if (e->room->ask.waits)
		return -ENOSPC;
	if (e->nr_free < e->want)
		pool->count.fail_nospc++;
	else
		pool->count.fail_frag++;
	return -ENOSPC;
}

/* Refused for now: perhaps because its tenant has to give something up first. */
static int squeeze_and_take(struct kvmm_pool *pool, struct effort *e)
{
	u32 nr = e->victims.nr;
	int err = quota_squeeze(pool, e->room, &e->victims);

	return err ? err : take_after(pool, e, KVMM_STEP_EVICT, e->victims.nr - nr);
}

static int make_room(struct kvmm_pool *pool, struct effort *e)
{
	struct room *room = e->room;
	u32 keep, shortfall = 0;
	int err;

	err = drain_and_take(pool, e);
	if (err == -ENOSPC && unlikely(pool->order.quotas != NULL))
		err = squeeze_and_take(pool, e);
	if (err != -ENOSPC)
		return err;
	keep = door_keep(pool, &room->ask);
	e->nr_free = pool_nr_free(pool);
	e->want = (u64)room->nr + keep;
	if (keep == DOOR_SHUT)
		return fail(pool, e);
	if (e->nr_free < e->want) {
		shortfall = e->want - e->nr_free;
		if (evict_shortfall(pool, e))
			return fail(pool, e);
		e->nr_free = e->want;
	}
	err = steal_and_take(pool, e, shortfall);
	if (err != -ENOSPC)
		return err;
	fail(pool, e);
	err = drop_window(pool, e);
	if (err == -ENOSPC)
		err = compact_and_take(pool, e);
	if (err != -ENOSPC || !room->scatters)
		return err;
	room->scatter = true;
	return try_to_take(pool, e);
}

static int try_harder(struct kvmm_pool *pool, struct effort *e)
{
	int err;

	e->room->victims = &e->victims;
	err = make_room(pool, e);
	e->room->victims = NULL;
	return err;
}

int room_try(struct kvmm_pool *pool, struct room *room, struct victims *victims)
{
	struct effort e = { .room = room, .victims = *victims };
	u32 posted = pool->posted;
	int err;

	err = try_harder(pool, &e);
	pool->posted = posted;
	*victims = e.victims;
	return err;
}

int pool_get_room(struct kvmm_pool *pool, struct room *room)
{
	struct victims victims = NO_VICTIMS;
	u64 since_ns = kv_clock_ns(), target;
	u32 posted;
	int err;

	pressure_change(&pool->door.pressure, 0, 1);
	kv_lock(&pool->compact_lock);
	flights_poll(pool);
	target = elastic_relent(pool, room);
	err = pool_enter(pool);
	if (!err) {
		posted = pool->posted;
		err = (room->try ? room->try : room_try)(pool, room, &victims);
		/* A copy that failed may have gone half-way, to where a victim was. */
		victims_end(pool, &victims, err && err != -EIO, room);
		pool->posted = posted;
		pool_leave(pool);
	}
	if (unlikely(err))
		elastic_unrelent(pool, target);
	if (err == -ENOSPC && room->barred)
		flights_make_run(pool, room->nr);
	kv_unlock(&pool->compact_lock);
	pressure_over(&pool->door.pressure, DELAY_ROOM, since_ns);
	cache_after(pool);
	return err;
}

/* ---- without waiting ---- */

/* Is there anything that would help if the caller could wait? */
static int what_would_help(struct kvmm_pool *pool, const struct room *room)
{
	u32 keep = door_keep(pool, &room->ask);
	u64 nr = pool_nr_free(pool), want = (u64)room->nr + keep;

	if (keep == DOOR_SHUT)
		return -ENOSPC;
	if (pool->caches) {
		order_enter(&pool->order);
		nr = cache_nr_available(pool);
		order_leave(&pool->order);
	}
	return nr < want ? -ENOSPC : -EAGAIN;
}

static int unpark_and_take(struct kvmm_pool *pool, struct effort *e)
{
	u32 keep = door_keep(pool, &e->room->ask), posted = pool->posted;
	int err = -ENOSPC;

	e->nr_free = pool_nr_free(pool);
	e->want = (u64)e->room->nr + keep;
	if (keep == DOOR_SHUT || e->nr_free >= e->want)
		return -ENOSPC;
	e->room->victims = &e->victims;
	if (!evict_shortfall(pool, e))
		err = take_after(pool, e, KVMM_STEP_DRAIN, e->want - e->nr_free);
	e->room->victims = NULL;
	victims_end(pool, &e->victims, err, e->room);
	pool->posted = posted;
	return err;
}

static int take_now(struct kvmm_pool *pool, struct room *room)
{
	struct effort e = { .room = room, .victims = NO_VICTIMS };
	int err;

	if (unlikely(!pool))
		return -EINVAL;
	kv_lock(&pool->lock);
	room->flags |= KVMM_ALLOC_NO_EVICT | KVMM_ALLOC_NO_COMPACT;
	err = pool->gate & GATE_STOPPED ? -EAGAIN : gate_refusal(pool->gate);
	if (unlikely(err)) {
		pool_leave(pool);
		return err;
	}
	err = room->take(pool, room);
	if (err == -ENOSPC)
		err = drain_and_take(pool, &e);
	if (err == -ENOSPC && pool_nr_free(pool) >= (u64)room->nr + door_keep(pool, &room->ask))
		err = steal_and_take(pool, &e, 0);
	if (err == -ENOSPC && unlikely(pool_nr_parked(pool)))
		err = unpark_and_take(pool, &e);
	if (err == -ENOSPC)
		err = what_would_help(pool, room);
	pool->count.fail_nospc += err == -ENOSPC;
	pool_leave(pool);
	return err;
}

int pool_take_room(struct kvmm_pool *pool, struct room *room)
{
	int err;

	if (unlikely(room->flags & KVMM_ALLOC_NOWAIT))
		return take_now(pool, room);
	err = pool_enter(pool);
	if (unlikely(err))
		return err;
	err = room->take(pool, room);
	pool_leave(pool);
	return unlikely(err == -ENOSPC) ? pool_get_room(pool, room) : err;
}
