// SPDX-License-Identifier: Apache-2.0
/*
 * Slabs come and go; their records stay.
 *
 * Records lie in chunks, each twice as long as the one before, and never move: a handle finds its
 * record by arithmetic. The generations of a slab's objects outlive the slab in its record.
 *
 * The work of a batch is undone in the reverse order if the batch fails, from the end of the list
 * of empty slabs and back onto that of records: so nothing remains of it.
 */
#include <kv/mem.h>
#include <kv/zone.h>

#include "slab.h"

/* Allocates host memory under cache->lock; its rank allows that. */
static int add_chunk(struct kvmm_slab_cache *cache)
{
	u32 nr = BIT(SLAB_FIRST_LOG2 + cache->nr_chunks);
	u32 first = nr - BIT(SLAB_FIRST_LOG2);
	char *chunk = kv_alloc_lines(nr, cache->record_bytes);

	kv_assert_held(&cache->lock);
	if (!chunk)
		return -ENOMEM;
	cache->chunk[cache->nr_chunks++] = chunk;
	cache->metadata_bytes += (u64)nr * cache->record_bytes;
	for (u32 i = first; i < first + nr; i++) {
		slab_at(cache, i)->index = i;
		slab_at(cache, i)->start = KV_NONE;
	}
	return 0;
}

/* No caller has a handle of an object there. */
void slab_drop_chunks(struct kvmm_slab_cache *cache, u32 nr_keep)
{
	while (cache->nr_chunks > nr_keep) {
		u32 nr = BIT(SLAB_FIRST_LOG2 + --cache->nr_chunks);

		kv_free(cache->chunk[cache->nr_chunks]);
		cache->chunk[cache->nr_chunks] = NULL;
		kv_assert(cache->metadata_bytes >= (u64)nr * cache->record_bytes);
		cache->metadata_bytes -= (u64)nr * cache->record_bytes;
	}
}

static struct slab *take_record(struct kvmm_slab_cache *cache)
{
	struct slab *slab;

	kv_assert_held(&cache->lock);
	if (cache->free_record != KV_NONE) {
		slab = slab_at(cache, cache->free_record);
		cache->free_record = slab->next;
		return slab;
	}
	if (cache->nr_records == cache->max_records)
		return ERR_PTR(-ENOSPC);
	if (chunk_of(cache->nr_records) == cache->nr_chunks) {
		int err = add_chunk(cache);

		if (err)
			return ERR_PTR(err);
	}
	return slab_at(cache, cache->nr_records++);
}

/* The run first: a call that fails for want of blocks has not grown the table. */
int slab_make(struct kvmm_slab_cache *cache)
{
	const struct kv_zone_req req = {
		.nr = cache->shape.nr_blocks, .align = cache->shape.block_align,
		.mobility = KVMM_UNMOVABLE,
	};
	struct slab *slab;
	u32 start;
	int err;

	kv_assert_held(&cache->lock);
	err = kv_zone_alloc_req(cache->zone, &req, &start);
	if (err)
		return err;
	slab = take_record(cache);
	if (IS_ERR(slab)) {
		if (KV_BUG_ON(kv_zone_free(cache->zone, start, cache->shape.nr_blocks)))
			cache->broken = true;
		return PTR_ERR(slab);
	}
	slab->start = start;
	slab->used = 0;
	slab->free = KV_NONE;
	slab->fresh = 0;
	slab->colour = cache->next_colour;
	cache->next_colour = (cache->next_colour + 1) % cache->shape.nr_colours;
	cache->nr_slabs++;
	cache->nr_empty++;
	cache->nr_room += cache->shape.nr_objects;
	slab_order_add(cache, slab);
	return 0;
}

/* It is empty, and not the current one. */
static void leave_slab(struct kvmm_slab_cache *cache, struct slab *slab)
{
	kv_assert(slab != cache->cur && !slab->used);
	kv_assert_held(&cache->lock);
	slab_order_del(cache, slab);
	if (KV_BUG_ON(kv_zone_free(cache->zone, slab->start, cache->shape.nr_blocks)))
		cache->broken = true;
	slab->start = KV_NONE;
	kv_assert(cache->nr_slabs);
	kv_assert(cache->nr_empty);
	kv_assert(cache->nr_room >= cache->shape.nr_objects);
	cache->nr_slabs--;
	cache->nr_empty--;
	cache->nr_room -= cache->shape.nr_objects;
	/* A record without objects that ever lived is forgotten: only the last one can be that. */
	if (slab->index == cache->nr_records - 1 && !slab->fresh && !slab->objs[0].gen) {
		cache->nr_records--;
		return;
	}
	slab->next = cache->free_record;
	cache->free_record = slab->index;
}

/* The slab that was made last, of which no other thread has heard yet. */
void slab_unmake(struct kvmm_slab_cache *cache)
{
	struct slab *slab = slab_at(cache, cache->order.last_empty);

	kv_assert_held(&cache->lock);
	cache->next_colour = slab->colour;
	leave_slab(cache, slab);
}

void slab_return(struct kvmm_slab_cache *cache, struct slab *slab)
{
	kv_assert_held(&cache->lock);
	if (slab == cache->cur) {
		cache->cur = NULL;
		slab_order_add(cache, slab);
	}
	leave_slab(cache, slab);
	cache->slabs_returned++;
}
