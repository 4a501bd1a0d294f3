/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of migration share: pools of blocks whose content follows from their names.
 *
 * A cached block of key n, and block i of a range of content n, say so in every byte; so whoever
 * finds a block under a name can tell whether it is that one.
 */
#ifndef NET_TEST_UTIL_H
#define NET_TEST_UTIL_H

#include <kv/types.h>
#include <kvmm/ext/migrate.h>
#include <kvmm/kvmm.h>

#define NET_BLOCK_BYTES		256u

/* @device as in struct kvmm_pool_attr. Asserts. */
struct kvmm_pool *net_pool(const char *device, u32 nr_blocks);

/* In memory of the caller's. */
struct kvmm_pool *net_pool_on(const char *device, const struct kvmm_plane *plane, u32 nr_blocks);

/* Writes what block @i of content @content has to have. 0 or an error. */
int net_write(struct kvmm_pool *pool, u32 block, u32 content, u32 i);
/* 1 it is that; 0 not; -EIO. */
int net_is(struct kvmm_pool *pool, u32 block, u32 content, u32 i);

struct kvmm_migrate_status net_status(const struct kvmm_migrate *job);

u32 net_nr_free(struct kvmm_pool *pool);

kvmm_key_t net_key(u32 number);

/* Keys @first ... cached, with content, nobody uses them. */
void net_cache(struct kvmm_pool *pool, u32 first, u32 nr);
/* References on them. Asserts that they are there. */
void net_match(struct kvmm_pool *pool, u32 first, u32 nr, kvmm_ref_t *refs);
/* How many keys from @first on are there, each with its content; -1 if one has other content. */
int net_cached(struct kvmm_pool *pool, u32 first, u32 nr);

/* A range of sequence @seq with content @seq. */
kvmm_range_t net_range(struct kvmm_pool *pool, u64 seq, u32 nr, u32 max_runs);
/*
 * Its sequence decodes: it has @nr blocks then, one more than before, and only the last one is wrong,
 * and not sealed. Between steps, or beside them, but not at the end.
 */
void net_decode(struct kvmm_pool *pool, kvmm_range_t range, u64 seq, u32 nr);
/* The last one is right, too. */
void net_decoded(struct kvmm_pool *pool, kvmm_range_t range, u64 seq, u32 nr);
bool net_range_is(struct kvmm_pool *pool, kvmm_range_t range, u64 seq, u32 nr);

#endif /* NET_TEST_UTIL_H */
