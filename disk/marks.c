// SPDX-License-Identifier: Apache-2.0
/*
 * Marks: names that were wiped.
 *
 * A mark is a name, as a hash of 64 bits, and a place: records of that name before it are void,
 * wherever in the store they are, known to the index or not. Places are in the order in which they
 * are given out, by number of use and page, so the next one that will be given out covers all that
 * was put, all that is under way and all copies that go along, but nothing that is put afterwards.
 *
 * The pages of marks stand in front of the segments, each of them three times. The copies are
 * written one after the other with a flush behind each, so at any time two of them are whole, and
 * when a call is over each of them is enough: one may be torn by a loss of power and another be an
 * old one. Where all are bad all names of that page are void. No record, head or footer says
 * anything of what was wiped.
 *
 * A full page forgets the mark with the lowest place: all names of that page are void before that
 * place. That costs hits of records as old as that; mostly there are none, as their segments were
 * used again. Two names of one hash cost a hit at the next opening, too.
 */
#include <string.h>

#include <kv/mem.h>

#include "internal.h"

#define USE_SHIFT	16u	/* pages of a segment: at most 65536 */
#define EPOCH_SHIFT	32u	/* a page is written less often than that before it is made anew */

static_assert(KVMM_DISK_MAX_SEGMENT / KV_DISK_PAGE <= 1u << USE_SHIFT, "a page has 16 bits");
static_assert(DISK_MAX_SEQ <= 1ull << (64 - USE_SHIFT), "a use has the rest");

static u64 hash_of(const struct disk_shape *shape, const struct kvmm_disk_name *name)
{
	struct {
		u64 uuid[2];
		struct kvmm_disk_name name;
	} all = { { shape->uuid[0], shape->uuid[1] }, *name };

	return kv_disk_sum(&all, sizeof(all));
}

static u32 number_of(const struct disk_shape *shape, u64 hash)
{
	return (hash >> 32) * shape->mark_pages >> 32;
}

int disk_marks_init(struct disk_marks *marks, const struct disk_shape *shape)
{
	marks->page = kv_alloc_array(shape->mark_pages, sizeof(*marks->page));
	marks->dirty = kv_alloc_array(shape->mark_pages, sizeof(*marks->dirty));
	marks->io = disk_alloc_pages(KV_DISK_PAGE, &marks->io_base);
	return marks->page && marks->dirty && marks->io ? 0 : -ENOMEM;
}

void disk_marks_exit(struct disk_marks *marks, const struct disk_shape *shape)
{
	for (u32 i = 0; marks->page && i < shape->mark_pages; i++)
		kv_free(marks->page[i]);
	kv_free(marks->page);
	kv_free(marks->dirty);
	kv_free(marks->io_base);
}

/* An empty one where there is none, younger than any that was there before: 0 or -ENOMEM. */
static int make_page(struct disk_marks *marks, const struct disk_shape *shape, u32 number)
{
	kv_assert(number < shape->mark_pages);
	if (marks->page[number])
		return 0;
	marks->page[number] = kv_alloc(sizeof(struct kv_disk_marks));
	if (!marks->page[number])
		return -ENOMEM;
	*marks->page[number] = (struct kv_disk_marks){
		.magic = KV_DISK_MARKS_MAGIC, .version = KV_DISK_VERSION, .number = number,
		.uuid = { shape->uuid[0], shape->uuid[1] }, .count = shape->epoch << EPOCH_SHIFT,
	};
	return 0;
}

/* ---- reading ---- */

/*
 * Copy i was read to @read[i * @nr]. One that is bad and others that were never written: power was
 * lost in the first write. 0 or -ENOMEM.
 */
static int take_page(struct disk_marks *marks, const struct disk_shape *shape, u32 number,
		     const struct kv_disk_marks *read, u32 nr)
{
	const struct kv_disk_marks *best = NULL;
	u32 nr_bad = 0, nr_others = 0;
	int err;

	for (u32 i = 0; i < KV_DISK_NR_COPIES; i++) {
		const struct kv_disk_marks *copy = &read[i * nr];
		const char *byte = (const char *)copy;
		bool good = copy->magic == KV_DISK_MARKS_MAGIC && kv_disk_is_sealed(copy) &&
			    copy->version == KV_DISK_VERSION && copy->number == number &&
			    copy->count && copy->uuid[0] == shape->uuid[0] &&
			    copy->uuid[1] == shape->uuid[1] && copy->nr <= KV_DISK_NR_MARKS;
		bool empty = !byte[0] && !memcmp(byte, byte + 1, sizeof(*copy) - 1);

		nr_bad += !good && !empty;
		nr_others += !!memcmp(copy, read, sizeof(*copy));
		if (good && (!best || copy->count > best->count))
			best = copy;
	}
	if (!best && !nr_bad)
		return 0;
	err = make_page(marks, shape, number);
	if (err)
		return err;
	marks->dirty[number] = nr_others || !best;
	if (best) {
		u64 last = best->before;

		*marks->page[number] = *best;
		for (u32 i = 0; i < best->nr; i++)
			last = max(last, best->mark[i].before);
		marks->last_seq = max(marks->last_seq, last >> USE_SHIFT);
	} else if (nr_bad > 1) {
		marks->page[number]->before = UINT64_MAX;
	}
	return 0;
}

/* Some of one copy; a page that cannot be read is no good. */
static void read_copy(struct disk_scan *scan, u32 copy, u32 first, u32 nr,
		      struct kv_disk_marks *to)
{
	u64 at = KV_DISK_SUPER_BYTES +
		 ((u64)copy * scan->shape->mark_pages + first) * KV_DISK_PAGE;
	struct kv_iov iov = { to, (size_t)nr * KV_DISK_PAGE };

	if (!kv_file_read_all(scan->ops, scan->file, &iov, 1, at))
		return;
	for (u32 i = 0; i < nr; i++) {
		iov = (struct kv_iov){ &to[i], sizeof(*to) };
		if (kv_file_read_all(scan->ops, scan->file, &iov, 1, at + i * KV_DISK_PAGE))
			memset(&to[i], 0xff, sizeof(*to));
	}
}

/* A file that ends before its first segment has nothing that could be void. */
int disk_marks_load(struct disk_marks *marks, struct disk_scan *scan, u64 file_bytes)
{
	const struct disk_shape *shape = scan->shape;
	struct kv_disk_marks *read = (void *)scan->chunk;
	u32 nr;
	int err = 0;

	if (file_bytes < shape->front_bytes)
		return 0;
	for (u32 first = 0; first < shape->mark_pages && !err; first += nr) {
		nr = min(shape->mark_pages - first, DISK_CHUNK_PAGES / KV_DISK_NR_COPIES);
		for (u32 i = 0; i < KV_DISK_NR_COPIES; i++)
			read_copy(scan, i, first, nr, &read[i * nr]);
		for (u32 i = 0; i < nr && !err; i++)
			err = take_page(marks, shape, first + i, &read[i], nr);
	}
	return err;
}

bool disk_marks_has(const struct disk_marks *marks, const struct disk_shape *shape,
		    const struct kv_disk_record *record)
{
	u64 hash = hash_of(shape, &record->name);
	u64 place = record->seq << USE_SHIFT | record->page;
	const struct kv_disk_marks *page = marks->page[number_of(shape, hash)];

	if (!page)
		return false;
	for (u32 i = 0; i < page->nr; i++)
		if (page->mark[i].name == hash && place < page->mark[i].before)
			return true;
	return place < page->before;
}

/* ---- writing ---- */

static int write_copy(struct kvmm_disk *disk, u32 copy)
{
	struct disk_marks *marks = &disk->marks;
	u32 nr = disk->shape.mark_pages;
	int err = 0;

	for (u32 i = 0; i < nr && !err; i++) {
		struct kv_iov iov = { marks->io, KV_DISK_PAGE };

		if (!marks->dirty[i])
			continue;
		memcpy(marks->io, marks->page[i], KV_DISK_PAGE);
		err = kv_file_write_all(disk->ops, disk->file, &iov, 1, KV_DISK_SUPER_BYTES +
					((u64)copy * nr + i) * KV_DISK_PAGE);
	}
	return err ? err : kv_file_datasync(disk->ops, disk->file);
}

/* A page that could not be written is written with the next mark that it gets. */
int disk_marks_write(struct kvmm_disk *disk)
{
	struct disk_marks *marks = &disk->marks;
	bool any = false;
	int err = 0;

	kv_assert_not_held(&disk->lock);
	for (u32 i = 0; i < disk->shape.mark_pages; i++) {
		if (!marks->dirty[i])
			continue;
		if (marks->page[i]->before == UINT64_MAX)
			marks->page[i]->before = disk->seq << USE_SHIFT;
		marks->page[i]->count++;
		kv_disk_seal(marks->page[i]);
		any = true;
	}
	if (!any)
		return 0;
	for (u32 i = 0; i < KV_DISK_NR_COPIES && !err; i++)
		err = write_copy(disk, i);
	memset(marks->dirty, 0, disk->shape.mark_pages);
	return err;
}

static void add(struct kv_disk_marks *page, u64 hash, u64 before)
{
	struct kv_disk_mark *mark = page->mark;

	while (mark < page->mark + page->nr && mark->name != hash)
		mark++;
	if (mark == page->mark + KV_DISK_NR_MARKS) {
		mark = page->mark;
		for (u32 i = 1; i < page->nr; i++)
			if (page->mark[i].before < mark->before)
				mark = &page->mark[i];
		page->before = max(page->before, mark->before);
	} else if (mark == page->mark + page->nr) {
		page->nr++;
	}
	*mark = (struct kv_disk_mark){ hash, before };
}

/* All pages first, so that nothing is changed without memory. */
int disk_wipe(struct kvmm_disk *disk, const struct kvmm_disk_name *names, u32 nr)
{
	const struct disk_shape *shape = &disk->shape;
	int err = 0, nr_found = 0;
	u64 before;	/* the place that is given out next */

	kv_assert_not_held(&disk->lock);
	kv_lock(&disk->wipe_lock);
	for (u32 i = 0; i < nr && !err; i++)
		err = make_page(&disk->marks, shape, number_of(shape, hash_of(shape, &names[i])));
	if (!err) {
		kv_lock(&disk->lock);
		nr_found = disk_drop_names(disk, names, nr);
		before = (disk->seq + 1) << USE_SHIFT;
		if (disk->open != KV_NONE)
			before = disk->seg[disk->open].seq << USE_SHIFT |
				 disk->seg[disk->open].used_pages;
		kv_unlock(&disk->lock);
		for (u32 i = 0; i < nr; i++) {
			u64 hash = hash_of(shape, &names[i]);

			add(disk->marks.page[number_of(shape, hash)], hash, before);
			disk->marks.dirty[number_of(shape, hash)] = true;
		}
		err = disk_marks_write(disk);
	}
	kv_unlock(&disk->wipe_lock);
	return err ? err : nr_found;
}
