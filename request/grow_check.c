// SPDX-License-Identifier: Apache-2.0
/*
 * Are the records of growth true? The invariants of grow.h, recomputed.
 *
 * Reservations are found from their slots first. Then the list must have as many, and no others:
 * its pointers are compared with those of the slots before they are followed.
 */
#include <pool/internal.h>

static bool reserved_is_owned(const struct kvmm_pool *pool, const struct grow *grow)
{
	const struct kvmm_extent *res = &grow->res;

	kv_assert_held(&pool->lock);
	if (res->start >= pool->nr_blocks || res->nr > pool->nr_blocks - res->start)
		return false;
	for (u32 i = 0; i < res->nr; i++)
		if (pool->owner[res->start + i] != make_owner(OWNER_RESERVED, grow->index))
			return false;
	return true;
}

/* The neighbours in the list know of it; they are of the pool's slots, or the list's ends. */
static bool is_in_list(const struct kvmm_pool *pool, const struct grow *grow)
{
	u32 nr_slots = dir_nr_slots(pool->slots);

	kv_assert_held(&pool->lock);
	if (grow->older ? grow->older->newer != grow : pool->grow.oldest != grow)
		return false;
	if (grow->newer ? grow->newer->older != grow : pool->grow.newest != grow)
		return false;
	if (grow->used > pool->grow.clock || (grow->newer && grow->newer->used < grow->used))
		return false;
	return !grow->newer || (grow->newer->index < nr_slots && grow->newer->res.nr &&
				slot_grow(slot_at(pool, grow->newer->index)) == grow->newer);
}

static int check_record(const struct kvmm_pool *pool, u32 index)
{
	struct slot *slot = slot_at(pool, index);
	const struct grow *grow = slot_grow(slot);

	kv_assert_held(&pool->lock);
	if (grow->index != index)
		return pool_complain(pool, "growth of another range", index);
	if (!grow->res.nr)
		return 0;
	if (!slot->nr_ext || !(slot->flags & SLOT_GREW) || grow->res.start != slot_end(slot))
		return pool_complain(pool, "reservation behind no range", index);
	if (!reserved_is_owned(pool, grow))
		return pool_complain(pool, "range does not own what is reserved", index);
	return is_in_list(pool, grow) ? 0 :
	       pool_complain(pool, "reservation missing in the list", index);
}

/* Slots, extents and owners have been checked. @nr_owned: blocks that owners say are reserved. */
static int grow_check(struct kvmm_pool *pool, const struct pool_recount *re)
{
	u32 nr_slots = pool->slots ? dir_nr_slots(pool->slots) : 0, nr_lists = 0, nr = 0;
	int err = 0;

	kv_assert_held(&pool->lock);
	for (u32 i = 0; i < nr_slots && !err; i++) {
		const struct slot_side *side = slot_side(slot_at(pool, i));

		if (!side)
			continue;
		err = check_record(pool, i);
		nr += side->grow.res.nr;
		nr_lists += side->grow.res.nr != 0;
	}
	if (err)
		return err;
	if (nr_lists != pool->grow.nr_lists || !nr_lists != !pool->grow.oldest)
		return pool_complain(pool, "list of reservations", nr_lists);
	if (nr != re->nr_owned[OWNER_RESERVED] || nr != pool->grow.nr_reserved)
		return pool_complain(pool, "blocks reserved", nr);
	return 0;
}

POOL_PART(grow) = {
	.name	= "growth of ranges",
	.check	= grow_check,
};
