// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"

struct fuzz_input fuzz;

void fuzz_begin(const uint8_t *data, size_t bytes)
{
	memset(&fuzz, 0, sizeof(fuzz));
	fuzz.data = data;
	fuzz.left = bytes;
	fake_env_install(&fuzz.env);
}

void fuzz_end(void)
{
	require(!fuzz.env.nr_live && !fuzz.env.nr_bad_frees);
	fake_env_remove(&fuzz.env);
}

void fuzz_fail(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: %s\n", file, line, what);
	abort();
}

u32 any(u32 below)
{
	if (!fuzz.left)
		return 0;
	fuzz.left--;
	return *fuzz.data++ % below;
}

void fail_soon_within(u32 most)
{
	fake_env_fail(&fuzz.env, 1 + any(most), any(2));
}

bool is_one_of(int err, const int *allowed, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		if (err == allowed[i])
			return true;
	return false;
}
