/* SPDX-License-Identifier: Apache-2.0 */
/* An arena of each shape, and kernels that have to leave it as it must be: for any launcher. */
#ifndef ARENA_EXPECT_H
#define ARENA_EXPECT_H

#include "tests/support/test.h"
#include "arena.h"

typedef bool (*arena_run_fn)(struct arena *arena, arena_launch_fn launch, char error[ARENA_ERROR]);

static inline void expect_right(arena_run_fn run, const struct arena_shape *shape,
				arena_launch_fn launch)
{
	struct arena *arena = arena_create(shape);
	char error[ARENA_ERROR];

	cr_expect(run(arena, launch, error), "%s: %s", arena_describe(shape), error);
	arena_destroy(arena);
}

/* Checksums alone, and of what is moved. */
static inline void expect_sums(struct arena_shape shape, arena_launch_fn launch)
{
	expect_right(arena_run_sums, &shape, launch);
	shape.act = ARENA_MOVE16;
	shape.list = true;
	expect_right(arena_run_move_sums, &shape, launch);
}

#endif /* ARENA_EXPECT_H */
