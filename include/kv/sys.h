/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other seam to the operating system: for start-up code and large memory, never a hot path.
 *
 * Apart from kv_env_ops because few users need it: the environment, libraries opened at run
 * time, small files of the kernel, threads, and forks. Tests put their own
 * table in place and thereby decide which libraries there are and which symbols those lack.
 */
#ifndef KV_SYS_H
#define KV_SYS_H

#include <kv/fork.h>
#include <kv/types.h>

/* Does part @part of @nr_parts. It touches that part's data alone, and calls no driver. */
typedef void kv_part_fn(void *arg, u32 part, u32 nr_parts);

/**
 * struct kv_sys_ops - calls that start-up code needs of the system
 * @getenv: value of a variable of the environment, or NULL; NULL as well in programs that run
 *	with more rights than their user, since our variables name code to load
 * @open_library: handle of a shared library, or NULL and *@why; it is never closed
 * @find_symbol: address of a symbol of that library, or of the program if that is NULL; or NULL
 * @read_file: up to @bytes - 1 bytes of a small file as a string: 0 or -errno;
 *	-EILSEQ there is a zero among them
 * @own_folder: the folder of the file that this code was loaded from: 0 or -ENOENT; may be NULL
 * @parallel: the work of kv_parallel(); may be NULL
 * @fence_all: the work of kv_fence_all(): 0 or -errno; may be NULL
 * @spawn: a thread that runs @fn(@arg) once, and takes none of the engine's signals: 0, or -EAGAIN
 * @join: wait for its end
 * @wall_ns: time of day, in nanoseconds since 1970; may be NULL
 * @wipe_on_fork: whole pages of ours that are to be zero in each child: 0 or -errno; may be NULL
 * @map_pages: @bytes of zeroed memory, aligned to pages, preferably of @node (-1: any) and in huge
 *	pages; nothing is behind it until it is touched. It is content, or tables of that size: they
 *	are neither accounted nor taken from an arena. NULL: no memory
 * @unmap_pages: give it back, as a whole
 */
struct kv_sys_ops {
	const char *(*getenv)(void *ctx, const char *name);
	void *(*open_library)(void *ctx, const char *path, const char **why);
	void *(*find_symbol)(void *ctx, void *library, const char *name);
	int (*read_file)(void *ctx, const char *path, char *text, size_t bytes);
	void *ctx;
	int (*own_folder)(void *ctx, char *path, size_t bytes);
	void (*parallel)(void *ctx, kv_part_fn *fn, void *arg, u32 nr_parts);
	int (*fence_all)(void *ctx);
	int (*spawn)(void *ctx, void (*fn)(void *arg), void *arg, void **thread);
	void (*join)(void *ctx, void *thread);
	u64 (*wall_ns)(void *ctx);
	int (*wipe_on_fork)(void *ctx, void *pages, size_t bytes);
	void *(*map_pages)(void *ctx, u64 bytes, int node);
	void (*unmap_pages)(void *ctx, void *ptr, u64 bytes);
};

extern const struct kv_sys_ops kv_sys_system;

/* The table in force; never NULL. Set it before the first device is opened, or between tests. */
const struct kv_sys_ops *kv_sys(void);
void kv_sys_set(const struct kv_sys_ops *ops);	/* NULL: back to kv_sys_system */

/*
 * Open @library and find @nr functions of it: 0 and @call has them, in the order of @name; or
 * -EOPNOTSUPP, and kvmm_why() begins with @what. For tables of pointers to functions.
 */
int kv_find_calls(const char *what, const char *library, const char *const *name, u32 nr,
		  void **call);

/**
 * kv_parallel() - do work in parts, on as many threads as are of use
 * @fn: does one part; called once for each, in no order
 * @arg: borrowed, for @fn
 * @nr_parts: number of parts; a few for each CPU even the load out
 *
 * The caller does parts as well, so that it all gets done where no thread can be had: on one CPU,
 * or where the system refuses. All parts are done on return, the caller sees their writes,
 * and no thread is left. The other threads run on the caller's CPUs and take none of its signals
 * but faults of their own.
 *
 * Context: may sleep; no lock is held. Not a point of cancellation.
 */
void kv_parallel(kv_part_fn *fn, void *arg, u32 nr_parts);

/**
 * kv_fence_all() - a full fence in each thread of this process, somewhere in its program order
 *
 * One side of an asymmetric pair: the caller pays a system call, so that the others need
 * kv_fence_light() of kv/atomic.h only. Each has passed its fence on return. Any lock may be held.
 *
 * Return: 0; -ENOSYS, -EPERM: the system has none, or not for us; both sides need a fence.
 */
int kv_fence_all(void);

/*
 * A thread that is cancelled must leave no lock behind that it holds, nor a block that it has just
 * taken. Locking and allocating are no points of cancellation; drivers, grace periods and functions
 * of the engine may have some. Between these two none has an effect: they come in pairs, and nest.
 */
int kv_cancel_off(void);	/* the argument for the other */
void kv_cancel_restore(int before);

/*
 * Something that does not survive a fork is in use (on) or is not: children of this process know
 * that from then on by kv_forked(), and so do theirs. Calls with true and false come in pairs.
 */
void kv_fork_watch(bool on);

extern u32 kv_forked_flag;	/* 0 or 1; written when a child begins: see kv/fork.h */

static inline bool kv_forked(void)
{
	kv_fork_look();
	return READ_ONCE(kv_forked_flag);
}

#endif /* KV_SYS_H */
