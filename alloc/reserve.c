// SPDX-License-Identifier: Apache-2.0
/*
 * Blocks set aside in the zone for a caller that may never use them.
 *
 * They are taken there and counted nowhere: setting aside is no allocation, and giving back is no
 * free. Once they are used, kv_reserved_used() counts what an allocation would have. Engines that
 * round requests up take back whole allocations only, so they have nothing to set aside.
 */
#include <kv/alloc.h>
#include <kv/err.h>
#include <kv/lock.h>
#include <kv/stat.h>
#include <kv/zone.h>

/* Length of the free run that begins at @start; the zone's lock is held. */
static u32 run_at(const struct kv_zone *zone, u32 start)
{
	struct kvmm_extent run;

	kv_assert_held(&zone->lock);
	if (start >= zone->nr_blocks || !zone->ops->is_free(zone->engine, start))
		return 0;
	run = zone->ops->next_free(zone->engine, start);
	return run.start + run.nr - start;
}

u32 kv_free_behind(struct kv_zone *zone, u32 end)
{
	u32 nr;

	kv_lock(&zone->lock);
	nr = run_at(zone, end);
	kv_unlock(&zone->lock);
	return nr;
}

u32 kv_reserve_behind(struct kv_zone *zone, u32 end, u32 nr, u32 most)
{
	u32 len;

	kv_assert(nr && nr <= most);
	if (kv_zone_rounds(zone))
		return 0;
	kv_lock(&zone->lock);
	len = min(run_at(zone, end), most);
	if (len < nr || kv_zone_take_at_locked(zone, end, len))
		len = 0;
	kv_unlock(&zone->lock);
	return len;
}

int kv_unreserve(struct kv_zone *zone, u32 start, u32 nr)
{
	int err;

	kv_lock(&zone->lock);
	err = kv_zone_give_locked(zone, start, nr);
	kv_unlock(&zone->lock);
	return KV_BUG_ON(err) ? -EUCLEAN : 0;
}

void kv_reserved_used(u32 nr)
{
	kv_count_call(KV_EV_ALLOC, KV_EV_ALLOC_BLOCKS, nr);
}
