/* SPDX-License-Identifier: Apache-2.0 */
/* The word of an entry, and the steps it takes; see kv/entry.h. No step touches memory. */
#ifndef KV_ENTRY_WORD_H
#define KV_ENTRY_WORD_H

#include <kv/bits.h>
#include <kv/err.h>
#include <kv/types.h>
#include <kvmm/types.h>

/* ---- the word ---- */

#define KV_ENTRY_REF		1ull
#define KV_ENTRY_REFS		0xfffffull		/* mask, and the most there can be */
#define KV_ENTRY_PIN		BIT64(20)
#define KV_ENTRY_PINS		(0xffull << 20)

/* Flags. */
#define KV_ENTRY_DUP		BIT64(28)	/* not the oldest of its name; ->bucket lock */
#define KV_ENTRY_MOVING		BIT64(29)	/* a mover copies the content */
#define KV_ENTRY_HIDDEN		BIT64(30)	/* its name is forgotten while it is still held */
#define KV_ENTRY_RESET		BIT64(31)	/* not to be cached beyond its last reference */
/* PRIVATE, STAGED: seen in the batch being checked. EVICTING: was PARKED. FREE: pocketed.
 * REGISTERED: another name is being written. */
#define KV_ENTRY_MARK		BIT64(32)
/* PRIVATE, STAGED and marked: to be taken from its owner; with RESET, too: for good. */
#define KV_ENTRY_CLAIM		KV_ENTRY_HIDDEN
/* PRIVATE and marked: holders of several are leaving, and their references have gone already. */
#define KV_ENTRY_LEAVING	KV_ENTRY_DUP
/* EVICTING only: other owners have its block; with RESET, too: for good. */
#define KV_ENTRY_LENT		KV_ENTRY_MOVING
#define KV_ENTRY_FLAGS		(0x1full << 28)

#define KV_ENTRY_STATE_SHIFT	33
#define KV_ENTRY_STATE		(7ull << KV_ENTRY_STATE_SHIFT)
#define KV_ENTRY_GEN_SHIFT	36
#define KV_ENTRY_GEN_BITS	28
#define KV_ENTRY_GEN_MASK	(BIT(KV_ENTRY_GEN_BITS) - 1)

enum kv_entry_state {
	KV_ENTRY_FREE,		/* on the free list; no block */
	KV_ENTRY_PRIVATE,	/* mutable, its owner's alone; no name */
	KV_ENTRY_STAGED,	/* named and complete, but no look-up finds it */
	KV_ENTRY_REGISTERED,	/* active with references, inactive without */
	KV_ENTRY_EVICTING,	/* claimed: can neither be found nor referenced any more */
	KV_ENTRY_RETIRED,	/* out of generations */
	KV_ENTRY_PARKED,	/* given back without a name; waits, with its block, to be used */
	KV_NR_ENTRY_STATES,
	KV_ENTRY_NAME = KV_NR_ENTRY_STATES,	/* of no block: see kv/registry_name.h */
};

static inline enum kv_entry_state kv_word_state(u64 word)
{
	return (word & KV_ENTRY_STATE) >> KV_ENTRY_STATE_SHIFT;
}

static inline u32 kv_word_refs(u64 word)
{
	return word & KV_ENTRY_REFS;
}

static inline u32 kv_word_pins(u64 word)
{
	return (word & KV_ENTRY_PINS) / KV_ENTRY_PIN;
}

static inline u32 kv_word_gen(u64 word)
{
	return word >> KV_ENTRY_GEN_SHIFT;
}

static inline u64 kv_word_make(u32 gen, enum kv_entry_state state, u64 rest)
{
	return (u64)gen << KV_ENTRY_GEN_SHIFT | (u64)state << KV_ENTRY_STATE_SHIFT | rest;
}

static inline u64 kv_word_with_state(u64 word, enum kv_entry_state state)
{
	return (word & ~KV_ENTRY_STATE) | (u64)state << KV_ENTRY_STATE_SHIFT;
}

/* ---- the steps ---- */

/*
 * One step: from @old to *@new. 0 or more and the swap may be done, or a negative errno. 1 tells
 * the thread that took the step that something is its job now; see each.
 */
typedef int (*kv_edge)(u64 old, u64 *new);

#define KV_STATE_WORD(state)	((u64)(state) << KV_ENTRY_STATE_SHIFT)

static inline bool kv_word_is(u64 word, enum kv_entry_state state)
{
	return (word & KV_ENTRY_STATE) == KV_STATE_WORD(state);
}

/* ---- pockets ---- */

/*
 * An entry that a thread has put in the pocket is FREE, but not on the free list, and keeps its
 * block. The number of the pocket stands where references would be. Its handle has been stale since
 * it was freed: the thread that takes it from the pocket hands out the generation that it has.
 */
static inline u64 kv_pocket_stamp(u32 tag)
{
	return KV_STATE_WORD(KV_ENTRY_FREE) | KV_ENTRY_MARK | tag;
}

/* All of the word but the generation, and one generation. */
#define KV_WORD_GEN		BIT64(KV_ENTRY_GEN_SHIFT)
#define KV_WORD_PRIVATE		(KV_STATE_WORD(KV_ENTRY_PRIVATE) | KV_ENTRY_REF)

static inline u64 kv_word_life(u64 word)
{
	return word & (KV_WORD_GEN - 1);
}

/* The error of a handle of the right generation that comes too late for @wanted, or too early. */
static inline int kv_word_refuse(u64 word, enum kv_entry_state wanted)
{
	/* RESET before it is REGISTERED: taken away for good. */
	bool gone = kv_word_state(word) < KV_ENTRY_REGISTERED && word & KV_ENTRY_RESET;

	return kv_word_state(word) > wanted || gone ? -ESTALE : -EINVAL;
}

/* The error of an owner whose block is marked: twice in its batch; or it is being taken away; or
 * other holders are leaving it. */
static inline int kv_word_refuse_marked(u64 word)
{
	if (!(word & (KV_ENTRY_CLAIM | KV_ENTRY_LEAVING)))
		return -EINVAL;
	return word & KV_ENTRY_RESET ? -ESTALE : -EBUSY;
}

/* The error of an owner that cannot hand its PRIVATE block on: it is written to, or marked, or it
 * has other holders. */
static inline int kv_word_refuse_owner(u64 word)
{
	if (!kv_word_is(word, KV_ENTRY_PRIVATE))
		return kv_word_refuse(word, KV_ENTRY_PRIVATE);
	return (word & (KV_ENTRY_PINS | KV_ENTRY_MARK)) != KV_ENTRY_MARK ?
	       -EBUSY : kv_word_refuse_marked(word);
}

/* PRIVATE or STAGED, and its owner's: not taken away for good. */
static inline bool kv_word_is_owned(u64 word)
{
	return (kv_word_is(word, KV_ENTRY_PRIVATE) || kv_word_is(word, KV_ENTRY_STAGED)) &&
	       !(word & KV_ENTRY_RESET);
}

/* PRIVATE, neither written to nor claimed by the thread that frees it. */
static inline bool kv_word_is_idle(u64 word)
{
	return (word & (KV_ENTRY_STATE | KV_ENTRY_PINS | KV_ENTRY_MARK)) ==
	       KV_STATE_WORD(KV_ENTRY_PRIVATE);
}

/* The same, and it has one holder: the word is as it was taken. */
static inline bool kv_word_is_sole(u64 word)
{
	return word << KV_ENTRY_GEN_BITS == KV_WORD_PRIVATE << KV_ENTRY_GEN_BITS;
}

/* PRIVATE, and it stays so beyond the call that has marked it. */
static inline bool kv_word_stays_private(u64 word)
{
	return kv_word_is(word, KV_ENTRY_PRIVATE) && kv_word_refs(word) &&
	       (!(word & KV_ENTRY_MARK) || word & KV_ENTRY_LEAVING);
}

/* The error of a thread that comes too late to hold, read or write a PRIVATE block. */
static inline int kv_word_refuse_late(u64 word)
{
	if (!kv_word_is(word, KV_ENTRY_PRIVATE))
		return kv_word_refuse(word, KV_ENTRY_PRIVATE);
	return kv_word_refuse_marked(word) == -EBUSY ? -EBUSY : -ESTALE;
}

/* STAGED -> PRIVATE, by the owner: the block was not full after all. */
static inline int kv_edge_unstage(u64 old, u64 *new)
{
	*new = kv_word_with_state(old, KV_ENTRY_PRIVATE);
	if (unlikely(!kv_word_is(old, KV_ENTRY_STAGED)))
		return kv_word_refuse(old, KV_ENTRY_STAGED);
	return likely(!(old & KV_ENTRY_MARK)) ? 0 : kv_word_refuse_marked(old);
}

/* The same by the thread that has staged it, and marked it until now: no release is in between. */
static inline int kv_edge_unstage_marked(u64 old, u64 *new)
{
	*new = kv_word_with_state(old & ~KV_ENTRY_MARK, KV_ENTRY_PRIVATE);
	return likely(kv_word_is(old, KV_ENTRY_STAGED) && old & KV_ENTRY_MARK) ? 0 : -EINVAL;
}

/*
 * Back, by the thread that has just taken that step, even if writers have begun meanwhile. Not if
 * it is taken away for good: the release counts it by the state that it has then.
 */
static inline int kv_edge_restage(u64 old, u64 *new)
{
	*new = kv_word_with_state(old, KV_ENTRY_STAGED);
	return likely(kv_word_is(old, KV_ENTRY_PRIVATE) && kv_word_is_owned(old)) ? 0 : -EINVAL;
}

/* In a batch for the first time, by the owner: STAGED, or PRIVATE. */
static inline int kv_edge_mark(u64 old, u64 *new)
{
	*new = old | KV_ENTRY_MARK;
	if (unlikely(!kv_word_is(old, KV_ENTRY_STAGED)))
		return kv_word_refuse(old, KV_ENTRY_STAGED);
	if (likely(!(old & (KV_ENTRY_MARK | KV_ENTRY_PINS))))
		return 0;
	return old & KV_ENTRY_MARK ? kv_word_refuse_marked(old) : -EBUSY;
}

static inline int kv_edge_mark_private(u64 old, u64 *new)
{
	*new = old | KV_ENTRY_MARK;
	return likely(kv_word_is_sole(old)) ? 0 : kv_word_refuse_owner(old);
}

/* One holder more, by a holder of a PRIVATE block. */
static inline int kv_edge_share(u64 old, u64 *new)
{
	*new = old + KV_ENTRY_REF;
	if (unlikely(!kv_word_stays_private(old)))
		return kv_word_refuse_late(old);
	return likely(kv_word_refs(old) != KV_ENTRY_REFS) ? 0 : -EOVERFLOW;
}

/* Back, by the holder that has just taken that step. */
static inline int kv_edge_unshare(u64 old, u64 *new)
{
	*new = old - KV_ENTRY_REF;
	return likely(kv_word_is(old, KV_ENTRY_PRIVATE) && kv_word_refs(old) > 1) ? 0 : -EINVAL;
}

/*
 * In a batch of blocks to be given back, by a holder of a PRIVATE one. The last holder marks it. 1:
 * it had several: this one's reference goes, and it is marked LEAVING until kv_edge_left().
 */
static inline int kv_edge_leave(u64 old, u64 *new)
{
	*new = old | KV_ENTRY_MARK;
	if (likely(kv_word_is_sole(old)))
		return 0;
	*new = (old | KV_ENTRY_MARK | KV_ENTRY_LEAVING) - KV_ENTRY_REF;
	if (!kv_word_stays_private(old))
		return old & KV_ENTRY_LEAVING ? -EINVAL : kv_word_refuse_owner(old);
	return kv_word_refs(old) == 1 && old & KV_ENTRY_PINS ? -EBUSY : 1;
}

/* Back, by the thread that has just taken that step: first this for each, then kv_edge_left(). */
static inline int kv_edge_rejoin(u64 old, u64 *new)
{
	*new = old & KV_ENTRY_LEAVING ? old + KV_ENTRY_REF : old & ~KV_ENTRY_MARK;
	return likely(old & KV_ENTRY_MARK) ? 0 : -EINVAL;
}

/* The batch is through, and others hold the block. */
static inline int kv_edge_left(u64 old, u64 *new)
{
	*new = old & ~(KV_ENTRY_MARK | KV_ENTRY_LEAVING);
	return kv_word_is(old, KV_ENTRY_PRIVATE) && old & KV_ENTRY_MARK &&
	       old & KV_ENTRY_LEAVING && kv_word_refs(old) ? 0 : -EINVAL;
}

/* The last holders of the batch have it, by the thread that has marked it. */
static inline bool kv_word_is_left(u64 word)
{
	return word & KV_ENTRY_MARK && !(word & KV_ENTRY_LEAVING && kv_word_refs(word)) &&
	       (kv_word_is(word, KV_ENTRY_PRIVATE) || kv_word_is(word, KV_ENTRY_STAGED));
}

/* PRIVATE stays so until kv_edge_written(), by the copier out of it: pins without references. */
static inline int kv_edge_read(u64 old, u64 *new)
{
	*new = old + KV_ENTRY_PIN;
	if (unlikely(!kv_word_stays_private(old)))
		return kv_word_refuse_late(old);
	return likely((old & KV_ENTRY_PINS) != KV_ENTRY_PINS) ? 0 : -EOVERFLOW;
}

/* The same by the copier into it: its holder is the only one. */
static inline int kv_edge_write(u64 old, u64 *new)
{
	int ret = kv_edge_read(old, new);

	return likely(ret || (kv_word_refs(old) == 1 && !(old & KV_ENTRY_MARK))) ? ret : -EBUSY;
}

static inline int kv_edge_written(u64 old, u64 *new)
{
	*new = old - KV_ENTRY_PIN;
	if (unlikely(!kv_word_is(old, KV_ENTRY_PRIVATE) && !kv_word_is(old, KV_ENTRY_STAGED)))
		return -EINVAL;
	return likely(old & KV_ENTRY_PINS) ? 0 : -EINVAL;
}

static inline int kv_edge_unmark(u64 old, u64 *new)
{
	*new = old & ~(KV_ENTRY_MARK | KV_ENTRY_CLAIM);
	return likely(old & KV_ENTRY_MARK) ? 0 : -EINVAL;
}

/*
 * PRIVATE or STAGED, by a thread that takes the block from its owner, and may put it back by
 * kv_edge_unmark(). -EBUSY: its owner is about to do something else with it.
 */
static inline int kv_edge_take(u64 old, u64 *new)
{
	*new = old | KV_ENTRY_MARK | KV_ENTRY_CLAIM;
	if (kv_word_is_idle(old) || (kv_word_is(old, KV_ENTRY_STAGED) && !(old & KV_ENTRY_MARK)))
		return 0;
	return kv_word_is_owned(old) ? -EBUSY : -ESTALE;
}

/* It goes: handles are as good as stale, although the entry is freed some steps later. */
static inline int kv_edge_taken(u64 old, u64 *new)
{
	*new = old | KV_ENTRY_RESET;
	return likely(old & KV_ENTRY_CLAIM) ? 0 : -EINVAL;
}

/* STAGED -> REGISTERED, by a registry under the bucket's lock. The owner's reference stays. */
static inline int kv_edge_publish(u64 old, u64 *new)
{
	*new = kv_word_with_state(old & ~KV_ENTRY_MARK, KV_ENTRY_REGISTERED);
	return likely(kv_word_is(old, KV_ENTRY_STAGED)) ? 0 :
	       kv_word_refuse(old, KV_ENTRY_STAGED);
}

static inline int kv_edge_publish_dup(u64 old, u64 *new)
{
	int ret = kv_edge_publish(old, new);

	*new |= KV_ENTRY_DUP;
	return ret;
}

/* The oldest of its name now, by a registry under the bucket's lock. */
static inline int kv_edge_promote(u64 old, u64 *new)
{
	*new = old & ~KV_ENTRY_DUP;
	return likely(old & KV_ENTRY_DUP) ? 0 : -EINVAL;
}

static inline bool kv_word_has_name(u64 word)
{
	return kv_word_is(word, KV_ENTRY_REGISTERED) || kv_word_is(word, KV_ENTRY_NAME);
}

/* Its name is written, or has been, by a registry that the block is in no list of meanwhile. */
static inline int kv_edge_unname(u64 old, u64 *new)
{
	*new = old | KV_ENTRY_MARK;
	return likely(kv_word_has_name(old) && !(old & KV_ENTRY_MARK)) ? 0 : -EINVAL;
}

static inline int kv_edge_name(u64 old, u64 *new)
{
	*new = old & ~KV_ENTRY_MARK;
	return likely(kv_word_has_name(old) && old & KV_ENTRY_MARK) ? 0 : -EINVAL;
}

/* Another block has its new name already, by a registry under the bucket's lock. */
static inline int kv_edge_demote(u64 old, u64 *new)
{
	*new = old | KV_ENTRY_DUP;
	return likely(kv_word_has_name(old) && !(old & KV_ENTRY_DUP)) ? 0 : -EINVAL;
}

/*
 * PRIVATE or STAGED -> PARKED, by the owner, which gives it back; or EVICTING -> PARKED, by the
 * evictor, once no registry has it. The entry keeps the block, and the order of eviction gets it.
 */
static inline int kv_edge_park(u64 old, u64 *new)
{
	*new = kv_word_make(kv_word_gen(old), KV_ENTRY_PARKED, 0);
	if (likely(kv_word_is(old, KV_ENTRY_PRIVATE) || kv_word_is(old, KV_ENTRY_STAGED) ||
		   kv_word_is(old, KV_ENTRY_EVICTING)))
		return 0;
	return kv_word_refuse(old, KV_ENTRY_EVICTING);
}

/* EVICTING that was PARKED -> PRIVATE again: its owner wants it back, and the content. */
static inline int kv_edge_unpark(u64 old, u64 *new)
{
	*new = kv_word_make(kv_word_gen(old), KV_ENTRY_PRIVATE, KV_ENTRY_REF);
	return likely(kv_word_is(old, KV_ENTRY_EVICTING) && old & KV_ENTRY_MARK &&
		      !(old & KV_ENTRY_LENT)) ? 0 : -EINVAL;
}

/* One reference more, even if there are none. 1: the first. */
static inline int kv_edge_add_ref(u64 old, u64 *new)
{
	*new = old + KV_ENTRY_REF;
	if (unlikely(!kv_word_is(old, KV_ENTRY_REGISTERED)))
		return kv_word_refuse(old, KV_ENTRY_REGISTERED);
	if (unlikely(kv_word_refs(old) == KV_ENTRY_REFS))
		return -EOVERFLOW;
	return !kv_word_refs(old);
}

/* One more, by any thread: found in a registry, or an upgraded weak one. 1: the first. */
static inline int kv_edge_try_get(u64 old, u64 *new)
{
	int ret = kv_edge_add_ref(old, new);

	return unlikely(old & KV_ENTRY_HIDDEN) ? -ESTALE : ret;
}

/* One more, by a holder of one. */
static inline int kv_edge_get(u64 old, u64 *new)
{
	int ret = kv_edge_add_ref(old, new);

	return likely(ret != 1) ? ret : -ESTALE;
}

/* The next state of a REGISTERED block, its references counted down; see kv_edge_put(). */
static inline int kv_edge_dropped(u64 word, u64 *new)
{
	*new = word;
	if (kv_word_refs(word))
		return 0;
	if (likely(!(word & KV_ENTRY_RESET) || word & KV_ENTRY_MOVING))
		return 1;
	*new = kv_word_with_state(word, KV_ENTRY_EVICTING);
	return 2;
}

/* The error of a put without anything to put. */
static inline int kv_word_refuse_put(u64 word)
{
	if (!kv_word_is(word, KV_ENTRY_REGISTERED))
		return kv_word_refuse(word, KV_ENTRY_REGISTERED);
	return kv_word_refs(word) ? -EINVAL : -ESTALE;
}

/*
 * One less, by a holder. 1: it was the last, and the block is inactive: the caller tells the
 * order of eviction. 2: it was RESET and is EVICTING: the caller evicts it. The order may have it.
 */
static inline int kv_edge_put(u64 old, u64 *new)
{
	*new = old;
	if (unlikely(!kv_word_is(old, KV_ENTRY_REGISTERED) ||
		     kv_word_refs(old) <= kv_word_pins(old)))
		return kv_word_refuse_put(old);
	return kv_edge_dropped(old - KV_ENTRY_REF, new);
}

/* A reference that keeps the block where it is. -EBUSY: it is being moved. 1: the first. */
static inline int kv_edge_pin(u64 old, u64 *new)
{
	int ret = kv_edge_add_ref(old, new);

	if (unlikely(ret < 0))
		return ret;
	if (unlikely(old & KV_ENTRY_MOVING))
		return -EBUSY;
	if (unlikely((old & KV_ENTRY_PINS) == KV_ENTRY_PINS))
		return -EOVERFLOW;
	*new += KV_ENTRY_PIN;
	return ret;
}

/* The same, by a holder of a reference. */
static inline int kv_edge_pin_held(u64 old, u64 *new)
{
	int ret = kv_edge_pin(old, new);

	return likely(ret != 1) ? ret : -ESTALE;
}

/* 1, 2: as kv_edge_put(). */
static inline int kv_edge_unpin(u64 old, u64 *new)
{
	*new = old;
	if (unlikely(!kv_word_is(old, KV_ENTRY_REGISTERED)))
		return kv_word_refuse(old, KV_ENTRY_REGISTERED);
	if (unlikely(!kv_word_pins(old)))
		return -EINVAL;
	return kv_edge_dropped(old - KV_ENTRY_PIN - KV_ENTRY_REF, new);
}

/* Does it have an owner or a holder? */
static inline int kv_edge_held(u64 old)
{
	if (unlikely(!kv_word_is(old, KV_ENTRY_REGISTERED)))
		return kv_word_refuse(old, KV_ENTRY_REGISTERED);
	return likely(kv_word_refs(old)) ? 0 : -ESTALE;
}

/* Not to be cached beyond the last reference, by a holder of one. */
static inline int kv_edge_set_reset(u64 old, u64 *new)
{
	*new = old | KV_ENTRY_RESET;
	return kv_edge_held(old);
}

/* Or after all; a HIDDEN one goes. */
static inline int kv_edge_clear_reset(u64 old, u64 *new)
{
	*new = old & KV_ENTRY_HIDDEN ? old : old & ~KV_ENTRY_RESET;
	return kv_edge_held(old);
}

/*
 * Its name is forgotten: no look-up finds it any more; it goes with its last reference, or with the
 * end of its move.
 */
static inline int kv_edge_hide(u64 old, u64 *new)
{
	*new = old | KV_ENTRY_HIDDEN | KV_ENTRY_RESET;
	if (kv_word_is(old, KV_ENTRY_NAME) || (kv_word_has_name(old) && old & KV_ENTRY_MOVING))
		return 0;
	return kv_edge_held(old);
}

/*
 * REGISTERED without references, or PARKED -> EVICTING, by the evictor, which owns it from here on.
 * -EBUSY: referenced or being moved.
 */
static inline int kv_edge_claim(u64 old, u64 *new)
{
	*new = kv_word_with_state(old, KV_ENTRY_EVICTING);
	if (unlikely(kv_word_is(old, KV_ENTRY_PARKED))) {
		*new |= KV_ENTRY_MARK;
		return 0;
	}
	if (unlikely(!kv_word_is(old, KV_ENTRY_REGISTERED)))
		return kv_word_refuse(old, KV_ENTRY_REGISTERED);
	return likely(!(old & (KV_ENTRY_REFS | KV_ENTRY_MOVING))) ? 0 : -EBUSY;
}

/*
 * REGISTERED -> EVICTING, by the holder of the only reference, which gives it up: the block will be
 * private again. -EBUSY: others have references, or it is being moved.
 */
static inline int kv_edge_unpublish(u64 old, u64 *new)
{
	*new = kv_word_with_state(old - KV_ENTRY_REF, KV_ENTRY_EVICTING);
	if (unlikely(!kv_word_is(old, KV_ENTRY_REGISTERED)))
		return kv_word_refuse(old, KV_ENTRY_REGISTERED);
	if (unlikely(!kv_word_refs(old)))
		return -ESTALE;
	return likely(kv_word_refs(old) == 1 && !(old & (KV_ENTRY_PINS | KV_ENTRY_MOVING))) ?
	       0 : -EBUSY;
}

/* Back, by the thread that has just taken that step, while a registry still has it. */
static inline int kv_edge_republish(u64 old, u64 *new)
{
	*new = kv_word_with_state(old + KV_ENTRY_REF, KV_ENTRY_REGISTERED);
	return likely(kv_word_is(old, KV_ENTRY_EVICTING) && !kv_word_refs(old)) ? 0 : -EINVAL;
}

/* EVICTING: the evictor gives its block away, to come back or not; and takes it back. */
static inline int kv_edge_lend(u64 old, u64 *new)
{
	*new = old | KV_ENTRY_LENT;
	return likely(kv_word_is(old, KV_ENTRY_EVICTING)) ? 0 : -EINVAL;
}

static inline int kv_edge_lose(u64 old, u64 *new)
{
	*new = old | KV_ENTRY_LENT | KV_ENTRY_RESET;
	return likely(kv_word_is(old, KV_ENTRY_EVICTING)) ? 0 : -EINVAL;
}

static inline int kv_edge_unlend(u64 old, u64 *new)
{
	*new = old & ~(KV_ENTRY_LENT | KV_ENTRY_RESET);
	return likely(kv_word_is(old, KV_ENTRY_EVICTING) && old & KV_ENTRY_LENT) ? 0 : -EINVAL;
}

/* EVICTING, and lent: others write to its block, or may. */
static inline bool kv_word_is_lent(u64 word)
{
	return kv_word_is(word, KV_ENTRY_EVICTING) && word & KV_ENTRY_LENT;
}

/* EVICTING with its last reference: claimed entries were REGISTERED or PARKED, and may be again. */
static inline bool kv_word_is_going(u64 word)
{
	return kv_word_is(word, KV_ENTRY_EVICTING) && word & KV_ENTRY_RESET &&
	       !(word & KV_ENTRY_LENT);
}

/*
 * Back to its state before kv_edge_claim(), by the claimer, while a registry still has it: the room
 * was not needed. The order of eviction gets it back.
 */
static inline int kv_edge_unclaim(u64 old, u64 *new)
{
	*new = kv_word_with_state(old & ~(KV_ENTRY_MARK | KV_ENTRY_RESET | KV_ENTRY_HIDDEN),
				  old & KV_ENTRY_MARK ? KV_ENTRY_PARKED : KV_ENTRY_REGISTERED);
	return likely(kv_word_is(old, KV_ENTRY_EVICTING) && !(old & KV_ENTRY_LENT)) ? 0 : -EINVAL;
}

/* Back, by the thread that dropped the last reference and takes it again now. */
static inline int kv_edge_undrop(u64 old, u64 *new)
{
	*new = kv_word_with_state(old, KV_ENTRY_REGISTERED);
	return likely(kv_word_is(old, KV_ENTRY_EVICTING) && old & KV_ENTRY_RESET) ? 0 : -EINVAL;
}

/* A copy of the content begins, by the mover. -EBUSY: pinned, or another mover has it. */
static inline int kv_edge_move(u64 old, u64 *new)
{
	*new = old | KV_ENTRY_MOVING;
	if (unlikely(!kv_word_is(old, KV_ENTRY_REGISTERED)))
		return kv_word_refuse(old, KV_ENTRY_REGISTERED);
	return likely(!(old & (KV_ENTRY_PINS | KV_ENTRY_MOVING))) ? 0 : -EBUSY;
}

/*
 * It has ended, and ->place is written if it went well. 2: the last reference went meanwhile, the
 * block was RESET and is EVICTING now: the mover evicts it.
 */
static inline int kv_edge_moved(u64 old, u64 *new)
{
	u64 word = old & ~KV_ENTRY_MOVING;

	*new = word;
	if (unlikely(!kv_word_is(old, KV_ENTRY_REGISTERED) || !(old & KV_ENTRY_MOVING)))
		return -EINVAL;
	return word & KV_ENTRY_RESET && !kv_word_refs(word) ? kv_edge_dropped(word, new) : 0;
}

#endif /* KV_ENTRY_WORD_H */
