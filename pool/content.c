// SPDX-License-Identifier: Apache-2.0
/*
 * The content of blocks, written, read and zeroed by the host.
 *
 * It is copied through the device's ops with compact_lock held, so that no compaction moves a block
 * under a copy.
 */
#include <kv/sys.h>

#include "content.h"

/* A piece of content: where on the device, and which part of the caller's buffer. */
struct piece {
	u64 addr;
	u64 offset;
	u64 bytes;
};

typedef int (*piece_fn)(struct kvmm_pool *pool, const struct piece *piece, void *buf);

/* Call @fn for the parts of [offset, offset + bytes) in each plane. */
static int for_each_piece(struct kvmm_pool *pool, u32 block, u64 offset, u64 bytes,
			  piece_fn fn, void *buf)
{
	u64 done = 0;
	int err = 0;

	for (u32 i = 0; i < pool->nr_planes && done < bytes && !err; i++) {
		const struct kvmm_plane *plane = &pool->plane[i];
		struct piece piece;

		if (offset >= plane->bytes) {
			offset -= plane->bytes;
			continue;
		}
		piece.addr = plane->base + block * plane->stride + offset;
		piece.offset = done;
		piece.bytes = min(bytes - done, plane->bytes - offset);
		err = fn(pool, &piece, buf);
		done += piece.bytes;
		offset = 0;
	}
	return err;
}

static int write_piece(struct kvmm_pool *pool, const struct piece *piece, void *buf)
{
	return pool->parts.dev->write(pool->dev, piece->addr, (u8 *)buf + piece->offset,
				      piece->bytes);
}

static int read_piece(struct kvmm_pool *pool, const struct piece *piece, void *buf)
{
	return pool->parts.dev->read(pool->dev, piece->addr, (u8 *)buf + piece->offset,
				     piece->bytes);
}

static int zero_piece(struct kvmm_pool *pool, const struct piece *piece, void *buf)
{
	return pool->parts.dev->fill(pool->dev, piece->addr, 0, piece->bytes);
}

int content_check(const struct kvmm_pool *pool, const struct content *content)
{
	u64 end;

	if (!pool || (!content->buf && content->bytes) || !pool->nr_planes)
		return -EINVAL;
	if (kv_add_overflows(content->offset, content->bytes, &end) || end > pool->block_bytes)
		return -EINVAL;
	return pool_refusal(pool);
}

int content_begin(struct kvmm_pool *pool)
{
	int cancel = kv_cancel_off();

	kv_lock(&pool->compact_lock);
	flights_look(pool);
	return cancel;
}

void content_end(struct kvmm_pool *pool, int cancel)
{
	kv_unlock(&pool->compact_lock);
	kv_cancel_restore(cancel);
}

int content_copy(struct kvmm_pool *pool, u32 block, const struct content *content)
{
	kv_assert_held(&pool->compact_lock);
	if (content->is_write && unlikely(pool->transit.ops != NULL))
		pool->transit.ops->void_block(pool, block);
	if (!for_each_piece(pool, block, content->offset, content->bytes,
			    content->is_write ? write_piece : read_piece, content->buf))
		return 0;
	device_failed(pool);
	return -EIO;
}

int block_access(struct kvmm_pool *pool, u32 block, const struct content *content)
{
	int err = content_check(pool, content), cancel;

	if (err || block >= pool->nr_blocks)
		return err ? err : -EINVAL;
	cancel = content_begin(pool);
	err = elastic_is_away(pool, block) ? -ENXIO : content_copy(pool, block, content);
	content_end(pool, cancel);
	return err;
}

int blocks_zero(struct kvmm_pool *pool, const struct kvmm_extent *ext, u32 nr_ext)
{
	int err = 0, cancel = kv_cancel_off();

	flights_await(pool);
	for (u32 i = 0; i < nr_ext && !err; i++)
		for (u32 b = 0; b < ext[i].nr && !err; b++)
			err = for_each_piece(pool, ext[i].start + b, 0, pool->block_bytes,
					     zero_piece, NULL);
	if (err)
		device_failed(pool);
	kv_cancel_restore(cancel);
	return err ? -EIO : 0;
}
