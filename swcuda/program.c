// SPDX-License-Identifier: Apache-2.0
/*
 * Kernels of programs, <kvmm/ext/device.h>: the same as those of tests, in words of the installed
 * headers.
 */
#include <kvmm/ext/device.h>

#include "internal.h"

#define MAX_PROGRAM	32

static struct sw_kernel kernels[MAX_PROGRAM];	/* sw.lock; borrowed by the table of kernels */
static u32 nr_kernels;				/* sw.lock */

static void run_program(const struct sw_kernel *kernel, const struct sw_grid *grid, u64 nr,
			void **params)
{
	const struct kvmm_soft_kernel *own = kernel->data;
	struct kvmm_soft_thread thread = { .nr = nr };

	memcpy(thread.grid, grid->grid, sizeof(thread.grid));
	memcpy(thread.block, grid->block, sizeof(thread.block));
	own->run(own, &thread, params);
}

struct toucher {
	struct sw_access_list *list;
	sw_touch_fn touch;
};

static int touch_program(void *arg, uint64_t addr, uint64_t bytes, int is_write)
{
	const struct toucher *toucher = arg;

	return toucher->touch(toucher->list, addr, bytes, is_write);
}

static void access_program(const struct sw_kernel *kernel, void **params,
			   struct sw_access_list *list, sw_touch_fn touch)
{
	const struct kvmm_soft_kernel *own = kernel->data;
	struct toucher toucher = { list, touch };

	own->access(own, params, touch_program, &toucher);
}

static int add(const struct kvmm_soft_kernel *own)
{
	const struct sw_kernel *there = sw_kernel_find(own->name);
	struct sw_kernel *kernel = &kernels[nr_kernels];
	int err;

	if (there)
		return there->run == run_program && there->data == own ? 0 : -EEXIST;
	if (nr_kernels == MAX_PROGRAM)
		return -ENOSPC;
	*kernel = (struct sw_kernel){
		.name = own->name, .nr_params = own->nr_params, .run = run_program,
		.access = own->access ? access_program : NULL,
		.any_grid = own->flags & KVMM_SOFT_ANY_GRID, .data = own,
	};
	err = sw_kernel_add(kernel);
	nr_kernels += !err;
	return err;
}

SW_EXPORT int kvmm_soft_kernel_add(const struct kvmm_soft_kernel *kernel);

int kvmm_soft_kernel_add(const struct kvmm_soft_kernel *kernel)
{
	int err;

	if (!kernel || kernel->size != sizeof(*kernel) || !kernel->name || !kernel->run ||
	    kernel->flags & ~KVMM_SOFT_ANY_GRID)
		return -EINVAL;
	sw_lock();
	err = add(kernel);
	sw_unlock();
	return err;
}

void sw_program_exit(void)
{
	nr_kernels = 0;
}
