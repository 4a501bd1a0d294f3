// SPDX-License-Identifier: Apache-2.0
/* Time, for simulators: the end of the next copy, and the time of those up since the last call. */
#include "tier.h"

int kvmm_tier_due(struct kvmm_pool *pool, uint64_t *due_ns)
{
	struct lower *lower;
	u64 end_ns = 0, below_ns;
	int err = lower_enter(pool, &lower);

	if (err)
		return err;
	if (!due_ns)
		return -EINVAL;
	if (pool->dev)
		return -EOPNOTSUPP;
	kv_lock(&lower->lock);
	/* The earliest end of a simulated copy that is under way. */
	err = -ENOENT;
	for (u32 i = 0; i < NR_BATCHES; i++) {
		const struct batch *batch = &lower->batch[i];

		if (batch->state != BATCH_COPYING)
			continue;
		end_ns = err ? batch->xfer.end_ns : min(end_ns, batch->xfer.end_ns);
		err = 0;
	}
	kv_unlock(&lower->lock);
	if (!kv_tier_due_below(lower->tier, &below_ns)) {
		end_ns = err ? below_ns : min(end_ns, below_ns);
		err = 0;
	}
	if (!err)
		*due_ns = end_ns;
	return err;
}

int kvmm_tier_take_latency(struct kvmm_pool *pool, uint64_t *load_ns)
{
	struct lower *lower;
	int err = lower_enter(pool, &lower);
	u64 total_ns;

	if (err)
		return err;
	if (!load_ns)
		return -EINVAL;
	kv_lock(&lower->lock);
	total_ns = lower->stat.load_ns + lower->stat.disk_load_ns;
	*load_ns = total_ns - lower->load_ns_taken;
	lower->load_ns_taken = total_ns;
	kv_unlock(&lower->lock);
	return 0;
}
