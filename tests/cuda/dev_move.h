/* SPDX-License-Identifier: Apache-2.0 */
/* Moves inside one set of planes, as a pool asks a device for them. */
#ifndef TEST_CUDA_DEV_MOVE_H
#define TEST_CUDA_DEV_MOVE_H

#include <kv/dev.h>

static inline int dev_move(const struct kv_dev_ops *ops, struct kv_dev *dev,
			   const struct kv_planes *planes, const struct kv_move *moves, u32 nr,
			   struct kv_fence after, struct kv_fence *fence)
{
	const struct kv_copy copy = {
		.src = *planes, .dst = *planes, .moves = moves, .nr = nr, .after = after,
	};

	return ops->copy_blocks(dev, &copy, fence);
}

#endif /* TEST_CUDA_DEV_MOVE_H */
