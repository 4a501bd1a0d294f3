// SPDX-License-Identifier: Apache-2.0
/* A GPU's properties and abilities, in the words of kvmm/ext/device.h. */
#include <stdio.h>
#include <string.h>

#include <kvmm/ext/device.h>

#include "engine.h"

#define LEAST_PIECE	512u
#define MOST_PIECE	(256u << 20)

static_assert((u32)KVMM_COPY_LOCAL == KV_COPY_LOCAL &&
	      (u32)KVMM_COPY_TO_DEVICE == KV_COPY_TO_DEVICE &&
	      (u32)KVMM_COPY_TO_HOST == KV_COPY_TO_HOST, "directions");
static_assert((u32)KVMM_PATH_NONE == KV_PATH_AUTO && (u32)KVMM_PATH_KERNEL == KV_PATH_KERNEL &&
	      (u32)KVMM_PATH_BATCH == KV_PATH_BATCH && (u32)KVMM_PATH_SINGLE == KV_PATH_SINGLE &&
	      (u32)KVMM_NR_PATHS == KV_NR_PATHS, "paths");
static_assert(sizeof(((struct kvmm_device_info *)0)->uuid) == sizeof(kcu_uuid), "uuid");

static u32 features_of(const struct kv_gpu *gpu)
{
	static const struct {
		u32 ours, public;
	} names[] = {
		{ KCU_F_VMM, KVMM_DEVICE_VMM },
		{ KCU_F_BATCH12 | KCU_F_BATCH13, KVMM_DEVICE_BATCH },
		{ KCU_F_PEER, KVMM_DEVICE_PEER },
		{ KCU_F_DMABUF, KVMM_DEVICE_DMABUF },
		{ KCU_F_MEMOPS, KVMM_DEVICE_MEMOPS },
		{ KCU_F_IPC_FD, KVMM_DEVICE_POSIX_FD },
		{ KCU_F_FABRIC, KVMM_DEVICE_FABRIC },
	};
	u32 bits = 0;

	for (u32 i = 0; i < ARRAY_SIZE(names); i++)
		bits |= gpu->features & names[i].ours ? names[i].public : 0;
	return bits;
}

/* By the rule that copies go by: the path expected to be fastest; see copy.c. */
static u32 fastest(const struct kv_dev *dev, u32 paths, u32 dir, u64 piece_bytes)
{
	u64 best_ns = UINT64_MAX;
	u32 best = KV_PATH_AUTO;

	for (u32 path = KV_PATH_KERNEL; path < KV_NR_PATHS; path++) {
		u64 calls = path == KV_PATH_KERNEL ? 1 : KVMM_STEP_PIECES;
		u64 ns = kv_cost_ns(dev, dir, path, calls, piece_bytes * KVMM_STEP_PIECES);

		if (!(paths & BIT(path)) || ns >= best_ns)
			continue;
		best_ns = ns;
		best = path;
	}
	return best;
}

/* Costs are straight lines, so each path is the fastest in one stretch at most. */
static void put_steps(const struct kv_dev *dev, struct kvmm_device_info *info, u32 dir)
{
	struct kvmm_path_step *step = info->step[dir];
	u32 nr = 0;

	for (u64 bytes = LEAST_PIECE; bytes <= MOST_PIECE && nr < KVMM_NR_PATHS - 1; bytes *= 2) {
		u32 path = fastest(dev, info->paths, dir, bytes);

		if (nr && path == step[nr - 1].path)
			continue;
		step[nr].from_bytes = nr ? bytes : 0;
		step[nr++].path = path;
	}
}

static void put_gpu(const struct kv_gpu *gpu, struct kvmm_device_info *info)
{
	snprintf(info->card, sizeof(info->card), "%s", gpu->name);
	snprintf(info->pci_id, sizeof(info->pci_id), "%s", gpu->pci_id);
	memcpy(info->uuid, &gpu->uuid, sizeof(info->uuid));
	info->driver_version = gpu->cu->driver_version;
	info->nr_devices = gpu->cu->nr_devices;
	info->cc_major = gpu->cc_major;
	info->cc_minor = gpu->cc_minor;
	info->nr_sms = gpu->nr_sms;
	info->numa_node = gpu->numa_node;
	info->features = features_of(gpu);
	info->total_bytes = gpu->total_bytes;
	info->granule_bytes = gpu->granule_bytes;
	info->good_granule_bytes = gpu->good_granule_bytes;
}

int kv_gpu_info(struct kv_dev *dev, struct kvmm_device_info *info)
{
	struct kv_gpu *gpu = dev->gpu;
	size_t nr_free = 0, total = 0;
	struct kv_gpu_scope scope;
	int err = kv_gpu_enter_relaxed(gpu, &scope);

	if (err)
		return err;
	/* A driver that will not say has not failed, unless the device has. */
	if (!kv_gpu_call(gpu, mem_get_info, &nr_free, &total))
		info->free_bytes = nr_free;
	kv_gpu_leave(gpu, &scope);
	err = kv_gpu_ready(gpu);
	if (err)
		return err;
	put_gpu(gpu, info);
	/* For planes that every path can serve, in memory that the device can address. */
	info->paths = BIT(KV_PATH_SINGLE) | (dev->module ? BIT(KV_PATH_KERNEL) : 0);
	if (gpu->features & (KCU_F_BATCH12 | KCU_F_BATCH13))
		info->paths |= BIT(KV_PATH_BATCH);
	kv_lock(&dev->lock);
	info->paths &= ~dev->refused_paths;
	kv_unlock(&dev->lock);
	for (u32 dir = 0; dir < KVMM_NR_COPY_DIRS; dir++) {
		put_steps(dev, info, dir);
		for (u32 path = KV_PATH_KERNEL; path < KV_NR_PATHS; path++)
			if (dev->costs.measured[dir] & info->paths & BIT(path))
				info->cost[dir][path] = (struct kvmm_path_cost){
					.call_ns = dev->costs.cost[dir][path].call_ns,
					.mib_per_s = dev->costs.cost[dir][path].mib_per_s,
				};
	}
	return 0;
}
