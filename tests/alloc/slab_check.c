// SPDX-License-Identifier: Apache-2.0
/* Everything that a cache believes, counted again; the invariants of alloc/slab.h by their numbers. */
#include <stdlib.h>
#include <string.h>

#include <kv/zone.h>

#include "alloc/slab.h"
#include "tests/alloc/slab_check.h"

/* Numbers of the records, to be compared with those of the cache. */
struct recount {
	u64	*taken;		/* a bit for each block of the zone */
	u64	nr_live;
	u64	nr_blocks;
	u32	nr_slabs;
	u32	nr_empty;
	u32	nr_listed;
	u32	nr_unused;	/* records */
};

/* 2, 3. */
static bool objects_are_sound(const struct kvmm_slab_cache *cache, const struct slab *slab)
{
	u32 nr_live = 0, nr_free = 0;

	for (u32 i = 0; i < cache->shape.nr_objects; i++) {
		nr_live += slab->objs[i].gen & 1;
		if (i >= slab->fresh && slab->objs[i].gen & 1)
			return false;
	}
	for (u32 i = slab->free; i != KV_NONE; i = slab->objs[i].next) {
		if (i >= slab->fresh || slab->objs[i].gen & 1 || ++nr_free > slab->fresh)
			return false;
	}
	return nr_live == slab->used && nr_live + nr_free == slab->fresh &&
	       slab->fresh <= cache->shape.nr_objects;
}

/* 1: taken from the zone, and by no other of our slabs. */
static bool run_is_sound(const struct kvmm_slab_cache *cache, const struct slab *slab,
			 struct recount *now)
{
	if (slab->start & (cache->shape.block_align - 1))
		return false;
	for (u32 i = 0; i < cache->shape.nr_blocks; i++) {
		u32 block = slab->start + i;

		if (block >= cache->zone->nr_blocks || kv_zone_is_free(cache->zone, block))
			return false;
		if (now->taken[block / KV_WORD_BITS] & BIT64(block % KV_WORD_BITS))
			return false;
		now->taken[block / KV_WORD_BITS] |= BIT64(block % KV_WORD_BITS);
	}
	return true;
}

static bool record_is_sound(const struct kvmm_slab_cache *cache, const struct slab *slab,
			    struct recount *now)
{
	if (slab->start == KV_NONE) {
		now->nr_unused++;
		for (u32 i = 0; i < cache->shape.nr_objects; i++)
			if (slab->objs[i].gen & 1)
				return false;
		return true;
	}
	now->nr_slabs++;
	now->nr_live += slab->used;
	now->nr_empty += !slab->used;
	now->nr_listed += slab_is_listed(cache, slab);
	return slab->colour < cache->shape.nr_colours && objects_are_sound(cache, slab) &&
	       run_is_sound(cache, slab, now);
}

static bool records_are_sound(const struct kvmm_slab_cache *cache, struct recount *now)
{
	u32 nr_unused = 0;

	kv_assert_held(&cache->lock);
	for (u32 i = 0; i < cache->nr_records; i++) {
		const struct slab *slab = slab_at(cache, i);

		if (slab->index != i || !record_is_sound(cache, slab, now))
			return false;
	}
	for (u32 i = cache->free_record; i != KV_NONE; i = slab_at(cache, i)->next)
		if (i >= cache->nr_records || slab_at(cache, i)->start != KV_NONE ||
		    ++nr_unused > now->nr_unused)
			return false;
	return nr_unused == now->nr_unused;
}

static bool counts_are_sound(const struct kvmm_slab_cache *cache, const struct recount *now)
{
	kv_assert_held(&cache->lock);
	return now->nr_live == cache->nr_live && now->nr_slabs == cache->nr_slabs &&
	       now->nr_empty == cache->nr_empty && cache->nr_empty <= cache->keep_empty &&
	       cache->nr_room == (u64)now->nr_slabs * cache->shape.nr_objects &&
	       cache->allocs - cache->frees == cache->nr_live &&
	       cache->slabs_made - cache->slabs_returned == cache->nr_slabs &&
	       cache->next_colour < cache->shape.nr_colours;
}

/* 4; adds the length of one list to @nr. */
static bool list_is_sound(const struct kvmm_slab_cache *cache, u32 used, u32 *nr)
{
	u32 before = KV_NONE, i;

	kv_assert(used < cache->shape.nr_objects);
	for (i = cache->order.head[used]; i != KV_NONE; i = slab_at(cache, i)->next) {
		const struct slab *slab;

		if (i >= cache->nr_records || ++*nr > cache->nr_slabs)
			return false;
		slab = slab_at(cache, i);
		if (slab->start == KV_NONE || slab->used != used || slab->prev != before ||
		    !slab_is_listed(cache, slab))
			return false;
		before = i;
	}
	return used || before == cache->order.last_empty;
}

static bool order_is_sound(const struct kvmm_slab_cache *cache, u32 nr_listed)
{
	const struct slab_order *order = &cache->order;
	u64 words[ARRAY_SIZE(order->words)] = { 0 }, summary = 0;
	s32 top = -1;
	u32 nr = 0;

	kv_assert_held(&cache->lock);
	for (u32 used = 0; used < cache->shape.nr_objects; used++) {
		if (!list_is_sound(cache, used, &nr))
			return false;
		if (order->head[used] == KV_NONE)
			continue;
		words[used / KV_WORD_BITS] |= BIT64(used % KV_WORD_BITS);
		summary |= BIT64(used / KV_WORD_BITS);
		top = used;
	}
	return nr == nr_listed && top == order->top && summary == order->summary &&
	       !memcmp(words, order->words, sizeof(words));
}

int kv_slab_cache_check(struct kvmm_slab_cache *cache)
{
	struct recount now = { .taken = calloc(KV_WORDS(cache->zone->nr_blocks), sizeof(u64)) };
	int err = 0;

	kv_lock(&cache->lock);
	if (cache->broken || (cache->cur && cache->cur->start == KV_NONE) ||
	    !records_are_sound(cache, &now) || !counts_are_sound(cache, &now) ||
	    !order_is_sound(cache, now.nr_listed)) {
		cache->broken = true;
		err = -EUCLEAN;
	}
	kv_unlock(&cache->lock);
	free(now.taken);
	return err;
}
