// SPDX-License-Identifier: Apache-2.0
/*
 * Writing records.
 *
 * Checksums and copies first, under no lock; then places for all of them at one go, so that a run
 * of records lies in one piece; then the headers, which have the places in them; then the
 * transfers. A record has an entry from the moment it has a place, but is a hit only once it is
 * written. A call that forgets it in between takes the entry away: the record is then marked
 * dead, or a restart would find it again.
 */
#include <string.h>

#include <kv/mem.h>

#include <kvmm/event.h>

#include "internal.h"

static bool put_is_good(const struct kvmm_disk *disk, const struct kvmm_disk_put *put)
{
	return put->data && put->bytes && put->bytes <= disk_max_record(&disk->shape) &&
	       put->parent_bytes <= KVMM_DISK_MAX_KEY && disk_name_is_good(&put->name);
}

static bool is_direct(const struct kvmm_disk *disk, const void *data, u32 bytes)
{
	return !(bytes % KV_DISK_PAGE) &&
	       (!disk->is_direct || !((uintptr_t)data % KV_DISK_PAGE));
}

static void fill_header(const struct kvmm_disk *disk, const struct kvmm_disk_put *put,
			struct kv_disk_record *header)
{
	*header = (struct kv_disk_record){
		.magic = KV_DISK_RECORD_MAGIC, .version = KV_DISK_VERSION,
		.uuid = { disk->shape.uuid[0], disk->shape.uuid[1] },
		.bytes = put->bytes, .sum = kv_disk_sum(put->data, put->bytes),
		.position = put->position, .value = put->value,
		.parent_bytes = put->parent_bytes, .name = put->name,
	};
	memcpy(header->parent, put->parent, put->parent_bytes);
}

static void fill_rec(struct kvmm_disk *disk, const struct kvmm_disk_put *put, struct disk_rec *rec)
{
	rec->fp = disk_fp_of(&disk->index, &put->name);
	rec->data = (char *)put->data;
	rec->bytes = put->bytes;
	rec->wants_bounce = !is_direct(disk, put->data, put->bytes);
	fill_header(disk, put, rec->header);
}

static struct disk_req *make(struct kvmm_disk *disk, const struct kvmm_disk_put *puts, u32 nr)
{
	struct disk_req *req = disk_req_alloc(DISK_PUT, nr);

	if (!req)
		return NULL;
	for (u32 i = 0; i < nr; i++)
		fill_rec(disk, &puts[i], &req->rec[i]);
	if (disk_req_bounce(req)) {
		disk_req_free(req);
		return NULL;
	}
	for (u32 i = 0; i < nr; i++)
		if (req->rec[i].bounce)
			memcpy(req->rec[i].bounce, puts[i].data, puts[i].bytes);
	return req;
}

/* Opening a segment may have dropped entries, so the old one is looked for again. */
static int place(struct kvmm_disk *disk, struct disk_rec *rec)
{
	const struct kv_disk_record *header = rec->header;
	int class = disk_index_class(&disk->index, &header->name, header->bytes), err;
	struct disk_entry *old;

	kv_assert_held(&disk->lock);
	if (class < 0)
		return class;
	err = disk_place(disk, rec);
	if (err)
		return err;
	old = disk_index_find(&disk->index, rec->fp);
	if (old)
		disk_entry_drop(disk, old);
	disk_entry_add(disk, &(struct disk_entry){
		.fp = rec->fp, .segment = rec->segment, .page = rec->page, .class = class,
		.value = header->value, .state = DISK_WRITING,
	});
	disk_entry_name(disk, rec->fp, &header->name, header->position);
	disk->count.nr_copied += !!rec->bounce;
	return 0;
}

static int place_unless_there(struct kvmm_disk *disk, struct disk_rec *rec)
{
	const struct disk_entry *entry = disk_index_find(&disk->index, rec->fp);

	kv_assert_held(&disk->lock);
	if (entry && (entry->state != DISK_LIVE || !(rec->req->flags & KVMM_DISK_REPLACE)))
		return -EEXIST;
	return place(disk, rec);
}

/* Transfers for records with a place; the others are done already. How many transfers there are. */
static u32 make_ios(struct kvmm_disk *disk, struct disk_req *req)
{
	u32 nr, nr_ios = 0;

	for (u32 i = 0; i < req->nr; i += nr) {
		struct disk_rec *rec = &req->rec[i];

		nr = 1;
		if (!rec->is_placed)
			continue;
		nr = disk_req_joined(req, i);
		disk_req_io(disk, req, i, nr);
		nr_ios++;
	}
	for (u32 i = 0; i < req->nr; i++)
		if (!req->rec[i].is_placed)
			disk_rec_done(disk, &req->rec[i], req->rec[i].status);
	return nr_ios;
}

/* A request without transfers may be gone on return. */
static int place_all(struct kvmm_disk *disk, struct disk_req *req, u32 *nr_ios)
{
	int err;

	kv_lock(&disk->lock);
	err = disk_index_reserve(&disk->index, req->nr);
	if (!err) {
		disk_req_link(disk, req);
		for (u32 i = 0; i < req->nr; i++)
			req->rec[i].status = place_unless_there(disk, &req->rec[i]);
		*nr_ios = make_ios(disk, req);
	}
	kv_unlock(&disk->lock);
	return err;
}

static void seal_headers(struct disk_req *req)
{
	for (u32 i = 0; i < req->nr; i++) {
		struct disk_rec *rec = &req->rec[i];

		if (!rec->is_placed)
			continue;
		rec->header->seq = rec->seq;
		rec->header->page = rec->page;
		kv_disk_seal(rec->header);
	}
}

static void queue_ios(struct kvmm_disk *disk, struct disk_req *req)
{
	kv_lock(&disk->lock);
	for (u32 i = 0; i < req->nr_ios; i++)
		disk_io_queue(disk, &req->io[i]);
	kv_unlock(&disk->lock);
	disk_io_pump(disk);
}

/* On failure @req is the caller's again. */
static int start(struct kvmm_disk *disk, struct disk_req *req)
{
	u32 nr_ios = 0;
	int err = place_all(disk, req, &nr_ios);

	if (!err && nr_ios) {
		seal_headers(req);
		queue_ios(disk, req);
	}
	return err;
}

/* ---- it is written ---- */

/* First half, before the completion: a hit, or none. */
static void settle(struct kvmm_disk *disk, struct disk_io *io, struct disk_rec *rec)
{
	struct disk_entry *entry = disk_entry_of(disk, rec);

	kv_assert_held(&disk->lock);
	rec->status = io->err;
	if (!io->err && (!entry || io->req->aborted)) {
		rec->status = -ECANCELED;
		rec->is_orphan = true;
	}
	if (!entry)
		return;
	if (rec->status) {
		disk_entry_drop(disk, entry);
		return;
	}
	disk_index_set_state(&disk->index, entry, DISK_LIVE);
	disk_tell(disk, entry, KVMM_EVENT_STORED);
	disk->seg[rec->segment].table[rec->slot] = *rec->header;
	disk->count.nr_put++;
	disk->count.put_bytes += rec->bytes;
}

/* Its slot in the table stays a hole; where no footer will be the header says that it is dead. */
static int bury(struct kvmm_disk *disk, struct disk_rec *rec)
{
	struct kv_iov iov = { rec->header, KV_DISK_PAGE };

	rec->header->flags |= KV_DISK_DEAD;
	kv_disk_seal(rec->header);
	return kv_file_write_all(disk->ops, disk->file, &iov, 1,
				 disk_offset(&disk->shape, rec->segment, rec->page));
}

static u32 bury_orphans(struct kvmm_disk *disk, struct disk_rec *rec, u32 nr)
{
	u32 nr_failed = 0;

	for (u32 i = 0; i < nr; i++)
		if (rec[i].is_orphan)
			nr_failed += !!bury(disk, &rec[i]);
	return nr_failed;
}

/* While the write counts as under way its segment is neither sealed nor used again. */
void disk_put_over(struct kvmm_disk *disk, struct disk_io *io)
{
	struct disk_rec *rec = &io->req->rec[io->first];
	u32 nr = io->nr, segment = rec->segment, nr_failed;
	bool failed = io->err;

	kv_lock(&disk->lock);
	for (u32 i = 0; i < nr; i++)
		settle(disk, io, &rec[i]);
	kv_unlock(&disk->lock);

	nr_failed = bury_orphans(disk, rec, nr);

	kv_lock(&disk->lock);
	disk->count.nr_write_errors += nr_failed;
	for (u32 i = 0; i < nr; i++)
		disk_rec_done(disk, &rec[i], rec[i].status);
	disk_write_over(disk, segment, nr, failed);
	kv_unlock(&disk->lock);
}

void disk_put_cancel(struct kvmm_disk *disk, struct disk_io *io)
{
	struct disk_rec *rec = &io->req->rec[io->first];

	kv_assert_held(&disk->lock);
	for (u32 i = 0; i < io->nr; i++) {
		struct disk_entry *entry = disk_entry_of(disk, &rec[i]);

		if (entry)
			disk_entry_drop(disk, entry);
	}
	disk_write_over(disk, rec->segment, io->nr, false);
}

/* ---- calls ---- */

static int check_puts(const struct kvmm_disk *disk, const struct kvmm_disk_put *puts, u32 nr,
		      u32 flags)
{
	if (!disk || !puts || !nr || nr > KVMM_DISK_MAX_BATCH || flags & ~KVMM_DISK_REPLACE)
		return -EINVAL;
	if (disk_is_dead(disk))
		return -ECHILD;
	for (u32 i = 0; i < nr; i++)
		if (!put_is_good(disk, &puts[i]))
			return -EINVAL;
	return 0;
}

int kvmm_disk_submit_put(struct kvmm_disk *disk, const struct kvmm_disk_put *puts, uint32_t nr,
			 uint32_t flags, uint64_t tag)
{
	struct disk_req *req;
	int err = check_puts(disk, puts, nr, flags);

	if (err)
		return err;
	req = make(disk, puts, nr);
	if (!req)
		return -ENOMEM;
	req->tag = tag;
	req->flags = flags;
	err = start(disk, req);
	if (err)
		disk_req_free(req);
	return err;
}

static int put_and_wait(struct kvmm_disk *disk, const struct kvmm_disk_put *puts, u32 nr, u32 flags,
			s32 *status)
{
	struct disk_req *req = make(disk, puts, nr);
	int err;

	if (!req)
		return -ENOMEM;
	req->flags = flags;
	req->waited_for = true;
	err = start(disk, req);
	if (!err) {
		disk_req_wait(disk, req);
		for (u32 i = 0; i < nr; i++)
			status[i] = req->rec[i].status;
	}
	disk_req_free(req);
	return err;
}

/* Segments that are being sealed are finished some time, or count as failed. */
static int put_again(struct kvmm_disk *disk, const struct kvmm_disk_put *put, u32 flags,
		     s32 *status)
{
	int err = 0;

	while (!err && *status == -EAGAIN) {
		disk_io_progress(disk, true);
		err = put_and_wait(disk, put, 1, flags, status);
	}
	return err;
}

int kvmm_disk_put(struct kvmm_disk *disk, const struct kvmm_disk_put *puts, uint32_t nr,
		  uint32_t flags, int32_t *status)
{
	int err = check_puts(disk, puts, nr, flags), nr_good = 0;
	s32 *seen;

	if (err)
		return err;
	seen = status ? status : kv_alloc_array(nr, sizeof(*seen));
	if (!seen)
		return -ENOMEM;
	err = put_and_wait(disk, puts, nr, flags, seen);
	for (u32 i = 0; !err && i < nr; i++) {
		err = put_again(disk, &puts[i], flags, &seen[i]);
		nr_good += !seen[i] || seen[i] == -EEXIST;
	}
	if (!status)
		kv_free(seen);
	return err ? err : nr_good;
}
