// SPDX-License-Identifier: Apache-2.0
/*
 * The last tenant of a block; for whether its content must be zero before another one gets it see
 * cache/content.c.
 *
 * One word a block, of its last tenant. It goes with the content: a move copies it, and freeing
 * does not touch it. While its word is looked at and written a block belongs to the caller that it
 * was given to, so there is no lock; it has come to that caller through one.
 */
#include <kv/mem.h>

#include "internal.h"

static int tenant_init(struct kvmm_pool *pool, const struct kvmm_pool_attr *attr)
{
	if (attr->zero != KVMM_ZERO_NEVER && !pool->nr_planes)
		return -EINVAL;
	pool->zero = attr->zero;
	if (pool->zero != KVMM_ZERO_TENANT)
		return 0;
	pool->tenant = kv_alloc_array(pool->nr_blocks, sizeof(*pool->tenant));
	if (!pool->tenant)
		return -ENOMEM;
	pool->metadata_bytes += (u64)pool->nr_blocks * sizeof(*pool->tenant);
	for (u32 i = 0; i < pool->nr_blocks; i++)
		pool->tenant[i] = TENANT_UNKNOWN;
	return 0;
}

static void tenant_exit(struct kvmm_pool *pool)
{
	kv_free(pool->tenant);
}

void tenant_move(struct kvmm_pool *pool, u32 src, u32 dst, u32 nr)
{
	kv_assert(dst < pool->nr_blocks);
	kv_assert(src < pool->nr_blocks);
	if (unlikely(pool->tenant))
		memmove(&pool->tenant[dst], &pool->tenant[src], nr * sizeof(*pool->tenant));
}

void tenant_forget(struct kvmm_pool *pool, u32 start, u32 nr)
{
	for (u32 i = 0; i < nr && unlikely(pool->tenant); i++)
		pool->tenant[start + i] = TENANT_UNKNOWN;
}

POOL_PART(tenant) = {
	.name	= "tenants of content",
	.init	= tenant_init,
	.exit	= tenant_exit,
};
