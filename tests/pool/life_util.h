/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the life of cached blocks share: everything that a refused call must leave as
 * it was, handles that must be refused, blocks in each state.
 */
#ifndef POOL_TEST_LIFE_UTIL_H
#define POOL_TEST_LIFE_UTIL_H

#include "pool/internal.h"
#include "tests/pool/util.h"

#define LIFE_MAX	256u		/* blocks of a pool, and of a batch */

/* Words and links of all entries, the memory of the policy, the statistics. */
struct life {
	struct kvmm_pool_stat stat;
	struct {
		u64 word;
		u32 place;
		u32 link;
		u32 dup_next;
		u32 dup_prev;
	} entry[LIFE_MAX];
	u8 policy[256 << 10];
};

void life_take(struct kvmm_pool *pool, struct life *life);
void life_expect_same(struct kvmm_pool *pool, const struct life *before, int line);

/* @call returns @err, and that is all that it does. */
#define expect_refused(pool, call, err)					\
	do {								\
		static struct life before;				\
		int answer;						\
									\
		life_take(pool, &before);				\
		answer = (call);						\
		cr_expect_eq(answer, err, "%s: %d", #call, answer);	\
		life_expect_same(pool, &before, __LINE__);		\
	} while (0)

/* References of registered blocks, by block: '0' to '9', '+' for more, '.' for none such. */
const char *refs_picture(struct kvmm_pool *pool);

/* Handles that nobody can have, and what they get. */
struct bad_handle {
	struct kv_handle handle;
	int err;
};

#define NR_BAD_HANDLES	5u

/* One of a private block that was freed, and others; the pool is as before. */
void bad_handles(struct kvmm_pool *pool, struct bad_handle bad[NR_BAD_HANDLES]);

struct kvmm_prefix prefix_of(const kvmm_key_t *keys, u32 nr);
/* Keys @first ... */
const kvmm_key_t *keys_from(u32 first, u32 nr);

/* Blocks in each state, named @first ... */
void make_private(struct kvmm_pool *pool, u32 nr, kvmm_mut_t *mut);
void make_staged(struct kvmm_pool *pool, u32 first, u32 nr, kvmm_staged_t *staged);
void make_active(struct kvmm_pool *pool, u32 first, u32 nr, kvmm_ref_t *ref);

/* Staged under @first ... and published by @dup; returns how many names were taken. */
u32 publish_as(struct kvmm_pool *pool, u32 dup, u32 first, u32 nr, kvmm_ref_t *ref);

/* The block that is found under this name, or -1. Nothing changes but the order of eviction. */
int found_under(struct kvmm_pool *pool, u32 number);

struct kvmm_pool *make_life(u32 nr_blocks, const char *policy, u32 flags, u32 dup);

#endif /* POOL_TEST_LIFE_UTIL_H */
