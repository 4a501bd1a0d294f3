/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For suites in which host memory runs out: each test has a fake host of its own, and nothing may be
 * left on it in the end.
 *
 *	TestSuite(name, .init = fault_begin, .fini = fault_end);
 */
#ifndef TESTS_SUPPORT_FAULT_H
#define TESTS_SUPPORT_FAULT_H

#include <kv/rcu.h>

#include "tests/support/fake_env.h"
#include "tests/support/test.h"

static struct fake_env fake;

static inline void fault_begin(void)
{
	fake_env_install(&fake);
}

static inline void fault_end(void)
{
	kv_rcu_barrier();
	cr_expect_eq(fake.nr_live, 0);
	cr_expect_eq(fake.nr_bad_frees, 0);
	cr_expect_eq(kv_mem_bytes(), 0);
	fake_env_remove(&fake);
}

/* The answer of @call, whose @nth allocation of host memory fails; *@failed: it had so many. */
#define fault_at(nth, call, failed)			\
({							\
	int __answer;					\
							\
	fake_env_fail(&fake, nth, false);		\
	__answer = (call);				\
	*(failed) = fake_env_failed(&fake);		\
	fake_env_fail(&fake, 0, false);			\
	__answer;					\
})

/* Makes a pool for which memory runs out at each allocation in turn; at how many of them. */
static inline u32 fault_create(const struct kvmm_pool_attr *attr, struct kvmm_pool **pool)
{
	for (u32 n = 1;; n++) {
		bool failed;
		u64 live;
		int err;

		kv_rcu_barrier();	/* old tables go, too */
		live = fake.nr_live;
		err = fault_at(n, kvmm_pool_create(attr, pool), &failed);
		cr_assert_eq(err, failed ? -ENOMEM : 0, "allocation %u: %d", n, err);
		if (!failed)
			return n - 1;
		cr_assert_eq(fake.nr_live, live, "allocation %u", n);
	}
}

/* @call wants host memory, and says so when there is none. */
#define expect_no_memory(call)						\
	do {								\
		bool __failed;						\
									\
		cr_expect_eq(fault_at(1, call, &__failed), -ENOMEM);	\
		cr_expect(__failed);					\
	} while (0)

#endif /* TESTS_SUPPORT_FAULT_H */
