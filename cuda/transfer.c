// SPDX-License-Identifier: Apache-2.0
/*
 * Copies between the caller's memory and the device that are complete on return: writes, reads and
 * fills. Each takes a fence of its own and waits for it.
 */
#include <string.h>

#include "engine.h"

struct transfer {
	u64 addr;
	void *to;
	const void *from;
	u8 byte;
	u64 bytes;
};

static int submit_transfer(struct kv_dev *dev, const struct transfer *t, struct kv_fence *fence)
{
	kcu_stream stream = dev->gpu->transfer;
	struct kv_gpu_scope scope;
	struct fence *slot;
	int err = kv_dev_begin(dev, &scope);

	if (err)
		return err;
	slot = kv_fence_reserve(dev);
	if (!slot)
		err = -EIO;
	else if (t->to)
		err = kv_gpu_call(dev->gpu, memcpy_dtoh_async, t->to, t->addr, t->bytes, stream);
	else if (t->from)
		err = kv_gpu_call(dev->gpu, memcpy_htod_async, t->addr, t->from, t->bytes, stream);
	else
		err = kv_gpu_call(dev->gpu, memset_d8_async, t->addr, t->byte, t->bytes, stream);
	if (!err)
		*fence = kv_fence_commit(dev, slot, dev->gpu->transfer, 0);
	else if (slot)		/* perhaps other work has failed, and this one is queued */
		kv_stream_settle(dev, dev->gpu->transfer);
	kv_dev_end(dev, &scope);
	return err;
}

/* A refusal by the driver is our caller's mistake as little as the device's failure is. */
static int transfer(struct kv_dev *dev, const struct transfer *t)
{
	struct kv_fence fence;
	u64 end;
	int err;

	if (!t->bytes)
		return 0;
	if (!t->addr || kv_add_overflows(t->addr, t->bytes, &end))
		return -EINVAL;
	err = submit_transfer(dev, t, &fence);
	if (!err)
		err = kv_fence_wait(dev, fence);
	return err && err != -ECHILD ? -EIO : err;
}

int kv_dev_write(struct kv_dev *dev, u64 addr, const void *buf, u64 bytes)
{
	const struct transfer t = { .addr = addr, .from = buf, .bytes = bytes };

	return buf || !bytes ? transfer(dev, &t) : -EINVAL;
}

/* Through our own room: a copy without a seen end may write later, when @buf is something else. */
int kv_dev_read(struct kv_dev *dev, u64 addr, void *buf, u64 bytes)
{
	u64 end;
	int err = 0;

	if (bytes && (!buf || !addr || kv_add_overflows(addr, bytes, &end)))
		return -EINVAL;
	for (u64 at = 0; at < bytes && !err; at += KV_READ_BYTES) {
		const struct transfer t = { .addr = addr + at, .to = dev->read_room,
					    .bytes = min(bytes - at, (u64)KV_READ_BYTES) };

		kv_lock(&dev->read_lock);
		err = transfer(dev, &t);
		if (!err)
			memcpy((u8 *)buf + at, dev->read_room, t.bytes);
		kv_unlock(&dev->read_lock);
	}
	return err;
}

int kv_dev_fill(struct kv_dev *dev, u64 addr, u8 byte, u64 bytes)
{
	const struct transfer t = { .addr = addr, .byte = byte, .bytes = bytes };

	return transfer(dev, &t);
}
