// SPDX-License-Identifier: Apache-2.0
/*
 * The structures on disk, made and checked. One is good only if it is whole, of this version, of
 * this store, and where it says that it is: remains of before are none of these.
 */
#include <string.h>

#include "internal.h"

u64 disk_offset(const struct disk_shape *shape, u32 segment, u32 page)
{
	return shape->front_bytes + (u64)segment * shape->segment_bytes + (u64)page * KV_DISK_PAGE;
}

u64 disk_front_bytes(u32 mark_pages)
{
	return KV_DISK_SUPER_BYTES + (u64)KV_DISK_NR_COPIES * mark_pages * KV_DISK_PAGE;
}

/* Of any version; the bytes after the version are that version's. */
bool disk_super_is_good(const struct kv_disk_super *super)
{
	if (super->magic != KV_DISK_SUPER_MAGIC || !kv_disk_is_sealed(super))
		return false;
	if (super->version != KV_DISK_VERSION)
		return true;
	return super->page_bytes == KV_DISK_PAGE && disk_is_segment_size(super->segment_bytes) &&
	       super->nr_segments >= 2 && super->nr_segments <= DISK_MAX_SEGMENTS &&
	       super->mark_pages && super->mark_pages <= KV_DISK_MAX_MARK_PAGES &&
	       super->oldest < DISK_MAX_SEQ;
}

struct disk_shape disk_shape_of(const struct kv_disk_super *super)
{
	return (struct disk_shape){
		.uuid = { super->uuid[0], super->uuid[1] }, .nr_segments = super->nr_segments,
		.segment_bytes = super->segment_bytes, .pages = super->segment_bytes / KV_DISK_PAGE,
		.mark_pages = super->mark_pages, .epoch = super->epoch,
		.front_bytes = disk_front_bytes(super->mark_pages),
	};
}

static bool same_uuid(const u64 *a, const struct disk_shape *shape)
{
	return a[0] == shape->uuid[0] && a[1] == shape->uuid[1];
}

void disk_head_fill(const struct disk_shape *shape, u32 segment, u64 seq, struct kv_disk_head *head)
{
	*head = (struct kv_disk_head){
		.magic = KV_DISK_HEAD_MAGIC, .version = KV_DISK_VERSION, .segment = segment,
		.uuid = { shape->uuid[0], shape->uuid[1] }, .seq = seq,
		.segment_bytes = shape->segment_bytes,
	};
	kv_disk_seal(head);
}

bool disk_head_is_good(const struct disk_shape *shape, u32 segment, const struct kv_disk_head *head)
{
	return head->magic == KV_DISK_HEAD_MAGIC && kv_disk_is_sealed(head) &&
	       head->version == KV_DISK_VERSION && same_uuid(head->uuid, shape) &&
	       head->segment == segment && head->segment_bytes == shape->segment_bytes &&
	       head->seq &&
	       head->seq < DISK_MAX_SEQ;
}

void disk_footer_fill(const struct disk_shape *shape, u64 seq, const struct kv_disk_record *records,
		      u32 nr, struct kv_disk_footer *footer)
{
	*footer = (struct kv_disk_footer){
		.magic = KV_DISK_FOOTER_MAGIC, .version = KV_DISK_VERSION, .nr_records = nr,
		.uuid = { shape->uuid[0], shape->uuid[1] }, .seq = seq,
		.headers_sum = kv_disk_sum(records, nr * sizeof(*records)),
	};
	kv_disk_seal(footer);
}

/* The headers have to fit between the head and the footer. */
bool disk_footer_is_good(const struct disk_shape *shape, u64 seq,
			 const struct kv_disk_footer *footer)
{
	return footer->magic == KV_DISK_FOOTER_MAGIC && kv_disk_is_sealed(footer) &&
	       footer->version == KV_DISK_VERSION && same_uuid(footer->uuid, shape) &&
	       footer->seq == seq && footer->nr_records <= shape->pages / 2 &&
	       disk_footer_pages(footer->nr_records) < shape->pages;
}

u32 disk_footer_pages(u32 nr)
{
	return disk_pages(nr * sizeof(struct kv_disk_record)) + 1;
}

u32 disk_max_record(const struct disk_shape *shape)
{
	return (shape->pages - 2 - disk_footer_pages(1)) * KV_DISK_PAGE;
}

bool disk_name_is_good(const struct kvmm_disk_name *name)
{
	if (name->key_bytes < KVMM_DISK_MIN_KEY || name->key_bytes > KVMM_DISK_MAX_KEY)
		return false;
	for (u32 i = name->key_bytes; i < KVMM_DISK_MAX_KEY; i++)
		if (name->key[i])
			return false;
	return true;
}

bool disk_record_is_good(const struct disk_shape *shape, u64 seq,
			 const struct kv_disk_record *record)
{
	return record->magic == KV_DISK_RECORD_MAGIC && record->version == KV_DISK_VERSION &&
	       record->seq == seq && same_uuid(record->uuid, shape) && kv_disk_is_sealed(record) &&
	       record->bytes && record->bytes <= disk_max_record(shape) && record->page &&
	       record->page + 1 + disk_pages(record->bytes) < shape->pages &&
	       record->parent_bytes <= KVMM_DISK_MAX_KEY && disk_name_is_good(&record->name);
}

void disk_entry_of_record(const struct kv_disk_record *record, u32 segment,
			  struct kvmm_disk_entry *entry)
{
	*entry = (struct kvmm_disk_entry){
		.name = record->name, .position = record->position,
		.parent_bytes = record->parent_bytes, .value = record->value,
		.bytes = record->bytes, .segment = segment,
		.offset = record->page * KV_DISK_PAGE, .seq = record->seq,
	};
	memcpy(entry->parent, record->parent, sizeof(entry->parent));
}
