/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the pool share: pools of a few blocks, keys by number, pictures. */
#ifndef POOL_TEST_UTIL_H
#define POOL_TEST_UTIL_H

#include <kv/pool.h>
#include <kv/types.h>
#include <kvmm/kvmm.h>

#include "tests/support/cleanup.h"

#define TEST_BLOCK_BYTES	64u

struct kvmm_pool *make_pool(u32 nr_blocks);
struct kvmm_pool *make_cache(u32 nr_blocks, const char *policy);
struct kvmm_pool *make_pool_of(const struct kvmm_pool_attr *attr);

/* Validate, then destroy. */
void end_pool(struct kvmm_pool *pool);
DEFINE_CLEANUP(end_pool, struct kvmm_pool *)

/* A test with a @pool that @make makes. */
#define POOL_TEST(suite, name, make, ...) \
	TEST_WITH(struct kvmm_pool *pool, make, end_pool, suite, name, ##__VA_ARGS__)

/* With each name that kvmm_policies() tells; not to be left by break. */
#define for_each_policy(name)						\
	for (u32 __nth = 0; __nth < kvmm_policies(NULL, 0); __nth++)	\
		for (const char *name = kvmm_enum_name(KVMM_NAME_POLICY, __nth); name; name = NULL)

/* A range that must succeed; @flags as in kvmm_range_alloc(). */
kvmm_range_t take(struct kvmm_pool *pool, u32 nr, u32 flags);
kvmm_range_t take_seq(struct kvmm_pool *pool, u32 nr, u32 flags, u64 seq);

/*
 * One letter a block: '.' free, 'N' the null block, 'a' to 'z' the range of the sequence of that
 * name, '#' another range, 'P' private, 'A' active, 'I' inactive, '-' given back. Valid until the next call.
 */
const char *picture(struct kvmm_pool *pool);

/*
 * Ranges from a picture: "aabb..a" is 'a' in two extents. The pool is empty and has as many
 * blocks; @range gets a handle by letter - 'a'.
 */
void paint(struct kvmm_pool *pool, const char *want, kvmm_range_t *range);

kvmm_key_t key_of(u32 number);
u32 number_of(const kvmm_key_t *key);

/* Fill the blocks of a range with a pattern that depends on @seed, and look for it. */
void write_pattern(struct kvmm_pool *pool, kvmm_range_t range, u32 seed);
bool has_pattern(struct kvmm_pool *pool, kvmm_range_t range, u32 seed);

/* Blocks registered under keys first ... first + nr - 1; a reference each. */
void register_keys(struct kvmm_pool *pool, u32 first, u32 nr, kvmm_ref_t *ref);
/* The same, put back. */
void cache_keys(struct kvmm_pool *pool, u32 first, u32 nr);

/* Keys in the order in which they would be evicted; returns how many. Empties the pool. */
u32 eviction_order(struct kvmm_pool *pool, u32 *numbers, u32 max);
/* The same as text: each number, and a blank. */
void expect_order(struct kvmm_pool *pool, const char *want);

struct kvmm_pool_stat stat_of(struct kvmm_pool *pool);
struct kvmm_verify_stat verified(struct kvmm_pool *pool);

#endif /* POOL_TEST_UTIL_H */
