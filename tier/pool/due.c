// SPDX-License-Identifier: Apache-2.0
/* Time, for simulators: the end of the next copy, and how long those up were under way. */
#include "tier.h"

int tier_time_read(struct kvmm_pool *pool, void *out)
{
	struct kvmm_tier_time *time = out;
	struct lower *lower;
	u64 below_ns;
	int err = lower_enter(pool, &lower);

	if (err)
		return err;
	time->due_ns = UINT64_MAX;
	kv_lock(&lower->lock);
	time->load_ns = lower->stat.load_ns + lower->stat.disk_load_ns;
	for (u32 i = 0; i < NR_BATCHES && !pool->dev; i++)
		if (lower->batch[i].state == BATCH_COPYING)
			time->due_ns = min(time->due_ns, lower->batch[i].xfer.end_ns);
	kv_unlock(&lower->lock);
	if (!pool->dev && !kv_tier_due_below(lower->tier, &below_ns))
		time->due_ns = min(time->due_ns, below_ns);
	return 0;
}
