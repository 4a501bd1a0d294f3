/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers for tests that print their seed: the same ones from the same seed, which is not 0. */
#ifndef TESTS_SUPPORT_RANDOM_H
#define TESTS_SUPPORT_RANDOM_H

#include <kv/types.h>

/* Of 0 to @below - 1; xorshift64. */
static inline u32 any_of(u64 *state, u32 below)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (*state >> 20) % below;
}

/* The same by a linear congruence: the state may be 0. Tests call it any(), by a macro. */
static inline u32 lcg_of(u64 *state, u32 below)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return (u32)(*state >> 33) % below;
}

static __thread u64 any_state = 1;	/* set by threads that have one sequence */

static inline u32 any(u32 below)
{
	return any_of(&any_state, below);
}

#endif /* TESTS_SUPPORT_RANDOM_H */
