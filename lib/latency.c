// SPDX-License-Identifier: Apache-2.0
/* Histograms of durations; see <kvmm/metrics.h> and <kvmm/metrics.h>. */
#include <kv/atomic.h>
#include <kv/latency.h>

#define US	1000ull
#define MS	1000000ull
#define S	1000000000ull

static const u64 bounds[KVMM_LATENCY_BOUNDS] = {
	1 * US, 2 * US, 5 * US, 10 * US, 20 * US, 50 * US, 100 * US, 200 * US, 500 * US,
	1 * MS, 2 * MS, 5 * MS, 10 * MS, 20 * MS, 50 * MS, 100 * MS, 200 * MS, 500 * MS,
	1 * S, 2 * S, 5 * S,
};

/* Those that other engines use for the same. */
static const u64 ages[KVMM_RESIDENCY_BOUNDS] = {
	1 * MS, 2 * MS, 5 * MS, 10 * MS, 20 * MS, 50 * MS, 100 * MS, 200 * MS, 500 * MS,
	1 * S, 2 * S, 5 * S, 10 * S, 20 * S, 30 * S, 60 * S, 120 * S, 300 * S, 600 * S, 1200 * S,
	1800 * S,
};

uint64_t kvmm_bucket_bound_ns(int of_ages, uint32_t i)
{
	if (i >= (of_ages ? KVMM_RESIDENCY_BOUNDS : KVMM_LATENCY_BOUNDS))
		return UINT64_MAX;
	return of_ages ? ages[i] : bounds[i];
}

static u32 bucket_of(const u64 *bound, u32 nr, u64 ns)
{
	u32 i = 0;

	while (i < nr && ns > bound[i])
		i++;
	return i;
}

void kv_latency_add(struct kvmm_latency_stat *stat, u64 ns)
{
	u32 i = bucket_of(bounds, KVMM_LATENCY_BOUNDS, ns);

	/* Glances read them without the lock. */
	WRITE_ONCE(stat->bucket[i], stat->bucket[i] + 1);
	WRITE_ONCE(stat->sum_ns, stat->sum_ns + ns);
}

u32 kv_age_bucket(u64 ns)
{
	return bucket_of(ages, KVMM_RESIDENCY_BOUNDS, ns);
}

void kv_age_add(struct kvmm_residency_stat *stat, u64 since_ns, u64 now_ns, u64 nr)
{
	u64 ns = now_ns > since_ns ? now_ns - since_ns : 0;
	u32 i = kv_age_bucket(ns);

	WRITE_ONCE(stat->bucket[i], stat->bucket[i] + nr);
	WRITE_ONCE(stat->sum_ns, stat->sum_ns + nr * ns);
}
