// SPDX-License-Identifier: Apache-2.0
/*
 * Requests that wait for blocks: one queue a pool, sorted by priority, then by time of arrival.
 *
 * The head tries, in its own thread and without the lock, as any request does; all other requests
 * of its priority or below are shut out meanwhile (door_keep()), so none overtakes it, however
 * small. When it has failed it notes what it lacks and sleeps on a word of its own. Each block that
 * becomes free is counted against that, and the thread that frees the last missing block wakes it.
 *
 * The hard part is not to lose a wake-up. Blocks given back under ->lock are counted there, and
 * those that came while the head was trying are in nr_events. A cached block that is put goes to
 * the order of eviction without ->lock:
 *
 *	put				head
 *
 *	log_lock: note the put		guard |= QUEUE, under ->lock
 *	load guard: QUEUE?		log_lock: apply the notes
 *
 * Whichever section of log_lock is second sees what was done before the first: either the head has
 * the block, or the thread that put it sees the guard, takes ->lock, and counts.
 *
 * A request in a ticket has no thread: it is tried when it is polled. The next thread that looks at
 * the queue notices a deadline that has passed, so such a request holds up none for longer.
 */
#include <kv/env.h>

#include "determ.h"
#include "local.h"

/* ---- the queue ---- */

/* Behind all of its priority. ->lock held. */
void queue_add(struct kvmm_pool *pool, struct waiter *w)
{
	struct door *door = &pool->door;
	struct waiter *prev = door->tail;

	kv_assert_held(&pool->lock);
	while (prev && prev->prio < w->prio)
		prev = prev->prev;
	w->prev = prev;
	w->next = prev ? prev->next : door->head;
	w->queued = true;
	if (w->next)
		w->next->prev = w;
	else
		door->tail = w;
	if (prev)
		prev->next = w;
	else
		door->head = w;
	door->nr_waiting++;
	door->lack = prev ? door->lack : 0;
	if (door->nr_waiting == 1)
		pool->posted = 0;	/* of before, when there was no queue to hear of it */
	pressure_change(&door->pressure, 1, 0);
}

static void wake(struct waiter *w)
{
	const struct kv_env_ops *env = kv_env();

	if (!w)
		return;
	WRITE_ONCE(w->word, 1);
	if (!w->ticket)
		env->wake(env->ctx, &w->word);
}

/* The next one may have its turn now. ->lock held. */
void queue_del(struct kvmm_pool *pool, struct waiter *w)
{
	struct door *door = &pool->door;
	bool was_head = door->head == w;

	kv_assert_held(&pool->lock);
	if (!w->queued)
		return;
	if (w->prev)
		w->prev->next = w->next;
	else
		door->head = w->next;
	if (w->next)
		w->next->prev = w->prev;
	else
		door->tail = w->prev;
	w->queued = false;
	kv_assert(door->nr_waiting);
	door->nr_waiting--;
	pressure_over(&door->pressure, DELAY_QUEUE, w->since_ns);
	if (!door->head)
		WRITE_ONCE(pool->guard, pool->guard & ~GUARD_QUEUE);
	if (!was_head)
		return;
	door->lack = 0;
	wake(door->head);
}

/* It leaves without blocks. ->lock held; @w may be gone once that is dropped. */
void waiter_refuse(struct kvmm_pool *pool, struct waiter *w, int result)
{
	kv_assert_held(&pool->lock);
	pool->door.nr_timed_out += result == -ETIMEDOUT;
	pool->door.nr_cancelled += result == -ECANCELED;
	w->result = result;
	queue_del(pool, w);
	wake(w);
}

void queue_refuse(struct kvmm_pool *pool, int result)
{
	kv_assert_held(&pool->lock);
	while (pool->door.head)
		waiter_refuse(pool, pool->door.head, result);
}

void queue_expire(struct kvmm_pool *pool)
{
	struct door *door = &pool->door;

	kv_assert_held(&pool->lock);
	while (door->head && door->head->deadline_ns <= pool_clock_ns(pool))
		waiter_refuse(pool, door->head, -ETIMEDOUT);
}

bool door_is_shut_by_queue(struct kvmm_pool *pool, const struct alloc_ctx *ctx)
{
	const struct door *door = &pool->door;

	kv_assert_held(&pool->lock);
	if (!door->head || ctx->inside || ctx->self == door->head)
		return false;
	if (!ctx->self)
		queue_expire(pool);
	return door->head && door->head->prio >= ctx->prio;
}

/*
 * Blocks that have to stay free are in the zone, or none is aside. Count down the blocks the head
 * lacks; the block that it lacked last wakes it.
 */
noinline void __release_settle(struct kvmm_pool *pool)
{
	struct door *door = &pool->door;
	u32 nr = pool->posted;

	kv_assert_held(&pool->lock);
	if (pool_keeps_aside(pool) && kv_zone_nr_free(pool->zone) < door_floor(pool))
		pool_drain_local(pool);
	pool->posted = 0;
	if (!nr || !door->head)
		return;
	door->nr_events++;
	if (door->lack > nr) {
		door->lack -= nr;
		return;
	}
	door->lack = 0;
	queue_expire(pool);
	wake(door->head);
}

/*
 * More may have been evicted than taken, and victims may be gone although the request has failed;
 * only a head that may not evict had not counted these.
 */
void release_take_back(struct kvmm_pool *pool, u32 posted, bool evicted)
{
	kv_assert_held(&pool->lock);
	pool->posted = posted;
	if (evicted && pool->door.head && pool->door.head->no_evict)
		wake(pool->door.head);
}

int queue_check(const struct kvmm_pool *pool)
{
	const struct door *door = &pool->door;
	const struct waiter *w, *prev = NULL;
	u32 nr = 0;

	for (w = door->head; w; prev = w, w = w->next) {
		if (w->prev != prev || !w->queued || w->result || ++nr > door->nr_waiting)
			return -EUCLEAN;
		if (prev && prev->prio < w->prio)
			return -EUCLEAN;
	}
	return prev == door->tail && nr == door->nr_waiting ? 0 : -EUCLEAN;
}
