// SPDX-License-Identifier: Apache-2.0
/* Histograms of durations; see <kvmm/ext/inspect.h>. */
#include <kv/atomic.h>
#include <kv/latency.h>

void kv_latency_add(struct kvmm_latency_stat *stat, u64 ns)
{
	u32 i = 0;

	while (ns > kvmm_latency_bound_ns(i))
		i++;
	/* Glances read them without the lock. */
	WRITE_ONCE(stat->bucket[i], stat->bucket[i] + 1);
	WRITE_ONCE(stat->sum_ns, stat->sum_ns + ns);
}

u32 kv_age_bucket(u64 ns)
{
	u32 i = 0;

	while (ns > kvmm_residency_bound_ns(i))
		i++;
	return i;
}

void kv_age_add(struct kvmm_residency_stat *stat, u64 since_ns, u64 now_ns, u64 nr)
{
	u64 ns = now_ns > since_ns ? now_ns - since_ns : 0;
	u32 i = kv_age_bucket(ns);

	WRITE_ONCE(stat->bucket[i], stat->bucket[i] + nr);
	WRITE_ONCE(stat->sum_ns, stat->sum_ns + nr * ns);
}
