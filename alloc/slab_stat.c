// SPDX-License-Identifier: Apache-2.0
/*
 * Caches as numbers and as text, and the list of them all.
 *
 * The list's lock is of the outermost rank: caches are locked inside it, one at a time.
 */
#include <string.h>

#include <kv/alloc.h>
#include <kv/buf.h>
#include <kv/fork.h>

#include "slab.h"

static struct kv_lock list_lock = { .rank = KV_RANK_CONFIG };
static struct kvmm_slab_cache *list;	/* list_lock; of this process, the latest cache first */
static u32 list_epoch;			/* list_lock */

static void list_enter(void)
{
	kv_assert_not_held(&list_lock);
	kv_lock(&list_lock);
	if (kv_fork_passed(&list_epoch))
		list = NULL;
}

int slab_list_add(struct kvmm_slab_cache *cache)
{
	int err = 0;

	list_enter();
	for (struct kvmm_slab_cache *other = list; other && !err; other = other->next) {
		if (cache->zone != other->zone)
			continue;
		if (cache->base_block_bytes != other->base_block_bytes)
			err = -EINVAL;
		else if (!strcmp(cache->name, other->name))
			err = -EEXIST;
	}
	if (!err) {
		cache->next = list;
		list = cache;
	}
	kv_unlock(&list_lock);
	return err;
}

bool slab_list_del(struct kvmm_slab_cache *cache)
{
	struct kvmm_slab_cache **link = &list;
	bool is_last = true;

	list_enter();
	while (*link && *link != cache)
		link = &(*link)->next;
	if (!KV_BUG_ON(!*link))
		*link = cache->next;
	for (const struct kvmm_slab_cache *other = list; other; other = other->next)
		is_last &= other->zone != cache->zone;
	kv_unlock(&list_lock);
	return is_last;
}

u32 slab_reclaim(const struct kv_zone *zone)
{
	u32 nr = 0;

	list_enter();
	for (struct kvmm_slab_cache *cache = list; cache; cache = cache->next)
		if (cache->zone == zone)
			nr += slab_shrink(cache);
	kv_unlock(&list_lock);
	return nr;
}

static void read_stat(struct kvmm_slab_cache *cache, struct kvmm_slab_stat *stat)
{
	const struct kv_slab_shape *shape = &cache->shape;

	kv_assert_not_held(&cache->lock);
	kv_lock(&cache->lock);
	*stat = (struct kvmm_slab_stat){
		.slab_objects = shape->nr_objects,
		.nr_objects = cache->nr_live, .nr_slots = cache->nr_room,
		.nr_slabs = cache->nr_slabs, .nr_empty = cache->nr_empty,
		.nr_blocks = (u64)cache->nr_slabs * shape->nr_blocks,
		.held_bytes = cache->nr_slabs * shape->slab_bytes,
		.live_bytes = cache->nr_live * cache->object_bytes,
		.slack_bytes = cache->nr_slabs * shape->waste_bytes,
		.unused_bytes = (cache->nr_room - cache->nr_live) * cache->object_bytes,
		.allocs = cache->allocs, .frees = cache->frees,
		.slabs_made = cache->slabs_made, .slabs_returned = cache->slabs_returned,
		.fail_nospc = cache->fail_nospc, .metadata_bytes = cache->metadata_bytes,
	};
	/* The current slab is on no list, and so is one that is full. */
	for (u32 i = 0; i < cache->nr_records; i++) {
		const struct slab *slab = slab_at(cache, i);

		stat->nr_full += slab->start != KV_NONE && slab->used == shape->nr_objects;
	}
	kv_unlock(&cache->lock);
	stat->nr_partial = stat->nr_slabs - stat->nr_full - stat->nr_empty;
	if (stat->held_bytes)	/* rounded up */
		stat->waste_pm = ((unsigned __int128)1000 * (stat->slack_bytes +
				  stat->unused_bytes) + stat->held_bytes - 1) / stat->held_bytes;
}

int kvmm_slab_get_stat_sized(struct kvmm_slab_cache *cache, struct kvmm_slab_stat *stat,
			     size_t size)
{
	struct kvmm_slab_stat now;

	if (kv_inherited(cache))
		return -ECHILD;
	if (!cache || kv_size_is_bad(stat, size))
		return -EINVAL;
	read_stat(cache, &now);
	kv_give(stat, size, &now, sizeof(now));
	return 0;
}

u32 kv_slab_nr(void)
{
	u32 nr = 0;

	list_enter();
	for (const struct kvmm_slab_cache *cache = list; cache; cache = cache->next)
		nr++;
	kv_unlock(&list_lock);
	return nr;
}

int kv_slab_next(u32 *cursor, struct kv_slab_row *row)
{
	struct kvmm_slab_cache *cache;
	u32 i = 0;

	list_enter();
	for (cache = list; cache && i < *cursor; cache = cache->next)
		i++;
	if (cache) {
		*row = (struct kv_slab_row){ .shape = cache->shape };
		memcpy(row->name, cache->name, min(strlen(cache->name), sizeof(row->name) - 1));
		read_stat(cache, &row->stat);
		*cursor = i + 1;
	}
	kv_unlock(&list_lock);
	return cache ? 0 : -ENOENT;
}

/* ---- as Linux shows it ---- */

int kv_slab_info(char *buf, size_t bytes)
{
	struct kv_buf text = { buf, bytes, 0 };
	struct kvmm_slab_stat stat;

	kv_buf_printf(&text, "slabinfo - version: 2.1\n");
	kv_buf_printf(&text, "# name            <active_objs> <num_objs> <objsize> <objperslab> "
		   "<pagesperslab> : tunables <limit> <batchcount> <sharedfactor> "
		   ": slabdata <active_slabs> <num_slabs> <sharedavail>\n");
	list_enter();
	for (struct kvmm_slab_cache *cache = list; cache; cache = cache->next) {
		char name[KVMM_SLAB_NAME_BYTES + 12];
		struct kv_buf to = { name, sizeof(name), 0 };
		u32 nr_before = 0;

		/* A reader of this takes a name for one cache: the second one of it is "name#1". */
		for (const struct kvmm_slab_cache *at = list; at != cache; at = at->next)
			nr_before += !strcmp(at->name, cache->name);
		kv_buf_printf(&to, nr_before ? "%s#%u" : "%s", cache->name, nr_before);
		read_stat(cache, &stat);
		kv_buf_printf(&text, "%-17s %6lu %6lu %6lu %4u %4u", name,
			      (unsigned long)stat.nr_objects, (unsigned long)stat.nr_slots,
			      (unsigned long)cache->shape.stride, cache->shape.nr_objects,
			      cache->shape.nr_blocks);
		kv_buf_printf(&text, " : tunables    0    0    0 : slabdata %6lu %6lu      0\n",
			      (unsigned long)(stat.nr_slabs - stat.nr_empty),
			      (unsigned long)stat.nr_slabs);
	}
	kv_unlock(&list_lock);
	return text.len;
}
