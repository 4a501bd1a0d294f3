// SPDX-License-Identifier: Apache-2.0
/* A consumer reads: filters, batches, gaps, order. */
#include <limits.h>

#include <kv/env.h>
#include <kv/feed.h>
#include <kv/sort.h>
#include <kvmm/ext/control.h>

#include "events.h"

#define POW2_FIRST	16u
#define POW2_LAST	65536u

bool events_wants(const struct kvmm_events *events, u32 kind, u32 medium, u32 position)
{
	kv_assert(kind < KV_WORD_BITS / 2);
	if (kind == KV_FEED_KEPT || !(events->kinds & BIT(kind)))
		return false;
	if (kind == KVMM_EVENT_CLEARED || kind >= KVMM_EVENT_REQUEST)
		return true;
	if (!(events->attr.media & BIT(medium)))
		return false;
	return !(events->attr.flags & KVMM_EVENTS_POW2) ||
	       (position >= POW2_FIRST && position <= POW2_LAST && kv_is_pow2(position));
}

/* ---- one record ---- */

static void decode(const struct kvmm_events *events, const u64 word[KV_RING_WORDS],
		   struct kvmm_event *event)
{
	*event = (struct kvmm_event){
		.seq	  = events->cursor,
		.domain	  = { (u32)word[4], word[4] >> 32 & 0xffff, word[4] >> 48 },
		.position = word[5],
		.tokens	  = events->pool->block_tokens,
		.block	  = word[6],
		.kind	  = word[5] >> KV_FEED_KIND_SHIFT,
		.medium	  = word[5] >> KV_FEED_MEDIUM_SHIFT,
		.flags	  = word[5] >> KV_FEED_FLAGS_SHIFT,
	};
	memcpy(&event->key, &word[0], sizeof(event->key));
	memcpy(&event->parent, &word[2], sizeof(event->parent));
	if (event->kind == KV_FEED_KEPT && events->cursor < events->settle)
		event->kind = KVMM_EVENT_STORED;
}

/* ---- batches ---- */

static bool is_due(struct kvmm_events *events)
{
	u64 nr = kv_ring_head(ring_of(events)) - events->cursor;
	u64 now;

	if (!events->attr.batch_us || nr >= events->attr.batch_max ||
	    events->cursor < events->flushed)
		return true;
	if (!nr)
		return false;
	now = kv_clock_ns();
	if (!events->sees)
		events->since_ns = now;
	events->sees = true;
	return now - events->since_ns >= events->attr.batch_us * 1000ull;
}

/* Fills @buf up to the next gap, or the last event; sorted batches are of one sort each. */
static u32 fill(struct kvmm_events *events, struct kvmm_event *buf, u32 max, u64 *nr_lost)
{
	bool sorted = events->attr.flags & KVMM_EVENTS_SORTED;
	u64 end = kv_ring_head(ring_of(events)), word[KV_RING_WORDS], next;
	enum kv_ring_answer answer;
	u32 nr = 0;

	max = min(max, events->attr.batch_max);
	while (nr < max && events->cursor < end) {
		struct kvmm_event event, *last = nr ? &buf[nr - 1] : NULL;

		answer = kv_ring_get(ring_of(events), events->cursor, word, &next);
		if (answer == KV_RING_EMPTY || (answer == KV_RING_LOST && nr))
			break;
		if (answer == KV_RING_LOST) {
			*nr_lost += next - events->cursor;
			events->cursor = next;
			end = max(end, next);
			continue;
		}
		decode(events, word, &event);
		if (events_wants(events, event.kind, event.medium, event.position)) {
			if (sorted && last &&
			    (last->kind != event.kind || last->medium != event.medium))
				break;
			buf[nr++] = event;
		} else {
			events->skipped++;
		}
		events->cursor++;
	}
	return nr;
}

/* ---- order ---- */

static bool comes_later(const struct kvmm_event *a, const struct kvmm_event *b, const void *arg)
{
	if (a->position != b->position)
		return a->kind == KVMM_EVENT_STORED ? a->position > b->position :
						      a->position < b->position;
	return a->seq > b->seq;
}

/* ---- calls ---- */

int kvmm_events_read(struct kvmm_events *events, struct kvmm_event *buf, uint32_t max,
		     uint64_t *nr_lost)
{
	u32 nr;

	if (!events || !buf || !max || !nr_lost)
		return -EINVAL;
	*nr_lost = 0;
	if (pool_refusal(events->pool) == -ECHILD)
		return -ECHILD;
	if (!is_due(events))
		return 0;
	nr = fill(events, buf, min(max, (u32)INT_MAX), nr_lost);
	if (nr || *nr_lost || events->cursor == kv_ring_head(ring_of(events)))
		events->sees = false;
	events->read += nr;
	events->lost += *nr_lost;
	if (events->attr.flags & KVMM_EVENTS_SORTED)
		kv_sort(buf, nr, comes_later, NULL);
	return nr;
}

void kv_events_flush(struct kvmm_events *events)
{
	events->flushed = kv_ring_head(ring_of(events));
}

int kvmm_events_seek(struct kvmm_events *events, uint64_t seq)
{
	if (kv_inherited(events))
		return -ECHILD;
	if (!events || seq > kv_ring_head(ring_of(events)))
		return -EINVAL;
	events->cursor = seq;
	events->flushed = 0;
	events->sees = false;
	return 0;
}

/* Fields that an older caller has no room for are not written. */
int kvmm_events_get_stat(const struct kvmm_events *events, struct kvmm_events_stat *stat)
{
	struct kvmm_events_stat known;

	if (kv_inherited(events))
		return -ECHILD;
	if (!events || kv_sized_is_bad(stat))
		return -EINVAL;
	known = (struct kvmm_events_stat){
		.happened = kv_ring_head(ring_of(events)), .read = events->read,
		.skipped = events->skipped, .lost = events->lost, .bytes = events->of->bytes,
		.cursor = events->cursor,
	};
	kv_give_sized(stat, &known, sizeof(known));
	return 0;
}
