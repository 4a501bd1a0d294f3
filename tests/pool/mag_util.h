/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of magazines share: a pool that has them, and another thread that loads its own. */
#ifndef POOL_TEST_MAG_UTIL_H
#define POOL_TEST_MAG_UTIL_H

#include "percpu/mag.h"
#include "tests/pool/util.h"

#define NR_BLOCKS	1024u

/* The pool of the test that runs. */
extern struct kvmm_pool *pool;

struct kvmm_pool *pool_with(u32 flags);

/* A test of @suite with one pool that has magazines. */
#define MAG_TEST_OF(suite, name)		\
static void name##_on(void);			\
Test(suite, name)				\
{						\
	pool = pool_with(0);			\
	name##_on();				\
	end_pool(pool);				\
}						\
static void name##_on(void)

u32 nr_aside(struct kvmm_pool *of);
u32 zone_free(struct kvmm_pool *of);
/* The magazine of the calling thread. */
struct mag *own(struct kvmm_pool *of);
/* From here on the calling thread has 64 blocks aside. */
void load_one(struct kvmm_pool *of);

/* Another thread loads its magazine, says so, and waits until it may end. */
void start_other(void);
void end_other(void);

#endif /* POOL_TEST_MAG_UTIL_H */
