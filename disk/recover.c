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

#include "internal.h"

#define DEFAULT_SEGMENT	(128u << 20)
#define FEW_SEGMENTS	8u

/* ---- superblock ---- */

static int read_super(struct kvmm_disk *disk, void *page, u32 nr, struct kv_disk_super *super)
{
	struct kv_iov iov = { page, KV_DISK_PAGE };
	int err = kv_file_read_all(disk->ops, disk->file, &iov, 1, (u64)nr * KV_DISK_PAGE);

	if (err)
		return err;
	memcpy(super, page, sizeof(*super));
	return disk_super_is_good(super) ? 0 : -EBADMSG;
}

/*
 * The good one with the highest epoch; -EBADMSG: there is none. Where one cannot be read and the
 * others are no good it might have been, and nothing may be written over.
 */
static int newest_super(struct kvmm_disk *disk, void *page, struct kv_disk_super *super)
{
	struct kv_disk_super one;
	bool found = false;
	int err = -EBADMSG, ret;

	*super = (struct kv_disk_super){ 0 };
	for (u32 i = 0; i < KV_DISK_NR_COPIES && disk->file_bytes >= KV_DISK_SUPER_BYTES; i++) {
		ret = read_super(disk, page, i, &one);
		if (ret && ret != -EBADMSG)
			err = ret;
		if (!ret && (!found || one.epoch > super->epoch))
			*super = one;
		found |= !ret;
	}
	return found ? 0 : err;
}

/* Over the oldest one, so that the others are whole at any time. */
static int write_one_super(struct kvmm_disk *disk)
{
	struct kv_disk_super *super = &disk->super;
	struct kv_iov iov = { disk->marks.io, KV_DISK_PAGE };
	int err;

	super->epoch++;
	kv_disk_seal(super);
	memset(disk->marks.io, 0, KV_DISK_PAGE);
	memcpy(disk->marks.io, super, sizeof(*super));
	err = kv_file_write_all(disk->ops, disk->file, &iov, 1,
				super->epoch % KV_DISK_NR_COPIES * KV_DISK_PAGE);
	return err ? err : kv_file_datasync(disk->ops, disk->file);
}

int disk_write_supers(struct kvmm_disk *disk)
{
	int err = 0;

	for (u32 i = 0; i < KV_DISK_NR_COPIES && !err; i++)
		err = write_one_super(disk);
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

static u32 default_segment(u64 max_bytes)
{
	u32 bytes = DEFAULT_SEGMENT;

	while (bytes > KVMM_DISK_MIN_SEGMENT &&
	       segments_of(max_bytes, bytes, mark_pages_of(max_bytes)) < FEW_SEGMENTS)
		bytes /= 2;
	return bytes;
}

/*
 * A new store; its number cannot be guessed from payload. Its epochs go on from those of @super,
 * the one there before: an old copy of a superblock is an old one still.
 */
static void new_super(const struct kvmm_disk_attr *attr, struct kv_disk_super *super)
{
	u64 max_bytes = attr->max_bytes;

	if (!max_bytes && super->version == KV_DISK_VERSION)
		max_bytes = disk_front_bytes(super->mark_pages) +
			    (u64)super->nr_segments * super->segment_bytes;
	*super = (struct kv_disk_super){
		.magic = KV_DISK_SUPER_MAGIC, .version = KV_DISK_VERSION,
		.page_bytes = KV_DISK_PAGE, .uuid = { kv_random(), kv_random() },
		.epoch = super->epoch,
		.segment_bytes = attr->segment_bytes ? attr->segment_bytes :
						       default_segment(max_bytes),
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

static int take_shape(struct kvmm_disk *disk, const struct kvmm_disk_attr *attr)
{
	struct kv_disk_super *super = &disk->super;
	u32 nr = super->nr_segments;

	if (attr->max_bytes)
		nr = segments_of(attr->max_bytes, super->segment_bytes, super->mark_pages);

	if (nr < 2)
		return -EINVAL;
	super->nr_segments = nr;
	disk->shape = disk_shape_of(super);
	disk->max_bytes = attr->max_bytes ? attr->max_bytes : disk_offset(&disk->shape, nr, 0);
	return disk_marks_init(&disk->marks, &disk->shape);
}

/* Segments that are whole, and wanted: the file beyond is cut off. */
static u32 nr_present(const struct kvmm_disk *disk)
{
	u64 bytes = disk->file_bytes;
	u64 front = disk->shape.front_bytes;
	u64 nr = bytes < front ? 0 : (bytes - front) / disk->shape.segment_bytes;

	return min(nr, (u64)disk->shape.nr_segments);
}

static int open_super(struct kvmm_disk *disk, const struct kvmm_disk_attr *attr, void *page,
		      bool *is_new)
{
	struct kv_disk_super *super = &disk->super;
	int err = newest_super(disk, page, super);

	*is_new = err == -EBADMSG || attr->flags & KVMM_DISK_RESET;
	if (err && !*is_new)
		return err;
	if (!*is_new && super->version != KV_DISK_VERSION)
		return -EPROTONOSUPPORT;
	if (err && disk->file_bytes)
		kv_log(KV_LOG_WARN, "disk: no superblock can be read: the store begins anew");
	if (*is_new)
		new_super(attr, super);
	return take_shape(disk, attr);
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

/* The marks of a new store are the zeros of a file where nothing was written. */
static int empty_file(struct kvmm_disk *disk)
{
	int err = disk->ops->truncate(disk->ops->ctx, disk->file, KV_DISK_SUPER_BYTES);

	return err ? err : cut_file(disk, 0);
}

/* Damaged copies of marks are whole again before anything else is written. */
static int begin(struct kvmm_disk *disk, struct disk_scan *scan, bool is_new)
{
	int err;

	disk->seg = kv_alloc_array(disk->shape.nr_segments, sizeof(*disk->seg));
	if (!disk->seg)
		return -ENOMEM;
	if (is_new) {
		err = empty_file(disk);
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

static bool is_foreign(const struct kvmm_disk_attr *attr, const struct kvmm_disk_name *name)
{
	for (u32 i = 0; i < attr->nr_layouts; i++)
		if (!memcmp(attr->layouts[i], name->layout, sizeof(name->layout)))
			return false;
	return attr->nr_layouts;
}

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

static int keep_header(struct disk_seg *seg, const struct kv_disk_record *record)
{
	int err = disk_table_reserve(seg);

	if (!err)
		seg->table[seg->nr_records++] = *record;
	return err;
}

static int scan_record(struct kvmm_disk *disk, struct disk_scan *scan,
		       const struct kv_disk_record *record, const struct kvmm_disk_attr *attr)
{
	struct disk_seg *seg = &disk->seg[scan->segment];
	int err = 0;

	if (disk_marks_has(&disk->marks, &disk->shape, record))
		return 0;
	if (!scan->is_sealed && disk_scan_verify(scan, record)) {
		disk->count.nr_damaged++;
		return 0;
	}
	if (!scan->is_sealed)
		err = keep_header(seg, record);
	if (err)
		return err;
	if (is_foreign(attr, &record->name)) {
		disk->count.nr_foreign++;
		return 0;
	}
	return add_record(disk, scan->segment, record);
}

/* A footer has to have room behind records found, as it has behind those written. */
static void carry_on(struct kvmm_disk *disk, const struct disk_scan *scan, bool is_youngest)
{
	struct disk_seg *seg = &disk->seg[scan->segment];

	seg->used_pages = scan->end;
	disk->open = scan->segment;
	seg->state = SEG_OPEN;
	disk->count.nr_scanned++;
	if (!is_youngest || scan->end + disk_footer_pages(seg->nr_records) > disk->shape.pages)
		disk_close_segment(disk);
}

static int scan_segment(struct kvmm_disk *disk, struct disk_scan *scan, u32 segment,
			bool is_youngest, const struct kvmm_disk_attr *attr)
{
	struct kv_disk_record record;
	int err = disk_scan_begin(scan, segment);

	if (err && err != -ENOMEM) {
		kv_log(KV_LOG_WARN, "disk: a segment cannot be read: it is dropped");
		disk->seg[segment].seq = 0;
		return 0;
	}
	while (!err && disk_scan_next(scan, &record))
		err = scan_record(disk, scan, &record, attr);
	if (err)
		return err;
	if (!scan->is_sealed)
		carry_on(disk, scan, is_youngest);
	else
		disk->seg[segment].state = SEG_SEALED;
	return 0;
}

/* Numbers of segments by age: Shell's sort, since it needs no memory. */
static void sort_by_seq(const struct kvmm_disk *disk, u32 *order, u32 nr)
{
	for (u32 gap = nr / 2; gap; gap /= 2) {
		for (u32 i = gap; i < nr; i++) {
			u32 moved = order[i], at = i;

			for (; at >= gap && disk->seg[order[at - gap]].seq > disk->seg[moved].seq;
			     at -= gap)
				order[at] = order[at - gap];
			order[at] = moved;
		}
	}
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
	sort_by_seq(disk, order, nr);
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
