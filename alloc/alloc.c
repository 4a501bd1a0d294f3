// SPDX-License-Identifier: Apache-2.0
/*
 * From "what is it for" to "where does it go".
 *
 * Blocks that cannot move gather at the bottom, blocks soon gone at the top, and all others fill
 * the smallest hole in between that it fits: so the long runs in the middle survive.
 */
#include <kv/alloc.h>
#include <kv/err.h>
#include <kv/lock.h>
#include <kv/zone.h>

static const struct kv_zone_req placements[KV_NR_PLACEMENTS] = {
	[KV_PLACE_MOVABLE] = { .fit = KV_FIT_BEST, .mobility = KVMM_MOVABLE },
	[KV_PLACE_PINNED]  = { .fit = KV_FIT_FIRST, .mobility = KVMM_UNMOVABLE },
	[KV_PLACE_TOPDOWN] = { .fit = KV_FIT_BEST, .mobility = KVMM_RECLAIMABLE, .topdown = 1 },
};

/*
 * Movable runs have a tuned call of the zone, which is tried first: most requests end there,
 * however many pieces they would take. A request that it refuses pays for the general search.
 * Scattered pieces are whole holes: there is no direction left to choose for them.
 */
int kv_alloc_runs(struct kv_zone *zone, enum kv_placement place, u32 nr, u32 max_runs,
		  struct kvmm_extent *ext)
{
	struct kv_zone_req req = placements[place];
	int err = -ENOSPC;

	kv_assert(place < KV_NR_PLACEMENTS);
	if (likely(place == KV_PLACE_MOVABLE)) {
		ext->start = kv_zone_try(zone, nr);
		ext->nr = nr;
		if (likely(ext->start != KV_NONE))
			return 1;
	}
	if (place != KV_PLACE_MOVABLE || max_runs == 1) {
		req.nr = nr;
		err = kv_zone_alloc_req(zone, &req, &ext->start);
	}
	if (err == -ENOSPC && max_runs > 1)
		return kv_zone_alloc_runs(zone, nr, max_runs, ext);
	if (err)
		return err;
	ext->nr = nr;
	return 1;
}

/* For a range and the blocks to be kept free behind it: see reserve.c. */
u32 kv_reserve_run(struct kv_zone *zone, enum kv_placement place, u32 nr, u32 most, u32 *start)
{
	struct kv_zone_req req = placements[place];

	kv_assert(place < KV_NR_PLACEMENTS);
	req.align = 1;
	req.hi = zone->nr_blocks;
	kv_lock(&zone->lock);
	req.nr = min(zone->ops->largest(zone->engine), most);
	*start = req.nr < nr ? KV_NONE : kv_zone_take_locked(zone, &req);
	kv_unlock(&zone->lock);
	return *start == KV_NONE ? 0 : req.nr;
}

int kv_free_runs(struct kv_zone *zone, const struct kvmm_extent *ext, u32 nr_ext)
{
	int err = 0;

	for (u32 i = 0; i < nr_ext; i++)
		if (KV_BUG_ON(kv_zone_free(zone, ext[i].start, ext[i].nr)))
			err = -EUCLEAN;
	return err;
}

bool kv_zone_rounds(const struct kv_zone *zone)
{
	return zone->ops->held != NULL;
}

bool kv_zone_takes_any_run(const struct kv_zone *zone)
{
	return !zone->ops->aligned;
}
