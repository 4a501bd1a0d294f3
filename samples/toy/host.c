// SPDX-License-Identifier: Apache-2.0
/* Device "host": memory is memory, a stream is the order of calls, a launch is a call. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

static int nothing(struct device *device)
{
	return 0;
}

static void leave(struct device *device)
{
}

static int pin(struct device *device, size_t bytes, void **ptr)
{
	*ptr = calloc(1, bytes);
	return *ptr ? 0 : -ENOMEM;
}

static void unpin(struct device *device, void *ptr)
{
	free(ptr);
}

static int alloc(struct device *device, size_t bytes, uint64_t *addr)
{
	void *ptr = NULL;

	if (posix_memalign(&ptr, 4096, bytes))	/* as those of a driver */
		return -ENOMEM;
	*addr = (uintptr_t)ptr;
	return 0;
}

static void free_addr(struct device *device, uint64_t addr)
{
	free((void *)(uintptr_t)addr);
}

static int stream(struct device *device, void **stream)
{
	*stream = NULL;
	return 0;
}

static void end_stream(struct device *device, void *stream)
{
}

static int wait(struct device *device, void *stream)
{
	return 0;
}

static int upload(struct device *device, void *stream, uint64_t to, const void *from,
		  size_t bytes)
{
	memcpy((void *)(uintptr_t)to, from, bytes);
	return 0;
}

static int download(struct device *device, void *stream, void *to, uint64_t from, size_t bytes)
{
	memcpy(to, (const void *)(uintptr_t)from, bytes);
	return 0;
}

static int fill(struct device *device, void *stream, uint64_t addr, uint8_t byte, size_t bytes)
{
	memset((void *)(uintptr_t)addr, byte, bytes);
	return 0;
}

static int run_now(struct device *device, void *stream, enum toy_kernel_id kernel,
		  const struct toy_args *args)
{
	struct toy_thread self = { .nr = 0, .nr_threads = 1 };

	toy_kernels[kernel].run(&self, args);
	return 0;
}

int host_device_open(struct device **device)
{
	static struct device host = {
		.enter = nothing, .leave = leave, .alloc = alloc, .free = free_addr, .pin = pin,
		.unpin = unpin, .stream = stream, .end_stream = end_stream, .wait = wait,
		.upload = upload, .download = download, .fill = fill, .launch = run_now,
		.close = leave,
	};

	*device = &host;
	return 0;
}
