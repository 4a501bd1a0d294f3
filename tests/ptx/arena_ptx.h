/* SPDX-License-Identifier: Apache-2.0 */
/* PTX text that runs over an arena. */
#ifndef ARENA_PTX_H
#define ARENA_PTX_H

#include "arena.h"
#include "ptx.h"

/* What arena_launch_ptx() runs from here on: borrowed. */
void arena_use_ptx(const struct ptx_module *mod);

bool arena_launch_ptx(const struct arena *arena, const struct arena_grid *grid,
		      const void *args, char error[ARENA_ERROR]);

#endif /* ARENA_PTX_H */
