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
 * Each step in the life of a block is one compare-and-swap of that word, or a store where no other
 * thread may change it. A step that is not legal in the state at hand is an error and changes
 * nothing. The steps are the functions kv_edge_*() of kv/entry_word.h, from word to word;
 * Documentation/life-cycle.rst has them as a table.
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
#include <kv/entry_word.h>
#include <kv/err.h>
#include <kv/types.h>
#include <kvmm/types.h>

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
	u32 parent;		/* kv_link() to the block before, or KV_NONE */
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
	u32 link;		/* FREE: registry_free.h. DUP that holds an elder: it; KV_LET_GO */
	u32 chain;		/* the claimer: next of the entries it has claimed */
} __cacheline_aligned;

static_assert(sizeof(struct kv_entry) == KV_CACHELINE, "an entry is one line");

/* ->link of a duplicate of which the elder lost the name. Of a block that never held one: KV_NONE. */
#define KV_LET_GO	(KV_NONE - 1)

/* A block by value. Of an owner, a holder of a reference, or, without one, a weak reference. */
struct kv_handle {
	u32 index;
	u32 gen;		/* 1 to KV_ENTRY_GEN_MASK; 0 in no live handle */
};

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

/*
 * A link to a block: its entry, and as much of its generation as there is room for, so that the
 * block that is there next is not taken for it. One that happens to be KV_NONE leads nowhere.
 */
#define KV_LINK_BITS	24u

static_assert(KVMM_MAX_BLOCKS <= BIT(KV_LINK_BITS), "an entry fits a link");

static inline u32 kv_link(struct kv_handle handle)
{
	return handle.gen << KV_LINK_BITS | handle.index;
}

/* Not of KV_NONE. */
static inline u32 kv_link_index(u32 link)
{
	return link & (BIT(KV_LINK_BITS) - 1);
}

/* Is @word of the block that @link leads to, as far as a link can tell? */
static inline bool kv_link_is(u32 link, u64 word)
{
	return !((kv_link(kv_handle_of(0, word)) ^ link) >> KV_LINK_BITS);
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

/*
 * PRIVATE -> STAGED with this name: 0, -ESTALE, -EINVAL, -EBUSY. The entry is marked before the
 * name is written, so that of two threads that stage one handle, or of which one frees it, one is
 * refused. With @stays_marked it is marked until kv_edge_unmark().
 */
static __always_inline int kv_entry_stage(struct kv_entries *entries, struct kv_handle handle,
					  const struct kv_name *name, bool stays_marked)
{
	int err = kv_handle_step(entries, handle, kv_edge_mark_private);
	u64 key[2], rest = KV_ENTRY_REF | (stays_marked ? KV_ENTRY_MARK : 0);
	struct kv_entry *entry;

	if (unlikely(err))
		return err;
	entry = &entries->entry[handle.index];
	kv_key_words(&name->key, key);
	WRITE_ONCE(entry->key[0], key[0]);
	WRITE_ONCE(entry->key[1], key[1]);
	WRITE_ONCE(entry->domain, kv_domain_word(name->domain));
	WRITE_ONCE(entry->parent, name->parent);
	WRITE_ONCE(entry->position, name->position);
	/*
	 * No other thread changes a word that is marked. Threads that see STAGED, or any word after
	 * it, see the name: see kv_entry_has_name().
	 */
	smp_store_release(&entry->word, kv_word_make(handle.gen, KV_ENTRY_STAGED, rest));
	return 0;
}

#endif /* KV_ENTRY_H */
