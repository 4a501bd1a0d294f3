/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What devices there are, and what each can do: for tools, and for engines that choose one.
 *
 *	struct kvmm_device_info info = { .size = sizeof(info) };
 *	int err = kvmm_device_get_info("cuda:0", &info);	// else info.why says why not
 */
#ifndef KVMM_DEVICE_H
#define KVMM_DEVICE_H

#include <kvmm/types.h>

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif
#endif /* KVMM_DEVICE_H */
