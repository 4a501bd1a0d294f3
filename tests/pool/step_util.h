/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of moves beside steps share. */
#ifndef POOL_STEP_TEST_UTIL_H
#define POOL_STEP_TEST_UTIL_H

#include "tests/pool/util.h"

static inline struct kvmm_step_stat steps_of_pool(struct kvmm_pool *pool)
{
	struct kvmm_step_stat stat;

	cr_assert_eq(kvmm_step_get_stat(pool, &stat), 0);
	return stat;
}

static inline int start(struct kvmm_pool *pool, u32 want, u32 mode)
{
	struct kvmm_compact goal = { .size = sizeof(goal), .want_run = want };

	return kvmm_compact_start(pool, &goal, mode);
}

static kvmm_range_t range[26];		/* by letter */

/* Four ranges with holes between; all that is written into them stays as it is. */
static inline struct kvmm_pool *scattered(void)
{
	struct kvmm_pool *pool = make_pool(16);

	paint(pool, "aa..bb..cc..dd..", range);
	for (u32 i = 0; i < 4; i++) {
		write_pattern(pool, range[i], i);
		cr_assert_eq(kvmm_range_seal(pool, range[i], 2), 0);
	}
	return pool;
}

/* What scattered() wrote into its ranges. */
static inline void expect_content(struct kvmm_pool *pool)
{
	for (u32 i = 0; i < 4; i++)
		cr_expect(has_pattern(pool, range[i], i));
}

#endif /* POOL_STEP_TEST_UTIL_H */
