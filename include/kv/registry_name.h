/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Added names: names of registered blocks besides the one in their entry.
 *
 * Each is an entry of the same table, behind those of blocks, in the state NAME. A map has it in
 * its buckets and lists of duplicates like any other; what it finds there is the block to which
 * that entry leads:
 *
 *	->link, ->vtime: the entry of the block, and its generation
 *	->chain: the next younger name of the block, or 0
 *	->parent: the next older one; of the oldest: the youngest
 *
 * But for ->chain and ->parent these do not change from kv_name_take() to kv_name_put(), nor does
 * the name. A reader reads the word, then the rest, then looks whether the word still is of that
 * generation and state: then all of it is of one name, which the block had at that moment.
 *
 * Writers exclude each other, by the pool's lock; so the word changes by one thread at a time.
 */
#ifndef KV_REGISTRY_NAME_H
#define KV_REGISTRY_NAME_H

#include <kv/entry.h>

/* One more name of @block, its youngest; it is in no map yet, and MARKed. KV_NONE: no room. */
u32 kv_name_take(struct kv_entries *entries, struct kv_handle block, const struct kv_name *name);
/* It is the block's no more, and in no map. */
void kv_name_put(struct kv_entries *entries, u32 index);

/* The block's oldest added name, or 0; ->chain has the next. By writers. */
static inline u32 kv_name_first(const struct kv_entries *entries, u32 block)
{
	return likely(!READ_ONCE(entries->nr_names)) ? 0 : READ_ONCE(entries->name[block]);
}

static inline bool kv_name_is_added(const struct kv_entries *entries, u32 index)
{
	return unlikely(index >= entries->nr);
}

/* The block that has name @index. */
static inline struct kv_handle kv_name_block(const struct kv_entries *entries, u32 index)
{
	const struct kv_entry *entry = &entries->entry[index];

	if (kv_name_is_added(entries, index))
		return (struct kv_handle){ READ_ONCE(entry->link), READ_ONCE(entry->vtime) };
	return kv_handle_of(index, smp_load_acquire(&entry->word));
}

/* No map has it: the name is being written, or is not there yet. */
static inline bool kv_name_is_out(const struct kv_entries *entries, u32 index)
{
	return READ_ONCE(entries->entry[index].dup_prev) == KV_NONE;
}

/* In use: those of blocks, and those of names that were ever added; with these ->name, too. */
static inline u64 kv_entries_bytes(const struct kv_entries *entries)
{
	u64 nr_blocks = entries->top_name > entries->nr ? entries->nr : 0;

	return entries->top_name * sizeof(struct kv_entry) + nr_blocks * sizeof(*entries->name);
}

/* As kv_entries_check(), which calls it. */
int kv_names_check(const struct kv_entries *entries);

#endif /* KV_REGISTRY_NAME_H */
