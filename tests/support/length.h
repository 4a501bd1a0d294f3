/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long tests are. Each says how much it does in full; KVMM_TEST_LENGTH=short ("make check") asks for
 * a part of that, and a variable of the test's own for any other number.
 */
#ifndef TESTS_SUPPORT_LENGTH_H
#define TESTS_SUPPORT_LENGTH_H

#include <stdlib.h>
#include <string.h>

#include <kv/types.h>

#define TEST_SHORT_PART	8

static inline bool test_is_short(void)
{
	const char *text = getenv("KVMM_TEST_LENGTH");

	return text && !strcmp(text, "short");
}

/* The number in environment variable @name, or @usual. */
static inline u64 test_number(const char *name, u64 usual)
{
	const char *text = name ? getenv(name) : NULL;

	return text && *text ? strtoull(text, NULL, 0) : usual;
}

/* Calls, rounds or states: @full or an eighth of it, unless environment variable @name, if any, says. */
static inline u64 test_length(const char *name, u64 full)
{
	return test_number(name, test_is_short() ? full / TEST_SHORT_PART : full);
}

/* Step of a loop over calls to fail or shapes to try: in full it goes through all of them. */
static inline u32 test_stride(void)
{
	return test_is_short() ? 11 : 1;
}

#endif /* TESTS_SUPPORT_LENGTH_H */
