// SPDX-License-Identifier: Apache-2.0
/*
 * Requests and lookups as events, for traces: a head, and records of two keys each.
 *
 *	word	0	1	2			3	4	5	6
 *	request	number	time	input | output << 32	keys	domain	info	-
 *	end	number	time	input | output << 32	hits	-	info	-
 *	lookup	number	time	hits | blocks << 32	keys	domain	info	-
 *	keys	first key	second key			number	info	-
 *
 * The records of one request are in order, but others' may stand in between: so each has the
 * number, and the head says how many keys there are. Nothing is decided by them, so no lock is
 * held.
 */
#include <limits.h>

#include <kv/env.h>
#include <kv/feed.h>
#include <kvmm/ext/control.h>

#include "events.h"

static struct kv_feed *feed_for(struct kvmm_pool *pool, u32 kind)
{
	/* Pairs with publish_feed(): the ring is there. */
	struct pool_events *of = smp_load_acquire(&pool->events);

	return of && READ_ONCE(of->feed.kinds) & BIT(kind) ? &of->feed : NULL;
}

static void put_keys(struct kv_feed *feed, u32 kind, u64 number, const kvmm_key_t *keys, u32 nr)
{
	for (u32 i = 0; i < nr; i += 2) {
		bool two = i + 1 < nr;
		u64 word[KV_RING_WORDS] = { [4] = number, [6] = KVMM_EVENT_NO_BLOCK };

		word[5] = kv_feed_info(i, kind, 0, two ? KVMM_EVENT_HAS_PARENT : 0);
		kv_key_words(&keys[i], &word[0]);
		if (two)
			kv_key_words(&keys[i + 1], &word[2]);
		kv_ring_put(&feed->ring, word);
	}
}

/* ---- requests that the pool itself sees ---- */

void events_looked_up(struct kvmm_pool *pool, const struct kv_query *query, u32 nr_hits,
		      u32 nr_blocks)
{
	struct kv_feed *feed = feed_for(pool, KVMM_EVENT_LOOKUP);
	u64 word[KV_RING_WORDS];

	kv_assert_not_held(&pool->lock);
	if (!feed || !query->nr)
		return;
	/* A number and nothing else: the ring orders. */
	word[0] = kv_fetch_add(&pool->events->nr_lookups, 1);
	word[1] = kv_clock_ns() / 1000;
	word[2] = (u64)nr_blocks << 32 | nr_hits;
	word[3] = query->nr;
	word[4] = kv_domain_word(query->domain);
	word[5] = kv_feed_info(0, KVMM_EVENT_LOOKUP, 0, 0);
	word[6] = KVMM_EVENT_NO_BLOCK;
	kv_ring_put(&feed->ring, word);
	put_keys(feed, KVMM_EVENT_LOOKUP_KEYS, word[0], query->keys, query->nr);
}

/* ---- requests that the engine reports ---- */

bool kv_requests_are_read(struct kvmm_pool *pool)
{
	return feed_for(pool, KVMM_EVENT_REQUEST);
}

static void tell(struct kv_feed *feed, const struct kvmm_request_note *note)
{
	u32 kind = note->is_end ? KVMM_EVENT_REQUEST_END : KVMM_EVENT_REQUEST;
	u64 word[KV_RING_WORDS] = {
		note->request, note->time_us, (u64)note->output << 32 | note->input,
		note->is_end ? note->hits : note->nr_keys, kv_domain_word(note->domain),
		kv_feed_info(0, kind, 0, 0), KVMM_EVENT_NO_BLOCK,
	};

	if (note->time_us == KVMM_NOTE_NOW)
		word[1] = kv_clock_ns() / 1000;
	kv_ring_put(&feed->ring, word);
	if (!note->is_end)
		put_keys(feed, KVMM_EVENT_REQUEST_KEYS, note->request, note->keys, note->nr_keys);
}

int kvmm_note_request(struct kvmm_pool *pool, const struct kvmm_request_note *note)
{
	struct kvmm_request_note known = { 0 };
	struct kv_feed *feed;

	if (kv_inherited(pool))
		return -ECHILD;
	if (!pool || !note || kv_copy_attr(&known, sizeof(known), note))
		return -EINVAL;
	if ((known.nr_keys && !known.keys) || known.nr_keys > INT_MAX || known.is_end > 1 ||
	    known.reserved)
		return -EINVAL;
	feed = feed_for(pool, KVMM_EVENT_REQUEST);
	if (likely(!feed))
		return 0;
	if (pool_refusal(pool) == -ECHILD)
		return -ECHILD;
	tell(feed, &known);
	return 0;
}

/* ---- reading ---- */

static void read_head(const struct kvmm_event *event, struct kvmm_event_request *request)
{
	u64 word[4];

	memcpy(&word[0], &event->key, sizeof(event->key));
	memcpy(&word[2], &event->parent, sizeof(event->parent));
	request->request = word[0];
	request->time_us = word[1];
	request->domain = event->domain;
	if (event->kind == KVMM_EVENT_LOOKUP) {
		request->hits = word[2];
		request->blocks = word[2] >> 32;
	} else {
		request->input = word[2];
		request->output = word[2] >> 32;
	}
	if (event->kind == KVMM_EVENT_REQUEST_END)
		request->hits = word[3];
	else
		request->nr_keys = word[3];
}

/* Fields that an older caller has no room for are not written. */
int kvmm_event_get_request(const struct kvmm_event *event, struct kvmm_event_request *request)
{
	struct kvmm_event_request known = { 0 };

	if (!event || kv_sized_is_bad(request) ||
	    event->kind < KVMM_EVENT_REQUEST || event->kind > KVMM_EVENT_LOOKUP_KEYS)
		return -EINVAL;
	if (event->kind == KVMM_EVENT_REQUEST_KEYS || event->kind == KVMM_EVENT_LOOKUP_KEYS) {
		known.request = kv_domain_word(event->domain);
		known.first = event->position;
		known.nr_keys = event->flags & KVMM_EVENT_HAS_PARENT ? 2 : 1;
		known.key[0] = event->key;
		known.key[1] = event->parent;
	} else {
		read_head(event, &known);
	}
	kv_give_sized(request, &known, sizeof(known));
	return 0;
}
