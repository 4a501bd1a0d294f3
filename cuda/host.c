// SPDX-License-Identifier: Apache-2.0
/*
 * The host as a device: plain memory, every call complete on return.
 *
 * There is nothing to wait for, so every fence is 0. Adopted planes are memory that this file has
 * never seen: of an address it can only tell that it is none, or that it wraps around.
 *
 * No locks: the device has no state, and two callers of one piece of memory are their owner's
 * concern.
 */
#include <stdio.h>
#include <string.h>

#include <kv/bits.h>
#include <kv/cuda.h>
#include <kv/mem.h>
#include <kv/sys.h>

#include "kernel/kernel.h"

#define PAGE_BYTES	4096ull

/* Device 0 is the only one; no caller looks inside. */
struct kv_dev {
	char unused;
};

static struct kv_dev the_host;

static int host_open(unsigned int number, struct kv_dev **dev)
{
	if (number)
		return -ENODEV;
	*dev = &the_host;
	return 0;
}

static void host_close(struct kv_dev *dev)
{
}

static void *at(u64 addr)
{
	return (void *)(uintptr_t)addr;
}

/* [addr, addr + bytes) can be memory. */
static bool is_memory(u64 addr, u64 bytes)
{
	u64 end;

	return !bytes || (addr && !kv_add_overflows(addr, bytes, &end));
}

/*
 * Aligned here rather than by kv_alloc_lines(): aligned memory must be zeroed by hand where there
 * is no jemalloc, which would touch all of a large pool before its first use. The byte in front
 * of the block says how far it is from the start of the allocation.
 */
static int host_alloc(struct kv_dev *dev, u64 bytes, u64 *addr)
{
	u64 total;
	u8 *base, *ptr;

	if (!bytes)
		return -EINVAL;
	if (kv_add_overflows(bytes, KV_CACHELINE, &total))
		return -ENOMEM;
	base = kv_alloc(total);
	if (!base)
		return -ENOMEM;
	ptr = at(kv_align_up((uintptr_t)base + 1, KV_CACHELINE));
	ptr[-1] = ptr - base;
	*addr = (uintptr_t)ptr;
	return 0;
}

static void host_free(struct kv_dev *dev, u64 addr, u64 bytes)
{
	u8 *ptr = at(addr);

	if (ptr)
		kv_free(ptr - ptr[-1]);
}

static bool run_is_memory(const struct kvmm_plane *plane, u32 start, u32 nr)
{
	u64 end;

	return plane->bytes <= plane->stride &&
	       !kv_mul_overflows((u64)start + nr, plane->stride, &end) &&
	       is_memory(plane->base, end);
}

static bool move_is_good(const struct kv_copy *copy, const struct kv_move *move)
{
	for (u32 i = 0; i < copy->src.nr; i++)
		if (!run_is_memory(&copy->src.plane[i], move->src, move->nr) ||
		    !run_is_memory(&copy->dst.plane[i], move->dst, move->nr))
			return false;
	return true;
}

static bool copy_is_good(const struct kv_copy *copy)
{
	if (copy->src.nr != copy->dst.nr || copy->after.id ||
	    (copy->sums && copy->dir == KV_COPY_LOCAL))
		return false;
	for (u32 i = 0; i < copy->src.nr; i++)
		if (copy->src.plane[i].bytes != copy->dst.plane[i].bytes)
			return false;
	for (u32 i = 0; i < copy->nr; i++)
		if (!move_is_good(copy, &copy->moves[i]))
			return false;
	return true;
}

/* Block by block, away from the end that is overwritten first if the move overlaps itself. */
static void move_pieces(const struct kvmm_plane *src, const struct kvmm_plane *dst,
			const struct kv_move *move)
{
	bool up = move->dst > move->src;

	for (u32 i = 0; i < move->nr; i++) {
		u64 nth = up ? move->nr - 1 - i : i;

		memmove(at(dst->base + (move->dst + nth) * dst->stride),
			at(src->base + (move->src + nth) * src->stride), src->bytes);
	}
}

/* Between a pool and the tier below it, which are apart: as a copy that sums. */
static void copy_pieces(const struct kvmm_plane *src, const struct kvmm_plane *dst,
			const struct kv_move *move)
{
	for (u32 i = 0; i < move->nr; i++)
		kv_copy_piece(at(dst->base + (move->dst + i) * dst->stride),
			      at(src->base + (move->src + i) * src->stride), src->bytes);
}

/*
 * memmove() it is: 1000 blocks of 64 KiB move at 21 to 28 GB/s, by single blocks or in one piece,
 * and one memcpy() of as much at 21 to 23; streaming stores gained nothing on single blocks and
 * 20 % on long runs, for code of each architecture's own.
 */
static void move_in_plane(const struct kvmm_plane *src, const struct kvmm_plane *dst,
			  const struct kv_move *move)
{
	if (src->stride != src->bytes || dst->stride != dst->bytes)
		move_pieces(src, dst, move);
	else
		memmove(at(dst->base + move->dst * dst->stride),
			at(src->base + move->src * src->stride), move->nr * src->stride);
}

static u64 copy_and_sum(const struct kv_copy *copy, u32 from, u32 to)
{
	u64 sum = 0, pos = 0;

	for (u32 p = 0; p < copy->src.nr; p++) {
		const struct kvmm_plane *src = &copy->src.plane[p], *dst = &copy->dst.plane[p];

		sum += kv_copy_sum_piece(at(dst->base + to * dst->stride),
					 at(src->base + from * src->stride), src->bytes, pos);
		pos += kv_sum_words(src->bytes);
	}
	return sum;
}

/* All memory is the host's, for any direction. */
static int host_copy_blocks(struct kv_dev *dev, const struct kv_copy *copy,
			    struct kv_fence *fence)
{
	u64 *sum = copy->sums;

	if (copy->dir >= KV_NR_COPY_DIRS || !copy_is_good(copy))
		return -EINVAL;
	for (u32 i = 0; i < copy->nr && sum; i++)
		for (u32 k = 0; k < copy->moves[i].nr; k++)
			*sum++ = copy_and_sum(copy, copy->moves[i].src + k, copy->moves[i].dst + k);
	for (u32 i = 0; i < copy->nr && !sum; i++)
		for (u32 p = 0; p < copy->src.nr; p++)
			(copy->dir == KV_COPY_LOCAL ? move_in_plane : copy_pieces)(
				&copy->src.plane[p], &copy->dst.plane[p], &copy->moves[i]);
	fence->id = 0;
	return 0;
}

static int host_sum_blocks(struct kv_dev *dev, const struct kv_planes *planes, u32 first, u32 nr,
			   struct kv_fence after, u64 *sums)
{
	if (after.id)
		return -EINVAL;
	for (u32 p = 0; p < planes->nr; p++)
		if (!run_is_memory(&planes->plane[p], first, nr))
			return -EINVAL;
	for (u32 i = 0; i < nr; i++) {
		u64 pos = 0;

		sums[i] = 0;
		for (u32 p = 0; p < planes->nr; p++) {
			const struct kvmm_plane *plane = &planes->plane[p];

			sums[i] += kv_sum_piece(at(plane->base + (first + i) * plane->stride),
						plane->bytes, pos);
			pos += kv_sum_words(plane->bytes);
		}
	}
	return 0;
}

/* A fence that this device never gave out belongs to another one. */
static int host_wait(struct kv_dev *dev, struct kv_fence fence)
{
	return fence.id ? -EINVAL : 0;
}

/* There are no streams: all work of the caller is done. */
static int host_signal(struct kv_dev *dev, void *stream, struct kv_fence *fence)
{
	fence->id = 0;
	return 0;
}

static int host_stall(struct kv_dev *dev, void *stream, struct kv_fence fence)
{
	return host_wait(dev, fence);
}

static int host_join(struct kv_dev *dev, const struct kv_fence *fences, u32 nr,
		     struct kv_fence *fence)
{
	for (u32 i = 0; i < nr; i++)
		if (fences[i].id)
			return -EINVAL;
	fence->id = 0;
	return 0;
}

static int host_write(struct kv_dev *dev, u64 addr, const void *buf, u64 bytes)
{
	if (!is_memory(addr, bytes) || (bytes && !buf))
		return -EINVAL;
	if (bytes)
		memcpy(at(addr), buf, bytes);
	return 0;
}

static int host_read(struct kv_dev *dev, u64 addr, void *buf, u64 bytes)
{
	if (!is_memory(addr, bytes) || (bytes && !buf))
		return -EINVAL;
	if (bytes)
		memcpy(buf, at(addr), bytes);
	return 0;
}

static int host_fill(struct kv_dev *dev, u64 addr, u8 byte, u64 bytes)
{
	if (!is_memory(addr, bytes))
		return -EINVAL;
	if (bytes)
		memset(at(addr), byte, bytes);
	return 0;
}

static int host_host_alloc(struct kv_dev *dev, u64 bytes, int node, struct kv_host_mem *mem)
{
	u64 whole = kv_align_up(bytes, PAGE_BYTES);
	void *ptr;

	if (!bytes || whole < bytes)
		return -EINVAL;
	ptr = kv_sys()->map_pages(kv_sys()->ctx, whole, node);
	if (!ptr)
		return -ENOMEM;
	*mem = (struct kv_host_mem){ .ptr = ptr, .bytes = whole, .is_mapped = true };
	return 0;
}

static void host_host_free(struct kv_dev *dev, struct kv_host_mem *mem)
{
	if (!mem || !mem->ptr)
		return;
	kv_sys()->unmap_pages(kv_sys()->ctx, mem->ptr, mem->bytes);
	*mem = (struct kv_host_mem){ 0 };
}

/* ---- areas: there are none ---- */

static int host_area_create(struct kv_dev *dev, const struct kv_area_attr *attr,
			    struct kv_area **area)
{
	return -EOPNOTSUPP;
}

static int host_area_import(struct kv_dev *dev, int fd, u64 bytes, struct kv_area **area)
{
	return -EOPNOTSUPP;
}

/* ---- */

/* There is one path. */
static int host_tune(struct kv_dev *dev, enum kv_knob knob, u64 value)
{
	return knob < KV_NR_KNOBS && (knob != KV_KNOB_PATH || value < KV_NR_PATHS) ? 0 : -EINVAL;
}

static void host_stat(struct kv_dev *dev, struct kv_dev_stat *stat)
{
	*stat = (struct kv_dev_stat){ 0 };
}

/* A line of /proc/meminfo: "MemTotal:       65794392 kB". */
static u64 meminfo_bytes(const char *text, const char *key)
{
	const char *at = strstr(text, key);
	unsigned long long kib;

	return at && sscanf(at + strlen(key), " %llu", &kib) == 1 ? (u64)kib << 10 : 0;
}

static int host_info(struct kv_dev *dev, struct kvmm_device_info *info)
{
	char text[1024];		/* both are in the first lines */

	if (!kv_sys()->read_file(kv_sys()->ctx, "/proc/meminfo", text, sizeof(text))) {
		info->total_bytes = meminfo_bytes(text, "MemTotal:");
		info->free_bytes = meminfo_bytes(text, "MemAvailable:");
	}
	info->numa_node = -1;
	info->nr_devices = 1;
	return 0;
}

const struct kv_dev_ops kv_dev_host = {
	.name		= "host",
	.open		= host_open,
	.close		= host_close,
	.alloc		= host_alloc,
	.free		= host_free,
	.host_alloc	= host_host_alloc,
	.host_free	= host_host_free,
	.copy_blocks	= host_copy_blocks,
	.sum_blocks	= host_sum_blocks,
	.signal		= host_signal,
	.stall		= host_stall,
	.join		= host_join,
	.poll		= host_wait,
	.wait		= host_wait,
	.write		= host_write,
	.read		= host_read,
	.fill		= host_fill,
	.area_create	= host_area_create,
	.area_import	= host_area_import,
	.tune		= host_tune,
	.stat		= host_stat,
	.info		= host_info,
};
