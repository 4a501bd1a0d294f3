// SPDX-License-Identifier: Apache-2.0
/*
 * Two zones of the same blocks: a block that is free in one is held in the other.
 *
 * So the free blocks of a part can be looked after under a lock of their own, and the holder of a
 * block need not know from which of the two it came: it may be freed in either.
 */
#include <kv/alloc.h>
#include <kv/err.h>
#include <kv/zone.h>

u32 kv_pass_free(struct kv_zone *from, struct kv_zone *to, u32 lo, u32 hi)
{
	bool from_first = from->lock.id < to->lock.id;	/* locks of one rank go by id */
	u32 at = lo, done = 0;

	kv_assert(lo <= hi && hi <= to->nr_blocks && hi <= from->nr_blocks);
	kv_lock(from_first ? &from->lock : &to->lock);
	kv_lock(from_first ? &to->lock : &from->lock);
	while (at < hi) {
		struct kvmm_extent run = from->ops->next_free(from->engine, at);
		u32 start = max(run.start, lo), end = min(run.start + run.nr, hi);

		if (!run.nr || start >= hi)
			break;
		if (KV_BUG_ON(kv_zone_take_at_locked(from, start, end - start) ||
			      kv_zone_give_locked(to, start, end - start)))
			break;
		at = end;
		done += end - start;
	}
	kv_unlock(&from->lock);
	kv_unlock(&to->lock);
	return done;
}

/* Takes the blocks and gives them back, to learn where an allocation would go. */
u32 kv_find_free(struct kv_zone *zone, u32 nr, u32 lo)
{
	struct kv_zone_req req = { .nr = nr, .align = 1, .lo = lo, .hi = zone->nr_blocks,
				     .fit = KV_FIT_FIRST };
	u32 start;

	kv_assert_not_held(&zone->lock);
	kv_lock(&zone->lock);
	start = lo < req.hi ? zone->ops->take(zone->engine, &req) : KV_NONE;
	if (start != KV_NONE)
		KV_BUG_ON(zone->ops->give(zone->engine, start, nr));
	kv_unlock(&zone->lock);
	return start;
}
