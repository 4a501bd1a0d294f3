// SPDX-License-Identifier: Apache-2.0
/*
 * May a block move, and if not why: the one place that decides.
 *
 * Readers go on where no thread writes: registered blocks, and sealed ones. Between steps blocks
 * that may be written move as well, if we are told: the engine asks anew for its next step. Private
 * and staged blocks have no mark that keeps their owner from giving them away while they are moved,
 * so they do only while the gate is closed (flight_start.c). With the world stopped no engine asks
 * anew: there a reference keeps a block in place.
 */
#include <pool/local.h>

#include "stay.h"

static struct verdict moves(u32 nr)
{
	return (struct verdict){ .nr = nr };
}

static struct verdict stays(enum kvmm_stay_reason why)
{
	return (struct verdict){ .why = why };
}

/* ---- ranges ---- */

/*
 * Sealed blocks move, from the first one on. A range that grows is cut where it is sealed: it has
 * extents anyway, and never was one run by contract.
 */
static struct verdict sealed_verdict(struct kvmm_pool *pool, struct slot *slot,
				     struct kvmm_extent run)
{
	u32 before = 0, sealed = slot_sealed(slot), nr;

	kv_assert_held(&pool->lock);
	for (u32 i = 0; i < slot->nr_ext && slot_ext(slot, i)->start != run.start; i++)
		before += slot_ext(slot, i)->nr;
	nr = sealed > before ? min(sealed - before, run.nr) : 0;
	if (nr == run.nr)
		return moves(nr);
	if (pool->rounds || slot->flags & KVMM_ALLOC_CONTIG ||
	    !(slot->flags & (SLOT_GREW | KVMM_ALLOC_GROWS)))
		return stays(KVMM_STAY_UNSEALED);
	return (struct verdict){ nr, KVMM_STAY_GROWING };
}

static struct verdict slot_verdict(struct kvmm_pool *pool, u32 index, struct kvmm_extent run,
				   u32 mode)
{
	struct slot *slot = slot_at(pool, index);

	kv_assert_held(&pool->lock);
	if (slot->pins)
		return stays(KVMM_STAY_PIN_USER + pin_type_of_slot(pool, slot));
	if (slot->flags & KVMM_ALLOC_PINNED)
		return stays(KVMM_STAY_FIXED);
	if (mode == MOVE_STOPPED)
		return moves(run.nr);
	if (slot->lost)
		return stays(KVMM_STAY_LOST);
	for (u32 b = run.start; pool->nr_flying && b < run.start + run.nr; b++)
		if (is_flying(&pool->transit, b))
			return stays(KVMM_STAY_FLYING);
	return mode == KVMM_MOVE_BETWEEN ? moves(run.nr) :
					   sealed_verdict(pool, slot, run);
}

/* ---- entries ---- */

static struct verdict registered_verdict(struct kvmm_pool *pool, u32 index, u64 word, u32 mode)
{
	kv_assert_held(&pool->lock);
	if (kv_word_pins(word))
		return stays(KVMM_STAY_PIN_USER + pin_type_of_entry(pool, index));
	if (word & KV_ENTRY_MOVING)
		return stays(KVMM_STAY_FLYING);
	if (mode == MOVE_STOPPED && kv_word_refs(word))
		return stays(KVMM_STAY_HELD);
	return moves(1);
}

static struct verdict private_verdict(u64 word, u32 mode, enum kvmm_stay_reason why)
{
	if (word & (KV_ENTRY_PINS | KV_ENTRY_MARK))
		return stays(KVMM_STAY_WRITTEN);
	return mode == KVMM_MOVE_BETWEEN ? moves(1) : stays(why);
}

static struct verdict entry_verdict(struct kvmm_pool *pool, u32 index, u32 mode)
{
	u64 word = READ_ONCE(entry_at(pool, index)->word);

	kv_assert_held(&pool->lock);
	switch (kv_word_state(word)) {
	case KV_ENTRY_REGISTERED:
		return registered_verdict(pool, index, word, mode);
	case KV_ENTRY_PRIVATE:
		return private_verdict(word, mode, KVMM_STAY_PRIVATE);
	case KV_ENTRY_STAGED:
		return private_verdict(word, mode, KVMM_STAY_STAGED);
	case KV_ENTRY_PARKED:
		return mode == MOVE_STOPPED ? moves(1) : stays(KVMM_STAY_GOING);
	default:
		return stays(KVMM_STAY_GOING);
	}
}

/* ---- either ---- */

struct verdict run_verdict(struct kvmm_pool *pool, u32 owner, struct kvmm_extent run, u32 mode)
{
	kv_assert_held(&pool->lock);
	switch (owner_kind(owner)) {
	case OWNER_SLOT:
		return slot_verdict(pool, owner_index(owner), run, mode);
	case OWNER_ENTRY:
		return entry_verdict(pool, owner_index(owner), mode);
	case OWNER_MOVE:
	case OWNER_UNSEEN:
		return stays(KVMM_STAY_FLYING);
	default:
		return stays(KVMM_STAY_FIXED);
	}
}

struct verdict stay_look(struct kvmm_pool *pool, struct kvmm_stay *stay, u32 owner,
			 struct kvmm_extent run, u32 mode)
{
	struct verdict verdict = elastic_is_leaving(pool, run) ? stays(KVMM_STAY_GOING) :
				 run_verdict(pool, owner, run, mode);

	kv_assert_held(&pool->lock);
	stay->movable += verdict.nr;
	stay->staying += run.nr - verdict.nr;
	stay->blocks[verdict.why] += run.nr - verdict.nr;
	return verdict;
}

void stay_report(struct kvmm_pool *pool, const struct kvmm_stay *stay, struct kvmm_compact *goal)
{
	kv_assert_held(&pool->compact_lock);
	pool->stay = *stay;
	if (goal && goal->stay)
		*goal->stay = *stay;
}

int stay_stat_read(struct kvmm_pool *pool, void *stat)
{
	kv_lock(&pool->compact_lock);
	memcpy(stat, &pool->stay, sizeof(pool->stay));
	kv_unlock(&pool->compact_lock);
	return 0;
}
