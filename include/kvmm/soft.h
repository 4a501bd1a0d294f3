/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For programs with kernels of their own that are to run on the software driver, too.
 *
 * libkvmm-swcuda.so does not execute PTX: an entry of a module stands for a function of the host,
 * which the program names before it loads the module. A driver for GPUs has no such call, so one
 * path serves both:
 *
 *	add = (kvmm_soft_kernel_add_fn)dlsym(driver, KVMM_SOFT_KERNEL_ADD);
 *	for (i = 0; add && i < nr_kernels && !err; i++)
 *		err = add(&kernels[i]);
 *	cuModuleLoadDataEx(&module, ptx, 0, NULL, NULL);
 *
 * The same source makes both: by a compiler for the host, and by one for PTX. samples/toy shows
 * how. Nothing here is in libkvmm itself.
 */
#ifndef KVMM_SOFT_H
#define KVMM_SOFT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One thread of a launch. */
struct kvmm_soft_thread {
	uint32_t grid[3];		/* groups */
	uint32_t block[3];		/* threads of a group */
	uint64_t nr;			/* this one, x fastest, then groups */
};

/**
 * kvmm_soft_touch_fn - a launch reads, or writes, this memory
 * @list: as it was given
 *
 * Return: 1 it may be read right now, by the host as well, to find out what else the launch
 * touches; 0 not so: name nothing that depends on it.
 */
typedef int (*kvmm_soft_touch_fn)(void *list, uint64_t addr, uint64_t bytes, int is_write);

/** Any one-dimensional grid does the same: the driver may run a few threads instead of all. */
#define KVMM_SOFT_ANY_GRID	(1u << 0)

/**
 * struct kvmm_soft_kernel - an entry, compiled for the host
 * @size: sizeof(struct kvmm_soft_kernel)
 * @name: of the .entry
 * @nr_params: how many it has
 * @flags: KVMM_SOFT_*
 * @run: one thread of it; @params[i] is the address of parameter i
 * @access: names all memory that the launch reads and writes, for the race checker; called at any
 *	time until the launch has run. NULL: it is not checked
 * @data: of the program
 */
struct kvmm_soft_kernel {
	size_t size;
	const char *name;
	uint32_t nr_params;
	uint32_t flags;
	void (*run)(const struct kvmm_soft_kernel *kernel, const struct kvmm_soft_thread *thread,
		    void **params);
	void (*access)(const struct kvmm_soft_kernel *kernel, void **params,
		       kvmm_soft_touch_fn touch, void *list);
	const void *data;
};

/** The call's name, for dlsym(). */
#define KVMM_SOFT_KERNEL_ADD	"kvmm_soft_kernel_add"

/**
 * kvmm_soft_kernel_add_fn - its type
 *
 * @kernel is borrowed for as long as the driver is loaded. A second time changes nothing.
 *
 * Return: 0; -EINVAL; -EEXIST there is another one of this name; -ENOSPC 32 are there.
 */
typedef int (*kvmm_soft_kernel_add_fn)(const struct kvmm_soft_kernel *kernel);

#ifdef __cplusplus
}
#endif
#endif /* KVMM_SOFT_H */
