/* SPDX-License-Identifier: Apache-2.0 */
/* What the rest of the pool calls for its events; included by cached.h alone. */
#ifndef POOL_EVENTS_HOOK_H
#define POOL_EVENTS_HOOK_H

struct pool_events;

/* The pool has got a tier. compact_lock and ->lock not held. */
void events_attached(struct kvmm_pool *pool);

void __events_staged(struct kvmm_pool *pool, const struct kvmm_prefix *prefix,
		     const struct kv_handle *handles);

/* Private blocks are being named: remember what comes before each. */
static inline void events_staged(struct kvmm_pool *pool, const struct kvmm_prefix *prefix,
				 const struct kv_handle *handles)
{
	/* Pairs with publish_feed(). */
	if (unlikely(smp_load_acquire(&pool->events)))
		__events_staged(pool, prefix, handles);
}

struct kv_query;
void __events_looked_up(struct kvmm_pool *pool, const struct kv_query *query, u32 nr_hits,
			u32 nr_blocks);

/* Keys were looked up. No lock held. */
static inline void events_looked_up(struct kvmm_pool *pool, const struct kv_query *query,
				    u32 nr_hits, u32 nr_blocks)
{
	if (unlikely(READ_ONCE(pool->events)))
		__events_looked_up(pool, query, nr_hits, nr_blocks);
}

bool __events_want_requests(struct kvmm_pool *pool);

/* Is anybody told of requests? What a note needs is made for him only. */
static inline bool events_want_requests(struct kvmm_pool *pool)
{
	return unlikely(READ_ONCE(pool->events)) && __events_want_requests(pool);
}

/*
 * All names go, in one event instead of one each. The world has stopped, compact_lock and ->lock are
 * held: true, and events_cleared() follows under the same locks.
 */
bool events_clear_begin(struct kvmm_pool *pool);
void events_cleared(struct kvmm_pool *pool);

#endif /* POOL_EVENTS_HOOK_H */
