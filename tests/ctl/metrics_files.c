// SPDX-License-Identifier: Apache-2.0
/* See metrics_files.h. */
#include <errno.h>

#include <kv/file.h>

#include "metrics_files.h"

struct metrics_fault fault;

static s64 read_file(void *ctx, int file, const struct kv_iov *iov, u32 nr, u64 offset)
{
	s64 ret;

	if (fault.fails_reads) {
		fault.failed_reads++;
		return -EIO;
	}
	ret = kv_file_system.preadv(ctx, file, iov, nr, offset);
	if (ret > 0 && fault.lies)
		((u8 *)iov[nr - 1].base)[iov[nr - 1].bytes / 2] ^= 1;
	return ret;
}

static s64 write_file(void *ctx, int file, const struct kv_iov *iov, u32 nr, u64 offset)
{
	if (!fault.fails_writes)
		return kv_file_system.pwritev(ctx, file, iov, nr, offset);
	fault.failed_writes++;
	return -EIO;
}

static int sync_file(void *ctx, int file)
{
	if (!fault.fails_syncs)
		return kv_file_system.datasync(ctx, file);
	fault.failed_syncs++;
	return -EIO;
}

static int make_room(void *ctx, int file, u64 offset, u64 bytes)
{
	if (!fault.is_full)
		return kv_file_system.allocate(ctx, file, offset, bytes);
	fault.refused_segments++;
	return -ENOSPC;
}

void files_install(void)
{
	static struct kv_file_ops files;

	files = kv_file_system;
	files.preadv = read_file;
	files.pwritev = write_file;
	files.datasync = sync_file;
	files.allocate = make_room;
	kv_file_set(&files);
}

void files_remove(void)
{
	kv_file_set(NULL);
}
