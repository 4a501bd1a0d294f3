// SPDX-License-Identifier: Apache-2.0
/*
 * Virtual memory: reservations, physical handles, mappings.
 *
 * A mapping is out of reach until access is set, and its pages are gone after the unmapping:
 * whoever touches them then faults. Aliases, one handle mapped at several places, are fine.
 */
#include <sys/mman.h>

#include "internal.h"

static bool is_granules(u64 n)
{
	return !(n & (SW_GRANULE - 1));
}

/* ---- Reservations ---- */

static kcu_result reserve(kcu_deviceptr *addr, size_t bytes, size_t align, u64 flags)
{
	struct sw_region *region;

	if (!addr || !bytes || bytes & (SW_PAGE - 1) || flags || (align && !kv_is_pow2(align)))
		return KCU_E_INVALID_VALUE;
	region = calloc(1, sizeof(*region));
	if (!region)
		return KCU_E_OUT_OF_MEMORY;
	region->kind = SW_RESERVED;
	region->id = ++sw.next_id;
	region->room = kv_align_up(bytes, SW_GRANULE) + SW_GRANULE;
	region->span.bytes = bytes;
	if (region->room < bytes || sw_space_take(&sw.va, region->room, max(align, SW_GRANULE),
						  &region->span.addr))
		goto out_free;
	if (sw_span_add(&sw.regions, &region->span))
		goto out_give;
	sw.live.nr_reservations++;
	*addr = region->span.addr;
	return KCU_E_SUCCESS;

out_give:
	sw_space_give(&sw.va, region->span.addr, region->room);
out_free:
	free(region);
	return KCU_E_OUT_OF_MEMORY;
}

kcu_result cuMemAddressReserve(kcu_deviceptr *addr, size_t bytes, size_t align,
			       kcu_deviceptr hint, unsigned long long flags)
{
	return SW_RUN(cuMemAddressReserve, SW_INIT | SW_UNSAFE, reserve(addr, bytes, align, flags));
}

/* All of it and nothing mapped in it, or not at all. */
static kcu_result address_free(u64 addr, size_t bytes)
{
	struct sw_region *region = sw_region_at(addr);

	if (!region || region->kind != SW_RESERVED || region->span.addr != addr ||
	    region->span.bytes != bytes || sw_span_overlap(&sw.mappings, addr, bytes))
		return KCU_E_INVALID_VALUE;
	sw_space_give(&sw.va, addr, region->room);
	sw_span_del(&sw.regions, &region->span);
	free(region);
	sw.live.nr_reservations--;
	return KCU_E_SUCCESS;
}

kcu_result cuMemAddressFree(kcu_deviceptr addr, size_t bytes)
{
	return SW_RUN(cuMemAddressFree, SW_INIT | SW_UNSAFE, address_free(addr, bytes));
}

/* ---- Handles ---- */

static kcu_result check_prop(const kcu_mem_prop *prop)
{
	if (!prop || prop->type != KCU_ALLOCATION_PINNED)
		return KCU_E_INVALID_VALUE;
	if (!sw.opt.vmm || prop->location.type != KCU_LOCATION_DEVICE ||
	    prop->handle_types & ~KCU_HANDLE_POSIX_FD || prop->flags.gpu_direct_rdma)
		return KCU_E_NOT_SUPPORTED;
	return (u32)prop->location.id < sw.opt.nr_devices ? KCU_E_SUCCESS : KCU_E_INVALID_DEVICE;
}

static kcu_result granularity(size_t *bytes, const kcu_mem_prop *prop, kcu_granularity option)
{
	kcu_result rc = check_prop(prop);

	if (!bytes || option > KCU_GRANULARITY_RECOMMENDED)
		return KCU_E_INVALID_VALUE;
	if (!rc)
		*bytes = SW_GRANULE;
	return rc;
}

kcu_result cuMemGetAllocationGranularity(size_t *bytes, const kcu_mem_prop *prop,
					 kcu_granularity option)
{
	return SW_RUN(cuMemGetAllocationGranularity, SW_INIT, granularity(bytes, prop, option));
}

/* A handle with one reference; it borrows the caller's reference to the backing. */
struct sw_mem *sw_mem_new(struct sw_backing *backing, u32 handle_types)
{
	struct sw_mem *mem = calloc(1, sizeof(*mem));

	if (!mem)
		return NULL;
	*mem = (struct sw_mem){ .backing = backing, .refs = 1, .handle_types = handle_types };
	mem->handle = sw_object_add(SW_T_MEM, mem);
	if (!mem->handle) {
		free(mem);
		return NULL;
	}
	if (!backing->handle)
		backing->handle = mem;
	sw.live.nr_handles++;
	return mem;
}

static void mem_put(struct sw_mem *mem)
{
	if (--mem->refs)
		return;
	if (mem->backing->handle == mem)
		mem->backing->handle = NULL;
	sw_backing_put(mem->backing);
	sw_object_del(mem->handle);
	free(mem);
	sw.live.nr_handles--;
}

static kcu_result create(kcu_mem_handle *handle, size_t bytes, const kcu_mem_prop *prop, u64 flags)
{
	kcu_result rc = check_prop(prop);
	struct sw_backing *backing;
	struct sw_mem *mem;
	struct sw_dev *dev;

	if (rc)
		return rc;
	if (!handle || !bytes || !is_granules(bytes) || flags)
		return KCU_E_INVALID_VALUE;
	dev = &sw.dev[prop->location.id];
	if (sw_dev_open(dev) ||
	    sw_backing_create(dev, bytes, SW_GRANULE, prop->handle_types != 0, &backing))
		return KCU_E_OUT_OF_MEMORY;
	mem = sw_mem_new(backing, prop->handle_types);
	if (!mem) {
		sw_backing_put(backing);
		return KCU_E_OUT_OF_MEMORY;
	}
	*handle = mem->handle;
	return KCU_E_SUCCESS;
}

kcu_result cuMemCreate(kcu_mem_handle *handle, size_t bytes, const kcu_mem_prop *prop,
		       unsigned long long flags)
{
	return SW_RUN(cuMemCreate, SW_INIT | SW_UNSAFE, create(handle, bytes, prop, flags));
}

static kcu_result mem_release(kcu_mem_handle handle)
{
	struct sw_mem *mem = sw_object(SW_T_MEM, handle);

	if (!mem)
		return KCU_E_INVALID_VALUE;
	mem_put(mem);
	return KCU_E_SUCCESS;
}

kcu_result cuMemRelease(kcu_mem_handle handle)
{
	return SW_RUN(cuMemRelease, SW_INIT | SW_UNSAFE, mem_release(handle));
}

static kcu_result retain_at(kcu_mem_handle *handle, void *addr)
{
	struct sw_mapping *mapping = sw_mapping_at((u64)addr);
	struct sw_mem *mem;

	if (!handle || !mapping)
		return KCU_E_INVALID_VALUE;
	mem = mapping->backing->handle;
	if (mem) {
		mem->refs++;
	} else {
		mem = sw_mem_new(mapping->backing, mapping->backing->inode ?
				 KCU_HANDLE_POSIX_FD : KCU_HANDLE_NONE);
		if (!mem)
			return KCU_E_OUT_OF_MEMORY;
		mapping->backing->refs++;
	}
	*handle = mem->handle;
	return KCU_E_SUCCESS;
}

kcu_result cuMemRetainAllocationHandle(kcu_mem_handle *handle, void *addr)
{
	return SW_RUN(cuMemRetainAllocationHandle, SW_INIT, retain_at(handle, addr));
}

/* ---- Mappings ---- */

static bool is_reserved(u64 addr, u64 bytes)
{
	struct sw_region *region = sw_region_at(addr);

	return region && region->kind == SW_RESERVED &&
	       bytes <= region->span.addr + region->span.bytes - addr;
}

static kcu_result map(u64 addr, size_t bytes, size_t offset, kcu_mem_handle handle, u64 flags)
{
	struct sw_mem *mem = sw_object(SW_T_MEM, handle);
	struct sw_mapping *mapping;

	if (!mem || flags || offset || !bytes || !is_granules(addr | bytes) ||
	    bytes > mem->backing->bytes || !is_reserved(addr, bytes) ||
	    sw_span_overlap(&sw.mappings, addr, bytes))
		return KCU_E_INVALID_VALUE;
	mapping = calloc(1, sizeof(*mapping));
	if (!mapping)
		return KCU_E_OUT_OF_MEMORY;
	mapping->span = (struct sw_span){ addr, bytes };
	mapping->backing = mem->backing;
	if (sw_map_fixed(addr, bytes, mem->backing, PROT_NONE))
		goto out_free;
	if (sw_span_add(&sw.mappings, &mapping->span))
		goto out_unmap;
	mem->backing->refs++;
	mem->backing->nr_maps++;
	sw.live.nr_mappings++;
	return KCU_E_SUCCESS;

out_unmap:
	sw_map_nothing(addr, bytes);
out_free:
	free(mapping);
	return KCU_E_OUT_OF_MEMORY;
}

kcu_result cuMemMap(kcu_deviceptr addr, size_t bytes, size_t offset, kcu_mem_handle handle,
		    unsigned long long flags)
{
	return SW_RUN(cuMemMap, SW_INIT | SW_UNSAFE, map(addr, bytes, offset, handle, flags));
}

/* Its queued users will find nothing there and take the context down, as on a device. */
static kcu_result unmap(u64 addr, size_t bytes)
{
	struct sw_mapping *mapping = sw_mapping_at(addr);
	char user[SW_TEXT_BYTES];

	if (!mapping || mapping->span.addr != addr || mapping->span.bytes != bytes)
		return KCU_E_INVALID_VALUE;
	if (sw_in_use(addr, bytes, user, sizeof(user)))
		sw_report(SW_REPORT_IN_USE, "cuMemUnmap() of memory that %s needs", user);
	/* Users of another mapping of the same memory do not mind. */
	else if (mapping->backing->nr_maps == 1)
		sw_race_host(addr, bytes, true, "cuMemUnmap");
	sw_map_nothing(addr, bytes);
	sw_span_del(&sw.mappings, &mapping->span);
	mapping->backing->nr_maps--;
	sw_backing_put(mapping->backing);
	free(mapping);
	sw.live.nr_mappings--;
	return KCU_E_SUCCESS;
}

kcu_result cuMemUnmap(kcu_deviceptr addr, size_t bytes)
{
	return SW_RUN(cuMemUnmap, SW_INIT | SW_UNSAFE, unmap(addr, bytes));
}

static kcu_result check_desc(const kcu_mem_access *desc)
{
	if (desc->location.type != KCU_LOCATION_DEVICE)
		return KCU_E_NOT_SUPPORTED;
	if ((u32)desc->location.id >= sw.opt.nr_devices)
		return KCU_E_INVALID_DEVICE;
	return desc->flags == KCU_ACCESS_NONE || desc->flags == KCU_ACCESS_READ ||
	       desc->flags == KCU_ACCESS_READWRITE ? KCU_E_SUCCESS : KCU_E_INVALID_VALUE;
}

/* Whole mappings, without a gap between them. */
static bool is_mapped(u64 addr, u64 bytes)
{
	struct sw_mapping *first = sw_mapping_at(addr), *last = sw_mapping_at(addr + bytes - 1);
	u64 end;

	if (!first || !last || first->span.addr != addr ||
	    last->span.addr + last->span.bytes != addr + bytes)
		return false;
	for (end = addr; end < addr + bytes;) {
		struct sw_mapping *mapping = sw_mapping_at(end);

		if (!mapping)
			return false;
		end = mapping->span.addr + mapping->span.bytes;
	}
	return true;
}

static kcu_result check_access(u64 addr, size_t bytes, const kcu_mem_access *desc, size_t nr)
{
	kcu_result rc = KCU_E_SUCCESS;

	if (!bytes || !desc || !nr || !is_granules(addr | bytes) || addr + bytes < addr ||
	    !is_mapped(addr, bytes))
		return KCU_E_INVALID_VALUE;
	for (size_t i = 0; i < nr && !rc; i++) {
		rc = check_desc(&desc[i]);
		if (!rc && !sw.opt.peers &&
		    desc[i].location.id != sw_mapping_at(addr)->backing->dev->ordinal)
			rc = KCU_E_NOT_SUPPORTED;
	}
	return rc;
}

static int host_protection(const struct sw_mapping *mapping)
{
	u8 all = 0;

	for (u32 i = 0; i < SW_MAX_DEVICES; i++)
		all |= mapping->access[i];
	return (all & 1 ? PROT_READ : 0) | (all & 2 ? PROT_WRITE : 0);
}

static kcu_result set_access(u64 addr, size_t bytes, const kcu_mem_access *desc, size_t nr)
{
	kcu_result rc = check_access(addr, bytes, desc, nr);
	struct sw_mapping *mapping;

	if (rc)
		return rc;
	for (u64 at = addr; at < addr + bytes; at += mapping->span.bytes) {
		mapping = sw_mapping_at(at);
		for (size_t i = 0; i < nr; i++)
			mapping->access[desc[i].location.id] = desc[i].flags;
		if (mprotect((void *)at, mapping->span.bytes, host_protection(mapping)))
			return KCU_E_OUT_OF_MEMORY;
	}
	return KCU_E_SUCCESS;
}

kcu_result cuMemSetAccess(kcu_deviceptr addr, size_t bytes, const kcu_mem_access *desc, size_t nr)
{
	return SW_RUN(cuMemSetAccess, SW_INIT | SW_UNSAFE, set_access(addr, bytes, desc, nr));
}

/* ---- */

static void forget_mem(enum sw_type type, void *object)
{
	struct sw_mem *mem = object;

	if (type != SW_T_MEM)
		return;
	mem->refs = 1;
	mem_put(mem);
}

void sw_vmm_exit(void)
{
	for (u32 i = 0; i < sw.mappings.nr; i++) {
		struct sw_mapping *mapping = (struct sw_mapping *)sw.mappings.at[i];

		sw_backing_put(mapping->backing);
		free(mapping);
	}
	free(sw.mappings.at);
	sw.mappings = (struct sw_spans){ 0 };
	sw_for_each_object(forget_mem);
}
