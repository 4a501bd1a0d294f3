// SPDX-License-Identifier: Apache-2.0
/*
 * Recompute everything: the numbered invariants of pool/internal.h, one by one.
 *
 * A pool that contradicts itself may lie anywhere, so every index is checked before it is
 * followed, and every walk is bounded by a count from elsewhere.
 */
#include <kv/registry_free.h>
#include <pool/local.h>

/* 0, or the fault that @check of the first part names. */
#define check_parts(pool, check, ...)						\
	({									\
		int __err = 0;							\
										\
		for (const struct pool_part *const *__part = (pool)->parts.all;	\
		     *__part && !__err; __part++)				\
			if ((*__part)->check &&					\
			    (*__part)->check(pool, ##__VA_ARGS__))		\
				__err = pool_complain(pool, (*__part)->name, 0);	\
		__err;								\
	})

/* ---- slots ---- */

/* Extents may not share a block: the sum over all slots is compared with the owners. */
static int check_extents(const struct kvmm_pool *pool, struct slot *slot, u32 index)
{
	const struct slot_side *side = slot_side(slot);
	const struct more_extents *more = side ? side->grow.more : NULL;
	u32 owner = make_owner(OWNER_SLOT, index);
	u64 nr = 0;

	if (slot->nr_ext > (side ? KVMM_MAX_RUNS : 1) + (more ? more->nr_room : 0))
		return pool_complain(pool, "range with too many extents", index);
	for (u32 i = 0; i < slot->nr_ext; i++) {
		const struct kvmm_extent ext = *slot_ext(slot, i);
		u32 nr_owned = 0;

		if (ext.start < pool->nr_blocks && ext.nr <= pool->nr_blocks - ext.start)
			while (nr_owned < ext.nr && pool->owner[ext.start + nr_owned] == owner)
				nr_owned++;
		if (!ext.nr || nr_owned < ext.nr)
			return pool_complain(pool, "range does not own its extent", index);
		nr += ext.nr;
	}
	return nr == slot->nr ? 0 : pool_complain(pool, "range of another length", index);
}

static int check_slot(const struct kvmm_pool *pool, u32 index, struct pool_recount *re)
{
	struct slot *slot = slot_at(pool, index);

	kv_assert_held(&pool->lock);
	re->count.range_gens += slot->gen - pool->gen_base;
	if (slot->version & 1 || !slot->gen)
		return pool_complain(pool, "slot in the middle of a change", index);
	if (slot->arena && !pool->arenas)
		return pool_complain(pool, "slot of an arena that is not there", index);
	if (!slot->nr_ext && (slot->refs || slot->pins || slot->nr || slot->lost))
		return pool_complain(pool, "free slot in use", index);
	if (slot->number != index % CHUNK_SLOTS || slot_index(slot) != index)
		return pool_complain(pool, "slot with another number", index);
	if (!slot->nr_ext)
		return 0;
	if ((slot->flags & SLOT_GREW || slot->seals) && !slot_side(slot))
		return pool_complain(pool, "range without its side record", index);
	if (!slot->refs || slot->lost > 1)
		return pool_complain(pool, "range without references", index);
	re->count.nr_ranges++;
	re->count.range_blocks += slot->nr;
	re->count.range_refs += slot->refs;
	re->count.range_pins += slot->pins;
	re->count.range_seqs += slot->seq;
	re->count.range_attrs += slot_attrs(slot);
	re->nr_in_seqs += slot->seq && !slot->arena;
	return check_extents(pool, slot, index);
}

static int check_free_slots(const struct kvmm_pool *pool, struct pool_recount *re)
{
	u32 index;

	kv_assert_held(&pool->lock);
	for (index = pool->free_slot; index != KV_NONE; index = slot_at(pool, index)->next) {
		if (index >= re->nr_slots || slot_at(pool, index)->nr_ext ||
		    slot_at(pool, index)->arena)
			return pool_complain(pool, "used slot on the free list", index);
		if (++re->nr_free_slots > re->nr_slots)
			return pool_complain(pool, "free list of slots without end", index);
	}
	/* The gate is closed: arenas keep neither slots nor blocks aside. */
	if (re->nr_free_slots + pool->nr_retired + re->count.nr_ranges != re->nr_slots)
		return pool_complain(pool, "slots lost", re->nr_free_slots);
	return 0;
}

static int check_slots(const struct kvmm_pool *pool, struct pool_recount *re)
{
	int err = 0;

	re->nr_slots = pool->slots ? dir_nr_slots(pool->slots) : 0;
	for (u32 i = 0; i < re->nr_slots && !err; i++)
		err = check_slot(pool, i, re);
	if (!err)
		err = check_free_slots(pool, re);
	if (!err)
		err = seqs_check(pool, &pool->seqs, re->nr_in_seqs, 0);
	return err;
}

/* ---- entries ---- */

static bool has_block(enum kv_entry_state state)
{
	return state != KV_ENTRY_FREE && state != KV_ENTRY_RETIRED;
}

/* It is in the order if it must be, and not if it must not. A referenced one may be there still. */
static bool is_in_its_place(struct kvmm_pool *pool, u32 index, struct pool_recount *re)
{
	u64 word = entry_at(pool, index)->word;
	bool has = order_has(&pool->order, index);

	kv_assert(index < pool->entries.nr);
	re->nr_in_order += has;
	switch (kv_word_state(word)) {
	case KV_ENTRY_PARKED:
		return has;
	case KV_ENTRY_REGISTERED:
		return has || kv_word_refs(word) || word & KV_ENTRY_MOVING;
	case KV_ENTRY_EVICTING:
		return true;
	default:
		return !has;
	}
}

static void count_entry(const struct kvmm_pool *pool, const struct kv_entry *entry,
			struct pool_recount *re)
{
	enum kv_entry_state state = kv_word_state(entry->word);

	re->nr_lent += kv_word_is_lent(entry->word);
	re->nr_claimed += state == KV_ENTRY_EVICTING;
	re->count.nr_held += has_block(state) && !kv_word_is_lent(entry->word);
	/* An entry that was parked when a gang claimed it counts so until it is forgotten. */
	re->count.nr_parked += state == KV_ENTRY_PARKED ||
			       (state == KV_ENTRY_EVICTING && entry->word & KV_ENTRY_MARK);
	re->count.entry_gens += kv_entries_gen(&pool->entries, entry->word);
	re->tally[TALLY_STAGED] += state == KV_ENTRY_STAGED;
	if (!kv_entry_is_new(entry) && entry->dup_prev != KV_NONE)
		re->tally[TALLY_NAMES] += name_sum(entry);
	if (state != KV_ENTRY_REGISTERED)
		return;
	re->tally[TALLY_ACTIVE] += kv_word_refs(entry->word) != 0;
	re->tally[TALLY_REFS] += kv_word_refs(entry->word);
	re->tally[TALLY_PINS] += kv_word_pins(entry->word);
}

static int check_entry(struct kvmm_pool *pool, u32 index, struct pool_recount *re)
{
	const struct kv_entry *entry = entry_at(pool, index);
	u32 block = entry_block(entry);

	kv_assert_held(&pool->lock);
	count_entry(pool, entry, re);
	if (!is_in_its_place(pool, index, re))
		return pool_complain(pool, "entry is in the order of eviction, or is not", index);
	if (!has_block(kv_word_state(entry->word)))
		return 0;
	if (kv_word_is_lent(entry->word))
		return block < pool->nr_blocks ? 0 :
		       pool_complain(pool, "lent entry has no block", index);
	re->nr_moving += !!(entry->word & KV_ENTRY_MOVING);
	/* A parked one that a gang has claimed is marked, for as long as that takes. */
	if ((entry->word & KV_ENTRY_MARK && !kv_word_is(entry->word, KV_ENTRY_EVICTING)) ||
	    block >= pool->nr_blocks || pool->owner[block] != make_owner(OWNER_ENTRY, index))
		return pool_complain(pool, "entry does not own its block", index);
	return 0;
}

static int check_entries(struct kvmm_pool *pool, struct pool_recount *re)
{
	u32 nr_ranged[KVMM_MAX_CLASSES] = { 0 }, nr;
	int err = 0;

	if (!pool->caches)
		return 0;
	if (kv_entries_check(&pool->entries))
		return pool_complain(pool, "entries", 0);
	for (u32 i = 0; i < re->nr_slots; i++)
		if (slot_at(pool, i)->nr_ext && slot_at(pool, i)->cls)
			nr_ranged[slot_at(pool, i)->cls - 1] += slot_at(pool, i)->nr;
	if (pool->order.classes && classes_check(pool->order.classes, nr_ranged))
		return pool_complain(pool, "classes", 0);
	/* Before any look-up in it. */
	if (pool->map->ops->check(pool->map, &nr))
		return pool_complain(pool, "map", 0);
	re->tally[TALLY_REGISTERED] = nr;
	for (u32 i = 0; i < pool->nr_blocks && !err; i++)
		err = check_entry(pool, i, re);
	if (!err && (order_check(&pool->order) || order_nr(&pool->order) != re->nr_in_order))
		err = pool_complain(pool, "order of eviction", order_nr(&pool->order));
	if (err)
		return err;
	re->tally[TALLY_REGISTERED] += pool->count.nr_forgotten;
	re->tally[TALLY_NAMES] += pool->count.names_forgotten;
	for (u32 i = 0; i <= TALLY_NAMES; i++)
		if (tally_sum(pool, i) != re->tally[i])
			return pool_complain(pool, "tallies of entries", i);
	if (pool->pins.max && READ_ONCE(pool->pins.nr) != re->tally[TALLY_PINS])
		return pool_complain(pool, "pins that the limit counts", READ_ONCE(pool->pins.nr));
	return 0;
}

/* ---- blocks ---- */

/*
 * Slots and entries were checked to own the blocks they name. If there are no more owned blocks
 * than they name together, then each block has one owner.
 */
static int check_partition(const struct kvmm_pool *pool, struct pool_recount *re)
{
	const u32 with_index = BIT(OWNER_SLOT) | BIT(OWNER_ENTRY) | BIT(OWNER_RESERVED) |
			       BIT(OWNER_LEFT) | BIT(OWNER_LEFT_AWAY) | BIT(OWNER_UNSEEN);

	for (u32 i = 0; i < pool->nr_blocks; i++) {
		u32 owner = pool->owner[i], kind = owner_kind(owner);

		if (kind >= NR_OWNERS || (!(BIT(kind) & with_index) && owner_index(owner)))
			return pool_complain(pool, "block of no known owner", i);
		if ((kind == OWNER_NULL) != (i == 0 && pool->has_null))
			return pool_complain(pool, "null block", i);
		re->nr_owned[owner_is_free(owner) ? OWNER_FREE :
			     owner_is_away(owner) ? OWNER_AWAY : kind]++;
	}
	if (re->nr_owned[OWNER_SLOT] != re->count.range_blocks)
		return pool_complain(pool, "blocks of ranges", re->nr_owned[OWNER_SLOT]);
	if (re->nr_owned[OWNER_ENTRY] != re->count.nr_held)
		return pool_complain(pool, "blocks of entries", re->nr_owned[OWNER_ENTRY]);
	return 0;
}

static int check_zone(const struct kvmm_pool *pool, const struct pool_recount *re)
{
	struct kvmm_extent run;
	u32 at, nr_free = 0;

	kv_assert_held(&pool->lock);
	if (kv_zone_check(pool->zone))
		return pool_complain(pool, "zone", 0);
	for (at = 0; !kv_zone_next_free(pool->zone, at, &run); at = run.start + run.nr) {
		for (u32 i = run.start; i < run.start + run.nr; i++)
			if (!owner_is_free(pool->owner[i]))
				return pool_complain(pool, "owned block is free in the zone", i);
		nr_free += run.nr;
	}
	if (nr_free != re->nr_owned[OWNER_FREE] && !pool->rounds)
		return pool_complain(pool, "block of nobody is taken in the zone", nr_free);
	return 0;
}

/* ---- counts ---- */

static int check_counts(const struct kvmm_pool *pool, const struct pool_recount *re)
{
	const struct pool_count sum = pool_counts(pool), *a = &sum, *b = &re->count;

	kv_assert_held(&pool->lock);
	if (a->nr_ranges != b->nr_ranges || a->range_blocks != b->range_blocks ||
	    a->range_refs != b->range_refs || a->range_pins != b->range_pins ||
	    a->range_gens != b->range_gens || a->range_seqs != b->range_seqs ||
	    a->range_attrs != b->range_attrs)
		return pool_complain(pool, "counts of ranges", b->nr_ranges);
	/* Entries that go with their last reference are on their way out, besides. */
	if (pool->claims.nr > re->nr_claimed || pool->claims.nr_lent != re->nr_lent ||
	    pool->claims.nr_named > pool->claims.nr)
		return pool_complain(pool, "claims of gangs", re->nr_claimed);
	if (a->nr_held != b->nr_held || a->nr_parked != b->nr_parked ||
	    a->entry_gens != b->entry_gens)
		return pool_complain(pool, "counts of entries", b->nr_held);
	return 0;
}

/* The parts that the recount relies on come first, those that are compared with it last. */
static int pool_check(struct kvmm_pool *pool)
{
	struct pool_recount re = { 0 };
	int err;

	kv_assert_held(&pool->lock);
	err = check_parts(pool, check_base);
	if (!err)
		err = check_slots(pool, &re);
	if (!err)
		err = check_entries(pool, &re);
	if (!err)
		err = check_partition(pool, &re);
	if (!err)
		err = check_zone(pool, &re);
	if (!err)
		err = check_counts(pool, &re);
	return err ? err : check_parts(pool, check, &re);
}

/* The order of eviction knows all that has happened. Drops and retakes the lock. */
static int check_stopped(struct kvmm_pool *pool)
{
	int err;

	pool_stop(pool);
	kv_lock(&pool->lock);
	if (pool->caches)
		order_enter(&pool->order);
	err = pool_check(pool);
	if (pool->caches)
		order_leave(&pool->order);
	/* Blocks that pool_stop() took back may have been unsound: then it has closed the pool. */
	if (!err)
		err = pool_refusal(pool);
	if (err)
		pool_poison(pool);
	pool_resume(pool);
	return err;
}

int kvmm_validate(struct kvmm_pool *pool)
{
	int err;

	if (!pool)
		return -EINVAL;
	kv_lock(&pool->compact_lock);
	err = pool_enter(pool);
	if (err)
		goto out_unlock;
	err = check_parts(pool, check_open);
	if (err)
		pool_poison(pool);
	else
		err = check_stopped(pool);
	pool_leave(pool);
	if (err)
		goto out_unlock;
	err = check_parts(pool, check_apart);
	if (err) {
		kv_lock(&pool->lock);
		pool_poison(pool);
		pool_leave(pool);
	}
out_unlock:
	kv_unlock(&pool->compact_lock);
	return err;
}
