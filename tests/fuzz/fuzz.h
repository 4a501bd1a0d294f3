/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the fuzzers of calls share: bytes that decide, and a host that runs out of memory.
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

#include <kv/pool.h>
#include <kvmm/kvmm.h>

#include "tests/fuzz/require.h"
#include "tests/support/fake_env.h"

struct fuzz_input {
	const uint8_t *data;
	size_t left;
	struct fake_env env;
};

extern struct fuzz_input fuzz;

void fuzz_begin(const uint8_t *data, size_t bytes);
void fuzz_end(void);

/* The same with calls until the input ends; no memory fails in @end. @make: 0, or there is nothing to call. */
int fuzz_run(const uint8_t *data, size_t bytes, int (*make)(void), void (*call)(void),
	     void (*end)(void));

/* One byte of the input; 0 when it has ended. */
u32 any(u32 below);
/* One of the next 8 allocations fails; perhaps all behind it as well. 0: a call that does not fail. */
int fail_soon(void);

bool is_one_of(int err, const int *allowed, u32 nr);

#define expect(err, ...)						\
	require(is_one_of(err, (const int[]){ __VA_ARGS__ },		\
			  sizeof((const int[]){ __VA_ARGS__ }) / sizeof(int)))

static inline u64 mix(u64 hash, u64 word)
{
	return (hash ^ word) * 0x9e3779b97f4a7c15ull + (hash >> 29);
}

#endif /* FUZZ_H */
