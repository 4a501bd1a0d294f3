// SPDX-License-Identifier: Apache-2.0
/* Added names: see kv/registry_name.h. */
#include <kv/err.h>
#include <kv/mem.h>
#include <kv/registry_name.h>
#include <kv/sort.h>

static struct kv_entry *entry_at(const struct kv_entries *entries, u32 index)
{
	return &entries->entry[index];
}

/* As the youngest of its block. */
static void append(struct kv_entries *entries, u32 *first, u32 index)
{
	u32 youngest = *first ? entry_at(entries, *first)->parent : index;

	if (*first)
		WRITE_ONCE(entry_at(entries, youngest)->chain, index);
	else
		WRITE_ONCE(*first, index);
	WRITE_ONCE(entry_at(entries, index)->parent, youngest);
	WRITE_ONCE(entry_at(entries, *first)->parent, index);
}

u32 kv_name_take(struct kv_entries *entries, struct kv_handle block, const struct kv_name *name)
{
	u32 index = entries->free_name;
	struct kv_entry *entry;
	u64 key[2];

	kv_assert(block.index < entries->nr);
	if (!index && entries->top_name == entries->nr_all)
		return KV_NONE;
	entry = entry_at(entries, index ? index : entries->top_name);
	if (index)
		entries->free_name = entry->chain;
	else
		index = entries->top_name++;
	kv_key_words(&name->key, key);
	WRITE_ONCE(entry->key[0], key[0]);
	WRITE_ONCE(entry->key[1], key[1]);
	WRITE_ONCE(entry->domain, kv_domain_word(name->domain));
	WRITE_ONCE(entry->position, name->position);
	WRITE_ONCE(entry->link, block.index);
	WRITE_ONCE(entry->vtime, block.gen);
	WRITE_ONCE(entry->dup_next, KV_NONE);
	WRITE_ONCE(entry->dup_prev, KV_NONE);
	WRITE_ONCE(entry->chain, 0);
	append(entries, &entries->name[block.index], index);
	WRITE_ONCE(entries->nr_names, entries->nr_names + 1);
	/* Pairs with readers' load of the word: what is written above is seen with it. */
	smp_store_release(&entry->word, kv_word_make(kv_word_gen(entry->word), KV_ENTRY_NAME,
						     KV_ENTRY_MARK));
	return index;
}

void kv_name_put(struct kv_entries *entries, u32 index)
{
	struct kv_entry *entry = entry_at(entries, index);
	u32 *first = &entries->name[entry->link];
	u64 old = entry->word;

	kv_assert(kv_word_is(old, KV_ENTRY_NAME) && kv_name_is_out(entries, index));
	if (KV_BUG_ON(!*first))
		return;
	WRITE_ONCE(*(*first == index ? first : &entry_at(entries, entry->parent)->chain),
		   entry->chain);
	/* Of the youngest one: the oldest knows which that is. */
	if (*first)
		WRITE_ONCE(entry_at(entries, entry->chain ? entry->chain : *first)->parent,
			   entry->parent);
	/* Pairs with the reader's second look, kv_is_still(): this changes before the rest does. */
	KV_BUG_ON(!kv_cas(&entry->word, &old,
			  kv_word_make((kv_word_gen(old) + 1) & KV_ENTRY_GEN_MASK,
				       KV_ENTRY_FREE, 0)));
	WRITE_ONCE(entry->chain, entries->free_name);
	entries->free_name = index;
	WRITE_ONCE(entries->nr_names, entries->nr_names - 1);
}

/* ---- check ---- */

/* It leads to the block that has it. */
static bool name_is_sound(const struct kv_entries *entries, u32 block, u32 index, u32 older)
{
	const struct kv_entry *entry, *of = entry_at(entries, block);

	if (index < entries->nr || index >= entries->top_name)
		return false;
	entry = entry_at(entries, index);
	return kv_word_is(entry->word, KV_ENTRY_NAME) && !(entry->word & KV_ENTRY_MARK) &&
	       !((entry->word ^ of->word) & KV_ENTRY_HIDDEN) && entry->link == block &&
	       entry->vtime == kv_word_gen(of->word) && !kv_name_is_out(entries, index) &&
	       (kv_word_is(of->word, KV_ENTRY_REGISTERED) ||
		kv_word_is(of->word, KV_ENTRY_EVICTING)) &&
	       (older == KV_NONE || entry->parent == older) &&
	       !kv_entry_has_name(of, entry->key, entry->domain);
}

static bool is_later(const u32 *a, const u32 *b, const struct kv_entries *entries)
{
	const struct kv_entry *one = entry_at(entries, *a), *other = entry_at(entries, *b);

	return one->key[0] != other->key[0] ? one->key[0] > other->key[0] :
	       one->key[1] != other->key[1] ? one->key[1] > other->key[1] :
					      one->domain > other->domain;
}

/* Has a block one of these names twice? Without memory they are not looked at. */
static bool has_twice(const struct kv_entries *entries, u32 first, u32 nr)
{
	u32 *names = nr > 1 ? kv_alloc_array(nr, sizeof(*names)) : NULL;
	bool twice = false;

	if (!names)
		return false;
	for (u32 i = 0; i < nr; i++, first = entry_at(entries, first)->chain)
		names[i] = first;
	kv_sort(names, nr, is_later, entries);
	for (u32 i = 1; i < nr; i++)
		twice |= !is_later(&names[i], &names[i - 1], entries);
	kv_free(names);
	return twice;
}

/* Those of a block: how many, or KV_NONE: something is wrong. */
static u32 check_names_of(const struct kv_entries *entries, u32 block)
{
	u32 first = entries->name[block], nr = 0, older = KV_NONE;

	for (u32 index = first; index; index = entry_at(entries, index)->chain) {
		if (nr++ == entries->nr_names || !name_is_sound(entries, block, index, older))
			return KV_NONE;
		older = index;
	}
	if (nr && (entry_at(entries, first)->parent != older || has_twice(entries, first, nr)))
		return KV_NONE;
	return nr;
}

int kv_names_check(const struct kv_entries *entries)
{
	u32 nr = 0, nr_free = 0;

	for (u32 i = 0; i < entries->nr; i++) {
		u32 nr_of = check_names_of(entries, i);

		if (nr_of == KV_NONE)
			return -EUCLEAN;
		nr += nr_of;
	}
	for (u32 index = entries->free_name; index; index = entry_at(entries, index)->chain)
		if (index < entries->nr || index >= entries->top_name ||
		    nr_free++ == entries->top_name ||
		    !kv_word_is(entry_at(entries, index)->word, KV_ENTRY_FREE))
			return -EUCLEAN;
	return nr != entries->nr_names || nr + nr_free != entries->top_name - entries->nr ?
	       -EUCLEAN : 0;
}
