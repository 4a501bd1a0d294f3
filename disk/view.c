// SPDX-License-Identifier: Apache-2.0
/*
 * Looking at a store without opening it: for tools, also while a process writes to it. Nothing is
 * locked, so a segment may be used again in the middle: each record looks at its head again.
 */
#include <string.h>

#include <kv/mem.h>

#include "internal.h"

struct kvmm_disk_view {
	const struct kv_file_ops	*ops;
	int				dir;
	int				file;
	struct disk_shape		shape;
	struct kv_disk_super		super;
	u64				file_bytes;
	u32				nr_good_supers;
	struct disk_scan		scan;
	struct disk_marks		marks;
	bool				has_segment;
};

static int open_file(struct kvmm_disk_view *view, const char *path)
{
	const struct kv_file_ops *ops = view->ops;
	struct kv_file_stat stat;
	int err;

	view->dir = ops->open_dir(ops->ctx, path, false);
	if (view->dir < 0)
		return view->dir;
	view->file = ops->open_at(ops->ctx, view->dir, KV_DISK_FILE, 0);
	if (view->file < 0)
		return view->file;
	err = ops->stat(ops->ctx, view->file, &stat);
	view->file_bytes = stat.bytes;
	return err ? err : stat.is_file ? 0 : -EPERM;
}

static int open_view(struct kvmm_disk_view *view, const char *path)
{
	int err = open_file(view, path);

	if (!err)
		err = disk_scan_init(&view->scan, view->ops, view->file, &view->shape);
	if (err)
		return err;
	if (disk_read_supers(view->ops, view->file, view->scan.page, &view->super,
			     &view->nr_good_supers))
		return -EBADMSG;
	if (view->super.version != KV_DISK_VERSION)
		return -EPROTONOSUPPORT;
	view->shape = disk_shape_of(&view->super);
	err = disk_marks_init(&view->marks, &view->shape);
	return err ? err : disk_marks_load(&view->marks, &view->scan, view->file_bytes);
}

int kvmm_disk_view_open(const char *path, struct kvmm_disk_view_info *info,
			struct kvmm_disk_view **view)
{
	struct kvmm_disk_view_info all;
	struct kvmm_disk_view *new;
	int err;

	if (!path || !view || kv_sized_is_bad(info))
		return -EINVAL;
	new = kv_alloc(sizeof(*new));
	if (!new)
		return -ENOMEM;
	new->ops = kv_file();
	new->dir = new->file = -1;
	err = open_view(new, path);
	if (err) {
		kvmm_disk_view_close(new);
		return err;
	}
	all = (struct kvmm_disk_view_info){
		.epoch = new->super.epoch, .file_bytes = new->file_bytes,
		.version = new->super.version, .segment_bytes = new->shape.segment_bytes,
		.nr_segments = new->shape.nr_segments, .nr_good_supers = new->nr_good_supers,
		.max_bytes = disk_offset(&new->shape, new->shape.nr_segments, 0),
	};
	memcpy(all.uuid, new->super.uuid, sizeof(all.uuid));
	kv_give_sized(info, &all, sizeof(all));
	*view = new;
	return 0;
}

void kvmm_disk_view_close(struct kvmm_disk_view *view)
{
	if (!view)
		return;
	disk_marks_exit(&view->marks, &view->shape);
	disk_scan_exit(&view->scan);
	if (view->file >= 0)
		view->ops->close(view->ops->ctx, view->file);
	if (view->dir >= 0)
		view->ops->close(view->ops->ctx, view->dir);
	kv_free(view);
}

int kvmm_disk_view_segment_sized(struct kvmm_disk_view *view, uint32_t number,
				 struct kvmm_disk_segment *segment, size_t size)
{
	struct kvmm_disk_segment now = { .kind = KVMM_DISK_SEGMENT_EMPTY };
	int err = -ENOENT;

	if (!view || kv_size_is_bad(segment, size) || number >= view->shape.nr_segments)
		return -EINVAL;
	if (disk_offset(&view->shape, number + 1, 0) <= view->file_bytes)
		err = disk_scan_begin(&view->scan, number);
	view->has_segment = !err && view->scan.seq >= view->super.oldest;
	if (view->has_segment)
		now = (struct kvmm_disk_segment){
			.kind = view->scan.is_sealed ? KVMM_DISK_SEGMENT_SEALED :
						       KVMM_DISK_SEGMENT_OPEN,
			.nr_records = view->scan.nr, .seq = view->scan.seq,
		};
	kv_give(segment, size, &now, sizeof(now));
	return err == -ENOENT ? 0 : err;
}

int kvmm_disk_view_next_sized(struct kvmm_disk_view *view, int verify,
			      struct kvmm_disk_entry *entry, size_t size)
{
	struct kvmm_disk_entry now;
	struct kv_disk_record record;
	int status = 0;

	if (!view || kv_size_is_bad(entry, size))
		return -EINVAL;
	do {
		if (!view->has_segment || !disk_scan_next(&view->scan, &record))
			return 0;
	} while (disk_marks_has(&view->marks, &view->shape, &record));
	if (verify)
		status = disk_scan_verify(&view->scan, &record);
	if (status) {
		/* Is it still the use of the segment that it was? */
		u64 seq = view->scan.seq;
		bool same = !disk_scan_head(&view->scan, view->scan.segment) &&
			    view->scan.seq == seq;

		view->scan.seq = seq;
		if (!same)
			return -ESTALE;
	}
	disk_entry_of_record(&record, view->scan.segment, &now);
	now.status = status;
	kv_give(entry, size, &now, sizeof(now));
	return 1;
}
