// SPDX-License-Identifier: Apache-2.0
/* See arena_ptx.h. */
#include <stdio.h>
#include <string.h>

#include "arena_ptx.h"

/* Far more than the largest case takes; an endless loop shall not take long, though. */
#define MAX_STEPS	1000000u

static const struct ptx_module *module;

void arena_use_ptx(const struct ptx_module *mod)
{
	module = mod;
}

static bool run(const struct arena_grid *grid, const void *args,
		const struct ptx_region *region, u32 nr_regions, char error[ARENA_ERROR])
{
	const struct ptx_entry *entry = ptx_find(module, grid->kernel);
	struct ptx_launch launch = {
		.nr_groups	= grid->nr_groups,
		.nr_threads	= grid->nr_threads,
		.backwards	= grid->backwards,
		.args		= args,
		.region		= region,
		.nr_regions	= nr_regions,
		.max_steps	= MAX_STEPS,
	};
	char what[PTX_ERROR];

	if (!entry) {
		snprintf(error, ARENA_ERROR, "no kernel %s", grid->kernel);
		return false;
	}
	if (ptx_run(entry, &launch, what))
		return true;
	snprintf(error, ARENA_ERROR, "%s: %s", grid->kernel, what);
	return false;
}

bool arena_launch_ptx(const struct arena *arena, const struct arena_grid *grid,
		      const void *args, char error[ARENA_ERROR])
{
	u64 planes = arena->shape.nr_planes * sizeof(*arena->src);
	const struct ptx_region region[] = {
		{ (uintptr_t)arena->mem, arena->bytes, true },
		{ (uintptr_t)arena->sums, arena->nr_blocks * sizeof(u64), true },
		{ (uintptr_t)arena->first, arena->shape.nr_planes * sizeof(u64), false },
		{ (uintptr_t)arena->src - sizeof(u64), planes + sizeof(u64), false },
		{ (uintptr_t)arena->dst, planes, false },
		{ (uintptr_t)arena->list,
		  KV_LAUNCH_LIST_WORDS(arena->shape.nr_moves) * sizeof(u32), false },
	};

	return run(grid, args, region, ARRAY_SIZE(region), error);
}
