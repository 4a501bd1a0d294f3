// SPDX-License-Identifier: Apache-2.0
/*
 * Which request may take how many free blocks: flags, watermarks, and their sum; see door.h.
 *
 * Everything here is under ->lock and looks at counts only; waiting is in queue.c, promises are in
 * promise.c, and room is made in room.c.
 */
#include <kv/env.h>

#include "determ.h"
#include "local.h"

#define DEFAULT_COPY_NS		2000u
#define DEFAULT_DROP_NS		200000u
#define MAX_COST_NS		(1ull << 39)	/* so that those of all blocks can be summed up */

static_assert(MAX_COST_NS <= UINT64_MAX / KVMM_MAX_BLOCKS, "a sum of costs does not wrap");

/* ---- set-up ---- */

static bool marks_are_good(const struct kvmm_pool *pool, const struct kvmm_watermarks *marks)
{
	return marks->min <= marks->low && marks->low <= marks->high &&
	       marks->high <= pool->nr_usable;
}

static u64 cost_of(u64 ns, u64 preset)
{
	return min(ns ? ns : preset, MAX_COST_NS);
}

static int door_init(struct kvmm_pool *pool, const struct kvmm_pool_attr *attr)
{
	struct kvmm_alloc_attr known = { 0 };
	int err = 0;

	if (attr->alloc)
		err = kv_copy_attr(&known, sizeof(known), attr->alloc);
	if (err || known.reserved || !marks_are_good(pool, &known.marks))
		return -EINVAL;
	pool->door.marks = known.marks;
	pool->door.free_promise = KV_NONE;
	pool->door.costs = known.costs;
	pool->door.costs.copy_block_ns = cost_of(known.costs.copy_block_ns, DEFAULT_COPY_NS);
	pool->door.costs.drop_block_ns = cost_of(known.costs.drop_block_ns, DEFAULT_DROP_NS);
	pool->guard = known.marks.low ? GUARD_MARKS : 0;
	pressure_init(&pool->door.pressure, pool->lock.id);
	return 0;
}

/*
 * A thread that hands out or takes back blocks without the lock looks at the guard first; one that
 * had looked before it was set is met by the drain.
 */
void door_set_guard(struct kvmm_pool *pool, u32 bit, bool on)
{
	u32 guard = on ? pool->guard | bit : pool->guard & ~bit;

	kv_assert_held(&pool->lock);
	if (guard == pool->guard)
		return;
	/* See "Waiters and puts" in ordering.rst. */
	WRITE_ONCE(pool->guard, guard);
	if (!on || bit & GUARD_FLOORS)	/* pool_leave() looks at those */
		return;
	arenas_rest(pool);
	pool_drain_local(pool);
}

void door_close(struct kvmm_pool *pool)
{
	const struct kv_env_ops *env = kv_env();
	u32 word = 0;

	kv_lock(&pool->lock);
	door_set_guard(pool, GUARD_CLOSED, true);
	queue_refuse(pool, -ESHUTDOWN);
	while (pool->door.nr_inside) {
		pool_leave(pool);
		env->wait(env->ctx, &word, 0, 100000);	/* no wake-up comes: they are leaving */
		kv_lock(&pool->lock);
	}
	pool_leave(pool);
}

noinline void __release_put(struct kvmm_pool *pool, u32 nr)
{
	if (pool_enter(pool))
		return;
	release_post(pool, nr);
	pool_leave(pool);
}

int kvmm_alloc_cancel(struct kvmm_pool *pool, uint64_t seq)
{
	int err, nr = 0;

	if (!seq)
		return -EINVAL;
	err = pool_enter(pool);
	if (err)
		return err;
	for (struct waiter *w = pool->door.head, *next; w; w = next) {
		next = w->next;
		if (w->seq != seq)
			continue;
		waiter_refuse(pool, w, -ECANCELED);
		nr++;
	}
	pool_leave(pool);
	return nr;
}

/* ---- flags ---- */

#define DOOR_PRIOS	(KVMM_ALLOC_HIGH | KVMM_ALLOC_URGENT)
#define DOOR_PLACES	(KVMM_ALLOC_PINNED | KVMM_ALLOC_TOPDOWN | KVMM_ALLOC_MOVABLE)

static bool is_one_bit_or_none(u32 bits)
{
	return !(bits & (bits - 1));
}

int door_read_flags(u32 flags, u32 *prio, u64 deadline_ns)
{
	u32 meant = flags & KVMM_ALLOC_URGENT ? KVMM_PRIO_URGENT : KVMM_PRIO_HIGH;

	if (!is_one_bit_or_none(flags & DOOR_PRIOS) || !is_one_bit_or_none(flags & DOOR_PLACES))
		return -EINVAL;
	if (*prio > KVMM_PRIO_URGENT || (!deadline_ns && flags & KVMM_ALLOC_RELATIVE))
		return -EINVAL;
	/* Slow work cannot be had without waiting. */
	if (flags & KVMM_ALLOC_NOWAIT &&
	    (deadline_ns || flags & (KVMM_ALLOC_RELATIVE | KVMM_ALLOC_ZERO)))
		return -EINVAL;
	if (!(flags & DOOR_PRIOS))
		return 0;
	if (*prio && *prio != meant)
		return -EINVAL;
	*prio = meant;
	return 0;
}

u64 door_deadline(const struct kvmm_pool *pool, u32 flags, u64 deadline_ns)
{
	return flags & KVMM_ALLOC_RELATIVE ? kv_ns_after(pool_clock_ns(pool), deadline_ns) :
					     deadline_ns;
}

/* ---- blocks that a request has to leave ---- */

static u32 floor_of(const struct door *door, u32 prio)
{
	if (prio == KVMM_PRIO_NORMAL)
		return door->marks.low;
	return prio == KVMM_PRIO_HIGH ? door->marks.min : 0;
}

bool door_may_wait(const struct kvmm_pool *pool, const struct alloc_ctx *ctx)
{
	kv_assert_held(&pool->lock);
	return (u64)ctx->nr + floor_of(&pool->door, ctx->prio) <= pool->nr_usable;
}

/* Promised blocks are free for the request they were promised to, in any case. */
noinline u32 __door_keep(struct kvmm_pool *pool, const struct alloc_ctx *ctx)
{
	struct door *door = &pool->door;

	kv_assert_held(&pool->lock);
	if (ctx->promised)
		return door->nr_promised - ctx->promised;
	if (pool->guard & GUARD_CLOSED || door_is_shut_by_queue(pool, ctx))
		return DOOR_SHUT;
	return door->nr_promised + floor_of(door, ctx->prio);
}

noinline bool __door_lets(struct kvmm_pool *pool, const struct alloc_ctx *ctx, u32 nr)
{
	u32 keep = __door_keep(pool, ctx);

	kv_assert_held(&pool->lock);
	return keep != DOOR_SHUT && pool_nr_free(pool) >= (u64)nr + keep;
}

/* ---- watermarks ---- */

int watermarks_set(struct kvmm_pool *pool, const void *value)
{
	const struct kvmm_watermarks *marks = value;
	int err;

	if (!marks || !marks_are_good(pool, marks))
		return -EINVAL;
	err = pool_enter(pool);
	if (err)
		return err;
	pool->door.marks = *marks;
	door_set_guard(pool, GUARD_MARKS, marks->low != 0);
	release_post(pool, pool->nr_blocks);	/* it may be less that has to be left */
	pool_leave(pool);
	return 0;
}

/* ---- statistics ---- */

void alloc_stat_peek(struct kvmm_pool *pool, struct kvmm_alloc_stat *stat)
{
	const struct door *door = &pool->door;

	*stat = (struct kvmm_alloc_stat){
		.nr_waiting = kv_peek(&door->nr_waiting),
		.nr_promised = kv_peek(&door->nr_promised),
		.nr_timed_out = kv_peek(&door->nr_timed_out),
		.nr_cancelled = kv_peek(&door->nr_cancelled),
	};
	kv_peek_copy(&stat->marks, &door->marks, sizeof(stat->marks));
	kv_peek_copy(&stat->costs, &door->costs, sizeof(stat->costs));
	kv_peek_copy(stat->taken, door->taken, sizeof(stat->taken));
	kv_peek_copy(stat->skipped, door->skipped, sizeof(stat->skipped));
	kv_peek_copy(stat->saved, door->saved, sizeof(stat->saved));
}

int alloc_stat_read(struct kvmm_pool *pool, void *stat)
{
	int err = pool_enter(pool);

	if (err)
		return err;
	alloc_stat_peek(pool, stat);
	pool_leave(pool);
	return 0;
}

/* In a child after fork() the lock may be held for ever: pool_enter() says so first. */
int pressure_stat_read(struct kvmm_pool *pool, void *out)
{
	struct kvmm_pressure *stat = out;
	int err;

	err = pool_enter(pool);
	if (err)
		return err;
	pool_leave(pool);
	pressure_read(&pool->door.pressure, stat);
	return 0;
}

/* ---- validation ---- */

static int door_check(struct kvmm_pool *pool, const struct pool_recount *re)
{
	const struct door *door = &pool->door;
	u32 guard = (door->marks.low ? GUARD_MARKS : 0) |
		    (door->nr_promised ? GUARD_PROMISES : 0) | (door->head ? GUARD_QUEUE : 0);

	if ((pool->guard & ~GUARD_CLOSED) != guard)
		return pool_complain(pool, "guard of the door", pool->guard);
	if (!marks_are_good(pool, &door->marks))
		return pool_complain(pool, "watermarks", door->marks.low);
	if (!door->costs.copy_block_ns || !door->costs.drop_block_ns)
		return pool_complain(pool, "costs", 0);
	if ((pool->armed || pool_nr_local(pool)) &&
	    kv_zone_nr_free(pool->zone) < door_floor(pool))
		return pool_complain(pool, "free blocks aside are not free for all", guard);
	if (pool_nr_free(pool) + (u64)pool_nr_local(pool) < door->nr_promised)
		return pool_complain(pool, "promised blocks are not there", door->nr_promised);
	return queue_check(pool) ? pool_complain(pool, "queue of requests", door->nr_waiting) : 0;
}

POOL_PART(door) = {
	.name	= "door",
	.init	= door_init,
	.check	= door_check,
};
