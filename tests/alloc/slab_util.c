// SPDX-License-Identifier: Apache-2.0
#include <kv/zone.h>

#include "alloc/slab.h"
#include "tests/alloc/slab_util.h"

#define BLOCK_BYTES	64u
#define MAX_PICTURE	4096u

struct kv_zone *slab_zone(u32 nr_blocks)
{
	struct kv_zone_attr attr = { .nr_blocks = nr_blocks };
	struct kv_zone *zone;

	cr_assert_eq(kv_zone_create(&attr, &zone), 0);
	return zone;
}

struct kvmm_slab_attr slab_attr(const char *name, u64 object_bytes)
{
	struct kvmm_slab_attr attr = { .size = sizeof(attr), .name = name,
				       .object_bytes = object_bytes,
				       .base_block_bytes = BLOCK_BYTES, .max_waste_pm = 1000 };

	return attr;
}

struct kvmm_slab_cache *slab_cache_of(struct kv_zone *zone, const struct kvmm_slab_attr *attr)
{
	struct kvmm_slab_cache *cache;

	cr_assert_eq(slab_cache_make(zone, attr, &cache), 0);
	return cache;
}

struct kvmm_slab_cache *slab_cache(struct kv_zone *zone, const char *name, u64 object_bytes)
{
	struct kvmm_slab_attr attr = slab_attr(name, object_bytes);

	return slab_cache_of(zone, &attr);
}

kvmm_slab_obj_t slab_take(struct kvmm_slab_cache *cache)
{
	kvmm_slab_obj_t obj = { 0, 0 };

	cr_assert_eq(kvmm_slab_alloc(cache, 1, &obj), 0);
	return obj;
}

void slab_give(struct kvmm_slab_cache *cache, kvmm_slab_obj_t obj)
{
	cr_assert_eq(kvmm_slab_free(cache, 1, &obj), 0);
}

struct kvmm_slab_place slab_place(struct kvmm_slab_cache *cache, kvmm_slab_obj_t obj)
{
	struct kvmm_slab_place place;

	cr_assert_eq(kvmm_slab_places(cache, 1, &obj, &place), 0);
	return place;
}

static char *draw_slab(char *to, const struct kvmm_slab_cache *cache, const struct slab *slab)
{
	*to++ = '[';
	for (u32 i = 0; i < cache->shape.nr_objects; i++)
		*to++ = slab->objs[i].gen & 1 ? cache->name[0] : '.';
	*to++ = ']';
	return to;
}

/* The slab that begins at @block; draws it, and returns how many blocks it has. */
static u32 draw_at(char **to, struct kvmm_slab_cache *const *caches, u32 nr, u32 block)
{
	for (u32 c = 0; c < nr; c++) {
		for (u32 i = 0; i < caches[c]->nr_records; i++) {
			const struct slab *slab = slab_at(caches[c], i);

			if (slab->start != block)
				continue;
			*to = draw_slab(*to, caches[c], slab);
			return caches[c]->shape.nr_blocks;
		}
	}
	*(*to)++ = kv_zone_is_free(caches[0]->zone, block) ? '_' : '?';
	return 1;
}

const char *slab_str(struct kvmm_slab_cache *const *caches, u32 nr)
{
	static char str[MAX_PICTURE];
	char *to = str;

	for (u32 c = 0; c < nr; c++)
		cr_assert_eq(kv_slab_cache_check(caches[c]), 0);
	for (u32 block = 0; block < caches[0]->zone->nr_blocks;)
		block += draw_at(&to, caches, nr, block);
	*to = '\0';
	return str;
}
