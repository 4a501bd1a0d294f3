// SPDX-License-Identifier: Apache-2.0
/*
 * Recompute everything: the numbered invariants of internal.h, one by one.
 *
 * A pool that contradicts itself may lie anywhere, so every index is checked before it is
 * followed, and every walk is bounded by a count from elsewhere.
 */
#include <kv/log.h>

#include "internal.h"

/* What a recount finds, to be compared with pool->count. */
struct recount {
	u32 nr_slots;			/* in the table */
	u32 nr_free_slots;
	u32 nr_in_seqs;			/* live slots with a sequence */
	u32 nr_owned[OWNER_MOVE + 1];	/* blocks by kind of owner */
	struct pool_count count;
};

static int complain(const struct kvmm_pool *pool, const char *what, u32 index)
{
	kv_log(KV_LOG_ERR, "kvmm: pool %s: %s (%u)", pool->name, what, index);
	return -EUCLEAN;
}

/* ---- slots ---- */

static bool extent_is_owned(const struct kvmm_pool *pool, const struct kvmm_extent *ext,
			    u32 owner)
{
	if (!ext->nr || ext->start >= pool->nr_blocks || ext->nr > pool->nr_blocks - ext->start)
		return false;
	for (u32 i = 0; i < ext->nr; i++)
		if (pool->owner[ext->start + i] != owner)
			return false;
	return true;
}

/* Extents may not share a block: the sum over all slots is compared with the owners. */
static int check_extents(const struct kvmm_pool *pool, const struct slot *slot, u32 index)
{
	u64 nr = 0;

	if (slot->nr_ext > KVMM_MAX_RUNS)
		return complain(pool, "range with too many extents", index);
	for (u32 i = 0; i < slot->nr_ext; i++) {
		if (!extent_is_owned(pool, &slot->ext[i], make_owner(OWNER_SLOT, index)))
			return complain(pool, "range does not own its extent", index);
		nr += slot->ext[i].nr;
	}
	return nr == slot->nr ? 0 : complain(pool, "range of another length", index);
}

static int check_slot(const struct kvmm_pool *pool, u32 index, struct recount *re)
{
	const struct slot *slot = slot_at(pool, index);

	re->count.range_gens += slot->gen - pool->gen_base;
	if (slot->version & 1 || !slot->gen)
		return complain(pool, "slot in the middle of a change", index);
	if (!slot->nr_ext && (slot->refs || slot->pins || slot->nr || slot->lost))
		return complain(pool, "free slot in use", index);
	if (!slot->nr_ext)
		return 0;
	if (!slot->refs || slot->lost > 1)
		return complain(pool, "range without references", index);
	re->count.nr_ranges++;
	re->count.range_blocks += slot->nr;
	re->count.range_refs += slot->refs;
	re->count.range_pins += slot->pins;
	re->count.range_seqs += slot->seq;
	re->count.range_attrs += slot_attrs(slot);
	re->nr_in_seqs += slot->seq != 0;
	return check_extents(pool, slot, index);
}

static int check_free_slots(const struct kvmm_pool *pool, struct recount *re)
{
	u32 index;

	for (index = pool->free_slot; index != KV_NONE; index = slot_at(pool, index)->next) {
		if (index >= re->nr_slots || slot_at(pool, index)->nr_ext)
			return complain(pool, "used slot on the free list", index);
		if (++re->nr_free_slots > re->nr_slots)
			return complain(pool, "free list of slots without end", index);
	}
	if (re->nr_free_slots + pool->nr_retired + re->count.nr_ranges != re->nr_slots)
		return complain(pool, "slots lost", re->nr_free_slots);
	return 0;
}

static int check_chain(const struct kvmm_pool *pool, u32 bucket, u32 *nr,
		       const struct recount *re)
{
	u32 index, prev = KV_NONE;

	for (index = pool->bucket[bucket]; index != KV_NONE;
	     prev = index, index = slot_at(pool, index)->next) {
		if (index >= re->nr_slots || ++*nr > re->nr_in_seqs)
			return complain(pool, "chain of a sequence goes astray", index);
		if (!slot_at(pool, index)->nr_ext || !slot_at(pool, index)->seq ||
		    slot_at(pool, index)->prev != prev ||
		    seq_bucket(pool, slot_at(pool, index)->seq) != bucket)
			return complain(pool, "range in the wrong chain", index);
	}
	return 0;
}

static int check_seqs(const struct kvmm_pool *pool, const struct recount *re)
{
	u32 nr = 0;

	for (u32 i = 0; i < pool->nr_buckets; i++) {
		int err = check_chain(pool, i, &nr, re);

		if (err)
			return err;
	}
	return nr == re->nr_in_seqs ? 0 : complain(pool, "ranges missing in chains", nr);
}

static int check_slots(const struct kvmm_pool *pool, struct recount *re)
{
	int err = 0;

	re->nr_slots = pool->slots ? dir_nr_slots(pool->slots) : 0;
	for (u32 i = 0; i < re->nr_slots && !err; i++)
		err = check_slot(pool, i, re);
	if (!err)
		err = check_free_slots(pool, re);
	if (!err)
		err = check_seqs(pool, re);
	return err;
}

/* ---- entries ---- */

static bool is_registered(const struct entry *entry)
{
	return entry->state == ENTRY_ACTIVE || entry->state == ENTRY_INACTIVE;
}

/* Its key leads to it, or to an older entry of the same key. */
static bool key_leads_to(const struct kvmm_pool *pool, u32 index)
{
	const struct entry *entry = &pool->entry[index];
	u32 found = pool->parts.registry->find(pool->registry, &entry->key);

	return found < pool->nr_blocks && is_registered(&pool->entry[found]) &&
	       kv_key_equal(&pool->entry[found].key, &entry->key);
}

static int check_entry(const struct kvmm_pool *pool, u32 index, struct recount *re)
{
	const struct entry *entry = &pool->entry[index];

	if (entry->state >= NR_ENTRY_STATES || entry->state == ENTRY_BATCH || !entry->gen)
		return complain(pool, "entry in no state", index);
	if ((entry->state == ENTRY_ACTIVE) != (entry->refs != 0))
		return complain(pool, "references do not fit the state", index);
	re->count.nr_entries[entry->state]++;
	re->count.entry_refs += entry->refs;
	re->count.entry_gens += entry->gen - pool->gen_base;
	if (entry->state == ENTRY_FREE)
		return 0;
	if (entry->block >= pool->nr_blocks ||
	    pool->owner[entry->block] != make_owner(OWNER_ENTRY, index))
		return complain(pool, "entry does not own its block", index);
	if (!is_registered(entry))
		return 0;
	re->count.entry_keys += key_sum(&entry->key);
	return key_leads_to(pool, index) ? 0 :
	       complain(pool, "key does not lead to its block", index);
}

static int check_free_entries(const struct kvmm_pool *pool, const struct recount *re)
{
	u32 index, nr = 0, nr_free = re->count.nr_entries[ENTRY_FREE];

	for (index = pool->free_entry; index != KV_NONE; index = pool->entry[index].link) {
		if (index >= pool->nr_blocks || pool->entry[index].state != ENTRY_FREE)
			return complain(pool, "used entry on the free list", index);
		if (++nr > nr_free)
			return complain(pool, "free list of entries without end", index);
	}
	return nr == nr_free ? 0 : complain(pool, "entries lost", nr);
}

/* Before anything is looked up in it. */
static int check_registry(const struct kvmm_pool *pool, u32 *nr_named)
{
	return pool->parts.registry->check(pool->registry, nr_named) ?
	       complain(pool, "registry", 0) : 0;
}

static int check_order(const struct kvmm_pool *pool, const struct recount *re)
{
	const u32 *nr = re->count.nr_entries;

	if (pool->parts.evict->check(pool->policy) ||
	    cache_nr_order(pool) != nr[ENTRY_INACTIVE] + nr[ENTRY_UNNAMED])
		return complain(pool, "order of eviction", cache_nr_order(pool));
	return 0;
}

static int check_entries(const struct kvmm_pool *pool, struct recount *re)
{
	const u32 *nr = re->count.nr_entries;
	u32 nr_named;
	int err;

	if (!pool->entry)
		return 0;
	err = check_registry(pool, &nr_named);
	for (u32 i = 0; i < pool->nr_blocks && !err; i++)
		err = check_entry(pool, i, re);
	if (!err && nr_named != nr[ENTRY_ACTIVE] + nr[ENTRY_INACTIVE])
		err = complain(pool, "entries missing in the registry", nr_named);
	if (!err)
		err = check_free_entries(pool, re);
	if (!err)
		err = check_order(pool, re);
	return err;
}

/* ---- blocks ---- */

static int check_owner(const struct kvmm_pool *pool, u32 block, struct recount *re)
{
	u32 kind = owner_kind(pool->owner[block]), index = owner_index(pool->owner[block]);
	bool is_null = block == 0 && pool->has_null;

	if (kind >= OWNER_MOVE || (kind < OWNER_SLOT && index))
		return complain(pool, "block of no known owner", block);
	if ((kind == OWNER_NULL) != is_null)
		return complain(pool, "null block", block);
	re->nr_owned[kind]++;
	return 0;
}

/*
 * Slots and entries were checked to own what they name. If there are no more owned blocks than
 * they name together, then no block is owned twice or by nobody.
 */
static int check_partition(const struct kvmm_pool *pool, struct recount *re)
{
	u32 nr_held = pool->entry ? pool->nr_blocks - re->count.nr_entries[ENTRY_FREE] : 0;
	int err = 0;

	for (u32 i = 0; i < pool->nr_blocks && !err; i++)
		err = check_owner(pool, i, re);
	if (!err && re->nr_owned[OWNER_SLOT] != re->count.range_blocks)
		err = complain(pool, "blocks of ranges", re->nr_owned[OWNER_SLOT]);
	if (!err && re->nr_owned[OWNER_ENTRY] != nr_held)
		err = complain(pool, "blocks of entries", re->nr_owned[OWNER_ENTRY]);
	return err;
}

static int check_zone(const struct kvmm_pool *pool, const struct recount *re)
{
	struct kvmm_extent run;
	u32 at, nr_free = 0;

	if (kvmm_zone_check(pool->zone))
		return complain(pool, "zone", 0);
	for (at = 0; !kvmm_zone_next_free(pool->zone, at, &run); at = run.start + run.nr) {
		if (!extent_is_owned(pool, &run, OWNER_FREE))
			return complain(pool, "owned block is free in the zone", run.start);
		nr_free += run.nr;
	}
	if (nr_free != re->nr_owned[OWNER_FREE] && !pool->rounds)
		return complain(pool, "block of nobody is taken in the zone", nr_free);
	return 0;
}

/* ---- counts ---- */

static int check_counts(const struct kvmm_pool *pool, const struct recount *re)
{
	const struct pool_count *a = &pool->count, *b = &re->count;

	if (a->nr_ranges != b->nr_ranges || a->range_blocks != b->range_blocks ||
	    a->range_refs != b->range_refs || a->range_pins != b->range_pins ||
	    a->range_gens != b->range_gens || a->range_seqs != b->range_seqs ||
	    a->range_attrs != b->range_attrs)
		return complain(pool, "counts of ranges", b->nr_ranges);
	if (a->entry_refs != b->entry_refs || a->entry_gens != b->entry_gens ||
	    a->entry_keys != b->entry_keys)
		return complain(pool, "references of entries", b->entry_refs);
	for (u32 i = 0; i < NR_ENTRY_STATES; i++)
		if (a->nr_entries[i] != b->nr_entries[i])
			return complain(pool, "counts of entries", i);
	return 0;
}

int pool_check(struct kvmm_pool *pool)
{
	struct recount re = { 0 };
	int err;

	kv_assert_held(&pool->lock);
	err = check_slots(pool, &re);
	if (!err)
		err = check_entries(pool, &re);
	if (!err)
		err = check_partition(pool, &re);
	if (!err)
		err = check_zone(pool, &re);
	if (!err)
		err = check_counts(pool, &re);
	return err;
}

int kvmm_validate(struct kvmm_pool *pool)
{
	int err;

	err = pool_enter(pool);
	if (err)
		return err;
	err = pool_check(pool);
	if (err)
		pool_poison(pool);
	pool_leave(pool);
	return err;
}
