// SPDX-License-Identifier: Apache-2.0
/*
 * Host memory that the device copies from and to at full speed.
 *
 * It is mapped by us, bound to the node next to the device, touched by several threads, since the
 * kernel clears each page on the CPU that touches it, and then registered with the driver; the
 * driver's own allocator has no say in the node. Registering locks pages, which takes long and can
 * be refused (a container's limits, a driver that may not); it goes in chunks so that no single
 * call blocks the driver for seconds. All of it is pinned or nothing: half of it would make each
 * copy ask which half it is in. Pageable memory is slower, not wrong.
 *
 * No locks: a struct kv_host_mem has one owner.
 */
#include <kv/bits.h>
#include <kv/log.h>
#include <kv/sys.h>

#include "engine.h"

#define CHUNK_BYTES	(512ull << 20)
#define PART_BYTES	(16ull << 20)	/* milliseconds to touch: more than a thread costs */
#define PAGE_BYTES	4096ull

static void *chunk_at(const struct kv_host_mem *mem, u32 chunk)
{
	return (u8 *)mem->ptr + chunk * CHUNK_BYTES;
}

/* A load would map the shared page of zeros. */
static void touch_part(void *arg, u32 part, u32 nr_parts)
{
	const struct kv_host_mem *mem = arg;
	u64 end = min((part + 1) * PART_BYTES, mem->bytes);
	volatile u8 *byte = mem->ptr;

	for (u64 i = part * PART_BYTES; i < end; i += PAGE_BYTES)
		byte[i] = 0;
}

static void unregister_chunks(struct kv_dev *dev, struct kv_host_mem *mem)
{
	while (mem->nr_chunks)
		kv_gpu_call(dev->gpu, mem_host_unregister, chunk_at(mem, --mem->nr_chunks));
}

static int register_chunks(struct kv_dev *dev, struct kv_host_mem *mem)
{
	u32 nr = (mem->bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
	bool is_mapped = true;

	for (u32 i = 0; i < nr; i++) {
		kcu_deviceptr addr = 0;
		int err = kv_gpu_call(dev->gpu, mem_host_register, chunk_at(mem, i),
				      min(mem->bytes - i * CHUNK_BYTES, CHUNK_BYTES),
				      KCU_HOST_REGISTER_PORTABLE | KCU_HOST_REGISTER_DEVICEMAP);

		if (err) {
			unregister_chunks(dev, mem);
			return err;
		}
		mem->nr_chunks++;
		is_mapped = is_mapped &&
			    !kv_gpu_call(dev->gpu, mem_host_get_device_pointer, &addr,
					 chunk_at(mem, i), 0) &&
			    addr == (uintptr_t)chunk_at(mem, i);
	}
	mem->is_pinned = true;
	mem->is_mapped = is_mapped;
	return 0;
}

/* Refused for any reason: the memory is as good as any other. A lost device is another matter. */
static int pin(struct kv_dev *dev, struct kv_host_mem *mem)
{
	struct kv_gpu_scope scope;
	int err = kv_gpu_enter_relaxed(dev->gpu, &scope);

	if (!err) {
		err = register_chunks(dev, mem);
		kv_gpu_leave(dev->gpu, &scope);
	}
	if (err)
		kv_log(KV_LOG_WARN, "kvmm: gpu %d: %llu MiB of host memory stay pageable (%d)",
		       dev->gpu->ordinal, (unsigned long long)mem->bytes >> 20, err);
	return kv_gpu_ready(dev->gpu);
}

static void unmap(struct kv_host_mem *mem)
{
	kv_sys()->unmap_pages(kv_sys()->ctx, mem->ptr, mem->bytes);
	*mem = (struct kv_host_mem){ 0 };
}

int kv_hostmem_alloc(struct kv_dev *dev, u64 bytes, int node, struct kv_host_mem *mem)
{
	struct kv_host_mem new = { .bytes = kv_align_up(bytes, PAGE_BYTES) };
	int err = kv_gpu_ready(dev->gpu);

	if (err)
		return err;
	if (!bytes || new.bytes < bytes)
		return -EINVAL;
	new.ptr = kv_sys()->map_pages(kv_sys()->ctx, new.bytes,
				  node < 0 ? dev->gpu->numa_node : node);
	if (!new.ptr)
		return -ENOMEM;
	/*
	 * So that the pages are there, and on the node that was asked for, before they are locked.
	 * They follow the node of the mapping, not the thread that comes first; only if no node is
	 * known do they lie wherever the caller's CPUs are.
	 */
	kv_parallel(touch_part, &new, (new.bytes + PART_BYTES - 1) / PART_BYTES);
	err = pin(dev, &new);
	if (err) {
		unmap(&new);
		return err;
	}
	*mem = new;
	return 0;
}

/* Memory that the device may still write to stays ours, and stays registered. */
static bool unpin(struct kv_dev *dev, struct kv_host_mem *mem)
{
	struct kv_gpu_scope scope;
	bool is_over;

	if (kv_dev_enter_surely(dev, &scope))
		return kv_gpu_ready(dev->gpu);
	is_over = kv_dev_sees_end(dev);
	if (is_over)
		unregister_chunks(dev, mem);
	kv_gpu_leave(dev->gpu, &scope);
	return is_over || kv_gpu_ready(dev->gpu);
}

/* A lost device, or one that stayed with the parent of this process, writes nothing any more. */
void kv_hostmem_free(struct kv_dev *dev, struct kv_host_mem *mem)
{
	if (!mem || !mem->ptr)
		return;
	if (unpin(dev, mem))
		unmap(mem);
	else
		*mem = (struct kv_host_mem){ 0 };
}
