// SPDX-License-Identifier: Apache-2.0
/*
 * Devices with a driver: "cuda:0", and "soft:0" by the software driver.
 *
 * The library of the driver is the one that kvmm has opened for that device, so that both mean the
 * same memory and the same streams; both use the device's primary context. Which functions there
 * are is the driver's public ABI: their names and types are all that is needed of it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <kvmm/ext/device.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

#define GROUP_THREADS		128u
#define MAX_GROUPS		1024u
#define STREAM_NON_BLOCKING	1u
#define HOST_PORTABLE		1u

/* Name in struct driver, exported name, parameters; all return a CUresult. */
#define DRIVER_CALLS(X)								\
	X(init,		"cuInit",			unsigned int)		\
	X(get,		"cuDeviceGet",			int *, int)		\
	X(retain,	"cuDevicePrimaryCtxRetain",	void **, int)		\
	X(release,	"cuDevicePrimaryCtxRelease_v2",	int)			\
	X(push,		"cuCtxPushCurrent_v2",		void *)			\
	X(pop,		"cuCtxPopCurrent_v2",		void **)		\
	X(alloc,	"cuMemAlloc_v2",		uint64_t *, size_t)	\
	X(free,		"cuMemFree_v2",			uint64_t)		\
	X(pin,		"cuMemHostAlloc",		void **, size_t, unsigned int) \
	X(unpin,	"cuMemFreeHost",		void *)			\
	X(stream,	"cuStreamCreateWithPriority",	void **, unsigned int, int) \
	X(end_stream,	"cuStreamDestroy_v2",		void *)			\
	X(wait,		"cuStreamSynchronize",		void *)			\
	X(upload,	"cuMemcpyHtoDAsync_v2",		uint64_t, const void *, size_t, void *) \
	X(download,	"cuMemcpyDtoHAsync_v2",		void *, uint64_t, size_t, void *) \
	X(fill,		"cuMemsetD8Async",		uint64_t, unsigned char, size_t, void *) \
	X(load,		"cuModuleLoadDataEx",		void **, const void *, unsigned int, \
							int *, void **)		\
	X(unload,	"cuModuleUnload",		void *)			\
	X(function,	"cuModuleGetFunction",		void **, void *, const char *) \
	X(launch,	"cuLaunchKernel",		void *, unsigned int, unsigned int, \
							unsigned int, unsigned int, unsigned int, \
							unsigned int, unsigned int, void *, void **, \
							void **)

struct driver {
	struct device device;
	int ordinal;
	void *context, *module;
	void *kernel[TOY_KERNELS];
	kvmm_soft_kernel_add_fn add_kernel;	/* NULL: a driver of GPUs */
#define FIELD(field, name, ...)	int (*field)(__VA_ARGS__);
	struct {
		DRIVER_CALLS(FIELD)
	} call;
#undef FIELD
};

static struct driver *driver_of(struct device *device)
{
	return (struct driver *)device;		/* its first member */
}

static int err_of(int result)
{
	return result == 0 ? 0 : result == 2 ? -ENOMEM : -EIO;
}

/* ---- what an engine does all day ---- */

static int enter(struct device *device)
{
	return err_of(driver_of(device)->call.push(driver_of(device)->context));
}

static void leave(struct device *device)
{
	void *context;

	driver_of(device)->call.pop(&context);
}

static int alloc(struct device *device, size_t bytes, uint64_t *addr)
{
	return err_of(driver_of(device)->call.alloc(addr, bytes));
}

static void free_addr(struct device *device, uint64_t addr)
{
	driver_of(device)->call.free(addr);
}

static int pin(struct device *device, size_t bytes, void **ptr)
{
	return err_of(driver_of(device)->call.pin(ptr, bytes, HOST_PORTABLE));
}

static void unpin(struct device *device, void *ptr)
{
	driver_of(device)->call.unpin(ptr);
}

static int stream(struct device *device, void **stream)
{
	return err_of(driver_of(device)->call.stream(stream, STREAM_NON_BLOCKING, 0));
}

static void end_stream(struct device *device, void *stream)
{
	driver_of(device)->call.end_stream(stream);
}

static int wait(struct device *device, void *stream)
{
	return err_of(driver_of(device)->call.wait(stream));
}

static int upload(struct device *device, void *stream, uint64_t to, const void *from,
		  size_t bytes)
{
	return err_of(driver_of(device)->call.upload(to, from, bytes, stream));
}

static int download(struct device *device, void *stream, void *to, uint64_t from, size_t bytes)
{
	return err_of(driver_of(device)->call.download(to, from, bytes, stream));
}

static int fill(struct device *device, void *stream, uint64_t addr, uint8_t byte, size_t bytes)
{
	return err_of(driver_of(device)->call.fill(addr, byte, bytes, stream));
}

static int launch(struct device *device, void *stream, enum toy_kernel_id kernel,
		  const struct toy_args *args)
{
	struct driver *driver = driver_of(device);
	uint32_t nr = (toy_nr_threads(kernel, args) + GROUP_THREADS - 1) / GROUP_THREADS;
	struct toy_args copy = *args;
	void *params[] = { &copy };

	if (nr > MAX_GROUPS)
		nr = MAX_GROUPS;
	return err_of(driver->call.launch(driver->kernel[kernel], nr, 1, 1, GROUP_THREADS, 1, 1, 0,
					  stream, params, NULL));
}

/* ---- opening ---- */

/* dlsym() gives an object's address where a function's is meant. */
static int find(void *library, const char *name, void *fn, size_t bytes)
{
	void *found = dlsym(library, name);

	memcpy(fn, &found, bytes);
	return found ? 0 : -ENOENT;
}

static int find_calls(struct driver *driver, void *library)
{
	int err = 0;

#define FIND(field, name, ...)	\
	err = err ? err : find(library, name, &driver->call.field, sizeof(driver->call.field));
	DRIVER_CALLS(FIND)
#undef FIND
	if (err || !find(library, KVMM_SOFT_KERNEL_ADD, &driver->add_kernel,
			 sizeof(driver->add_kernel)))
		return err;
	driver->add_kernel = NULL;
	return 0;
}

/* The one that kvmm_device_get_info() has left in the process. */
static void *find_library(const char *name)
{
	const char *soname = strncmp(name, "soft:", 5) ? "libcuda.so.1" : "libkvmm-swcuda.so";
	const char *variable = strncmp(name, "soft:", 5) ? "KVMM_CUDA_DRIVER" : "KVMM_SOFT_DRIVER";
	const char *named = getenv(variable);

	return dlopen(named ? named : soname, RTLD_NOW | RTLD_NOLOAD);
}

static int load_kernels(struct driver *driver)
{
	int err = 0;

	for (int i = 0; i < TOY_KERNELS && !err && driver->add_kernel; i++)
		err = driver->add_kernel(toy_soft_kernel(i));
	if (!err)
		err = err_of(driver->call.load(&driver->module, toy_ptx, 0, NULL, NULL));
	for (int i = 0; i < TOY_KERNELS && !err; i++)
		err = err_of(driver->call.function(&driver->kernel[i], driver->module,
						   toy_kernels[i].name));
	return err;
}

static void close_driver(struct device *device)
{
	struct driver *driver = driver_of(device);

	if (driver->module)
		driver->call.unload(driver->module);
	if (driver->context) {
		leave(device);
		driver->call.release(driver->ordinal);
	}
	free(driver);
}

static int open_context(struct driver *driver, const char *name)
{
	int err = err_of(driver->call.init(0));

	if (!err)
		err = err_of(driver->call.get(&driver->ordinal, atoi(strchr(name, ':') + 1)));
	if (!err)
		err = err_of(driver->call.retain(&driver->context, driver->ordinal));
	return err ? err : enter(&driver->device);
}

static const struct device ops = {
	.enter = enter, .leave = leave, .alloc = alloc, .free = free_addr, .pin = pin,
	.unpin = unpin, .stream = stream, .end_stream = end_stream, .wait = wait,
	.upload = upload, .download = download, .fill = fill, .launch = launch,
	.close = close_driver,
};

int driver_device_open(const char *name, struct device **device, const char **why)
{
	static struct kvmm_device_info info = { .size = sizeof(info) };
	int err = kvmm_device_get_info(name, &info);
	struct driver *driver;
	void *library;

	*why = info.why;
	if (err)
		return err;
	*why = "its driver is not what it should be";
	library = find_library(name);
	driver = calloc(1, sizeof(*driver));
	if (!library || !driver) {
		free(driver);
		return library ? -ENOMEM : -ENOENT;
	}
	driver->device = ops;
	err = find_calls(driver, library);
	if (!err)
		err = open_context(driver, name);
	if (!err)
		err = load_kernels(driver);
	if (err)
		close_driver(&driver->device);
	else
		*device = &driver->device;
	return err;
}

int device_open(const char *name, struct device **device, const char **why)
{
	*why = "";
	return strcmp(name, "host") ? driver_device_open(name, device, why) :
	       host_device_open(device);
}
