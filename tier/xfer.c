// SPDX-License-Identifier: Apache-2.0
/*
 * Copies between a device and slots, in extents; or, where there is no content, time that goes by.
 *
 * A piece of a block lies at the same offset of each slot, so slots of one portion with first units
 * that differ by whole blocks are one set of planes, and go in one submission: mostly all of a
 * copy do. A copy that could be submitted only in part has failed, but is over only when the rest
 * is.
 */
#include <kv/env.h>

#include "internal.h"

/* Slots that one submission can serve: of a portion, and behind so many units of it. */
struct set {
	u32 chunk;
	u32 shift;
};

static struct set set_of(const struct kv_xfer *xfer, u32 i)
{
	const struct kvmm_tier *tier = xfer->client->tier;
	u32 index = xfer->slot[i].index;

	return (struct set){ index / tier->chunk_units,
			     index % tier->chunk_units % xfer->client->block_units };
}

/* Moves for [from, end), which are of one set: consecutive blocks in consecutive places are one. */
static u32 make_moves(struct kv_xfer *xfer, u32 from, u32 end)
{
	u32 nr = 0;

	kv_assert(from < end && end <= xfer->nr);
	for (u32 i = from; i < end; i++) {
		u32 unit = xfer->slot[i].index % xfer->client->tier->chunk_units;
		u32 block = xfer->block[i], place = unit / xfer->client->block_units;
		struct kv_move *last = nr ? &xfer->move[nr - 1] : NULL;
		u32 src = xfer->is_up ? place : block, dst = xfer->is_up ? block : place;

		if (last && last->src + last->nr == src && last->dst + last->nr == dst)
			last->nr++;
		else
			xfer->move[nr++] = (struct kv_move){ src, dst, 1 };
	}
	return nr;
}

static int submit_set(struct kv_xfer *xfer, u32 from, u32 end, struct kv_fence *fence)
{
	const struct kv_tier_client *client = xfer->client;
	struct set set = set_of(xfer, from);
	const struct chunk *chunk = &client->tier->chunk[set.chunk];
	struct kv_planes device = { client->plane, client->nr_planes };
	struct kv_planes host = { xfer->plane, client->nr_planes };
	bool is_mapped = chunk->mem.is_mapped && xfer->ops == client->tier->parts.dev;
	struct kv_copy copy = {
		.src = xfer->is_up ? host : device, .dst = xfer->is_up ? device : host,
		.moves = xfer->move, .dir = xfer->is_up ? KV_COPY_TO_DEVICE : KV_COPY_TO_HOST,
		.flags = is_mapped ? KV_COPY_MAPPED : 0, .after = xfer->after,
		.sums = xfer->sums ? xfer->sums + from : NULL,
	};
	int err;

	for (u32 i = 0; i < client->nr_planes; i++) {
		xfer->plane[i] = client->host[i];
		xfer->plane[i].base += (uintptr_t)chunk->mem.ptr +
				       set.shift * client->tier->unit_bytes;
	}
	copy.nr = make_moves(xfer, from, end);
	err = xfer->ops->copy_blocks(xfer->dev, &copy, fence);
	if (err != -EOPNOTSUPP || !copy.sums)
		return err;
	copy.sums = xfer->sums = NULL;
	return xfer->ops->copy_blocks(xfer->dev, &copy, fence);
}

/* One fence for all submitted so far and @fence; if that cannot be had, wait for both. */
static void join(struct kv_xfer *xfer, struct kv_fence fence)
{
	struct kv_fence both[2] = { xfer->fence, fence };

	kv_assert_not_held(&xfer->client->tier->lock);
	if (!xfer->fence.id) {
		xfer->fence = fence;
		return;
	}
	if (!fence.id || !xfer->ops->join(xfer->dev, both, 2, &xfer->fence))
		return;
	xfer->error = xfer->ops->wait(xfer->dev, both[0]) || xfer->ops->wait(xfer->dev, both[1]) ?
		      -EIO : xfer->error;
	xfer->fence = (struct kv_fence){ 0 };
}

static u32 end_of_set(const struct kv_xfer *xfer, u32 from)
{
	struct set first = set_of(xfer, from);
	u32 i;

	for (i = from + 1; i < xfer->nr; i++) {
		struct set set = set_of(xfer, i);

		if (set.chunk != first.chunk || set.shift != first.shift)
			break;
	}
	return i;
}

/* The device may still be at it, after any failure: neither end of the copy has an owner yet. */
static bool is_unseen(const struct kv_xfer *xfer)
{
	return xfer->ops->sees_end && xfer->ops->sees_end(xfer->dev) == -EAGAIN;
}

static int submit_all(struct kv_xfer *xfer)
{
	for (u32 from = 0, end; from < xfer->nr; from = end) {
		struct kv_fence fence = { 0 };
		int err;

		end = end_of_set(xfer, from);
		err = submit_set(xfer, from, end, &fence);
		if (err && !from && !is_unseen(xfer))
			return err == -ENOMEM || err == -EINVAL ? err : -EIO;
		if (err) {
			xfer->error = -EIO;
			break;
		}
		join(xfer, fence);
	}
	return 0;
}

int kv_xfer_submit(struct kv_xfer *xfer)
{
	struct kvmm_tier *tier = xfer->client->tier;
	struct link *link = &tier->link[xfer->is_up];

	kv_assert_not_held(&tier->lock);
	xfer->fence = (struct kv_fence){ 0 };
	xfer->error = 0;
	xfer->begin_ns = kv_tier_now(tier);
	xfer->end_ns = 0;
	xfer->bytes = xfer->nr * xfer->client->block_bytes;
	if (xfer->dev)
		return submit_all(xfer);
	/* Simulated. */
	kv_lock(&tier->lock);
	link->free_ns = max(link->free_ns, xfer->begin_ns) + link->how.latency_ns +
			link_bytes_ns(&link->how, xfer->bytes);
	xfer->end_ns = link->free_ns;
	kv_unlock(&tier->lock);
	return 0;
}

int kv_xfer_poll(struct kv_xfer *xfer)
{
	u64 now = kv_tier_now(xfer->client->tier);
	int err;

	if (!xfer->dev)
		return now < xfer->end_ns ? -EAGAIN : 0;
	err = xfer->fence.id ? xfer->ops->poll(xfer->dev, xfer->fence) : 0;
	if (err == -EAGAIN)
		return err;
	err = err || xfer->error ? -EIO : 0;
	if (err && is_unseen(xfer))
		return -EAGAIN;
	xfer->end_ns = now;
	return err;
}

int kv_xfer_wait(struct kv_xfer *xfer)
{
	int err = 0;

	kv_assert_not_held(&xfer->client->tier->lock);
	if (xfer->dev && xfer->fence.id)
		err = xfer->ops->wait(xfer->dev, xfer->fence);
	return err || xfer->error ? -EIO : 0;
}
