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

/* Locks of one rank go by id. */
static void lock_both(struct kvmm_zone *a, struct kvmm_zone *b)
{
	bool a_first = a->lock.id < b->lock.id;

	kv_lock(a_first ? &a->lock : &b->lock);
	kv_lock(a_first ? &b->lock : &a->lock);
}

static void unlock_both(struct kvmm_zone *a, struct kvmm_zone *b)
{
	kv_unlock(&a->lock);
	kv_unlock(&b->lock);
}

u32 kv_pass_free(struct kvmm_zone *from, struct kvmm_zone *to, u32 lo, u32 hi)
{
	u32 at = lo, done = 0;

	lock_both(from, to);
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
	unlock_both(from, to);
	return done;
}

/* Where it would go is where it goes, for a moment. */
u32 kv_find_free(struct kvmm_zone *zone, u32 nr, u32 lo)
{
	struct kv_zone_req req = { .nr = nr, .align = 1, .lo = lo, .hi = zone->nr_blocks,
				     .fit = KV_FIT_FIRST };
	u32 start;

	kv_lock(&zone->lock);
	start = lo < req.hi ? zone->ops->take(zone->engine, &req) : KV_NONE;
	if (start != KV_NONE)
		KV_BUG_ON(zone->ops->give(zone->engine, start, nr));
	kv_unlock(&zone->lock);
	return start;
}
