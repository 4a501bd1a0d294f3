// SPDX-License-Identifier: Apache-2.0
/*
 * Handles between processes: file descriptors of the memory itself. Shareable handles have a file
 * of their own, so the kernel counts who still needs it, across processes too.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

static kcu_result export_fd(int *fd, kcu_mem_handle handle, kcu_handle_kind kind, u64 flags)
{
	struct sw_mem *mem = sw_object(SW_T_MEM, handle);

	if (!fd || !mem || flags)
		return KCU_E_INVALID_VALUE;
	if (kind == KCU_HANDLE_FABRIC)
		return KCU_E_NOT_SUPPORTED;
	/* It must have been asked for at creation. */
	if (kind != KCU_HANDLE_POSIX_FD || !(mem->handle_types & kind))
		return KCU_E_INVALID_VALUE;
	*fd = fcntl(mem->backing->fd, F_DUPFD_CLOEXEC, 0);
	return *fd < 0 ? KCU_E_OPERATING_SYSTEM : KCU_E_SUCCESS;
}

kcu_result cuMemExportToShareableHandle(void *shared, kcu_mem_handle handle, kcu_handle_kind kind,
					unsigned long long flags)
{
	return SW_RUN(cuMemExportToShareableHandle, SW_INIT,
		      export_fd(shared, handle, kind, flags));
}

static bool is_ours(int fd)
{
	static const char ours[] = "/memfd:swcuda-shareable";
	char path[32], name[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, name, sizeof(name));
	return n >= (ssize_t)sizeof(ours) - 1 && !memcmp(name, ours, sizeof(ours) - 1);
}

static struct sw_backing *wanted_backing;	/* only while the objects are walked */
static u64 wanted_inode;

static void compare(enum sw_type type, void *object)
{
	struct sw_mem *mem = object;

	if (type == SW_T_MEM && mem->backing->inode == wanted_inode)
		wanted_backing = mem->backing;
}

/* This process's own memory, exported before, is recognised: the checker must know its aliases. */
static struct sw_backing *find_backing(u64 inode)
{
	wanted_inode = inode;
	wanted_backing = NULL;
	for (u32 i = 0; i < sw.mappings.nr && !wanted_backing; i++) {
		struct sw_mapping *mapping = (struct sw_mapping *)sw.mappings.at[i];

		if (mapping->backing->inode == inode)
			wanted_backing = mapping->backing;
	}
	sw_for_each_object(compare);
	if (wanted_backing)
		wanted_backing->refs++;
	return wanted_backing;
}

static struct sw_backing *foreign_backing(int fd, const struct stat *stat)
{
	struct sw_backing *backing = calloc(1, sizeof(*backing));

	if (!backing)
		return NULL;
	*backing = (struct sw_backing){
		.dev = sw_current() ?: &sw.dev[0], .fd = fcntl(fd, F_DUPFD_CLOEXEC, 0),
		.phys = sw.opt.mem_bytes + sw.next_foreign, .bytes = stat->st_size, .refs = 1,
		.inode = stat->st_ino, .foreign = true,
	};
	if (backing->fd < 0) {
		free(backing);
		return NULL;
	}
	sw.next_foreign += stat->st_size;
	return backing;
}

static kcu_result import_fd(kcu_mem_handle *handle, int fd, kcu_handle_kind kind)
{
	struct sw_backing *backing;
	struct sw_mem *mem;
	struct stat stat;

	if (kind == KCU_HANDLE_FABRIC)
		return KCU_E_NOT_SUPPORTED;
	if (!handle || kind != KCU_HANDLE_POSIX_FD || !is_ours(fd) || fstat(fd, &stat))
		return KCU_E_INVALID_VALUE;
	backing = find_backing(stat.st_ino) ?: foreign_backing(fd, &stat);
	if (!backing)
		return KCU_E_OUT_OF_MEMORY;
	mem = sw_mem_new(backing, KCU_HANDLE_POSIX_FD);
	if (!mem) {
		sw_backing_put(backing);
		return KCU_E_OUT_OF_MEMORY;
	}
	*handle = mem->handle;
	return KCU_E_SUCCESS;
}

/* The descriptor comes by value, in the clothes of a pointer; it stays the caller's. */
kcu_result cuMemImportFromShareableHandle(kcu_mem_handle *handle, void *shared,
					  kcu_handle_kind kind)
{
	return SW_RUN(cuMemImportFromShareableHandle, SW_INIT | SW_UNSAFE,
		      import_fd(handle, (int)(intptr_t)shared, kind));
}
