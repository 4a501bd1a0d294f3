// SPDX-License-Identifier: Apache-2.0
/*
 * Batches: what is copied together, from being filled to its end.
 *
 * Whoever fills or ends a batch has it alone, and holds no lock: the device is spoken to, checksums
 * are made, and the pool takes blocks back. The copy begins behind all that the engine's streams
 * were given before: their last writes are in what goes down, and what goes up overwrites nothing
 * that they still use.
 */
#include "tier.h"

/* ---- order ---- */

static bool has_known_streams(struct kvmm_pool *pool)
{
	const struct steps *steps = steps_of(pool);

	return steps && READ_ONCE(steps->nr_streams);
}

bool lower_is_ordered(struct kvmm_pool *pool, const struct lower *lower)
{
	return !lower->has_streams || lower->flags & KVMM_TIER_COMPLETE || has_known_streams(pool);
}

int lower_fence(struct kvmm_pool *pool, struct lower *lower, struct kv_fence *fence)
{
	struct steps *steps = steps_of(pool);
	int err = 0;

	*fence = (struct kv_fence){ 0 };
	if (!lower->has_streams)
		return 0;
	if (!lower_is_ordered(pool, lower))
		return -EINVAL;
	if (!steps)
		return 0;
	kv_lock(&steps->lock);
	err = steps_signal(pool, steps, fence);
	kv_unlock(&steps->lock);
	return err;
}

/* ---- getting one ---- */

struct batch *batch_get(struct lower *lower, bool is_up)
{
	struct batch *found = NULL;
	u32 nr = is_up ? NR_BATCHES : NR_BATCHES - NR_BATCHES_UP;

	kv_assert_held(&lower->lock);
	for (u32 i = 0; i < nr && !found; i++)
		if (lower->batch[i].state == BATCH_FREE)
			found = &lower->batch[i];
	if (!found)
		return NULL;
	found->state = BATCH_FILLING;
	found->is_up = is_up;
	found->nr = found->nr_copy = 0;
	return found;
}

void batch_put(struct lower *lower, struct batch *batch)
{
	kv_assert_held(&lower->lock);
	batch->state = BATCH_FREE;
}

/* ---- the copy ---- */

int batch_submit(struct kvmm_pool *pool, struct lower *lower, struct batch *batch)
{
	int err;

	batch->xfer = (struct kv_xfer){
		.client = lower->client, .ops = pool->parts.dev, .dev = pool->dev,
		.block = batch->block, .slot = batch->slot, .nr = batch->nr_copy,
		.is_up = batch->is_up, .move = batch->move, .plane = batch->plane,
	};
	err = lower_fence(pool, lower, &batch->xfer.after);
	if (!err)
		err = kv_xfer_submit(&batch->xfer);
	if (err) {
		device_failed(pool);
		return err;
	}
	kv_lock(&lower->lock);
	batch->state = BATCH_COPYING;
	kv_unlock(&lower->lock);
	return 0;
}

static void count_copy(struct lower *lower, const struct batch *batch)
{
	u64 ns = batch->xfer.end_ns - min(batch->xfer.begin_ns, batch->xfer.end_ns);

	kv_lock(&lower->lock);
	if (batch->is_up)
		lower->stat.load_ns += ns;
	else
		lower->stat.offload_ns += ns;
	kv_unlock(&lower->lock);
}

static void end(struct kvmm_pool *pool, struct lower *lower, struct batch *batch, int error)
{
	count_copy(lower, batch);
	if (error)
		device_failed(pool);
	if (batch->is_up)
		up_end(pool, lower, batch, error);
	else
		down_end(pool, lower, batch, error);
	kv_lock(&lower->lock);
	batch_put(lower, batch);
	kv_unlock(&lower->lock);
}

/* One that is complete, which is the caller's from here on; *@error: how it went. */
static struct batch *take_complete(struct lower *lower, int *error)
{
	struct batch *found = NULL;

	kv_lock(&lower->lock);
	for (u32 i = 0; i < NR_BATCHES && !found; i++) {
		struct batch *batch = &lower->batch[i];

		if (batch->state != BATCH_COPYING)
			continue;
		*error = kv_xfer_poll(&batch->xfer);
		if (*error == -EAGAIN)
			continue;
		batch->state = BATCH_ENDING;
		found = batch;
	}
	kv_unlock(&lower->lock);
	return found;
}

void batches_poll(struct kvmm_pool *pool, struct lower *lower)
{
	struct batch *batch;
	int error;

	for (batch = take_complete(lower, &error); batch; batch = take_complete(lower, &error))
		end(pool, lower, batch, error);
}

/* ---- checksums ---- */

bool lower_sums(const struct lower *lower, const kvmm_key_t *key, u32 verify_every)
{
	return verify_every && (verify_every == 1 ||
				!(kv_hash_key(key, lower->secret) % verify_every));
}

int batch_sums(struct kvmm_pool *pool, struct batch *batch, u32 from, u32 end)
{
	struct kv_planes planes = { pool->plane, pool->nr_planes };
	struct kv_fence none = { 0 };
	int err = 0;

	for (u32 next; from < end && !err; from = next) {
		for (next = from + 1; next < end; next++)
			if (batch->block[next] != batch->block[next - 1] + 1)
				break;
		err = pool->parts.dev->sum_blocks(pool->dev, &planes, batch->block[from],
						  next - from, none, &batch->sum[from]);
	}
	return err ? -EIO : 0;
}
