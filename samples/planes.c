// SPDX-License-Identifier: Apache-2.0
/*
 * An engine's own memory on a device, described as planes, and a pool that manages its blocks.
 *
 * usage: planes [DEVICE]	"soft:0" (the default: no GPU is needed), "cuda:0"
 */
#include <dlfcn.h>
#include <kvmm/ext/device.h>
#include <kvmm/kvmm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS	4
#define BLOCKS	256ull
#define PIECE	8192		/* keys, or values, of 16 tokens in one layer */

/* An engine that includes cuda.h and is linked with -lcuda has these; here they are looked up. */
static int (*cuDevicePrimaryCtxRetain)(void **, int), (*cuCtxSetCurrent)(void *);
static int (*cuMemAlloc)(uint64_t *, size_t), (*cuMemsetD8)(uint64_t, unsigned char, size_t);

/* The driver that kvmm has opened for the device: both mean the same memory then. */
static int open_driver(const char *device, void **context)
{
	int soft = !strncmp(device, "soft:", 5);
	const char *named = getenv(soft ? "KVMM_SOFT_DRIVER" : "KVMM_CUDA_DRIVER");
	struct kvmm_device_info info = { .size = sizeof(info) };
	int err = kvmm_device_get_info(device, &info);
	void *driver;

	if (err)
		return fprintf(stderr, "%s\n", info.why);
	driver = dlopen(named ? named : soft ? "libkvmm-swcuda.so" : "libcuda.so.1", RTLD_NOW);
	if (!driver)
		return fprintf(stderr, "%s\n", dlerror());
	*(void **)&cuDevicePrimaryCtxRetain = dlsym(driver, "cuDevicePrimaryCtxRetain");
	*(void **)&cuCtxSetCurrent = dlsym(driver, "cuCtxSetCurrent");
	*(void **)&cuMemAlloc = dlsym(driver, "cuMemAlloc_v2");
	*(void **)&cuMemsetD8 = dlsym(driver, "cuMemsetD8_v2");
	return cuDevicePrimaryCtxRetain(context, atoi(device + 5)) || cuCtxSetCurrent(*context);
}

int main(int argc, char **argv)
{
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_plane planes[LAYERS];
	struct kvmm_extent extents[4];
	struct kvmm_pool *pool;
	kvmm_range_t range;
	void *context;
	int i, nr;

	attr.device = argc > 1 ? argv[1] : "soft:0";
	if (open_driver(attr.device, &context))
		return 1;
	for (i = 0; i < LAYERS; i++) {		/* one tensor a layer: BLOCKS x (keys, values) */
		planes[i] = (struct kvmm_plane){ .stride = 2 * PIECE, .bytes = 2 * PIECE };
		if (cuMemAlloc(&planes[i].base, BLOCKS * 2 * PIECE) ||
		    cuMemsetD8(planes[i].base, 0, BLOCKS * 2 * PIECE))
			return 1;
	}
	attr.nr_blocks = BLOCKS;
	attr.planes = planes;
	attr.nr_planes = LAYERS;
	if (kvmm_pool_create(&attr, &pool) || kvmm_range_alloc(pool, 75, KVMM_RUNS(4), &range))
		return 1;
	nr = kvmm_range_extents(pool, range, extents, 4);
	for (i = 0; i < nr; i++)
		printf("blocks %u to %u: layer 0 at 0x%llx\n", extents[i].start,
		       extents[i].start + extents[i].nr - 1,
		       (unsigned long long)(planes[0].base + extents[i].start * planes[0].stride));
	kvmm_pool_destroy(pool);
	return 0;				/* the memory is the engine's: it frees it */
}
