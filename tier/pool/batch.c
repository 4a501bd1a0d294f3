// SPDX-License-Identifier: Apache-2.0
/*
 * Batches: blocks copied together, from filling to the end.
 *
 * The thread that fills or ends a batch has it alone, and holds no lock: the device is spoken to,
 * checksums are made, and the pool takes blocks back. The copy begins behind all that the engine's
 * streams were given before: their last writes are in the blocks that go down, and those that go up
 * overwrite nothing that they still use.
 */
#include <move/step.h>

#include "tier.h"

/* ---- order ---- */

bool lower_is_ordered(struct kvmm_pool *pool, const struct lower *lower)
{
	const struct steps *steps = steps_of(pool);

	return !lower->has_streams || lower->flags & KVMM_TIER_COMPLETE ||
	       (steps && READ_ONCE(steps->nr_streams));
}

/* All work that the engine's streams were given so far; -EINVAL it is not known. */
static int lower_fence(struct kvmm_pool *pool, struct lower *lower, struct kv_fence *fence)
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
	found->is_summed = false;
	found->nr = found->nr_copy = 0;
	return found;
}

void batch_put(struct lower *lower, struct batch *batch)
{
	kv_assert(batch->state != BATCH_FREE && batch->state != BATCH_COPYING);
	kv_lock(&lower->lock);
	batch->state = BATCH_FREE;
	kv_unlock(&lower->lock);
}

/* ---- the copy ---- */

/* A copy that sums all of its blocks costs more than a few sums, and less than many. */
#define SUMMED_BY_COPY	4u

int batch_submit(struct kvmm_pool *pool, struct lower *lower, struct batch *batch)
{
	u32 nr_sums = 0;
	int err;

	kv_assert(batch->state == BATCH_FILLING && batch->nr_copy);
	for (u32 i = 0; i < batch->nr_copy; i++)
		nr_sums += lower->item[batch->item[i]].has_sum;
	batch->xfer = (struct kv_xfer){
		.client = lower->client, .ops = pool->parts.dev, .dev = pool->dev,
		.block = batch->block, .slot = batch->slot, .nr = batch->nr_copy,
		.is_up = batch->is_up, .move = batch->move, .plane = batch->plane,
		.sums = nr_sums && nr_sums >= batch->nr_copy / SUMMED_BY_COPY ? batch->sum : NULL,
	};
	completion_begin(&pool->completions, &batch->completion);
	err = lower_fence(pool, lower, &batch->xfer.after);
	if (!err)
		err = kv_xfer_submit(&batch->xfer);
	if (err)
		device_failed(pool);
	if (err && !pool->completions.are_told)
		return err;
	/* Ranks are told of a copy that could not begin, as of one that failed later. */
	if (err) {
		batch->xfer.fence = (struct kv_fence){ 0 };
		batch->xfer.error = -EIO;
	}
	kv_lock(&lower->lock);
	batch->state = BATCH_COPYING;
	kv_unlock(&lower->lock);
	return 0;
}

static void end(struct kvmm_pool *pool, struct lower *lower, struct batch *batch, int error)
{
	u64 ns = batch->xfer.end_ns - min(batch->xfer.begin_ns, batch->xfer.end_ns);

	kv_assert(batch->state == BATCH_ENDING);
	kv_lock(&lower->lock);
	*(batch->is_up ? &lower->stat.load_ns : &lower->stat.offload_ns) += ns;
	kv_latency_add(batch->is_up ? &lower->stat.load_took : &lower->stat.offload_took, ns);
	kv_unlock(&lower->lock);
	if (error)
		device_failed(pool);
	if (batch->is_up)
		up_end(pool, lower, batch, error);
	else
		down_end(pool, lower, batch, error);
	batch_put(lower, batch);
}

/*
 * Where completions are told the copy has taken as long as the tier's clock says, and its load
 * failed by content: on the rank where it did no copy of it may be found again.
 */
static int poll_copy(struct kvmm_pool *pool, struct lower *lower, struct batch *batch)
{
	int err;

	kv_assert_held(&lower->lock);
	if (likely(!pool->completions.are_told))
		return kv_xfer_poll(&batch->xfer);
	err = completion_result(&pool->completions, &batch->completion, 0);
	batch->xfer.end_ns = kv_tier_now(lower->tier);
	return err == -EIO && batch->is_up ? -EBADMSG : err;
}

/* One that is complete, which is the caller's from here on; *@error: how it went. */
static struct batch *take_complete(struct kvmm_pool *pool, struct lower *lower, int *error)
{
	struct batch *found = NULL;

	kv_lock(&lower->lock);
	for (u32 i = 0; i < NR_BATCHES && !found; i++) {
		struct batch *batch = &lower->batch[i];

		if (batch->state != BATCH_COPYING)
			continue;
		*error = poll_copy(pool, lower, batch);
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
	int error = 0;

	while ((batch = take_complete(pool, lower, &error)))
		end(pool, lower, batch, error);
}

void batches_walk(struct kvmm_pool *pool, struct lower *lower, struct completion_walk *walk)
{
	for (u32 i = 0; i < NR_BATCHES; i++) {
		struct batch *batch = &lower->batch[i];
		bool is_copying;
		int err;

		kv_lock(&lower->lock);
		is_copying = batch->state == BATCH_COPYING;
		kv_unlock(&lower->lock);
		if (!is_copying)
			continue;
		/* No other thread ends it meanwhile. */
		err = kv_xfer_poll(&batch->xfer);
		if (!err && batch->is_up)
			err = up_compare(pool, lower, batch);
		else if (!err)
			err = batch_sums(pool, lower, batch);
		completion_meet(walk, &batch->completion, err);
	}
	kv_tier_walk_below(lower->tier, walk);
}

/* ---- checksums ---- */

/* Blocks that the copy did not sum: by the device, with one wait for all; results in order. */
static int sum_together(struct kvmm_pool *pool, struct batch *batch, u32 nr_runs, u32 nr)
{
	struct kv_planes planes = { pool->plane, pool->nr_planes };
	const struct kv_dev_ops *dev = pool->parts.dev;
	struct kv_fence none = { 0 }, fence;
	int err;

	if (!dev->sum_start)
		return -EOPNOTSUPP;
	err = dev->sum_start(pool->dev, &planes, batch->move, nr_runs, none, &fence);
	if (err)
		return err;
	err = dev->wait(pool->dev, fence);
	return dev->sum_fetch(pool->dev, err ? NULL : batch->sum, err ? 0 : nr) || err ? -EIO : 0;
}

/* Runs of blocks that want one, in ->move, which the copy does not need any more; *@nr: blocks. */
static u32 find_runs(const struct lower *lower, struct batch *batch, u32 *nr)
{
	u32 nr_runs = 0;

	*nr = 0;
	for (u32 i = 0; i < batch->nr_copy; i++) {
		struct kv_move *last = nr_runs ? &batch->move[nr_runs - 1] : NULL;

		if (!lower->item[batch->item[i]].has_sum)
			continue;
		++*nr;
		if (last && last->dst + last->nr == batch->block[i])
			last->nr++;
		else
			batch->move[nr_runs++] = (struct kv_move){ .dst = batch->block[i],
								   .nr = 1 };
	}
	return nr_runs;
}

int batch_sums(struct kvmm_pool *pool, struct lower *lower, struct batch *batch)
{
	u32 nr, nr_runs;
	int err;

	kv_assert_not_held(&lower->lock);
	kv_assert(batch->nr_copy <= batch->nr);
	if (batch->xfer.sums || batch->is_summed)
		return 0;
	nr_runs = find_runs(lower, batch, &nr);
	if (!nr)
		return 0;
	err = sum_together(pool, batch, nr_runs, nr);
	if (err == -EBUSY || err == -EOPNOTSUPP) {
		struct kv_planes planes = { pool->plane, pool->nr_planes };
		struct kv_fence none = { 0 };
		u64 *sum = batch->sum;

		err = 0;
		for (u32 i = 0; i < nr_runs && !err; sum += batch->move[i++].nr)
			err = pool->parts.dev->sum_blocks(pool->dev, &planes, batch->move[i].dst,
							  batch->move[i].nr, none, sum);
	}
	batch->is_summed = !err;
	/* To where they belong, which is never further to the front. */
	for (u32 i = batch->nr_copy; !err && i-- > 0;)
		if (lower->item[batch->item[i]].has_sum)
			batch->sum[i] = batch->sum[--nr];
	return err ? -EIO : 0;
}
