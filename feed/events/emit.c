// SPDX-License-Identifier: Apache-2.0
/* Events of the pool itself, and notes for its map. */
#include "events.h"

void events_staged(struct kvmm_pool *pool, const struct kvmm_prefix *prefix,
		   const struct kv_handle *handles)
{
	struct kv_feed *feed = &pool->events->feed;

	kv_assert(prefix->nr <= pool->nr_blocks);
	for (u32 i = 0; i < prefix->nr; i++)
		kv_feed_set_parent(feed, handles[i].index,
				   i ? &prefix->keys[i - 1] : prefix->parent);
}

void events_reused(struct kvmm_pool *pool, u32 block)
{
	struct kv_feed *feed = &pool->events->feed;
	u64 word[KV_RING_WORDS] = { [5] = kv_feed_info(0, KVMM_EVENT_REUSED, 0, 0), [6] = block };

	kv_assert_held(&pool->lock);
	if (READ_ONCE(feed->kinds) & BIT(KVMM_EVENT_REUSED))
		kv_ring_put(&feed->ring, word);
}

void events_renamed(struct kvmm_pool *pool, struct kv_handle handle)
{
	kv_assert_held(&pool->compact_lock);
	kv_feed_set_parent(&pool->events->feed, handle.index, NULL);
}

/*
 * All names go in one event instead of one each, unless consumers are told of other media, or
 * victims of gangs may come back.
 */
void events_clear_begin(struct kvmm_pool *pool)
{
	struct pool_events *of = pool->events;

	kv_assert_held(&pool->lock);
	of->clears = of->feed.kinds && !READ_ONCE(pool->lower) && !pool->claims.nr_named;
	if (of->clears)
		WRITE_ONCE(of->feed.kinds, 0);
}

void events_clear_end(struct kvmm_pool *pool)
{
	struct pool_events *of = pool->events;
	u64 word[KV_RING_WORDS] = { [5] = kv_feed_info(0, KVMM_EVENT_CLEARED, 0, 0),
				    [6] = KVMM_EVENT_NO_BLOCK };
	struct kvmm_event left;

	kv_assert_held(&pool->lock);
	if (!of->clears)
		return;
	for (const struct kvmm_events *at = of->first; at; at = at->next)
		WRITE_ONCE(of->feed.kinds, of->feed.kinds | at->kinds);
	kv_ring_put(&of->feed.ring, word);
	/* None as far as we know; but those that are there have to be told. */
	for (u32 i = 0; i < pool->entries.top_name; i++)
		if (events_entry(pool, i, &left))
			kv_feed_entry(&of->feed, KVMM_EVENT_STORED, &pool->entries, i);
}
