// SPDX-License-Identifier: Apache-2.0
/*
 * Records that can be hit, listed by segment. Names are on disk only: of a segment that is not
 * sealed in its table, of others in the footer. Those not in the index's place are left out.
 */
#include <kv/mem.h>

#include "internal.h"

static bool can_be_hit(struct kvmm_disk *disk, u32 segment, const struct kv_disk_record *record)
{
	struct disk_rec rec = {
		.fp = disk_fp_of(&disk->index, &record->name), .segment = segment,
		.page = record->page, .seq = record->seq,
	};
	const struct disk_entry *entry = disk_entry_of(disk, &rec);

	kv_assert_held(&disk->lock);
	return entry && entry->state == DISK_LIVE;
}

/* Of a segment with a table. */
static u32 list_table(struct kvmm_disk *disk, struct kv_disk_cursor *cursor,
		      struct kvmm_disk_entry *entries, u32 max)
{
	const struct disk_seg *seg = &disk->seg[cursor->segment];
	u32 nr = 0;

	kv_assert_held(&disk->lock);
	while (nr < max && cursor->record < seg->nr_records) {
		const struct kv_disk_record *record = &seg->table[cursor->record++];

		if (record->bytes && can_be_hit(disk, cursor->segment, record))
			disk_entry_of_record(record, cursor->segment, &entries[nr++]);
	}
	return nr;
}

static u32 list_scan(struct kvmm_disk *disk, struct disk_scan *scan, struct kv_disk_cursor *cursor,
		     struct kvmm_disk_entry *entries, u32 max)
{
	struct kv_disk_record record;
	u32 nr = 0, at = 0;
	bool hit;

	if (disk_scan_begin(scan, cursor->segment) || scan->seq != cursor->seq)
		return 0;
	while (nr < max && disk_scan_next(scan, &record)) {
		if (at++ < cursor->record)
			continue;
		cursor->record++;
		kv_lock(&disk->lock);
		hit = can_be_hit(disk, cursor->segment, &record);
		kv_unlock(&disk->lock);
		if (hit)
			disk_entry_of_record(&record, cursor->segment, &entries[nr++]);
	}
	return nr;
}

/* Some of the segment at @cursor. A table that has become a footer has no holes: from the start. */
static u32 list_some(struct kvmm_disk *disk, struct disk_scan *scan, struct kv_disk_cursor *cursor,
		     struct kvmm_disk_entry *entries, u32 max)
{
	const struct disk_seg *seg;
	bool has_table, has_entries;
	u32 nr = 0;

	kv_lock(&disk->lock);
	seg = &disk->seg[cursor->segment];
	has_entries = seg->nr_entries;
	has_table = seg->table;
	if (!cursor->seq)
		cursor->seq = seg->seq;
	if (has_entries && has_table && cursor->seq == seg->seq)
		nr = list_table(disk, cursor, entries, max);
	kv_unlock(&disk->lock);
	if (has_entries && !has_table)
		nr = list_scan(disk, scan, cursor, entries, max);
	return nr;
}

int kv_disk_list(struct kvmm_disk *disk, struct kv_disk_cursor *cursor,
		   struct kvmm_disk_entry *entries, uint32_t max)
{
	struct disk_scan scan;
	u32 nr = 0;

	if (!disk || !cursor || !entries || !max || max > INT32_MAX)
		return -EINVAL;
	if (kv_inherited(disk))
		return -ECHILD;
	if (disk_scan_init(&scan, disk->ops, disk->file, &disk->shape))
		return -ENOMEM;
	while (nr < max && cursor->segment < disk->shape.nr_segments) {
		nr += list_some(disk, &scan, cursor, entries + nr, max - nr);
		if (nr == max)
			break;
		*cursor = (struct kv_disk_cursor){ .segment = cursor->segment + 1 };
	}
	disk_scan_exit(&scan);
	return nr;
}
