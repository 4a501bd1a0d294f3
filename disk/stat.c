// SPDX-License-Identifier: Apache-2.0
/* A store in numbers. */
#include <string.h>

#include "internal.h"

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

/*
 * Places of all this are fixed: ->seg and ->index are changed where they lie. Each number is of its
 * own moment, unless the caller has the lock.
 */
void kv_disk_glance(const struct kvmm_disk *disk, struct kvmm_disk_stat *stat)
{
	struct disk_counts count;
	struct disk_index index;

	kv_peek_copy(&count, &disk->count, sizeof(count));
	kv_peek_copy(&index, &disk->index, sizeof(index));
	*stat = (struct kvmm_disk_stat){
		.size = sizeof(*stat), .max_bytes = disk->max_bytes,
		.file_bytes = kv_peek(&disk->file_bytes),
		.max_record_bytes = disk_max_record(&disk->shape),
		.segment_bytes = disk->shape.segment_bytes,
		.nr_segments = disk->shape.nr_segments,
		.nr_records = index.nr_live, .nr_pending = index.nr - index.nr_live,
		.record_bytes = index.live_bytes,
		.index_bytes = (u64)index.nr_slots * sizeof(*index.entry) +
			       disk_names_bytes(&index),
		.read_only = kv_peek(&disk->read_only), .has_ring = disk->queue != NULL,
		.is_direct = disk->is_direct,
	};
	for (u32 i = 0; i < disk->shape.nr_segments; i++)
		stat->nr_used += kv_peek(&disk->seg[i].state) > SEG_FREE;
	fill_counts(&count, stat);
}

int kvmm_disk_get_stat(struct kvmm_disk *disk, struct kvmm_disk_stat *stat)
{
	struct kvmm_disk_stat all;

	if (kv_inherited(disk))
		return -ECHILD;
	if (!disk || !stat || stat->size < sizeof(stat->size))
		return -EINVAL;
	kv_lock(&disk->lock);
	kv_disk_glance(disk, &all);
	kv_unlock(&disk->lock);
	all.size = stat->size;
	memcpy(stat, &all, min(stat->size, sizeof(all)));
	return 0;
}
