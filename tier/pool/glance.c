// SPDX-License-Identifier: Apache-2.0
/* A pool's tier, seen in passing. */
#include "tier.h"

void lower_fill_stat(const struct lower *lower, struct kvmm_tier_client_stat *stat)
{
	const struct thrash *thrash = &lower->thrash;

	kv_peek_copy(stat, &lower->stat, sizeof(*stat));
	stat->queued = kv_peek(&lower->nr_heap);
	stat->loading = kv_peek(&lower->nr_used[true]);
	stat->nr_ops = kv_peek(&lower->nr_ops);
	for (u32 t = 0; t < KVMM_NR_TIER_LEVELS; t++)
		stat->refaults[t] = READ_ONCE(thrash->refaults[t]);
	stat->touches = thrash_touches(lower);
	stat->thrashing = kv_peek(&thrash->is_thrashing);
	stat->episodes = kv_peek(&thrash->nr_episodes);
	stat->raised = READ_ONCE(thrash->nr_raised);
	stat->spared = kv_peek(&thrash->nr_spared);
}

/* A pool is detached while no other thread calls, so what this sees stays. */
struct kvmm_tier *lower_glance(struct kvmm_pool *pool, struct kvmm_tier_client_stat *stat)
{
	const struct lower *lower = lower_of(pool);

	if (!lower)
		return NULL;
	lower_fill_stat(lower, stat);
	kv_tier_client_glance(lower->client, stat);
	return lower->tier;
}
