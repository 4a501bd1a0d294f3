/* SPDX-License-Identifier: Apache-2.0 */
/* Pools with classes, and which blocks would be evicted when. Keys are letters. */
#ifndef CLASS_TEST_UTIL_H
#define CLASS_TEST_UTIL_H

#include "tests/pool/util.h"

enum { LOW, MID, HIGH };

/* Three classes low, mid and high of so many blocks at most (0: no quota); high is told. */
struct kvmm_pool *make_classed(u32 nr_blocks, const char *policy, const u32 *quota, u32 flags);

/* A block with a reference, registered under this letter, in that class. */
kvmm_ref_t fill(struct kvmm_pool *pool, char letter, u32 cls);
/* The same for each letter, and its reference is dropped. */
void fill_all(struct kvmm_pool *pool, const char *letters, u32 cls);
void drop(struct kvmm_pool *pool, kvmm_ref_t ref);

/*
 * Letters in the order in which they were evicted for @nr blocks of @tenant, which are given back
 * then; "+3" behind them: of three more the call did not tell.
 */
const char *lost_for(struct kvmm_pool *pool, u32 tenant, u32 nr);
/* The same for no tenant; of all that is evictable. */
const char *evicted_for(struct kvmm_pool *pool, u32 nr);
const char *evicted(struct kvmm_pool *pool);

/* Blocks that a priority protects, in a pool with a limit for that. */
u32 nr_protected(struct kvmm_pool *pool);

struct kvmm_class_stat class_stat(struct kvmm_pool *pool, u32 cls);

#endif /* CLASS_TEST_UTIL_H */
