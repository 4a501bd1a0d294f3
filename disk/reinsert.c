// SPDX-License-Identifier: Apache-2.0
/*
 * Records that go along when their segment is used again.
 *
 * They are those of the next segment to go that were read more often than half of all records, the
 * most often read ones first, in at most a quarter of a segment. They are read and appended one at
 * a time while the current segment is being filled; records not done by then stay behind. A record
 * that went along has half its value, or it would stay for ever.
 */
#include <string.h>

#include <kv/mem.h>
#include <kv/sort.h>

#include "internal.h"

#define SHARE		4u	/* of a segment that may go along: one in so many */

/* All of @value and above go along, and of the next lower value as many as fit into @room pages. */
struct choice {
	u32	segment;
	u32	value;
	u64	room;
	bool	has_next;
};

static bool is_in(const struct disk_entry *entry, u32 segment)
{
	return entry->state == DISK_LIVE && entry->segment == segment;
}

static u32 pages_of(const struct kvmm_disk *disk, const struct disk_entry *entry)
{
	kv_assert_held(&disk->lock);
	return 1 + disk_pages(disk_entry_bytes(&disk->index, entry));
}

static struct choice choose(const struct kvmm_disk *disk, u32 segment)
{
	struct choice choice = { segment, DISK_NR_VALUES, disk->shape.pages / SHARE, false };
	u32 median = disk_index_median(&disk->index), pages[DISK_NR_VALUES] = { 0 };

	kv_assert_held(&disk->lock);
	for (u32 i = 0; i < disk->index.nr_slots; i++) {
		const struct disk_entry *entry = &disk->index.entry[i];

		if (is_in(entry, segment))
			pages[entry->value] += pages_of(disk, entry);
	}
	while (choice.value > median + 1 && pages[choice.value - 1] <= choice.room)
		choice.room -= pages[--choice.value];
	choice.has_next = choice.value > median + 1;
	return choice;
}

static bool is_chosen(const struct kvmm_disk *disk, const struct disk_entry *entry,
		      struct choice *choice)
{
	u32 pages;

	kv_assert_held(&disk->lock);
	if (!is_in(entry, choice->segment) || entry->value + 1 < choice->value)
		return false;
	if (entry->value >= choice->value)
		return true;
	pages = pages_of(disk, entry);
	if (!choice->has_next || pages > choice->room)
		return false;
	choice->room -= pages;
	return true;
}

static bool lies_behind(const struct disk_entry *a, const struct disk_entry *b, const void *arg)
{
	return a->page > b->page;
}

/* Without memory for the list nothing goes along. */
void disk_drain_begin(struct kvmm_disk *disk, u32 segment)
{
	struct disk_drain *drain = &disk->drain;
	struct choice choice;

	kv_assert(segment == KV_NONE || segment < disk->shape.nr_segments);
	if (segment == KV_NONE || drain->seq || !disk->seg[segment].nr_entries)
		return;
	/* Once only: a quarter is a quarter. */
	if (drain->last_seq == disk->seg[segment].seq)
		return;
	drain->last_seq = disk->seg[segment].seq;
	choice = choose(disk, segment);
	drain->entry = kv_alloc_array(disk->seg[segment].nr_entries, sizeof(*drain->entry));
	if (!drain->entry)
		return;
	drain->nr = drain->next = 0;
	for (u32 i = 0; i < disk->index.nr_slots; i++)
		if (is_chosen(disk, &disk->index.entry[i], &choice))
			drain->entry[drain->nr++] = disk->index.entry[i];
	kv_assert(drain->nr <= disk->seg[segment].nr_entries);
	/* In the order in which they lie, so that neighbours stay together. */
	kv_sort(drain->entry, drain->nr, lies_behind, NULL);
	drain->segment = segment;
	WRITE_ONCE(drain->seq, disk->seg[segment].seq);
}

void disk_drain_end(struct kvmm_disk *disk)
{
	kv_free(disk->drain.entry);
	disk->drain.entry = NULL;
	WRITE_ONCE(disk->drain.seq, 0);
}

/* The next one that is still there, as the record of a request: or false. */
static bool take_next(struct kvmm_disk *disk, struct disk_rec *rec)
{
	struct disk_drain *drain = &disk->drain;

	kv_assert_held(&disk->lock);
	while (drain->seq && !drain->busy && !disk->read_only) {
		const struct disk_entry *entry;

		if (drain->next == drain->nr) {
			disk_drain_end(disk);
			return false;
		}
		entry = &drain->entry[drain->next++];
		*rec = (struct disk_rec){
			.fp = entry->fp, .segment = entry->segment, .page = entry->page,
			.seq = drain->seq, .wants_bounce = true, .is_placed = true,
		};
		entry = disk_entry_of(disk, rec);
		if (!entry || entry->state != DISK_LIVE)
			continue;
		rec->bytes = disk_entry_bytes(&disk->index, entry);
		drain->busy = true;
		return true;
	}
	return false;
}

static void copy_ends(struct kvmm_disk *disk)
{
	kv_assert_held(&disk->lock);
	kv_assert(disk->drain.busy);
	disk->drain.busy = false;
}

void disk_drain_step(struct kvmm_disk *disk)
{
	struct disk_req *req;
	struct disk_rec rec;
	bool found;

	if (!READ_ONCE(disk->drain.seq))
		return;
	kv_lock(&disk->lock);
	found = take_next(disk, &rec);
	kv_unlock(&disk->lock);
	if (!found)
		return;
	req = disk_req_alloc(DISK_COPY_GET, 1);
	if (req) {
		rec.req = req;
		rec.header = req->rec[0].header;
		req->rec[0] = rec;
	}
	if (req && disk_req_bounce(req)) {
		disk_req_free(req);
		req = NULL;
	}
	kv_lock(&disk->lock);
	if (req)
		disk_io_queue(disk, disk_req_io(disk, req, 0, 1));
	else
		copy_ends(disk);
	kv_unlock(&disk->lock);
}

/* Its entry stays with the old place until the new one is good. */
static bool place_copy(struct kvmm_disk *disk, struct disk_req *req)
{
	struct disk_rec *rec = &req->rec[0];
	struct disk_rec fresh = { .bytes = rec->bytes };

	kv_assert_held(&disk->lock);
	/* Where the file can be longer yet nothing has to go along. */
	if (!disk_entry_of(disk, rec) || disk_place(disk, &fresh, -ENOSPC))
		return false;
	/* Its own segment may have been the next one to be used. */
	if (!disk_entry_of(disk, rec)) {
		disk_write_over(disk, fresh.segment, 1, false);
		return false;
	}
	req->old_segment = rec->segment;
	req->old_page = rec->page;
	req->old_seq = rec->seq;
	rec->segment = fresh.segment;
	rec->page = fresh.page;
	rec->seq = fresh.seq;
	rec->slot = fresh.slot;
	req->kind = DISK_COPY_PUT;
	return true;
}

void disk_copy_read(struct kvmm_disk *disk, struct disk_req *req, int err)
{
	struct disk_rec *rec = &req->rec[0];
	bool good;

	kv_assert_not_held(&disk->lock);
	/* The name is the record's own: its fingerprint says that it is the right one. */
	rec->name = rec->header->name;
	good = !err && disk_same_fp(disk_fp_of(&disk->index, &rec->name), rec->fp) &&
	       !disk_rec_verify(disk, rec);
	kv_lock(&disk->lock);
	disk->count.nr_read_errors += !!err;
	good = good && place_copy(disk, req);
	if (!good)
		copy_ends(disk);
	kv_unlock(&disk->lock);
	if (!good) {
		disk_req_free(req);
		return;
	}
	rec->header->seq = rec->seq;
	rec->header->page = rec->page;
	kv_disk_seal(rec->header);
	kv_lock(&disk->lock);
	req->nr_ios = 0;
	disk_io_queue(disk, disk_req_io(disk, req, 0, 1));
	kv_unlock(&disk->lock);
}

/* If the old place still has one. */
static void move_entry(struct kvmm_disk *disk, struct disk_req *req)
{
	const struct disk_rec *rec = &req->rec[0];
	struct disk_rec old = { .fp = rec->fp, .segment = req->old_segment,
				.page = req->old_page, .seq = req->old_seq };
	struct disk_entry *entry = disk_entry_of(disk, &old);

	kv_assert_held(&disk->lock);
	kv_assert(req->kind == DISK_COPY_PUT);
	if (!entry || entry->state != DISK_LIVE)
		return;
	kv_assert(disk->seg[entry->segment].nr_entries);
	disk->seg[entry->segment].nr_entries--;
	disk->seg[rec->segment].nr_entries++;
	entry->segment = rec->segment;
	entry->page = rec->page;
	disk_index_set_value(&disk->index, entry, entry->value / 2);
	disk->seg[rec->segment].table[rec->slot] = *rec->header;
	disk->count.nr_reinserted++;
}

/* If the record was wiped meanwhile, the mark covers the new place, too, given out before. */
void disk_copy_written(struct kvmm_disk *disk, struct disk_io *io)
{
	struct disk_req *req = io->req;

	kv_lock(&disk->lock);
	if (!io->err)
		move_entry(disk, req);
	disk_write_over(disk, req->rec[0].segment, 1, io->err);
	copy_ends(disk);
	kv_unlock(&disk->lock);
	disk_req_free(req);
}
