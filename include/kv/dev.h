/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam to devices: memory that the host may not touch, and copies that finish later.
 *
 * Declared here, below everybody, implemented in cuda/, chosen in init/. Three rules hold for
 * every implementation: a completion has a status, and a failed one leaves its destination
 * unreadable; no copy starts before the fence it was told to wait for; nothing here creates or
 * resets a device context.
 */
#ifndef KV_DEV_H
#define KV_DEV_H

#include <kv/types.h>
#include <kvmm/pool.h>

struct kv_dev;

/* Blocks [src, src + nr) to [dst, dst + nr). */
struct kv_move {
	u32 src;
	u32 dst;
	u32 nr;
};

/* The planes of one pool; borrowed. */
struct kv_planes {
	const struct kvmm_plane *plane;
	u32 nr;
};

/* Completion of what was submitted. 0 = nothing to wait for. */
struct kv_fence {
	u64 id;
};

/**
 * struct kv_dev_ops - what kvmm needs of a device
 * @name: "host", "soft", "cuda"
 * @open: the device of that number: 0, -ENODEV, -ENOMEM
 * @close: takes NULL; waits for what was submitted
 * @alloc: @bytes of device memory at *@addr, content undefined: 0, -ENOMEM
 * @free: give it back; nothing submitted may still use it
 * @move_blocks: submit the moves one after the other, after @after, over all planes. The moves of
 *	one call have disjoint sources and destinations. 0 and *@fence, or an error and nothing done
 * @wait: until @fence is complete: its status, 0 or -EIO
 * @write: host memory to device memory, complete on return: 0, -EIO
 * @read: device memory to host memory, complete on return: 0, -EIO
 * @fill: @bytes of device memory := @byte, complete on return: 0, -EIO
 */
struct kv_dev_ops {
	const char *name;
	int (*open)(unsigned int number, struct kv_dev **dev);
	void (*close)(struct kv_dev *dev);
	int (*alloc)(struct kv_dev *dev, u64 bytes, u64 *addr);
	void (*free)(struct kv_dev *dev, u64 addr, u64 bytes);
	int (*move_blocks)(struct kv_dev *dev, const struct kv_planes *planes,
			   const struct kv_move *moves, u32 nr, struct kv_fence after,
			   struct kv_fence *fence);
	int (*wait)(struct kv_dev *dev, struct kv_fence fence);
	int (*write)(struct kv_dev *dev, u64 addr, const void *buf, u64 bytes);
	int (*read)(struct kv_dev *dev, u64 addr, void *buf, u64 bytes);
	int (*fill)(struct kv_dev *dev, u64 addr, u8 byte, u64 bytes);
};

#endif /* KV_DEV_H */
