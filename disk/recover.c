// SPDX-License-Identifier: Apache-2.0
/*
 * Opening: the superblock, the footers of sealed segments, a scan of the others.
 *
 * Segments are gone through from the oldest to the youngest, so that of two records with one name
 * the younger one is found. The youngest is carried on with if it has no footer; others without one
 * get theirs now. Payload is read only where there is no footer: there a crash may have left
 * records with their headers on disk and their payload not.
 *
 * For any file, the work is bounded by its length, and memory by the number of records.
 *
 * Uses of segments before the number in the superblock were reset; records that a mark speaks of
 * were wiped: neither depends on what can be read of a segment. A head that is lost may have had
 * any number that its store could have given out, so none is used again: numbers jump at openings.
 */
#include <string.h>

#include <kv/bits.h>
#include <kv/env.h>
#include <kv/log.h>
#include <kv/mem.h>
#include <kv/sort.h>

#include "internal.h"

#define DEFAULT_SEGMENT	(128u << 20)
#define FEW_SEGMENTS	8u

/* ---- superblock ---- */

int disk_read_supers(const struct kv_file_ops *ops, int file, void *page,
		     struct kv_disk_super *super, u32 *nr_good)
{
	struct kv_disk_super one;
	int err = -EBADMSG, ret;

	*nr_good = 0;
	for (u32 i = 0; i < KV_DISK_NR_COPIES; i++) {
		struct kv_iov iov = { page, KV_DISK_PAGE };

		ret = kv_file_read_all(ops, file, &iov, 1, (u64)i * KV_DISK_PAGE);
		if (ret) {
			err = ret;
			continue;
		}
		memcpy(&one, page, sizeof(one));
		if (!disk_super_is_good(&one))
			continue;
		if (!(*nr_good)++ || one.epoch > super->epoch)
			*super = one;
	}
	return *nr_good ? 0 : err;
}

/* Each over the oldest one, so that the others are whole at any time. */
int disk_write_supers(struct kvmm_disk *disk)
{
	struct kv_disk_super *super = &disk->super;
	int err = 0;

	kv_assert_not_held(&disk->lock);
	for (u32 i = 0; i < KV_DISK_NR_COPIES && !err; i++) {
		struct kv_iov iov = { disk->marks.io, KV_DISK_PAGE };

		super->epoch++;
		kv_disk_seal(super);
		memset(disk->marks.io, 0, KV_DISK_PAGE);
		memcpy(disk->marks.io, super, sizeof(*super));
		err = kv_file_write_all(disk->ops, disk->file, &iov, 1,
					super->epoch % KV_DISK_NR_COPIES * KV_DISK_PAGE);
		if (!err)
			err = kv_file_datasync(disk->ops, disk->file);
	}
	return err;
}

static u32 segments_of(u64 max_bytes, u32 segment_bytes, u32 mark_pages)
{
	u64 front = disk_front_bytes(mark_pages);
	u64 nr = max_bytes <= front ? 0 : (max_bytes - front) / segment_bytes;

	return min(nr, (u64)DISK_MAX_SEGMENTS);
}

/* 252 names for each 4 MiB of a new store, and 0.3 % of it. */
static u32 mark_pages_of(u64 max_bytes)
{
	return min(max(max_bytes >> 22, 1ull), (u64)KV_DISK_MAX_MARK_PAGES);
}

/*
 * A new store; its number cannot be guessed from payload. Its epochs go on from those of @super,
 * the one there before: an old copy of a superblock is an old one still.
 */
static void new_super(const struct kvmm_disk_attr *attr, struct kv_disk_super *super)
{
	u32 segment_bytes = attr->segment_bytes ? attr->segment_bytes : DEFAULT_SEGMENT;
	u64 max_bytes = attr->max_bytes;

	if (!max_bytes && super->version == KV_DISK_VERSION)
		max_bytes = disk_front_bytes(super->mark_pages) +
			    (u64)super->nr_segments * super->segment_bytes;
	while (!attr->segment_bytes && segment_bytes > KVMM_DISK_MIN_SEGMENT &&
	       segments_of(max_bytes, segment_bytes, mark_pages_of(max_bytes)) < FEW_SEGMENTS)
		segment_bytes /= 2;
	*super = (struct kv_disk_super){
		.magic = KV_DISK_SUPER_MAGIC, .version = KV_DISK_VERSION,
		.page_bytes = KV_DISK_PAGE, .uuid = { kv_random(), kv_random() },
		.epoch = super->epoch, .segment_bytes = segment_bytes,
		.mark_pages = mark_pages_of(max_bytes),
	};
	super->nr_segments = segments_of(max_bytes, super->segment_bytes, super->mark_pages);
}

/* The file has this many segments, and not a byte more. */
static int cut_file(struct kvmm_disk *disk, u32 nr_segments)
{
	u64 bytes = disk_offset(&disk->shape, nr_segments, 0);
	int err = 0;

	if (disk->file_bytes != bytes)
		err = disk->ops->truncate(disk->ops->ctx, disk->file, bytes);
	if (!err)
		disk->file_bytes = bytes;
	return err;
}

/* Segments that are whole, and wanted: the file beyond is cut off. */
static u32 nr_present(const struct kvmm_disk *disk)
{
	u64 bytes = disk->file_bytes;
	u64 front = disk->shape.front_bytes;
	u64 nr = bytes < front ? 0 : (bytes - front) / disk->shape.segment_bytes;

	return min(nr, (u64)disk->shape.nr_segments);
}

/*
 * Where one superblock cannot be read and the others are no good it might have been, and nothing
 * may be written over.
 */
static int open_super(struct kvmm_disk *disk, const struct kvmm_disk_attr *attr, void *page,
		      bool *is_new)
{
	struct kv_disk_super *super = &disk->super;
	int err = -EBADMSG;
	u32 nr;

	if (disk->file_bytes >= KV_DISK_SUPER_BYTES)
		err = disk_read_supers(disk->ops, disk->file, page, super, &nr);
	*is_new = err == -EBADMSG || attr->flags & KVMM_DISK_RESET;
	if (err && !*is_new)
		return err;
	if (!*is_new && super->version != KV_DISK_VERSION)
		return -EPROTONOSUPPORT;
	if (err && disk->file_bytes)
		kv_log(KV_LOG_WARN, "disk: no superblock can be read: the store begins anew");
	if (*is_new)
		new_super(attr, super);
	nr = super->nr_segments;
	if (attr->max_bytes)
		nr = segments_of(attr->max_bytes, super->segment_bytes, super->mark_pages);
	if (nr < 2 && !attr->max_bytes)
		return kv_refuse(-EINVAL, "kvmm: disk: max_bytes is 0, and no store here says how "
				 "many bytes it may have");
	if (nr < 2)
		return kv_refuse(-EINVAL, "kvmm: disk: max_bytes is less than two segments of %u "
				 "bytes and %u before them", super->segment_bytes,
				 (u32)disk_front_bytes(super->mark_pages));
	super->nr_segments = nr;
	disk->shape = disk_shape_of(super);
	disk->max_bytes = attr->max_bytes ? attr->max_bytes : disk_offset(&disk->shape, nr, 0);
	return disk_marks_init(&disk->marks, &disk->shape);
}

/* ---- numbers ---- */

/* More uses than there can have been since the youngest head that can be read. */
#define MANY_USES	(1ull << 20)

/*
 * The numbers of all segments that are whole: a piece of one was never flushed. One without a good
 * head is free: its write was lost, with all that came behind it, or it was damaged since.
 */
static void read_heads(struct kvmm_disk *disk, struct disk_scan *scan)
{
	for (u32 i = 0; disk_offset(&disk->shape, i + 1, 0) <= disk->file_bytes; i++) {
		if (disk_scan_head(scan, i))
			continue;
		disk->seq = max(disk->seq, scan->seq);
		if (i >= nr_present(disk) || scan->seq < disk->super.oldest)
			continue;
		disk->seg[i].seq = scan->seq;
		disk->seg[i].since_ns = kv_clock_ns();
	}
	disk->seq = max(disk->seq, max(disk->super.oldest, disk->marks.last_seq)) + MANY_USES;
}

/* Damaged copies of marks are whole again before anything else is written. */
static int begin(struct kvmm_disk *disk, struct disk_scan *scan, bool is_new)
{
	int err;

	disk->seg = kv_alloc_array(disk->shape.nr_segments, sizeof(*disk->seg));
	if (!disk->seg)
		return -ENOMEM;
	if (is_new) {
		/* The marks of a new store are the zeros of a file where nothing was written. */
		err = disk->ops->truncate(disk->ops->ctx, disk->file, KV_DISK_SUPER_BYTES);
		if (!err)
			err = cut_file(disk, 0);
		return err ? err : disk_write_supers(disk);
	}
	err = disk_marks_load(&disk->marks, scan, disk->file_bytes);
	if (err)
		return err;
	read_heads(disk, scan);
	err = disk_marks_write(disk);
	if (!err)
		err = disk_write_supers(disk);
	return err ? err : cut_file(disk, nr_present(disk));
}

/* ---- records ---- */

static int add_record(struct kvmm_disk *disk, u32 segment, const struct kv_disk_record *record)
{
	struct disk_fp fp = disk_fp_of(&disk->index, &record->name);
	struct disk_entry *old = disk_index_find(&disk->index, fp);
	int class;

	if (old)
		disk_entry_drop(disk, old);
	class = disk_index_class(&disk->index, &record->name, record->bytes);
	if (class < 0)
		return 0;
	if (disk_index_reserve(&disk->index, 1))
		return -ENOMEM;
	disk_entry_add(disk, &(struct disk_entry){
		.fp = fp, .segment = segment, .page = record->page, .class = class,
		.value = record->value, .state = DISK_LIVE,
	});
	disk_entry_name(disk, fp, &record->name, record->position);
	return 0;
}

static int scan_record(struct kvmm_disk *disk, struct disk_scan *scan,
		       const struct kv_disk_record *record, const struct kvmm_disk_attr *attr)
{
	struct disk_seg *seg = &disk->seg[scan->segment];
	const struct kvmm_disk_name *name = &record->name;
	bool is_foreign = attr->nr_layouts;

	if (disk_marks_has(&disk->marks, &disk->shape, record))
		return 0;
	if (!scan->is_sealed && disk_scan_verify(scan, record)) {
		disk->count.nr_damaged++;
		return 0;
	}
	if (!scan->is_sealed) {
		if (disk_table_reserve(seg))
			return -ENOMEM;
		seg->table[seg->nr_records++] = *record;
	}
	for (u32 i = 0; i < attr->nr_layouts && is_foreign; i++)
		is_foreign = memcmp(attr->layouts[i], name->layout, sizeof(name->layout));
	if (is_foreign) {
		disk->count.nr_foreign++;
		return 0;
	}
	return add_record(disk, scan->segment, record);
}

static int scan_segment(struct kvmm_disk *disk, struct disk_scan *scan, u32 segment,
			bool is_youngest, const struct kvmm_disk_attr *attr)
{
	struct disk_seg *seg = &disk->seg[segment];
	struct kv_disk_record record;
	int err = disk_scan_begin(scan, segment);

	if (err && err != -ENOMEM) {
		kv_log(KV_LOG_WARN, "disk: a segment cannot be read: it is dropped");
		seg->seq = 0;
		return 0;
	}
	while (!err && disk_scan_next(scan, &record))
		err = scan_record(disk, scan, &record, attr);
	if (err)
		return err;
	if (scan->is_sealed) {
		seg->state = SEG_SEALED;
		return 0;
	}
	kv_assert(disk->open == KV_NONE);
	seg->used_pages = scan->end;
	seg->state = SEG_OPEN;
	disk->open = segment;
	disk->count.nr_scanned++;
	/* A footer has to have room behind records found, as it has behind those written. */
	if (!is_youngest || scan->end + disk_footer_pages(seg->nr_records) > disk->shape.pages)
		disk_close_segment(disk);
	return 0;
}

static bool is_younger(const u32 *a, const u32 *b, const struct kvmm_disk *disk)
{
	return disk->seg[*a].seq > disk->seg[*b].seq;
}

static int scan_all(struct kvmm_disk *disk, struct disk_scan *scan,
		    const struct kvmm_disk_attr *attr)
{
	u32 nr = nr_present(disk), *order = kv_alloc_array(max(nr, 1u), sizeof(*order));
	int err = order ? 0 : -ENOMEM;

	if (err)
		return err;
	for (u32 i = 0; i < nr; i++) {
		disk->seg[i].state = SEG_FREE;
		order[i] = i;
	}
	kv_sort(order, nr, is_younger, disk);
	for (u32 i = 0; !err && i < nr; i++)
		if (disk->seg[order[i]].seq)
			err = scan_segment(disk, scan, order[i], i == nr - 1, attr);
	kv_free(order);
	disk->count.nr_found = disk->index.nr_live;
	return err;
}

int disk_recover(struct kvmm_disk *disk, const struct kvmm_disk_attr *attr)
{
	u64 start_ns = kv_clock_ns();
	struct disk_scan scan;
	bool is_new = false;
	int err = disk_scan_init(&scan, disk->ops, disk->file, &disk->shape);

	if (!err)
		err = open_super(disk, attr, scan.page, &is_new);
	if (!err)
		err = begin(disk, &scan, is_new);
	if (!err)
		err = scan_all(disk, &scan, attr);
	disk_scan_exit(&scan);
	disk_io_drain(disk);
	disk->count.open_ns = kv_ns_since(start_ns);
	return err;
}
