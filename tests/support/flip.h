/* SPDX-License-Identifier: Apache-2.0 */
/* Each bit of a field flips, and FLIP_CHECK, of the test, answers -EUCLEAN; 0 when all are as before. */
#ifndef TESTS_SUPPORT_FLIP_H
#define TESTS_SUPPORT_FLIP_H

#include "tests/support/test.h"

#define flip_each_bit(what, field, bytes)						\
do {											\
	u8 *__byte = (u8 *)(field);							\
											\
	for (u32 __bit = 0; __bit < 8 * (bytes); __bit++) {				\
		__byte[__bit / 8] ^= 1u << __bit % 8;					\
		cr_expect_eq(FLIP_CHECK, -EUCLEAN, "%s, bit %u", what, __bit);		\
		__byte[__bit / 8] ^= 1u << __bit % 8;					\
	}										\
	cr_assert_eq(FLIP_CHECK, 0, "%s", what);					\
} while (0)

#define flip(object, field)	flip_each_bit(#field, &(object)->field, sizeof((object)->field))

#endif /* TESTS_SUPPORT_FLIP_H */
