// SPDX-License-Identifier: Apache-2.0
/*
 * Slab caches: objects taken and given back.
 *
 * Objects come from the current slab, which stays the current one as long as no other with room is
 * fuller: a pair of calls that takes an object and gives it back touches no list. Where a slab
 * becomes fuller or emptier elsewhere it changes lists (slab_order.c).
 *
 * Batches are all or nothing without any memory of their own. Slabs that are missing are made
 * before the first object is taken; handles that are freed are first struck off, each by moving
 * its generation on, so that a bad one, or the second of two equal ones, is met before anything
 * else has changed, and the generations go back to where they were.
 */
#include <string.h>

#include <kv/log.h>
#include <kv/mem.h>
#include <kv/stat.h>
#include <kv/zone.h>

#include "slab.h"

static u32 next_cache_id;	/* kv_fetch_add(); tells locks of one rank apart */

static bool name_is_good(const char *name)
{
	size_t len = name ? strnlen(name, KVMM_SLAB_NAME_BYTES) : 0;

	for (size_t i = 0; i < len; i++)
		if (name[i] <= ' ' || name[i] > '~')
			return false;
	return len && len < KVMM_SLAB_NAME_BYTES;
}

static void fill_cache(struct kvmm_slab_cache *cache, struct kv_zone *zone,
		       const struct kvmm_slab_attr *attr, const struct kv_slab_shape *shape)
{
	u32 bytes = sizeof(struct slab) + shape->nr_objects * sizeof(struct slab_obj);

	cache->zone = zone;
	cache->shape = *shape;
	cache->object_bytes = attr->object_bytes;
	cache->base_block_bytes = attr->base_block_bytes;
	cache->colour_bytes = attr->colour_bytes;
	cache->keep_empty = attr->keep_empty;
	cache->obj_bits = kv_order(shape->nr_objects);
	/* Small records do not cross cache lines. */
	cache->record_bytes = bytes <= KV_CACHELINE ? BIT(kv_order(bytes)) : bytes;
	cache->max_records = min((u64)(zone->nr_blocks / shape->nr_blocks),
				 BIT64(32 - cache->obj_bits) - 1);
	memcpy(cache->name, attr->name, strlen(attr->name) + 1);
	kv_lock_init(&cache->lock, KV_RANK_POOL, kv_fetch_add(&next_cache_id, 1));
	cache->order.top = -1;
	cache->order.last_empty = KV_NONE;
	cache->free_record = KV_NONE;
	for (u32 i = 0; i < shape->nr_objects; i++)
		cache->order.head[i] = KV_NONE;
	cache->metadata_bytes = sizeof(*cache) + shape->nr_objects * sizeof(u32);
}

int slab_cache_make(struct kv_zone *zone, const struct kvmm_slab_attr *attr,
		    struct kvmm_slab_cache **result)
{
	struct kv_slab_shape shape;
	struct kvmm_slab_cache *cache;
	int err;

	if (!name_is_good(attr->name))
		return -EINVAL;
	err = slab_shape(zone->nr_blocks, attr, &shape);
	if (err == -ERANGE)
		return kv_refuse(err, "the best slabs waste %u per mille of %u blocks",
				 shape.nr_objects ? shape.waste_pm : 1000, shape.nr_blocks);
	if (err)
		return err;
	cache = kv_alloc_lines(1, sizeof(*cache));
	if (!cache)
		return -ENOMEM;
	err = -ENOMEM;
	cache->order.head = kv_alloc_array(shape.nr_objects, sizeof(u32));
	if (!cache->order.head)
		goto out_free_cache;
	fill_cache(cache, zone, attr, &shape);
	err = slab_list_add(cache);
	if (err)
		goto out_free_head;
	*result = cache;
	return 0;

out_free_head:
	kv_free(cache->order.head);
out_free_cache:
	kv_free(cache);
	return err;
}

int kvmm_slab_cache_create(const struct kvmm_slab_attr *attr, struct kvmm_slab_cache **cache)
{
	struct kv_zone_attr zone_attr = { 0 };
	struct kv_zone *zone;
	int err;

	kv_why_clear();
	if (!attr || !cache || attr->size != sizeof(*attr) || attr->reserved ||
	    !attr->beside == !attr->nr_blocks)
		return -EINVAL;
	if (attr->beside)
		return kv_inherited(attr->beside) ? -ECHILD :
		       slab_cache_make(attr->beside->zone, attr, cache);
	zone_attr.nr_blocks = attr->nr_blocks;
	err = kv_zone_create(&zone_attr, &zone);
	if (err)
		return err;
	err = slab_cache_make(zone, attr, cache);
	if (err)
		kv_zone_destroy(zone);
	return err;
}

void kvmm_slab_cache_destroy(struct kvmm_slab_cache *cache)
{
	if (!cache || kv_inherited(cache))
		return;
	/* Caches beside this one reclaim nothing from it any more. */
	kv_lock(&cache->lock);
	cache->broken = true;
	kv_unlock(&cache->lock);
	for (u32 i = 0; i < cache->nr_records; i++) {
		struct slab *slab = slab_at(cache, i);

		if (slab->start != KV_NONE)
			KV_BUG_ON(kv_zone_free(cache->zone, slab->start, cache->shape.nr_blocks));
	}
	if (slab_list_del(cache)) {
		KV_BUG_ON(kv_zone_nr_free(cache->zone) != cache->zone->nr_blocks);
		kv_zone_destroy(cache->zone);
	}
	slab_drop_chunks(cache, 0);
	kv_free(cache->order.head);
	kv_free(cache);
}

/* On error the lock is not held. */
static inline int cache_enter(struct kvmm_slab_cache *cache)
{
	if (kv_inherited(cache))
		return -ECHILD;
	kv_lock(&cache->lock);
	if (likely(!cache->broken))
		return 0;
	kv_unlock(&cache->lock);
	return -EUCLEAN;
}

/* ---- taking objects ---- */

/* Slabs for @nr objects more: all of them, or none. */
static noinline int make_slabs(struct kvmm_slab_cache *cache, u32 nr)
{
	u64 missing = nr - (cache->nr_room - cache->nr_live), made;
	u64 wanted = (missing + cache->shape.nr_objects - 1) / cache->shape.nr_objects;
	u32 nr_chunks = cache->nr_chunks;
	int err = wanted > cache->max_records ? -ENOSPC : 0;

	kv_assert_held(&cache->lock);
	kv_assert(missing <= nr);
	for (made = 0; !err && made < wanted; made += !err)
		err = slab_make(cache);
	if (!err) {
		cache->slabs_made += made;
		return 0;
	}
	while (made--)
		slab_unmake(cache);
	slab_drop_chunks(cache, nr_chunks);
	return err;
}

/* There is one with room. */
static noinline struct slab *__switch_slab(struct kvmm_slab_cache *cache)
{
	struct slab *cur = cache->cur;

	kv_assert_held(&cache->lock);
	if (cur && cur->used < cache->shape.nr_objects)
		slab_order_add(cache, cur);
	cur = slab_at(cache, cache->order.head[cache->order.top]);
	slab_order_del(cache, cur);
	cache->cur = cur;
	return cur;
}

static inline struct slab *fullest_slab(struct kvmm_slab_cache *cache)
{
	struct slab *cur = cache->cur;

	kv_assert_held(&cache->lock);
	if (likely(cur && cur->used < cache->shape.nr_objects &&
		   (s32)cur->used >= cache->order.top))
		return cur;
	return __switch_slab(cache);
}

/* There is room for it. */
static inline kvmm_slab_obj_t take_object(struct kvmm_slab_cache *cache)
{
	struct slab *slab = fullest_slab(cache);
	u32 i = slab->free;

	kv_assert_held(&cache->lock);
	if (i != KV_NONE)
		slab->free = slab->objs[i].next;
	else
		i = slab->fresh++;
	cache->nr_empty -= !slab->used++;
	return (kvmm_slab_obj_t){ slab->index << cache->obj_bits | i, ++slab->objs[i].gen };
}

static inline int alloc_objects(struct kvmm_slab_cache *cache, u32 nr, kvmm_slab_obj_t *objs)
{
	int err = cache_enter(cache);

	if (unlikely(err))
		return err;
	if (unlikely(cache->nr_room - cache->nr_live < nr))
		err = make_slabs(cache, nr);
	if (likely(!err)) {
		for (u32 i = 0; i < nr; i++)
			objs[i] = take_object(cache);
		cache->nr_live += nr;
		cache->allocs += nr;
	}
	kv_unlock(&cache->lock);
	return err;
}

/* Slabs that any cache of the zone keeps empty go back first. */
static noinline int __alloc_objects_slow(struct kvmm_slab_cache *cache, u32 nr,
					 kvmm_slab_obj_t *objs)
{
	int err = slab_reclaim(cache->zone) ? alloc_objects(cache, nr, objs) : -ENOSPC;

	if (err != -ENOSPC)
		return err;
	kv_lock(&cache->lock);
	cache->fail_nospc++;
	kv_unlock(&cache->lock);
	return err;
}

int kvmm_slab_alloc(struct kvmm_slab_cache *cache, u32 nr, kvmm_slab_obj_t *objs)
{
	int err;

	if (unlikely(!cache || !nr || !objs))
		return -EINVAL;
	err = alloc_objects(cache, nr, objs);
	return likely(err != -ENOSPC) ? err : __alloc_objects_slow(cache, nr, objs);
}

/* ---- handles ---- */

/* The object it names if it were good. */
static inline struct slab *slab_of(const struct kvmm_slab_cache *cache, kvmm_slab_obj_t obj,
				   u32 *i)
{
	kv_assert(obj.index >> cache->obj_bits < cache->nr_records);
	*i = obj.index & (BIT(cache->obj_bits) - 1);
	return slab_at(cache, obj.index >> cache->obj_bits);
}

/* Generations only grow: one that was not reached yet is made up. */
static noinline struct slab *__bad_handle(u32 gen, u32 now)
{
	kv_count(KV_EV_BAD_HANDLE);
	return ERR_PTR(!(gen & 1) || (s32)(gen - now) > 0 ? -EINVAL : -ESTALE);
}

/* The slab of an object that lives, and which one it is; or ERR_PTR. */
static inline struct slab *find_object(const struct kvmm_slab_cache *cache, kvmm_slab_obj_t obj,
				       u32 *i)
{
	struct slab *slab;
	u32 now;

	kv_assert_held(&cache->lock);
	*i = obj.index & (BIT(cache->obj_bits) - 1);
	if (unlikely(obj.index >> cache->obj_bits >= cache->nr_records ||
		     *i >= cache->shape.nr_objects))
		return __bad_handle(0, 0);
	slab = slab_of(cache, obj, i);
	now = slab->objs[*i].gen;
	if (unlikely(now != obj.gen || !(now & 1)))
		return __bad_handle(obj.gen, now);
	return slab;
}

/* ---- giving them back ---- */

static noinline void __slab_became_empty(struct kvmm_slab_cache *cache, struct slab *slab)
{
	kv_assert_held(&cache->lock);
	if (++cache->nr_empty > cache->keep_empty)
		slab_return(cache, slab);
}

static inline bool slab_is_full(const struct kvmm_slab_cache *cache, const struct slab *slab)
{
	kv_assert(slab->used <= cache->shape.nr_objects);
	return slab->used == cache->shape.nr_objects;
}

/*
 * One object less. A full slab becomes the current one if that is full itself: none with room can
 * be fuller, and neither of the two was or will be on a list.
 */
static inline void count_down(struct kvmm_slab_cache *cache, struct slab *slab)
{
	struct slab *cur = cache->cur;

	kv_assert_held(&cache->lock);
	if (slab == cur) {
		kv_assert(slab->used);
		slab->used--;
	} else if (cur && slab_is_full(cache, cur) && slab_is_full(cache, slab)) {
		cache->cur = slab;
		kv_assert(slab->used);
		slab->used--;
	} else {
		if (!slab_is_full(cache, slab))
			slab_order_del(cache, slab);
		kv_assert(slab->used);
		slab->used--;
		slab_order_add(cache, slab);
	}
}

/* It has been struck off. */
static inline void put_object(struct kvmm_slab_cache *cache, struct slab *slab, u32 i)
{
	kv_assert_held(&cache->lock);
	slab->objs[i].next = slab->free;
	slab->free = i;
	count_down(cache, slab);
	if (unlikely(!slab->used))
		__slab_became_empty(cache, slab);
}

static inline int free_one(struct kvmm_slab_cache *cache, kvmm_slab_obj_t obj)
{
	u32 i;
	struct slab *slab = find_object(cache, obj, &i);

	kv_assert_held(&cache->lock);
	if (unlikely(IS_ERR(slab)))
		return PTR_ERR(slab);
	slab->objs[i].gen++;
	put_object(cache, slab, i);
	return 0;
}

/* All of them are struck off first, or none. */
static int free_batch(struct kvmm_slab_cache *cache, u32 nr, const kvmm_slab_obj_t *objs)
{
	struct slab *slab;
	u32 i, k;

	kv_assert_held(&cache->lock);
	for (k = 0; k < nr; k++) {
		slab = find_object(cache, objs[k], &i);
		if (unlikely(IS_ERR(slab)))
			goto out_restore;
		slab->objs[i].gen++;
	}
	for (k = 0; k < nr; k++) {
		slab = slab_of(cache, objs[k], &i);
		put_object(cache, slab, i);
	}
	return 0;

out_restore:
	while (k--)
		slab_of(cache, objs[k], &i)->objs[i].gen--;
	return PTR_ERR(slab);
}

int kvmm_slab_free(struct kvmm_slab_cache *cache, u32 nr, const kvmm_slab_obj_t *objs)
{
	int err;

	if (unlikely(!cache || !nr || !objs))
		return -EINVAL;
	err = cache_enter(cache);
	if (unlikely(err))
		return err;
	err = nr == 1 ? free_one(cache, *objs) : free_batch(cache, nr, objs);
	if (likely(!err)) {
		kv_assert(cache->nr_live >= nr);
		cache->nr_live -= nr;
		cache->frees += nr;
	}
	kv_unlock(&cache->lock);
	return err;
}

u32 slab_shrink(struct kvmm_slab_cache *cache)
{
	u32 nr;

	if (cache_enter(cache))
		return 0;
	for (nr = 0; cache->nr_empty; nr++) {
		struct slab *cur = cache->cur;
		bool cur_is_empty = cur && !cur->used;

		slab_return(cache, cur_is_empty ? cur : slab_at(cache, cache->order.head[0]));
	}
	kv_unlock(&cache->lock);
	return nr;
}

/* ---- where they lie ---- */

int kvmm_slab_places(struct kvmm_slab_cache *cache, u32 nr, const kvmm_slab_obj_t *objs,
		     struct kvmm_slab_place *places)
{
	const struct slab *slab;
	u32 i;
	int err;

	if (!cache || !nr || !objs || !places)
		return -EINVAL;
	err = cache_enter(cache);
	if (err)
		return err;
	for (u32 k = 0; k < nr && !err; k++) {
		slab = find_object(cache, objs[k], &i);
		err = IS_ERR(slab) ? PTR_ERR(slab) : 0;
	}
	for (u32 k = 0; k < nr && !err; k++) {
		slab = slab_of(cache, objs[k], &i);
		places[k] = (struct kvmm_slab_place){
			.offset = slab->start * cache->base_block_bytes +
				  slab->colour * cache->colour_bytes + i * cache->shape.stride,
			.bytes = cache->object_bytes,
			.run = { slab->start, cache->shape.nr_blocks },
		};
	}
	kv_unlock(&cache->lock);
	return err;
}
