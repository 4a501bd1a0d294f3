// SPDX-License-Identifier: Apache-2.0
/*
 * Reservations: made, used, stolen, given up; see grow.h.
 *
 * A request that steals a few blocks takes them from the far end: a range that goes on growing then
 * loses the part that it needs last. Of a range that has not grown while all others have it takes
 * everything.
 */
#include "internal.h"

/* ---- the list ---- */

static void list_add(struct pool_grow *list, struct grow *grow)
{
	grow->older = list->newest;
	grow->newer = NULL;
	if (list->newest)
		list->newest->newer = grow;
	else
		list->oldest = grow;
	list->newest = grow;
}

static void list_del(struct pool_grow *list, struct grow *grow)
{
	if (grow->older)
		grow->older->newer = grow->newer;
	else
		list->oldest = grow->newer;
	if (grow->newer)
		grow->newer->older = grow->older;
	else
		list->newest = grow->older;
}

static inline u32 res_end(const struct grow *grow)
{
	return grow->res.start + grow->res.nr;
}

/* ---- one reservation ---- */

/* Blocks that follow it, or begin it, are taken in the zone, and have no owner. */
void reserve_extend(struct kvmm_pool *pool, struct grow *grow, u32 start, u32 nr)
{
	kv_assert_held(&pool->lock);
	if (!nr)
		return;
	owner_fill(pool, start, nr, make_owner(OWNER_RESERVED, grow->index));
	pool->grow.nr_reserved += nr;
	if (grow->res.nr) {
		grow->res.nr += nr;
		return;
	}
	grow->res = (struct kvmm_extent){ start, nr };
	pool->grow.nr_lists++;
	list_add(&pool->grow, grow);
}

static void shorten(struct kvmm_pool *pool, struct grow *grow, u32 nr)
{
	kv_assert_held(&pool->lock);
	kv_assert(grow->res.nr >= nr);
	kv_assert(pool->grow.nr_reserved >= nr);
	grow->res.nr -= nr;
	pool->grow.nr_reserved -= nr;
	if (grow->res.nr)
		return;
	list_del(&pool->grow, grow);
	kv_assert(pool->grow.nr_lists);
	pool->grow.nr_lists--;
}

/* The range grows by the first @nr blocks; the caller sets their owner. */
void reserve_use(struct kvmm_pool *pool, struct grow *grow, u32 nr)
{
	kv_assert_held(&pool->lock);
	shorten(pool, grow, nr);
	grow->res.start += nr;
	kv_reserved_used(nr);
	grow->used = ++pool->grow.clock;
	if (!grow->res.nr || !grow->newer)
		return;
	list_del(&pool->grow, grow);
	list_add(&pool->grow, grow);
}

/* The last @nr blocks are free for all. */
static void cut(struct kvmm_pool *pool, struct grow *grow, u32 nr)
{
	kv_assert_held(&pool->lock);
	shorten(pool, grow, nr);
	owner_clear(pool, res_end(grow), nr);
	if (unlikely(kv_unreserve(pool->zone, res_end(grow), nr)))
		pool_poison(pool);
}

void __reserve_drop(struct kvmm_pool *pool, struct grow *grow)
{
	cut(pool, grow, grow->res.nr);
}

void reserve_drop_all(struct kvmm_pool *pool)
{
	kv_assert_held(&pool->lock);
	while (pool->grow.oldest)
		cut(pool, pool->grow.oldest, pool->grow.oldest->res.nr);
}

/* ---- stealing ---- */

static void steal(struct kvmm_pool *pool, struct grow *grow, u32 nr)
{
	kv_assert_held(&pool->lock);
	pool->grow.steals++;
	pool->grow.stolen_blocks += nr;
	cut(pool, grow, nr);
}

/* At most as many rounds as halves of the longest reservation. */
u32 pool_steal_reserved(struct kvmm_pool *pool, u32 nr)
{
	u32 got = 0;

	kv_assert_held(&pool->lock);
	while (got < nr && pool->grow.oldest) {
		for (struct grow *grow = pool->grow.oldest, *next; grow && got < nr; grow = next) {
			/* It could have grown twice since. */
			bool is_idle = pool->grow.clock - grow->used >
				       2 * (u64)pool->grow.nr_lists;
			u32 part = is_idle ? grow->res.nr : (grow->res.nr + 1) / 2;

			next = grow->newer;
			part = min(part, nr - got);
			steal(pool, grow, part);
			got += part;
		}
	}
	return got;
}

/* ---- runs ---- */

#define MAX_LOOKS	32u	/* reservations that one search looks at */

/* A reservation, and the free blocks behind it. */
struct stretch {
	struct grow *grow;
	u32 nr;
};

/* Free blocks behind @at, with those of @ext, which will be. */
static u32 free_behind(struct kvmm_pool *pool, u32 at, const struct kvmm_extent *ext, int nr_ext)
{
	u32 end = at, before;

	kv_assert_held(&pool->lock);
	do {
		before = end;
		end += kv_free_behind(pool->zone, end);
		for (int i = 0; i < nr_ext; i++)
			end += ext[i].start == end ? ext[i].nr : 0;
	} while (end != before);
	return end - at;
}

/* But for that of @not: the shortest that holds @nr blocks; @nr 0: the longest. .nr 0: none. */
static struct stretch find_stretch(struct kvmm_pool *pool, const struct grow *not, u32 nr,
				   const struct kvmm_extent *ext, int nr_ext)
{
	struct stretch best = { NULL, 0 };
	struct grow *grow = pool->grow.oldest;

	kv_assert_held(&pool->lock);
	for (u32 i = 0; i < MAX_LOOKS && grow; i++, grow = grow->newer) {
		u32 length = grow->res.nr + free_behind(pool, res_end(grow), ext, nr_ext);

		if (grow != not && length >= nr &&
		    (!best.nr || (nr ? length < best.nr : length > best.nr)))
			best = (struct stretch){ grow, length };
	}
	return best;
}

/* Its last @nr blocks, set aside: the first of them. */
static u32 take_stretch(struct kvmm_pool *pool, const struct stretch *stretch, u32 nr)
{
	u32 end = stretch->grow->res.start + stretch->nr;
	u32 behind = stretch->nr - stretch->grow->res.nr;

	kv_assert_held(&pool->lock);
	if (nr > behind)
		steal(pool, stretch->grow, nr - behind);
	if (kv_reserve_behind(pool->zone, end - nr, nr, nr) != nr)
		pool_poison(pool);
	return end - nr;
}

u32 reserve_steal_run(struct kvmm_pool *pool, const struct grow *for_whom, u32 nr, u32 most,
		      u32 *start)
{
	struct stretch stretch = find_stretch(pool, for_whom, 0, NULL, 0);

	kv_assert_held(&pool->lock);
	if (stretch.nr / 2 < nr)
		return 0;
	nr = min(stretch.nr / 2, most);
	*start = take_stretch(pool, &stretch, nr);
	return nr;
}

/* Blocks that came in several runs, or not at all, in one that reservations are part of. */
static bool alloc_stretch(struct kvmm_pool *pool, u32 nr, struct kvmm_extent *ext, int nr_ext)
{
	struct stretch stretch = find_stretch(pool, NULL, nr, ext, nr_ext);

	kv_assert_held(&pool->lock);
	if (!stretch.nr)
		return false;
	for (int i = 0; i < nr_ext; i++)
		if (kv_unreserve(pool->zone, ext[i].start, ext[i].nr))
			pool_poison(pool);
	if (nr_ext < 0)
		kv_reserved_used(nr);
	ext[0] = (struct kvmm_extent){ take_stretch(pool, &stretch, nr), nr };
	return true;
}

/*
 * Would the request fit if nothing was reserved? All is free in the zone for a moment, inside
 * ->mag_seq: no reader sees a pool without rooms; one that gives up misses one of them at most.
 */
static bool steal_would_help(struct kvmm_pool *pool, const struct kvmm_range_attr *attr)
{
	struct grow *grow;
	bool helps;

	kv_assert_held(&pool->lock);
	if ((u64)kv_zone_nr_free(pool->zone) + pool->grow.nr_reserved < attr->nr)
		return false;
	kv_assert(!(pool->mag_seq & 1));
	kv_seq_write_begin(&pool->mag_seq);
	for (grow = pool->grow.oldest; grow; grow = grow->newer) {
		pool->grow.nr_reserved -= grow->res.nr;
		if (unlikely(kv_unreserve(pool->zone, grow->res.start, grow->res.nr)))
			pool_poison(pool);
	}
	helps = kv_zone_holds(pool->zone, attr->nr, attr->max_runs);
	for (grow = pool->grow.oldest; grow; grow = grow->newer) {
		if (unlikely(kv_reserve_behind(pool->zone, grow->res.start, grow->res.nr,
					       grow->res.nr) != grow->res.nr))
			pool_poison(pool);
		pool->grow.nr_reserved += grow->res.nr;
	}
	kv_seq_write_end(&pool->mag_seq);
	return helps;
}

/* Rooms stay as they are if the request would not fit without them. */
static int steal_runs(struct kvmm_pool *pool, const struct kvmm_range_attr *attr,
		      struct kvmm_extent *ext, int nr_ext)
{
	enum kv_placement place = range_placement(attr->flags);

	kv_assert_held(&pool->lock);
	if (place == KV_PLACE_MOVABLE && alloc_stretch(pool, attr->nr, ext, nr_ext))
		return 1;
	if (nr_ext != -ENOSPC || !steal_would_help(pool, attr))
		return nr_ext;
	while (nr_ext == -ENOSPC && pool->grow.nr_reserved) {
		pool_steal_shortfall(pool, attr->nr);
		pool_steal_reserved(pool, (pool->grow.nr_reserved + 1) / 2);
		nr_ext = kv_alloc_runs(pool->zone, place, attr->nr, attr->max_runs, ext);
	}
	return nr_ext;
}

int __reserve_alloc_runs(struct kvmm_pool *pool, const struct kvmm_range_attr *attr,
			 struct kvmm_extent *ext, int nr_ext)
{
	u64 before = pool->grow.stolen_blocks;

	kv_assert_held(&pool->lock);
	if (nr_ext < 0 && (nr_ext != -ENOSPC || pool_nr_free(pool) < attr->nr))
		return nr_ext;
	nr_ext = steal_runs(pool, attr, ext, nr_ext);
	step_count(&pool->door, KVMM_STEP_STEAL, pool->grow.stolen_blocks != before, nr_ext > 0);
	return nr_ext;
}
