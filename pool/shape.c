// SPDX-License-Identifier: Apache-2.0
/*
 * Ranges that grow, shrink and split in place. All under pool->lock; readers without the lock see
 * the extents before or after, by the slot's version.
 */
#include "internal.h"

static void slot_resize(struct kvmm_pool *pool, struct slot *slot, u32 nr)
{
	pool->count.range_blocks += nr - (u64)slot->nr;
	quota_charge_range(pool->order.quotas, slot->account, nr - (s64)slot->nr);
	slot->nr = nr;
	slot->sealed = min(slot->sealed, nr);
}

/* ---- growing ---- */

struct growth {
	struct room	room;
	kvmm_range_t	range;
	u32		from;	/* blocks that the range had */
};

/* What lies behind the end is joined to it, unless the engine wants each allocation back whole. */
static void append_extent(const struct kvmm_pool *pool, struct slot *slot,
			  const struct kvmm_extent *ext)
{
	u32 last = slot->nr_ext - 1;

	slot_write_begin(slot);
	if (!pool->rounds && slot->ext[last].start + slot->ext[last].nr == ext->start) {
		WRITE_ONCE(slot->ext[last].nr, slot->ext[last].nr + ext->nr);
	} else {
		slot_set_ext(slot, last + 1, ext->start, ext->nr);
		WRITE_ONCE(slot->nr_ext, last + 2);
	}
	slot_write_end(slot);
}

/*
 * The blocks behind the end, or one more extent. Compaction is not asked for a place behind the
 * end, so a range that can have no more extents is not worth moving anything for.
 */
static int take_extent(struct kvmm_pool *pool, const struct slot *slot, struct room *room,
		       struct kvmm_extent *ext)
{
	const struct kvmm_extent *last = &slot->ext[slot->nr_ext - 1];
	enum kv_placement place = range_placement(slot->flags);

	*ext = (struct kvmm_extent){ last->start + last->nr, room->nr };
	if (!kv_alloc_behind(pool->zone, ext->start, room->nr))
		return 0;
	room->hopeless = slot->nr_ext == KVMM_MAX_RUNS;
	if (room->hopeless)
		return -ENOSPC;
	return min(kv_alloc_runs(pool->zone, place, room->nr, 1, ext), 0);
}

/* The range may be gone since the last try: it is looked up anew. */
static int take_growth(struct kvmm_pool *pool, struct room *room)
{
	struct growth *growth = container_of(room, struct growth, room);
	struct kvmm_extent ext;
	struct slot *slot;
	int err;

	err = slot_find(pool, growth->range, &slot);
	if (err)
		return err;
	room->flags = slot->flags;
	err = quota_admit(pool, slot->account, room);
	if (err)
		return err;
	err = take_extent(pool, slot, room, &ext);
	if (err)
		return err;
	owner_fill(pool, ext.start, ext.nr, make_owner(OWNER_SLOT, growth->range.index));
	append_extent(pool, slot, &ext);
	growth->from = slot->nr;
	slot_resize(pool, slot, slot->nr + ext.nr);
	quota_took(pool->order.quotas, slot->account);
	if (unlikely(pool->zero)) {	/* until zero_growth() is done */
		slot->pins++;
		pool->count.range_pins++;
	}
	pool->count.allocs++;
	pool->count.alloc_blocks += ext.nr;
	return 0;
}

/* Blocks of @slot from number @from on are its tenant's from now on. */
static int take_tail(struct kvmm_pool *pool, const struct slot *slot, u32 from)
{
	int err = 0;

	for (u32 i = 0; i < slot->nr_ext && !err; i++) {
		struct kvmm_extent ext = slot->ext[i];
		u32 skip = min(from, ext.nr);

		from -= skip;
		ext.start += skip;
		ext.nr -= skip;
		err = tenant_take_run(pool, ext, slot->tenant);
	}
	return err;
}

/* A pin keeps the range where it is meanwhile. */
static int zero_growth(struct kvmm_pool *pool, const struct growth *growth)
{
	struct slot copy, *slot;
	int err, failed;

	err = range_enter(pool, growth->range, &slot);
	if (err)
		return err;
	copy = *slot;
	pool_leave(pool);
	failed = take_tail(pool, &copy, growth->from);
	err = range_enter(pool, growth->range, &slot);
	if (err)
		return err;
	slot->pins--;
	pool->count.range_pins--;
	pool_leave(pool);
	if (failed)
		kvmm_range_shrink(pool, growth->range, growth->room.nr);
	return failed;
}

/* KVMM_ALLOC_ZERO is not for new blocks; the pool's zero policy is. */
int kvmm_range_grow(struct kvmm_pool *pool, kvmm_range_t range, uint32_t nr)
{
	struct growth growth = { .room = { .take = take_growth, .nr = nr }, .range = range };
	int err;

	if (!pool || !nr || nr > pool->nr_usable)
		return -EINVAL;
	err = pool_enter(pool);
	if (err)
		return err;
	err = take_growth(pool, &growth.room);
	pool_leave(pool);
	if (err == -ENOSPC)
		err = pool_get_room(pool, &growth.room);
	return unlikely(!err && pool->zero) ? zero_growth(pool, &growth) : err;
}

/* ---- shrinking ---- */

/*
 * Split the extents of @slot @at blocks from its start into @head and @tail; returns how many go
 * to the head. An extent that is cut is in both.
 */
static u32 cut_extents(const struct slot *slot, u32 at, struct kvmm_extent *head,
		       struct kvmm_extent *tail, u32 *nr_tail)
{
	u32 nr_head = 0;

	*nr_tail = 0;
	for (u32 i = 0; i < slot->nr_ext; i++) {
		struct kvmm_extent ext = slot->ext[i];
		u32 part = min(at, ext.nr);

		if (part)
			head[nr_head++] = (struct kvmm_extent){ ext.start, part };
		if (part < ext.nr)
			tail[(*nr_tail)++] = (struct kvmm_extent){ ext.start + part, ext.nr - part };
		at -= part;
	}
	return nr_head;
}

static void set_extents(struct slot *slot, const struct kvmm_extent *ext, u32 nr_ext)
{
	slot_write_begin(slot);
	for (u32 i = 0; i < nr_ext; i++)
		slot_set_ext(slot, i, ext[i].start, ext[i].nr);
	WRITE_ONCE(slot->nr_ext, nr_ext);
	slot_write_end(slot);
}

/* An engine that takes whole allocations back only cannot have one cut. */
static bool cut_is_barred(const struct kvmm_pool *pool, const struct slot *slot, u32 nr_pieces)
{
	return pool->rounds && nr_pieces != slot->nr_ext;
}

static int cut_and_free(struct kvmm_pool *pool, struct slot *slot, u32 at, bool free_head)
{
	struct kvmm_extent head[KVMM_MAX_RUNS], tail[KVMM_MAX_RUNS];
	u32 nr_tail, nr_head = cut_extents(slot, at, head, tail, &nr_tail);
	const struct kvmm_extent *gone = free_head ? head : tail;
	u32 nr_gone = free_head ? nr_head : nr_tail;

	if (cut_is_barred(pool, slot, nr_head + nr_tail))
		return -EOPNOTSUPP;
	set_extents(slot, free_head ? tail : head, free_head ? nr_tail : nr_head);
	if (free_head)
		slot->sealed -= min(slot->sealed, at);
	slot_resize(pool, slot, free_head ? slot->nr - at : at);
	blocks_free(pool, gone, nr_gone);
	pool->count.frees++;
	return 0;
}

static int shrink(struct kvmm_pool *pool, kvmm_range_t range, u32 nr, bool front)
{
	struct slot *slot;
	int err;

	err = range_enter(pool, range, &slot);
	if (err)
		return err;
	if (!nr || nr >= slot->nr)
		err = -EINVAL;
	else if (slot->pins)
		err = -EBUSY;
	else
		err = cut_and_free(pool, slot, front ? nr : slot->nr - nr, front);
	pool_leave(pool);
	return err;
}

int kvmm_range_shrink(struct kvmm_pool *pool, kvmm_range_t range, uint32_t nr)
{
	return shrink(pool, range, nr, false);
}

int kvmm_range_shrink_front(struct kvmm_pool *pool, kvmm_range_t range, uint32_t nr)
{
	return shrink(pool, range, nr, true);
}

/* ---- splitting ---- */

static int split(struct kvmm_pool *pool, struct slot *slot, u32 at, kvmm_range_t *tail)
{
	struct kvmm_extent ext[2][KVMM_MAX_RUNS];
	u32 nr_tail, nr_head = cut_extents(slot, at, ext[0], ext[1], &nr_tail);
	struct kvmm_range_attr attr = {
		.nr = slot->nr - at, .seq = slot->seq, .prio = slot->prio, .flags = slot->flags,
		.tenant = slot->tenant,
	};
	u32 sealed;

	if (cut_is_barred(pool, slot, nr_head + nr_tail))
		return -EOPNOTSUPP;
	if (slots_reserve(pool))
		return -ENOMEM;
	sealed = slot->sealed - min(slot->sealed, at);
	set_extents(slot, ext[0], nr_head);
	slot_resize(pool, slot, at);
	*tail = range_add(pool, &attr, ext[1], nr_tail, slot->account);
	slot_at(pool, tail->index)->sealed = sealed;
	slot_at(pool, tail->index)->last_access_ns = slot->last_access_ns;
	if (slot->lost)
		slot_lose(pool, slot_at(pool, tail->index));
	return 0;
}

int kvmm_range_split(struct kvmm_pool *pool, kvmm_range_t range, uint32_t at,
		     kvmm_range_t *tail)
{
	struct slot *slot;
	int err;

	if (!tail)
		return -EINVAL;
	err = range_enter(pool, range, &slot);
	if (err)
		return err;
	if (!at || at >= slot->nr)
		err = -EINVAL;
	else if (slot->pins || slot->refs > 1)
		err = -EBUSY;
	else
		err = split(pool, slot, at, tail);
	pool_leave(pool);
	kv_rcu_reap();
	return err;
}
