/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of programs that name blocks by numbers; handles of ranges as words. */
#ifndef TESTS_SUPPORT_KEY_H
#define TESTS_SUPPORT_KEY_H

#include <string.h>

#include <kvmm/types.h>

static inline kvmm_key_t key_of(uint64_t number)
{
	kvmm_key_t key = { { 0 } };

	memcpy(key.byte, &number, sizeof(number));
	return key;
}

static inline uint64_t pack(kvmm_range_t range)
{
	return (uint64_t)range.gen << 32 | range.index;
}

static inline kvmm_range_t unpack(uint64_t word)
{
	return (kvmm_range_t){ (uint32_t)word, word >> 32 };
}

#endif /* TESTS_SUPPORT_KEY_H */
