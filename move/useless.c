// SPDX-License-Identifier: Apache-2.0
/* Requests known to be in vain; see useless.h. */
#include <pool/local.h>

#include "useless.h"

static u64 mix(u64 sum, u64 value)
{
	return kv_mul_fold(sum ^ value, 0x9e3779b97f4a7c15ull) + sum;
}

/* A range and a cached block may change places, so events count, not only sums. */
u64 useless_stamp(const struct kvmm_pool *pool)
{
	static const enum tally tallies[] = {
		TALLY_STAGED, TALLY_REGISTERED, TALLY_ACTIVE, TALLY_REFS, TALLY_PINS, TALLY_HITS,
		TALLY_NEW,
	};
	struct pool_count count = pool_counts(pool);
	const u64 values[] = {
		count.allocs, count.alloc_blocks, count.frees, count.evictions, count.moves,
		count.range_pins, count.range_gens, count.range_blocks, count.nr_held,
		count.nr_parked, count.entry_gens, kv_zone_nr_free(pool->zone), pool->nr_leaving,
	};
	u64 sum = 1;

	kv_assert_held(&pool->lock);
	for (u32 i = 0; i < ARRAY_SIZE(values); i++)
		sum = mix(sum, values[i]);
	for (u32 i = 0; i < ARRAY_SIZE(tallies); i++)
		sum = mix(sum, tally_sum(pool, tallies[i]));
	return sum;
}

bool useless_again(const struct kvmm_pool *pool, u32 want, u32 max_runs)
{
	kv_assert_held(&pool->lock);
	for (u32 i = 0; i < ARRAY_SIZE(pool->useless); i++) {
		const struct useless *useless = &pool->useless[i];

		if (useless->known && max_runs <= useless->max_runs && want >= useless->want &&
		    useless_stamp(pool) == useless->stamp)
			return true;
	}
	return false;
}

void useless_note(struct kvmm_pool *pool, u32 want, u32 max_runs, u64 stamp)
{
	kv_assert_held(&pool->lock);
	pool->useless[max_runs > 1] = (struct useless){
		.stamp = stamp, .want = want, .max_runs = max_runs, .known = true,
	};
}
