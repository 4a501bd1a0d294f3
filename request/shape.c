// SPDX-License-Identifier: Apache-2.0
/*
 * Ranges that shrink and split in place. All under pool->lock; readers without the lock see
 * the extents before or after, by the slot's version.
 */
#include <pool/internal.h>
#include <lease/lease.h>

/* ---- shrinking ---- */

/* The extent of @slot with its block number @at, which exists, and how many lie before it there. */
static u32 find_block(struct slot *slot, u32 at, u32 *inside)
{
	u32 i;

	kv_assert(at < slot->nr);
	for (i = 0; at >= slot_ext(slot, i)->nr; i++)
		at -= slot_ext(slot, i)->nr;
	*inside = at;
	return i;
}

/* An engine that takes whole allocations back only cannot have one cut. */
static bool cut_is_barred(const struct kvmm_pool *pool, struct slot *slot, u32 at)
{
	u32 inside;

	kv_assert_held(&pool->lock);
	if (likely(!pool->rounds))
		return false;
	find_block(slot, at, &inside);
	return inside;
}

/* Extents from number @i on are not the slot's any more, nor are blocks behind @inside there. */
static void publish_head(struct slot *slot, u32 i, u32 inside)
{
	kv_assert(i + !!inside <= slot->nr_ext);
	slot_write_begin(slot);
	if (inside)
		WRITE_ONCE(slot_ext(slot, i)->nr, inside);
	WRITE_ONCE(slot->nr_ext, i + !!inside);
	slot_write_end(slot);
}

/* Extents not published any more are still in the table, but for the one that was cut. */
void slot_cut_back(struct kvmm_pool *pool, struct slot *slot, u32 nr)
{
	u32 inside, i = find_block(slot, slot->nr - nr, &inside), nr_ext = slot->nr_ext;
	struct kvmm_extent *cut = slot_ext(slot, i);
	struct kvmm_extent first = { cut->start + inside, cut->nr - inside };

	kv_assert_held(&pool->lock);
	reserve_drop(pool, slot);
	publish_head(slot, i, inside);
	slot_resize(pool, slot, slot->nr - nr);
	blocks_free(pool, &first, 1);
	while (++i < nr_ext)
		blocks_free(pool, slot_ext(slot, i), 1);
}

/* The first @nr extents, and @inside blocks of the next one. */
static void publish_tail(struct slot *slot, u32 nr, u32 inside)
{
	u32 nr_ext = slot->nr_ext - nr;

	kv_assert(nr <= slot->nr_ext);
	slot_write_begin(slot);
	for (u32 i = 0; nr && i < nr_ext; i++) {
		struct kvmm_extent ext = *slot_ext(slot, i + nr);

		slot_set_ext(slot, i, ext.start, ext.nr);
	}
	if (inside)
		slot_set_ext(slot, 0, slot->first.start + inside, slot->first.nr - inside);
	WRITE_ONCE(slot->nr_ext, nr_ext);
	slot_write_end(slot);
}

/* A few extents at a time: copies are kept here until others cannot find them any more. */
static void slot_cut_front(struct kvmm_pool *pool, struct slot *slot, u32 nr)
{
	struct kvmm_extent gone[KVMM_MAX_RUNS];

	kv_assert_held(&pool->lock);
	while (nr) {
		u32 nr_gone = 0, nr_whole = 0, inside = 0;

		while (nr && nr_gone < KVMM_MAX_RUNS) {
			struct kvmm_extent *ext = &gone[nr_gone];

			*ext = *slot_ext(slot, nr_gone++);
			nr_whole += nr >= ext->nr;
			inside = nr >= ext->nr ? 0 : nr;
			ext->nr = min(ext->nr, nr);
			nr -= ext->nr;
			slot_seal(slot, slot_sealed(slot) - min(slot_sealed(slot), ext->nr));
			slot_resize(pool, slot, slot->nr - ext->nr);
		}
		publish_tail(slot, nr_whole, inside);
		blocks_free(pool, gone, nr_gone);
	}
}

/* Other owners may use the blocks; only the last one may take them away. */
static bool slot_is_barred(const struct slot *slot)
{
	return slot->pins || slot->refs > 1;
}

static int cut(struct kvmm_pool *pool, struct slot *slot, u32 nr, bool front)
{
	kv_assert_held(&pool->lock);
	if (cut_is_barred(pool, slot, front ? nr : slot->nr - nr))
		return -EOPNOTSUPP;
	if (front)
		slot_cut_front(pool, slot, nr);
	else
		slot_cut_back(pool, slot, nr);
	pool->count.frees++;
	return 0;
}

int kvmm_range_cut(struct kvmm_pool *pool, kvmm_range_t range, uint32_t front, uint32_t back)
{
	u32 nr = front ? front : back;
	struct slot *slot;
	int err;

	err = range_enter(pool, range, &slot);
	if (err)
		return err;
	if (!nr || nr >= slot->nr || (front && back))
		err = -EINVAL;
	else if (slot_is_barred(slot))
		err = -EBUSY;
	else
		err = cut(pool, slot, nr, front != 0);
	pool_leave(pool);
	return err;
}

/* ---- splitting ---- */

/* Extents of @slot behind number @i go to the end of @tail, which has room for them. */
static void move_extents(struct kvmm_pool *pool, struct slot *slot, u32 i, struct slot *tail,
			 u32 index)
{
	u32 nr = 1;

	kv_assert_held(&pool->lock);
	slot_write_begin(tail);
	while (++i < slot->nr_ext) {
		struct kvmm_extent ext = *slot_ext(slot, i);

		slot_set_ext(tail, nr++, ext.start, ext.nr);
		owner_fill(pool, ext.start, ext.nr, make_owner(OWNER_SLOT, index));
	}
	WRITE_ONCE(tail->nr_ext, nr);
	slot_write_end(tail);
}

static int split(struct kvmm_pool *pool, struct slot *slot, kvmm_range_t range, u32 at,
		 kvmm_range_t *tail)
{
	u32 inside, i = find_block(slot, at, &inside);
	struct kvmm_extent first = { slot_ext(slot, i)->start + inside,
				     slot_ext(slot, i)->nr - inside };
	struct kvmm_range_attr attr = {
		.nr = slot->nr - at, .seq = slot->seq, .prio = slot->prio, .cls = slot->cls,
		.flags = slot->flags & (SLOT_GREW - 1),
		.tenant = slot->tenant,
	};
	u32 sealed = slot_sealed(slot) - min(slot_sealed(slot), at);
	struct slot *other;

	kv_assert_held(&pool->lock);
	if (cut_is_barred(pool, slot, at))
		return -EOPNOTSUPP;
	if (slots_reserve(pool) || own_reserve_split(pool, range) ||
	    slot_reserve_ext(pool, slot_at(pool, pool->free_slot), slot->nr_ext - i))
		return -ENOMEM;
	if ((sealed || slot->flags & SLOT_GREW) &&
	    slot_reserve_side(pool, slot_at(pool, pool->free_slot)))
		return -ENOMEM;
	reserve_drop(pool, slot);
	*tail = range_add(pool, &attr, &first, 1, slot->account);
	other = slot_at(pool, tail->index);
	move_extents(pool, slot, i, other, tail->index);
	publish_head(slot, i, inside);
	slot_resize(pool, slot, at);
	own_split(pool, range, *tail);
	slot_seal(other, sealed);
	other->tick = slot->tick;
	if (slot->flags & SLOT_GREW)
		grow_adopt(pool, tail->index, 0, 0);
	if (slot->lost)
		slot_lose(pool, other);
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
	else if (slot_is_barred(slot))
		err = -EBUSY;
	else
		err = split(pool, slot, range, at, tail);
	pool_leave(pool);
	kv_rcu_reap();
	return err;
}
