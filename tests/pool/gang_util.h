/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of gangs share: small pools, and whether they are as they were. */
#ifndef POOL_GANG_TEST_UTIL_H
#define POOL_GANG_TEST_UTIL_H

#include "tests/pool/util.h"

#define GANG_POOLS	4u

/* @nr deterministic pools of @nr_blocks each. */
void make_pools(struct kvmm_pool **pools, u32 nr, u32 nr_blocks, const char *policy);
/* Those that there are: there is none there then. */
void end_pools(struct kvmm_pool **pools, u32 nr);

struct digests {
	u32 nr;
	struct kvmm_digest_info info[GANG_POOLS];
};

struct digests digests_of(struct kvmm_pool **pools, u32 nr);
/* "", or what differs. Valid until the next call. */
const char *differ(const struct digests *a, const struct digests *b);

static inline struct kvmm_gang_want want_blocks(u32 pool, u32 nr)
{
	return (struct kvmm_gang_want){ .pool = pool, .kind = KVMM_GANG_BLOCKS, .nr = nr };
}

static inline struct kvmm_gang_want want_range(u32 pool, u32 nr, u32 max_runs, u64 seq)
{
	return (struct kvmm_gang_want){ .pool = pool, .kind = KVMM_GANG_RANGE, .nr = nr,
					.max_runs = max_runs, .seq = seq };
}

/* Of the first of @pools, as many as there are wanted of. */
int reserve(struct kvmm_pool **pools, const struct kvmm_gang_want *wants, u32 nr,
	    struct kvmm_gang **gang);

#endif /* POOL_GANG_TEST_UTIL_H */
