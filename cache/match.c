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

/* ---- blocks of names, without references ---- */

/*
 * Its block, if it still is the block of that name: place and handle are of one moment. Else
 * KV_NONE, and it is a miss: it has gone since it was found.
 */
static inline u32 block_of_weak(const struct kvmm_pool *pool, struct kv_handle handle)
{
	const u64 mask = KV_ENTRY_STATE | KV_ENTRY_HIDDEN;
	const struct kv_entry *entry = entry_at(pool, handle.index);
	u64 word = smp_load_acquire(&entry->word);
	u32 block;

	kv_assert_reading();
	if (kv_word_gen(word) != handle.gen || (word & mask) != KV_STATE_WORD(KV_ENTRY_REGISTERED))
		return KV_NONE;
	block = entry_block_told(entry);
	/* The place could be that of the next generation: the same word vouches for it. */
	return kv_is_still(&entry->word, word, ~0ull << KV_ENTRY_STATE_SHIFT) ? block : KV_NONE;
}

int kvmm_prefix_peek(struct kvmm_pool *pool, const struct kvmm_prefix *prefix, kvmm_weak_t *weak,
		     uint32_t *blocks, uint32_t flags)
{
	struct kv_lookup lookup = { .weak = (struct kv_handle *)weak,
				    .through = flags & KVMM_FIND_ALL };
	struct kv_query query;
	u32 nr_found = 0, nr_hits = 0;
	int err = flags & ~KVMM_FIND_ALL ? -EINVAL : lookup_begin(pool, prefix, weak, &query);

	if (err)
		return err;
	if (prefix->nr)
		nr_found = pool->map->ops->lookup(pool->map, &query, &lookup);
	for (u32 i = 0; i < (lookup.through ? prefix->nr : nr_found); i++) {
		u32 block = weak[i].gen ? block_of_weak(pool, lookup.weak[i]) : KV_NONE;

		if (block == KV_NONE && !lookup.through)
			break;
		if (block == KV_NONE)
			weak[i] = (kvmm_weak_t){ 0, 0 };
		if (blocks)
			blocks[i] = block;
		nr_hits += block != KV_NONE;
	}
	cache_end(pool);
	return nr_hits;
}
