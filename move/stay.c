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

#include <kv/buf.h>
#include <kv/sys.h>
#include <pool/arena.h>

#include "flight.h"
#include "move.h"
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

static bool any_is_flying(struct kvmm_pool *pool, struct kvmm_extent run)
{
	if (!pool->nr_flying)
		return false;
	for (u32 b = run.start; b < run.start + run.nr; b++)
		if (is_flying(&pool->transit, b))
			return true;
	return false;
}

/* How many of the extent's blocks are sealed, from its first one on. */
static u32 nr_sealed_of(struct slot *slot, struct kvmm_extent run)
{
	u32 before = 0;

	for (u32 i = 0; i < slot->nr_ext && slot_ext(slot, i)->start != run.start; i++)
		before += slot_ext(slot, i)->nr;
	return slot->sealed > before ? min(slot->sealed - before, run.nr) : 0;
}

/* Its extents are cut where it is sealed: it has them anyway, and never was one run by contract. */
static bool may_be_cut(const struct kvmm_pool *pool, const struct slot *slot)
{
	return !pool->rounds && !(slot->flags & KVMM_ALLOC_CONTIG) &&
	       slot->flags & (SLOT_GREW | KVMM_ALLOC_GROWS);
}

static struct verdict sealed_verdict(struct kvmm_pool *pool, struct slot *slot,
				     struct kvmm_extent run)
{
	u32 nr = nr_sealed_of(slot, run);

	if (nr == run.nr)
		return moves(nr);
	if (!may_be_cut(pool, slot))
		return stays(KVMM_STAY_UNSEALED);
	return (struct verdict){ nr, KVMM_STAY_GROWING };
}

static struct verdict slot_verdict(struct kvmm_pool *pool, u32 index, struct kvmm_extent run,
				   u32 mode)
{
	struct slot *slot = slot_at(pool, index);

	if (slot->pins)
		return stays(KVMM_STAY_PIN_USER + pin_type_of_slot(pool, slot));
	if (slot->flags & KVMM_ALLOC_PINNED)
		return stays(KVMM_STAY_FIXED);
	if (mode == MOVE_STOPPED)
		return moves(run.nr);
	if (slot->lost)
		return stays(KVMM_STAY_LOST);
	if (any_is_flying(pool, run))
		return stays(KVMM_STAY_FLYING);
	return mode == KVMM_MOVE_BETWEEN ? moves(run.nr) :
					   sealed_verdict(pool, slot, run);
}

/* ---- entries ---- */

static struct verdict registered_verdict(struct kvmm_pool *pool, u32 index, u64 word, u32 mode)
{
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

/* ---- calls ---- */

struct look {
	struct kvmm_pool *pool;
	struct kvmm_stay *stay;
	u32 mode;
};

static void look_at(void *arg, u32 owner, struct kvmm_extent run)
{
	struct look *look = arg;

	stay_look(look->pool, look->stay, owner, run, look->mode);
}

static void all_stay(struct kvmm_stay *stay, enum kvmm_stay_reason why)
{
	u32 nr = stay->movable + stay->staying;

	*stay = (struct kvmm_stay){ .staying = nr };
	stay->blocks[why] = nr;
}

int kv_stay_now(struct kvmm_pool *pool, uint32_t mode, struct kvmm_stay *stay)
{
	struct look look = { pool, stay, mode };
	struct steps *steps;
	int err;

	if (!pool || !stay || mode > MOVE_STOPPED)
		return -EINVAL;
	kv_lock(&pool->compact_lock);
	err = pool_enter(pool);
	if (!err) {
		*stay = (struct kvmm_stay){ 0 };
		arenas_lock(pool);
		pool_each_run(pool, look_at, &look);
		arenas_unlock(pool);
		pool_leave(pool);
		steps = steps_of(pool);
		if (steps && steps->nr_quiet)
			all_stay(stay, KVMM_STAY_QUIESCENT);
	}
	kv_unlock(&pool->compact_lock);
	return err;
}

int stay_stat_read(struct kvmm_pool *pool, void *stat)
{
	kv_lock(&pool->compact_lock);
	memcpy(stat, &pool->stay, sizeof(pool->stay));
	kv_unlock(&pool->compact_lock);
	return 0;
}

/* ---- text ---- */

const char *kv_stay_name(uint32_t reason)
{
	static const char *const names[KVMM_NR_STAY_REASONS] = {
		[KVMM_STAY_PIN_USER] = "pin_user", [KVMM_STAY_PIN_RDMA] = "pin_rdma",
		[KVMM_STAY_PIN_GDS] = "pin_gds", [KVMM_STAY_PIN_IPC] = "pin_ipc",
		[KVMM_STAY_PIN_COPY] = "pin_copy", [KVMM_STAY_PIN_GRAPH] = "pin_graph",
		[KVMM_STAY_FIXED] = "fixed", [KVMM_STAY_PRIVATE] = "private",
		[KVMM_STAY_STAGED] = "staged", [KVMM_STAY_UNSEALED] = "unsealed",
		[KVMM_STAY_GROWING] = "growing", [KVMM_STAY_WRITTEN] = "written",
		[KVMM_STAY_FLYING] = "flying", [KVMM_STAY_HELD] = "held",
		[KVMM_STAY_GOING] = "going", [KVMM_STAY_LOST] = "lost",
		[KVMM_STAY_QUIESCENT] = "quiescent", [KVMM_STAY_RECENT] = "recent",
	};

	return reason < KVMM_NR_STAY_REASONS ? names[reason] : "?";
}

int kvmm_stay_text_sized(const struct kvmm_stay *stay, char *buf, size_t bytes, size_t size)
{
	struct kv_buf text = { buf, bytes, 0 };

	if (!kv_args_are_known(stay, size, sizeof(*stay)) || (bytes && !buf))
		return -EINVAL;
	kv_buf_printf(&text, "movable %u\n", stay->movable);
	for (u32 i = 0; i < KVMM_NR_STAY_REASONS; i++)
		if (stay->blocks[i])
			kv_buf_printf(&text, "%s %u\n", kv_stay_name(i), stay->blocks[i]);
	return text.len;
}
