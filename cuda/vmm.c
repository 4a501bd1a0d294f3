// SPDX-License-Identifier: Apache-2.0
/*
 * Areas: device memory that comes and goes at addresses that stay.
 *
 * Addresses for the maximum are reserved once. Memory is in handles of one size, the unit; a handle
 * is mapped as a whole and unmapped as a whole, since the driver knows no other way. Access is set
 * once for a run of new units, not for each.
 *
 * Faults of a unit are kept with it, and nowhere else: one that the driver would not
 * unmap is stuck for good, and the rest works on. A unit that was exported is another process's
 * business, too: it stays.
 */
#include <kv/bits.h>
#include <kv/log.h>
#include <kv/mem.h>

#include "engine.h"

#define MIN_UNIT_BYTES	(2ull << 20)
#define MAX_UNIT_BYTES	(64ull << 20)
#define MANY_UNITS	64u

enum unit_state {
	UNIT_ABSENT,			/* addresses only */
	UNIT_MAPPED,			/* a handle behind it, no access yet: while it grows */
	UNIT_READY,
	UNIT_EXPORTED,			/* ready, and never to be unmapped */
	UNIT_STUCK,			/* the driver would not unmap it */
};

struct unit {
	kcu_mem_handle handle;		/* ours from UNIT_MAPPED on */
	enum unit_state state;
};

struct kv_area {
	/* Fixed at creation. */
	struct kv_dev *dev;
	kcu_deviceptr addr;
	u64 max_bytes;
	u64 unit_bytes;
	u32 nr_units;
	bool is_shared;			/* its handles can be exported */

	struct kv_lock lock;
	struct unit *unit;		/* content: ->lock */
};

/* ---- entering ---- */

/* Enter the context, in a way that allocates, and take the area's lock. */
static int begin(struct kv_area *area, struct kv_gpu_scope *scope)
{
	int err = kv_gpu_enter_relaxed(area->dev->gpu, scope);

	if (!err)
		kv_lock(&area->lock);
	return err;
}

static void end(struct kv_area *area, struct kv_gpu_scope *scope)
{
	kv_unlock(&area->lock);
	kv_gpu_leave(area->dev->gpu, scope);
}

/* ---- handles ---- */

static int create_handle(struct kv_area *area, kcu_mem_handle *handle)
{
	struct kv_gpu *gpu = area->dev->gpu;
	kcu_mem_prop prop = {
		.type = KCU_ALLOCATION_PINNED,
		.location = { .type = KCU_LOCATION_DEVICE, .id = gpu->ordinal },
	};

	if (area->is_shared)
		prop.handle_types = KCU_HANDLE_POSIX_FD;
	prop.flags.gpu_direct_rdma = gpu->rdma_with_vmm;
	return kv_gpu_call(gpu, mem_create, handle, area->unit_bytes, &prop, 0);
}

static void release_handle(struct kv_area *area, kcu_mem_handle handle)
{
	kv_gpu_call(area->dev->gpu, mem_release, handle);
}

/* ---- units ---- */

static kcu_deviceptr addr_of(const struct kv_area *area, u32 i)
{
	return area->addr + i * area->unit_bytes;
}

static int map_unit(struct kv_area *area, u32 i)
{
	struct unit *unit = &area->unit[i];
	kcu_mem_handle handle;
	int err = create_handle(area, &handle);

	if (err)
		return err;
	err = kv_gpu_call(area->dev->gpu, mem_map, addr_of(area, i), area->unit_bytes, 0, handle,
			  0);
	if (err) {
		release_handle(area, handle);
		return err;
	}
	*unit = (struct unit){ .handle = handle, .state = UNIT_MAPPED };
	return 0;
}

static int unmap_unit(struct kv_area *area, u32 i)
{
	struct unit *unit = &area->unit[i];
	int err = kv_gpu_call(area->dev->gpu, mem_unmap, addr_of(area, i), area->unit_bytes);

	if (err) {
		unit->state = UNIT_STUCK;
		kv_log(KV_LOG_ERR, "kvmm: gpu %d: %llu MiB at unit %u are stuck (%d)",
		       area->dev->gpu->ordinal, (unsigned long long)area->unit_bytes >> 20, i,
		       err);
		return err;
	}
	release_handle(area, unit->handle);
	*unit = (struct unit){ .state = UNIT_ABSENT };
	return 0;
}

/* The driver takes any number of neighbours in one call. */
static int open_run(struct kv_area *area, u32 first, u32 nr)
{
	kcu_mem_access access = {
		.location = { .type = KCU_LOCATION_DEVICE, .id = area->dev->gpu->ordinal },
		.flags = KCU_ACCESS_READWRITE,
	};
	int err = kv_gpu_call(area->dev->gpu, mem_set_access, addr_of(area, first),
			      nr * area->unit_bytes, &access, 1);

	for (u32 i = first; i < first + nr && !err; i++)
		area->unit[i].state = UNIT_READY;
	return err;
}

static int open_mapped(struct kv_area *area, u32 first, u32 end)
{
	int err = 0;

	for (u32 i = first, nr; i < end && !err; i += max(nr, 1u)) {
		for (nr = 0; i + nr < end && area->unit[i + nr].state == UNIT_MAPPED;)
			nr++;
		if (nr)
			err = open_run(area, i, nr);
	}
	return err;
}

/* ---- growing ---- */

static int grow(struct kv_area *area, u32 first, u32 end)
{
	u64 *is_new = kv_alloc_array(KV_WORDS(end - first), sizeof(*is_new));
	int err = 0;

	if (!is_new)
		return -ENOMEM;
	for (u32 i = first; i < end && !err; i++) {
		if (area->unit[i].state == UNIT_STUCK) {
			err = -EUCLEAN;
		} else if (area->unit[i].state == UNIT_ABSENT) {
			err = map_unit(area, i);
			if (!err)
				kv_set_bit(is_new, i - first);
		}
	}
	if (!err)
		err = open_mapped(area, first, end);
	for (u32 i = first; err && i < end; i++)
		if (kv_has_bit(is_new, i - first))
			unmap_unit(area, i);
	kv_free(is_new);
	return err;
}

/* Whole units inside the area. */
static bool is_range(const struct kv_area *area, u64 offset, u64 bytes)
{
	u64 end;

	return !((offset | bytes) & (area->unit_bytes - 1)) && bytes &&
	       !kv_add_overflows(offset, bytes, &end) && end <= area->max_bytes;
}

static int change(struct kv_area *area, u64 offset, u64 bytes,
		  int (*how)(struct kv_area *area, u32 first, u32 end))
{
	struct kv_gpu_scope scope;
	int err;

	if (!is_range(area, offset, bytes))
		return -EINVAL;
	err = begin(area, &scope);
	if (err)
		return err;
	err = how(area, offset / area->unit_bytes, (offset + bytes) / area->unit_bytes);
	end(area, &scope);
	return err;
}

int kv_area_grow(struct kv_area *area, u64 offset, u64 bytes)
{
	return change(area, offset, bytes, grow);
}

/* ---- shrinking ---- */

/* All of them are asked first, so that a refusal leaves everything as it was. */
static int shrink(struct kv_area *area, u32 first, u32 end)
{
	int err = 0;

	if (!kv_dev_sees_end(area->dev))
		return -EIO;
	for (u32 i = first; i < end; i++) {
		if (area->unit[i].state == UNIT_EXPORTED)
			return -EBUSY;
		if (area->unit[i].state == UNIT_STUCK)
			return -EUCLEAN;
	}
	for (u32 i = first; i < end; i++)
		if (area->unit[i].state == UNIT_READY && unmap_unit(area, i))
			err = -EIO;
	return err;
}

int kv_area_shrink(struct kv_area *area, u64 offset, u64 bytes)
{
	return change(area, offset, bytes, shrink);
}

/* ---- exporting ---- */

int kv_area_export(struct kv_area *area, u64 offset, int *fd)
{
	struct kv_gpu_scope scope;
	struct unit *unit;
	int err;

	if (!is_range(area, offset, area->unit_bytes))
		return -EINVAL;
	if (!area->is_shared)
		return -EOPNOTSUPP;
	err = begin(area, &scope);
	if (err)
		return err;
	unit = &area->unit[offset / area->unit_bytes];
	err = unit->state == UNIT_READY || unit->state == UNIT_EXPORTED ?
	      kv_gpu_call(area->dev->gpu, mem_export, fd, unit->handle, KCU_HANDLE_POSIX_FD, 0) :
	      -ENXIO;
	if (!err)
		unit->state = UNIT_EXPORTED;
	end(area, &scope);
	return err;
}

/* ---- statistics ---- */

static u64 bytes_in_state(const struct kv_area *area, enum unit_state state)
{
	u64 nr = 0;

	for (u32 i = 0; i < area->nr_units; i++)
		nr += area->unit[i].state == state;
	return nr * area->unit_bytes;
}

void kv_area_info(struct kv_area *area, struct kv_area_info *info)
{
	*info = (struct kv_area_info){
		.addr = area->addr, .max_bytes = area->max_bytes,
		.unit_bytes = area->unit_bytes, .is_shared = area->is_shared,
	};
	kv_lock(&area->lock);
	info->present_bytes = bytes_in_state(area, UNIT_READY) +
			      bytes_in_state(area, UNIT_EXPORTED);
	info->stuck_bytes = bytes_in_state(area, UNIT_STUCK);
	kv_unlock(&area->lock);
}

/* ---- making and breaking ---- */

static int set_sizes(struct kv_area *area, const struct kv_area_attr *attr)
{
	struct kv_gpu *gpu = area->dev->gpu;
	u64 granule = gpu->granule_bytes ?: MIN_UNIT_BYTES, nr;
	u64 unit = max(gpu->good_granule_bytes, MIN_UNIT_BYTES);

	/* Small units give memory back sooner; large ones cost less to handle. */
	while (unit < MAX_UNIT_BYTES && attr->max_bytes / unit > MANY_UNITS)
		unit *= 2;
	area->unit_bytes = attr->handle_bytes ?: unit;
	if (!attr->max_bytes || !kv_is_pow2(area->unit_bytes) || area->unit_bytes < granule)
		return -EINVAL;
	area->max_bytes = kv_align_up(attr->max_bytes, area->unit_bytes);
	nr = area->max_bytes / area->unit_bytes;
	if (area->max_bytes < attr->max_bytes || nr > INT32_MAX)
		return -EINVAL;
	area->nr_units = nr;
	return 0;
}

/*
 * Whether handles that can be exported can be created shows only when one is. The one for the trial
 * is not kept, it may be large.
 */
static int try_handle(struct kv_area *area, bool is_shared)
{
	kcu_mem_handle handle;
	int err;

	area->is_shared = is_shared;
	err = create_handle(area, &handle);
	if (!err)
		release_handle(area, handle);
	return err;
}

static int try_handles(struct kv_area *area, bool is_wanted)
{
	bool is_shared = is_wanted && area->dev->gpu->features & KCU_F_IPC_FD;
	int err = try_handle(area, is_shared);

	/* Too little memory for one unit is no reason to refuse addresses. */
	if (err && err != -ENOMEM && is_shared)
		err = try_handle(area, false);
	return err == -ENOMEM ? 0 : err;
}

static int open_area(struct kv_area *area, bool is_shared)
{
	struct kv_gpu *gpu = area->dev->gpu;
	struct kv_gpu_scope scope;
	int err = kv_gpu_enter_relaxed(gpu, &scope);

	if (err)
		return err;
	err = gpu->features & KCU_F_VMM ? try_handles(area, is_shared) : -EOPNOTSUPP;
	if (!err)
		err = kv_gpu_call(gpu, mem_address_reserve, &area->addr, area->max_bytes,
				  area->unit_bytes, 0, 0);
	kv_gpu_leave(gpu, &scope);
	return err;
}

static int alloc_units(struct kv_area *area)
{
	area->unit = kv_alloc_array(area->nr_units, sizeof(*area->unit));
	return area->unit ? 0 : -ENOMEM;
}

static void free_area(struct kv_area *area)
{
	kv_free(area->unit);
	kv_free(area);
}

int kv_area_create(struct kv_dev *dev, const struct kv_area_attr *attr, struct kv_area **result)
{
	struct kv_area *area = kv_alloc(sizeof(*area));
	int err;

	if (!area)
		return -ENOMEM;
	area->dev = dev;
	kv_lock_init(&area->lock, KV_RANK_TIER, KV_AREA_LOCK_ID);
	err = set_sizes(area, attr);
	if (!err)
		err = alloc_units(area);
	if (!err)
		err = open_area(area, attr->is_shared);
	if (err) {
		free_area(area);
		return err;
	}
	kv_log(KV_LOG_INFO, "kvmm: gpu %d: area of %llu MiB in units of %llu MiB%s",
	       dev->gpu->ordinal, (unsigned long long)area->max_bytes >> 20,
	       (unsigned long long)area->unit_bytes >> 20,
	       area->is_shared ? ", shared" : attr->is_shared ? ", cannot be shared" : "");
	*result = area;
	return 0;
}

/* ---- importing ---- */

/* One unit, which is the one that was exported. */
static int map_import(struct kv_area *area, kcu_mem_handle handle)
{
	struct kv_gpu *gpu = area->dev->gpu;
	int err = kv_gpu_call(gpu, mem_address_reserve, &area->addr, area->max_bytes,
			      area->unit_bytes, 0, 0);

	if (err)
		return err;
	err = kv_gpu_call(gpu, mem_map, area->addr, area->unit_bytes, 0, handle, 0);
	if (!err) {
		area->unit[0] = (struct unit){ .handle = handle, .state = UNIT_MAPPED };
		err = open_run(area, 0, 1);
		if (err)
			kv_gpu_call(gpu, mem_unmap, area->addr, area->unit_bytes);
	}
	if (err)
		kv_gpu_call(gpu, mem_address_free, area->addr, area->max_bytes);
	return err;
}

static int open_import(struct kv_area *area, int fd)
{
	struct kv_gpu *gpu = area->dev->gpu;
	struct kv_gpu_scope scope;
	kcu_mem_handle mem;
	int err = kv_gpu_enter_relaxed(gpu, &scope);

	if (err)
		return err;
	/* The driver takes it by value, as a pointer. */
	err = kv_gpu_call(gpu, mem_import, &mem, (void *)(intptr_t)fd, KCU_HANDLE_POSIX_FD);
	if (!err) {
		err = map_import(area, mem);
		if (err)
			release_handle(area, mem);
	}
	kv_gpu_leave(gpu, &scope);
	return err;
}

int kv_area_import(struct kv_dev *dev, int fd, u64 bytes, struct kv_area **result)
{
	struct kv_area *area;
	int err;

	if (fd < 0 || !kv_is_pow2(bytes) || bytes % (dev->gpu->granule_bytes ?: MIN_UNIT_BYTES))
		return -EINVAL;
	if (!(dev->gpu->features & KCU_F_IPC_FD))
		return -EOPNOTSUPP;
	area = kv_alloc(sizeof(*area));
	if (!area)
		return -ENOMEM;
	area->dev = dev;
	area->unit_bytes = area->max_bytes = bytes;
	area->nr_units = 1;
	kv_lock_init(&area->lock, KV_RANK_TIER, KV_AREA_LOCK_ID);
	err = alloc_units(area);
	if (!err)
		err = open_import(area, fd);
	if (err)
		free_area(area);
	else
		*result = area;
	return err;
}

/* ---- the end ---- */

/* A reservation with something stuck in it stays reserved. */
static void close_area(struct kv_area *area)
{
	bool is_empty = true;

	for (u32 i = 0; i < area->nr_units; i++) {
		enum unit_state state = area->unit[i].state;

		if (state == UNIT_READY || state == UNIT_EXPORTED)
			unmap_unit(area, i);
		is_empty &= area->unit[i].state == UNIT_ABSENT;
	}
	if (is_empty)
		kv_gpu_call(area->dev->gpu, mem_address_free, area->addr, area->max_bytes);
}

void kv_area_destroy(struct kv_area *area)
{
	struct kv_gpu_scope scope;

	if (!area)
		return;
	if (!kv_dev_enter_surely(area->dev, &scope)) {
		if (kv_dev_sees_end(area->dev))
			close_area(area);
		kv_gpu_leave(area->dev->gpu, &scope);
	}
	free_area(area);
}
