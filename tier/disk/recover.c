// SPDX-License-Identifier: Apache-2.0
/*
 * Opening: the superblock, the footers of sealed segments, a scan of the others.
 *
 * Segments are gone through from the oldest to the youngest, so that of two records with one name the
 * younger one is found. The youngest is carried on with if it has no footer; others without one get
 * theirs now. Payload is read only where there is no footer: there a crash may have left records whose
 * header is on disk and whose payload is not.
 *
 * Whatever is in the file, the work is bounded by its length, and memory by the number of records.
 *
 * What was wiped may have older records, which are void as long as the record that was marked says so. So
 * where something of a segment cannot be seen, or such a record is cut off, all uses up to that one are
 * void from then on: the superblock has the number.
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
 * The good one with the higher epoch; -EBADMSG: there is none. Where one cannot be read and the other is
 * no good nobody knows, and nothing may be written over.
 */
static int newest_super(struct kvmm_disk *disk, void *page, struct kv_disk_super *super)
{
	struct kv_disk_super one;
	bool found = false;
	int err = -EBADMSG, ret;

	*super = (struct kv_disk_super){ 0 };
	for (u32 i = 0; i < KV_DISK_NR_SUPERS && disk->file_bytes >= KV_DISK_SUPER_BYTES; i++) {
		ret = read_super(disk, page, i, &one);
		if (ret && ret != -EBADMSG)
			err = ret;
		if (!ret && (!found || one.epoch > super->epoch))
			*super = one;
		found |= !ret;
	}
	return found ? 0 : err;
}

/* Over the older one, so that one of them is whole at any time. */
static int write_super(struct kvmm_disk *disk, void *page, struct kv_disk_super *super)
{
	struct kv_iov iov = { page, KV_DISK_PAGE };
	int err;

	kv_disk_seal(super);
	memset(page, 0, KV_DISK_PAGE);
	memcpy(page, super, sizeof(*super));
	err = kv_file_write_all(disk->ops, disk->file, &iov, 1,
				super->epoch % KV_DISK_NR_SUPERS * KV_DISK_PAGE);
	return err ? err : kv_file_datasync(disk->ops, disk->file);
}

static u32 segments_of(u64 max_bytes, u32 segment_bytes)
{
	u64 nr = max_bytes <= KV_DISK_SUPER_BYTES ? 0 :
		 (max_bytes - KV_DISK_SUPER_BYTES) / segment_bytes;

	return min(nr, (u64)DISK_MAX_SEGMENTS);
}

static u32 default_segment(u64 max_bytes)
{
	u32 bytes = DEFAULT_SEGMENT;

	while (bytes > KVMM_DISK_MIN_SEGMENT && segments_of(max_bytes, bytes) < FEW_SEGMENTS)
		bytes /= 2;
	return bytes;
}

/* A new store; its number is what nobody can guess who only sees payload. */
static int new_super(const struct kvmm_disk_attr *attr, struct kv_disk_super *super)
{
	*super = (struct kv_disk_super){
		.magic = KV_DISK_SUPER_MAGIC, .version = KV_DISK_VERSION,
		.page_bytes = KV_DISK_PAGE, .uuid = { kv_random(), kv_random() },
		.segment_bytes = attr->segment_bytes ? attr->segment_bytes :
						       default_segment(attr->max_bytes),
	};
	return attr->max_bytes ? 0 : -EINVAL;
}

/* Both copies of a new one, so that nothing of what was there before is ever read. */
static int write_supers(struct kvmm_disk *disk, void *page, struct kv_disk_super *super, bool is_new)
{
	int err;

	super->oldest = disk->oldest;
	super->epoch++;
	err = write_super(disk, page, super);
	if (err || !is_new)
		return err;
	super->epoch++;
	return write_super(disk, page, super);
}

/* The file has this many segments, and not a byte more. */
static int cut_file(struct kvmm_disk *disk, u32 nr_segments)
{
	u64 bytes = KV_DISK_SUPER_BYTES + (u64)nr_segments * disk->shape.segment_bytes;
	int err = 0;

	if (disk->file_bytes != bytes)
		err = disk->ops->truncate(disk->ops->ctx, disk->file, bytes);
	if (!err)
		disk->file_bytes = bytes;
	return err;
}

static int take_shape(struct kvmm_disk *disk, const struct kvmm_disk_attr *attr,
		      struct kv_disk_super *super)
{
	struct disk_shape *shape = &disk->shape;
	u32 nr = attr->max_bytes ? segments_of(attr->max_bytes, super->segment_bytes) :
				   super->nr_segments;

	if (nr < 2)
		return -EINVAL;
	super->nr_segments = nr;
	*shape = (struct disk_shape){
		.uuid = { super->uuid[0], super->uuid[1] }, .nr_segments = nr,
		.segment_bytes = super->segment_bytes, .pages = super->segment_bytes / KV_DISK_PAGE,
	};
	disk->max_bytes = attr->max_bytes ? attr->max_bytes :
			  KV_DISK_SUPER_BYTES + (u64)nr * super->segment_bytes;
	return 0;
}

/* Segments that are whole, and wanted: what lies beyond is cut off. */
static u32 nr_present(const struct kvmm_disk *disk)
{
	u64 bytes = disk->file_bytes;
	u64 nr = bytes < KV_DISK_SUPER_BYTES ? 0 :
		 (bytes - KV_DISK_SUPER_BYTES) / disk->shape.segment_bytes;

	return min(nr, (u64)disk->shape.nr_segments);
}

static int open_super(struct kvmm_disk *disk, const struct kvmm_disk_attr *attr, void *page,
		      struct kv_disk_super *super, bool *is_new)
{
	int err = newest_super(disk, page, super);

	*is_new = err == -EBADMSG || attr->flags & KVMM_DISK_RESET;
	if (err && !*is_new)
		return err;
	if (!*is_new && super->version != KV_DISK_VERSION)
		return -EPROTONOSUPPORT;
	if (err && disk->file_bytes)
		kv_log(KV_LOG_WARN, "disk: no superblock can be read: the store begins anew");
	err = *is_new ? new_super(attr, super) : 0;
	disk->oldest = super->oldest;
	return err ? err : take_shape(disk, attr, super);
}

/* ---- what is not believed ---- */

/* More uses than there can have been since the youngest head that could be read. */
#define MANY_USES	(1ull << 32)

/* What a use said of those before it, and of itself, is lost. */
static void distrust(struct kvmm_disk *disk, u64 seq)
{
	disk->oldest = max(disk->oldest, seq + 1);
}

static void drop_all(struct kvmm_disk *disk)
{
	/* Entries that move up while one is deleted are looked at again. */
	for (u32 i = 0; i < disk->index.nr_slots;) {
		struct disk_entry *entry = &disk->index.entry[i];

		if (entry->state)
			disk_entry_drop(disk, entry);
		else
			i++;
	}
}

/* Of one that stays, or is about to be cut off. */
static void note_head(struct kvmm_disk *disk, struct disk_scan *scan, u32 segment)
{
	u64 seq = scan->seq;

	disk->seq = max(disk->seq, seq);
	if (segment < nr_present(disk)) {
		disk->seg[segment].seq = seq;
		disk->seg[segment].since_ns = kv_clock_ns();
	} else if (disk_scan_may_have_dead(scan, segment)) {
		distrust(disk, seq);
	}
}

/*
 * The numbers of all segments that are whole: a piece of one was never flushed. Where there is no good head
 * there never was one, or its write was lost with all that came behind it: free. One that cannot be read
 * may be of any use.
 */
static void read_heads(struct kvmm_disk *disk, struct disk_scan *scan)
{
	bool any_is_lost = false;

	for (u32 i = 0; disk_offset(&disk->shape, i + 1, 0) <= disk->file_bytes; i++) {
		int err = disk_scan_head(scan, i);

		if (!err)
			note_head(disk, scan, i);
		any_is_lost |= err && err != -ENOENT;
	}
	/* No number is given out again, though nobody may be left that has it. */
	disk->seq = max(disk->seq, max(disk->oldest, 1ull) - 1);
	if (!any_is_lost)
		return;
	kv_log(KV_LOG_WARN, "disk: the head of a segment cannot be read: all is dropped");
	disk->seq += MANY_USES;
	distrust(disk, disk->seq);
}

/* The superblock says what is void before anything of what said so is gone. */
static int begin(struct kvmm_disk *disk, struct disk_scan *scan, struct kv_disk_super *super, bool is_new)
{
	int err = 0;

	disk->seg = kv_alloc_array(disk->shape.nr_segments, sizeof(*disk->seg));
	if (!disk->seg)
		return -ENOMEM;
	if (is_new)
		err = cut_file(disk, 0);
	else
		read_heads(disk, scan);
	if (!err)
		err = write_supers(disk, scan->page, super, is_new);
	return err || is_new ? err : cut_file(disk, nr_present(disk));
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

/* What an older segment has of that name is not to come back. */
static void drop_older(struct kvmm_disk *disk, const struct kv_disk_record *record)
{
	struct disk_entry *old = disk_index_find(&disk->index,
						 disk_fp_of(&disk->index, &record->name));

	if (old)
		disk_entry_drop(disk, old);
}

static int scan_record(struct kvmm_disk *disk, struct disk_scan *scan,
		       const struct kv_disk_record *record, const struct kvmm_disk_attr *attr)
{
	struct disk_seg *seg = &disk->seg[scan->segment];
	bool is_dead = record->flags & KV_DISK_DEAD;
	int err = 0;

	if (!scan->is_sealed && !is_dead && disk_scan_verify(scan, record)) {
		disk->count.nr_damaged++;
		return 0;
	}
	if (!scan->is_sealed)
		err = keep_header(seg, record);
	if (err)
		return err;
	if (is_dead) {
		drop_older(disk, record);
		return 0;
	}
	if (is_foreign(attr, &record->name)) {
		disk->count.nr_foreign++;
		return 0;
	}
	return add_record(disk, scan->segment, record);
}

/* A footer has to have room behind what was found, as it has behind what is written. */
static void carry_on(struct kvmm_disk *disk, const struct disk_scan *scan)
{
	struct disk_seg *seg = &disk->seg[scan->segment];
	bool is_youngest = seg->seq == disk->seq;

	seg->used_pages = scan->end;
	disk->open = scan->segment;
	seg->state = SEG_OPEN;
	disk->count.nr_scanned++;
	if (!is_youngest || scan->end + disk_footer_pages(seg->nr_records) > disk->shape.pages)
		disk_close_segment(disk);
}

/* It is free, and what was found so far is older. */
static void lose_segment(struct kvmm_disk *disk, struct disk_seg *seg)
{
	kv_log(KV_LOG_WARN, "disk: a segment cannot be read: it is dropped, and what is older");
	distrust(disk, seg->seq);
	drop_all(disk);
	disk_table_free(seg);
	seg->seq = 0;
}

static int scan_segment(struct kvmm_disk *disk, struct disk_scan *scan, u32 segment,
			const struct kvmm_disk_attr *attr)
{
	struct kv_disk_record record;
	int err = disk_scan_begin(scan, segment);

	if (err && err != -ENOMEM) {
		lose_segment(disk, &disk->seg[segment]);
		return 0;
	}
	while (!err && disk_scan_next(scan, &record))
		err = scan_record(disk, scan, &record, attr);
	if (err)
		return err;
	if (scan->has_missed)
		lose_segment(disk, &disk->seg[segment]);
	else if (!scan->is_sealed)
		carry_on(disk, scan);
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

static int scan_all(struct kvmm_disk *disk, struct disk_scan *scan, const struct kvmm_disk_attr *attr)
{
	u32 nr = nr_present(disk), *order = kv_alloc_array(max(nr, 1u), sizeof(*order));
	int err = order ? 0 : -ENOMEM;

	if (err)
		return err;
	/* Whoever wrote them is gone, and the superblock was flushed since. */
	disk->flushed_seq = disk->seq;
	for (u32 i = 0; i < nr; i++) {
		disk->seg[i].state = SEG_FREE;
		if (disk->seg[i].seq < disk->oldest)
			disk->seg[i].seq = 0;
		order[i] = i;
	}
	sort_by_seq(disk, order, nr);
	for (u32 i = 0; !err && i < nr; i++)
		if (disk->seg[order[i]].seq)
			err = scan_segment(disk, scan, order[i], attr);
	kv_free(order);
	disk->count.nr_found = disk->index.nr_live;
	return err;
}

int disk_recover(struct kvmm_disk *disk, const struct kvmm_disk_attr *attr)
{
	u64 start_ns = kv_clock_ns();
	struct kv_disk_super super;
	struct disk_scan scan;
	bool is_new = false;
	int err = disk_scan_init(&scan, disk->ops, disk->file, &disk->shape);

	scan.wants_dead = true;
	if (!err)
		err = open_super(disk, attr, scan.page, &super, &is_new);
	if (!err)
		err = begin(disk, &scan, &super, is_new);
	if (!err)
		err = scan_all(disk, &scan, attr);
	if (!err && disk->oldest != super.oldest)
		err = write_supers(disk, scan.page, &super, false);
	disk_scan_exit(&scan);
	disk_io_drain(disk);
	disk->count.open_ns = kv_clock_ns() - start_ns;
	return err;
}
