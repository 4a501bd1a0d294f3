// SPDX-License-Identifier: Apache-2.0
/*
 * Submissions and completions.
 *
 * A request has all the memory that its records need, so that nothing can fail for lack of it
 * later. It lives until the last of its completions was handed out, or until the thread that waits
 * for it has seen them. Records that lie one behind the other share a transfer, up to 1 MiB: fewer
 * calls, and still several of them under way.
 */
#include <string.h>

#include <kv/mem.h>

#include "internal.h"

struct disk_req *disk_req_alloc(u32 kind, u32 nr)
{
	struct disk_req *req = kv_alloc(sizeof(*req));

	if (!req)
		return NULL;
	req->kind = kind;
	req->nr = req->nr_left = nr;
	req->rec = kv_alloc_array(nr, sizeof(*req->rec));
	req->io = kv_alloc_array(nr, sizeof(*req->io));
	req->iov = kv_alloc_array(nr, 2 * sizeof(*req->iov));
	req->pages = disk_alloc_pages((size_t)nr * KV_DISK_PAGE, &req->pages_base);
	if (!req->rec || !req->io || !req->iov || !req->pages) {
		disk_req_free(req);
		return NULL;
	}
	for (u32 i = 0; i < nr; i++) {
		req->rec[i].req = req;
		req->rec[i].header =
			(struct kv_disk_record *)(void *)(req->pages + i * KV_DISK_PAGE);
	}
	return req;
}

void disk_req_free(struct disk_req *req)
{
	if (!req)
		return;
	kv_free(req->bounce_base);
	kv_free(req->pages_base);
	kv_free(req->iov);
	kv_free(req->io);
	kv_free(req->rec);
	kv_free(req);
}

static size_t padded(u32 bytes)
{
	return (size_t)disk_pages(bytes) * KV_DISK_PAGE;
}

int disk_req_bounce(struct disk_req *req)
{
	size_t bytes = 0;
	char *at;

	for (u32 i = 0; i < req->nr; i++)
		bytes += req->rec[i].wants_bounce ? padded(req->rec[i].bytes) : 0;
	if (!bytes)
		return 0;
	at = disk_alloc_pages(bytes, &req->bounce_base);
	if (!at)
		return -ENOMEM;
	for (u32 i = 0; i < req->nr; i++) {
		if (!req->rec[i].wants_bounce)
			continue;
		req->rec[i].bounce = at;
		at += padded(req->rec[i].bytes);
	}
	return 0;
}

u32 disk_req_joined(const struct disk_req *req, u32 first)
{
	u64 bytes = padded(req->rec[first].bytes);
	u32 i = first + 1;

	kv_assert(first < req->nr && req->rec[first].is_placed);
	for (; i < req->nr && i - first < KV_FILE_MAX_IOV / 2; i++) {
		const struct disk_rec *a = &req->rec[i - 1], *b = &req->rec[i];

		bytes += KV_DISK_PAGE + padded(b->bytes);
		if (bytes > DISK_MAX_IO_BYTES || !b->is_placed || a->segment != b->segment ||
		    a->seq != b->seq || b->page != a->page + 1 + disk_pages(a->bytes))
			break;
	}
	return i - first;
}

struct disk_io *disk_req_io(struct kvmm_disk *disk, struct disk_req *req, u32 first, u32 nr)
{
	bool is_read = req->kind == DISK_GET || req->kind == DISK_COPY_GET;
	struct disk_io *io = &req->io[req->nr_ios++];
	struct disk_rec *rec = &req->rec[first];
	struct kv_iov *iov = &req->iov[2 * first];

	kv_assert(nr && first + nr <= req->nr && req->nr_ios <= req->nr);
	*io = (struct disk_io){
		.io = { .op = is_read ? KV_FILE_READV : KV_FILE_WRITEV, .file = disk->file,
			.iov = iov, .nr_iov = 2 * nr,
			.offset = disk_offset(&disk->shape, rec->segment, rec->page) },
		.req = req, .first = first, .nr = nr,
	};
	for (u32 i = 0; i < nr; i++, rec++, iov += 2) {
		iov[0] = (struct kv_iov){ rec->header, KV_DISK_PAGE };
		iov[1] = (struct kv_iov){ rec->bounce ? rec->bounce : rec->data,
					  padded(rec->bytes) };
		io->bytes += iov[0].bytes + iov[1].bytes;
	}
	return io;
}

void disk_rec_done(struct kvmm_disk *disk, struct disk_rec *rec, s32 status)
{
	kv_assert_held(&disk->lock);
	rec->status = status;
	if (rec->req->waited_for) {
		kv_assert(rec->req->nr_left);
		rec->req->nr_left--;
		return;
	}
	rec->next = NULL;
	*disk->done_end = rec;
	disk->done_end = &rec->next;
}

void disk_records_over(struct kvmm_disk *disk, struct disk_io *io)
{
	if (io->req->kind == DISK_PUT)
		disk_put_over(disk, io);
	else
		disk_copy_written(disk, io);
}

void disk_io_over(struct kvmm_disk *disk, struct disk_io *io)
{
	kv_assert_not_held(&disk->lock);
	switch (io->req->kind) {
	case DISK_PUT:
	case DISK_COPY_PUT:
		if (!disk_awaits_head(disk, io))
			disk_records_over(disk, io);
		return;
	case DISK_GET:
	case DISK_COPY_GET:
		disk_get_over(disk, io);
		return;
	case DISK_HEAD:
		disk_head_over(disk, io);
		return;
	default:
		disk_footer_over(disk, io);
	}
}

/* ---- completions ---- */

/* Requests with this as their last record are freed. */
static u32 take(struct kvmm_disk *disk, struct kv_disk_done *done, u32 max)
{
	struct disk_req *over = NULL, *next;
	u32 nr = 0;

	kv_lock(&disk->lock);
	while (disk->done && nr < max) {
		struct disk_rec *rec = disk->done;
		struct disk_req *req = rec->req;

		disk->done = rec->next;
		done[nr++] = (struct kv_disk_done){
			.tag = req->tag, .index = rec - req->rec, .status = rec->status,
			.bytes = !rec->status || rec->status == -ENOBUFS ? rec->bytes : 0,
			.is_put = req->kind == DISK_PUT,
		};
		kv_assert(req->nr_left);
		if (--req->nr_left)
			continue;
		req->next = over;
		over = req;
	}
	if (!disk->done)
		disk->done_end = &disk->done;
	kv_unlock(&disk->lock);
	for (; over; over = next) {
		next = over->next;
		disk_req_free(over);
	}
	return nr;
}

u32 kv_disk_poll(struct kvmm_disk *disk, struct kv_disk_done *done, u32 max)
{
	u32 nr = 0;

	if (kv_inherited(disk))
		return 0;
	do {
		nr += take(disk, done + nr, max - nr);
	} while (nr < max && disk_io_progress(disk, false) && (!nr || disk->queue));
	return nr + take(disk, done + nr, max - nr);
}

void disk_req_wait(struct kvmm_disk *disk, struct disk_req *req)
{
	bool over = false;

	kv_assert_not_held(&disk->lock);
	while (!over) {
		kv_lock(&disk->lock);
		over = !req->nr_left;
		kv_unlock(&disk->lock);
		if (!over)
			disk_io_progress(disk, true);
	}
}
