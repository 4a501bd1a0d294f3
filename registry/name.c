// SPDX-License-Identifier: Apache-2.0
/* Added names: see kv/registry_name.h. */
#include <kv/err.h>
#include <kv/registry_name.h>

static struct kv_entry *entry_at(const struct kv_entries *entries, u32 index)
{
	return &entries->entry[index];
}

u32 kv_name_take(struct kv_entries *entries, struct kv_handle block, const struct kv_name *name)
{
	u32 index = entries->free_name, *at = &entries->name[block.index];
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
	while (*at)
		at = &entry_at(entries, *at)->chain;
	WRITE_ONCE(*at, index);
	WRITE_ONCE(entries->nr_names, entries->nr_names + 1);
	/* Pairs with readers' load of the word: what is written above is seen with it. */
	smp_store_release(&entry->word, kv_word_make(kv_word_gen(entry->word), KV_ENTRY_NAME,
						     KV_ENTRY_MARK));
	return index;
}

void kv_name_put(struct kv_entries *entries, u32 index)
{
	struct kv_entry *entry = entry_at(entries, index);
	u32 *at = &entries->name[entry->link];
	u64 old = entry->word;

	kv_assert(kv_word_is(old, KV_ENTRY_NAME) && kv_name_is_out(entries, index));
	while (*at && *at != index)
		at = &entry_at(entries, *at)->chain;
	if (KV_BUG_ON(!*at))
		return;
	WRITE_ONCE(*at, entry->chain);
	/* Pairs with the reader's second look, kv_is_still(): this changes before the rest does. */
	KV_BUG_ON(!kv_cas(&entry->word, &old,
			  kv_word_make((kv_word_gen(old) + 1) & KV_ENTRY_GEN_MASK,
				       KV_ENTRY_FREE, 0)));
	WRITE_ONCE(entry->chain, entries->free_name);
	entries->free_name = index;
	WRITE_ONCE(entries->nr_names, entries->nr_names - 1);
}

u32 kv_name_of(const struct kv_entries *entries, u32 block, const u64 key[2], u64 domain)
{
	u32 index = kv_name_first(entries, block);

	if (kv_entry_has_name(entry_at(entries, block), key, domain))
		return block;
	while (index && !kv_entry_has_name(entry_at(entries, index), key, domain))
		index = entry_at(entries, index)->chain;
	return index ? index : KV_NONE;
}

/* ---- check ---- */

/* It leads to the block that has it, and to no other one of that name. */
static bool name_is_sound(const struct kv_entries *entries, u32 block, u32 index)
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
	       kv_name_of(entries, block, entry->key, entry->domain) == index;
}

int kv_names_check(const struct kv_entries *entries)
{
	u32 nr = 0, nr_free = 0;

	for (u32 i = 0; i < entries->nr; i++)
		for (u32 index = entries->name[i]; index; index = entry_at(entries, index)->chain)
			if (nr++ == entries->nr_names || !name_is_sound(entries, i, index))
				return -EUCLEAN;
	for (u32 index = entries->free_name; index; index = entry_at(entries, index)->chain)
		if (index < entries->nr || index >= entries->top_name ||
		    nr_free++ == entries->top_name ||
		    !kv_word_is(entry_at(entries, index)->word, KV_ENTRY_FREE))
			return -EUCLEAN;
	return nr != entries->nr_names || nr + nr_free != entries->top_name - entries->nr ?
	       -EUCLEAN : 0;
}
