// SPDX-License-Identifier: Apache-2.0
/*
 * A request in the queue: it has its turn when it is the head, in its own thread or, in a ticket,
 * in that of its poller. See queue.c for how it is woken.
 */
#include <kv/env.h>
#include <pool/determ.h>
#include <pool/local.h>

#include "wait.h"

/* Blocks that came while the head tried may be gone again; then it sleeps all the same. */
#define MAX_TRIES	8u

/* ---- one that waits ---- */

void waiter_enter(struct kvmm_pool *pool, struct waiter *w, struct alloc_ctx *ctx)
{
	kv_assert_held(&pool->lock);
	*w = (struct waiter){ .seq = ctx->seq, .deadline_ns = ctx->deadline_ns,
			      .since_ns = kv_clock_ns(), .queued_ns = pool_clock_ns(pool),
			      .prio = ctx->prio,
			      .ticket = w->ticket,
			      .no_evict = ctx->flags & KVMM_ALLOC_NO_EVICT };
	ctx->self = w;
	queue_add(pool, w);
	door_set_guard(pool, GUARD_QUEUE, true);
}

/* The end of its patience: later it pays for the blocks it could not wait for. */
static u64 patient_until(const struct kvmm_pool *pool, const struct waiter *w, u32 nr)
{
	u64 ns;

	kv_assert_held(&pool->lock);
	if (kv_mul_overflows(pool->door.costs.wait_block_ns, (u64)nr, &ns))
		return UINT64_MAX;
	return kv_ns_after(w->queued_ns, ns);
}

/* Note the blocks it lacks; true: something came while it tried. ->lock held. */
static bool came_meanwhile(struct kvmm_pool *pool, struct waiter *w, struct alloc_ctx *ctx,
			   u32 nr_events)
{
	u64 want = (u64)ctx->nr + door_keep(pool, ctx);
	u32 nr = pool_nr_free(pool) + pool_nr_parked(pool);

	kv_assert_held(&pool->lock);
	/* The thread that has stopped the world has taken blocks that it gives back unheard. */
	if (unlikely(pool->gate & GATE_STOPPED))
		WRITE_ONCE(w->word, 1);
	if (pool->caches && !(ctx->flags & KVMM_ALLOC_NO_EVICT)) {
		order_enter(&pool->order);
		nr = cache_nr_available(pool);
		order_leave(&pool->order);
	}
	pool->door.lack = want > nr ? want - nr : 1;
	return want <= nr && pool->door.nr_events != nr_events;
}

/*
 * The turn of @w, if it is the head: -ENOSPC, or the end. ->lock held; dropped and retaken.
 */
int waiter_try(struct kvmm_pool *pool, struct waiter *w, struct alloc_ctx *ctx)
{
	u32 nr_events, tries = MAX_TRIES;
	int err = -ENOSPC;

	kv_assert_held(&pool->lock);
	while (err == -ENOSPC && !w->result && pool->door.head == w && tries--) {
		WRITE_ONCE(w->word, 0);
		nr_events = pool->door.nr_events;
		ctx->patient = pool_clock_ns(pool) < patient_until(pool, w, ctx->nr);
		err = alloc_try(pool, ctx);
		if (err == -ENOSPC && !w->result && !came_meanwhile(pool, w, ctx, nr_events))
			break;
	}
	return err;
}

void waiter_leave(struct kvmm_pool *pool, struct waiter *w, struct alloc_ctx *ctx, int err)
{
	kv_assert_held(&pool->lock);
	ctx->waited_ns = kv_ns_since(w->since_ns);
	step_count(&pool->door, KVMM_STEP_WAIT, 1, !err);
	queue_del(pool, w);
}

/* ---- threads ---- */

#define LOOK_NS		1000000ull

/* How long to sleep at most; 0: the deadline has passed. ->lock held. */
static u64 sleep_ns(struct kvmm_pool *pool, const struct waiter *w, const struct alloc_ctx *ctx)
{
	u64 now = kv_clock_ns(), until = w->deadline_ns;

	kv_assert_held(&pool->lock);
	if (pool->door.head != w)
		until = min(until, pool->door.head->deadline_ns);
	else if (ctx->patient)
		until = min(until, patient_until(pool, w, ctx->nr));
	/* Moves for it may be under way, and no other thread may look when they have ended. */
	if (pool->door.head == w && unlikely(READ_ONCE(pool->transit.nr_flights)))
		until = min(until, now + LOOK_NS);
	return until > now ? until - now : 0;
}

/*
 * ->lock held; dropped and retaken. Without regard to the gate: a thread that moves blocks has no
 * say in the queue, and a request that is closed out hears of it from alloc_try().
 */
static int wait_in_queue(struct kvmm_pool *pool, struct waiter *w, struct alloc_ctx *ctx)
{
	const struct kv_env_ops *env = kv_env();

	kv_assert_held(&pool->lock);
	for (;;) {
		u64 ns;
		int err;

		queue_expire(pool);
		err = waiter_try(pool, w, ctx);
		if (err != -ENOSPC)
			return err;
		if (w->result)
			return w->result;
		if (w->deadline_ns <= kv_clock_ns()) {
			waiter_refuse(pool, w, -ETIMEDOUT);
			return -ETIMEDOUT;
		}
		ns = sleep_ns(pool, w, ctx);
		pool_leave(pool);
		if (ns)
			env->wait(env->ctx, &w->word, 0, ns);
		kv_lock(&pool->lock);
	}
}

/*
 * A pool that is being destroyed waits until nr_inside is 0, and its memory for a grace period: the
 * caller leaves it in a read section.
 */
int queue_wait(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	struct waiter w = { 0 };
	int err;

	kv_assert_held(&pool->lock);
	if (pool->guard & GUARD_CLOSED)
		return -ESHUTDOWN;
	if (!door_may_wait(pool, ctx))
		return -ENOSPC;
	if (ctx->ticket)
		return ticket_queue(pool, ctx);
	pool->door.nr_inside++;
	waiter_enter(pool, &w, ctx);
	err = wait_in_queue(pool, &w, ctx);
	waiter_leave(pool, &w, ctx, err);
	ctx->self = NULL;
	pool->door.nr_inside--;
	return err;
}
