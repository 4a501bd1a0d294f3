// SPDX-License-Identifier: Apache-2.0
/*
 * Reading records.
 *
 * The index says where a record most likely is. Header and payload are read together, and
 * are a hit only if the header is whole, of this store, this use of the segment and this place, has
 * the very name that was asked for, and the payload has the checksum that the header says.
 */
#include <string.h>

#include <kv/env.h>

#include "internal.h"

int disk_rec_verify(const struct kvmm_disk *disk, const struct disk_rec *rec)
{
	const struct kv_disk_record *header = rec->header;

	if (!disk_record_is_good(&disk->shape, rec->seq, header) || header->page != rec->page ||
	    header->bytes != rec->bytes || memcmp(&header->name, &rec->name, sizeof(rec->name)))
		return -EBADMSG;
	if (header->flags & KV_DISK_DEAD)
		return -ENOENT;
	return kv_disk_sum(rec->bounce ? rec->bounce : rec->data, rec->bytes) == header->sum ?
	       0 : -EBADMSG;
}

static int find(struct kvmm_disk *disk, struct disk_rec *rec)
{
	const struct disk_entry *entry = disk_index_find(&disk->index, rec->fp);

	kv_assert_held(&disk->lock);
	if (!entry) {
		disk->count.nr_missed++;
		return -ENOENT;
	}
	rec->bytes = disk_entry_bytes(&disk->index, entry);
	if (entry->state != DISK_LIVE)
		return -EAGAIN;
	if (rec->bytes > rec->room)
		return -ENOBUFS;
	rec->segment = entry->segment;
	rec->page = entry->page;
	rec->seq = disk->seg[entry->segment].seq;
	rec->since_ns = disk->seg[entry->segment].since_ns;
	rec->is_placed = true;
	rec->wants_bounce = rec->room < disk_pages(rec->bytes) * (u64)KV_DISK_PAGE ||
			    (disk->is_direct && (uintptr_t)rec->data % KV_DISK_PAGE);
	disk->count.nr_copied += rec->wants_bounce;
	return 0;
}

static struct disk_req *make(struct kvmm_disk *disk, const struct kvmm_disk_get_args *gets, u32 nr)
{
	struct disk_req *req = disk_req_alloc(DISK_GET, nr);

	if (!req)
		return NULL;
	for (u32 i = 0; i < nr; i++) {
		struct disk_rec *rec = &req->rec[i];

		rec->name = gets[i].name;
		rec->fp = disk_fp_of(&disk->index, &rec->name);
		rec->data = gets[i].data;
		rec->room = gets[i].room;
	}
	kv_lock(&disk->lock);
	for (u32 i = 0; i < nr; i++)
		req->rec[i].status = find(disk, &req->rec[i]);
	kv_unlock(&disk->lock);
	if (disk_req_bounce(req)) {
		disk_req_free(req);
		return NULL;
	}
	return req;
}

/* A request without transfers may be gone on return. */
static void start(struct kvmm_disk *disk, struct disk_req *req)
{
	u32 nr;

	kv_assert(req->kind == DISK_GET && !req->nr_ios);
	kv_lock(&disk->lock);
	for (u32 i = 0; i < req->nr; i += nr) {
		nr = 1;
		if (req->rec[i].is_placed) {
			nr = disk_req_joined(req, i);
			disk_io_queue(disk, disk_req_io(disk, req, i, nr));
		} else {
			disk_rec_done(disk, &req->rec[i], req->rec[i].status);
		}
	}
	kv_unlock(&disk->lock);
	disk_io_pump(disk);
}

/* ---- it is read ---- */

/* The outcome of a read, for the index and the caller. A record that is no good is dropped. */
static int settle(struct kvmm_disk *disk, struct disk_rec *rec, int err)
{
	struct disk_entry *entry = disk_entry_of(disk, rec);

	kv_assert_held(&disk->lock);
	/* The segment was used again meanwhile: a miss like any other. */
	if (err && disk->seg[rec->segment].seq != rec->seq) {
		disk->count.nr_overtaken++;
		disk->count.nr_missed++;
		return -ENOENT;
	}
	if (err) {
		disk->count.nr_damaged += err == -EBADMSG;
		disk->count.nr_missed += err == -ENOENT;
		if (entry && entry->state == DISK_LIVE)
			disk_entry_drop(disk, entry);
		return err;
	}
	disk->count.nr_got++;
	kv_age_add(&disk->count.hit_age, rec->since_ns, kv_clock_ns(), 1);
	disk->count.got_bytes += rec->bytes;
	if (entry)
		disk_index_set_value(&disk->index, entry, entry->value + 1);
	return 0;
}

/* One bad sector is no reason to lose its neighbours: each record once more, alone. */
static void split(struct kvmm_disk *disk, struct disk_io *io)
{
	struct disk_req *req = io->req;
	u32 first = io->first, nr = io->nr;

	kv_assert(nr > 1 && req->kind == DISK_GET);
	kv_lock(&disk->lock);
	disk->count.nr_read_errors++;
	for (u32 i = 0; i < nr; i++) {
		struct disk_io *single = disk_req_io(disk, req, first + i, 1);

		if (!i) {
			/* The transfer that failed has a place, which is used again. */
			*io = *single;
			kv_assert(req->nr_ios);
			req->nr_ios--;
			single = io;
		}
		disk_io_queue(disk, single);
	}
	kv_unlock(&disk->lock);
	disk_io_pump(disk);
}

void disk_get_over(struct kvmm_disk *disk, struct disk_io *io)
{
	struct disk_rec *rec = &io->req->rec[io->first];
	int status[KV_FILE_MAX_IOV / 2];
	bool failed = io->err;
	u32 nr = io->nr;

	kv_assert(nr <= ARRAY_SIZE(status));
	if (failed && nr > 1) {
		split(disk, io);
		return;
	}
	if (io->req->kind != DISK_GET) {
		disk_copy_read(disk, io->req, io->err);
		return;
	}
	for (u32 i = 0; i < nr; i++) {
		status[i] = failed ? io->err : disk_rec_verify(disk, &rec[i]);
		if (!status[i] && rec[i].bounce)
			memcpy(rec[i].data, rec[i].bounce, rec[i].bytes);
	}
	kv_lock(&disk->lock);
	disk->count.nr_read_errors += failed;
	for (u32 i = 0; i < nr; i++)
		disk_rec_done(disk, &rec[i], settle(disk, &rec[i], status[i]));
	kv_unlock(&disk->lock);
}

/* ---- calls ---- */

static int check_gets(const struct kvmm_disk *disk, const struct kvmm_disk_get_args *gets, u32 nr)
{
	if (!disk || !gets || !nr || nr > KVMM_DISK_MAX_BATCH)
		return -EINVAL;
	if (kv_inherited(disk))
		return -ECHILD;
	for (u32 i = 0; i < nr; i++)
		if (!gets[i].data || !disk_name_is_good(&gets[i].name))
			return -EINVAL;
	return 0;
}

int kv_disk_submit_get(struct kvmm_disk *disk, const struct kvmm_disk_get_args *gets, u32 nr,
		       u64 tag)
{
	int err = check_gets(disk, gets, nr);
	struct disk_req *req = err ? NULL : make(disk, gets, nr);

	if (!req)
		return err ? err : -ENOMEM;
	req->tag = tag;
	start(disk, req);
	return 0;
}

int kvmm_disk_get_sized(struct kvmm_disk *disk, const struct kvmm_disk_get_args *gets, uint32_t nr,
			int32_t *status, size_t size)
{
	int err = size == sizeof(*gets) ? check_gets(disk, gets, nr) : -EINVAL, nr_good = 0;
	struct disk_req *req;

	if (err)
		return err;
	req = make(disk, gets, nr);
	if (!req)
		return -ENOMEM;
	req->waited_for = true;
	start(disk, req);
	disk_req_wait(disk, req);
	for (u32 i = 0; i < nr; i++) {
		const struct disk_rec *rec = &req->rec[i];

		nr_good += !rec->status;
		if (status)
			status[i] = rec->status ? rec->status : (s32)rec->bytes;
	}
	disk_req_free(req);
	return nr_good;
}
