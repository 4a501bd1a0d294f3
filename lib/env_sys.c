// SPDX-License-Identifier: Apache-2.0
/*
 * The system behind the seam for start-up code, and who is a forked child.
 *
 * A driver's state does not survive a fork, yet its calls remain callable in the child and may
 * hang there. The child's hook runs before anything else of the child, so a plain flag tells.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <kv/sys.h>

static const char *system_getenv(void *ctx, const char *name)
{
	return secure_getenv(name);
}

/* Local: a driver's exports are for us, and must not shadow those that an engine links. */
static void *system_open_library(void *ctx, const char *path, const char **why)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!library)
		*why = dlerror();
	return library;
}

static void *system_find_symbol(void *ctx, void *library, const char *name)
{
	return dlsym(library, name);
}

static int system_own_folder(void *ctx, char *path, size_t bytes)
{
	Dl_info info;
	const char *end;

	if (!dladdr(&kv_sys_system, &info) || !info.dli_fname)
		return -ENOENT;
	end = strrchr(info.dli_fname, '/');
	if (!end || end - info.dli_fname >= bytes)
		return -ENOENT;
	memcpy(path, info.dli_fname, end - info.dli_fname);
	path[end - info.dli_fname] = '\0';
	return 0;
}

/* For files of /sys and /proc, which come in one piece. */
static int system_read_file(void *ctx, const char *path, char *text, size_t bytes)
{
	int saved = errno, fd, err = 0;
	ssize_t len = 0;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		len = read(fd, text, bytes - 1);
	if (fd < 0 || len < 0)
		err = -errno;
	else
		text[len] = '\0';
	if (fd >= 0)
		close(fd);
	errno = saved;
	return err;
}

const struct kv_sys_ops kv_sys_system = {
	.getenv		= system_getenv,
	.open_library	= system_open_library,
	.find_symbol	= system_find_symbol,
	.own_folder	= system_own_folder,
	.read_file	= system_read_file,
};

static const struct kv_sys_ops *sys_in_force = &kv_sys_system;

const struct kv_sys_ops *kv_sys(void)
{
	/* Pairs with kv_sys_set(): whoever sees the table sees what it was filled with. */
	return smp_load_acquire(&sys_in_force);
}

void kv_sys_set(const struct kv_sys_ops *ops)
{
	/* Pairs with kv_sys(). */
	smp_store_release(&sys_in_force, ops ? ops : &kv_sys_system);
}

u32 kv_forked_flag;

static u32 nr_watching;			/* atomic */
static u32 hook_failed;			/* fixed by hook_once */
static pthread_once_t hook_once = PTHREAD_ONCE_INIT;

static void in_child(void)
{
	if (READ_ONCE(nr_watching))
		WRITE_ONCE(kv_forked_flag, 1);
}

static void add_hook(void)
{
	hook_failed = !!pthread_atfork(NULL, NULL, in_child);
}

int kv_fork_watch(bool on)
{
	pthread_once(&hook_once, add_hook);
	if (on)
		kv_fetch_add(&nr_watching, 1);
	else
		kv_fetch_sub(&nr_watching, 1);
	return hook_failed ? -ENOMEM : 0;
}
