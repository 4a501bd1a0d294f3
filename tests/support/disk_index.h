/* SPDX-License-Identifier: Apache-2.0 */
/* What the index of a disk store has, for tests that were told something of it. */
#ifndef TESTS_SUPPORT_DISK_INDEX_H
#define TESTS_SUPPORT_DISK_INDEX_H

#include "disk/internal.h"

/* Where the record of that name is that a read would have: segment, offset, seq; false: none is. */
static inline bool disk_index_place(struct kvmm_disk *disk, const struct kvmm_disk_name *name,
				    struct kvmm_disk_entry *place)
{
	const struct disk_entry *entry;
	bool is_live;

	kv_lock(&disk->lock);
	entry = disk_index_find(&disk->index, disk_fp_of(&disk->index, name));
	is_live = entry && entry->state == DISK_LIVE;
	if (is_live)
		*place = (struct kvmm_disk_entry){ .segment = entry->segment,
						   .offset = entry->page * KV_DISK_PAGE,
						   .seq = disk->seg[entry->segment].seq };
	kv_unlock(&disk->lock);
	return is_live;
}

/* Records that can be hit, one by one: how many, and their bytes. */
static inline u64 disk_index_count(struct kvmm_disk *disk, u64 *bytes)
{
	u64 nr = 0;

	*bytes = 0;
	kv_lock(&disk->lock);
	for (u32 i = 0; i < disk->index.nr_slots; i++) {
		const struct disk_entry *entry = &disk->index.entry[i];

		if (entry->state != DISK_LIVE)
			continue;
		nr++;
		*bytes += disk_entry_bytes(&disk->index, entry);
	}
	kv_unlock(&disk->lock);
	return nr;
}

#endif /* TESTS_SUPPORT_DISK_INDEX_H */
