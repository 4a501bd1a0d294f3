// SPDX-License-Identifier: Apache-2.0
/*
 * Do the counts of arenas add up? Each block is free in the pool's zone, free in that of one arena,
 * or owned; each arena's counts are those of its slots, which are plain; its stock is its own.
 */
#include "arena.h"

static bool is_free_in(struct kv_zone *zone, const struct kvmm_extent *run)
{
	struct kvmm_extent next;

	return zone && !kv_zone_next_free(zone, run->start, &next) &&
	       next.start < run->start + run->nr;
}

/* Without an owner, and in no other zone: that of the pool, or of an arena after this one. */
static int check_run(const struct kvmm_pool *pool, const struct arenas *arenas, u32 number,
		     const struct kvmm_extent *run)
{
	kv_assert_held(&pool->lock);
	for (u32 i = 0; i < run->nr; i++)
		if (!owner_is_free(pool->owner[run->start + i]))
			return pool_complain(pool, "owned block is free in an arena",
					     run->start + i);
	if (is_free_in(pool->zone, run))
		return pool_complain(pool, "block is free in the zone and in an arena", run->start);
	for (u32 i = number + 1; i < arenas->nr; i++)
		if (is_free_in(arenas->arena[i].zone, run))
			return pool_complain(pool, "block is free in two arenas", run->start);
	return 0;
}

static int check_runs(const struct kvmm_pool *pool, const struct arenas *arenas, u32 number)
{
	const struct arena *arena = &arenas->arena[number];
	struct kvmm_extent run;
	u32 at, nr = 0;
	int err = 0;

	if (arena->zone && kv_zone_check(arena->zone))
		return pool_complain(pool, "zone of an arena", number);
	for (at = 0; arena->zone && !err && !kv_zone_next_free(arena->zone, at, &run);
	     at = run.start + run.nr) {
		err = check_run(pool, arenas, number, &run);
		nr += run.nr;
	}
	if (!err && nr != arena->nr_free)
		err = pool_complain(pool, "free blocks of an arena", nr);
	return err;
}

/* Live slots of one arena, all of them plain, as they are counted there. */
static int check_ranges(const struct kvmm_pool *pool, const struct arenas *arenas, u32 number)
{
	const struct pool_count *count = &arenas->arena[number].count;
	u32 nr_slots = pool->slots ? dir_nr_slots(pool->slots) : 0;
	struct pool_count re = { 0 };
	u32 nr_in_seqs = 0;

	kv_assert_held(&pool->lock);
	for (u32 i = 0; i < nr_slots; i++) {
		const struct slot *slot = slot_at(pool, i);

		if (slot->arena != number + 1 || !slot->nr_ext)
			continue;
		if (slot->pins || slot->refs != 1 || slot->nr_ext != 1)
			return pool_complain(pool, "range of an arena is not plain", i);
		count_slot(&re, slot);
		nr_in_seqs += slot->seq != 0;
	}
	if (re.nr_ranges != count->nr_ranges || re.range_blocks != count->range_blocks ||
	    re.range_refs != count->range_refs || re.range_attrs != count->range_attrs ||
	    re.range_seqs != count->range_seqs || count->range_pins)
		return pool_complain(pool, "counts of an arena", number);
	return seqs_check(pool, &arenas->arena[number].seqs, nr_in_seqs, number + 1);
}

static int check_stock(const struct kvmm_pool *pool, const struct arenas *arenas, u32 number)
{
	u32 nr_slots = pool->slots ? dir_nr_slots(pool->slots) : 0, nr = 0;

	kv_assert_held(&pool->lock);
	for (u32 at = arenas->arena[number].free_slot; at != KV_NONE;
	     at = slot_at(pool, at)->next) {
		if (at >= nr_slots || slot_at(pool, at)->arena != number + 1 ||
		    slot_at(pool, at)->nr_ext)
			return pool_complain(pool, "slot in the stock of the wrong arena", at);
		if (++nr > nr_slots)
			return pool_complain(pool, "stock of slots without end", number);
	}
	return nr == arenas->arena[number].nr_stock ? 0 :
	       pool_complain(pool, "free slots of an arena", nr);
}

int arenas_check(struct kvmm_pool *pool)
{
	u32 nr_slots = pool->slots ? dir_nr_slots(pool->slots) : 0;
	const struct arenas *arenas = pool->arenas;
	u32 nr_lent = 0;
	int err = 0;

	kv_assert_held(&pool->lock);
	if (!arenas)
		return 0;
	arenas_lock(pool);
	/* A region is lent to an arena that can have it, and only while they are in use. */
	for (u32 i = 0; i < nr_regions(pool, arenas->region_order) && !err; i++) {
		u32 id = arenas->region[i];

		if (id > arenas->nr || (id && (!arenas->on || !arenas->arena[id - 1].zone)))
			err = pool_complain(pool, "region is lent to no arena", i);
		nr_lent += id != 0;
	}
	if (!err && nr_lent != arenas->nr_lent)
		err = pool_complain(pool, "number of regions that are lent", nr_lent);
	for (u32 i = 0; i < nr_slots && !err; i++)
		if (slot_at(pool, i)->arena > arenas->nr)
			err = pool_complain(pool, "slot of an arena that is not there", i);
	for (u32 i = 0; i < arenas->nr && !err; i++) {
		err = check_runs(pool, arenas, i);
		if (!err)
			err = check_ranges(pool, arenas, i);
		if (!err)
			err = check_stock(pool, arenas, i);
	}
	arenas_unlock(pool);
	return err;
}
