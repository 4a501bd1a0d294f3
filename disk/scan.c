// SPDX-License-Identifier: Apache-2.0
/*
 * The records of one segment: from its footer where there is a good one, else by looking for them.
 * The work of a writer meanwhile, or at a crash, leaves some out, or gives headers with payload
 * that does not verify; nothing is read twice but headers, so it takes as long as the segment is.
 */
#include <string.h>

#include <kv/mem.h>

#include "internal.h"

void *disk_alloc_pages(size_t bytes, void **base)
{
	char *at = kv_alloc(bytes + KV_DISK_PAGE);

	*base = at;
	return at ? at + (-(uintptr_t)at & (KV_DISK_PAGE - 1)) : NULL;
}

int disk_scan_init(struct disk_scan *scan, const struct kv_file_ops *ops, int file,
		   const struct disk_shape *shape)
{
	*scan = (struct disk_scan){ .ops = ops, .file = file, .shape = shape };
	scan->page = disk_alloc_pages((1 + 2 * DISK_CHUNK_PAGES) * KV_DISK_PAGE, &scan->base);
	if (!scan->page)
		return -ENOMEM;
	scan->chunk = scan->page + KV_DISK_PAGE;
	scan->ahead = scan->chunk + DISK_CHUNK_PAGES * KV_DISK_PAGE;
	return 0;
}

void disk_scan_exit(struct disk_scan *scan)
{
	kv_free(scan->headers_base);
	kv_free(scan->base);
}

static int read_pages(struct disk_scan *scan, u32 page, void *to, u32 nr)
{
	struct kv_iov iov = { to, (size_t)nr * KV_DISK_PAGE };

	kv_assert(page + nr <= scan->shape->pages);
	return kv_file_read_all(scan->ops, scan->file, &iov, 1,
				disk_offset(scan->shape, scan->segment, page));
}

/* -ENOENT if the footer is none, or its headers are others than it says. */
static int read_headers(struct disk_scan *scan, const struct kv_disk_footer *footer)
{
	u32 nr = footer->nr_records, pages = disk_footer_pages(nr) - 1;
	int err;

	scan->headers = disk_alloc_pages((size_t)pages * KV_DISK_PAGE, &scan->headers_base);
	if (!scan->headers)
		return -ENOMEM;
	err = pages ? read_pages(scan, scan->shape->pages - 1 - pages, scan->headers, pages) : 0;
	if (!err && kv_disk_sum(scan->headers, nr * sizeof(*scan->headers)) != footer->headers_sum)
		err = -ENOENT;
	return err;
}

static int read_footer(struct disk_scan *scan)
{
	struct kv_disk_footer footer;
	int err = read_pages(scan, scan->shape->pages - 1, scan->page, 1);

	if (err)
		return err;
	memcpy(&footer, scan->page, sizeof(footer));
	if (!disk_footer_is_good(scan->shape, scan->seq, &footer))
		return -ENOENT;
	err = read_headers(scan, &footer);
	if (err)
		return err;
	scan->is_sealed = true;
	scan->nr = footer.nr_records;
	scan->next = 0;
	return 0;
}

int disk_scan_head(struct disk_scan *scan, u32 segment)
{
	struct kv_disk_head head;
	int err;

	scan->segment = segment;
	err = read_pages(scan, 0, scan->page, 1);
	if (err)
		return err;
	memcpy(&head, scan->page, sizeof(head));
	if (!disk_head_is_good(scan->shape, segment, &head))
		return -ENOENT;
	scan->seq = head.seq;
	return 0;
}

/* A footer that cannot be read is as good as none. */
int disk_scan_begin(struct disk_scan *scan, u32 segment)
{
	int err;

	kv_free(scan->headers_base);
	scan->headers_base = NULL;
	scan->is_sealed = false;
	scan->next = scan->end = 1;
	scan->ahead_nr = 0;
	scan->ahead_max = DISK_CHUNK_PAGES;
	scan->nr = 0;
	err = disk_scan_head(scan, segment);
	if (err)
		return err;
	err = read_footer(scan);
	return err == -ENOMEM ? err : 0;
}

static int read_ahead(struct disk_scan *scan, u32 page)
{
	u32 nr = min(scan->ahead_max, scan->shape->pages - page);
	int err = read_pages(scan, page, scan->ahead, nr);

	scan->ahead_first = page;
	scan->ahead_nr = err ? 0 : nr;
	return err;
}

/*
 * Without a footer, writes that were lost, or taken back, leave holes: the next record is searched
 * page by page. None can be found inside another one's payload, unless that knew the number of the
 * store.
 */
int disk_scan_next(struct disk_scan *scan, struct kv_disk_record *record)
{
	while (scan->is_sealed && scan->next < scan->nr) {
		*record = scan->headers[scan->next++];
		if (disk_record_is_good(scan->shape, scan->seq, record))
			return 1;
	}
	while (!scan->is_sealed && scan->next + 2 < scan->shape->pages) {
		u32 page = scan->next++;
		bool is_read = page >= scan->ahead_first &&
			       page < scan->ahead_first + scan->ahead_nr;

		if (!is_read && read_ahead(scan, page)) {
			/* Pages are read one by one: the failure may be about payload. */
			scan->ahead_max = 1;
			if (read_ahead(scan, page))
				continue;
		}
		memcpy(record, scan->ahead + (size_t)(page - scan->ahead_first) * KV_DISK_PAGE,
		       sizeof(*record));
		if (!disk_record_is_good(scan->shape, scan->seq, record) || record->page != page)
			continue;
		scan->next += disk_pages(record->bytes);
		scan->end = scan->next;
		if (!(record->flags & KV_DISK_DEAD))
			return 1;
	}
	return 0;
}

int disk_scan_verify(struct disk_scan *scan, const struct kv_disk_record *record)
{
	u32 left = disk_pages(record->bytes), page = record->page + 1, nr = 0;
	u64 bytes = record->bytes, used = 0;
	struct disk_sum sum;
	int err = read_pages(scan, record->page, scan->page, 1);

	if (!err && memcmp(scan->page, record, sizeof(*record)))
		err = -EBADMSG;
	disk_sum_begin(&sum);
	for (; !err && left; left -= nr, page += nr) {
		nr = min(left, DISK_CHUNK_PAGES);
		err = read_pages(scan, page, scan->chunk, nr);
		used = min(bytes, (u64)nr * KV_DISK_PAGE);
		disk_sum_add(&sum, scan->chunk, used);
		bytes -= used;
	}
	if (!err && disk_sum_end(&sum, scan->chunk + (used - used % 32)) != record->sum)
		err = -EBADMSG;
	return err;
}
