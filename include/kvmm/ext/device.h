/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, and kernels of programs for the software device. */
#ifndef KVMM_EXT_DEVICE_H
#define KVMM_EXT_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include <kvmm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What devices there are, and what each can do: for tools, and for engines that choose one.
 *
 *	struct kvmm_device_info info = { .size = sizeof(info) };
 *	int err = kvmm_device_get_info("cuda:0", &info);	// else info.why says why not
 */

/* What driver and device both can: bits of features. */
#define KVMM_DEVICE_VMM		(1u << 0)	/* memory that grows and shrinks in place */
#define KVMM_DEVICE_BATCH	(1u << 1)	/* one call for many copies */
#define KVMM_DEVICE_PEER	(1u << 2)	/* the driver copies between devices */
#define KVMM_DEVICE_DMABUF	(1u << 3)	/* memory exported as DMA-BUF */
#define KVMM_DEVICE_MEMOPS	(1u << 4)	/* streams that write words and wait for them */
#define KVMM_DEVICE_POSIX_FD	(1u << 5)	/* memory exported as a file descriptor */
#define KVMM_DEVICE_FABRIC	(1u << 6)	/* memory exported to hosts of one fabric */

enum kvmm_copy_dir {
	KVMM_COPY_LOCAL,		/* within the device */
	KVMM_COPY_TO_DEVICE,		/* from pinned host memory */
	KVMM_COPY_TO_HOST,		/* to pinned host memory */
	KVMM_NR_COPY_DIRS,
};

enum kvmm_copy_path {
	KVMM_PATH_NONE,
	KVMM_PATH_KERNEL,		/* one launch for many pieces */
	KVMM_PATH_BATCH,		/* one call of the driver for many pieces */
	KVMM_PATH_SINGLE,		/* one call a piece */
	KVMM_NR_PATHS,
};

/** Pieces in the copies that kvmm_device_info.step is about. */
#define KVMM_STEP_PIECES	256u

/** What a path was measured to cost when the device was opened; 0, 0 = not measured. */
struct kvmm_path_cost {
	uint32_t call_ns;		/* each launch; each piece of the other paths */
	uint32_t mib_per_s;
};

/** From pieces of so many bytes on, copies of many pieces take that path. */
struct kvmm_path_step {
	uint64_t from_bytes;		/* 0 in the first step; a power of two in the others */
	uint32_t path;			/* enum kvmm_copy_path; NONE: no more steps */
	uint32_t reserved;
};

/**
 * struct kvmm_device_info - what is known of a device
 * @size: in: sizeof(struct kvmm_device_info)
 * @device: its name, with the number: "soft:0"
 * @driver: "host", "soft" or "cuda"
 * @card: as the driver calls it; empty on the host
 * @pci_id: "0000:0a:00.0"; empty on the host
 * @why: only if there is no such device: one line that says why not
 * @uuid: as the driver gives it; zero on the host
 * @driver_version: 1000 * major + 10 * minor of the CUDA that the driver is for; 0 on the host
 * @cc_major: compute capability; 0 on the host
 * @cc_minor: its second half
 * @nr_sms: multiprocessors; 0 on the host
 * @nr_devices: of this driver, this one included
 * @numa_node: of the host memory next to it; -1 = unknown
 * @features: KVMM_DEVICE_*
 * @paths: bit 1 << enum kvmm_copy_path: copies can go that way; 0 = the processor copies
 * @total_bytes: memory
 * @free_bytes: of it at this moment, less what kvmm itself holds while looking; 0 = unknown
 * @granule_bytes: least unit of memory that grows and shrinks; 0 = none does
 * @good_granule_bytes: the unit that the driver recommends; 0 = none does
 * @cost: by enum kvmm_copy_dir and enum kvmm_copy_path
 * @step: by enum kvmm_copy_dir: the path that copies of KVMM_STEP_PIECES pieces take, by the size
 *	of a piece. Where nothing was measured, cautious defaults decide
 */
struct kvmm_device_info {
	size_t size;
	char device[16];
	char driver[8];
	char card[64];
	char pci_id[16];
	char why[192];
	uint8_t uuid[16];
	uint32_t driver_version;
	uint32_t cc_major;
	uint32_t cc_minor;
	uint32_t nr_sms;
	uint32_t nr_devices;
	int32_t numa_node;
	uint32_t features;
	uint32_t paths;
	uint64_t total_bytes;
	uint64_t free_bytes;
	uint64_t granule_bytes;
	uint64_t good_granule_bytes;
	struct kvmm_path_cost cost[KVMM_NR_COPY_DIRS][KVMM_NR_PATHS];
	struct kvmm_path_step step[KVMM_NR_COPY_DIRS][KVMM_NR_PATHS];
};

/**
 * kvmm_device_get_info() - open a device, look at it, close it
 * @device: as in kvmm_pool_attr.device: "host", "cuda:0", "soft:0"
 * @info: filled, up to @info->size bytes; on failure all of it but size and why is zero
 *
 * Context: any thread; may sleep. Loads the driver; copies for about 50 ms when a process opens a
 * card for the first time.
 * Return: 0; -EINVAL NULL, or a bad size, and nothing is written; -ENOENT no device has such a
 * name; -ENODEV no driver for it, or no device of that number; -ENOMEM; -EIO the device is lost;
 * -ECHILD this is a forked child, and the device stayed with its parent.
 */
KVMM_API int kvmm_device_get_info(const char *device, struct kvmm_device_info *info);

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
#endif /* KVMM_EXT_DEVICE_H */
