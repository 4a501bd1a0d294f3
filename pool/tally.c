// SPDX-License-Identifier: Apache-2.0
/* Counts of a pool that are kept without its lock; see enum tally. */
#include "internal.h"

/* Threads are told apart by their row of event counters; those without one share the first. */
static u32 row_of_thread(void)
{
	return ((uintptr_t)kv_stat_row / sizeof(struct kv_stat_row)) % NR_TALLY_ROWS;
}

void tally_add(struct kvmm_pool *pool, enum tally what, u64 nr)
{
	if (nr)
		kv_fetch_add(&pool->tally[row_of_thread()].nr[what], nr);
}

u64 tally_sum(const struct kvmm_pool *pool, enum tally what)
{
	u64 sum = 0;

	for (u32 i = 0; pool->tally && i < NR_TALLY_ROWS; i++)
		sum += READ_ONCE(pool->tally[i].nr[what]);
	return sum;
}
