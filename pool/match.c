// SPDX-License-Identifier: Apache-2.0
/* Looking cached blocks up: nothing here takes the pool's lock. */
#include <limits.h>

#include "internal.h"

/* cache_begin() for a lookup that answers to @out. */
static int lookup_begin(struct kvmm_pool *pool, const struct kvmm_prefix *prefix, const void *out,
			struct kv_query *query)
{
	if (!prefix || prefix->nr > INT_MAX || (prefix->nr && (!prefix->keys || !out)))
		return -EINVAL;
	*query = (struct kv_query){ prefix->keys, prefix->nr, prefix->domain };
	return cache_begin(pool);
}

void count_lookup(struct kvmm_pool *pool, u32 nr_hits, u32 nr_misses)
{
	kv_probe3(match, pool, nr_hits, nr_misses);
	tally_add(pool, TALLY_HITS, nr_hits);
	tally_add(pool, TALLY_MISSES, nr_misses);
	kv_count_add(KV_EV_HIT_BLOCKS, nr_hits);
	kv_count_add(KV_EV_MISS_BLOCKS, nr_misses);
}

void count_request(struct kvmm_pool *pool, const struct kv_query *query, u32 max_hits, u32 nr_hits)
{
	count_lookup(pool, nr_hits, query->nr - nr_hits);
	if (nr_hits < max_hits)
		pool->map->ops->missed(pool->map, query, nr_hits);
}

void kv_lookup_end(struct kvmm_pool *pool, const struct kv_query *query, u32 max_hits, u32 nr_hits,
		   u32 nr_blocks)
{
	count_request(pool, query, max_hits, nr_hits);
	pool_tell(pool, looked_up, query, nr_hits, nr_blocks);
}

u32 match_refs(struct kvmm_pool *pool, const struct kv_query *query, struct kv_handle *refs,
	       u32 *nr_first)
{
	kv_assert_reading();
	*nr_first = 0;
	return query->nr ? pool->map->ops->match(pool->map, query, refs, nr_first) : 0;
}

int kvmm_prefix_match(struct kvmm_pool *pool, const struct kvmm_prefix *prefix, kvmm_ref_t *refs)
{
	struct kv_handle *found = (struct kv_handle *)refs;
	struct kv_query query;
	u32 nr, nr_first;
	int err = lookup_begin(pool, prefix, refs, &query);

	if (err)
		return err;
	nr = match_refs(pool, &query, found, &nr_first);
	order_note_seen(&pool->order, prefix->domain.tenant, prefix->keys, prefix->nr);
	note_refs(pool, found, nr, nr_first);
	pool_tell(pool, hit, found, nr);
	cache_end(pool);
	pool_tell(pool, touched, found, nr);
	kv_lookup_end(pool, &query, query.nr, nr, 0);
	return nr;
}

int scan_uncounted(struct kvmm_pool *pool, const struct kvmm_prefix *prefix, kvmm_ref_t *refs)
{
	struct kv_handle *found = (struct kv_handle *)refs;
	struct kv_query query;
	u32 nr = 0, nr_first;
	int err = lookup_begin(pool, prefix, refs, &query);

	if (err)
		return err;
	if (prefix->nr) {
		nr = pool->map->ops->scan(pool->map, &query, found, &nr_first);
		order_note_seen(&pool->order, prefix->domain.tenant, prefix->keys, prefix->nr);
		note_found(pool, found, prefix->nr, nr_first);
		pool_tell(pool, hit, found, prefix->nr);
	}
	cache_end(pool);
	pool_tell(pool, touched, found, prefix->nr);
	return nr;
}

int kvmm_prefix_scan(struct kvmm_pool *pool, const struct kvmm_prefix *prefix, kvmm_ref_t *refs)
{
	int nr = scan_uncounted(pool, prefix, refs);

	if (nr >= 0)
		count_lookup(pool, nr, prefix->nr - nr);
	return nr;
}

int kvmm_prefix_probe(struct kvmm_pool *pool, const struct kvmm_prefix *prefix, uint64_t *present)
{
	struct kv_query query;
	int err = lookup_begin(pool, prefix, prefix, &query), nr = 0;

	if (err)
		return err;
	if (prefix->nr)
		nr = present ? pool->map->ops->probe(pool->map, &query, present) :
			       pool->map->ops->length(pool->map, &query);
	cache_end(pool);
	return nr;
}
