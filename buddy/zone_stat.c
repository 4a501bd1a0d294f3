// SPDX-License-Identifier: Apache-2.0
/*
 * A zone's statistics: counts, the unusable free index, runs as a buddy allocator would hold them.
 *
 * Each answer is taken under the zone's lock and of one moment. The check walks all of the map in
 * one hold; everything else is as fast as the engine's counts.
 */
#include <kv/atomic.h>
#include <kv/bits.h>
#include <kv/lock.h>
#include <kv/zone.h>

#include "internal.h"

#define PPM	1000000ull

void kv_zone_get_stat(struct kv_zone *zone, struct kv_zone_stat *stat)
{
	kv_lock(&zone->lock);
	*stat = (struct kv_zone_stat){
		.nr_blocks = zone->nr_blocks,
		.nr_free = zone->ops->nr_free(zone->engine),
		.nr_runs = zone->ops->nr_runs(zone->engine),
		.largest = zone->ops->largest(zone->engine),
	};
	kv_unlock(&zone->lock);
}

int kv_zone_unusable(struct kv_zone *zone, u32 nr)
{
	u64 nr_free, usable;
	u32 pieces;

	if (!zone_can_hold(zone, nr))
		return -EINVAL;
	kv_lock(&zone->lock);
	nr_free = zone->ops->nr_free(zone->engine);
	usable = zone->ops->usable(zone->engine, nr, &pieces);
	kv_unlock(&zone->lock);
	return nr_free ? (nr_free - usable) * PPM / nr_free : PPM;
}

int kv_zone_next_free(struct kv_zone *zone, u32 from, struct kvmm_extent *run)
{
	struct kvmm_extent found;

	if (from >= zone->nr_blocks)
		return -ENOENT;			/* where a walk ends */
	kv_lock(&zone->lock);
	found = zone->ops->next_free(zone->engine, from);
	kv_unlock(&zone->lock);
	if (!found.nr)
		return -ENOENT;
	*run = found;
	return 0;
}

/*
 * Maximal aligned blocks of [lo, hi): upwards while the start's low bits demand small ones, whole
 * top-order blocks, downwards by the bits of the rest.
 */
static void count_run(u32 lo, u32 hi, u64 *count)
{
	const unsigned int top = KVMM_NR_ORDERS - 1;
	unsigned int order;

	kv_assert(lo <= hi);
	for (order = 0; order < top && lo + BIT(order) <= hi; order++) {
		if (!(lo & BIT(order)))
			continue;
		count[order]++;
		lo += BIT(order);
	}
	if (hi - lo >= BIT(top)) {
		count[top] += (hi - lo) >> top;
		lo += (hi - lo) & ~(BIT(top) - 1);
	}
	for (order = 0; order < top; order++)
		count[order] += (hi - lo) >> order & 1;
}

/* Cuts a run where the class of the pageblocks changes. Needs no lock. */
void kv_zone_count_run(const struct kv_zone *zone, struct kvmm_extent run, u64 *counts)
{
	unsigned int shift = zone->pageblock_order;
	u32 end = run.start + run.nr;

	kv_assert(run.start + run.nr <= zone->nr_blocks);
	for (u32 lo = run.start, hi; lo < end; lo = hi) {
		u8 class = kv_peek(&zone->block_class[lo >> shift]);
		u32 pageblock = (lo >> shift) + 1;

		while (pageblock < nr_pageblocks(zone) && pageblock << shift < end &&
		       kv_peek(&zone->block_class[pageblock]) == class)
			pageblock++;
		hi = min(pageblock << shift, end);
		count_run(lo, hi, &counts[class * KVMM_NR_ORDERS]);
	}
}

/* Does the engine's walk agree with its bits at this run's edges? */
static bool run_is_maximal(const struct kv_zone *zone, struct kvmm_extent run)
{
	const struct kv_zone_ops *ops = zone->ops;
	u32 end = run.start + run.nr;

	kv_assert_held(&zone->lock);
	if (end > zone->nr_blocks || !ops->is_free(zone->engine, run.start) ||
	    !ops->is_free(zone->engine, end - 1))
		return false;
	if (run.start && ops->is_free(zone->engine, run.start - 1))
		return false;
	return end == zone->nr_blocks || !ops->is_free(zone->engine, end);
}

/* The free map, run by run, against the counts. */
static int recount(const struct kv_zone *zone)
{
	const struct kv_zone_ops *ops = zone->ops;
	u32 nr_free = 0, longest = 0, pieces;
	struct kvmm_extent run;

	kv_assert_held(&zone->lock);
	for (u32 at = 0; at < zone->nr_blocks; at = run.start + run.nr) {
		run = ops->next_free(zone->engine, at);
		if (!run.nr)
			break;
		if (run.start < at || run.nr > zone->nr_blocks || !run_is_maximal(zone, run))
			return -EUCLEAN;
		nr_free += run.nr;
		longest = max(longest, run.nr);
	}
	if (nr_free != ops->nr_free(zone->engine) || ops->largest(zone->engine) > longest)
		return -EUCLEAN;
	if (ops->usable(zone->engine, 1, &pieces) != nr_free ||
	    pieces != ops->nr_runs(zone->engine))
		return -EUCLEAN;
	return 0;
}

int kv_zone_check(struct kv_zone *zone)
{
	int err;

	kv_lock(&zone->lock);
	err = zone->ops->check(zone->engine);
	for (u32 i = 0; i < nr_pageblocks(zone) && !err; i++)
		if (zone->block_class[i] >= KVMM_NR_MOBILITY)
			err = -EUCLEAN;
	if (!err)
		err = recount(zone);
	kv_unlock(&zone->lock);
	return err;
}
