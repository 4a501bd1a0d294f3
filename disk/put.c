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

static struct disk_req *make(struct kvmm_disk *disk, const struct kvmm_disk_put_args *puts, u32 nr)
{
	struct disk_req *req = disk_req_alloc(DISK_PUT, nr);

	kv_assert_not_held(&disk->lock);
	if (!req)
		return NULL;
	for (u32 i = 0; i < nr; i++) {
		const struct kvmm_disk_put_args *put = &puts[i];
		struct disk_rec *rec = &req->rec[i];

		rec->fp = disk_fp_of(&disk->index, &put->name);
		rec->data = (char *)put->data;
		rec->bytes = put->bytes;
		rec->wants_bounce = put->bytes % KV_DISK_PAGE ||
				    (disk->is_direct && (uintptr_t)put->data % KV_DISK_PAGE);
		*rec->header = (struct kv_disk_record){
			.magic = KV_DISK_RECORD_MAGIC, .version = KV_DISK_VERSION,
			.uuid = { disk->shape.uuid[0], disk->shape.uuid[1] },
			.bytes = put->bytes, .sum = kv_disk_sum(put->data, put->bytes),
			.position = put->position, .value = put->value,
			.parent_bytes = put->parent_bytes, .name = put->name,
		};
		memcpy(rec->header->parent, put->parent, put->parent_bytes);
	}
	if (disk_req_bounce(req)) {
		disk_req_free(req);
		return NULL;
	}
	for (u32 i = 0; i < nr; i++)
		if (req->rec[i].bounce)
			memcpy(req->rec[i].bounce, puts[i].data, puts[i].bytes);
	return req;
}

/* Unless it is there. Opening a segment may drop entries, so the old one is looked for again. */
static int place(struct kvmm_disk *disk, struct disk_rec *rec, int no_room)
{
	const struct kv_disk_record *header = rec->header;
	struct disk_entry *old = disk_index_find(&disk->index, rec->fp);
	int class, err;

	kv_assert_held(&disk->lock);
	if (old && (old->state != DISK_LIVE || !(rec->req->flags & KVMM_DISK_REPLACE)))
		return -EEXIST;
	class = disk_index_class(&disk->index, &header->name, header->bytes);
	if (class < 0)
		return class;
	err = disk_place(disk, rec, no_room);
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

/* Drops the lock and takes it again where the file is made longer: other threads put, too. */
static int place_or_extend(struct kvmm_disk *disk, struct disk_req *req, u32 i)
{
	int err, no_room = 0;

	kv_assert_held(&disk->lock);
	while ((err = place(disk, &req->rec[i], no_room)) == -EFBIG) {
		no_room = disk_extend(disk);
		err = disk_index_reserve(&disk->index, req->nr - i);
		if (err)
			break;
	}
	return err;
}

/* On failure @req is the caller's again; a request without transfers may be gone on return. */
static int start(struct kvmm_disk *disk, struct disk_req *req)
{
	u32 nr, nr_ios = 0;
	int err;

	kv_lock(&disk->lock);
	err = disk_index_reserve(&disk->index, req->nr);
	if (err) {
		kv_unlock(&disk->lock);
		return err;
	}
	for (u32 i = 0; i < req->nr; i++)
		req->rec[i].status = place_or_extend(disk, req, i);
	for (u32 i = 0; i < req->nr; i += nr) {
		nr = 1;
		if (!req->rec[i].is_placed)
			continue;
		nr = disk_req_joined(req, i);
		disk_req_io(disk, req, i, nr);
		nr_ios++;
	}
	for (u32 i = 0; i < req->nr; i++)
		if (!req->rec[i].is_placed)
			disk_rec_done(disk, &req->rec[i], req->rec[i].status);
	kv_unlock(&disk->lock);
	if (!nr_ios)
		return 0;

	for (u32 i = 0; i < req->nr; i++) {
		struct disk_rec *rec = &req->rec[i];

		if (!rec->is_placed)
			continue;
		rec->header->seq = rec->seq;
		rec->header->page = rec->page;
		kv_disk_seal(rec->header);
	}
	kv_lock(&disk->lock);
	for (u32 i = 0; i < nr_ios; i++)
		disk_io_queue(disk, &req->io[i]);
	kv_unlock(&disk->lock);
	disk_io_pump(disk);
	return 0;
}

/* ---- it is written ---- */

/* First half, before the completion: a hit, or none. */
static void settle(struct kvmm_disk *disk, struct disk_io *io, struct disk_rec *rec)
{
	struct disk_entry *entry = disk_entry_of(disk, rec);

	kv_assert_held(&disk->lock);
	rec->status = io->err;
	if (!io->err && !entry) {
		rec->status = -ECANCELED;
		rec->is_orphan = true;
	}
	if (!entry)
		return;
	if (rec->status) {
		disk_entry_drop(disk, entry);
		return;
	}
	kv_assert(entry->state == DISK_WRITING);
	kv_assert(rec->slot < disk->seg[rec->segment].nr_records);
	disk_index_set_state(&disk->index, entry, DISK_LIVE);
	disk_tell(disk, entry, KVMM_EVENT_STORED);
	disk->seg[rec->segment].table[rec->slot] = *rec->header;
	disk->count.nr_put++;
	disk->count.put_bytes += rec->bytes;
}

/* While the write counts as under way its segment is neither sealed nor used again. */
void disk_put_over(struct kvmm_disk *disk, struct disk_io *io)
{
	struct disk_rec *rec = &io->req->rec[io->first];
	u32 nr = io->nr, segment = rec->segment, nr_failed = 0;
	bool failed = io->err;

	kv_lock(&disk->lock);
	for (u32 i = 0; i < nr; i++)
		settle(disk, io, &rec[i]);
	kv_unlock(&disk->lock);

	/* Its slot in the table stays a hole; without a footer the header says that it is dead. */
	for (u32 i = 0; i < nr; i++) {
		struct kv_iov iov = { rec[i].header, KV_DISK_PAGE };

		if (!rec[i].is_orphan)
			continue;
		kv_assert_not_held(&disk->lock);
		kv_assert(disk->seg[rec[i].segment].seq == rec[i].seq);
		rec[i].header->flags |= KV_DISK_DEAD;
		kv_disk_seal(rec[i].header);
		nr_failed += !!kv_file_write_all(disk->ops, disk->file, &iov, 1,
						 disk_offset(&disk->shape, rec[i].segment,
							     rec[i].page));
	}

	kv_lock(&disk->lock);
	disk->count.nr_write_errors += nr_failed;
	for (u32 i = 0; i < nr; i++)
		disk_rec_done(disk, &rec[i], rec[i].status);
	disk_write_over(disk, segment, nr, failed);
	kv_unlock(&disk->lock);
}

/* ---- calls ---- */

static int check_puts(const struct kvmm_disk *disk, const struct kvmm_disk_put_args *puts, u32 nr,
		      u32 flags)
{
	if (!disk || !puts || !nr || nr > KVMM_DISK_MAX_BATCH || flags & ~KVMM_DISK_REPLACE)
		return -EINVAL;
	if (kv_inherited(disk))
		return -ECHILD;
	for (u32 i = 0; i < nr; i++)
		if (!puts[i].data || !puts[i].bytes ||
		    puts[i].bytes > disk_max_record(&disk->shape) ||
		    puts[i].parent_bytes > KVMM_DISK_MAX_KEY || !disk_name_is_good(&puts[i].name))
			return -EINVAL;
	return 0;
}

/* @status: of each, once it is waited for; NULL: not waited for, there are completions of @tag. */
static int submit(struct kvmm_disk *disk, const struct kvmm_disk_put_args *puts, u32 nr, u32 flags,
		  u64 tag, s32 *status)
{
	struct disk_req *req = make(disk, puts, nr);
	int err;

	if (!req)
		return -ENOMEM;
	req->tag = tag;
	req->flags = flags;
	req->waited_for = status;
	err = start(disk, req);
	if (!err && !status)
		return 0;
	if (!err) {
		disk_req_wait(disk, req);
		for (u32 i = 0; i < nr; i++)
			status[i] = req->rec[i].status;
	}
	disk_req_free(req);
	return err;
}

int kv_disk_submit_put(struct kvmm_disk *disk, const struct kvmm_disk_put_args *puts, u32 nr,
		       u32 flags, u64 tag)
{
	int err = check_puts(disk, puts, nr, flags);

	return err ? err : submit(disk, puts, nr, flags, tag, NULL);
}

int kvmm_disk_put_sized(struct kvmm_disk *disk, const struct kvmm_disk_put_args *puts, uint32_t nr,
			uint32_t flags, int32_t *status, size_t size)
{
	int err = size == sizeof(*puts) ? check_puts(disk, puts, nr, flags) : -EINVAL, nr_good = 0;
	s32 *seen;

	if (err)
		return err;
	seen = status ? status : kv_alloc_array(nr, sizeof(*seen));
	if (!seen)
		return -ENOMEM;
	err = submit(disk, puts, nr, flags, 0, seen);
	for (u32 i = 0; !err && i < nr; i++) {
		/* Segments that are being sealed are finished some time, or count as failed. */
		while (!err && seen[i] == -EAGAIN) {
			disk_io_progress(disk, true);
			err = submit(disk, &puts[i], 1, flags, 0, &seen[i]);
		}
		nr_good += !seen[i] || seen[i] == -EEXIST;
	}
	if (!status)
		kv_free(seen);
	return err ? err : nr_good;
}
