// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/fuzz.h"

struct fuzz_input fuzz;

void fuzz_begin(const uint8_t *data, size_t bytes)
{
	memset(&fuzz, 0, sizeof(fuzz));
	fuzz.data = data;
	fuzz.left = bytes;
	fake_env_install(&fuzz.env);
}

int fuzz_run(const uint8_t *data, size_t bytes, int (*make)(void), void (*call)(void),
	     void (*end)(void))
{
	fuzz_begin(data, bytes);
	if (!make()) {
		while (fuzz.left)
			call();
		fake_env_fail(&fuzz.env, 0, false);
		end();
	}
	fuzz_end();
	return 0;
}

void fuzz_end(void)
{
	require(!fuzz.env.nr_live && !fuzz.env.nr_bad_frees);
	fake_env_remove(&fuzz.env);
}

u32 any(u32 below)
{
	if (!fuzz.left)
		return 0;
	fuzz.left--;
	return *fuzz.data++ % below;
}

int fail_soon(void)
{
	fake_env_fail(&fuzz.env, 1 + any(8), any(2));
	return 0;
}

bool is_one_of(int err, const int *allowed, u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		if (err == allowed[i])
			return true;
	return false;
}
