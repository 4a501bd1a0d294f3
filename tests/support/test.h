/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of Criterion's include, one and all. */
#ifndef TESTS_SUPPORT_TEST_H
#define TESTS_SUPPORT_TEST_H

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kv/mem.h>
#include <kv/types.h>
#include <kvmm/kvmm.h>

/* As Test(suite, name); @var points to a @type that @begin fills and @end empties. */
#define TEST_ON(type, var, begin, end, suite, name)	\
static void suite##_##name##_on(type *var);		\
Test(suite, name)					\
{							\
	type it, *var = &it;				\
							\
	begin;						\
	suite##_##name##_on(var);			\
	end;						\
}							\
static void suite##_##name##_on(type *var)

/* A test that is one call: rows of a table, each with a name of its own. */
#define TEST_CALL(suite, name, ...)	\
Test(suite, name)			\
{					\
	__VA_ARGS__;			\
}

#endif /* TESTS_SUPPORT_TEST_H */
