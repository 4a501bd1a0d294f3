/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's device: memory, streams, launches. An engine has its own driver; kvmm is told of the
 * streams and of where the blocks lie, and never sees the rest.
 *
 * "host" runs everything at once. Others load a driver: that of a GPU or, for "soft:0", the
 * software one, by the same code.
 */
#ifndef TOY_DEVICE_H
#define TOY_DEVICE_H

#include <stddef.h>

#include "kernels.h"

/* Calls return 0, or a negative errno. A stream is a CUstream, or NULL on the host. */
struct device {
	int (*enter)(struct device *device);	/* each thread, before anything else */
	void (*leave)(struct device *device);
	int (*alloc)(struct device *device, size_t bytes, uint64_t *addr);
	void (*free)(struct device *device, uint64_t addr);
	int (*pin)(struct device *device, size_t bytes, void **ptr);	/* host memory for copies */
	void (*unpin)(struct device *device, void *ptr);
	int (*stream)(struct device *device, void **stream);
	void (*end_stream)(struct device *device, void *stream);
	int (*wait)(struct device *device, void *stream);
	int (*upload)(struct device *device, void *stream, uint64_t to, const void *from,
		      size_t bytes);
	int (*download)(struct device *device, void *stream, void *to, uint64_t from,
			size_t bytes);
	int (*fill)(struct device *device, void *stream, uint64_t addr, uint8_t byte,
		    size_t bytes);
	int (*launch)(struct device *device, void *stream, enum toy_kernel_id kernel,
		      const struct toy_args *args);
	void (*close)(struct device *device);
};

/* @name: as kvmm knows it. @why: set on failure: what is wrong */
int device_open(const char *name, struct device **device, const char **why);

int host_device_open(struct device **device);
int driver_device_open(const char *name, struct device **device, const char **why);

/* Threads that have work. */
static inline uint32_t toy_nr_threads(enum toy_kernel_id kernel, const struct toy_args *args)
{
	return toy_kernels[kernel].row_threads *
	       (kernel == TOY_SAY ? args->nr_seqs : args->nr_rows);
}

/* What a launch touches, for the race checker of the software driver. */
struct kvmm_soft_kernel;
const struct kvmm_soft_kernel *toy_soft_kernel(enum toy_kernel_id kernel);

#endif /* TOY_DEVICE_H */
