/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of tiers share: a pool above a host tier, blocks whose content says their key. */
#ifndef TIER_TEST_UTIL_H
#define TIER_TEST_UTIL_H

#include <kv/disk.h>

#include "tests/pool/util.h"
#include "tests/support/test.h"

/* A pool above a tier, and what is said of both of them until they are made. */
struct both {
	struct kvmm_pool_attr attr;
	struct kvmm_tier_attr host;
	struct kvmm_tier_client_attr client;
	struct kvmm_tier_config config;
	struct kvmm_tier_disk_attr below;	/* for ->host.disk, if there is one */
	struct kvmm_pool *pool;
	struct kvmm_tier *tier;			/* made unless it is there */
};

/* Blocks of TEST_BLOCK_BYTES, "lru", on "host", by request only. */
struct both both_of(u32 nr_blocks, u32 nr_units);
/* Without content, by a clock that is told. */
struct both both_of_ids(u32 nr_blocks, u32 nr_units, u64 block_bytes);
void both_make(struct both *both);

/*
 * As Test(suite, name), with a @pool above a @tier; see end_both(). What is different with them
 * comes last, as statements about @both.
 */
#define TIER_TEST(suite, name, nr_blocks, nr_units, ...)				\
static void suite##_##name##_with(struct kvmm_pool *pool, struct kvmm_tier *tier);	\
Test(suite, name)									\
{											\
	struct both both = both_of(nr_blocks, nr_units);				\
											\
	__VA_ARGS__;									\
	both_make(&both);								\
	suite##_##name##_with(both.pool, both.tier);					\
	end_both(both.pool, both.tier);							\
}											\
static void suite##_##name##_with(struct kvmm_pool *pool, struct kvmm_tier *tier)

struct kvmm_tier *make_tier(u32 nr_units);		/* of TEST_BLOCK_BYTES, on "host" */
struct kvmm_tier *make_tier_of(const struct kvmm_tier_attr *attr);
void attach(struct kvmm_pool *pool, struct kvmm_tier *tier);	/* by request only */
void attach_as(struct kvmm_pool *pool, struct kvmm_tier *tier,
	       const struct kvmm_tier_client_attr *attr);

/*
 * One letter a unit: '.' free, 'w' being written, 'r' readable, 'R' being read, 'D' not to be found
 * any more, '-' more of the one before. Valid until the next call.
 */
const char *tier_picture(struct kvmm_tier *tier);

/* Keys first ... first + nr - 1, registered with their content; the references are the caller's. */
void make_blocks(struct kvmm_pool *pool, u32 first, u32 nr, kvmm_ref_t *refs);
/* The same, put back. */
void cache_blocks(struct kvmm_pool *pool, u32 first, u32 nr);
bool has_content(struct kvmm_pool *pool, kvmm_ref_t ref, u32 number);

/* Copies down, by polling to the end. */
void offload_keys(struct kvmm_pool *pool, u32 first, u32 nr, u32 flags);
/* Copies up: 0 or the first error, of any stage. On success the content was right, and all is put. */
int load_keys(struct kvmm_pool *pool, u32 first, u32 nr);

/* Keys of the caller's; the references are kept. */
int load_keys_raw(struct kvmm_pool *pool, const kvmm_key_t *keys, u32 nr, kvmm_ref_t *refs);
/* Begin to copy down, which has to be possible. */
kvmm_tier_op_t begin_offload(struct kvmm_pool *pool, const kvmm_ref_t *refs, u32 nr, u32 flags);
/* Begin to load, which has to be possible; and fetch what became of it, references if it was well. */
kvmm_tier_op_t begin_load(struct kvmm_pool *pool, u32 first, u32 nr);
int result_of(struct kvmm_pool *pool, kvmm_tier_op_t op, u32 nr, kvmm_ref_t *refs);
/* Until nothing is under way. */
void poll_all(struct kvmm_pool *pool);
/* To the queue only. */
void send_down(struct kvmm_pool *pool, u32 first, u32 nr);
bool is_readable(int fd);

/* A letter for each key: '0' to '2' its level, '-' a miss, 'p' pending, 't' retry. */
const char *answers(struct kvmm_pool *pool, u32 first, u32 nr);

/* A prefix of keys by number; valid until the next call. */
const struct kvmm_prefix *prefix_of(u32 first, u32 nr);

struct kvmm_tier_client_stat client_of(struct kvmm_pool *pool);
struct kvmm_tier_stat tier_of(struct kvmm_tier *tier);

/* A bit of the content of that unit is another one from now on. */
void tier_flip(struct kvmm_tier *tier, u32 unit);

/* Which tiers a registry says to have each key: bit t is tier t. */
void tiers_of(struct kvmm_registry *reg, u32 first, u32 nr, u16 *masks);

/* Validate and destroy both. */
void end_both(struct kvmm_pool *pool, struct kvmm_tier *tier);

#endif /* TIER_TEST_UTIL_H */
