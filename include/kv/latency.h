/* SPDX-License-Identifier: Apache-2.0 */
/* Counting into <kvmm/ext/inspect.h> and <kvmm/ext/inspect.h>. */
#ifndef KV_LATENCY_H
#define KV_LATENCY_H

#include <kvmm/ext/inspect.h>

#include <kv/types.h>

/* The caller has the histogram's lock. */
void kv_latency_add(struct kvmm_latency_stat *stat, u64 ns);

/* The bucket of an age. */
u32 kv_age_bucket(u64 ns);
/* @nr, all of the age from @since_ns to @now_ns, or 0 if the clock went back. The caller has the
 * histogram's lock. */
void kv_age_add(struct kvmm_residency_stat *stat, u64 since_ns, u64 now_ns, u64 nr);

#endif /* KV_LATENCY_H */
