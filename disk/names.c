// SPDX-License-Identifier: Apache-2.0
/*
 * Names as they were given, beside the fingerprints, and the listeners that are told of them.
 *
 * The index alone does not know the name of a record. With KVMM_DISK_NAMES it does, for 32 bytes
 * a slot, and says so when a record becomes readable, and when it can be found no more: under the
 * store's lock, by which that was decided, so news of one name are in order. Walks go by the
 * fingerprint, which has the same order as the slots but does not move when others do.
 */
#include <string.h>

#include <kv/mem.h>
#include <kv/registry_feed.h>
#include <kv/tier.h>
#include <kvmm/event.h>

#include "internal.h"

#define LOOK_ENTRIES	64u

/* One that no tier has put is not known. */
struct disk_known {
	u64 key[2];
	u32 tenant;
	u32 position;
	u32 is_known;
};

static_assert(sizeof(struct disk_known) == 32, "as it is documented");

int disk_names_init(struct disk_index *index)
{
	index->known = kv_alloc_array(index->nr_slots, sizeof(*index->known));
	return index->known ? 0 : -ENOMEM;
}

struct disk_known *disk_names_resized(const struct disk_index *index, u32 nr_slots)
{
	return index->known ? kv_alloc_array(nr_slots, sizeof(*index->known)) : NULL;
}

void disk_name_move(struct disk_known *to, u32 to_slot, const struct disk_known *from,
		    u32 from_slot)
{
	if (to)
		to[to_slot] = from[from_slot];
}

u64 disk_names_bytes(const struct disk_index *index)
{
	return index->known ? (u64)index->nr_slots * sizeof(*index->known) : 0;
}

static struct disk_known *known_of(const struct disk_index *index, const struct disk_entry *entry)
{
	kv_assert(entry >= index->entry && entry < index->entry + index->nr_slots);
	return &index->known[entry - index->entry];
}

void __disk_entry_name(struct kvmm_disk *disk, struct disk_fp fp, const struct kvmm_disk_name *name,
		 u64 position)
{
	const struct disk_entry *entry = disk_index_find(&disk->index, fp);
	struct disk_known *known = known_of(&disk->index, entry);

	*known = (struct disk_known){ .tenant = name->tenant, .position = position,
				      .is_known = name->key_bytes == KVMM_KEY_BYTES &&
						  !name->generation && position <= UINT32_MAX };
	memcpy(known->key, name->key, sizeof(known->key));
}

bool disk_names_are_sound(const struct disk_index *index)
{
	for (u32 i = 0; index->known && i < index->nr_slots; i++) {
		const struct disk_entry *entry = &index->entry[i];
		const struct disk_class *class = &index->class[entry->class];
		struct kvmm_disk_name name = { .tenant = index->known[i].tenant,
					       .group = class->group,
					       .key_bytes = KVMM_KEY_BYTES };

		if (!entry->state || !index->known[i].is_known)
			continue;
		memcpy(name.layout, class->layout, sizeof(name.layout));
		memcpy(name.key, index->known[i].key, KVMM_KEY_BYTES);
		if (!disk_same_fp(disk_fp_of(index, &name), entry->fp))
			return false;
	}
	return true;
}

/* ---- telling ---- */

/* As below.c packs it: the fingerprint of all that gives bytes a meaning, and the domain's. */
static u64 layout_of(const struct disk_class *class)
{
	u64 layout;

	memcpy(&layout, class->layout, sizeof(layout));
	return layout;
}

static kvmm_domain_t domain_of(const struct disk_class *class, const struct disk_known *known)
{
	u64 layout;

	memcpy(&layout, class->layout + sizeof(layout), sizeof(layout));
	return (kvmm_domain_t){ known->tenant, layout, class->group };
}

static void tell_one(struct kv_feed *feed, u32 kind, const struct disk_class *class,
		     const struct disk_known *known)
{
	struct kv_feed_name name = { .key = { known->key[0], known->key[1] },
				     .domain = kv_domain_word(domain_of(class, known)),
				     .position = known->position };

	kv_feed_name(feed, kind, KVMM_MEDIUM_DISK, &name);
}

/* ->lock held; @entry is LIVE, or was until now. */
void __disk_tell(struct kvmm_disk *disk, const struct disk_entry *entry, u32 kind)
{
	const struct disk_class *class = &disk->index.class[entry->class];
	const struct disk_known *known = known_of(&disk->index, entry);

	for (u32 i = 0; known->is_known && i < ARRAY_SIZE(disk->listener); i++) {
		struct kv_feed *feed = kv_feed_of(&disk->listener[i].feed);

		if (feed && disk->listener[i].layout == layout_of(class))
			tell_one(feed, kind, class, known);
	}
}

/* A listener comes or goes: for it all of them appear or disappear. */
void kv_disk_listen(void *store, u32 number, u64 layout, struct kv_feed *feed)
{
	struct kvmm_disk *disk = store;
	const struct disk_index *index = &disk->index;
	u32 kind = feed ? KVMM_EVENT_STORED : KVMM_EVENT_REMOVED;
	struct disk_listener *listener = &disk->listener[number % ARRAY_SIZE(disk->listener)];
	struct kv_feed *changed;

	if (!index->known)
		return;
	kv_lock(&disk->lock);
	changed = kv_feed_of(feed ? &feed : &listener->feed);
	for (u32 i = 0; changed && listener->feed != feed && i < index->nr_slots; i++) {
		const struct disk_class *class = &index->class[index->entry[i].class];

		if (index->entry[i].state == DISK_LIVE && index->known[i].is_known &&
		    layout_of(class) == layout)
			tell_one(changed, kind, class, &index->known[i]);
	}
	*listener = (struct disk_listener){ feed, layout };
	kv_unlock(&disk->lock);
}

/* ---- walking ---- */

static u32 home_of(const struct disk_index *index, u64 word)
{
	return (word >> 32) * index->nr_slots >> 32;
}

/*
 * The entry with the lowest fingerprint from @from on. Behind a slot that is empty stand only those
 * with higher ones, so the first gap ends it; but those that found no room at the end of the table
 * stand at its beginning, and count as behind the end. Two with the same first word would be taken
 * for one: that has a chance of 2^-64 for each pair.
 */
static const struct disk_entry *next_entry(const struct disk_index *index, u64 from)
{
	const struct disk_entry *best = NULL;
	u32 slot = home_of(index, from);
	bool wrapped = false;

	for (u32 i = 0; i < index->nr_slots; i++, slot++) {
		const struct disk_entry *entry;

		if (slot == index->nr_slots) {
			slot = 0;
			wrapped = true;
		}
		entry = &index->entry[slot];
		if (!entry->state) {
			if (best || wrapped)
				break;
			continue;
		}
		if ((home_of(index, entry->fp.word[0]) > slot) == wrapped &&
		    entry->fp.word[0] >= from && (!best || entry->fp.word[0] < best->fp.word[0]))
			best = entry;
	}
	return best;
}

bool kv_disk_next_name(void *store, u64 layout, u64 *cursor, struct kv_tier_name *name)
{
	struct kvmm_disk *disk = store;
	const struct disk_index *index = &disk->index;
	const struct disk_entry *entry = NULL;
	bool found = false;

	/* Not all of them under one hold of the lock, if all are others'. */
	while (!found && *cursor != UINT64_MAX) {
		kv_lock(&disk->lock);
		for (u32 i = 0; i < LOOK_ENTRIES && !found && *cursor != UINT64_MAX; i++) {
			entry = index->known ? next_entry(index, *cursor) : NULL;
			*cursor = entry ? entry->fp.word[0] + (entry->fp.word[0] != UINT64_MAX) :
					  UINT64_MAX;
			found = entry && entry->state == DISK_LIVE &&
				known_of(index, entry)->is_known &&
				layout_of(&index->class[entry->class]) == layout;
		}
		if (found) {
			const struct disk_class *class = &index->class[entry->class];
			const struct disk_known *known = known_of(index, entry);

			*name = (struct kv_tier_name){ .domain = domain_of(class, known),
						       .layout = layout_of(class),
						       .position = known->position };
			memcpy(&name->key, known->key, sizeof(name->key));
		}
		kv_unlock(&disk->lock);
	}
	return found;
}
