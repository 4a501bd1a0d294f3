/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool's side of its events: the feed that maps and tiers write to, and its consumers.
 *
 * The feed is made by the first consumer and stays. It comes into use in this order: the pool, its
 * map and its tier point to it; ->kinds says that there is a reader; a grace period; then the
 * consumer starts at the head. So a thread that changed a name without telling had done so before
 * the consumer began, and a snapshot of the consumer's sees it.
 *
 * Invariants, recomputed by events_check():
 *
 *  1. The map points to the feed if and only if there is one.
 *  2. ->kinds is all that consumers read, and KEPT if there are any; 0 without.
 *  3. Stamps of the ring are such as its slots can have.
 */
#ifndef FEED_EVENTS_H
#define FEED_EVENTS_H

#include <kv/registry_feed.h>
#include <kvmm/event.h>
#include <pool/internal.h>

#define EVENTS_REQUEST_KINDS \
	(BIT(KVMM_EVENT_REQUEST) | BIT(KVMM_EVENT_REQUEST_KEYS) | BIT(KVMM_EVENT_REQUEST_END))
#define EVENTS_LOOKUP_KINDS	(BIT(KVMM_EVENT_LOOKUP) | BIT(KVMM_EVENT_LOOKUP_KEYS))

struct kvmm_events {
	/* Fixed while it is open. */
	struct kvmm_pool	*pool;		/* borrowed */
	struct pool_events	*of;		/* the same pool's */
	struct kvmm_events_attr	attr;
	u32			kinds;		/* of the ring, that it reads */

	struct kvmm_events	*next;		/* compact_lock; in of->first */

	/* Owner thread. */
	u64			cursor;
	u64			since_ns;	/* when it saw that there is something; ->sees */
	bool			sees;
	u64			flushed;	/* events before this position wait for no window */
	u64			settle;		/* KEPT counts as STORED before this position */
	u64			read;
	u64			skipped;
	u64			lost;
};

struct pool_events {
	struct kv_feed		feed;		/* see there */
	u64			bytes;		/* fixed at creation */
	struct kvmm_events	*first;		/* compact_lock */
	u64			nr_lookups;	/* atomic; that consumers were told of */
	bool			clears;		/* both locks; all names go, in one event */
};

static inline struct kv_ring *ring_of(const struct kvmm_events *events)
{
	return &events->of->feed.ring;
}

/* Does the consumer want it? KEPT is STORED here. */
bool events_wants(const struct kvmm_events *events, u32 kind, u32 medium, u32 position);

/* The name of entry @index, of a block or added; false: it is not there. */
bool events_entry(const struct kvmm_pool *pool, u32 index, struct kvmm_event *event);

/* Told by the pool; see observer.h. */
void events_renamed(struct kvmm_pool *pool, struct kv_handle handle);
void events_staged(struct kvmm_pool *pool, const struct kvmm_prefix *prefix,
		   const struct kv_handle *handles);
void events_looked_up(struct kvmm_pool *pool, const struct kv_query *query, u32 nr_hits,
		      u32 nr_blocks);
void events_reused(struct kvmm_pool *pool, u32 block);
void events_clear_begin(struct kvmm_pool *pool);
void events_clear_end(struct kvmm_pool *pool);

#endif /* FEED_EVENTS_H */
