// SPDX-License-Identifier: Apache-2.0
/*
 * The content of blocks, written, read and zeroed by the host.
 *
 * It is copied through the device's ops with compact_lock held, so that no compaction moves a block
 * under a copy.
 */
#include <kv/sys.h>

#include "content.h"

/* Copy a part of the content, plane by plane; zero it if it is written and ->buf is NULL. */
static int access_planes(struct kvmm_pool *pool, u32 block, const struct content *content)
{
	const struct kv_dev_ops *ops = pool->parts.dev;
	u64 done = 0, offset = content->offset;
	int err = 0;

	kv_assert_not_held(&pool->lock);
	for (u32 i = 0; i < pool->nr_planes && done < content->bytes && !err; i++) {
		const struct kvmm_plane *plane = &pool->plane[i];
		u64 addr = plane->base + block * plane->stride + offset, bytes;

		if (offset >= plane->bytes) {
			offset -= plane->bytes;
			continue;
		}
		bytes = min(content->bytes - done, plane->bytes - offset);
		if (!content->buf)
			err = ops->fill(pool->dev, addr, 0, bytes);
		else if (content->is_write)
			err = ops->write(pool->dev, addr, (u8 *)content->buf + done, bytes);
		else
			err = ops->read(pool->dev, addr, (u8 *)content->buf + done, bytes);
		done += bytes;
		offset = 0;
	}
	return err;
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
	if (!access_planes(pool, block, content))
		return 0;
	device_failed(pool);
	return -EIO;
}

int blocks_zero(struct kvmm_pool *pool, const struct kvmm_extent *ext, u32 nr_ext)
{
	const struct content zero = { .bytes = pool->block_bytes, .is_write = true };
	int err = 0, cancel = kv_cancel_off();

	kv_assert_not_held(&pool->lock);
	flights_await(pool);
	for (u32 i = 0; i < nr_ext && !err; i++)
		for (u32 b = 0; b < ext[i].nr && !err; b++)
			err = access_planes(pool, ext[i].start + b, &zero);
	if (err)
		device_failed(pool);
	kv_cancel_restore(cancel);
	return err ? -EIO : 0;
}

/* ---- zeroed for its next tenant; see tenant.c ---- */

static int take_block(struct kvmm_pool *pool, u32 block, u32 tenant)
{
	struct kvmm_extent one = { block, 1 };
	int err;

	kv_assert(block < pool->nr_blocks);
	if (pool->zero == KVMM_ZERO_ALWAYS)
		return blocks_zero(pool, &one, 1);
	if (tenant != TENANT_UNKNOWN && pool->tenant[block] == tenant)
		return 0;
	err = blocks_zero(pool, &one, 1);
	pool->tenant[block] = err ? TENANT_UNKNOWN : tenant;
	return err;
}

int __tenant_take_run(struct kvmm_pool *pool, struct kvmm_extent run, u32 tenant)
{
	int err = 0;

	for (u32 i = 0; i < run.nr && !err; i++)
		err = take_block(pool, run.start + i, tenant);
	return err;
}

/*
 * They have their owner by now, which has not been told of them: a mover would not know better than
 * to move them between steps, and blocks zeroed behind a copy are not zero where they lie then.
 */
int __tenant_take_muts(struct kvmm_pool *pool, const kvmm_mut_t *muts, u32 nr, u32 tenant)
{
	int err = 0;

	kv_lock(&pool->compact_lock);
	for (u32 i = 0; i < nr && !err; i++)
		err = take_block(pool, entry_block(entry_at(pool, muts[i].index)), tenant);
	kv_unlock(&pool->compact_lock);
	return err;
}
