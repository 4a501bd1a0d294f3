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

static bool is_wanted(const struct kvmm_slab_cache *cache, const struct kvmm_zone *zone)
{
	return !zone || cache->zone == zone;
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

void slab_list_del(struct kvmm_slab_cache *cache)
{
	struct kvmm_slab_cache **link = &list;

	list_enter();
	while (*link && *link != cache)
		link = &(*link)->next;
	if (!KV_BUG_ON(!*link))
		*link = cache->next;
	kv_unlock(&list_lock);
}

u32 slab_reclaim(const struct kvmm_zone *zone)
{
	u32 nr = 0;

	list_enter();
	for (struct kvmm_slab_cache *cache = list; cache; cache = cache->next)
		if (cache->zone == zone)
			nr += max(kvmm_slab_shrink(cache), 0);
	kv_unlock(&list_lock);
	return nr;
}

static u32 per_mille_up(u64 part, u64 whole)
{
	return whole ? ((unsigned __int128)part * 1000 + whole - 1) / whole : 0;
}

static void read_stat(struct kvmm_slab_cache *cache, struct kvmm_slab_stat *stat)
{
	const struct kvmm_slab_shape *shape = &cache->shape;

	kv_assert_not_held(&cache->lock);
	kv_lock(&cache->lock);
	*stat = (struct kvmm_slab_stat){
		.nr_caches = 1, .nr_objects = cache->nr_live, .nr_slots = cache->nr_room,
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
	stat->waste_pm = per_mille_up(stat->slack_bytes + stat->unused_bytes, stat->held_bytes);
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

static_assert(offsetof(struct kvmm_slab_stat, nr_objects) == sizeof(u64),
	      "words of 64 bits, but for the first");

int kvmm_slab_total_sized(const struct kvmm_zone *zone, struct kvmm_slab_stat *total, size_t size)
{
	struct kvmm_slab_stat sum = { 0 }, stat;
	const u64 *from = (const u64 *)&stat;
	u64 *to = (u64 *)&sum;

	if (kv_inherited(zone))
		return -ECHILD;
	if (kv_size_is_bad(total, size))
		return -EINVAL;
	list_enter();
	for (struct kvmm_slab_cache *cache = list; cache; cache = cache->next) {
		if (!is_wanted(cache, zone))
			continue;
		read_stat(cache, &stat);
		sum.nr_caches++;
		for (u32 i = 1; i < sizeof(stat) / sizeof(u64); i++)
			to[i] += from[i];
	}
	kv_unlock(&list_lock);
	sum.waste_pm = per_mille_up(sum.slack_bytes + sum.unused_bytes, sum.held_bytes);
	kv_give(total, size, &sum, sizeof(sum));
	return 0;
}

int kv_slab_next(const struct kvmm_zone *zone, uint32_t *cursor, struct kv_slab_row *row)
{
	struct kvmm_slab_cache *cache;
	u32 i = 0;

	if (kv_inherited(zone))
		return -ECHILD;
	if (!cursor || !row)
		return -EINVAL;
	list_enter();
	for (cache = list; cache; cache = cache->next)
		if (is_wanted(cache, zone) && i++ == *cursor)
			break;
	if (cache) {
		*row = (struct kv_slab_row){ .shape = cache->shape };
		memcpy(row->name, cache->name, min(strlen(cache->name), sizeof(row->name) - 1));
		read_stat(cache, &row->stat);
	}
	kv_unlock(&list_lock);
	if (!cache)
		return -ENOENT;
	*cursor = i;
	return 0;
}

/* ---- as Linux shows it ---- */

#define SHOWN_NAME	(KVMM_SLAB_NAME_BYTES + 12u)

/* A reader of this takes a name for one cache: the second one of a name is "name#1". */
static void shown_name(const struct kvmm_slab_cache *cache, const struct kvmm_zone *zone,
		       char name[SHOWN_NAME])
{
	struct kv_buf to = { name, SHOWN_NAME, 0 };
	u32 nr_before = 0;

	kv_assert_held(&list_lock);
	for (const struct kvmm_slab_cache *at = list; at != cache; at = at->next)
		nr_before += is_wanted(at, zone) && !strcmp(at->name, cache->name);
	kv_buf_printf(&to, "%s", cache->name);
	if (nr_before)
		kv_buf_printf(&to, "#%u", nr_before);
}

int kv_slab_info(const struct kvmm_zone *zone, char *buf, size_t bytes)
{
	struct kv_buf text = { buf, bytes, 0 };
	struct kvmm_slab_stat stat;
	char name[SHOWN_NAME];

	if (kv_inherited(zone))
		return -ECHILD;
	if (bytes && !buf)
		return -EINVAL;
	kv_buf_printf(&text, "slabinfo - version: 2.1\n");
	kv_buf_printf(&text, "# name            <active_objs> <num_objs> <objsize> <objperslab> "
		   "<pagesperslab> : tunables <limit> <batchcount> <sharedfactor> "
		   ": slabdata <active_slabs> <num_slabs> <sharedavail>\n");
	list_enter();
	for (struct kvmm_slab_cache *cache = list; cache; cache = cache->next) {
		if (!is_wanted(cache, zone))
			continue;
		shown_name(cache, zone, name);
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
