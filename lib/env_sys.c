// SPDX-License-Identifier: Apache-2.0
/*
 * The system behind the seam for start-up code, threads that end with the call, forked children.
 *
 * Threads of a library get in the way of its process: they catch signals meant for others, and one
 * that is still there at the end of the process, or after dlclose(), runs into what is gone. Ours
 * catch none, and are joined before the call returns, even if the caller is cancelled meanwhile;
 * the one that the engine may ask for is joined when it asks for it no more.
 *
 * A driver's state does not survive a fork, yet its calls remain callable in the child and may
 * hang there. The child's hook runs before anything else of the child, so a plain flag tells.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <kv/bits.h>
#include <kv/env.h>
#include <kv/sys.h>

#include "internal.h"

#define MAX_THREADS	16	/* the caller's included */

#define MPOL_PREFERRED	1	/* of <linux/mempolicy.h>: that node, or another if it is full */
#define MAX_NODES	1024

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
	int fd = guarded(open(path, O_RDONLY | O_CLOEXEC));
	s64 len;

	if (fd < 0)
		return fd;
	len = guarded(read(fd, text, bytes - 1));
	guarded(close(fd));
	if (len < 0)
		return len;
	text[len] = '\0';
	return strlen(text) == (size_t)len ? 0 : -EILSEQ;
}

struct parallel {
	/* Fixed at creation. */
	kv_part_fn *fn;
	void *arg;
	u32 nr_parts;

	u64 next;		/* atomic; wider than a part, as each thread draws one too many */
};

static void *do_parts(void *data)
{
	struct parallel *work = data;
	u64 part;

	while ((part = kv_fetch_add(&work->next, 1)) < work->nr_parts)
		work->fn(work->arg, part, work->nr_parts);
	return NULL;
}

/* Not those that a thread brings upon itself: blocked, they kill without a word from handlers. */
static void block_signals(sigset_t *before)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };
	sigset_t others;

	sigfillset(&others);
	for (u32 i = 0; i < ARRAY_SIZE(faults); i++)
		sigdelset(&others, faults[i]);
	pthread_sigmask(SIG_BLOCK, &others, before);
}

static void system_parallel(void *ctx, kv_part_fn *fn, void *arg, u32 nr_parts)
{
	struct parallel work = { fn, arg, nr_parts, 0 };
	pthread_t threads[MAX_THREADS];
	int saved = errno, cancel;
	sigset_t before;
	cpu_set_t cpus;
	long wanted;
	u32 nr = 0;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	/* One a CPU that this thread may use: those that it starts may use the same ones. */
	if (!sched_getaffinity(0, sizeof(cpus), &cpus))
		wanted = CPU_COUNT(&cpus);
	else
		wanted = sysconf(_SC_NPROCESSORS_ONLN);	/* more than a cpu_set_t holds */
	wanted = min(wanted, min((long)nr_parts, (long)MAX_THREADS));
	if (wanted > 1) {
		block_signals(&before);
		while (nr < wanted - 1 && !pthread_create(&threads[nr], NULL, do_parts, &work))
			nr++;
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	}
	do_parts(&work);
	while (nr)
		pthread_join(threads[--nr], NULL);
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
}

static int membarrier(int command)
{
	return guarded(syscall(SYS_membarrier, command, 0, 0));
}

/* A process that has not asked before, a forked child for one, is refused until it has. */
static int system_fence_all(void *ctx)
{
	int err = membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);

	if (likely(err != -EPERM))
		return err;
	err = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
	return err ? err : membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

/* Straight from the environment: kv_alloc() stands above this table. */
struct spawned {
	pthread_t thread;
	void (*fn)(void *arg);
	void *arg;
};

static void *run_spawned(void *data)
{
	struct spawned *spawned = data;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_setname_np(pthread_self(), "kvmm");
	spawned->fn(spawned->arg);
	return NULL;
}

static int system_spawn(void *ctx, void (*fn)(void *arg), void *arg, void **thread)
{
	const struct kv_env_ops *env = kv_env();
	struct spawned *spawned = env->alloc(env->ctx, sizeof(*spawned), sizeof(void *));
	sigset_t before;
	int err;

	if (!spawned)
		return -EAGAIN;
	spawned->fn = fn;
	spawned->arg = arg;
	block_signals(&before);
	err = pthread_create(&spawned->thread, NULL, run_spawned, spawned);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err) {
		env->free(env->ctx, spawned, sizeof(*spawned));
		return -EAGAIN;
	}
	*thread = spawned;
	return 0;
}

static void system_join(void *ctx, void *thread)
{
	const struct kv_env_ops *env = kv_env();
	struct spawned *spawned = thread;

	pthread_join(spawned->thread, NULL);
	env->free(env->ctx, spawned, sizeof(*spawned));
}

static u64 system_wall_ns(void *ctx)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static int system_wipe_on_fork(void *ctx, void *pages, size_t bytes)
{
	return guarded(madvise(pages, bytes, MADV_WIPEONFORK));
}

/*
 * Advice only: a kernel without NUMA, a container that forbids the call, or a node that is not
 * there leave the memory where it would have been.
 */
static void prefer_node(void *ptr, u64 bytes, int node)
{
	unsigned long mask[MAX_NODES / (8 * sizeof(long))] = { 0 };

	if (node < 0 || node >= MAX_NODES)
		return;
	mask[node / KV_WORD_BITS] = BIT64(node % KV_WORD_BITS);
	syscall(SYS_mbind, ptr, bytes, MPOL_PREFERRED, mask, MAX_NODES, 0);
}

static void *system_map_pages(void *ctx, u64 bytes, int node)
{
	struct guard before = guard_enter();
	void *ptr = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (ptr != MAP_FAILED) {
		prefer_node(ptr, bytes, node);
		madvise(ptr, bytes, MADV_HUGEPAGE);
	}
	guard_leave(before, 0);
	return ptr == MAP_FAILED ? NULL : ptr;
}

static void system_unmap_pages(void *ctx, void *ptr, u64 bytes)
{
	guarded(munmap(ptr, bytes));
}

const struct kv_sys_ops kv_sys_system = {
	.getenv		= system_getenv,
	.open_library	= system_open_library,
	.find_symbol	= system_find_symbol,
	.own_folder	= system_own_folder,
	.read_file	= system_read_file,
	.parallel	= system_parallel,
	.fence_all	= system_fence_all,
	.spawn		= system_spawn,
	.join		= system_join,
	.wall_ns	= system_wall_ns,
	.wipe_on_fork	= system_wipe_on_fork,
	.map_pages	= system_map_pages,
	.unmap_pages	= system_unmap_pages,
};

DEFINE_SEAM(sys)

int kv_cancel_off(void)
{
	int before;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

void kv_cancel_restore(int before)
{
	pthread_setcancelstate(before, NULL);
}

void kv_parallel(kv_part_fn *fn, void *arg, u32 nr_parts)
{
	const struct kv_sys_ops *ops = kv_sys();

	if (ops->parallel) {
		ops->parallel(ops->ctx, fn, arg, nr_parts);
		return;
	}
	for (u32 i = 0; i < nr_parts; i++)
		fn(arg, i, nr_parts);
}

int kv_fence_all(void)
{
	const struct kv_sys_ops *ops = kv_sys();

	return ops->fence_all ? ops->fence_all(ops->ctx) : -ENOSYS;
}

u32 kv_forked_flag;

static u32 nr_watching;			/* atomic */

void sys_forked(void)
{
	if (READ_ONCE(nr_watching))
		WRITE_ONCE(kv_forked_flag, 1);
}

void kv_fork_watch(bool on)
{
	if (on)
		kv_fetch_add(&nr_watching, 1);
	else
		kv_fetch_sub(&nr_watching, 1);
}
