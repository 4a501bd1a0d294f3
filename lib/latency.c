// SPDX-License-Identifier: Apache-2.0
/* Histograms of durations; see <kvmm/latency.h>. */
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

uint64_t kvmm_latency_bound_ns(uint32_t i)
{
	return i < KVMM_LATENCY_BOUNDS ? bounds[i] : UINT64_MAX;
}

void kv_latency_add(struct kvmm_latency_stat *stat, u64 ns)
{
	u32 i = 0;

	while (i < KVMM_LATENCY_BOUNDS && ns > bounds[i])
		i++;
	/* Whoever glances reads them without the lock. */
	WRITE_ONCE(stat->bucket[i], stat->bucket[i] + 1);
	WRITE_ONCE(stat->sum_ns, stat->sum_ns + ns);
}
