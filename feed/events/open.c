// SPDX-License-Identifier: Apache-2.0
/* Consumers come and go, and with the first one the feed; see events.h. */
#include <kv/err.h>
#include <kv/mem.h>
#include <kv/rcu.h>
#include <kv/tier.h>
#include <tier/pool/tier.h>

#include "events.h"

#define MIN_RING	16u
#define MAX_RING	(1u << 24)
#define ALL_KINDS	(BIT(KVMM_NR_EVENT_KINDS) - 1)
#define ALL_MEDIA	(BIT(KVMM_NR_MEDIA) - 1)
#define FOR_TRACES	(KVMM_EVENTS_REQUESTS | KVMM_EVENTS_LOOKUPS | KVMM_EVENTS_REUSED)
#define ALL_FLAGS	(KVMM_EVENTS_POW2 | KVMM_EVENTS_SORTED | FOR_TRACES)

/* ---- the feed ---- */

static void free_feed(struct pool_events *of)
{
	kv_ring_exit(&of->feed.ring);
	kv_free(of->feed.parent);
	kv_free(of);
}

static struct pool_events *make_feed(const struct kvmm_pool *pool, u32 nr_ring)
{
	struct pool_events *of = kv_alloc_lines(1, sizeof(*of));

	kv_assert_held(&pool->compact_lock);
	if (!of)
		return NULL;
	of->feed.parent = kv_alloc_array(pool->nr_blocks, sizeof(*of->feed.parent));
	if (!of->feed.parent || kv_ring_init(&of->feed.ring, nr_ring)) {
		free_feed(of);
		return NULL;
	}
	of->bytes = sizeof(*of) + (u64)nr_ring * sizeof(struct kv_ring_slot) +
		    (u64)pool->nr_blocks * sizeof(*of->feed.parent);
	return of;
}

extern const struct pool_part events_part;

static int publish_feed(struct kvmm_pool *pool, struct pool_events *of)
{
	int err = pool_enter(pool);

	kv_assert_held(&pool->compact_lock);
	if (err)
		return err;
	pool->metadata_bytes += of->bytes;
	/* Pairs with feed_for() and kv_feed_of(): all of it is there. */
	smp_store_release(&pool->events, of);
	smp_store_release(&pool->map->feed, &of->feed);
	pool_observe(pool, &events_part);
	pool_leave(pool);
	return 0;
}

static void events_attached(struct kvmm_pool *pool)
{
	/* Each side publishes its own first, under ->lock: one of them at least sees both. */
	struct pool_events *of = smp_load_acquire(&pool->events);
	struct lower *lower;

	/* Pairs with kvmm_tier_detach(), which waits for us between taking away and freeing it. */
	kv_rcu_read_lock();
	lower = lower_of(pool);
	if (of && lower)
		kv_tier_tell(lower->client, &of->feed);
	kv_rcu_read_unlock();
}

static int get_feed(struct kvmm_pool *pool, u32 nr_ring, struct pool_events **of)
{
	int err;

	kv_assert_held(&pool->compact_lock);
	*of = pool->events;
	if (*of)
		return 0;
	*of = make_feed(pool, nr_ring);
	if (!*of)
		return -ENOMEM;
	err = publish_feed(pool, *of);
	if (err) {
		free_feed(*of);
		return err;
	}
	events_attached(pool);
	return 0;
}

/* ---- consumers ---- */

static int read_attr(const struct kvmm_events_attr *from, struct kvmm_events_attr *attr)
{
	const struct kvmm_events_attr preset = KVMM_EVENTS_ATTR_INIT;
	int err = kv_copy_attr(attr, sizeof(*attr), from ? from : &preset);

	if (err)
		return err;
	attr->kinds &= ALL_KINDS;
	attr->media &= ALL_MEDIA;
	if (attr->ring < MIN_RING || attr->ring > MAX_RING || !kv_is_pow2(attr->ring) ||
	    attr->flags & ~ALL_FLAGS || !attr->media || !attr->batch_max)
		return -EINVAL;
	if (!attr->kinds && !(attr->flags & FOR_TRACES))
		return -EINVAL;
	/* Records that belong together would be torn apart. */
	return attr->flags & FOR_TRACES && attr->flags & KVMM_EVENTS_SORTED ? -EINVAL : 0;
}

/* Kinds read by any consumer. */
static u32 sum_kinds(const struct pool_events *of)
{
	u32 kinds = 0;

	for (const struct kvmm_events *at = of->first; at; at = at->next)
		kinds |= at->kinds;
	return kinds;
}

static int add(struct kvmm_pool *pool, struct kvmm_events *events)
{
	int err = get_feed(pool, events->attr.ring, &events->of);

	kv_assert_held(&pool->compact_lock);
	if (err)
		return err;
	events->next = events->of->first;
	events->of->first = events;
	WRITE_ONCE(events->of->feed.kinds, sum_kinds(events->of));
	/* A writer that did not see the new reader has done its change; see events.h. */
	kv_rcu_synchronize();
	events->cursor = kv_ring_head(ring_of(events));
	return 0;
}

int kvmm_events_open(struct kvmm_pool *pool, const struct kvmm_events_attr *attr,
		     struct kvmm_events **result)
{
	struct kvmm_events *events;
	struct kvmm_events_attr known;
	int err;

	if (!pool || !result)
		return -EINVAL;
	if (!pool->caches)
		return -EOPNOTSUPP;
	err = read_attr(attr, &known);
	if (!err)
		err = pool_refusal(pool);
	if (err)
		return err;
	events = kv_alloc(sizeof(*events));
	if (!events)
		return -ENOMEM;
	events->pool = pool;
	events->attr = known;
	events->kinds = known.kinds | BIT(KV_FEED_KEPT);
	if (known.flags & KVMM_EVENTS_REQUESTS)
		events->kinds |= EVENTS_REQUEST_KINDS;
	if (known.flags & KVMM_EVENTS_LOOKUPS)
		events->kinds |= EVENTS_LOOKUP_KINDS;
	if (known.flags & KVMM_EVENTS_REUSED)
		events->kinds |= BIT(KVMM_EVENT_REUSED);
	kv_lock(&pool->compact_lock);
	err = add(pool, events);
	kv_unlock(&pool->compact_lock);
	if (err) {
		kv_free(events);
		return err;
	}
	*result = events;
	return 0;
}

void kvmm_events_close(struct kvmm_events *events)
{
	struct kvmm_pool *pool;
	struct kvmm_events **at;

	if (!events || kv_inherited(events))
		return;
	pool = events->pool;
	if (pool_refusal(pool) != -ECHILD) {
		kv_lock(&pool->compact_lock);
		for (at = &events->of->first; *at != events; at = &(*at)->next)
			;
		*at = events->next;
		WRITE_ONCE(events->of->feed.kinds, sum_kinds(events->of));
		kv_unlock(&pool->compact_lock);
	}
	kv_free(events);
}

/* ---- the pool's end, and its health ---- */

static void events_exit(struct kvmm_pool *pool)
{
	if (pool->events)
		free_feed(pool->events);
}

static int events_check(struct kvmm_pool *pool, const struct pool_recount *re)
{
	struct pool_events *of = pool->events;

	if (!of)
		return pool->map && pool->map->feed ? -EUCLEAN : 0;
	if (pool->map->feed != &of->feed || of->feed.kinds != sum_kinds(of))
		return -EUCLEAN;
	for (u32 i = 0; i < pool->nr_blocks; i++)
		if (READ_ONCE(of->feed.parent[i].known) > 1)
			return -EUCLEAN;
	return kv_ring_check(&of->feed.ring);
}

static const struct pool_observer observer = {
	.staged		= events_staged,
	.renamed	= events_renamed,
	.looked_up	= events_looked_up,
	.reused		= events_reused,
	.clear_begin	= events_clear_begin,
	.clear_end	= events_clear_end,
	.attached	= events_attached,
};

POOL_PART(events) = {
	.name	= "events",
	.exit	= events_exit,
	.observer = &observer,
	.check	= events_check,
};
