/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam to files: calls of the disk tier to the system.
 *
 * Apart from kv_sys_ops because it is no start-up code, and because a test puts a whole disk below
 * it: one that remembers each write, loses power between any two of them, and fails on demand.
 *
 * Single calls wait. The queue is for threads that must not: requests go in, and come out when they
 * are done. A system may have no queue (a kernel without io_uring, a container that forbids it).
 */
#ifndef KV_FILE_H
#define KV_FILE_H

#include <kv/types.h>

/* Part of the memory of a transfer; the same as struct iovec. */
struct kv_iov {
	void	*base;
	size_t	bytes;
};

/* Most parts one transfer may have. */
#define KV_FILE_MAX_IOV		1024u

/* How a file is opened; never through a symbolic link. New files are for their owner only. */
enum {
	KV_FILE_WRITE	= 1 << 0,	/* else for reading only */
	KV_FILE_CREATE	= 1 << 1,	/* if it is not there */
	KV_FILE_DIRECT	= 1 << 2,	/* past the page cache; -EINVAL where not possible */
};

struct kv_file_stat {
	u64	bytes;
	u32	mode;		/* permissions: the lowest 9 bits */
	u32	nr_links;
	bool	is_file;	/* a regular one */
	bool	is_folder;
	bool	is_own;		/* belongs to the user that this process runs as */
};

enum kv_file_op {
	KV_FILE_READV,
	KV_FILE_WRITEV,
	KV_FILE_DATASYNC,
};

/**
 * struct kv_file_io - one request in a queue
 * @op: enum kv_file_op
 * @file: as open_at returned it
 * @iov: borrowed until the request is done, and so is the memory that it names
 * @nr_iov: 1 to KV_FILE_MAX_IOV; 0 for KV_FILE_DATASYNC
 * @offset: bytes from the start of the file
 * @result: bytes transferred, which may be fewer than asked for, or -errno; filled in
 */
struct kv_file_io {
	u32		op;
	int		file;
	struct kv_iov	*iov;
	u32		nr_iov;
	u64		offset;
	s64		result;
};

/**
 * struct kv_file_ops - files as the library needs them
 * @open_dir: a folder, made with mode 0700 if @create and it is not there: a number or -errno;
 *	-ELOOP, -ENOTDIR: the last part of @path is a symbolic link or no folder
 * @open_at: a file of that folder: a number or -errno
 * @close: of either
 * @stat: 0 or -errno
 * @lock: keep others from locking this file: 0; -EWOULDBLOCK: another process has
 * @unlock: let them again; so does the end of the process, once all its requests are done
 * @preadv: bytes read, fewer at the end of the file or if interrupted, or -errno
 * @pwritev: bytes written, or -errno
 * @allocate: @bytes from @offset on have room on the disk, and the file is at least that long:
 *	0 or -errno
 * @truncate: cut the file to @bytes, or make it that long: 0 or -errno
 * @datasync: all that was written before survives a loss of power on return of 0; -errno
 * @rename_at: within the folder: 0 or -errno
 * @unlink_at: 0 or -errno
 * @event_open: something that can be polled for: a file descriptor, or -errno; may be NULL
 * @event_set: it can be read from now on
 * @event_clear: not any more
 * @queue_open: a queue for @depth requests at a time: 0 or -errno; may be NULL. Calls about one
 *	queue are serialised by its user
 * @queue_submit: takes the first so many of @nr requests: that number, at least 1, or -errno
 * @queue_reap: up to @max requests that are done, waiting for the first one if @wait: their number
 *	or -errno
 * @queue_close: nothing is under way in it
 */
struct kv_file_ops {
	int (*open_dir)(void *ctx, const char *path, bool create);
	int (*open_at)(void *ctx, int dir, const char *name, u32 flags);
	void (*close)(void *ctx, int file);
	int (*stat)(void *ctx, int file, struct kv_file_stat *stat);
	int (*lock)(void *ctx, int file);
	void (*unlock)(void *ctx, int file);
	s64 (*preadv)(void *ctx, int file, const struct kv_iov *iov, u32 nr, u64 offset);
	s64 (*pwritev)(void *ctx, int file, const struct kv_iov *iov, u32 nr, u64 offset);
	int (*allocate)(void *ctx, int file, u64 offset, u64 bytes);
	int (*truncate)(void *ctx, int file, u64 bytes);
	int (*datasync)(void *ctx, int file);
	int (*rename_at)(void *ctx, int dir, const char *from, const char *to);
	int (*unlink_at)(void *ctx, int dir, const char *name);
	int (*event_open)(void *ctx);
	void (*event_set)(void *ctx, int event);
	void (*event_clear)(void *ctx, int event);
	int (*queue_open)(void *ctx, u32 depth, void **queue);
	int (*queue_submit)(void *ctx, void *queue, struct kv_file_io *const *ios, u32 nr);
	int (*queue_reap)(void *ctx, void *queue, struct kv_file_io **done, u32 max, bool wait);
	void (*queue_close)(void *ctx, void *queue);
	void *ctx;
};

extern const struct kv_file_ops kv_file_system;

/* The table in force; never NULL. Set it before the first file is opened, or between tests. */
const struct kv_file_ops *kv_file(void);
void kv_file_set(const struct kv_file_ops *ops);	/* NULL: back to kv_file_system */

/*
 * All of @nr parts, from or to @offset on: what was interrupted or came in pieces is carried on
 * with. @iov is used up. 0; -EIO: the file ends before, or takes no more; or -errno.
 */
int kv_file_read_all(const struct kv_file_ops *ops, int file, struct kv_iov *iov, u32 nr,
		     u64 offset);
int kv_file_write_all(const struct kv_file_ops *ops, int file, struct kv_iov *iov, u32 nr,
		      u64 offset);

/* The calls of those names, again if they were interrupted, but not for ever. */
int kv_file_allocate(const struct kv_file_ops *ops, int file, u64 offset, u64 bytes);
int kv_file_datasync(const struct kv_file_ops *ops, int file);

/* Drop the first @done bytes of parts: how many parts are left, at *@iov. */
u32 kv_iov_advance(struct kv_iov **iov, u32 nr, size_t done);

#endif /* KV_FILE_H */
