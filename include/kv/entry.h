/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries: all that is known of one cached block, in one cache line.
 *
 * A table of entries never frees one: a pointer to an entry is a pointer to *some* entry for as
 * long as the table lives, so readers need neither lock nor grace period to look at one. A single
 * word decides how much of it they may believe:
 *
 *	63        36 35   33 32   28 27  20 19         0
 *	| generation | state | flags | pins | references |
 *
 * Each step in the life of a block is one compare-and-swap of that word. A step that is not legal
 * in the state at hand is an error and changes nothing. The steps are the functions kv_edge_*()
 * below, from word to word; Documentation/life-cycle.rst has them as a table.
 *
 *	FREE -> PRIVATE -> STAGED -> REGISTERED -> EVICTING -> FREE, or RETIRED
 *	           |         |                        ^
 *	           +---------+------->  PARKED  ------+	(and back to PRIVATE)
 *
 * Invariants, recomputed by kv_entries_check():
 *
 *  1. FREE, RETIRED, PARKED and EVICTING have no references, but for the tag of pocketed ones.
 *     STAGED has one, its owner's. PRIVATE has one for each holder: with several it is neither
 *     written to nor staged; ->nr_shares counts all but the first ones.
 *  2. Pins are references, too: pins <= references. Those of PRIVATE are none: they are writers,
 *     or readers, and while there are any it is neither freed nor staged. Writers that outlive a
 *     call are counted in ->nr_written.
 *  3. MOVING excludes pins and eviction; it does not exclude references. HIDDEN without references
 *     is MOVING, too: else it would have gone with the last one. EVICTING has that bit for LENT.
 *  4. A generation of an entry is used once. It changes exactly when the block behind a handle is
 *     gone: on the way out of PRIVATE, STAGED or EVICTING to FREE (or, recycled, to PRIVATE).
 *     An entry out of generations is RETIRED and never used again.
 *  5. Name and place are written by the owner while PRIVATE only; the place, besides, by a mover:
 *     while MOVING, or while the pool stands still for it. While a generation is REGISTERED its
 *     name does not change, but while MARKed, by a caller that has waited for all readers that may
 *     have seen the word without that mark.
 *
 * From 4 and 5: a thread that reads the word (acquire), then the name, and then swaps that very
 * word for one with a reference more, has read the name of the block it holds now. There is nothing
 * to check again afterwards, and no ABA: the same generation and REGISTERED is the same block.
 *
 * Each swap is acquire and release: changes to the block before a step are visible to the thread
 * that takes a later one. The pairs are spelled out in Documentation/ordering.rst.
 *
 * Handles are {index, generation}. A generation has 28 bits and starts at random in each table:
 * an entry lives 2^28 - 1 times (evicted ten times a second: 310 days) and is then retired, so an
 * old handle is refused for ever; a made-up or foreign one is taken for good once in 2^28. The
 * entry that was freed last is taken first, since its line is in the cache of the core, but every
 * KV_ENTRY_STINT lives it rests until all other free entries have lived as often.
 *
 * Keys are 16 bytes. Longer or shorter keys of an engine are hashed down to that before they come
 * here, with their length (SHA-256, cut): no copy of the long key is kept. Two of 10^12 different
 * keys meet with a chance of 1.5e-15. Tenant, layout and group are no part of the key and are
 * compared on their own.
 */
#ifndef KV_ENTRY_H
#define KV_ENTRY_H

#include <string.h>

#include <kv/atomic.h>
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

/* ---- the entry ---- */

/* Two blocks differ if one of tenant, layout and group does. */
static_assert(sizeof(kvmm_domain_t) == sizeof(u64), "a domain is compared in one go");

static inline u64 kv_domain_word(kvmm_domain_t domain)
{
	return domain.tenant | (u64)domain.layout << 32 | (u64)domain.group << 48;
}

static inline kvmm_domain_t kv_word_domain(u64 word)
{
	return (kvmm_domain_t){ (u32)word, word >> 32 & 0xffff, word >> 48 };
}

/* The name of a block. */
struct kv_name {
	kvmm_key_t key;
	kvmm_domain_t domain;
	u32 parent;		/* entry of the block before, or KV_NONE */
	u32 position;		/* in blocks from the start */
};

/*
 * One entry. Any thread may read everything but the word at any time, so all of it is read by
 * READ_ONCE() and written by WRITE_ONCE(); the comment names the writer.
 */
struct kv_entry {
	u64 word;		/* kv_edge_*() only */
	u64 key[2];		/* owner, while PRIVATE */
	u64 domain;		/* owner, while PRIVATE; kv_domain_word() */
	u32 place;		/* block of the pool; owner, while PRIVATE; mover: invariant 5 */
	u32 parent;		/* owner, while PRIVATE */
	u32 position;		/* owner, while PRIVATE */
	u32 vtime;		/* any thread; last touch in ticks of the policy */
	u32 dup_next;		/* bucket lock: next younger of this name, or KV_NONE */
	u32 dup_prev;		/* bucket lock: next older; of the oldest: the youngest */
	u32 link;		/* FREE: registry_free.h. DUP that holds an elder: it; or KV_NONE */
	u32 chain;		/* the claimer: next of the entries it has claimed */
} __cacheline_aligned;

static_assert(sizeof(struct kv_entry) == KV_CACHELINE, "an entry is one line");

/* A block by value. Of an owner, a holder of a reference, or, without one, a weak reference. */
struct kv_handle {
	u32 index;
	u32 gen;		/* 1 to KV_ENTRY_GEN_MASK; 0 in no live handle */
};

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
	return likely(!(old & KV_ENTRY_MARK)) ? 0 : kv_word_refuse_marked(old);
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

/* ---- the table ---- */

struct kv_entries {
	/* Fixed at creation. */
	struct kv_entry *entry;
	u32 nr;
	u32 nr_all;		/* behind those of blocks, entries for added names */
	u32 gen_first;		/* secret enough to refuse a foreign handle */
	u32 gen_last;		/* of each entry; then it is retired */
	u32 *name;		/* ours; by block: its oldest added name, or 0; writers of names */

	/* Writers of names. */
	u32 top_name;			/* from here on never used */
	u32 free_name;			/* list through ->chain; 0 = empty */
	u32 nr_names;			/* atomic; those in use */

	/* Bounced by threads that take and free. */
	u64 free[2] __cacheline_aligned;	/* atomic; list heads: count of changes | index */
	u32 turn;			/* atomic; the list to take from; the others rest */
	u32 nr_free;			/* atomic; lags */
	u32 nr_retired;			/* atomic; lags */
	u64 nr_full;			/* atomic; see kv_entries_note_full() */
	u64 nr_written;			/* atomic; see kv_entry_write_begin() */
	u64 nr_shares;			/* atomic; holders of PRIVATE ones but the first of each */
};

/**
 * struct kv_entries_attr - a table to be made
 * @nr: entries, up to KVMM_MAX_BLOCKS
 * @gen_first: first generation; 0 = at random
 * @nr_gens: times that each entry lives; 0 = all that there are
 */
struct kv_entries_attr {
	u32 nr;
	u32 gen_first;
	u32 nr_gens;
};

/* 0, -EINVAL or -ENOMEM. */
int kv_entries_init(struct kv_entries *entries, const struct kv_entries_attr *attr);
void kv_entries_exit(struct kv_entries *entries);

/* An entry rests after so many lives; a power of two. */
#define KV_ENTRY_STINT		4096u

/* Its life of this generation is one after which it rests, or is retired. */
static inline bool kv_entry_tires(const struct kv_entries *entries, u32 gen)
{
	return !((gen ^ entries->gen_last) & (KV_ENTRY_STINT - 1));
}

/*
 * FREE -> PRIVATE: @nr of them, one reference each, or -ENOSPC and none. Lock-free; -ENOSPC may be
 * said too early to callers that other takers or freers overlap.
 */
int kv_entries_take(struct kv_entries *entries, u32 nr, struct kv_handle *handles);

/* PRIVATE, and just taken -> pocketed; the other way back to the free list. By the owner. */
void kv_entries_pocket(struct kv_entries *entries, const struct kv_handle *handles, u32 nr,
		       u64 stamp);
void kv_entries_unpocket(struct kv_entries *entries, const u32 *indexes, u32 nr);

/*
 * As if kv_entries_take() had not been, the generations included: no other thread has seen the
 * handles. The list of free entries is as it was, too, if nothing was taken or freed in between.
 */
void kv_entries_untake(struct kv_entries *entries, u32 nr, const struct kv_handle *handles);

/*
 * PRIVATE or STAGED -> FREE, by the owner, marked or not; or EVICTING -> FREE, by the evictor, once
 * no registry has it. Handles of it are stale from here on. 0; -ESTALE, -EINVAL: those before are
 * free. The last one is taken first.
 */
int kv_entries_free(struct kv_entries *entries, const struct kv_handle *handles, u32 nr);

static inline int kv_entry_free(struct kv_entries *entries, struct kv_handle handle)
{
	return kv_entries_free(entries, &handle, 1);
}

/*
 * PRIVATE -> STAGED with this name: 0, -ESTALE, -EINVAL, -EBUSY. The entry is marked before the
 * name is written, so that of two threads that stage one handle, or of which one frees it, one is
 * refused. With @stays_marked it is marked until kv_edge_unmark().
 */
int kv_entry_stage(struct kv_entries *entries, struct kv_handle handle,
		   const struct kv_name *name, bool stays_marked);

/**
 * struct kv_put - references to be dropped, last of @refs first
 * @refs, @nr: one reference each
 * @unpin: one pin each, too
 * @is_checked: kv_entries_check_put() of these was good, or as good: it is not asked again
 * @last: room for @nr; out: from its start, blocks that are inactive now, in the order of dropping;
 *	from its end, blocks that are EVICTING now
 * @nr_last, @nr_gone: out; on errors, too: for the counts
 * @nr_dropped: out: references; on errors those that are lost
 * @nr_first: out; on errors: references taken again that were the first ones
 */
struct kv_put {
	const struct kv_handle *refs;
	u32 nr;
	bool unpin;
	bool is_checked;
	struct kv_handle *last;
	u32 nr_last;
	u32 nr_gone;
	u32 nr_dropped;
	u32 nr_first;
};

/*
 * 0; -ESTALE, -EINVAL: one of them is none, and nothing was dropped. A block that stands there more
 * often than there are references is noticed late: those behind it were dropped, and are taken
 * again, unless an evictor has come in between.
 */
int kv_entries_put(struct kv_entries *entries, struct kv_put *put);

/*
 * Take dropped references again, and pins if @unpin; kv_edge_undrop() comes first where needed.
 * Returns how many; *@nr_first grows by the first ones.
 */
u32 kv_entries_take_again(const struct kv_entries *entries, const struct kv_handle *refs, u32 nr,
			  bool unpin, u32 *nr_first);

/* The first half of it: could all of them be dropped at this moment? For batches in parts. */
int kv_entries_check_put(const struct kv_entries *entries, const struct kv_put *put);

/* -ESTALE if @gen was given out by this table before @now, else -EINVAL: made up, or foreign. */
int kv_handle_refuse(const struct kv_entries *entries, u32 now, u32 gen);

/* Checks each entry for itself, and the free list: 0 or -EUCLEAN. No thread writes meanwhile. */
int kv_entries_check(const struct kv_entries *entries);

/* Entries by state; a snapshot without a moment. */
void kv_entries_count(const struct kv_entries *entries, u32 nr[KV_NR_ENTRY_STATES]);

/* A lookup passes over a block that has all references that there can be. */
static inline void kv_entries_note_full(struct kv_entries *entries)
{
	kv_fetch_add(&entries->nr_full, 1);
}

/* ---- steps by handle ---- */

/* The one place where words are swapped. @old was read, and may be another generation's by now. */
static __always_inline int __kv_entry_step(struct kv_entry *entry, u64 old, u32 gen, kv_edge edge)
{
	u64 new;
	int ret;

	do {
		if (unlikely(kv_word_gen(old) != gen))
			return -ESTALE;
		ret = edge(old, &new);
		if (unlikely(ret < 0))
			return ret;
	} while (unlikely(!kv_cas(&entry->word, &old, new)));
	return ret;
}

static __always_inline int kv_entry_step(struct kv_entry *entry, u32 gen, kv_edge edge)
{
	return __kv_entry_step(entry, smp_load_acquire(&entry->word), gen, edge);
}

/*
 * The same by a thread that has marked the entry, or has claimed it: no other one changes its word,
 * so a release is enough.
 */
static __always_inline void kv_entry_step_alone(struct kv_entry *entry, kv_edge edge)
{
	u64 new;

	KV_BUG_ON(edge(READ_ONCE(entry->word), &new));
	smp_store_release(&entry->word, new);
}

/* The same from @word, just read (acquire), on: of its generation. */
static __always_inline int kv_entry_step_from(struct kv_entry *entry, u64 word, kv_edge edge)
{
	u64 old = word, new;
	int ret = edge(old, &new);

	if (unlikely(ret < 0) || likely(kv_cas(&entry->word, &old, new)))
		return ret;
	return __kv_entry_step(entry, old, kv_word_gen(word), edge);
}

/* By a handle that came from outside. */
static __always_inline int kv_handle_step(const struct kv_entries *entries,
					  struct kv_handle handle, kv_edge edge)
{
	struct kv_entry *entry;
	u64 old;

	if (unlikely(handle.index >= entries->nr))
		return -EINVAL;
	entry = &entries->entry[handle.index];
	old = smp_load_acquire(&entry->word);
	if (unlikely(kv_word_gen(old) != handle.gen))
		return kv_handle_refuse(entries, kv_word_gen(old), handle.gen);
	return __kv_entry_step(entry, old, handle.gen, edge);
}

/* The entry is stepped soon, if the handle has any: callers with a batch ask some steps before. */
static inline void kv_handle_prefetch(const struct kv_entries *entries, struct kv_handle handle)
{
	if (likely(handle.index < entries->nr))
		kv_prefetch_write(&entries->entry[handle.index]);
}

static inline struct kv_handle kv_handle_of(u32 index, u64 word)
{
	return (struct kv_handle){ index, kv_word_gen(word) };
}

/* The word of a block that is gone: of the next generation, or RETIRED in the last one. */
static inline u64 kv_word_after(const struct kv_entries *entries, u64 word)
{
	u32 gen = kv_word_gen(word);

	if (unlikely(gen == entries->gen_last))
		return kv_word_make(gen, KV_ENTRY_RETIRED, 0);
	gen = (gen + 1) & KV_ENTRY_GEN_MASK;
	return kv_word_make(likely(gen) ? gen : 1, KV_ENTRY_FREE, 0);
}

/*
 * EVICTING -> PRIVATE, by the evictor, once no registry has it: the block changes hands without
 * passing through the free list. *@fresh is its new handle. -ENOSPC: it was retired instead, and
 * the block has no entry now. Else as kv_entry_free().
 */
static inline int kv_entry_recycle(struct kv_entries *entries, struct kv_handle handle,
				   struct kv_handle *fresh)
{
	struct kv_entry *entry = &entries->entry[handle.index];
	u64 word;

	if (unlikely(handle.index >= entries->nr))
		return -EINVAL;
	word = smp_load_acquire(&entry->word);
	if (unlikely(kv_word_gen(word) != handle.gen))
		return kv_handle_refuse(entries, kv_word_gen(word), handle.gen);
	if (unlikely(!kv_word_is(word, KV_ENTRY_EVICTING)))
		return -EINVAL;
	word = kv_word_after(entries, word);
	if (likely(kv_word_is(word, KV_ENTRY_FREE)))
		word |= KV_WORD_PRIVATE;
	else
		kv_fetch_add(&entries->nr_retired, 1);
	/* No other thread changes the word of an entry that is claimed. */
	smp_store_release(&entry->word, word);
	*fresh = kv_handle_of(handle.index, word);
	return likely(kv_word_is(word, KV_ENTRY_PRIVATE)) ? 0 : -ENOSPC;
}

/*
 * A PRIVATE block is written by a copy that goes on when the call has returned: 0, or as
 * kv_edge_write(). A check of the table keeps these two out, by a read section of the caller's.
 */
static inline int kv_entry_write_begin(struct kv_entries *entries, struct kv_handle handle)
{
	int err = kv_handle_step(entries, handle, kv_edge_write);

	if (!err)
		kv_fetch_add(&entries->nr_written, 1);
	return err;
}

static inline int kv_entry_write_end(struct kv_entries *entries, struct kv_handle handle)
{
	int err = kv_handle_step(entries, handle, kv_edge_written);

	if (!err)
		kv_fetch_sub(&entries->nr_written, 1);
	return err;
}

/* ---- names ---- */

static inline kvmm_key_t kv_entry_key(const struct kv_entry *entry)
{
	u64 half[2] = { READ_ONCE(entry->key[0]), READ_ONCE(entry->key[1]) };
	kvmm_key_t key;

	memcpy(&key, half, sizeof(key));
	return key;
}

static inline void kv_key_words(const kvmm_key_t *key, u64 word[2])
{
	memcpy(word, key, sizeof(*key));
}

static inline kvmm_domain_t kv_entry_domain(const struct kv_entry *entry)
{
	return kv_word_domain(READ_ONCE(entry->domain));
}

/* Believe it only if the word did not change around it; see the head of this file. */
static inline bool kv_entry_has_name(const struct kv_entry *entry, const u64 key[2], u64 domain)
{
	return READ_ONCE(entry->key[0]) == key[0] && READ_ONCE(entry->key[1]) == key[1] &&
	       READ_ONCE(entry->domain) == domain;
}

#endif /* KV_ENTRY_H */
