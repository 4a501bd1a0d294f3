// SPDX-License-Identifier: Apache-2.0
/*
 * Checksums of blocks: by the kernel, or where there is none by reading them back.
 *
 * For debugging and for samples in production: the caller waits. The results of one round share one
 * buffer on the device, so that callers come one after the other, under a lock of their own.
 */
#include <string.h>

#include "engine.h"

#define ROUND_BLOCKS	4096u
#define PART_BYTES	16384u		/* whole words */

/* ---- on the device ---- */

/* dev->lock held. Work queued in part ends with a fence that has failed. */
static int queue_sums(struct kv_dev *dev, const struct kv_planes *planes,
		      const struct kv_move *runs, u32 nr, kcu_deviceptr sums,
		      struct kv_fence after, struct kv_fence *fence)
{
	struct fence *slot = kv_fence_reserve(dev);
	kcu_stream stream = dev->gpu->compact;
	int err;

	kv_assert_held(&dev->lock);
	if (!slot)
		return -EIO;
	err = kv_fence_order(dev, stream, after);
	if (!err)
		err = kv_gpu_call(dev->gpu, memset_d8_async, sums, 0, KV_SUM_BYTES, stream);
	if (err)
		return err == -EBUSY || err == -EOPNOTSUPP ? -EIO : err;
	for (u32 i = 0; i < nr && !err; i++) {
		err = kv_kernel_sum(dev, planes, runs[i].dst, runs[i].nr, sums);
		sums += runs[i].nr * sizeof(u64);
	}
	*fence = kv_fence_commit(dev, slot, stream, err ? -EIO : 0);
	return 0;
}

/* ROUND_BLOCKS at most. */
static int do_round(struct kv_dev *dev, const struct kv_planes *planes, const struct kv_move *run,
		    struct kv_fence after, u64 *sums)
{
	kcu_deviceptr buffer = kv_sum_buffer(dev, 0);
	struct kv_gpu_scope scope;
	struct kv_fence fence;
	int err = kv_dev_begin(dev, &scope);

	if (err)
		return err;
	err = queue_sums(dev, planes, run, 1, buffer, after, &fence);
	kv_dev_end(dev, &scope);
	if (!err)
		err = kv_fence_wait(dev, fence);
	if (!err)
		err = kv_dev_read(dev, buffer, sums, run->nr * sizeof(u64));
	return err;
}

/* ---- on the host ---- */

static int read_block(struct kv_dev *dev, const struct kv_planes *planes, u32 block, u64 *sum)
{
	u8 part[PART_BYTES];
	u64 pos = 0;
	int err = 0;

	*sum = 0;
	for (u32 i = 0; i < planes->nr && !err; i++) {
		const struct kvmm_plane *plane = &planes->plane[i];

		for (u64 done = 0; done < plane->bytes && !err; done += PART_BYTES) {
			u64 nr = min(plane->bytes - done, (u64)PART_BYTES);

			err = kv_dev_read(dev, plane->base + block * plane->stride + done, part,
					  nr);
			if (!err)
				*sum += kv_sum_piece(part, nr, pos + done / sizeof(u64));
		}
		pos += kv_sum_words(plane->bytes);
	}
	return err;
}

/* ---- either ---- */

/* The buffers live behind the lists, which a device without room for them does not have. */
static bool can_use_kernel(struct kv_dev *dev, const struct kv_planes *planes)
{
	return dev->module && dev->lists_host && kv_kernel_serves(planes, planes);
}

static bool is_good(const struct kv_planes *planes, u32 first, u32 nr)
{
	const struct kv_move all = { first, first, nr };
	struct kv_copy copy = { .src = *planes, .dst = *planes, .moves = &all, .nr = 1 };

	return kv_copy_is_good(&copy);
}

static_assert(KV_SUM_BYTES == ROUND_BLOCKS * sizeof(u64) && KV_SUM_MOST == ROUND_BLOCKS,
	      "room for the sums of a round");

int kv_sum_blocks(struct kv_dev *dev, const struct kv_planes *planes, u32 first, u32 nr,
		  struct kv_fence after, u64 *sums)
{
	int err = 0;

	if (!is_good(planes, first, nr))
		return -EINVAL;
	kv_lock(&dev->sum_lock);
	for (u32 done = 0; done < nr && !err; done += ROUND_BLOCKS) {
		const struct kv_move run = { .dst = first + done,
					     .nr = min(nr - done, ROUND_BLOCKS) };

		err = -EOPNOTSUPP;
		if (can_use_kernel(dev, planes))
			err = do_round(dev, planes, &run, after, sums + done);
		if (!err || kv_gpu_ready(dev->gpu) || kv_dev_is_blind(dev))
			continue;
		err = kv_fence_wait(dev, after);
		for (u32 i = 0; i < run.nr && !err; i++)
			err = read_block(dev, planes, run.dst + i, &sums[done + i]);
	}
	kv_unlock(&dev->sum_lock);
	return err;
}

/* ---- without waiting ---- */

int kv_sum_start(struct kv_dev *dev, const struct kv_planes *planes, const struct kv_move *runs,
		 u32 nr, struct kv_fence after, struct kv_fence *fence)
{
	struct kv_gpu_scope scope;
	u64 nr_blocks = 0;
	int err;

	for (u32 i = 0; i < nr; i++) {
		if (!is_good(planes, runs[i].dst, runs[i].nr))
			return -EINVAL;
		nr_blocks += runs[i].nr;
	}
	if (nr_blocks > KV_SUM_MOST)
		return -EINVAL;
	if (!can_use_kernel(dev, planes))
		return -EOPNOTSUPP;
	err = kv_dev_begin(dev, &scope);
	if (err)
		return err;
	err = dev->is_summing ? -EBUSY :
	      queue_sums(dev, planes, runs, nr, kv_sum_buffer(dev, 1), after, fence);
	dev->is_summing |= !err;
	kv_dev_end(dev, &scope);
	return err;
}

int kv_sum_fetch(struct kv_dev *dev, u64 *sums, u32 nr)
{
	int err = 0;

	if (sums)
		err = kv_dev_read(dev, kv_sum_buffer(dev, 1), sums, nr * sizeof(u64));
	kv_lock(&dev->lock);
	dev->is_summing = false;
	kv_unlock(&dev->lock);
	return err ? -EIO : 0;
}
