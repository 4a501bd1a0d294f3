// SPDX-License-Identifier: Apache-2.0
/*
 * Copies, one or a batch of them, and fills.
 *
 * A copy reads its source and writes its destination when it runs, in two to eight pieces in no
 * particular order, with work of other streams in between. A source that the driver was not told of
 * is read at the call, as real ones stage it; a destination of that kind is waited for.
 */
#include "../cuda/kernel/kernel.h"
#include "copy.h"

#define MAX_PIECES	8
#define MANY_PARTS	512		/* from here on only two pieces each */

struct piece {
	u32 part;
	u64 from, bytes;
};

struct copy {
	struct sw_op op;
	struct sw_part *part;
	u32 nr_parts;
	struct piece *piece;
	u32 nr_pieces, next;
};

/* ---- Running ---- */

static void touch_side(struct sw_access_list *list, struct sw_dev *dev, u64 addr, u64 bytes,
		       bool write)
{
	sw_touch_as(list, dev ?: list->op->stream->dev, addr, bytes, write);
}

static void copy_touch(struct sw_op *op, struct sw_access_list *list)
{
	struct copy *copy = container_of(op, struct copy, op);

	for (u32 i = 0; i < copy->nr_parts; i++) {
		struct sw_part *part = &copy->part[i];

		if (!part->staged)
			touch_side(list, part->src_dev, part->src, part->bytes, false);
		if (!part->plain_dst)
			touch_side(list, part->dst_dev, part->dst, part->bytes, true);
	}
}

/* It may have been unmapped since the operation began. */
static bool still_there(struct sw_op *op, struct sw_dev *dev, u64 addr, u64 bytes, bool write)
{
	if (sw_may_touch(dev ?: op->stream->dev, addr, bytes, write))
		return true;
	op->fault = KCU_E_ILLEGAL_ADDRESS;
	return false;
}

static void move_bytes(u64 dst, const void *src, u64 bytes)
{
	if (sw.opt.threads)
		sw_unlock();
	kv_copy_piece((void *)dst, src, bytes);
	if (sw.opt.threads)
		sw_lock();
}

static bool copy_step(struct sw_op *op)
{
	struct copy *copy = container_of(op, struct copy, op);
	struct piece *piece = &copy->piece[copy->next++];
	struct sw_part *part = &copy->part[piece->part];
	u64 dst = part->dst + piece->from, src = part->src + piece->from;

	if (!part->staged && !still_there(op, part->src_dev, src, piece->bytes, false))
		return true;
	if (!part->plain_dst && !still_there(op, part->dst_dev, dst, piece->bytes, true))
		return true;
	move_bytes(dst, part->staged ? part->staged + piece->from : (void *)src, piece->bytes);
	sw.count.bytes_copied += piece->bytes;
	return copy->next == copy->nr_pieces;
}

static void copy_drop(struct sw_op *op)
{
	struct copy *copy = container_of(op, struct copy, op);

	for (u32 i = 0; i < copy->nr_parts; i++)
		free(copy->part[i].staged);
	free(copy->part);
	free(copy->piece);
}

static const struct sw_op_ops copy_ops = {
	.name	= "copy",
	.touch	= copy_touch,
	.step	= copy_step,
	.drop	= copy_drop,
};

static const struct sw_op_ops batch_ops = {
	.name	= "batched copy",
	.touch	= copy_touch,
	.step	= copy_step,
	.drop	= copy_drop,
};

/* ---- Making them ---- */

static void shuffle(struct piece *piece, u32 nr)
{
	for (u32 i = nr; i > 1; i--) {
		u32 j = sw_below(i);
		struct piece tmp = piece[i - 1];

		piece[i - 1] = piece[j];
		piece[j] = tmp;
	}
}

static void cut_part(struct copy *copy, u32 nr, u32 nr_pieces)
{
	u64 bytes = copy->part[nr].bytes;

	for (u32 i = 0; i < nr_pieces; i++) {
		u64 from = bytes * i / nr_pieces, to = bytes * (i + 1) / nr_pieces;

		if (to > from)
			copy->piece[copy->nr_pieces++] = (struct piece){ nr, from, to - from };
	}
}

static int cut(struct copy *copy)
{
	u32 most = copy->nr_parts < MANY_PARTS ? MAX_PIECES : 2;

	copy->piece = calloc((size_t)copy->nr_parts * most, sizeof(*copy->piece));
	if (!copy->piece)
		return -ENOMEM;
	for (u32 i = 0; i < copy->nr_parts; i++)
		cut_part(copy, i, 2 + sw_below(most - 1));
	shuffle(copy->piece, copy->nr_pieces);
	return 0;
}

static int stage(struct sw_part *part)
{
	part->staged = malloc(part->bytes);
	if (!part->staged)
		return -ENOMEM;
	memcpy(part->staged, (void *)part->src, part->bytes);
	sw.count.nr_staged++;
	return 0;
}

/* Which engine a copy takes, and for how long. */
static void set_cost(struct copy *copy)
{
	u64 bytes = 0;
	bool from = sw_is_device(copy->part[0].src), to = sw_is_device(copy->part[0].dst);

	for (u32 i = 0; i < copy->nr_parts; i++)
		bytes += copy->part[i].bytes;
	copy->op.engine = from == to ? 0 : to ? 1 : 2;
	copy->op.cost_ns = sw.opt.latency_us * 1000ull +
			   sw_copy_ns(bytes, from && to ? sw.opt.gbps_local : sw.opt.gbps);
}

static struct copy *new_copy(const struct sw_op_ops *ops, const struct sw_part *parts, u32 nr)
{
	struct copy *copy = sw_op_new(ops, sizeof(*copy));

	if (!copy)
		return NULL;
	copy->part = malloc(nr * sizeof(*copy->part));
	if (!copy->part)
		goto out_free;
	memcpy(copy->part, parts, nr * sizeof(*parts));
	copy->nr_parts = nr;
	for (u32 i = 0; i < nr; i++)
		if (copy->part[i].read_early && stage(&copy->part[i]))
			goto out_free;
	if (cut(copy))
		goto out_free;
	set_cost(copy);
	return copy;

out_free:
	sw_op_free(&copy->op);
	return NULL;
}

/* Device memory and pinned host memory must be whole; all else is the caller's own affair. */
static kcu_result check_side(u64 addr, u64 bytes, bool *plain)
{
	struct sw_region *region = sw_region_at(addr);

	*plain = false;
	if (!addr)
		return KCU_E_INVALID_VALUE;
	if (region)
		return bytes <= region->span.addr + region->span.bytes - addr ?
		       KCU_E_SUCCESS : KCU_E_INVALID_VALUE;
	if (addr >= sw.va_base && addr - sw.va_base < sw.opt.va_bytes)
		return KCU_E_INVALID_VALUE;
	*plain = true;
	return KCU_E_SUCCESS;
}

kcu_result sw_part_check(struct sw_part *part)
{
	bool plain_src;
	kcu_result rc = check_side(part->src, part->bytes, &plain_src);

	if (!rc)
		rc = check_side(part->dst, part->bytes, &part->plain_dst);
	part->read_early |= plain_src;
	return rc;
}

kcu_result sw_copy_queue(struct sw_stream *stream, const struct sw_part *parts, u32 nr,
			 enum sw_call call, bool batch)
{
	struct copy *copy = new_copy(batch ? &batch_ops : &copy_ops, parts, nr);
	kcu_stream handle = (kcu_stream)stream->handle;
	bool wait = false;
	kcu_result rc;

	if (!copy)
		return KCU_E_OUT_OF_MEMORY;
	for (u32 i = 0; i < nr; i++)
		wait |= parts[i].plain_dst;
	rc = sw_queue(stream, &copy->op, call);
	return rc || !wait || stream->capture ? rc : sw_stream_finish(handle);
}

/* ---- The calls ---- */

enum { ANY = 0, DST_DEV = 1, DST_HOST = 2, SRC_DEV = 4, SRC_HOST = 8 };

static bool sides_are(const struct sw_part *part, u32 sides)
{
	bool dst = sw_is_device(part->dst), src = sw_is_device(part->src);

	return !(sides & DST_DEV && !dst) && !(sides & DST_HOST && dst) &&
	       !(sides & SRC_DEV && !src) && !(sides & SRC_HOST && src);
}

/* Copies without an own word on devices may go between any two, as the driver sees to it. */
static struct sw_dev *owner(u64 addr)
{
	struct sw_region *region = sw_region_at(addr);

	return region && region->kind == SW_ALLOC ? region->dev : NULL;
}

static kcu_result copy_one(u64 dst, u64 src, size_t bytes, kcu_stream handle, u32 sides,
			   enum sw_call call)
{
	struct sw_part part = { .dst = dst, .src = src, .bytes = bytes };
	struct sw_stream *stream;
	kcu_result rc = sw_stream_here(handle, &stream);

	if (rc || !bytes)
		return rc;
	rc = sw_part_check(&part);
	if (rc)
		return rc;
	if (!sides_are(&part, sides))
		return KCU_E_INVALID_VALUE;
	part.src_dev = owner(src);
	part.dst_dev = owner(dst);
	return sw_copy_queue(stream, &part, 1, call, false);
}

kcu_result cuMemcpyAsync(kcu_deviceptr dst, kcu_deviceptr src, size_t bytes, kcu_stream stream)
{
	return SW_RUN(cuMemcpyAsync, SW_INIT | SW_CTX,
		      copy_one(dst, src, bytes, stream, ANY, SW_cuMemcpyAsync));
}

kcu_result cuMemcpyDtoDAsync_v2(kcu_deviceptr dst, kcu_deviceptr src, size_t bytes,
				kcu_stream stream)
{
	return SW_RUN(cuMemcpyDtoDAsync_v2, SW_INIT | SW_CTX,
		      copy_one(dst, src, bytes, stream, DST_DEV | SRC_DEV,
			       SW_cuMemcpyDtoDAsync_v2));
}

kcu_result cuMemcpyHtoDAsync_v2(kcu_deviceptr dst, const void *src, size_t bytes,
				kcu_stream stream)
{
	return SW_RUN(cuMemcpyHtoDAsync_v2, SW_INIT | SW_CTX,
		      copy_one(dst, (u64)src, bytes, stream, DST_DEV | SRC_HOST,
			       SW_cuMemcpyHtoDAsync_v2));
}

kcu_result cuMemcpyDtoHAsync_v2(void *dst, kcu_deviceptr src, size_t bytes, kcu_stream stream)
{
	return SW_RUN(cuMemcpyDtoHAsync_v2, SW_INIT | SW_CTX,
		      copy_one((u64)dst, src, bytes, stream, DST_HOST | SRC_DEV,
			       SW_cuMemcpyDtoHAsync_v2));
}

/*
 * Calls without a stream: on the NULL stream, with as little waiting as a driver promises. A copy on the
 * device is not waited for; of pageable memory that goes there, what was queued before is.
 */
static kcu_result copy_sync(u64 dst, u64 src, size_t bytes, u32 sides, enum sw_call call)
{
	struct sw_stream *legacy = sw_stream_legacy();
	kcu_stream handle = legacy ? (kcu_stream)legacy->handle : NULL;
	bool to_device = sw_is_device(dst), pageable = !sw_region_at(src);
	kcu_result rc = KCU_E_SUCCESS;

	if (!legacy)
		return KCU_E_OUT_OF_MEMORY;
	if (to_device && pageable)
		rc = sw_stream_finish(handle);
	if (!rc)
		rc = copy_one(dst, src, bytes, handle, sides, call);
	if (rc || (to_device && (pageable || sw_is_device(src))))
		return rc;
	return sw_stream_finish(handle);
}

kcu_result cuMemcpy(kcu_deviceptr dst, kcu_deviceptr src, size_t bytes)
{
	return SW_RUN(cuMemcpy, SW_INIT | SW_CTX | SW_UNSAFE,
		      copy_sync(dst, src, bytes, ANY, SW_cuMemcpy));
}

kcu_result cuMemcpyHtoD_v2(kcu_deviceptr dst, const void *src, size_t bytes)
{
	return SW_RUN(cuMemcpyHtoD_v2, SW_INIT | SW_CTX | SW_UNSAFE,
		      copy_sync(dst, (u64)src, bytes, DST_DEV | SRC_HOST, SW_cuMemcpyHtoD_v2));
}

kcu_result cuMemcpyDtoH_v2(void *dst, kcu_deviceptr src, size_t bytes)
{
	return SW_RUN(cuMemcpyDtoH_v2, SW_INIT | SW_CTX | SW_UNSAFE,
		      copy_sync((u64)dst, src, bytes, DST_HOST | SRC_DEV, SW_cuMemcpyDtoH_v2));
}

kcu_result cuMemcpyDtoD_v2(kcu_deviceptr dst, kcu_deviceptr src, size_t bytes)
{
	return SW_RUN(cuMemcpyDtoD_v2, SW_INIT | SW_CTX | SW_UNSAFE,
		      copy_sync(dst, src, bytes, DST_DEV | SRC_DEV, SW_cuMemcpyDtoD_v2));
}

/* ---- Fills ---- */

struct fill {
	struct sw_op op;
	u64 dst, bytes, done, piece;
	u32 value, width;		/* of it that many bytes, again and again */
};

static void fill_touch(struct sw_op *op, struct sw_access_list *list)
{
	struct fill *fill = container_of(op, struct fill, op);

	sw_touch(list, fill->dst, fill->bytes, true);
}

static void fill_bytes(const struct fill *fill, u8 *at, u64 bytes)
{
	if (fill->width == 1)
		memset(at, fill->value, bytes);
	for (u64 i = 0; i < bytes && fill->width > 1; i++)
		at[i] = fill->value >> ((fill->done + i) % fill->width * 8);
}

static bool fill_step(struct sw_op *op)
{
	struct fill *fill = container_of(op, struct fill, op);
	u64 at = fill->dst + fill->done, bytes = min(fill->piece, fill->bytes - fill->done);

	if (!still_there(op, NULL, at, bytes, true))
		return true;
	if (sw.opt.threads)
		sw_unlock();
	fill_bytes(fill, (u8 *)at, bytes);
	if (sw.opt.threads)
		sw_lock();
	fill->done += bytes;
	return fill->done == fill->bytes;
}

static const struct sw_op_ops fill_ops = {
	.name	= "fill",
	.touch	= fill_touch,
	.step	= fill_step,
};

static kcu_result set(u64 dst, u32 value, u32 width, size_t nr, kcu_stream handle, enum sw_call call)
{
	struct sw_stream *stream;
	kcu_result rc = sw_stream_here(handle, &stream);
	u64 bytes = nr * width;
	struct fill *fill;
	bool plain;

	if (rc || !nr)
		return rc;
	if (dst % width || nr > UINT64_MAX / width)
		return KCU_E_INVALID_VALUE;
	rc = check_side(dst, bytes, &plain);
	if (rc || plain)
		return KCU_E_INVALID_VALUE;
	fill = sw_op_new(&fill_ops, sizeof(*fill));
	if (!fill)
		return KCU_E_OUT_OF_MEMORY;
	fill->dst = dst;
	fill->value = value;
	fill->width = width;
	fill->bytes = bytes;
	fill->piece = bytes / (2 + sw_below(MAX_PIECES - 1)) + 1;
	fill->op.cost_ns = sw.opt.latency_us * 1000ull + sw_copy_ns(bytes, sw.opt.gbps_local);
	fill->op.engine = 0;
	return sw_queue(stream, &fill->op, call);
}

kcu_result cuMemsetD8Async(kcu_deviceptr dst, unsigned char byte, size_t bytes, kcu_stream stream)
{
	return SW_RUN(cuMemsetD8Async, SW_INIT | SW_CTX,
		      set(dst, byte, 1, bytes, stream, SW_cuMemsetD8Async));
}

kcu_result cuMemsetD16Async(kcu_deviceptr dst, unsigned short value, size_t nr, kcu_stream stream)
{
	return SW_RUN(cuMemsetD16Async, SW_INIT | SW_CTX,
		      set(dst, value, 2, nr, stream, SW_cuMemsetD16Async));
}

kcu_result cuMemsetD32Async(kcu_deviceptr dst, unsigned int value, size_t nr, kcu_stream stream)
{
	return SW_RUN(cuMemsetD32Async, SW_INIT | SW_CTX,
		      set(dst, value, 4, nr, stream, SW_cuMemsetD32Async));
}

/* Device memory is not waited for. */
static kcu_result set_sync(u64 dst, u32 value, u32 width, size_t nr, enum sw_call call)
{
	struct sw_stream *legacy = sw_stream_legacy();
	kcu_result rc = KCU_E_OUT_OF_MEMORY;

	if (legacy)
		rc = set(dst, value, width, nr, (kcu_stream)legacy->handle, call);
	return rc || sw_is_device(dst) ? rc : sw_stream_finish((kcu_stream)legacy->handle);
}

kcu_result cuMemsetD8_v2(kcu_deviceptr dst, unsigned char value, size_t nr)
{
	return SW_RUN(cuMemsetD8_v2, SW_INIT | SW_CTX | SW_UNSAFE,
		      set_sync(dst, value, 1, nr, SW_cuMemsetD8_v2));
}

kcu_result cuMemsetD16_v2(kcu_deviceptr dst, unsigned short value, size_t nr)
{
	return SW_RUN(cuMemsetD16_v2, SW_INIT | SW_CTX | SW_UNSAFE,
		      set_sync(dst, value, 2, nr, SW_cuMemsetD16_v2));
}

kcu_result cuMemsetD32_v2(kcu_deviceptr dst, unsigned int value, size_t nr)
{
	return SW_RUN(cuMemsetD32_v2, SW_INIT | SW_CTX | SW_UNSAFE,
		      set_sync(dst, value, 4, nr, SW_cuMemsetD32_v2));
}
