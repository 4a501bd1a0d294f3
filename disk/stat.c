// SPDX-License-Identifier: Apache-2.0
/* A store in numbers. */
#include <string.h>

#include "internal.h"

static u32 nr_used(const struct kvmm_disk *disk)
{
	u32 nr = 0;

	for (u32 i = 0; i < disk->shape.nr_segments; i++)
		nr += kv_peek(&disk->seg[i].state) > SEG_FREE;
	return nr;
}

static void fill_index(const struct disk_index *index, struct kvmm_disk_stat *stat)
{
	stat->nr_records = index->nr_live;
	stat->nr_pending = index->nr - index->nr_live;
	stat->record_bytes = index->live_bytes;
	stat->index_bytes = (u64)index->nr_slots * sizeof(*index->entry) +
			    disk_names_bytes(index);
}

static void fill_state(const struct kvmm_disk *disk, struct kvmm_disk_stat *stat)
{
	stat->max_bytes = disk->max_bytes;
	stat->file_bytes = disk->file_bytes;
	stat->max_record_bytes = disk_max_record(&disk->shape);
	stat->segment_bytes = disk->shape.segment_bytes;
	stat->nr_segments = disk->shape.nr_segments;
	stat->nr_used = nr_used(disk);
	fill_index(&disk->index, stat);
	stat->read_only = disk->read_only;
	stat->has_ring = disk->queue != NULL;
	stat->is_direct = disk->is_direct;
}

static void fill_counts(const struct disk_counts *count, struct kvmm_disk_stat *stat)
{
	stat->nr_put = count->nr_put;
	stat->put_bytes = count->put_bytes;
	stat->nr_got = count->nr_got;
	stat->got_bytes = count->got_bytes;
	stat->nr_missed = count->nr_missed;
	stat->nr_overtaken = count->nr_overtaken;
	stat->nr_damaged = count->nr_damaged;
	stat->nr_foreign = count->nr_foreign;
	stat->nr_found = count->nr_found;
	stat->nr_scanned = count->nr_scanned;
	stat->nr_reclaimed = count->nr_reclaimed;
	stat->nr_dropped = count->nr_dropped;
	stat->nr_reinserted = count->nr_reinserted;
	stat->nr_copied = count->nr_copied;
	stat->nr_buffered = count->nr_buffered;
	stat->nr_read_errors = count->nr_read_errors;
	stat->nr_write_errors = count->nr_write_errors;
	stat->nr_sync_errors = count->nr_sync_errors;
	stat->nr_no_room = count->nr_no_room;
	stat->nr_unsealed = count->nr_unsealed;
	stat->open_ns = count->open_ns;
	stat->hit_age = count->hit_age;
	stat->evict_age = count->evict_age;
}

/* Places of all this are fixed: ->seg and ->index are changed where they lie. */
void kv_disk_glance(const struct kvmm_disk *disk, struct kvmm_disk_stat *stat)
{
	struct disk_counts count;
	struct disk_index index;
	bool read_only;

	kv_peek_copy(&count, &disk->count, sizeof(count));
	kv_peek_copy(&index, &disk->index, sizeof(index));
	kv_peek_copy(&read_only, &disk->read_only, sizeof(read_only));
	*stat = (struct kvmm_disk_stat){
		.size = sizeof(*stat), .max_bytes = disk->max_bytes,
		.file_bytes = kv_peek(&disk->file_bytes),
		.max_record_bytes = disk_max_record(&disk->shape),
		.segment_bytes = disk->shape.segment_bytes,
		.nr_segments = disk->shape.nr_segments, .nr_used = nr_used(disk),
		.read_only = read_only, .has_ring = disk->queue != NULL,
		.is_direct = disk->is_direct,
	};
	fill_index(&index, stat);
	fill_counts(&count, stat);
}

int kvmm_disk_stat(struct kvmm_disk *disk, struct kvmm_disk_stat *stat)
{
	struct kvmm_disk_stat all = { 0 };

	if (kv_inherited(disk))
		return -ECHILD;
	if (!disk || !stat || stat->size < sizeof(stat->size))
		return -EINVAL;
	kv_lock(&disk->lock);
	fill_state(disk, &all);
	fill_counts(&disk->count, &all);
	kv_unlock(&disk->lock);
	all.size = stat->size;
	memcpy(stat, &all, min(stat->size, sizeof(all)));
	return 0;
}
