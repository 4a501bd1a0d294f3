// SPDX-License-Identifier: Apache-2.0
/*
 * The slow path of a request when there are no blocks for it as things are.
 *
 * One loop over a table of reclaimers, and the request is tried again after each: drain, evict,
 * drop, compact; then it waits for its turn (wait.c). Each try steals rooms of ranges that grow if
 * that suffices (pool/reserve.c). The price of a reclaimer is weighed by cost.c. The hard part is
 * that failing must leave no trace, the order of eviction included. So victims keep their entries
 * and keys until the request has succeeded; only their blocks go to the zone, and come back from
 * there if it fails. The gate is closed while the lock is dropped for the copies, so no other
 * thread sees, or takes, blocks under way.
 *
 * All of it runs with compact_lock held: one thread at a time makes room. A request that takes any
 * blocks in place evicts under ->lock alone, in its ->take(), and needs the table for memory that a
 * balloon has only.
 */
#include <kv/env.h>
#include <move/cost.h>
#include <move/move.h>
#include <move/step.h>
#include <move/useless.h>
#include <pool/local.h>

static bool evict_more(struct kvmm_pool *pool, struct alloc_ctx *ctx, u32 nr)
{
	struct victims more = NO_VICTIMS;
	bool enough;

	kv_assert_held(&pool->lock);
	order_enter(&pool->order);
	quota_begin(&pool->order, ctx->account, QUOTA_FOR_ONE);
	enough = alloc_may_evict(pool, ctx) ? victims_pick(pool, nr, &more) :
					      victims_pick_parked(pool, nr, &more);
	if (!enough)
		victims_unpick(pool, &more);
	quota_end(&pool->order);
	order_leave(&pool->order);
	victims_free_blocks(pool, &more, more.nr);
	victims_join(pool, &ctx->victims, &more);
	return enough;
}

static int try_to_take(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	int err = ctx->take(pool, ctx);

	kv_assert_held(&pool->lock);
	if (err)
		victims_still_left(pool, &ctx->victims);
	return err;
}

/* ---- reclaimers ---- */

/* Free blocks that are missing; KV_NONE: it is not the turn of this request. */
static u32 nr_missing(struct kvmm_pool *pool, const struct alloc_ctx *ctx)
{
	u32 keep = door_keep(pool, ctx), nr_free = pool_nr_free(pool);
	u64 want = (u64)ctx->nr + keep;

	kv_assert_held(&pool->lock);
	if (keep == DOOR_SHUT)
		return KV_NONE;
	return want > nr_free ? want - nr_free : 0;
}

/* Free blocks that threads keep aside: it costs no thread's time. */
static int drain(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	kv_assert_held(&pool->lock);
	return pool_drain_local(pool);
}

static bool is_limited(struct kvmm_pool *pool, const struct alloc_ctx *ctx)
{
	kv_assert_held(&pool->lock);
	return pool->order.quotas && !ctx->squeezed;
}

/* Refused for now: perhaps because its tenant has to give something up first. */
static int squeeze(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	u32 nr = ctx->victims.nr;
	int err = quota_squeeze(pool, ctx);

	kv_assert_held(&pool->lock);
	return err ? err : (int)(ctx->victims.nr - nr);
}

/* Blocks of a blind device are not free once they are evicted. */
static bool can_evict(struct kvmm_pool *pool, const struct alloc_ctx *ctx)
{
	u32 nr = nr_missing(pool, ctx);

	kv_assert_held(&pool->lock);
	return nr && nr != KV_NONE && pool->caches && likely(!pool->blind);
}

static u64 cost_of_evicting(struct kvmm_pool *pool, const struct alloc_ctx *ctx, u32 *nr)
{
	kv_assert_held(&pool->lock);
	*nr = nr_missing(pool, ctx);
	return alloc_may_evict(pool, ctx) ? *nr * pool->door.costs.drop_block_ns : 0;
}

/*
 * Free exactly so many cached blocks as are missing, if there are so many; or, where nothing may be
 * evicted, free blocks that the policy has. Blocks where memory is going have gone there with it,
 * and others make up for that.
 */
static int evict(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	u32 before = ctx->victims.nr;

	kv_assert_held(&pool->lock);
	for (u32 nr; (nr = nr_missing(pool, ctx));)
		if (!evict_more(pool, ctx, nr))
			return -ENOSPC;
	return ctx->victims.nr - before;
}

/* From here on there are enough, but not together. */
static bool can_drop(struct kvmm_pool *pool, const struct alloc_ctx *ctx)
{
	kv_assert_held(&pool->lock);
	return !nr_missing(pool, ctx) && alloc_may_evict(pool, ctx);
}

/* Cached blocks in the way of the cheapest run, if losing them costs less than moving them. */
static int drop(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	struct cost_window window;
	u32 nr = ctx->victims.nr;

	kv_assert_held(&pool->lock);
	if (!cost_prefers_drop(pool, ctx, &window))
		return -ENOSPC;
	cost_drop(pool, &window, &ctx->victims);
	return ctx->victims.nr - nr;
}

/* In vain where the engine may not take the run that it makes, or no old place becomes free. */
static bool flags_let_move(const struct kvmm_pool *pool, u32 flags)
{
	kv_assert_held(&pool->lock);
	return !(flags & KVMM_ALLOC_NO_COMPACT) && kv_zone_takes_any_run(pool->zone) &&
	       pool->parts.planner && !pool->rounds && likely(!pool->blind);
}

static bool can_compact(struct kvmm_pool *pool, const struct alloc_ctx *ctx)
{
	kv_assert_held(&pool->lock);
	return flags_let_move(pool, ctx->flags) && !nr_missing(pool, ctx);
}

static u64 cost_of_moving(struct kvmm_pool *pool, const struct alloc_ctx *ctx, u32 *nr)
{
	kv_assert_held(&pool->lock);
	*nr = ctx->nr;
	return cost_of_run(pool, ctx->nr);
}

/* Places that something has been moved to are not as they were, even if it is moved on. */
static void victims_overrun(struct kvmm_pool *pool, const struct victims *victims)
{
	kv_assert_held(&pool->lock);
	for_each_victim(pool, victims, at, i) {
		u32 owner = pool->owner[entry_block(entry_at(pool, at))];

		if (owner != make_owner(OWNER_LEFT, at) && owner != make_owner(OWNER_LEFT_AWAY, at))
			claimed_step(pool, at, kv_edge_lose);
	}
}

/* Ranges that grow stay where they are: their owners look for the new blocks only. */
static void pin_growing(struct kvmm_pool *pool, const struct alloc_ctx *ctx, int sign)
{
	kv_assert_held(&pool->lock);
	for (u32 i = 0; i < ctx->nr_grows; i++) {
		struct slot *slot;

		if (slot_find(pool, ctx->grows[i], &slot))
			continue;
		slot->pins += sign;
		pool->count.range_pins += sign;
	}
}

/* By clearing one run; with @runs by packing, so that it is in so many. @most: 0, or blocks. */
static int compact_to(struct kvmm_pool *pool, struct alloc_ctx *ctx, u32 runs, enum where where,
		      u32 most)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = ctx->nr,
				     .max_blocks = most };
	int err;

	kv_assert_held(&pool->compact_lock);
	kv_assert_held(&pool->lock);
	pin_growing(pool, ctx, 1);	/* the gate keeps them here until they are let go */
	err = pool_compact(pool, &goal, where, runs);
	pin_growing(pool, ctx, -1);
	ctx->moved += goal.moved;
	ctx->barred |= err == -EBUSY;
	if (!goal.moved && err != -EIO)
		victims_still_left(pool, &ctx->victims);
	victims_overrun(pool, &ctx->victims);
	if (!err)
		return 1;
	kv_count(KV_EV_COMPACT_FAIL);
	return err == -EIO || err == -ENOMEM ? err : -ENOSPC;
}

/* Where pinned blocks leave no place for one run, a few may do; or it takes more moves. */
static int compact_within(struct kvmm_pool *pool, struct alloc_ctx *ctx, enum where where,
			  u32 most)
{
	int ret = compact_to(pool, ctx, 0, where, most);

	kv_assert_held(&pool->lock);
	if (ret == -ENOSPC && !ctx->barred)
		ret = compact_to(pool, ctx, max(ctx->max_runs, 1u), where, most);
	return ret;
}

/* Cached blocks to be lost rather than to move many: the more is free, the less has to move. */
static u32 nr_to_spare(const struct alloc_ctx *ctx)
{
	return ctx->spare ? 2 * ctx->spare : ctx->nr;
}

/* So many blocks may move for the price of these; 0: as many as it takes. */
static u32 nr_worth_moving(struct kvmm_pool *pool, const struct alloc_ctx *ctx)
{
	const struct kvmm_alloc_costs *costs = &pool->door.costs;
	u64 nr = max(nr_to_spare(ctx) * costs->drop_block_ns / costs->copy_block_ns, 1ull);

	kv_assert_held(&pool->lock);
	if (!pool->caches || ctx->patient || !alloc_may_evict(pool, ctx) || nr >= pool->nr_blocks)
		return 0;
	return !pool->compact_max_blocks || nr < pool->compact_max_blocks ? nr : 0;
}

/* By moving what is worth it; else by evicting, and once more; in the end at any cost. */
static int compact(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	u32 max_runs = max(ctx->max_runs, 1u), moved = ctx->moved, most;
	int ret = -ENOSPC;

	kv_assert_held(&pool->compact_lock);
	kv_assert_held(&pool->lock);
	if (!ctx->spare && useless_again(pool, ctx->nr, max_runs)) {
		pool->door.skipped[KVMM_STEP_COMPACT]++;
		return -ENOSPC;
	}
	if (!ctx->spare)
		ctx->before = useless_stamp(pool);
	ctx->barred = false;
	most = nr_worth_moving(pool, ctx);
	if (most)
		ret = compact_within(pool, ctx, PART_ONLY, most);
	if (ret == -ENOSPC && most && !ctx->barred && evict_more(pool, ctx, nr_to_spare(ctx)))
		return ctx->spare = nr_to_spare(ctx);
	if (ret == -ENOSPC && !ctx->barred)
		ret = compact_within(pool, ctx, PART_FIRST, pool->compact_max_blocks);
	/* Others may move what has to stay for this one, or for a step. */
	if ((ret > 0 || ret == -ENOSPC) && ctx->moved == moved && !ctx->nr_grows && !ctx->barred)
		useless_note(pool, ctx->nr, max_runs, ctx->before);
	return ret;
}

/**
 * struct reclaimer - one way to make room for a request
 * @step: the counter of it
 * @in_place: it takes no entry, loses no content and keeps both locks: alloc_fits() uses it, too,
 *	for requests in place, blocks of gangs, and questions of groups
 * @helps: could it help as things are? NULL: always
 * @cost: NULL, or the price, in ns, and how many blocks a patient request would wait for
 * @scan: do it: how many blocks became free, and the request is tried again; -ENOSPC: it was no
 *	help; another error is the answer
 */
struct reclaimer {
	enum kvmm_step step;
	bool in_place;
	bool (*helps)(struct kvmm_pool *pool, const struct alloc_ctx *ctx);
	u64 (*cost)(struct kvmm_pool *pool, const struct alloc_ctx *ctx, u32 *nr);
	int (*scan)(struct kvmm_pool *pool, struct alloc_ctx *ctx);
};

/* Cheapest first. Each request meets each row that can help it: here, or in alloc_fits(). */
static const struct reclaimer reclaimers[] = {
	{ KVMM_STEP_DRAIN,   true,  NULL,	 NULL,		   drain },
	{ KVMM_STEP_EVICT,   false, is_limited,	 NULL,		   squeeze },
	{ KVMM_STEP_EVICT,   false, can_evict,	 cost_of_evicting, evict },
	{ KVMM_STEP_DROP,    false, can_drop,	 NULL,		   drop },
	{ KVMM_STEP_COMPACT, false, can_compact, cost_of_moving,   compact },
};

static bool is_in_place(const struct alloc_ctx *ctx)
{
	return ctx->in_place && !ctx->patient;
}

static int use(struct kvmm_pool *pool, struct alloc_ctx *ctx, const struct reclaimer *r)
{
	u64 cost_ns;
	u32 nr_wait, spare = ctx->spare;
	int err, nr;

	kv_assert_held(&pool->lock);
	if (r->helps && !r->helps(pool, ctx))
		return -ENOSPC;
	if (unlikely(ctx->patient) && r->cost) {
		cost_ns = r->cost(pool, ctx, &nr_wait);
		if (cost_says_wait(pool, ctx, nr_wait, cost_ns)) {
			pool->door.skipped[r->step]++;
			return -ENOSPC;
		}
	}
	nr = r->scan(pool, ctx);
	if (nr < 0)
		return nr;
	err = try_to_take(pool, ctx);
	step_count(&pool->door, ctx->spare == spare ? r->step : KVMM_STEP_EVICT, nr, !err);
	return err;
}

int alloc_reclaim(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	int err = -ENOSPC;

	kv_assert_held(&pool->lock);
	if (is_in_place(ctx))	/* its ->take() walks the table */
		return try_to_take(pool, ctx);
	for (u32 i = 0, spare; i < ARRAY_SIZE(reclaimers) && err == -ENOSPC; i++) {
		if (reclaimers[i].step == KVMM_STEP_DROP)
			ctx->scattered = !nr_missing(pool, ctx);
		do {
			spare = ctx->spare;
			err = use(pool, ctx, &reclaimers[i]);
		} while (err == -ENOSPC && ctx->spare != spare);
	}
	if (err != -ENOSPC || !ctx->scatters || !ctx->scattered)
		return err;
	ctx->scatter = true;
	return try_to_take(pool, ctx);
}

/* ---- requests in place, and questions ---- */

/*
 * Hits that are counted as available. Not those that are about to enter the order: the thread that
 * put them last has not noted it yet.
 */
static u32 nr_in_order(struct kvmm_pool *pool, const struct alloc_ctx *ctx)
{
	u32 nr = 0;

	kv_assert_held(&pool->order.lock);
	for (u32 i = 0; i < ctx->nr_hits && nr < ctx->nr_idle; i++)
		nr += order_has(&pool->order, alloc_hit(ctx, i));
	return nr;
}

static __always_inline int fits_now(struct kvmm_pool *pool, struct alloc_ctx *ctx, u32 keep)
{
	u64 want = (u64)ctx->nr + keep;
	u32 nr_free = pool_nr_free(pool);

	kv_assert_held(&pool->order.lock);
	ctx->nr_missing = want - min(want, (u64)nr_free);
	want += ctx->reserve;
	if (unlikely(pool->order.quotas != NULL))
		return quota_check_fit(pool, ctx, keep);
	if (want <= nr_free || want + ctx->nr_idle <= (u64)nr_free + order_nr(&pool->order))
		return 0;
	want += ctx->nr_hits ? nr_in_order(pool, ctx) : ctx->nr_idle;
	return want <= cache_nr_available(pool) ? 0 : -ENOSPC;
}

int alloc_fits(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	int err, nr;
	u32 keep;

	kv_assert_held(&pool->order.lock);
	if (!ctx->nr && (ctx->nr_hits || !ctx->nr_idle))
		return 0;
	keep = door_keep(pool, ctx);
	if (unlikely(keep == DOOR_SHUT))
		return -ENOSPC;
	err = fits_now(pool, ctx, keep);
	for (u32 i = 0; unlikely(err == -ENOSPC) && i < ARRAY_SIZE(reclaimers); i++) {
		const struct reclaimer *r = &reclaimers[i];

		if (!r->in_place || (r->helps && !r->helps(pool, ctx)))
			continue;
		nr = r->scan(pool, ctx);
		if (nr > 0)
			err = fits_now(pool, ctx, keep);
		step_count(&pool->door, r->step, max(nr, 0), !err);
	}
	return err;
}

int pool_fits(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	int err = cache_enter(pool);

	if (err)
		return err;
	order_enter(&pool->order);
	err = alloc_fits(pool, ctx);
	order_leave(&pool->order);
	cache_leave(pool);
	return err;
}

/* ---- the way of a request ---- */

/* Victims go for good, or back; not back where a copy failed that may have gone half-way. */
static int reclaim(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	u32 posted = pool->posted, evicted = ctx->evicted;
	int err;

	kv_assert_held(&pool->lock);
	ctx->victims = NO_VICTIMS;
	ctx->scattered = false;
	ctx->spare = 0;
	err = (ctx->reclaim ? ctx->reclaim : alloc_reclaim)(pool, ctx);
	ctx->evicted += victims_end(pool, &ctx->victims, err && err != -EIO);
	release_take_back(pool, posted, !err || ctx->evicted != evicted);
	return err;
}

static int enter_and_reclaim(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	int err = pool_enter(pool);

	kv_assert_held(&pool->compact_lock);
	if (err)
		return err;
	err = reclaim(pool, ctx);
	pool_leave(pool);
	return err;
}

/*
 * Moves that others have begun free their old places once the new ones are published. For ranges
 * that grow and would rather fail than move that is done only if they would be refused.
 * ->lock held; dropped and retaken.
 */
static int make_room(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	bool stays = ctx->nr_grows && ctx->flags & KVMM_ALLOC_NO_COMPACT;
	u64 since_ns = kv_clock_ns(), target;
	int err;

	kv_assert_held(&pool->lock);
	if (is_in_place(ctx) && !(ctx->prio && pool->elastic))
		return -ENOSPC;
	pool_leave(pool);
	pressure_change(&pool->door.pressure, 0, 1);
	kv_lock(&pool->compact_lock);
	(stays ? flights_land : flights_poll)(pool);
	target = elastic_relent(pool, ctx);
	err = enter_and_reclaim(pool, ctx);
	if (err == -ENOSPC && stays && pool->transit.nr_flights) {
		flights_poll(pool);
		ctx->squeezed = false;	/* what its tenant gave up has been given back */
		err = enter_and_reclaim(pool, ctx);
	}
	if (unlikely(err))
		elastic_unrelent(pool, target);
	if (err == -ENOSPC && ctx->barred)
		flights_make_run(pool, ctx->nr);
	kv_unlock(&pool->compact_lock);
	pressure_over(&pool->door.pressure, DELAY_ROOM, since_ns);
	cache_after(pool);
	kv_lock(&pool->lock);
	return err;
}

/* Would anything help if the caller could wait? All that evicts and moves nothing has been done. */
static int what_would_help(struct kvmm_pool *pool, const struct alloc_ctx *ctx)
{
	u32 keep = door_keep(pool, ctx);
	u64 nr_free = pool_nr_free(pool), nr = nr_free + pool_nr_parked(pool);
	u32 nr_landing = pool->blind ? 0 : pool->transit.nr_dark;
	bool evict = flags_let_evict(pool, ctx->asked);

	kv_assert_held(&pool->lock);
	if (keep == DOOR_SHUT)
		return -ENOSPC;
	if (evict) {
		order_enter(&pool->order);
		nr = pool->order.quotas ? quota_nr_available(pool, ctx->tenant) :
					  nr_free + order_nr(&pool->order);
		order_leave(&pool->order);
	}
	if ((!evict || nr == nr_free) && !nr_landing && !flags_let_move(pool, ctx->asked))
		return -ENOSPC;
	return nr + nr_landing < (u64)ctx->nr + keep ? -ENOSPC : -EAGAIN;
}

int alloc_try(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	int err;

	kv_assert_held(&pool->lock);
	pool_leave(pool);
	ctx->squeezed = false;
	if (ctx->in_place)	/* make_room() does not look for it */
		steps_settle(pool);
	err = pool_enter(pool);
	if (err) {
		kv_lock(&pool->lock);
		return err;
	}
	err = ctx->take(pool, ctx);
	return err == -ENOSPC ? make_room(pool, ctx) : err;
}

/* The one place where an answer is counted; see struct kvmm_pool_stat. */
void alloc_count(struct kvmm_pool *pool, const struct alloc_ctx *ctx, int err)
{
	kv_assert_held(&pool->lock);
	if (ctx->scattered && (!err || err == -ENOSPC))
		pool->count.fail_frag++;
	else if (err == -ENOSPC || err == -ETIMEDOUT)
		pool->count.fail_nospc++;
}

/* ->take() has said -ENOSPC. ->lock held; it is not on return. */
noinline int alloc_slow(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	int err;

	kv_assert_held(&pool->lock);
	if (ctx->flags & KVMM_ALLOC_NOWAIT) {
		err = reclaim(pool, ctx);
		if (err == -ENOSPC)
			err = what_would_help(pool, ctx);
	} else {
		err = make_room(pool, ctx);
		if (err == -ENOSPC && ctx->deadline_ns)
			err = queue_wait(pool, ctx);
	}
	alloc_count(pool, ctx, err);
	/* A request that waited is the last to be in a pool that goes; see queue_wait(). */
	kv_rcu_read_lock();
	pool_leave(pool);
	kv_rcu_read_unlock();
	return err;
}

int alloc_enter(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	u64 deadline_ns = ctx->deadline_ns;
	int err;

	kv_assert_not_held(&pool->lock);
	if (ctx->in_place)	/* blocks that have landed may be had */
		steps_settle(pool);
	if (likely(!(ctx->flags & KVMM_ALLOC_NOWAIT))) {
		err = pool_enter(pool);
	} else {
		ctx->asked = ctx->flags;
		ctx->flags |= KVMM_ALLOC_NO_EVICT | KVMM_ALLOC_NO_COMPACT;
		kv_lock(&pool->lock);
		err = pool->gate & GATE_STOPPED ? -EAGAIN : gate_refusal(pool->gate);
		if (unlikely(err))
			pool_leave(pool);
	}
	if (unlikely(err))
		return err;
	ctx->patient = deadline_ns && pool->door.costs.wait_block_ns;
	err = ctx->take(pool, ctx);
	if (likely(err != -ENOSPC))
		pool_leave(pool);
	else
		err = alloc_slow(pool, ctx);
	/* A ticket in the queue may have been polled, and freed, by another thread. */
	if (unlikely(err != -EINPROGRESS && ctx->reaps))
		kv_rcu_reap();
	if (likely(!err || !deadline_ns))	/* else the pool may be gone */
		cache_after(pool);
	return err;
}

/* ---- reports ---- */

void alloc_report_begin(struct kvmm_pool *pool, struct alloc_ctx *ctx, u32 nr)
{
	if (likely(!ctx->report))
		return;
	ctx->begin_ns = kv_clock_ns();
	ctx->fragmentation_ppm = nr ? max(kv_zone_unusable(pool->zone, nr), 0) : 0;
}

void alloc_report_end(const struct alloc_ctx *ctx, int err)
{
	struct kvmm_alloc_report full;

	if (likely(!ctx->report) || (err && err != -ENOSPC && err != -EAGAIN &&
				     err != -ETIMEDOUT && err != -ECANCELED))
		return;
	full = (struct kvmm_alloc_report){
		.time_ns = kv_ns_since(ctx->begin_ns), .evicted = ctx->evicted,
		.moved = ctx->moved, .fragmentation_ppm = ctx->fragmentation_ppm,
		.waited_ns = ctx->waited_ns,
	};
	memcpy(ctx->report, &full, ctx->report_bytes);
}
