/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools that give memory back, for their tests. Pageblocks are of four blocks; pools of the caller's
 * memory have units of one pageblock.
 */
#ifndef POOL_SHRINK_UTIL_H
#define POOL_SHRINK_UTIL_H

#include "tests/pool/util.h"

#define PB	4u
#define UNIT	((u64)PB * TEST_BLOCK_BYTES)

/* Memory of the caller, in whole units; nothing lies behind it. */
static inline u8 *memory_of(u32 nr_blocks)
{
	static u8 all[64 * TEST_BLOCK_BYTES] __attribute__((aligned(UNIT)));

	return all + sizeof(all) - nr_blocks * TEST_BLOCK_BYTES;
}

static inline struct kvmm_pool *adopt_at(u8 *mem, u32 nr_blocks, const char *policy,
					 const struct kvmm_alloc_attr *alloc)
{
	struct kvmm_elastic_attr elastic = { .size = sizeof(elastic), .unit_bytes = UNIT };
	struct kvmm_plane plane = { (uintptr_t)mem, TEST_BLOCK_BYTES, TEST_BLOCK_BYTES };
	struct kvmm_pool_attr attr = KVMM_POOL_ATTR_INIT;
	struct kvmm_pool *pool;

	attr.nr_blocks = nr_blocks;
	attr.planes = &plane;
	attr.nr_planes = 1;
	attr.policy = policy;
	attr.alloc = alloc;
	pool = make_pool_of(&attr);
	cr_assert_eq(kvmm_pool_elastic_setup(pool, &elastic), 0);
	return pool;
}

static inline struct kvmm_pool *adopt(u32 nr_blocks, const char *policy,
				      const struct kvmm_alloc_attr *alloc)
{
	return adopt_at(memory_of(nr_blocks), nr_blocks, policy, alloc);
}

static inline struct kvmm_elastic_stat elastic_of_pool(struct kvmm_pool *pool)
{
	struct kvmm_elastic_stat stat;

	cr_assert_eq(kvmm_elastic_get_stat(pool, &stat), 0);
	return stat;
}

static inline kvmm_stream_t add_stream(struct kvmm_pool *pool)
{
	kvmm_stream_t id = { 0, 0 };

	cr_assert_eq(kvmm_stream_add(pool, NULL, 0, &id), 0);
	return id;
}

#endif /* POOL_SHRINK_UTIL_H */
