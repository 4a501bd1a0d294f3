// SPDX-License-Identifier: Apache-2.0
/*
 * Requests that wait without a thread.
 *
 * A ticket stands in the queue like any request, and is tried by the thread that polls it. It is
 * ours from the time it is queued until it is polled for the last time, or withdrawn, so other
 * threads may do no more to it meanwhile than to take it out of the queue, with a result.
 */
#include <kv/env.h>
#include <kv/mem.h>
#include <move/step.h>
#include <pool/determ.h>

#include "wait.h"

/* NULL: there is none. ->lock held. */
static struct ticket **find(struct kvmm_pool *pool, kvmm_ticket_t ticket)
{
	struct ticket **at = &pool->door.tickets;

	kv_assert_held(&pool->lock);
	while (*at && (*at)->waiter.ticket != ticket.id)
		at = &(*at)->next;
	return *at ? at : NULL;
}

int ticket_queue(struct kvmm_pool *pool, struct alloc_ctx *ctx)
{
	struct ticket *t = ctx->ticket;

	kv_assert_held(&pool->lock);
	kv_assert(ctx->deadline_ns);
	t->waiter.ticket = ++pool->door.last_ticket;
	t->name->id = t->waiter.ticket;
	t->next = pool->door.tickets;
	pool->door.tickets = t;
	waiter_enter(pool, &t->waiter, ctx);
	WRITE_ONCE(t->waiter.word, 1);	/* it has not been tried in its place */
	return -EINPROGRESS;
}

int ticket_submit(struct kvmm_pool *pool, const struct kvmm_alloc_ctl *ctl, kvmm_mut_t *blocks,
		  kvmm_ticket_t *ticket)
{
	struct ticket *t;
	int err;

	if (kv_inherited(pool))
		return -ECHILD;
	t = kv_alloc(sizeof(*t));
	if (!t)
		return -ENOMEM;
	err = private_begin(pool, ctl, blocks, &t->ctx);
	if (!err && !t->ctx.deadline_ns)
		err = -EINVAL;
	if (err)
		goto out_free;
	t->ctx.ticket = t;
	t->name = ticket;
	err = t->ctx.nr ? alloc_enter(pool, &t->ctx) : 0;
	if (err == -EINPROGRESS)
		return err;
	err = private_end(pool, &t->ctx, err);
out_free:
	kv_free(t);
	return err;
}

/* As kv_alloc_poll(). ->lock held; dropped and retaken. */
static int poll_ticket(struct kvmm_pool *pool, struct ticket *t, u32 nr)
{
	struct waiter *w = &t->waiter;
	int err = -ENOSPC;

	kv_assert_held(&pool->lock);
	queue_expire(pool);
	if (!w->result && w->deadline_ns <= pool_clock_ns(pool))
		waiter_refuse(pool, w, -ETIMEDOUT);
	if (w->result)
		return w->result;
	if (!nr && pool->door.head == w)
		return READ_ONCE(w->word) || t->ctx.patient;
	if (!nr)
		return -EINPROGRESS;
	if (nr != KV_NONE && nr != t->ctx.nr) {
		t->ctx.nr = nr;
		WRITE_ONCE(w->word, 1);
		if (!door_may_wait(pool, &t->ctx))
			return -ENOSPC;
	}
	if (READ_ONCE(w->word) || t->ctx.patient) {
		t->busy = true;
		err = waiter_try(pool, w, &t->ctx);
		t->busy = false;
	}
	if (err != -ENOSPC)
		return err;
	return w->result ? w->result : -EINPROGRESS;
}

int kv_alloc_poll(struct kvmm_pool *pool, kvmm_ticket_t ticket, u32 nr)
{
	struct ticket **at, *t;
	int err;

	steps_settle(pool);	/* blocks that have landed may be the ones that it lacks */
	err = pool_enter(pool);
	if (err)
		return err;
	at = find(pool, ticket);
	if (!at || (*at)->busy) {
		pool_leave(pool);
		return at ? -EINPROGRESS : -ESTALE;
	}
	t = *at;
	err = poll_ticket(pool, t, nr);
	if (err == -EINPROGRESS || (!nr && err >= 0)) {
		pool_leave(pool);
		return err;
	}
	*find(pool, ticket) = t->next;
	waiter_leave(pool, &t->waiter, &t->ctx, err);
	alloc_count(pool, &t->ctx, err);
	cache_leave(pool);
	err = private_end(pool, &t->ctx, err);
	kv_free(t);
	return err;
}

int kvmm_alloc_poll(struct kvmm_pool *pool, kvmm_ticket_t ticket)
{
	return kv_alloc_poll(pool, ticket, KV_NONE);
}

int kv_alloc_withdraw(struct kvmm_pool *pool, kvmm_ticket_t ticket)
{
	struct ticket **at, *t = NULL;
	int err = pool_enter(pool);

	if (err)
		return err;
	at = find(pool, ticket);
	if (!at)
		err = -ESTALE;
	else if ((*at)->busy)
		waiter_refuse(pool, &(*at)->waiter, -ECANCELED);	/* its poller hears of it */
	else
		t = *at;
	if (t) {
		*at = t->next;
		waiter_leave(pool, &t->waiter, &t->ctx, -ECANCELED);
		alloc_count(pool, &t->ctx, t->waiter.result ?: -ECANCELED);
	}
	pool_leave(pool);
	kv_free(t);
	return err;
}

static void tickets_exit(struct kvmm_pool *pool)
{
	struct ticket *t, *next;

	for (t = pool->door.tickets; t; t = next) {
		next = t->next;
		kv_free(t);
	}
}

POOL_PART(tickets) = {
	.name	= "tickets",
	.exit	= tickets_exit,
};
