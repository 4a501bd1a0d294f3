/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the fuzzers of calls share: bytes that decide, a host that runs out of memory, and how to fail.
 *
 * One input is one run:
 *
 *	fuzz_begin(data, bytes);	// the fake host is in, any() reads the bytes
 *	while (fuzz.left)
 *		...
 *	fuzz_end();			// everything was given back
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <string.h>

#include <kv/pool.h>
#include <kvmm/kvmm.h>

#include "tests/support/fake_env.h"

struct fuzz_input {
	const uint8_t *data;
	size_t left;
	struct fake_env env;
};

extern struct fuzz_input fuzz;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

void fuzz_begin(const uint8_t *data, size_t bytes);
void fuzz_end(void);

void fuzz_fail(const char *file, int line, const char *what) __attribute__((noreturn));

#define require(holds)							\
	do {								\
		if (!(holds))						\
			fuzz_fail(__FILE__, __LINE__, #holds);		\
	} while (0)

/* One byte of the input; 0 when it has ended. */
u32 any(u32 below);
/* The n-th allocation from now fails, n below @most; perhaps all behind it as well. */
void fail_soon_within(u32 most);

bool is_one_of(int err, const int *allowed, u32 nr);

#define expect(err, ...)						\
	require(is_one_of(err, (const int[]){ __VA_ARGS__ },		\
			  sizeof((const int[]){ __VA_ARGS__ }) / sizeof(int)))

static inline u64 mix(u64 hash, u64 word)
{
	return (hash ^ word) * 0x9e3779b97f4a7c15ull + (hash >> 29);
}

#endif /* FUZZ_H */
