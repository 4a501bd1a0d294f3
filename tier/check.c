// SPDX-License-Identifier: Apache-2.0
/* Recompute everything: the numbered invariants of <kv/tier.h>. */
#include <kv/log.h>

#include "below.h"

struct recount {
	u32 units_used;
	u32 blocks;
	u32 writing;
	u32 pinned;
	u32 nr_busy;		/* the store reads them */
	u32 nr_found;		/* in chains */
	u32 nr_named;		/* WRITING or READY */
	u32 nr_in_order[NR_OWNERS];
	struct {
		u32 blocks;
		u32 units;
		u32 writing;
	} owner[NR_OWNERS];
};

static int complain(const struct kvmm_tier *tier, const char *what, u32 index)
{
	kv_log(KV_LOG_ERR, "kvmm: tier %s: %s (%u)", tier->name, what, index);
	return -EUCLEAN;
}

static bool has_name(const struct tslot *slot)
{
	return slot->state == SLOT_WRITING || slot->state == SLOT_READY;
}

static bool units_are_taken(struct kvmm_tier *tier, u32 index)
{
	const struct tslot *slot = slot_at(tier, index);
	u32 i = index / tier->chunk_units, at = index % tier->chunk_units;

	kv_assert_held(&tier->lock);
	kv_assert(index < tier->nr_units);
	if (i >= tier->nr_chunks || !slot->nr_units ||
	    slot->nr_units > chunk_nr(tier, i) - at)
		return false;
	for (u32 u = 0; u < slot->nr_units; u++)
		if (kv_zone_is_free(tier->chunk[i].zone, at + u))
			return false;
	return true;
}

/* Units of a slot have records of their own, which are free. Returns the next slot in *@index. */
static int check_slot(struct kvmm_tier *tier, u32 *index, struct recount *re)
{
	const struct tslot *slot = slot_at(tier, *index);
	bool is_ready = slot->state == SLOT_READY, is_writing = slot->state == SLOT_WRITING;
	u32 first = (*index)++;

	kv_assert_held(&tier->lock);
	if (slot->state == SLOT_FREE)
		return slot->readers ? complain(tier, "free slot with readers", first) : 0;
	if (slot->state > SLOT_DOOMED || slot->owner >= NR_OWNERS ||
	    (slot->owner != NOBODY && tier->owner[slot->owner].number != slot->owner) ||
	    !slot->gen || (is_writing && slot->readers) ||
	    (slot->state == SLOT_DOOMED && !slot->readers && !(slot->flags & SLOT_BUSY)))
		return complain(tier, "slot in no state", first);
	if (!units_are_taken(tier, first))
		return complain(tier, "slot does not own its units", first);
	if ((is_ready && !slot->readers) !=
	    tier->parts.evict->has(tier->owner[slot->owner].order, first))
		return complain(tier, "slot is in the order, or is not", first);
	re->units_used += slot->nr_units;
	re->blocks += is_ready;
	re->writing += is_writing;
	re->pinned += slot->readers != 0;
	re->nr_busy += !!(slot->flags & SLOT_BUSY);
	re->nr_named += has_name(slot);
	re->nr_in_order[slot->owner] += is_ready && !slot->readers;
	re->owner[slot->owner].blocks += !is_writing;
	re->owner[slot->owner].units += slot->nr_units;
	re->owner[slot->owner].writing += is_writing;
	for (; *index < first + slot->nr_units; ++*index)
		if (slot_at(tier, *index)->state != SLOT_FREE)
			return complain(tier, "slot inside another one", *index);
	return 0;
}

static int check_chain(struct kvmm_tier *tier, u32 bucket, struct recount *re)
{
	kv_assert_held(&tier->lock);
	for (u32 i = tier->bucket[bucket]; i != KV_NONE; i = slot_at(tier, i)->next) {
		if (i >= tier->nr_units || ++re->nr_found > re->nr_named)
			return complain(tier, "chain goes astray", bucket);
		if (!has_name(slot_at(tier, i)) ||
		    tslot_bucket(tier, slot_at(tier, i)->key) != bucket)
			return complain(tier, "slot in the wrong chain", i);
		for (u32 k = tier->bucket[bucket]; k != i; k = slot_at(tier, k)->next) {
			const struct tslot *a = slot_at(tier, k), *b = slot_at(tier, i);

			if (a->key[0] == b->key[0] && a->key[1] == b->key[1] &&
			    a->domain == b->domain && a->layout == b->layout)
				return complain(tier, "two slots of one name", i);
		}
	}
	return 0;
}

static int check_owners(const struct kvmm_tier *tier, const struct recount *re)
{
	kv_assert_held(&tier->lock);
	for (u32 i = 0; i < NR_OWNERS; i++) {
		const struct kv_tier_client *owner = &tier->owner[i];

		if (owner->blocks != re->owner[i].blocks || owner->units != re->owner[i].units ||
		    owner->writing != re->owner[i].writing)
			return complain(tier, "counts of a client", i);
		if (!owner->order)
			continue;
		if (tier->parts.evict->check(owner->order) ||
		    tier->parts.evict->nr(owner->order) != re->nr_in_order[i])
			return complain(tier, "order of eviction", i);
	}
	return 0;
}

static int check_zones(const struct kvmm_tier *tier, const struct recount *re)
{
	u32 nr_used = 0;

	kv_assert_held(&tier->lock);
	for (u32 i = 0; i < tier->nr_chunks; i++) {
		struct kv_zone_stat stat;

		if (kv_zone_check(tier->chunk[i].zone))
			return complain(tier, "zone", i);
		kv_zone_get_stat(tier->chunk[i].zone, &stat);
		nr_used += stat.nr_blocks - stat.nr_free;
	}
	return nr_used == re->units_used ? 0 : complain(tier, "units of nobody", nr_used);
}

static int check_counts(const struct kvmm_tier *tier, const struct recount *re)
{
	const struct below *below = tier->below;
	u64 nr = 0;

	kv_assert_held(&tier->lock);
	for (u32 i = 0; i <= KVMM_RESIDENCY_BOUNDS; i++)
		nr += tier->stat.evict_age.bucket[i];
	if (nr != tier->stat.evicted)
		return complain(tier, "ages at eviction", nr);
	if (tier->units_used != re->units_used || tier->blocks != re->blocks ||
	    tier->writing != re->writing || tier->pinned != re->pinned ||
	    re->nr_found != re->nr_named || re->nr_busy != (below ? below->nr_used[BELOW_PUT] : 0))
		return complain(tier, "counts", re->nr_named);
	if (below && (below->nr_used[BELOW_PUT] > below->max_put ||
		      below->nr_used[BELOW_GET] > below->max_get))
		return complain(tier, "more under way than may be", below->nr_used[BELOW_PUT]);
	if (below && (below->look.at > below->look.nr_queued || below->look.nr_queued > LOOK_MAX ||
		      below->look.nr > LOOK_MAX))
		return complain(tier, "queue of those to be written", below->look.at);
	return 0;
}

int kv_tier_check(struct kvmm_tier *tier)
{
	struct recount re = { 0 };
	int err = 0;

	kv_lock(&tier->lock);
	for (u32 i = 0; i < tier->nr_units && !err;)
		err = check_slot(tier, &i, &re);
	for (u32 i = 0; i < tier->nr_buckets && !err; i++)
		err = check_chain(tier, i, &re);
	if (!err)
		err = check_owners(tier, &re);
	if (!err)
		err = check_zones(tier, &re);
	if (!err)
		err = check_counts(tier, &re);
	if (!err && alike_check(tier))
		err = complain(tier, "names that ranks were told", 0);
	kv_unlock(&tier->lock);
	if (!err && tier->below)
		err = tier->below->ops->check(tier->below->store);
	return err;
}
