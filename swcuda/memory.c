// SPDX-License-Identifier: Apache-2.0
/*
 * Memory: physical pieces of a device, and the address ranges that were handed out.
 *
 * Device addresses come from one stretch of address space that is reserved at start and faults
 * wherever nothing is mapped. Behind each allocation lies a page that never is.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

/* ---- Physical memory ---- */

static int own_memfd(struct sw_backing *backing)
{
	struct stat stat;

	backing->fd = memfd_create("swcuda-shareable", MFD_CLOEXEC);
	if (backing->fd < 0)
		return -ENOMEM;
	if (ftruncate(backing->fd, backing->bytes) || fstat(backing->fd, &stat)) {
		close(backing->fd);
		return -ENOMEM;
	}
	backing->inode = stat.st_ino;
	return 0;
}

static void fill_fresh(const struct sw_backing *backing)
{
	void *at;

	if (!sw.opt.poison)
		return;
	at = mmap(NULL, backing->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, backing->fd,
		  backing->fd_offset);
	if (at == MAP_FAILED)
		return;
	memset(at, SW_POISON_NEW, backing->bytes);
	munmap(at, backing->bytes);
}

int sw_backing_create(struct sw_dev *dev, u64 bytes, u64 align, bool own_fd,
		      struct sw_backing **out)
{
	struct sw_backing *backing;

	if (dev->used_bytes + bytes > min(sw.opt.oom_bytes, sw.opt.mem_bytes))
		return -ENOMEM;
	backing = calloc(1, sizeof(*backing));
	if (!backing)
		return -ENOMEM;
	*backing = (struct sw_backing){ .dev = dev, .fd = dev->memfd, .bytes = bytes, .refs = 1 };
	if (sw_space_take(&dev->phys, bytes, align, &backing->phys))
		goto out_free;
	backing->fd_offset = own_fd ? 0 : backing->phys;
	if (own_fd && own_memfd(backing))
		goto out_give;
	fill_fresh(backing);
	dev->used_bytes += bytes;
	sw.live.device_bytes += bytes;
	*out = backing;
	return 0;

out_give:
	sw_space_give(&dev->phys, backing->phys, bytes);
out_free:
	free(backing);
	return -ENOMEM;
}

static u64 place_of(const struct sw_backing *backing)
{
	return (u64)(backing->dev->ordinal + 1) << 48 | backing->phys;
}

void sw_backing_put(struct sw_backing *backing)
{
	if (--backing->refs)
		return;
	sw_race_forget(place_of(backing), backing->bytes);
	if (backing->fd != backing->dev->memfd)
		close(backing->fd);
	if (!backing->foreign) {
		sw_space_give(&backing->dev->phys, backing->phys, backing->bytes);
		backing->dev->used_bytes -= backing->bytes;
		sw.live.device_bytes -= backing->bytes;
	}
	free(backing);
}

int sw_map_fixed(u64 addr, u64 bytes, const struct sw_backing *backing, int prot)
{
	void *at = mmap((void *)addr, bytes, prot, MAP_SHARED | MAP_FIXED, backing->fd,
			backing->fd_offset);

	return at == MAP_FAILED ? -ENOMEM : 0;
}

void sw_map_nothing(u64 addr, u64 bytes)
{
	mmap((void *)addr, bytes, PROT_NONE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

/* ---- Finding out what an address is ---- */

struct sw_region *sw_region_at(u64 addr)
{
	return (struct sw_region *)sw_span_at(&sw.regions, addr);
}

struct sw_mapping *sw_mapping_at(u64 addr)
{
	return (struct sw_mapping *)sw_span_at(&sw.mappings, addr);
}

bool sw_is_device(u64 addr)
{
	struct sw_region *region = sw_region_at(addr);

	return region && (region->kind == SW_ALLOC || region->kind == SW_RESERVED);
}

static bool lies_in(const struct sw_region *region, u64 addr, u64 bytes)
{
	u64 offset = addr - region->span.addr;

	return bytes <= region->span.bytes && offset <= region->span.bytes - bytes;
}

static bool sw_is_pinned(u64 addr, u64 bytes)
{
	struct sw_region *region = sw_region_at(addr);

	return region && !sw_is_device(addr) && lies_in(region, addr, bytes);
}

static bool maps_allow(const struct sw_dev *dev, u64 addr, u64 bytes, bool write)
{
	u8 wanted = write ? KCU_ACCESS_READWRITE : KCU_ACCESS_READ;

	for (u64 at = addr; at < addr + bytes;) {
		struct sw_mapping *mapping = sw_mapping_at(at);

		if (!mapping || (mapping->access[dev->ordinal] & wanted) != wanted)
			return false;
		at = mapping->span.addr + mapping->span.bytes;
	}
	return true;
}

bool sw_may_touch(const struct sw_dev *dev, u64 addr, u64 bytes, bool write)
{
	struct sw_region *region = sw_region_at(addr);

	if (!region || !lies_in(region, addr, bytes))
		return false;
	switch (region->kind) {
	case SW_ALLOC:
		return region->dev == dev || dev->peers & BIT(region->dev->ordinal);
	case SW_RESERVED:
		return maps_allow(dev, addr, bytes, write);
	case SW_HOST_REGISTERED:
		return !(write && region->flags & KCU_HOST_REGISTER_READ_ONLY);
	default:
		return true;
	}
}

static void mapped_places(u64 addr, u64 end, sw_place_fn fn, void *arg)
{
	while (addr < end) {
		struct sw_mapping *mapping = sw_mapping_at(addr);
		u64 next, offset;

		if (!mapping)
			return;
		next = min(end, mapping->span.addr + mapping->span.bytes);
		offset = addr - mapping->span.addr;
		fn(arg, place_of(mapping->backing) + offset, next - addr);
		addr = next;
	}
}

void sw_for_each_place(u64 addr, u64 bytes, sw_place_fn fn, void *arg)
{
	struct sw_region *region = sw_region_at(addr);

	if (!region)
		return;
	if (region->kind == SW_RESERVED)
		mapped_places(addr, addr + bytes, fn, arg);
	else if (region->kind == SW_ALLOC)
		fn(arg, place_of(region->backing) + (addr - region->span.addr), bytes);
	else
		fn(arg, addr, bytes);
}

/* ---- Device memory ---- */

static struct sw_region *add_region(const struct sw_region *what)
{
	struct sw_region *region = malloc(sizeof(*region));

	if (!region)
		return NULL;
	*region = *what;
	region->id = ++sw.next_id;
	if (sw_span_add(&sw.regions, &region->span)) {
		free(region);
		return NULL;
	}
	return region;
}

static void del_region(struct sw_region *region)
{
	sw_span_del(&sw.regions, &region->span);
	free(region);
}

static kcu_result mem_info(size_t *free_bytes, size_t *total)
{
	struct sw_dev *dev = sw_current();

	if (!free_bytes || !total)
		return KCU_E_INVALID_VALUE;
	*total = sw.opt.mem_bytes;
	*free_bytes = min(sw.opt.oom_bytes, sw.opt.mem_bytes) - dev->used_bytes;
	return KCU_E_SUCCESS;
}

kcu_result cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	return SW_RUN(cuMemGetInfo_v2, SW_INIT | SW_CTX, mem_info(free_bytes, total));
}

static kcu_result mem_alloc(kcu_deviceptr *addr, size_t bytes)
{
	struct sw_region region = { .dev = sw_current(), .kind = SW_ALLOC };
	u64 whole = kv_align_up(bytes, SW_PAGE);

	if (!addr || !bytes)
		return KCU_E_INVALID_VALUE;
	if (whole < bytes || sw_backing_create(region.dev, whole, SW_PAGE, false, &region.backing))
		return KCU_E_OUT_OF_MEMORY;
	region.span.bytes = bytes;
	region.room = whole + SW_PAGE;
	if (sw_space_take(&sw.va, region.room, SW_GRANULE, &region.span.addr))
		goto out_put;
	if (sw_map_fixed(region.span.addr, whole, region.backing, PROT_READ | PROT_WRITE) ||
	    !add_region(&region))
		goto out_unmap;
	sw.live.nr_allocs++;
	*addr = region.span.addr;
	return KCU_E_SUCCESS;

out_unmap:
	sw_map_nothing(region.span.addr, whole);
	sw_space_give(&sw.va, region.span.addr, region.room);
out_put:
	sw_backing_put(region.backing);
	return KCU_E_OUT_OF_MEMORY;
}

kcu_result cuMemAlloc_v2(kcu_deviceptr *addr, size_t bytes)
{
	return SW_RUN(cuMemAlloc_v2, SW_INIT | SW_CTX | SW_UNSAFE, mem_alloc(addr, bytes));
}

/* True, and the memory full of poison, if queued work still needs it. */
static bool still_in_use(struct sw_region *region, const char *call)
{
	char user[SW_TEXT_BYTES];

	if (!sw_in_use(region->span.addr, region->span.bytes, user, sizeof(user)))
		return false;
	sw_report(SW_REPORT_IN_USE, "%s() of memory that %s needs", call, user);
	memset((void *)region->span.addr, SW_POISON_FREED, region->span.bytes);
	return true;
}

static struct sw_region *region_of(u64 addr, enum sw_region_kind kind)
{
	struct sw_region *region = sw_region_at(addr);

	return region && region->kind == kind && region->span.addr == addr ? region : NULL;
}

static kcu_result mem_free(u64 addr)
{
	struct sw_region *region = region_of(addr, SW_ALLOC);

	if (!region || still_in_use(region, "cuMemFree"))
		return KCU_E_INVALID_VALUE;
	sw_race_host(addr, region->span.bytes, true, "cuMemFree");
	sw_map_nothing(addr, region->room - SW_PAGE);
	sw_space_give(&sw.va, addr, region->room);
	sw_backing_put(region->backing);
	del_region(region);
	sw.live.nr_allocs--;
	return KCU_E_SUCCESS;
}

kcu_result cuMemFree_v2(kcu_deviceptr addr)
{
	return SW_RUN(cuMemFree_v2, SW_INIT | SW_CTX | SW_UNSAFE, mem_free(addr));
}

/* ---- Host memory that devices reach ---- */

static kcu_result host_alloc(void **ptr, size_t bytes, unsigned int flags)
{
	struct sw_region region = { .kind = SW_HOST_ALLOC, .dev = sw_current(), .flags = flags };
	void *at;

	if (!ptr || !bytes || flags & ~7u)
		return KCU_E_INVALID_VALUE;
	region.room = kv_align_up(bytes, SW_PAGE);
	at = mmap(NULL, region.room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (region.room < bytes || at == MAP_FAILED)
		return KCU_E_OUT_OF_MEMORY;
	region.span = (struct sw_span){ (u64)at, bytes };
	if (!add_region(&region)) {
		munmap(at, region.room);
		return KCU_E_OUT_OF_MEMORY;
	}
	if (sw.opt.poison)
		memset(at, SW_POISON_NEW, bytes);
	sw.live.nr_host++;
	*ptr = at;
	return KCU_E_SUCCESS;
}

kcu_result cuMemHostAlloc(void **ptr, size_t bytes, unsigned int flags)
{
	return SW_RUN(cuMemHostAlloc, SW_INIT | SW_CTX | SW_UNSAFE, host_alloc(ptr, bytes, flags));
}

kcu_result cuMemAllocHost_v2(void **ptr, size_t bytes)
{
	return SW_RUN(cuMemAllocHost_v2, SW_INIT | SW_CTX | SW_UNSAFE, host_alloc(ptr, bytes, 0));
}

static kcu_result host_flags(unsigned int *flags, void *ptr)
{
	struct sw_region *region = sw_region_at((u64)ptr);

	if (!flags || !region || region->kind != SW_HOST_ALLOC)
		return KCU_E_INVALID_VALUE;
	*flags = region->flags | KCU_HOST_ALLOC_DEVICEMAP;	/* all of it is mapped */
	return KCU_E_SUCCESS;
}

kcu_result cuMemHostGetFlags(unsigned int *flags, void *ptr)
{
	return SW_RUN(cuMemHostGetFlags, SW_INIT | SW_CTX, host_flags(flags, ptr));
}

static void forget_host(struct sw_region *region, const char *call)
{
	sw_race_host(region->span.addr, region->span.bytes, true, call);
	sw_race_forget(region->span.addr, region->span.bytes);
	del_region(region);
	sw.live.nr_host--;
}

static kcu_result free_host(void *ptr)
{
	struct sw_region *region = region_of((u64)ptr, SW_HOST_ALLOC);
	u64 room;

	if (!region || still_in_use(region, "cuMemFreeHost"))
		return KCU_E_INVALID_VALUE;
	room = region->room;
	forget_host(region, "cuMemFreeHost");
	munmap(ptr, room);
	return KCU_E_SUCCESS;
}

kcu_result cuMemFreeHost(void *ptr)
{
	return SW_RUN(cuMemFreeHost, SW_INIT | SW_CTX | SW_UNSAFE, free_host(ptr));
}

static kcu_result host_register(void *ptr, size_t bytes, unsigned int flags)
{
	struct sw_region region = {
		.span = { (u64)ptr, bytes }, .kind = SW_HOST_REGISTERED, .dev = sw_current(),
		.flags = flags,
	};

	if (!ptr || !bytes || flags & ~15u || (u64)ptr + bytes < (u64)ptr)
		return KCU_E_INVALID_VALUE;
	if (flags & KCU_HOST_REGISTER_IOMEMORY)
		return KCU_E_NOT_SUPPORTED;
	if (sw_span_overlap(&sw.regions, (u64)ptr, bytes))
		return KCU_E_HOST_MEMORY_ALREADY_REGISTERED;
	if (!add_region(&region))
		return KCU_E_OUT_OF_MEMORY;
	sw.live.nr_host++;
	return KCU_E_SUCCESS;
}

kcu_result cuMemHostRegister_v2(void *ptr, size_t bytes, unsigned int flags)
{
	return SW_RUN(cuMemHostRegister_v2, SW_INIT | SW_CTX | SW_UNSAFE,
		      host_register(ptr, bytes, flags));
}

/* Not poisoned while in use: it is the caller's. */
static kcu_result host_unregister(void *ptr)
{
	struct sw_region *region = region_of((u64)ptr, SW_HOST_REGISTERED);
	char user[SW_TEXT_BYTES];

	if (!region)
		return KCU_E_HOST_MEMORY_NOT_REGISTERED;
	if (sw_in_use(region->span.addr, region->span.bytes, user, sizeof(user))) {
		sw_report(SW_REPORT_IN_USE, "cuMemHostUnregister() of memory that %s needs", user);
		return KCU_E_INVALID_VALUE;
	}
	forget_host(region, "cuMemHostUnregister");
	return KCU_E_SUCCESS;
}

kcu_result cuMemHostUnregister(void *ptr)
{
	return SW_RUN(cuMemHostUnregister, SW_INIT | SW_CTX | SW_UNSAFE, host_unregister(ptr));
}

static kcu_result host_pointer(kcu_deviceptr *addr, void *ptr, unsigned int flags)
{
	if (!addr || flags || !sw_is_pinned((u64)ptr, 1))
		return KCU_E_INVALID_VALUE;
	*addr = (u64)ptr;
	return KCU_E_SUCCESS;
}

kcu_result cuMemHostGetDevicePointer_v2(kcu_deviceptr *addr, void *ptr, unsigned int flags)
{
	return SW_RUN(cuMemHostGetDevicePointer_v2, SW_INIT | SW_CTX,
		      host_pointer(addr, ptr, flags));
}

/* ---- */

void sw_memory_exit(void)
{
	for (u32 i = 0; i < sw.regions.nr; i++) {
		struct sw_region *region = (struct sw_region *)sw.regions.at[i];

		if (region->kind == SW_HOST_ALLOC)
			munmap((void *)region->span.addr, region->room);
		if (region->backing)
			sw_backing_put(region->backing);
		free(region);
	}
	free(sw.regions.at);
	sw.regions = (struct sw_spans){ 0 };
	sw_space_exit(&sw.va);
}
