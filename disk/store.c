// SPDX-License-Identifier: Apache-2.0
/*
 * Stores: opening and closing, and the calls that are no transfers.
 *
 * The file is locked for as long as it is open, so there is one writer. In a forked child the store
 * is dead: its queue and its place in the file are the parent's.
 */
#include <string.h>

#include <kv/buf.h>
#include <kv/env.h>
#include <kv/log.h>
#include <kv/mem.h>

#include "internal.h"

#define DEFAULT_DEPTH	64u
#define MAX_DEPTH	4096u

#define LOCK_TRIES	100u
#define LOCK_NAP_NS	5000000u

/* Innermost of its rank, so that callers may hold locks of the tier's. */
#define LOCK_ID		(1u << 30)

/* ---- files ---- */

static int check_private(const struct kvmm_disk *disk, int file, bool is_folder)
{
	struct kv_file_stat stat;
	int err = disk->ops->stat(disk->ops->ctx, file, &stat);

	if (err)
		return err;
	if (is_folder ? !stat.is_folder : !stat.is_file || stat.nr_links != 1)
		return kv_refuse(-EPERM, "kvmm: disk: %s", is_folder ? "it is no folder" :
				 "its file is none, or has more names");
	if (stat.is_own && !(stat.mode & 077))
		return 0;
	return kv_refuse(-EPERM, "kvmm: disk: its %s is %s", is_folder ? "folder" : "file",
			 stat.is_own ? "open to others" : "another user's");
}

static int open_file(struct kvmm_disk *disk, u32 flags)
{
	const struct kv_file_ops *ops = disk->ops;
	u32 how = KV_FILE_WRITE | (flags & KVMM_DISK_CREATE ? KV_FILE_CREATE : 0);
	int file = -EINVAL;

	if (!(flags & KVMM_DISK_BUFFERED))
		file = ops->open_at(ops->ctx, disk->dir, KV_DISK_FILE, how | KV_FILE_DIRECT);
	disk->is_direct = file >= 0;
	if (file == -EINVAL) {
		file = ops->open_at(ops->ctx, disk->dir, KV_DISK_FILE, how);
		disk->count.nr_buffered++;
	}
	return file;
}

/*
 * The system's queue of a process that was killed is taken apart a moment after the process is
 * gone, and has the file until then: no reason to fail the process that comes after it.
 */
static int lock_file(struct kvmm_disk *disk)
{
	const struct kv_env_ops *env = kv_env();
	u32 word = 0;
	int err = -EWOULDBLOCK;

	for (u32 i = 0; i < LOCK_TRIES && err == -EWOULDBLOCK; i++) {
		if (i)
			env->wait(env->ctx, &word, 0, LOCK_NAP_NS);
		err = disk->ops->lock(disk->ops->ctx, disk->file);
	}
	disk->is_locked = !err;
	return err == -EWOULDBLOCK ? -EBUSY : err;
}

static int open_files(struct kvmm_disk *disk, const struct kvmm_disk_attr *attr)
{
	const struct kv_file_ops *ops = disk->ops;
	struct kv_file_stat stat;
	int err;

	disk->dir = ops->open_dir(ops->ctx, attr->path, attr->flags & KVMM_DISK_CREATE);
	if (disk->dir < 0)
		return disk->dir;
	err = check_private(disk, disk->dir, true);
	if (err)
		return err;
	disk->file = open_file(disk, attr->flags);
	if (disk->file < 0)
		return disk->file;
	err = check_private(disk, disk->file, false);
	if (!err)
		err = lock_file(disk);
	if (!err)
		err = ops->stat(ops->ctx, disk->file, &stat);
	if (err)
		return err;
	disk->file_bytes = stat.bytes;
	/* A queue is not missed where it cannot be had. */
	if (attr->io == KVMM_DISK_IO_POLL || !ops->queue_open)
		return 0;
	if (ops->queue_open(ops->ctx, disk->depth, &disk->queue))
		disk->queue = NULL;
	return 0;
}

/* ---- opening and closing ---- */

#define ALL_FLAGS \
	(KVMM_DISK_CREATE | KVMM_DISK_RESET | KVMM_DISK_BUFFERED | KVMM_DISK_NAMES)

static void init(struct kvmm_disk *disk, const struct kvmm_disk_attr *attr)
{
	disk->ops = kv_file();
	disk->dir = disk->file = -1;
	disk->depth = attr->depth ? attr->depth : DEFAULT_DEPTH;
	disk->open = KV_NONE;
	disk->waiting_end = &disk->waiting;
	disk->done_end = &disk->done;
	kv_lock_init(&disk->wipe_lock, KV_RANK_TIER, LOCK_ID);
	kv_lock_init(&disk->queue_lock, KV_RANK_TIER, LOCK_ID + 1);
	kv_lock_init(&disk->lock, KV_RANK_TIER, LOCK_ID + 2);
}

static void close_file(const struct kvmm_disk *disk, int file)
{
	if (file >= 0)
		disk->ops->close(disk->ops->ctx, file);
}

static void destroy(struct kvmm_disk *disk)
{
	struct kv_disk_done done;

	kv_assert(!disk->nr_queued && !disk->nr_active);
	/* A segment that was sealed last has chosen what goes along: no poll is to begin it. */
	disk_drain_end(disk);
	/* Each request that is left has completions that no caller polled for. */
	while (kv_disk_poll(disk, &done, 1))
		;
	kv_assert(!disk->nr_active);
	if (disk->queue)
		disk->ops->queue_close(disk->ops->ctx, disk->queue);
	for (u32 i = 0; disk->seg && i < disk->shape.nr_segments; i++)
		kv_free(disk->seg[i].table);
	kv_free(disk->seg);
	disk_index_exit(&disk->index);
	disk_marks_exit(&disk->marks, &disk->shape);
	if (disk->is_locked)
		disk->ops->unlock(disk->ops->ctx, disk->file);
	close_file(disk, disk->file);
	close_file(disk, disk->dir);
	kv_free(disk);
}

/* Callers built with a shorter struct have zeros in fields that they do not know. */
static int copy_attr(const struct kvmm_disk_attr *attr, struct kvmm_disk_attr *own)
{
	if (!attr || attr->size < offsetof(struct kvmm_disk_attr, io))
		return -EINVAL;
	kv_give(own, sizeof(*own), attr, attr->size);
	if (!own->path || !kv_name_is_good("store", own->path, SIZE_MAX))
		return -EINVAL;
	if (own->io >= KVMM_DISK_NR_IOS || own->depth > MAX_DEPTH || own->flags & ~ALL_FLAGS)
		return kv_refuse(-EINVAL, "kvmm: disk: io %u, depth %u or flags 0x%x is none",
				 own->io, own->depth, own->flags);
	if (own->nr_layouts && !own->layouts)
		return kv_refuse(-EINVAL, "kvmm: disk: %u layouts at NULL", own->nr_layouts);
	if (own->segment_bytes && !disk_is_segment_size(own->segment_bytes))
		return kv_refuse(-EINVAL, "kvmm: disk: segments of %u bytes, no power of two from "
				 "%u to %u", own->segment_bytes, KVMM_DISK_MIN_SEGMENT,
				 KVMM_DISK_MAX_SEGMENT);
	return 0;
}

int kvmm_disk_open(const struct kvmm_disk_attr *attr, struct kvmm_disk **disk)
{
	struct kvmm_disk_attr own;
	struct kvmm_disk *new;
	int err;

	kv_why_clear();
	err = disk ? copy_attr(attr, &own) : -EINVAL;
	if (err)
		return err;
	new = kv_alloc(sizeof(*new));
	if (!new)
		return -ENOMEM;
	init(new, &own);
	err = disk_index_init(&new->index);
	if (!err && own.flags & KVMM_DISK_NAMES)
		err = disk_names_init(&new->index);
	if (!err)
		err = open_files(new, &own);
	if (!err)
		err = disk_recover(new, &own);
	if (err) {
		destroy(new);
		return err;
	}
	*disk = new;
	return 0;
}

void kvmm_disk_close(struct kvmm_disk *disk)
{
	if (!disk || kv_inherited(disk))
		return;
	kv_lock(&disk->lock);
	disk_drain_end(disk);
	kv_unlock(&disk->lock);
	disk_io_drain(disk);
	kv_file_datasync(disk->ops, disk->file);
	destroy(disk);
}

/* ---- from memory ---- */

enum kv_disk_answer kv_disk_lookup(struct kvmm_disk *disk, const struct kvmm_disk_name *name)
{
	const struct disk_entry *entry;
	enum kv_disk_answer answer = KV_DISK_MISS;

	if (kv_inherited(disk))
		return answer;
	kv_lock(&disk->lock);
	entry = disk_index_find(&disk->index, disk_fp_of(&disk->index, name));
	if (entry)
		answer = entry->state == DISK_LIVE ? KV_DISK_HIT : KV_DISK_PENDING;
	kv_unlock(&disk->lock);
	return answer;
}

/* ---- forgetting ---- */

u32 disk_drop_names(struct kvmm_disk *disk, const struct kvmm_disk_name *names, u32 nr)
{
	u32 nr_found = 0;

	kv_assert_held(&disk->lock);
	for (u32 i = 0; i < nr; i++) {
		struct disk_entry *entry = disk_index_find(&disk->index,
							   disk_fp_of(&disk->index, &names[i]));

		if (entry)
			disk_entry_drop(disk, entry);
		nr_found += !!entry;
	}
	return nr_found;
}

static int counted(struct kvmm_disk *disk, int ret)
{
	kv_assert_not_held(&disk->lock);
	if (ret >= 0 || ret == -ENOMEM)
		return ret;
	kv_lock(&disk->lock);
	disk->count.nr_write_errors++;
	kv_unlock(&disk->lock);
	return ret;
}

int kv_disk_forget(struct kvmm_disk *disk, const struct kvmm_disk_name *names, uint32_t nr,
		     uint32_t flags)
{
	u32 nr_found;

	if (!disk || (nr && !names) || nr > INT32_MAX || flags & ~KV_DISK_WIPE)
		return -EINVAL;
	if (kv_inherited(disk))
		return -ECHILD;
	if (flags & KV_DISK_WIPE)
		return counted(disk, disk_wipe(disk, names, nr));
	kv_lock(&disk->lock);
	nr_found = disk_drop_names(disk, names, nr);
	kv_unlock(&disk->lock);
	return nr_found;
}

int kvmm_disk_delete_sized(struct kvmm_disk *disk, const struct kvmm_disk_delete_args *deletes,
			   uint32_t nr, size_t size)
{
	static_assert(sizeof(*deletes) == sizeof(deletes->name), "an array of names");

	if (!disk || !deletes || !nr || nr > KVMM_DISK_MAX_BATCH || size != sizeof(*deletes))
		return -EINVAL;
	if (kv_inherited(disk))
		return -ECHILD;
	for (u32 i = 0; i < nr; i++)
		if (!disk_name_is_good(&deletes[i].name))
			return -EINVAL;
	return kv_disk_forget(disk, &deletes->name, nr, KV_DISK_WIPE);
}

int64_t kv_disk_reset(struct kvmm_disk *disk)
{
	int64_t nr;
	int err;

	if (!disk)
		return -EINVAL;
	if (kv_inherited(disk))
		return -ECHILD;
	kv_lock(&disk->wipe_lock);
	kv_lock(&disk->lock);
	if (disk->open != KV_NONE)
		disk_close_segment(disk);
	disk->super.oldest = disk->seq + 1;
	nr = disk->index.nr;
	/* Entries that move up while one is deleted are looked at again. */
	for (u32 i = 0; disk->index.nr && i < disk->index.nr_slots;)
		if (disk->index.entry[i].state)
			disk_entry_drop(disk, &disk->index.entry[i]);
		else
			i++;
	kv_unlock(&disk->lock);
	err = disk_write_supers(disk);
	kv_unlock(&disk->wipe_lock);
	disk_io_pump(disk);
	err = counted(disk, err);
	return err ? err : nr;
}

int kvmm_disk_sync(struct kvmm_disk *disk)
{
	int err;

	if (!disk)
		return -EINVAL;
	if (kv_inherited(disk))
		return -ECHILD;
	err = kv_file_datasync(disk->ops, disk->file);
	if (err) {
		kv_lock(&disk->lock);
		disk->count.nr_sync_errors++;
		kv_unlock(&disk->lock);
	}
	return err;
}

int kv_disk_check(struct kvmm_disk *disk)
{
	int err;

	if (kv_inherited(disk))
		return -ECHILD;
	if (!disk)
		return -EINVAL;
	kv_lock(&disk->lock);
	err = disk_index_check(&disk->index);
	if (!err)
		err = disk_segments_check(disk);
	kv_unlock(&disk->lock);
	return err;
}
