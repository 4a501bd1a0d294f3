// SPDX-License-Identifier: Apache-2.0
/*
 * Background compaction: looks at the index now and then, and starts moves above the threshold; and
 * checksums, if they are wanted, which have times of their own.
 *
 * Between two looks nothing is done but reading the clock. Once above the threshold it goes on at
 * each tick until the index is down to half of it, so that it does not stop and start around one
 * value. When no allowed moves are found, the next 2, 4, ... 64 looks are left out: the runs in the
 * way do not go away so fast.
 */
#include <kv/env.h>
#include <kv/mem.h>
#include <kv/sys.h>
#include <kvmm/compact.h>
#include <kvmm/ext/moves.h>
#include <pool/determ.h>

#include "background.h"
#include "step.h"
#include "verify.h"

#define NS_PER_MS	1000000ull
#define MOST_DEFERRED	6u
/* A thread looks this often while there is work; */
#define BUSY_NS		NS_PER_MS
/* and so often whether there are blocks without checksums. */
#define VERIFY_NS	(10 * NS_PER_MS)

/* ---- requests ---- */

void asked_age(struct asked *asked)
{
	asked->sum = 0;
	for (u32 i = 0; i < NR_ASKED; i++) {
		asked->nr[i] /= 2;
		asked->sum += asked->nr[i];
	}
}

u32 asked_median(const struct asked *asked)
{
	u32 below = 0;

	for (u32 i = 0; i < NR_ASKED && asked->sum; i++) {
		below += asked->nr[i];
		if (2 * below >= asked->sum)	/* the longest length of the slot */
			return i <= ASKED_EXACT ? i : ASKED_EXACT << (i - ASKED_EXACT);
	}
	return 0;
}

/* ---- looking ---- */

static u32 length_to_look_at(struct kvmm_pool *pool, const struct kvmm_background *how)
{
	u32 nr;

	if (how->request_blocks)
		return how->request_blocks;
	kv_lock(&pool->lock);
	nr = asked_median(&pool->asked);
	pool_leave(pool);
	return min(nr, pool->nr_usable);
}

static void look(struct kvmm_pool *pool, struct background *back)
{
	struct kvmm_background_stat *stat = &back->stat;
	u32 threshold = back->how.threshold_pm, nr;
	struct kv_zone_stat zone;

	kv_assert_held(&back->lock);
	stat->checks++;
	nr = stat->request_blocks = length_to_look_at(pool, &back->how);
	kv_zone_get_stat(pool->zone, &zone);
	/* No free block is unusable; or no caller has asked for ranges: no index. */
	stat->score_pm = nr && zone.nr_free >= nr ?
			 max(kv_zone_unusable(pool->zone, nr), 0) / 1000 : 0;
	if (stat->is_active)
		stat->is_active = stat->score_pm > threshold / 2;
	else
		stat->is_active = stat->score_pm >= threshold;
}

static void sleep_for(struct kvmm_pool *pool, struct background *back, u64 nr_intervals)
{
	u64 ns = nr_intervals * back->how.interval_ms * NS_PER_MS;

	kv_assert_held(&back->lock);
	WRITE_ONCE(back->next_ns, pool_clock_ns(pool) + ns);
}

/* ---- moving ---- */

static void defer(struct kvmm_pool *pool, struct background *back)
{
	kv_assert_held(&back->lock);
	back->stat.useless++;
	back->stat.is_active = false;
	back->defer_shift = min(back->defer_shift + 1, MOST_DEFERRED);
	back->stat.nr_deferred = BIT(back->defer_shift);
	sleep_for(pool, back, BIT(back->defer_shift));
}

static int begin(struct kvmm_pool *pool, struct background *back, u32 goal, u32 want,
		 struct kvmm_compact_plan *plan)
{
	struct kvmm_compact_goal ask = KVMM_COMPACT_GOAL_INIT;
	struct kvmm_step_stat steps = { 0 };

	kv_assert_held(&back->lock);
	*plan = (struct kvmm_compact_plan)KVMM_COMPACT_PLAN_INIT;
	step_stat_read(pool, &steps);
	if ((back->how.flags & KVMM_BACKGROUND_IDLE_ONLY && steps.nr_open) ||
	    steps.copying_blocks + steps.limbo_blocks >= back->how.max_blocks)
		return -EBUSY;
	ask.goal = goal;
	ask.want = want;
	ask.mode = back->how.mode;
	ask.flags = KVMM_GOAL_CALM;
	ask.max_blocks = back->how.max_blocks;
	return kvmm_compact_goal_start(pool, &ask, plan);
}

/*
 * A hole where there is none yet, or a longer one: with a request's length more around it. 1, 0, or
 * an error to be reported.
 */
static int start(struct kvmm_pool *pool, struct background *back)
{
	u32 nr = back->stat.request_blocks;
	struct kvmm_compact_plan plan;
	struct kv_zone_stat zone;
	int err;

	kv_assert_held(&back->lock);
	kv_zone_get_stat(pool->zone, &zone);
	if (zone.largest >= nr)
		nr = min(zone.largest + nr, zone.nr_free);
	err = begin(pool, back, KVMM_GOAL_RUN, nr, &plan);
	if (err == -EBUSY || err == -EAGAIN) {
		back->stat.busy++;
		return 0;
	}
	if (err == -ENOSPC || (!err && !plan.nr_moves)) {
		defer(pool, back);
		return 0;
	}
	if (err)
		return err;
	back->stat.starts++;
	back->stat.nr_deferred = back->defer_shift = 0;
	return 1;
}

/* Holes are long enough: there is time for this. One plan an interval. */
static int shorten(struct kvmm_pool *pool, struct background *back)
{
	struct kvmm_compact_plan plan;
	int err = begin(pool, back, KVMM_GOAL_SHORTEN, 0, &plan);

	kv_assert_held(&back->lock);
	sleep_for(pool, back, 1);
	if (err || !plan.nr_moves)
		return err == -EBUSY || err == -EAGAIN || err == -ENOSPC ? 0 : err;
	back->stat.starts++;
	back->stat.saved_extents += plan.saved_extents;
	return 1;
}

/* ---- checksums ---- */

static bool verify_is_due(struct kvmm_pool *pool, const struct background *back, u64 now)
{
	if (likely(!READ_ONCE(back->verifies)))
		return false;
	return READ_ONCE(back->awaits) || now >= READ_ONCE(back->scrub_ns) ||
	       (now >= READ_ONCE(back->retry_ns) && verify_is_pending(pool));
}

/*
 * A batch. If it is up to the device, the next tick ends it. Blocks that are pinned, or move, are
 * asked again after 1, 2, ... 64 ms.
 */
static void verify(struct kvmm_pool *pool, struct background *back, u64 now)
{
	bool scrubs = now >= back->scrub_ns, awaits;
	u32 nr = verify_look(pool, scrubs, &awaits);

	kv_assert_held(&back->lock);
	back->stat.verified += nr;
	WRITE_ONCE(back->awaits, awaits);
	if (scrubs)
		WRITE_ONCE(back->scrub_ns, now + back->how.interval_ms * NS_PER_MS);
	if (nr || awaits) {
		back->retry_shift = 0;
	} else if (verify_is_pending(pool)) {
		WRITE_ONCE(back->retry_ns, now + (NS_PER_MS << back->retry_shift));
		back->retry_shift = min(back->retry_shift + 1, MOST_DEFERRED);
	}
}

/* ---- all work that is due ---- */

static int tick(struct kvmm_pool *pool, struct background *back)
{
	u64 now = pool_clock_ns(pool);

	kv_assert_held(&back->lock);
	if (!back->on)
		return 0;
	if (verify_is_due(pool, back, now))
		verify(pool, back, now);
	if (now < back->next_ns)
		return 0;
	kvmm_compact_poll(pool);
	look(pool, back);
	if (back->stat.is_active)
		return start(pool, back);
	if (back->how.flags & KVMM_BACKGROUND_SHORTEN)
		return shorten(pool, back);
	sleep_for(pool, back, 1);
	return 0;
}

static struct background *background_of(struct kvmm_pool *pool)
{
	/* Pairs with make_background(). */
	return smp_load_acquire(&pool->background);
}

int kvmm_background_tick(struct kvmm_pool *pool)
{
	struct background *back;
	u64 now;
	int ret;

	if (kv_inherited(pool))
		return -ECHILD;
	if (!pool)
		return -EINVAL;
	elastic_tick(pool);
	back = background_of(pool);
	if (!back || !READ_ONCE(back->on))
		return 0;
	now = pool_clock_ns(pool);
	if (now < READ_ONCE(back->next_ns) && !verify_is_due(pool, back, now))
		return 0;
	if (!kv_trylock(&back->lock))	/* another thread is at it */
		return 0;
	ret = tick(pool, back);
	kv_unlock(&back->lock);
	return ret;
}

/* ---- the thread ---- */

static void run_thread(void *arg)
{
	struct kvmm_pool *pool = arg;
	struct background *back = background_of(pool);

	/* Pairs with stop_thread(). */
	while (!smp_load_acquire(&back->stop)) {
		u64 now, next;

		kvmm_background_tick(pool);
		now = kv_clock_ns();
		next = READ_ONCE(back->next_ns);
		if (READ_ONCE(back->verifies))
			next = READ_ONCE(back->awaits) ? now : min(next, now + VERIFY_NS);
		kv_env()->wait(kv_env()->ctx, &back->stop, 0,
			       next > now + BUSY_NS ? next - now : BUSY_NS);
	}
}

/* The thread that was is no more in a child. */
static void stop_thread(struct background *back)
{
	kv_assert_held(&back->thread_lock);
	if (!back->thread)
		return;
	smp_store_release(&back->stop, 1);
	kv_env()->wake(kv_env()->ctx, &back->stop);
	if (!kv_forked())
		kv_sys()->join(kv_sys()->ctx, back->thread);
	back->thread = NULL;
	WRITE_ONCE(back->stop, 0);
}

/* ---- on and off ---- */

static int make_background(struct kvmm_pool *pool)
{
	struct background *back;

	kv_assert_held(&pool->compact_lock);
	if (background_of(pool))
		return 0;
	back = kv_alloc_lines(1, sizeof(*back));
	if (!back)
		return -ENOMEM;
	kv_lock_init(&back->lock, KV_RANK_TICK, pool->lock.id);
	kv_lock_init(&back->thread_lock, KV_RANK_CONFIG, pool->lock.id);
	smp_store_release(&pool->background, back);
	return 0;
}

static void set(struct background *back, const struct kvmm_background *how)
{
	kv_lock(&back->lock);
	if (how)
		back->how = *how;
	WRITE_ONCE(back->on, how != NULL);
	WRITE_ONCE(back->verifies, how && how->flags & KVMM_BACKGROUND_VERIFY);
	WRITE_ONCE(back->next_ns, 0);	/* it looks at once */
	WRITE_ONCE(back->scrub_ns, 0);
	WRITE_ONCE(back->retry_ns, 0);
	back->defer_shift = back->stat.nr_deferred = back->stat.is_active = 0;
	kv_unlock(&back->lock);
}

/* First the thread, which may not be had; it finds nothing to do before the rest is set. */
static int change(struct kvmm_pool *pool, struct background *back,
		  const struct kvmm_background *how)
{
	bool wanted = how && how->flags & KVMM_BACKGROUND_THREAD;
	int err = 0;

	kv_lock(&back->thread_lock);
	if (!wanted)
		stop_thread(back);
	else if (!back->thread && kv_sys()->spawn(kv_sys()->ctx, run_thread, pool, &back->thread))
		err = -EAGAIN;
	if (!err)
		set(back, how);
	kv_unlock(&back->thread_lock);
	return err;
}

static int check_how(const struct kvmm_pool *pool, const struct kvmm_background *how)
{
	const u32 flags = KVMM_BACKGROUND_THREAD | KVMM_BACKGROUND_IDLE_ONLY |
			  KVMM_BACKGROUND_SHORTEN | KVMM_BACKGROUND_VERIFY;

	if (!how->threshold_pm || how->threshold_pm > 1000 || !how->interval_ms ||
	    !how->max_blocks || how->mode >= KVMM_NR_MOVE_MODES || how->flags & ~flags ||
	    how->request_blocks > pool->nr_usable)
		return -EINVAL;
	if (pool->deterministic && how->flags & KVMM_BACKGROUND_THREAD)
		return -EOPNOTSUPP;
	return pool->parts.planner && !pool->rounds ? 0 : -EOPNOTSUPP;
}

int background_set(struct kvmm_pool *pool, const void *value)
{
	const struct kvmm_background *how = value;
	struct kvmm_background copy;
	int err = 0;

	if (how)
		err = kv_copy_attr(&copy, sizeof(copy), how);
	if (how && !err)
		err = check_how(pool, &copy);
	if (err || (!how && !background_of(pool)))
		return err;
	kv_lock(&pool->compact_lock);
	err = make_background(pool);
	kv_unlock(&pool->compact_lock);
	return err ? err : change(pool, background_of(pool), how ? &copy : NULL);
}

int kv_background_get(struct kvmm_pool *pool, struct kvmm_background *how)
{
	struct background *back;
	size_t size;
	bool on;

	if (kv_inherited(pool))
		return -ECHILD;
	if (!pool || !how || how->size < sizeof(how->size))
		return -EINVAL;
	size = min(how->size, sizeof(*how));
	back = background_of(pool);
	if (!back)
		return -ENOENT;
	kv_lock(&back->lock);
	on = back->on;
	if (on) {
		memcpy(how, &back->how, size);
		how->size = size;
	}
	kv_unlock(&back->lock);
	return on ? 0 : -ENOENT;
}

int background_stat_read(struct kvmm_pool *pool, void *out)
{
	struct kvmm_background_stat *stat = out;
	struct background *back;

	back = background_of(pool);
	if (!back)
		return 0;
	kv_lock(&back->lock);
	*stat = back->stat;
	kv_unlock(&back->lock);
	return 0;
}

static void background_exit(struct kvmm_pool *pool)
{
	struct background *back = pool->background;

	if (!back)
		return;
	kv_lock(&back->thread_lock);
	stop_thread(back);
	kv_unlock(&back->thread_lock);
	kv_free(back);
}

POOL_PART(background) = {
	.name	= "thread beside",
	.exit	= background_exit,
};
