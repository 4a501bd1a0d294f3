// SPDX-License-Identifier: Apache-2.0
/* A store in numbers. */
#include <string.h>

#include "internal.h"

/*
 * Places of all this are fixed: ->seg and ->index are changed where they lie. Each number is of its
 * own moment, unless the caller has the lock.
 */
void kv_disk_glance(const struct kvmm_disk *disk, struct kvmm_disk_stat *stat)
{
	struct disk_index index;

	kv_peek_copy(stat, &disk->count, sizeof(*stat));
	kv_peek_copy(&index, &disk->index, sizeof(index));
	stat->size = sizeof(*stat);
	stat->max_bytes = disk->max_bytes;
	stat->file_bytes = kv_peek(&disk->file_bytes);
	stat->max_record_bytes = disk_max_record(&disk->shape);
	stat->segment_bytes = disk->shape.segment_bytes;
	stat->nr_segments = disk->shape.nr_segments;
	stat->nr_records = index.nr_live;
	stat->nr_pending = index.nr - index.nr_live;
	stat->record_bytes = index.live_bytes;
	stat->index_bytes = (u64)index.nr_slots * sizeof(*index.entry) + disk_names_bytes(&index);
	stat->read_only = kv_peek(&disk->read_only);
	stat->has_ring = disk->queue != NULL;
	stat->is_direct = disk->is_direct;
	for (u32 i = 0; i < disk->shape.nr_segments; i++)
		stat->nr_used += kv_peek(&disk->seg[i].state) > SEG_FREE;
}

int kvmm_disk_get_stat(struct kvmm_disk *disk, struct kvmm_disk_stat *stat)
{
	struct kvmm_disk_stat all;

	if (kv_inherited(disk))
		return -ECHILD;
	if (!disk || kv_sized_is_bad(stat))
		return -EINVAL;
	kv_lock(&disk->lock);
	kv_disk_glance(disk, &all);
	kv_unlock(&disk->lock);
	kv_give_sized(stat, &all, sizeof(all));
	return 0;
}
