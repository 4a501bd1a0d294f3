/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Local variables of a test that are given back where their scope ends, the last one first:
 *
 *	struct kvmm_pool *pool __cleanup(end_pool) = make_pool(8);
 *
 * A test of one such thing gets it as an argument:
 *
 *	TEST_WITH(struct kvmm_pool *pool, make_pool(8), end_pool, suite, name)
 *	{
 *		...
 *	}
 *
 * A test that an assertion aborts gives nothing back.
 */
#ifndef TESTS_SUPPORT_CLEANUP_H
#define TESTS_SUPPORT_CLEANUP_H

#include <kv/pool.h>
#include <kv/zone.h>

#include "tests/support/test.h"

#define __cleanup(end)		__attribute__((cleanup(end##_at), unused))

/* Makes @end(), which takes a @type, fit for __cleanup(). */
#define DEFINE_CLEANUP(end, type)				\
static inline void end##_at(type *at)				\
{								\
	end(*at);						\
}

/* As Test(suite, name, ...); @make makes variable @var, which is given to @end() afterwards. */
#define TEST_WITH(var, make, end, suite, name, ...)		\
static void suite##_##name##_with(var);				\
Test(suite, name, ##__VA_ARGS__)				\
{								\
	__typeof__(make) it = make;				\
								\
	suite##_##name##_with(it);				\
	end(it);						\
}								\
static void suite##_##name##_with(var)

#define ZONE_TEST(suite, name, make, ...) \
	TEST_WITH(struct kv_zone *zone, make, kv_zone_destroy, suite, name, ##__VA_ARGS__)

DEFINE_CLEANUP(kvmm_events_close, struct kvmm_events *)
DEFINE_CLEANUP(kvmm_groups_destroy, struct kvmm_groups *)
DEFINE_CLEANUP(kvmm_groups_release, struct kvmm_tables *)
DEFINE_CLEANUP(kvmm_key_ctx_destroy, struct kvmm_key_ctx *)
DEFINE_CLEANUP(kvmm_pool_destroy, struct kvmm_pool *)
DEFINE_CLEANUP(kvmm_seq_destroy, struct kvmm_seq *)
DEFINE_CLEANUP(kvmm_tier_destroy, struct kvmm_tier *)
DEFINE_CLEANUP(kv_zone_destroy, struct kv_zone *)

#endif /* TESTS_SUPPORT_CLEANUP_H */
