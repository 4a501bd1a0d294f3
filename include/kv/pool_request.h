/* SPDX-License-Identifier: Apache-2.0 */
/* Calls for users built on a pool, besides public ones: requests to look up that may be refused. */
#ifndef KV_POOL_REQUEST_H
#define KV_POOL_REQUEST_H

#include <kv/registry_map.h>
#include <kvmm/cache.h>

/* Fixed at creation. */
u32 kv_pool_block_tokens(const struct kvmm_pool *pool);

/*
 * A request of @nr_blocks is admitted, or @query was a look-up of its own (0). Of @query's keys the
 * first @nr_hits were hits, and the others misses, with reasons up to @max_hits. No lock held.
 */
void kv_lookup_end(struct kvmm_pool *pool, const struct kv_query *query, u32 max_hits, u32 nr_hits,
		   u32 nr_blocks);

#endif /* KV_POOL_REQUEST_H */
