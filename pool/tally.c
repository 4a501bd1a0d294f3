// SPDX-License-Identifier: Apache-2.0
/* Counts of a pool that are kept without its lock; see enum tally. */
#include "internal.h"

void tally_add(struct kvmm_pool *pool, enum tally what, u64 nr)
{
	if (nr && (KV_STATS || what < TALLY_HITS))
		kv_fetch_add(&pool->tally[kv_tally_row()].nr[what], nr);
}

u64 tally_sum(const struct kvmm_pool *pool, enum tally what)
{
	u64 sum = 0;

	for (u32 i = 0; pool->tally && i < KV_TALLY_ROWS; i++)
		sum += READ_ONCE(pool->tally[i].nr[what]);
	return sum;
}
