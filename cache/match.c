// SPDX-License-Identifier: Apache-2.0
/* Looking cached blocks up: nothing here takes the pool's lock. */
#include <limits.h>

#include "cache.h"

/* cache_begin() for a lookup that answers to @out. */
static int lookup_begin(struct kvmm_pool *pool, const struct kvmm_prefix *prefix, const void *out,
			struct kv_query *query)
{
	if (!prefix || prefix->nr > INT_MAX || (prefix->nr && (!prefix->keys || !out)))
		return -EINVAL;
	*query = query_of(prefix);
	return cache_begin(pool);
}

void kv_lookup_end(struct kvmm_pool *pool, const struct kv_query *query, u32 max_hits, u32 nr_hits,
		   u32 nr_blocks)
{
	u32 nr_misses = query->nr - nr_hits;

	kv_assert(nr_hits <= query->nr);
	kv_probe3(match, pool, nr_hits, nr_misses);
	tally_add(pool, TALLY_HITS, nr_hits);
	tally_add(pool, TALLY_MISSES, nr_misses);
	kv_count_add(KV_EV_HIT_BLOCKS, nr_hits);
	kv_count_add(KV_EV_MISS_BLOCKS, nr_misses);
	if (nr_hits < max_hits)
		pool->map->ops->missed(pool->map, query, nr_hits);
	if (nr_blocks != KV_LOOKUP_UNTOLD)
		pool_tell(pool, looked_up, query, nr_hits, nr_blocks);
}

int scan_uncounted(struct kvmm_pool *pool, const struct kvmm_prefix *prefix, kvmm_ref_t *refs)
{
	struct kv_lookup lookup = { .refs = (struct kv_handle *)refs, .through = true };
	struct kv_query query;
	u32 nr = 0;
	int err = lookup_begin(pool, prefix, refs, &query);

	if (err)
		return err;
	if (prefix->nr) {
		nr = pool->map->ops->lookup(pool->map, &query, &lookup);
		order_note_seen(&pool->order, prefix->domain.tenant, prefix->keys, prefix->nr);
		note_found(pool, lookup.refs, prefix->nr, lookup.nr_first);
		pool_tell(pool, hit, lookup.refs, prefix->nr);
	}
	cache_end(pool);
	pool_tell(pool, touched, lookup.refs, prefix->nr);
	return nr;
}

int kvmm_prefix_find(struct kvmm_pool *pool, const struct kvmm_prefix *prefix, kvmm_ref_t *refs,
		     uint32_t flags)
{
	struct kv_handle *found = (struct kv_handle *)refs;
	struct kv_query query;
	u32 nr_first;
	int nr;

	if (unlikely(flags)) {
		nr = flags & ~KVMM_FIND_ALL ? -EINVAL : scan_uncounted(pool, prefix, refs);
		if (nr >= 0)
			kv_lookup_end(pool, &query_of(prefix), 0, nr, KV_LOOKUP_UNTOLD);
		return nr;
	}
	nr = lookup_begin(pool, prefix, refs, &query);
	if (nr)
		return nr;
	nr = match_refs(pool, &query, found, &nr_first);
	order_note_seen(&pool->order, prefix->domain.tenant, prefix->keys, prefix->nr);
	note_refs(pool, found, nr, nr_first);
	pool_tell(pool, hit, found, nr);
	cache_end(pool);
	pool_tell(pool, touched, found, nr);
	kv_lookup_end(pool, &query, query.nr, nr, 0);
	return nr;
}

int kvmm_prefix_probe(struct kvmm_pool *pool, const struct kvmm_prefix *prefix, uint64_t *present)
{
	struct kv_lookup lookup = { .present = present, .through = present };
	struct kv_query query;
	int err = lookup_begin(pool, prefix, prefix, &query), nr = 0;

	if (err)
		return err;
	if (prefix->nr)
		nr = pool->map->ops->lookup(pool->map, &query, &lookup);
	cache_end(pool);
	return nr;
}
