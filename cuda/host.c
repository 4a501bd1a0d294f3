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
#include <string.h>

#include <kv/bits.h>
#include <kv/cuda.h>
#include <kv/mem.h>

/* Device 0 is the only one; nobody looks inside. */
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
 * is no jemalloc, which would touch all of a large pool before anybody uses it. The byte in front
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

static bool move_is_good(const struct kv_planes *planes, const struct kv_move *move)
{
	for (u32 i = 0; i < planes->nr; i++)
		if (!run_is_memory(&planes->plane[i], move->src, move->nr) ||
		    !run_is_memory(&planes->plane[i], move->dst, move->nr))
			return false;
	return true;
}

/* Block by block, away from the end that is overwritten first if the move overlaps itself. */
static void move_pieces(const struct kvmm_plane *plane, const struct kv_move *move)
{
	bool up = move->dst > move->src;

	for (u32 i = 0; i < move->nr; i++) {
		u64 nth = up ? move->nr - 1 - i : i;

		memmove(at(plane->base + (move->dst + nth) * plane->stride),
			at(plane->base + (move->src + nth) * plane->stride), plane->bytes);
	}
}

/*
 * memmove() it is: 1000 blocks of 64 KiB move at 21 to 28 GB/s, by single blocks or in one piece,
 * and one memcpy() of as much at 21 to 23; streaming stores gained nothing on single blocks and
 * 20 % on long runs, for code of each architecture's own.
 */
static void move_in_plane(const struct kvmm_plane *plane, const struct kv_move *move)
{
	if (plane->stride != plane->bytes)
		move_pieces(plane, move);
	else
		memmove(at(plane->base + move->dst * plane->stride),
			at(plane->base + move->src * plane->stride),
			move->nr * plane->stride);
}

static int host_move_blocks(struct kv_dev *dev, const struct kv_planes *planes,
			    const struct kv_move *moves, u32 nr, struct kv_fence after,
			    struct kv_fence *fence)
{
	for (u32 i = 0; i < nr; i++)
		if (!move_is_good(planes, &moves[i]))
			return -EINVAL;

	for (u32 i = 0; i < nr; i++)
		for (u32 p = 0; p < planes->nr; p++)
			move_in_plane(&planes->plane[p], &moves[i]);
	fence->id = 0;
	return 0;
}

/* A fence that this device never gave out belongs to another one. */
static int host_wait(struct kv_dev *dev, struct kv_fence fence)
{
	return fence.id ? -EINVAL : 0;
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

const struct kv_dev_ops kv_dev_host = {
	.name		= "host",
	.open		= host_open,
	.close		= host_close,
	.alloc		= host_alloc,
	.free		= host_free,
	.move_blocks	= host_move_blocks,
	.wait		= host_wait,
	.write		= host_write,
	.read		= host_read,
	.fill		= host_fill,
};
