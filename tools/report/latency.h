/* SPDX-License-Identifier: Apache-2.0 */
/* How long things took: eight buckets for each doubling, so a quantile is right to an eighth. */
#ifndef REPORT_LATENCY_H
#define REPORT_LATENCY_H

#include "../replay/common.h"

#define LATENCY_BUCKETS		496	/* 16 exact ones, then 8 for each of 60 doublings */

struct latency {
	u64 bucket[LATENCY_BUCKETS];
	u64 nr;
	u64 sum;
	u64 max;
};

static inline u32 latency_bucket(u64 v)
{
	u32 shift = v < 16 ? 0 : 60 - (u32)__builtin_clzll(v);

	return shift * 8 + (u32)(v >> shift);
}

/* The largest value that falls into a bucket. */
static inline u64 latency_limit(u32 bucket)
{
	u32 shift = bucket < 16 ? 0 : bucket / 8 - 1;

	return (((u64)bucket - shift * 8 + 1) << shift) - 1;
}

static inline void latency_count(struct latency *latency, u64 v)
{
	latency->bucket[latency_bucket(v)]++;
	latency->nr++;
	latency->sum += v;
	latency->max = max_u64(latency->max, v);
}

/* No more than so many of 1,000 are larger; 0 where there are none. */
static inline u64 latency_quantile(const struct latency *latency, u32 permille)
{
	u64 below = 0, rank = DIV_ROUND_UP((u128)latency->nr * permille, 1000);

	for (u32 i = 0; i < LATENCY_BUCKETS && latency->nr; i++) {
		below += latency->bucket[i];
		if (below >= rank && below)
			return min_u64(latency_limit(i), latency->max);
	}
	return 0;
}

#endif /* REPORT_LATENCY_H */
