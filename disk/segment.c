// SPDX-License-Identifier: Apache-2.0
/*
 * Where the next record goes.
 *
 *	ABSENT, FREE -> OPEN -> SEALING -> FOOTER -> SEALED -> OPEN -> ...
 *
 * One segment is open, and records are appended to it. When the next one does not fit any more with
 * the footer, or when a write failed, it waits for its writes, gets the footer and a flush, and is
 * sealed. The next one is a new one as long as the limit and the file system allow, then the oldest
 * that is sealed; its entries go, and its records are void with the new head, since no record of
 * it has the new number. Readers that are still at it find records that are not theirs, and miss.
 *
 * Heads are not flushed one by one, so a loss of power may take one back, and the former use of its
 * segment is valid again: hits more, as wiping and resetting do not depend on heads; see marks.c.
 *
 * A head is written beside the first records, but none of them counts as written before it: a
 * restart would not find them.
 */
#include <string.h>

#include <kv/env.h>
#include <kv/log.h>
#include <kv/mem.h>

#include <kvmm/event.h>

#include "internal.h"

/* Segments in a row with failed writes after which nothing is written any more. */
#define MAX_FAILED	4u

void disk_entry_add(struct kvmm_disk *disk, const struct disk_entry *entry)
{
	kv_assert(entry->segment < disk->shape.nr_segments);
	disk->seg[entry->segment].nr_entries++;
	disk_index_add(&disk->index, entry);
}

void disk_entry_drop(struct kvmm_disk *disk, struct disk_entry *entry)
{
	kv_assert(disk->seg[entry->segment].nr_entries);
	disk->seg[entry->segment].nr_entries--;
	if (entry->state == DISK_LIVE)
		disk_tell(disk, entry, KVMM_EVENT_REMOVED);
	disk_index_del(&disk->index, entry);
}

struct disk_entry *disk_entry_of(struct kvmm_disk *disk, const struct disk_rec *rec)
{
	struct disk_entry *entry = disk_index_find(&disk->index, rec->fp);

	kv_assert_held(&disk->lock);
	if (!entry || entry->segment != rec->segment || entry->page != rec->page ||
	    disk->seg[rec->segment].seq != rec->seq)
		return NULL;
	return entry;
}

/* ---- tables of headers ---- */

int disk_table_reserve(struct disk_seg *seg)
{
	u32 room = seg->table_room ? 2 * seg->table_room : 16;
	struct kv_disk_record *table;

	if (seg->nr_records < seg->table_room)
		return 0;
	table = kv_alloc_array(room, sizeof(*table));
	if (!table)
		return -ENOMEM;
	if (seg->nr_records)
		memcpy(table, seg->table, seg->nr_records * sizeof(*table));
	kv_free(seg->table);
	seg->table = table;
	seg->table_room = room;
	return 0;
}

void disk_table_free(struct disk_seg *seg)
{
	kv_free(seg->table);
	seg->table = NULL;
	seg->table_room = 0;
	seg->nr_records = 0;
}

/* ---- sealing ---- */

static void choose_next(struct kvmm_disk *disk);

static void count_failures(struct kvmm_disk *disk, bool failed)
{
	disk->nr_failed = failed ? disk->nr_failed + 1 : 0;
	if (disk->nr_failed < MAX_FAILED || disk->read_only)
		return;
	disk->read_only = true;
	kv_log(KV_LOG_ERR, "disk: too many failed writes: nothing is written any more");
}

/* ->lock held, but for recovery, which runs alone. */
static void sealed(struct kvmm_disk *disk, struct disk_seg *seg, bool has_footer)
{
	kv_assert(!seg->nr_writes);
	seg->state = SEG_SEALED;
	disk_table_free(seg);
	if (!has_footer)
		disk->count.nr_unsealed++;
	count_failures(disk, seg->failed);
}

/* The pages of @req, from @page of its segment on. */
static void queue_pages(struct kvmm_disk *disk, struct disk_req *req, u32 page)
{
	size_t bytes = (size_t)req->nr * KV_DISK_PAGE;

	kv_assert(page + req->nr <= disk->shape.pages);
	req->iov[0] = (struct kv_iov){ req->pages, bytes };
	req->io[0] = (struct disk_io){
		.io = { .op = KV_FILE_WRITEV, .file = disk->file, .iov = req->iov, .nr_iov = 1,
			.offset = disk_offset(&disk->shape, req->segment, page) },
		.req = req, .bytes = bytes,
	};
	disk_io_queue(disk, &req->io[0]);
}

/* A segment that cannot have a footer is read record by record at the next opening. */
static void start_footer(struct kvmm_disk *disk, u32 segment)
{
	struct disk_seg *seg = &disk->seg[segment];
	struct kv_disk_record *header;
	struct kv_disk_footer footer;
	struct disk_req *req;
	u32 nr_pages, nr_good = 0;

	kv_assert(seg->state == SEG_SEALING && !seg->nr_writes);
	for (u32 i = 0; i < seg->nr_records; i++)
		nr_good += !!seg->table[i].bytes;
	nr_pages = disk_footer_pages(nr_good);
	req = disk_req_alloc(DISK_FOOTER, nr_pages);
	if (!req) {
		sealed(disk, seg, false);
		return;
	}
	seg->state = SEG_FOOTER;
	/* The good headers of the table, and the footer behind them. */
	header = (struct kv_disk_record *)(void *)req->pages;
	for (u32 i = 0, nr = 0; i < seg->nr_records; i++)
		if (seg->table[i].bytes)
			header[nr++] = seg->table[i];
	disk_footer_fill(&disk->shape, seg->seq, header, nr_good, &footer);
	memcpy(req->pages + (nr_pages - 1) * KV_DISK_PAGE, &footer, sizeof(footer));
	req->segment = segment;
	queue_pages(disk, req, disk->shape.pages - nr_pages);
}

/* Without a head nothing in it was written: it is as free as before. */
static void writes_over(struct kvmm_disk *disk, u32 segment)
{
	struct disk_seg *seg = &disk->seg[segment];

	if (!seg->head_error) {
		start_footer(disk, segment);
		return;
	}
	kv_assert(!seg->nr_entries);
	seg->state = SEG_FREE;
	disk_table_free(seg);
	count_failures(disk, true);
}

void disk_footer_over(struct kvmm_disk *disk, struct disk_io *io)
{
	struct disk_req *req = io->req;
	struct disk_seg *seg = &disk->seg[req->segment];
	bool is_flush = req->kind == DISK_FLUSH;

	kv_assert(io == &req->io[0] && (is_flush || req->kind == DISK_FOOTER));
	kv_lock(&disk->lock);
	kv_assert(seg->state == SEG_FOOTER && !seg->nr_writes);
	if (io->err) {
		seg->failed = true;
		disk->count.nr_write_errors += !is_flush;
		disk->count.nr_sync_errors += is_flush;
	}
	if (!io->err && !is_flush) {
		req->kind = DISK_FLUSH;
		io->io.op = KV_FILE_DATASYNC;
		io->io.nr_iov = 0;
		io->nr_retries = 0;
		disk_io_queue(disk, io);
		req = NULL;
	} else {
		sealed(disk, seg, is_flush);
		choose_next(disk);
	}
	kv_unlock(&disk->lock);
	disk_req_free(req);
}

void disk_close_segment(struct kvmm_disk *disk)
{
	struct disk_seg *seg = &disk->seg[disk->open];

	kv_assert(seg->state == SEG_OPEN);
	seg->state = SEG_SEALING;
	if (!seg->nr_writes)
		writes_over(disk, disk->open);
	disk->open = KV_NONE;
}

void disk_write_over(struct kvmm_disk *disk, u32 segment, u32 nr, bool failed)
{
	struct disk_seg *seg = &disk->seg[segment];

	kv_assert_held(&disk->lock);
	kv_assert(segment < disk->shape.nr_segments);
	kv_assert(seg->nr_writes >= nr);
	seg->nr_writes -= nr;
	if (failed) {
		seg->failed = true;
		if (seg->state == SEG_OPEN)
			disk_close_segment(disk);
	}
	if (seg->state == SEG_SEALING && !seg->nr_writes)
		writes_over(disk, segment);
}

/* ---- the next one ---- */

static u32 first_in_state(const struct kvmm_disk *disk, u32 state)
{
	for (u32 i = 0; i < disk->shape.nr_segments; i++)
		if (disk->seg[i].state == state)
			return i;
	return KV_NONE;
}

/* If it is sealed. Flushes may end out of order: a younger one is not to go in its place. */
static u32 oldest_sealed(const struct kvmm_disk *disk)
{
	u32 oldest = KV_NONE;

	kv_assert_held(&disk->lock);
	for (u32 i = 0; i < disk->shape.nr_segments; i++) {
		const struct disk_seg *seg = &disk->seg[i];

		if (seg->state > SEG_OPEN &&
		    (oldest == KV_NONE || seg->seq < disk->seg[oldest].seq))
			oldest = i;
	}
	if (oldest == KV_NONE || disk->seg[oldest].state != SEG_SEALED ||
	    disk->seg[oldest].nr_writes)
		return KV_NONE;
	return oldest;
}

/* With the last free segment in use the oldest is next: its best records go along until then. */
static void choose_next(struct kvmm_disk *disk)
{
	kv_assert_held(&disk->lock);
	if (first_in_state(disk, SEG_ABSENT) == KV_NONE &&
	    first_in_state(disk, SEG_FREE) == KV_NONE)
		disk_drain_begin(disk, oldest_sealed(disk));
}

/* Entries that move up while one is deleted are looked at again, or have been. */
static void empty_segment(struct kvmm_disk *disk, u32 segment)
{
	struct disk_index *index = &disk->index;
	struct disk_seg *seg = &disk->seg[segment];
	u32 i = 0;

	kv_assert_held(&disk->lock);
	if (disk->drain.seq && disk->drain.segment == segment)
		disk_drain_end(disk);
	disk->count.nr_reclaimed++;
	disk->count.nr_dropped += seg->nr_entries;
	kv_age_add(&disk->count.evict_age, seg->since_ns, kv_clock_ns(), seg->nr_entries);
	while (seg->nr_entries && i < index->nr_slots) {
		struct disk_entry *entry = &index->entry[i];

		if (entry->state && entry->segment == segment)
			disk_entry_drop(disk, entry);
		else
			i++;
	}
	KV_BUG_ON(seg->nr_entries);
	seg->state = SEG_FREE;
}

/* Segments come into being in order, so the file ends behind the last one. */
int disk_extend(struct kvmm_disk *disk)
{
	const struct kv_file_ops *ops = disk->ops;
	u32 segment = first_in_state(disk, SEG_ABSENT);
	u64 offset = disk_offset(&disk->shape, segment, 0), bytes = disk->shape.segment_bytes;
	int err = 0;

	kv_assert_held(&disk->lock);
	if (segment == KV_NONE)
		return 0;
	if (disk->extends) {
		kv_unlock(&disk->lock);
		disk_io_nap(disk);
		kv_lock(&disk->lock);
		return 0;
	}
	disk->extends = true;
	kv_unlock(&disk->lock);
	err = kv_file_allocate(ops, disk->file, offset, bytes);
	/* A file system that cannot promise room may still have some. */
	if (err == -EOPNOTSUPP)
		err = ops->truncate(ops->ctx, disk->file, offset + bytes);
	kv_lock(&disk->lock);
	disk->extends = false;
	if (err) {
		disk->count.nr_no_room++;
		/* A limit on the size of files: -EFBIG would mean "make it longer first". */
		return err == -EFBIG ? -ENOSPC : err;
	}
	disk->file_bytes = offset + bytes;
	disk->seg[segment].state = SEG_FREE;
	return 0;
}

/* One without entries: a free one, a new one, or the oldest. */
static int find_segment(struct kvmm_disk *disk, int no_room, u32 *segment)
{
	bool has_absent = first_in_state(disk, SEG_ABSENT) != KV_NONE;

	kv_assert_held(&disk->lock);
	*segment = first_in_state(disk, SEG_FREE);
	if (*segment != KV_NONE)
		return 0;
	if (has_absent && !no_room)
		return -EFBIG;
	*segment = oldest_sealed(disk);
	if (*segment == KV_NONE)
		return !has_absent || first_in_state(disk, SEG_SEALING) != KV_NONE ||
		       first_in_state(disk, SEG_FOOTER) != KV_NONE ? -EAGAIN : no_room;
	empty_segment(disk, *segment);
	return 0;
}

static int write_head(struct kvmm_disk *disk, u32 segment)
{
	struct disk_req *req = disk_req_alloc(DISK_HEAD, 1);
	struct disk_seg *seg = &disk->seg[segment];

	kv_assert_held(&disk->lock);
	kv_assert(!seg->nr_writes && !seg->behind);
	if (!req)
		return -ENOMEM;
	disk_head_fill(&disk->shape, segment, seg->seq, (struct kv_disk_head *)(void *)req->pages);
	req->segment = segment;
	queue_pages(disk, req, 0);
	seg->nr_writes = 1;
	seg->awaits_head = true;
	seg->head_error = 0;
	return 0;
}

bool disk_awaits_head(struct kvmm_disk *disk, struct disk_io *io)
{
	struct disk_seg *seg = &disk->seg[io->req->rec[io->first].segment];
	bool awaits_head;

	kv_lock(&disk->lock);
	kv_assert(seg->nr_writes);
	disk->count.nr_write_errors += !!io->err;
	awaits_head = seg->awaits_head;
	if (awaits_head) {
		io->next = seg->behind;
		seg->behind = io;
	} else if (!io->err) {
		io->err = seg->head_error;
	}
	kv_unlock(&disk->lock);
	return awaits_head;
}

void disk_head_over(struct kvmm_disk *disk, struct disk_io *io)
{
	u32 segment = io->req->segment;
	struct disk_seg *seg = &disk->seg[segment];
	struct disk_io *behind, *next;

	kv_lock(&disk->lock);
	kv_assert(seg->awaits_head);
	seg->awaits_head = false;
	seg->head_error = io->err;
	disk->count.nr_write_errors += !!io->err;
	behind = seg->behind;
	seg->behind = NULL;
	kv_unlock(&disk->lock);
	for (; behind; behind = next) {
		next = behind->next;
		if (!behind->err)
			behind->err = io->err;
		disk_records_over(disk, behind);
	}
	kv_lock(&disk->lock);
	disk_write_over(disk, segment, 1, io->err);
	kv_unlock(&disk->lock);
	disk_req_free(io->req);
}

static int open_segment(struct kvmm_disk *disk, u32 segment)
{
	struct disk_seg *seg = &disk->seg[segment];
	int err;

	kv_assert(segment < disk->shape.nr_segments);
	seg->seq = ++disk->seq;
	err = write_head(disk, segment);
	if (err)
		return err;
	seg->state = SEG_OPEN;
	seg->since_ns = kv_clock_ns();
	seg->used_pages = 1;
	seg->failed = false;
	disk->open = segment;
	return 0;
}

int disk_place(struct kvmm_disk *disk, struct disk_rec *rec, int no_room)
{
	u32 pages = 1 + disk_pages(rec->bytes);
	struct disk_seg *seg = disk->open == KV_NONE ? NULL : &disk->seg[disk->open];
	u32 segment;
	int err;

	kv_assert_held(&disk->lock);
	if (disk->read_only)
		return -EROFS;
	if (!seg || seg->used_pages + pages + disk_footer_pages(seg->nr_records + 1) >
		    disk->shape.pages) {
		if (seg)
			disk_close_segment(disk);
		err = find_segment(disk, no_room, &segment);
		if (!err)
			err = open_segment(disk, segment);
		if (err)
			return err;
		choose_next(disk);
		seg = &disk->seg[segment];
	}
	kv_assert(seg->state == SEG_OPEN);
	err = disk_table_reserve(seg);
	if (err)
		return err;
	rec->segment = disk->open;
	rec->page = seg->used_pages;
	rec->seq = seg->seq;
	rec->slot = seg->nr_records++;
	rec->is_placed = true;
	seg->nr_writes++;
	seg->table[rec->slot] = (struct kv_disk_record){ 0 };
	seg->used_pages += pages;
	kv_assert(seg->used_pages < disk->shape.pages);
	return 0;
}

/* ---- recount ---- */

static int broken(const char *what)
{
	kv_log(KV_LOG_ERR, "disk: segments are inconsistent: %s", what);
	return -EUCLEAN;
}

static int check_segment(struct kvmm_disk *disk, u32 segment, u32 nr_entries)
{
	const struct disk_seg *seg = &disk->seg[segment];

	kv_assert_held(&disk->lock);
	if (seg->nr_entries != nr_entries)
		return broken("the number of entries of one");
	if ((seg->state == SEG_OPEN) != (disk->open == segment))
		return broken("which one is open");
	if (seg->state <= SEG_FREE && (nr_entries || seg->nr_writes))
		return broken("an empty one is in use");
	if (seg->awaits_head ? !seg->nr_writes : seg->behind != NULL)
		return broken("what waits for a head");
	if (seg->state == SEG_OPEN && (seg->used_pages + disk_footer_pages(seg->nr_records) >
				       disk->shape.pages || seg->nr_records > seg->table_room))
		return broken("one is too full");
	if (seg->state != SEG_ABSENT &&
	    disk_offset(&disk->shape, segment + 1, 0) > disk->file_bytes)
		return broken("one is beyond the end");
	return seg->seq > disk->seq ? broken("one is from the future") : 0;
}

static u64 nr_ages(const struct kvmm_residency_stat *ages)
{
	u64 nr = 0;

	for (u32 i = 0; i <= KVMM_RESIDENCY_BOUNDS; i++)
		nr += ages->bucket[i];
	return nr;
}

int disk_segments_check(struct kvmm_disk *disk)
{
	u32 nr = disk->shape.nr_segments, *entries = kv_alloc_array(nr, sizeof(*entries));
	int err = entries ? 0 : -ENOMEM;

	for (u32 i = 0; !err && i < disk->index.nr_slots; i++)
		if (disk->index.entry[i].state)
			entries[disk->index.entry[i].segment]++;
	for (u32 i = 0; !err && i < nr; i++)
		err = check_segment(disk, i, entries[i]);
	if (!err && disk->file_bytes > disk->max_bytes)
		err = broken("the file is too long");
	if (!err && (nr_ages(&disk->count.hit_age) != disk->count.nr_got ||
		     nr_ages(&disk->count.evict_age) != disk->count.nr_dropped))
		err = broken("ages of records");
	kv_free(entries);
	return err;
}
