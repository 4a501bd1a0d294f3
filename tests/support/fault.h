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

#endif /* TESTS_SUPPORT_FAULT_H */
