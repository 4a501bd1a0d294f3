/* SPDX-License-Identifier: Apache-2.0 */
/* Counting into <kvmm/latency.h>. */
#ifndef KV_LATENCY_H
#define KV_LATENCY_H

#include <kvmm/latency.h>

#include <kv/types.h>

/* The caller has the histogram's lock. */
void kv_latency_add(struct kvmm_latency_stat *stat, u64 ns);

#endif /* KV_LATENCY_H */
