// SPDX-License-Identifier: Apache-2.0
/* See metrics_dev.h. Fences of its own have a number: those of "host" have none. */
#include <errno.h>
#include <string.h>

#include <kv/cuda.h>

#include "pool/internal.h"
#include "tests/ctl/metrics_dev.h"

struct metrics_dev metrics_dev;

static const struct kv_fence under_way = { 1 };

static void spoil(const struct kv_copy *copy)
{
	for (u32 i = 0; i < copy->nr; i++)
		for (u32 b = 0; b < copy->moves[i].nr; b++) {
			const struct kvmm_plane *plane = &copy->dst.plane[0];
			u64 addr = plane->base + (copy->moves[i].dst + b) * plane->stride;

			*(u8 *)(uintptr_t)addr ^= 1;
		}
}

static int dev_copy(struct kv_dev *dev, const struct kv_copy *copy, struct kv_fence *fence)
{
	struct kv_copy now = *copy;
	int err;

	metrics_dev.nr_copies++;
	if (metrics_dev.refuses) {
		metrics_dev.refused_moves += copy->nr;
		return -EIO;
	}
	now.after = (struct kv_fence){ 0 };
	err = kv_dev_host.copy_blocks(dev, &now, fence);
	if (err)
		return err;
	if (metrics_dev.spoils)
		spoil(copy);
	for (u32 i = 0; i < copy->nr && copy->flags & KV_COPY_BACKGROUND; i++) {
		metrics_dev.copied_blocks += copy->moves[i].nr;
		memset(metrics_dev.has_flown + copy->moves[i].src, true, copy->moves[i].nr);
	}
	*fence = under_way;
	return 0;
}

static int dev_sum(struct kv_dev *dev, const struct kv_planes *planes, u32 first, u32 nr,
		   struct kv_fence after, u64 *sums)
{
	return kv_dev_host.sum_blocks(dev, planes, first, nr, (struct kv_fence){ 0 }, sums);
}

static int dev_poll(struct kv_dev *dev, struct kv_fence fence)
{
	if (!fence.id)
		return 0;
	if (metrics_dev.is_slow)
		return -EAGAIN;
	return metrics_dev.fails ? -EIO : 0;
}

static int dev_wait(struct kv_dev *dev, struct kv_fence fence)
{
	return fence.id && metrics_dev.fails ? -EIO : 0;
}

static int dev_stall(struct kv_dev *dev, void *stream, struct kv_fence fence)
{
	return 0;
}

static int dev_join(struct kv_dev *dev, const struct kv_fence *fences, u32 nr, struct kv_fence *fence)
{
	*fence = (struct kv_fence){ 0 };
	for (u32 i = 0; i < nr; i++)
		if (fences[i].id)
			*fence = fences[i];
	return 0;
}

static int dev_sees_end(struct kv_dev *dev)
{
	return metrics_dev.is_blind ? -EAGAIN : 0;
}

void metrics_dev_of(struct kvmm_pool *pool)
{
	static struct kv_dev_ops ops;

	ops = kv_dev_host;
	ops.copy_blocks = dev_copy;
	ops.sum_blocks = dev_sum;
	ops.poll = dev_poll;
	ops.wait = dev_wait;
	ops.stall = dev_stall;
	ops.join = dev_join;
	ops.sees_end = dev_sees_end;
	pool->parts.dev = &ops;
}
