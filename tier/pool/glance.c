// SPDX-License-Identifier: Apache-2.0
/* A pool's tier, seen in passing. */
#include "tier.h"

void lower_fill_stat(const struct lower *lower, struct kvmm_tier_client_stat *stat)
{
	kv_peek_copy(stat, &lower->stat, sizeof(*stat));
	stat->queued = kv_peek(&lower->nr_heap);
	stat->loading = kv_peek(&lower->nr_used[true]);
	stat->nr_ops = kv_peek(&lower->nr_ops);
	stat->touches = thrash_touches(lower);
	stat->thrashing = kv_peek(&lower->thrash.is_thrashing);
	kv_tier_client_glance(lower->client, stat);
}

/* A pool is detached while no other thread calls, so what this sees stays. */
struct kvmm_tier *lower_glance(struct kvmm_pool *pool, struct kvmm_tier_client_stat *stat)
{
	const struct lower *lower = lower_of(pool);

	if (!lower)
		return NULL;
	lower_fill_stat(lower, stat);
	return lower->tier;
}
