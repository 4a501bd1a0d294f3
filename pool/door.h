/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The front door: which requests may take free blocks, have to leave some, or wait for them.
 *
 * One word, pool->guard, says whether there is anything to look at: it is 0 as long as there are no
 * watermarks, no promises and no waiters, and then allocation costs what it did without all of
 * these. It is written under ->lock. Rules for code that hands out or takes back blocks:
 *
 *  1. Under ->lock: leave door_keep() free blocks behind; none may be taken if that is DOOR_SHUT.
 *     Blocks that become free go through blocks_free(), which posts them.
 *  2. Without ->lock, from an arena: look at READ_ONCE(pool->guard) first. If there is more than
 *     GUARD_FLOORS take the way under the lock. A thread that sets such a bit drains the blocks
 *     kept aside afterwards, under ->lock. Behind marks and promises they may be kept aside, since
 *     door_floor() blocks are in the zone then: pool_leave() drains them if it has less.
 *  3. A cached block that can be evicted from now on: release_put(), after the order has been told.
 *
 * Invariants, recomputed by door_check():
 *
 *  1. guard has a bit if and only if the thing it stands for exists.
 *  2. min <= low <= high <= usable blocks.
 *  3. nr_promised is the sum over all promises, and at least so many blocks are free.
 *  4. The queue is sorted: by priority, then by time of arrival. A request in it has no result yet.
 *
 * The queue: its head alone may take blocks, of all requests of its priority and below; it tries in
 * its own thread, with all that a request may do to make room. So a large request gets its turn,
 * and smaller ones behind it wait even if they would fit. Blocks that become free are counted down
 * from those the head lacked when it tried last, and it is not woken before that.
 */
#ifndef POOL_DOOR_H
#define POOL_DOOR_H

#include <kv/atomic.h>
#include <kv/bits.h>
#include <kv/pressure.h>
#include <kv/types.h>
#include <kvmm/ext/admission.h>

struct alloc_ctx;
struct kvmm_pool;
struct promise;
struct ticket;

/* pool->guard. */
#define GUARD_MARKS	BIT(0)
#define GUARD_PROMISES	BIT(1)
#define GUARD_QUEUE	BIT(2)
#define GUARD_CLOSED	BIT(3)	/* the pool is being destroyed */

/* Counts of blocks that stay in the zone; with no other bit set there may be some aside. */
#define GUARD_FLOORS	(GUARD_MARKS | GUARD_PROMISES)

/* No block at all. */
#define DOOR_SHUT	KV_NONE

/* One that waits: on the stack of its thread, or in a ticket. Guard: ->lock. */
struct waiter {
	struct waiter	*next;		/* in the queue; NULL: the last */
	struct waiter	*prev;
	u64		seq;		/* its name; fixed */
	u64		deadline_ns;	/* fixed */
	u64		since_ns;	/* fixed; for statistics */
	u64		queued_ns;	/* fixed; by pool_clock_ns() */
	u64		ticket;		/* fixed; 0: a thread */
	u32		prio;		/* fixed */
	u32		word;		/* atomic; 1: it is worth trying again */
	int		result;		/* why it left the queue without blocks; 0: it has not */
	bool		queued;
	bool		no_evict;	/* fixed */
};

struct promise {
	u32	left;		/* ->lock */
	u32	gen;		/* ->lock; of the promise, or of the next one */
	u32	next;		/* ->lock; free: in the list; else KV_NONE - 1 */
};

/* Everything is under ->lock, but for the pressure. */
struct door {
	struct kvmm_watermarks	marks;
	struct kvmm_alloc_costs	costs;		/* no zeroes but for waiting */

	u32			nr_promised;
	u32			free_promise;	/* last freed first; KV_NONE */
	u32			nr_promises;	/* length of the table */
	struct promise		*promise;	/* ours */

	struct waiter		*head;		/* highest priority first, then oldest */
	struct waiter		*tail;
	struct ticket		*tickets;	/* ours; all, queued or not */
	u64			last_ticket;
	u32			nr_waiting;
	u32			nr_inside;	/* threads that have a waiter on their stack */
	u32			lack;		/* blocks, until the head is worth waking */
	u32			nr_events;	/* times that blocks became free beside a waiter */

	u64			taken[KVMM_NR_STEPS];
	u64			skipped[KVMM_NR_STEPS];
	u64			saved[KVMM_NR_STEPS];
	u64			nr_timed_out;
	u64			nr_cancelled;

	struct pressure		pressure;	/* a lock of its own */
};

/* ---- door.c ---- */

/* New bits of the guard, but for GUARD_FLOORS: drain what threads keep aside. ->lock held. */
void door_set_guard(struct kvmm_pool *pool, u32 bit, bool on);
/* All waiting requests are turned away, and gone on return. */
void door_close(struct kvmm_pool *pool);

u32 __door_keep(struct kvmm_pool *pool, const struct alloc_ctx *ctx);
bool __door_lets(struct kvmm_pool *pool, const struct alloc_ctx *ctx, u32 nr);
/* Could it ever fit? ->lock held. */
bool door_may_wait(const struct kvmm_pool *pool, const struct alloc_ctx *ctx);

/* KVMM_ALLOC_* and a priority into one: 0, or -EINVAL if they contradict each other. */
int door_read_flags(u32 flags, u32 *prio, u64 deadline_ns);
/* The moment that @deadline_ns means; 0: none. */
u64 door_deadline(const struct kvmm_pool *pool, u32 flags, u64 deadline_ns);

static inline void step_count(struct door *door, enum kvmm_step step, u32 nr, bool saved)
{
	door->taken[step] += nr != 0;
	door->saved[step] += nr && saved;
}

/* ---- request/promise.c ---- */

/* Fill in ->promised: 0, -ESTALE, or -EINVAL it has not so many left. ->lock held. */
int promise_find(struct kvmm_pool *pool, struct alloc_ctx *ctx, u32 nr);
/* @nr blocks that were promised are taken. ->lock held. */
void promise_take(struct kvmm_pool *pool, const struct alloc_ctx *ctx, u32 nr);

/* ---- queue.c; ->lock held for all of it ---- */

/* Behind all of its priority; then the caller sets GUARD_QUEUE. */
void queue_add(struct kvmm_pool *pool, struct waiter *w);
/* The next one may have its turn now. */
void queue_del(struct kvmm_pool *pool, struct waiter *w);
/* Out of the queue without blocks. */
void waiter_refuse(struct kvmm_pool *pool, struct waiter *w, int result);
/* All of them. */
void queue_refuse(struct kvmm_pool *pool, int result);

/* Heads leave when their deadline has passed. */
void queue_expire(struct kvmm_pool *pool);

bool door_is_shut_by_queue(struct kvmm_pool *pool, const struct alloc_ctx *ctx);
int queue_check(const struct kvmm_pool *pool);

/* ---- request/wait.c ---- */

/* Wait for its turn, until its deadline. ->lock held; it is dropped and retaken. */
int queue_wait(struct kvmm_pool *pool, struct alloc_ctx *ctx);

#endif /* POOL_DOOR_H */
