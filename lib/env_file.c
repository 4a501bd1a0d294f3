// SPDX-License-Identifier: Apache-2.0
/*
 * The system behind the seam for files.
 *
 * Names are looked up in a folder that is open, and never through a symbolic link: a process that
 * can write to the folder above cannot send what is written here somewhere else.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <kv/atomic.h>
#include <kv/file.h>
#include <kv/sys.h>

#include "internal.h"

static_assert(sizeof(struct kv_iov) == sizeof(struct iovec) &&
	      offsetof(struct kv_iov, base) == offsetof(struct iovec, iov_base) &&
	      offsetof(struct kv_iov, bytes) == offsetof(struct iovec, iov_len),
	      "parts are given to the system as they are");
static_assert(KV_FILE_MAX_IOV <= IOV_MAX, "as many as the system takes");

static int system_open_dir(void *ctx, const char *path, bool create)
{
	if (create)
		guarded(mkdir(path, 0700));	/* open() gives a better error */
	return guarded(open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

static int system_open_at(void *ctx, int dir, const char *name, u32 flags)
{
	int how = O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;

	how |= flags & KV_FILE_WRITE ? O_RDWR : O_RDONLY;
	how |= flags & KV_FILE_CREATE ? O_CREAT : 0;
	how |= flags & KV_FILE_DIRECT ? O_DIRECT : 0;
	return guarded(openat(dir, name, how, 0600));
}

/* Linux has closed it even where it says that it was interrupted. */
static void system_close(void *ctx, int file)
{
	guarded(close(file));
}

static int system_stat(void *ctx, int file, struct kv_file_stat *stat)
{
	struct stat st;
	int err = guarded(fstat(file, &st));

	if (err)
		return err;
	*stat = (struct kv_file_stat){
		.bytes = st.st_size, .mode = st.st_mode & 0777, .nr_links = st.st_nlink,
		.is_file = S_ISREG(st.st_mode), .is_folder = S_ISDIR(st.st_mode),
		.is_own = st.st_uid == geteuid(),
	};
	return 0;
}

static int system_lock(void *ctx, int file)
{
	return guarded(flock(file, LOCK_EX | LOCK_NB));
}

static void system_unlock(void *ctx, int file)
{
	guarded(flock(file, LOCK_UN));
}

static s64 system_preadv(void *ctx, int file, const struct kv_iov *iov, u32 nr, u64 offset)
{
	return guarded(preadv(file, (const struct iovec *)iov, nr, offset));
}

static s64 system_pwritev(void *ctx, int file, const struct kv_iov *iov, u32 nr, u64 offset)
{
	return guarded(pwritev(file, (const struct iovec *)iov, nr, offset));
}

static int system_allocate(void *ctx, int file, u64 offset, u64 bytes)
{
	return guarded(fallocate(file, 0, offset, bytes));
}

static int system_truncate(void *ctx, int file, u64 bytes)
{
	return guarded(ftruncate(file, bytes));
}

static int system_datasync(void *ctx, int file)
{
	return guarded(fdatasync(file));
}

static int system_rename_at(void *ctx, int dir, const char *from, const char *to)
{
	return guarded(renameat(dir, from, dir, to));
}

static int system_unlink_at(void *ctx, int dir, const char *name)
{
	return guarded(unlinkat(dir, name, 0));
}

static int system_event_open(void *ctx)
{
	return guarded(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

/* A counter that is full can be read as well. */
static void system_event_set(void *ctx, int event)
{
	uint64_t one = 1;

	guarded(write(event, &one, sizeof(one)));
}

static void system_event_clear(void *ctx, int event)
{
	uint64_t count;

	guarded(read(event, &count, sizeof(count)));
}

const struct kv_file_ops kv_file_system = {
	.open_dir	= system_open_dir,
	.open_at	= system_open_at,
	.close		= system_close,
	.stat		= system_stat,
	.lock		= system_lock,
	.unlock		= system_unlock,
	.preadv		= system_preadv,
	.pwritev	= system_pwritev,
	.allocate	= system_allocate,
	.truncate	= system_truncate,
	.datasync	= system_datasync,
	.rename_at	= system_rename_at,
	.unlink_at	= system_unlink_at,
	.event_open	= system_event_open,
	.event_set	= system_event_set,
	.event_clear	= system_event_clear,
	.queue_open	= kv_uring_open,
	.queue_submit	= kv_uring_submit,
	.queue_reap	= kv_uring_reap,
	.queue_close	= kv_uring_close,
};

DEFINE_SEAM(file)

u32 kv_iov_advance(struct kv_iov **iov, u32 nr, size_t done)
{
	while (nr && done >= (*iov)->bytes) {
		done -= (*iov)->bytes;
		(*iov)++;
		nr--;
	}
	if (nr) {
		(*iov)->base = (char *)(*iov)->base + done;
		(*iov)->bytes -= done;
	}
	return nr;
}

typedef s64 transfer_fn(void *ctx, int file, const struct kv_iov *iov, u32 nr, u64 offset);

/* Interrupted for ever, or taken in endless crumbs, is as good as failed. */
#define MAX_INTERRUPTS	64

static int transfer_all(const struct kv_file_ops *ops, transfer_fn *transfer, int file,
			struct kv_iov *iov, u32 nr, u64 offset)
{
	int nr_interrupts = 0;
	s64 done;

	while (nr) {
		done = transfer(ops->ctx, file, iov, nr, offset);
		if ((done == -EINTR || done == -EAGAIN) && nr_interrupts++ < MAX_INTERRUPTS)
			continue;
		if (done <= 0)
			return done ? done : -EIO;
		nr = kv_iov_advance(&iov, nr, done);
		offset += done;
	}
	return 0;
}

int kv_file_read_all(const struct kv_file_ops *ops, int file, struct kv_iov *iov, u32 nr,
		     u64 offset)
{
	return transfer_all(ops, ops->preadv, file, iov, nr, offset);
}

int kv_file_write_all(const struct kv_file_ops *ops, int file, struct kv_iov *iov, u32 nr,
		      u64 offset)
{
	return transfer_all(ops, ops->pwritev, file, iov, nr, offset);
}

int kv_file_allocate(const struct kv_file_ops *ops, int file, u64 offset, u64 bytes)
{
	int err = -EINTR;

	for (u32 i = 0; i < MAX_INTERRUPTS && err == -EINTR; i++)
		err = ops->allocate(ops->ctx, file, offset, bytes);
	return err;
}

int kv_file_datasync(const struct kv_file_ops *ops, int file)
{
	int err = -EINTR;

	for (u32 i = 0; i < MAX_INTERRUPTS && err == -EINTR; i++)
		err = ops->datasync(ops->ctx, file);
	return err;
}
