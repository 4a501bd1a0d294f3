// SPDX-License-Identifier: Apache-2.0
/*
 * The zone layer: shared by all engines.
 *
 * Arguments are checked here, in 64 bits, before the lock is taken; the engine is called under the
 * lock and never sees a bad argument; events are counted after it. Failing calls change nothing:
 * they are refused before the first step, or their steps are undone.
 *
 * Pageblock classes: a pageblock that was wholly free takes the class of the request that comes
 * first. The hot path only compares one byte. It is enough to look at pageblocks of another class,
 * after the fact: one was empty before if and only if all that is used in it now is ours.
 */
#include <string.h>

#include <kv/atomic.h>
#include <kv/bits.h>
#include <kv/err.h>
#include <kv/lock.h>
#include <kv/mem.h>
#include <kv/stat.h>
#include <kv/zone.h>

#include "internal.h"

#define DEFAULT_PAGEBLOCK_ORDER	9u
#define MAX_PAGEBLOCK_ORDER	24u

#define MAX_ENGINES		8u

/* The first one is the default; NULL at the end. Changes before the first zone only. */
static const struct kv_zone_ops *engines[MAX_ENGINES + 1] = {
	&kv_zone_runs,
	&kv_zone_buddy,
	&kv_zone_buddy_trim,
};

static u32 next_zone_id;	/* kv_fetch_add(); lock order among zones */

unsigned int kv_zone_engines(const char **names, unsigned int max)
{
	unsigned int nr;

	for (nr = 0; engines[nr]; nr++)
		if (names && nr < max)
			names[nr] = engines[nr]->name;
	return nr;
}

void kv_zone_add_engine(const struct kv_zone_ops *ops)
{
	unsigned int nr = kv_zone_engines(NULL, 0);

	if (!KV_BUG_ON(nr == MAX_ENGINES))
		engines[nr] = ops;
}

/* Memory for everything, sizes known; the engine is not told yet. */
static struct kv_zone *alloc_zone(const struct kv_zone *shape)
{
	size_t engine_bytes = shape->ops->metadata_bytes(shape->nr_blocks);
	struct kv_zone *zone = kv_alloc_lines(1, sizeof(*zone));

	kv_assert(shape->nr_blocks <= KVMM_MAX_BLOCKS);
	if (!zone)
		return NULL;
	*zone = *shape;
	zone->engine = kv_alloc_lines(1, engine_bytes);
	if (!zone->engine)
		goto out_free_zone;
	zone->block_class = kv_alloc(nr_pageblocks(zone));
	if (!zone->block_class)
		goto out_free_engine;
	zone->metadata_bytes = sizeof(*zone) + engine_bytes + nr_pageblocks(zone);
	return zone;

out_free_engine:
	kv_free(zone->engine);
out_free_zone:
	kv_free(zone);
	return NULL;
}

int kv_zone_create(const struct kv_zone_attr *attr, struct kv_zone **result)
{
	struct kv_zone shape = { 0 }, *zone;

	if (!attr->nr_blocks || attr->nr_blocks > KVMM_MAX_BLOCKS ||
	    attr->pageblock_order > MAX_PAGEBLOCK_ORDER)
		return -EINVAL;
	shape.nr_blocks = attr->nr_blocks;
	shape.pageblock_order = attr->pageblock_order ? attr->pageblock_order :
							DEFAULT_PAGEBLOCK_ORDER;
	for (unsigned int i = 0; engines[i] && !shape.ops; i++)
		if (!attr->engine || !strcmp(engines[i]->name, attr->engine))
			shape.ops = engines[i];
	if (!shape.ops)
		return -ENOENT;

	zone = alloc_zone(&shape);
	if (!zone)
		return -ENOMEM;
	kv_lock_init(&zone->lock, KV_RANK_ZONE, kv_fetch_add(&next_zone_id, 1));
	memset(zone->block_class, KVMM_MOVABLE, nr_pageblocks(zone));
	zone->ops->init(zone->engine, zone->nr_blocks);
	*result = zone;
	return 0;
}

void kv_zone_destroy(struct kv_zone *zone)
{
	if (!zone)
		return;
	kv_free(zone->block_class);
	kv_free(zone->engine);
	kv_free(zone);
}

/* Used blocks in [lo, hi). */
static u32 count_used(const struct kv_zone *zone, u32 lo, u32 hi)
{
	u32 used = hi - lo;

	kv_assert_held(&zone->lock);
	for (u32 at = lo; at < hi;) {
		struct kvmm_extent run = zone->ops->next_free(zone->engine, at);

		if (!run.nr || run.start >= hi)
			break;
		used -= min(run.start + run.nr, hi) - max(run.start, lo);
		at = run.start + run.nr;
	}
	return used;
}

static noinline void __adopt_class_slow(struct kv_zone *zone, u32 start, u32 nr, u8 class)
{
	u32 size = BIT(zone->pageblock_order);
	u32 end = start + (zone->ops->held ? zone->ops->held(nr) : nr);

	kv_assert_held(&zone->lock);
	for (u32 lo = start & ~(size - 1); lo < end; lo += size) {
		u32 hi = min(lo + size, zone->nr_blocks);
		u32 ours = min(end, hi) - max(start, lo);
		u8 *old = &zone->block_class[lo >> zone->pageblock_order];

		if (*old != class && count_used(zone, lo, hi) == ours)
			*old = class;
	}
}

/* Pageblocks that were empty before [start, start + nr) was taken get its class. */
static inline void adopt_class(struct kv_zone *zone, u32 start, u32 nr, u8 class)
{
	u32 first = start >> zone->pageblock_order;
	u32 last = (start + nr - 1) >> zone->pageblock_order;

	kv_assert_held(&zone->lock);
	if (unlikely(first != last || zone->block_class[first] != class))
		__adopt_class_slow(zone, start, nr, class);
}

/* After a batch: one visit for each stretch of ids in one pageblock, so cheap if sorted. */
static noinline void __adopt_class_many_slow(struct kv_zone *zone, const u32 *ids, u32 nr)
{
	u32 size = BIT(zone->pageblock_order), done = KV_NONE;

	kv_assert_held(&zone->lock);
	for (u32 i = 0; i < nr; i++) {
		u32 lo = ids[i] & ~(size - 1), ours = 0;
		u8 *class = &zone->block_class[lo >> zone->pageblock_order];

		if (*class == KVMM_MOVABLE || lo == done)
			continue;
		for (u32 j = 0; j < nr; j++)
			ours += (ids[j] & ~(size - 1)) == lo;
		if (count_used(zone, lo, min(lo + size, zone->nr_blocks)) == ours)
			*class = KVMM_MOVABLE;
		done = lo;
	}
}

static void adopt_class_many(struct kv_zone *zone, const u32 *ids, u32 nr)
{
	kv_assert_held(&zone->lock);
	for (u32 i = 0; i < nr; i++) {
		if (likely(zone->block_class[ids[i] >> zone->pageblock_order] == KVMM_MOVABLE))
			continue;
		__adopt_class_many_slow(zone, ids, nr);
		return;
	}
}

static inline void count_alloc(u32 nr)
{
	kv_count_call(KV_EV_ALLOC, KV_EV_ALLOC_BLOCKS, nr);
}

static inline void count_free(u32 nr)
{
	kv_count_call(KV_EV_FREE, KV_EV_FREE_BLOCKS, nr);
}

/* -ENOSPC, counted by its reason. */
static noinline int fail_nospc(u32 nr_free, u32 nr)
{
	kv_count(nr_free < nr ? KV_EV_FAIL_NOSPC : KV_EV_FAIL_FRAG);
	return -ENOSPC;
}

u32 kv_zone_try(struct kv_zone *zone, u32 nr)
{
	struct kv_zone_req req = { .nr = nr, .align = 1, .hi = zone->nr_blocks };
	u32 at;

	kv_assert(zone_can_hold(zone, nr));
	kv_lock(&zone->lock);
	at = zone->ops->take_best ? zone->ops->take_best(zone->engine, nr) :
				    zone->ops->take(zone->engine, &req);
	if (likely(at != KV_NONE))
		adopt_class(zone, at, nr, KVMM_MOVABLE);
	kv_unlock(&zone->lock);
	if (likely(at != KV_NONE))
		count_alloc(nr);
	return at;
}

int kv_zone_alloc(struct kv_zone *zone, u32 nr, u32 *start)
{
	u32 at = zone_can_hold(zone, nr) ? kv_zone_try(zone, nr) : KV_NONE;

	if (unlikely(at == KV_NONE))	/* as any other request, and refused as one */
		return kv_zone_alloc_req(zone, &(struct kv_zone_req){ .nr = nr }, start);
	*start = at;
	return 0;
}

int kv_zone_alloc_req(struct kv_zone *zone, const struct kv_zone_req *asked, u32 *start)
{
	struct kv_zone_req req = *asked;
	u32 at, nr_free = 0;

	if (!zone_can_hold(zone, asked->nr))
		return -EINVAL;
	if (!req.align)
		req.align = 1;
	if (!req.hi)
		req.hi = zone->nr_blocks;
	if (!kv_is_pow2(req.align) || req.lo >= req.hi || req.hi > zone->nr_blocks)
		return -EINVAL;
	if (req.fit > KV_FIT_FIRST || req.mobility >= KVMM_NR_MOBILITY)
		return -EINVAL;
	kv_lock(&zone->lock);
	at = kv_zone_take_locked(zone, &req);
	if (at == KV_NONE)
		nr_free = zone->ops->nr_free(zone->engine);
	kv_unlock(&zone->lock);

	if (unlikely(at == KV_NONE))
		return fail_nospc(nr_free, req.nr);
	count_alloc(req.nr);
	*start = at;
	return 0;
}

static bool range_is_in_zone(const struct kv_zone *zone, u32 start, u32 nr)
{
	return zone_can_hold(zone, nr) && (u64)start + nr <= zone->nr_blocks;
}

static int take_at(struct kv_zone *zone, u32 start, u32 nr)
{
	int err = zone->ops->take_at(zone->engine, start, nr);

	kv_assert_held(&zone->lock);
	if (!err)
		adopt_class(zone, start, nr, KVMM_MOVABLE);
	return err;
}

int kv_zone_alloc_at(struct kv_zone *zone, u32 start, u32 nr)
{
	int err;

	if (!range_is_in_zone(zone, start, nr))
		return -EINVAL;
	kv_lock(&zone->lock);
	err = take_at(zone, start, nr);
	kv_unlock(&zone->lock);
	if (!err)
		count_alloc(nr);
	return err;
}

u32 kv_zone_take_locked(struct kv_zone *zone, const struct kv_zone_req *req)
{
	u32 start;

	kv_assert_held(&zone->lock);
	start = zone->ops->take(zone->engine, req);
	if (start != KV_NONE)
		adopt_class(zone, start, req->nr, req->mobility);
	return start;
}

int kv_zone_take_at_locked(struct kv_zone *zone, u32 start, u32 nr)
{
	kv_assert_held(&zone->lock);
	if (!range_is_in_zone(zone, start, nr))
		return -EINVAL;
	return take_at(zone, start, nr);
}

/* Take @nr blocks, which the longest pieces hold; number of extents. */
static int take_runs(struct kv_zone *zone, u32 nr, struct kvmm_extent *ext)
{
	struct kv_zone_req req = { .align = 1, .hi = zone->nr_blocks };
	int i;

	kv_assert_held(&zone->lock);
	for (i = 0; nr; i++) {
		u32 start;

		req.nr = min(nr, zone->ops->largest(zone->engine));
		start = zone->ops->take(zone->engine, &req);
		if (KV_BUG_ON(start == KV_NONE))
			goto out_give;
		adopt_class(zone, start, req.nr, req.mobility);
		ext[i] = (struct kvmm_extent){ start, req.nr };
		nr -= req.nr;
	}
	return i;

out_give:
	while (i-- > 0)
		zone->ops->give(zone->engine, ext[i].start, ext[i].nr);
	return -EUCLEAN;
}

/* So many are free in the longest @max_runs. */
static bool runs_hold(struct kv_zone *zone, u32 nr, u32 max_runs)
{
	u64 sum = zone->ops->largest(zone->engine);
	u32 len[KVMM_MAX_RUNS];

	kv_assert_held(&zone->lock);
	if (sum < nr && max_runs > 1) {
		max_runs = zone->ops->kth_largest(zone->engine, len, max_runs);
		for (sum = 0; max_runs--;)
			sum += len[max_runs];
	}
	return sum >= nr;
}

bool kv_zone_holds(struct kv_zone *zone, u32 nr, u32 max_runs)
{
	bool holds;

	kv_assert(max_runs && max_runs <= KVMM_MAX_RUNS);
	kv_lock(&zone->lock);
	holds = runs_hold(zone, nr, max_runs);
	kv_unlock(&zone->lock);
	return holds;
}

int kv_zone_alloc_runs(struct kv_zone *zone, u32 nr, unsigned int max_runs,
		       struct kvmm_extent *ext)
{
	struct kvmm_extent taken[KVMM_MAX_RUNS];
	int nr_ext = -ENOSPC;
	u32 nr_free;

	if (!zone_can_hold(zone, nr) || !max_runs || max_runs > KVMM_MAX_RUNS)
		return -EINVAL;
	kv_lock(&zone->lock);
	nr_free = zone->ops->nr_free(zone->engine);
	if (runs_hold(zone, nr, max_runs))
		nr_ext = take_runs(zone, nr, taken);
	kv_unlock(&zone->lock);

	if (nr_ext == -ENOSPC)
		return fail_nospc(nr_free, nr);
	if (nr_ext > 0) {
		memcpy(ext, taken, nr_ext * sizeof(*ext));
		count_alloc(nr);
	}
	return nr_ext;
}

int kv_zone_alloc_many(struct kv_zone *zone, u32 nr, u32 *ids)
{
	u32 nr_free;

	if (!zone_can_hold(zone, nr))
		return -EINVAL;
	kv_lock(&zone->lock);
	nr_free = zone->ops->nr_free(zone->engine);
	if (likely(nr_free >= nr && zone->ops->take_many)) {
		zone->ops->take_many(zone->engine, nr, ids);
		adopt_class_many(zone, ids, nr);
	} else if (nr_free >= nr) {
		const struct kv_zone_req req = { .nr = 1, .align = 1, .hi = zone->nr_blocks };

		for (u32 i = 0; i < nr; i++) {
			ids[i] = zone->ops->take(zone->engine, &req);
			adopt_class(zone, ids[i], 1, req.mobility);
		}
	}
	kv_unlock(&zone->lock);

	if (unlikely(nr_free < nr))
		return fail_nospc(nr_free, nr);
	count_alloc(nr);
	return 0;
}

int kv_zone_free(struct kv_zone *zone, u32 start, u32 nr)
{
	int err;

	if (unlikely(!range_is_in_zone(zone, start, nr)))
		return -EINVAL;
	kv_lock(&zone->lock);
	err = zone->ops->give(zone->engine, start, nr);
	kv_unlock(&zone->lock);
	if (likely(!err))
		count_free(nr);
	return err;
}

int kv_zone_give_locked(struct kv_zone *zone, u32 start, u32 nr)
{
	kv_assert_held(&zone->lock);
	if (!range_is_in_zone(zone, start, nr))
		return -EINVAL;
	return zone->ops->give(zone->engine, start, nr);
}

int kv_zone_free_many(struct kv_zone *zone, const u32 *ids, u32 nr)
{
	u32 i;
	int err = 0;

	if (!zone_can_hold(zone, nr))
		return -EINVAL;
	for (i = 0; i < nr; i++)
		if (ids[i] >= zone->nr_blocks)
			return -EINVAL;
	kv_lock(&zone->lock);
	if (zone->ops->give_many) {
		err = zone->ops->give_many(zone->engine, ids, nr);
	} else {
		/* One by one; a block that stands there twice is free already the second time. */
		for (i = 0; i < nr && !err; i++)
			err = zone->ops->give(zone->engine, ids[i], 1);
		for (i -= !!err; err && i-- > 0;)
			KV_BUG_ON(zone->ops->take_at(zone->engine, ids[i], 1));
	}
	kv_unlock(&zone->lock);
	if (!err)
		count_free(nr);
	return err;
}

bool kv_zone_is_free(struct kv_zone *zone, u32 block)
{
	bool is_free;

	kv_assert(block < zone->nr_blocks);
	kv_lock(&zone->lock);
	is_free = zone->ops->is_free(zone->engine, block);
	kv_unlock(&zone->lock);
	return is_free;
}
