// SPDX-License-Identifier: Apache-2.0
/*
 * GPUs as devices: "cuda" with the system's driver, "soft" with ours, and no difference else.
 *
 * A driver is loaded when the first of its devices is opened, and looked at anew when all were
 * closed in between; it is never unloaded. Each pool opens its device anew.
 */
#include <stdio.h>
#include <string.h>

#include <kv/env.h>
#include <kv/log.h>
#include <kv/mem.h>

#include "engine.h"

#define SOFT_VARIABLE	"KVMM_SOFT_DRIVER"
#define SOFT_LIBRARY	"libkvmm-swcuda.so"
#define PATH_BYTES	4096

/* ---- drivers ---- */

struct kv_driver {
	const char *name;
	int (*load)(struct kcu *cu);
	struct kv_lock lock;
	struct kcu cu;			/* fixed while nr_users > 0 */
	u32 nr_users;			/* ->lock */
};

static int load_cuda(struct kcu *cu)
{
	return kcu_load(cu, NULL);
}

/* Beside the object that we are in, one up from there, and where libraries are from a bin. */
static const char *const places[] = {
	"/" SOFT_LIBRARY, "/../" SOFT_LIBRARY, "/../../" SOFT_LIBRARY, "/../lib/" SOFT_LIBRARY,
};

/* Nothing found: the loader's path, and its message. */
static void find_soft(char path[PATH_BYTES])
{
	const char *named = kv_sys()->getenv(kv_sys()->ctx, SOFT_VARIABLE);
	char dir[PATH_BYTES - 64];
	const char *why;

	if (named && *named) {
		snprintf(path, PATH_BYTES, "%s", named);
		return;
	}
	if (!kv_sys()->own_folder || kv_sys()->own_folder(kv_sys()->ctx, dir, sizeof(dir)))
		dir[0] = '\0';
	for (u32 i = 0; dir[0] && i < ARRAY_SIZE(places); i++) {
		snprintf(path, PATH_BYTES, "%s%s", dir, places[i]);
		if (kv_sys()->open_library(kv_sys()->ctx, path, &why))
			return;
	}
	snprintf(path, PATH_BYTES, "%s", SOFT_LIBRARY);
}

static int load_soft(struct kcu *cu)
{
	char path[PATH_BYTES];

	find_soft(path);
	return kcu_load(cu, path);
}

static struct kv_driver cuda_driver = {
	.name = "cuda", .load = load_cuda, .lock = { .rank = KV_RANK_TIER, .id = 1 },
};

static struct kv_driver soft_driver = {
	.name = "soft", .load = load_soft, .lock = { .rank = KV_RANK_TIER, .id = 2 },
};

static void driver_put(struct kv_driver *driver)
{
	kv_lock(&driver->lock);
	driver->nr_users--;
	kv_unlock(&driver->lock);
}

/* ---- opening ---- */

static void free_dev(struct kv_dev *dev)
{
	kv_free(dev->read_room);
	kv_free(dev->batch);
	kv_free(dev->waves);
	kv_free(dev);
}

static void destroy_lists(struct kv_dev *dev)
{
	for (u32 i = 0; i < KV_NR_LISTS; i++)
		if (dev->list[i].event)
			kv_gpu_call(dev->gpu, event_destroy, dev->list[i].event);
	if (dev->lists)
		kv_gpu_call(dev->gpu, mem_free, dev->lists);
	if (dev->lists_host)
		kv_gpu_call(dev->gpu, mem_free_host, dev->lists_host);
	memset(dev->list, 0, sizeof(dev->list));
	dev->lists = 0;
	dev->lists_host = NULL;
}

/* Without them every list of moves goes by value, in as many launches as it takes. */
static void create_lists(struct kv_dev *dev)
{
	u64 bytes = KV_NR_LISTS * KV_LIST_BYTES;
	void *host = NULL;
	int err;

	dev->list_stamp = kv_random();	/* memory may have lists of a device that was before */
	err = kv_gpu_call(dev->gpu, mem_host_alloc, &host, bytes, KCU_HOST_ALLOC_PORTABLE);
	if (!err) {
		dev->lists_host = host;
		err = kv_gpu_call(dev->gpu, mem_alloc, &dev->lists,
				  bytes + KV_NR_SUM_BUFFERS * KV_SUM_BYTES);
	}
	for (u32 i = 0; i < KV_NR_LISTS && !err; i++)
		err = kv_gpu_call(dev->gpu, event_create, &dev->list[i].event,
				  KCU_EVENT_DISABLE_TIMING);
	if (!err)
		return;
	destroy_lists(dev);
	dev->count.fallback[KV_FALL_NO_MEMORY]++;
}

static bool end_engine(struct kv_dev *dev)
{
	struct kv_gpu_scope scope;
	bool is_over;

	if (kv_dev_enter_surely(dev, &scope))
		return !kv_dev_is_blind(dev);
	kv_lock(&dev->lock);
	kv_fence_destroy(dev);
	/* A list that was sent for a launch that was refused has no fence. */
	kv_stream_settle(dev, dev->gpu->compact);
	kv_stream_settle(dev, dev->gpu->transfer);
	is_over = kv_dev_sees_end(dev);
	if (is_over) {
		destroy_lists(dev);
		kv_kernels_unload(dev);
	}
	kv_unlock(&dev->lock);
	kv_gpu_leave(dev->gpu, &scope);
	return is_over;
}

/* A lost device writes nothing any more; memory that another one may still write to stays. */
static void close_engine(struct kv_dev *dev)
{
	if (!end_engine(dev) && !kv_gpu_ready(dev->gpu))
		dev->read_room = NULL;
}

static int open_gpu(struct kv_dev *dev, unsigned int number)
{
	struct kv_gpu_scope scope;
	int err = number <= INT32_MAX ?
		  kv_gpu_create(&dev->driver->cu, number, NULL, &dev->gpu) : -ENODEV;

	if (err)
		return err;
	kv_lock_init(&dev->lock, KV_RANK_TIER, KV_DEV_LOCK_ID + number);
	kv_lock_init(&dev->read_lock, KV_RANK_TIER, KV_READ_LOCK_ID + number);
	kv_lock_init(&dev->sum_lock, KV_RANK_TIER, KV_SUM_LOCK_ID + number);
	err = kv_gpu_enter_relaxed(dev->gpu, &scope);
	if (!err) {
		err = kv_fence_create(dev);
		/* Kernels and lists are luxuries; a device that is lost has neither. */
		if (!err) {
			kv_kernels_load(dev);
			create_lists(dev);
			err = kv_gpu_ready(dev->gpu);
		}
		kv_gpu_leave(dev->gpu, &scope);
	}
	if (!err) {
		kv_calibrate(dev);
		err = kv_gpu_ready(dev->gpu);
	}
	if (err) {
		close_engine(dev);
		kv_gpu_destroy(dev->gpu);
	}
	return err;
}

static int open_with(struct kv_driver *driver, unsigned int number, struct kv_dev **result)
{
	struct kv_dev *dev;
	int err = 0;

	kv_lock(&driver->lock);
	if (!driver->nr_users)
		err = driver->load(&driver->cu);
	driver->nr_users += !err;
	kv_unlock(&driver->lock);
	if (err)
		return err;
	dev = kv_alloc_lines(1, sizeof(*dev));
	err = -ENOMEM;
	if (!dev)
		goto out_put_driver;
	dev->driver = driver;
	dev->waves = kv_alloc(sizeof(*dev->waves));
	dev->batch = kv_alloc(sizeof(*dev->batch));
	dev->read_room = kv_alloc(KV_READ_BYTES);
	if (dev->waves && dev->batch && dev->read_room)
		err = open_gpu(dev, number);
	if (err)
		goto out_free_dev;
	*result = dev;
	return 0;

out_free_dev:
	free_dev(dev);
out_put_driver:
	driver_put(driver);
	return err;
}

static int cuda_open(unsigned int number, struct kv_dev **dev)
{
	return open_with(&cuda_driver, number, dev);
}

static int soft_open(unsigned int number, struct kv_dev **dev)
{
	return open_with(&soft_driver, number, dev);
}

static void gpu_close(struct kv_dev *dev)
{
	if (!dev)
		return;
	close_engine(dev);
	kv_gpu_destroy(dev->gpu);
	driver_put(dev->driver);
	free_dev(dev);
}

/* ---- memory ---- */

static int gpu_alloc(struct kv_dev *dev, u64 bytes, u64 *addr)
{
	struct kv_gpu_scope scope;
	kcu_deviceptr new;
	int err;

	if (!bytes)
		return -EINVAL;
	err = kv_gpu_enter_relaxed(dev->gpu, &scope);
	if (err)
		return err;
	err = kv_gpu_call(dev->gpu, mem_alloc, &new, bytes);
	if (!err)
		*addr = new;
	kv_gpu_leave(dev->gpu, &scope);
	return err;
}

static void gpu_free(struct kv_dev *dev, u64 addr, u64 bytes)
{
	struct kv_gpu_scope scope;

	if (!addr || kv_dev_enter_surely(dev, &scope))
		return;
	if (kv_dev_sees_end(dev))
		kv_gpu_call(dev->gpu, mem_free, addr);
	kv_gpu_leave(dev->gpu, &scope);
}

/* ---- knobs and counts ---- */

static int gpu_tune(struct kv_dev *dev, enum kv_knob knob, u64 value)
{
	static const u64 most[KV_NR_KNOBS] = {
		[KV_KNOB_PATH] = KV_NR_PATHS - 1,
		[KV_KNOB_GROUPS] = 65535,
		[KV_KNOB_BACKGROUND_GROUPS] = 65535,
	};

	if (knob >= KV_NR_KNOBS || value > most[knob])
		return -EINVAL;
	kv_lock(&dev->lock);
	dev->knob[knob] = value;
	kv_unlock(&dev->lock);
	return 0;
}

static void gpu_stat(struct kv_dev *dev, struct kv_dev_stat *stat)
{
	kv_lock(&dev->lock);
	*stat = dev->count;
	kv_unlock(&dev->lock);
	for (u32 dir = 0; dir < KV_NR_COPY_DIRS; dir++) {
		for (u32 path = 0; path < KV_NR_PATHS; path++) {
			stat->mib_per_s[dir][path] = dev->costs.cost[dir][path].mib_per_s;
			stat->call_ns[dir][path] = dev->costs.cost[dir][path].call_ns;
		}
	}
	stat->groups = dev->costs.groups;
}

#define GPU_OPS						\
	.close		= gpu_close,			\
	.alloc		= gpu_alloc,			\
	.free		= gpu_free,			\
	.host_alloc	= kv_hostmem_alloc,		\
	.host_free	= kv_hostmem_free,		\
	.copy_blocks	= kv_copy_submit,		\
	.sum_blocks	= kv_sum_blocks,		\
	.sum_start	= kv_sum_start,			\
	.sum_fetch	= kv_sum_fetch,			\
	.signal		= kv_fence_signal,		\
	.stall		= kv_fence_stall,		\
	.join		= kv_fence_join,		\
	.poll		= kv_fence_poll,		\
	.wait		= kv_fence_wait,		\
	.sees_end	= kv_fence_sees_end,		\
	.write		= kv_dev_write,			\
	.read		= kv_dev_read,			\
	.fill		= kv_dev_fill,			\
	.area_create	= kv_area_create,		\
	.area_destroy	= kv_area_destroy,		\
	.area_info	= kv_area_info,			\
	.area_grow	= kv_area_grow,			\
	.area_shrink	= kv_area_shrink,		\
	.area_export	= kv_area_export,		\
	.area_import	= kv_area_import,		\
	.tune		= gpu_tune,			\
	.stat		= gpu_stat,			\
	.info		= kv_gpu_info

const struct kv_dev_ops kv_dev_cuda = { .name = "cuda", .open = cuda_open, GPU_OPS };
const struct kv_dev_ops kv_dev_soft = { .name = "soft", .open = soft_open, GPU_OPS };
