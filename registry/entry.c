// SPDX-License-Identifier: Apache-2.0
/*
 * The table of entries: its free list, generations, and the check of all of it.
 *
 * The free list is a stack of indexes, linked through the entries. Its head has a count of
 * changes beside the index, so that a head read before others took and gave back the same entry
 * is not taken for the present one. A taker of many walks the list without a lock: what it reads
 * on the way may be nonsense, but then the head has changed and its swap fails.
 *
 * There are two such lists, so that one entry that is taken and freed over and over does not use up
 * its generations while the others have theirs: entries that tire go to the list that rests. When
 * the other one is too short, all that were in it have tired as well, and the two change places.
 */
#include <kv/entry.h>
#include <kv/env.h>
#include <kv/err.h>
#include <kv/registry_free.h>
#include <kv/registry_name.h>
#include <kv/sys.h>

#include "internal.h"

/* ---- the free list ---- */

/* Head: count of changes in the upper half, an index or KV_NONE in the lower. */
static u64 next_head(u64 head, u32 index)
{
	return ((head >> 32) + 1) << 32 | index;
}

static void set_next(struct kv_entries *entries, u32 index, u32 next)
{
	WRITE_ONCE(entries->entry[index].link, next ^ (index + 1));
}

static void push_chain(struct kv_entries *entries, u64 *head, u32 first, u32 last, u32 nr)
{
	u64 old = READ_ONCE(*head);

	kv_assert(last < entries->nr);
	do
		set_next(entries, last, (u32)old);
	while (!kv_cas(head, &old, next_head(old, first)));
	kv_fetch_add(&entries->nr_free, nr);
}

/*
 * The entry behind the first @nr of the list that starts at @index; KV_NONE may be that, too.
 * False: the list is shorter, or changed meanwhile.
 */
static bool walk_free(const struct kv_entries *entries, u32 index, u32 nr, u32 *behind)
{
	while (nr--) {
		if (index >= entries->nr)
			return false;
		index = kv_entries_next(entries, index);
	}
	*behind = index;
	return true;
}

/* Cut @nr entries off: the first, linked to the others, or KV_NONE. */
static u32 pop_chain(struct kv_entries *entries, u64 *head, u32 nr)
{
	/* Acquire pairs with the swap in push_chain(): the links are visible. */
	u64 old = smp_load_acquire(head);
	u32 behind;

	for (;;) {
		if (walk_free(entries, (u32)old, nr, &behind)) {
			if (kv_cas(head, &old, next_head(old, behind)))
				break;
		} else {
			u64 now = smp_load_acquire(head);

			if (now == old)
				return KV_NONE;
			old = now;
		}
	}
	kv_fetch_sub(&entries->nr_free, nr);
	return (u32)old;
}

static u64 *free_list(struct kv_entries *entries, bool rests)
{
	return &entries->free[READ_ONCE(entries->turn) ^ rests];
}

/* The list is too short: take from the one that has rested, and if that is short too, from both. */
static noinline u32 pop_rested(struct kv_entries *entries, u32 nr)
{
	u32 turn = READ_ONCE(entries->turn), nr_more = nr, first, last;

	if (READ_ONCE(entries->nr_free) < nr)
		return KV_NONE;
	kv_cas(&entries->turn, &turn, turn ^ 1);
	for (u32 index = (u32)READ_ONCE(*free_list(entries, false)); index < entries->nr && nr_more;
	     index = kv_entries_next(entries, index))
		nr_more--;
	first = nr_more ? pop_chain(entries, free_list(entries, true), nr_more) : KV_NONE;
	if (first != KV_NONE && walk_free(entries, first, nr_more - 1, &last))
		push_chain(entries, free_list(entries, false), first, last, nr_more);
	return pop_chain(entries, free_list(entries, false), nr);
}

/* ---- set-up ---- */

/* Names that can be added. */
#define NAMES_A_BLOCK	2u
#define MIN_NAMES	256u

static u64 table_bytes(const struct kv_entries *entries)
{
	return (u64)entries->nr_all * sizeof(struct kv_entry) + entries->nr * sizeof(u32);
}

int kv_entries_init(struct kv_entries *entries, const struct kv_entries_attr *attr)
{
	u32 first = attr->gen_first ? attr->gen_first : 1 + kv_random() % KV_ENTRY_GEN_MASK;
	u32 nr_gens = attr->nr_gens ? attr->nr_gens : KV_ENTRY_GEN_MASK;

	if (attr->nr > KVMM_MAX_BLOCKS || first > KV_ENTRY_GEN_MASK || nr_gens > KV_ENTRY_GEN_MASK)
		return -EINVAL;
	*entries = (struct kv_entries){
		.nr		= attr->nr,
		.nr_all		= attr->nr + max(MIN_NAMES, attr->nr * NAMES_A_BLOCK),
		.top_name	= attr->nr,
		.gen_first	= first,
		/* Zero is no generation, so a lap has one less than the mask says. */
		.gen_last	= ((u64)first - 1 + nr_gens - 1) % KV_ENTRY_GEN_MASK + 1,
	};
	/* Pages: those behind the entries of blocks are no memory until they are used. */
	entries->entry = kv_sys()->map_pages(kv_sys()->ctx, table_bytes(entries), -1);
	if (!entries->entry)
		return -ENOMEM;
	entries->name = (u32 *)(entries->entry + entries->nr_all);
	entries->free[0] = entries->nr ? 0 : KV_NONE;
	entries->free[1] = KV_NONE;
	entries->nr_free = entries->nr;
	return 0;
}

void kv_entries_exit(struct kv_entries *entries)
{
	if (entries->entry)
		kv_sys()->unmap_pages(kv_sys()->ctx, entries->entry, table_bytes(entries));
	entries->entry = NULL;
	entries->nr = 0;
}

/* ---- generations ---- */

/* Generations of this table before @gen. Off by one beyond 0, which does not change the order. */
static u32 gen_age(const struct kv_entries *entries, u32 gen)
{
	return (gen - entries->gen_first) & KV_ENTRY_GEN_MASK;
}

int kv_handle_refuse(const struct kv_entries *entries, u32 now, u32 gen)
{
	if (!gen || gen > KV_ENTRY_GEN_MASK)
		return -EINVAL;
	/* One of 0 was never taken: no generation of it was given out. */
	return now && gen_age(entries, gen) < gen_age(entries, now) ? -ESTALE : -EINVAL;
}

/* ---- taking and freeing ---- */

static struct kv_handle make_private(struct kv_entries *entries, u32 index)
{
	struct kv_entry *entry = &entries->entry[index];
	u64 word = READ_ONCE(entry->word);

	kv_assert(index < entries->nr);
	KV_BUG_ON(!kv_word_is(word, KV_ENTRY_FREE));
	if (unlikely(!word)) {
		WRITE_ONCE(entry->parent, KV_NONE);
		WRITE_ONCE(entry->dup_next, KV_NONE);
		WRITE_ONCE(entry->dup_prev, KV_NONE);
	}
	WRITE_ONCE(entry->link, KV_NONE);
	word = kv_word_make(kv_entries_gen(entries, word), KV_ENTRY_PRIVATE, KV_ENTRY_REF);
	/* No other thread changes a FREE word: the swap of the list's head has made it ours. */
	smp_store_release(&entry->word, word);
	return kv_handle_of(index, word);
}

int kv_entries_take(struct kv_entries *entries, u32 nr, struct kv_handle *handles)
{
	u32 index;

	if (!nr)
		return 0;
	index = pop_chain(entries, free_list(entries, false), nr);
	if (unlikely(index == KV_NONE))
		index = pop_rested(entries, nr);
	if (index == KV_NONE)
		return -ENOSPC;
	while (nr--) {
		u32 next = kv_entries_next(entries, index);

		*handles++ = make_private(entries, index);
		index = next;
	}
	return 0;
}

void kv_entries_pocket(struct kv_entries *entries, const struct kv_handle *handles, u32 nr,
		       u64 stamp)
{
	for (u32 i = 0; i < nr; i++) {
		kv_assert(handles[i].index < entries->nr);
		smp_store_release(&entries->entry[handles[i].index].word,
				  kv_word_make(handles[i].gen, KV_ENTRY_FREE, stamp));
	}
}

void kv_entries_unpocket(struct kv_entries *entries, const u32 *indexes, u32 nr)
{
	for (u32 i = 0; i < nr; i++) {
		struct kv_entry *entry = &entries->entry[indexes[i]];
		u32 gen = kv_word_gen(READ_ONCE(entry->word));

		kv_assert(indexes[i] < entries->nr);
		smp_store_release(&entry->word, kv_word_make(gen, KV_ENTRY_FREE, 0));
		if (i + 1 < nr)
			set_next(entries, indexes[i], indexes[i + 1]);
	}
	if (nr)
		push_chain(entries, free_list(entries, false), indexes[0], indexes[nr - 1], nr);
}

void kv_entries_untake(struct kv_entries *entries, u32 nr, const struct kv_handle *handles)
{
	if (!nr)
		return;
	for (u32 i = 0; i < nr; i++) {
		struct kv_entry *entry = &entries->entry[handles[i].index];

		KV_BUG_ON(READ_ONCE(entry->word) != kv_word_make(handles[i].gen, KV_ENTRY_PRIVATE,
								 KV_ENTRY_REF));
		if (i + 1 < nr)
			set_next(entries, handles[i].index, handles[i + 1].index);
		/* Pairs with the next taker: make_private() finds it FREE. */
		smp_store_release(&entry->word,
				  kv_word_make(handles[i].gen, KV_ENTRY_FREE, 0));
	}
	push_chain(entries, free_list(entries, false), handles[0].index, handles[nr - 1].index, nr);
}

static bool may_be_freed(u64 word)
{
	return kv_word_is(word, KV_ENTRY_PRIVATE) || kv_word_is(word, KV_ENTRY_STAGED) ||
	       kv_word_is(word, KV_ENTRY_EVICTING);
}

/* An EVICTING word is changed by the thread that has claimed it, and by no other one. */
static __always_inline bool word_swap(struct kv_entry *entry, u64 *old, u64 new)
{
	if (unlikely(!kv_word_is(*old, KV_ENTRY_EVICTING)))
		return kv_cas(&entry->word, old, new);
	smp_store_release(&entry->word, new);
	return true;
}

/* Leave this generation. *@word: the entry's new one: FREE, or RETIRED. */
static __always_inline int end_generation(struct kv_entries *entries, struct kv_handle handle,
					  u64 *word)
{
	struct kv_entry *entry;
	u64 old, new;

	if (handle.index >= entries->nr)
		return -EINVAL;
	entry = &entries->entry[handle.index];
	old = smp_load_acquire(&entry->word);
	do {
		if (kv_word_gen(old) != handle.gen)
			return kv_handle_refuse(entries, kv_word_gen(old), handle.gen);
		if (!may_be_freed(old))
			return -EINVAL;
		new = kv_word_after(entries, old);
	} while (!word_swap(entry, &old, new));
	if (unlikely(kv_word_is(new, KV_ENTRY_RETIRED)))
		kv_fetch_add(&entries->nr_retired, 1);
	*word = new;
	return 0;
}

int kv_entries_free(struct kv_entries *entries, const struct kv_handle *handles, u32 nr)
{
	u32 first = KV_NONE, last = KV_NONE, nr_chain = 0;
	int err = 0;

	for (u32 i = 0; i < nr && likely(!err); i++) {
		u32 index = handles[i].index;
		u64 word = 0;

		err = end_generation(entries, handles[i], &word);
		if (err || unlikely(!kv_word_is(word, KV_ENTRY_FREE)))
			continue;
		if (unlikely(kv_entry_tires(entries, handles[i].gen))) {
			push_chain(entries, free_list(entries, true), index, index, 1);
			continue;
		}
		if (nr_chain++)
			set_next(entries, index, first);
		else
			last = index;
		first = index;
	}
	if (likely(nr_chain))
		push_chain(entries, free_list(entries, false), first, last, nr_chain);
	return err;
}

/* ---- dropping references ---- */

/*
 * Lines that are asked for at once. Swaps overlap with little, so all of a batch has to be under
 * way while it is checked: nanoseconds a block of 1 Mi, 64 and 1024 in a batch, with 16: 19, 15;
 * with 64: 11.6, 9.9; with 128: 11.6, 9.3. Checked from the first to the last, as the handles lie
 * in memory; from the last it would be 14.
 */
#define AHEAD	128u

/* Could it be dropped at this moment? */
static __always_inline int check_drop(const struct kv_entries *entries, struct kv_handle handle,
				      kv_edge drop)
{
	u64 word, new;

	if (unlikely(handle.index >= entries->nr))
		return -EINVAL;
	word = READ_ONCE(entries->entry[handle.index].word);
	if (unlikely(kv_word_gen(word) != handle.gen))
		return kv_handle_refuse(entries, kv_word_gen(word), handle.gen);
	return min(drop(word, &new), 0);
}

static __always_inline int check_drops(const struct kv_entries *entries,
				       const struct kv_handle *refs, u32 nr, kv_edge drop)
{
	int err = 0;
	u32 i;

	for (i = 0; i < min(nr, AHEAD); i++)
		kv_handle_prefetch(entries, refs[i]);
	for (i = 0; i < nr && !err; i++) {
		if (i + AHEAD < nr)
			kv_handle_prefetch(entries, refs[i + AHEAD]);
		err = check_drop(entries, refs[i], drop);
	}
	return err;
}

int kv_entries_check_put(const struct kv_entries *entries, const struct kv_put *put)
{
	return unlikely(put->unpin) ? check_drops(entries, put->refs, put->nr, kv_edge_unpin) :
				      check_drops(entries, put->refs, put->nr, kv_edge_put);
}

u32 kv_entries_take_again(const struct kv_entries *entries, const struct kv_handle *refs, u32 nr,
			  bool unpin, u32 *nr_first)
{
	kv_edge again = unpin ? kv_edge_pin : kv_edge_add_ref;
	u32 nr_taken = 0;

	for (u32 i = 0; i < nr; i++) {
		int ret = kv_handle_step(entries, refs[i], again);

		nr_taken += ret >= 0;
		*nr_first += ret == 1;
	}
	return nr_taken;
}

/* The first @left are still there. Those that were RESET and are EVICTING now are ours. */
static noinline void take_again(const struct kv_entries *entries, struct kv_put *put, u32 left)
{
	u32 nr = put->nr - left;

	for (u32 i = 0; i < put->nr_gone; i++)
		kv_handle_step(entries, put->last[put->nr - 1 - i], kv_edge_undrop);
	put->nr_dropped = nr - kv_entries_take_again(entries, put->refs + left, nr, put->unpin,
						     &put->nr_first);
}

/* Returns how many are left, first of all the one that could not be dropped. */
static __always_inline u32 drop_all(const struct kv_entries *entries, struct kv_put *put,
				    kv_edge drop)
{
	const struct kv_handle *refs = put->refs;
	struct kv_handle *last = put->last, *gone = last + put->nr;
	u32 left = put->nr;

	for (; left > 0; left--) {
		struct kv_handle ref = refs[left - 1];
		int ret = kv_entry_step(&entries->entry[ref.index], ref.gen, drop);

		if (unlikely(ret < 0))
			break;
		if (ret == 1)
			*last++ = ref;
		else if (unlikely(ret == 2))
			*--gone = ref;
	}
	put->nr_last = last - put->last;
	put->nr_gone = put->last + put->nr - gone;
	return left;
}

int kv_entries_put(struct kv_entries *entries, struct kv_put *put)
{
	int err = put->is_checked ? 0 : kv_entries_check_put(entries, put);
	u32 left;

	put->nr_last = put->nr_gone = put->nr_dropped = put->nr_first = 0;
	if (unlikely(err))
		return err;
	left = unlikely(put->unpin) ? drop_all(entries, put, kv_edge_unpin) :
				      drop_all(entries, put, kv_edge_put);
	if (likely(!left)) {
		put->nr_dropped = put->nr;
		return 0;
	}
	take_again(entries, put, left);
	return -EINVAL;
}

/* ---- checks ---- */

void kv_entries_count(const struct kv_entries *entries, u32 nr[KV_NR_ENTRY_STATES])
{
	memset(nr, 0, KV_NR_ENTRY_STATES * sizeof(*nr));
	for (u32 i = 0; i < entries->nr; i++) {
		enum kv_entry_state state = kv_word_state(READ_ONCE(entries->entry[i].word));

		if (state < KV_NR_ENTRY_STATES)
			nr[state]++;
	}
}

/* An entry that is HIDDEN, or RESET without a mover, does not outlive its references. */
static bool registered_is_sound(u32 refs, u32 pins, u64 flags)
{
	if (pins > refs || flags & KV_ENTRY_MARK || (pins && flags & KV_ENTRY_MOVING))
		return false;
	if (flags & KV_ENTRY_HIDDEN && !(flags & KV_ENTRY_RESET))
		return false;
	return refs || flags & KV_ENTRY_MOVING || !(flags & KV_ENTRY_RESET);
}

/* Invariants 1 to 3. */
static bool word_is_sound(u64 word)
{
	u32 refs = kv_word_refs(word), pins = kv_word_pins(word);
	u64 flags = word & KV_ENTRY_FLAGS;

	switch (kv_word_state(word)) {
	case KV_ENTRY_FREE:
	case KV_ENTRY_RETIRED:
	case KV_ENTRY_PARKED:
		return !refs && !pins && !flags;
	case KV_ENTRY_PRIVATE:	/* pins are counted */
		return refs && !(flags & ~KV_ENTRY_MARK);
	case KV_ENTRY_STAGED:
		return refs == 1 && !pins && !(flags & ~KV_ENTRY_MARK);
	case KV_ENTRY_REGISTERED:
		return registered_is_sound(refs, pins, flags);
	case KV_ENTRY_EVICTING:
		return !refs && !pins;
	default:
		return false;
	}
}

static bool gen_is_sound(const struct kv_entries *entries, u64 word)
{
	u32 gen = kv_entries_gen(entries, word);

	if (kv_word_is(word, KV_ENTRY_RETIRED) && gen != entries->gen_last)
		return false;
	return gen && gen_age(entries, gen) <= gen_age(entries, entries->gen_last);
}

/* Length of a free list and @nr; KV_NONE if it has a loop, or something in it is not free. */
static u32 free_list_len(const struct kv_entries *entries, u64 head, u32 nr)
{
	for (u32 index = (u32)head; index != KV_NONE; index = kv_entries_next(entries, index))
		if (index >= entries->nr || nr++ >= entries->nr ||
		    !kv_word_is(entries->entry[index].word, KV_ENTRY_FREE))
			return KV_NONE;
	return nr;
}

int kv_entries_check(const struct kv_entries *entries)
{
	u32 nr[KV_NR_ENTRY_STATES], nr_listed;
	u64 nr_written = 0, nr_shares = 0;

	for (u32 i = 0; i < entries->nr; i++) {
		const struct kv_entry *entry = &entries->entry[i];
		bool is_private = kv_word_is(entry->word, KV_ENTRY_PRIVATE);

		nr_written += is_private ? kv_word_pins(entry->word) : 0;
		nr_shares += is_private ? kv_word_refs(entry->word) - 1 : 0;
		if (!word_is_sound(entry->word) || !gen_is_sound(entries, entry->word) ||
		    (!kv_word_is(entry->word, KV_ENTRY_FREE) && entry->link >= entries->nr_all &&
		     entry->link < KV_LET_GO) ||
		    (entry->parent != KV_NONE && kv_link_index(entry->parent) >= entries->nr))
			return -EUCLEAN;
	}
	kv_entries_count(entries, nr);
	nr_listed = free_list_len(entries, entries->free[0], 0);
	nr_listed = free_list_len(entries, entries->free[1], nr_listed);
	if (entries->turn > 1 || nr_listed != nr[KV_ENTRY_FREE] ||
	    entries->nr_free != nr[KV_ENTRY_FREE] ||
	    entries->nr_retired != nr[KV_ENTRY_RETIRED] || entries->nr_written != nr_written ||
	    entries->nr_shares != nr_shares)
		return -EUCLEAN;
	return kv_names_check(entries);
}
