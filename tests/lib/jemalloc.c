// SPDX-License-Identifier: Apache-2.0
/* Only in the program that is linked with jemalloc: ours comes from an arena of its own. */
#include <jemalloc/jemalloc.h>

#include "tests/support/test.h"

static unsigned int arena_of(void *ptr)
{
	unsigned int arena;
	size_t len = sizeof(arena);

	cr_assert_eq(mallctl("arenas.lookup", &arena, &len, &ptr, sizeof(ptr)), 0,
		     "%p is not jemalloc's", ptr);
	return arena;
}

/* Small sizes only: arenas.lookup does not know a large one that lies at the start of a page. */
Test(jemalloc, all_metadata_is_in_one_arena_and_nothing_else_is)
{
	void *first = kv_alloc(1);
	unsigned int ours = arena_of(first);

	for (size_t bytes = 1; bytes <= 1u << 13; bytes *= 2) {
		void *any = kv_alloc(bytes), *lines = kv_alloc_lines(1, bytes);
		void *foreign = malloc(bytes);

		cr_expect_eq(arena_of(any), ours);
		cr_expect_eq(arena_of(lines), ours);
		cr_expect_neq(arena_of(foreign), ours);
		kv_free(any);
		kv_free(lines);
		free(foreign);
	}
	kv_free(first);
}

/* A block that we freed must not turn up in the application's thread cache. */
Test(jemalloc, freed_metadata_goes_back_to_its_arena)
{
	void *first = kv_alloc(48);
	unsigned int ours = arena_of(first);
	void *after[100];

	kv_free(first);
	for (int i = 0; i < 100; i++) {
		after[i] = malloc(64);
		cr_expect_neq(arena_of(after[i]), ours);
	}
	for (int i = 0; i < 100; i++)
		free(after[i]);
}
