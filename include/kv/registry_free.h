/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries that are free, and those that were never taken.
 *
 * A table is made of zeroes, in pages that the system gives when they are touched, and nothing is
 * written before an entry is taken. So one of all zeroes is FREE, in the first generation of the
 * table, and in the free list before the next one there is.
 */
#ifndef KV_REGISTRY_FREE_H
#define KV_REGISTRY_FREE_H

#include <kv/entry.h>

/* Never taken. */
static inline bool kv_entry_is_new(const struct kv_entry *entry)
{
	return !READ_ONCE(entry->word);
}

/* The generation of a word of this table. */
static inline u32 kv_entries_gen(const struct kv_entries *entries, u64 word)
{
	return word ? kv_word_gen(word) : entries->gen_first;
}

/* In a free list, behind @index; KV_NONE is the end. */
static inline u32 kv_entries_next(const struct kv_entries *entries, u32 index)
{
	u32 next = READ_ONCE(entries->entry[index].link) ^ (index + 1);

	return unlikely(next == entries->nr) ? KV_NONE : next;
}

#endif /* KV_REGISTRY_FREE_H */
